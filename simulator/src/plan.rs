//! A schedule as plain data: what tasks do and what befalls them, each at its moment.

use std::collections::BTreeSet;

/// How many clients there are. A task belongs to the client of its number, modulo this.
pub const CLIENTS: usize = 3;
/// So many servers vote on a red lock; all else is on the first of them.
pub const SERVERS: usize = 3;
/// The command timeout of all clients.
pub const TIMEOUT: u64 = 400;

/// No name or task of a plan has this number.
pub const PROBE: usize = 1_000;

/// A schedule. All times are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What ids and chance are made of.
    pub seed: u64,
    /// The watchdog's lease.
    pub lease: u64,
    /// The server has a replica that is so far behind, and what is granted counts when that has it.
    pub confirmed: Option<u64>,
    pub steps: Vec<Step>,
}

/// A replica has this long to say that it has what was granted.
pub const WITHIN: u64 = 150;

/// Something that begins at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: u64,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Turn(Turn),
    Fault(Fault),
}

pub(crate) fn turn(at: u64, turn: Turn) -> Step {
    Step { at, what: What::Turn(turn) }
}

pub(crate) fn fault(at: u64, fault: Fault) -> Step {
    Step { at, what: What::Fault(fault) }
}

/// What something is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    Lock,
    Mutex,
    Spin,
    Fenced,
    Plain,
    Fair,
    FairMutex,
    FencedFair,
    Read,
    Write,
    FencedWrite,
    /// A writer that enters as a reader too, and then reads on without its write hold.
    Downgrade,
    /// A value of a group.
    Value,
    /// A lock in a transaction of the task.
    Transaction,
    /// Two locks as one.
    Multi,
    /// Two locks of two kinds, on two servers, as one.
    Mixed,
    /// Two values of one group as one.
    Group,
    /// The vote of three servers.
    Red,
    Semaphore,
    PermitSemaphore,
    CountDown,
    Await,
}

impl Kind {
    /// So many servers have a part of it.
    pub fn servers(self) -> usize {
        match self {
            Self::Red => SERVERS,
            Self::Mixed => 2,
            _ => 1,
        }
    }
}

/// All of them.
pub const KINDS: [Kind; 22] = [
    Kind::Lock,
    Kind::Mutex,
    Kind::Spin,
    Kind::Fenced,
    Kind::Plain,
    Kind::Fair,
    Kind::FairMutex,
    Kind::FencedFair,
    Kind::Read,
    Kind::Write,
    Kind::FencedWrite,
    Kind::Downgrade,
    Kind::Value,
    Kind::Transaction,
    Kind::Multi,
    Kind::Mixed,
    Kind::Group,
    Kind::Red,
    Kind::Semaphore,
    Kind::PermitSemaphore,
    Kind::CountDown,
    Kind::Await,
];

/// One thing that a task does, behind its others, at the step's moment or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub task: usize,
    pub name: usize,
    pub kind: Kind,
    /// How long it waits.
    pub wait: u64,
    /// It goes away after so long, whatever it waits for.
    pub patience: Option<u64>,
    /// A lease of its own.
    pub lease: Option<u64>,
    /// How long it holds what it has.
    pub work: u64,
    /// How often it enters once more, and how long it waits for that at most.
    pub entries: u64,
    pub entry_patience: u64,
    /// It works under a second guard too, which is renewed for so long at most.
    pub limited: Option<u64>,
    pub end: End,
}

/// A turn with nothing special.
pub const TURN: Turn = Turn {
    task: 0,
    name: 0,
    kind: Kind::Lock,
    wait: 2_000,
    patience: None,
    lease: None,
    work: 20,
    entries: 0,
    entry_patience: 10_000,
    limited: None,
    end: End::Unlock,
};

/// How a hold is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Drop,
    Unlock,
    /// Waits for the server for so long at most.
    Within(u64),
    /// It asks the server, sets its lease anew, and then gives it back.
    Extend(u64),
    /// It keeps its guard for so long, and does not look whether it has anything any more.
    Idle(u64),
}

/// What befalls one call, or one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Lost,
    Unanswered,
    /// So long on its way there, and so long on its way back.
    Late(u64, u64),
    /// It is not answered, and comes again so much later. (A call that was answered does not: nobody sends it again.)
    Again(u64),
    /// Its connection is cut as soon as it is sent, and it arrives so much later all the same.
    Cut(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The next calls of a client.
    Calls {
        client: usize,
        count: u64,
        fate: Fate,
    },
    /// The next messages for a client: lost, or so much later.
    Messages {
        client: usize,
        count: u64,
        late: Option<u64>,
    },
    /// By chance, of a thousand calls each.
    Weather {
        lasts: u64,
        lost: u32,
        unanswered: u32,
        again: u32,
        silent: u32,
        delay: u64,
    },
    /// The next answers of a server come by a connection that is cut.
    Cut {
        server: usize,
        count: u64,
    },
    /// The way between a client, or all of them, and a server is slow: nothing is lost on it.
    Slow {
        client: Option<usize>,
        server: usize,
        there: u64,
        back: u64,
        lasts: u64,
    },
    Stop {
        server: usize,
        lasts: u64,
    },
    /// It restarts without its data.
    Wipe {
        server: usize,
    },
    /// FLUSHALL at each of these at once: they lose their data, and their runs go on.
    Flush {
        servers: Vec<usize>,
    },
    /// Another server has its data from now on, all of them, and is a server of its own.
    Move {
        server: usize,
    },
    /// Its replica says nothing of what it has.
    Silent {
        lasts: u64,
    },
    /// It restarts with the data that it had so long ago. Where grants are confirmed, the replica takes its place, with
    /// what that has.
    Rollback {
        server: usize,
        age: u64,
    },
    Crash {
        client: usize,
    },
    /// No task of it is polled for so long.
    Pause {
        client: usize,
        lasts: u64,
    },
    /// For so long its tasks take their turns in another order, by chance.
    Polls {
        client: usize,
        lasts: u64,
    },
    /// Somebody publishes on the channels of a name, for nothing.
    Stray {
        name: usize,
    },
    /// The clients' machine sleeps.
    Suspend {
        span: u64,
    },
    ClockAhead {
        server: usize,
        by: u64,
    },
    ClockBack {
        server: usize,
        by: u64,
    },
    /// Its clock counts so many microseconds more in a second.
    Drift {
        server: usize,
        fast: i32,
    },
    /// An operator deletes a lock's key, or a semaphore's, and sets that again.
    Delete {
        name: usize,
    },
    /// Java opens a latch, and sets it anew at once.
    Reopen {
        name: usize,
    },
    /// Somebody ends the hold of a lock.
    Force {
        client: usize,
        name: usize,
        kind: Kind,
    },
    /// The server is out of memory.
    Full {
        server: usize,
        lasts: u64,
    },
    /// Scripts may not call this.
    Deny {
        server: usize,
        command: &'static str,
        lasts: u64,
    },
}

impl Plan {
    /// The same tasks and faults, but most of the tasks are one client's, have short work, and all come at once: locks
    /// go on from one to the next inside it.
    pub fn hot(mut self) -> Self {
        for step in &mut self.steps {
            if let What::Turn(turn) = &mut step.what {
                step.at /= 8;
                turn.task = turn.task * CLIENTS + usize::from(turn.task.is_multiple_of(4));
                turn.work = if turn.work.is_multiple_of(7) { turn.work } else { turn.work % 7 };
                turn.lease = turn.lease.filter(|lease| lease.is_multiple_of(4));
            }
        }
        self
    }

    pub fn turns(&self) -> impl Iterator<Item = (u64, &Turn)> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Turn(turn) => Some((step.at, turn)),
            What::Fault(_) => None,
        })
    }

    pub fn faults(&self) -> impl Iterator<Item = (u64, &Fault)> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Turn(_) => None,
            What::Fault(fault) => Some((step.at, fault)),
        })
    }

    /// What is taken under which name.
    pub fn kinds(&self) -> BTreeSet<(usize, Kind)> {
        self.turns().map(|(_, turn)| (turn.name, turn.kind)).collect()
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.kinds().into_iter().map(|(_, kind)| kind.servers()).max().unwrap_or(1)
    }

    pub fn uses(&self, kind: Kind) -> bool {
        self.turns().any(|(_, turn)| turn.kind == kind)
    }
}
