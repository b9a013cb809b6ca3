//! What waiters cost while nothing happens, and that those who sleep hear of what ends without a message.

use std::sync::atomic::{AtomicUsize, Ordering};

use support::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const NAMES: usize = 1_000;
/// Locks in one look.
const BATCH: usize = 500;

/// A waiter of its own for each name, in a task of its own.
fn wait_for(locks: &Locks, names: &[String]) -> Vec<JoinHandle<Result<(), LockError>>> {
    let wait = |name: &String| {
        let lock = locks.lock(name);
        tokio::spawn(async move { lock.lock().await })
    };
    names.iter().map(wait).collect()
}

/// How many hash keys of other owners' holds are there, without a lease: they stay until they are deleted.
async fn hold(raw: &mut Raw, names: &[String]) {
    for name in names {
        raw.must(&["HSET", name, "other:1", "1"]).await;
    }
}

async fn channels(server: &Server) -> usize {
    server.raw().await.must(&["PUBSUB", "CHANNELS"]).await.list().len()
}

/// Thousands of idle names are looked for by a few scripts; those that are gone without a message are found all the
/// same, and by their waiters alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_names_are_looked_for_together() {
    let server = Server::start();
    let locks = server.locks().await;
    let names: Vec<String> = (0..NAMES).map(|number| format!("idle:{number}")).collect();
    let mut raw = server.raw().await;
    hold(&mut raw, &names).await;
    let mut waiters = wait_for(&locks, &names);
    eventually(secs(120), "all listen", async || channels(&server).await == NAMES).await;
    // Those who came while it was busy look once more.
    sleep(secs(3)).await;
    let (before, window) = (server.calls("evalsha"), secs(4));
    sleep(window).await;
    let scripts = server.calls("evalsha") - before;
    let least = (NAMES / BATCH) as u64 * window.as_secs();
    println!("{scripts} scripts in {window:?} for {NAMES} names; full ones would be {least}");
    // An attempt each would be at least as many as there are names, each second.
    assert!(scripts > 0 && scripts <= least * 2, "{scripts}");
    let gone: Vec<&str> = names.iter().step_by(100).map(String::as_str).collect();
    let delete: Vec<&str> = std::iter::once("DEL").chain(gone.iter().copied()).collect();
    raw.must(&delete).await;
    for at in (0..NAMES).step_by(100).rev() {
        patient("a waiter whose key is gone", waiters.swap_remove(at)).await.unwrap().unwrap();
    }
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    waiters.iter().for_each(JoinHandle::abort);
}

/// The end of a lease is not a cap late, though the others' looks are what finds that it will come.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_is_met_by_its_waiter() {
    let server = EmbeddedServer::new();
    let (dies, waits) = (server.connect(), server.connect());
    for name in ["a", "b", "c"] {
        let lease = ms(3_400);
        assert!(dies.lock(name).acquire().lease(lease).await.unwrap().is_acquired());
        let began = Instant::now();
        waits.lock(name).lock().await.unwrap();
        let took = began.elapsed();
        assert!(took >= lease && took < lease + ms(20), "{took:?}");
    }
}

/// Who is not the first of its process's line is polled when its turn comes, and not before.
#[tokio::test(start_paused = true)]
async fn who_stands_behind_others_sleeps() {
    let server = EmbeddedServer::new();
    let (holder, locks) = (server.connect(), server.connect());
    let held = holder.lock("line").guard().await.unwrap();
    let polls = Arc::new(AtomicUsize::new(0));
    let waiters: Vec<_> = (0..4)
        .map(|place| {
            let (lock, polls) = (locks.lock("line"), polls.clone());
            tokio::spawn(async move {
                let mut waiting = Box::pin(async move { lock.guard().await });
                let guard = std::future::poll_fn(|context| {
                    polls.fetch_add(usize::from(place > 0), Ordering::Relaxed);
                    waiting.as_mut().poll(context)
                });
                guard.await.unwrap().unlock().await.unwrap();
            })
        })
        .collect();
    sleep(secs(2)).await;
    let before = polls.load(Ordering::Relaxed);
    sleep(secs(60)).await;
    assert_eq!(polls.load(Ordering::Relaxed), before);
    held.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

/// Who becomes the first behind a hold of its own process looks for itself: the key may be gone, and nobody says so.
#[tokio::test(start_paused = true)]
async fn a_new_head_looks_behind_a_hold_of_its_process() {
    let server = EmbeddedServer::new();
    let locks = Locks::builder().watchdog_lease(secs(600));
    let locks = server.connect_with(locks).unwrap();
    let first = locks.lock("line").guard().await.unwrap();
    let next = || {
        let lock = locks.lock("line");
        tokio::spawn(async move { lock.guard().await })
    };
    let (second, third) = (next(), next());
    sleep(ms(10)).await;
    // Handed over inside of the process: the third is the first of the line from here on.
    first.unlock().await.unwrap();
    let second = second.await.unwrap().unwrap();
    server.command(&["DEL", "line"]).unwrap();
    let began = Instant::now();
    let third = third.await.unwrap().unwrap();
    assert!(began.elapsed() <= secs(1), "{:?}", began.elapsed());
    assert!(!second.is_valid() && third.is_valid());
}

/// Messages that come faster than they are read are lost to fred; nobody is subscribed anew for that.
#[tokio::test]
async fn an_overflow_of_messages_wakes_who_waits() {
    let server = Server::start();
    let locks = Locks::builder().wait_cap(secs(60)).connect(&server.url()).await.unwrap();
    let mut raw = server.raw().await;
    let names = ["flood".to_owned()];
    hold(&mut raw, &names).await;
    let mut waiter = wait_for(&locks, &names).remove(0);
    eventually(secs(20), "it listens", async || channels(&server).await == 1).await;
    sleep(ms(200)).await;
    server.reset_stats();
    // In one script, which ends with the key: this one-threaded runtime reads them at once.
    let flood = "for i = 1, 20000 do redis.call('PUBLISH', KEYS[2], 'x') end return redis.call('DEL', KEYS[1])";
    raw.must(&["EVAL", flood, "2", "flood", "redisson_lock__channel:{flood}"]).await;
    patient("the waiter", &mut waiter).await.unwrap().unwrap();
    assert_eq!(server.calls("subscribe"), 0);
}

/// Behind a gap all waiters of a fair lock ask; the hold of their own process is asked for once, not by each of them.
#[tokio::test(start_paused = true)]
async fn a_hold_is_asked_for_once_however_many_doubt_it() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let guard = locks.fair_lock("crowded").guard().await.unwrap();
    let lock_of = |_| locks.fair_lock("crowded").owned_by(&Owner::unique());
    let waiters =
        (0..200).map(lock_of).map(|lock| tokio::spawn(async move { lock.guard().await.unwrap().unlock().await }));
    let waiters: Vec<_> = waiters.collect();
    sleep(secs(1)).await;
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = looks.clone();
    server.watch(move |commit| {
        let is_look = commit.call.text.contains("-- fair/extend.lua") && commit.call.args.iter().any(|arg| arg == "0");
        counted.fetch_add(usize::from(is_look), Ordering::Relaxed);
    });
    server.restart(&server.snapshot());
    sleep(secs(2)).await;
    let looks = looks.load(Ordering::Relaxed);
    assert!((1..=10).contains(&looks), "asked for {looks} times");
    guard.unlock().await.unwrap();
    for given_back in patient_all("a waiter", waiters).await {
        given_back.unwrap();
    }
}
