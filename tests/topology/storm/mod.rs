//! Faults, one after the other, under tasks of three processes that contend for locks and permits: the simulator's
//! oracle judges what they had, all go on, nothing is left.

mod book;
mod faults;
mod judged;
mod single;

use std::collections::BTreeMap;

use lockson_simulator::history::PROCESS;
use lockson_simulator::plan::Kind as Wish;
use lockson_simulator::take::name_of;
use support::prelude::*;
use support::process::{clock, Process, Signal};
use support::sites::turn;
use support::worker::{builder, Mode, Orders, Wanted, COUNTS, LEASE, SETTINGS, TASKS};
use support::{Cluster, Sentinels};
use tokio::task::block_in_place;

use book::Book;
use faults::{Deployment, Fault, Switch, NODE_TIMEOUT};

const PROCESSES: usize = 3;
/// What tasks contend for: of one name each. The last is left out where there are replicas: a permit without an id
/// whose give-back was lost in a failover is nobody's for ever.
const CONTENDED: [&[Wish]; 8] = [
    &[Wish::Lock],
    &[Wish::Fair],
    &[Wish::Read, Wish::FencedWrite],
    &[Wish::Fenced],
    &[Wish::PermitSemaphore],
    &[Wish::Plain],
    &[Wish::Mutex],
    &[Wish::Semaphore],
];
/// The permits of each semaphore.
const PERMITS: u32 = 2;
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
/// How often it is looked, and how long it is rested between, until all have to go on, or be gone: what came back
/// with a failover ends with its lease. On a machine that has no time for this, it takes longer.
const LOOKS: u32 = 1_500;
const REST: Duration = ms(20);

/// The faults, the processes under them, and what they said.
struct Storm<D> {
    deployment: D,
    processes: Vec<Process>,
    /// What they were started with.
    orders: Vec<Orders>,
    /// Where the first process reaches the servers.
    proxies: Vec<Proxy>,
    wanted: Vec<Wanted>,
    latch: usize,
    /// Sets permits and latches.
    locks: Locks,
    book: Book,
    rng: Rng,
    mode: Mode,
    failures: usize,
}

/// So many numbers of names, over all primaries by turns.
fn numbers<D: Deployment>(deployment: &D, count: usize) -> Vec<usize> {
    let primaries = deployment.primaries();
    let is_on = |number: usize, at: usize| deployment.primary(&name_of((number, 0))) == at % primaries;
    (0..count).map(|at| (at * 1_000..).find(|number| is_on(*number, at)).unwrap()).collect()
}

impl<D: Deployment> Storm<D> {
    /// The processes rest. The first is of this mode, the others of the next.
    async fn start(deployment: D, modes: [Mode; 2], seed: u64) -> Self {
        let proxies: Vec<Proxy> = deployment.servers().iter().map(|server| Proxy::start(server.port())).collect();
        let ports: Vec<_> =
            deployment.servers().iter().zip(&proxies).map(|(server, by)| (server.port(), by.port())).collect();
        let kinds = CONTENDED.len() - usize::from(deployment.servers().len() > 1);
        let mut numbers = block_in_place(|| numbers(&deployment, kinds + 1));
        let latch = numbers.pop().unwrap();
        let wanted: Vec<Wanted> = numbers.into_iter().zip(CONTENDED.map(<[_]>::to_vec)).collect();
        let locks = builder(Mode::Told).command_timeout(secs(2)).connect(&deployment.url()).await.unwrap();
        let (book, rng) = (Book::new(), Rng::with_seed(seed));
        let (processes, orders) = (Vec::new(), Vec::new());
        let mode = modes[0];
        let mut storm =
            Self { deployment, processes, orders, proxies, wanted, latch, locks, book, rng, mode, failures: 0 };
        for (process, mode) in (0..PROCESSES).zip([modes[0], modes[1], modes[1]]) {
            let orders = Orders {
                url: storm.deployment.url(),
                mode,
                process,
                wanted: storm.wanted.clone(),
                latch,
                kept: block_in_place(|| (0..KEPT).map(|third| storm.deployment.name(third, "kept")).collect()),
                ports: if process == 0 { ports.clone() } else { Vec::new() },
                seed: seed.wrapping_add(process as u64 * 1_000),
            };
            storm.orders.push(storm.allowed(orders));
        }
        storm.processes = storm.orders.iter().map(start).collect();
        storm.processes.iter().for_each(|process| process.expect("paused"));
        storm.set_anew().await;
        storm
    }

    /// What a process that may be killed takes: no permits that stay taken then.
    fn allowed(&self, mut orders: Orders) -> Orders {
        let stays = |wanted: &Wanted| wanted.1.contains(&Wish::Semaphore);
        if orders.process == 0 {
            orders.wanted.iter_mut().filter(|wanted| stays(wanted)).for_each(|wanted| *wanted = self.wanted[0].clone());
        }
        orders
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
        for _ in 0..LOOKS {
            self.listen();
            if is(&self.book) {
                return;
            }
            sleep(REST).await;
        }
        panic!("not in {LOOKS} looks: {what}: {:?}", self.book.failed);
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

    /// Every task has had its lock from here on.
    async fn all_go_on(&mut self) {
        let since = clock();
        let all = |book: &Book| {
            book.latest.len() == PROCESSES * TASKS
                && book.kept.len() == PROCESSES * KEPT
                && book.latest.values().all(|at| *at > since)
        };
        self.until("every task has its lock again", all).await;
    }

    /// One fault and what comes of it.
    async fn strike(&mut self, fault: Fault) {
        let (begun, begun_at, turns) = (Instant::now(), clock(), self.book.turns);
        let key = name_of((self.wanted[self.rng.usize(..self.wanted.len())].0, 0));
        let before = block_in_place(|| self.primaries());
        let primary = before[&key];
        if fault == Fault::KillAhead {
            // All of them are granted anew, and what the replicas do not hear of is lost.
            self.pause().await;
            block_in_place(|| self.deployment.cut_off(primary));
            self.go();
            sleep(ms(200)).await;
            self.listen();
        }
        // What is kept by a process that ends, is lost with it.
        let kept = if fault == Fault::KillProcess { BTreeMap::new() } else { self.book.kept.clone() };
        let switch = block_in_place(|| self.harm(fault, &key));
        let (mended, mended_at) = (begun.elapsed(), clock());
        self.listen();
        let since = self.book.turns;
        // A busy machine makes nodes take others for dead.
        let loses = self.mode != Mode::Confirmed
            && (fault.fails_over() && self.deployment.servers().len() > 1 || self.has_switched(&before, &key));
        let lost = self.lost(kept, switch, mended_at, loses).await;
        self.all_go_on().await;
        let back = begun.elapsed() - mended;
        let after = self.book.turns - since;
        self.pause().await;
        self.nothing_is_left(fault == Fault::KillProcess).await;
        let any_switched = block_in_place(|| self.primaries()) != before;
        // One that was not meant comes when it comes.
        let over_at = if any_switched && !fault.fails_over() { clock() } else { mended_at };
        let loses_more = loses || self.mode != Mode::Confirmed && self.has_switched(&before, &key);
        self.book.history.fault((begun_at, over_at), loses_more);
        // Nobody confirms places in queues.
        if fault.fails_over() || any_switched {
            self.book.history.loses_places((begun_at, over_at));
        }
        let mut wrong = self.judged(loses_more).await;
        self.failures += wrong.len();
        wrong.truncate(3);
        let failed = std::mem::take(&mut self.book.failed);
        let moved = format!("{primary} to {}", block_in_place(|| self.deployment.primary(&key)));
        println!(
            "  {moved}: mended after {mended:.1?}, all go on {back:.1?} later, {} + {after} turns, {lost}, failed \
             {failed:?}, loses {loses}, wrong {wrong:?}",
            since - turns
        );
        self.set_anew().await;
        self.go();
    }

    /// Which server has each name.
    fn primaries(&self) -> BTreeMap<String, usize> {
        let names = self.wanted.iter().map(|(name, _)| name_of((*name, 0)));
        names.map(|name| (name.clone(), self.deployment.primary(&name))).collect()
    }

    /// Whether another server has a name that was not meant.
    fn has_switched(&self, before: &BTreeMap<String, usize>, key: &str) -> bool {
        let now = block_in_place(|| self.primaries());
        now.iter().any(|(name, primary)| name != key && before[name] != *primary)
    }

    /// What the oracle finds wrong, while all rest.
    async fn judged(&mut self, loses: bool) -> Vec<String> {
        let mut wrong = self.book.history.judge();
        for (name, kind) in self.semaphores().into_iter().filter(|_| !loses) {
            let left = self.free(name, kind).await;
            wrong.extend((left != i64::from(PERMITS)).then(|| format!("semaphore {name} has {left} permits left")));
        }
        wrong
    }

    /// The names of semaphores.
    fn semaphores(&self) -> Vec<(usize, Wish)> {
        let kind = |(name, kinds): &Wanted| (*name, kinds[0]);
        self.wanted.iter().map(kind).filter(|(_, kind)| *kind >= Wish::Semaphore).collect()
    }

    /// How many permits are free, as soon as all are; what an ended process had, ends with its lease.
    async fn free(&self, name: usize, kind: Wish) -> i64 {
        let (name, mut free) = (name_of((name, 0)), 0);
        for _ in 0..LOOKS {
            free = match kind {
                Wish::PermitSemaphore => self.locks.permit_semaphore(&name).available_permits().await,
                _ => self.locks.semaphore(&name).available_permits().await,
            }
            .unwrap_or(-1);
            if free == i64::from(PERMITS) {
                break;
            }
            sleep(REST).await;
        }
        free
    }

    /// Semaphores and the latch, for the next round.
    async fn set_anew(&mut self) {
        for (number, kind) in self.semaphores() {
            let name = name_of((number, 0));
            block_in_place(|| {
                let server = self.deployment.servers()[self.deployment.primary(&name)];
                server.control(&["DEL", &name, &format!("{{{name}}}:timeout")]);
            });
            let is_set = match kind {
                Wish::PermitSemaphore => self.locks.permit_semaphore(&name).try_set_permits(PERMITS).await,
                _ => self.locks.semaphore(&name).try_set_permits(PERMITS).await,
            };
            assert!(is_set.unwrap(), "{name}");
            self.book.history.set_permits(number, PERMITS as usize);
        }
        let (latch, count) = (self.locks.latch(&name_of((self.latch, 0))), PROCESSES * COUNTS);
        latch.delete().await.unwrap();
        assert!(latch.try_set_count(count as u32).await.unwrap());
        self.book.history.set_latch(self.latch, count);
    }

    fn harm(&mut self, fault: Fault, key: &str) -> Switch {
        self.proxies.iter().for_each(Proxy::forget_requests);
        match fault {
            Fault::Partition => {
                let mut behind: Vec<&Proxy> = self.proxies.iter().collect();
                self.rng.shuffle(&mut behind);
                behind.truncate(self.proxies.len().div_ceil(2));
                faults::part(&behind, &mut self.rng);
                None
            }
            Fault::LoseAnswers => {
                for proxy in &self.proxies {
                    // Done, and not answered; and not done.
                    let _ = proxy.cut_after(self.rng.usize(1..4), Filter::Script);
                    let _ = proxy.cut_before(self.rng.usize(1..4), Filter::Script);
                }
                std::thread::sleep(ms(300));
                None
            }
            Fault::StopProcess => {
                let process = &self.processes[self.rng.usize(..PROCESSES)];
                process.signal(Signal::STOP);
                std::thread::sleep(LEASE + ms(self.rng.u64(..1_000)));
                process.signal(Signal::CONT);
                None
            }
            Fault::KillProcess => {
                self.processes[0].kill();
                self.processes[0].last_lines().for_each(|line| self.book.note(&line));
                let Orders { process, kept, .. } = &mut self.orders[0];
                self.book.latest.retain(|task, _| task / PROCESS != *process);
                self.book.kept.retain(|name, _| !kept.contains(name));
                *process += PROCESSES;
                self.processes[0] = start(&self.orders[0]);
                self.processes[0].expect("paused");
                self.processes[0].say("go");
                None
            }
            _ => self.deployment.strike(fault, key, &mut self.rng),
        }
    }

    /// Holds that were kept and the servers lost: each says so, and in time. A lease that ended before it could be
    /// renewed again was not lost.
    async fn lost(&mut self, kept: BTreeMap<String, String>, switch: Switch, mended: u64, loses: bool) -> String {
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
        // What all replicas have is not lost, nor is anything by a fault that is none of the primaries.
        self.failures += if loses { late.len() } else { lost.len() };
        let latest = Duration::from_nanos(lost.iter().map(after).max().unwrap_or_default());
        let ended = ended.len();
        format!("{ended} ended, {} lost, told within {latest:.2?} of the switch, too late {late:?}", lost.len())
    }

    /// All rest: no lock, place in a queue, or subscription at the wrong server is left, and no turn was lost.
    async fn nothing_is_left(&mut self, has_dead: bool) {
        let mut left = Vec::new();
        for look in 0..LOOKS {
            left = block_in_place(|| self.left());
            if left.is_empty() {
                return;
            }
            sleep(REST).await;
            // A place that somebody left comes back where the new primary did not hear of that, and the dead have
            // theirs: whoever comes next takes them out.
            if (has_dead || self.mode == Mode::Told) && REST * look > LEASE {
                self.visit().await;
            }
        }
        panic!("left behind: {left:?}");
    }

    /// Takes and gives back each fair lock.
    async fn visit(&self) {
        for (name, _) in self.wanted.iter().filter(|(_, kinds)| kinds.contains(&Wish::Fair)) {
            let lock = self.locks.fair_lock(&name_of((*name, 0)));
            patient("a queue of the dead", lock.guard()).await.unwrap().unlock().await.unwrap();
        }
    }

    fn left(&self) -> Vec<String> {
        let strays = self.deployment.strays().into_iter();
        let servers = self.deployment.servers();
        // A server that follows another one from now on ends its connections.
        let keys = servers.iter().flat_map(|server| match server.try_control(&["KEYS", "*"]) {
            Ok(keys) => keys.texts(),
            Err(why) => vec![why],
        });
        // Tokens go on for ever, receipts for a while; that writers waited is known for a moment longer.
        let stays = ["redisson_lock_token", "lockson:receipt", "lockson:semaphore_life", "lockson:latch"];
        let set = self.semaphores().into_iter().map(|(name, _)| name).chain([self.latch]);
        let set: Vec<String> = set.map(|name| name_of((name, 0))).collect();
        let of_use = |key: &String| {
            stays.iter().any(|stays| key.starts_with(stays))
                || set.iter().any(|name| key == name || key.contains(&format!("{{{name}}}")))
        };
        strays.chain(keys.filter(|key| !of_use(key))).collect()
    }

    /// All faults in turn, by chance, until there were so many.
    async fn blow(mut self, name: &str, rounds: usize, seed: u64) {
        let mut deck = Vec::new();
        println!("{name}, seed {seed}");
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
        println!("{} things were had", self.book.history.taken);
        report(name, rounds, rounds, self.failures, seed);
    }
}

fn start(orders: &Orders) -> Process {
    Process::start("topology", "storm", &[&serde_json::to_string(orders).unwrap()])
}

fn single() -> Server {
    // What it answers it has written: with `everysec` it may answer first while a disk is slow.
    Server::with(&[&SETTINGS[..], &[("appendonly", "yes"), ("appendfsync", "always")]].concat())
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
    let storm = Storm::start(deployment(), [mode; 2], seed).await;
    let rounds = if storm.deployment.servers().len() > 1 { rounds() } else { rounds().max(8) };
    storm.blow(&format!("faults {name}, {mode:?}"), rounds, seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server() {
    blow(single, Mode::Told, "of one server").await;
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
    let mut storm = Storm::start(cluster(), [Mode::Deaf, Mode::Told], seed()).await;
    let key = name_of((storm.wanted[0].0, 0));
    block_in_place(|| storm.deployment.cut_off(storm.deployment.primary(&key)));
    storm.go();
    sleep(ms(200)).await;
    block_in_place(|| storm.deployment.strike(Fault::KillAhead, &key, &mut storm.rng));
    storm.all_go_on().await;
    storm.pause().await;
    let wrong = storm.book.history.judge();
    println!("wrong {}: {:?} ..", wrong.len(), wrong.first());
    assert!(wrong.iter().any(|wrong| wrong.contains("are both inside")));
}
