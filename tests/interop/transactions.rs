//! A Java transaction locks its buckets under `<bucket>:transaction_lock`; lockson's `in_transaction` is the same lock.

use std::sync::Arc;

use lockson::{Locks, Owner};

use crate::support::{patient, unique};
use crate::{ms, secs, World};

pub async fn transactions_exclude(world: Arc<World>) {
    let (java, rust, bucket) = (world.java("").await, world.rust(Locks::builder()).await, unique("bucket"));
    let owner = Owner::unique();
    let lock = rust.lock(&format!("{bucket}:transaction_lock")).owned_by(&owner).in_transaction("t-1").unwrap();
    java.must("t", "transaction", &bucket, "begin 60000").await;
    java.must("t", "transaction", &bucket, "set from-java").await;
    assert!(!lock.try_lock().await.unwrap(), "a transaction of Java holds the bucket");
    let holder = lock.holder().await.unwrap().unwrap();
    let thread = java.must("t", "client", "-", "thread").await;
    assert_eq!(holder.count, 1);
    assert!(holder.field().contains(&format!(":{thread}:")), "{holder:?}");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    java.must("t", "transaction", &bucket, "commit").await;
    patient("the commit wakes", waiter).await.unwrap().unwrap();
    // lockson holds it: Java's transaction waits at its first write.
    java.must("t", "transaction", &bucket, "begin 60000").await;
    let write = java.call("t", "transaction", &bucket, "set again");
    let write = tokio::spawn(write);
    tokio::time::sleep(ms(500)).await;
    assert!(!write.is_finished(), "Java wrote what lockson had locked");
    lock.unlock().await.unwrap();
    tokio::time::timeout(secs(20), write).await.expect("woken").unwrap().unwrap();
    java.must("t", "transaction", &bucket, "rollback").await;
    let mut raw = world.server.raw().await;
    assert_eq!(raw.get(&bucket).await.as_deref(), Some("from-java"));
    let other = rust.lock(&format!("{bucket}:transaction_lock")).owned_by(&owner).in_transaction("t-2").unwrap();
    assert!(lock.try_lock().await.unwrap());
    assert!(!other.try_lock().await.unwrap(), "two transactions of one owner");
    lock.unlock().await.unwrap();
}
