//! Readers and writers of several clients while the network fails: no reader with a writer, no two writers, and every
//! writer gets its turn.

#[path = "support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockson::{Guard, Locks};
use support::{patient, report, seed, soak, unique, Filter, Proxy, Rng, Server};

/// Clients, each behind a proxy of its own.
const CLIENTS: usize = 4;
/// Ends a turn of one whose hold is lost: what comes after is no breach.
const TURN: Duration = Duration::from_millis(4);

/// Who is inside, by the holds that say that they are valid.
#[derive(Default)]
struct Inside(Mutex<Holders>);

#[derive(Default)]
struct Holders {
    readers: Vec<Arc<Guard>>,
    writers: Vec<Arc<Guard>>,
}

#[derive(Default)]
struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
    lost: AtomicU64,
    breaches: AtomicU64,
    /// The longest time between two turns of one writer, in milliseconds.
    longest: AtomicU64,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One turn: what the guard protects is said to be valid at the same instant as nothing that it excludes.
async fn turn(inside: &Inside, guard: Guard, writes: bool, tally: &Tally) {
    let guard = Arc::new(guard);
    {
        let mut holders = inside.0.lock().unwrap();
        let valid = |others: &[Arc<Guard>]| others.iter().any(|other| other.is_valid());
        let rivals = valid(&holders.writers) || (writes && valid(&holders.readers));
        if rivals && guard.is_valid() {
            tally.breaches.fetch_add(1, Ordering::SeqCst);
        }
        let side = if writes { &mut holders.writers } else { &mut holders.readers };
        side.push(guard.clone());
    }
    tokio::time::sleep(TURN).await;
    {
        let mut holders = inside.0.lock().unwrap();
        let side = if writes { &mut holders.writers } else { &mut holders.readers };
        side.retain(|other| !Arc::ptr_eq(other, &guard));
    }
    let guard = Arc::into_inner(guard).unwrap();
    let count = if writes { &tally.writes } else { &tally.reads };
    count.fetch_add(1, Ordering::SeqCst);
    if guard.unlock().await.is_err() {
        tally.lost.fetch_add(1, Ordering::SeqCst);
    }
}

async fn client(proxy: &Proxy) -> Locks {
    Locks::builder().command_timeout(ms(400)).watchdog_lease(ms(1500)).connect(&proxy.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_while_replies_are_cut() {
    let (seconds, seed) = (soak(60), seed());
    let (readers, writers) = (soak(100), soak(10).max(4));
    let server = Server::start();
    let proxies: Vec<Proxy> = (0..CLIENTS).map(|_| Proxy::start(server.port())).collect();
    let mut clients = Vec::new();
    for proxy in &proxies {
        clients.push(client(proxy).await);
    }
    let name = unique("soak");
    let (inside, tally, stop) =
        (Arc::new(Inside::default()), Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for number in 0..readers + writers {
        let writes = number < writers;
        let lock = clients[number % CLIENTS].read_write_lock(&name);
        let (inside, tally, stop) = (inside.clone(), tally.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            let mut turns = 0_u64;
            while !stop.load(Ordering::SeqCst) {
                let began = Instant::now();
                let guard = if writes { lock.write().guard().await } else { lock.read().guard().await };
                if writes {
                    tally.longest.fetch_max(began.elapsed().as_millis() as u64, Ordering::SeqCst);
                }
                match guard {
                    Ok(guard) => turn(&inside, guard, writes, &tally).await,
                    Err(error) => println!("{number}: {error}"),
                }
                turns += 1;
                tokio::time::sleep(ms(1)).await;
            }
            (writes, turns)
        }));
    }
    let mut rng = Rng::new(seed);
    let end = Instant::now() + Duration::from_secs(seconds as u64);
    let mut cuts = 0;
    while Instant::now() < end {
        let proxy = &proxies[rng.below(CLIENTS as u64) as usize];
        // Answers that are lost, requests that never come, and a cancelled waiter now and then.
        let filter = Filter::Script.with(&name);
        let _ = if rng.chance(0.5) { proxy.cut_after(1, filter) } else { proxy.cut_before(1, filter) };
        cuts += 1;
        let lock = clients[rng.below(CLIENTS as u64) as usize].read_write_lock(&name);
        let wait = ms(rng.below(30));
        let _ = tokio::time::timeout(wait, lock.write().owned_by(&lockson::Owner::unique()).guard()).await;
        tokio::time::sleep(ms(100)).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut fewest = u64::MAX;
    for task in tasks {
        let (writes, turns) = patient("a task ends", task).await.unwrap();
        if writes {
            fewest = fewest.min(turns);
        }
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    println!(
        "{seconds} s, {readers} readers, {writers} writers, {cuts} cuts: {} reads, {} writes, {} lost, \
         fewest turns of a writer {fewest}, its longest wait {} ms",
        count(&tally.reads),
        count(&tally.writes),
        count(&tally.lost),
        count(&tally.longest)
    );
    assert!(fewest >= seconds as u64, "a writer had {fewest} turns in {seconds} s, seed {seed}");
    assert!(count(&tally.reads) > seconds as u64 * readers as u64, "readers had too few turns, seed {seed}");
    report("read/write soak", seconds, seconds, count(&tally.breaches) as usize, seed);
}
