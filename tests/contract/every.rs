//! What every lock promises. Names say the promise; "rule n" is docs/PROTOCOL.md's.

use std::sync::Mutex;

use crate::contract::world::*;

pub async fn one_owner_at_a_time(case: Case) {
    let clients = [case.client().await, case.client().await];
    let (inside, turns) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks = spawn_each(0..8, |task| {
        let (lock, inside, turns) = (case.lock(&clients[task % 2]), inside.clone(), turns.clone());
        async move {
            for _ in 0..10 {
                lock.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                turns.fetch_add(1, Ordering::SeqCst);
                lock.unlock().await.unwrap();
            }
        }
    });
    patient_all("the tasks take turns", tasks).await;
    assert_eq!(turns.load(Ordering::SeqCst), 80);
    assert!(case.is_free().await);
}

pub async fn try_lock_says_busy(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    assert!(case.lock(&a).try_lock().await.unwrap().is_acquired());
    assert!(!case.rival(&b).try_lock().await.unwrap().is_acquired());
    let stranger = case.rival(&a).owned_by(&Owner::unique());
    assert!(!stranger.try_lock().await.unwrap().is_acquired());
    assert!(stranger.guard_with(Request::one_attempt()).await.unwrap().is_none());
    case.lock(&a).unlock().await.unwrap();
    assert!(case.rival(&b).try_lock().await.unwrap().is_acquired());
}

pub async fn unlock_by_another_changes_nothing(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    case.lock(&a).lock().await.unwrap();
    let before = case.stored(&a).await;
    let stranger = Owner::named("stranger").unwrap();
    let error = case.lock(&b).owned_by(&stranger).unlock().await.unwrap_err();
    let name = case.lock(&b).name().to_owned();
    match &error {
        UnlockError::NotHeld { name: told, owner, .. } => {
            assert_eq!((told, owner.as_str()), (&name, &case.owner(&stranger)[..]));
        }
        other => panic!("{other:?}"),
    }
    assert!(!error.may_hold() && error.to_string().contains(&case.name) && error.to_string().contains("stranger"));
    assert_eq!(case.stored(&a).await, before);
    case.lock(&a).unlock().await.unwrap();
}

pub async fn wait_limit_ends_as_busy(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    case.lock(&a).lock().await.unwrap();
    let began = Instant::now();
    assert!(!case.rival(&b).acquire_with(Request::default().wait(ms(200))).await.unwrap().is_acquired());
    assert!(began.elapsed() >= ms(200));
    assert!(!case.rival(&b).acquire_with(Request::default().wait(Duration::ZERO)).await.unwrap().is_acquired());
    case.lock(&a).unlock().await.unwrap();
    assert!(case.rival(&b).acquire_with(Request::default().wait(secs(5))).await.unwrap().is_acquired());
}

/// Rule 15: by the message, long before the lease or the cap.
pub async fn a_release_wakes_the_other_client(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let guard = case.lock(&a).guard().await.unwrap();
    let waiter = spawn_with(case.rival(&b), |lock| async move { lock.guard().await.unwrap().unlock().await });
    case.until_waiting(&b).await;
    // Its second attempt passes, so that only the message can wake it. (Who listens to none asks again and again.)
    if b.health().subscriptions > 0 {
        sleep(ms(200)).await;
    }
    let began = Instant::now();
    guard.unlock().await.unwrap();
    patient("the message wakes the waiter", waiter).await.unwrap().unwrap();
    assert!(began.elapsed() < case.bound(ms(100)));
}

pub async fn an_expired_lease_lets_the_next_in(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let began = Instant::now();
    assert!(case.lock(&a).acquire_with(Request::default().lease(ms(300))).await.unwrap().is_acquired());
    assert!(case.rival(&b).acquire_with(Request::default().wait(secs(20))).await.unwrap().is_acquired());
    assert!(began.elapsed() >= ms(250) && began.elapsed() < case.bound(secs(2)));
    assert!(matches!(case.lock(&a).unlock().await, Err(UnlockError::NotHeld { .. })));
    case.rival(&b).unlock().await.unwrap();
}

pub async fn a_fixed_lease_is_not_renewed(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let request = Request::default().lease(ms(600));
    let guard = case.lock(&locks).guard_with(request).await.unwrap().unwrap();
    assert!(case.pttl().await <= 600 && guard.remaining() <= ms(594));
    patient("the lease ends", guard.lost()).await;
    assert_eq!((guard.state(), guard.remaining()), (HoldState::Lost, Duration::ZERO));
}

/// Rule 11: each third of the lease, and no more after the unlock.
pub async fn the_watchdog_renews_and_stops_at_unlock(case: Case) {
    let lease = secs(3);
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(lease)).await;
    // Redisson's short locks of the last period add half a renewal a second each (6.B.6).
    for _ in 0..50 {
        case.lock(&locks).guard().await.unwrap().unlock().await.unwrap();
    }
    let guard = case.lock(&locks).guard().await.unwrap();
    let before = case.calls();
    sleep(lease * 3 / 2).await;
    if let Some(calls) = case.calls_since(before) {
        assert!(calls <= 15, "{calls} scripts");
    }
    assert_eq!(guard.state(), HoldState::Held);
    assert!(case.pttl().await > 0);
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
    sleep(lease / 2).await;
    assert!(case.is_free().await && locks.health().holds == 0);
}

/// Rule 8.
pub async fn max_hold_ends_renewal(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let lock = case.lock(&locks);
    assert!(lock.acquire_with(Request::default().max_hold(ms(900))).await.unwrap().is_acquired());
    sleep(ms(800)).await;
    assert!(!case.is_free().await);
    let began = Instant::now();
    eventually(secs(20), "it ends", async || case.is_free().await).await;
    assert!(began.elapsed() <= case.bound(ms(1800)));
    let unlocked = lock.unlock().await;
    assert!(matches!(unlocked, Err(UnlockError::NotHeld { .. })), "{unlocked:?}");
}

/// Rule 7.
pub async fn a_dropped_wait_leaves_nothing(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = case.lock(&a).guard().await.unwrap();
    let waiter = spawn_with(case.rival(&b), |lock| async move { lock.lock().await });
    case.until_waiting(&b).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    guard.unlock().await.unwrap();
    // What it sent before may take the lock once more, and is given back.
    eventually(secs(20), "nothing is left", async || case.is_free().await).await;
    // A writer that waited may have readers let it go first until its client has said that it is gone.
    eventually(secs(20), "others come in", async || case.lock(&a).try_lock().await.unwrap().is_acquired()).await;
    sleep(secs(6)).await;
    assert_eq!(b.health().subscriptions, 0, "the linger is over");
}

/// Rule 16: FIFO inside a process, by hand-over.
pub async fn waiters_of_a_process_are_served_in_order(case: Case) {
    let locks = case.client().await;
    let guard = case.lock(&locks).guard().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..20 {
        let (lock, served) = (case.lock(&locks), served.clone());
        let (began, begun) = tokio::sync::oneshot::channel();
        waiters.push(tokio::spawn(async move {
            let mut wait = std::pin::pin!(lock.guard());
            assert!(futures::poll!(wait.as_mut()).is_pending());
            began.send(()).unwrap();
            let guard = wait.await.unwrap();
            served.lock().unwrap().push(number);
            guard.unlock().await.unwrap();
        }));
        begun.await.unwrap();
    }
    guard.unlock().await.unwrap();
    patient_all("every waiter is served", waiters).await;
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert!(case.is_free().await);
}

pub async fn a_bad_name_is_the_first_verbs_error(case: Case) {
    let locks = case.client().await;
    let long = "x".repeat(513);
    for name in ["", &long, "a{b", "a}b", "{}", "{}x", "new\nline", "nul\0", "redisson_lock_queue:{x}", "{x}:timeout"] {
        let lock = (case.kind.lock)(&locks, name);
        assert!(matches!(lock.lock().await, Err(LockError::Query(QueryError::Name(_)))), "{name:?}");
        assert!(matches!(lock.try_lock().await, Err(LockError::Query(QueryError::Name(_)))), "{name:?}");
        assert!(matches!(lock.guard().await, Err(LockError::Query(QueryError::Name(_)))), "{name:?}");
        assert!(matches!(lock.unlock().await, Err(UnlockError::Query(QueryError::Name(_)))), "{name:?}");
        assert!(lock.is_held().await.is_err(), "{name:?}");
    }
}

pub async fn a_bad_lease_or_wait_is_refused(case: Case) {
    let locks = case.client_with(Locks::builder().max_lease(secs(60))).await;
    for lease in [Duration::ZERO, Duration::from_nanos(1), ms(99), ms(60_001), Duration::MAX] {
        let request = Request::default().lease(lease);
        let refused = case.lock(&locks).acquire_with(request).await;
        assert_eq!(refused, Err(LockError::Lease(InvalidLease { lease, min: ms(100), max: secs(60) })));
    }
    let beyond_the_clock = case.lock(&locks).acquire_with(Request::default().wait(Duration::MAX)).await;
    assert_eq!(beyond_the_clock, Err(LockError::Wait(Duration::MAX)));
    assert!(case.is_free().await);
    // On a busy machine it is over before the answer is there.
    let shortest = case.lock(&locks).acquire_with(Request::default().lease(ms(100))).await;
    assert_matches!(shortest, Ok(Acquired) | Err(LockError::Query(QueryError::Unreachable { .. })));
}

pub async fn a_key_of_another_type_is_refused(case: Case) {
    let locks = case.client().await;
    case.ask(&["RPUSH", &case.name, "mine"]).await;
    let lock = case.lock(&locks);
    assert!(matches!(lock.lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
    assert!(matches!(lock.try_lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
    assert!(lock.is_held().await.unwrap_err().to_string().contains("is something else"));
    assert_eq!(case.ask(&["LRANGE", &case.name, "0", "-1"]).await, "mine");
    assert_eq!(case.ask(&["PTTL", &case.name]).await, "-1");
}

/// Rule 5: a count that this client did not write. A token that it did not write is somebody else's.
pub async fn a_tampered_hold_is_refused(case: Case) {
    let locks = case.client().await;
    let lock = case.lock(&locks).owned_by(&Owner::named("me").unwrap());
    if case.is_kind(&locks, "plain") {
        lock.lock().await.unwrap();
        case.ask(&["SET", &case.name, "tampered", "PX", "9000"]).await;
        assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
        assert!(!lock.try_lock().await.unwrap().is_acquired() && !case.is_free().await);
        return;
    }
    let field = case.count_field(&locks, "named-me");
    for count in ["7", "nonsense", "9223372036854775807"] {
        lock.lock().await.unwrap();
        case.ask(&["HSET", &case.name, &field, count]).await;
        let tampered = UnlockError::Query(QueryError::Tampered { name: case.name.clone(), found: count.to_owned() });
        assert_eq!(lock.unlock().await, Err(tampered));
        assert_eq!(case.ask(&["HGET", &case.name, &field]).await, count);
        assert!(matches!(lock.lock().await, Err(LockError::Query(QueryError::Tampered { .. }))), "{count}");
        case.ask(&["DEL", &case.name]).await;
    }
}

/// In every form: the future, not the call, has the owner, and keeps it wherever it goes on.
pub async fn an_owner_is_read_at_the_first_poll(case: Case) {
    let (locks, other) = (case.client().await, case.client().await);
    let (lock, scope) = (case.lock(&locks), Owner::named("scope").unwrap());
    let rival = case.rival(&other).guard().await.unwrap();
    let mut wait = lock.guard();
    assert!(scope.clone().scope(async { futures::poll!(wait.as_mut()).is_pending() }).await);
    rival.unlock().await.unwrap();
    let guard = patient("its turn", wait).await.unwrap();
    assert_eq!(guard.owner().as_str(), case.owner(&scope));
    assert!(case.is_kind(&locks, "plain") || case.stored(&locks).await.contains("named-scope"));
    guard.unlock().await.unwrap();
}

pub async fn is_held_is_about_this_owner(case: Case) {
    let locks = case.client().await;
    let (lock, owner) = (case.lock(&locks), Owner::named("me").unwrap());
    assert!(!lock.is_held().await.unwrap());
    lock.lock().await.unwrap();
    assert!(lock.is_held().await.unwrap());
    assert!(!lock.owned_by(&Owner::unique()).is_held().await.unwrap());
    lock.unlock().await.unwrap();
    assert!(!lock.is_held().await.unwrap());
    assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
    let guard = lock.owned_by(&owner).guard().await.unwrap();
    assert_eq!((guard.name(), guard.owner().as_str()), (lock.name(), &*case.owner(&owner)));
    assert!(format!("{lock:?}").contains(&case.name) && lock.name().contains(&case.name));
    assert!(format!("{guard:?}").contains("Held"), "{guard:?}");
    guard.unlock().await.unwrap();
}

/// Redisson waits for ever for a key without a TTL (6.A.6); here the cap ends each sleep.
pub async fn a_key_without_ttl_is_asked_again(case: Case) {
    let locks = case.client_with(Locks::builder().wait_cap(ms(100))).await;
    case.take_without_lease(&locks).await;
    let waiter = spawn_with(case.lock(&locks), |lock| async move { lock.guard().await });
    case.until_waiting(&locks).await;
    assert!(!waiter.is_finished());
    case.ask(&["DEL", &case.name]).await;
    patient("the waiter looks again", waiter).await.unwrap().unwrap().unlock().await.unwrap();
}
