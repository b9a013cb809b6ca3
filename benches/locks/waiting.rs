//! What names that are waited for cost while nothing happens: scripts, CPU and memory; and how fast their waiters come.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::child::{Child, Parent};
use crate::heap;
use crate::table::{time, Goal, Ratio, Row};
use lockson::Locks;
use rustix::time::ClockId;
use support::Server;

const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
/// What is counted in.
const WINDOW: Duration = Duration::from_secs(5);
/// Until all of them are asleep.
const SETTLED: Duration = Duration::from_secs(4);
/// Keys that one script gives back.
const RELEASED: usize = 500;

/// As many names, each held by another client's owner without a lease; or given back, with a message each.
const HOLD: &str = "for i = ARGV[1], ARGV[2] do redis.call('HSET', 'idle:' .. i, 'other:1', 1) end";
const RELEASE: &str = "for i = ARGV[1], ARGV[2] do redis.call('DEL', 'idle:' .. i) \
    redis.call('PUBLISH', 'redisson_lock__channel:{idle:' .. i .. '}', 0) end";

/// Waits for each of the names, and says what that costs; then until it has all of them.
pub async fn child(url: &str, count: usize, parent: &mut Parent) {
    heap::begin();
    // All begin at once: longer than that takes on a busy machine.
    let locks = Locks::builder().command_timeout(Duration::from_secs(10));
    let locks = locks.connect(url).await.expect("a client");
    drop(locks.lock("warm").guard().await.expect("held"));
    let before = heap::live();
    let wait = |number: usize| {
        let lock = locks.lock(&format!("idle:{number}"));
        tokio::spawn(async move { lock.lock().await.expect("held") })
    };
    let waiters: Vec<_> = (0..count).map(wait).collect();
    parent.say(&[]).await;
    let heap = (heap::live() - before).unsigned_abs();
    let began = time(ClockId::ProcessCPUTime);
    tokio::time::sleep(WINDOW).await;
    let used = time(ClockId::ProcessCPUTime) - began;
    parent.say(&[heap, used.as_micros() as u64]).await;
    join_all(waiters).await.into_iter().for_each(|waiter| waiter.expect("no task fails"));
    parent.say(&[]).await;
}

async fn each(server: &Server, script: &str, count: usize) {
    let mut raw = server.raw().await;
    for first in (0..count).step_by(RELEASED) {
        let last = (first + RELEASED).min(count) - 1;
        raw.must(&["EVAL", script, "0", &first.to_string(), &last.to_string()]).await;
    }
}

async fn waiting(count: usize) -> Vec<Row> {
    let server = Server::start();
    each(&server, HOLD, count).await;
    let mut child = Child::start(&["waiting", &server.url(), &count.to_string()]);
    child.numbers().await;
    let listening = || server.control(&["INFO", "stats"]).text().contains(&format!("pubsub_channels:{count}\r"));
    while !listening() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(SETTLED).await;
    server.reset_stats();
    child.go().await;
    let numbers = child.numbers().await;
    let (scripts, micros) = server.stats().get("evalsha").copied().unwrap_or_default();
    let (rate, seconds) = (scripts as f64 / WINDOW.as_secs_f64(), WINDOW.as_secs_f64());
    let (heap, used) = (numbers[0] as f64 / count as f64, numbers[1] as f64 / 1e6);
    child.go().await;
    let began = Instant::now();
    each(&server, RELEASE, count).await;
    child.numbers().await;
    let woken = count as f64 / began.elapsed().as_secs_f64();
    let said = format!("{rate:.0}/s; {:.1} % of a core of the server", micros as f64 / 1e4 / seconds);
    vec![
        Row::new(format!("{count} names that are waited for: scripts while nothing happens"), said)
            .beside(format!("the client: {:.1} % of a core", used / seconds * 100.0))
            .ratio(Ratio::single(rate / 200.0))
            .goal(Goal::AtMost(1.0)),
        Row::new(format!("the same: live heap for each of {count}"), format!("{heap:.0} bytes")),
        Row::new(format!("the same: waiters that come when all {count} are given back"), format!("{woken:.0}/s"))
            .ratio(Ratio::single(woken / 8_000.0))
            .goal(Goal::AtLeast(1.0)),
    ]
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let mut rows = Vec::new();
    for count in COUNTS {
        eprintln!("  {count} ..");
        rows.extend(waiting(count).await);
    }
    rows
}
