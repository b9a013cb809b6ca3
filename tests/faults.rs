//! Bad days: connections that end, hang or crawl, and servers that stop, forget or start anew.

use lockson::ReentrantLock;
use support::prelude::*;
use tokio::task::JoinSet;

/// How often an operator comes at least.
const OFTEN: usize = 4;

/// So many turns of a task, and more until the operator came often, each of which moves a counter that is not atomic:
/// how many there were, and how many of its unlocks were unconfirmed.
async fn traffic(lock: ReentrantLock, [counter, strikes]: [Arc<AtomicUsize>; 2], turns: usize) -> [usize; 2] {
    let [mut done, mut unconfirmed] = [0; 2];
    while done < turns || strikes.load(Ordering::Relaxed) < OFTEN {
        done += 1;
        lock.lock().await.unwrap();
        let seen = counter.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        counter.store(seen + 1, Ordering::Relaxed);
        match lock.unlock().await {
            Ok(()) => {}
            // It is gone, and its answer was lost with the connection.
            Err(UnlockError::Unconfirmed { .. }) => unconfirmed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    [done, unconfirmed]
}

/// Repeats a command of an operator while 4 tasks each of 3 clients take turns.
async fn harassed(what: &str, every: Duration, turns: usize, command: &'static [&'static str]) {
    let (server, name) = (Server::start(), unique("traffic"));
    let [counter, strikes] = <[Arc<AtomicUsize>; 2]>::default();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let locks = server.locks().await;
        (0..4).for_each(|_| drop(tasks.spawn(traffic(locks.lock(&name), [counter.clone(), strikes.clone()], turns))));
    }
    let over = Arc::new(AtomicBool::new(false));
    let operator = tokio::spawn({
        let (over, strikes, port) = (over.clone(), strikes.clone(), server.port());
        async move {
            while !over.load(Ordering::Relaxed) {
                Raw::connect(port).await.must(command).await;
                strikes.fetch_add(1, Ordering::Relaxed);
                sleep(every).await;
            }
        }
    });
    let limit = ms(60_000) + ms(100) * u32::try_from(turns).unwrap();
    let ended = tokio::time::timeout(limit, tasks.join_all()).await;
    let ended = ended.expect("traffic that ends");
    let [done, unconfirmed] = [0, 1].map(|at| ended.iter().map(|task| task[at]).sum::<usize>());
    over.store(true, Ordering::Relaxed);
    operator.await.unwrap();
    println!("{what}: {} times, {unconfirmed} unlocks unconfirmed", strikes.load(Ordering::Relaxed));
    report(what, counter.load(Ordering::Relaxed), done, 0, None);
    assert!(!server.raw().await.exists(&name).await);
}

/// SCRIPT FLUSH and CLIENT KILL in a loop: no call fails, no turn is lost or counts twice, every waiter is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_during_traffic() {
    tokio::join!(
        harassed("script flush", ms(1), soak(3000), &["SCRIPT", "FLUSH"]),
        harassed("client kill normal", ms(50), soak(1000), &["CLIENT", "KILL", "TYPE", "normal"]),
        harassed("client kill pubsub", ms(20), soak(1000), &["CLIENT", "KILL", "TYPE", "pubsub"]),
    );
}

/// The server stands still past the lease: the guard is lost by its own deadline, and nothing late revives it.
#[tokio::test]
async fn a_frozen_server_outlasts_the_lease() {
    let server = Server::start();
    // Only messages, gaps and leases wake a waiter.
    let builder = || Locks::builder().command_timeout(ms(300)).wait_cap(secs(60)).watchdog_lease(ms(1000));
    let (a, b) = (builder().connect(&server.url()).await.unwrap(), builder().connect(&server.url()).await.unwrap());
    let (asked, mut done, mut untold) = (soak(20), 0, 0);
    while done < asked {
        let name = unique("frozen");
        let held = a.lock(&name).guard().await.unwrap();
        // Between two renewals; the next ones meet a server that stands.
        sleep(ms(500)).await;
        server.freeze();
        let frozen = Instant::now();
        let left = held.remaining();
        if left < ms(700) {
            // A renewal was under way: whether it was in time, nobody here can tell.
            server.thaw();
            untold += 1;
            assert!(untold < 10 * asked, "a renewal is always under way");
            continue;
        }
        assert_eq!(patient("the loss", held.lost()).await.why, LostReason::Deadline);
        // After the renewals, so that they arrive before it.
        let waiting = spawn_with(b.lock(&name), |lock| async move { lock.guard().await.unwrap() });
        // The server says nothing until it thaws.
        assert!(frozen.elapsed() >= left, "{:?} of {left:?}", frozen.elapsed());
        assert!(held.state() == HoldState::Lost && held.remaining().is_zero());
        // Renewals that were sent last may still be in time, or not.
        sleep(if done % 2 == 0 { ms(30) } else { ms(500) }).await;
        server.thaw();
        let mut raw = server.raw().await;
        while !waiting.is_finished() {
            let holds = raw.hgetall(&name).await;
            assert!(holds.iter().all(|(field, _)| field.starts_with(b.client_id())), "revived: {holds:?}");
        }
        let next = patient("the lock", waiting).await.unwrap();
        // What was on its way has arrived, and two periods of the watchdog are over.
        sleep(ms(700)).await;
        let holds = server.raw().await.hgetall(&name).await;
        assert!(holds.len() == 1 && holds[0].0.starts_with(b.client_id()) && holds[0].1 == "1", "{holds:?}");
        assert!(!held.is_valid());
        assert!(matches!(held.unlock().await, Err(UnlockError::NotHeld { .. })));
        next.verify().await.unwrap();
        next.unlock().await.unwrap();
        assert!(!server.raw().await.exists(&name).await);
        done += 1;
    }
    println!("{untold} rounds more met a renewal under way");
    report("servers that stood longer than the lease", done, asked, 0, None);
}

/// On a link that is slower than the lease an answer comes too late to be a hold; a longer lease counts from the send.
#[tokio::test]
async fn a_lease_shorter_than_the_link_is_refused() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = proxy.locks().await;
    proxy.delay(ms(80));
    let several = MultiLock::new(vec![Arc::new(locks.lock("slow")) as Arc<dyn RLock>, Arc::new(locks.lock("slower"))]);
    let kinds: [Arc<dyn RLock>; 2] = [Arc::new(locks.lock("slow")), Arc::new(several)];
    for lock in kinds.iter().cycle().take(6) {
        let late = patient("an answer", lock.acquire_with(Request::default().lease(ms(120)))).await;
        assert_matches!(late, Err(error @ LockError::Query(QueryError::Unreachable { .. })) if error.may_hold());
        let mut raw = server.raw().await;
        while raw.exists("slow").await || raw.exists("slower").await {
            tokio::task::yield_now().await;
        }
    }
    let guard = locks.lock("slow enough").acquire().lease(ms(1000)).guard().await.unwrap().unwrap();
    let left = server.raw().await.pttl("slow enough").await;
    assert!(guard.remaining() <= ms(left as u64), "the lease counts from the send");
    guard.unlock().await.unwrap();
}

/// A question that nobody waits for any more says nothing about the server: it stays reachable, and busy stays busy.
#[tokio::test]
async fn a_dropped_question_is_no_outage() {
    let server = Server::start();
    let (a, b) = (server.locks().await, server.locks().await);
    a.lock("held").lock().await.unwrap();
    let lock = b.lock("held");
    // The waiter's own attempts are over long before its limit.
    let waiting = tokio::spawn(async move { lock.acquire().wait(ms(700)).await });
    sleep(ms(100)).await;
    let free = b.lock("free");
    let mut question = Box::pin(free.is_locked());
    assert!(futures::poll!(question.as_mut()).is_pending());
    drop(question);
    sleep(ms(400)).await;
    assert!(b.health().reachable);
    assert!(matches!(waiting.await.unwrap(), Ok(Busy)));
}
