//! The latch: who waits is let go once, when the count is zero or the latch is deleted.

use lockson::Latch;

use crate::contract::world::*;

async fn waited(latch: Latch) -> WaitOutcome {
    latch.wait().await.unwrap()
}

pub async fn a_latch_counts_down(case: Case) {
    let locks = case.client().await;
    let latch = locks.latch(&case.name);
    // One that nobody has set is open, as in Redisson.
    assert_eq!((latch.count().await.unwrap(), latch.wait().await.unwrap()), (0, WaitOutcome::Opened));
    assert_eq!(latch.count_down().await.unwrap(), None);
    assert!(!latch.delete().await.unwrap());
    assert!(case.is_free().await);
    assert!(latch.try_set_count(2).await.unwrap());
    assert!(!latch.try_set_count(3).await.unwrap());
    assert_eq!(case.ask(&["GET", &case.name]).await, "2");
    assert_eq!(latch.wait_for(ms(50)).await.unwrap(), WaitOutcome::TimedOut);
    assert_eq!(latch.wait_for(ms(0)).await.unwrap(), WaitOutcome::TimedOut);
    assert_eq!(latch.count_down().await.unwrap(), Some(1));
    assert_eq!(latch.count_down().await.unwrap(), Some(0));
    assert_eq!((latch.count().await.unwrap(), latch.wait().await.unwrap()), (0, WaitOutcome::Opened));
    assert!(case.is_free().await);
    assert!(latch.try_set_count(1).await.unwrap());
    assert!(latch.delete().await.unwrap());
    assert!(case.is_free().await);
}

/// All waiters of all clients, by one message, and one look a client.
pub async fn all_waiters_are_let_go(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let latch = a.latch(&case.name);
    assert!(latch.try_set_count(2).await.unwrap());
    let waiters: Vec<_> = (0..40).map(|n| tokio::spawn(waited([&a, &b][n % 2].latch(&case.name)))).collect();
    case.until_waiting(&a).await;
    case.until_waiting(&b).await;
    latch.count_down().await.unwrap();
    sleep(ms(50)).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    latch.count_down().await.unwrap();
    let ended = patient_all("the latch", waiters).await;
    assert!(ended.iter().all(|outcome| *outcome == WaitOutcome::Opened), "{ended:?}");
}

pub async fn deletion_ends_waits(case: Case) {
    // By its own message; and set again before anybody can look, which says something too.
    for is_set_again in [false, true] {
        let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
        let name = format!("{}:{is_set_again}", case.name);
        let (latch, waiting) = (a.latch(&name), b.latch(&name));
        assert!(latch.try_set_count(2).await.unwrap());
        let waiters = join_all((0..10).map(|_| begun(waited(waiting.clone())))).await;
        // Answered behind their looks.
        assert_eq!(waiting.count().await.unwrap(), 2);
        case.until_waiting(&b).await;
        // Behind their second looks, too.
        sleep(ms(50)).await;
        assert!(latch.delete().await.unwrap());
        let later = match is_set_again {
            true => latch.try_set_count(1).await.unwrap().then(|| tokio::spawn(waited(waiting))),
            false => None,
        };
        let ended = patient_all("the end", waiters).await;
        assert!(ended.iter().all(|outcome| *outcome == WaitOutcome::Deleted), "{ended:?}");
        let Some(later) = later else { continue };
        sleep(ms(50)).await;
        assert!(!later.is_finished());
        assert_eq!(latch.count_down().await.unwrap(), Some(0));
        assert_eq!(patient("the second", later).await.unwrap(), WaitOutcome::Opened);
    }
}

/// Redisson's `delete()`, or an operator's DEL, says nothing: found within the cap, and not told from an open latch.
pub async fn a_latch_that_vanishes_is_open(case: Case) {
    let locks = case.client().await;
    let latch = locks.latch(&case.name);
    assert!(latch.try_set_count(2).await.unwrap());
    let waiters: Vec<_> = (0..10).map(|_| tokio::spawn(waited(locks.latch(&case.name)))).collect();
    case.until_waiting(&locks).await;
    case.ask(&["DEL", &case.name]).await;
    let ended = patient_all("the cap", waiters).await;
    assert!(ended.iter().all(|outcome| *outcome == WaitOutcome::Opened), "{ended:?}");
}

/// Redisson's opening is but a message `0`: it lets go who waited before it, though another latch is there by then.
pub async fn an_opening_by_java_and_a_new_latch(case: Case) {
    let locks = case.client().await;
    let latch = locks.latch(&case.name);
    assert!(latch.try_set_count(1).await.unwrap());
    let waiters: Vec<_> = (0..10).map(|_| tokio::spawn(waited(locks.latch(&case.name)))).collect();
    case.until_waiting(&locks).await;
    // Each is behind its look, and hears.
    sleep(secs(1)).await;
    let opened_and_set = "redis.call('DEL', KEYS[1]) redis.call(ARGV[2], ARGV[1], '0') \
        redis.call('SET', KEYS[1], '3') redis.call(ARGV[2], ARGV[1], '1') return {1}";
    let channel = format!("redisson_countdownlatch__channel__{{{}}}", case.name);
    case.eval(opened_and_set, &[&case.name], &[&channel, case.publish()]).await;
    let later = latch.wait_for(ms(300));
    let ended = patient_all("the opening", waiters).await;
    assert!(ended.iter().all(|outcome| *outcome == WaitOutcome::Opened), "{ended:?}");
    assert_eq!(later.await, Ok(WaitOutcome::TimedOut));
    assert_eq!(latch.count().await, Ok(3));
}

/// A waiter that goes away while it looks for all leaves that to the next.
pub async fn a_dropped_waiter_passes_on_its_part(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    let latch = a.latch(&case.name);
    assert!(latch.try_set_count(1).await.unwrap());
    let mut waiters = Vec::new();
    for _ in 0..6 {
        waiters.push(tokio::spawn(waited(b.latch(&case.name))));
        case.until_waiting(&b).await;
    }
    sleep(ms(50)).await;
    let last = waiters.pop().unwrap();
    for waiter in &waiters[..3] {
        waiter.abort();
    }
    assert_eq!(latch.count_down().await.unwrap(), Some(0));
    for waiter in &waiters[3..] {
        waiter.abort();
    }
    assert_eq!(patient("the latch", last).await.unwrap(), WaitOutcome::Opened);
}

pub async fn bad_input_for_a_latch_is_refused(case: Case) {
    let locks = case.client().await;
    let latch = locks.latch(&case.name);
    let max = i32::MAX as u32;
    for asked in [0, max + 1] {
        assert_eq!(latch.try_set_count(asked).await, Err(SyncError::Count { asked: asked.into(), max }));
    }
    let forever = std::time::Duration::MAX;
    assert_eq!(latch.wait_for(forever).await, Err(SyncError::Wait(forever)));
    assert_eq!(locks.latch("").wait().await, Err(SyncError::Query(QueryError::Name(NameError::Empty))));
    assert!(case.is_free().await);
    // Another type, and another program's text.
    for value in [None, Some("text")] {
        match value {
            None => case.ask(&["HSET", &case.name, "f", "v"]).await,
            Some(text) => case.ask(&["SET", &case.name, text]).await,
        };
        is_no_latch(&latch).await;
    }
    assert_eq!(case.ask(&["GET", &case.name]).await, "text");
}

async fn is_no_latch(latch: &Latch) {
    for error in [
        latch.try_set_count(1).await.map(drop),
        latch.count_down().await.map(drop),
        latch.delete().await.map(drop),
        latch.count().await.map(drop),
        latch.wait().await.map(drop),
    ] {
        assert!(matches!(error, Err(SyncError::Query(QueryError::WrongType { .. }))), "{error:?}");
    }
}

pub async fn copies_count_once(case: Case) {
    let count_down = support::lua!("announce", "once", "latch/count_down");
    let set = support::lua!("announce", "once", "latch/set");
    let (name, receipt) = (case.name.as_str(), format!("lockson:receipt:{{{}}}:test", case.name));
    let ended = format!("lockson:latch_ended:{{{name}}}");
    for _ in 0..3 {
        assert_eq!(case.copy(set, SOON, &[name, &receipt], &["1", "60000", "3", "PUBLISH", "c"]).await, "1");
    }
    for (call, left) in [("2", "1 2"), ("2", "1 2"), ("3", "1 1"), ("4", "1 0"), ("4", "1 0"), ("5", "0")] {
        let keys = [name, &ended, &receipt];
        assert_eq!(case.copy(count_down, SOON, &keys, &[call, "60000", "PUBLISH", "c"]).await, left);
    }
    let left = case.pttl_of(&ended).await;
    assert!(left > 0 && case.ask(&["GET", &ended]).await.ends_with(" opened"));
}
