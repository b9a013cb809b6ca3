//! What the fair lock adds: a queue on the server. Rule 17.

use std::sync::Mutex;

use lockson::FairLock;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::contract::world::*;

pub fn queue(case: &Case) -> String {
    format!("redisson_lock_queue:{{{}}}", case.name)
}

pub fn timeouts(case: &Case) -> String {
    format!("redisson_lock_timeout:{{{}}}", case.name)
}

pub fn seen(case: &Case) -> String {
    format!("lockson:fair_seen:{{{}}}", case.name)
}

pub fn state(case: &Case) -> String {
    format!("lockson:fair_state:{{{}}}", case.name)
}

pub fn channel(case: &Case) -> String {
    format!("redisson_lock__channel:{{{}}}", case.name)
}

/// Who waits, the next one first.
pub async fn waiting(case: &Case) -> Vec<String> {
    let list = case.ask(&["LRANGE", &queue(case), "0", "-1"]).await;
    list.split_whitespace().map(str::to_owned).collect()
}

pub async fn until_queued(case: &Case, count: usize) {
    let limit = Instant::now() + secs(20);
    while waiting(case).await.len() != count {
        assert!(Instant::now() < limit, "{:?} are in the queue, not {count}", waiting(case).await);
        sleep(ms(2)).await;
    }
}

pub async fn score(case: &Case, owner: &str) -> i64 {
    case.ask(&["ZSCORE", &timeouts(case), owner]).await.parse().unwrap()
}

pub fn fair(case: &Case, locks: &Locks, owner: &str) -> FairLock {
    locks.fair_lock(&case.name).owned_by(&Owner::named(owner).unwrap())
}

/// A waiter that notes its name when it is served.
pub fn waiter(lock: FairLock, name: &str, served: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let (served, name) = (served.clone(), name.to_owned());
    tokio::spawn(async move {
        let guard = lock.guard().await.unwrap();
        served.lock().unwrap().push(name);
        guard.unlock().await.unwrap();
    })
}

/// Waiters with these numbers, `w0` and so on, of these clients in turn: each comes when those before it are queued.
pub async fn queue_up(
    case: &Case,
    clients: &[&Locks],
    numbers: std::ops::Range<usize>,
    served: &Arc<Mutex<Vec<String>>>,
) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for number in numbers {
        let name = format!("w{number}");
        tasks.push(waiter(fair(case, clients[number % clients.len()], &name), &name, served));
        until_queued(case, number + 1).await;
    }
    tasks
}

/// What a Java client writes that waits: it is the tail, and nobody hears its channel.
pub async fn enqueue_by_hand(case: &Case, owner: &str, score: i64) {
    case.ask(&["ZADD", &timeouts(case), &score.to_string(), owner]).await;
    case.ask(&["RPUSH", &queue(case), owner]).await;
}

pub async fn the_queue_is_served_in_order(case: Case) {
    let clients = [case.client().await, case.client().await];
    let guard = fair(&case, &clients[0], "holder").guard().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let tasks = queue_up(&case, &[&clients[0], &clients[1]], 0..12, &served).await;
    let expected: Vec<String> =
        waiting(&case).await.iter().map(|owner| owner.split_once(":named-").unwrap().1.to_owned()).collect();
    guard.unlock().await.unwrap();
    patient_all("every waiter is served", tasks).await;
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
    patient_all("served", tasks).await;
}

pub async fn a_wait_limit_leaves_the_queue(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    assert!(!fair(&case, &b, "brief").acquire().wait(ms(200)).await.unwrap().is_acquired());
    until_queued(&case, 0).await;
    assert_eq!(case.ask(&["EXISTS", &timeouts(&case), &seen(&case)]).await, "0");
    guard.unlock().await.unwrap();
    assert!(fair(&case, &b, "next").try_lock().await.unwrap().is_acquired());
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
            sleep(std::time::Duration::from_micros(200 * round)).await;
            first.abort();
        });
        released.unwrap();
        patient("the second", second).await.unwrap();
        assert!(began.elapsed() < case.bound(ms(500)), "{:?}", began.elapsed());
        until_queued(&case, 0).await;
    }
}

/// One of a client that is there is dead by itself: its own entry is unseen. Of a client that died, all are.
pub async fn the_dead_cost_three_seconds_however_many_wait(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    for (client, count) in [(a.client_id(), 1), ("dead-client", 5)] {
        let guard = fair(&case, &a, "holder").guard().await.unwrap();
        // They are unseen from here on.
        let began = Instant::now();
        let now = case.time().await;
        for number in 0..count {
            let dead = format!("{client}:named-{number}");
            // The first has the residue of an hour's lease (6.D.5).
            enqueue_by_hand(&case, &dead, now + 3_600_000 + 300_000 * number as i64).await;
            case.ask(&["ZADD", &seen(&case), &now.to_string(), &dead, &now.to_string(), client]).await;
        }
        let next = waiter(fair(&case, &b, "next"), "next", &Arc::default());
        until_queued(&case, count + 1).await;
        guard.unlock().await.unwrap();
        patient("the next", next).await.unwrap();
        let took = began.elapsed();
        assert!(took >= ms(2_900) && took < case.bound(secs(5)), "{took:?}");
    }
}

pub async fn a_deaf_foreign_head_is_dropped(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    let next = waiter(fair(&case, &b, "next"), "next", &Arc::default());
    until_queued(&case, 2).await;
    // However long it is held: a head is dropped only while the lock is free.
    sleep(secs(4)).await;
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
            let raw = server.raw().await;
            Some(raw.subscribe(&format!("{}:java:1", channel(&case))).await)
        }
        // Nobody can listen there: the other rule comes first.
        World::Embedded(_) => return,
    };
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    let next = waiter(fair(&case, &b, "next"), "next", &Arc::default());
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
    sleep(ms(900)).await;
    assert!(score(&case, "java:1").await > now + 300_000);
    // .. and so do the polls of whoever waits behind it.
    case.ask(&["ZADD", &timeouts(&case), &now.to_string(), "java:1"]).await;
    let b = case.client_with(short()).await;
    let brief = fair(&case, &b, "brief").acquire().wait(ms(100)).await;
    assert!(!brief.unwrap().is_acquired() && score(&case, "java:1").await > now + 300_000);
    assert_eq!(waiting(&case).await.first().map(String::as_str), Some("java:1"));
    guard.unlock().await.unwrap();
}

/// Then nobody hears a release, but the first of each process asks.
pub async fn lost_messages_cost_at_most_the_cap(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    let clients = [case.client().await, case.client().await];
    let guard = fair(&case, &clients[0], "holder").guard().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let [a, b] = &clients;
    let tasks = queue_up(&case, &[a, a, b, b], 0..10, &served).await;
    sleep(secs(2)).await;
    server.lose_messages(true);
    let began = Instant::now();
    guard.unlock().await.unwrap();
    patient_all("served", tasks).await;
    assert!(began.elapsed() <= secs(11), "{:?}", began.elapsed());
    assert_eq!(*served.lock().unwrap(), (0..10).map(|number| format!("w{number}")).collect::<Vec<_>>());
}

/// The scores of those who come later are lower then than the first's were.
pub async fn the_first_of_a_process_asks_though_the_scores_were_lowered(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = queue_up(&case, &[&b], 0..4, &served).await;
    // As after so many acquisitions that all scores were taken down.
    for (place, owner) in waiting(&case).await.iter().enumerate() {
        let lower = case.time().await + 1_000 * (place as i64 + 1);
        case.ask(&["ZADD", &timeouts(&case), &lower.to_string(), owner]).await;
    }
    tasks.extend(queue_up(&case, &[&b], 4..8, &served).await);
    sleep(secs(2)).await;
    server.lose_messages(true);
    guard.unlock().await.unwrap();
    patient_all("served", tasks).await;
    assert_eq!(*served.lock().unwrap(), (0..8).map(|number| format!("w{number}")).collect::<Vec<_>>());
}

pub async fn one_attempt_does_not_queue(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(&case, &a, "holder").guard().await.unwrap();
    assert!(!fair(&case, &b, "x").try_lock().await.unwrap().is_acquired());
    assert!(fair(&case, &b, "x").acquire().wait(ms(0)).guard().await.unwrap().is_none());
    assert_eq!(waiting(&case).await.len(), 0);
    // Nor does an owner that enters again.
    let inner = patient("the owner enters again", fair(&case, &a, "holder").guard()).await.unwrap();
    inner.unlock().await.unwrap();
    guard.unlock().await.unwrap();
    // And it does not overtake those who wait.
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    assert!(!fair(&case, &b, "x").try_lock().await.unwrap().is_acquired());
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
    sleep(secs(5)).await;
    let before = server.calls();
    sleep(secs(600)).await;
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
    patient_all("served", tasks).await;
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
    let ended = patient_all("the wait ends", tasks).await;
    assert!(ended.iter().all(|outcome| *outcome == Err(LockError::Query(QueryError::Closed))), "{ended:?}");
    guard.unlock().await.unwrap();
}
