//! Waiters of a fair lock that died: how they go, and what one call costs. Rules 12 and 17.

use crate::contract::fair::*;
use crate::contract::fair_layout::{run, ACQUIRE};
use crate::contract::world::*;

const RELEASE: &str = support::lua!("announce", "fair/begin", "fair/release");
const REFRESH: &str = support::lua!("announce", "fair/begin", "fair/wait", "fair/refresh");
const LEAVE: &str = support::lua!("announce", "fair/begin", "fair/leave");
const SETTLE: &str = support::lua!("announce", "fair/begin", "fair/settle");

/// Waiters of one client that is gone since `seen`: `dead:1` is the next. Nobody holds the lock.
async fn bury(case: &Case, count: usize, last_seen: i64) {
    let fill = "for i = 1, ARGV[1] do local o = 'dead:' .. i redis.call('RPUSH', KEYS[1], o) \
                redis.call('ZADD', KEYS[2], ARGV[2] + i * 300000, o) redis.call('ZADD', KEYS[3], ARGV[3], o) end \
                return redis.call('ZADD', KEYS[3], ARGV[3], 'dead')";
    let (queue, timeouts, seen) = (queue(case), timeouts(case), seen(case));
    let (count, now, at) = (count.to_string(), case.time().await.to_string(), last_seen.to_string());
    case.eval(fill, &[&queue, &timeouts, &seen], &[&count, &now, &at]).await;
}

/// A copy of an attempt that does not queue.
async fn look(case: &Case) -> String {
    run(case, ACQUIRE, SOON, &["c:looks", "30000", "0", "0"]).await
}

/// Gaps between looks, as long as a test may take.
fn gaps(case: &Case) -> &'static [u64] {
    match case.world {
        World::Real(_) => &[3_500],
        World::Embedded(_) => &[3_500, 50_000, 90_000, 3_600_000],
    }
}

pub async fn a_dead_head_goes_however_seldom_one_looks(case: Case) {
    let locks = case.client().await;
    let lock = fair(&case, &locks, "x");
    for gap in gaps(&case) {
        bury(&case, 3, case.time().await).await;
        assert!(!lock.try_lock().await.unwrap().is_acquired());
        let before = score(&case, "dead:1").await;
        // Looks in between change nothing, and lift nothing.
        sleep(ms(1_500)).await;
        assert!(!lock.try_lock().await.unwrap().is_acquired());
        assert_eq!(score(&case, "dead:1").await, before, "lifted");
        sleep(ms(*gap)).await;
        assert!(lock.try_lock().await.unwrap().is_acquired(), "looks {gap} ms apart");
        assert_eq!(waiting(&case).await.len(), 0);
        lock.unlock().await.unwrap();
    }
}

/// Nobody listens on its channel, at two looks that are more than a second apart.
pub async fn a_dead_foreign_head_goes_however_seldom_one_looks(case: Case) {
    let locks = case.client().await;
    let lock = fair(&case, &locks, "x");
    for gap in gaps(&case) {
        enqueue_by_hand(&case, "java:1", case.time().await).await;
        assert!(!lock.try_lock().await.unwrap().is_acquired());
        let lifted = score(&case, "java:1").await;
        assert!(lifted >= case.time().await + 290_000, "it gets its turn");
        sleep(ms(700)).await;
        assert!(!lock.try_lock().await.unwrap().is_acquired());
        assert_eq!(score(&case, "java:1").await, lifted);
        sleep(ms(*gap)).await;
        assert!(lock.try_lock().await.unwrap().is_acquired(), "looks {gap} ms apart");
        lock.unlock().await.unwrap();
    }
}

/// Java's scripts do not touch the watch: it is void when the head's score is another.
pub async fn a_head_that_came_again_is_looked_at_anew(case: Case) {
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    assert!(look(&case).await.starts_with('0'));
    sleep(ms(3_600)).await;
    // It had the lock meanwhile, and waits again.
    case.ask(&["LPOP", &queue(&case)]).await;
    case.ask(&["ZREM", &timeouts(&case), "java:1"]).await;
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    for _ in 0..3 {
        assert!(look(&case).await.starts_with('0'));
        sleep(ms(200)).await;
    }
    assert_eq!(waiting(&case).await, ["java:1"]);
}

/// ZREM finds nothing then: it hung the server for ever.
pub async fn a_head_without_a_score_is_dropped(case: Case) {
    let locks = case.client().await;
    let lock = fair(&case, &locks, "x");
    bury(&case, 3, case.time().await - 60_000).await;
    for _ in 0..2 {
        assert!(!lock.try_lock().await.unwrap().is_acquired());
        sleep(ms(1_550)).await;
    }
    case.ask(&["DEL", &timeouts(&case)]).await;
    assert!(!lock.try_lock().await.unwrap().is_acquired(), "it is looked at anew");
    sleep(ms(3_100)).await;
    case.ask(&["ZREM", &timeouts(&case), "dead:2"]).await;
    assert!(lock.try_lock().await.unwrap().is_acquired());
    lock.unlock().await.unwrap();
    // Whoever leaves, leaves without a score too.
    bury(&case, 3, case.time().await).await;
    case.ask(&["DEL", &timeouts(&case)]).await;
    for left in [["dead:1", "dead:3"].as_slice(), &["dead:3"], &[]] {
        let owner = ["dead:3", "dead:1", "dead:2"][left.len()];
        run(&case, LEAVE, SOON, &[owner]).await;
        assert_eq!(waiting(&case).await, left);
    }
}

/// Rule 12: what is left waits for the next call, which is due at once.
pub async fn the_dead_go_a_hundred_a_call(case: Case) {
    bury(&case, 1_000, case.time().await - 60_000).await;
    assert!(look(&case).await.starts_with('0'));
    sleep(ms(3_100)).await;
    for left in (0..10).rev() {
        let answer = look(&case).await;
        let rest: Vec<&str> = answer.split(' ').collect();
        assert_eq!(waiting(&case).await.len(), left * 100);
        match left {
            0 => assert_eq!(rest[0], "1", "{answer}"),
            _ => assert_eq!((rest[0], rest[1]), ("0", "-3"), "{answer}"),
        }
    }
    assert_eq!(case.ask(&["EXISTS", &timeouts(&case), &seen(&case), &state(&case)]).await, "0");
}

pub async fn ten_thousand_dead_cost_one_attempt(case: Case) {
    let locks = case.client().await;
    bury(&case, 10_000, case.time().await - 60_000).await;
    assert!(!fair(&case, &locks, "x").try_lock().await.unwrap().is_acquired());
    sleep(ms(3_100)).await;
    assert!(fair(&case, &locks, "x").try_lock().await.unwrap().is_acquired(), "one attempt");
}

/// All that was noted lies an hour ahead then.
pub async fn a_clock_set_back_keeps_no_dead_head(case: Case) {
    let locks = case.client().await;
    let lock = fair(&case, &locks, "x");
    let ahead = case.time().await + 3_600_000;
    bury(&case, 2, ahead).await;
    let at = ahead.to_string();
    let noted = ["HSET", &state(&case), "head", "dead:1", "since", &at, "look", &at, "free", &at, "deaf", &at];
    case.ask(&noted).await;
    let score = case.ask(&["ZSCORE", &timeouts(&case), "dead:1"]).await;
    case.ask(&["HSET", &state(&case), "score", &score]).await;
    for _ in 0..2 {
        assert!(!lock.try_lock().await.unwrap().is_acquired());
        sleep(ms(1_550)).await;
    }
    // Three seconds from the first look by the new clock.
    assert!(lock.try_lock().await.unwrap().is_acquired());
}

/// It says only that somebody's hold was over, not that the lock is free since now.
pub async fn an_unlock_of_nothing_keeps_no_dead_head(case: Case) {
    bury(&case, 1, case.time().await - 60_000).await;
    assert!(look(&case).await.starts_with('0'));
    for _ in 0..2 {
        sleep(ms(1_550)).await;
        let late = run(&case, RELEASE, SOON, &["c:late", "30000", "1"]).await;
        assert!(late.starts_with('3'), "{late}");
    }
    assert!(look(&case).await.starts_with('1'));
}

/// A hold is given back first, whatever becomes of the queue then.
pub async fn a_broken_queue_keeps_no_hold(case: Case) {
    assert!(look(&case).await.starts_with('1'));
    case.ask(&["SET", &queue(&case), "not a list"]).await;
    let told = run(&case, SETTLE, SOON, &["c:looks", "0", "0"]).await;
    assert!(told.contains("WRONGTYPE"), "{told}");
    assert!(case.is_free().await);
    case.ask(&["DEL", &queue(&case)]).await;
    assert!(look(&case).await.starts_with('1'));
    case.ask(&["SET", &queue(&case), "not a list"]).await;
    let told = run(&case, RELEASE, SOON, &["c:looks", "30000", "1"]).await;
    assert!(told.starts_with('1') && case.is_free().await, "{told}");
    case.ask(&["DEL", &queue(&case)]).await;
}

/// The pass over the scores sees all, though others come and go, and takes none of them too far down.
pub async fn the_scores_are_set_anew_in_parts(case: Case) {
    let locks = case.client().await;
    let now = case.time().await;
    // Far ahead, as after many acquisitions.
    bury(&case, 1_000, now).await;
    let far = "for _, o in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do \
               redis.call('ZINCRBY', KEYS[2], 9000000000, o) end return 1";
    case.eval(far, &[&queue(&case), &timeouts(&case)], &[]).await;
    let ahead = async |owner: &str| (score(&case, owner).await - now) / 300_000;
    for round in 1..=6 {
        let next = format!("{}:named-{round}", locks.client_id());
        case.ask(&["LPUSH", &queue(&case), &next]).await;
        case.ask(&["ZADD", &timeouts(&case), &now.to_string(), &next]).await;
        let args = [&*next, "30000", "0", "0"];
        assert!(run(&case, ACQUIRE, SOON, &args).await.starts_with('1'));
        case.ask(&["DEL", &case.name]).await;
        // The head, and one from within, go at each turn.
        case.ask(&["LPOP", &queue(&case)]).await;
        case.ask(&["LREM", &queue(&case), "0", &format!("dead:{}", 500 + round)]).await;
        let owners = waiting(&case).await;
        let mut done = 0;
        for (place, owner) in owners.iter().enumerate() {
            let ahead = ahead(owner).await;
            assert!(ahead > place as i64, "round {round}, {owner}: {ahead}");
            done += usize::from(ahead < 2_000);
        }
        assert!(done <= 200 * round, "{done} in round {round}");
        assert!(ahead(owners.last().unwrap()).await <= 1_000, "the tail, behind which others come, is right at once");
    }
    for (place, owner) in waiting(&case).await.iter().enumerate() {
        assert!(ahead(owner).await <= place as i64 + 15, "{owner}");
    }
}

/// What Java dropped is gone from lockson's keys after a day, some at each call.
pub async fn the_unseen_go_in_parts(case: Case) {
    let (_, _, guard) = held(&case).await;
    bury(&case, 60, case.time().await - 90_000_000).await;
    run(&case, ACQUIRE, SOON, &["c:there", "1000", "0", "1"]).await;
    for left in [38, 13, 2, 2] {
        let answer = run(&case, REFRESH, SOON, &["c:there"]).await;
        assert!(answer.starts_with('1') && answer.ends_with(" 1"), "{answer}");
        assert_eq!(case.ask(&["ZCARD", &seen(&case)]).await, left.to_string());
    }
    guard.unlock().await.unwrap();
}
