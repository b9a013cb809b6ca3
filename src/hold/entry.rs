//! Ownership of one lock within this process: its owners, and the hold of each, from the first acquisition until the
//! count is zero. Rules 2, 3 and 5 of docs/PROTOCOL.md.

use std::any::Any;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};

use crate::backend::Script;
use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::janitor::say;
use crate::base::keys::{Key, Keys};
use crate::base::registry::{Listed, Registry};
use crate::engine::Engine;
use crate::error::LostReason;
use crate::lease::validity::{Leasable, Lease, Leased, FIRST_SHARE};
use crate::waiting::aside::Aside;
use crate::waiting::crowd::Crowd;
use crate::waiting::turns::Turns;
use crate::waiting::waiters::Waiter;
use crate::wire::doubt::Doubt;
use crate::wire::script::{Answer, Patience};
use crate::wire::table::Table;

/// Lost bare holds that a client remembers.
const MOST_FORGOTTEN: usize = 256;

/// One owner's wish for one lock.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) engine: Arc<Engine>,
    pub(crate) kind: &'static Table,
    pub(crate) entry: Arc<Entry>,
    /// The same owner's entry in the other role.
    pub(crate) sibling: Option<Arc<Entry>>,
    pub(crate) lease: Lease,
    /// How it waits without messages.
    pub(crate) backoff: Option<Backoff>,
    /// What it asks with in place of the kind's acquire script, where several servers vote.
    pub(crate) vote: Option<&'static Script>,
    pub(crate) patience: Patience,
    /// What else is to be learned from answers: the queue's of a place in it, the votes' of the server that gave them.
    pub(crate) learn: fn(&Wish, &Answer),
}

impl Wish {
    /// The server took it for this owner: count + 1, as a guard's until [`Entry::keep_bare`]. Returns the hold, and
    /// which share of it this is.
    pub(crate) fn enter(&self, mark: &Arc<str>, sent: Moment, now: Moment) -> (Arc<Hold>, u64) {
        let mut counts = self.entry.counts.lock();
        counts.guards += 1;
        if let Some(hold) = &counts.hold {
            return (hold.clone(), hold.leased.entered(sent, self.lease, now));
        }
        let hold = Hold::new(self, mark, sent);
        counts.hold = Some(hold.clone());
        drop(counts);
        self.entry.line.turns.lock().took(&hold, hold.kind.role, hold.leased.id, hold.leased.since);
        self.entry.held.notify_waiters();
        (hold, FIRST_SHARE)
    }
}

/// A waiter: in the process's line, or in the server's queue.
pub(crate) type Place = Waiter<Wish, Ticket>;

/// One lock in this process: its owners, and their turns.
pub(crate) struct Line {
    pub(crate) keys: Keys,
    /// The entry of each owner.
    pub(crate) entries: Registry<Entry>,
    pub(crate) turns: Mutex<Turns<Hold, Wish, Ticket>>,
    /// The highest fencing token that this client has seen.
    token: AtomicU64,
    /// Those who wait in the server's queue.
    pub(crate) crowd: Crowd<Wish, Ticket>,
    /// One of this process at a time asks for the votes of a red lock.
    pub(crate) candidates: Arc<Semaphore>,
    forgotten: Arc<Forgotten>,
    _listed: Listed<Line>,
}

impl Line {
    pub(crate) fn new(keys: Keys, registry: &Arc<Registry<Self>>, forgotten: &Arc<Forgotten>) -> Self {
        let listed = Listed::new(registry, &keys.channel);
        Self {
            keys,
            entries: Registry::default(),
            turns: Mutex::new(Turns::new(|wish| wish.kind.role, report_lapsed)),
            token: AtomicU64::new(0),
            crowd: Crowd::default(),
            candidates: Arc::new(Semaphore::new(1)),
            forgotten: forgotten.clone(),
            _listed: listed,
        }
    }

    /// The entry of one owner.
    pub(crate) fn entry(self: &Arc<Self>, field: &Arc<str>) -> Arc<Entry> {
        self.entries.of(field, || Entry::new(self.clone(), field.clone()))
    }

    /// Entries that are held or in use.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.all()
    }

    /// The holds of this process.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.turns.lock().holds()
    }

    /// Whether to let other processes go first still.
    pub(crate) fn aside(&self) -> Option<Aside> {
        self.turns.lock().aside()
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    pub(crate) fn saw_token(&self, token: u64) {
        self.token.fetch_max(token, Ordering::Relaxed);
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        self.turns.lock().close();
        drop(self.crowd.close());
    }
}

fn report_lapsed(wish: &Wish) {
    let name = &*wish.entry.line.keys.name;
    say(|| tracing::warn!(target: "lockson", name, "handed over to a future that nobody polls: on to the next"));
}

/// An acquisition that nobody has taken responsibility for yet. Dropped, it gives itself back (release.rs).
pub struct Ticket {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) hold: Arc<Hold>,
    /// Which one of the hold it is.
    pub(crate) share: u64,
    /// Whether its owner held the lock before.
    pub(crate) inner: bool,
    /// Whether it is still to be given back, or kept.
    pub(crate) armed: AtomicBool,
}

/// Ownership of a lock by one owner, from the first acquisition until the count is zero.
pub(crate) struct Hold {
    pub(crate) leased: Arc<Leased>,
    /// Whose it is.
    pub(crate) entry: Arc<Entry>,
    /// How it is given back.
    pub(crate) kind: &'static Table,
    /// Whether its release was not answered.
    pub(crate) unanswered: AtomicBool,
    /// Whether this client is about to end it by force: its own message may be heard before the answer.
    pub(crate) forced: AtomicBool,
    /// Its fencing token, 0 for none.
    token: AtomicU64,
}

impl Hold {
    fn new(wish: &Wish, mark: &Arc<str>, sent: Moment) -> Arc<Self> {
        Arc::new(Self {
            leased: Leased::new(wish.entry.clone(), mark.clone(), wish.kind.renew, sent, wish.lease),
            entry: wish.entry.clone(),
            kind: wish.kind,
            unanswered: AtomicBool::new(false),
            forced: AtomicBool::new(false),
            token: AtomicU64::new(0),
        })
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    pub(crate) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Release);
    }

    /// The server does not have it any more.
    pub(crate) fn lose(&self, engine: &Engine, why: LostReason) {
        let why = if self.forced.load(Ordering::Acquire) { LostReason::Forced } else { why };
        engine.watchdog.lose(&self.leased, why);
    }
}

/// An entry to itself, with what it owes.
pub(crate) type Gate = OwnedMutexGuard<Debts>;

/// What an entry owes to earlier calls: copies without an answer, which may run yet.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    /// Copies that would take the lock: looked after once more when it is given back.
    pub(crate) acquire: Doubt,
    /// Copies that would give it back, or set its lease: the next acquire or change of the lease waits for them.
    pub(crate) release: Doubt,
    /// Copies that would take the lock without a token: until they are looked after, a hold may be theirs.
    pub(crate) untold: Doubt,
    /// A give-back was not answered: the server may have more than this owner holds.
    pub(crate) unanswered: bool,
}

#[derive(Default)]
struct Counts {
    /// Which keeps its entry alive when no handle does.
    hold: Option<Arc<Hold>>,
    guards: u32,
    /// Guards that are on their way back.
    leaving: u32,
    /// The shares that are bare holds, oldest first.
    bare: Vec<u64>,
}

impl Counts {
    fn total(&self) -> u32 {
        self.guards.saturating_add(u32::try_from(self.bare.len()).unwrap_or(u32::MAX))
    }
}

/// An entry: one owner of one lock.
pub(crate) struct Entry {
    pub(crate) line: Arc<Line>,
    pub(crate) field: Arc<str>,
    /// One operation at a time (rule 3).
    pub(crate) gate: Arc<tokio::sync::Mutex<Debts>>,
    counts: Mutex<Counts>,
    /// Rung when the count leaves 0: whoever waits as the same owner may enter.
    pub(crate) held: Notify,
    /// Whether a guard of this owner, which still lives, lost what it held and gave the rest back: said once to whoever
    /// would enter again (rule 5).
    pub(crate) outer_lost: AtomicBool,
    /// Bare holds by the votes of several servers of which one is for this owner here, oldest first. Nobody but the
    /// clients of those servers keeps them; only those who put them in know what they are.
    elected: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

/// What is given back: guards and bare holds are counted apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Share {
    Bare,
    /// Of the hold with this id.
    Guard {
        hold: u64,
        share: u64,
    },
}

impl Leasable for Entry {
    fn name(&self) -> &str {
        &self.line.keys.name
    }

    fn holder(&self) -> &str {
        &self.field
    }

    fn keys(&self, keys: &[Key]) -> Vec<Cow<'_, str>> {
        let own = keys.contains(&Key::FirstHold).then(|| self.line.keys.first_hold(&self.field));
        self.line.keys.of(keys).into_iter().map(Cow::from).chain(own.map(Cow::from)).collect()
    }

    fn ended(&self, id: u64) {
        let Some(hold) = self.hold().filter(|hold| hold.leased.id == id) else { return };
        self.line.turns.lock().ended(&hold, hold.kind.role, id);
        if hold.leased.is_bare() {
            self.line.forgotten.add(&hold);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.line.entries.strike(&self.field);
    }
}

/// Bare holds that are lost and that their owners were not told of: nobody else has them. The last are kept, so that an
/// owner that enters again is told.
#[derive(Default)]
pub(crate) struct Forgotten {
    holds: Mutex<VecDeque<(u64, Weak<Entry>)>>,
}

impl Forgotten {
    fn add(&self, hold: &Hold) {
        let mut holds = self.holds.lock();
        holds.push_back((hold.leased.id, Arc::downgrade(&hold.entry)));
        let oldest = if holds.len() > MOST_FORGOTTEN { holds.pop_front() } else { None };
        drop(holds);
        if let Some((id, entry)) = oldest.and_then(|(id, entry)| Some((id, entry.upgrade()?))) {
            entry.drop_hold(id, LostReason::Server);
        }
    }
}

impl Entry {
    pub(crate) fn new(line: Arc<Line>, field: Arc<str>) -> Self {
        let (gate, counts, outer_lost) = (Arc::default(), Mutex::default(), AtomicBool::new(false));
        Self { line, field, gate, counts, held: Notify::new(), outer_lost, elected: Mutex::default() }
    }

    pub(crate) fn elected(&self) -> MutexGuard<'_, Vec<Arc<dyn Any + Send + Sync>>> {
        self.elected.lock()
    }

    pub(crate) fn count(&self) -> u32 {
        self.counts.lock().total()
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
        let counts = self.counts.lock();
        counts.hold.as_ref().filter(|hold| *hold.leased.mark == *mark).map_or(0, |_| counts.total())
    }

    /// Whether this owner may enter again: it holds more than it is giving back.
    pub(crate) fn is_enterable(&self) -> bool {
        let counts = self.counts.lock();
        counts.total() > counts.leaving
    }

    /// Whether all that this owner holds is on its way back.
    pub(crate) fn is_leaving(&self) -> bool {
        let counts = self.counts.lock();
        counts.leaving > 0 && counts.total() <= counts.leaving
    }

    /// A guard of the hold with this id is about to be given back.
    pub(crate) fn leaving(&self, hold: u64) {
        let mut counts = self.counts.lock();
        if counts.hold.as_ref().is_some_and(|current| current.leased.id == hold) {
            counts.leaving += 1;
        }
    }

    pub(crate) fn hold(&self) -> Option<Arc<Hold>> {
        self.counts.lock().hold.clone()
    }

    /// A guard's share becomes a bare hold, unless the hold is over already.
    pub(crate) fn keep_bare(&self, hold: &Hold, share: u64) {
        let mut counts = self.counts.lock();
        if counts.hold.as_ref().is_some_and(|current| current.leased.id == hold.leased.id) {
            counts.guards = counts.guards.saturating_sub(1);
            counts.bare.push(share);
            hold.leased.set_bare(!counts.bare.is_empty());
        }
        drop(counts);
        if !hold.leased.is_watched() {
            // Lost before its owner had it.
            hold.leased.of.ended(hold.leased.id);
        }
    }

    /// What a fencing acquire is told: the highest token seen here, and the count that it comes from if this hold has
    /// no token yet; `any`, where a count that has moved may be the work of a call without a token.
    pub(crate) fn fence(&self, gate: &Debts) -> [String; 2] {
        let counts = self.counts.lock();
        let has_token = counts.hold.as_ref().is_some_and(|hold| hold.token() > 0);
        let from = match (has_token, gate.untold.is_empty()) {
            (true, _) => String::new(),
            (false, false) => "any".to_owned(),
            (false, true) => counts.total().to_string(),
        };
        [self.line.token().to_string(), from]
    }

    /// The hold that `share` is part of, and the count before it is given back. `None`: there is no such share.
    pub(crate) fn has(&self, share: Share) -> Option<(Arc<Hold>, u32)> {
        let counts = self.counts.lock();
        let hold = counts.hold.clone()?;
        let present = match share {
            Share::Bare => !counts.bare.is_empty(),
            Share::Guard { hold: id, .. } => hold.leased.id == id && counts.guards > 0,
        };
        present.then(|| (hold, counts.total()))
    }

    /// `share` was given back.
    pub(crate) fn leave(&self, share: Share) {
        let mut counts = self.counts.lock();
        let share = match share {
            Share::Bare => counts.bare.pop(),
            Share::Guard { share, .. } => {
                counts.guards = counts.guards.saturating_sub(1);
                counts.leaving = counts.leaving.saturating_sub(1);
                Some(share)
            }
        };
        if let Some(hold) = &counts.hold {
            if let Some(share) = share {
                hold.leased.stop_renewing(share);
            }
            hold.leased.set_bare(!counts.bare.is_empty());
        }
        if counts.total() == 0 {
            let ended = std::mem::take(&mut *counts);
            drop(counts);
            finish(ended, LostReason::Released);
        }
    }

    /// The hold with this id is over, all of it.
    pub(crate) fn drop_hold(&self, id: u64, why: LostReason) {
        let mut counts = self.counts.lock();
        if counts.hold.as_ref().is_some_and(|hold| hold.leased.id == id) {
            let ended = std::mem::take(&mut *counts);
            drop(counts);
            finish(ended, why);
        }
    }
}

/// Outside the lock of the counts: the hold may be the last to have its entry.
fn finish(ended: Counts, why: LostReason) {
    if let Some(hold) = &ended.hold {
        hold.leased.end(why);
        hold.entry.line.turns.lock().ended(hold, hold.kind.role, hold.leased.id);
    }
}
