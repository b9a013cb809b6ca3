//! Faults, one after the other, under tasks of three processes that contend for locks: nobody has what another has, all
//! go on, nothing is left.

mod book;
mod faults;
pub mod worker;

use std::collections::BTreeMap;

use support::prelude::*;
use support::process::{clock, Process};
use support::sites::turn;
use support::{Cluster, Sentinels};
use tempfile::TempDir;
use tokio::task::block_in_place;

use book::Book;
use faults::{Deployment, Fault, Switch, NODE_TIMEOUT, SETTINGS};
use worker::{builder, Mode, Orders, CONTENDED, LEASE, TASKS};

const PROCESSES: usize = 3;
/// Names that tasks contend for.
const NAMES: usize = 6;
/// Names that each process keeps.
const KEPT: usize = 3;
/// How late a holder may be told, behind the first word of another primary: what is promised, and where other tests run
/// beside this one a multiple of it.
fn told_within() -> u64 {
    if is_full_run() {
        1_000_000_000
    } else {
        4_000_000_000
    }
}
/// How long all may take to go on, or to be gone: a lock that came back with a failover ends with its lease.
const PATIENCE: Duration = secs(30);

/// The faults, the processes under them, and what they said.
struct Storm<D> {
    deployment: D,
    processes: Vec<Process>,
    /// Where the first process reaches the servers.
    proxies: Vec<Proxy>,
    names: Vec<String>,
    counters: TempDir,
    book: Book,
    rng: Rng,
    mode: Mode,
    failures: usize,
}

impl<D: Deployment> Storm<D> {
    /// The processes rest. The first is of this mode, the others of the next.
    fn start(deployment: D, modes: [Mode; 2], seed: u64) -> Self {
        let proxies: Vec<Proxy> = deployment.servers().iter().map(|server| Proxy::start(server.port())).collect();
        let ports = deployment.servers().iter().zip(&proxies).map(|(server, by)| (server.port(), by.port())).collect();
        let names: Vec<String> = (0..NAMES).map(|at| deployment.name(at % 3, "storm")).collect();
        let counters = TempDir::new().unwrap();
        (0..NAMES).for_each(|at| std::fs::write(counters.path().join(at.to_string()), [0; 8]).unwrap());
        let orders = Orders {
            url: deployment.url(),
            mode: modes[0],
            counters: counters.path().to_str().unwrap().to_owned(),
            names: names.clone(),
            kept: Vec::new(),
            ports,
            seed,
        };
        let start = |number: usize| {
            let kept = (0..KEPT).map(|third| deployment.name(third, "kept")).collect();
            let (ports, mode) = if number == 0 { (orders.ports.clone(), modes[0]) } else { (Vec::new(), modes[1]) };
            let orders = Orders { kept, ports, mode, seed: seed.wrapping_add(number as u64 * 1_000), ..orders.clone() };
            let words = orders.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Process::start("topology", "storm", &words)
        };
        let processes: Vec<Process> = (0..PROCESSES).map(start).collect();
        processes.iter().for_each(|process| process.expect("paused"));
        let (book, rng) = (Book::default(), Rng::with_seed(seed));
        Self { deployment, processes, proxies, names, counters, book, rng, mode: modes[0], failures: 0 }
    }

    /// Takes down what was said up to now.
    fn listen(&mut self) {
        for process in &self.processes {
            while let Some(line) = process.try_line() {
                self.book.note(&line);
            }
        }
    }

    /// Waits for what the processes say.
    async fn until(&mut self, what: &str, mut is: impl FnMut(&Book) -> bool) {
        let begun = Instant::now();
        loop {
            self.listen();
            if is(&self.book) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {:?}", self.book.failed);
            sleep(ms(5)).await;
        }
    }

    /// Every task gives back what it has, and waits.
    async fn pause(&mut self) {
        self.processes.iter_mut().for_each(|process| process.say("pause"));
        self.until("all rest", |book| book.paused == PROCESSES).await;
        self.book.paused = 0;
    }

    fn go(&mut self) {
        self.processes.iter_mut().for_each(|process| process.say("go"));
    }

    /// Every task has had its lock from here on: the kind of the last one.
    async fn all_go_on(&mut self) -> &'static str {
        let since = clock();
        let all = |book: &Book| {
            book.latest.len() == PROCESSES * TASKS
                && book.kept.len() == PROCESSES * KEPT
                && book.latest.values().all(|(at, _)| *at > since)
        };
        self.until("every task has its lock again", all).await;
        let (_, last) = self.book.latest.values().max().unwrap();
        CONTENDED[*last % CONTENDED.len()]
    }

    /// One fault and what comes of it.
    async fn strike(&mut self, fault: Fault) {
        let (begun, turns) = (Instant::now(), self.book.turns);
        let key = self.names[self.rng.usize(..NAMES)].clone();
        let primary = block_in_place(|| self.deployment.primary(&key));
        if fault == Fault::KillAhead {
            // All of them are granted anew, and what the replicas do not hear of is lost.
            self.pause().await;
            block_in_place(|| self.deployment.cut_off(primary));
            self.go();
            sleep(ms(200)).await;
            self.listen();
        }
        let kept = self.book.kept.clone();
        let switch = block_in_place(|| self.harm(fault, &key));
        let (mended, mended_at) = (begun.elapsed(), clock());
        self.listen();
        let since = self.book.turns;
        let lost = self.lost(kept, switch, mended_at).await;
        let last = self.all_go_on().await;
        let back = begun.elapsed() - mended;
        let after = self.book.turns - since;
        self.pause().await;
        self.nothing_is_left().await;
        let mut doubled = self.book.doubled();
        // Else one of the two is told.
        self.failures += if self.mode == Mode::Confirmed { doubled.len() } else { 0 };
        doubled.truncate(3);
        let failed = std::mem::take(&mut self.book.failed);
        let moved = format!("{primary} to {}", block_in_place(|| self.deployment.primary(&key)));
        println!(
            "  {moved}: mended after {mended:.1?}, all go on {back:.1?} later ({last} last), {} + {after} turns, \
             {lost}, failed {failed:?}, doubled {doubled:?}",
            since - turns
        );
        self.go();
    }

    fn harm(&mut self, fault: Fault, key: &str) -> Switch {
        self.proxies.iter().for_each(Proxy::forget_requests);
        if fault != Fault::Partition {
            return self.deployment.strike(fault, key, &mut self.rng);
        }
        let mut behind: Vec<&Proxy> = self.proxies.iter().collect();
        self.rng.shuffle(&mut behind);
        behind.truncate(self.proxies.len().div_ceil(2));
        faults::part(&behind, &mut self.rng);
        None
    }

    /// Holds that were kept and the servers lost: each says so, and in time. A lease that ended before it could be
    /// renewed again was not lost.
    async fn lost(&mut self, kept: BTreeMap<String, String>, switch: Switch, mended: u64) -> String {
        let deployment = &self.deployment;
        let is_lost = |(name, field): &(String, String)| {
            let primary = deployment.servers()[deployment.primary(name)];
            primary.control(&["HEXISTS", name, field]).int() == 0
        };
        let lost: Vec<String> = block_in_place(|| kept.into_iter().filter(is_lost).map(|(_, field)| field).collect());
        self.until("who lost a hold is told", |book| lost.iter().all(|field| book.told.contains_key(field))).await;
        let told = std::mem::take(&mut self.book.told);
        let renewed = mended + LEASE.as_nanos() as u64 / 3;
        let has_ended = |field: &String| told[field].1 == "Deadline" && told[field].0 < renewed;
        let (ended, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(has_ended);
        let after = |field: &String| told[field].0.saturating_sub(switch.unwrap_or(u64::MAX));
        let late: Vec<_> = lost.iter().filter(|field| after(field) > told_within()).map(|field| &told[field]).collect();
        // What all replicas have is not lost.
        self.failures += if self.mode == Mode::Confirmed { lost.len() } else { late.len() };
        let latest = Duration::from_nanos(lost.iter().map(after).max().unwrap_or_default());
        let ended = ended.len();
        format!("{ended} ended, {} lost, told within {latest:.2?} of the switch, too late {late:?}", lost.len())
    }

    /// All rest: no lock, place in a queue, or subscription at the wrong server is left, and no turn was lost.
    async fn nothing_is_left(&mut self) {
        let begun = Instant::now();
        loop {
            let left = block_in_place(|| self.left());
            if left.is_empty() {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "left behind: {left:?}");
            sleep(ms(50)).await;
            // A place that somebody left comes back where the new primary did not hear of that: whoever comes next
            // takes it out.
            if self.mode == Mode::Told && begun.elapsed() > LEASE {
                self.visit().await;
            }
        }
    }

    /// Takes and gives back each fair lock.
    async fn visit(&self) {
        let locks = builder(Mode::Told).connect(&self.deployment.url()).await.unwrap();
        let fair = (0..NAMES).filter(|at| CONTENDED[at % CONTENDED.len()] == "fair_lock");
        for at in fair {
            let guard = patient("a queue of the dead", locks.fair_lock(&self.names[at]).guard()).await.unwrap();
            guard.unlock().await.unwrap();
        }
    }

    fn left(&self) -> Vec<String> {
        let strays = self.deployment.strays().into_iter();
        let servers = self.deployment.servers();
        let keys = servers.iter().flat_map(|server| server.control(&["KEYS", "*"]).texts());
        // Tokens go on for ever; that writers waited is known for a moment longer.
        let of_use = |key: &String| key.starts_with("redisson_lock_token");
        strays.chain(keys.filter(|key| !of_use(key))).collect()
    }

    /// The counter of each name, where all rest: how often somebody who had the lock made it one more.
    fn counters(&self) -> BTreeMap<usize, u64> {
        let number = |at: usize| {
            let bytes = std::fs::read(self.counters.path().join(at.to_string())).unwrap();
            u64::from_le_bytes(bytes.try_into().unwrap())
        };
        (0..NAMES).map(|at| (at, number(at))).collect()
    }

    /// All faults in turn, by chance, until there were so many.
    async fn blow(mut self, name: &str, rounds: usize, seed: u64) {
        let mut deck = Vec::new();
        self.go();
        self.all_go_on().await;
        for round in 1..=rounds {
            if deck.is_empty() {
                deck = self.deployment.deck();
                self.rng.shuffle(&mut deck);
            }
            let fault = deck.pop().unwrap();
            println!("{round}: {fault:?}");
            self.strike(fault).await;
        }
        self.all_go_on().await;
        self.pause().await;
        self.nothing_is_left().await;
        if self.mode == Mode::Confirmed {
            assert_eq!(self.counters(), self.book.counted, "seed {seed}");
        }
        report(name, rounds, rounds, self.failures, seed);
    }
}

fn cluster() -> Cluster {
    // Else a replica is too old to be elected when the machine is too busy for a first election.
    let settings = [&SETTINGS[..], &[("cluster-replica-validity-factor", "0")]].concat();
    Cluster::of(&support::server::program(), 1, NODE_TIMEOUT, &settings)
}

fn sentinels() -> Sentinels {
    let all = Sentinels::of(&support::server::program(), NODE_TIMEOUT, &SETTINGS);
    faults::hurry(&all);
    all
}

/// Of each mode of clients; six a topology in CI.
fn rounds() -> usize {
    soak_part(200, 66)
}

async fn blow<D: Deployment>(deployment: fn() -> D, mode: Mode, name: &str) {
    let _turn = turn().await;
    let seed = seed();
    Storm::start(deployment(), [mode; 2], seed).blow(&format!("faults {name}, {mode:?}"), rounds(), seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_clients_that_confirm() {
    blow(cluster, Mode::Confirmed, "of a cluster").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_clients_that_are_told() {
    blow(cluster, Mode::Told, "of a cluster").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_of_clients_that_confirm() {
    blow(sentinels, Mode::Confirmed, "behind sentinels").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_of_clients_that_are_told() {
    blow(sentinels, Mode::Told, "behind sentinels").await;
}

/// What the runs above look for is there to be found: who goes by a lease alone, where grants are not confirmed, has a
/// lock together with another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_deaf_has_what_another_has() {
    let mut storm = Storm::start(cluster(), [Mode::Deaf, Mode::Told], seed());
    let key = storm.names[0].clone();
    block_in_place(|| storm.deployment.cut_off(storm.deployment.primary(&key)));
    storm.go();
    sleep(ms(200)).await;
    block_in_place(|| storm.deployment.strike(Fault::KillAhead, &key, &mut storm.rng));
    storm.all_go_on().await;
    storm.pause().await;
    let doubled = storm.book.doubled();
    println!("doubled {}: {:?} ..", doubled.len(), doubled.first());
    assert!(!doubled.is_empty());
    assert_ne!(storm.counters(), storm.book.counted);
}
