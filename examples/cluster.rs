//! Two accounts in two slots of a cluster: one lock for both, and each server refuses to write without its part of it.
//!
//! ```sh
//! cargo run --example cluster -- redis-cluster://127.0.0.1:7000,127.0.0.1:7001
//! # Meanwhile, in another terminal, of a replica:
//! redis-cli -p 7003 cluster failover
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use lockson::{Locks, MultiLock, RunError};

const PAY: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

/// Pays so many times. How often all of it was done.
pub async fn run(url: &str, turns: u32) -> Result<u32, Box<dyn Error + Send + Sync>> {
    // Some of its servers are enough: they say who has which slot.
    let locks = Locks::connect(url).await?;
    // Each name is in the slot that it falls into, and a lock over several takes them where they are.
    let accounts = ["example:account:1", "example:account:2"];
    let both = MultiLock::fenced(accounts.map(|account| locks.fenced_lock(account)));
    let mut paid = 0;
    for turn in 1..=turns {
        let began = Instant::now();
        // Waits for both locks, and while a slot moves or a replica is elected: for 30 s without any answer, unless
        // `outage_limit` says else.
        let guard = both.guard().await?;
        let waited = began.elapsed();
        let work = async {
            for (account, amount) in guard.members().zip(["-1", "1"]) {
                // The braces put it into the slot of its lock, so that one script can look at both.
                let balance = format!("{{{}}}:balance", account.name());
                account.run_if_held(PAY, &[&balance], &[amount]).await?;
            }
            Ok::<_, RunError>(())
        };
        // Stops if another server has a slot now, and not the hold in it.
        match guard.run(work).await {
            Ok(Ok(())) => {
                paid += 1;
                println!("turn {turn}: paid, {waited:.0?} after both were asked for");
            }
            Ok(Err(error)) => println!("turn {turn}: {error}"),
            Err(lost) => println!("turn {turn}: stopped: {lost}"),
        }
        if let Err(error) = guard.unlock().await {
            println!("turn {turn}: {error}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    locks.shutdown(Duration::from_secs(5)).await?;
    println!("paid {paid} of {turns} times");
    Ok(paid)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    match std::env::args().nth(1) {
        Some(url) => run(&url, 50).await.map(drop),
        None => {
            println!("the argument is where servers of a cluster are: redis-cluster://127.0.0.1:7000,127.0.0.1:7001");
            Ok(())
        }
    }
}
