//! The layout of the locks on a plain hash, and what late and repeated copies of their scripts do to it.

use crate::contract::world::*;

const ACQUIRE: &str = support::lua!("reentrant/acquire");
const RELEASE: &str = support::lua!("announce", "reentrant/release");

/// Rule 1.
pub async fn the_layout_is_redissons(case: Case) {
    let locks = case.client().await;
    let owner = Owner::named("me").unwrap();
    let lock = case.lock(&locks).owned_by(&owner);
    lock.lock().await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("{}:named-me 1", locks.client_id()));
    let ttl = case.pttl().await;
    assert!((29_000..=30_000).contains(&ttl), "{ttl}");
    lock.unlock().await.unwrap();
    let task = spawn_with(case.lock(&locks), |lock| async move {
        lock.lock().await.unwrap();
        tokio::task::id().to_string()
    });
    let id = task.await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("{}:{id} 1", locks.client_id()));
}

/// Rule 6: past its `not_after` a copy answers late and writes nothing.
pub async fn a_late_copy_writes_nothing(case: Case) {
    let past = (case.time().await - 1).to_string();
    let answer = case.eval(ACQUIRE, &[&case.name], &["n", &past, "late", "1000", "0"]).await;
    assert!(answer.starts_with("2 n "), "{answer}");
    assert!(case.is_free().await);
    let locks = case.client().await;
    let lock = case.lock(&locks).owned_by(&Owner::named("me").unwrap());
    lock.lock().await.unwrap();
    let field = format!("{}:named-me", locks.client_id());
    let answer = case.eval(RELEASE, &[&case.name], &["n", &past, &field, "1000", "1", "PUBLISH", "c"]).await;
    assert!(answer.starts_with("2 n "), "{answer}");
    assert!(!case.is_free().await);
    lock.unlock().await.unwrap();
}

/// Rule 5: a copy that finds its work done does nothing more.
pub async fn copies_apply_once(case: Case) {
    let soon = (case.time().await + 60_000).to_string();
    for _ in 0..3 {
        let answer = case.eval(ACQUIRE, &[&case.name], &["n", &soon, "o", "5000", "0"]).await;
        assert!(answer.starts_with("1 n "), "{answer}");
        assert_eq!(case.ask(&["HGET", &case.name, "o"]).await, "1");
    }
    for _ in 0..3 {
        case.eval(ACQUIRE, &[&case.name], &["n", &soon, "o", "5000", "1"]).await;
    }
    for _ in 0..3 {
        let answer = case.eval(RELEASE, &[&case.name], &["n", &soon, "o", "5000", "2", "PUBLISH", "c"]).await;
        assert!(answer.starts_with("1 n "), "{answer}");
        assert_eq!(case.ask(&["HGET", &case.name, "o"]).await, "1");
    }
    assert!(case
        .eval(RELEASE, &[&case.name], &["n", &soon, "o", "5000", "1", "PUBLISH", "c"])
        .await
        .starts_with("1 n "));
    assert!(case
        .eval(RELEASE, &[&case.name], &["n", &soon, "o", "5000", "1", "PUBLISH", "c"])
        .await
        .starts_with("3 n "));
    assert!(case.is_free().await);
}
