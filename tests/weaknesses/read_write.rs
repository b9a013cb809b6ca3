//! 6.E and what 6.A and 6.B have of the read/write lock.

use crate::weaknesses::*;

/// The release of a nested read hold ended the renewal of the write hold there, and so did `readLock().forceUnlock()`,
/// which said false: it expired within two leases.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_3_a_read_release_keeps_the_write_hold_renewed() {
    let locks = connect(short()).await;
    for is_forced in [false, true] {
        let lock = locks.read_write_lock(&unique("6b3"));
        let (read, write) = (lock.read(), lock.write());
        let guard = write.guard().await.unwrap();
        if is_forced {
            assert!(!read.force_unlock().await.unwrap());
        } else {
            read.lock().await.unwrap();
            read.unlock().await.unwrap();
        }
        sleep(ms(3600)).await;
        assert_eq!(guard.state(), HoldState::Held);
        guard.unlock().await.unwrap();
    }
}

/// The release of a writer woke all waiters of all clients there: 20 waiters, 20 scripts, one winner.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_e_2_a_write_release_wakes_no_herd() {
    let proxy = Proxy::start(Server::shared().port());
    let (a, b) = (connect(deaf_but_for_messages()).await, deaf_but_for_messages().connect(&proxy.url()).await.unwrap());
    let name = unique("6e2");
    let guard = a.read_write_lock(&name).write().guard().await.unwrap();
    let (entered, mut entries) = tokio::sync::mpsc::unbounded_channel();
    let waiters: Vec<_> = (0..20)
        .map(|_| {
            let (write, entered) = (b.read_write_lock(&name).write(), entered.clone());
            tokio::spawn(async move {
                let _guard = write.guard().await.unwrap();
                let _ = entered.send(());
                std::future::pending::<()>().await
            })
        })
        .collect();
    eventually(secs(10), "they listen", async || b.health().subscriptions > 0).await;
    sleep(ms(200)).await;
    proxy.forget_requests();
    guard.unlock().await.unwrap();
    patient("one winner", entries.recv()).await.unwrap();
    let scripts = proxy.requests(Filter::Script.with(&name));
    assert!(scripts <= 2, "{scripts} scripts");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}
