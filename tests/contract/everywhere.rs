//! The contract on every topology, another server, and connections that a program lends: of each kind a part of its
//! cases in each run, or all of them.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::OnceLock;
use std::thread;

use support::{server, By, Deployment, Topology};

use super::world::*;

type Named = (&'static str, fn(Case) -> Pin<Box<dyn Future<Output = ()>>>);

/// Cases by their names, `module::case`.
pub type Cases = &'static [Named];

/// How many cases of a kind run beside each other.
const AT_ONCE: usize = 4;
/// Of a kind each place has so many of the cases in the short run.
const PART: usize = 10;

/// Cases that need paused time, or what only the embedded server can do.
const OF_THE_EMBEDDED: [&str; 4] = [
    "ends::give_backs_are_no_flood",
    "fair::lost_messages_cost_at_most_the_cap",
    "fair::waiters_that_do_not_ask_are_refreshed",
    "spin::an_exponential_back_off_grows",
];

/// The programs that a topology is run on. `real` has the cases of one server of the first.
fn programs(topology: Topology) -> Vec<String> {
    let other = server::other_program();
    let is_ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
    assert!(other.is_some() || !is_ci, "CI runs the contract on another server too: see scripts/test");
    let mut programs: Vec<String> =
        (topology != Topology::Single).then(server::program).into_iter().chain(other).collect();
    programs.dedup();
    programs
}

/// All cases in an order in which each module comes early; the same one for all places of a run.
fn deck(cases: &[Cases], seed: u64) -> Vec<Named> {
    let mut rng = Rng::with_seed(seed);
    let mut modules: BTreeMap<&str, Vec<Named>> = BTreeMap::new();
    for case in cases.iter().copied().flatten().filter(|(name, _)| !OF_THE_EMBEDDED.contains(name)) {
        modules.entry(case.0.split("::").next().unwrap()).or_default().push(*case);
    }
    let mut modules: Vec<Vec<Named>> = modules.into_values().collect();
    rng.shuffle(&mut modules);
    modules.iter_mut().for_each(|module| rng.shuffle(module));
    let longest = modules.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest).flat_map(|row| modules.iter().filter_map(move |module| module.get(row).copied())).collect()
}

/// The part of this place: those of the others have other cases, until all have been dealt.
fn share(deck: &[Named], place: usize) -> Vec<Named> {
    let count = soak_part(deck.len() + PART - 1, PART).min(deck.len());
    deck.iter().cycle().skip(place * count).take(count).copied().collect()
}

pub fn run(name: &str, kind: Kind, cases: &[Cases], topology: Topology) {
    for (at, program) in programs(topology).iter().enumerate() {
        run_on(name, kind, cases, (topology, program), By::Url, topology as usize + 3 * at);
    }
}

/// The same by lean connections, on one server, behind sentinels and in a cluster; in the short run on one of these.
pub fn run_lean(name: &str, kind: Kind, cases: &[Cases]) {
    let places = [Topology::Single, Topology::Sentinel, Topology::Cluster];
    let first = chance() as usize % places.len() + name.len();
    for topology in places.into_iter().cycle().skip(first).take(soak_part(places.len(), places.len())) {
        run_on(name, kind, cases, (topology, &server::program()), By::Lean, 8 + topology as usize);
    }
}

/// The same on one server, by a connection that the program lends.
pub fn run_lent(name: &str, kind: Kind, cases: &[Cases], by: By) {
    run_on(name, kind, cases, (Topology::Single, &server::program()), by, 6 + usize::from(by == By::Fred));
}

/// The same in all of a run.
fn chance() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(seed)
}

/// The share of this place.
fn run_on(name: &str, kind: Kind, cases: &[Cases], (topology, program): (Topology, &str), by: By, place: usize) {
    let seed = chance();
    let deployment = Deployment::shared(topology, program);
    let share = share(&deck(cases, seed), place);
    let failed = run_all(deployment, by, kind, &share);
    let lent = if by == By::Url { String::new() } else { format!(" by {by:?}") };
    let label = format!("contract of {name}, {topology:?}{lent}, {}", deployment.version());
    report(&label, share.len(), share.len(), failed, seed);
}

/// Runs them, some beside each other: how many failed.
fn run_all(deployment: &'static Deployment, by: By, kind: Kind, cases: &[Named]) -> usize {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                runtime.worker_threads(2).enable_all().build().unwrap().block_on(case(Case::on(kind, deployment, by)));
            }));
            if ran.is_err() {
                println!("failed: {name}");
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    failed.into_inner()
}
