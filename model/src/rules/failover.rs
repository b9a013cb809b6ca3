//! Rule 25: two clients, one lock, and a primary whose replica takes its place at any time, also while the primary
//! lives on and answers those who still reach it.
//!
//! What the replica has comes from the primary, some time later. So a grant that was not replicated is unknown to the
//! next primary, which gives the lock to another: two holders. Two ways to be safe, each enough by itself:
//!
//! - *confirm*: a grant, and a renewal, moves the client's validity only when the replica has it. Then whatever a
//!   client believes, the next primary knows, and keeps it as long: TTLs are replicated as moments.
//! - *quarantine*: the next primary grants nothing that nobody holds for as long as the longest lease. By then
//!   whatever was granted before is over, if nothing of the old primary counts from when the client was told. A
//!   client that is not told, and still reaches the old primary, renews there what another may have: so quarantine
//!   alone is for failovers in which the old primary stops.

use stateright::{Model, Property};

const LEASE: i8 = 2;

/// What keeps a failover from making two holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Nothing,
    Confirm,
    /// The same, but for renewals.
    ConfirmGrants,
    /// `stops`: the old primary does as it is replaced.
    Quarantine {
        stops: bool,
    },
}

pub struct Failover {
    pub end: i8,
    pub guard: Guard,
}

/// What a node has: who, and when the lease is over.
type Held = Option<(usize, i8)>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: i8,
    /// The first primary, and the replica that takes its place.
    nodes: [Held; 2],
    /// When it did.
    switched: Option<i8>,
    /// What the clients believe: until when they hold it.
    until: [i8; 2],
    /// Who was told of the switch.
    told: [bool; 2],
    /// A grant or a renewal whose confirmation is waited for: by whom, until when it would be valid.
    waits: [Option<i8>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Take(usize),
    Renew(usize),
    Replicate,
    /// The replica has what this client waits for.
    Confirmed(usize),
    Switch,
    Tell(usize),
    Tick,
}

impl Failover {
    /// The node that a client asks, if there is one.
    fn node(&self, state: &State, who: usize) -> Option<usize> {
        let stops = matches!(self.guard, Guard::Quarantine { stops: true }) && state.switched.is_some();
        match state.told[who] {
            true => Some(1),
            false => (!stops).then_some(0),
        }
    }

    fn held(state: &State, node: usize) -> Held {
        state.nodes[node].filter(|(_, until)| state.now < *until)
    }

    fn may_take(&self, state: &State, node: usize) -> bool {
        let rests = |at: i8| node == 1 && matches!(self.guard, Guard::Quarantine { .. }) && state.now < at + LEASE;
        Self::held(state, node).is_none() && !state.switched.is_some_and(rests)
    }

    /// A node has written that this client holds it from now on. Behind the switch the new one has no replica here: to
    /// write there is enough.
    fn wrote(&self, state: &mut State, who: usize, node: usize, renews: bool) {
        let until = state.now + LEASE;
        state.nodes[node] = Some((who, until));
        let waits = match self.guard {
            Guard::Confirm => node == 0,
            Guard::ConfirmGrants => node == 0 && !renews,
            Guard::Nothing | Guard::Quarantine { .. } => false,
        };
        match waits {
            true => state.waits[who] = Some(until),
            false => state.until[who] = until,
        }
    }
}

impl Model for Failover {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { now: 0, nodes: [None; 2], switched: None, until: [0; 2], told: [false; 2], waits: [None; 2] }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for who in 0..2 {
            if let Some(node) = self.node(state, who).filter(|_| state.waits[who].is_none()) {
                let holds = state.now < state.until[who];
                let has = Self::held(state, node).is_some_and(|(other, _)| other == who);
                actions.extend((!holds && self.may_take(state, node)).then_some(Action::Take(who)));
                actions.extend((holds && has).then_some(Action::Renew(who)));
            }
            if state.waits[who].is_some() {
                actions.push(Action::Confirmed(who));
            }
            if state.switched.is_some() && !state.told[who] {
                actions.push(Action::Tell(who));
            }
        }
        if state.switched.is_none() {
            actions.extend([Action::Replicate, Action::Switch]);
        }
        if state.now < self.end {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Take(who) | Action::Renew(who) => {
                let node = self.node(&state, who)?;
                self.wrote(&mut state, who, node, matches!(action, Action::Renew(_)));
            }
            Action::Replicate => state.nodes[1] = state.nodes[0],
            Action::Confirmed(who) => {
                let until = state.waits[who].take()?;
                // A replica that was promoted confirms nothing more; nor does it confirm what it has not.
                if state.switched.is_none() && state.nodes[1] == Some((who, until)) {
                    state.until[who] = until;
                }
            }
            Action::Switch => state.switched = Some(state.now),
            Action::Tell(who) => {
                state.told[who] = true;
                // An answer of a node that is over counts as none.
                state.waits[who] = None;
            }
            Action::Tick => state.now += 1,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| !state.until.iter().all(|until| state.now < *until)),
            Property::sometimes("both nodes grant", |_, state: &State| {
                state.told == [true; 2] && state.until.iter().all(|until| *until > 0)
            }),
        ]
    }
}

pub const EXCLUSION: &str = "at most one valid holder";
