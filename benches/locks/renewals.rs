//! What the watchdog costs the server.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::table::{Goal, Ratio, Row};
use lockson::{Guard, Locks};
use support::Server;

/// Shorter than the default so that a run is short; renewed each third of it.
const LEASE: Duration = Duration::from_secs(6);
const PERIOD: Duration = Duration::from_secs(2);
const HOLDS: usize = 10_000;
/// Two periods and a half: two renewals of a hold that is taken at the start of it.
const WINDOW: Duration = Duration::from_secs(5);

async fn client(server: &Server, lease: Duration) -> Locks {
    Locks::builder().watchdog_lease(lease).connect(&server.url()).await.expect("a client")
}

/// Many holds, of names `begin..`, taken by a few tasks at a time.
pub async fn hold_many(locks: &Locks, count: usize) -> Vec<Guard> {
    let tasks = 50;
    let taking = (0..tasks).map(|task| {
        let locks = locks.clone();
        tokio::spawn(async move {
            let mut guards = Vec::with_capacity(count / tasks + 1);
            for number in (task..count).step_by(tasks) {
                guards.push(locks.lock(&format!("many:{number}")).guard().await.expect("held"));
            }
            guards
        })
    });
    join_all(taking).await.into_iter().flat_map(|guards| guards.expect("holds")).collect()
}

/// Seconds of CPU that the server has used.
fn cpu(server: &Server) -> f64 {
    let info = server.control(&["INFO", "cpu"]).text();
    let value = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.trim().parse().ok()).expect("a number")
    };
    value("used_cpu_user") + value("used_cpu_sys")
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let (many, thousand, short) = tokio::join!(many(), thousand(), after_short_locks());
    vec![many, thousand, short].into_iter().flatten().collect()
}

async fn many() -> Vec<Row> {
    let server = Server::start();
    let locks = client(&server, LEASE).await;
    let guards = hold_many(&locks, HOLDS).await;
    tokio::time::sleep(PERIOD).await;
    server.reset_stats();
    let (before, began) = (cpu(&server), Instant::now());
    tokio::time::sleep(PERIOD * 2).await;
    let lasted = began.elapsed().as_secs_f64();
    let used = cpu(&server) - before;
    let stats = server.stats();
    let of = |command: &str| stats.get(command).copied().unwrap_or_default();
    let ((scripts, micros), (renewals, _)) = (of("evalsha"), of("hexists"));
    assert!(guards.iter().all(Guard::is_valid), "a hold was lost");
    drop(guards);
    let least = HOLDS as f64 / 500.0 / PERIOD.as_secs_f64();
    let rate = scripts as f64 / lasted;
    vec![
        Row::new(format!("{HOLDS} watched holds, lease 6 s: renewal scripts"), format!("{rate:.0}/s"))
            .beside(format!("full batches of 500: {least:.0}/s"))
            .ratio(Ratio::single(rate / least)),
        Row::new("the same: holds renewed per script", format!("{:.0}", renewals as f64 / scripts as f64))
            .beside(format!("{:.0} us per script", micros as f64 / scripts as f64)),
        Row::new("the same: a core of the server", format!("{:.1} %", used / lasted * 100.0))
            .beside(format!("in scripts {:.1} %; with the default 30 s a fifth", micros as f64 / lasted / 1e4)),
    ]
}

/// As few holds as a service has, with a short lease.
async fn thousand() -> Vec<Row> {
    let lease = Duration::from_secs(10);
    let server = Server::start();
    let locks = client(&server, lease).await;
    let guards = hold_many(&locks, 1000).await;
    server.reset_stats();
    tokio::time::sleep(lease * 2).await;
    let rate = server.calls("evalsha") as f64 / (lease * 2).as_secs_f64();
    assert!(guards.iter().all(Guard::is_valid), "a hold was lost");
    vec![Row::new("1000 watched holds, lease 10 s: renewal scripts", format!("{rate:.2}/s"))
        .ratio(Ratio::single(rate))
        .goal(Goal::AtMost(1.0))]
}

/// One watched hold, after ever more short ones of the same client.
async fn after_short_locks() -> Vec<Row> {
    let counts = join_all([0, 1000, 20_000].map(|short| async move {
        let server = Server::start();
        let locks = client(&server, LEASE).await;
        for number in 0..short {
            let guard = locks.lock(&format!("short:{number}")).guard().await.expect("held");
            guard.unlock().await.expect("given back");
        }
        let guard = locks.lock("long").guard().await.expect("held");
        server.reset_stats();
        tokio::time::sleep(WINDOW).await;
        let scripts = server.calls("evalsha");
        assert!(guard.is_valid(), "the hold was lost");
        scripts
    }))
    .await;
    let said: Vec<String> = counts.iter().map(u64::to_string).collect();
    let growth = counts[2] as f64 - counts[0] as f64;
    vec![Row::new("one watched hold after 0, 1,000 and 20,000 short ones: scripts in 5 s", said.join(", "))
        .beside("growth:")
        .ratio(Ratio::single(growth))
        .goal(Goal::Exactly(0.0))]
}
