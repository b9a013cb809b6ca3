//! What can happen next, and what it does.

use std::sync::Arc;

use super::{Action, Call, Copy, Entry, Fault, Scope, State, Step, Verb, Why, Without, LEASE, TIMEOUT};
use crate::locks::kinds::{LOCK, QUEUE};
use crate::locks::Role;
use crate::server::{self, words};

/// Copies of a call, at most.
const COPIES: u8 = 2;

impl Entry {
    /// Whether nothing of it is under way.
    pub(super) fn is_open(&self) -> bool {
        self.call.is_none() && !self.is_heir && !self.dead
    }

    pub(super) fn sweep_due(&self, now: i64) -> Option<usize> {
        self.sweeps.iter().position(|after| now > *after)
    }

    pub(super) fn sweep_after(&mut self, doubt: i64) {
        if doubt > 0 && !self.sweeps.contains(&doubt) {
            self.sweeps.push(doubt);
            self.sweeps.sort_unstable();
        }
    }

    /// The hold is over, as far as is known.
    pub(super) fn drop_hold(&mut self) {
        (self.count, self.until, self.since, self.leaving) = (0, 0, 0, false);
    }
}

impl Scope {
    pub(super) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        // What a fault did not strike comes before the next tick; so does what a client does about it.
        let mut urgent = false;
        for (at, copy) in state.copies.iter().enumerate() {
            actions.push(Action::Deliver(at));
            urgent |= !copy.stray;
            if copy.current && !copy.stray && self.strikes(state, Fault::Call) {
                actions.push(Action::Stray(at));
            }
        }
        for (who, entry) in state.entries.iter().enumerate().filter(|(_, entry)| !entry.dead) {
            if let Some(call) = &entry.call {
                urgent |= self.answers(state, who, call, actions);
            } else if entry.is_open() {
                if entry.sweep_due(state.now).is_some() {
                    actions.push(Action::Sweep(who));
                    urgent = true;
                } else if self.can_begin(state, who) {
                    actions.push(Action::Begin(who));
                }
                let step = self.owners[who].steps.get(usize::from(entry.step));
                match step {
                    Some(Step::LockOrLeave) if entry.waiting => actions.push(Action::Leave(who)),
                    Some(Step::Lock) if !entry.waiting && self.is_held_beside(state, who) => {
                        actions.push(Action::Join(who));
                    }
                    _ => {}
                }
            }
        }
        if self.strikes(state, Fault::Restart) {
            actions.push(Action::Restart);
        }
        if self.strikes(state, Fault::Crash) {
            let processes = self.owners.iter().map(|owner| owner.process).max().unwrap_or(0);
            actions.extend((0..=processes).map(Action::Crash));
        }
        if !urgent && state.now < self.ticks * TIMEOUT {
            actions.push(Action::Tick);
        }
    }

    fn strikes(&self, state: &State, fault: Fault) -> bool {
        state.faults > 0 && self.kinds_of_faults.contains(&fault)
    }

    /// What an owner can do about its call; whether that is to be done before the next tick.
    fn answers(&self, state: &State, who: usize, call: &Call, actions: &mut Vec<Action>) -> bool {
        let is_over = state.now >= call.sent + TIMEOUT;
        if call.answer.is_some() && state.now <= call.sent + TIMEOUT {
            actions.push(Action::Hear(who));
            if !call.struck && self.strikes(state, Fault::Answer) {
                actions.push(Action::Late(who));
            }
        }
        if call.struck {
            if call.copies < COPIES && call.verb != Verb::Renew {
                actions.push(Action::Again(who));
            }
            actions.push(Action::GiveUp(who));
        }
        is_over || call.answer.is_some() && !call.struck
    }

    /// Whether another owner of its process has the lock.
    fn is_held_beside(&self, state: &State, who: usize) -> bool {
        let is_beside = |other: usize| other != who && self.owners[other].process == self.owners[who].process;
        self.owners[who].sibling.is_none()
            && (0..self.owners.len()).any(|other| is_beside(other) && state.entries[other].count > 0)
    }

    fn can_begin(&self, state: &State, who: usize) -> bool {
        let (owner, entry) = (&self.owners[who], &state.entries[who]);
        let Some(step) = owner.steps.get(usize::from(entry.step)) else { return false };
        let is_acquire = matches!(step, Step::Lock | Step::LockOrLeave | Step::TryLock);
        let waits = is_acquire && self.without != Without::Waiting && entry.release_doubt >= state.now;
        let asked = entry.waiting && entry.asked == state.now && !entry.woken;
        // An acquire comes after the releases that its owner began on either side.
        let sibling_leaves = owner.sibling.is_some_and(|sibling| is_acquire && state.entries[sibling].leaving);
        !waits && !asked && !sibling_leaves
    }

    pub(super) fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Begin(who) => self.begin(state, who),
            Action::Deliver(at) => self.deliver(state, at),
            Action::Hear(who) => self.hear(state, who),
            Action::Again(who) => {
                if let Some(call) = self.doubt(state, who) {
                    let Call { verb, why, n, to, copies, doubt, .. } = call;
                    self.send(state, who, verb, why, n, to);
                    if let Some(call) = &mut state.entries[who].call {
                        (call.copies, call.doubt) = (copies + 1, doubt);
                    }
                }
            }
            Action::GiveUp(who) => {
                if let Some(call) = self.doubt(state, who) {
                    self.give_up(state, who, &call);
                }
            }
            Action::Leave(who) => self.leave(state, who),
            Action::Join(who) => (state.entries[who].waiting, state.entries[who].asked) = (true, -1),
            Action::Sweep(who) => {
                let now = state.now;
                if let Some(at) = state.entries[who].sweep_due(now) {
                    state.entries[who].sweeps.remove(at);
                }
                self.settle(state, who, Why::GiveBack);
            }
            Action::Stray(at) => {
                state.faults -= 1;
                state.copies[at].stray = true;
                let by = state.copies[at].by;
                if let Some(call) = &mut state.entries[by].call {
                    call.struck = true;
                }
            }
            Action::Late(who) => {
                state.faults -= 1;
                if let Some(call) = &mut state.entries[who].call {
                    call.struck = true;
                }
            }
            Action::Restart => {
                state.faults -= 1;
                state.life += 1;
                state.keys = Arc::default();
            }
            Action::Crash(process) => {
                state.faults -= 1;
                for (owner, entry) in self.owners.iter().zip(&mut state.entries) {
                    if owner.process == process {
                        *entry = Entry { dead: true, ..Entry::default() };
                    }
                }
                for copy in state.copies.iter_mut().filter(|copy| self.owners[copy.by].process == process) {
                    copy.current = false;
                }
            }
            Action::Tick => {
                state.now += TIMEOUT;
                for entry in &mut state.entries {
                    entry.woken = false;
                }
            }
        }
    }

    /// Takes an owner's call, whose last copy is in doubt from here on.
    fn doubt(&self, state: &mut State, who: usize) -> Option<Call> {
        let mut call = state.entries[who].call.take()?;
        call.doubt = call.doubt.max(call.sent + TIMEOUT);
        for copy in state.copies.iter_mut().filter(|copy| copy.by == who) {
            copy.current = false;
        }
        Some(call)
    }

    pub(super) fn send(&self, state: &mut State, who: usize, verb: Verb, why: Why, n: u8, to: usize) {
        let now = state.now;
        let waits = state.entries[who].waiting;
        let copy = Copy { by: who, verb, n, waits, to, not_after: now + TIMEOUT, stray: false, current: true };
        state.copies.push(copy);
        let entry = &mut state.entries[who];
        entry.call = Some(Call { verb, why, n, to, copies: 1, sent: now, doubt: 0, answer: None, struck: false });
    }

    /// Makes the server's count what the registry says.
    pub(super) fn settle(&self, state: &mut State, who: usize, why: Why) {
        let n = state.entries[who].count;
        self.send(state, who, Verb::Settle, why, n, who);
    }

    fn begin(&self, state: &mut State, who: usize) {
        let now = state.now;
        match self.owners[who].steps[usize::from(state.entries[who].step)] {
            Step::Lock | Step::LockOrLeave => self.acquire(state, who, true),
            Step::TryLock => self.acquire(state, who, false),
            Step::Unlock => self.release(state, who, Why::Step),
            Step::Renew if state.entries[who].count > 0 && now < state.entries[who].until => {
                self.send(state, who, Verb::Renew, Why::Step, 0, who);
            }
            Step::Renew => state.entries[who].step += 1,
        }
    }

    fn acquire(&self, state: &mut State, who: usize, waits: bool) {
        let now = state.now;
        let is_reader = |entry: &Entry| entry.count > 0 && now < entry.until;
        let owner = &self.owners[who];
        let is_upgrade = owner.kind.role == Role::Write
            && owner.sibling.is_some_and(|sibling| is_reader(&state.entries[sibling]))
            && state.entries[who].count == 0;
        let entry = &mut state.entries[who];
        if entry.count > 0 && entry.until <= now {
            // Its owner is told that the hold is lost, and what the server has of it goes.
            entry.step += 1;
            entry.drop_hold();
            let doubt = entry.acquire_doubt;
            entry.sweep_after(doubt);
            self.settle(state, who, Why::GiveBack);
        } else if is_upgrade {
            self.leave(state, who);
        } else if entry.unanswered {
            self.settle(state, who, Why::Clear);
        } else {
            (entry.waiting, entry.asked, entry.woken) = (waits, now, false);
            let n = entry.count;
            self.send(state, who, Verb::Acquire, Why::Step, n, who);
        }
    }

    /// It waits no more, without the lock. (Behind its attempts: none is under way.)
    fn leave(&self, state: &mut State, who: usize) {
        let (entry, kind) = (&mut state.entries[who], &self.owners[who].kind);
        let waited = std::mem::take(&mut entry.waiting);
        entry.step += 1;
        if waited && kind.queues {
            self.send(state, who, Verb::Leave, Why::GiveBack, 0, who);
        } else if waited && kind.role == Role::Write {
            self.settle(state, who, Why::GiveBack);
        }
    }

    pub(super) fn release(&self, state: &mut State, who: usize, why: Why) {
        let now = state.now;
        let heir = self.heir(state, who);
        let entry = &mut state.entries[who];
        let n = entry.count;
        if n == 0 {
            entry.step += 1;
            return;
        }
        entry.leaving = n == 1;
        let has_more = self.without != Without::SettleInDoubt && entry.acquire_doubt > 0 || entry.unanswered;
        match heir.filter(|_| n == 1 && !has_more && now < entry.until) {
            Some(heir) => {
                state.entries[heir].is_heir = true;
                self.send(state, who, Verb::HandOver, why, 1, heir);
            }
            None if has_more => self.send(state, who, Verb::Settle, why, n - 1, who),
            None => self.send(state, who, Verb::Release, why, n, who),
        }
    }

    /// Who waits in the same process, and can be given the lock.
    fn heir(&self, state: &State, who: usize) -> Option<usize> {
        self.owners[who].kind.hand_over.as_ref()?;
        let is_heir = |other: usize| {
            let entry = &state.entries[other];
            let is_past = entry.release_doubt < state.now || self.without == Without::HeirCheck;
            let is_free = entry.is_open() && entry.count == 0 && is_past && !entry.unanswered;
            other != who && self.owners[other].process == self.owners[who].process && entry.waiting && is_free
        };
        (0..self.owners.len()).find(|other| is_heir(*other))
    }

    fn deliver(&self, state: &mut State, at: usize) {
        let copy = state.copies.remove(at);
        let Copy { by, verb, n, to, not_after, .. } = copy;
        let owner = &self.owners[by];
        let (script, keys) = owner.kind.of(verb);
        let first_hold = format!("{{{LOCK}}}:{}:rwlock_timeout:1", owner.field);
        let mut keys = keys.clone();
        if owner.kind.role == Role::Read && verb == Verb::Renew {
            keys.push(&first_hold);
        }
        let (lease, n) = (LEASE.to_string(), n.to_string());
        let sibling = owner.sibling.map_or("", |sibling| self.owners[sibling].field);
        let waits = match (owner.kind.role, copy.waits) {
            (Role::Write, true) => "2000",
            (_, true) => "1",
            (_, false) => "0",
        };
        let args: Vec<&str> = match verb {
            Verb::Acquire if owner.kind.role == Role::Read => vec![owner.field, &lease, &n, sibling],
            Verb::Acquire => vec![owner.field, &lease, &n, waits],
            Verb::Release => vec![owner.field, &lease, &n],
            Verb::Settle if owner.kind.queues => vec![owner.field, &n, waits],
            Verb::Settle => vec![owner.field, &n],
            Verb::Renew => vec![owner.field, &lease],
            Verb::HandOver => vec![owner.field, self.owners[to].field, &lease],
            Verb::Leave => vec![owner.field],
        };
        let before = state.keys.clone();
        let call = server::Call { script, keys: &keys, not_after, args: &args };
        let (answer, after) = self.servers.run(0, &before, state.now, &call);
        state.keys = Arc::new(after);
        state.refused |= answer.status == 2;
        if verb == Verb::Acquire && answer.status == 1 && owner.kind.queues {
            self.look_at_order(state, &before, by);
        }
        let tells = matches!(verb, Verb::Release | Verb::Settle | Verb::Leave) && answer.status != 2;
        if tells {
            state.entries.iter_mut().filter(|entry| entry.waiting).for_each(|entry| entry.woken = true);
        }
        if verb == Verb::Acquire && answer.status != 2 && owner.kind.queues {
            state.entries[by].seen = state.now;
        }
        let life = state.life;
        if let Some(call) = state.entries[by].call.as_mut().filter(|_| copy.current) {
            call.answer = Some((answer, life));
        }
    }

    /// Somebody got the fair lock: whoever stood before it in the queue was dead by the rule.
    fn look_at_order(&self, state: &mut State, before: &lockson_embedded::Snapshot, by: usize) {
        let now = state.now;
        let (queue, entered) = self.servers.at(0, before, now, |server| {
            let held = words(server, &["HEXISTS", LOCK, self.owners[by].field]) == ["1"];
            (words(server, &["LRANGE", QUEUE, "0", "-1"]), held)
        });
        let passed = queue.iter().take_while(|field| *field != self.owners[by].field);
        let is_silent = |field: &String| {
            let other = self.owners.iter().position(|owner| owner.field == field);
            other.is_none_or(|other| now - state.entries[other].seen >= 3000 || state.entries[other].dead)
        };
        if !entered && passed.filter(|field| !is_silent(field)).count() > 0 {
            state.broken = Some(super::check::ORDER);
        }
    }
}
