//! The world that a plan is played in: the servers, each client's connections, the ways between them, and the judge.

use std::sync::{Arc, Mutex};

use lockson::{AcquireOutcome, EmbeddedServer, Locks, Replicas};
use lockson_embedded::Commit;
use tokio::time::Instant;

use crate::gate::{Gate, Gated};
use crate::judge::Judge;
use crate::plan::{Kind, Plan, Turn, CLIENTS, PROBE, TIMEOUT, TURN, WITHIN};
use crate::queue::Queue;
use crate::road::{Road, To};
use crate::take::{lock_of, ms, name_of, owner_of};
use crate::wake::Wake;

/// So many permits a semaphore has.
pub const PERMITS: u32 = 2;

/// What all that plays a schedule shares.
pub struct World {
    pub plan: Plan,
    pub servers: Vec<EmbeddedServer>,
    pub gates: Vec<Arc<Gate>>,
    pub roads: Vec<Arc<Mutex<Road>>>,
    /// The connections of each client.
    pub clients: Vec<Vec<Locks>>,
    pub judge: Arc<Mutex<Judge>>,
}

impl World {
    pub fn new(plan: &Plan, servers: &[EmbeddedServer], loud: bool) -> Self {
        let servers: Vec<_> = servers.iter().take(plan.servers()).cloned().collect();
        let gates: Vec<Arc<Gate>> = (0..CLIENTS).map(|_| Arc::default()).collect();
        let began = Instant::now();
        let clock = move || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut judge = Judge::new(plan.lease, gates.clone(), clock);
        judge.is_confirmed = plan.confirmed.is_some();
        judge.loud = loud;
        let judge = Arc::new(Mutex::new(judge));
        let mut roads = Vec::new();
        for (number, server) in (0_u64..).zip(&servers) {
            server.renew(plan.seed.wrapping_mul(7).wrapping_add(number));
            let road: Arc<Mutex<Road>> = Arc::default();
            server.inject(To(road.clone()));
            server.set_replica(plan.confirmed.map(ms));
            roads.push(road);
        }
        let client = |client: usize| {
            let connect = |(number, server): (u64, &EmbeddedServer)| {
                let gate = gates[client].clone();
                let builder = Locks::builder().command_timeout(ms(TIMEOUT)).watchdog_lease(ms(plan.lease));
                let builder = match plan.confirmed {
                    Some(_) => builder.confirm(Replicas::All, ms(WITHIN)),
                    None => builder,
                };
                let seed = plan.seed.wrapping_add((client as u64 + 1) * 1_000_003 + number);
                let spawn = move |work| drop(tokio::spawn(Gated::new(gate.clone(), work)));
                server.connect_simulated(builder, seed, spawn).expect("good settings")
            };
            (0..).zip(&servers).map(connect).collect()
        };
        let clients: Vec<Vec<Locks>> = (0..CLIENTS).map(client).collect();
        let world = Self { plan: plan.clone(), servers, gates, roads, clients, judge };
        world.watch();
        world
    }

    /// Each script goes into the trace, and the queues of fair locks are looked at.
    fn watch(&self) {
        for server in &self.servers {
            let judge = self.judge.clone();
            let mut queues = Queue::all(&self.plan, &self.clients);
            let mut wakes = Wake::all(&self.plan);
            judge.lock().unwrap().watch(&wakes);
            server.watch(move |commit| {
                let mut judge = judge.lock().unwrap();
                judge.scripts += 1;
                note(&mut judge, commit);
                queues.iter_mut().for_each(|queue| queue.saw(&mut judge, commit));
                wakes.iter_mut().for_each(|wake| wake.saw(&mut judge, commit));
            });
        }
    }

    /// Sets what has to be set before anybody can take it, of one name or of all.
    pub async fn set(&self, only: Option<usize>) {
        let first = &self.clients[0][0];
        for (name, kind) in self.plan.kinds().into_iter().filter(|(name, _)| only.is_none_or(|only| *name == only)) {
            let text = name_of((name, 0));
            match kind {
                Kind::Semaphore => {
                    let _ = first.semaphore(&text).try_set_permits(PERMITS).await;
                    self.judge.lock().unwrap().set_permits(name, PERMITS as usize);
                }
                Kind::PermitSemaphore => {
                    let _ = first.permit_semaphore(&text).try_set_permits(PERMITS).await;
                    self.judge.lock().unwrap().set_permits(name, PERMITS as usize);
                }
                Kind::CountDown | Kind::Await if only.is_none() => {
                    let counts = |turn: &&Turn| turn.name == name && turn.kind == Kind::CountDown;
                    let count = self.plan.turns().map(|(_, turn)| turn).filter(counts).count() * 2 / 3 + 1;
                    let is_set = first.latch(&text).try_set_count(count as u32).await;
                    if matches!(is_set, Ok(true)) {
                        self.judge.lock().unwrap().set_latch(name, count);
                    }
                }
                _ => {}
            }
        }
    }

    /// Each client sees all the servers of red locks before one of them can lose its data: who says that servers are
    /// fresh, and asks them later, has to be right.
    pub async fn meet(&self) {
        for client in &self.clients {
            let lock = lock_of(&Turn { task: PROBE, name: PROBE, kind: Kind::Red, ..TURN }, client);
            let met = owner_of(PROBE).scope(async { (lock.try_lock().await, lock.unlock().await) }).await;
            assert!(matches!(met, (Ok(AcquireOutcome::Acquired), Ok(()))), "it has no rival yet: {met:?}");
        }
    }

    pub fn fails(&self, what: String) {
        self.judge.lock().unwrap().fails(what);
    }
}

/// What a script was asked and answered, for the trace.
fn note(judge: &mut Judge, commit: &Commit<'_>) {
    let now = commit.now_ms();
    let call = commit.call;
    judge.trace.add(now.to_le_bytes());
    judge.trace.add(commit.connection.to_le_bytes());
    judge.trace.add(&*call.sha);
    call.keys.iter().chain(&call.args).for_each(|word| judge.trace.add(word));
    match commit.result {
        Ok(value) => judge.trace.add_value(value),
        Err(text) => judge.trace.add(text),
    }
    if judge.loud {
        let title = call.text.lines().map(str::trim).find(|line| line.starts_with("--")).unwrap_or_default();
        let title = title.split(".lua").next().unwrap_or_default();
        println!(
            "{:>6}   {} {title} {:?} {:?} -> {:?}",
            judge.now(),
            commit.connection,
            call.keys,
            call.args,
            commit.result
        );
    }
}
