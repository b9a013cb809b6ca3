//! Holds: how long one is valid, and how many times one owner has a lock. Rules 2, 3, 5 and 9 of docs/PROTOCOL.md.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{millis, Moment, ServerTime};
use crate::error::LostBy;
use crate::kind::Table;
use crate::line::Line;
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

#[derive(Debug)]
struct Validity {
    until: Moment,
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

/// One life of an entry, from count 0 up and back to 0.
pub(crate) struct Hold {
    /// Tells one hold of a process from every other.
    pub(crate) id: u64,
    pub(crate) line: Arc<Line>,
    pub(crate) field: Arc<str>,
    /// What stands for it on the server.
    pub(crate) mark: Arc<str>,
    pub(crate) since: Moment,
    /// How it is given back.
    pub(crate) kind: &'static Table,
    /// How the watchdog renews it.
    pub(crate) renewal: Arc<dyn Renew>,
    validity: Mutex<Validity>,
    /// Rung when the validity changes.
    pub(crate) changed: Notify,
    /// Whether the long bare hold was reported.
    pub(crate) reported: AtomicBool,
    /// Whether its release was not answered.
    pub(crate) unanswered: AtomicBool,
    /// Its fencing token, 0 for none.
    token: AtomicU64,
}

impl Hold {
    fn new(
        slot: &Slot,
        mark: &Arc<str>,
        kind: &'static Table,
        renewal: Arc<dyn Renew>,
        sent: Moment,
        lease: Lease,
    ) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let hold = Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            line: slot.line.clone(),
            field: slot.field.clone(),
            mark: mark.clone(),
            since: sent,
            kind,
            renewal,
            validity: Mutex::new(Validity {
                until: sent,
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
            reported: AtomicBool::new(false),
            unanswered: AtomicBool::new(false),
            token: AtomicU64::new(0),
        };
        hold.entered(sent, lease);
        Arc::new(hold)
    }

    fn validity(&self) -> MutexGuard<'_, Validity> {
        self.validity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    pub(crate) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Release);
    }

    /// It was taken once more: the lease only grows.
    pub(crate) fn entered(&self, sent: Moment, lease: Lease) {
        let mut validity = self.validity();
        let span = lease.duration();
        validity.until = validity.until.max(sent.after(span - margin(span)));
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

    /// The server confirmed a lease that was sent at `sent`. Never revives a hold that was lost meanwhile.
    pub(crate) fn renewed(&self, sent: Moment, lease: Duration, now: Moment) {
        let mut validity = self.validity();
        if judge(&mut validity, now) == State::Lost {
            return;
        }
        validity.until = validity.until.max(sent.after(lease - margin(lease)));
        validity.uncertain = false;
        drop(validity);
        self.changed.notify_waiters();
    }

    /// Its holder is about to set a lease that may be shorter.
    pub(crate) fn shorten(&self, now: Moment, lease: Duration) {
        let mut validity = self.validity();
        validity.until = validity.until.min(now.after(lease - margin(lease)));
    }

    /// Its holder set the lease anew, exactly.
    pub(crate) fn set_lease(&self, sent: Moment, lease: Duration, now: Moment) -> State {
        let mut validity = self.validity();
        if judge(&mut validity, now) != State::Lost {
            validity.until = sent.after(lease - margin(lease));
        }
        let state = judge(&mut validity, now);
        drop(validity);
        self.changed.notify_waiters();
        state
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

/// What an entry owes to earlier calls: copies without an answer, which may run until these moments.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    /// Copies that would take the lock: looked after once more when it is given back.
    pub(crate) acquire: Option<ServerTime>,
    /// Copies that would give it back: the next acquire waits for them.
    pub(crate) release: Option<ServerTime>,
}

#[derive(Default)]
struct Counts {
    hold: Option<Arc<Hold>>,
    guards: u32,
    /// Guards that are on their way back.
    leaving: u32,
    /// Bare holds, oldest first: whether each is watched.
    bare: Vec<bool>,
    /// Keeps a held entry alive when no handle does.
    anchor: Option<Arc<Slot>>,
}

impl Counts {
    fn total(&self) -> u32 {
        self.guards.saturating_add(u32::try_from(self.bare.len()).unwrap_or(u32::MAX))
    }
}

/// An entry of the registry: one owner's holds of one lock.
pub(crate) struct Slot {
    pub(crate) line: Arc<Line>,
    pub(crate) field: Arc<str>,
    /// One operation at a time (rule 3).
    pub(crate) gate: Arc<tokio::sync::Mutex<Debts>>,
    counts: Mutex<Counts>,
    /// Rung when the count leaves 0: whoever waits as the same owner may enter.
    pub(crate) held: Notify,
}

/// What is given back: guards and bare holds are counted apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Share {
    Bare,
    /// Of the hold with this id.
    Guard {
        hold: u64,
        watched: bool,
    },
}

impl Slot {
    pub(crate) fn new(line: Arc<Line>, field: Arc<str>) -> Self {
        Self { line, field, gate: Arc::default(), counts: Mutex::default(), held: Notify::new() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> u32 {
        self.counts().total()
    }

    /// What a new hold of this owner is to be on the server: its owner, or a token that nobody else has.
    pub(crate) fn mark(&self, kind: &Table) -> Arc<str> {
        match kind.anonymous {
            true => uuid::Uuid::new_v4().simple().to_string().into(),
            false => self.field.clone(),
        }
    }

    /// How often this owner holds it under this mark.
    pub(crate) fn count_of(&self, mark: &str) -> u32 {
        let counts = self.counts();
        counts.hold.as_ref().filter(|hold| *hold.mark == *mark).map_or(0, |_| counts.total())
    }

    /// Whether this owner may enter again: it holds more than it is giving back.
    pub(crate) fn is_enterable(&self) -> bool {
        let counts = self.counts();
        counts.total() > counts.leaving
    }

    /// Whether all that this owner holds is on its way back.
    pub(crate) fn is_leaving(&self) -> bool {
        let counts = self.counts();
        counts.leaving > 0 && counts.total() <= counts.leaving
    }

    /// A guard of the hold with this id is about to be given back.
    pub(crate) fn leaving(&self, hold: u64) {
        let mut counts = self.counts();
        if counts.hold.as_ref().is_some_and(|current| current.id == hold) {
            counts.leaving += 1;
        }
    }

    pub(crate) fn hold(&self) -> Option<Arc<Hold>> {
        self.counts().hold.clone()
    }

    /// The server took it for this owner: count + 1, as a guard's until [`Slot::keep_bare`].
    pub(crate) fn enter(
        self: &Arc<Self>,
        mark: &Arc<str>,
        kind: &'static Table,
        renewal: Arc<dyn Renew>,
        sent: Moment,
        lease: Lease,
    ) -> Arc<Hold> {
        let mut counts = self.counts();
        counts.guards += 1;
        if let Some(hold) = &counts.hold {
            hold.entered(sent, lease);
            return hold.clone();
        }
        let hold = Hold::new(self, mark, kind, renewal, sent, lease);
        counts.hold = Some(hold.clone());
        counts.anchor = Some(self.clone());
        drop(counts);
        self.line.took(hold.id, kind.role, sent);
        self.held.notify_waiters();
        hold
    }

    /// A guard's hold becomes a bare one, unless it is over already.
    pub(crate) fn keep_bare(&self, hold: &Hold, watched: bool) {
        let mut counts = self.counts();
        if counts.hold.as_ref().is_some_and(|current| current.id == hold.id) {
            counts.guards = counts.guards.saturating_sub(1);
            counts.bare.push(watched);
            hold.set_bare(counts.bare.len());
        }
    }

    /// What a fencing acquire is told: the highest token seen here, and whether this hold has none yet.
    pub(crate) fn fencing(&self) -> (String, &'static str) {
        let has_token = self.hold().is_some_and(|hold| hold.token() > 0);
        (self.line.token().to_string(), if has_token { "0" } else { "1" })
    }

    /// The hold that `share` is part of, and the count before it is given back. `None`: there is no such share.
    pub(crate) fn has(&self, share: Share) -> Option<(Arc<Hold>, u32)> {
        let counts = self.counts();
        let hold = counts.hold.clone()?;
        let present = match share {
            Share::Bare => !counts.bare.is_empty(),
            Share::Guard { hold: id, .. } => hold.id == id && counts.guards > 0,
        };
        present.then(|| (hold, counts.total()))
    }

    /// `share` was given back.
    pub(crate) fn leave(&self, share: Share) {
        let mut counts = self.counts();
        let watched = match share {
            Share::Bare => counts.bare.pop().unwrap_or_default(),
            Share::Guard { watched, .. } => {
                counts.guards = counts.guards.saturating_sub(1);
                counts.leaving = counts.leaving.saturating_sub(1);
                watched
            }
        };
        if let Some(hold) = &counts.hold {
            hold.left(watched);
            hold.set_bare(counts.bare.len());
        }
        if counts.total() == 0 {
            let ended = std::mem::take(&mut *counts);
            drop(counts);
            finish(ended, LostBy::Released);
        }
    }

    /// The hold with this id is over, all of it.
    pub(crate) fn drop_hold(&self, id: u64, why: LostBy) {
        let mut counts = self.counts();
        if counts.hold.as_ref().is_some_and(|hold| hold.id == id) {
            let ended = std::mem::take(&mut *counts);
            drop(counts);
            finish(ended, why);
        }
    }
}

/// Outside the lock of the counts: the anchor may be the last reference to it.
fn finish(ended: Counts, why: LostBy) {
    if let Some(hold) = &ended.hold {
        hold.end(why);
        hold.line.ended(hold.id);
    }
}
