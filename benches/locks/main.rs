//! `cargo bench -p lockson-benches`: lockson beside its floor (the same scripts, raw on fred) and beside rslock, in one
//! run on servers that it starts itself. docs/PERFORMANCE.md says how to read the table.
//!
//! `.. -- hot cost` runs only these groups; `.. -- --quick` those that say most, in a minute, and roughly;
//! `.. -- --ratios` prints what `scripts/ratios` compares. `LOCKSON_BENCH_SECONDS` is the time per cell (default 2).

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
mod ratios;
mod read_write;
mod red;
mod renewals;
mod room;
mod rueidis;
mod table;
mod uncontended;
mod waiting;
mod work;

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

/// The time per cell, where nothing else is asked for.
const SECONDS: f64 = 2.0;
/// Those of `--quick` where none is named, and its time per cell.
const QUICK: [&str; 4] = ["uncontended", "distinct", "hot", "cost"];
const QUICK_SECONDS: f64 = 0.4;
/// The time per cell of `--ratios`.
const RATIO_SECONDS: f64 = 0.5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if args.first().is_some_and(|first| first == "child") {
        runtime.block_on(work::run(&args[1..]));
        return;
    }
    // Cargo says `--bench` when it means a measurement; `cargo test --all-targets` runs this file too.
    let is_asked = |flag: &str| args.iter().any(|arg| arg == flag);
    if !is_asked("--bench") {
        println!("a measurement: run it by `cargo bench -p lockson-benches`");
        return;
    }
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let (is_quick, is_of_ratios) = (is_asked("--quick"), is_asked("--ratios"));
    let known = if is_of_ratios { &ratios::NAMES[..] } else { &GROUPS };
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        eprintln!("there is no {unknown:?}; there are {}", known.join(", "));
        std::process::exit(2);
    }
    let all = if is_quick && wanted.is_empty() { &QUICK[..] } else { known };
    let names = all.iter().copied().filter(|name| wanted.is_empty() || wanted.contains(name));
    // In a task: what runs in `block_on` itself is on a thread apart from the workers.
    if is_of_ratios {
        for name in names {
            let ratio = runtime.block_on(runtime.spawn(ratios::measure(name, seconds(RATIO_SECONDS))));
            println!("{name} {:.3}", ratio.expect("it is measured"));
        }
        return;
    }
    let seconds = seconds(if is_quick { QUICK_SECONDS } else { SECONDS });
    let mut table = Table::new();
    for group in names {
        table.add(runtime.block_on(runtime.spawn(run(group, seconds))).expect("the group runs"));
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

/// What the environment says, or else this.
fn seconds(otherwise: f64) -> Duration {
    let text = std::env::var("LOCKSON_BENCH_SECONDS").unwrap_or_default();
    let seconds = if text.is_empty() { otherwise } else { text.parse().expect("LOCKSON_BENCH_SECONDS is a number") };
    Duration::from_secs_f64(seconds)
}
