//! What belongs to no lock: clients, their ids, and their end.

use crate::contract::world::*;

/// Rule 1: two replicas with one configured id both have small task ids, and would both "re-enter".
pub async fn labels_never_make_two_clients_one(case: Case) {
    let (a, b) = (
        case.client_with(Locks::builder().label("billing")).await,
        case.client_with(Locks::builder().label("billing")).await,
    );
    assert!(a.client_id().starts_with("billing-") && a.client_id() != b.client_id());
    let owner = Owner::named("x").unwrap();
    assert!(case.lock(&a).owned_by(&owner).try_lock().await.unwrap().is_acquired());
    assert!(!case.lock(&b).owned_by(&owner).try_lock().await.unwrap().is_acquired());
    assert!(matches!(case.lock(&b).owned_by(&owner).unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(case.lock(&a).owned_by(&owner).is_held().await.unwrap());
    if case.kind.owned.is_some() {
        assert_eq!(case.owned(&b).holder().await.unwrap().client, a.client_id());
    }
}

pub async fn shutdown_gives_everything_back(case: Case) {
    let locks = case.client().await;
    let (lock, mutex, other) = (case.lock(&locks), case.is_kind(&locks, "plain"), format!("{}-2", case.name));
    for _ in 0..if mutex { 1 } else { 2 } {
        lock.lock().await.unwrap();
    }
    let guard = (case.kind.lock)(&locks, &other).guard().await.unwrap();
    locks.shutdown(secs(5)).await.unwrap();
    assert!(case.is_free().await && case.ask(&["EXISTS", &other]).await == "0");
    assert!(!guard.is_valid());
    assert!(matches!(lock.lock().await, Err(LockError::Query(QueryError::Closed))));
    assert!(matches!(lock.try_lock().await, Err(LockError::Query(QueryError::Closed))));
    assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(lock.owned_by(&Owner::unique()).is_held().await.is_err());
    drop(guard);
}

pub async fn shutdown_ends_waits(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let _guard = case.lock(&a).guard().await.unwrap();
    let waiters = spawn_each([(); 3].map(|()| case.lock(&b)), |lock| async move { lock.lock().await });
    case.until_waiting(&b).await;
    b.shutdown(secs(5)).await.unwrap();
    // No place in a queue is left.
    assert_eq!(case.ask(&["KEYS", &format!("*{}*", case.name)]).await, case.name);
    let ended = patient_all("the wait ends", waiters).await;
    assert!(ended.iter().all(|outcome| *outcome == Err(LockError::Query(QueryError::Closed))), "{ended:?}");
}

/// What was taken without a guard stays taken.
pub async fn shutdown_gives_permits_back_and_ends_their_waits(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let names: [String; 3] = std::array::from_fn(|number| format!("{}-{number}", case.name));
    let of = |locks: &Locks| (locks.semaphore(&names[0]), locks.permit_semaphore(&names[1]), locks.latch(&names[2]));
    let ((pool, leased, latch), (their_pool, their_leased, their_latch)) = (of(&a), of(&b));
    assert!(pool.try_set_permits(3).await.unwrap() && leased.try_set_permits(3).await.unwrap());
    assert!(latch.try_set_count(1).await.unwrap());
    let guards = (their_pool.guard(2).await.unwrap(), their_leased.guard(2).await.unwrap());
    assert!(their_pool.acquire(1).await.unwrap().is_acquired());
    let waiters = [
        spawn_with(their_pool.clone(), |pool| async move { pool.acquire(3).await.map(drop) }),
        spawn_with(their_leased, |leased| async move { leased.guard(2).await.map(drop) }),
        spawn_with(their_latch.clone(), |latch| async move { latch.wait().await.map(drop) }),
    ];
    eventually(secs(20), "they wait", async || b.health().subscriptions == 3).await;
    sleep(ms(20)).await;
    b.shutdown(secs(5)).await.unwrap();
    let closed = Err(SyncError::Query(QueryError::Closed));
    assert_eq!(patient_all("the wait ends", waiters).await, [closed.clone(), closed.clone(), closed.clone()]);
    let free = async || (pool.available_permits().await.unwrap(), leased.available_permits().await.unwrap());
    assert_eq!((free().await, latch.count().await), ((2, 3), Ok(1)));
    assert!(!guards.1.is_valid());
    drop(guards);
    assert_eq!(their_pool.try_acquire(1).await.map(drop), closed);
    assert_eq!(their_pool.release(1).await, closed);
    assert_eq!(their_pool.drain_permits().await.map(drop), closed);
    assert_eq!(their_pool.available_permits().await.map(drop), closed);
    assert_eq!(their_latch.count_down().await.map(drop), closed);
    assert_eq!(free().await, (2, 3));
}

/// Rule 7: a guard keeps the client alive, nothing else does.
pub async fn the_last_handle_closes_the_client(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let id = locks.client_id().to_owned();
    let guard = case.lock(&locks).guard().await.unwrap();
    drop(locks);
    sleep(ms(1500)).await;
    assert!(guard.is_valid() && case.ask(&["HKEYS", &case.name]).await.starts_with(&id));
    drop(guard);
    for _ in 0..500 {
        if case.is_free().await {
            return;
        }
        sleep(ms(2)).await;
    }
    panic!("the dropped guard was not given back");
}

pub async fn health_counts(case: Case) {
    let locks = case.client().await;
    let before = locks.health();
    assert!(before.reachable && before.holds == 0 && before.subscriptions == 0 && before.shortest_validity.is_none());
    let guard = case.lock(&locks).guard().await.unwrap();
    let during = locks.health();
    assert!(during.holds == 1 && during.uncertain == 0);
    assert!(during.shortest_validity.unwrap() > secs(20) && during.oldest_renewal.unwrap() < secs(5));
    guard.unlock().await.unwrap();
    assert_eq!(locks.health().holds, 0);
}

/// A prefix parts names; the limit is in bytes, with it.
pub async fn the_limit_of_names_is_the_builders(case: Case) {
    let limit = "app:".len() + case.name.len();
    let a = case.client_with(Locks::builder().key_prefix("app:").max_name_len(limit)).await;
    let b = case.client().await;
    assert!(case.lock(&a).try_lock().await.unwrap().is_acquired());
    assert!(case.lock(&b).try_lock().await.unwrap().is_acquired());
    assert_eq!(case.ask(&["EXISTS", &format!("app:{}", case.name)]).await, "1");
    assert!(!(case.kind.lock)(&b, &format!("app:{}", case.name)).try_lock().await.unwrap().is_acquired());
    let longer = format!("{}x", case.name);
    let refused = (case.kind.lock)(&a, &longer).try_lock().await;
    let too_long = NameError::TooLong { len: limit + 1, limit };
    assert_eq!(refused, Err(LockError::Query(QueryError::Name(too_long))));
    assert_eq!(case.ask(&["EXISTS", &format!("app:{longer}")]).await, "0");
}

/// The keys are those of what the name is mapped to; users are told the name that they gave.
pub async fn a_mapped_name_is_the_users_own(case: Case) {
    let mapped = format!("{}:v2", case.name);
    let a = case.client_with(Locks::builder().name_mapper(|name| format!("{name}:v2"))).await;
    let b = case.client().await;
    let lock = case.lock(&a);
    let guard = lock.guard().await.unwrap();
    assert_eq!((lock.name(), guard.name()), (&*case.name, &*case.name));
    assert_eq!(case.ask(&["EXISTS", &case.name]).await, "0");
    assert_eq!(case.ask(&["EXISTS", &mapped]).await, "1");
    assert!(!(case.kind.lock)(&b, &mapped).try_lock().await.unwrap().is_acquired());
    guard.unlock().await.unwrap();
    let error = lock.unlock().await.unwrap_err().to_string();
    assert!(error.contains(&format!("{:?}", case.name)) && !error.contains(":v2"), "{error}");
    let one = case.client_with(Locks::builder().name_mapper(move |_| mapped.clone())).await;
    let both = ["first", "second"].map(|name| (case.kind.lock)(&one, name));
    assert_eq!(both.each_ref().map(|lock| lock.name()), ["first", "second"], "they are one lock by two names");
    let nowhere = case.client_with(Locks::builder().name_mapper(|_| String::new())).await;
    assert_eq!(case.lock(&nowhere).try_lock().await, Err(LockError::Query(QueryError::Name(NameError::Empty))));
}

/// A waiter without a limit ends at the outage limit, one attempt before; the client works again with the server.
pub async fn the_outage_limit_ends_calls(case: Case) {
    let builder = Locks::builder().command_timeout(ms(300)).outage_limit(secs(1));
    let way = Way::new(&case);
    let locks = way.client(&case, builder).await;
    assert!(!case.lock(&locks).is_held().await.unwrap());
    way.open(&case, false);
    let began = Instant::now();
    let (lock, probe) = (case.lock(&locks), case.lock(&locks).owned_by(&Owner::unique()));
    let (waited, tried) = patient("both end", async { tokio::join!(lock.lock(), probe.try_lock()) }).await;
    assert!(matches!(waited, Err(LockError::Query(QueryError::Unreachable { .. }))), "{waited:?}");
    assert!(matches!(tried, Err(LockError::Query(QueryError::Unreachable { .. }))), "{tried:?}");
    let took = began.elapsed();
    assert!(took >= ms(900) && took <= case.bound(ms(1400)), "{took:?}");
    assert!(!locks.health().reachable);
    way.open(&case, true);
    patient("it works again", async { while lock.try_lock().await != Ok(Acquired) {} }).await;
    lock.unlock().await.unwrap();
}

/// Rule 14: the hint of an unlock that came too late still wakes whoever waits for the key to go.
pub async fn an_unlock_of_an_expired_hold_is_heard(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    assert!(case.lock(&a).acquire_with(Request::default().lease(secs(50))).await.unwrap().is_acquired());
    let waiter = spawn_with(case.lock(&b), |lock| async move { lock.guard().await });
    case.until_waiting(&b).await;
    // Let the waiter's second attempt pass, so that only a message can wake it.
    sleep(ms(200)).await;
    case.ask(&["DEL", &case.name]).await;
    assert!(matches!(case.lock(&a).unlock().await, Err(UnlockError::NotHeld { .. })));
    patient("the hint wakes the waiter", waiter).await.unwrap().unwrap().unlock().await.unwrap();
}

/// What is asked for as it begins comes back, and is waited for.
pub async fn shutdown_loses_no_permit(case: Case) {
    let look = case.client().await;
    let pool = look.semaphore(&format!("{}-permits", case.name));
    assert!(pool.try_set_permits(4).await.unwrap());
    for round in 0..20 {
        let client = case.client().await;
        let takers = spawn_each(0..8, |_| {
            let pool = client.semaphore(pool.name());
            async move {
                while let Ok(permit) = pool.guard(1).await {
                    sleep(ms(1)).await;
                    drop(permit);
                }
            }
        });
        eventually(secs(20), "some are taken", async || pool.available_permits().await.unwrap() < 4).await;
        client.shutdown(secs(5)).await.unwrap();
        assert_eq!(pool.available_permits().await, Ok(4), "round {round}");
        patient_all("their waits end", takers).await;
    }
}
