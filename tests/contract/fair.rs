//! What the fair lock adds: a queue on the server. Rule 17.

use std::sync::Mutex;

use lockson::FairLock;

use crate::contract::world::*;

macro_rules! keys {
    ($($of:ident: $begins:literal;)*) => {
        $(pub fn $of(case: &Case) -> String {
            format!("{}:{{{}}}", $begins, case.name)
        })*
    };
}

keys! {
    queue: "redisson_lock_queue";
    timeouts: "redisson_lock_timeout";
    seen: "lockson:fair_seen";
    state: "lockson:fair_state";
    channel: "redisson_lock__channel";
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

/// Two clients, and a guard of the first one.
pub async fn held(case: &Case) -> (Locks, Locks, Guard) {
    let (a, b) = (case.client().await, case.client().await);
    let guard = fair(case, &a, "holder").guard().await.unwrap();
    (a, b, guard)
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

/// Waiters of these clients: each comes when those before it are queued.
pub async fn queue_up(
    case: &Case,
    comers: &[(&Locks, impl AsRef<str>)],
    served: &Arc<Mutex<Vec<String>>>,
) -> Vec<JoinHandle<()>> {
    let (before, mut tasks) = (waiting(case).await.len(), Vec::new());
    for (client, name) in comers {
        tasks.push(waiter(fair(case, client, name.as_ref()), name.as_ref(), served));
        until_queued(case, before + tasks.len()).await;
    }
    tasks
}

/// Waiters with these numbers, `w0` and so on, of these clients in turn.
fn numbered<'a>(clients: &[&'a Locks], numbers: std::ops::Range<usize>) -> Vec<(&'a Locks, String)> {
    numbers.map(|number| (clients[number % clients.len()], format!("w{number}"))).collect()
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
    let tasks = queue_up(&case, &numbered(&[&clients[0], &clients[1]], 0..12), &served).await;
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
    let (a, b, guard) = held(&case).await;
    assert_eq!(fair(&case, &a, "holder").queue_len().await.unwrap(), 0);
    assert_eq!(fair(&case, &a, "x").queue_position().await.unwrap(), None);
    let comers = [(&a, "x"), (&b, "y"), (&a, "z")];
    let tasks = queue_up(&case, &comers, &Arc::default()).await;
    assert_eq!(fair(&case, &b, "any").queue_len().await.unwrap(), 3);
    for (place, (client, name)) in comers.into_iter().enumerate() {
        let found = fair(&case, client, name).queue_position().await.unwrap();
        assert_eq!(found, Some(place as u64));
    }
    assert_eq!(fair(&case, &b, "x").queue_position().await.unwrap(), None, "another client's x");
    guard.unlock().await.unwrap();
    patient_all("served", tasks).await;
}

/// At its limit, or cancelled: the next is woken, and not by the rule for dead heads.
pub async fn who_gives_up_leaves_the_queue(case: Case) {
    let (a, b, guard) = held(&case).await;
    assert!(!fair(&case, &b, "brief").acquire().wait(ms(200)).await.unwrap().is_acquired());
    until_queued(&case, 0).await;
    assert_eq!(case.ask(&["EXISTS", &timeouts(&case), &seen(&case)]).await, "0");
    let mut tasks = queue_up(&case, &[(&b, "first"), (&a, "second")], &Arc::default()).await;
    tasks.remove(0).abort();
    until_queued(&case, 1).await;
    let began = Instant::now();
    guard.unlock().await.unwrap();
    patient_all("the second", tasks).await;
    assert!(began.elapsed() < case.bound(ms(500)), "{:?}", began.elapsed());
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

/// Its turn is over in a second if nobody hears its channel, in five if somebody does and does nothing.
pub async fn a_foreign_head_that_ignores_its_turn_is_dropped(case: Case) {
    for is_heard in [false, true] {
        let heard = if is_heard { case.listen(&[&format!("{}:java:1", channel(&case))]).await } else { None };
        if is_heard && heard.is_none() {
            return;
        }
        let (_, b, guard) = held(&case).await;
        enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
        let next = waiter(fair(&case, &b, "next"), "next", &Arc::default());
        until_queued(&case, 2).await;
        // However long it is held: a head is dropped only while the lock is free.
        sleep(secs(4)).await;
        assert_eq!(waiting(&case).await.first().map(String::as_str), Some("java:1"));
        let (began, before) = (Instant::now(), case.calls());
        guard.unlock().await.unwrap();
        patient("the next", next).await.unwrap();
        let (took, calls) = (began.elapsed(), case.calls_since(before));
        let (least, most) = if is_heard { (ms(4_900), secs(9)) } else { (ms(900), ms(4_500)) };
        assert!(took >= least && took < case.bound(most), "{took:?}");
        // Redisson's waiters spin on a dead head: 14,147 scripts a second (6.D.1).
        if let Some(calls) = calls {
            assert!(calls <= 20, "{calls} scripts in {took:?}");
        }
        assert!(heard.is_none_or(|heard| heard.count() >= 5), "it was told again and again");
    }
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

/// Then nobody hears a release, but the first of each process asks: also when later ones have lower scores than it.
pub async fn lost_messages_cost_at_most_the_cap(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    for lowered in [false, true] {
        let (a, b, guard) = held(&case).await;
        let (clients, served) = (if lowered { [&b; 4] } else { [&a, &a, &b, &b] }, Arc::new(Mutex::new(Vec::new())));
        let mut tasks = queue_up(&case, &numbered(&clients, 0..4), &served).await;
        for (place, owner) in waiting(&case).await.iter().enumerate().filter(|_| lowered) {
            let lower = case.time().await + 1_000 * (place as i64 + 1);
            case.ask(&["ZADD", &timeouts(&case), &lower.to_string(), owner]).await;
        }
        tasks.extend(queue_up(&case, &numbered(&clients, 4..10), &served).await);
        sleep(secs(2)).await;
        server.lose_messages(true);
        let began = Instant::now();
        guard.unlock().await.unwrap();
        patient_all("served", tasks).await;
        assert!(began.elapsed() <= secs(11), "{:?}", began.elapsed());
        assert_eq!(*served.lock().unwrap(), (0..10).map(|number| format!("w{number}")).collect::<Vec<_>>());
        server.lose_messages(false);
    }
}

pub async fn one_attempt_does_not_queue(case: Case) {
    let (a, b, guard) = held(&case).await;
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
    let (locks, _, guard) = held(&case).await;
    let mut tasks = queue_up(&case, &numbered(&[&locks], 0..150), &Arc::default()).await;
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
    // Who leaves from within tells it once.
    let before = server.calls();
    tasks.drain(50..).for_each(|task| task.abort());
    until_queued(&case, 50).await;
    let calls = server.calls() - before;
    assert!(calls <= 110, "{calls} scripts for 100 to leave");
    guard.unlock().await.unwrap();
    patient_all("served", tasks).await;
}

/// Whatever an operator or a Java client did to it. A debt of a queue that is gone belongs to nobody.
pub async fn a_lost_queue_is_made_again(case: Case) {
    let (locks, _, guard) = held(&case).await;
    case.ask(&["HSET", &state(&case), "debt", "900000"]).await;
    let task = waiter(fair(&case, &locks, "w"), "w", &Arc::default());
    until_queued(&case, 1).await;
    assert_eq!(case.ask(&["HGET", &state(&case), "debt"]).await, "nil");
    case.ask(&["DEL", &queue(&case), &timeouts(&case)]).await;
    until_queued(&case, 1).await;
    guard.unlock().await.unwrap();
    patient("served", task).await.unwrap();
}

/// It takes its own wait off every score: one of now + 60 s became now - 240 s there (6.D.8).
pub async fn a_java_acquisition_prunes_nobody(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let guard = fair(&case, &locks, "holder").guard().await.unwrap();
    let start = case.time().await;
    enqueue_by_hand(&case, "java:1", start + 300_000).await;
    let tasks = queue_up(&case, &numbered(&[&locks], 0..3), &Arc::default()).await;
    // The holder goes and java:1 takes it, in one step: what its script does.
    let java = "redis.call('DEL', KEYS[1]) redis.call('LPOP', KEYS[2]) redis.call('ZREM', KEYS[3], 'java:1') \
                for _, m in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do \
                redis.call('ZINCRBY', KEYS[3], -300000, m) end \
                redis.call('HSET', KEYS[1], 'java:1', 1) return redis.call('PEXPIRE', KEYS[1], 30000)";
    case.eval(java, &[&case.name, &queue(&case), &timeouts(&case)], &[]).await;
    let owners = waiting(&case).await;
    assert_eq!(owners.len(), 3);
    for (place, owner) in owners.iter().enumerate() {
        let ahead = score(&case, owner).await - start;
        assert!(ahead >= 300_000 * (place as i64 + 1) - 1_000, "{place}: {ahead}");
    }
    assert!(guard.unlock().await.is_err());
    case.ask(&["DEL", &case.name]).await;
    patient_all("served", tasks).await;
}
