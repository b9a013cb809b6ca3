//! Those of this process who wait in the server's queue for one lock: which owner is the first there, and which are due
//! to say that they still wait. Rule 17 of docs/PROTOCOL.md.

use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::clock::ServerTime;
use crate::fifo::Fifo;
use crate::hold::Slot;
use crate::kind::Table;
use crate::registry::shrink;

/// An owner that does not ask itself is said to be there this often.
const REFRESH: Duration = Duration::from_secs(20);
/// Owners in one script.
const BATCH: usize = 100;
/// Scripts at one look.
const BATCHES: usize = 8;

/// Scripts at once by which waiters leave.
const LEAVING: usize = 64;

/// What a waiter is told beside the messages of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum News {
    #[default]
    Nothing,
    /// Its owner's place on the server is gone.
    Ask,
    Closed,
}

/// One waiter.
pub(crate) struct Member {
    /// Among those of its owner.
    number: u64,
    pub(crate) slot: Arc<Slot>,
    pub(crate) kind: &'static Table,
    news: Mutex<News>,
    /// Rung when there is news, and when it has become the first.
    pub(crate) bell: Notify,
}

impl Member {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_news(&self) -> News {
        std::mem::take(&mut *self.news())
    }

    fn tell(&self, what: News) {
        *self.news() = what;
        self.bell.notify_one();
    }
}

/// When an owner came to the queue, and its score then. Later scores are lower by what was taken off meanwhile.
type Came = (ServerTime, i64);
/// For those that did not ask yet.
const NOT_YET: Came = (ServerTime::MAX, i64::MAX);
/// Where an owner stands: as it came to the queue, then by its arrival here.
type Rank = (Came, u64);

/// Owners have one place on the server each, however many futures wait as one.
struct Waiting {
    rank: Rank,
    members: Fifo<Member>,
    /// When the server last heard of it.
    told: Instant,
}

#[derive(Default)]
struct State {
    arrivals: u64,
    owners: HashMap<Arc<str>, Waiting>,
    order: BTreeMap<Rank, Arc<str>>,
    /// Those with a rank, by when the server last heard of them.
    told: BTreeMap<(Instant, u64), Arc<str>>,
    /// When any of them last asked for the lock.
    asked: Option<Instant>,
}

impl State {
    fn first(&self) -> Option<&Arc<Member>> {
        self.order.values().next().and_then(|field| self.owners.get(field)).and_then(|owner| owner.members.first())
    }

    /// Changes who is there, and rings for whoever has become the first by that.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.first().cloned();
        change(self);
        let same = |now: &&Arc<Member>| before.as_ref().is_some_and(|before| Arc::ptr_eq(before, now));
        if let Some(first) = self.first().filter(|first| !same(first)) {
            first.bell.notify_one();
        }
    }
}

/// Those who wait for one lock.
pub(crate) struct Crowd {
    state: Mutex<State>,
    /// So many leave the server's queue at once: more would be asked twice, as the answers take longer than a call may.
    pub(crate) leaving: Semaphore,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { state: Mutex::default(), leaving: Semaphore::new(LEAVING) }
    }
}

impl Crowd {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A waiter arrives; until its rank is known it is behind all others.
    pub(crate) fn join(&self, slot: Arc<Slot>, kind: &'static Table) -> Arc<Member> {
        let field = slot.field.clone();
        let mut state = self.state();
        state.arrivals += 1;
        let rank = (NOT_YET, state.arrivals);
        let fresh = || Waiting { rank, members: Fifo::default(), told: Instant::now() };
        let waiting = state.owners.entry(field.clone()).or_insert_with(fresh);
        let make = |number| Member { number, slot, kind, news: Mutex::default(), bell: Notify::new() };
        let member = waiting.members.join(make);
        let rank = waiting.rank;
        state.order.insert(rank, field);
        member
    }

    /// It goes away, with or without the lock.
    pub(crate) fn leave(&self, member: &Member) {
        self.state().change(|state| {
            let Some(waiting) = state.owners.get_mut(&member.slot.field) else { return };
            waiting.members.remove(member.number);
            if waiting.members.is_empty() {
                let (rank, told) = (waiting.rank, waiting.told);
                state.order.remove(&rank);
                state.told.remove(&(told, rank.1));
                state.owners.remove(&member.slot.field);
                shrink(&mut state.owners);
            }
        });
    }

    /// The server has this owner in its queue, just now if it is `fresh`.
    pub(crate) fn rank(&self, field: &Arc<str>, came: Came, fresh: bool) {
        self.state().change(|state| {
            let Some(waiting) = state.owners.get_mut(field) else { return };
            let (before, now) = (waiting.told, Instant::now());
            waiting.told = now;
            state.told.remove(&(before, waiting.rank.1));
            state.told.insert((now, waiting.rank.1), field.clone());
            if !fresh && waiting.rank.0 != NOT_YET {
                return;
            }
            let (old, new) = (waiting.rank, (came, waiting.rank.1));
            waiting.rank = new;
            state.order.remove(&old);
            state.order.insert(new, field.clone());
        });
    }

    /// Whether anybody waits as this owner.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.state().owners.contains_key(field)
    }

    /// One of them asks for the lock now, in the name of all.
    pub(crate) fn asks(&self) {
        self.state().asked = Some(Instant::now());
    }

    /// For the first of them: since when none has asked.
    pub(crate) fn asked(&self, member: &Arc<Member>) -> Option<Instant> {
        let state = self.state();
        let is_first = state.first().is_some_and(|first| Arc::ptr_eq(first, member));
        is_first.then(|| state.asked.unwrap_or_else(Instant::now))
    }

    /// For the first of them: the owners that the server should hear of now, in batches.
    pub(crate) fn due(&self, member: &Arc<Member>) -> Vec<Vec<Arc<str>>> {
        let mut state = self.state();
        if !state.first().is_some_and(|first| Arc::ptr_eq(first, member)) {
            return Vec::new();
        }
        let now = Instant::now();
        let mut due: Vec<Arc<str>> = Vec::new();
        // Those without a rank are about to ask for the first time.
        while due.len() < BATCH * BATCHES {
            let oldest = state.told.first_entry().filter(|told| now.duration_since(told.key().0) >= REFRESH);
            let Some(((_, arrival), field)) = oldest.map(OccupiedEntry::remove_entry) else { break };
            if let Some(waiting) = state.owners.get_mut(&field) {
                waiting.told = now;
            }
            state.told.insert((now, arrival), field.clone());
            due.push(field);
        }
        due.chunks(BATCH).map(<[_]>::to_vec).collect()
    }

    /// The server does not have this owner in its queue.
    pub(crate) fn missing(&self, field: &str) {
        if let Some(waiting) = self.state().owners.get(field) {
            for member in waiting.members.iter() {
                member.tell(News::Ask);
            }
        }
    }

    /// Ends every wait, and says whose they were.
    pub(crate) fn close(&self) -> Vec<Arc<Member>> {
        let ended = std::mem::take(&mut *self.state());
        let members: Vec<_> = ended.owners.values().flat_map(|waiting| waiting.members.iter().cloned()).collect();
        for member in &members {
            member.tell(News::Closed);
        }
        members
    }
}
