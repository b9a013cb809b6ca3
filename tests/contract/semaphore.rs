//! The semaphore: what it counts, whom it serves, and that no permit is lost or made by copies, drops and errors.

use std::sync::Mutex;

use futures::future::FutureExt;
use lockson::Semaphore;

use crate::contract::world::*;

async fn with_permits(case: &Case, locks: &Locks, permits: u32) -> Semaphore {
    let semaphore = locks.semaphore(&case.name);
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// Awaits that so many are free: a dropped guard gives back in the background.
async fn until_free(semaphore: &Semaphore, permits: i64) {
    eventually(secs(20), "the permits", async || semaphore.available_permits().await.unwrap() == permits).await;
}

pub async fn permits_are_counted(case: Case) {
    let locks = case.client().await;
    let semaphore = locks.semaphore(&case.name);
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    assert!(!semaphore.try_acquire(1).await.unwrap().is_acquired());
    assert!(!semaphore.release_if_exists(3).await.unwrap());
    assert!(case.is_free().await);
    assert!(semaphore.try_set_permits(10).await.unwrap());
    assert!(!semaphore.try_set_permits(20).await.unwrap());
    assert!(semaphore.acquire(3).await.unwrap().is_acquired());
    assert_eq!(semaphore.available_permits().await.unwrap(), 7);
    assert!(!semaphore.try_acquire(8).await.unwrap().is_acquired());
    assert!(semaphore.try_acquire(7).await.unwrap().is_acquired());
    semaphore.release(2).await.unwrap();
    assert!(semaphore.release_if_exists(3).await.unwrap());
    assert_eq!(semaphore.drain_permits().await.unwrap(), 5);
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    semaphore.add_permits(4).await.unwrap();
    semaphore.reduce_permits(6).await.unwrap();
    assert_eq!(semaphore.available_permits().await.unwrap(), -2);
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    semaphore.release(3).await.unwrap();
    assert!(semaphore.try_acquire(1).await.unwrap().is_acquired());
    assert_eq!(case.ask(&["GET", &case.name]).await, "0");
}

/// What a handle did says nothing to a later one of that name, nor to the other kinds of that name.
pub async fn handles_come_and_go(case: Case) {
    let locks = case.client().await;
    assert!(locks.semaphore(&case.name).try_set_permits(100).await.unwrap());
    for taken in 1..=10 {
        assert!(locks.semaphore(&case.name).try_acquire(1).await.unwrap().is_acquired());
        assert!(locks.permit_semaphore(&case.name).acquire(1).ids(secs(60)).await.unwrap().is_some());
        assert_eq!(locks.semaphore(&case.name).available_permits().await.unwrap(), 100 - 2 * taken);
    }
    for given in 1..=10 {
        locks.semaphore(&case.name).release(1).await.unwrap();
        assert_eq!(locks.semaphore(&case.name).available_permits().await.unwrap(), 80 + given);
    }
    let latch = format!("{}-latch", case.name);
    assert!(locks.latch(&latch).try_set_count(10).await.unwrap());
    for left in (0..10).rev() {
        assert_eq!(locks.latch(&latch).count_down().await.unwrap(), Some(left));
    }
}

pub async fn a_guard_gives_back_when_dropped(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 5).await;
    let guard = semaphore.guard(2).await.unwrap();
    let other = semaphore.acquire(3).guard().await.unwrap().unwrap();
    assert_eq!((guard.count(), semaphore.available_permits().await.unwrap()), (2, 0));
    assert!(semaphore.acquire(1).wait(ms(50)).guard().await.unwrap().is_none());
    drop(guard);
    until_free(&semaphore, 2).await;
    other.release().await.unwrap();
    assert_eq!(semaphore.available_permits().await.unwrap(), 5);
    // A guard makes no semaphore out of nothing.
    let guard = semaphore.guard(1).await.unwrap();
    case.ask(&["DEL", &case.name]).await;
    guard.release().await.unwrap();
    assert!(case.is_free().await);
}

/// Permits of a semaphore that was deleted are not given to the next one of its name.
pub async fn a_semaphore_that_was_deleted_and_set_again(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 3).await;
    let [first, second] = [semaphore.guard(2).await.unwrap(), semaphore.guard(1).await.unwrap()];
    case.ask(&["DEL", &case.name]).await;
    assert!(semaphore.try_set_permits(3).await.unwrap());
    let own = semaphore.guard(1).await.unwrap();
    first.release().await.unwrap();
    drop(second);
    own.release().await.unwrap();
    locks.shutdown(secs(5)).await.unwrap();
    let free = async || case.client().await.semaphore(&case.name).available_permits().await.unwrap();
    assert_eq!(free().await, 3);
    // One that Java sets, after a call found that there is none.
    let locks = case.client().await;
    let semaphore = locks.semaphore(&case.name);
    let guard = semaphore.guard(3).await.unwrap();
    case.ask(&["DEL", &case.name]).await;
    assert!(!semaphore.try_acquire(1).await.unwrap().is_acquired());
    case.ask(&["SET", &case.name, "3"]).await;
    guard.release().await.unwrap();
    assert_eq!(free().await, 3);
    // And one that only Java set is used as it is.
    semaphore.guard(2).await.unwrap().release().await.unwrap();
    assert_eq!(free().await, 3);
}

/// A release wakes another client's waiters, as many as it can satisfy, by one message.
pub async fn a_release_serves_as_many_as_fit(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let semaphore = with_permits(&case, &a, 5).await;
    assert!(semaphore.acquire(5).await.unwrap().is_acquired());
    let waiters = join_all((0..5).map(|_| begun(taken(b.semaphore(&case.name), 1)))).await;
    case.until_waiting(&b).await;
    let before = case.calls();
    semaphore.release(3).await.unwrap();
    let mut waiters = waiters.into_iter();
    let mut guards = patient_all("one of three", waiters.by_ref().take(3)).await;
    assert!(waiters.as_slice().iter().all(|waiter| !waiter.is_finished()));
    // The release, one script for the three, and one of the next in line.
    sleep(ms(20)).await;
    if let Some(calls) = case.calls_since(before) {
        assert!(calls <= 3, "{calls} scripts");
    }
    semaphore.release(2).await.unwrap();
    guards.extend(patient_all("one of two", waiters).await);
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    drop(guards);
    until_free(&semaphore, 5).await;
}

async fn taken(semaphore: Semaphore, permits: u32) -> lockson::SemaphorePermit {
    semaphore.guard(permits).await.unwrap()
}

/// Small requests that come behind a large one are served behind it.
pub async fn a_large_request_is_not_starved(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let semaphore = with_permits(&case, &a, 4).await;
    assert!(semaphore.acquire(4).await.unwrap().is_acquired());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for permits in [1, 4, 1, 2, 3] {
        let (semaphore, order) = (b.semaphore(&case.name), order.clone());
        let task = async move {
            let guard = semaphore.guard(permits).await.unwrap();
            order.lock().unwrap().push(permits);
            guard.release().await.unwrap();
        };
        tasks.push(begun(task).await);
    }
    case.until_waiting(&b).await;
    // One that does not wait does not overtake either.
    semaphore.release(3).await.unwrap();
    assert!(!b.semaphore(&case.name).try_acquire(4).await.unwrap().is_acquired());
    semaphore.release(1).await.unwrap();
    patient_all("its turn", tasks).await;
    let order = order.lock().unwrap().clone();
    // The last three fit in pairs.
    assert_eq!(order[..2], [1, 4], "{order:?}");
    assert_eq!(semaphore.available_permits().await.unwrap(), 4);
}

pub async fn a_wait_limit_ends_as_busy(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 1).await;
    let guard = semaphore.guard(1).await.unwrap();
    assert!(!semaphore.acquire(1).wait(ms(150)).await.unwrap().is_acquired());
    assert!(semaphore.acquire(1).wait(ms(150)).guard().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(semaphore.acquire(1).wait(secs(20)).await.unwrap().is_acquired());
    let error = semaphore.acquire(1).wait(std::time::Duration::MAX).await.unwrap_err();
    assert_eq!(error, SyncError::Wait(std::time::Duration::MAX));
}

/// Dropped after each number of polls: nothing is taken, and the next waiter is served.
pub async fn a_dropped_wait_leaves_nothing(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 3).await;
    for polls in 0..6 {
        for permits in [2, 4] {
            drop(poll_times(polls, semaphore.guard(permits).boxed()).await);
            until_free(&semaphore, 3).await;
            assert!(patient("the permits", semaphore.acquire(3).into_future()).await.unwrap().is_acquired());
            semaphore.release(3).await.unwrap();
        }
        let drained = poll_times(polls, semaphore.drain_permits().boxed()).await.map_or(0, Result::unwrap);
        if drained > 0 {
            semaphore.release(drained).await.unwrap();
        }
        until_free(&semaphore, 3).await;
    }
}

/// The first of those who wait asks for all: who is gone before it looks gives back what it got by that.
pub async fn a_dropped_waiter_gives_back_what_another_got_it(case: Case) {
    let locks = case.sleepy_client().await;
    let semaphore = with_permits(&case, &locks, 2).await;
    let held = semaphore.guard(2).await.unwrap();
    let first = begun(taken(semaphore.clone(), 1)).await;
    let mut second = semaphore.guard(1).boxed();
    assert!(futures::poll!(&mut second).is_pending());
    case.until_waiting(&locks).await;
    held.release().await.unwrap();
    let first = patient("the first", first).await.unwrap();
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    drop(second);
    until_free(&semaphore, 1).await;
    first.release().await.unwrap();
}

pub async fn bad_input_is_refused(case: Case) {
    let locks = case.client().await;
    let semaphore = locks.semaphore(&case.name);
    let max = i32::MAX as u32;
    for asked in [0, max + 1, u32::MAX] {
        let error = SyncError::Count { asked: asked.into(), max };
        assert_eq!(semaphore.try_set_permits(asked).await, Err(error.clone()));
        assert_eq!(semaphore.add_permits(asked).await, Err(error.clone()));
        assert_eq!(semaphore.reduce_permits(asked).await, Err(error.clone()));
        assert_eq!(semaphore.try_acquire(asked).await, Err(error.clone()));
        assert_eq!(semaphore.acquire(asked).await, Err(error.clone()));
        assert_eq!(semaphore.guard(asked).await.map(drop), Err(error.clone()));
        assert_eq!(semaphore.release(asked).await, Err(error.clone()));
        assert_eq!(semaphore.release_if_exists(asked).await, Err(error));
    }
    assert!(case.is_free().await);
    // Java counts no further.
    assert!(semaphore.try_set_permits(max).await.unwrap());
    assert!(matches!(semaphore.release(1).await, Err(SyncError::Query(QueryError::Refused { .. }))));
    assert_eq!(semaphore.available_permits().await.unwrap(), i64::from(max));
    let guard = semaphore.guard(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    guard.release().await.unwrap();
    case.ask(&["DEL", &case.name]).await;
    let unnamed = locks.semaphore("");
    assert_eq!(unnamed.try_acquire(1).await, Err(SyncError::Query(QueryError::Name(NameError::Empty))));
    assert_eq!(unnamed.available_permits().await, Err(SyncError::Query(QueryError::Name(NameError::Empty))));
    for (command, value) in [(["HSET", "f", "v"], None), (["SET", "ten", ""], Some("ten"))] {
        let key = [command[0], &case.name, command[1], command[2]];
        case.ask(if value.is_some() { &key[..3] } else { &key }).await;
        for error in [
            semaphore.try_set_permits(1).await.map(drop),
            semaphore.try_acquire(1).await.map(drop),
            semaphore.release(1).await,
            semaphore.drain_permits().await.map(drop),
            semaphore.available_permits().await.map(drop),
        ] {
            assert!(matches!(error, Err(SyncError::Query(QueryError::WrongType { .. }))), "{error:?}");
        }
        case.ask(&["DEL", &case.name]).await;
    }
}

/// Copies of one call: they do their work once, an answer is the first one's, and after a cancellation there is none.
pub async fn copies_of_a_call_do_it_once(case: Case) {
    let acquire = support::lua!("once", "semaphore/acquire");
    let change = support::lua!("announce", "once", "semaphore/change");
    let cancel = support::lua!("announce", "once", "cancel");
    let (name, receipt) = (case.name.as_str(), format!("lockson:receipt:{{{}}}:test", case.name));
    let life = case.beside("life");
    let free = async || case.ask(&["GET", name]).await;
    let ask = async |script: &str, announces: &[&str], args: &[&str]| {
        case.copy(script, SOON, &[name, &life, &receipt], &[args, announces].concat()).await
    };
    let channel = ["PUBLISH", "test-channel"];
    case.ask(&["SET", name, "10"]).await;
    // The longest part that fits, in their order: never the third before the second.
    for _ in 0..3 {
        assert_eq!(ask(acquire, &[], &["1", "60000", "3", "8", "1"]).await, "1 1 3 none");
        assert_eq!(free().await, "7");
    }
    assert!(case.pttl_of(&receipt).await > 50_000);
    assert_eq!(ask(acquire, &[], &["2", "60000", "3", "4", "1"]).await, "1 2 7 none");
    assert_eq!(free().await, "0");
    assert_eq!(ask(acquire, &[], &["3", "60000", "1"]).await, "0");
    // Cancelled when it was done: once.
    for answer in ["1", "0", "0"] {
        assert_eq!(ask(cancel, &channel, &["2", "60000"]).await, answer);
        assert_eq!(free().await, "7");
    }
    // A copy that comes after that takes nothing; nor where the cancellation came first of all.
    assert_eq!(ask(acquire, &[], &["2", "60000", "3", "4", "1"]).await, "0");
    assert_eq!(ask(cancel, &channel, &["4", "60000"]).await, "0");
    assert_eq!(ask(acquire, &[], &["4", "60000", "1"]).await, "0");
    assert_eq!(free().await, "7");
    for _ in 0..3 {
        assert_eq!(ask(change, &channel, &["5", "60000", "3", "always"]).await, "1");
        assert_eq!(free().await, "10");
    }
    assert_eq!(ask(cancel, &channel, &["5", "60000"]).await, "1");
    assert_eq!(free().await, "7");
    assert_eq!(ask(acquire, &[], &["6", "60000", "all"]).await, "1 1 7 none");
    assert_eq!(ask(acquire, &[], &["6", "60000", "all"]).await, "1 1 7 none");
    // Too late: nothing.
    let args = ["7", "60000", "5", "always", "PUBLISH", "c"];
    assert_eq!(case.copy(change, LATE, &[name, &life, &receipt], &args).await, "2");
    assert_eq!(free().await, "0");
}

/// What is left on the server: the number, and receipts that end, no more of them than calls at once.
pub async fn receipts_are_few_and_end(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 2).await;
    for _ in 0..20 {
        semaphore.guard(1).await.unwrap().release().await.unwrap();
    }
    let mut receipts = 0;
    for lane in 1..100 {
        let key = format!("lockson:receipt:{{{}}}:{}:{lane}", case.name, locks.client_id());
        let left = case.pttl_of(&key).await;
        assert_ne!(left, -1, "it never ends");
        receipts += u32::from(left > 0);
    }
    assert_eq!(receipts, 1);
    assert_eq!(case.ask(&["GET", &case.name]).await, "2");
    assert_eq!(case.pttl().await, -1);
}
