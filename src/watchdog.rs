//! The only renewal loop: one timer a client, batches in parallel, the most urgent first. It knows neither Redis nor
//! kinds: a hold says what renews it. Rule 11 of docs/PROTOCOL.md.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::error::LostBy;
use crate::lease::{Leased, State};

/// Holds in one batch.
const BATCH: usize = 100;
/// A bare hold of this age is reported once: its task may have ended (rule 8).
const LONG_BARE_HOLD: Duration = Duration::from_secs(600);
/// The shortest pause before a failed renewal is tried again.
const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// What a renewal came to, for one hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Renewed {
        sent: Moment,
    },
    /// The server does not have it.
    Refused,
    Unknown,
}

/// How holds of one lane are renewed.
pub(crate) trait Renew: Send + Sync + 'static {
    /// Holds with equal lanes share a batch.
    fn lane(&self) -> usize;

    /// One verdict for each hold, in their order, within the command timeout. The leases stand beside them.
    fn renew(&self, holds: Vec<(Arc<Leased>, Duration)>) -> BoxFuture<'static, Vec<Verdict>>;
}

/// The queue of holds by the moment when each wants attention.
pub(crate) struct Watchdog {
    clock: Clock,
    queue: Mutex<BTreeMap<(Moment, u64), Arc<Leased>>>,
    /// When the loop looks next; later entries need not wake it.
    alarm: AtomicU64,
    bell: Notify,
    closed: AtomicBool,
}

type Batch = Vec<(Arc<Leased>, Duration)>;

impl Watchdog {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            queue: Mutex::default(),
            alarm: AtomicU64::new(u64::MAX),
            bell: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    fn queue(&self) -> MutexGuard<'_, BTreeMap<(Moment, u64), Arc<Leased>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after a hold from now on, whose lease was confirmed by a call sent at `sent`.
    pub(crate) fn watch(&self, hold: &Arc<Leased>, sent: Moment) {
        let due = match hold.renewable(sent) {
            Some(lease) => sent.after(lease.min(hold.valid_until().since(sent)) / 3),
            None => hold.valid_until(),
        };
        self.put(hold, due);
    }

    fn put(&self, hold: &Arc<Leased>, due: Moment) {
        let mut queue = self.queue();
        if let Some(old) = hold.reschedule(Some(due)) {
            queue.remove(&(old, hold.id));
        }
        queue.insert((due, hold.id), hold.clone());
        drop(queue);
        if due.nanos() < self.alarm.load(Ordering::Acquire) {
            self.bell.notify_one();
        }
    }

    /// Stops looking after it: before its release is sent.
    pub(crate) fn forget(&self, hold: &Leased) {
        let mut queue = self.queue();
        if let Some(due) = hold.reschedule(None) {
            queue.remove(&(due, hold.id));
        }
    }

    /// Every hold that is looked after.
    pub(crate) fn holds(&self) -> Vec<Arc<Leased>> {
        self.queue().values().cloned().collect()
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.bell.notify_one();
        let queue = std::mem::take(&mut *self.queue());
        drop(queue);
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let mut under_way: FuturesUnordered<BoxFuture<'static, (Batch, Vec<Verdict>)>> = FuturesUnordered::new();
        while !self.closed.load(Ordering::Acquire) {
            for batch in self.due_batches() {
                let holds: Batch = batch.clone();
                if let Some((first, _)) = batch.first() {
                    let verdicts = first.renewal.renew(holds);
                    under_way.push(async move { (batch, verdicts.await) }.boxed());
                }
            }
            let alarm = self.queue().keys().next().map_or(Moment::from_nanos(u64::MAX), |key| key.0);
            self.alarm.store(alarm.nanos(), Ordering::Release);
            tokio::select! {
                () = self.clock.sleep_until(alarm), if alarm.nanos() != u64::MAX => {}
                () = self.bell.notified() => {}
                Some((batch, verdicts)) = under_way.next() => self.judge(batch, verdicts),
            }
        }
    }

    /// Takes what is due, and what will be soon: one script renews many.
    fn due_batches(&self) -> Vec<Batch> {
        let now = self.clock.now();
        let mut lanes: BTreeMap<usize, Batch> = BTreeMap::new();
        if self.queue().keys().next().is_none_or(|key| key.0 > now) {
            return Vec::new();
        }
        for hold in self.due_holds(now) {
            if let Some(lease) = self.attend(&hold, now) {
                lanes.entry(hold.renewal.lane()).or_default().push((hold, lease));
            }
        }
        lanes.into_values().flat_map(|lane| lane.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
    }

    fn due_holds(&self, now: Moment) -> Vec<Arc<Leased>> {
        let queue = self.queue();
        queue
            .iter()
            .take_while(|((due, _), hold)| {
                let early = hold.renewable(now).map_or(Duration::ZERO, |lease| lease / 12);
                *due <= now.after(early)
            })
            .map(|(_, hold)| hold.clone())
            .collect()
    }

    /// What a due hold needs: the lease to renew it by, or nothing more.
    fn attend(&self, hold: &Arc<Leased>, now: Moment) -> Option<Duration> {
        if let Some(why) = hold.lost(now) {
            self.forget(hold);
            report_lost(hold, why);
            hold.of.ended(hold.id);
            return None;
        }
        self.report_long_bare_hold(hold, now);
        let lease = hold.renewable(now).filter(|_| hold.begin_renewal());
        // While it is being renewed, and when it is not to be, its deadline is what is left to watch.
        self.put(hold, hold.valid_until());
        lease
    }

    fn report_long_bare_hold(&self, hold: &Leased, now: Moment) {
        if hold.is_bare() && now.since(hold.since) >= LONG_BARE_HOLD && !hold.reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "lockson",
                name = hold.of.name(),
                owner = hold.of.holder(),
                "held for ten minutes without a guard: has the task that locked it ended? (see max_hold)"
            );
        }
    }

    fn judge(&self, batch: Batch, verdicts: Vec<Verdict>) {
        let now = self.clock.now();
        let mut failed = 0_usize;
        let missing = std::iter::repeat(Verdict::Unknown);
        for ((hold, lease), verdict) in batch.iter().zip(verdicts.into_iter().chain(missing)) {
            hold.end_renewal();
            // Given back meanwhile: the verdict is about nothing.
            if hold.due().is_none() {
                continue;
            }
            match verdict {
                Verdict::Renewed { sent } => {
                    hold.renewed(sent, *lease, now);
                    self.watch(hold, sent);
                }
                Verdict::Refused => {
                    self.forget(hold);
                    if hold.end(LostBy::Server) {
                        report_lost(hold, LostBy::Server);
                    }
                    hold.of.ended(hold.id);
                }
                Verdict::Unknown => {
                    failed += 1;
                    self.doubt(hold, *lease, now);
                }
            }
        }
        if failed > 0 {
            tracing::warn!(target: "lockson", holds = failed, "a renewal batch failed and is tried again");
        }
    }

    fn doubt(&self, hold: &Arc<Leased>, lease: Duration, now: Moment) {
        if hold.doubted() && hold.state(now) == State::Uncertain {
            let left = hold.valid_until().since(now);
            tracing::warn!(
                target: "lockson",
                name = hold.of.name(),
                owner = hold.of.holder(),
                ?left,
                "uncertain: a renewal failed, the hold is lost if none succeeds in time"
            );
        }
        let retry = now.after((lease / 60).max(SHORTEST_RETRY));
        self.put(hold, retry.min(hold.valid_until()));
    }
}

pub(crate) fn report_lost(hold: &Leased, why: LostBy) {
    hold.changed.notify_waiters();
    tracing::warn!(
        target: "lockson",
        name = hold.of.name(),
        owner = hold.of.holder(),
        %why,
        "lost: somebody else may have this lock now"
    );
}
