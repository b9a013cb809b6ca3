//! Every order of events of two clients that take permits and give them back, on the shipped scripts of both
//! semaphores. The client is a small model of `src/permits`: calls with a number and a receipt, which are undone if
//! they are in doubt. Time goes as in `locks`.

mod step;

use std::sync::Arc;

use lockson_embedded::Snapshot;
use stateright::{Model, Property};

use crate::server::{number, words, Answer, Script, Servers, BEGIN};

pub const TIMEOUT: i64 = 1000;
pub const LEASE: i64 = 2500;
const MARGIN: i64 = 25;
/// How long a receipt lives: longer than any search.
const RECEIPT: i64 = 60_000;

pub const MOST: &str = "never more permits than were set";
pub const RECEIPTS: &str = "receipts are as many as calls at once, and calls in doubt";
pub const ALL_BACK: &str = "all permits are back at the end";

const FREE: &str = "n";
const MADE: &str = "lockson:semaphore_life:{n}";
const EXPIRIES: &str = "{n}:timeout";

/// What a client does, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Sets how many there are, if nobody has.
    Set,
    /// Waits until it has a permit.
    Take,
    Give,
}

/// A rule of the client that is left out: a fault that a search has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// A call in doubt is not undone.
    Cancel,
    /// A receipt is used again though copies of its last call may come.
    OwnReceipt,
    /// A taker asks again for permits of the same ids.
    FreshIds,
    /// The lease counts from the copy that was answered.
    FirstCopy,
}

/// One kind of semaphore.
#[derive(Debug, Clone)]
pub struct Kind {
    pub has_leases: bool,
    pub take: Script,
    pub give: Script,
    pub cancel: Script,
    pub set: Script,
}

impl Kind {
    pub fn semaphore() -> Self {
        let told = |file| Script::new(file, &["announce", "once"]);
        Self {
            has_leases: false,
            take: Script::new("semaphore/acquire", &["once"]),
            give: told("semaphore/change"),
            cancel: told("cancel"),
            set: told("semaphore/change"),
        }
    }

    pub fn permit_semaphore() -> Self {
        let told = |file| Script::new(file, &["announce", "once", "ids"]);
        Self {
            has_leases: true,
            take: told("permit_semaphore/acquire"),
            give: told("permit_semaphore/release"),
            cancel: told("permit_semaphore/cancel"),
            set: Script::new("permit_semaphore/set", &["announce", "once"]),
        }
    }
}

/// How much is searched.
pub struct Scope {
    pub kind: Kind,
    /// The steps of each client.
    pub clients: Vec<Vec<Step>>,
    pub permits: i64,
    pub faults: u8,
    pub ticks: i64,
    pub without: Without,
    servers: Servers,
}

impl Scope {
    pub fn new(kind: Kind, clients: &[&[Step]], permits: i64, faults: u8, ticks: i64) -> Self {
        let clients = clients.iter().map(|steps| steps.to_vec()).collect();
        Self { kind, clients, permits, faults, ticks, without: Without::Nothing, servers: Servers::new(1) }
    }

    #[must_use]
    pub fn without(self, without: Without) -> Self {
        Self { without, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Verb {
    Set,
    Take,
    Give,
    Cancel,
}

/// A call of a client, by its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Call {
    verb: Verb,
    /// That of the call that it undoes, for a cancellation.
    number: u8,
    /// Which of the client's receipts it has.
    receipt: u8,
    /// Which ids it takes, or gives back.
    ids: u8,
    /// Of which semaphore what it gives back was taken.
    made: String,
    copies: u8,
    began: i64,
    /// Behind how many restarts.
    life: u8,
    sent: i64,
    in_doubt: bool,
    answer: Option<(Answer, u8)>,
    struck: bool,
}

/// A copy of it on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    by: usize,
    verb: Verb,
    number: u8,
    receipt: u8,
    ids: u8,
    made: String,
    not_after: i64,
    /// Behind how many restarts its call began.
    life: u8,
    stray: bool,
    current: bool,
}

/// A permit that a client has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Grant {
    ids: u8,
    made: String,
    until: i64,
    life: u8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Client {
    step: u8,
    /// The one that its step makes, and cancellations.
    calls: Vec<Call>,
    held: Option<Grant>,
    numbers: u8,
    receipts: u8,
    free: Vec<u8>,
    waiting: bool,
    asked: i64,
    woken: bool,
    dead: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: i64,
    life: u8,
    keys: Arc<Snapshot>,
    clients: Vec<Client>,
    copies: Vec<Copy>,
    faults: u8,
    /// Calls that ended in doubt.
    doubts: u8,
    /// It was set anew by a call from before a restart: then permits from before it count for this one too.
    is_set_late: bool,
    broken: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Begin(usize),
    Deliver(usize),
    /// A client, and which of its calls.
    Hear(usize, usize),
    Again(usize, usize),
    GiveUp(usize, usize),
    Stray(usize),
    Late(usize, usize),
    Restart,
    Crash(usize),
    Tick,
}

impl Scope {
    fn is_done(&self, state: &State) -> bool {
        let is_done = |(who, client): (usize, &Client)| {
            usize::from(client.step) == self.clients[who].len() && client.calls.is_empty() && client.held.is_none()
        };
        let may_come = state.copies.iter().any(|copy| copy.not_after >= state.now);
        state.clients.iter().enumerate().all(is_done) && !may_come
    }

    fn wrong(&self, state: &State) -> Option<&'static str> {
        self.servers.at(0, &state.keys, state.now, |server| {
            let there_is = number(server, &["EXISTS", FREE]) == 1;
            let free = number(server, &["GET", FREE]);
            let made = words(server, &["GET", MADE]).concat();
            let is_valid = |grant: &&Grant| match self.kind.has_leases {
                true => state.now < grant.until && grant.life == state.life,
                false => grant.made == made && there_is,
            };
            let held = state.clients.iter().filter_map(|client| client.held.as_ref()).filter(is_valid).count();
            let held = i64::try_from(held).unwrap_or(i64::MAX);
            let is_miscounted = state.is_set_late && !self.kind.has_leases;
            if (free + held > self.permits || held > self.permits) && !is_miscounted {
                return Some(MOST);
            }
            let receipts = words(server, &["KEYS", "lockson:receipt:*"]).len();
            if receipts > state.clients.len() + usize::from(state.doubts) {
                return Some(RECEIPTS);
            }
            let taken = number(server, &["ZCARD", EXPIRIES]);
            // What a dead process has of those without leases is lost.
            let is_lost = !self.kind.has_leases && state.clients.iter().any(|client| client.dead);
            let all = state.life == 0 && there_is && !is_lost && self.is_done(state);
            let alive =
                words(server, &["ZRANGE", EXPIRIES, &format!("({}", BEGIN + state.now), "+inf", "BYSCORE"]).len();
            let is_kept = alive > 0 && !state.clients.iter().any(|client| client.dead);
            (all && (free + taken != self.permits || is_kept)).then_some(ALL_BACK)
        })
    }
}

impl Model for Scope {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client { asked: -1, ..Client::default() };
        vec![State {
            now: 1,
            life: 0,
            keys: Arc::default(),
            clients: vec![client; self.clients.len()],
            copies: vec![],
            faults: self.faults,
            doubts: 0,
            is_set_late: false,
            broken: None,
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
        state.broken = self.wrong(&state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(MOST, |_, state: &State| state.broken != Some(MOST)),
            Property::always(RECEIPTS, |_, state: &State| state.broken != Some(RECEIPTS)),
            Property::always(ALL_BACK, |_, state: &State| state.broken != Some(ALL_BACK)),
            Property::sometimes("everybody is done", |scope: &Self, state: &State| scope.is_done(state)),
            Property::sometimes("a call is in doubt", |scope: &Self, state: &State| {
                state.doubts > 0 || scope.faults == 0
            }),
            Property::sometimes("as many are held as there are", |scope: &Self, state: &State| {
                let held = state.clients.iter().filter(|client| client.held.is_some()).count();
                i64::try_from(held) == Ok(scope.permits)
            }),
        ]
    }
}
