//! What is left in a client of names that it used once, and how long it takes when many waiters go at once.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::{join_all, BoxFuture, FutureExt};
use tokio::task::JoinHandle;

use crate::child::{Child, Parent};
use crate::heap;
use crate::table::{time, Goal, Ratio, Row};
use lockson::Locks;
use rustix::time::ClockId;
use support::Server;

/// Names that are used once; `LOCKSON_BENCH_NAMES` changes it.
const NAMES: usize = 1_000_000;
const WAITERS: usize = 100_000;
/// They are to be gone within so many seconds.
const SOON: f64 = 0.5;
/// Waiters that begin at once.
const BEGUN: usize = 1_000;
const CHANNELS: usize = 20_000;
/// Tasks that use names at a time.
const TASKS: usize = 50;
/// What is used of each name, and is not to be there afterwards.
const USES: [&str; 5] = ["locks", "expired bare holds", "semaphores", "expirable semaphores", "latches"];
/// Longer than a subscription lingers, and than anything else that ends by itself.
const SETTLED: Duration = Duration::from_secs(7);
const LEASE: Duration = Duration::from_secs(1);

async fn use_once(locks: &Locks, what: &str, name: &str) {
    match what {
        "locks" => {
            let lock = locks.lock(name);
            lock.lock().await.expect("held");
            lock.unlock().await.expect("given back");
        }
        "expired bare holds" => {
            assert!(locks.lock(name).acquire().lease(LEASE).await.expect("an answer").is_acquired());
        }
        "semaphores" => drop(locks.semaphore(name).try_acquire(1).await.expect("an answer")),
        "expirable semaphores" => drop(locks.permit_semaphore(name).available_permits().await.expect("an answer")),
        _ => drop(locks.latch(name).count().await.expect("an answer")),
    }
}

/// Uses this many names, each once.
async fn use_many(locks: &Locks, what: &'static str, count: usize) {
    let tasks = (0..TASKS).map(|task| {
        let locks = locks.clone();
        tokio::spawn(async move {
            for number in (task..count).step_by(TASKS) {
                use_once(&locks, what, &format!("{what}:{number}")).await;
            }
        })
    });
    for task in join_all(tasks).await {
        task.expect("no task fails");
    }
}

/// Says the live heap before and after.
pub async fn child(what: &str, url: &str, count: usize, parent: &mut Parent) {
    heap::begin();
    let what = USES.into_iter().find(|known| *known == what).expect("a use");
    let locks = Locks::connect(url).await.expect("a client");
    // What the first uses set up is not counted.
    use_many(&locks, what, TASKS * 10).await;
    tokio::time::sleep(SETTLED).await;
    let before = heap::live();
    use_many(&locks, what, count).await;
    tokio::time::sleep(SETTLED).await;
    parent.say(&[before.unsigned_abs(), heap::live().unsigned_abs()]).await;
    drop(locks);
}

async fn left_of_names(server: &Server, what: &str, count: usize) -> Row {
    let mut child = Child::start(&["names", what, &server.url(), &count.to_string()]);
    let heap = child.numbers().await;
    let (before, after) = (heap[0] as f64 / 1e3, heap[1] as f64 / 1e3);
    let each = (heap[1] as f64 - heap[0] as f64) / count as f64;
    Row::new(format!("live heap before and after {count} {what}"), format!("{before:.0} kB, {after:.0} kB"))
        .beside(format!("{each:.2} bytes per name"))
}

/// Begins as many waiters, each in a task of its own.
fn spawn<F: Future<Output: Send> + Send + 'static>(count: usize, wait: impl Fn(usize) -> F) -> Vec<JoinHandle<()>> {
    (0..count).map(|number| tokio::spawn(wait(number).map(drop))).collect()
}

/// How long it takes until all of them are gone.
async fn drop_all(mut waiters: Vec<JoinHandle<()>>, last_first: bool) -> Duration {
    if last_first {
        waiters.reverse();
    }
    let began = Instant::now();
    waiters.iter().for_each(JoinHandle::abort);
    for waiter in waiters {
        assert!(waiter.await.is_err_and(|error| error.is_cancelled()));
    }
    began.elapsed()
}

/// Waiters of one client for one thing that is held, all there, and what share of a core they cost while they wait.
async fn crowd(url: &str, what: &str) -> (Locks, Vec<JoinHandle<()>>, f64) {
    let locks = Locks::connect(url).await.expect("a client");
    let waits: Box<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync> = match what {
        "lock" => {
            let lock = locks.lock("crowd:lock");
            Box::new(move |_| {
                let lock = lock.clone();
                async move { drop(lock.guard().await) }.boxed()
            })
        }
        "fair lock" => {
            let lock = locks.fair_lock("crowd:fair");
            Box::new(move |_| {
                let lock = lock.clone();
                async move { drop(lock.guard().await) }.boxed()
            })
        }
        _ => {
            let semaphore = locks.semaphore("crowd:semaphore");
            Box::new(move |_| {
                let semaphore = semaphore.clone();
                async move { drop(semaphore.guard(1).await) }.boxed()
            })
        }
    };
    let (mut waiters, fair) = (Vec::new(), locks.fair_lock("crowd:fair"));
    while waiters.len() < WAITERS {
        waiters.extend(spawn(BEGUN, &waits));
        // Each of these asks for its own place.
        while what == "fair lock" && fair.queue_len().await.expect("an answer") < waiters.len() as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (before, window) = (time(ClockId::ProcessCPUTime), Duration::from_secs(3));
    tokio::time::sleep(window).await;
    let busy = (time(ClockId::ProcessCPUTime) - before).as_secs_f64() / window.as_secs_f64();
    (locks, waiters, busy)
}

async fn dropped(what: &str) -> Row {
    let (mut took, mut busy) = (Vec::new(), 0.0);
    for last_first in [false, true] {
        // A server of its own: what leaves a queue there goes on when it is measured.
        let server = Server::start();
        let other = Locks::connect(&server.url()).await.expect("a client");
        let _held = other.lock("crowd:lock").guard().await.expect("held");
        let _fair = other.fair_lock("crowd:fair").guard().await.expect("held");
        let (_locks, waiters, waiting) = crowd(&server.url(), what).await;
        busy = waiting;
        took.push(drop_all(waiters, last_first).await);
    }
    let said = format!("{:.0} ms, {:.0} ms", took[0].as_secs_f64() * 1e3, took[1].as_secs_f64() * 1e3);
    Row::new(format!("{WAITERS} waiters for one {what} dropped at once: first first, last first"), said)
        .beside(format!("at most {:.0} ms; while they wait: {:.0} % of a core", SOON * 1e3, busy * 100.0))
        .ratio(Ratio::single(took[0].max(took[1]).as_secs_f64() / SOON))
        .goal(Goal::AtMost(1.0))
}

/// Waiters on as many names: their channels come and go.
async fn channels() -> Row {
    let server = Server::start();
    let (holder, locks) = (
        Locks::connect(&server.url()).await.expect("a client"),
        Locks::connect(&server.url()).await.expect("a client"),
    );
    let held = crate::renewals::hold_many(&holder, CHANNELS).await;
    let began = Instant::now();
    let waiters = spawn(CHANNELS, |number| {
        let lock = locks.lock(&format!("many:{number}"));
        async move { lock.guard().await }
    });
    let listening = || server.control(&["INFO", "stats"]).text();
    while !listening().contains(&format!("pubsub_channels:{CHANNELS}")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let subscribed = began.elapsed();
    let gone = drop_all(waiters, true).await;
    drop(held);
    let said = format!("{:.0} ms, {:.0} ms", subscribed.as_secs_f64() * 1e3, gone.as_secs_f64() * 1e3);
    Row::new(format!("{CHANNELS} channels of one client: until all are heard, until their waiters are gone"), said)
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let text = std::env::var("LOCKSON_BENCH_NAMES").unwrap_or_default();
    let names = if text.is_empty() { NAMES } else { text.parse().expect("LOCKSON_BENCH_NAMES is a number") };
    let mut rows = Vec::new();
    for what in USES {
        eprintln!("  {what} ..");
        rows.push(left_of_names(&Server::start(), what, names).await);
    }
    for what in ["lock", "fair lock", "semaphore"] {
        eprintln!("  {what} ..");
        rows.push(dropped(what).await);
    }
    rows.push(channels().await);
    rows
}
