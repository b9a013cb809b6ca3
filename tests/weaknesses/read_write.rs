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

/// A reader slept 3.5 s there, the rest of the lease, though the mode was read.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_1_a_downgrade_wakes_readers() {
    let name = unique("6a1");
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    let (read, write) = one(&a.read_write_lock(&name));
    write.lock().await.unwrap();
    read.lock().await.unwrap();
    let waiter = spawn_with(b.read_write_lock(&name).read(), |other| async move { other.guard().await });
    waits_on_the_server(&name, 1).await;
    sleep(ms(200)).await;
    write.unlock().await.unwrap();
    // Long before the lease of 30 s.
    let guard = patient("the reader", waiter).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    read.unlock().await.unwrap();
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

/// The release of a nested read hold ended the renewal of the write hold there: it expired within two leases.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_3a_a_read_release_keeps_the_write_hold_renewed() {
    let locks = connect(short()).await;
    let (read, write) = one(&locks.read_write_lock(&unique("6b3a")));
    let guard = write.guard().await.unwrap();
    read.lock().await.unwrap();
    read.unlock().await.unwrap();
    sleep(ms(3600)).await;
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.unwrap();
}

/// `readLock().forceUnlock()` said false there, and the write hold expired.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_3b_a_forced_read_unlock_keeps_the_write_hold_renewed() {
    let locks = connect(short()).await;
    let (read, write) = one(&locks.read_write_lock(&unique("6b3b")));
    let guard = write.guard().await.unwrap();
    assert!(!read.force_unlock().await.unwrap());
    sleep(ms(3600)).await;
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.unwrap();
}

/// `tryLock(8 s)` of a writer was false there while two readers took turns that overlapped.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_e_1_two_overlapping_readers_starve_no_writer() {
    let name = unique("6e1");
    let (a, b) = (connect(short()).await, connect(short()).await);
    let readers: Vec<_> = [&a, &b]
        .into_iter()
        .enumerate()
        .map(|(at, client)| {
            let read = client.read_write_lock(&name).read();
            tokio::spawn(async move {
                sleep(ms(100) * at as u32).await;
                loop {
                    let guard = read.guard().await.unwrap();
                    sleep(ms(200)).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let write = connect(short()).await.read_write_lock(&name).write();
    for _ in 0..5 {
        sleep(ms(300)).await;
        let guard = patient("the writer", write.guard()).await.unwrap();
        guard.unlock().await.unwrap();
    }
    readers.iter().for_each(tokio::task::JoinHandle::abort);
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

/// The release of a nested read hold cut a write lease of 600 s to 30 s there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_e_3_a_nested_read_release_shortens_nothing() {
    let locks = connect(short()).await;
    let name = unique("6e3");
    let (read, write) = one(&locks.read_write_lock(&name));
    assert!(write.acquire().lease(secs(600)).await.unwrap().is_acquired());
    read.lock().await.unwrap();
    read.lock().await.unwrap();
    read.unlock().await.unwrap();
    let mut raw = Server::shared().raw().await;
    assert!(raw.pttl(&name).await > 590_000);
    read.unlock().await.unwrap();
    assert!(raw.pttl(&name).await > 590_000);
    write.unlock().await.unwrap();
}
