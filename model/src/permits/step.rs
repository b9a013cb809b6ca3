//! What can happen next, and what it does.

use std::sync::Arc;

use super::{Action, Call, Client, Copy, Grant, Scope, State, Step, Verb, Without};
use super::{EXPIRIES, FREE, LEASE, MADE, MARGIN, RECEIPT, TIMEOUT};
use crate::server;

impl Scope {
    /// Copies of a call, at most: one more than can be struck, as what gives back is sent until it is answered.
    fn copies(&self) -> u8 {
        self.faults + 1
    }

    pub(super) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        let mut urgent = false;
        for (at, copy) in state.copies.iter().enumerate() {
            actions.push(Action::Deliver(at));
            urgent |= !copy.stray;
            if copy.current && !copy.stray && state.faults > 0 {
                actions.push(Action::Stray(at));
            }
        }
        for (who, client) in state.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            for (which, call) in client.calls.iter().enumerate() {
                urgent |= self.answers(state, (who, which), call, actions);
            }
            let step = self.clients[who].get(usize::from(client.step));
            let is_asking = client.calls.iter().any(|call| call.verb != Verb::Cancel);
            let asked = client.waiting && client.asked == state.now && !client.woken;
            if step.is_some() && !is_asking && !asked {
                actions.push(Action::Begin(who));
            }
        }
        if state.faults > 0 {
            actions.push(Action::Restart);
            actions.extend((0..state.clients.len()).map(Action::Crash));
        }
        if !urgent && state.now < self.ticks * TIMEOUT {
            actions.push(Action::Tick);
        }
    }

    fn answers(&self, state: &State, (who, which): (usize, usize), call: &Call, actions: &mut Vec<Action>) -> bool {
        if call.answer.is_some() && state.now <= call.sent + TIMEOUT {
            actions.push(Action::Hear(who, which));
            if !call.struck && state.faults > 0 {
                actions.push(Action::Late(who, which));
            }
        }
        if call.struck {
            if call.copies < self.copies() {
                actions.push(Action::Again(who, which));
            }
            // The caller goes away. What gives back, sets and undoes goes on.
            if call.verb == Verb::Take || call.copies == self.copies() {
                actions.push(Action::GiveUp(who, which));
            }
        }
        state.now >= call.sent + TIMEOUT || call.answer.is_some() && !call.struck
    }

    pub(super) fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Begin(who) => self.begin(state, who),
            Action::Deliver(at) => self.deliver(state, at),
            Action::Hear(who, which) => self.hear(state, who, which),
            Action::Again(who, which) => {
                let mut call = self.take_out(state, who, which);
                (call.copies, call.in_doubt, call.struck, call.answer) = (call.copies + 1, true, false, None);
                self.send(state, who, call);
            }
            Action::GiveUp(who, which) => {
                let mut call = self.take_out(state, who, which);
                call.in_doubt = true;
                if call.verb != Verb::Cancel {
                    state.clients[who].step += 1;
                    state.clients[who].waiting = false;
                }
                self.over(state, who, &call, false);
            }
            Action::Stray(at) => {
                state.faults -= 1;
                state.copies[at].stray = true;
                let (by, verb, number) = (state.copies[at].by, state.copies[at].verb, state.copies[at].number);
                let mut calls = state.clients[by].calls.iter_mut();
                if let Some(call) = calls.find(|call| call.verb == verb && call.number == number) {
                    call.struck = true;
                }
            }
            Action::Late(who, which) => {
                state.faults -= 1;
                state.clients[who].calls[which].struck = true;
            }
            Action::Restart => {
                state.faults -= 1;
                state.life += 1;
                state.keys = Arc::default();
            }
            Action::Crash(who) => {
                state.faults -= 1;
                state.clients[who] = Client { dead: true, step: state.clients[who].step, ..Client::default() };
                let its = state.copies.iter_mut().filter(|copy| copy.by == who);
                its.for_each(|copy| copy.current = false);
            }
            Action::Tick => {
                state.now += TIMEOUT;
                state.clients.iter_mut().for_each(|client| client.woken = false);
            }
        }
    }

    /// A call without its copies.
    fn take_out(&self, state: &mut State, who: usize, which: usize) -> Call {
        let call = state.clients[who].calls.remove(which);
        let its = |copy: &&mut Copy| copy.by == who && copy.verb == call.verb && copy.number == call.number;
        state.copies.iter_mut().filter(its).for_each(|copy| copy.current = false);
        call
    }

    fn send(&self, state: &mut State, who: usize, mut call: Call) {
        call.sent = state.now;
        let Call { verb, number, receipt, ids, .. } = call;
        let (made, not_after, life) = (call.made.clone(), state.now + TIMEOUT, call.life);
        let (stray, current) = (false, true);
        state.copies.push(Copy { by: who, verb, number, receipt, ids, made, not_after, life, stray, current });
        state.clients[who].calls.push(call);
        state.clients[who].calls.sort_by_key(|call| (call.verb, call.number));
    }

    fn begin(&self, state: &mut State, who: usize) {
        let now = state.now;
        let client = &mut state.clients[who];
        let (verb, held) = match self.clients[who][usize::from(client.step)] {
            Step::Set => (Verb::Set, None),
            Step::Take => {
                (client.waiting, client.asked, client.woken) = (true, now, false);
                (Verb::Take, None)
            }
            Step::Give => match client.held.take() {
                None => {
                    client.step += 1;
                    return;
                }
                held => (Verb::Give, held),
            },
        };
        client.numbers += 1;
        let number = client.numbers;
        let receipt = client.free.pop().unwrap_or_else(|| {
            client.receipts += 1;
            client.receipts
        });
        let fresh = if self.without == Without::FreshIds { 0 } else { number };
        let (ids, made) = held.map_or((fresh, String::new()), |grant| (grant.ids, grant.made));
        let (answer, copies) = (None, 1);
        let call = Call {
            verb,
            number,
            receipt,
            ids,
            made,
            copies,
            began: now,
            life: state.life,
            sent: now,
            in_doubt: false,
            answer,
            struck: false,
        };
        self.send(state, who, call);
    }

    fn deliver(&self, state: &mut State, at: usize) {
        let copy = state.copies.remove(at);
        let Copy { by, verb, number, receipt, ids, .. } = copy;
        let receipt = format!("lockson:receipt:{{n}}:{by}:{receipt}");
        let other = if self.kind.has_leases { EXPIRIES } else { MADE };
        let (number_text, life) = (number.to_string(), RECEIPT.to_string());
        let ids = format!("{:032x}", usize::from(ids) * 16 + by);
        let (wish, permits) = (format!("{LEASE} {ids}"), self.permits.to_string());
        let mut args: Vec<&str> = vec![&number_text, &life];
        let (script, own): (_, &[&str]) = match (verb, self.kind.has_leases) {
            (Verb::Set, true) => (&self.kind.set, &[&permits]),
            (Verb::Set, false) => (&self.kind.set, &[&permits, "absent"]),
            (Verb::Take, true) => (&self.kind.take, &[&wish]),
            (Verb::Take, false) => (&self.kind.take, &["1"]),
            (Verb::Give, true) => (&self.kind.give, &[&ids, "0"]),
            (Verb::Give, false) => (&self.kind.give, &["1", "same", &copy.made]),
            (Verb::Cancel, true) => (&self.kind.cancel, &[&ids]),
            (Verb::Cancel, false) => (&self.kind.cancel, &[]),
        };
        args.extend(own);
        let keys = [FREE, other, &receipt];
        let call = server::Call { script, keys: &keys, not_after: copy.not_after, args: &args };
        let (answer, after) = self.servers.run(0, &state.keys, state.now, &call);
        state.keys = Arc::new(after);
        state.is_set_late |= verb == Verb::Set && answer.status == 1 && copy.life < state.life;
        if verb != Verb::Take && answer.status == 1 {
            state.clients.iter_mut().filter(|client| client.waiting).for_each(|client| client.woken = true);
        }
        let life = state.life;
        let mut calls = state.clients[by].calls.iter_mut().filter(|_| copy.current);
        if let Some(call) = calls.find(|call| call.verb == verb && call.number == number) {
            call.answer = Some((answer, life));
        }
    }

    fn hear(&self, state: &mut State, who: usize, which: usize) {
        let mut call = self.take_out(state, who, which);
        let Some((answer, life)) = call.answer.take() else { return };
        if answer.status == 2 {
            // It wrote nothing: it is sent again.
            self.send(state, who, call);
            return;
        }
        let client = &mut state.clients[who];
        let is_done = answer.status == 1;
        match call.verb {
            Verb::Take if is_done => {
                let from = if self.without == Without::FirstCopy { call.sent } else { call.began };
                let made = answer.rest.get(2).cloned().unwrap_or_default();
                client.held = Some(Grant { ids: call.ids, made, until: from + LEASE - MARGIN, life });
                (client.waiting, client.step) = (false, client.step + 1);
            }
            Verb::Set | Verb::Give => client.step += 1,
            Verb::Take | Verb::Cancel => {}
        }
        self.over(state, who, &call, is_done);
    }

    /// A call has ended. One that was not done, as far as is known, but may have been or may yet be, is undone.
    fn over(&self, state: &mut State, who: usize, call: &Call, is_done: bool) {
        let keeps = self.without == Without::OwnReceipt;
        if call.verb != Verb::Cancel && (!call.in_doubt || keeps) {
            state.clients[who].free.push(call.receipt);
        }
        if !call.in_doubt || call.verb == Verb::Cancel {
            return;
        }
        state.doubts += 1;
        if call.verb == Verb::Take && !is_done && self.without != Without::Cancel {
            let cancel =
                Call { verb: Verb::Cancel, copies: 1, in_doubt: false, struck: false, answer: None, ..call.clone() };
            self.send(state, who, cancel);
        }
    }
}
