//! 6.D, 3.4.c and 6.C.7: the fair lock.

use super::*;
use crate::fair::{queue_of, queued, timeouts_of, until_queued};

async fn now(raw: &mut Raw) -> i64 {
    let time = raw.must(&["TIME"]).await.texts();
    time[0].parse::<i64>().unwrap() * 1000
}

async fn enqueue(raw: &mut Raw, name: &str, owner: &str, ahead: i64) {
    let score = (now(raw).await + ahead).to_string();
    raw.must(&["ZADD", &timeouts_of(name), &score, owner]).await;
    raw.must(&["RPUSH", &queue_of(name), owner]).await;
}

/// Behind a dead head a waiter asks without a pause, and does not get the free lock.
pub async fn id_6_d_1(jar: Jar) {
    let server = Server::start();
    let jar = jar.at(server.port(), "").await;
    enqueue(&mut server.raw().await, &jar.name, "dead:1", 300_000).await;
    let waiter = jar.begin("a", "fair_lock", "lock");
    until_queued(&server, &jar.name, 2).await;
    server.reset_stats();
    asleep(&waiter, secs(3)).await;
    let scripts = server.calls("evalsha");
    assert!(scripts > 300, "{scripts} scripts in 3 s");
    server.control(&["FLUSHALL"]);
}

/// A head that is told and gives up at that moment leaves the next asleep.
pub async fn id_6_d_2(jar: Jar) {
    jar.gives_up_as_it_is_told("fair_lock", 300, 100, 190..220).await;
}

/// A waiter of a process that was killed holds up the next one, with the lock free.
pub async fn id_6_d_9(jar: Jar) {
    let jvm = Jvm::start(&jar.world.class_path);
    let dying = jvm.client(&jar.world.place.url(), "").await;
    jar.must("a", "fair_lock", "lock 60000").await;
    let _dead = dying.call("dead", "fair_lock", &jar.name, "lock");
    until_queued(jar.world.place.server(), &jar.name, 1).await;
    let waiter = jar.begin("b", "fair_lock", "try_lock 20000 -1");
    until_queued(jar.world.place.server(), &jar.name, 2).await;
    jvm.kill();
    jar.must("a", "fair_lock", "unlock").await;
    jar.sleeps_though_free(&waiter, secs(5)).await;
}

/// A hold that outlives the scores has its live waiters dropped.
pub async fn id_6_d_3(jar: Jar) {
    let jar = jar.with("watchdog=3000 fair_wait=1000").await;
    jar.must("a", "fair_lock", "lock").await;
    let waiters: Vec<_> = ["b", "c", "d"].map(|who| jar.begin(who, "fair_lock", "lock")).into();
    until_queued(jar.world.place.server(), &jar.name, 3).await;
    let order = queued(jar.world.place.server(), &jar.name).await;
    eventually(secs(30), "a live waiter loses its place", async || {
        let now = queued(jar.world.place.server(), &jar.name).await;
        !now.starts_with(&order)
    })
    .await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "they are alive, and wait");
    jar.must("a", "fair_lock", "force_unlock").await;
}

/// A waiter keeps the residue of a lease that ended long ago.
pub async fn id_6_d_5(jar: Jar) {
    jar.must("a", "fair_lock", "lock 3600000").await;
    let first = jar.begin("b", "fair_lock", "lock 60000");
    until_queued(jar.world.place.server(), &jar.name, 1).await;
    let _second = jar.begin("c", "fair_lock", "lock 60000");
    until_queued(jar.world.place.server(), &jar.name, 2).await;
    let second = queued(jar.world.place.server(), &jar.name).await[1].clone();
    jar.must("a", "fair_lock", "unlock").await;
    first.await.unwrap().unwrap();
    let mut raw = jar.raw().await;
    let score: f64 = raw.must(&["ZSCORE", &timeouts_of(&jar.name), &second]).await.text().parse().unwrap();
    let ahead = score as i64 - now(&mut raw).await;
    assert!(ahead > 3_000_000, "{ahead} ms ahead of a lease of 60 s");
    jar.must("b", "fair_lock", "unlock").await;
}

/// A short score is pushed into the past by the next acquisition.
pub async fn id_6_d_8(jar: Jar) {
    let mut raw = jar.raw().await;
    jar.must("a", "fair_lock", "lock 60000").await;
    let waiter = jar.begin("b", "fair_lock", "lock 60000");
    until_queued(jar.world.place.server(), &jar.name, 1).await;
    enqueue(&mut raw, &jar.name, "foreign:1", 60_000).await;
    jar.must("a", "fair_lock", "unlock").await;
    waiter.await.unwrap().unwrap();
    let score: f64 = raw.must(&["ZSCORE", &timeouts_of(&jar.name), "foreign:1"]).await.text().parse().unwrap();
    assert!((score as i64) < now(&mut raw).await, "still ahead");
}

/// An interrupted waiter stays in the queue.
pub async fn id_3_4_c(jar: Jar) {
    jar.must("a", "fair_lock", "lock 60000").await;
    let waiter = jar.begin("b", "fair_lock", "lock_interruptibly");
    until_queued(jar.world.place.server(), &jar.name, 1).await;
    sleep(ms(500)).await;
    jar.must("b", "fair_lock", "interrupt").await;
    waiter.await.unwrap().expect_err("interrupted");
    sleep(secs(1)).await;
    assert_eq!(queued(jar.world.place.server(), &jar.name).await.len(), 1);
}

/// The unlock of an expired hold says nothing.
pub async fn id_6_c_7(jar: Jar) {
    jar.must("a", "fair_lock", "lock 300").await;
    jar.until_gone().await;
    jar.must("a", "fair_lock", "unlock").await;
    // Nor does that of a read hold that is asked again, as its first answer is lost.
    let (_server, replica, proxy) = replicated().await;
    let slow = jar.at(proxy.port(), &format!("timeout=1000 attempts=3 replica={}", replica.port())).await;
    slow.must("a", "read", "lock 300").await;
    sleep(secs(1)).await;
    let fault = proxy.cut_after(1, about(&jar.name));
    slow.must("a", "read", "unlock").await;
    assert_eq!(fault.hits(), 1);
}
