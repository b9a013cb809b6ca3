//! Every suite is a module of this program, `suites`, but `interop`, which shares two JVMs among its cases.

mod acl;
mod admin;
mod api;
mod blocking;
mod bounds;
mod cancellation;
mod changes;
mod choosing;
mod contract;
mod door;
mod doubts;
mod embedded;
mod events;
mod faults;
mod fencing;
mod groups;
mod house;
mod idle;
mod kills;
mod late;
mod lent;
mod limits;
mod lost;
mod lua;
mod memory;
mod metrics;
mod monitoring;
mod multi;
mod multi_random;
mod once;
mod outage;
mod peers;
mod permits;
mod pitfalls;
mod presence;
mod processes;
mod quiet;
mod readers;
mod receipts;
mod red;
mod red_distance;
mod red_life;
mod red_schedules;
mod red_votes;
mod refusals;
mod replies;
mod runs;
mod runtimes;
mod scripts;
mod suspend;
mod tidy;
mod tls;
mod topology;
mod tracing;
mod turns;
mod wakeups;
mod weaknesses;

/// No test, but the other processes of some tests: they start this program again for it. Of itself it does nothing.
#[test]
fn part() {
    support::process::part(async |suite, part, args| match suite {
        "kills" => kills::play(part, args).await,
        "once" => once::play(part, args).await,
        "permits" => permits::play(part, args).await,
        "processes" => processes::play(part, args).await,
        "runs" => runs::play(part, args).await,
        "topology" => topology::play(part, args).await,
        other => panic!("no suite {other}"),
    });
}
