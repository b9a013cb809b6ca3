//! 6.B and 6.E.3: holds that nobody owns, that are not renewed, or that end too early.

use super::*;

/// Calls about the lock have their answers late from now on.
async fn slow(jar: &Jar) -> (Proxy, Jar) {
    let (proxy, slow) = jar.cut_off(WATCHED).await;
    // Scripts are loaded, and connections there.
    let warm = Jar { name: format!("{}-warm", jar.name), ..slow.clone() };
    warm.must("warm", "lock", "lock").await;
    warm.must("warm", "lock", "unlock").await;
    proxy.forget_requests();
    proxy.delay_replies(ms(1500));
    (proxy, slow)
}

/// A lost answer is an exception, and the server has the lock.
pub async fn id_6_b_1s(jar: Jar) {
    jar.loses_an_answer("timeout=1000 attempts=1", "lock", "lock").await;
}

/// A call in flight at a cut ends after the whole time-out, though the cut is seen at once.
pub async fn id_3_5b(jar: Jar) {
    let took = jar.loses_an_answer("timeout=2000 attempts=1", "lock", "lock").await;
    assert!(took >= ms(1900), "{took:?}");
}

/// Redisson #7272: the late answer to an interrupted `lock()` begins a renewal, and a later lease does not end.
pub async fn id_6_b_2e(jar: Jar) {
    let (proxy, slow) = slow(&jar).await;
    let lock = slow.begin("a", "lock", "lock");
    late_answer(&proxy, 1, about(&jar.name)).await;
    slow.must("a", "lock", "interrupt").await;
    lock.await.unwrap().expect_err("interrupted");
    slow.must("a", "lock", "unlock").await;
    // Behind the late answer, and before the first renewal, a second later: that would find nothing.
    sleep(ms(1600)).await;
    slow.must("a", "lock", "lock 3000").await;
    jar.still_held().await;
}

/// A late "not held" of a renewal drops a hold that was taken since.
pub async fn id_3_3_a(jar: Jar) {
    let (proxy, slow) = jar.cut_off(WATCHED).await;
    slow.must("a", "lock", "lock").await;
    jar.raw().await.must(&["DEL", &jar.name]).await;
    proxy.forget_requests();
    proxy.delay_replies(ms(1500));
    // The refusal is on its way.
    late_answer(&proxy, 1, about(&jar.name)).await;
    slow.call("a", "lock", "unlock").await.expect_err("it was lost");
    slow.must("a", "lock", "lock").await;
    jar.until_gone().await;
    slow.call("a", "lock", "unlock").await.expect_err("lost, and nothing was said");
}

/// An interrupted `lock()` leaves a hold behind that is renewed.
pub async fn id_6_b_2a(jar: Jar) {
    let (proxy, slow) = slow(&jar).await;
    let lock = slow.begin("a", "lock", "lock");
    sleep(ms(500)).await;
    slow.must("a", "lock", "interrupt").await;
    lock.await.unwrap().expect_err("interrupted");
    proxy.heal();
    jar.still_held().await;
}

/// So does a cancelled `tryLockAsync()`.
pub async fn id_6_b_2b(jar: Jar) {
    let (proxy, slow) = slow(&jar).await;
    slow.must("a", "lock", "try_lock_async one").await;
    slow.must("a", "lock", "cancel one").await;
    sleep(secs(2)).await;
    proxy.heal();
    jar.still_held().await;
}

/// A nested read unlock ends the renewal of the write hold.
pub async fn id_6_b_3a(jar: Jar) {
    let jar = jar.with(WATCHED).await;
    jar.must("a", "write", "lock").await;
    jar.must("a", "read", "lock").await;
    jar.must("a", "read", "unlock").await;
    jar.until_gone().await;
    jar.call("a", "write", "unlock").await.expect_err("it was lost");
}

/// So does `readLock().forceUnlock()`, which says false.
pub async fn id_6_b_3b(jar: Jar) {
    let jar = jar.with(WATCHED).await;
    jar.must("a", "write", "lock").await;
    assert_eq!(jar.must("b", "read", "force_unlock").await, "false");
    jar.until_gone().await;
}

/// Stale holds of one thread keep the next one's hold from being renewed.
pub async fn id_6_b_5(jar: Jar) {
    let jar = jar.with(WATCHED).await;
    for _ in 0..4 {
        jar.must("a", "lock", "lock").await;
    }
    jar.raw().await.must(&["DEL", &jar.name]).await;
    jar.must("b", "lock", "lock").await;
    jar.until_gone().await;
    jar.call("b", "lock", "unlock").await.expect_err("it was lost");
}

/// Short locks of the past multiply the renewals of the one that is held.
pub async fn id_6_b_6(jar: Jar) {
    let server = Server::start();
    let jar = jar.at(server.port(), "watchdog=6000").await;
    for at in 0..100 {
        let name = format!("short-{at}");
        jar.java.must(&jar.thread("a"), "lock", &name, "lock").await;
        jar.java.must(&jar.thread("a"), "lock", &name, "unlock").await;
    }
    jar.must("a", "lock", "lock").await;
    sleep(secs(5)).await;
    server.reset_stats();
    sleep(secs(4)).await;
    let renewals = server.calls("evalsha");
    // Two would do.
    assert!(renewals >= 20, "{renewals} scripts in 4 s for one lock");
}

/// Keys of another type, and the holds behind them in the batch are not renewed.
pub async fn id_6_b_7(jar: Jar) {
    let jar = jar.with("watchdog=3000 batch=2").await;
    let names: Vec<String> = (0..20).map(|at| format!("{}-{at}", jar.name)).collect();
    for name in &names {
        jar.java.must(&jar.thread("a"), "lock", name, "lock").await;
    }
    // The jar renews in an order of its own: three of them are hardly the last three in it.
    let (spoilt, good) = names.split_at(3);
    let mut raw = jar.raw().await;
    for name in spoilt {
        raw.must(&["DEL", name]).await;
        raw.must(&["SET", name, "a string"]).await;
    }
    sleep(secs(7)).await;
    let mut lost = 0;
    for name in good {
        lost += usize::from(!raw.exists(name).await);
    }
    assert!(lost > 0, "all others were renewed");
}

/// 600 s and a re-entrant 5 s leave 5 s.
pub async fn id_6_b_10a(jar: Jar) {
    jar.must("a", "lock", "lock 600000").await;
    jar.must("a", "lock", "lock 5000").await;
    assert!(jar.raw().await.pttl(&jar.name).await <= 5000);
}

/// One caller's lease is the next one's.
pub async fn id_6_b_10b(jar: Jar) {
    jar.must("a", "lock", "lock 2000").await;
    jar.until_gone().await;
    jar.must("b", "lock", "lock").await;
    assert!(jar.raw().await.pttl(&jar.name).await <= 2000, "the watchdog's lease is 30 s");
}

/// `forceUnlock` ends the renewal before it knows its outcome.
pub async fn id_6_b_11(jar: Jar) {
    let (proxy, other) = jar.cut_off("watchdog=3000 timeout=500 attempts=0").await;
    other.must("a", "lock", "lock").await;
    let fault = proxy.cut_before(1, about("redisson_lock__channel").with(&jar.name));
    other.call("b", "lock", "force_unlock").await.expect_err("the request is lost");
    assert_eq!(fault.hits(), 1);
    assert!(jar.raw().await.exists(&jar.name).await, "still held");
    jar.until_gone().await;
}

/// A nested read unlock cuts a write lease of 600 s to 30 s.
pub async fn id_6_e_3(jar: Jar) {
    jar.must("a", "write", "lock 600000").await;
    jar.must("a", "read", "lock").await;
    jar.must("a", "read", "lock").await;
    jar.must("a", "read", "unlock").await;
    assert!(jar.raw().await.pttl(&jar.name).await <= 30_000);
}
