//! What the handles of one client share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::{join_all, BoxFuture, Future, FutureExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::Semaphore;

use crate::backend::{Backend, Script, Signal};
use crate::clock::{millis, Clock, Moment};
use crate::config::Settings;
use crate::error::{in_runtime, LeaseRange, LostBy, Unready};
use crate::hold::{Forgotten, Line};
use crate::janitor::{contain, say, Janitor, Owed};
use crate::keys::Keys;
use crate::latch::Gate;
use crate::lease::{Lease, Leased, Renew, Verdict};
use crate::life::Life;
use crate::notify::Channels;
use crate::owner::Owner;
use crate::permits::Pool;
use crate::registry::Registry;
use crate::script::{Fate, Patience, Settled, Status, Wire};
use crate::watchdog::{Claim, Watchdog};

/// Give-backs that were not answered, and are tried again: so many at once, ..
const RETRIES: usize = 16;
/// .. after this pause first, and after this one at last.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Who is given what it waited for has to be polled within so many command timeouts.
const CLAIMED_WITHIN: u32 = 3;

/// The parts. Background tasks and work under way hold these, not the [`Session`], so that they don't keep it open.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    /// A fresh uuid, behind the label if there is one.
    pub(crate) client_id: String,
    pub(crate) wire: Wire,
    pub(crate) channels: Arc<Channels>,
    /// The read/write lock of a name is another than its exclusive ones, by its channel.
    pub(crate) lines: Arc<Registry<Line>>,
    pub(crate) semaphores: Arc<Registry<Pool>>,
    pub(crate) permit_semaphores: Arc<Registry<Pool>>,
    pub(crate) latches: Arc<Registry<Gate>>,
    forgotten: Arc<Forgotten>,
    pub(crate) life: Life,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) janitor: Janitor,
    pub(crate) owed: Owed,
    /// So many give-backs that were not answered are tried again at once.
    retries: Semaphore,
    closing: AtomicBool,
    /// Its tasks ended before it did.
    dead: AtomicBool,
    /// Nothing is held, waited for or renewed any more.
    over: AtomicBool,
    numbers: AtomicU64,
    renewals: Mutex<Vec<(usize, Arc<dyn Renew>)>>,
}

/// One client. The last handle or guard that goes closes it.
pub struct Session {
    pub(crate) core: Arc<Core>,
}

impl Session {
    /// Starts the client's tasks on the current runtime.
    pub(crate) fn start(
        settings: Settings,
        backend: Arc<dyn Backend>,
        signals: UnboundedReceiver<Signal>,
        clock: Clock,
    ) -> Arc<Self> {
        let id = uuid::Uuid::new_v4();
        let client_id = match &settings.label {
            Some(label) => format!("{label}-{id}"),
            None => id.to_string(),
        };
        let (channels, pump) = Channels::new(backend.clone(), signals);
        let (janitor, chores) = Janitor::new();
        let watchdog = Arc::new(Watchdog::new(clock));
        let core = Arc::new(Core {
            wire: Wire::new(backend, clock, settings.command_timeout),
            settings,
            client_id,
            channels,
            lines: Arc::default(),
            semaphores: Arc::default(),
            permit_semaphores: Arc::default(),
            latches: Arc::default(),
            forgotten: Arc::default(),
            life: Life::default(),
            watchdog: watchdog.clone(),
            janitor,
            owed: Owed::default(),
            retries: Semaphore::new(RETRIES),
            closing: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            over: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            renewals: Mutex::default(),
        });
        core.start(pump.run());
        core.start(watchdog.run());
        let parts = core.clone();
        core.start(async move {
            chores.run(parts.settings.command_timeout).await;
            parts.end().await;
        });
        Arc::new(Self { core })
    }
}

/// One of a client's tasks, as long as it runs.
struct Task(Weak<Core>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.task_ended();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::Release);
        self.core.janitor.close();
    }
}

impl Core {
    pub(crate) fn now(&self) -> Moment {
        self.wire.clock.now()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The line for these keys, which are one lock: one a channel, however many handles there are.
    pub(crate) fn line(&self, keys: Keys) -> Arc<Line> {
        let channel = keys.channel.clone();
        self.lines.of(&channel, || Line::new(keys, &self.lines, &self.forgotten))
    }

    /// Whether its tasks ended before it did: nothing can be given back any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// What every verb asks first.
    pub(crate) fn ready(&self) -> Result<(), Unready> {
        if self.is_closing() {
            return Err(Unready::Closed);
        }
        in_runtime()
    }

    /// What a release asks first: one of a client that was shut down finds nothing to give back.
    pub(crate) fn can_release(&self) -> Result<(), Unready> {
        if self.is_dead() {
            return Err(Unready::Closed);
        }
        in_runtime()
    }

    /// Starts a task without which the client can't be.
    fn start(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let task = Task(Arc::downgrade(self));
        tokio::spawn(async move {
            let _task = task;
            work.await;
        });
    }

    /// The runtime is gone, unless the client is being closed: whoever waits is told, here and on other runtimes.
    fn task_ended(&self) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        if !self.closing.swap(true, Ordering::AcqRel) {
            say(|| tracing::error!(target: "lockson", "the runtime of this client has ended: it is closed"));
        }
        self.dead.store(true, Ordering::Release);
        self.wire.end();
        self.let_go(LostBy::Ended);
    }

    /// Nothing is held, waited for or renewed from here on.
    fn let_go(&self, why: LostBy) {
        self.watchdog.close();
        for line in self.lines.all() {
            line.close();
            for slot in line.slots() {
                if let Some(hold) = slot.hold() {
                    contain(|| slot.drop_hold(hold.leased.id, why));
                }
            }
        }
        for pool in self.semaphores.all().into_iter().chain(self.permit_semaphores.all()) {
            pool.close(why);
        }
        for latch in self.latches.all() {
            latch.close();
        }
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A number that this client has not used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The owner part of a field of this client.
    pub(crate) fn owner_of(&self, own: &str) -> Owner {
        let owner = own.get(self.client_id.len() + 1..).and_then(|owner| Owner::of_field(owner).ok());
        // Every field was made of an owner.
        owner.unwrap_or_else(Owner::current)
    }

    /// A call is sent again until the outage limit.
    pub(crate) fn patience(&self) -> Patience {
        Patience::new(self.now(), self.settings.outage_limit)
    }

    /// Somebody was given something, and has to take it.
    pub(crate) fn hand_out(&self, claim: Weak<dyn Claim>) {
        self.watchdog.hand_out(claim, self.settings.command_timeout * CLAIMED_WITHIN);
    }

    /// Work that is tried again by itself does not hold on for so long.
    pub(crate) fn brief(&self) -> Patience {
        Patience::new(self.now(), self.settings.command_timeout)
    }

    /// Tries again, with pauses, what was not answered: until it is (`true`), or until `over`, when the lease that it
    /// is about has ended. However many there are, a few at once try, so that an outage is not met with a flood.
    pub(crate) async fn insist<F: Future<Output = bool>>(
        &self,
        over: Option<Moment>,
        mut answered: impl FnMut() -> F,
    ) -> bool {
        let end = async {
            match over {
                Some(over) => self.wire.clock.sleep_until(over).await,
                None => std::future::pending().await,
            }
        };
        let tries = async {
            let _permit = self.retries.acquire().await;
            let mut pause = FIRST_RETRY;
            loop {
                tokio::time::sleep(self.wire.jittered(pause)).await;
                if answered().await {
                    return;
                }
                pause = (pause * 2).min(LAST_RETRY);
            }
        };
        tokio::select! {
            () = tries => true,
            () = end => false,
        }
    }

    /// How long one attempt or a question waits for the server.
    pub(crate) fn look_limit(&self) -> Duration {
        self.settings.command_timeout * crate::config::LOOK_TIMEOUTS
    }

    /// A lease that somebody asks for.
    pub(crate) fn check_lease(&self, lease: Duration) -> Result<Duration, LeaseRange> {
        let (min, max) = (crate::config::SHORTEST_LEASE, self.settings.max_lease);
        if lease < min || lease > max {
            return Err(LeaseRange { lease, min, max });
        }
        Ok(lease)
    }

    /// The lease of a request: its own, or the watchdog's.
    pub(crate) fn lease(&self, own: Option<Duration>, max_hold: Option<Duration>) -> Result<Lease, LeaseRange> {
        match own {
            Some(lease) => self.check_lease(lease).map(Lease::Fixed),
            None => {
                let lease = self.settings.watchdog_lease;
                Ok(Lease::Watched { lease, max_hold: max_hold.or(self.settings.max_hold) })
            }
        }
    }

    /// Sets a lease anew, exactly, or (`None`) only looks whether it is still there. What is left is judged by the
    /// worst that copies in doubt can do.
    pub(crate) async fn change_lease(
        &self,
        leased: &Arc<Leased>,
        script: &'static Script,
        keys: &[&str],
        lease: Option<Duration>,
        patience: &Patience,
    ) -> Settled {
        if let Some(lease) = lease {
            leased.begin_change(self.now(), lease);
            self.watchdog.watch(leased, self.now());
        }
        let ms = lease.map_or(0, millis).to_string();
        let settled = self.wire.settle(script, keys, &[&leased.mark, &ms], patience).await;
        if lease.is_some() {
            let done = settled.result.as_ref().ok().filter(|answer| answer.status == Status::Done);
            let sent = done.map(|answer| answer.sent);
            leased.end_change(sent, self.now(), settled.doubt.map(|doubt| self.wire.passes(doubt)));
            // Its caller may have gone away and given it back meanwhile.
            if !matches!(leased.lost(self.now()), Some(LostBy::Released | LostBy::Ended)) {
                self.watchdog.watch(leased, sent.unwrap_or(self.now()));
            }
        }
        settled
    }

    /// What renews by a script: one object a script, so that what it renews shares batches.
    pub(crate) fn renewal(self: &Arc<Self>, script: &'static Script) -> Arc<dyn Renew> {
        let lane = std::ptr::from_ref(script).addr();
        let mut renewals = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, renewal)) = renewals.iter().find(|(other, _)| *other == lane) {
            return renewal.clone();
        }
        let renewal: Arc<dyn Renew> = Arc::new(Renewal { core: self.clone(), script, lane });
        renewals.push((lane, renewal.clone()));
        renewal
    }

    /// Refuses new calls, ends every wait and gives every hold back. Returns the names that were not confirmed.
    pub(crate) async fn shutdown(self: &Arc<Self>, limit: Duration) -> Vec<String> {
        self.closing.store(true, Ordering::Release);
        if in_runtime().is_err() {
            return self.shutdown_unseen(limit);
        }
        self.close_all(limit).await
    }

    /// Outside of a runtime nothing can be waited for: the client's tasks do it, and all that is held is named.
    fn shutdown_unseen(self: &Arc<Self>, limit: Duration) -> Vec<String> {
        let slots = self.lines.all().into_iter().flat_map(|line| line.slots());
        let held = slots.filter(|slot| slot.count() > 0).map(|slot| slot.line.keys.name.to_string());
        let pools = self.semaphores.all().into_iter().chain(self.permit_semaphores.all());
        let taken = pools.filter(|pool| pool.has_shares()).map(|pool| pool.ledger.name());
        let names = held.chain(taken).collect();
        let core = self.clone();
        self.janitor.finish(async move { drop(core.close_all(limit).await) });
        names
    }

    async fn close_all(self: &Arc<Self>, limit: Duration) -> Vec<String> {
        let began = self.now();
        let mut slots = Vec::new();
        let mut waiters = Vec::new();
        for line in self.lines.all() {
            waiters.extend(line.crowd.close());
            line.close();
            slots.extend(line.slots());
        }
        let left: Mutex<Vec<String>> = Mutex::default();
        let releases = slots.into_iter().map(|slot| {
            let left = &left;
            async move {
                let name = slot.line.keys.name.to_string();
                let given_back = crate::release::give_all_back(self.clone(), slot);
                let confirmed = tokio::time::timeout(limit, given_back).await.unwrap_or(false);
                if !confirmed {
                    left.lock().unwrap_or_else(PoisonError::into_inner).push(name);
                }
            }
        });
        let leaves = waiters
            .iter()
            .map(|waiter| tokio::time::timeout(limit, crate::queue::leave_queue(self.clone(), &waiter.wish)));
        for latch in self.latches.all() {
            latch.close();
        }
        let pools = self.semaphores.all().into_iter().chain(self.permit_semaphores.all()).map(|pool| {
            let left = &left;
            async move {
                if !tokio::time::timeout(limit, pool.shutdown(self)).await.unwrap_or(false) {
                    left.lock().unwrap_or_else(PoisonError::into_inner).push(pool.ledger.name());
                }
            }
        });
        tokio::join!(join_all(releases), join_all(leaves), join_all(pools));
        // Copies in doubt of calls that were given up, which may take something yet.
        let rest = limit.saturating_sub(self.now().since(began));
        let _ = tokio::time::timeout(rest, self.owed.settled()).await;
        self.janitor.close();
        let mut left = left.into_inner().unwrap_or_else(PoisonError::into_inner);
        let owed = self.owed.names();
        left.extend(owed.into_iter().filter(|name| !left.contains(name)).collect::<Vec<_>>());
        left
    }

    /// Closes every task and socket.
    async fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.let_go(LostBy::Released);
        self.channels.close().await;
        self.wire.close().await;
    }
}

/// Renews batches of leases with one script.
struct Renewal {
    core: Arc<Core>,
    script: &'static Script,
    lane: usize,
}

impl Renew for Renewal {
    fn lane(&self) -> usize {
        self.lane
    }

    fn renew(&self, holds: Vec<(Arc<Leased>, Duration)>) -> BoxFuture<'static, Vec<Verdict>> {
        let (core, script) = (self.core.clone(), self.script);
        async move {
            let keys: Vec<&str> = holds.iter().flat_map(|(hold, _)| hold.of.keys(script.keys)).collect();
            let leases: Vec<String> = holds.iter().map(|(_, lease)| millis(*lease).to_string()).collect();
            let args: Vec<&str> =
                holds.iter().zip(&leases).flat_map(|((hold, _), lease)| [&*hold.mark, lease.as_str()]).collect();
            // One copy: the watchdog itself tries again.
            let Fate::Answered(answer) = core.wire.copy(script, &keys, &args).await.fate else {
                return vec![Verdict::Unknown; holds.len()];
            };
            (0..holds.len())
                .map(|at| match answer.int(at) {
                    Some(1) => Verdict::Renewed { sent: answer.sent },
                    Some(0) => Verdict::Refused,
                    _ => Verdict::Unknown,
                })
                .collect()
        }
        .boxed()
    }
}
