//! Batch jobs of several processes share one machine, in the order in which they were submitted: a fair lock is their
//! queue.
//!
//! ```sh
//! cargo run --example batch_jobs --features embedded
//! cargo run --example batch_jobs --features embedded -- --url redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::time::Duration;

use lockson::{EmbeddedServer, FairLock, Locks, Owner};

const LOCK: &str = "batch:machine";

/// A job that waits for its turn, for as long as its submitter is ready to wait.
async fn run(
    lock: FairLock,
    job: String,
    patience: Duration,
    work: Duration,
) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let Some(guard) = lock.acquire().wait(patience).guard().await? else {
        println!("{job}: gave up its place after {patience:?}");
        return Ok(false);
    };
    // The work is stopped if the machine is lost to another before it is done.
    guard.run(tokio::time::sleep(work)).await?;
    println!("{job}: done");
    guard.unlock().await?;
    Ok(true)
}

/// Awaits that a job has its place, so that the next is behind it.
async fn until_queued(lock: &FairLock) -> Result<u64, Box<dyn Error>> {
    loop {
        if let Some(place) = lock.queue_position().await? {
            return Ok(place);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Three clients stand for three processes.
    let mut clients = Vec::new();
    match args.as_slice() {
        [flag, url] if flag == "--url" => {
            for _ in 0..3 {
                clients.push(Locks::connect(url).await?);
            }
        }
        _ => {
            let server = EmbeddedServer::new();
            clients.extend((0..3).map(|_| server.connect()));
        }
    }

    let operator = clients[0].fair_lock(LOCK).owned_by(&Owner::named("operator")?);
    let maintenance = operator.guard().await?;
    let mut jobs = Vec::new();
    for number in 0..9 {
        // The job's id is the owner: whoever asks for its place needs no more than that.
        let (job, client) = (format!("job-{number}"), &clients[number % clients.len()]);
        let lock = client.fair_lock(LOCK).owned_by(&Owner::named(&job)?);
        let patience = Duration::from_millis(if number == 4 { 500 } else { 60_000 });
        jobs.push(tokio::spawn(run(lock.clone(), job.clone(), patience, Duration::from_millis(20))));
        println!("{job}: {} before it", until_queued(&lock).await?);
    }
    println!("{} jobs wait for the operator", operator.queue_len().await?);
    tokio::time::sleep(Duration::from_millis(700)).await;
    maintenance.unlock().await?;

    let mut done = 0;
    for job in jobs {
        let ended = job.await?.map_err(|error| error as Box<dyn Error>)?;
        done += u32::from(ended);
    }
    println!("{done} of 9 jobs were done, in order");
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    assert_eq!(done, 8);
    Ok(())
}
