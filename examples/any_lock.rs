//! One function for locks of every kind: a backup takes the locks of all that it copies, whatever kinds they are.
//!
//! ```sh
//! cargo run --example any_lock --features embedded
//! ```

use std::sync::Arc;
use std::time::Duration;

use lockson::{Guard, LockError, Locks, Owner, RLock, Request};

/// All of the locks, or none. The order is by name, so that two backups never wait for each other.
async fn take_all(locks: &mut [Arc<dyn RLock>], limit: Duration) -> Result<Option<Vec<Guard>>, LockError> {
    locks.sort_by(|a, b| a.name().cmp(b.name()));
    let deadline = tokio::time::Instant::now() + limit;
    let mut guards = Vec::with_capacity(locks.len());
    for lock in locks.iter() {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        match lock.guard_with(Request::default().wait(left)).await? {
            Some(guard) => guards.push(guard),
            // Those that were taken are given back here, as their guards are dropped.
            None => return Ok(None),
        }
    }
    Ok(Some(guards))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::embedded();
    let mut all: Vec<Arc<dyn RLock>> = vec![Arc::new(locks.lock("orders")), Arc::new(locks.mutex("invoices"))];

    let writer = locks.mutex("invoices").owned_by(&Owner::named("writer")?).guard().await?;
    let backup = take_all(&mut all, Duration::from_millis(100)).await?;
    println!("while a writer is at work: {:?}", backup.map(|guards| guards.len()));
    writer.unlock().await?;

    let backup = take_all(&mut all, Duration::from_millis(100)).await?;
    println!("afterwards: {:?}", backup.map(|guards| guards.len()));
    Ok(())
}
