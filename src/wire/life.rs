//! What a client knows of the life of its servers: whether they may have lost what they granted; and a time after a
//! failover in which a node grants nothing, as its holder may not be told yet. Rules 21 and 25 of docs/PROTOCOL.md.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use parking_lot::Mutex;

use crate::backend::node::Node;
use crate::backend::{Fate, Slots, QUARANTINE};
use crate::base::clock::{Moment, ServerTime};
use crate::base::fault::Refused;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::Wire;
use crate::wire::table::script;

/// One life of a server: a run, from the moment since which it has lost nothing.
#[derive(Debug)]
struct Run {
    id: String,
    /// `None` until it gave a vote.
    marked: Option<Marked>,
    /// When it was first seen in the place of another.
    changed: Option<Moment>,
}

/// What its marker says.
#[derive(Debug)]
struct Marked {
    since: ServerTime,
    /// How long ago that was by the server's clock, no later than `told`. What is told later is not asked for: that
    /// clock may have been set ahead.
    age: Duration,
    told: Moment,
}

/// Which servers are believed not to have lost a lease that still counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trust {
    /// No lease that a server granted before it lost its data counts longer than this.
    pub(crate) max_lease: Duration,
    /// The servers may be as young as they like the first time that they are seen.
    pub(crate) fresh: bool,
    /// They lose nothing when they restart.
    pub(crate) durable: bool,
}

/// By the slot: in a cluster each may have another server, and none is known to have what another one has.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// Whether another server may take the place of one: then none loses nothing.
    fails_over: bool,
    runs: Mutex<HashMap<u16, Run>>,
    /// Slots whose server was found to be another, and when.
    lost: Mutex<Vec<(Slots, Moment)>>,
}

impl Life {
    pub(crate) fn new(fails_over: bool) -> Self {
        Self { fails_over, ..Self::default() }
    }

    /// A new client was answered by this run, which has not voted yet.
    pub(crate) fn met(&self, slot: u16, id: &str) {
        self.runs.lock().insert(slot, Run { id: id.to_owned(), marked: None, changed: None });
    }

    /// These slots have another server from now on.
    pub(crate) fn lost(&self, slots: &Slots, now: Moment) {
        let is_new =
            |old: &RangeInclusive<u16>| slots.iter().any(|new| new.contains(old.start()) && new.contains(old.end()));
        let mut lost = self.lost.lock();
        // What is said of their slots anew is all that counts: however often servers change, few are kept.
        lost.retain_mut(|(before, _)| {
            before.retain(|old| !is_new(old));
            !before.is_empty()
        });
        lost.push((slots.clone(), now));
    }

    /// A vote that was read at `now` came from this run, which had lost nothing for `age`, since that moment of its
    /// clock.
    pub(crate) fn saw(&self, slot: u16, id: &str, since: ServerTime, age: Duration, now: Moment) {
        let mut runs = self.runs.lock();
        let changed = match runs.get(&slot) {
            Some(old) if old.id == id => match &old.marked {
                Some(marked) if marked.since == since => return,
                Some(_) => Some(now),
                None => old.changed,
            },
            Some(_) => Some(now),
            None => None,
        };
        runs.insert(slot, Run { id: id.to_owned(), marked: Some(Marked { since, age, told: now }), changed });
    }

    /// The run that was seen last.
    pub(crate) fn id(&self, slot: u16) -> Option<String> {
        self.runs.lock().get(&slot).map(|run| run.id.clone())
    }

    /// Whether it is no use to ask for a vote.
    pub(crate) fn is_known_to_rest(&self, slot: u16, trust: Trust, now: Moment) -> bool {
        let has_voted = self.runs.lock().get(&slot).is_some_and(|run| run.marked.is_some());
        has_voted && self.rests(slot, trust, now).is_some()
    }

    /// For how long the server's votes don't count yet; `None` when they do.
    pub(crate) fn rests(&self, slot: u16, trust: Trust, now: Moment) -> Option<Duration> {
        if trust.durable && !self.fails_over {
            return None;
        }
        let runs = self.runs.lock();
        let Some(Run { marked: Some(marked), changed, .. }) = runs.get(&slot) else { return Some(trust.max_lease) };
        let age = marked.age.saturating_add(now.since(marked.told));
        let known = match self.lost_at(slot).max(*changed) {
            // Its own clock may be wrong: it is no older than what was seen of it.
            Some(changed) => age.min(now.since(changed)),
            None if trust.fresh => trust.max_lease,
            None => age,
        };
        Some(trust.max_lease.saturating_sub(known)).filter(|left| !left.is_zero())
    }

    fn lost_at(&self, slot: u16) -> Option<Moment> {
        let lost = self.lost.lock();
        let its = lost.iter().filter(|(slots, _)| slots.iter().any(|range| range.contains(&slot)));
        its.map(|(_, at)| *at).max()
    }
}

impl Wire {
    /// Whether a node may be sent this call: one that takes something may not as long as that node may have lost what
    /// it, or the one before it, granted. It is asked when something is to be taken there for the first time.
    pub(super) async fn may_take(&self, takes: bool, node: &Arc<Node>, key: &str) -> Result<(), Fate> {
        let Some(quarantine) = self.quarantine.filter(|_| takes) else { return Ok(()) };
        let from = match node.grants_from() {
            Some(from) => from,
            None => {
                // It is rare, so it takes no room in every call.
                let age = self.age(node, key).boxed().await?;
                node.grant_from(self.clock.now().after(quarantine.saturating_sub(age)))
            }
        };
        match from.since(self.clock.now()) {
            Duration::ZERO => Ok(()),
            left => Err(Fate::Refused(Refused::Quarantine(left))),
        }
    }

    /// How long ago a node may have lost something last.
    async fn age(&self, node: &Arc<Node>, key: &str) -> Result<Duration, Fate> {
        let script = script!("quarantine" after "boot", []);
        let marker = self.backend.marker(QUARANTINE, key);
        match self.call_at(node, script, &[&*marker], &[]).await {
            Ok(Answer { status: Status::Refused(why), .. }) => Err(Fate::Refused(why)),
            Ok(answer) => Ok(answer.run().map(|(_, _, age)| age).unwrap_or_default()),
            // What was to be granted was not sent.
            Err(Fate::Doubtful(why)) => Err(Fate::NotSent(why)),
            Err(fate) => Err(fate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);
    const TRUST: Trust = Trust { max_lease: MINUTE, fresh: false, durable: false };

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn a_clock_that_is_set_ahead_makes_nothing_older() {
        let life = Life::default();
        life.saw(0, "a", 1, Duration::from_secs(5), at(1000));
        life.saw(0, "a", 1, HOUR, at(1010));
        assert_eq!(life.rests(0, TRUST, at(1010)), Some(Duration::from_secs(45)));
    }

    /// A slot that this client did not vote in yet, of a server that it saw replaced.
    #[test]
    fn neither_fresh_nor_durable_counts_for_a_server_in_the_place_of_another() {
        let life = Life::new(true);
        life.lost(&vec![0..=9], at(1000));
        let trusts = [TRUST, Trust { fresh: true, ..TRUST }, Trust { durable: true, ..TRUST }];
        for (slot, rest) in [(5, Some(Duration::from_secs(50))), (10, None)] {
            life.saw(slot, "a", 1, HOUR, at(1010));
            assert_eq!(trusts.map(|trust| life.rests(slot, trust, at(1010))), [rest; 3]);
        }
        let durable = Trust { durable: true, ..TRUST };
        assert_eq!(
            [true, false].map(|fails_over| Life::new(fails_over).rests(0, durable, at(1))),
            [Some(MINUTE), None]
        );
    }

    #[test]
    fn what_is_said_anew_of_slots_takes_the_place_of_what_was() {
        let life = Life::new(true);
        for (slots, kept) in [(vec![0..=9, 20..=29], 1), (vec![20..=39], 2), (vec![0..=4], 3), (vec![0..=99], 1)] {
            life.lost(&slots, at(1));
            assert_eq!(life.lost.lock().len(), kept, "{slots:?}");
        }
    }

    #[test]
    fn a_server_that_did_not_vote_may_be_asked_and_is_not_believed() {
        let life = Life::default();
        for _ in 0..2 {
            assert_eq!(life.rests(0, TRUST, at(1)), Some(MINUTE));
            assert!(!life.is_known_to_rest(0, TRUST, at(1)));
            life.met(0, "a");
        }
    }
}
