//! Leases: how long what is held is valid. Rules 9 and 10 of docs/PROTOCOL.md.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{millis, Clock, Moment};
use crate::error::{Lost, LostBy};
use crate::keys::Key;
use crate::watchdog::Renew;

/// What is known of a hold at this instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody else can have it.
    Held,
    /// A renewal failed; its lease has not run out yet, so nobody else can have it.
    Uncertain,
    /// Somebody else may have it.
    Lost,
}

/// How long a lock is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lease {
    /// The watchdog's, renewed until given back or for `max_hold`.
    Watched { lease: Duration, max_hold: Option<Duration> },
    /// Once.
    Fixed(Duration),
}

impl Lease {
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Watched { lease, .. } | Self::Fixed(lease) => lease,
        }
    }
}

/// A lease is judged this much shorter than it is: the millisecond that the server rounds, and the drift of two clocks.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 100).max(Duration::from_millis(2))
}

/// The lease is being set exactly: copies of that may run until `until`, and shorten what was confirmed meanwhile.
#[derive(Debug)]
struct Change {
    lease: Duration,
    until: Moment,
}

#[derive(Debug)]
struct Validity {
    until: Moment,
    change: Option<Change>,
    /// When the last change was over: what was sent before says nothing of what is left.
    changed: Moment,
    uncertain: bool,
    lost: Option<LostBy>,
    /// Leases that want renewal: one for each watched acquisition that is not given back.
    watched: u32,
    bare: u32,
    lease: Duration,
    renew_until: Option<Moment>,
    /// Where the watchdog has it in its queue.
    due: Option<Moment>,
    renewing: bool,
}

/// What a lease is of: one owner's lock, or permits.
pub(crate) trait Leasable: Send + Sync {
    fn name(&self) -> &str;

    /// Whose it is, for logs.
    fn holder(&self) -> &str;

    /// How many elements a renewal of it touches on the server, about.
    fn weight(&self) -> usize {
        1
    }

    /// Its part of a renewing script's KEYS.
    fn keys(&self, keys: &[Key]) -> Vec<&str>;

    /// The lease with this id is over.
    fn ended(&self, id: u64);
}

/// What a lease is a part of.
pub(crate) trait Follower: Send + Sync {
    /// The lease was renewed, and will be for this long; `None` is without end.
    fn renewed(self: Arc<Self>, max_hold: Option<Duration>);

    /// Whether it stands without this lease, which was lost.
    fn stands(&self) -> bool;
}

/// A lease: what the watchdog looks after, and how long it is valid.
pub(crate) struct Leased {
    /// Tells one of a process from every other.
    pub(crate) id: u64,
    pub(crate) of: Arc<dyn Leasable>,
    /// What stands for it on the server.
    pub(crate) mark: Arc<str>,
    pub(crate) since: Moment,
    /// How the watchdog renews it.
    pub(crate) renewal: Arc<dyn Renew>,
    validity: Mutex<Validity>,
    /// Rung when the validity changes.
    pub(crate) changed: Notify,
    followers: Mutex<Vec<Weak<dyn Follower>>>,
    /// Whether the long bare hold was reported.
    pub(crate) reported: AtomicBool,
}

impl Leased {
    /// Taken by a call that was sent at `sent`.
    pub(crate) fn new(
        of: Arc<dyn Leasable>,
        mark: Arc<str>,
        renewal: Arc<dyn Renew>,
        sent: Moment,
        lease: Lease,
    ) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let leased = Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            of,
            mark,
            since: sent,
            renewal,
            validity: Mutex::new(Validity {
                until: sent,
                change: None,
                changed: sent,
                uncertain: false,
                lost: None,
                watched: 0,
                bare: 0,
                lease: lease.duration(),
                renew_until: None,
                due: None,
                renewing: false,
            }),
            changed: Notify::new(),
            followers: Mutex::default(),
            reported: AtomicBool::new(false),
        };
        leased.entered(sent, lease);
        Arc::new(leased)
    }

    fn validity(&self) -> MutexGuard<'_, Validity> {
        self.validity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was taken once more: the lease only grows.
    pub(crate) fn entered(&self, sent: Moment, lease: Lease) {
        let mut validity = self.validity();
        validity.confirmed(sent, lease.duration());
        if let Lease::Watched { lease, max_hold } = lease {
            validity.watched += 1;
            validity.lease = lease;
            validity.renew_until = max_hold.map(|limit| sent.after(limit));
        }
        validity.uncertain = false;
    }

    /// One of its leases was given back.
    pub(crate) fn left(&self, watched: bool) {
        if watched {
            let mut validity = self.validity();
            validity.watched = validity.watched.saturating_sub(1);
        }
    }

    /// Ends its renewal at this moment.
    pub(crate) fn renew_until(&self, end: Option<Moment>) {
        self.validity().renew_until = end;
    }

    /// The server confirmed a lease that was sent at `sent`. Never revives a hold that was lost meanwhile.
    pub(crate) fn renewed(&self, sent: Moment, lease: Duration, now: Moment) {
        let mut validity = self.validity();
        if judge(&mut validity, now) == State::Lost {
            return;
        }
        validity.confirmed(sent, lease);
        validity.uncertain = false;
        let max_hold = validity.renew_until.map(|until| until.since(now));
        drop(validity);
        self.changed.notify_waiters();
        for follower in self.followers() {
            follower.renewed(max_hold);
        }
    }

    /// Tells this one what becomes of it.
    pub(crate) fn follow(&self, follower: Weak<dyn Follower>) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|other| other.strong_count() > 0);
        followers.push(follower);
    }

    fn followers(&self) -> Vec<Arc<dyn Follower>> {
        let followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether what it is a part of stands without it.
    pub(crate) fn is_spared(&self) -> bool {
        self.followers().iter().any(|follower| follower.stands())
    }

    /// Its holder is about to set the lease exactly: from here on the shorter one counts.
    pub(crate) fn begin_change(&self, now: Moment, lease: Duration) {
        let mut validity = self.validity();
        validity.until = validity.until.min(now.after(lease - margin(lease)));
        validity.change = Some(Change { lease, until: Moment::from_nanos(u64::MAX) });
        drop(validity);
        self.changed.notify_waiters();
    }

    /// The change is over: confirmed by the copy sent at `sent`, if by any. Other copies may run until `doubt`.
    pub(crate) fn end_change(&self, sent: Option<Moment>, now: Moment, doubt: Option<Moment>) {
        let mut validity = self.validity();
        let Some(Change { lease, .. }) = validity.change.take() else { return };
        if let Some(sent) = sent.filter(|_| judge(&mut validity, now) != State::Lost) {
            validity.until = sent.after(lease - margin(lease));
        }
        validity.changed = now;
        validity.change = doubt.map(|until| Change { lease, until });
        drop(validity);
        self.changed.notify_waiters();
    }

    /// A renewal failed. `true`: that is new.
    pub(crate) fn doubted(&self) -> bool {
        let mut validity = self.validity();
        let new = !validity.uncertain && validity.lost.is_none();
        validity.uncertain = true;
        drop(validity);
        self.changed.notify_waiters();
        new
    }

    /// It is over. `true`: that is new.
    pub(crate) fn end(&self, why: LostBy) -> bool {
        let mut validity = self.validity();
        let new = validity.lost.is_none();
        validity.lost.get_or_insert(why);
        drop(validity);
        self.changed.notify_waiters();
        new
    }

    pub(crate) fn state(&self, now: Moment) -> State {
        judge(&mut self.validity(), now)
    }

    /// Why it is lost, if it is.
    pub(crate) fn lost(&self, now: Moment) -> Option<LostBy> {
        let mut validity = self.validity();
        judge(&mut validity, now);
        validity.lost
    }

    /// The lease that an inner release refreshes to, in milliseconds.
    pub(crate) fn lease_millis(&self) -> String {
        millis(self.validity().lease).to_string()
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.validity().until
    }

    /// The lease to renew it by, if it wants to be renewed.
    pub(crate) fn renewable(&self, now: Moment) -> Option<Duration> {
        let validity = self.validity();
        let wanted = validity.watched > 0 && validity.renew_until.is_none_or(|until| now < until);
        wanted.then_some(validity.lease)
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.validity().bare > 0
    }

    pub(crate) fn set_bare(&self, bare: usize) {
        self.validity().bare = u32::try_from(bare).unwrap_or(u32::MAX);
    }

    /// Puts it at `due` in the watchdog's queue (`None`: takes it out), and says where it was.
    pub(crate) fn reschedule(&self, due: Option<Moment>) -> Option<Moment> {
        std::mem::replace(&mut self.validity().due, due)
    }

    pub(crate) fn due(&self) -> Option<Moment> {
        self.validity().due
    }

    /// `true` when no renewal of it was under way.
    pub(crate) fn begin_renewal(&self) -> bool {
        !std::mem::replace(&mut self.validity().renewing, true)
    }

    pub(crate) fn end_renewal(&self) {
        self.validity().renewing = false;
    }

    /// Resolves when it is lost, and before the server would give it to another.
    pub(crate) async fn until_lost(self: Arc<Self>, clock: Clock) -> Lost {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(why) = self.lost(clock.now()) {
                return Lost { why };
            }
            tokio::select! {
                () = changed => {}
                () = clock.sleep_until(self.valid_until()) => {}
            }
        }
    }

    /// Runs work that must not outlive it. Every poll judges the deadline first.
    pub(crate) async fn run<F: Future>(self: &Arc<Self>, clock: Clock, work: F) -> Result<F::Output, Lost> {
        let mut lost = pin!(self.clone().until_lost(clock));
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(lost) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(lost));
            }
            if let Some(why) = self.lost(clock.now()) {
                return Poll::Ready(Err(Lost { why }));
            }
            let output = std::task::ready!(work.as_mut().poll(context));
            match self.lost(clock.now()) {
                None => Poll::Ready(Ok(output)),
                Some(why) => Poll::Ready(Err(Lost { why })),
            }
        })
        .await
    }
}

impl Validity {
    /// The server has given it this lease, or more, by a call that was sent at `sent`.
    fn confirmed(&mut self, sent: Moment, lease: Duration) {
        if sent < self.changed {
            return;
        }
        if self.change.as_ref().is_some_and(|change| change.until < sent) {
            self.change = None;
        }
        let lease = self.change.as_ref().map_or(lease, |change| lease.min(change.lease));
        self.until = self.until.max(sent.after(lease - margin(lease)));
    }
}

/// Judged on every read: once lost, lost for good.
fn judge(validity: &mut Validity, now: Moment) -> State {
    if validity.lost.is_none() && now >= validity.until {
        validity.lost = Some(LostBy::Deadline);
    }
    match (validity.lost, validity.uncertain) {
        (Some(_), _) => State::Lost,
        (None, true) => State::Uncertain,
        (None, false) => State::Held,
    }
}
