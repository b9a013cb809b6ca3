//! Seeded schedules on paused time, with lost calls, outages and drops: one inside, all get on, nothing is left.
//!
//! A failure names its seed: `LOCKSON_SEED=<seed>` begins with it.

use std::sync::Mutex;

use lockson::{Backoff, Faults, Request};
use support::prelude::*;

const NAME: &str = "x";
/// A short lease runs out in an outage; nothing that is left behind hides behind a long one.
const LEASES: [Duration; 2] = [secs(3), secs(300)];
const TIMEOUT: Duration = ms(400);
const KINDS: [&str; 9] = ["lock", "mutex", "spin", "fenced", "plain", "fair", "fair_mutex", "write", "read_write"];

/// A lock of this kind; of the read/write lock one side by chance.
fn lock_of(kind: &str, locks: &Locks, rng: &mut Rng) -> (Arc<dyn RLock>, bool) {
    let both = locks.read_write_lock(NAME);
    let lock: Arc<dyn RLock> = match kind {
        "lock" => Arc::new(locks.lock(NAME)),
        "mutex" => Arc::new(locks.mutex(NAME)),
        "spin" => Arc::new(locks.spin_lock(NAME, Backoff::default())),
        "fenced" => Arc::new(locks.fenced_lock(NAME)),
        "plain" => Arc::new(locks.plain_lock(NAME)),
        "fair" => Arc::new(locks.fair_lock(NAME)),
        "fair_mutex" => Arc::new(locks.fair_mutex(NAME)),
        "read_write" if rng.f64() < 0.70 => return (Arc::new(both.read()), true),
        _ => Arc::new(both.write()),
    };
    (lock, false)
}

/// Who is inside, and whether for reading only.
#[derive(Default)]
struct Inside(Mutex<Vec<(usize, Arc<Guard>, bool)>>);

impl Inside {
    /// Notes a hold, and says who else has one that is valid and excludes it.
    fn enter(&self, task: usize, guard: &Arc<Guard>, reads: bool) -> Vec<usize> {
        let mut inside = self.0.lock().unwrap();
        let rivals = inside
            .iter()
            .filter(|(_, other, other_reads)| guard.is_valid() && other.is_valid() && !(reads && *other_reads));
        let rivals = rivals.map(|(other, _, _)| *other).collect();
        inside.push((task, guard.clone(), reads));
        rivals
    }

    fn leave(&self, task: usize) {
        self.0.lock().unwrap().retain(|(other, _, _)| *other != task);
    }
}

/// What a schedule came to.
#[derive(Default)]
struct Outcome {
    held: usize,
    failures: Vec<String>,
}

struct Schedule {
    seed: u64,
    server: EmbeddedServer,
    inside: Inside,
    outcome: Mutex<Outcome>,
}

impl Schedule {
    fn fails(&self, what: String) {
        self.outcome.lock().unwrap().failures.push(format!("seed {}: {what}", self.seed));
    }

    /// A few rounds of one task: waits with a limit or goes away while it waits, works, and gives back or drops.
    async fn work(self: Arc<Self>, task: usize, kind: &'static str, locks: Locks) {
        let mut rng = Rng::with_seed(self.seed ^ (task as u64 + 1));
        for _ in 0..4 {
            if rng.f64() < 0.5 {
                sleep(ms(rng.u64(..300))).await;
            }
            let (lock, reads) = lock_of(kind, &locks, &mut rng);
            let wait = ms(1 + rng.u64(..4000));
            let taken = lock.guard_with(Request::default().wait(wait));
            let patience = if rng.f64() < 0.20 { ms(rng.u64(..600)) } else { wait + TIMEOUT * 4 };
            let Ok(taken) = tokio::time::timeout(patience, taken).await else {
                if patience > wait {
                    self.fails(format!("{kind}: task {task} waited beyond its limit of {wait:?}"));
                }
                continue;
            };
            let Ok(Some(guard)) = taken else { continue };
            self.hold(task, kind, guard, reads, &*lock, &mut rng).await;
        }
    }

    async fn hold(&self, task: usize, kind: &str, guard: Guard, reads: bool, lock: &dyn RLock, rng: &mut Rng) {
        let guard = Arc::new(guard);
        for rival in self.inside.enter(task, &guard, reads) {
            self.fails(format!("{kind}: tasks {task} and {rival} are inside at once"));
        }
        self.outcome.lock().unwrap().held += 1;
        let work = if rng.f64() < 0.10 { ms(rng.u64(..6000)) } else { ms(rng.u64(..60)) };
        let _ = guard.run(sleep(work)).await;
        for _ in 0..rng.u64(..4) {
            self.enter_again(task, kind, lock, rng).await;
        }
        self.inside.leave(task);
        let guard = Arc::into_inner(guard).expect("the only one");
        if rng.f64() < 0.50 {
            drop(guard);
        } else {
            let _ = guard.unlock().await;
        }
    }

    /// One more bare hold of the same owner, which may go away while it asks and while it gives back.
    async fn enter_again(&self, task: usize, kind: &str, lock: &dyn RLock, rng: &mut Rng) {
        let patience = ms(rng.u64(..2000));
        let entered = tokio::time::timeout(patience, lock.try_lock()).await;
        let tampered = matches!(entered, Ok(Err(LockError::Query(QueryError::Tampered { .. }))));
        let unlocked = match entered {
            Ok(Ok(Acquired)) => tokio::time::timeout(patience, lock.unlock()).await.ok(),
            _ => None,
        };
        if tampered || matches!(unlocked, Some(Err(UnlockError::Query(QueryError::Tampered { .. })))) {
            self.fails(format!("{kind}: task {task} finds a count that it did not write: {entered:?}, {unlocked:?}"));
        }
    }

    /// What the network and the server do meanwhile.
    async fn weather(self: Arc<Self>) {
        let mut rng = Rng::with_seed(self.seed);
        loop {
            let faults = Faults::seeded(rng.u64(..));
            let faults = match rng.u64(..4) {
                0 => faults,
                1 => faults.lose_calls(rng.u32(..200)).lose_replies(rng.u32(..200)),
                2 => faults.delay(ms(rng.u64(..1500))).lose_messages(rng.u32(..1000)),
                _ => faults.delay(ms(rng.u64(..100))).lose_calls(50).lose_replies(50).lose_messages(200),
            };
            self.server.inject(faults);
            sleep(ms(rng.u64(..2000))).await;
            if rng.f64() < 0.25 {
                self.server.stop();
                sleep(ms(rng.u64(..1500))).await;
                self.server.start();
            }
        }
    }

    /// Everything was given back, or ends with its lease where that is short.
    async fn is_over(&self, kind: &str) {
        let keys = ["x", "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}", "lockson:fair_seen:{x}"];
        for _ in 0..100 {
            let left: Vec<_> = keys.iter().filter(|key| self.exists(key)).collect();
            if left.is_empty() {
                return;
            }
            sleep(ms(60)).await;
        }
        self.fails(format!(
            "{kind}: left behind: {:?}",
            keys.iter().filter(|key| self.exists(key)).collect::<Vec<_>>()
        ));
    }

    fn exists(&self, key: &str) -> bool {
        format!("{:?}", self.server.command(&["EXISTS", key])).contains('1')
    }
}

async fn play(seed: u64) -> Outcome {
    let mut rng = Rng::with_seed(seed);
    let kind = KINDS[rng.usize(..KINDS.len())];
    let (server, lease) = (EmbeddedServer::new(), LEASES[rng.usize(..2)]);
    let schedule = Arc::new(Schedule { seed, server, inside: Inside::default(), outcome: Mutex::default() });
    let builder = || Locks::builder().command_timeout(TIMEOUT).watchdog_lease(lease);
    let clients: Vec<_> = (0..3).map(|_| schedule.server.connect_with(builder()).unwrap()).collect();
    let weather = tokio::spawn(schedule.clone().weather());
    let tasks: Vec<_> = (0..2 + rng.usize(..7))
        .map(|task| tokio::spawn(schedule.clone().work(task, kind, clients[task % clients.len()].clone())))
        .collect();
    for (task, work) in tasks.into_iter().enumerate() {
        match tokio::time::timeout(secs(300), work).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => schedule.fails(format!("{kind}: task {task}: {panic}")),
            Err(_) => schedule.fails(format!("{kind}: task {task} never ends")),
        }
    }
    weather.abort();
    schedule.server.start();
    schedule.server.heal();
    schedule.is_over(kind).await;
    drop(clients);
    let outcome = std::mem::take(&mut *schedule.outcome.lock().unwrap());
    outcome
}

fn in_paused_time<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

/// Schedules that failed once, each with its story.
const FOUND: [(u64, &str); 1] = [(
    1_795_309_042_195_657_892,
    "a give-back without an answer left the server's count above the registry's, and the next release took that for \
     somebody else's writing",
)];

#[test]
fn schedules_that_failed_once() {
    for (seed, story) in FOUND {
        assert_eq!(in_paused_time(play(seed)).failures, Vec::<String>::new(), "{story}");
    }
}

#[test]
fn seeded_schedules() {
    let (schedules, first) = (soak(2_000), seed());
    let (mut done, mut held, mut failures) = (0, 0, Vec::new());
    for seed in (0..schedules as u64).map(|round| first.wrapping_add(round)) {
        let outcome = in_paused_time(play(seed));
        held += outcome.held;
        failures.extend(outcome.failures);
        done += 1;
    }
    failures.iter().take(20).for_each(|failure| println!("{failure}"));
    println!("{held} holds in {schedules} schedules");
    assert!(held > schedules, "the schedules test next to nothing");
    report("seeded schedules", done, schedules, failures.len(), first);
}
