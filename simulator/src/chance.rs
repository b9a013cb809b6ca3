//! What is played by chance: one seed gives one plan.

use fastrand::Rng;

use crate::plan::{End, Fate, Fault, Kind, Plan, Step, Turn, What, CLIENTS, SERVERS, TIMEOUT};

/// What is taken under one name, and by which kinds.
const FAMILIES: [&[Kind]; 16] = [
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
    &[Kind::Value],
    &[Kind::Multi, Kind::Multi, Kind::Lock],
    &[Kind::Group, Kind::Group, Kind::Value],
    &[Kind::Red],
    &[Kind::Semaphore],
    &[Kind::PermitSemaphore],
];
/// What some plans have under their first name: all others are what they were before these came.
const LATER: [&[Kind]; 3] = [
    &[Kind::Transaction, Kind::Transaction, Kind::Lock],
    &[Kind::Mixed, Kind::Mixed, Kind::Fair],
    &[Kind::Downgrade, Kind::Downgrade, Kind::Read, Kind::Write],
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
        let mut families: Vec<_> = (0..1 + rng.usize(..2)).map(|_| family(&mut rng, only)).collect();
        match seed % 16 {
            7 | 15 if only.is_none() => families[0] = one_of(&mut rng, &LATER[..2]),
            3 if only.is_none() => families[0] = LATER[2],
            _ => {}
        }
        let lease = one_of(&mut rng, &[3_000, 3_000, 30_000, 300_000]);
        // Votes need no replica, latches wait for none, and one server of several has one.
        let can_confirm = families.iter().all(|family| servers(family) == 1 && *family != LATCH);
        let confirmed = (can_confirm && happens(&mut rng, 12)).then(|| rng.u64(..60));
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
            let what = What::Fault(match confirmed {
                Some(_) if happens(&mut rng, 50) => of_replicas(&mut rng),
                _ => fault(&mut rng, name, families[name]),
            });
            steps.push(Step { at, what });
        }
        if seed % 4 == 1 {
            add_harmless(&mut steps, families.len(), seed);
        }
        Self { seed, lease, confirmed, steps }
    }
}

/// What changes nothing that is promised: by a chance of its own, so that the rest of the plan is what it was before.
fn add_harmless(steps: &mut Vec<Step>, names: usize, seed: u64) {
    let mut rng = Rng::with_seed(!seed);
    for _ in 0..1 + rng.usize(..3) {
        let at = rng.u64(..3_000);
        let fault = if rng.bool() {
            Fault::Polls { client: rng.usize(..CLIENTS), lasts: 100 + rng.u64(..4_000) }
        } else {
            Fault::Stray { name: rng.usize(..names) }
        };
        steps.push(Step { at, what: What::Fault(fault) });
    }
}

fn family(rng: &mut Rng, only: Option<Kind>) -> &'static [Kind] {
    match only {
        Some(kind) => FAMILIES.into_iter().chain(LATER).find(|family| family.contains(&kind)).unwrap_or(LATCH),
        None => FAMILIES.into_iter().chain([LATCH]).nth(rng.usize(..FAMILIES.len() + 1)).unwrap_or(LATCH),
    }
}

/// How many servers have a part of these.
fn servers(family: &[Kind]) -> usize {
    family.iter().map(|kind| kind.servers()).max().unwrap_or(1)
}

fn turn(rng: &mut Rng, task: usize, name: usize, family: &[Kind]) -> Turn {
    let wait = if happens(rng, 10) { 0 } else { 1 + rng.u64(..4_000) };
    let work = match rng.u32(..20) {
        0 => rng.u64(..6_000),
        1..4 => rng.u64(..600),
        _ => rng.u64(..40),
    };
    // Long enough for what is not renewed to end.
    let limited = (rng.u32(..60) == 0).then(|| rng.u64(..1_500));
    let work = if limited.is_some() { 3_500 + rng.u64(..2_000) } else { work };
    let is_red = family == [Kind::Red];
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
        limited,
        end: match rng.u32(..20) {
            0..9 => End::Drop,
            9..17 => End::Unlock,
            17 => End::Within(rng.u64(..500)),
            18 if is_red => End::Idle(4_000 + rng.u64(..6_000)),
            _ => End::Extend(100 + rng.u64(..4_000)),
        },
    }
}

fn fault(rng: &mut Rng, name: usize, family: &[Kind]) -> Fault {
    let (client, lasts) = (rng.usize(..CLIENTS), rng.u64(..2_000));
    let is_red = family == [Kind::Red];
    let server = if servers(family) > 1 { rng.usize(..servers(family)) } else { 0 };
    if family == LATCH && happens(rng, 25) {
        return Fault::Reopen { name };
    }
    if is_red && happens(rng, 25) {
        return Fault::Flush { servers: (0..SERVERS).filter(|_| happens(rng, 60)).collect() };
    }
    match rng.u32(..37) {
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
        33..35 => slow(rng, server),
        35 => Fault::Flush { servers: vec![server] },
        36 => Fault::Move { server },
        _ => Fault::Stop { server, lasts },
    }
}

/// What befalls a server whose replica is waited for.
fn of_replicas(rng: &mut Rng) -> Fault {
    match rng.u32(..3) {
        0 => Fault::Silent { lasts: rng.u64(..1_500) },
        _ => Fault::Rollback { server: 0, age: 0 },
    }
}

fn fate(rng: &mut Rng) -> Fate {
    match rng.u32(..6) {
        0 => Fate::Lost,
        1 => Fate::Unanswered,
        2 => Fate::Late(rng.u64(..1_500), rng.u64(..600)),
        3 => Fate::Again(rng.u64(..1_500)),
        // Where it does anything.
        _ => Fate::Cut(rng.u64(..TIMEOUT)),
    }
}

/// Slower than that, and calls are given up.
fn slow(rng: &mut Rng, server: usize) -> Fault {
    let longest = one_of(rng, &[5, 150]);
    let client = happens(rng, 50).then(|| rng.usize(..CLIENTS));
    Fault::Slow { client, server, there: rng.u64(..longest), back: rng.u64(..longest), lasts: rng.u64(..6_000) }
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
