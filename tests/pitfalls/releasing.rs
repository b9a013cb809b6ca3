//! How a lock is given back.

use support::Reply;

use crate::pitfalls::*;

#[tokio::test]
async fn a_bare_del() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b, mut c] = [server.raw().await, server.raw().await, server.raw().await];
    assert!(take(&mut a, &key, "a", SHORT).await);
    expired(&mut a, &key).await;
    assert!(take(&mut b, &key, "b", LONG).await);
    assert_eq!(a.must(&["DEL", &key]).await.int(), 1, "a's DEL takes b's lock");
    assert!(take(&mut c, &key, "c", LONG).await, "b and c are inside");
    lockson_leaves_the_next_alone(server).await;
}

#[tokio::test]
async fn get_then_del() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b, mut c] = [server.raw().await, server.raw().await, server.raw().await];
    assert!(take(&mut a, &key, "a", "500").await);
    // On a machine so slow that the lease is over here, the interleaving is the same but for what a saw.
    let seen = a.get(&key).await;
    assert!(seen.is_none() || seen.as_deref() == Some("a"), "mine, I may delete it");
    expired(&mut a, &key).await;
    assert!(take(&mut b, &key, "b", LONG).await);
    assert_eq!(a.must(&["DEL", &key]).await.int(), 1, "it was, and is not any more");
    assert!(take(&mut c, &key, "c", LONG).await, "b and c are inside");
    lockson_leaves_the_next_alone(server).await;
}

/// A release begins: WATCH and GET, and the value is its own. The lock is `key`.
async fn begin(raw: &mut Raw, key: &str, value: &str) {
    raw.must(&["WATCH", key]).await;
    assert_eq!(raw.get(key).await.as_deref(), Some(value));
}

/// It ends: whether the DEL was done.
async fn end(raw: &mut Raw, key: &str) -> bool {
    raw.must(&["MULTI"]).await;
    raw.must(&["DEL", key]).await;
    raw.must(&["EXEC"]).await != Reply::Nil
}

/// Another task of the program looks at another lock, which is not its own, and lets go of it.
async fn look_at(raw: &mut Raw, key: &str) {
    raw.must(&["WATCH", key]).await;
    assert_eq!(raw.get(key).await, None);
    raw.must(&["UNWATCH"]).await;
}

#[tokio::test]
async fn watch_on_a_shared_connection() {
    let server = Server::start();
    let (key, other) = (unique("pitfall"), unique("pitfall"));
    for shared in [true, false] {
        let [mut a, mut b, mut own] = [server.raw().await, server.raw().await, server.raw().await];
        assert!(take(&mut a, &key, "a", LONG).await);
        begin(&mut a, &key, "a").await;
        look_at(if shared { &mut a } else { &mut own }, &other).await;
        // a's lease ends here, and b takes the lock.
        b.must(&["DEL", &key]).await;
        assert!(take(&mut b, &key, "b", LONG).await);
        let deleted = end(&mut a, &key).await;
        assert_eq!(deleted, shared, "UNWATCH ends every WATCH of its connection");
        assert_eq!(b.get(&key).await.as_deref(), if shared { None } else { Some("b") });
        b.must(&["DEL", &key]).await;
    }

    // A connection for each release, then, and the round trips of one.
    let sent = |names: &[&str]| -> Vec<u64> { names.iter().map(|name| server.calls(name)).collect() };
    let mut a = server.raw().await;
    assert!(take(&mut a, &key, "a", LONG).await);
    server.reset_stats();
    begin(&mut a, &key, "a").await;
    assert!(end(&mut a, &key).await);
    assert_eq!(sent(&["watch", "get", "multi", "del", "exec"]), [1; 5], "five commands, each waits for the last");
    let lock = connect(&server).await.lock(&key);
    lock.guard().await.unwrap().unlock().await.unwrap();
    let guard = lock.guard().await.unwrap();
    server.reset_stats();
    guard.unlock().await.unwrap();
    assert_eq!(sent(&["evalsha", "eval", "watch", "multi", "exec"]), [1, 0, 0, 0, 0], "one");
}
