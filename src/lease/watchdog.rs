//! The only renewal loop: one timer a client, batches in parallel, the most urgent first. It knows neither Redis nor
//! kinds: a hold says what renews it. Rule 11 of docs/PROTOCOL.md.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::{Script, Slots};
use crate::base::clock::{Clock, Moment};
use crate::base::janitor::{contain, say};
use crate::error::LostReason;
use crate::events::Herald;
use crate::lease::observer::Observer;
use crate::lease::validity::{HoldState, Leased, Place, Verdict};

/// What the holds in one batch may weigh (rule 12).
const HEAVIEST: usize = 500;
/// A bare hold of this age is reported once: its task may have ended (rule 8).
const LONG_BARE_HOLD: Duration = Duration::from_secs(600);
/// When nothing is looked after.
const NEVER: Moment = Moment::from_nanos(u64::MAX);
/// A switch is remembered for so long: what was granted before it is told by then.
const SWITCH: Duration = Duration::from_secs(300);
/// Not worth a sweep.
const FEW: usize = 64;
/// The shortest pause before a failed renewal is tried again.
const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// The holds by the moment when each wants attention.
struct Schedule {
    holds: BTreeMap<(Moment, u64), Arc<Leased>>,
    /// Waiters that were handed something, by the moment when it lapses.
    handed: VecDeque<(Moment, Weak<dyn Observer>)>,
    /// At so many of them those that are gone are swept out.
    swept: usize,
    /// When the loop looks next: never later than the first of them. What goes leaves it as it is, so that short holds
    /// that come and go don't wake the loop.
    alarm: Moment,
    /// Slots whose node was found to be over, and when.
    switched: Vec<(Moment, Slots)>,
}

impl Schedule {
    fn put(&mut self, hold: &Arc<Leased>, due: Moment, bell: &Notify) {
        if let Some(old) = hold.reschedule(Some(due)) {
            self.holds.remove(&(old, hold.id));
        }
        self.holds.insert((due, hold.id), hold.clone());
        if due < self.alarm {
            self.alarm = due;
            bell.notify_one();
        }
    }
}

pub(crate) struct Watchdog {
    clock: Clock,
    herald: Herald,
    renew: Box<Renew>,
    slot: Box<Slot>,
    queue: Mutex<Schedule>,
    bell: Notify,
    closed: AtomicBool,
    /// Whether the last batch failed.
    failing: AtomicBool,
}

/// Holds that one script renews, each by its lease. All of them have to be confirmed, or none, by as many replicas.
pub(crate) type Batch = Vec<(Arc<Leased>, Duration)>;

/// Renews a batch: a verdict for each hold, in their order, within the command timeout.
type Renew = dyn Fn(&'static Script, Batch) -> BoxFuture<'static, Vec<Verdict>> + Send + Sync;

/// The hash slot that a hold is in: one script renews no two.
type Slot = dyn Fn(&Leased) -> u16 + Send + Sync;

impl Watchdog {
    pub(crate) fn new(
        clock: Clock,
        herald: Herald,
        renew: impl Fn(&'static Script, Batch) -> BoxFuture<'static, Vec<Verdict>> + Send + Sync + 'static,
        slot: impl Fn(&Leased) -> u16 + Send + Sync + 'static,
    ) -> Self {
        Self {
            clock,
            herald,
            renew: Box::new(renew),
            slot: Box::new(slot),
            queue: Mutex::new(Schedule {
                holds: BTreeMap::new(),
                handed: VecDeque::new(),
                swept: FEW,
                alarm: NEVER,
                switched: Vec::new(),
            }),
            bell: Notify::new(),
            closed: AtomicBool::new(false),
            failing: AtomicBool::new(false),
        }
    }

    /// Looks after a hold from now on, whose lease was confirmed by a call sent at `sent`.
    pub(crate) fn watch(&self, hold: &Arc<Leased>, sent: Moment) {
        let mut queue = self.queue.lock();
        // Who granted it may not be there any more.
        let is_over = self.is_over(&queue, hold, sent);
        let due = match hold.renewable(sent) {
            _ if is_over => self.clock.now(),
            Some(lease) => sent.after(lease.min(hold.valid_until().since(sent)) / 3),
            None => hold.valid_until(),
        };
        if is_over {
            hold.begin_doubt();
        }
        queue.put(hold, due, &self.bell);
        drop(queue);
        if is_over {
            hold.ring();
        }
    }

    fn put(&self, hold: &Arc<Leased>, due: Moment) {
        self.queue.lock().put(hold, due, &self.bell);
    }

    /// What granted the holds in these slots may have lost them: each is uncertain until a renewal, which is due now,
    /// confirms it.
    pub(crate) fn confirm(&self, slots: Slots) {
        let mut queue = self.queue.lock();
        let now = self.clock.now();
        let holds: Vec<_> = queue.holds.values().filter(|hold| self.is_in(hold, &slots)).cloned().collect();
        queue.switched.retain(|(at, _)| now.since(*at) < SWITCH);
        queue.switched.push((now, slots));
        for hold in &holds {
            hold.begin_doubt();
            // One that is under way went to who can't say any more.
            hold.end_renewal();
            queue.put(hold, now, &self.bell);
        }
        drop(queue);
        holds.iter().for_each(|hold| hold.ring());
    }

    fn is_in(&self, hold: &Leased, slots: &Slots) -> bool {
        let slot = (self.slot)(hold);
        slots.iter().any(|range| range.contains(&slot))
    }

    /// Whether the node that a call for it went to, at `sent`, was found to be over since.
    pub(crate) fn is_switched(&self, hold: &Leased, sent: Moment) -> bool {
        self.is_over(&self.queue.lock(), hold, sent)
    }

    fn is_over(&self, queue: &Schedule, hold: &Leased, sent: Moment) -> bool {
        queue.switched.iter().any(|(at, slots)| sent < *at && self.is_in(hold, slots))
    }

    /// Stops looking after it: before its release is sent.
    pub(crate) fn forget(&self, hold: &Leased) {
        let mut queue = self.queue.lock();
        if let Some(due) = hold.reschedule(None) {
            queue.holds.remove(&(due, hold.id));
        }
    }

    /// It is lost: nobody renews it any more, and all who have to know are told. Whoever finds at this moment that
    /// nobody watches it (a `force_unlock` that was answered) finds that it is over, too.
    pub(crate) fn lose(&self, hold: &Leased, why: LostReason) {
        hold.end(why);
        self.forget(hold);
        hold.report_lost(&self.herald);
    }

    /// What this waiter was handed lapses after `limit`, which is the same for all.
    pub(crate) fn hand_out(&self, waiter: Weak<impl Observer + 'static>, limit: Duration) {
        let due = self.clock.now().after(limit);
        let mut queue = self.queue.lock();
        // They come and go in their order, mostly: so there are few.
        while queue.handed.front().is_some_and(|(_, waiter)| waiter.strong_count() == 0) {
            queue.handed.pop_front();
        }
        // Behind one that is kept and not polled they would pile up.
        if queue.handed.len() >= queue.swept {
            queue.handed.retain(|(_, waiter)| waiter.strong_count() > 0);
            queue.swept = (queue.handed.len() * 2).max(FEW);
        }
        queue.handed.push_back((due, waiter));
        if due < queue.alarm {
            queue.alarm = due;
            self.bell.notify_one();
        }
    }

    fn lapsed(&self) -> Vec<Weak<dyn Observer>> {
        let (mut queue, now) = (self.queue.lock(), self.clock.now());
        let count = queue.handed.iter().take_while(|(due, _)| *due <= now).count();
        queue.handed.drain(..count).map(|(_, waiter)| waiter).collect()
    }

    /// Every hold that is looked after.
    pub(crate) fn holds(&self) -> Vec<Arc<Leased>> {
        self.queue.lock().holds.values().cloned().collect()
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.bell.notify_one();
        let holds = std::mem::take(&mut self.queue.lock().holds);
        drop(holds);
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let mut under_way: FuturesUnordered<BoxFuture<'static, (Batch, Vec<Verdict>)>> = FuturesUnordered::new();
        while !self.closed.load(Ordering::Acquire) {
            for waiter in self.lapsed().iter().filter_map(Weak::upgrade) {
                contain(|| waiter.lapsed());
            }
            for batch in self.due_batches() {
                let holds: Batch = batch.clone();
                if let Some((first, _)) = batch.first() {
                    // A batch that panics is one that failed: the others and the loop go on.
                    let verdicts = AssertUnwindSafe((self.renew)(first.renew, holds)).catch_unwind();
                    under_way.push(async move { (batch, verdicts.await.unwrap_or_default()) }.boxed());
                }
            }
            let alarm = self.alarm();
            tokio::select! {
                biased;
                Some((batch, verdicts)) = under_way.next() => self.judge(batch, verdicts),
                () = self.bell.notified() => {}
                () = self.clock.sleep_until(alarm), if alarm != NEVER => {}
            }
        }
    }

    /// When to look next.
    fn alarm(&self) -> Moment {
        let mut queue = self.queue.lock();
        if queue.alarm <= self.clock.now() {
            let first = queue.holds.keys().map(|key| key.0).take(1).chain(queue.handed.front().map(|handed| handed.0));
            queue.alarm = first.min().unwrap_or(NEVER);
        }
        queue.alarm
    }

    /// Takes what is due, and what will be soon: one script renews many.
    fn due_batches(&self) -> Vec<Batch> {
        let now = self.clock.now();
        let mut lanes: BTreeMap<_, Batch> = BTreeMap::new();
        if self.queue.lock().holds.keys().next().is_none_or(|key| key.0 > now) {
            return Vec::new();
        }
        for hold in self.due_holds(now) {
            let attended = contain(|| self.attend(&hold, now));
            if attended.is_none() {
                self.again(&hold, now);
            }
            if let Some(lease) = attended.flatten() {
                let lane = (hold.renew.sha(), (self.slot)(&hold), hold.confirm());
                lanes.entry(lane).or_default().push((hold, lease));
            }
        }
        lanes.into_values().flat_map(batches).collect()
    }

    /// What was to be done for it was cut short by a panic.
    fn again(&self, hold: &Arc<Leased>, now: Moment) {
        if hold.is_watched() {
            self.put(hold, now.after(SHORTEST_RETRY));
        }
    }

    fn due_holds(&self, now: Moment) -> Vec<Arc<Leased>> {
        let queue = self.queue.lock();
        queue
            .holds
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
            self.lose(hold, why);
            return None;
        }
        self.report_long_bare_hold(hold, now);
        // What is being moved is renewed by that.
        let lease = hold.renewable(now).or_else(|| hold.unconfirmed(now)).filter(|_| hold.place() != Place::Moving);
        let lease = lease.filter(|_| hold.begin_renewal());
        // While it is being renewed, and when it is not to be, its deadline is what is left to watch.
        self.put(hold, hold.valid_until());
        lease
    }

    fn report_long_bare_hold(&self, hold: &Leased, now: Moment) {
        if hold.is_bare() && now.since(hold.since) >= LONG_BARE_HOLD && !hold.reported.swap(true, Ordering::Relaxed) {
            say(|| {
                tracing::warn!(
                    target: "lockson",
                    name = &*hold.keys.name,
                    owner = &*hold.holder,
                    "held for ten minutes without a guard: has the task that locked it ended? (see max_hold)"
                );
            });
        }
    }

    fn judge(&self, batch: Batch, verdicts: Vec<Verdict>) {
        let now = self.clock.now();
        let mut failed = 0_usize;
        let missing = std::iter::repeat(Verdict::Unknown);
        for ((hold, lease), verdict) in batch.iter().zip(verdicts.into_iter().chain(missing)) {
            hold.end_renewal();
            // Given back meanwhile: the verdict is about nothing.
            if !hold.is_watched() {
                continue;
            }
            failed += usize::from(verdict == Verdict::Unknown);
            if contain(|| self.judge_one(hold, *lease, verdict, now)).is_none() {
                self.again(hold, now);
            }
        }
        let failed_before = self.failing.swap(failed > 0, Ordering::Relaxed);
        say(|| match (failed_before, failed) {
            (true, 0) => tracing::info!(target: "lockson", holds = batch.len(), "renewals succeed again"),
            (false, 1..) => {
                tracing::warn!(target: "lockson", holds = failed, "a renewal batch failed and is tried again");
            }
            _ => {}
        });
    }

    fn judge_one(&self, hold: &Arc<Leased>, lease: Duration, verdict: Verdict, now: Moment) {
        match verdict {
            Verdict::Renewed { sent } => {
                hold.renewed(sent, lease, now);
                self.watch(hold, sent);
            }
            // If it was over by the clock before, that is why.
            Verdict::Refused => self.lose(hold, hold.lost(now).unwrap_or(LostReason::Server)),
            Verdict::Moved => self.again(hold, now),
            Verdict::Unknown => self.doubt(hold, lease, now),
        }
    }

    fn doubt(&self, hold: &Arc<Leased>, lease: Duration, now: Moment) {
        if hold.doubted() && hold.state(now) == HoldState::Uncertain {
            let left = hold.valid_until().since(now);
            say(|| {
                tracing::warn!(
                    target: "lockson",
                    name = &*hold.keys.name,
                    owner = &*hold.holder,
                    ?left,
                    "uncertain: a renewal failed, the hold is lost if none succeeds in time"
                );
            });
        }
        let retry = now.after((lease / 60).max(SHORTEST_RETRY));
        self.put(hold, retry.min(hold.valid_until()));
    }
}

/// Parts a lane, in its order.
fn batches(lane: Batch) -> Vec<Batch> {
    let (mut batches, mut batch, mut weight) = (Vec::new(), Batch::new(), 0);
    for (hold, lease) in lane {
        if !batch.is_empty() && weight + hold.weight > HEAVIEST {
            batches.push(std::mem::take(&mut batch));
            weight = 0;
        }
        weight += hold.weight;
        batch.push((hold, lease));
    }
    batches.push(batch);
    batches
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::task::{Context, Wake};

    use super::*;
    use crate::base::keys::{Keys, Naming};
    use crate::lease::validity::Lease;

    const LEASE: Duration = Duration::from_secs(30);
    static SCRIPT: Script = Script::new("renew", "", &[]);

    fn hold(weight: usize, sent: Moment) -> Arc<Leased> {
        let lease = Lease::Watched { lease: LEASE, max_hold: None };
        let keys = Arc::new(Keys::new(&Naming::default(), "thing").unwrap());
        Leased::new(keys, ["holder".into(), "mark".into()], weight, &SCRIPT, sent, lease)
    }

    /// A watchdog whose renewals fail, and the ids of what it renewed.
    fn watchdog(clock: Clock) -> (Arc<Watchdog>, Arc<Mutex<Vec<u64>>>) {
        let renewed: Arc<Mutex<Vec<u64>>> = Arc::default();
        let ids = renewed.clone();
        let watchdog = Watchdog::new(
            clock,
            Herald::default(),
            move |_, holds| {
                ids.lock().extend(holds.iter().map(|(hold, _)| hold.id));
                std::future::ready(vec![Verdict::Unknown; holds.len()]).boxed()
            },
            |_| 0,
        );
        (Arc::new(watchdog), renewed)
    }

    #[test]
    fn a_batch_is_so_heavy() {
        let parted = |weights: &[usize]| {
            let lane = weights.iter().map(|weight| (hold(*weight, Moment::from_nanos(1)), LEASE));
            batches(lane.collect()).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(parted(&[1; 1050]), [500, 500, 50]);
        assert_eq!(parted(&[5; 250]), [100, 100, 50]);
        assert_eq!(parted(&[500; 3]), [1, 1, 1]);
        assert_eq!(parted(&[200, 200, 100, 1, 499, 1]), [3, 2, 1]);
    }

    /// The answer to a renewal comes after its hold was given back: it says nothing of it.
    #[test]
    fn a_verdict_about_what_was_given_back_is_none() {
        let sent = Moment::from_nanos(1);
        for verdict in [Verdict::Renewed { sent }, Verdict::Refused, Verdict::Unknown] {
            let ((watchdog, _), hold) = (watchdog(Clock::System), hold(1, sent));
            watchdog.watch(&hold, sent);
            watchdog.forget(&hold);
            watchdog.judge(vec![(hold.clone(), LEASE)], vec![verdict]);
            assert!(watchdog.holds().is_empty() && hold.lost(sent).is_none());
        }
    }

    /// One script renews what is due and what will be soon: a twelfth of the lease early, and no more.
    #[cfg(feature = "embedded")]
    #[tokio::test(start_paused = true)]
    async fn what_is_due_soon_is_renewed_along() {
        let clock = Clock::Tokio(tokio::time::Instant::now(), &ASLEEP);
        let (watchdog, _) = watchdog(clock);
        let mut holds = Vec::new();
        for pause in [LEASE / 24, LEASE / 12, LEASE / 4] {
            let hold = hold(1, clock.now());
            watchdog.watch(&hold, clock.now());
            holds.push(hold);
            tokio::time::advance(pause).await;
        }
        let later = hold(1, clock.now());
        watchdog.watch(&later, clock.now());
        // The first has been due for a while, the second for less, and the third will be within a twelfth.
        let due = watchdog.due_batches();
        let ids = due.iter().flatten().map(|(hold, _)| hold.id);
        assert_eq!(ids.collect::<Vec<_>>(), holds.iter().map(|hold| hold.id).collect::<Vec<_>>());
    }

    /// Who granted a hold was found to be over behind that: it is not sure, and renewed at once.
    #[test]
    fn what_was_granted_by_who_is_gone_is_renewed_at_once() {
        let clock = Clock::System;
        let ((watchdog, _), before) = (watchdog(clock), clock.now());
        let [first, second] = [(); 2].map(|()| hold(1, before));
        watchdog.watch(&first, before);
        assert_eq!(first.unconfirmed(before), None);
        watchdog.confirm(vec![0..=9]);
        assert!(first.unconfirmed(before).is_some(), "one that was there");
        watchdog.watch(&second, before);
        assert!(second.unconfirmed(before).is_some(), "one whose answer came later");
        let after = clock.now().after(Duration::from_millis(1));
        let third = hold(1, after);
        watchdog.watch(&third, after);
        assert_eq!(third.unconfirmed(after), None, "the one in its place granted it");
        watchdog.confirm(vec![1..=9]);
        assert_eq!(third.unconfirmed(after), None, "it is in another slot");
    }

    /// What is done for a hold that is due panics: it is looked at again soon.
    #[test]
    fn a_hold_whose_attendance_panicked_is_due_again() {
        let ((watchdog, _), now) = (watchdog(Clock::System), Moment::from_nanos(1));
        let hold = hold(1, now);
        watchdog.watch(&hold, now);
        watchdog.again(&hold, now);
        assert_eq!(hold.reschedule(None), Some(now.after(SHORTEST_RETRY)));
        watchdog.again(&hold, now);
        assert!(!hold.is_watched(), "what was given back meanwhile is not");
    }

    /// One that is kept and not polled stands before all that come and go: these are not kept behind it.
    #[test]
    fn what_was_handed_over_and_is_gone_does_not_pile_up() {
        struct Nobody;
        impl Observer for Nobody {}
        let (watchdog, _) = watchdog(Clock::System);
        let kept = Arc::new(Nobody);
        watchdog.hand_out(Arc::downgrade(&kept), LEASE);
        for _ in 0..10_000 {
            watchdog.hand_out(Arc::downgrade(&Arc::new(Nobody)), LEASE);
        }
        let queue = watchdog.queue.lock();
        assert!(queue.handed.len() <= FEW, "{}", queue.handed.len());
        assert!(queue.handed.iter().any(|(_, waiter)| waiter.strong_count() > 0));
    }

    /// Two threads learn of a loss at once: the one that comes too late to tell it may rely on it.
    #[test]
    fn what_is_lost_is_over_before_it_is_forgotten() {
        for _ in 0..300 {
            let now = Moment::from_nanos(1);
            let ((watchdog, _), hold) = (watchdog(Clock::System), hold(1, now));
            watchdog.watch(&hold, now);
            std::thread::scope(|scope| {
                scope.spawn(|| watchdog.lose(&hold, LostReason::Forced));
                while hold.is_watched() {
                    std::hint::spin_loop();
                }
                assert!(hold.lost(now).is_some());
            });
        }
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Alarm {
        rung: AtomicU32,
    }

    impl Wake for Alarm {
        fn wake(self: Arc<Self>) {
            self.rung.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_holds_that_come_and_go_wake_the_loop_once() {
        let clock = Clock::System;
        let ((watchdog, _), alarm) = (watchdog(clock), Arc::new(Alarm::default()));
        let waker = alarm.clone().into();
        let mut context = Context::from_waker(&waker);
        let mut run = watchdog.clone().run().boxed();
        assert!(run.as_mut().poll(&mut context).is_pending());
        for _ in 0..100 {
            let short = hold(1, clock.now());
            watchdog.watch(&short, clock.now());
            watchdog.forget(&short);
            assert!(run.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(alarm.rung.load(Ordering::Relaxed), 1);
    }

    #[cfg(feature = "embedded")]
    static ASLEEP: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

    #[cfg(feature = "embedded")]
    #[tokio::test(start_paused = true)]
    async fn a_hold_after_short_ones_is_renewed() {
        let clock = Clock::Tokio(tokio::time::Instant::now(), &ASLEEP);
        let (watchdog, renewed) = watchdog(clock);
        let running = tokio::spawn(watchdog.clone().run());
        for _ in 0..20 {
            let short = hold(1, clock.now());
            watchdog.watch(&short, clock.now());
            tokio::time::sleep(Duration::from_secs(1)).await;
            watchdog.forget(&short);
        }
        let kept = hold(1, clock.now());
        watchdog.watch(&kept, clock.now());
        tokio::time::sleep(LEASE / 3 - Duration::from_secs(1)).await;
        assert!(renewed.lock().is_empty());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(renewed.lock().iter().all(|id| *id == kept.id));
        // It fails each time, and is tried again soon.
        assert!(renewed.lock().len() > 1);
        watchdog.close();
        running.await.unwrap();
    }

    /// From the first that fails until all succeed.
    #[test]
    fn renewals_fail_until_none_does() {
        let now = Moment::from_nanos(1);
        let ((watchdog, _), holds) = (watchdog(Clock::System), [(); 2].map(|()| hold(1, now)));
        let good = Verdict::Renewed { sent: now };
        for (verdicts, fails) in [([good; 2], false), ([good, Verdict::Unknown], true), ([good; 2], false)] {
            let batch = holds.iter().map(|hold| {
                watchdog.watch(hold, now);
                (hold.clone(), LEASE)
            });
            watchdog.judge(batch.collect(), verdicts.to_vec());
            assert_eq!(watchdog.failing.load(Ordering::Relaxed), fails);
        }
    }
}
