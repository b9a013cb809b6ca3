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

/// Rules 5 and 6: past its `not_after` a copy is late and writes nothing, one whose work is done does nothing more.
pub async fn copies_apply_once_and_never_late(case: Case) {
    let count = async || case.ask(&["HGET", &case.name, "o"]).await;
    let acquire = async |when: i64, held: &str| case.copy(ACQUIRE, when, &[&case.name], &["o", "5000", held]).await;
    let release = async |when: i64, held: &str| {
        case.copy(RELEASE, when, &[&case.name], &["o", "5000", held, "PUBLISH", "c"]).await
    };
    assert_eq!((&*acquire(LATE, "0").await, case.is_free().await), ("2", true));
    for (held, expected) in [("0", "1"), ("1", "2")] {
        for _ in 0..3 {
            assert!(acquire(SOON, held).await.starts_with('1'));
            assert_eq!(count().await, expected);
        }
    }
    assert_eq!((&*release(LATE, "2").await, &*count().await), ("2", "2"));
    for _ in 0..3 {
        assert!(release(SOON, "2").await.starts_with('1'));
        assert_eq!(count().await, "1");
    }
    for status in ['1', '3'] {
        assert!(release(SOON, "1").await.starts_with(status));
        assert!(case.is_free().await);
    }
}
