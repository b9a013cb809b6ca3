//! 2.0.c, 6.C.1 and 6.C.4: names, fenced locks and spin locks.

use super::*;

/// On a server in cluster mode a name with a stray brace is locked, and cannot be unlocked.
pub async fn id_2_0_c(jar: Jar) {
    let server = Server::with(&[("cluster-enabled", "yes")]);
    server.control(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let up = async || server.raw().await.must(&["CLUSTER", "INFO"]).await.text().contains("cluster_state:ok");
    eventually(secs(20), "the cluster is up", up).await;
    let jar = Jar { name: "a{b".into(), ..jar.at(server.port(), "").await };
    jar.must("a", "lock", "lock 60000").await;
    let error = jar.call("a", "lock", "unlock").await.expect_err("its keys are in two slots");
    assert!(error.contains("CROSSSLOT") || error.contains("same slot"), "{error}");
    assert!(server.raw().await.exists("a{b").await, "still locked");
}

/// A token comes with the default lease, whatever lease was asked for.
pub async fn id_6_c_1a(jar: Jar) {
    jar.must("a", "fenced_lock", "lock_and_get_token 5000").await;
    assert!(jar.raw().await.pttl(&jar.name).await > 10_000);
    jar.must("a", "fenced_lock", "unlock").await;
}

/// `tryLockAndGetToken()` waits without end.
pub async fn id_6_c_1b(jar: Jar) {
    jar.must("a", "fenced_lock", "lock 60000").await;
    let tried = jar.begin("b", "fenced_lock", "try_lock_and_get_token");
    asleep(&tried, secs(3)).await;
    jar.must("a", "fenced_lock", "unlock").await;
    tried.await.unwrap().unwrap();
}

/// A re-entry raises the token.
pub async fn id_6_c_1c(jar: Jar) {
    let outer: u64 = jar.must("a", "fenced_lock", "lock_and_get_token").await.parse().unwrap();
    let inner: u64 = jar.must("a", "fenced_lock", "lock_and_get_token").await.parse().unwrap();
    assert_eq!(inner, outer + 1, "the outer section is fenced out");
    jar.must("a", "fenced_lock", "force_unlock").await;
}

/// A lost answer to a token is an exception, and the server has the lock.
pub async fn id_6_c_1d(jar: Jar) {
    jar.loses_an_answer("timeout=1000 attempts=1", "fenced_lock", "lock_and_get_token").await;
}

/// A spinning wait ends with a pause, behind its limit: of eight limits in a pause of 128 ms one is far from its end.
pub async fn id_6_c_4a(jar: Jar) {
    jar.must("a", "spin_lock", "lock 60000").await;
    let mut late = Vec::new();
    for wait in (400..528).step_by(16) {
        let verb = format!("try_lock {wait} -1");
        let answer = jar.java.timed(&jar.thread("b"), "spin_lock", &jar.name, &verb).await;
        assert_eq!(answer.result.unwrap(), "false");
        late.push((answer.end - answer.begin) as i64 / 1000 - wait);
    }
    assert!(late.iter().any(|late| *late >= 60), "{late:?} ms");
}

/// All pauses are the same from the ninth on.
pub async fn id_6_c_4b(jar: Jar) {
    let pauses = jar.must("a", "spin_lock", "pauses 20").await;
    assert!(pauses.split(',').skip(8).all(|pause| pause == "128"), "{pauses}");
}
