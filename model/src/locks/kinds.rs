//! The kinds of locks that are searched: their scripts, as `src/kinds` has them, and who wants what.

use crate::server::Script;

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Acquire,
    Release,
    Settle,
    Renew,
    HandOver,
    Leave,
}

/// Whom a hold keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Exclusive,
    Read,
    Write,
}

/// The key of the lock, and those that a kind has beside it.
pub const LOCK: &str = "n";
pub const QUEUE: &str = "redisson_lock_queue:{n}";
const FAIR: [&str; 5] = [LOCK, QUEUE, "redisson_lock_timeout:{n}", "lockson:fair_seen:{n}", "lockson:fair_state:{n}"];
const WRITERS: &str = "lockson:writers:{n}";
const TURN: &str = "lockson:readers_turn:{n}";
const ABSENT: &str = "lockson:absent:{n}";

/// The scripts of a kind, each with its keys.
#[derive(Debug, Clone)]
pub struct Kind {
    pub role: Role,
    /// Whether waiters stand in line on the server.
    pub queues: bool,
    pub acquire: (Script, Vec<&'static str>),
    pub release: (Script, Vec<&'static str>),
    pub settle: (Script, Vec<&'static str>),
    pub renew: (Script, Vec<&'static str>),
    pub hand_over: Option<(Script, Vec<&'static str>)>,
    pub leave: Option<(Script, Vec<&'static str>)>,
}

impl Kind {
    pub fn reentrant() -> Self {
        Self {
            role: Role::Exclusive,
            queues: false,
            acquire: (Script::new("reentrant/acquire", &[]), vec![LOCK]),
            release: (Script::new("reentrant/release", &["announce"]), vec![LOCK]),
            settle: (Script::new("reentrant/settle", &["announce"]), vec![LOCK]),
            renew: (Script::new("reentrant/renew", &[]), vec![LOCK]),
            hand_over: Some((Script::new("reentrant/hand_over", &[]), vec![LOCK])),
            leave: None,
        }
    }

    pub fn fair() -> Self {
        let queue = |file| (Script::new(file, &["announce", "fair/begin"]), FAIR.to_vec());
        Self {
            queues: true,
            acquire: (Script::new("fair/acquire", &["announce", "fair/begin", "fair/wait"]), FAIR.to_vec()),
            release: queue("fair/release"),
            settle: queue("fair/settle"),
            renew: (Script::new("fair/renew", &[]), FAIR[..3].to_vec()),
            hand_over: None,
            leave: Some(queue("fair/leave")),
            ..Self::reentrant()
        }
    }

    pub fn read() -> Self {
        let ours = |file| Script::new(file, &["announce", "read_write"]);
        Self {
            role: Role::Read,
            acquire: (Script::new("read/acquire", &["read_write"]), vec![LOCK, WRITERS, TURN, ABSENT]),
            release: (ours("read/release"), vec![LOCK, ABSENT]),
            settle: (ours("read/settle"), vec![LOCK, ABSENT]),
            renew: (Script::new("read/renew", &["read_write"]), vec![LOCK]),
            hand_over: None,
            ..Self::reentrant()
        }
    }

    pub fn write() -> Self {
        let ours = |file| (Script::new(file, &["announce", "read_write"]), vec![LOCK, WRITERS, TURN, ABSENT]);
        Self {
            role: Role::Write,
            acquire: (Script::new("write/acquire", &["read_write"]), vec![LOCK, WRITERS, ABSENT]),
            release: ours("write/release"),
            settle: ours("write/settle"),
            renew: (Script::new("write/renew", &["read_write"]), vec![LOCK]),
            hand_over: None,
            ..Self::reentrant()
        }
    }

    pub fn of(&self, verb: Verb) -> &(Script, Vec<&'static str>) {
        let some = match verb {
            Verb::Acquire => Some(&self.acquire),
            Verb::Release => Some(&self.release),
            Verb::Settle => Some(&self.settle),
            Verb::Renew => Some(&self.renew),
            Verb::HandOver => self.hand_over.as_ref(),
            Verb::Leave => self.leave.as_ref(),
        };
        some.unwrap_or_else(|| panic!("this kind has no {verb:?}"))
    }

    /// The same with other words in the place of some of a script: a fault that a search has to find.
    #[must_use]
    pub fn with(mut self, verb: Verb, words: &str, others: &str) -> Self {
        let script = match verb {
            Verb::Acquire => &mut self.acquire.0,
            Verb::Release => &mut self.release.0,
            Verb::Settle => &mut self.settle.0,
            Verb::Renew => &mut self.renew.0,
            Verb::HandOver | Verb::Leave => panic!("no fault of {verb:?}"),
        };
        *script = script.clone().with(words, others);
        self
    }
}

/// What an owner does, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Waits until it has the lock.
    Lock,
    /// The same, or goes away after a tick.
    LockOrLeave,
    /// Asks once.
    TryLock,
    Unlock,
    Renew,
}

/// One owner of the lock in one role: an entry of the registry.
#[derive(Debug, Clone)]
pub struct Owner {
    pub kind: Kind,
    pub field: &'static str,
    /// Owners of one process end together, and hand over.
    pub process: usize,
    /// The same owner in the other role.
    pub sibling: Option<usize>,
    pub steps: Vec<Step>,
}

impl Owner {
    pub fn new(kind: &Kind, field: &'static str, process: usize, steps: &[Step]) -> Self {
        Self { kind: kind.clone(), field, process, sibling: None, steps: steps.to_vec() }
    }
}
