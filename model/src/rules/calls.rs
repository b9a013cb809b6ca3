//! Rules 5, 6 and 9: two clients, one lock, one server, and a network that delivers each copy of a call any time
//! later, or never, and loses any answer.
//!
//! Why it is safe, in four steps, each of which is a rule that a test takes out:
//!
//! 1. A call says "from n to n + 1" (rule 5), so two copies of it do what one does.
//! 2. A copy says until when it may run (`not_after`, rule 6). So there is a moment from which nothing of a call can
//!    come any more, and a client knows it: then it looks once more (`settle`), and nothing is left. Until then it
//!    begins nothing that a late copy could undo.
//! 3. A hold is valid for the lease less a margin from the instant that the answered copy was *sent* (rule 9). The
//!    server began to count later than that, and its clock and the client's drift by less than the margin. So the
//!    client's belief ends first.
//! 4. The server has one holder. So two clients never believe at once.

use stateright::{Model, Property};

/// The command timeout, the lease and the margin, in ticks. A client's clock may fall behind by the margin.
const TIMEOUT: i8 = 1;
const LEASE: i8 = 4;
const MARGIN: i8 = 1;

/// The rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// Rule 5.
    Absolute,
    /// Rule 6.
    NotAfter,
    /// Rule 6: what a doubtful acquire may have taken is given back at once, *and once more*.
    SecondSettle,
    /// Rule 6: while a release is in doubt, the next acquire waits.
    Wait,
    /// Rule 6: while an acquire is in doubt, its release is a settle.
    Settle,
    /// Rule 9: from the send instant.
    SendInstant,
    /// Rule 9.
    Margin,
}

pub struct Calls {
    pub end: i8,
    /// How many calls each client begins.
    pub calls: [u8; 2],
    /// How many copies have no answer.
    pub doubts: u8,
    pub without: Without,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum What {
    /// From n to n + 1.
    Take(u8),
    /// From n to n - 1.
    Give(u8),
    /// Down to n, if it is more.
    Settle(u8),
}

/// One copy of a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    by: usize,
    what: What,
    sent: i8,
    not_after: i8,
    /// Whether anybody listens for its answer.
    awaited: bool,
    /// It ran: the answer is on its way.
    answer: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Client {
    /// How far its clock is behind.
    behind: i8,
    /// What it knows: how often it holds the lock, and until when that is valid.
    count: u8,
    until: i8,
    /// The call that is under way, how many copies of it were sent, and when the last was.
    call: Option<(What, u8)>,
    sent: i8,
    /// Until when copies of its acquires and releases that had no answer may run.
    taking: i8,
    giving: i8,
    /// It is to look once more, after this.
    sweep: Option<i8>,
    left: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: i8,
    /// On the server: who, how often, and when the lease is over.
    holder: Option<(usize, u8, i8)>,
    clients: [Client; 2],
    copies: Vec<Copy>,
    doubts: u8,
    /// A call found a count that it can't have met.
    surprised: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Take(usize),
    Give(usize),
    Sweep(usize),
    /// One more copy of the call that is under way.
    Again(usize),
    /// It is waited for no more.
    GiveUp(usize),
    Run(usize),
    Hear(usize),
    /// Time passes, and the first client's clock may fall behind.
    Tick([bool; 2]),
}

impl Client {
    fn clock(&self, now: i8) -> i8 {
        now - self.behind
    }

    fn is_valid(&self, now: i8) -> bool {
        let gives = matches!(self.call, Some((What::Give(1) | What::Settle(0), _)));
        self.count > 0 && !gives && self.clock(now) < self.until
    }
}

impl Calls {
    fn send(&self, state: &mut State, by: usize, what: What, copies: u8) {
        let now = state.clients[by].clock(state.now);
        (state.clients[by].call, state.clients[by].sent) = (Some((what, copies)), now);
        state.copies.push(Copy { by, what, sent: now, not_after: now + TIMEOUT, awaited: true, answer: None });
    }

    /// Nobody listens for the copy that was sent last any more: it is in doubt.
    fn doubt(&self, state: &mut State, who: usize) {
        let client = &mut state.clients[who];
        for copy in state.copies.iter_mut().filter(|copy| copy.by == who && copy.awaited) {
            copy.awaited = false;
            state.doubts -= 1;
            match copy.what {
                What::Take(_) => client.taking = client.taking.max(copy.not_after),
                What::Give(_) | What::Settle(_) => client.giving = client.giving.max(copy.not_after),
            }
        }
    }

    /// Nobody hears the answers of copies that are in doubt.
    fn forget(&self, state: &mut State) {
        state.copies.retain(|copy| copy.awaited || copy.answer.is_none());
    }

    /// The server's part. `true`: done; `false`: busy or not held.
    fn run(&self, state: &mut State, copy: Copy) -> bool {
        let held = state.holder.filter(|(_, _, until)| state.now < *until);
        let own = held.filter(|(who, ..)| *who == copy.by).map(|(_, count, until)| (count, until));
        let until = state.now + LEASE;
        match (copy.what, own) {
            (What::Take(0), None) if held.is_none() => state.holder = Some((copy.by, 1, until)),
            (What::Take(_), None) => return false,
            (What::Take(n), Some((count, before))) => {
                state.surprised |= copy.awaited && count != n && count != n + 1;
                let adds = count == n || self.without == Without::Absolute;
                state.holder = Some((copy.by, count + u8::from(adds), until.max(before)));
            }
            (What::Give(_) | What::Settle(_), None) => return false,
            (What::Give(n), Some((count, before))) => {
                state.surprised |= copy.awaited && count != n && count + 1 != n;
                let lowers = count == n || self.without == Without::Absolute;
                let count = count - u8::from(lowers);
                state.holder = (count > 0).then_some((copy.by, count, before));
            }
            (What::Settle(n), Some((count, before))) => {
                let count = count.min(n);
                state.holder = (count > 0).then_some((copy.by, count, before));
            }
        }
        true
    }

    /// The client's part.
    fn hear(&self, state: &mut State, copy: Copy, done: bool) {
        let now = state.clients[copy.by].clock(state.now);
        let client = &mut state.clients[copy.by];
        client.call = None;
        let margin = if self.without == Without::Margin { 0 } else { MARGIN };
        let from = if self.without == Without::SendInstant { now } else { copy.sent };
        match (copy.what, done) {
            (What::Take(n), true) => {
                client.count = n + 1;
                client.until = client.until.max(from + LEASE - margin);
            }
            (What::Take(_), false) => (client.count, client.until) = (0, 0),
            (What::Give(n), _) => client.count = if done { n - 1 } else { 0 },
            (What::Settle(n), _) => client.count = client.count.min(n),
        }
        if client.count == 0 {
            client.until = 0;
        }
        if matches!(copy.what, What::Settle(_)) && client.taking.max(client.giving) < copy.sent {
            // It was looked at behind all of them.
            (client.taking, client.giving) = (-1, -1);
        }
        self.look_later(client);
    }

    /// What copies in doubt do, or did, is looked at when none of them can come any more.
    fn look_later(&self, client: &mut Client) {
        let last = client.taking.max(client.giving);
        if last >= 0 && self.without != Without::SecondSettle {
            client.sweep = Some(last);
        }
    }

    fn begin_giving(&self, state: &mut State, who: usize) {
        let Client { count, taking, .. } = state.clients[who];
        let in_doubt = taking >= state.clients[who].clock(state.now) && self.without != Without::Settle;
        let what = if in_doubt { What::Settle(count - 1) } else { What::Give(count) };
        self.send(state, who, what, 1);
    }

    /// Whether nothing that a client did can have an effect any more, as far as it knows.
    fn is_quiet(&self, state: &State, who: usize) -> bool {
        let client = &state.clients[who];
        let last = client.taking.max(client.giving);
        client.call.is_none() && client.sweep.is_none() && client.clock(state.now) > last
    }
}

impl Model for Calls {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (taking, giving) = (-1, -1);
        let client =
            Client { behind: 0, count: 0, until: 0, call: None, sent: 0, taking, giving, sweep: None, left: 0 };
        let clients = self.calls.map(|left| Client { left, ..client });
        vec![State { now: 0, holder: None, clients, copies: vec![], doubts: self.doubts, surprised: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_doubt = state.doubts > 0;
        for (at, copy) in state.copies.iter().enumerate() {
            actions.push(if copy.answer.is_some() { Action::Hear(at) } else { Action::Run(at) });
        }
        let awaits = |who: usize| state.copies.iter().any(|copy| copy.by == who && copy.awaited);
        for (who, client) in state.clients.iter().enumerate() {
            let now = client.clock(state.now);
            match client.call {
                // It is asked for until there is an answer, now and then.
                Some((What::Settle(_), _)) => {
                    let may_ask = now > client.sent && (may_doubt || !awaits(who));
                    actions.extend(may_ask.then_some(Action::Again(who)));
                }
                Some((_, copies)) if may_doubt || !awaits(who) => {
                    actions.extend((copies == 1).then_some(Action::Again(who)));
                    actions.push(Action::GiveUp(who));
                }
                Some(_) => {}
                None if client.sweep.is_some_and(|after| now > after) => actions.push(Action::Sweep(who)),
                None if client.left > 0 => {
                    let may_take = now > client.giving || self.without == Without::Wait;
                    let takes = may_take && client.count < 2 && (client.count == 0 || client.is_valid(state.now));
                    actions.extend(takes.then_some(Action::Take(who)));
                    actions.extend((client.count > 0).then_some(Action::Give(who)));
                }
                None => {}
            }
        }
        // A client that is to do something does it before time passes.
        let is_due = |client: &Client| {
            client.call.is_none() && client.sweep.is_some_and(|after| client.clock(state.now) > after)
        };
        let may_be_late = |copy: &Copy| copy.awaited && copy.not_after <= state.now && !may_doubt;
        let goes_on = !state.clients.iter().any(is_due) && !state.copies.iter().any(may_be_late);
        if state.now < self.end && goes_on {
            for falls in [[false, false], [true, false]] {
                let too_far = state.clients.iter().zip(falls).any(|(client, falls)| falls && client.behind == MARGIN);
                actions.extend((!too_far).then_some(Action::Tick(falls)));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Take(who) => {
                state.clients[who].left -= 1;
                let count = state.clients[who].count;
                self.send(&mut state, who, What::Take(count), 1);
            }
            Action::Give(who) => {
                state.clients[who].left -= 1;
                self.begin_giving(&mut state, who);
            }
            Action::Sweep(who) => {
                let count = state.clients[who].count;
                state.clients[who].sweep = None;
                self.send(&mut state, who, What::Settle(count), 1);
            }
            Action::Again(who) => {
                self.doubt(&mut state, who);
                self.forget(&mut state);
                let (what, copies) = state.clients[who].call?;
                self.send(&mut state, who, what, copies + 1);
            }
            Action::GiveUp(who) => {
                self.doubt(&mut state, who);
                self.forget(&mut state);
                let (what, _) = state.clients[who].call.take()?;
                let client = &mut state.clients[who];
                if let What::Give(n) | What::Settle(n) = what {
                    client.count = client.count.min(n.saturating_sub(u8::from(what == What::Give(n))));
                }
                let count = client.count;
                self.look_later(client);
                // And at once.
                if !matches!(what, What::Settle(_)) {
                    self.send(&mut state, who, What::Settle(count), 1);
                }
            }
            Action::Run(at) => {
                let copy = state.copies.remove(at);
                if state.now > copy.not_after && self.without != Without::NotAfter {
                    // Late: nothing is written.
                    return None;
                }
                let done = self.run(&mut state, copy);
                if copy.awaited {
                    state.copies.push(Copy { answer: Some(done), ..copy });
                }
            }
            Action::Hear(at) => {
                let copy = state.copies.remove(at);
                self.hear(&mut state, copy, copy.answer?);
            }
            Action::Tick(falls) => {
                state.now += 1;
                if self.without != Without::NotAfter {
                    // What comes too late does nothing.
                    state.copies.retain(|copy| copy.awaited || copy.not_after >= state.now);
                }
                state.clients.iter_mut().zip(falls).for_each(|(client, falls)| client.behind += i8::from(falls));
            }
        }
        state.copies.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| !state.clients.iter().all(|one| one.is_valid(state.now))),
            Property::always(COUNTS, |model: &Self, state: &State| {
                (0..2).all(|who| {
                    let client = &state.clients[who];
                    let own = state.holder.filter(|(other, _, until)| *other == who && state.now < *until);
                    let count = own.map_or(0, |(_, count, _)| count);
                    let knows = !client.is_valid(state.now) || count == client.count;
                    !model.is_quiet(state, who) || knows && (client.count > 0 || count == 0)
                })
            }),
            Property::always(SURPRISE, |_, state: &State| !state.surprised),
            Property::sometimes("each has had it", |_, state: &State| {
                state.clients.iter().all(|client| client.left == 0 && client.call.is_none())
            }),
        ]
    }
}

pub const EXCLUSION: &str = "at most one valid holder";
pub const COUNTS: &str = "what the server has is what the client knows";
pub const SURPRISE: &str = "no call finds a count that it can't have met";
