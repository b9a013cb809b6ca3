//! 6.A.4, 6.A.5, 6.A.7 and 6.B.1 of semaphores and latches.

use lockson::Semaphore;

use crate::weaknesses::*;

async fn with_permits(locks: &Locks, name: &str, permits: u32) -> Semaphore {
    let semaphore = locks.semaphore(name);
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// Subscribed: a waiter of the client has asked, and waits.
async fn waits(locks: &Locks) {
    eventually(secs(10), "it waits", async || locks.health().subscriptions > 0).await;
}

/// The waiters' listener threw there on a number below zero.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_4c_no_message_is_below_one() {
    let name = unique("6a4c");
    let channel = format!("redisson_sc:{{{name}}}");
    let heard = Server::shared().raw().await.subscribe(&channel).await;
    let semaphore = with_permits(&connect(Locks::builder()).await, &name, 1).await;
    semaphore.reduce_permits(3).await.unwrap();
    semaphore.release(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    semaphore.release(4).await.unwrap();
    Server::shared().raw().await.must(&["PUBLISH", &channel, "end"]).await;
    let texts: Vec<String> = heard.wait_for(3).await.into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["1", "4", "end"]);
}

/// The listener of a waiter that had given up ate the message there: a permit free, the other waiter asleep.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_4d_a_waiter_that_gave_up_eats_no_message() {
    let name = unique("6a4d");
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    let semaphore = a.permit_semaphore(&name);
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let guard = semaphore.guard(1).await.unwrap();
    let (brief, lasting) = (b.permit_semaphore(&name), b.permit_semaphore(&name));
    let first = tokio::spawn(async move { brief.acquire(1).wait(ms(300)).guard().await.unwrap().is_none() });
    waits(&b).await;
    let second = tokio::spawn(async move { lasting.guard(1).await.unwrap() });
    assert!(first.await.unwrap());
    guard.release().await.unwrap();
    assert_eq!(patient("the permit", second).await.unwrap().count(), 1);
}

/// `delete()` left every waiter asleep there, with a count of 0.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_5a_a_deletion_ends_the_wait() {
    let name = unique("6a5a");
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    assert!(a.latch(&name).try_set_count(1).await.unwrap());
    let waiter = spawn_with(b.latch(&name), |latch| async move { latch.wait().await.unwrap() });
    waits(&b).await;
    assert!(a.latch(&name).delete().await.unwrap());
    assert_eq!(patient("the end", waiter).await.unwrap(), WaitOutcome::Deleted);
}

/// The message between the look and the listening was lost there, and the wait never ended.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_5b_no_moment_is_deaf() {
    for round in 0..50_u64 {
        let name = unique("6a5b");
        let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
        assert!(a.latch(&name).try_set_count(1).await.unwrap());
        let waiter = spawn_with(b.latch(&name), |latch| async move { latch.wait().await.unwrap() });
        // Swept over the look and the subscription.
        sleep(std::time::Duration::from_micros(40 * round)).await;
        assert_eq!(a.latch(&name).count_down().await.unwrap(), Some(0));
        assert_eq!(patient("the latch", waiter).await.unwrap(), WaitOutcome::Opened);
    }
}
