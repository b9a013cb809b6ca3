//! What the guard of every lock promises.

use std::sync::Mutex;

use crate::contract::world::*;

pub async fn a_guard_releases_when_dropped(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    drop(case.lock(&a).guard().await.unwrap());
    // Its owner's next acquisition comes after the release: a hold of its own, not a second entry into the old one.
    assert!(case.lock(&a).try_lock().await.unwrap().is_acquired());
    assert!(case.is_kind(&a, "plain") || case.ask(&["HVALS", &case.name]).await.split(' ').any(|it| it == "1"));
    case.lock(&a).unlock().await.unwrap();
    let next = case.rival(&b).guard_with(Request::default().wait(secs(10))).await.unwrap();
    assert!(next.is_some());
}

/// Its own next acquisition comes after the release, not before it.
pub async fn a_loop_that_drops_its_guards_lets_others_in(case: Case) {
    let locks = case.client().await;
    let (lock, stranger) = (case.lock(&locks), case.rival(&locks).owned_by(&Owner::unique()));
    let guard = lock.guard().await.unwrap();
    let mut waiter = std::pin::pin!(stranger.guard());
    assert!(futures::poll!(waiter.as_mut()).is_pending());
    let mut turns = 0;
    drop(guard);
    let served = loop {
        let guard = tokio::select! {
            biased;
            served = waiter.as_mut() => break served,
            guard = lock.guard() => guard.unwrap(),
        };
        turns += 1;
        assert!(turns < 10, "the other waits and waits");
        drop(guard);
    };
    served.unwrap().unlock().await.unwrap();
}

/// And is no bare hold of the task that it is in.
pub async fn a_guard_moves_between_tasks(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks);
    let guard = lock.guard().await.unwrap();
    assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(guard.is_valid() && !case.is_free().await);
    let owner = guard.owner();
    let guard = spawn_with(guard, |guard| async move { guard.is_valid().then_some(guard) }).await.unwrap().unwrap();
    assert_eq!(guard.owner(), owner);
    tokio::spawn(guard.unlock()).await.unwrap().unwrap();
    assert!(case.is_free().await);
}

/// Rule 2: an entry has a hold with a generation, not a name.
pub async fn a_guard_of_a_lost_hold_leaves_the_next_alone(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks).owned_by(&Owner::named("one").unwrap());
    let old = lock.guard().await.unwrap();
    let before = case.pttl().await;
    old.verify().await.unwrap();
    assert!(case.pttl().await <= before, "it only asks");
    case.ask(&["DEL", &case.name]).await;
    assert_matches!(old.verify().await, Err(HoldError::Lost(lost)) if lost.why == LostReason::Server);
    assert!(!old.is_valid());
    assert!(matches!(lock.lock().await, Err(LockError::Lost { .. })));
    let new = lock.guard().await.unwrap();
    assert!(matches!(old.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(new.is_valid());
    new.verify().await.unwrap();
    assert!(lock.is_held().await.unwrap());
    new.unlock().await.unwrap();
}

/// Rule 11: a refused renewal is lost at once.
pub async fn losing_it_is_told(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(3))).await;
    let guard = case.lock(&locks).guard().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    case.ask(&["DEL", &case.name]).await;
    let lost = patient("the renewal is refused", lost).await.unwrap();
    assert_eq!(lost.why, LostReason::Server);
    assert!(!guard.is_valid());
    assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. })));
    eventually(secs(20), "the members that it still had are given back", async || case.is_free().await).await;
}

pub async fn run_returns_what_the_work_does_or_stops_it(case: Case) {
    let locks = case.client().await;
    let guard = case.lock(&locks).guard().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    assert!(guard.is_valid());
    guard.unlock().await.unwrap();
    let (began, request) = (Instant::now(), Request::default().lease(ms(500)));
    let guard = case.lock(&locks).guard_with(request).await.unwrap().unwrap();
    let stopped = Arc::new(Mutex::new(None));
    struct OnDrop(Arc<Mutex<Option<Instant>>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(Instant::now());
        }
    }
    let mark = OnDrop(stopped.clone());
    let result = guard
        .run(async move {
            let _mark = mark;
            std::future::pending::<()>().await;
        })
        .await;
    assert_eq!(result.unwrap_err().why, LostReason::Deadline);
    let after = stopped.lock().unwrap().unwrap() - began;
    assert!(after >= ms(400) && after <= case.bound(ms(500)), "{after:?}");
}

/// Rule 10: a lease that its holder sets is exact, shorter or longer; and no key is left without one.
pub async fn a_lease_that_is_set_is_exact(case: Case) {
    let locks = case.client().await;
    let guard = case.lock(&locks).guard_with(Request::default().lease(secs(20))).await.unwrap().unwrap();
    assert!((19_000..=20_000).contains(&case.pttl().await));
    guard.set_lease(secs(100)).await.unwrap();
    assert!((90_001..=100_000).contains(&case.pttl().await) && guard.remaining() > secs(90));
    guard.set_lease(secs(5)).await.unwrap();
    assert!((1..=5_000).contains(&case.pttl().await) && guard.remaining() <= ms(4_950));
    case.ask(&["PERSIST", &case.name]).await;
    guard.set_lease(secs(7)).await.unwrap();
    assert!((6_000..=7_000).contains(&case.pttl().await));
    assert!(matches!(guard.set_lease(ms(1)).await, Err(HoldError::Lease { .. })));
    assert!(guard.is_valid());
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
}
