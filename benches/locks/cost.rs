//! What the server is asked: commands and microseconds for each acquisition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::hot::{contend_here, rslock_manager, Contender};
use crate::table::{median, Goal, Ratio, Row};
use lockson::Locks;
use support::{unique, Server};

/// Pairs of lock and unlock that are counted in a round.
const PAIRS: u32 = 2000;
const ROUNDS: usize = 5;

/// Microseconds in scripts that a pair may take: alone, and where many share a script.
const GOAL: f64 = 10.7;
const SHARED_GOAL: f64 = 6.0;

/// Tasks that have a lock each, all the time.
const SHARED: [usize; 2] = [64, 512];

/// The commands of a pair: ours, and rslock's SET and its script.
const OURS: [&str; 1] = ["evalsha"];
const THEIRS: [&str; 2] = ["set", "evalsha"];

/// What of the server a pair took.
struct Cost {
    calls: f64,
    micros: f64,
}

/// Of so many pairs since the statistics were reset, by these commands.
fn cost(server: &Server, commands: &[&str], pairs: u32) -> Cost {
    let stats = server.stats();
    let stats = commands.iter().filter_map(|command| stats.get(*command));
    let (calls, micros) = stats.fold((0, 0), |sum, stat| (sum.0 + stat.0, sum.1 + stat.1));
    Cost { calls: calls as f64 / f64::from(pairs), micros: micros as f64 / f64::from(pairs) }
}

/// By round.
fn micros(costs: &[Cost]) -> Vec<f64> {
    costs.iter().map(|cost| cost.micros).collect()
}

fn calls(costs: &[Cost]) -> f64 {
    median(&costs.iter().map(|cost| cost.calls).collect::<Vec<_>>())
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Arc::new(Server::start());
    let mut rows = uncontended(&server).await;
    for tasks in SHARED {
        rows.push(shared(&server, tasks).await);
    }
    rows.push(monitored(&server).await);
    for tasks in [8, 64, 1000] {
        rows.push(contended(&server, tasks, seconds).await);
    }
    rows
}

async fn uncontended(server: &Server) -> Vec<Row> {
    let lock = Locks::connect(&server.url()).await.expect("a client").lock("cost");
    let manager = rslock_manager(&server.url());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    lock.lock().await.expect("held");
    lock.unlock().await.expect("given back");
    for _ in 0..ROUNDS {
        server.reset_stats();
        for _ in 0..PAIRS {
            lock.lock().await.expect("held");
            lock.unlock().await.expect("given back");
        }
        ours.push(cost(server, &OURS, PAIRS));
        server.reset_stats();
        for _ in 0..PAIRS {
            let held = manager.lock("cost-rslock", Duration::from_secs(30)).await.expect("held");
            manager.unlock(&held).await;
        }
        theirs.push(cost(server, &THEIRS, PAIRS));
    }
    let said = format!("{:.1} us", median(&micros(&ours)));
    vec![
        Row::new("server: scripts per lock + unlock", format!("{:.3}", calls(&ours)))
            .beside(format!("rslock: {:.3} commands", calls(&theirs)))
            .ratio(Ratio::single(calls(&ours)))
            .goal(Goal::Exactly(2.0)),
        Row::new("server: time in scripts per lock + unlock", said.clone())
            .beside(format!("rslock: {:.1} us (SET's included)", median(&micros(&theirs))))
            .ratio(Ratio::of(&micros(&ours), &micros(&theirs))),
        Row::new("the same over what it is to be", said)
            .beside(format!("{GOAL:.1} us"))
            .ratio(Ratio::of(&micros(&ours), &[GOAL; ROUNDS]))
            .goal(Goal::AtMost(1.0)),
    ]
}

/// The same of many tasks with a lock each: calls that are due at once share a script. They have one thread, so the
/// server has a core for itself.
async fn shared(server: &Arc<Server>, tasks: usize) -> Row {
    let server = server.clone();
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(all_at_once(&server, tasks))
    };
    let ours = tokio::task::spawn_blocking(work).await.expect("it is measured");
    Row::new(
        format!("server: time in scripts per lock + unlock, {tasks} tasks with a lock each"),
        format!("{:.1} us in {:.3} scripts", median(&micros(&ours)), calls(&ours)),
    )
    .beside(format!("{SHARED_GOAL:.1} us"))
    .ratio(Ratio::of(&micros(&ours), &[SHARED_GOAL; ROUNDS]))
    .goal(Goal::AtMost(1.0))
}

/// By round.
async fn all_at_once(server: &Server, tasks: usize) -> Vec<Cost> {
    let locks = Locks::connect(&server.url()).await.expect("a client");
    let each = PAIRS * 10 / tasks as u32;
    let mut costs = Vec::new();
    for round in 0..=ROUNDS {
        server.reset_stats();
        let looping = (0..tasks).map(|task| {
            let lock = locks.lock(&format!("cost:{task}"));
            tokio::spawn(async move {
                for _ in 0..each {
                    lock.lock().await.expect("held");
                    lock.unlock().await.expect("given back");
                }
            })
        });
        join_all(looping).await.into_iter().for_each(|ended| ended.expect("no task fails"));
        if round > 0 {
            costs.push(cost(server, &OURS, each * tasks as u32));
        }
    }
    costs
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
    let ours = cost(server, &OURS, run.all as u32);
    let theirs = Contender::connect("rslock", &server.url(), &unique("cost-rslock")).await;
    server.reset_stats();
    let run = contend_here(&theirs, tasks, seconds / 2).await;
    let theirs = cost(server, &THEIRS, run.all as u32);
    Row::new(
        format!("server: scripts per acquisition, {tasks} tasks"),
        format!("{:.3}, {:.1} us", ours.calls, ours.micros),
    )
    .beside(format!("rslock: {:.3} commands, {:.1} us", theirs.calls, theirs.micros))
    .ratio(Ratio::single(ours.calls))
    .goal(Goal::AtMost(1.05))
}
