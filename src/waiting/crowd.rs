//! Those of this process who wait in the server's queue for one lock: which owner is the first there, and which are due
//! to say that they still wait. Rule 17 of docs/PROTOCOL.md.

use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::base::clock::ServerTime;
use crate::base::registry::shrink;
use crate::waiting::waiters::{Mail, Waiter, Waiters};

/// An owner that does not ask itself is said to be there this often.
const REFRESH: Duration = Duration::from_secs(20);
/// Owners in one script.
const BATCH: usize = 100;
/// Scripts at one look.
const BATCHES: usize = 8;

/// Scripts at once by which waiters leave.
const LEAVING: usize = 64;

/// When an owner came to the queue, and its score then. Later scores are lower by what was taken off meanwhile.
type Came = (ServerTime, i64);
/// For those that did not ask yet.
const NOT_YET: Came = (ServerTime::MAX, i64::MAX);
/// Where an owner stands: as it came to the queue, then by its arrival here.
type Rank = (Came, u64);

/// Owners have one place on the server each, however many futures wait as one.
struct OwnerHere<W, P> {
    rank: Rank,
    waiters: Waiters<W, P>,
    /// When the server last heard of it.
    told: Instant,
}

struct Inner<W, P> {
    owners: HashMap<Arc<str>, OwnerHere<W, P>>,
    order: BTreeMap<Rank, Arc<str>>,
    /// Those with a rank, by when the server last heard of them.
    told: BTreeMap<(Instant, u64), Arc<str>>,
    /// When any of them last asked for the lock.
    asked: Option<Instant>,
}

impl<W, P> Default for Inner<W, P> {
    fn default() -> Self {
        Self { owners: HashMap::new(), order: BTreeMap::new(), told: BTreeMap::new(), asked: None }
    }
}

impl<W, P> Inner<W, P> {
    fn first(&self) -> Option<&Arc<Waiter<W, P>>> {
        self.order
            .values()
            .next()
            .and_then(|field| self.owners.get(field))
            .and_then(|owner| owner.waiters.values().next())
    }

    /// Changes who is there, and rings for whoever has become the first by that.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.first().cloned();
        change(self);
        let same = |now: &&Arc<Waiter<W, P>>| before.as_ref().is_some_and(|before| Arc::ptr_eq(before, now));
        if let Some(first) = self.first().filter(|first| !same(first)) {
            first.bell.notify_one();
        }
    }
}

/// Those who wait for one lock.
pub(crate) struct Crowd<W, P> {
    inner: Mutex<Inner<W, P>>,
    /// So many leave the server's queue at once: more would be asked twice, as the answers take longer than a call may.
    pub(crate) leaving: Semaphore,
}

impl<W, P> Default for Crowd<W, P> {
    fn default() -> Self {
        Self { inner: Mutex::default(), leaving: Semaphore::new(LEAVING) }
    }
}

impl<W, P> Crowd<W, P> {
    /// A waiter arrives; until its rank is known it is behind all others.
    pub(crate) fn join(&self, field: &Arc<str>, wish: W) -> Arc<Waiter<W, P>> {
        let inner = &mut *self.inner.lock();
        let fresh = || OwnerHere { rank: (NOT_YET, 0), waiters: Waiters::new(), told: Instant::now() };
        let owner = inner.owners.entry(field.clone()).or_insert_with(fresh);
        let waiter = Waiter::join(&mut owner.waiters, wish);
        if owner.waiters.len() == 1 {
            owner.rank.1 = waiter.number;
            inner.order.insert(owner.rank, field.clone());
        }
        waiter
    }

    /// It goes away, with or without the lock.
    pub(crate) fn leave(&self, field: &str, waiter: &Waiter<W, P>) {
        self.inner.lock().change(|inner| {
            let Some(owner) = inner.owners.get_mut(field) else { return };
            owner.waiters.remove(&waiter.number);
            if owner.waiters.is_empty() {
                let (rank, told) = (owner.rank, owner.told);
                inner.order.remove(&rank);
                inner.told.remove(&(told, rank.1));
                inner.owners.remove(field);
                shrink(&mut inner.owners);
            }
        });
    }

    /// The server has this owner in its queue, just now if it is `fresh`.
    pub(crate) fn rank(&self, field: &Arc<str>, came: Came, fresh: bool) {
        self.inner.lock().change(|inner| {
            let Some(owner) = inner.owners.get_mut(field) else { return };
            let (before, now) = (owner.told, Instant::now());
            owner.told = now;
            inner.told.remove(&(before, owner.rank.1));
            inner.told.insert((now, owner.rank.1), field.clone());
            if !fresh && owner.rank.0 != NOT_YET {
                return;
            }
            let (old, new) = (owner.rank, (came, owner.rank.1));
            owner.rank = new;
            inner.order.remove(&old);
            inner.order.insert(new, field.clone());
        });
    }

    /// Whether anybody waits as this owner.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.inner.lock().owners.contains_key(field)
    }

    /// One of them asks for the lock now, in the name of all.
    pub(crate) fn asks(&self) {
        self.inner.lock().asked = Some(Instant::now());
    }

    /// For the first of them: since when none has asked.
    pub(crate) fn asked(&self, waiter: &Arc<Waiter<W, P>>) -> Option<Instant> {
        let inner = self.inner.lock();
        let is_first = inner.first().is_some_and(|first| Arc::ptr_eq(first, waiter));
        is_first.then(|| inner.asked.unwrap_or_else(Instant::now))
    }

    /// For the first of them: the owners that the server should hear of now, in batches.
    pub(crate) fn due(&self, waiter: &Arc<Waiter<W, P>>) -> Vec<Vec<Arc<str>>> {
        let mut inner = self.inner.lock();
        if !inner.first().is_some_and(|first| Arc::ptr_eq(first, waiter)) {
            return Vec::new();
        }
        let now = Instant::now();
        let mut due: Vec<Arc<str>> = Vec::new();
        // Those without a rank are about to ask for the first time.
        while due.len() < BATCH * BATCHES {
            let oldest = inner.told.first_entry().filter(|told| now.duration_since(told.key().0) >= REFRESH);
            let Some(((_, arrival), field)) = oldest.map(OccupiedEntry::remove_entry) else { break };
            if let Some(owner) = inner.owners.get_mut(&field) {
                owner.told = now;
            }
            inner.told.insert((now, arrival), field.clone());
            due.push(field);
        }
        due.chunks(BATCH).map(<[_]>::to_vec).collect()
    }

    /// The server does not have this owner in its queue.
    pub(crate) fn missing(&self, field: &str) {
        if let Some(owner) = self.inner.lock().owners.get(field) {
            owner.waiters.values().for_each(|waiter| waiter.post(Mail::Try));
        }
    }

    /// Ends every wait, and says whose they were.
    pub(crate) fn close(&self) -> Vec<Arc<Waiter<W, P>>> {
        let ended = std::mem::take(&mut *self.inner.lock());
        let waiters: Vec<_> = ended.owners.values().flat_map(|owner| owner.waiters.values().cloned()).collect();
        waiters.iter().for_each(|waiter| waiter.post(Mail::Closed));
        waiters
    }
}
