//! Many tasks lock random pairs and triples of a few locks: none waits for ever, and nothing is left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use lockson::Request;
use support::prelude::*;
use support::sites::give_up_after;

/// What fifty tasks count, and who is inside of each of the six.
struct Six {
    inside: [AtomicBool; 6],
    counters: [AtomicU64; 6],
    turns: [AtomicU64; 6],
    breaches: AtomicU64,
    given_up: AtomicU64,
}

impl Six {
    /// A turn: what is counted without a lock of its own is exact only if nobody else is inside.
    async fn turn(&self, picked: &[usize]) {
        for &at in picked {
            if self.inside[at].swap(true, Ordering::SeqCst) {
                self.breaches.fetch_add(1, Ordering::SeqCst);
            }
        }
        let before: Vec<u64> = picked.iter().map(|&at| self.counters[at].load(Ordering::SeqCst)).collect();
        tokio::task::yield_now().await;
        for (&at, before) in picked.iter().zip(before) {
            self.counters[at].store(before + 1, Ordering::SeqCst);
            self.turns[at].fetch_add(1, Ordering::SeqCst);
            self.inside[at].store(false, Ordering::SeqCst);
        }
    }
}

/// Random pairs and triples, in random order, by random verbs; some are given up.
async fn locks_at_random(clients: &[Locks], six: &Six, names: &[String], mut rng: Rng, end: Instant) {
    while Instant::now() < end {
        let mut picked: Vec<usize> = Vec::new();
        let size = 2 + rng.below(2) as usize;
        while picked.len() < size {
            let at = rng.below(6) as usize;
            if !picked.contains(&at) {
                picked.push(at);
            }
        }
        let client = &clients[rng.below(clients.len() as u64) as usize];
        let handle = |at: &usize| match at {
            0 => Arc::new(client.mutex(&names[0])) as Arc<dyn RLock>,
            1 => Arc::new(client.fair_lock(&names[1])),
            2 => Arc::new(client.read_write_lock(&names[2]).write()),
            at => Arc::new(client.lock(&names[*at])),
        };
        let lock = MultiLock::new(picked.iter().map(handle));
        match rng.below(8) {
            0 => {
                six.given_up.fetch_add(1, Ordering::SeqCst);
                drop(give_up_after(rng.below(12) as usize, lock.guard()).await);
            }
            1 => {
                let request = Request::default().wait(ms(rng.below(40))).lease(secs(30));
                match lock.guard_with(request).await {
                    Ok(Some(guard)) => {
                        six.turn(&picked).await;
                        guard.unlock().await.unwrap();
                    }
                    // A limit shorter than a round trip.
                    Ok(None) | Err(LockError::Query(QueryError::Unreachable { .. })) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            2 => {
                lock.lock().await.unwrap();
                six.turn(&picked).await;
                lock.unlock().await.unwrap();
            }
            3 => {
                let guard = lock.guard().await.unwrap();
                six.turn(&picked).await;
                drop(guard);
            }
            _ => {
                let guard = lock.guard().await.unwrap();
                six.turn(&picked).await;
                guard.unlock().await.unwrap();
            }
        }
    }
}

/// "50 tasks lock random pairs and triples of 6 locks for 30 s: no deadlock, no leak"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_and_six_locks() {
    let server = Server::start();
    let seed = seed();
    let mut rng = Rng::new(seed);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Locks::builder().wait_cap(secs(5)).connect(&server.url()).await.unwrap());
    }
    let clients: Arc<[Locks]> = clients.into();
    let names: Arc<[String]> = (0..6).map(|_| unique("six")).collect();
    let six = Arc::new(Six {
        inside: Default::default(),
        counters: Default::default(),
        turns: Default::default(),
        breaches: AtomicU64::new(0),
        given_up: AtomicU64::new(0),
    });
    let end = Instant::now() + secs(soak(30) as u64);
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (clients, six, names, rng) = (clients.clone(), six.clone(), names.clone(), rng.fork());
            tokio::spawn(async move { locks_at_random(&clients, &six, &names, rng, end).await })
        })
        .collect();
    let all = futures::future::try_join_all(tasks);
    let limit = secs(soak(30) as u64 + 60);
    tokio::time::timeout(limit, all).await.expect("nobody waits for ever").unwrap();
    let free = || async {
        let keys = server.raw().await.keys("*").await;
        clients.iter().all(|client| client.health().holds == 0) && !names.iter().any(|name| keys.contains(name))
    };
    eventually(secs(20), "nothing is left", free).await;
    let counted: u64 = six.counters.iter().map(|counter| counter.load(Ordering::SeqCst)).sum();
    let turns: u64 = six.turns.iter().map(|turns| turns.load(Ordering::SeqCst)).sum();
    let (breaches, given_up) = (six.breaches.load(Ordering::SeqCst), six.given_up.load(Ordering::SeqCst));
    println!("fifty tasks and six locks: {turns} turns, {given_up} given up");
    assert!(turns > 0);
    report("fifty tasks and six locks", counted as usize, turns as usize, breaches as usize, seed);
}
