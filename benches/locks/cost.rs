//! What the server is asked: commands and microseconds for each acquisition.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::hot::{contend_here, rslock_manager, Contender};
use crate::table::{Goal, Ratio, Row};
use lockson::Locks;
use support::{unique, Server};

/// Pairs of lock and unlock that are counted.
const PAIRS: u32 = 2000;

/// Microseconds in scripts that a pair may take.
const GOAL: f64 = 10.7;

/// Calls and microseconds of a command since the statistics were reset.
fn stat(server: &Server, command: &str) -> (f64, f64) {
    let (calls, micros) = server.stats().get(command).copied().unwrap_or_default();
    (calls as f64, micros as f64)
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let mut rows = uncontended(&server).await;
    rows.push(monitored(&server).await);
    for tasks in [8, 64, 1000] {
        rows.push(contended(&server, tasks, seconds).await);
    }
    rows
}

async fn uncontended(server: &Server) -> Vec<Row> {
    let lock = Locks::connect(&server.url()).await.expect("a client").lock("cost");
    lock.lock().await.expect("held");
    lock.unlock().await.expect("given back");
    server.reset_stats();
    for _ in 0..PAIRS {
        lock.lock().await.expect("held");
        lock.unlock().await.expect("given back");
    }
    let (calls, micros) = stat(server, "evalsha");
    let manager = rslock_manager(&server.url());
    server.reset_stats();
    for _ in 0..PAIRS {
        let held = manager.lock("cost-rslock", Duration::from_secs(30)).await.expect("held");
        manager.unlock(&held).await;
    }
    let theirs = [stat(server, "set"), stat(server, "evalsha")];
    let (their_calls, their_micros) = (theirs[0].0 + theirs[1].0, theirs[0].1 + theirs[1].1);
    let pairs = f64::from(PAIRS);
    vec![
        Row::new("server: scripts per lock + unlock", format!("{:.3}", calls / pairs))
            .beside(format!("rslock: {:.3} commands", their_calls / pairs))
            .ratio(Ratio::single(calls / pairs))
            .goal(Goal::Exactly(2.0)),
        Row::new("server: time in scripts per lock + unlock", format!("{:.1} us", micros / pairs))
            .beside(format!("rslock: {:.1} us (SET's included)", their_micros / pairs))
            .ratio(Ratio::single(micros / their_micros)),
        Row::new("the same over what it is to be", format!("{:.1} us", micros / pairs))
            .beside(format!("{GOAL:.1} us"))
            .ratio(Ratio::single(micros / pairs / GOAL))
            .goal(Goal::AtMost(1.0)),
    ]
}

/// Which commands come from the client and not from inside a script, by MONITOR. The heartbeat is told apart.
async fn monitored(server: &Server) -> Row {
    let lock = Locks::connect(&server.url()).await.expect("a client").lock("monitored");
    let mut monitor = server.raw().await;
    monitor.must(&["MONITOR"]).await;
    for _ in 0..PAIRS / 10 {
        lock.lock().await.expect("held");
        lock.unlock().await.expect("given back");
    }
    server.control(&["ECHO", "over"]);
    let mut by_client: BTreeMap<String, u32> = BTreeMap::new();
    loop {
        let line = monitor.receive().await.expect("a line").text();
        let Some((origin, command)) = line.split_once("] ") else { continue };
        let command = command.split('"').nth(1).unwrap_or_default().to_lowercase();
        if command == "echo" {
            break;
        }
        if !origin.ends_with(" lua") {
            *by_client.entry(command).or_default() += 1;
        }
    }
    let list: Vec<String> = by_client.iter().map(|(command, calls)| format!("{command} {calls}")).collect();
    let others = by_client.keys().filter(|command| !["evalsha", "ping"].contains(&command.as_str())).count();
    Row::new(format!("server: every client command of {} pairs", PAIRS / 10), list.join(", "))
        .beside("other than EVALSHA and the heartbeat's PING (1/s):")
        .ratio(Ratio::single(others as f64))
        .goal(Goal::Exactly(0.0))
}

async fn contended(server: &Server, tasks: usize, seconds: Duration) -> Row {
    let ours = Contender::connect("lockson", &server.url(), &unique("cost")).await;
    server.reset_stats();
    let run = contend_here(&ours, tasks, seconds / 2).await;
    let (calls, micros) = stat(server, "evalsha");
    let all = run.all as f64;
    let theirs = Contender::connect("rslock", &server.url(), &unique("cost-rslock")).await;
    server.reset_stats();
    let run = contend_here(&theirs, tasks, seconds / 2).await;
    let stats = [stat(server, "set"), stat(server, "evalsha")];
    let their_all = run.all as f64;
    let (their_calls, their_micros) = (stats[0].0 + stats[1].0, stats[0].1 + stats[1].1);
    Row::new(
        format!("server: scripts per acquisition, {tasks} tasks"),
        format!("{:.3}, {:.1} us", calls / all, micros / all),
    )
    .beside(format!("rslock: {:.3} commands, {:.1} us", their_calls / their_all, their_micros / their_all))
    .ratio(Ratio::single(calls / all))
    .goal(Goal::AtMost(1.05))
}
