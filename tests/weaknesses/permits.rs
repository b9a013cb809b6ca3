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

/// Subscribed again, a permit free, and still waiting after 12 s there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_7b_a_reconnect_makes_takers_look() {
    let name = unique("6a7b");
    let proxy = Proxy::start(Server::shared().port());
    let a = connect(deaf_but_for_messages()).await;
    let b = deaf_but_for_messages().connect(&proxy.url()).await.unwrap();
    let semaphore = with_permits(&a, &name, 1).await;
    let guard = semaphore.guard(1).await.unwrap();
    let waiter = spawn_with(b.semaphore(&name), |taker| async move { taker.guard(1).await.unwrap() });
    waits(&b).await;
    proxy.refuse(true);
    guard.release().await.unwrap();
    proxy.refuse(false);
    assert_eq!(patient("the permit", waiter).await.unwrap().count(), 1);
}

/// A late answer made one `acquire()` take two permits there, and one `release()` add two.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_1p_a_lost_answer_moves_one_permit() {
    let name = unique("6b1p");
    let proxy = Proxy::start(Server::shared().port());
    let locks = Locks::builder().command_timeout(ms(400)).connect(&proxy.url()).await.unwrap();
    let semaphore = with_permits(&locks, &name, 5).await;
    assert!(semaphore.acquire(1).await.unwrap().is_acquired());
    semaphore.release(1).await.unwrap();
    for _ in 0..3 {
        let fault = proxy.cut_after(2, Filter::Script.with(name.as_str()));
        assert!(patient("the permit", semaphore.try_acquire(1)).await.unwrap().is_acquired());
        fault.done().await;
        assert_eq!(semaphore.available_permits().await.unwrap(), 4);
        let fault = proxy.cut_after(2, Filter::Script.with(name.as_str()));
        patient("the release", semaphore.release(1)).await.unwrap();
        fault.done().await;
        assert_eq!(semaphore.available_permits().await.unwrap(), 5);
    }
}
