//! `cargo bench -p lockson-benches`: lockson beside its floor (the same scripts, raw on fred) and beside rslock, in one
//! run on servers that it starts itself. docs/PERFORMANCE.md says how to read the table.
//!
//! `.. -- hot cost` runs only these groups; `.. -- --quick` those that say most, in a minute, and roughly.
//! `LOCKSON_BENCH_SECONDS` is the time per cell of the table (default 2).

mod bounds;
mod child;
mod cluster;
mod cost;
mod distinct;
mod fair;
mod floor;
mod hand_over;
mod heap;
mod hot;
mod memory;
mod names;
mod permits;
mod plot;
mod processes;
mod read_write;
mod red;
mod renewals;
mod room;
mod rueidis;
mod table;
mod uncontended;
mod waiting;

use std::time::Duration;

use table::Table;

/// What can be asked for by name, in the order of the table.
const GROUPS: [&str; 16] = [
    "uncontended",
    "distinct",
    "hand_over",
    "hot",
    "processes",
    "read_write",
    "permits",
    "red",
    "cluster",
    "cost",
    "renewals",
    "memory",
    "waiting",
    "fair",
    "names",
    "bounds",
];

/// Those of `--quick` where none is named, and its time per cell.
const QUICK: [&str; 4] = ["uncontended", "distinct", "hot", "cost"];
const QUICK_SECONDS: f64 = 0.4;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if args.first().is_some_and(|first| first == "child") {
        runtime.block_on(child::run(&args[1..]));
        return;
    }
    // Cargo says `--bench` when it means a measurement; `cargo test --all-targets` runs this file too.
    if !args.iter().any(|arg| arg == "--bench") {
        println!("a measurement: run it by `cargo bench -p lockson-benches`");
        return;
    }
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|name| !GROUPS.contains(name)) {
        eprintln!("there is no group {unknown:?}; there are {}", GROUPS.join(", "));
        std::process::exit(2);
    }
    let is_quick = args.iter().any(|arg| arg == "--quick");
    let seconds = if is_quick { Duration::from_secs_f64(QUICK_SECONDS) } else { seconds() };
    let all = if is_quick && wanted.is_empty() { &QUICK[..] } else { &GROUPS };
    let groups = all.iter().copied().filter(|name| wanted.is_empty() || wanted.contains(name));
    let mut table = Table::new();
    for group in groups {
        // In a task: what runs in `block_on` itself is on a thread apart from the workers.
        let rows = runtime.block_on(async move { tokio::spawn(run(group, seconds)).await.expect("the group runs") });
        table.add(rows);
    }
    table.summary();
}

async fn run(group: &'static str, seconds: Duration) -> Vec<table::Row> {
    eprintln!("{group} ..");
    match group {
        "uncontended" => uncontended::run(seconds).await,
        "distinct" => distinct::run(seconds).await,
        "hand_over" => hand_over::run(seconds).await,
        "hot" => hot::run(seconds).await,
        "processes" => processes::run(seconds).await,
        "read_write" => read_write::run(seconds).await,
        "permits" => permits::run(seconds).await,
        "red" => red::run(seconds).await,
        "cluster" => cluster::run(seconds).await,
        "cost" => cost::run(seconds).await,
        "renewals" => renewals::run().await,
        "fair" => fair::run().await,
        "names" => names::run().await,
        "bounds" => bounds::run().await,
        "waiting" => waiting::run().await,
        _ => memory::run().await,
    }
}

/// The time per cell.
fn seconds() -> Duration {
    let text = std::env::var("LOCKSON_BENCH_SECONDS").unwrap_or_default();
    let seconds = if text.is_empty() { 2.0 } else { text.parse().expect("LOCKSON_BENCH_SECONDS is a number") };
    Duration::from_secs_f64(seconds)
}
