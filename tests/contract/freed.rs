//! A lock that is gone from the server while a hold is on record here: the server is asked all the same (rule 15).

use futures::future::FutureExt;

use crate::contract::world::*;

/// Deletes the lock, its members where it is made of some.
async fn delete(case: &Case) {
    for member in case.members() {
        case.ask(&["DEL", &member]).await;
    }
}

/// By the head's own look, at most a cap after it came, or three for the members of a multi-lock.
pub async fn a_deleted_lock_is_free_here(case: Case) {
    let locks = case.client().await;
    let guard = case.lock(&locks).owned_by(&Owner::unique()).guard().await.unwrap();
    let began = Instant::now();
    let waiter = case.rival(&locks).owned_by(&Owner::unique());
    let waiter = begun(async move { waiter.guard().await }).await;
    sleep(ms(20)).await;
    delete(&case).await;
    let next = patient("the head looks", waiter).await.unwrap().unwrap();
    assert!(began.elapsed() <= case.bound(secs(3)), "{:?}", began.elapsed());
    // Before anybody knows of the new one.
    assert_eq!(guard.state(), HoldState::Lost);
    assert_eq!(guard.lost().now_or_never().expect("it is told").why, LostReason::Server);
    assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. } | UnlockError::Several { .. })));
    next.verify().await.unwrap();
    next.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// One that has become the head by a hand-over, and waits for a lease that nobody renews.
pub async fn every_head_looks(case: Case) {
    let locks = case.client_with(Locks::builder().wait_cap(ms(200))).await;
    let first = case.lock(&locks).owned_by(&Owner::unique()).guard().await.unwrap();
    let wait = || {
        let lock = case.lock(&locks).owned_by(&Owner::unique());
        begun(async move { lock.guard_with(Request::default().wait(secs(20)).lease(secs(300))).await })
    };
    let (second, third) = (wait().await, wait().await);
    first.unlock().await.unwrap();
    let second = patient("its turn", second).await.unwrap().unwrap().unwrap();
    delete(&case).await;
    let third = patient("the next one looks", third).await.unwrap().unwrap().unwrap();
    assert_eq!(second.state(), HoldState::Lost);
    drop(second);
    third.unlock().await.unwrap();
}

/// A force_unlock of its own client: nobody waits for a look or a renewal, which are a minute away.
pub async fn force_ends_the_hold_of_its_own_client(case: Case) {
    let locks = case.client_with(Locks::builder().wait_cap(secs(60)).watchdog_lease(secs(200))).await;
    let lock = case.owned(&locks).of(&Owner::named("holder").unwrap());
    for by_field in [false, true] {
        let guard = lock.verbs().guard().await.unwrap();
        let waiter = case.rival(&locks).owned_by(&Owner::unique());
        let waiter = begun(async move { waiter.guard().await }).await;
        let began = Instant::now();
        let field = lock.holder().await.unwrap().field().to_owned();
        assert!(if by_field { lock.force_unlock_if(&field).await } else { lock.force_unlock().await });
        assert_eq!(guard.lost().now_or_never().expect("it is told").why, LostReason::Forced);
        let next = patient("the waiter is woken", waiter).await.unwrap().unwrap();
        assert!(began.elapsed() <= case.bound(ms(100)), "{:?}", began.elapsed());
        assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. })));
        next.verify().await.unwrap();
        next.unlock().await.unwrap();
    }
    // A bare hold: said once.
    lock.verbs().lock().await.unwrap();
    assert!(lock.force_unlock().await);
    assert!(matches!(lock.verbs().lock().await, Err(LockError::Lost { .. })));
    lock.verbs().lock().await.unwrap();
    lock.verbs().unlock().await.unwrap();
}

/// Who waits hears by the message that what is held may be gone, also when another client was faster than the waiter.
pub async fn a_message_has_a_holder_asked(case: Case) {
    let builder = || Locks::builder().wait_cap(ms(300)).watchdog_lease(secs(300));
    let (a, b) = (case.client_with(builder()).await, case.client_with(builder()).await);
    let kind = format!("{:?}", case.lock(&b)).replace("fenced_", "");
    let channel = match &*kind {
        kind if kind.contains("\"plain\"") => format!("lockson:plain:{{{}}}", case.name),
        kind if kind.contains("\"write\"") => format!("redisson_rwlock:{{{}}}", case.name),
        // No messages, a channel for each waiter, several locks.
        kind if ["\"spin\"", "\"fair", "RedLock", "MultiLock"].iter().any(|other| kind.contains(other)) => return,
        _ => format!("redisson_lock__channel:{{{}}}", case.name),
    };
    let guard = case.lock(&a).owned_by(&Owner::unique()).guard().await.unwrap();
    let waiter = case.rival(&a).owned_by(&Owner::unique());
    let waiter = begun(async move { waiter.guard().await }).await;
    while a.health().subscriptions == 0 {
        sleep(ms(5)).await;
    }
    sleep(ms(50)).await;
    // One of another library was faster: in one script, as the waiter may come between two calls.
    let taken = match kind.contains("\"write\"") {
        true => "redis.call('HSET', KEYS[1], 'mode', 'write', 'java:1:write', '1')",
        false if kind.contains("\"plain\"") => "redis.call('SET', KEYS[1], 'java')",
        false if kind.contains("\"grouped\"") => {
            "redis.call('HSET', KEYS[1], ARGV[1], 'java:1', ARGV[1] .. ':java:1:expire_time', '9999999999999')"
        }
        false => "redis.call('HSET', KEYS[1], 'java:1', '1')",
    };
    let script = format!("redis.call('DEL', KEYS[1]) {taken} return redis.call('PEXPIRE', KEYS[1], 600000)");
    case.eval(&script, &[&case.name], &[VALUE]).await;
    case.ask(&[case.publish(), &channel, "0"]).await;
    let lost = patient("it is told", guard.lost()).await;
    assert_eq!(lost.why, LostReason::Server);
    delete(&case).await;
    patient("its turn", waiter).await.unwrap().unwrap().unlock().await.unwrap();
}

/// Rule 5, for a hold that nobody has a handle of.
pub async fn a_lost_bare_hold_is_said_to_new_handles(case: Case) {
    let locks = case.client().await;
    let owner = Owner::named("forgetful").unwrap();
    let lock = || case.lock(&locks).owned_by(&owner);
    assert!(lock().acquire_with(Request::default().lease(ms(200))).await.unwrap().is_acquired());
    sleep(ms(400)).await;
    assert!(matches!(lock().unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(lock().acquire_with(Request::default().lease(ms(200))).await.unwrap().is_acquired());
    sleep(ms(400)).await;
    assert!(matches!(lock().try_lock().await, Err(LockError::Lost { .. })));
    assert!(lock().try_lock().await.unwrap().is_acquired());
    lock().unlock().await.unwrap();
}

/// Who hands it over may keep that future and poll it no more, in the middle of the call: the next has it all the same.
pub async fn a_giver_need_not_be_polled(case: Case) {
    let client = case.client().await;
    let lock = |owner: &str| case.lock(&client).owned_by(&Owner::named(owner).unwrap());
    // The first time the server may have to be told of the scripts. A run's first hand-over is one, and that of who has
    // been in the server's queue; of a run, the others are none.
    for (is_polled, is_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut given = lock("holder").guard().await.unwrap();
        let [giver, next] = ["giver", "next"].map(lock);
        let giver = if is_first { None } else { Some(begun(async move { giver.guard().await }).await) };
        let next = begun(async move { next.guard().await }).await;
        if let Some(giver) = giver {
            // They stand in the server's queue by then, where there is one.
            sleep(ms(50)).await;
            given.unlock().await.unwrap();
            given = patient("the first", giver).await.unwrap().unwrap();
        }
        let mut unlock = Box::pin(given.unlock());
        if is_polled {
            unlock.await.unwrap();
            drop(patient("the next", next).await.unwrap().unwrap());
        } else {
            let given = futures::poll!(unlock.as_mut());
            drop(patient("the next", next).await.unwrap().unwrap());
            if given.is_pending() {
                patient("who gave it", unlock).await.unwrap();
            }
        }
        eventually(secs(5), "nobody has it", || async { case.is_free().await }).await;
    }
}
