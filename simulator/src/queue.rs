//! The order of a fair lock, as its queue on the server has it: nobody gets the lock before one who stands further to
//! the front, and nobody leaves the queue unasked whose client was heard of lately.

use std::collections::{BTreeMap, BTreeSet};

use lockson::Locks;
use lockson_embedded::{Commit, Value};

use crate::judge::Judge;
use crate::plan::{Kind, Plan};
use crate::take::name_of;

/// A client that was silent for so long may lose its places.
const SILENT_MS: i64 = 3_000;

/// Which argument of an acquire says that it waits.
const WAITS: usize = 5;

/// What is known of the queue of one name.
pub struct Queue {
    name: usize,
    key: String,
    list: String,
    holder: Option<String>,
    waiting: Vec<String>,
    /// When each client's last script about it ran, by the server's clock, and each waiter's.
    heard: BTreeMap<u64, i64>,
    named: BTreeMap<String, i64>,
    /// By their SHA-1: which scripts ask for the lock, and which say that others wait.
    asking: BTreeMap<String, [bool; 2]>,
    /// Since when the first is the first.
    first: i64,
    /// The connections of the clients by their ids, which their fields begin with.
    clients: Vec<String>,
}

impl Queue {
    pub fn all(plan: &Plan, clients: &[Vec<Locks>]) -> Vec<Self> {
        let fair = [Kind::Fair, Kind::FairMutex, Kind::FencedFair, Kind::Mixed];
        let turns = plan.turns().filter(|(_, turn)| fair.contains(&turn.kind));
        let names: BTreeSet<usize> = turns.map(|(_, turn)| turn.name).collect();
        let queue = |name| {
            let key = name_of((name, 0));
            Self {
                name,
                list: format!("redisson_lock_queue:{{{key}}}"),
                key,
                holder: None,
                waiting: Vec::new(),
                heard: BTreeMap::new(),
                named: BTreeMap::new(),
                asking: BTreeMap::new(),
                first: 0,
                clients: clients.iter().map(|servers| servers[0].client_id().to_owned()).collect(),
            }
        };
        names.into_iter().map(queue).collect()
    }

    /// Whether a waiter counts as dead: its client was silent, or it was itself, though it was the next.
    fn is_silent(&self, waiter: &str, now: i64) -> bool {
        let client = self.clients.iter().position(|id| waiter.starts_with(id.as_str()));
        let heard = client.and_then(|client| self.heard.get(&(client as u64 + 1)));
        let is_old = |heard: Option<&i64>| heard.is_none_or(|heard| now - heard >= SILENT_MS);
        let is_first = self.waiting.first().is_some_and(|first| first == waiter) && now - self.first >= SILENT_MS;
        is_old(heard) || (is_first && is_old(self.named.get(waiter)))
    }

    /// Whether somebody waits for the lock, or says that others do. Who only looks says nothing of those who wait.
    fn asks(&mut self, commit: &Commit<'_>) -> bool {
        let sha = &*commit.call.sha;
        if !self.asking.contains_key(sha) {
            let has = |title: &str| commit.call.text.contains(title);
            self.asking.insert(sha.to_owned(), [has("-- fair/acquire.lua"), has("-- fair/refresh.lua")]);
        }
        let [acquires, refreshes] = self.asking[sha];
        refreshes || acquires && commit.call.args.get(WAITS).is_some_and(|waits| waits == "1")
    }

    /// A script has run.
    pub fn saw(&mut self, judge: &mut Judge, commit: &mut Commit<'_>) {
        if !commit.call.keys.contains(&self.key) {
            return;
        }
        let now = commit.now_ms();
        let waiting = texts(commit.command(&["LRANGE", &self.list, "0", "-1"]));
        let holder = texts(commit.command(&["HKEYS", &self.key])).into_iter().next();
        let before = self.waiting.clone();
        let had = std::mem::replace(&mut self.holder, holder);
        // What an operator or a restart did to the queue came between.
        let sound = judge.is_sound(self.name) && !judge.failed_over();
        let got = self.holder.clone().filter(|holder| had.as_ref() != Some(holder));
        let ahead = before.iter().take_while(|waiter| Some(*waiter) != got.as_ref());
        let passed = ahead.filter(|waiter| got.is_some() && !self.is_silent(waiter, now));
        let gone = before.iter().filter(|waiter| !waiting.contains(waiter));
        let asked = |waiter: &&String| commit.call.args.iter().any(|arg| arg.contains(waiter.as_str()));
        let dropped = gone.filter(|waiter| !asked(waiter) && !self.is_silent(waiter, now));
        let wrong: BTreeSet<&String> = passed.chain(dropped).collect();
        if sound && !wrong.is_empty() {
            let name = self.name;
            judge.fails(format!("fair lock {name}: {wrong:?} lost their places to {got:?}, of {before:?}"));
        }
        if self.waiting.first() != waiting.first() {
            self.first = now;
        }
        self.waiting = waiting;
        // One that came late did nothing, so nobody heard it.
        let ran = matches!(commit.result, Ok(Value::List(items)) if items.first() != Some(&Value::Int(2)));
        if ran && self.asks(commit) {
            self.heard.insert(commit.connection, now);
            for waiter in self.waiting.iter().filter(|waiter| commit.call.args.iter().any(|arg| arg.contains(*waiter)))
            {
                self.named.insert(waiter.clone(), now);
            }
        }
    }
}

pub fn texts(reply: Result<Value, String>) -> Vec<String> {
    let Ok(Value::List(items)) = reply else { return Vec::new() };
    let text = |item| match item {
        Value::Bulk(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    };
    items.into_iter().filter_map(text).collect()
}
