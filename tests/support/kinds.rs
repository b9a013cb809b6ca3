//! The kinds of locks that the fault tests run for, and in what they differ there.

use super::files::{fenced, root, sent, silenced};
use super::Filter;
use lockson::{Backoff, Locks, RLock};
use std::sync::Arc;

/// What Redisson calls the value `value` of a group where its codec is `StringCodec`.
pub const VALUE: &str = "BxmaxkubI/Uarra/cfAAYg";

/// Scripts that a fault may be meant for.
const VERBS: [&str; 6] = ["acquire", "admit", "release", "hand_over", "renew", "settle"];

pub struct Kind {
    pub name: &'static str,
    pub make: fn(&Locks, &str) -> Arc<dyn RLock>,
    /// The kind that this one keeps out, by its name, if it is another.
    rival: Option<&'static str>,
    /// The folder of its scripts; what is not there is in `reentrant/`. Behind `fenced `: with a token.
    lua: &'static str,
    /// What its field has behind the owner.
    suffix: &'static str,
    /// Whether the server has a token in place of the owner and its count.
    pub anonymous: bool,
    /// How often one owner may hold it.
    pub deepest: u64,
    /// Whether a release inside the process is one script with the next acquisition.
    pub hands_over: bool,
    /// Where a waiter hears of a release; `{N}` is the name in braces.
    channel: Option<&'static str>,
    /// Whether a waiter asks once a second, however long the client's cap is.
    pub asks_each_second: bool,
    /// The field of its key that has an owner's count.
    count: &'static str,
    /// What it may have on the server besides its key.
    traces: &'static [&'static str],
}

const LOCK: Kind = Kind {
    name: "lock",
    make: |locks, name| Arc::new(locks.lock(name)),
    rival: None,
    lua: "reentrant",
    suffix: "",
    anonymous: false,
    deepest: 3,
    hands_over: true,
    channel: Some("redisson_lock__channel:{N}"),
    asks_each_second: false,
    count: "<field>",
    traces: &[],
};

const FAIR: Kind = Kind {
    name: "fair_lock",
    make: |locks, name| Arc::new(locks.fair_lock(name)),
    lua: "fair",
    channel: Some("redisson_lock__channel:{N}:<field>"),
    asks_each_second: true,
    traces: &[
        "redisson_lock_queue:{N}",
        "redisson_lock_timeout:{N}",
        "lockson:fair_seen:{N}",
        "lockson:fair_state:{N}",
    ],
    ..LOCK
};

const WRITE: Kind = Kind {
    name: "write",
    make: |locks, name| Arc::new(locks.read_write_lock(name).write()),
    lua: "write",
    suffix: ":write",
    hands_over: false,
    channel: Some("redisson_rwlock:{N}"),
    asks_each_second: true,
    traces: &["lockson:writers:{N}"],
    ..LOCK
};

const READ: Kind = Kind {
    name: "read",
    make: |locks, name| Arc::new(locks.read_write_lock(name).read()),
    rival: Some("write"),
    lua: "read",
    suffix: "",
    traces: &["{N}:<field>:rwlock_timeout:1", "{N}:<field>:rwlock_timeout:2", "{N}:<field>:rwlock_timeout:3"],
    asks_each_second: false,
    ..WRITE
};

const PLAIN: Kind = Kind {
    name: "plain_lock",
    make: |locks, name| Arc::new(locks.plain_lock(name)),
    lua: "plain",
    anonymous: true,
    deepest: 1,
    channel: Some("lockson:plain:{N}"),
    ..LOCK
};

/// Every kind: what is done for one is done for all.
pub static KINDS: [Kind; 15] = [
    LOCK,
    Kind { name: "mutex", make: |l, n| Arc::new(l.mutex(n)), deepest: 1, ..LOCK },
    Kind {
        name: "spin_lock",
        make: |l, n| Arc::new(l.spin_lock(n, Backoff::default())),
        lua: "silent reentrant",
        channel: None,
        ..LOCK
    },
    Kind { name: "fenced_lock", make: |l, n| Arc::new(l.fenced_lock(n)), lua: "fenced reentrant", ..LOCK },
    Kind { name: "fenced_fair", make: |l, n| Arc::new(l.fair_lock(n).fenced()), lua: "fenced fair", ..FAIR },
    Kind { name: "fenced_write", make: fenced_write, lua: "fenced write", ..WRITE },
    FAIR,
    Kind { name: "fair_mutex", make: |l, n| Arc::new(l.fair_mutex(n)), deepest: 1, ..FAIR },
    READ,
    WRITE,
    PLAIN,
    Kind {
        name: "group_lock",
        make: |l, n| Arc::new(l.group_lock(n, "value")),
        lua: "grouped",
        hands_over: false,
        asks_each_second: true,
        count: "<value>:<field>:lock_count",
        ..LOCK
    },
    Kind { name: "lock in a transaction", make: in_transaction, rival: Some("lock"), suffix: ":t1", ..LOCK },
    Kind { name: "read in a transaction", make: read_in_transaction, suffix: ":t1", ..READ },
    Kind {
        name: "write in a transaction",
        make: write_in_transaction,
        rival: Some("write"),
        suffix: ":write:t1",
        ..WRITE
    },
];

fn fenced_write(locks: &Locks, name: &str) -> Arc<dyn RLock> {
    Arc::new(locks.read_write_lock(name).write().fenced())
}

fn in_transaction(locks: &Locks, name: &str) -> Arc<dyn RLock> {
    Arc::new(locks.lock(name).in_transaction("t1").unwrap())
}

fn read_in_transaction(locks: &Locks, name: &str) -> Arc<dyn RLock> {
    Arc::new(locks.read_write_lock(name).read().in_transaction("t1").unwrap())
}

fn write_in_transaction(locks: &Locks, name: &str) -> Arc<dyn RLock> {
    Arc::new(locks.read_write_lock(name).write().in_transaction("t1").unwrap())
}

impl Kind {
    /// The kind that a hold of this one keeps out, and that keeps this one out.
    pub fn rival(&self) -> &'static Kind {
        KINDS.iter().find(|kind| kind.name == self.rival.unwrap_or(self.name)).expect("a kind")
    }

    /// Whether waiters queue on the server, and hear of their turn on a channel each.
    pub fn queues(&self) -> bool {
        self.channel.is_some_and(|channel| channel.contains("<field>"))
    }

    /// The field of an owner, as the server has it.
    pub fn field(&self, locks: &Locks, owner: &lockson::Owner) -> String {
        format!("{}:{owner}{}", locks.client_id(), self.suffix)
    }

    /// What its key has an owner's count in.
    pub fn count_field(&self, field: &str) -> String {
        fill(self.count, "", field)
    }

    /// The keys that an owner may have on the server, the lock's own first.
    pub fn keys(&self, name: &str, field: &str) -> Vec<String> {
        let traces = self.traces.iter().map(|trace| fill(trace, name, field));
        std::iter::once(name.to_owned()).chain(traces).collect()
    }

    /// Where a waiter hears of a release; a spin lock's hears nothing.
    pub fn channel(&self, name: &str, field: &str) -> Option<String> {
        self.channel.map(|channel| fill(channel, name, field))
    }

    /// Calls of one of its scripts.
    pub fn script(&self, verb: &str) -> Filter {
        Filter::script_of(&text(self.lua, verb))
    }
}

fn fill(template: &str, name: &str, field: &str) -> String {
    template.replace("<value>", VALUE).replace("<field>", field).replace("{N}", &format!("{{{name}}}"))
}

/// The text of a script as the client sends it: of its folder, or of `reentrant/`; empty where neither has it.
pub fn text(folder: &str, verb: &str) -> String {
    if let Some(folder) = folder.strip_prefix("silent ") {
        return silenced(&text(folder, verb));
    }
    let (with_token, folder) = folder.strip_prefix("fenced ").map_or((false, folder), |folder| (true, folder));
    let is_there = |script: &String| root().join(format!("lua/{script}.lua")).exists();
    let own = [folder, "reentrant"].map(|folder| format!("{folder}/{verb}")).into_iter().find(is_there);
    match own {
        Some(own) if with_token && own.starts_with(folder) && ["acquire", "hand_over"].contains(&verb) => fenced(&own),
        own => own.map(|own| sent(&own)).unwrap_or_default(),
    }
}

/// The text of every script, once.
pub fn texts() -> Vec<String> {
    let mut all: Vec<String> = KINDS.iter().flat_map(|kind| VERBS.map(|verb| text(kind.lua, verb))).collect();
    all.push(sent("group"));
    all.sort();
    all.dedup();
    all.retain(|text| !text.is_empty());
    all
}
