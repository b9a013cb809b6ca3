//! Clusters and sentinels as the tests start them: that they fail over, and that slots move, as the tests believe. And
//! lockson's clients of them.

mod by_fred;
mod certificates;
mod cluster;
mod clustered;
mod confirm;
mod connecting;
mod credentials;
mod examples;
mod guarded;
mod health;
mod hearing;
mod kinds;
mod mixed;
mod moving;
mod quarantine;
mod refused;
mod rights;
mod sentinels;
mod storm;
mod times;
mod waking;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use support::prelude::*;
use support::Reply;
use tokio::task::JoinHandle;

pub async fn play(part: &str, args: &[String]) {
    match part {
        "storm" => support::worker::play(&args[0]).await,
        other => panic!("no part {other}"),
    }
}

/// What a server says: its answer, or the first word of its error.
fn told(answer: Result<Reply, String>) -> String {
    match answer {
        Ok(reply) => reply.text(),
        Err(error) => error.split(' ').next().unwrap().to_owned(),
    }
}

/// Every kind keeps another client out, and its release wakes that one: these wait for no look of their own.
async fn every_kind_works(url: &str) {
    every_kind_works_for(Locks::builder(), url).await;
}

/// The same by clients that are made in some way.
async fn every_kind_works_for(builder: Builder, url: &str) {
    let client = || async { builder.clone().wait_cap(secs(60)).connect(url).await.unwrap() };
    let (one, other) = (client().await, client().await);
    for kind in &KINDS {
        let name = unique(kind.name.split(' ').next().unwrap());
        let (held, wanted) = ((kind.make)(&one, &name), (kind.rival().make)(&other, &name));
        held.lock().await.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        assert_matches!(wanted.try_lock().await, Ok(Busy), kind.name);
        let waiter = tokio::spawn(async move {
            wanted.lock().await.unwrap();
            wanted.unlock().await.unwrap();
        });
        if kind.channel(&name, "").is_some() {
            eventually(secs(20), "the waiter listens", async || other.health().subscriptions > 0).await;
        }
        sleep(ms(50)).await;
        held.unlock().await.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        patient(kind.name, waiter).await.unwrap();
    }
    permits_work(&one, &other).await;
    for locks in [one, other] {
        locks.shutdown(secs(5)).await.unwrap();
    }
}

/// Semaphores and latches wake those who wait for them at another client.
async fn permits_work(one: &Locks, other: &Locks) {
    let (semaphore, elsewhere) = (one.semaphore(&unique("semaphore")), other.clone());
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let permit = semaphore.guard(1).await.unwrap();
    let waiter = spawn_with(semaphore.name().to_owned(), async move |name| {
        elsewhere.semaphore(&name).guard(1).await.unwrap().release().await.unwrap();
    });
    sleep(ms(100)).await;
    permit.release().await.unwrap();
    patient("a permit", waiter).await.unwrap();
    let (latch, elsewhere) = (one.latch(&unique("latch")), other.clone());
    assert!(latch.try_set_count(1).await.unwrap());
    let waiter = spawn_with(latch.name().to_owned(), async move |name| elsewhere.latch(&name).wait().await.unwrap());
    sleep(ms(100)).await;
    latch.count_down().await.unwrap();
    assert_matches!(patient("an open latch", waiter).await.unwrap(), WaitOutcome::Opened);
}

/// How a task took and gave back its lock again and again.
#[derive(Debug, Default)]
struct Turns {
    done: usize,
    failed: Vec<String>,
    /// The longest time between two that were done.
    gap: Duration,
}

/// Takes and gives back the lock of each name until told to end.
fn contend(locks: &Locks, names: &[String], end: &Arc<AtomicBool>) -> Vec<JoinHandle<Turns>> {
    let one = |name: &String| {
        let (lock, end) = (locks.lock(name), end.clone());
        tokio::spawn(async move {
            let (mut turns, mut last) = (Turns::default(), Instant::now());
            while !end.load(Ordering::Relaxed) {
                let turn = async {
                    let guard = lock.guard().await.map_err(|error| error.to_string())?;
                    sleep(ms(1)).await;
                    guard.unlock().await.map_err(|error| error.to_string())
                };
                match turn.await {
                    Ok(()) => {
                        turns.done += 1;
                        turns.gap = turns.gap.max(last.elapsed());
                        last = Instant::now();
                    }
                    Err(why) => turns.failed.push(why),
                }
            }
            turns.gap = turns.gap.max(last.elapsed());
            turns
        })
    };
    names.iter().map(one).collect()
}
