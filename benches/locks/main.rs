//! `cargo bench -p lockson-benches`: lockson beside its floor (the same scripts, raw on fred) and beside rslock, in one
//! run on servers that it starts itself. docs/PERFORMANCE.md says how to read the table.
//!
//! `.. -- hot cost` runs only these groups; `LOCKSON_BENCH_SECONDS` is the time per cell of the table (default 2).

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
mod processes;
mod red;
mod renewals;
mod table;
mod uncontended;
mod waiting;

use std::time::Duration;

use table::Table;

/// What can be asked for by name, in the order of the table.
const GROUPS: [&str; 14] = [
    "uncontended",
    "distinct",
    "hand_over",
    "hot",
    "processes",
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
    let groups = GROUPS.into_iter().filter(|name| wanted.is_empty() || wanted.contains(name));
    let mut table = Table::new();
    for group in groups {
        // In a task: what runs in `block_on` itself is on a thread apart from the workers.
        let rows = runtime.block_on(async move { tokio::spawn(run(group)).await.expect("the group runs") });
        table.add(rows);
    }
    table.summary();
}

async fn run(group: &'static str) -> Vec<table::Row> {
    let seconds = seconds();
    eprintln!("{group} ..");
    match group {
        "uncontended" => uncontended::run(seconds).await,
        "distinct" => distinct::run(seconds).await,
        "hand_over" => hand_over::run(seconds).await,
        "hot" => hot::run(seconds).await,
        "processes" => processes::run(seconds).await,
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
