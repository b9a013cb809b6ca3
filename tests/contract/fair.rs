//! What the fair lock adds: a queue on the server. Rule 17.

use std::sync::{Arc, Mutex};

use lockson::{FairLock, LockError, Locks, Owner};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{patient, Raw};
use crate::world::{ms, secs, Case, World};

const DAY: i64 = 24 * 60 * 60 * 1000;

fn queue(case: &Case) -> String {
    format!("redisson_lock_queue:{{{}}}", case.name)
}

fn timeouts(case: &Case) -> String {
    format!("redisson_lock_timeout:{{{}}}", case.name)
}

fn seen(case: &Case) -> String {
    format!("lockson:fair_seen:{{{}}}", case.name)
}

fn state(case: &Case) -> String {
    format!("lockson:fair_state:{{{}}}", case.name)
}

fn channel(case: &Case) -> String {
    format!("redisson_lock__channel:{{{}}}", case.name)
}

/// Who waits, the next one first.
async fn waiting(case: &Case) -> Vec<String> {
    let list = case.ask(&["LRANGE", &queue(case), "0", "-1"]).await;
    list.split_whitespace().map(str::to_owned).collect()
}

async fn until_queued(case: &Case, count: usize) {
    let limit = Instant::now() + secs(20);
    while waiting(case).await.len() != count {
        assert!(Instant::now() < limit, "{:?} are in the queue, not {count}", waiting(case).await);
        tokio::time::sleep(ms(2)).await;
    }
}

async fn score(case: &Case, owner: &str) -> i64 {
    case.ask(&["ZSCORE", &timeouts(case), owner]).await.parse().unwrap()
}

fn fair(case: &Case, locks: &Locks, owner: &str) -> FairLock {
    locks.fair_lock(&case.name).owned_by(&Owner::named(owner).unwrap())
}

/// A waiter that notes its name when it is served.
fn waiter(lock: FairLock, name: &str, served: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let (served, name) = (served.clone(), name.to_owned());
    tokio::spawn(async move {
        let guard = lock.guard().await.unwrap();
        served.lock().unwrap().push(name);
        guard.unlock().await.unwrap();
    })
}

/// What a Java client writes that waits: it is the tail, and nobody hears its channel.
async fn enqueue_by_hand(case: &Case, owner: &str, score: i64) {
    case.ask(&["ZADD", &timeouts(case), &score.to_string(), owner]).await;
    case.ask(&["RPUSH", &queue(case), owner]).await;
}

pub async fn the_queue_is_served_in_order(case: Case) {
    let clients = [case.client().await, case.client().await];
    let guard = fair(&case, &clients[0], "holder").guard().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let name = format!("w{number}");
        tasks.push(waiter(fair(&case, &clients[number * 5 % 2], &name), &name, &served));
        until_queued(&case, number + 1).await;
    }
    let expected: Vec<String> =
        waiting(&case).await.iter().map(|owner| owner.split_once(":named-").unwrap().1.to_owned()).collect();
    guard.unlock().await.unwrap();
    for task in tasks {
        patient("every waiter is served", task).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), expected);
    assert!(case.is_free().await);
    for key in [queue(&case), timeouts(&case), seen(&case), state(&case)] {
        assert_eq!(case.ask(&["EXISTS", &key]).await, "0", "{key}");
    }
}

pub async fn length_and_position(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    assert_eq!(fair(&case, &a, "holder").queue_len().await.unwrap(), 0);
    assert_eq!(fair(&case, &a, "x").queue_position().await.unwrap(), None);
    let served = Arc::default();
    let mut tasks = Vec::new();
    for (count, (client, name)) in [(&a, "x"), (&b, "y"), (&a, "z")].into_iter().enumerate() {
        tasks.push(waiter(fair(&case, client, name), name, &served));
        until_queued(&case, count + 1).await;
    }
    assert_eq!(fair(&case, &b, "any").queue_len().await.unwrap(), 3);
    for (place, (client, name)) in [(&a, "x"), (&b, "y"), (&a, "z")].into_iter().enumerate() {
        let found = fair(&case, client, name).queue_position().await.unwrap();
        assert_eq!(found, Some(place as u64));
    }
    assert_eq!(fair(&case, &b, "x").queue_position().await.unwrap(), None, "another client's x");
    guard.unlock().await.unwrap();
    for task in tasks {
        patient("served", task).await.unwrap();
    }
}

pub async fn a_wait_limit_leaves_the_queue(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    assert!(!fair(&case, &b, "brief").acquire().wait(ms(200)).await.unwrap());
    until_queued(&case, 0).await;
    assert_eq!(case.ask(&["EXISTS", &timeouts(&case), &seen(&case)]).await, "0");
    guard.unlock().await.unwrap();
    assert!(fair(&case, &b, "next").try_lock().await.unwrap());
}

pub async fn a_cancelled_waiter_leaves_the_queue(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    let served = Arc::default();
    let first = waiter(fair(&case, &b, "first"), "first", &served);
    until_queued(&case, 1).await;
    let second = waiter(fair(&case, &a, "second"), "second", &served);
    until_queued(&case, 2).await;
    first.abort();
    until_queued(&case, 1).await;
    let began = Instant::now();
    guard.unlock().await.unwrap();
    patient("the second", second).await.unwrap();
    assert!(began.elapsed() < case.bound(ms(500)), "not by the rule for dead heads");
}

/// Redisson: 94 of 249 such give-ups left the next asleep (6.D.2).
pub async fn a_woken_head_that_gives_up_wakes_the_next(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let served = Arc::default();
    for round in 0..5 {
        let guard = fair(&case, &a, "holder").guard().await.unwrap();
        let first = waiter(fair(&case, &b, "first"), "first", &served);
        until_queued(&case, 1).await;
        let second = waiter(fair(&case, &a, "second"), "second", &served);
        until_queued(&case, 2).await;
        let began = Instant::now();
        let (released, ()) = tokio::join!(guard.unlock(), async {
            tokio::time::sleep(std::time::Duration::from_micros(200 * round)).await;
            first.abort();
        });
        released.unwrap();
        patient("the second", second).await.unwrap();
        assert!(began.elapsed() < case.bound(ms(500)), "{:?}", began.elapsed());
        until_queued(&case, 0).await;
    }
}

/// A waiter of a client that is there is dead by itself: its own entry is unseen.
pub async fn a_dead_head_costs_three_seconds(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    // It is unseen from here on.
    let began = Instant::now();
    let now = case.time().await;
    let dead = format!("{}:named-dead", a.client_id());
    enqueue_by_hand(&case, &dead, now + 300_000).await;
    case.ask(&["ZADD", &seen(&case), &now.to_string(), &dead, &now.to_string(), a.client_id()]).await;
    let served = Arc::default();
    let next = waiter(fair(&case, &b, "next"), "next", &served);
    until_queued(&case, 2).await;
    guard.unlock().await.unwrap();
    patient("the next", next).await.unwrap();
    let took = began.elapsed();
    assert!(took >= ms(2_900) && took < case.bound(secs(5)), "{took:?}");
}

pub async fn a_dead_client_costs_three_seconds_however_many_wait(case: Case) {
    let b = case.client().await;
    let guard = fair(&case, &b, "holder").guard().await.unwrap();
    // It is unseen from here on.
    let began = Instant::now();
    let now = case.time().await;
    for number in 0..5 {
        let dead = format!("dead-client:{number}");
        enqueue_by_hand(&case, &dead, now + 300_000 * (number + 1)).await;
        case.ask(&["ZADD", &seen(&case), &now.to_string(), &dead, &now.to_string(), "dead-client"]).await;
    }
    let served = Arc::default();
    let next = waiter(fair(&case, &b, "next"), "next", &served);
    until_queued(&case, 6).await;
    guard.unlock().await.unwrap();
    patient("the next", next).await.unwrap();
    let took = began.elapsed();
    assert!(took >= ms(2_900) && took < case.bound(secs(5)), "{took:?}");
}

pub async fn a_deaf_foreign_head_is_dropped(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    let served = Arc::default();
    let next = waiter(fair(&case, &b, "next"), "next", &served);
    until_queued(&case, 2).await;
    // However long it is held: a head is dropped only while the lock is free.
    tokio::time::sleep(secs(4)).await;
    assert_eq!(waiting(&case).await.first().map(String::as_str), Some("java:1"));
    let began = Instant::now();
    guard.unlock().await.unwrap();
    patient("the next", next).await.unwrap();
    let took = began.elapsed();
    assert!(took >= ms(900) && took < case.bound(ms(4_500)), "{took:?}");
}

pub async fn a_foreign_head_that_ignores_its_turn_is_dropped(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let heard = match &case.world {
        World::Real(server) => {
            let raw = Raw::connect(server.port()).await;
            Some(raw.subscribe(&format!("{}:java:1", channel(&case))).await)
        }
        // Nobody can listen there: the other rule comes first.
        World::Embedded(_) => return,
    };
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    let served = Arc::default();
    let next = waiter(fair(&case, &b, "next"), "next", &served);
    until_queued(&case, 2).await;
    let began = Instant::now();
    guard.unlock().await.unwrap();
    patient("the next", next).await.unwrap();
    let took = began.elapsed();
    assert!(took >= ms(4_900) && took < case.bound(secs(9)), "{took:?}");
    assert!(heard.unwrap().count() >= 5, "it was told again and again");
}

/// Java drops the head of the queue when its score has passed, in every script (6.D.3).
pub async fn live_foreign_waiters_stay(case: Case) {
    let short = || Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1));
    let a = case.client_with(short()).await;
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    let now = case.time().await;
    enqueue_by_hand(&case, "java:1", now + 1_000).await;
    // Renewals raise it ..
    tokio::time::sleep(ms(900)).await;
    assert!(score(&case, "java:1").await > now + 300_000);
    // .. and so do the polls of whoever waits behind it.
    case.ask(&["ZADD", &timeouts(&case), &now.to_string(), "java:1"]).await;
    let b = case.client_with(short()).await;
    let brief = fair(&case, &b, "brief").acquire().wait(ms(100)).await;
    assert!(!brief.unwrap() && score(&case, "java:1").await > now + 300_000);
    assert_eq!(waiting(&case).await.first().map(String::as_str), Some("java:1"));
    guard.unlock().await.unwrap();
}

/// Redisson subtracts at every acquisition; whoever does not is 69 days ahead after 20,000.
pub async fn scores_do_not_drift(case: Case) {
    let clients = [case.client().await, case.client().await];
    let case = Arc::new(case);
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (lock, case) = (fair(&case, &clients[task % 2], &format!("t{task}")), case.clone());
            tokio::spawn(async move {
                let mut most = 0;
                for round in 0..500 {
                    let guard = lock.guard().await.unwrap();
                    let tail = if round % 10 == 0 { waiting(&case).await.pop() } else { None };
                    if let Some(tail) = tail {
                        most = most.max(score(&case, &tail).await - case.time().await);
                    }
                    guard.unlock().await.unwrap();
                }
                most
            })
        })
        .collect();
    let mut most = 0;
    for task in tasks {
        most = most.max(task.await.unwrap());
    }
    // Four waiters, a debt of at most four more, and what is under way.
    assert!(most > 0 && most <= 10 * 300_000, "{most} ms ahead");
}

pub async fn the_layout_key_by_key(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    let holder = format!("{}:named-holder", a.client_id());
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("{holder} 1"));
    assert_eq!(case.ask(&["EXISTS", &queue(&case), &timeouts(&case), &seen(&case), &state(&case)]).await, "0");
    let served = Arc::default();
    let before = case.time().await;
    let first = waiter(fair(&case, &b, "first"), "first", &served);
    until_queued(&case, 1).await;
    let second = waiter(fair(&case, &a, "second"), "second", &served);
    until_queued(&case, 2).await;
    let (one, two) = (format!("{}:named-first", b.client_id()), format!("{}:named-second", a.client_id()));
    assert_eq!(waiting(&case).await, [one.clone(), two.clone()]);
    assert_eq!(case.ask(&["ZRANGE", &timeouts(&case), "0", "-1"]).await, format!("{one} {two}"));
    let (low, high) = (score(&case, &one).await, score(&case, &two).await);
    let now = case.time().await;
    assert!((before + 300_000..=now + 300_000).contains(&low), "{low}");
    assert!((high - low - 300_000).abs() <= now - before, "{}", high - low);
    for owner in [&one, &two] {
        let at: i64 = case.ask(&["ZSCORE", &seen(&case), owner]).await.parse().unwrap();
        assert!((before..=now).contains(&at));
    }
    let heard = match &case.world {
        World::Real(server) => {
            let mut raw = Raw::connect(server.port()).await;
            let own = format!("{}:{one}", channel(&case));
            while raw.subscribers(&own).await != 1 {
                tokio::time::sleep(ms(2)).await;
            }
            assert_eq!(raw.subscribers(&channel(&case)).await, 0);
            Some(raw.psubscribe(&format!("{}:*", channel(&case))).await)
        }
        World::Embedded(_) => None,
    };
    guard.unlock().await.unwrap();
    patient("the first", first).await.unwrap();
    patient("the second", second).await.unwrap();
    if let Some(heard) = heard {
        // One message each, to the head only; nobody was left to tell after the second.
        case.ask(&["PUBLISH", &format!("{}:end", channel(&case)), "end"]).await;
        let messages: Vec<(String, String)> =
            heard.wait_for(3).await.into_iter().map(|message| (message.channel, message.text)).collect();
        let told = |owner: &str, payload: &str| (format!("{}:{owner}", channel(&case)), payload.to_owned());
        assert_eq!(messages, [told(&one, "0"), told(&two, "0"), told("end", "end")]);
    }
}

pub async fn queue_keys_have_a_ttl(case: Case) {
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let waiter = tokio::spawn({
        let lock = fair(&case, &locks, "w");
        async move { lock.guard().await }
    });
    until_queued(&case, 1).await;
    tokio::time::sleep(ms(50)).await;
    for (key, least, most) in [
        (queue(&case), DAY, DAY + 310_000),
        (timeouts(&case), DAY, DAY + 310_000),
        (seen(&case), 1, 60_000),
        (state(&case), 1, 60_000),
    ] {
        let ttl: i64 = case.ask(&["PTTL", &key]).await.parse().unwrap();
        let there = case.ask(&["EXISTS", &key]).await == "1";
        assert!(!there || (least..=most).contains(&ttl), "{key}: {ttl}");
    }
    guard.unlock().await.unwrap();
    let last = patient("the waiter", waiter).await.unwrap().unwrap();
    // What a release notes beside a queue that only Java has written.
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    last.unlock().await.unwrap();
    let ttl: i64 = case.ask(&["PTTL", &state(&case)]).await.parse().unwrap();
    assert!((1..=60_000).contains(&ttl), "{ttl}");
}

/// Then nobody hears a release, but the first of each process asks.
pub async fn lost_messages_cost_at_most_the_cap(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    let clients = [case.client().await, case.client().await];
    let guard = fair(&case, &clients[0], "holder").guard().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let name = format!("w{number}");
        tasks.push(waiter(fair(&case, &clients[number / 2 % 2], &name), &name, &served));
        until_queued(&case, number + 1).await;
    }
    tokio::time::sleep(secs(2)).await;
    server.lose_messages(true);
    let began = Instant::now();
    guard.unlock().await.unwrap();
    for task in tasks {
        patient("served", task).await.unwrap();
    }
    assert!(began.elapsed() <= secs(11), "{:?}", began.elapsed());
    assert_eq!(*served.lock().unwrap(), (0..10).map(|number| format!("w{number}")).collect::<Vec<_>>());
}

/// A debt of a queue that is gone belongs to nobody.
pub async fn a_queue_that_java_emptied_is_forgotten(case: Case) {
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    case.ask(&["HSET", &state(&case), "debt", "900000"]).await;
    let served = Arc::default();
    let task = waiter(fair(&case, &locks, "w"), "w", &served);
    until_queued(&case, 1).await;
    assert_eq!(case.ask(&["HGET", &state(&case), "debt"]).await, "nil");
    guard.unlock().await.unwrap();
    patient("served", task).await.unwrap();
}

const ACQUIRE: &str = concat!(
    include_str!("../../lua/begin.lua"),
    include_str!("../../lua/fair/begin.lua"),
    include_str!("../../lua/fair/acquire.lua")
);
const SETTLE: &str = concat!(
    include_str!("../../lua/begin.lua"),
    include_str!("../../lua/fair/begin.lua"),
    include_str!("../../lua/fair/settle.lua")
);

async fn run(case: &Case, text: &str, not_after: i64, args: &[&str]) -> String {
    let keys = [case.name.clone(), queue(case), timeouts(case), seen(case), state(case), channel(case)];
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let not_after = not_after.to_string();
    let all: Vec<&str> = ["n", &not_after].into_iter().chain(args.iter().copied()).collect();
    case.eval(text, &keys, &all).await
}

pub async fn a_late_enqueue_writes_nothing(case: Case) {
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let answer = run(&case, ACQUIRE, case.time().await - 1, &["c:late", "1000", "0", "1"]).await;
    assert!(answer.starts_with("2 n "), "{answer}");
    assert_eq!(waiting(&case).await.len(), 0);
    guard.unlock().await.unwrap();
}

pub async fn copies_of_an_enqueue_make_one_entry(case: Case) {
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let soon = case.time().await + 60_000;
    for _ in 0..3 {
        let answer = run(&case, ACQUIRE, soon, &["c:o", "1000", "0", "1"]).await;
        assert!(answer.starts_with("0 n "), "{answer}");
        assert_eq!(waiting(&case).await, ["c:o"]);
    }
    guard.unlock().await.unwrap();
    for _ in 0..3 {
        assert!(run(&case, ACQUIRE, soon, &["c:o", "1000", "0", "1"]).await.starts_with("1 n "));
        assert_eq!((waiting(&case).await.len(), case.ask(&["HGET", &case.name, "c:o"]).await), (0, "1".to_owned()));
    }
}

/// What the janitor sends for an owner that went away while a copy of its attempt was under way.
pub async fn a_settled_owner_is_not_in_the_queue(case: Case) {
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let soon = case.time().await + 60_000;
    for owner in ["c:gone", "c:there"] {
        run(&case, ACQUIRE, soon, &[owner, "1000", "0", "1"]).await;
    }
    assert!(run(&case, SETTLE, soon, &["c:there", "0", "1"]).await.starts_with("3 n "));
    assert!(run(&case, SETTLE, soon, &["c:gone", "0", "0"]).await.starts_with("3 n "));
    assert_eq!(waiting(&case).await, ["c:there"]);
    guard.unlock().await.unwrap();
    // A late copy that takes it is undone by the same script.
    run(&case, ACQUIRE, soon, &["c:there", "1000", "0", "1"]).await;
    assert!(!case.is_free().await);
    assert!(run(&case, SETTLE, soon, &["c:there", "0", "0"]).await.starts_with("1 n "));
    assert!(case.is_free().await && waiting(&case).await.is_empty());
}

pub async fn one_attempt_does_not_queue(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    assert!(!fair(&case, &b, "x").try_lock().await.unwrap());
    assert!(fair(&case, &b, "x").acquire().wait(ms(0)).guard().await.unwrap().is_none());
    assert_eq!(waiting(&case).await.len(), 0);
    // Nor does an owner that enters again.
    let inner = patient("the owner enters again", fair(&case, &a, "holder").guard()).await.unwrap();
    inner.unlock().await.unwrap();
    guard.unlock().await.unwrap();
    // And it does not overtake those who wait.
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    assert!(!fair(&case, &b, "x").try_lock().await.unwrap());
    assert!(case.is_free().await);
}

/// Only the first of a process asks; the scores of all move on with the time.
pub async fn waiters_that_do_not_ask_are_refreshed(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let served = Arc::default();
    let mut tasks = Vec::new();
    for number in 0..150 {
        let name = format!("w{number}");
        tasks.push(waiter(fair(&case, &locks, &name), &name, &served));
    }
    until_queued(&case, 150).await;
    tokio::time::sleep(secs(5)).await;
    let before = server.calls();
    tokio::time::sleep(secs(600)).await;
    let calls = server.calls() - before;
    // 1.4 a second of the first, and two for the others each 20 s; and the renewals.
    assert!(calls < 1_500, "{calls}");
    let now = case.time().await;
    for (place, owner) in waiting(&case).await.iter().enumerate() {
        let ahead = score(&case, owner).await - now;
        let chain = 300_000 * (place as i64 + 1);
        assert!((chain - 30_000..=chain + 30_000).contains(&ahead), "{place}: {ahead}");
    }
    guard.unlock().await.unwrap();
    for task in tasks {
        patient("served", task).await.unwrap();
    }
}

/// Whatever an operator or a Java client did to it.
pub async fn a_lost_queue_is_made_again(case: Case) {
    let locks = case.client().await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let served = Arc::default();
    let task = waiter(fair(&case, &locks, "w"), "w", &served);
    until_queued(&case, 1).await;
    case.ask(&["DEL", &queue(&case), &timeouts(&case)]).await;
    until_queued(&case, 1).await;
    guard.unlock().await.unwrap();
    patient("served", task).await.unwrap();
}

pub async fn shutdown_leaves_the_queue(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    let tasks: Vec<_> = (0..3)
        .map(|number| {
            let lock = fair(&case, &b, &format!("w{number}"));
            tokio::spawn(async move { lock.lock().await })
        })
        .collect();
    until_queued(&case, 3).await;
    b.shutdown(secs(5)).await.unwrap();
    assert_eq!(waiting(&case).await.len(), 0);
    for task in tasks {
        assert_eq!(patient("the wait ends", task).await.unwrap(), Err(LockError::Closed));
    }
    guard.unlock().await.unwrap();
}

pub async fn force_unlock_wakes_the_head(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    assert!(fair(&case, &a, "holder").acquire().lease(secs(60)).await.unwrap());
    let served = Arc::default();
    let task = waiter(fair(&case, &b, "w"), "w", &served);
    until_queued(&case, 1).await;
    assert!(fair(&case, &b, "any").force_unlock().await.unwrap());
    patient("served", task).await.unwrap();
}

pub async fn a_fair_mutex_is_not_entered_again(case: Case) {
    let locks = case.client().await;
    let lock = locks.fair_mutex(&case.name);
    lock.lock().await.unwrap();
    assert!(matches!(lock.lock().await, Err(LockError::AlreadyHeld { .. })));
    assert!(matches!(lock.try_lock().await, Err(LockError::AlreadyHeld { .. })));
    assert_eq!((lock.queue_len().await.unwrap(), lock.queue_position().await.unwrap()), (0, None));
    lock.unlock().await.unwrap();
    assert!(case.is_free().await);
}
