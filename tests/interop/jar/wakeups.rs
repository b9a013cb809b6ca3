//! 6.A, 6.C.8 and 6.E: who sleeps though the lock is free, and who is woken in vain.

use super::*;

/// A downgrade wakes no reader.
pub async fn id_6_a_1(jar: Jar) {
    jar.must("a", "write", "lock 20000").await;
    jar.must("a", "read", "lock 20000").await;
    let reader = jar.begin("b", "read", "lock");
    jar.until_waiting(jar.world.place.server()).await;
    jar.must("a", "write", "unlock").await;
    asleep(&reader, secs(2)).await;
    assert_eq!(jar.raw().await.hget(&jar.name, "mode").await.as_deref(), Some("read"));
    jar.must("a", "read", "unlock").await;
}

/// A cancelled waiter swallows the message.
pub async fn id_6_a_2a(jar: Jar) {
    jar.must("a", "lock", "lock 20000").await;
    jar.must("b", "lock", "try_lock_async first 20000 -1").await;
    jar.until_waiting(jar.world.place.server()).await;
    jar.must("b", "lock", "try_lock_async second 20000 -1").await;
    sleep(secs(1)).await;
    jar.must("b", "lock", "cancel first").await;
    jar.must("a", "lock", "unlock").await;
    jar.call("b", "lock", "await second 2000").await.expect_err("woken");
    assert!(!jar.raw().await.exists(&jar.name).await, "nobody has it");
}

/// A waiter whose limit ends as the message comes keeps it: the next one sleeps on.
pub async fn id_6_a_2b(jar: Jar) {
    jar.gives_up_as_it_is_told("lock", 120, 60, 56..66).await;
}

/// A writer that is about to sleep misses the message of a write release.
pub async fn id_6_a_3a(jar: Jar) {
    let (proxy, slow) = jar.cut_off("").await;
    jar.must("a", "write", "lock 30000").await;
    proxy.delay_replies(ms(1500));
    let waiter = slow.begin("b", "write", "lock");
    late_answer(&proxy, 2, about(&jar.name)).await;
    jar.must("a", "write", "unlock").await;
    jar.sleeps_though_free(&waiter, secs(4)).await;
}

/// A key without a TTL is waited for without end.
pub async fn id_6_a_6(jar: Jar) {
    let mut raw = jar.raw().await;
    raw.must(&["HSET", &jar.name, "somebody:1", "1"]).await;
    let waiter = jar.begin("a", "lock", "lock");
    jar.until_waiting(jar.world.place.server()).await;
    raw.must(&["DEL", &jar.name]).await;
    asleep(&waiter, secs(3)).await;
    raw.must(&["PUBLISH", &format!("redisson_lock__channel:{{{}}}", jar.name), "0"]).await;
    waiter.await.unwrap().unwrap();
}

/// What is published while it connects again is lost.
pub async fn id_6_a_7a(jar: Jar) {
    jar.is_away_meanwhile("lock", "lock 20000", "unlock").await;
    assert!(!jar.raw().await.exists(&jar.name).await, "nobody has it");
}

/// A spin lock's unlock wakes nobody.
pub async fn id_6_a_8(jar: Jar) {
    jar.must("a", "spin_lock", "lock 20000").await;
    let waiter = jar.begin("b", "lock", "lock");
    jar.until_waiting(jar.world.place.server()).await;
    jar.must("a", "spin_lock", "unlock").await;
    jar.sleeps_though_free(&waiter, secs(2)).await;
}

/// 250 names can be waited for, and no more.
pub async fn id_6_c_8(jar: Jar) {
    let names: Vec<String> = (0..260).map(|at| format!("{}-{at}", jar.name)).collect();
    let server = Server::start();
    let mut raw = server.raw().await;
    for name in &names {
        taken(&mut raw, name, "60000").await;
    }
    let other = jar.at(server.port(), "").await;
    let waiters = names.iter().map(|name| other.java.call(name, "lock", name, "try_lock 25000 -1"));
    let waiters: Vec<_> = waiters.map(tokio::task::spawn_local).collect();
    sleep(secs(15)).await;
    let listened = raw.must(&["PUBSUB", "CHANNELS", &format!("*{}*", jar.name)]).await.list().len();
    assert_eq!(listened, 250);
    raw.must(&["FLUSHALL"]).await;
    for waiter in waiters {
        waiter.abort();
    }
}

/// Each name has a SUBSCRIBE of its own, and waits for the others' answers: by the 50 stripes, and by a queue.
pub async fn id_3_1_a(jar: Jar) {
    let ((proxy, slow), mut raw) = (jar.cut_off("").await, jar.raw().await);
    let names: Vec<String> = (0..3).map(|at| format!("{}-{at}", jar.name)).collect();
    for name in &names {
        taken(&mut raw, name, "20000").await;
    }
    proxy.delay_replies(ms(2000));
    let waiters = names.iter().map(|name| spawn_local(slow.java.call(name, "lock", name, "try_lock 20000 -1")));
    let waiters: Vec<_> = waiters.collect();
    let subscribes = || proxy.requests(Filter::Subscribe.with(jar.name.as_str()));
    proxy.wait_requests(1, Filter::Subscribe.with(jar.name.as_str())).await;
    sleep(ms(1000)).await;
    assert_eq!(subscribes(), 1, "at once");
    eventually(secs(20), "a round trip each", async || subscribes() == 3).await;
    waiters.iter().for_each(|waiter| waiter.abort());
}

/// Two readers that overlap keep a writer out for as long as they like.
pub async fn id_6_e_1(jar: Jar) {
    jar.must("a", "read", "lock").await;
    let writer = jar.begin("w", "write", "try_lock 3000 -1");
    let mut turns = 0;
    while !writer.is_finished() {
        let [next, last] = if turns % 2 == 0 { ["b", "a"] } else { ["a", "b"] };
        jar.must(next, "read", "lock").await;
        jar.must(last, "read", "unlock").await;
        turns += 1;
    }
    assert_eq!(writer.await.unwrap().unwrap(), "false");
    assert!(turns > 2, "{turns}");
}

/// A write release wakes all who wait: each asks, one gets it.
pub async fn id_6_e_2(jar: Jar) {
    let server = Server::start();
    let jar = jar.at(server.port(), "").await;
    jar.must("a", "write", "lock 60000").await;
    let waiters: Vec<_> = (0..20).map(|at| jar.begin(&format!("w{at}"), "write", "lock 60000")).collect();
    jar.until_waiting(&server).await;
    sleep(secs(2)).await;
    server.reset_stats();
    jar.must("a", "write", "unlock").await;
    sleep(secs(1)).await;
    let scripts = server.calls("evalsha") + server.calls("eval");
    assert!(scripts >= 15, "{scripts} scripts for one release");
    let done = join_all(waiters.iter().map(async |waiter| waiter.is_finished())).await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1);
}
