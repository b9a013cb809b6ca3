//! Holds: how many times one owner has a lock. Rules 2, 3 and 5 of docs/PROTOCOL.md.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::{Moment, ServerTime};
use crate::error::LostBy;
use crate::keys::Key;
use crate::kind::Table;
use crate::lease::{Leasable, Lease, Leased};
use crate::line::Line;
use crate::watchdog::Renew;

/// One life of an entry, from count 0 up and back to 0.
pub(crate) struct Hold {
    pub(crate) leased: Arc<Leased>,
    /// How it is given back.
    pub(crate) kind: &'static Table,
    /// Whether its release was not answered.
    pub(crate) unanswered: AtomicBool,
    /// Its fencing token, 0 for none.
    token: AtomicU64,
}

impl Deref for Hold {
    type Target = Leased;

    fn deref(&self) -> &Leased {
        &self.leased
    }
}

impl Hold {
    fn new(
        slot: &Arc<Slot>,
        mark: &Arc<str>,
        kind: &'static Table,
        renewal: Arc<dyn Renew>,
        sent: Moment,
        lease: Lease,
    ) -> Arc<Self> {
        let leased = Leased::new(slot.clone(), mark.clone(), renewal, sent, lease);
        Arc::new(Self { leased, kind, unanswered: AtomicBool::new(false), token: AtomicU64::new(0) })
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    pub(crate) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Release);
    }
}

/// What an entry owes to earlier calls: copies without an answer, which may run until these moments.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    /// Copies that would take the lock: looked after once more when it is given back.
    pub(crate) acquire: Option<ServerTime>,
    /// Copies that would give it back, or set its lease: the next acquire or change of the lease waits for them.
    pub(crate) release: Option<ServerTime>,
    /// Copies that would take the lock without a token: until they are looked after, a hold may be theirs.
    pub(crate) untold: Option<ServerTime>,
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

impl Leasable for Slot {
    fn name(&self) -> &str {
        &self.line.keys.name
    }

    fn holder(&self) -> &str {
        &self.field
    }

    fn keys(&self, keys: &[Key]) -> Vec<&str> {
        self.line.keys.of(keys)
    }

    fn ended(&self, id: u64) {
        self.line.ended(id);
    }
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

    /// What a fencing acquire is told: the highest token seen here, and the count that it comes from if this hold has
    /// no token yet; `any`, where a count that has moved may be the work of a call without a token.
    pub(crate) fn fence(&self, gate: &Debts) -> [String; 2] {
        let counts = self.counts();
        let has_token = counts.hold.as_ref().is_some_and(|hold| hold.token() > 0);
        let from = match (has_token, gate.untold) {
            (true, _) => String::new(),
            (false, Some(_)) => "any".to_owned(),
            (false, None) => counts.total().to_string(),
        };
        [self.line.token().to_string(), from]
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
        hold.of.ended(hold.id);
    }
}
