//! What locks promise that the same owner may enter again.

use crate::contract::world::*;

pub async fn entering_again_counts(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks).owned_by(&Owner::named("me").unwrap());
    let field = case.count_field(&locks, "named-me");
    let count = async || case.ask(&["HGET", &case.name, &field]).await;
    for depth in 1..=5 {
        lock.lock().await.unwrap();
        assert_eq!(count().await, depth.to_string());
    }
    let guard = lock.guard().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_acquired());
    assert_eq!(count().await, "7");
    guard.unlock().await.unwrap();
    for left in (1..6).rev() {
        lock.unlock().await.unwrap();
        assert_eq!(count().await, left.to_string());
    }
    lock.unlock().await.unwrap();
    assert!(case.is_free().await);
    assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
}

/// Rule 3, and the trap that README shows: joined futures do not exclude each other.
pub async fn joined_futures_share_an_owner(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks);
    let (first, second) = patient("both enter", async { tokio::join!(lock.guard(), lock.guard()) }).await;
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.owner(), second.owner());
    let field = case.count_field(&locks, first.owner().as_str().trim_end_matches(":t1"));
    assert_eq!(case.ask(&["HGET", &case.name, &field]).await, "2");
    first.unlock().await.unwrap();
    assert!(second.is_valid());
    second.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// The remedy: an owner each.
pub async fn scopes_part_joined_futures(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks);
    let inside = std::cell::Cell::new(0);
    let section = || async {
        let guard = lock.guard().await.unwrap();
        inside.set(inside.get() + 1);
        assert_eq!(inside.get(), 1);
        tokio::task::yield_now().await;
        inside.set(inside.get() - 1);
        guard.unlock().await.unwrap();
    };
    patient("both take turns", async {
        tokio::join!(Owner::unique().scope(section()), Owner::unique().scope(section()), section())
    })
    .await;
    assert!(case.is_free().await);
}

/// Rule 3: an owner that waited would wait for somebody who waits for it.
pub async fn re_entry_passes_waiters_by(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks);
    let outer = lock.guard().await.unwrap();
    let stranger = case.rival(&locks).owned_by(&Owner::unique());
    let mut waiter = std::pin::pin!(stranger.guard());
    assert!(futures::poll!(waiter.as_mut()).is_pending());
    let inner = patient("the owner enters again", lock.guard()).await.unwrap();
    inner.unlock().await.unwrap();
    assert!(futures::poll!(waiter.as_mut()).is_pending());
    let (released, granted) = tokio::join!(outer.unlock(), patient("then the other", waiter));
    released.unwrap();
    granted.unwrap().unlock().await.unwrap();
}

/// Rule 10. Redisson: 600 s and a re-entrant 5 s leave 5 s (6.B.10a).
pub async fn the_lease_only_grows(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks);
    let outer = lock.guard_with(Request::default().lease(secs(600))).await.unwrap().unwrap();
    let inner = lock.guard_with(Request::default().lease(secs(5))).await.unwrap().unwrap();
    assert!(case.pttl().await > 590_000 && outer.remaining() > secs(580));
    inner.unlock().await.unwrap();
    assert!(case.pttl().await > 590_000);
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    assert!(case.pttl().await > 590_000);
    let longer = lock.guard_with(Request::default().lease(secs(900))).await.unwrap().unwrap();
    assert!(case.pttl().await > 890_000);
    longer.unlock().await.unwrap();
    outer.unlock().await.unwrap();
    // The next hold starts with its own lease, not with what is left of a longer one.
    assert!(lock.acquire_with(Request::default().lease(secs(2))).await.unwrap().is_acquired());
    assert!(case.pttl().await <= 2_000);
    lock.unlock().await.unwrap();
    let other = lock.owned_by(&Owner::unique()).guard().await.unwrap();
    assert!(case.pttl().await > 19_000, "another owner's, too");
    other.unlock().await.unwrap();
}

/// Rule 5: said, and never taken again silently.
pub async fn a_lost_outer_hold_is_said(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let lock = case.lock(&a);
    lock.lock().await.unwrap();
    case.ask(&["DEL", &case.name]).await;
    assert_matches!(lock.lock().await, Err(error @ LockError::Lost { .. }) if !error.may_hold());
    assert!(case.is_free().await);
    assert!(case.rival(&b).try_lock().await.unwrap().is_acquired());
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    case.rival(&b).unlock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_acquired());
}

/// Rule 11: a limit is its share's. While another share wants the hold, it stays; who enters again lifts no limit.
pub async fn limits_are_of_their_shares(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let lock = case.lock(&locks);
    let outer = lock.guard().await.unwrap();
    let limited = lock.guard_with(Request::default().max_hold(ms(300))).await.unwrap().unwrap();
    let short = lock.guard_with(Request::default().lease(ms(300))).await.unwrap().unwrap();
    sleep(secs(3)).await;
    assert!(outer.is_valid() && limited.is_valid() && short.is_valid());
    unlock_all([limited, short]).await;
    sleep(secs(3)).await;
    assert!(outer.is_valid() && !case.is_free().await);
    outer.unlock().await.unwrap();
    assert!(case.is_free().await);

    let outer = lock.guard_with(Request::default().max_hold(ms(600))).await.unwrap().unwrap();
    let inner = lock.guard().await.unwrap();
    lock.lock().await.unwrap();
    sleep(secs(3)).await;
    assert!(outer.is_valid() && inner.is_valid());
    inner.unlock().await.unwrap();
    sleep(secs(3)).await;
    assert!(outer.is_valid());
    let began = Instant::now();
    lock.unlock().await.unwrap();
    patient("nobody renews it", outer.lost()).await;
    assert!(began.elapsed() <= case.bound(secs(1)), "{:?}", began.elapsed());
}

pub async fn the_hold_limit(case: Case) {
    let locks = case.client_with(Locks::builder().max_holds(2)).await;
    let lock = case.lock(&locks).owned_by(&Owner::named("me").unwrap());
    lock.lock().await.unwrap();
    lock.lock().await.unwrap();
    assert_matches!(lock.lock().await, Err(LockError::HoldLimit { limit: 2, .. }));
    let field = case.count_field(&locks, "named-me");
    assert_eq!(case.ask(&["HGET", &case.name, &field]).await, "2");
    lock.unlock().await.unwrap();
    lock.unlock().await.unwrap();
    assert!(lock.acquire_with(Request::default().wait(secs(5))).await.unwrap().is_acquired());
}
