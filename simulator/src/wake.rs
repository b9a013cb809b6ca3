//! How long a lock stays free while somebody waits for it, and nothing is in the way.

use std::collections::{BTreeMap, BTreeSet};

use lockson_embedded::{Commit, Value};

use crate::judge::Judge;
use crate::plan::{Fault, Kind, Plan};
use crate::take::name_of;

/// A message comes at once; those who were told may stand aside for others, for 50 ms each.
const TOLD: u64 = 200;
/// Nobody tells of a key that an operator deletes: waiters look each second.
const CAP: u64 = 1_100;
/// What a fault leaves behind is over by then.
const SETTLED: u64 = 6_000;

/// What is known of the key of one name.
pub struct Wake {
    name: usize,
    key: String,
    is_there: bool,
}

impl Wake {
    pub fn all(plan: &Plan) -> Vec<Self> {
        let mut kinds: BTreeMap<usize, BTreeSet<Kind>> = BTreeMap::new();
        for (_, turn) in plan.turns() {
            kinds.entry(turn.name).or_default().insert(turn.kind);
        }
        let has_key = |kind: &Kind| *kind < Kind::Multi;
        let names = kinds.into_iter().filter(|(_, kinds)| kinds.iter().all(has_key)).map(|(name, _)| name);
        names.map(|name| Self { name, key: name_of((name, 0)), is_there: false }).collect()
    }

    /// A script has run.
    pub fn saw(&mut self, judge: &mut Judge, commit: &mut Commit<'_>) {
        if !commit.call.keys.contains(&self.key) {
            return;
        }
        let is_there = commit.command(&["EXISTS", &self.key]) == Ok(Value::Int(1));
        match (self.is_there, is_there) {
            (true, false) => judge.freed(self.name, TOLD),
            (_, true) => judge.is_had(self.name),
            _ => {}
        }
        self.is_there = is_there;
    }
}

/// What is waited for, and what is free.
#[derive(Default)]
pub struct Waits {
    /// By task: of which name, and since when.
    waiting: BTreeMap<usize, (usize, u64)>,
    /// By name: since when, and how long it may stay so.
    free: BTreeMap<usize, (u64, u64)>,
    /// Until then something is in the way.
    noise: u64,
    /// The names that have a key while they are held.
    watched: BTreeSet<usize>,
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
        let within = if self.damages.is_empty() { within } else { CAP };
        self.waits.free.entry(name).or_insert((now, within));
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
        let Some((since, within)) = self.waits.free.get(&name).copied() else { return };
        let is_waited_for = self.waits.waiting.values().any(|(other, from)| *other == name && *from <= since);
        if is_waited_for && self.waits.noise <= since && now - since > within {
            self.fails(format!("name {name} was free for {} ms, and is waited for", now - since));
            self.waits.free.remove(&name);
        }
    }

    /// A fault is in the way of messages and calls for a while.
    pub fn disturbs(&mut self, fault: &Fault, lasts: u64) {
        let until = match fault {
            Fault::Delete { .. } => return,
            // Places in a queue that were left are there again, until their client is silent.
            Fault::Rollback { .. } => u64::MAX,
            // Nobody knows when these calls are made.
            Fault::Calls { .. } | Fault::Messages { .. } | Fault::Cut { .. } | Fault::Crash { .. } => u64::MAX,
            _ => self.now() + lasts + SETTLED,
        };
        self.waits.noise = self.waits.noise.max(until);
    }
}
