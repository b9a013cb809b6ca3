//! One function for locks of every kind: a backup runs under whatever lock its caller has chosen, a multi-lock too.
//!
//! ```sh
//! cargo run --example any_lock --features embedded
//! ```

use std::sync::Arc;
use std::time::Duration;

use lockson::{Locks, MultiLock, Owner, RLock, Request};

/// `false`: somebody was at work for longer than the limit.
async fn backup(lock: &Arc<dyn RLock>, limit: Duration) -> Result<bool, Box<dyn std::error::Error>> {
    let Some(guard) = lock.guard_with(Request::default().wait(limit)).await? else { return Ok(false) };
    guard.run(async { println!("backing up under {}", lock.name()) }).await?;
    // It is done, whatever becomes of the release.
    if let Err(error) = guard.unlock_within(limit).await {
        eprintln!("{error}");
    }
    Ok(true)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::embedded();
    let limit = Duration::from_millis(100);
    let (orders, invoices): (Arc<dyn RLock>, Arc<dyn RLock>) =
        (Arc::new(locks.lock("orders")), Arc::new(locks.mutex("invoices")));
    let both: Arc<dyn RLock> = Arc::new(MultiLock::new(vec![orders.clone(), invoices.clone()]));

    let writer = invoices.owned_by(&Owner::named("writer")?).guard().await?;
    let done = [backup(&orders, limit).await?, backup(&invoices, limit).await?, backup(&both, limit).await?];
    println!("while the invoices are written: {done:?}");
    assert_eq!(done, [true, false, false]);
    writer.unlock().await?;

    assert!(backup(&both, limit).await?);
    println!("afterwards both are backed up at once");
    Ok(())
}
