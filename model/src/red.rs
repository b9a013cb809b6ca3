//! Every order of events of two candidates for a red lock on three servers, on the shipped script of a vote. The client
//! is a small model of `src/compose/ballot.rs` and `src/wire/life.rs`: it asks all servers at once, counts, gives back
//! what is no majority, and believes no server that may have lost what it granted. Time goes as in `locks`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lockson_embedded::Snapshot;
use stateright::{Model, Property};

use crate::server::{self, number, words, Answer, Script, Servers, BEGIN};

const TIMEOUT: i64 = 1000;
const LEASE: i64 = 2500;
const MARGIN: i64 = 25;
const SERVERS: usize = 3;
const NEEDED: usize = 2;
const LOCK: &str = "n";
const BOOT: &str = "lockson:boot";

pub const EXCLUSION: &str = "at most one valid majority";
pub const NOTHING_LEFT: &str = "nothing is left at the end";

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// A server that may have lost what it granted votes.
    Rest,
    /// It does not take most of the servers.
    Majority,
    /// A vote without an answer is not given back.
    GiveBack,
}

/// How much is searched.
pub struct Scope {
    /// How often each candidate asks for votes at most.
    pub rounds: u8,
    pub candidates: usize,
    pub faults: u8,
    pub ticks: i64,
    pub without: Without,
    vote: Script,
    settle: Script,
    /// Two lives of a server.
    servers: Servers,
}

impl Scope {
    pub fn new(candidates: usize, rounds: u8, faults: u8, ticks: i64) -> Self {
        let vote = Script::over("red/vote", "reentrant/acquire", &["boot"]);
        let settle = Script::new("reentrant/settle", &["announce"]);
        let servers = Servers::new(2);
        Self { rounds, candidates, faults, ticks, without: Without::Nothing, vote, settle, servers }
    }

    #[must_use]
    pub fn without(self, without: Without) -> Self {
        Self { without, ..self }
    }

    /// The same with other words in the place of some of the script of a vote.
    #[must_use]
    pub fn with(mut self, words: &str, others: &str) -> Self {
        self.vote = self.vote.with(words, others);
        self
    }
}

/// A copy of a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    by: usize,
    to: usize,
    /// A vote is asked for; else all is given back.
    votes: bool,
    not_after: i64,
    stray: bool,
    current: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Seat {
    Idle,
    /// A call is under way, since when.
    Asked {
        votes: bool,
        sent: i64,
        struck: bool,
    },
}

/// What a candidate has of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Voter {
    seat: Seat,
    /// A vote that counts, and its validity.
    until: i64,
    /// To be given back: at once, or after a copy in doubt.
    sweep: Option<i64>,
    /// The run that was seen last, since when it has lost nothing, and when it was seen to be another.
    seen: Option<(u8, i64)>,
    changed: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Candidate {
    voters: [Voter; SERVERS],
    rounds: u8,
    /// A round is under way.
    is_open: bool,
    held: bool,
    dead: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: i64,
    lives: [u8; SERVERS],
    keys: [Arc<Snapshot>; SERVERS],
    candidates: Vec<Candidate>,
    copies: Vec<Copy>,
    faults: u8,
    broken: Option<&'static str>,
    rested: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A candidate asks all servers.
    Ask(usize),
    Unlock(usize),
    Deliver(usize),
    GiveUp(usize, usize),
    /// All have answered, or are waited for no more.
    Count(usize),
    Sweep(usize, usize),
    Stray(usize),
    Restart(usize),
    Crash(usize),
    Tick,
}

impl Candidate {
    fn is_valid(&self, now: i64) -> bool {
        self.held && self.voters.iter().filter(|voter| now < voter.until).count() >= NEEDED
    }

    fn is_quiet(&self) -> bool {
        let is_idle = |voter: &Voter| voter.seat == Seat::Idle && voter.sweep.is_none();
        self.dead || !self.is_open && !self.held && self.voters.iter().all(is_idle)
    }
}

impl Scope {
    fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        let mut urgent = false;
        for (at, copy) in state.copies.iter().enumerate() {
            actions.push(Action::Deliver(at));
            urgent |= !copy.stray;
            if copy.current && !copy.stray && state.faults > 0 {
                actions.push(Action::Stray(at));
            }
        }
        for (who, candidate) in state.candidates.iter().enumerate().filter(|(_, candidate)| !candidate.dead) {
            for (server, voter) in candidate.voters.iter().enumerate() {
                match voter.seat {
                    Seat::Asked { struck: true, sent, .. } => {
                        actions.push(Action::GiveUp(who, server));
                        urgent |= state.now >= sent + TIMEOUT;
                    }
                    Seat::Idle if voter.sweep.is_some_and(|after| state.now > after) => {
                        actions.push(Action::Sweep(who, server));
                        urgent = true;
                    }
                    _ => {}
                }
            }
            let is_waiting = |voter: &Voter| matches!(voter.seat, Seat::Asked { votes: true, .. });
            if candidate.is_open && !candidate.voters.iter().any(is_waiting) {
                actions.push(Action::Count(who));
                urgent = true;
            } else if candidate.held {
                actions.push(Action::Unlock(who));
            } else if candidate.rounds < self.rounds && candidate.is_quiet() {
                actions.push(Action::Ask(who));
            }
        }
        if state.faults > 0 {
            let alive = (0..SERVERS).filter(|server| state.lives[*server] == 0);
            actions.extend(alive.map(Action::Restart));
            actions.extend((0..self.candidates).map(Action::Crash));
        }
        if !urgent && state.now < self.ticks * TIMEOUT {
            actions.push(Action::Tick);
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Ask(who) => {
                (state.candidates[who].rounds, state.candidates[who].is_open) =
                    (state.candidates[who].rounds + 1, true);
                (0..SERVERS).for_each(|server| self.send(state, who, server, true));
            }
            Action::Unlock(who) => self.give_back(state, who),
            Action::Deliver(at) => self.deliver(state, at),
            Action::GiveUp(who, server) => {
                let not_after = state.now.max(1) + TIMEOUT;
                let voter = &mut state.candidates[who].voters[server];
                if let Seat::Asked { sent, .. } = std::mem::replace(&mut voter.seat, Seat::Idle) {
                    // At once, and once more when its copy can't come any more.
                    voter.sweep = (self.without != Without::GiveBack).then_some(sent + TIMEOUT);
                    debug_assert!(sent + TIMEOUT <= not_after);
                }
                let its = |copy: &&mut Copy| copy.by == who && copy.to == server;
                state.copies.iter_mut().filter(its).for_each(|copy| copy.current = false);
            }
            Action::Count(who) => self.count(state, who),
            Action::Sweep(who, server) => {
                state.candidates[who].voters[server].sweep = None;
                self.send(state, who, server, false);
            }
            Action::Stray(at) => {
                state.faults -= 1;
                state.copies[at].stray = true;
                let Copy { by, to, .. } = state.copies[at];
                if let Seat::Asked { struck, .. } = &mut state.candidates[by].voters[to].seat {
                    *struck = true;
                }
            }
            Action::Restart(server) => {
                state.faults -= 1;
                state.lives[server] += 1;
                state.keys[server] = Arc::default();
            }
            Action::Crash(who) => {
                state.faults -= 1;
                state.candidates[who].dead = true;
                state.candidates[who].held = false;
                state.copies.iter_mut().filter(|copy| copy.by == who).for_each(|copy| copy.current = false);
            }
            Action::Tick => state.now += TIMEOUT,
        }
    }

    fn send(&self, state: &mut State, by: usize, to: usize, votes: bool) {
        let not_after = state.now + TIMEOUT;
        state.copies.push(Copy { by, to, votes, not_after, stray: false, current: true });
        state.candidates[by].voters[to].seat = Seat::Asked { votes, sent: state.now, struck: false };
    }

    fn deliver(&self, state: &mut State, at: usize) {
        let Copy { by, to, votes, not_after, current, .. } = state.copies.remove(at);
        let (owner, lease) = (format!("{by}:1"), LEASE.to_string());
        let (script, args): (_, &[&str]) = match votes {
            true => (&self.vote, &[&owner, &lease, "0", BOOT]),
            false => (&self.settle, &[&owner, "0"]),
        };
        let life = state.lives[to];
        let call = server::Call { script, keys: &[LOCK], not_after, args };
        let (answer, after) = self.servers.run(usize::from(life), &state.keys[to], state.now, &call);
        state.keys[to] = Arc::new(after);
        if current {
            self.hear(state, by, to, &answer);
        }
    }

    /// Servers are alike: of states that differ in their order one is kept.
    fn sort(&self, state: &mut State) {
        let column = |server: &usize| {
            let voters: Vec<Voter> = state.candidates.iter().map(|one| one.voters[*server]).collect();
            let copies = state.copies.iter().filter(|copy| copy.to == *server);
            let copies: Vec<Copy> = copies.map(|copy| Copy { to: 0, ..*copy }).collect();
            let mut hasher = DefaultHasher::new();
            (state.lives[*server], &state.keys[*server], voters, copies).hash(&mut hasher);
            hasher.finish()
        };
        let mut order = [0, 1, 2];
        order.sort_by_cached_key(column);
        let old = state.clone();
        for (place, server) in order.into_iter().enumerate() {
            (state.lives[place], state.keys[place]) = (old.lives[server], old.keys[server].clone());
            for (new, old) in state.candidates.iter_mut().zip(&old.candidates) {
                new.voters[place] = old.voters[server];
            }
            let copies = state.copies.iter_mut().zip(&old.copies).filter(|(_, old)| old.to == server);
            copies.for_each(|(copy, _)| copy.to = place);
        }
        state.copies.sort();
    }

    fn hear(&self, state: &mut State, who: usize, server: usize, answer: &Answer) {
        let (now, life) = (state.now, state.lives[server]);
        let voter = &mut state.candidates[who].voters[server];
        let Seat::Asked { votes, sent, .. } = std::mem::replace(&mut voter.seat, Seat::Idle) else { return };
        let since = answer.rest.last().and_then(|since| since.parse().ok()).map_or(0, |since: i64| since - BEGIN);
        let status = answer.status;
        if status == 2 && !votes {
            voter.sweep = Some(now - 1);
        }
        if !votes || status > 1 {
            return;
        }
        if voter.seen.is_some_and(|seen| seen != (life, since)) {
            voter.changed = now;
        }
        voter.seen = Some((life, since));
        let rests = now - since < LEASE || now - voter.changed < LEASE;
        state.rested |= rests;
        match status {
            1 if rests && self.without != Without::Rest => voter.sweep = Some(now - 1),
            1 => voter.until = sent + LEASE - MARGIN,
            _ => {}
        }
    }

    fn count(&self, state: &mut State, who: usize) {
        let now = state.now;
        let needed = if self.without == Without::Majority { 1 } else { NEEDED };
        let candidate = &mut state.candidates[who];
        candidate.is_open = false;
        let votes = candidate.voters.iter().filter(|voter| now < voter.until).count();
        if votes < needed {
            return self.give_back(state, who);
        }
        candidate.held = true;
        if needed < NEEDED {
            // It counts what it has for all.
            let until = candidate.voters.iter().map(|voter| voter.until).max().unwrap_or(0);
            candidate.voters.iter_mut().for_each(|voter| voter.until = until);
        }
    }

    /// All that it may have.
    fn give_back(&self, state: &mut State, who: usize) {
        let now = state.now;
        let candidate = &mut state.candidates[who];
        candidate.held = false;
        for voter in &mut candidate.voters {
            if voter.until > 0 {
                (voter.until, voter.sweep) = (0, voter.sweep.or(Some(now - 1)));
            }
        }
    }

    fn wrong(&self, state: &State) -> Option<&'static str> {
        if state.candidates.iter().filter(|candidate| candidate.is_valid(state.now)).count() > 1 {
            return Some(EXCLUSION);
        }
        let may_come = state.copies.iter().any(|copy| copy.not_after >= state.now);
        let is_quiet = state.candidates.iter().all(|candidate| candidate.is_quiet() && !candidate.dead);
        let is_left = |server: usize| {
            let keys = &state.keys[server];
            self.servers.at(0, keys, state.now, |server| number(server, &["EXISTS", LOCK]) == 1)
        };
        (is_quiet && !may_come && (0..SERVERS).any(is_left)).then_some(NOTHING_LEFT)
    }
}

impl Model for Scope {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // Each has been up for long.
        let keys = [(); SERVERS].map(|()| {
            let marked = self.servers.at(0, &Snapshot::default(), 0, |server| {
                let info = words(server, &["INFO", "server"]).concat();
                let run = info.split("run_id:").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("");
                words(server, &["SET", BOOT, &format!("{} {run}", BEGIN - 60_000)]);
                server.snapshot()
            });
            Arc::new(marked)
        });
        let voter = Voter { seat: Seat::Idle, until: 0, sweep: None, seen: None, changed: -60_000 };
        let candidate = Candidate { voters: [voter; SERVERS], rounds: 0, is_open: false, held: false, dead: false };
        let candidates = vec![candidate; self.candidates];
        let (lives, copies, faults) = ([0; SERVERS], vec![], self.faults);
        vec![State { now: 1, lives, keys, candidates, copies, faults, broken: None, rested: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_none() {
            self.possible(state, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.act(&mut state, action);
        self.sort(&mut state);
        state.broken = self.wrong(&state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| state.broken != Some(EXCLUSION)),
            Property::always(NOTHING_LEFT, |_, state: &State| state.broken != Some(NOTHING_LEFT)),
            Property::sometimes("everybody is done", |_, state: &State| {
                state.candidates.iter().all(|one| one.rounds > 0 && one.is_quiet())
            }),
            Property::sometimes("a server rests", |_, state: &State| state.rested),
            Property::sometimes("it is held", |_, state: &State| state.candidates.iter().any(|one| one.held)),
        ]
    }
}
