//! What a client knows of the life of its server: whether it may have lost what it granted. Rule 21 of
//! docs/PROTOCOL.md.

use std::time::Duration;

use parking_lot::Mutex;

use crate::base::clock::{Moment, ServerTime};

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

#[derive(Debug, Default)]
pub(crate) struct Life {
    run: Mutex<Option<Run>>,
}

impl Life {
    /// A new client was answered by this run, which has not voted yet.
    pub(crate) fn met(&self, id: &str) {
        *self.run.lock() = Some(Run { id: id.to_owned(), marked: None, changed: None });
    }

    /// A vote that was read at `now` came from this run, which had lost nothing for `age`, since that moment of its
    /// clock.
    pub(crate) fn saw(&self, id: &str, since: ServerTime, age: Duration, now: Moment) {
        let mut run = self.run.lock();
        let changed = match &*run {
            Some(old) if old.id == id => match &old.marked {
                Some(marked) if marked.since == since => return,
                Some(_) => Some(now),
                None => old.changed,
            },
            Some(_) => Some(now),
            None => None,
        };
        *run = Some(Run { id: id.to_owned(), marked: Some(Marked { since, age, told: now }), changed });
    }

    /// The run that was seen last.
    pub(crate) fn id(&self) -> Option<String> {
        self.run.lock().as_ref().map(|run| run.id.clone())
    }

    /// Whether it is no use to ask for a vote.
    pub(crate) fn is_known_to_rest(&self, trust: Trust, now: Moment) -> bool {
        let has_voted = self.run.lock().as_ref().is_some_and(|run| run.marked.is_some());
        has_voted && self.rests(trust, now).is_some()
    }

    /// For how long the server's votes don't count yet; `None` when they do.
    pub(crate) fn rests(&self, trust: Trust, now: Moment) -> Option<Duration> {
        if trust.durable {
            return None;
        }
        let run = self.run.lock();
        let Some(Run { marked: Some(marked), changed, .. }) = &*run else { return Some(trust.max_lease) };
        let age = marked.age.saturating_add(now.since(marked.told));
        let known = match changed {
            // Its own clock may be wrong: it is no older than what was seen of it.
            Some(changed) => age.min(now.since(*changed)),
            None if trust.fresh => trust.max_lease,
            None => age,
        };
        Some(trust.max_lease.saturating_sub(known)).filter(|left| !left.is_zero())
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
        life.saw("a", 1, Duration::from_secs(5), at(1000));
        life.saw("a", 1, HOUR, at(1010));
        assert_eq!(life.rests(TRUST, at(1010)), Some(Duration::from_secs(45)));
    }

    #[test]
    fn a_server_that_did_not_vote_may_be_asked_and_is_not_believed() {
        let life = Life::default();
        for _ in 0..2 {
            assert_eq!(life.rests(TRUST, at(1)), Some(MINUTE));
            assert!(!life.is_known_to_rest(TRUST, at(1)));
            life.met("a");
        }
    }
}
