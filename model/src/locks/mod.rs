//! Every order of events of two or three owners of one lock, on the shipped scripts. The client is a small model of
//! `src/hold`: one call at a time of an owner, with its copies; what it owes; what it believes.
//!
//! Time goes in ticks of one command timeout. What is on its way arrives within the tick, unless a fault strikes it:
//! then it arrives any time, or never. Whoever waits asks at a message, and once a tick.

mod check;
mod hear;
mod kinds;
mod step;

use std::sync::Arc;

use lockson_embedded::Snapshot;
use stateright::{Model, Property};

pub use kinds::{Kind, Owner, Role, Step, Verb};

use crate::server::Servers;

/// The command timeout, and a tick.
pub const TIMEOUT: i64 = 1000;
pub const LEASE: i64 = 2500;
/// Rule 9's.
const MARGIN: i64 = 25;

/// A rule of the client that is left out: a fault that a search has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// What a copy in doubt took is given back at once, and not once more when it can't come any more.
    SecondSettle,
    /// The next acquire does not wait for the copies of a release in doubt.
    Waiting,
    /// While an acquire is in doubt a release says "n to n - 1" all the same.
    SettleInDoubt,
    /// The same, only where the acquire was given up.
    GivenUpInDoubt,
    /// Validity counts from when the answer was heard.
    SendInstant,
    /// An heir that has a release in doubt gets the lock all the same.
    HeirCheck,
}

/// How much is searched.
pub struct Scope {
    pub owners: Vec<Owner>,
    /// How many faults strike.
    pub faults: u8,
    /// Which ones.
    pub kinds_of_faults: &'static [Fault],
    /// When it ends.
    pub ticks: i64,
    pub without: Without,
    servers: Servers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A call comes any time later, or never.
    Call,
    /// An answer comes late, or never.
    Answer,
    /// The server restarts empty.
    Restart,
    /// A process dies.
    Crash,
}

pub const ALL_FAULTS: &[Fault] = &[Fault::Call, Fault::Answer, Fault::Restart, Fault::Crash];

impl Scope {
    pub fn new(owners: Vec<Owner>, faults: u8, ticks: i64) -> Self {
        let servers = Servers::new(1);
        Self { owners, faults, kinds_of_faults: ALL_FAULTS, ticks, without: Without::Nothing, servers }
    }

    #[must_use]
    pub fn without(self, without: Without) -> Self {
        Self { without, ..self }
    }
}

/// A copy of a call on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    by: usize,
    verb: Verb,
    n: u8,
    /// Whether its owner waits (acquire, settle).
    waits: bool,
    /// The heir of a hand-over.
    to: usize,
    not_after: i64,
    /// Struck by a fault.
    stray: bool,
    /// Whether its owner listens for its answer.
    current: bool,
}

/// Why a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Why {
    /// A step of its owner.
    Step,
    /// An earlier give-back was not answered: before the next acquire.
    Clear,
    /// What an attempt or a hold left is given back.
    GiveBack,
    /// What was got too late goes back.
    Unwanted,
}

/// The call that an owner is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Call {
    verb: Verb,
    why: Why,
    n: u8,
    to: usize,
    copies: u8,
    sent: i64,
    /// Until when its copies without an answer may run; 0: there are none.
    doubt: i64,
    /// What came back, and in which life of the server it was done.
    answer: Option<(crate::server::Answer, u8)>,
    /// Whether its last copy, or the answer to that, was struck.
    struck: bool,
}

/// What the client has of an owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Entry {
    /// How many of its steps are done.
    step: u8,
    call: Option<Call>,
    /// The heir of a hand-over that is under way: its gate is closed.
    is_heir: bool,
    /// How often it holds the lock, by the registry.
    count: u8,
    /// Its validity, and since when.
    until: i64,
    since: i64,
    /// The server's life in which it was granted, or renewed.
    life: u8,
    /// Its last release was begun.
    leaving: bool,
    release_doubt: i64,
    acquire_doubt: i64,
    unanswered: bool,
    /// When what copies in doubt did is to be given back.
    sweeps: Vec<i64>,
    waiting: bool,
    /// When it asked last, and whether a message came since.
    asked: i64,
    woken: bool,
    /// When its last call for the lock ran.
    seen: i64,
    dead: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: i64,
    /// How often the server was restarted.
    life: u8,
    keys: Arc<Snapshot>,
    entries: Vec<Entry>,
    copies: Vec<Copy>,
    faults: u8,
    /// What is wrong with it, if anything.
    broken: Option<&'static str>,
    /// A late copy was refused.
    refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The owner's next step.
    Begin(usize),
    Deliver(usize),
    Hear(usize),
    /// The owner sends another copy.
    Again(usize),
    /// The owner goes away, or the outage limit is over.
    GiveUp(usize),
    /// The owner stands in the line of its process, behind whoever has the lock.
    Join(usize),
    /// The owner waits no more.
    Leave(usize),
    /// What a copy in doubt did is given back.
    Sweep(usize),
    /// A fault strikes a copy.
    Stray(usize),
    /// A fault strikes an answer.
    Late(usize),
    Restart,
    Crash(usize),
    Tick,
}

impl Model for Scope {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 1,
            life: 0,
            keys: Arc::default(),
            entries: vec![Entry { asked: -1, ..Entry::default() }; self.owners.len()],
            copies: vec![],
            faults: self.faults,
            broken: None,
            refused: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_none() {
            self.possible(state, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.act(&mut state, action);
        state.copies.sort();
        state.broken = state.broken.or_else(|| self.wrong(&state));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(check::EXCLUSION, |_, state: &State| state.broken != Some(check::EXCLUSION)),
            Property::always(check::COUNTS, |_, state: &State| state.broken != Some(check::COUNTS)),
            Property::always(check::TTL, |_, state: &State| state.broken != Some(check::TTL)),
            Property::always(check::ORDER, |_, state: &State| state.broken != Some(check::ORDER)),
            Property::always(check::NOTHING_LEFT, |_, state: &State| state.broken != Some(check::NOTHING_LEFT)),
            Property::sometimes("everybody is done", |scope: &Self, state: &State| scope.is_done(state)),
            Property::sometimes("a copy comes too late", |scope: &Self, state: &State| {
                state.refused || scope.faults == 0
            }),
            Property::sometimes("a lease ends under its holder", |scope: &Self, state: &State| {
                // It takes so long.
                scope.ticks < 4 || state.entries.iter().any(|entry| entry.count > 0 && entry.until <= state.now)
            }),
        ]
    }
}
