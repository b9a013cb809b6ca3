//! What a client makes of an answer, or of none.

use super::{Call, Scope, State, Step, Verb, Why, Without, LEASE, MARGIN, TIMEOUT};
use crate::server::Answer;

impl Scope {
    pub(super) fn hear(&self, state: &mut State, who: usize) {
        let Some(mut call) = state.entries[who].call.take() else { return };
        let Some((answer, life)) = call.answer.take() else { return };
        if answer.status == 2 {
            // It wrote nothing: it is sent again.
            self.send(state, who, call.verb, call.why, call.n, call.to);
            if let Some(next) = &mut state.entries[who].call {
                (next.copies, next.doubt) = (call.copies, call.doubt);
            }
            return;
        }
        match call.verb {
            Verb::Acquire => self.acquired(state, who, &call, &answer, life),
            Verb::Settle if call.why != Why::Step && call.why != Why::Unwanted => self.settled(state, who, &call),
            Verb::Release | Verb::Settle => self.released(state, who, &call, &answer),
            Verb::Renew => self.renewed(state, who, &call, &answer, life),
            Verb::HandOver => self.handed_over(state, who, &call, &answer, life),
            Verb::Leave => {
                let entry = &mut state.entries[who];
                entry.release_doubt = entry.release_doubt.max(call.doubt);
            }
        }
    }

    fn next_step(&self, state: &mut State, who: usize) {
        let entry = &mut state.entries[who];
        entry.step += 1;
        entry.waiting = false;
    }

    fn valid_until(&self, state: &State, call: &Call) -> i64 {
        let from = if self.without == Without::SendInstant { state.now } else { call.sent };
        from + LEASE - MARGIN
    }

    fn sweep_after(&self, state: &mut State, who: usize, doubt: i64) {
        if self.without != Without::SecondSettle {
            state.entries[who].sweep_after(doubt);
        }
    }

    /// It holds the lock once more. Whoever has it by the record of its process has lost it.
    fn enter(&self, state: &mut State, who: usize, call: &Call, life: u8) {
        let until = self.valid_until(state, call);
        if state.entries[who].count == 0 && self.owners[who].sibling.is_none() {
            for other in (0..self.owners.len()).filter(|other| *other != who) {
                let entry = &mut state.entries[other];
                let is_here = self.owners[other].process == self.owners[who].process;
                if is_here && entry.count > 0 && !entry.leaving && entry.since <= call.sent {
                    entry.until = 0;
                }
            }
        }
        let entry = &mut state.entries[who];
        if entry.count == 0 {
            (entry.since, entry.until) = (call.sent, until);
        }
        entry.until = entry.until.max(until);
        entry.count += 1;
        entry.life = life;
        entry.acquire_doubt = entry.acquire_doubt.max(call.doubt);
        self.next_step(state, who);
    }

    fn acquired(&self, state: &mut State, who: usize, call: &Call, answer: &Answer, life: u8) {
        let now = state.now;
        let entry = &mut state.entries[who];
        match answer.status {
            1 if entry.count > 0 && entry.until <= now => {
                // Too late for the hold that was to be entered.
                entry.drop_hold();
                let doubt = call.doubt.max(entry.acquire_doubt);
                self.sweep_after(state, who, doubt);
                self.next_step(state, who);
                self.settle(state, who, Why::GiveBack);
            }
            1 => {
                self.enter(state, who, call, life);
                if state.entries[who].until <= now {
                    self.release(state, who, Why::Unwanted);
                }
            }
            0 => {
                self.sweep_after(state, who, call.doubt);
                if self.owners[who].steps[usize::from(state.entries[who].step)] == Step::TryLock {
                    self.next_step(state, who);
                }
            }
            3 => {
                entry.drop_hold();
                let doubt = call.doubt.max(entry.acquire_doubt);
                self.sweep_after(state, who, doubt);
                self.next_step(state, who);
            }
            other => {
                debug_assert!(other == 5, "{answer:?}");
                state.broken = Some(super::check::COUNTS);
            }
        }
    }

    fn settled(&self, state: &mut State, who: usize, call: &Call) {
        let now = state.now;
        let entry = &mut state.entries[who];
        entry.unanswered = false;
        entry.release_doubt = entry.release_doubt.max(call.doubt);
        if entry.acquire_doubt < now {
            entry.acquire_doubt = 0;
        }
    }

    fn released(&self, state: &mut State, who: usize, call: &Call, answer: &Answer) {
        let entry = &mut state.entries[who];
        entry.release_doubt = entry.release_doubt.max(call.doubt);
        entry.leaving = false;
        match answer.status {
            0 | 1 => {
                entry.unanswered = false;
                entry.count -= 1;
            }
            3 => entry.drop_hold(),
            _ => state.broken = Some(super::check::COUNTS),
        }
        self.left(state, who, call);
    }

    /// A share of a hold is gone: copies of its acquire that are in doubt may raise the count yet.
    fn left(&self, state: &mut State, who: usize, call: &Call) {
        if state.entries[who].count == 0 {
            state.entries[who].drop_hold();
        }
        let doubt = state.entries[who].acquire_doubt;
        self.sweep_after(state, who, doubt);
        if call.why == Why::Step {
            state.entries[who].step += 1;
        }
    }

    fn renewed(&self, state: &mut State, who: usize, call: &Call, answer: &Answer, life: u8) {
        let until = self.valid_until(state, call);
        let now = state.now;
        let entry = &mut state.entries[who];
        if answer.int(0) == 1 && now < entry.until {
            entry.until = entry.until.max(until);
            entry.life = life;
        } else {
            entry.until = 0;
        }
        entry.step += 1;
    }

    fn handed_over(&self, state: &mut State, who: usize, call: &Call, answer: &Answer, life: u8) {
        let heir = call.to;
        state.entries[heir].is_heir = false;
        let giver = &mut state.entries[who];
        giver.release_doubt = giver.release_doubt.max(call.doubt);
        match answer.status {
            1 => {
                giver.drop_hold();
                self.enter(state, heir, call, life);
            }
            3 | 5 => giver.drop_hold(),
            _ => state.broken = Some(super::check::COUNTS),
        }
        self.left(state, who, call);
    }

    /// No copy is sent any more.
    pub(super) fn give_up(&self, state: &mut State, who: usize, call: &Call) {
        let doubt = call.doubt;
        let entry = &mut state.entries[who];
        match call.verb {
            Verb::Renew => entry.step += 1,
            Verb::Leave => {
                entry.release_doubt = entry.release_doubt.max(doubt);
                // Tried again, after a pause.
                entry.sweep_after(state.now);
            }
            Verb::Acquire => {
                if self.without != Without::GivenUpInDoubt {
                    entry.acquire_doubt = entry.acquire_doubt.max(doubt);
                }
                self.next_step(state, who);
                self.sweep_after(state, who, doubt);
                self.settle(state, who, Why::GiveBack);
            }
            Verb::Settle if call.why != Why::Step && call.why != Why::Unwanted => {
                entry.release_doubt = entry.release_doubt.max(doubt);
                entry.unanswered = true;
                // Tried again, after a pause.
                entry.sweep_after(state.now);
            }
            Verb::Release | Verb::Settle | Verb::HandOver => {
                entry.release_doubt = entry.release_doubt.max(doubt);
                entry.count -= 1;
                entry.leaving = false;
                let doubt = entry.release_doubt.max(entry.acquire_doubt);
                if call.verb == Verb::HandOver {
                    let heir = &mut state.entries[call.to];
                    heir.is_heir = false;
                    heir.release_doubt = heir.release_doubt.max(call.doubt);
                    self.sweep_after(state, call.to, call.doubt);
                }
                self.left(state, who, call);
                self.sweep_after(state, who, doubt);
                self.settle(state, who, Why::GiveBack);
            }
        }
        debug_assert!(doubt <= state.now + TIMEOUT);
    }
}
