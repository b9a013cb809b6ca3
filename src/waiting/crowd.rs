//! Those of this process who wait in the server's queue for one lock: which owner is the first there, and which are due
//! to say that they still wait. Rule 17 of docs/PROTOCOL.md.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::clock::ServerTime;
use crate::base::registry::shrink;
use crate::waiting::waiters::{Mail, Waiter, Waiters};

/// An owner that does not ask itself is said to be there this often.
const REFRESH: Duration = Duration::from_secs(20);
/// Another asks for all where the first did not for so long, as its future may be kept and not polled: the server takes
/// a client that is silent for 3 s for dead, and whoever has no place there any more is told of nothing.
const SILENCE: Duration = Duration::from_secs(2);
/// Owners in one script.
const BATCH: usize = 100;
/// Scripts at one look.
const BATCHES: usize = 8;

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

/// Those who wait for one lock.
pub(crate) struct Crowd<W, P> {
    owners: HashMap<Arc<str>, OwnerHere<W, P>>,
    order: BTreeMap<Rank, Arc<str>>,
    /// How many ask for the lock now, and when any of them last did.
    asking: usize,
    asked: Option<Instant>,
    /// Who asks for all in place of the first.
    stand_in: Option<u64>,
}

impl<W, P> Default for Crowd<W, P> {
    fn default() -> Self {
        Self { owners: HashMap::new(), order: BTreeMap::new(), asking: 0, asked: None, stand_in: None }
    }
}

impl<W, P> Crowd<W, P> {
    fn first(&self) -> Option<&Arc<Waiter<W, P>>> {
        self.order.values().next().and_then(|field| self.owners.get(field)?.waiters.first())
    }

    fn is_first(&self, waiter: &Waiter<W, P>) -> bool {
        self.first().is_some_and(|first| first.number == waiter.number)
    }

    /// Changes who is there, and rings for whoever has become the first by that.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.first().map(|first| first.number);
        change(self);
        if let Some(first) = self.first().filter(|first| Some(first.number) != before) {
            first.ring();
        }
    }

    /// A waiter arrives; until its rank is known it is behind all others.
    pub(crate) fn join(&mut self, field: &Arc<str>, wish: W) -> Arc<Waiter<W, P>> {
        let fresh = || OwnerHere { rank: (NOT_YET, 0), waiters: Waiters::default(), told: Instant::now() };
        let owner = self.owners.entry(field.clone()).or_insert_with(fresh);
        let waiter = Waiter::join(&mut owner.waiters, wish);
        if owner.waiters.len() == 1 {
            owner.rank.1 = waiter.number;
            self.order.insert(owner.rank, field.clone());
        }
        waiter
    }

    /// Whoever of them the server has before the others, as far as is known here.
    pub(crate) fn next(&self) -> Option<Arc<Waiter<W, P>>> {
        let (((came, _), _), field) = self.order.first_key_value()?;
        let owner = self.owners.get(field).filter(|_| *came != NOT_YET.0)?;
        owner.waiters.iter().find(|waiter| waiter.is_waiting()).cloned()
    }

    /// It goes away, with or without the lock. Returns what it did not read.
    pub(crate) fn leave(&mut self, field: &str, waiter: &Waiter<W, P>) -> Mail<P> {
        self.change(|crowd| {
            let Some(owner) = crowd.owners.get_mut(field) else { return };
            owner.waiters.remove(waiter);
            if owner.waiters.is_empty() {
                crowd.order.remove(&owner.rank);
                crowd.owners.remove(field);
                shrink(&mut crowd.owners);
            }
        });
        waiter.go()
    }

    /// The server has this owner in its queue, just now if it is `fresh`.
    pub(crate) fn rank(&mut self, field: &Arc<str>, came: Came, fresh: bool) {
        let Some(owner) = self.owners.get_mut(field) else { return };
        owner.told = Instant::now();
        if fresh || owner.rank.0 == NOT_YET {
            self.stands(field, came);
        }
    }

    /// The server has this owner in its queue no more: until it has asked anew, others speak for all.
    pub(crate) fn left(&mut self, field: &Arc<str>) {
        if self.has(field) {
            self.stands(field, NOT_YET);
        }
    }

    fn stands(&mut self, field: &Arc<str>, came: Came) {
        self.change(|crowd| {
            let Some(owner) = crowd.owners.get_mut(field) else { return };
            crowd.order.remove(&owner.rank);
            owner.rank.0 = came;
            crowd.order.insert(owner.rank, field.clone());
        });
    }

    /// Whether anybody waits as this owner.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.owners.contains_key(field)
    }

    /// One of them asks for the lock now, in the name of all.
    pub(crate) fn asks(&mut self) {
        self.asking += 1;
        self.asked = Some(Instant::now());
    }

    /// It was answered, or went away.
    pub(crate) fn answered(&mut self) {
        self.asking = self.asking.saturating_sub(1);
        self.asked = Some(Instant::now());
    }

    /// For the first of them: since when none has asked.
    pub(crate) fn asked(&self, waiter: &Waiter<W, P>) -> Option<Instant> {
        self.is_first(waiter).then(|| self.asked.unwrap_or_else(Instant::now))
    }

    /// When another looks whether the first is silent: of many, one after the other.
    pub(crate) fn silent_at(&self, waiter: &Waiter<W, P>) -> Instant {
        let turn = waiter.number.checked_rem(self.owners.len() as u64).unwrap_or_default();
        // One in the middle of its call is not silent.
        let since = self.asked.filter(|_| self.asking == 0).unwrap_or_else(Instant::now);
        since + SILENCE + Duration::from_millis(turn)
    }

    /// Whether it is to ask in place of the first.
    pub(crate) fn stands_in(&mut self, waiter: &Waiter<W, P>) -> bool {
        let is_silent = Instant::now() >= self.silent_at(waiter);
        if is_silent {
            self.asked = Some(Instant::now());
            self.stand_in = Some(waiter.number);
        }
        is_silent
    }

    /// For who asks for all: the owners that the server should hear of now, in batches.
    pub(crate) fn due(&mut self, waiter: &Waiter<W, P>) -> Vec<Vec<Arc<str>>> {
        let stands_in = self.stand_in.take_if(|number| *number == waiter.number).is_some();
        if !stands_in && !self.is_first(waiter) {
            return Vec::new();
        }
        let now = Instant::now();
        let silent = self.order.keys().next().filter(|_| stands_in).copied();
        // Those without a rank are about to ask for the first time. Nobody speaks for one that is silent.
        let is_due = |OwnerHere { rank, told, .. }: &OwnerHere<W, P>| {
            rank.0 != NOT_YET && Some(*rank) != silent && now.duration_since(*told) >= REFRESH
        };
        let mut due: Vec<_> = self.owners.iter_mut().filter(|(_, owner)| is_due(owner)).collect();
        due.sort_unstable_by_key(|(_, owner)| (owner.told, owner.rank.1));
        due.truncate(BATCH * BATCHES);
        due.iter_mut().for_each(|(_, owner)| owner.told = now);
        due.chunks(BATCH).map(|batch| batch.iter().map(|(field, _)| Arc::clone(field)).collect()).collect()
    }

    /// The server does not have this owner in its queue.
    pub(crate) fn missing(&self, field: &str) {
        if let Some(owner) = self.owners.get(field) {
            owner.waiters.iter().for_each(|waiter| waiter.post(Mail::Try));
        }
    }

    /// Ends every wait, and says whose they were.
    pub(crate) fn close(&mut self) -> Vec<Arc<Waiter<W, P>>> {
        let ended = std::mem::take(self);
        // In their order, not in that of a hash.
        let owners = ended.order.values().filter_map(|field| ended.owners.get(field));
        let waiters: Vec<_> = owners.flat_map(|owner| owner.waiters.iter().cloned()).collect();
        waiters.iter().for_each(|waiter| waiter.post(Mail::Closed));
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It asks for the lock in the name of all: where nobody is the first, nobody does.
    #[test]
    fn who_waits_alone_is_the_first() {
        let mut crowd: Crowd<u32, ()> = Crowd::default();
        let field: Arc<str> = "a".into();
        let alone = crowd.join(&field, 0);
        assert!(crowd.is_first(&alone) && crowd.asked(&alone).is_some());
        let again = crowd.join(&field, 0);
        crowd.leave("a", &alone);
        assert!(crowd.is_first(&again));
    }

    /// Owners in the order of the server's queue, and of their arrival where that is not known; those of one owner by
    /// their arrival.
    #[test]
    fn the_first_is_of_the_first_owner() {
        let mut crowd: Crowd<u32, ()> = Crowd::default();
        let fields: [Arc<str>; 2] = ["a", "b"].map(Arc::from);
        let [one, two] = fields.each_ref().map(|field| crowd.join(field, 0));
        let again = crowd.join(&fields[0], 1);
        assert!(crowd.has("a") && crowd.has("b") && !crowd.has("c"));
        assert!(crowd.is_first(&one) && !crowd.is_first(&two) && !crowd.is_first(&again));
        crowd.leave("a", &one);
        assert!(crowd.is_first(&again), "its owner came first");
        crowd.rank(&fields[1], (1, 1), true);
        assert!(crowd.is_first(&two));
        crowd.leave("b", &two);
        assert!(crowd.is_first(&again) && !crowd.has("b"));
        crowd.leave("a", &again);
        assert!(crowd.first().is_none() && crowd.order.is_empty());
    }

    /// It is handed over to whoever of the first owner would take it, while the server has that in its queue.
    #[test]
    fn the_next_is_one_that_would_take_it() {
        let mut crowd: Crowd<u32, ()> = Crowd::default();
        let fields: [Arc<str>; 2] = ["a", "b"].map(Arc::from);
        let [one, two] = fields.each_ref().map(|field| crowd.join(field, 0));
        let again = crowd.join(&fields[0], 1);
        let next = |crowd: &Crowd<u32, ()>| crowd.next().map(|waiter| waiter.number);
        assert_eq!(next(&crowd), None, "none has asked");
        crowd.rank(&fields[0], (1, 1), true);
        crowd.rank(&fields[1], (2, 2), true);
        assert_eq!(next(&crowd), Some(one.number));
        one.post(Mail::Won(()));
        assert_eq!(next(&crowd), Some(again.number), "it was given it");
        assert!(one.lapse());
        assert_eq!(next(&crowd), Some(again.number), "it did not take it");
        again.post(Mail::Closed);
        assert_eq!(next(&crowd), None);
        crowd.left(&fields[0]);
        assert!(next(&crowd) == Some(two.number) && crowd.is_first(&two));
        crowd.rank(&fields[0], (1, 1), false);
        assert!(crowd.is_first(&one), "it is in the queue again");
    }
}
