//! One writer at a time behind sentinels, over failovers. A primary that dies may take a hold along that no replica had
//! yet: then two writers are at work for a moment, and the store refuses the older one.
//!
//! ```sh
//! cargo run --example sentinel -- redis-sentinel://127.0.0.1:26379,127.0.0.1:26380/mymaster
//! # Meanwhile, in another terminal:
//! redis-cli -p 26379 sentinel failover mymaster
//! ```

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockson::Locks;

/// Stands for a table or a file. It knows the highest token that it was written with.
#[derive(Default)]
struct Store(Mutex<(u64, Vec<u32>)>);

impl Store {
    /// `false`: somebody who had the lock later has written.
    fn write(&self, token: u64, turn: u32) -> bool {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newest = token >= store.0;
        if is_newest {
            store.0 = token;
            store.1.push(turn);
        }
        is_newest
    }
}

/// Writes so many times. How often it did.
pub async fn run(url: &str, turns: u32) -> Result<usize, Box<dyn Error + Send + Sync>> {
    // The user and password in the URL are the servers'; the sentinels' are `sentinel_username`, `sentinel_password`.
    let locks = Locks::builder().label("writer").connect(url).await?;
    let (lock, store) = (locks.fenced_lock("example:sentinel"), Store::default());
    for turn in 1..=turns {
        let began = Instant::now();
        // Waits for the lock, and while sentinels elect another primary: for 30 s without any answer, unless
        // `outage_limit` says else.
        let guard = lock.guard().await?;
        let (token, waited) = (guard.token(), began.elapsed());
        let work = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            store.write(token, turn)
        };
        // Stops the work if the new primary does not have this hold.
        match guard.run(work).await {
            Ok(true) => println!("turn {turn}: written with token {token}, {waited:.0?} after it was asked for"),
            Ok(false) => println!("turn {turn}: refused, there is a newer token than {token}"),
            Err(lost) => println!("turn {turn}: stopped: {lost}"),
        }
        if let Err(error) = guard.unlock().await {
            println!("turn {turn}: {error}");
        }
    }
    locks.shutdown(Duration::from_secs(5)).await?;
    let (_, written) = store.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{} of {turns} turns were written", written.len());
    Ok(written.len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    match std::env::args().nth(1) {
        Some(url) => run(&url, 50).await.map(drop),
        None => {
            println!("the argument is where sentinels are: redis-sentinel://127.0.0.1:26379,127.0.0.1:26380/mymaster");
            Ok(())
        }
    }
}
