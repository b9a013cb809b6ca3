//! 6.C: the fenced lock, the spin lock, transactions, and what other kinds share with the plain one.

use lockson::Backoff;

use crate::weaknesses::*;

async fn raw() -> Raw {
    Server::shared().raw().await
}

/// `lockAndGetToken(5 s)` had 29,989 ms there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_1a_a_token_comes_with_the_lease_that_was_asked_for() {
    let (locks, name) = (connect(short()).await, unique("6c1a"));
    let guard = locks.fenced_lock(&name).acquire().lease(secs(5)).guard().await.unwrap().unwrap();
    let left = raw().await.pttl(&name).await;
    assert!(left > 0 && left <= 5_000, "{left}");
    guard.unlock().await.unwrap();
}

/// `tryLockAndGetToken()` of a held lock still waited after 3 s there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_1b_one_attempt_for_a_token_is_one_attempt() {
    let (a, b, name) = (connect(short()).await, connect(short()).await, unique("6c1b"));
    let guard = a.fenced_lock(&name).guard().await.unwrap();
    // Nobody gives it back meanwhile: whoever waited would wait in vain.
    assert!(patient("an answer", b.fenced_lock(&name).acquire().wait(std::time::Duration::ZERO).guard())
        .await
        .unwrap()
        .is_none());
    guard.unlock().await.unwrap();
}

/// A re-entry had a higher token there, which fences its own outer section out.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_1c_a_re_entry_raises_no_token() {
    let lock = connect(short()).await.fenced_lock(&unique("6c1c"));
    let outer = lock.guard().await.unwrap();
    let inner = lock.guard().await.unwrap();
    assert_eq!(outer.token(), inner.token());
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
}

/// A lost reply was an exception there, without a retry, and left the lock held.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_1d_a_lost_reply_raises_one_token() {
    let proxy = Proxy::start(Server::shared().port());
    let (locks, name) = (short().connect(&proxy.url()).await.unwrap(), unique("6c1d"));
    let lock = locks.fenced_lock(&name);
    let before = lock.guard().await.unwrap();
    let first = before.token();
    before.unlock().await.unwrap();
    // Far enough for a token that is taken twice to be seen: it is the time in microseconds, or the next number.
    raw().await.must(&["SET", &format!("redisson_lock_token:{{{name}}}"), &(first + 1_000_000_000).to_string()]).await;
    let cut = proxy.cut_after(1, Filter::Script.with(&name));
    let guard = lock.guard().await.unwrap();
    cut.done().await;
    assert_eq!(guard.token(), first + 1_000_000_001);
    guard.unlock().await.unwrap();
    assert!(!raw().await.exists(&name).await);
}

/// A spinning wait ended 126 ms behind its limit there: it slept its pause out.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_4a_a_pause_ends_with_the_wait_limit() {
    let (a, b, name) = (connect(short()).await, connect(short()).await, unique("6c4a"));
    let guard = a.lock(&name).guard().await.unwrap();
    let spin = b.spin_lock(&name, Backoff::constant(secs(1000)));
    assert!(!patient("long before the pause", async { spin.acquire().wait(ms(150)).await })
        .await
        .unwrap()
        .is_acquired());
    guard.unlock().await.unwrap();
}

/// The pauses were 128 ms each time there, so that waiters who met once met again.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_4b_pauses_have_jitter() {
    let proxy = Proxy::start(Server::shared().port());
    let (a, b, name) = (connect(short()).await, short().connect(&proxy.url()).await.unwrap(), unique("6c4b"));
    let guard = a.lock(&name).guard().await.unwrap();
    let waiter = spawn_with(b.spin_lock(&name, Backoff::default()), |spin| async move { spin.guard().await });
    let filter = || Filter::Script.with(&name);
    eventually(secs(20), "30 attempts", || async { proxy.requests(filter()) >= 30 }).await;
    waiter.abort();
    // Each attempt carries the server time at which it was sent, and a command timeout on top: EVALSHA, the script's
    // name, the number of keys, the key, a nonce, that.
    let sent: Vec<i64> = proxy.seen(filter()).iter().map(|request| request.arg(5).parse().unwrap()).collect();
    let pauses: Vec<i64> = sent.windows(2).map(|pair| pair[1] - pair[0]).skip(8).collect();
    assert!(pauses.iter().any(|pause| (50..=115).contains(pause)), "{pauses:?}");
    guard.unlock().await.unwrap();
}

/// A transaction that wrote waited for its own lease there when it wanted to read.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_transactions_read_what_they_write() {
    let lock = connect(short()).await.read_write_lock(&unique("6ct"));
    let (read, write) = (lock.read().in_transaction("a1").unwrap(), lock.write().in_transaction("a1").unwrap());
    let guard = write.guard().await.unwrap();
    patient("its own write hold", read.lock()).await.unwrap();
    assert!(!lock.read().in_transaction("b2").unwrap().try_lock().await.unwrap().is_acquired());
    read.unlock().await.unwrap();
    guard.unlock().await.unwrap();
}

/// The unlock of a read hold that had expired was asked again there, and then said that all was well.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_7_an_expired_read_unlock_is_said() {
    let proxy = Proxy::start(Server::shared().port());
    let (locks, name) = (short().connect(&proxy.url()).await.unwrap(), unique("6c7r"));
    let read = locks.read_write_lock(&name).read();
    read.lock().await.unwrap();
    let keys = raw().await.must(&["KEYS", &format!("*{name}*")]).await.texts();
    raw().await.must(&[&["DEL"], &keys.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat()).await;
    let cut = proxy.cut_after(1, Filter::Script.with(&name));
    let unlocked = read.unlock().await;
    cut.done().await;
    let unsaid = matches!(unlocked, Err(UnlockError::NotHeld { .. } | UnlockError::Unconfirmed { .. }));
    assert!(unsaid, "{unlocked:?}");
}

/// The registration of a read hold raced with the renewal and was lost there: 1 of 14,152.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_8_every_read_hold_is_registered() {
    let locks = connect(Locks::builder().watchdog_lease(secs(6))).await;
    let lock = locks.read_write_lock(&unique("6b8r"));
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let read = lock.read();
            tokio::spawn(async move {
                for _ in 0..5 {
                    read.guard().await.unwrap().unlock().await.unwrap();
                }
                read.guard().await.unwrap()
            })
        })
        .collect();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap());
    }
    assert_eq!(locks.health().holds, 100);
    sleep(secs(9)).await;
    assert!(guards.iter().all(Guard::is_valid));
}

/// The error named a thread of netty there, of the fair one too.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_9_the_error_of_a_fair_mutex_names_its_owner() {
    let owner = Owner::named("request-17").unwrap();
    let mutex = connect(short()).await.fair_mutex(&unique("6c9f")).owned_by(&owner);
    mutex.lock().await.unwrap();
    let error = mutex.lock().await.unwrap_err();
    assert!(matches!(&error, LockError::AlreadyHeld { owner: named, .. } if *named == owner));
    mutex.unlock().await.unwrap();
}
