//! How a lock is taken.

use crate::pitfalls::*;

#[tokio::test]
async fn setnx_then_expire() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let mut a = server.raw().await;
    assert!(setnx(&mut a, &key, "1").await);
    // Killed here: its EXPIRE is never sent.
    drop(a);
    let mut b = server.raw().await;
    assert!(!setnx(&mut b, &key, "1").await);
    assert_eq!(b.pttl(&key).await, -1, "and nobody ever gets it");

    // lockson's client is cut off for good while its acquire runs.
    let proxy = Proxy::start(server.port());
    let locks = proxy.locks().await;
    let lock = locks.lock(&unique("pitfall"));
    lock.guard().await.unwrap().unlock().await.unwrap();
    let cut = proxy.cut_after(1, Filter::Script.with(lock.name()));
    let waiter = spawn_with(lock.clone(), |lock| async move { lock.lock().await });
    cut.done().await;
    proxy.refuse(true);
    let ttl = b.pttl(lock.name()).await;
    assert!((1..=30_000).contains(&ttl), "held with a lease: {ttl}");
    waiter.abort();
}

#[tokio::test]
async fn setnx_and_expire_in_one_script() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b, mut c] = [server.raw().await, server.raw().await, server.raw().await];
    let script = "if redis.call('SETNX', KEYS[1], '1') == 1 then return redis.call('PEXPIRE', KEYS[1], ARGV[1]) end";
    let eval = |lease: &'static str| ["EVAL", script, "1", &key, lease].map(str::to_owned);
    let (short, long) = (eval(SHORT), eval(LONG));
    let [short, long] = [&short, &long].map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(a.must(&short).await.optional().as_deref(), Some("1"));
    expired(&mut a, &key).await;
    assert_eq!(b.must(&long).await.optional().as_deref(), Some("1"));
    // a is done. The value is the same whoever holds it, so it can't see that this is not its own.
    assert_eq!(a.get(&key).await.as_deref(), Some("1"));
    a.must(&["DEL", &key]).await;
    assert_eq!(c.must(&long).await.optional().as_deref(), Some("1"), "b and c are inside");

    lockson_leaves_the_next_alone(server).await;
}

#[tokio::test]
async fn the_time_in_the_value() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b, mut c] = [server.raw().await, server.raw().await, server.raw().await];
    // The value is when the lock ends, in seconds, by the clock of who took it. a has it until 1030.
    assert!(setnx(&mut a, &key, "1030").await);
    // b's clock is a minute ahead of a's: by it the lock is over.
    let (now, seen) = (1061, b.get(&key).await.unwrap());
    assert!(seen.parse::<i64>().unwrap() < now);
    assert_eq!(b.must(&["GETSET", &key, "1091"]).await.text(), seen, "b takes it, a minute early: both are inside");

    // Later b's lock is over by all clocks. a and c see it, and both write their end.
    let [a_saw, c_saw] = [a.get(&key).await.unwrap(), c.get(&key).await.unwrap()];
    assert_eq!(a.must(&["GETSET", &key, "1130"]).await.text(), a_saw, "a took it");
    assert_ne!(c.must(&["GETSET", &key, "1145"]).await.text(), c_saw, "c did not, it came second");
    // But it has written. a's value is gone: a can't tell that it holds the lock, and so can't give it back.
    assert_eq!(a.get(&key).await.as_deref(), Some("1145"));

    // lockson's one clock is the server's, and who does not get the lock writes nothing.
    let (one, other) = (connect(server).await, connect(server).await);
    let name = unique("pitfall");
    let guard = one.lock(&name).guard().await.unwrap();
    let before = a.hgetall(&name).await;
    assert!(!other.lock(&name).try_lock().await.unwrap().is_acquired());
    assert_eq!(a.hgetall(&name).await, before);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn another_holders_lease_is_repaired() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b] = [server.raw().await, server.raw().await];
    assert!(setnx(&mut a, &key, "a").await);
    // Before a sends its EXPIRE of a minute, b finds no lease: a crash, it thinks, and gives it its own, a short one.
    assert!(!setnx(&mut b, &key, "b").await);
    assert_eq!(b.pttl(&key).await, -1);
    b.must(&["PEXPIRE", &key, SHORT]).await;
    expired(&mut b, &key).await;
    assert_eq!(a.must(&["PEXPIRE", &key, LONG]).await.int(), 0, "too late, and who reads this answer?");
    assert!(setnx(&mut b, &key, "b").await, "a is at work, and b is inside");

    // lockson leaves what others wrote as it is, and asks again.
    let name = unique("pitfall");
    a.must(&["HSET", &name, "another:1", "1"]).await;
    let lock = connect(server).await.lock(&name);
    assert!(!lock.acquire().wait(ms(200)).await.unwrap().is_acquired());
    assert_eq!(a.pttl(&name).await, -1);
}

#[tokio::test]
async fn a_lease_below_a_second() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b] = [server.raw().await, server.raw().await];
    let seconds = (ms(900).as_secs()).to_string();
    assert!(setnx(&mut a, &key, "a").await);
    assert_eq!(a.must(&["EXPIRE", &key, &seconds]).await.int(), 1, "EXPIRE 0 says that it is done, and deletes it");
    assert!(setnx(&mut b, &key, "b").await, "both are inside, from the first instant");
    // SET refuses it, at least.
    let refused = a.command(&["SET", &key, "a", "NX", "EX", &seconds]).await.unwrap_err();
    assert!(refused.contains("invalid expire time"), "{refused}");

    let lock = connect(server).await.lock(&unique("pitfall"));
    let guard = lock.acquire().lease(ms(900)).guard().await.unwrap().unwrap();
    let ttl = a.pttl(lock.name()).await;
    assert!(ttl <= 900 && (ttl > 0 || !guard.is_valid()), "{ttl}");
    let short = lock.acquire().lease(ms(9)).await;
    assert!(matches!(short, Err(LockError::Lease(_))), "{short:?}");
    drop(guard);
}

#[tokio::test]
async fn a_lease_shorter_than_the_work() {
    let (server, key) = (Server::shared(), unique("pitfall"));
    let [mut a, mut b] = [server.raw().await, server.raw().await];
    let mut inside = vec![];
    assert!(take(&mut a, &key, "a", SHORT).await);
    inside.push("a");
    // a's work takes as long as it takes.
    expired(&mut a, &key).await;
    assert!(take(&mut b, &key, "b", LONG).await);
    inside.push("b");
    assert_eq!(inside, ["a", "b"], "nobody told a");

    // lockson renews: the lease grows again while the work goes on.
    let locks = lockson::Locks::builder().watchdog_lease(secs(6)).connect(&server.url()).await.unwrap();
    let lock = locks.lock(&unique("pitfall"));
    let guard = lock.guard().await.unwrap();
    let mut least = a.pttl(lock.name()).await;
    let grown = async || {
        let now = b.pttl(lock.name()).await;
        let grows = now > least;
        least = least.min(now);
        grows
    };
    support::eventually(secs(20), "a renewal", grown).await;
    guard.unlock().await.unwrap();
    // Or, with a lease that is not renewed, it stops the work.
    let guard = lock.acquire().lease(ms(100)).guard().await.unwrap().unwrap();
    let stopped = patient("the end", guard.run(std::future::pending::<()>())).await;
    assert!(stopped.is_err());
}
