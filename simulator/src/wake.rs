//! How long a lock stays free while somebody waits for it, and nothing is in the way.

use std::collections::{BTreeMap, BTreeSet};

use lockson_embedded::{Commit, Value};

use crate::judge::Judge;
use crate::plan::{Fault, Kind, Plan, TIMEOUT};
use crate::take::name_of;
use crate::waits::{Free, SETTLED, TOLD};

/// Nobody tells of a key that an operator deletes: waiters look each second.
const CAP: u64 = 1_100;

/// What is known of the key of one name.
pub struct Wake {
    name: usize,
    key: String,
    is_there: bool,
    is_latch: bool,
}

impl Wake {
    pub fn all(plan: &Plan) -> Vec<Self> {
        let mut kinds: BTreeMap<usize, BTreeSet<Kind>> = BTreeMap::new();
        for (_, turn) in plan.turns() {
            kinds.entry(turn.name).or_default().insert(turn.kind);
        }
        let is_latch = |kind: &Kind| *kind > Kind::PermitSemaphore;
        let has_key = |kind: &Kind| *kind < Kind::Multi || is_latch(kind);
        let named = kinds.into_iter().filter(|(_, kinds)| kinds.iter().all(has_key));
        let wake = |(name, kinds): (usize, BTreeSet<Kind>)| {
            let is_latch = kinds.iter().any(is_latch);
            Self { name, key: name_of((name, 0)), is_there: false, is_latch }
        };
        named.map(wake).collect()
    }

    /// A script has run.
    pub fn saw(&mut self, judge: &mut Judge, commit: &mut Commit<'_>) {
        if !commit.call.keys.contains(&self.key) {
            return;
        }
        let is_there = commit.command(&["EXISTS", &self.key]) == Ok(Value::Int(1));
        match (self.is_there, is_there) {
            (true, false) => judge.freed(self.name, TOLD),
            (_, true) if !self.is_latch => judge.is_had(self.name),
            _ => {}
        }
        self.is_there = is_there;
    }
}

impl Judge {
    pub fn waits(&mut self, task: usize, name: usize) {
        let now = self.now();
        self.waits.waiting.insert(task, (name, now));
    }

    /// A task waits no more, with or without what it waited for.
    pub fn waits_no_more(&mut self, task: usize) {
        if let Some((name, _)) = self.waits.waiting.get(&task).copied() {
            self.judge_wait(name);
        }
        self.waits.waiting.remove(&task);
    }

    fn freed(&mut self, name: usize, within: u64) {
        let now = self.now();
        // Who waits behind a hold of its own process that is gone looks at the cap.
        let within = if self.is_sound(name) { within } else { CAP };
        self.waits.free.entry(name).or_insert(Free { since: now, within, waited: 0 });
    }

    fn is_had(&mut self, name: usize) {
        self.judge_wait(name);
        self.waits.free.remove(&name);
    }

    pub fn watch(&mut self, wakes: &[Wake]) {
        self.waits.watched = wakes.iter().map(|wake| wake.name).collect();
    }

    /// An operator deletes it.
    pub fn deleted(&mut self, name: usize) {
        if self.waits.watched.contains(&name) {
            self.freed(name, CAP);
        }
    }

    fn judge_wait(&mut self, name: usize) {
        let now = self.now();
        let Some(Free { since, within, waited }) = self.waits.free.get(&name).copied() else { return };
        // Ways that became slow since then count too.
        let within = within + self.waits.slow + self.waits.unheard;
        let waits = |(other, from): &(usize, u64)| *other == name && from + waited <= since;
        let is_waited_for = self.waits.waiting.values().any(waits);
        if is_waited_for && self.waits.noise <= since && now - since > within {
            self.fails(format!("name {name} was free for {} ms, and is waited for", now - since));
            self.waits.free.remove(&name);
        }
    }

    /// A fault is in the way of messages and calls for a while.
    pub fn disturbs(&mut self, fault: &Fault, lasts: u64) {
        self.is_calm = false;
        let until = match fault {
            Fault::Delete { .. } | Fault::Reopen { .. } | Fault::Polls { .. } | Fault::Stray { .. } => return,
            // Nothing is lost: it is asked, heard of, and asked again.
            Fault::Slow { there, back, .. } => {
                self.waits.slow = self.waits.slow.max(4 * (there + back));
                return;
            }
            Fault::Messages { count, .. } => {
                self.waits.unheard += count * CAP;
                return;
            }
            // Places in a queue that were left are there again, until their client is silent.
            Fault::Rollback { .. } => u64::MAX,
            // Each of them is missed, and made again.
            Fault::Calls { count, .. } | Fault::Cut { count, .. } => {
                self.waits.unheard += count * (3 * TIMEOUT + CAP);
                return;
            }
            // Nobody knows whom it would have woken.
            Fault::Crash { .. } => u64::MAX,
            _ => self.now() + lasts + SETTLED,
        };
        self.waits.noise = self.waits.noise.max(until);
    }
}
