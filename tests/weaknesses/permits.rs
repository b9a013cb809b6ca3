//! 6.A.4 and 6.A.5: semaphores and latches.

use crate::weaknesses::*;

/// The waiters' listener threw there on a number below zero.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_4c_no_message_is_below_one() {
    let name = unique("6a4c");
    let channel = format!("redisson_sc:{{{name}}}");
    let heard = Server::shared().raw().await.subscribe(&channel).await;
    let semaphore = connect(Locks::builder()).await.semaphore(&name);
    assert!(semaphore.try_set_permits(1).await.unwrap());
    semaphore.reduce_permits(3).await.unwrap();
    semaphore.release(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    semaphore.release(4).await.unwrap();
    Server::shared().raw().await.must(&["PUBLISH", &channel, "end"]).await;
    let texts: Vec<String> = heard.wait_for(3).await.into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["1", "4", "end"]);
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
