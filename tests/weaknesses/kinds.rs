//! 6.C: the fenced lock, the spin lock, transactions, and what other kinds share with the plain one.

use lockson::Backoff;

use crate::weaknesses::*;

/// A lost reply was an exception there, without a retry, and left the lock held.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_1d_a_lost_reply_is_asked_again() {
    let (proxy, locks, name) = behind_a_proxy(short()).await;
    let lock = locks.fenced_lock(&name);
    let before = lock.guard().await.unwrap();
    let first = before.token();
    before.unlock().await.unwrap();
    // Far enough for a token that is taken twice to be seen: it is the time in microseconds, or the next number.
    raw().await.must(&["SET", &format!("redisson_lock_token:{{{name}}}"), &(first + 1_000_000_000).to_string()]).await;
    let cut = proxy.cut_after(1, Filter::Script.with(&name));
    let guard = lock.guard().await.unwrap();
    cut.done().await;
    // The first was told nobody: what is found done may be another's work, and gets a token of its own.
    assert_eq!(guard.token(), first + 1_000_000_002);
    guard.unlock().await.unwrap();
    assert!(!raw().await.exists(&name).await);
}

/// The pauses were 128 ms each time there, so that waiters who met once met again.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_4b_pauses_have_jitter() {
    let (a, (proxy, b, name)) = (connect(short()).await, behind_a_proxy(short()).await);
    let guard = a.lock(&name).guard().await.unwrap();
    let waiter = spawn_with(b.spin_lock(&name, Backoff::default()), |spin| async move { spin.guard().await });
    let filter = || Filter::Script.with(&name);
    eventually(secs(20), "30 attempts", || async { proxy.requests(filter()) >= 30 }).await;
    waiter.abort();
    // Each attempt has its time of sending, and a command timeout more, behind EVALSHA, name, count, key and nonce.
    let sent: Vec<i64> = proxy.seen(filter()).iter().map(|request| request.arg(5).parse().unwrap()).collect();
    let pauses: Vec<i64> = sent.windows(2).map(|pair| pair[1] - pair[0]).skip(8).collect();
    assert!(pauses.iter().any(|pause| (50..=115).contains(pause)), "{pauses:?}");
    guard.unlock().await.unwrap();
}

/// The unlock of a read hold that had expired was asked again there, and then said that all was well.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_7_an_expired_read_unlock_is_said() {
    let (proxy, locks, name) = behind_a_proxy(short()).await;
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
