//! What the locks on a hash add: who holds it, and ending a hold by force.

use crate::contract::world::*;

pub async fn who_holds_it(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (mine, other) = (case.owned(&a), case.owned(&b));
    assert_eq!(other.holder().await, None);
    assert!(!other.is_locked().await);
    assert_eq!(other.remaining_ttl().await, None);
    let owner = Owner::named("holder").unwrap();
    assert_eq!(mine.of(&owner).hold_count().await, 0);
    mine.of(&owner).verbs().lock().await.unwrap();
    assert_eq!(mine.of(&owner).hold_count().await, 1);
    // The same owner of another client is another owner, and so is another one of this client.
    assert_eq!(other.of(&owner).hold_count().await + mine.of(&Owner::unique()).hold_count().await, 0);
    let holder = other.holder().await.unwrap();
    assert_eq!((holder.client.as_str(), holder.count), (a.client_id(), 1));
    assert_eq!(holder.owner.as_str(), case.owner(&owner));
    assert!(holder.ttl.unwrap() > secs(5));
    assert_eq!(holder.field(), case.field(&a, "named-holder"));
    assert!(other.is_locked().await);
    assert!(other.remaining_ttl().await.unwrap() > secs(5));
    if !case.is_kind(&a, "grouped") {
        case.ask(&["PERSIST", &case.name]).await;
        assert_eq!(other.holder().await.unwrap().ttl, None);
    }
    mine.of(&owner).verbs().unlock().await.unwrap();
    assert_eq!(mine.of(&owner).hold_count().await, 0);
}

/// By a message, or by the next try of one that spins: others look after half a second, if not after a minute. A real
/// server's machine may be slower than that, so there it only comes.
pub async fn force_unlock_frees_and_wakes(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    assert!(!case.owned(&b).force_unlock().await);
    let guard = case.lock(&a).guard().await.unwrap();
    let waiter = spawn_with(case.rival(&b), |lock| async move { lock.guard().await });
    case.until_waiting(&b).await;
    assert!(case.owned(&a).force_unlock().await);
    let began = Instant::now();
    let next = patient("the waiter is woken", waiter).await.unwrap().unwrap();
    assert!(began.elapsed() <= case.bound(ms(100)), "{:?}", began.elapsed());
    assert!(guard.verify().await.is_err());
    assert_eq!(guard.lost().await.why, LostReason::Forced);
    drop(guard);
    next.verify().await.unwrap();
    next.unlock().await.unwrap();
}

pub async fn force_unlock_if_asks_who(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (lock, other) = (case.owned(&a), case.owned(&b));
    lock.verbs().lock().await.unwrap();
    let field = lock.holder().await.unwrap().field().to_owned();
    assert!(!other.force_unlock_if("somebody:else").await);
    assert!(!other.force_unlock_if("").await);
    assert!(lock.verbs().is_held().await.unwrap());
    assert!(other.force_unlock_if(&field).await);
    assert!(!lock.verbs().is_held().await.unwrap());
    assert!(!other.force_unlock_if(&field).await);
}

/// At once, in every form, and the hold is untouched; of the fair one nobody gets into the queue by that.
pub async fn it_is_not_entered_again(case: Case) {
    let (locks, owner) = (case.client().await, Owner::named("request-17").unwrap());
    let lock = case.lock(&locks).owned_by(&owner);
    lock.lock().await.unwrap();
    let before = case.stored(&locks).await;
    for again in [lock.lock().await, lock.try_lock().await.map(drop), lock.guard().await.map(drop)] {
        let Err(error @ LockError::AlreadyHeld { .. }) = again else { panic!("{again:?}") };
        // Redisson names a thread of its own (6.C.9).
        assert!(error.may_hold() && error.to_string().contains("named-request-17"), "{error}");
        assert!(error.to_string().contains(&case.name), "{error}");
    }
    assert_eq!(case.stored(&locks).await, before);
    assert_eq!(case.ask(&["EXISTS", &format!("redisson_lock_queue:{{{}}}", case.name)]).await, "0");
    if !case.is_kind(&locks, "plain") {
        // The same lock on the server: a reentrant handle of the same owner enters it, another owner does not.
        let reentrant = locks.lock(&case.name).owned_by(&owner);
        assert!(reentrant.try_lock().await.unwrap().is_acquired());
        assert!(!reentrant.owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
        reentrant.unlock().await.unwrap();
    }
    lock.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// Redisson's transactions: the owner with the id appended.
pub async fn transactions_of_one_task_exclude_each_other(case: Case) {
    let locks = case.client().await;
    let lock = locks.lock(&case.name).owned_by(&Owner::named("task").unwrap());
    let (one, two) = (lock.in_transaction("a1").unwrap(), lock.in_transaction("b2").unwrap());
    one.lock().await.unwrap();
    assert_eq!(case.ask(&["HKEYS", &case.name]).await, format!("{}:named-task:a1", locks.client_id()));
    assert!(!two.try_lock().await.unwrap().is_acquired() && !lock.try_lock().await.unwrap().is_acquired());
    assert!(one.try_lock().await.unwrap().is_acquired());
    assert_eq!(one.holder().await.unwrap().unwrap().owner.as_str(), "named-task:a1");
    assert!(two.unlock().await.is_err() && lock.unlock().await.is_err());
    one.unlock().await.unwrap();
    one.unlock().await.unwrap();
    assert!(two.try_lock().await.unwrap().is_acquired());
    assert!(lock.in_transaction("").is_err() && lock.in_transaction("a:b").is_err());
}
