//! Ownership of one lock within this process: its owners, and the hold of each, from the first acquisition until the
//! count is zero. Rules 2, 3 and 5 of docs/PROTOCOL.md.

use std::any::Any;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};

use crate::backend::Script;
use crate::base::clock::Moment;
use crate::base::config::Confirm;
use crate::base::janitor::say;
use crate::base::keys::Keys;
use crate::base::owner::run_field;
use crate::base::registry::{Listed, Registry};
use crate::engine::Engine;
use crate::error::LostReason;
use crate::lease::lookout::Sleeper;
use crate::lease::observer::Observer;
use crate::lease::shares::Shares;
use crate::lease::validity::{Lease, Leased};
use crate::waiting::backoff::Backoff;
use crate::waiting::crowd::Crowd;
use crate::waiting::turns::Turns;
use crate::waiting::waiters::{Mail, Waiter, Waiters};
use crate::wire::doubt::Doubt;
use crate::wire::reply::Answer;
use crate::wire::table::{Runs, Table};

/// Lost bare holds that a client remembers.
const MOST_FORGOTTEN: usize = 256;

/// One owner's wish for one lock.
#[derive(Clone)]
pub struct Wish {
    pub(crate) engine: Arc<Engine>,
    pub(crate) kind: &'static Table,
    pub(crate) entry: Arc<Entry>,
    /// The same owner's entry in the other role.
    pub(crate) sibling: Option<Arc<Entry>>,
    pub(crate) lease: Lease,
    /// By whom it has to be confirmed.
    pub(crate) confirm: Option<Confirm>,
    /// How it waits without messages.
    pub(crate) backoff: Option<Arc<Backoff>>,
    /// What it asks with in place of the kind's acquire script, where several servers vote.
    pub(crate) vote: Option<&'static Script>,
    /// Since when.
    pub(crate) began: Moment,
    /// What else is to be learned from answers: the queue's of a place in it, the votes' of the server that gave them.
    pub(crate) learn: fn(&Wish, &Answer),
}

impl Wish {
    /// How what it takes may go on to the next here without a script, if it may.
    pub(crate) fn runs(&self) -> Option<Runs> {
        let is_watched = matches!(self.lease, Lease::Watched { .. });
        self.kind.runs.filter(|_| self.engine.settings.local_turns && self.vote.is_none() && is_watched)
    }

    /// What a new hold is to be on the server: its owner, where others wait here the run that it begins, or a token
    /// that nobody else has.
    pub(crate) fn mark(&self, others_wait: bool) -> Arc<str> {
        let Self { engine, kind, entry, .. } = self;
        match self.runs() {
            _ if kind.anonymous => engine.ids.fresh().simple().to_string().into(),
            Some(Runs::Field { .. }) if others_wait => run_field(&engine.client_id, engine.next_number()),
            _ => entry.field.clone(),
        }
    }
}

/// A waiter: in the process's line, or in the server's queue.
pub(crate) type Place = Waiter<Arc<Wish>, Ticket>;
/// All of this process in the server's queue.
type Queued = Crowd<Arc<Wish>, Ticket>;

impl Observer for Place {
    fn lapsed(self: Arc<Self>) {
        if self.lapse() {
            let name = &*self.wish.entry.line.keys.name;
            let text = "handed over to a future that nobody polls: on to the next";
            say(|| tracing::warn!(target: "lockson", name, "{text}"));
        }
    }
}

impl Sleeper for Place {
    fn keys(&self) -> &Arc<Keys> {
        &self.wish.entry.line.keys
    }

    fn wake(self: Arc<Self>) {
        self.wish.entry.line.turns.lock().try_now(&self);
    }
}

/// A waiter that went away, with its entry to itself.
pub(crate) type Leaver = (Arc<Wish>, Gate);

/// One lock in this process: its owners, and their turns.
pub(crate) struct Line {
    pub(crate) keys: Arc<Keys>,
    /// The entry of each owner.
    pub(crate) entries: Registry<Entry>,
    pub(crate) turns: Mutex<Turns<Hold, Arc<Wish>, Ticket>>,
    /// The highest fencing token that this client has seen.
    token: AtomicU64,
    /// What was asked for before this moment may have been ended by force, by this client. 0: nothing.
    pub(crate) forced: AtomicU64,
    /// Those who wait in the server's queue. Made for whoever comes first, as most locks have none; so is what follows.
    pub(crate) crowd: LazyLock<Box<Mutex<Queued>>>,
    /// Those who leave that queue, while somebody sees to it.
    pub(crate) leavers: LazyLock<Box<Mutex<Option<VecDeque<Leaver>>>>>,
    /// One of this process at a time asks for the votes of a red lock.
    pub(crate) candidates: LazyLock<Arc<Semaphore>>,
    forgotten: Arc<Forgotten>,
    _listed: Listed<Line>,
}

impl Line {
    pub(crate) fn new(keys: Keys, registry: &Arc<Registry<Self>>, forgotten: &Arc<Forgotten>) -> Self {
        let listed = Listed::new(registry, &keys.place());
        Self {
            keys: Arc::new(keys),
            entries: Registry::default(),
            turns: Mutex::new(Turns::new(|wish| wish.kind.role)),
            token: AtomicU64::new(0),
            forced: AtomicU64::new(0),
            crowd: LazyLock::new(Box::default),
            leavers: LazyLock::new(Box::default),
            candidates: LazyLock::new(|| Arc::new(Semaphore::new(1))),
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

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    /// Ends every wait, and says of whose the server may know.
    pub(crate) fn close(&self) -> Vec<Arc<Place>> {
        let head = self.turns.lock().close();
        let queued = self.crowd.lock().close();
        head.into_iter().chain(queued).collect()
    }
}

/// An acquisition that nobody has taken responsibility for yet. Dropped, it gives itself back (ticket.rs).
pub struct Ticket {
    pub(crate) engine: Arc<Engine>,
    pub(crate) hold: Arc<Hold>,
    /// The number of its share of the hold.
    pub(crate) share: u64,
    /// Whether its owner held the lock before.
    pub(crate) inner: bool,
    /// Whether it is still to be given back, or kept.
    pub(crate) armed: AtomicBool,
}

impl Ticket {
    /// The server confirmed it: the count goes up, as a guard's until it is kept as a bare hold.
    pub(crate) fn enter(wish: &Wish, mark: &Arc<str>, answer: &Answer) -> Self {
        let Wish { engine, entry, kind, lease, confirm, .. } = wish;
        let (engine, mut counts) = (engine.clone(), entry.counts.lock());
        let inner = counts.hold.is_some();
        let leased = || {
            let owners = [entry.field.clone(), mark.clone()];
            Leased::new(entry.line.keys.clone(), owners, kind.weight, kind.renew, answer.sent, *lease)
        };
        let hold = counts.hold.get_or_insert_with(|| Hold::new(wish, leased(), None)).clone();
        let share = if inner { hold.leased.entered(answer.sent, *lease, engine.now()) } else { hold.leased.id };
        counts.shares.enter(share);
        drop(counts);
        hold.leased.confirmed(*confirm);
        if !inner {
            entry.line.turns.lock().took(&hold, kind.role, hold.leased.id, answer.sent);
            iter::once(entry).chain(&wish.sibling).for_each(|entry| entry.ring());
        }
        if let Some(token) = answer.text(0).filter(|_| kind.fenced).and_then(|token| token.parse().ok()) {
            entry.line.token.fetch_max(token, Ordering::Relaxed);
            hold.token.store(token, Ordering::Release);
        }
        engine.watchdog.watch(&hold.leased, answer.sent);
        hold.look_if_forced(&engine, answer.sent);
        Self { engine, hold, share, inner, armed: AtomicBool::new(true) }
    }

    /// A waiter that holds nothing has what the hold before it had on the server.
    pub(crate) fn of_next(heir: &Arc<Place>, before: &Leased) -> Self {
        let Wish { engine, entry, kind, lease, .. } = &*heir.wish;
        let leased = before.next(entry.field.clone(), kind.renew, *lease, engine.now());
        let hold = Hold::new(&heir.wish, leased, Some(heir));
        let (share, sent) = (hold.leased.id, hold.leased.since);
        let mut counts = entry.counts.lock();
        counts.hold = Some(hold.clone());
        counts.shares.enter(share);
        drop(counts);
        entry.line.turns.lock().goes_on(&hold, kind.role, share, sent);
        entry.ring();
        engine.watchdog.watch(&hold.leased, sent);
        hold.look_if_forced(engine, sent);
        Self { engine: engine.clone(), hold, share, inner: false, armed: AtomicBool::new(true) }
    }

    /// It becomes a bare hold, for `unlock()` to give back, unless the hold is over already.
    pub(crate) fn keep_bare(&self) {
        self.armed.store(false, Ordering::Release);
        let mut counts = self.hold.entry.counts.lock();
        if counts.shares.keep_bare(self.share) {
            self.hold.leased.set_bare(true);
        }
        drop(counts);
        if !self.hold.leased.is_watched() {
            // Lost before its owner had it.
            self.hold.clone().ended();
        }
    }
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
    /// Whether the server is about to be asked for it.
    doubted: AtomicBool,
    /// Its fencing token, 0 for none.
    token: AtomicU64,
    /// Until when the server keeps it although it was given back, 0 for not at all.
    stays: AtomicU64,
    /// How who comes next here may have it without a script, if it was taken for that.
    pub(crate) runs: Option<Runs>,
    /// Who was given it without a script.
    pub(crate) heir: Option<Weak<Place>>,
}

impl Hold {
    pub(super) fn new(wish: &Wish, leased: Arc<Leased>, heir: Option<&Arc<Place>>) -> Arc<Self> {
        let hold = Arc::new(Self {
            entry: wish.entry.clone(),
            kind: wish.kind,
            unanswered: AtomicBool::new(false),
            forced: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            token: AtomicU64::new(0),
            stays: AtomicU64::new(0),
            runs: wish.runs().filter(|_| *leased.mark() != wish.entry.field),
            leased,
            heir: heir.map(Arc::downgrade),
        });
        hold.leased.tell(Arc::downgrade(&hold));
        hold
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    /// Given back before this moment, it stays on the server until then. For what is held once, by one owner.
    pub(crate) fn stay(&self, until: Moment) {
        self.stays.store(until.nanos(), Ordering::Release);
    }

    pub(crate) fn stays(&self, now: Moment) -> Option<Moment> {
        Some(Moment::from_nanos(self.stays.load(Ordering::Acquire))).filter(|until| *until > now)
    }

    /// The server is to be asked for it. Whether nobody was about to: many may hear of the same at once.
    pub(crate) fn doubt(&self) -> bool {
        !self.doubted.swap(true, Ordering::AcqRel)
    }

    /// It is asked: what is heard from here on is a doubt of its own.
    pub(crate) fn asks(&self) {
        self.doubted.store(false, Ordering::Release);
    }

    /// The server does not have it any more.
    pub(crate) fn lose(&self, engine: &Engine, why: LostReason) {
        let why = if self.forced.load(Ordering::Acquire) { LostReason::Forced } else { why };
        engine.watchdog.lose(&self.leased, why);
    }
}

impl Observer for Hold {
    fn ended(self: Arc<Self>) {
        self.entry.line.turns.lock().ended(self.leased.id);
        // What was given back is not its entry's any more.
        let is_lost = self.entry.hold().is_some_and(|hold| Arc::ptr_eq(&hold, &self));
        if is_lost && self.leased.is_bare() {
            self.entry.line.forgotten.add(&self);
        }
    }
}

/// An entry to itself, with what it owes.
pub(crate) type Gate = OwnedMutexGuard<Debts>;

/// What an entry owes to earlier calls: copies without an answer, which may run yet.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    /// Copies that would take the lock: looked after once more when it is given back.
    pub(crate) acquire: Doubt,
    /// Those of them that would enter again what is held, and the highest count that one would lead from: at a lower
    /// one the next acquire waits for them, as they would count on top of it.
    pub(crate) entries: (Doubt, u32),
    /// Copies that would give it back, or set its lease: the next acquire or change of the lease waits for them.
    pub(crate) release: Doubt,
    /// A give-back was not answered: the server may have more than this owner holds.
    pub(crate) unanswered: bool,
}

impl Debts {
    /// Whether no call of this owner is in doubt.
    pub(crate) fn is_settled(&self) -> bool {
        self.acquire.is_empty() && self.release.is_past() && !self.unanswered
    }

    /// Whether the server may have more of this owner than is known: a late copy of an acquire may have added one, or
    /// an earlier give-back was not answered. Then only what is left counts, not what was there.
    pub(crate) fn may_have_more(&self) -> bool {
        !self.acquire.is_empty() || self.unanswered
    }

    /// Copies of an acquire that would lead from this count.
    pub(crate) fn owe_acquire(&mut self, doubt: &Doubt, from: u32) {
        self.acquire.merge(doubt);
        if from > 0 && !doubt.is_empty() {
            self.entries.0.merge(doubt);
            self.entries.1 = self.entries.1.max(from);
        }
    }

    /// Behind those that would count on top of this count. What they have done goes before an acquire asks.
    pub(crate) async fn pass_entries(&mut self, count: u32) {
        if count < self.entries.1 {
            self.entries.0.pass().await;
            (self.entries, self.unanswered) = (Default::default(), true);
        }
    }

    /// None of these can run any more, and the server's count was asked to be what the registry says.
    pub(crate) fn forget_acquire(&mut self, doubt: &Doubt) {
        self.acquire.forget(doubt);
        self.entries.0.forget(doubt);
        self.entries.1 *= u32::from(!self.entries.0.is_empty());
    }

    /// Whether none is in doubt that would end, or enter, a hold that is taken now, and nothing is to be settled first.
    pub(crate) fn is_clear(&self) -> bool {
        self.release.is_empty() && self.entries.0.is_empty() && !self.unanswered
    }

    /// Whether none can run any more.
    pub(crate) fn is_past(&self) -> bool {
        self.acquire.is_past() && self.release.is_past()
    }
}

#[derive(Default)]
struct Counts {
    /// Which keeps its entry alive when no handle does.
    hold: Option<Arc<Hold>>,
    shares: Shares,
}

/// What locks by the votes of several servers have of an entry of one of them. Made for whoever comes first.
#[derive(Default)]
pub(crate) struct Elected {
    /// Bare holds of which a vote is for this owner here, oldest first. Nobody but the clients of those servers keeps
    /// them; only those who put them in know what they are.
    pub(crate) holds: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// Rung when the count leaves 0.
    pub(crate) held: Notify,
}

/// An entry: one owner of one lock.
pub(crate) struct Entry {
    pub(crate) line: Arc<Line>,
    pub(crate) field: Arc<str>,
    /// One operation at a time (rule 3).
    pub(crate) gate: Arc<tokio::sync::Mutex<Debts>>,
    counts: Mutex<Counts>,
    /// Those who wait as this owner.
    pub(crate) waiting: Mutex<Waiters<Arc<Wish>, Ticket>>,
    /// Whether a guard of this owner, which still lives, lost what it held and gave the rest back: said once to whoever
    /// would enter again (rule 5).
    pub(crate) outer_lost: AtomicBool,
    pub(crate) elected: OnceLock<Box<Elected>>,
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
    holds: Mutex<VecDeque<Weak<Hold>>>,
}

impl Forgotten {
    fn add(&self, hold: &Arc<Hold>) {
        let mut holds = self.holds.lock();
        holds.push_back(Arc::downgrade(hold));
        let oldest = if holds.len() > MOST_FORGOTTEN { holds.pop_front() } else { None };
        drop(holds);
        if let Some(hold) = oldest.and_then(|hold| hold.upgrade()) {
            hold.entry.drop_hold(hold.leased.id, LostReason::Server);
        }
    }
}

/// A count as scripts take it: those of most asks for no memory.
pub(crate) fn count_text(count: u32) -> Cow<'static, str> {
    match count {
        0 => "0".into(),
        1 => "1".into(),
        count => count.to_string().into(),
    }
}

impl Entry {
    pub(crate) fn new(line: Arc<Line>, field: Arc<str>) -> Self {
        let (gate, counts, waiting, outer_lost, elected) = Default::default();
        Self { line, field, gate, counts, waiting, outer_lost, elected }
    }

    pub(crate) fn count(&self) -> u32 {
        self.counts.lock().shares.total()
    }

    /// The count left 0, here or in the other role: whoever waits as the same owner may enter, or must not wait.
    fn ring(&self) {
        for waiter in self.waiting.lock().iter() {
            match waiter.wish.kind.queue {
                None => waiter.ring(),
                // It has to ask, even if the count is 0 again: its owner's place on the server is gone.
                Some(_) => waiter.post(Mail::Try),
            }
        }
        self.elected.get().iter().for_each(|elected| elected.held.notify_waiters());
    }

    /// How often this owner holds it under this mark.
    pub(crate) fn count_of(&self, mark: &str) -> u32 {
        let counts = self.counts.lock();
        let is_its = |hold: &&Arc<Hold>| {
            let (first, other) = hold.leased.marks();
            **first == *mark || other.is_some_and(|other| **other == *mark)
        };
        counts.hold.as_ref().filter(is_its).map_or(0, |_| counts.shares.total())
    }

    /// Whether this owner may enter again: it holds more than it is giving back.
    pub(crate) fn is_enterable(&self) -> bool {
        self.counts.lock().shares.is_enterable()
    }

    /// Whether all that this owner holds is on its way back.
    pub(crate) fn is_leaving(&self) -> bool {
        self.counts.lock().shares.is_leaving()
    }

    /// The guard with this share is about to be given back.
    pub(crate) fn leaving(&self, share: u64) {
        self.counts.lock().shares.begin_leaving(share);
    }

    pub(crate) fn hold(&self) -> Option<Arc<Hold>> {
        self.counts.lock().hold.clone()
    }

    /// What a fencing acquire is told: the highest token seen here, and `1` where this hold has none and is to get one.
    pub(crate) fn fence(&self) -> [String; 2] {
        let has_token = self.hold().is_some_and(|hold| hold.token() > 0);
        [self.line.token().to_string(), if has_token { "" } else { "1" }.to_owned()]
    }

    /// The hold that a guard's share is part of (`None`: that any bare one is), and the count before it is given back.
    /// `None`: there is no such share.
    pub(crate) fn has(&self, guard: Option<u64>) -> Option<(Arc<Hold>, u32)> {
        let counts = self.counts.lock();
        counts.hold.clone().filter(|_| counts.shares.has(guard)).map(|hold| (hold, counts.shares.total()))
    }

    /// A guard's share was given back (`None`: the last bare one).
    pub(crate) fn leave(&self, guard: Option<u64>) {
        let mut counts = self.counts.lock();
        let share = counts.shares.leave(guard);
        if let Some(hold) = &counts.hold {
            if let Some(share) = share {
                hold.leased.stop_renewing(share);
            }
            hold.leased.set_bare(counts.shares.has(None));
        }
        if counts.shares.total() == 0 {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::stub::Stub;

    /// What has to be waited for, and what may have more than is known: each of a debt that stands for itself.
    #[test]
    fn debts_are_settled_when_none_is_left() {
        let node = Stub::new().node.clone();
        node.answered(1_000, crate::base::clock::Clock::System.now());
        let [past, open] = [0, i64::MAX].map(|time| Doubt::new(node.clone(), time));
        let none = Debts::default;
        for (debts, is_settled, is_past, more) in [
            (none(), true, true, false),
            (Debts { acquire: past.clone(), ..none() }, false, true, true),
            (Debts { acquire: open.clone(), ..none() }, false, false, true),
            (Debts { release: past, ..none() }, true, true, false),
            (Debts { release: open, ..none() }, false, false, false),
            (Debts { unanswered: true, ..none() }, false, true, true),
        ] {
            assert_eq!((debts.is_settled(), debts.is_past()), (is_settled, is_past), "{debts:?}");
            assert_eq!(debts.may_have_more(), more, "{debts:?}");
        }
    }

    /// The token of a hold is known to its line, and asked for once.
    #[cfg(feature = "embedded")]
    #[tokio::test(start_paused = true)]
    async fn a_hold_that_has_a_token_asks_for_none() {
        let locks = crate::EmbeddedServer::new().connect();
        let lock = locks.fenced_lock("fenced");
        let entry = lock.line().unwrap().entry(&lock.field());
        assert_eq!(entry.fence(), ["0", "1"]);
        let guard = lock.guard().await.unwrap();
        let token = guard.token();
        assert_eq!((entry.line.token(), entry.fence()), (token, [token.to_string(), String::new()]));
        drop(guard);
    }

    /// A hold is bare while it has a share that no guard has. What is lost so is remembered for its owner, and nothing
    /// that is given back.
    #[cfg(feature = "embedded")]
    #[tokio::test(start_paused = true)]
    async fn what_only_memory_keeps_is_bare() {
        let server = crate::EmbeddedServer::new();
        let locks = server.connect();
        let lock = locks.lock("bare").owned_by(&"owner".parse().unwrap());
        let line = lock.line().unwrap();
        let entry = line.entry(&lock.field());
        let is_bare = || entry.hold().is_some_and(|hold| hold.leased.is_bare());
        let forgotten = || line.forgotten.holds.lock().len();
        lock.lock().await.unwrap();
        lock.lock().await.unwrap();
        let guard = lock.guard().await.unwrap();
        assert!(is_bare());
        guard.unlock().await.unwrap();
        assert!(is_bare(), "two are left");
        let guard = lock.guard().await.unwrap();
        lock.unlock().await.unwrap();
        assert!(is_bare(), "one is left");
        lock.unlock().await.unwrap();
        assert!(!is_bare() && entry.hold().is_some(), "its guard keeps it");
        guard.unlock().await.unwrap();
        assert_eq!(forgotten(), 0);
        let guard = lock.guard().await.unwrap();
        entry.hold().unwrap().lose(&engine_of(&lock), LostReason::Server);
        assert_eq!(forgotten(), 0, "its guard tells");
        drop(guard);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        lock.lock().await.unwrap();
        entry.hold().unwrap().lose(&engine_of(&lock), LostReason::Server);
        assert_eq!(forgotten(), 1);
    }

    #[cfg(feature = "embedded")]
    fn engine_of(lock: &crate::ReentrantLock) -> Arc<Engine> {
        let (line, field) = (lock.line().unwrap(), lock.field());
        lock.wish(&line, &field, &crate::Request::default(), None).unwrap().engine
    }
}
