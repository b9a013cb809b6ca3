//! Batch jobs share one machine, in the order in which they were submitted: a fair lock is their queue.
//!
//! The lock keeps jobs apart and in order; it does not know what a job is. One whose process is killed, or that loses
//! the machine, is done by nobody again: who submitted it is told (its process fails), and submits it anew, at the
//! end of the queue. It may have been done in part, so a job has to bear being done twice, or its items a list of
//! what is done.
//!
//! ```sh
//! cargo run -p services --bin batch_jobs                                   # clients in one process
//! cargo run -p services --bin batch_jobs -- --url redis://127.0.0.1:6379   # each job is a process
//! cargo run -p services --bin batch_jobs -- --url redis://127.0.0.1:6379 --job 7 --takes 500   # one, in milliseconds
//! ```

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use lockson::{EmbeddedServer, FairLock, Locks, Owner};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio::task::JoinHandle;

const LOCK: &str = "batch:machine";
const JOBS: usize = 9;
/// It is not ready to wait as long as the others.
const HASTY: usize = 4;
const TAKES: Duration = Duration::from_millis(20);
/// For so long the machine stands still when a job's process dies. The default is 30 s.
const LEASE: Duration = Duration::from_secs(3);

type Failure = Box<dyn Error + Send + Sync>;

/// A job that waits for its turn, for as long as its submitter is ready to wait. Whether it was done.
async fn run(locks: &Locks, job: usize, takes: Duration) -> Result<bool, Failure> {
    // The job's id is the owner: whoever asks for its place needs no more than that.
    let lock = locks.fair_lock(LOCK).owned_by(&Owner::named(format!("job-{job}"))?);
    let patience = Duration::from_millis(if job == HASTY { 500 } else { 60_000 });
    let Some(guard) = lock.acquire().wait(patience).guard().await? else { return Ok(false) };
    // The work is stopped if the machine is lost to another before it is done.
    guard.run(tokio::time::sleep(takes)).await?;
    println!("{job}");
    // It is done, whatever becomes of the release.
    if let Err(error) = guard.unlock_within(Duration::from_secs(1)).await {
        eprintln!("{error}");
    }
    Ok(true)
}

/// A job in a process of its own, which prints its number when it is done.
async fn run_elsewhere(url: String, job: usize, done: UnboundedSender<usize>) -> Result<(), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let takes = TAKES.as_millis().to_string();
    command
        .args(["--url", &url, "--job", &job.to_string(), "--takes", &takes])
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    while let Some(line) = lines.next_line().await? {
        done.send(line.parse()?)?;
    }
    if child.wait().await?.success() {
        return Ok(());
    }
    Err(format!("job {job} failed").into())
}

async fn run_here(locks: Locks, job: usize, done: UnboundedSender<usize>) -> Result<(), Failure> {
    if run(&locks, job, TAKES).await? {
        done.send(job)?;
    }
    Ok(())
}

/// Awaits that each of these has its place, or has given it up, so that the next is behind them.
async fn until_queued(lock: &FairLock, jobs: &[JoinHandle<Result<(), Failure>>]) -> Result<(), Failure> {
    loop {
        let waiting = jobs.iter().filter(|job| !job.is_finished()).count();
        if lock.queue_len().await? >= waiting as u64 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (clients, url): (Vec<Locks>, Option<&str>) = match args[..] {
        ["--url", url, "--job", job, "--takes", takes] => {
            let locks = Locks::builder().watchdog_lease(LEASE).connect(url).await?;
            run(&locks, job.parse()?, Duration::from_millis(takes.parse()?)).await?;
            return Ok(locks.shutdown(Duration::from_secs(5)).await?);
        }
        ["--url", url] => (vec![Locks::connect(url).await?], Some(url)),
        [] => {
            let server = EmbeddedServer::new();
            ((0..3).map(|_| server.connect()).collect(), None)
        }
        _ => return Err("arguments: none, or --url and a server's, or besides --job and --takes with numbers".into()),
    };

    let operator = clients[0].fair_lock(LOCK).owned_by(&Owner::named("operator")?);
    let maintenance = operator.guard().await?;
    let (done, mut order) = unbounded_channel();
    let mut jobs = Vec::new();
    for job in 0..JOBS {
        jobs.push(match url {
            Some(url) => tokio::spawn(run_elsewhere(url.to_owned(), job, done.clone())),
            None => tokio::spawn(run_here(clients[job % clients.len()].clone(), job, done.clone())),
        });
        until_queued(&operator, &jobs).await?;
    }
    println!("{} jobs wait for the operator", operator.queue_len().await?);
    let hasty = jobs.remove(HASTY);
    hasty.await??;
    println!("job {HASTY} gave up its place");
    maintenance.unlock().await?;

    for job in jobs {
        job.await??;
    }
    drop(done);
    let mut found = Vec::new();
    while let Some(job) = order.recv().await {
        found.push(job);
    }
    println!("done, in this order: {found:?}");
    let expected: Vec<usize> = (0..JOBS).filter(|job| *job != HASTY).collect();
    assert_eq!(found, expected);
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockson_testkit::TestServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn jobs_are_done_in_order_through_an_outage() {
        let server = TestServer::new();
        let operator = server.connect().fair_lock(LOCK).owned_by(&Owner::named("operator").unwrap());
        let maintenance = operator.guard().await.unwrap();
        let (done, mut order) = unbounded_channel();
        let mut jobs = Vec::new();
        for job in [3, 1, HASTY, 2] {
            jobs.push(tokio::spawn(run_here(server.connect(), job, done.clone())));
            until_queued(&operator, &jobs).await.unwrap();
        }
        server.outage(Duration::from_secs(2)).await.unwrap();
        maintenance.unlock().await.unwrap();
        let found = [order.recv().await, order.recv().await, order.recv().await];
        assert_eq!(found, [Some(3), Some(1), Some(2)], "who was hasty has given up");
    }
}
