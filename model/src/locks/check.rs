//! What has to be so in every state.

use super::{Entry, Role, Scope, State, Verb, LEASE};
use crate::locks::kinds::LOCK;
use crate::server::{number, words};

pub const EXCLUSION: &str = "at most one valid holder";
pub const COUNTS: &str = "the server's count is the registry's";
pub const TTL: &str = "every key ends by itself";
pub const ORDER: &str = "the fair order is the queue's";
pub const NOTHING_LEFT: &str = "nothing is left at the end";

impl Entry {
    fn is_valid(&self, now: i64) -> bool {
        self.count > 0 && !self.leaving && now < self.until
    }
}

impl Scope {
    /// Whether everybody did all that it wanted, and nothing is under way.
    pub(super) fn is_done(&self, state: &State) -> bool {
        let did_all = |(who, entry): (usize, &Entry)| usize::from(entry.step) == self.owners[who].steps.len();
        state.entries.iter().enumerate().all(did_all) && (0..self.owners.len()).all(|who| self.is_quiet(state, who))
    }

    /// Whether no call of an owner, and no copy of one, can change what the server has of it.
    fn is_quiet(&self, state: &State, who: usize) -> bool {
        let entry = &state.entries[who];
        let owes = entry.unanswered || !entry.sweeps.is_empty();
        let is_past = entry.release_doubt < state.now && entry.acquire_doubt < state.now;
        let mut copies =
            state.copies.iter().filter(|copy| (copy.by == who || copy.to == who) && copy.verb != Verb::Renew);
        entry.is_open() && !owes && is_past && copies.all(|copy| copy.not_after < state.now)
    }

    pub(super) fn wrong(&self, state: &State) -> Option<&'static str> {
        self.not_excluded(state).or_else(|| {
            self.servers.at(0, &state.keys, state.now, |server| {
                let keys = words(server, &["KEYS", "*"]);
                let mut ttls = keys.iter().map(|key| number(server, &["PTTL", key]));
                if ttls.any(|ttl| ttl < 0) || number(server, &["PTTL", LOCK]) > LEASE {
                    return Some(TTL);
                }
                for (who, entry) in state.entries.iter().enumerate().filter(|(who, _)| self.is_quiet(state, *who)) {
                    let count = number(server, &["HGET", LOCK, self.owners[who].field]);
                    let holds = entry.is_valid(state.now) && entry.life == state.life;
                    if holds && count != i64::from(entry.count) {
                        return Some(COUNTS);
                    }
                    if entry.count == 0 && count != 0 {
                        return Some(NOTHING_LEFT);
                    }
                }
                // The readers' turn ends within 100 ms.
                let left = keys.iter().filter(|key| !key.contains("readers_turn")).count();
                (self.is_done(state) && left > 0).then_some(NOTHING_LEFT)
            })
        })
    }

    /// Two that believe to hold it at once, both by this life of the server, or both by an earlier one.
    fn not_excluded(&self, state: &State) -> Option<&'static str> {
        let valid: Vec<usize> = (0..self.owners.len()).filter(|who| state.entries[*who].is_valid(state.now)).collect();
        let keeps_out = |one: usize, other: usize| {
            let (a, b) = (&self.owners[one], &self.owners[other]);
            let shares = a.kind.role == Role::Read && b.kind.role == Role::Read || a.sibling == Some(other);
            one < other && !shares && state.entries[one].life == state.entries[other].life
        };
        let pairs = valid.iter().flat_map(|one| valid.iter().map(move |other| (*one, *other)));
        pairs.filter(|(one, other)| keeps_out(*one, *other)).map(|_| EXCLUSION).next()
    }
}
