//! 6.E and what 6.A and 6.B have of the read/write lock.

use lockson::ReadWriteLock;

use crate::weaknesses::*;

async fn waits_on_the_server(name: &str, clients: i64) {
    let channel = format!("redisson_rwlock:{{{name}}}");
    eventually(secs(10), "the waiters subscribe", || async {
        Server::shared().raw().await.subscribers(&channel).await == clients
    })
    .await;
}

/// Handles of one owner, whatever task uses them.
fn one(lock: &ReadWriteLock) -> (lockson::ReadLock, lockson::WriteLock) {
    let owner = Owner::named("one").unwrap();
    (lock.read().owned_by(&owner), lock.write().owned_by(&owner))
}

/// The message went to those who were parked: one that was about to park slept 4.6 s of a 5 s lease, and 3 of 300
/// hand-overs between writers took 30 s.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_3a_no_writer_sleeps_through_a_release() {
    let name = unique("6a3a");
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    let (mine, other) = (a.read_write_lock(&name).write(), b.read_write_lock(&name).write());
    for round in 0..100_u32 {
        let guard = mine.guard().await.unwrap();
        let waiter = spawn_with(other.clone(), |other| async move { other.guard().await });
        // Swept over the waiter's first attempt, its subscription and its second attempt.
        sleep(std::time::Duration::from_micros(u64::from(round) * 50)).await;
        guard.unlock().await.unwrap();
        // Long before the lease of 30 s.
        patient("the waiter", waiter).await.unwrap().unwrap().unlock().await.unwrap();
    }
}

/// The release of a nested read hold ended the renewal of the write hold there, and so did `readLock().forceUnlock()`,
/// which said false: it expired within two leases.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_3_a_read_release_keeps_the_write_hold_renewed() {
    let locks = connect(short()).await;
    for is_forced in [false, true] {
        let (read, write) = one(&locks.read_write_lock(&unique("6b3")));
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
    waits_on_the_server(&name, 1).await;
    sleep(ms(200)).await;
    proxy.forget_requests();
    guard.unlock().await.unwrap();
    patient("one winner", entries.recv()).await.unwrap();
    let scripts = proxy.requests(Filter::Script.with(&name));
    assert!(scripts <= 2, "{scripts} scripts");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}
