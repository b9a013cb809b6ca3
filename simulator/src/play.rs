//! Plays a plan: the clients, scripts and wait loops that lockson ships, on paused time and the embedded server.

use std::sync::Arc;
use std::time::Duration;

use lockson::{AcquireOutcome, EmbeddedServer, Guard, LockError, QueryError, Request, UnlockError};
use tokio::time::{sleep, sleep_until, timeout, Instant};

use crate::faults::Weatherman;
use crate::gate::Gated;
use crate::judge::{Hold, Seen};
use crate::left::Left;
use crate::plan::{End, Kind, Plan, Turn, CLIENTS, TIMEOUT};
use crate::queue::texts;
use crate::take::{lock_of, ms, name_of, owner_of, take, Held};
use crate::world::World;

/// What is held is looked at so often.
const LOOK: u64 = 250;
/// A task that is not over then never ends.
const LONGEST: Duration = Duration::from_secs(600);

/// What a schedule came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub hash: u64,
    pub scripts: usize,
    pub taken: usize,
    pub failures: Vec<String>,
}

/// Plays a plan on these servers, which are made anew for it.
pub fn play(plan: &Plan, servers: &[EmbeddedServer], loud: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let world = Arc::new(World::new(plan, servers, loud));
        world.set(None).await;
        if plan.uses(Kind::Red) {
            world.meet().await;
        }
        world.clone().run().await;
        let mut judge = world.judge.lock().unwrap();
        let failures = std::mem::take(&mut judge.failures);
        Outcome { hash: judge.trace.0, scripts: judge.scripts, taken: judge.taken, failures }
    })
}

impl World {
    async fn run(self: Arc<Self>) {
        let mut tasks: Vec<Vec<(u64, Turn)>> = Vec::new();
        for (at, turn) in self.plan.turns() {
            tasks.resize_with(tasks.len().max(turn.task + 1), Vec::new);
            tasks[turn.task].push((at, *turn));
        }
        let begun = Instant::now();
        let running: Vec<_> = tasks
            .into_iter()
            .enumerate()
            .map(|(task, turns)| {
                let work = owner_of(task).scope(self.clone().task(begun, turns));
                tokio::spawn(Gated::new(self.gates[task % CLIENTS].clone(), work))
            })
            .collect();
        let world = self.clone();
        let looking = tokio::spawn(async move {
            loop {
                sleep(ms(LOOK)).await;
                world.look();
            }
        });
        Weatherman::new(&self).run(begun).await;
        for (task, work) in running.into_iter().enumerate() {
            if self.gates[task % CLIENTS].is_dead() {
                continue;
            }
            match timeout(LONGEST, work).await {
                Ok(Ok(())) => {}
                Ok(Err(panic)) => self.fails(format!("task {task}: {panic}")),
                Err(_) => self.fails(format!("task {task} never ends")),
            }
        }
        looking.abort();
        Left(&self).check().await;
    }

    fn look(&self) {
        self.look_at_claims();
        let mut judge = self.judge.lock().unwrap();
        judge.look();
        for (task, name) in judge.spent() {
            let (owner, key) = (format!(":named-task{task}"), name_of((name, 0)));
            for server in &self.servers {
                let fields = texts((**server).command(&["HKEYS", &key]));
                if fields.iter().any(|field| field.ends_with(&owner)) {
                    judge.fails(format!("task {task} lost red lock {name}, and its votes are renewed"));
                }
            }
        }
    }

    async fn task(self: Arc<Self>, begun: Instant, turns: Vec<(u64, Turn)>) {
        for (at, turn) in turns {
            sleep_until(begun + ms(at)).await;
            self.turn(&turn).await;
        }
    }

    async fn turn(&self, turn: &Turn) {
        let asked = {
            let mut judge = self.judge.lock().unwrap();
            judge.note(&format!("task {} asks for {:?} {}", turn.task, turn.kind, turn.name));
            if turn.wait > 0 && turn.kind != Kind::CountDown {
                judge.waits(turn.task, turn.name);
            }
            (judge.now(), judge.stalls[turn.task % CLIENTS])
        };
        // Each server of a red lock is given a hundredth of the lease.
        let votes = if turn.kind == Kind::Red { turn.lease.unwrap_or(self.plan.lease).max(5_000) / 50 } else { 0 };
        let limit = turn.patience.unwrap_or(turn.wait + TIMEOUT * 4 + 100 + votes);
        let done = timeout(ms(limit), async {
            match turn.kind {
                Kind::CountDown => self.count_down(turn).await,
                Kind::Await => self.wait(turn).await,
                _ => return Some(take(turn, &self.clients[turn.task % CLIENTS]).await),
            }
            None
        });
        let done = done.await;
        self.judge.lock().unwrap().waits_no_more(turn.task);
        let taken = match done {
            Ok(None) => return,
            Ok(Some(taken)) => taken,
            Err(_) => {
                if turn.patience.is_none() && self.stalls(turn) == asked.1 && turn.kind != Kind::CountDown {
                    self.fails(format!("task {} waited beyond its limit of {} ms", turn.task, turn.wait));
                }
                return;
            }
        };
        match taken {
            Ok(Some(held)) => {
                let held = Arc::new(held);
                self.enters(turn, asked.0, held.clone());
                self.hold(turn, held).await;
            }
            Ok(None) => self.judge.lock().unwrap().note(&format!("task {} finds it busy", turn.task)),
            Err(error) => self.error(turn, &error),
        }
    }

    /// A task has what it asked for.
    fn enters(&self, turn: &Turn, asked: u64, held: Arc<Held>) {
        let keys = match turn.kind {
            Kind::Multi | Kind::Mixed | Kind::Group => vec![(turn.name, 0), (turn.name, 1)],
            _ => vec![(turn.name, 0)],
        };
        let mut judge = self.judge.lock().unwrap();
        let hold = Hold {
            task: turn.task,
            kind: turn.kind,
            keys,
            asked,
            sent: judge.now(),
            lease: judge.longest(turn.lease),
            lost: None,
            is_worked: false,
            is_fixed: turn.lease.is_some() && turn.entries == 0 && turn.limited.is_none(),
            is_renewed: turn.lease.is_none(),
            over: None,
            held,
        };
        judge.enters(hold);
        drop(judge);
        self.look_at_claims();
    }

    fn error(&self, turn: &Turn, error: &str) {
        let mut judge = self.judge.lock().unwrap();
        // An attempt may be under way at the limit, however soon it is answered.
        let is_late = error.contains("the limit came before an answer");
        judge.note(&format!("task {}: {error}", turn.task));
        if error.contains("Tampered") && judge.is_sound(turn.name) && !judge.failed_over() {
            judge.fails(format!("task {} finds a count that it did not write: {error}", turn.task));
        } else if judge.is_calm && !is_late && error.contains("Query(") {
            judge.fails(format!("task {} is refused for nothing: {error}", turn.task));
        }
    }

    async fn hold(&self, turn: &Turn, mut held: Arc<Held>) {
        let second = match turn.limited {
            Some(limit) if held.excludes() => self.enter_for(turn, limit).await,
            _ => None,
        };
        self.works(turn, &held).await;
        drop(second);
        if held.excludes() {
            for _ in 0..turn.entries {
                if held.is_valid() {
                    self.enter_again(turn).await;
                }
                self.judge.lock().unwrap().look();
            }
        }
        if turn.kind == Kind::Downgrade {
            held = self.downgrades(turn, held).await;
        }
        if let End::Extend(lease) = turn.end {
            self.judge.lock().unwrap().extends(turn.task);
            let extended = held.extend(ms(lease)).await;
            self.judge.lock().unwrap().extended(turn.task, lease);
            self.error(turn, &format!("extended: {extended:?}"));
            self.works(turn, &held).await;
        }
        if let End::Idle(span) = turn.end {
            sleep(ms(span)).await;
        }
        self.judge.lock().unwrap().leaves(turn.task);
        let Some(held) = Arc::into_inner(held) else { return };
        match turn.end {
            End::Drop | End::Idle(_) => drop(held),
            End::Within(limit) => self.give_back_within(turn, held, limit).await,
            End::Unlock | End::Extend(_) => {
                let given = held.give_back().await;
                self.error(turn, &given);
            }
        }
    }

    /// Enters as a reader too, gives the write hold back, and reads on.
    async fn downgrades(&self, turn: &Turn, written: Arc<Held>) -> Arc<Held> {
        let reader = Turn { kind: Kind::Read, wait: 0, ..*turn };
        let asked = self.judge.lock().unwrap().now();
        let Ok(Some(read)) = take(&reader, &self.clients[turn.task % CLIENTS]).await else { return written };
        let read = Arc::new(read);
        self.judge.lock().unwrap().leaves(turn.task);
        self.enters(&reader, asked, read.clone());
        match (turn.end, Arc::into_inner(written)) {
            (End::Drop, written) => drop(written),
            (_, Some(written)) => self.error(turn, &written.give_back().await),
            _ => {}
        }
        self.works(&reader, &read).await;
        read
    }

    async fn give_back_within(&self, turn: &Turn, held: Held, limit: u64) {
        let begun = self.stalls(turn);
        let given = timeout(ms(limit + 50), held.give_back_within(ms(limit))).await;
        if given.is_err() && begun == self.stalls(turn) {
            self.fails(format!("task {} gives back for more than its limit of {limit} ms", turn.task));
        }
        self.error(turn, &format!("{given:?}"));
    }

    fn stalls(&self, turn: &Turn) -> usize {
        self.judge.lock().unwrap().stalls[turn.task % CLIENTS]
    }

    async fn works(&self, turn: &Turn, held: &Held) {
        self.judge.lock().unwrap().works(turn.task, held.excludes());
        held.works(ms(turn.work)).await;
        self.judge.lock().unwrap().works(turn.task, false);
    }

    /// A second guard of the same owner, which is renewed for so long at most.
    async fn enter_for(&self, turn: &Turn, limit: u64) -> Option<Guard> {
        let lock = lock_of(turn, &self.clients[turn.task % CLIENTS]);
        let request = Request::default().wait(Duration::ZERO).max_hold(ms(limit));
        lock.guard_with(request).await.ok().flatten()
    }

    /// One more bare hold of the same owner, which may go away while it asks and while it gives back.
    async fn enter_again(&self, turn: &Turn) {
        let lock = lock_of(turn, &self.clients[turn.task % CLIENTS]);
        let patience = ms(turn.entry_patience);
        match timeout(patience, lock.try_lock()).await {
            Ok(Ok(AcquireOutcome::Acquired)) => {}
            Ok(Err(LockError::Query(error @ QueryError::Tampered { .. }))) => {
                return self.error(turn, &format!("{error:?}"));
            }
            _ => return,
        }
        for _ in 0..20 {
            match timeout(patience, lock.unlock()).await {
                Ok(Err(UnlockError::Query(error))) => self.error(turn, &format!("{error:?}")),
                // Given back, on its way, or not there.
                _ => return,
            }
            sleep(ms(500)).await;
        }
    }

    async fn count_down(&self, turn: &Turn) {
        let latch = self.clients[turn.task % CLIENTS][0].latch(&name_of((turn.name, 0)));
        self.judge.lock().unwrap().counts_down(turn.name);
        match latch.count_down().await {
            Ok(left) => self.judge.lock().unwrap().counted(turn.name, left),
            Err(error) => self.error(turn, &format!("{error:?}")),
        }
    }

    async fn wait(&self, turn: &Turn) {
        let latch = self.clients[turn.task % CLIENTS][0].latch(&name_of((turn.name, 0)));
        match latch.wait_for(ms(turn.wait)).await {
            Ok(lockson::WaitOutcome::Opened) => self.judge.lock().unwrap().opened(turn.name),
            other => self.error(turn, &format!("{other:?}")),
        }
    }
}
