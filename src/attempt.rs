//! Taking a lock: one settled attempt, and the contest that waits for the next.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::time::Instant;

use crate::admit::admit_readers;
use crate::backend::Script;
use crate::backoff::Backoff;
use crate::clock::{millis, Moment};
use crate::doubt::{look, settle_debt, settle_to, sweep, Rest};
use crate::ear::{Ear, Tally};
use crate::error::{LockError, LostBy};
use crate::hold::{Debts, Gate, Hold, Place, Slot, Wanted};
use crate::kind::{Role, Table};
use crate::lease::Lease;
use crate::owner::Owner;
use crate::script::{Answer, Fault, Patience, Settled, Status};
use crate::session::Core;
use crate::ticket::Ticket;
use crate::wait::{Contest, Tried, Turn};
use crate::waiters::Mail;
use crate::watchdog::report_lost;

/// What an attempt came to, and the entry until somebody has taken it over.
type Attempted = (Result<Tried<Ticket>, LockError>, Option<Gate>);

/// Who waits for a lock, as its attempts know it.
pub(crate) trait Waits: Send + Sync + 'static {
    /// The lock, if it was handed over meanwhile.
    fn take(&self) -> Option<Ticket>;

    /// The server says that others have it, or come first.
    fn is_busy(&self, answer: &Answer);
}

impl Waits for Place {
    fn take(&self) -> Option<Ticket> {
        self.take_prize()
    }

    fn is_busy(&self, _: &Answer) {}
}

/// One owner's wish for one lock.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) core: Arc<Core>,
    pub(crate) kind: &'static Table,
    pub(crate) slot: Arc<Slot>,
    /// The same owner's entry in the other role.
    pub(crate) sibling: Option<Arc<Slot>>,
    pub(crate) lease: Lease,
    /// How it waits without messages.
    pub(crate) backoff: Option<Backoff>,
    /// What it asks with in place of the kind's acquire script, where several servers vote.
    pub(crate) vote: Option<&'static Script>,
    pub(crate) patience: Patience,
}

impl Wish {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { slot: self.slot.clone(), kind: self.kind, lease: self.lease }
    }

    /// One attempt with all its copies. Dropped half-way, the janitor settles it.
    pub(crate) async fn attempt(&self, waiter: Option<Arc<dyn Waits>>) -> Result<Tried<Ticket>, LockError> {
        self.core.ready()?;
        let Ok(begun) = tokio::time::timeout(self.core.settings.outage_limit, self.begin(waiter.as_deref())).await
        else {
            // What an earlier call left in doubt is still being settled, in vain.
            let name = self.name();
            let detail = "an earlier call of this owner is not settled yet".to_owned();
            return Err(LockError::Unreachable { name, detail });
        };
        let (gate, is_upgrade) = match begun {
            Ok(ticket) => return Ok(Tried::Won(ticket)),
            Err(begun) => begun,
        };
        let gate = self.check(gate, is_upgrade)?;
        let wish = self.clone();
        let work = self.core.janitor.carry(move |abandoned| {
            let patience = wish.patience.clone().unless(abandoned);
            async move { wish.ask(gate, waiter, patience).await }
        });
        // The gate opens last: where nobody awaits the ticket, it is on its way back before this owner's next attempt.
        let (tried, _gate) = work.await;
        tried
    }

    /// The entry to itself, with nothing owed, and whether this would be an upgrade then; or what was handed over
    /// meanwhile.
    async fn begin(&self, waiter: Option<&dyn Waits>) -> Result<Ticket, (Gate, bool)> {
        let mut gate = self.gate().await;
        if let Some(ticket) = waiter.and_then(Waits::take) {
            return Ok(ticket);
        }
        settle_debt(&self.core, &mut gate).await;
        // Behind that: the owner may give its read hold back while this waits.
        let is_upgrade = self.is_upgrade().await;
        Err((gate, is_upgrade))
    }

    /// The entry to itself, behind the releases that this owner began, in the other role too.
    async fn gate(&self) -> Gate {
        if let Some(sibling) = self.sibling.as_ref().filter(|sibling| sibling.is_leaving()) {
            drop(sibling.gate.lock().await);
        }
        loop {
            let gate = self.slot.gate.clone().lock_owned().await;
            // What can't be entered again is taken anew, behind its release.
            if self.kind.reentrant || !self.slot.is_leaving() {
                return gate;
            }
        }
    }

    fn name(&self) -> String {
        self.slot.line.keys.name.to_string()
    }

    fn owner(&self) -> Owner {
        self.core.owner_of(&self.slot.field)
    }

    /// Whether this would be an upgrade: told behind what is under way in the other role, as what comes of that may be
    /// on its way back at once. (Nobody who has that entry to itself waits for this one.)
    async fn is_upgrade(&self) -> bool {
        let Some(reader) = self.sibling.as_ref().filter(|_| self.kind.role == Role::Write && self.holds_as_sibling())
        else {
            return false;
        };
        let _gate = reader.gate.lock().await;
        self.holds_as_sibling()
    }

    /// What can be refused without asking the server.
    fn check(&self, gate: Gate, is_upgrade: bool) -> Result<Gate, LockError> {
        if self.core.is_closing() {
            return Err(LockError::Closed);
        }
        let outer_lost = self.slot.outer_lost.swap(false, Ordering::AcqRel);
        let Some(hold) = self.slot.hold() else {
            if outer_lost {
                return Err(LockError::Lost { name: self.name(), owner: self.owner() });
            }
            if is_upgrade {
                return Err(LockError::Upgrade { name: self.name(), owner: self.owner() });
            }
            return Ok(gate);
        };
        if let Some(why) = hold.leased.lost(self.core.now()) {
            return Err(self.end(&hold, why, gate, None));
        }
        if !self.kind.reentrant {
            return Err(LockError::AlreadyHeld { name: self.name(), owner: self.owner() });
        }
        let limit = self.core.settings.max_holds;
        if self.slot.count() >= limit {
            return Err(LockError::HoldLimit { name: self.name(), owner: self.owner(), limit });
        }
        Ok(gate)
    }

    /// The owner's hold was lost: it is over, and whatever the server has of it is given back.
    fn end(&self, hold: &Hold, why: LostBy, gate: Gate, doubt: Option<i64>) -> LockError {
        self.core.watchdog.forget(&hold.leased);
        self.slot.drop_hold(hold.leased.id, why);
        report_lost(&hold.leased);
        let doubt = gate.acquire.max(doubt);
        self.take_back(&hold.leased.mark, Some(gate), doubt);
        LockError::Lost { name: self.name(), owner: self.owner() }
    }

    /// Whether the same owner holds the lock in the other role, as far as is known here.
    fn holds_as_sibling(&self) -> bool {
        let hold = self.sibling.as_ref().filter(|sibling| !sibling.is_leaving()).and_then(|sibling| sibling.hold());
        hold.is_some_and(|hold| hold.leased.lost(self.core.now()).is_none())
    }

    /// The server may have more than this owner holds, as an earlier give-back was not answered: that goes first, as
    /// what is found there would be taken for what this attempt did.
    async fn clear(&self, gate: &mut Gate, patience: &Patience) -> Result<(), LockError> {
        if gate.unanswered && !self.kind.anonymous {
            let n = self.slot.count().to_string();
            let settled = settle_to(&self.core, self.kind, &self.slot, gate, [&self.slot.field, &n], patience).await;
            settled.map_err(|fault| self.failed(fault))?;
            settle_debt(&self.core, gate).await;
        }
        Ok(())
    }

    fn failed(&self, fault: Fault) -> LockError {
        LockError::of_fault(&self.slot.line.keys.name, fault, self.core.is_closing())
    }

    async fn ask(self, mut gate: Gate, waiter: Option<Arc<dyn Waits>>, patience: Patience) -> Attempted {
        if let Err(error) = self.clear(&mut gate, &patience).await {
            return (Err(error), Some(gate));
        }
        let (keys, mark) = (&self.slot.line.keys, self.slot.mark(self.kind));
        let (lease, count) = (millis(self.lease.duration()).to_string(), self.slot.count().to_string());
        let asks = (self.kind.asks)(self.sibling.as_ref().map(|sibling| &*sibling.field), waiter.is_some());
        let mut args: Vec<&str> = vec![&mark, &lease, &count];
        args.extend(asks.as_deref());
        let fence;
        if self.kind.fenced {
            fence = self.slot.fence(&gate);
            args.extend([&*self.slot.field, &fence[0], &fence[1]]);
        }
        let script = self.vote.unwrap_or(self.kind.acquire);
        let mut settled = self.core.wire.settle(script, &keys.of(script.keys), &args, &patience).await;
        // It had more to tidy up than one call may (rule 12).
        while settled.goes_on() && !patience.is_abandoned() && !self.core.is_closing() {
            let doubt = settled.doubt;
            settled = self.core.wire.settle(script, &keys.of(script.keys), &args, &patience).await;
            settled.doubt = settled.doubt.max(doubt);
        }
        if let Some((waiter, answer)) = waiter.as_ref().zip(settled.result.as_ref().ok()) {
            if answer.status == Status::Busy {
                waiter.is_busy(answer);
            }
        }
        self.read(&mark, gate, settled)
    }

    fn read(&self, mark: &Arc<str>, mut gate: Gate, settled: Settled) -> Attempted {
        let doubt = settled.doubt;
        let outer = self.slot.hold().and_then(|hold| hold.leased.lost(self.core.now()).map(|why| (hold, why)));
        if !self.kind.fenced {
            gate.untold = gate.untold.max(doubt);
        }
        match settled.result {
            Ok(answer) => {
                if let Some((run, since, age)) = answer.run().filter(|_| self.vote.is_some()) {
                    self.core.life.saw(run, since, age, self.core.now());
                }
                match outer.filter(|_| answer.status == Status::Done) {
                    // The answer came too late for the hold that was to be entered.
                    Some((hold, why)) => (Err(self.end(&hold, why, gate, doubt)), None),
                    None => (self.read_answer(mark, &mut gate, answer, doubt), Some(gate)),
                }
            }
            Err(fault) => {
                self.take_back(mark, Some(gate), doubt);
                (Err(self.failed(fault)), None)
            }
        }
    }

    fn read_answer(
        &self,
        mark: &Arc<str>,
        gate: &mut Debts,
        answer: Answer,
        doubt: Option<i64>,
    ) -> Result<Tried<Ticket>, LockError> {
        if answer.status != Status::Done && doubt.is_some() {
            self.take_back(mark, None, doubt);
        }
        match answer.status {
            Status::Done => {
                gate.acquire = gate.acquire.max(doubt);
                self.outlive(answer.sent);
                let ticket = Ticket::enter(&self.core, self.kind, &self.slot, mark, &answer, self.lease);
                let ticket = ticket.if_worth()?;
                if let Some(script) = self.kind.admit.filter(|_| !ticket.inner) {
                    admit_readers(&self.core, &self.slot.line, script);
                }
                Ok(Tried::Won(ticket))
            }
            Status::Busy => {
                self.slot.line.turns.busy_elsewhere();
                let left = answer.int(0).and_then(|ms| u64::try_from(ms).ok());
                Ok(Tried::Busy(left.map(Duration::from_millis)))
            }
            Status::NotHeld => {
                if let Some(hold) = self.slot.hold() {
                    self.core.watchdog.forget(&hold.leased);
                    self.slot.drop_hold(hold.leased.id, LostBy::Server);
                    report_lost(&hold.leased);
                }
                if let Some(doubt) = gate.acquire.take() {
                    self.take_back(mark, None, Some(doubt));
                }
                Err(LockError::Lost { name: self.name(), owner: self.owner() })
            }
            Status::WrongType(detail) => Err(LockError::WrongType { name: self.name(), detail }),
            Status::Tampered(found) => Err(LockError::Tampered { name: self.name(), found }),
            Status::Refused(why) => Err(LockError::Refused { name: self.name(), why }),
        }
    }

    /// The server gave it to this owner: whoever has it by the record of this process has lost it, but for one that is
    /// on its way back, and the writer that this owner is itself. Where it is not clear which of them is the newer, the
    /// next renewal tells.
    fn outlive(&self, sent: Moment) {
        if self.slot.count() > 0 {
            return;
        }
        for hold in self.slot.line.holds() {
            let beside = match hold.kind.role {
                Role::Exclusive => false,
                Role::Read => self.kind.role == Role::Read,
                Role::Write => self.sibling.as_ref().is_some_and(|sibling| Arc::ptr_eq(sibling, &hold.slot)),
            };
            if !beside && hold.leased.since <= sent && hold.leased.is_watched() {
                hold.lose(&self.core, LostBy::Server);
            }
        }
    }

    /// A message came, or may have been missed: nobody else releases what this process holds.
    pub(crate) fn doubt_holders(&self) {
        for hold in self.slot.line.holds() {
            self.core.janitor.finish(look(self.core.clone(), hold));
        }
    }

    /// Whatever copies in doubt may have taken, or may take yet.
    fn take_back(&self, mark: &Arc<str>, gate: Option<Gate>, doubt: Option<i64>) {
        let (kind, slot, lease) = (self.kind, self.slot.clone(), self.lease.duration());
        let rest = Rest { kind, slot, mark: mark.clone(), lease };
        self.core.janitor.finish(sweep(self.core.clone(), rest, gate, doubt));
    }
}

/// A waiter: in the process's line, and at its head on the server.
pub(crate) struct Contender {
    wish: Wish,
    place: Arc<Place>,
    ear: Ear,
    pub(crate) tally: Tally,
    /// Whether readers may be letting it go first.
    goes_first: bool,
    /// Whether the last look found that the owner holds the lock in the other role.
    saw_sibling: bool,
}

impl Contender {
    pub(crate) fn new(wish: Wish) -> Self {
        let line = &wish.slot.line;
        let place = line.turns.join(wish.wanted());
        let ear = Ear::new(line.keys.channel.clone());
        Self { wish, place, ear, tally: Tally::default(), goes_first: false, saw_sibling: false }
    }

    /// `true` once whenever the same owner got the lock in the other role: then it may enter, or must not wait.
    fn finds_sibling(&mut self) -> bool {
        let holds = self.wish.holds_as_sibling();
        let saw = std::mem::replace(&mut self.saw_sibling, holds);
        holds && !saw
    }

    /// The longest pause between two attempts.
    fn cap(&self) -> Duration {
        let Wish { core, kind, .. } = &self.wish;
        let cap = core.settings.wait_cap;
        // Who goes first says so in time.
        core.wire.jittered(kind.goes_first.map_or(cap, |first| cap.min(first / 2)))
    }

    /// Lets another process go first: until it had the lock, at most as long as the line says.
    async fn stand_aside(&mut self) {
        let line = self.wish.slot.line.clone();
        let Some(aside) = line.turns.aside() else { return };
        let core = self.wish.core.clone();
        let limit = aside.until.since(core.now());
        if self.wish.backoff.is_none() && self.ear.subscribe(&core, limit).await {
            self.ear.drain(&core);
        }
        while let Some(aside) = line.turns.aside() {
            let left = aside.until.since(core.now());
            tokio::select! {
                () = self.ear.wakes() => line.turns.heard_aside(core.now()),
                () = tokio::time::sleep(left) => line.turns.end_aside(),
            }
        }
    }
}

impl Contest for Contender {
    type Prize = Ticket;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Turn<Ticket>, LockError> {
        // Nobody tells what becomes of a hold on the server: the head asks, behind one of its own process too.
        let mut deadline = Instant::now() + pause.unwrap_or_else(|| self.cap());
        let slot = self.wish.slot.clone();
        loop {
            match self.place.take_mail() {
                Mail::Won(ticket) => return Ok(Turn::Won(ticket)),
                Mail::Lapsed => {
                    self.place = slot.line.turns.join(self.wish.wanted());
                    continue;
                }
                Mail::Closed => return Err(LockError::Closed),
                Mail::Try => {
                    self.stand_aside().await;
                    return Ok(Turn::Try);
                }
                Mail::Nothing | Mail::Gone => {}
            }
            let mut held = pin!(slot.held.notified());
            held.as_mut().enable();
            let sibling = self.wish.sibling.clone();
            let mut sibling_held = pin!(OptionFuture::from(sibling.as_ref().map(|sibling| sibling.held.notified())));
            // Nothing to be told yet: the first poll registers it.
            let _ = futures::poll!(sibling_held.as_mut());
            if slot.is_enterable() || self.finds_sibling() {
                // The same owner got it elsewhere: entering again needs no place in the line.
                return Ok(Turn::Try);
            }
            let is_head = slot.line.turns.is_head(&self.place);
            let listens = is_head && pause != Some(Duration::ZERO);
            tokio::select! {
                // Mail first: who was handed the lock holds it, too.
                biased;
                () = self.place.bell.notified() => {}
                () = held => return Ok(Turn::Try),
                Some(()) = sibling_held => {}
                () = self.ear.wakes(), if listens => {
                    self.wish.doubt_holders();
                    return Ok(Turn::Try);
                }
                () = tokio::time::sleep_until(deadline) => {
                    if slot.line.turns.is_head(&self.place) {
                        return Ok(Turn::Try);
                    }
                    deadline = Instant::now() + self.cap();
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.tally.asks();
        self.ear.drain(&self.wish.core);
        let went_first = std::mem::replace(&mut self.goes_first, self.wish.kind.goes_first.is_some());
        let tried = self.wish.attempt(Some(self.place.clone())).await;
        self.tally.heard();
        self.goes_first = match &tried {
            Ok(Tried::Won(_)) => false,
            Ok(Tried::Busy(_)) => self.goes_first,
            Err(_) => went_first,
        };
        tried
    }

    fn listen(&mut self) -> bool {
        self.wish.backoff.is_none() && self.ear.listen(&self.wish.core)
    }

    fn pause(&mut self, left: Option<Duration>) -> Duration {
        let Wish { core, slot, backoff, .. } = &self.wish;
        let cap = match backoff.as_ref().filter(|_| slot.line.holds().is_empty()) {
            Some(backoff) => backoff.pause(self.tally.attempts, |pause| core.wire.jittered(pause)),
            // Behind a hold of this process it is told of the release.
            None => self.cap(),
        };
        // A millisecond on top, as the server rounds down.
        left.map_or(cap, |left| cap.min(left + Duration::from_millis(1)))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.wish.slot.line.turns.leave(&self.place);
        if self.goes_first {
            // Readers need not let it any more.
            let Wish { core, kind, slot, .. } = self.wish.clone();
            core.janitor.clone().finish(async move {
                let gate = slot.gate.clone().lock_owned().await;
                let (mark, lease) = (slot.field.clone(), kind.goes_first.unwrap_or_default());
                sweep(core, Rest { kind, slot, mark, lease }, Some(gate), None).await;
            });
        }
    }
}
