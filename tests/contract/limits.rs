//! A limit is a limit: what a verb waits for a server that does not answer, and who is told that it holds.

use crate::contract::world::*;

/// The limit of a verb that looks once: three command timeouts.
const LOOK: Duration = ms(900);

/// An outage limit that no test waits for, nor does `patient`.
fn builder() -> lockson::Builder {
    Locks::builder().command_timeout(ms(300)).outage_limit(secs(600))
}

/// What it comes to, and that this takes so long.
async fn within<T>(case: &Case, limit: Duration, what: &str, verb: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let output = patient(what, verb).await;
    assert!(began.elapsed() <= case.bound(limit + ms(1)), "{what}: {:?}", began.elapsed());
    output
}

/// What looks once, or changes a lease, does not wait for the outage limit; what it left is settled later.
pub async fn what_looks_once_has_a_limit_of_its_own(case: Case) {
    let way = Way::new(&case);
    let locks = way.client(&case, builder()).await;
    let guard = case.lock(&locks).owned_by(&Owner::named("holder").unwrap()).guard().await.unwrap();
    let other = format!("{}-2", case.name);
    let free = || (case.kind.lock)(&locks, &other).owned_by(&Owner::unique());
    way.open(&case, false);
    let zero = Request::default().wait(Duration::ZERO);
    let is_late = |error: &LockError| {
        matches!(error, LockError::Query(QueryError::Unreachable { .. }) | LockError::NoMajority { .. })
    };
    let tried = within(&case, LOOK, "try_lock", free().try_lock()).await;
    assert!(tried.as_ref().is_err_and(is_late), "{tried:?}");
    let tried = within(&case, LOOK, "a wait of zero", free().acquire_with(zero.clone())).await;
    assert!(tried.as_ref().is_err_and(is_late), "{tried:?}");
    let tried = within(&case, LOOK, "a guard", free().guard_with(zero)).await;
    assert!(tried.as_ref().is_err_and(is_late), "{tried:?}");
    let held = within(&case, LOOK, "is_held", free().is_held()).await;
    assert!(matches!(held, Err(QueryError::Unreachable { .. })), "{held:?}");
    let verified = within(&case, LOOK, "verify", guard.verify()).await;
    assert!(matches!(verified, Err(HoldError::Query(QueryError::Unreachable { .. }))), "{verified:?}");
    let extended = within(&case, LOOK, "set_lease", guard.set_lease(secs(60))).await;
    assert!(matches!(extended, Err(HoldError::Query(QueryError::Unreachable { .. }))), "{extended:?}");
    way.open(&case, true);
    // Those that were left behind an earlier copy.
    patient("it is free", async { while free().try_lock().await != Ok(Acquired) {} }).await;
}

/// The questions that only some kinds have, and `force_unlock`.
pub async fn questions_have_a_limit(case: Case) {
    let way = Way::new(&case);
    let locks = way.client(&case, builder()).await;
    let (lock, fair) = (locks.lock(&case.name), locks.fair_lock(&case.name));
    let readers = locks.read_write_lock(&case.name).read();
    assert!(!lock.is_locked().await.unwrap());
    way.open(&case, false);
    let late = |error: Option<QueryError>| assert!(matches!(error, Some(QueryError::Unreachable { .. })), "{error:?}");
    late(within(&case, LOOK, "is_locked", lock.is_locked()).await.err());
    late(within(&case, LOOK, "holder", lock.holder()).await.err());
    late(within(&case, LOOK, "hold_count", lock.hold_count()).await.err());
    late(within(&case, LOOK, "remaining_ttl", lock.remaining_ttl()).await.err());
    late(within(&case, LOOK, "force_unlock", lock.force_unlock()).await.err());
    late(within(&case, LOOK, "force_unlock_if", lock.force_unlock_if("x")).await.err());
    late(within(&case, LOOK, "queue_len", fair.queue_len()).await.err());
    late(within(&case, LOOK, "queue_position", fair.queue_position()).await.err());
    late(within(&case, LOOK, "holders", readers.holders()).await.err());
    way.open(&case, true);
    // The same of permits and counts.
    let way = Way::new(&case);
    let locks = way.client(&case, builder()).await;
    let names: [String; 3] = std::array::from_fn(|number| format!("{}-{number}", case.name));
    let (pool, leased, latch) = (locks.semaphore(&names[0]), locks.permit_semaphore(&names[1]), locks.latch(&names[2]));
    assert!(pool.try_set_permits(1).await.unwrap() && leased.try_set_permits(2).await.unwrap());
    assert!(latch.try_set_count(1).await.unwrap());
    let guard = leased.guard(1).await.unwrap();
    way.open(&case, false);
    let late = |error: Option<SyncError>| {
        assert!(matches!(error, Some(SyncError::Query(QueryError::Unreachable { .. }))), "{error:?}")
    };
    let zero = Duration::ZERO;
    late(within(&case, LOOK, "try_acquire", pool.try_acquire(1)).await.err());
    late(within(&case, LOOK, "a wait of zero", pool.acquire(1).wait(zero).guard()).await.err());
    late(within(&case, LOOK, "available", pool.available_permits()).await.err());
    late(within(&case, LOOK, "drain", pool.drain_permits()).await.err());
    late(within(&case, LOOK, "permits with ids", leased.acquire(1).wait(zero).ids(secs(9))).await.err());
    late(within(&case, LOOK, "available with ids", leased.available_permits()).await.err());
    late(within(&case, LOOK, "acquired", leased.acquired_permits()).await.err());
    late(within(&case, LOOK, "remaining_lease", leased.remaining_lease(&guard.ids()[0])).await.err());
    late(within(&case, LOOK, "set_lease", leased.set_lease(&guard.ids(), secs(60))).await.err());
    late(within(&case, LOOK, "set_lease", guard.set_lease(secs(60))).await.err());
    late(within(&case, LOOK, "count", latch.count()).await.err());
    late(within(&case, LOOK, "one look", latch.wait_for(zero)).await.err());
    way.open(&case, true);
    // What took any is undone.
    patient("the permit is free", async { while pool.try_acquire(1).await != Ok(Acquired) {} }).await;
}

/// Work that is done does not stand still: the limit ends the wait, and the client goes on with the release.
pub async fn an_unlock_has_the_limit_that_it_is_given(case: Case) {
    let way = Way::new(&case);
    let locks = way.client(&case, builder()).await;
    let lock = case.lock(&locks).owned_by(&Owner::named("holder").unwrap());
    for limit in [Duration::ZERO, ms(100)] {
        let guard = lock.guard().await.unwrap();
        guard.unlock_within(secs(5)).await.unwrap();
        for is_bare in [false, true] {
            let guard = if is_bare { None } else { Some(lock.guard().await.unwrap()) };
            if is_bare {
                lock.lock().await.unwrap();
            }
            way.open(&case, false);
            let unlock = async {
                match guard {
                    Some(guard) => guard.unlock_within(limit).await,
                    None => lock.unlock_within(limit).await,
                }
            };
            let error = within(&case, limit, "unlock_within", unlock).await.unwrap_err();
            assert!(matches!(&error, UnlockError::OnItsWay { limit: told, .. } if *told == limit), "{error:?}");
            assert!(error.may_hold());
            way.open(&case, true);
            eventually(secs(20), "it is given back", async || case.is_free().await).await;
        }
    }
    assert!(matches!(lock.unlock_within(secs(5)).await, Err(UnlockError::NotHeld { .. })));
}

/// More members than a task is given polls for: none is left out.
pub async fn an_unlock_that_is_not_awaited_gives_all_members_back(case: Case) {
    let locks = case.client().await;
    let members = (0..300).map(|number| (case.kind.lock)(&locks, &format!("{}-{number}", case.name)));
    let all = lockson::MultiLock::new(members);
    for is_bare in [false, true] {
        if is_bare {
            all.lock().await.unwrap();
            assert!(matches!(all.unlock_within(Duration::ZERO).await, Ok(()) | Err(UnlockError::OnItsWay { .. })));
        } else {
            let unlocked = all.guard().await.unwrap().unlock_within(Duration::ZERO).await;
            assert!(matches!(unlocked, Ok(()) | Err(UnlockError::OnItsWay { .. })), "{unlocked:?}");
        }
        let rival = all.owned_by(&Owner::unique());
        let again = patient("all are given back", rival.guard()).await.unwrap();
        again.unlock().await.unwrap();
    }
}

pub async fn permits_have_the_limit_that_they_are_given(case: Case) {
    let way = Way::new(&case);
    let locks = way.client(&case, builder()).await;
    let (pool, leased) = (locks.semaphore(&case.name), locks.permit_semaphore(&format!("{}-2", case.name)));
    assert!(pool.try_set_permits(1).await.unwrap() && leased.try_set_permits(1).await.unwrap());
    pool.guard(1).await.unwrap().release_within(secs(5)).await.unwrap();
    leased.guard(1).await.unwrap().release_within(secs(5)).await.unwrap();
    let (plain, with_ids) = (pool.guard(1).await.unwrap(), leased.guard(1).await.unwrap());
    way.open(&case, false);
    let limit = ms(100);
    let error = within(&case, limit, "plain", plain.release_within(limit)).await.unwrap_err();
    assert!(matches!(error, SyncError::OnItsWay { .. }), "{error:?}");
    let error = within(&case, limit, "with ids", with_ids.release_within(limit)).await.unwrap_err();
    assert!(matches!(error, SyncError::OnItsWay { .. }), "{error:?}");
    way.open(&case, true);
    drop(patient("it is back", pool.guard(1)).await.unwrap());
    drop(patient("that with an id is back", leased.guard(1)).await.unwrap());
}

/// A lock that was handed over to a future that nobody polled until the lease was over is not said to be held.
pub async fn who_is_told_that_it_holds_does(case: Case) {
    let locks = case.client().await;
    let guard = case.lock(&locks).owned_by(&Owner::unique()).guard().await.unwrap();
    let lock: Arc<dyn lockson::RLock> = case.rival(&locks).owned_by(&Owner::unique());
    let mut wait = std::pin::pin!(lock.guard_with(Request::default().lease(secs(1))));
    assert!(futures::poll!(wait.as_mut()).is_pending());
    guard.unlock().await.unwrap();
    sleep(ms(1100)).await;
    match patient("an answer", wait).await {
        Ok(Some(guard)) => assert!(guard.is_valid()),
        Err(LockError::Query(QueryError::Unreachable { .. })) => {}
        other => panic!("{other:?}"),
    }
}
