//! A schedule as plain data: what tasks do and what befalls them, each at its moment. One seed gives one plan.

use std::collections::BTreeSet;

use fastrand::Rng;

/// How many clients there are. A task belongs to the client of its number, modulo this.
pub const CLIENTS: usize = 3;
/// So many servers vote on a red lock; all else is on the first of them.
pub const SERVERS: usize = 3;
/// The command timeout of all clients.
pub const TIMEOUT: u64 = 400;

/// A schedule. All times are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What ids and chance are made of.
    pub seed: u64,
    /// The watchdog's lease.
    pub lease: u64,
    pub steps: Vec<Step>,
}

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
    /// Two locks as one.
    Multi,
    /// The vote of three servers.
    Red,
    Semaphore,
    PermitSemaphore,
    CountDown,
    Await,
}

/// All of them.
pub const KINDS: [Kind; 17] = [
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
    Kind::Multi,
    Kind::Red,
    Kind::Semaphore,
    Kind::PermitSemaphore,
    Kind::CountDown,
    Kind::Await,
];

/// One thing that a task does, behind its others, at the step's moment or later.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    Stop {
        server: usize,
        lasts: u64,
    },
    /// It restarts without its data.
    Wipe {
        server: usize,
    },
    /// It restarts with the data that it had so long ago.
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

/// What is taken under one name, and by which kinds.
const FAMILIES: [&[Kind]; 14] = [
    &[Kind::Lock],
    &[Kind::Mutex],
    &[Kind::Spin],
    &[Kind::Fenced],
    &[Kind::Plain],
    &[Kind::Fair],
    &[Kind::FairMutex],
    &[Kind::FencedFair],
    &[Kind::Read, Kind::Read, Kind::Write],
    &[Kind::Write, Kind::FencedWrite],
    &[Kind::Multi, Kind::Multi, Kind::Lock],
    &[Kind::Red],
    &[Kind::Semaphore],
    &[Kind::PermitSemaphore],
];
const LATCH: &[Kind] = &[Kind::CountDown, Kind::Await];
/// What a script may be denied.
const RIGHTS: [&str; 16] = [
    "hset",
    "hincrby",
    "pexpire",
    "hdel",
    "del",
    "set",
    "publish",
    "rpush",
    "zadd",
    "lpop",
    "hget",
    "lrem",
    "incrby",
    "decrby",
    "zrem",
    "zremrangebyrank",
];

/// Something by chance.
fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

fn happens(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(..100) < percent
}

impl Plan {
    /// The plan of a seed; `only` names the one kind that is wanted.
    pub fn of(seed: u64, only: Option<Kind>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let families: Vec<_> = (0..1 + rng.usize(..2)).map(|_| family(&mut rng, only)).collect();
        let lease = one_of(&mut rng, &[3_000, 3_000, 30_000, 300_000]);
        let mut steps = Vec::new();
        for task in 0..4 + rng.usize(..5) {
            let mut at = rng.u64(..300);
            for _ in 0..4 + rng.usize(..3) {
                let name = rng.usize(..families.len());
                steps.push(Step { at, what: What::Turn(turn(&mut rng, task, name, families[name])) });
                at += if happens(&mut rng, 50) { rng.u64(..600) } else { 0 };
            }
        }
        for _ in 0..1 + rng.usize(..4) {
            let at = rng.u64(..4_000);
            let name = rng.usize(..families.len());
            let what = What::Fault(fault(&mut rng, name, families[name]));
            steps.push(Step { at, what });
        }
        Self { seed, lease, steps }
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

    pub fn uses(&self, kind: Kind) -> bool {
        self.turns().any(|(_, turn)| turn.kind == kind)
    }
}

fn family(rng: &mut Rng, only: Option<Kind>) -> &'static [Kind] {
    let all = || FAMILIES.into_iter().chain([LATCH]);
    match only {
        Some(kind) => all().find(|family| family.contains(&kind)).unwrap_or(LATCH),
        None => all().nth(rng.usize(..FAMILIES.len() + 1)).unwrap_or(LATCH),
    }
}

fn turn(rng: &mut Rng, task: usize, name: usize, family: &[Kind]) -> Turn {
    let wait = if happens(rng, 10) { 0 } else { 1 + rng.u64(..4_000) };
    let work = match rng.u32(..20) {
        0 => rng.u64(..6_000),
        1..4 => rng.u64(..600),
        _ => rng.u64(..40),
    };
    Turn {
        task,
        name,
        kind: one_of(rng, family),
        wait,
        patience: happens(rng, 20).then(|| rng.u64(..600)),
        lease: happens(rng, 25).then(|| 200 + rng.u64(..3_000)),
        work,
        entries: if happens(rng, 25) { 1 + rng.u64(..3) } else { 0 },
        entry_patience: if happens(rng, 50) { rng.u64(..2_000) } else { 10_000 },
        end: match rng.u32(..20) {
            0..9 => End::Drop,
            9..17 => End::Unlock,
            17 => End::Within(rng.u64(..500)),
            _ => End::Extend(100 + rng.u64(..4_000)),
        },
    }
}

fn fault(rng: &mut Rng, name: usize, family: &[Kind]) -> Fault {
    let (client, lasts) = (rng.usize(..CLIENTS), rng.u64(..2_000));
    let is_red = family == [Kind::Red];
    let server = if is_red { rng.usize(..SERVERS) } else { 0 };
    match rng.u32(..34) {
        0..6 => Fault::Calls { client, count: 1 + rng.u64(..4), fate: fate(rng) },
        6..8 => Fault::Messages { client, count: 1 + rng.u64(..4), late: happens(rng, 50).then(|| rng.u64(..1_500)) },
        8..14 => weather(rng),
        14 => Fault::Cut { server, count: 1 + rng.u64(..3) },
        15..17 => Fault::Stop { server, lasts },
        17 => Fault::Wipe { server },
        18..20 => Fault::Rollback { server, age: rng.u64(..1_000) },
        20..22 => Fault::Crash { client },
        22..25 => Fault::Pause { client, lasts: one_of(rng, &[lasts, lasts * 4]) },
        25 => Fault::Suspend { span: lasts * 4 },
        26 if !is_red => Fault::ClockAhead { server, by: lasts * 4 },
        27 if !is_red => Fault::ClockBack { server, by: lasts * 4 },
        28 => Fault::Drift { server, fast: rng.i32(-4_000..4_000) },
        29 if !is_red => Fault::Delete { name },
        30 if !is_red => Fault::Force { client, name, kind: family[0] },
        31 => Fault::Full { server, lasts },
        32 => Fault::Deny { server, command: one_of(rng, &RIGHTS), lasts },
        _ => Fault::Stop { server, lasts },
    }
}

fn fate(rng: &mut Rng) -> Fate {
    match rng.u32(..4) {
        0 => Fate::Lost,
        1 => Fate::Unanswered,
        2 => Fate::Late(rng.u64(..1_500), rng.u64(..600)),
        _ => Fate::Again(rng.u64(..1_500)),
    }
}

fn weather(rng: &mut Rng) -> Fault {
    let lasts = rng.u64(..3_000);
    match rng.u32(..4) {
        0 => Fault::Weather { lasts, lost: rng.u32(..200), unanswered: rng.u32(..200), again: 0, silent: 0, delay: 0 },
        1 => {
            Fault::Weather { lasts, lost: 0, unanswered: 0, again: 0, silent: rng.u32(..1000), delay: rng.u64(..1500) }
        }
        2 => Fault::Weather { lasts, lost: 0, unanswered: 0, again: rng.u32(..400), silent: 0, delay: rng.u64(..600) },
        _ => Fault::Weather { lasts, lost: 50, unanswered: 50, again: 50, silent: 200, delay: rng.u64(..100) },
    }
}
