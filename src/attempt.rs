//! Taking a lock: one settled attempt, and the contest that waits for the next.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::backoff::Backoff;
use crate::clock::{millis, Moment};
use crate::error::{LockError, LostBy};
use crate::guard::Ticket;
use crate::hold::{Debts, Lease, Slot, State};
use crate::kind::Table;
use crate::line::{Mail, Place};
use crate::notify::Subscription;
use crate::release::sweep;
use crate::script::{Fault, Patience, Settled, Status};
use crate::session::Core;
use crate::wait::{Contest, Tried, Turn};

/// One owner's wish for one lock.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) core: Arc<Core>,
    pub(crate) kind: &'static Table,
    pub(crate) slot: Arc<Slot>,
    pub(crate) lease: Lease,
    /// How it waits without messages.
    pub(crate) backoff: Option<Backoff>,
    /// Whether it takes a place in the server's queue, where its kind has one.
    pub(crate) queues: bool,
    pub(crate) patience: Patience,
}

impl Wish {
    /// One attempt with all its copies. Dropped half-way, the janitor settles it.
    pub(crate) async fn attempt(&self, place: Option<&Place>) -> Result<Tried<Ticket>, LockError> {
        let gate = self.slot.gate.clone().lock_owned();
        let Ok(mut gate) = tokio::time::timeout(self.core.settings.outage_limit, gate).await else {
            // What an earlier call left in doubt is still being settled, in vain.
            let name = self.slot.line.keys.name.to_string();
            let detail = "an earlier call of this owner is not settled yet".to_owned();
            return Err(LockError::Unreachable { name, detail });
        };
        if let Some(ticket) = place.and_then(Place::take_ticket) {
            return Ok(Tried::Won(ticket));
        }
        if let Some(doubt) = gate.release {
            self.core.wire.pass(doubt).await;
            gate.release = None;
        }
        let gate = self.check(gate)?;
        let wish = self.clone();
        self.core
            .janitor
            .carry(move |abandoned| {
                let patience = wish.patience.clone().unless(abandoned);
                async move { wish.settle(gate, patience).await }
            })
            .await
    }

    /// What can be refused without asking the server.
    fn check(&self, gate: OwnedMutexGuard<Debts>) -> Result<OwnedMutexGuard<Debts>, LockError> {
        if self.core.is_closing() {
            return Err(LockError::Closed);
        }
        let Some(hold) = self.slot.hold() else { return Ok(gate) };
        let name = self.slot.line.keys.name.to_string();
        let owner = self.core.owner_of(&self.slot.field);
        if let Some(why) = hold.lost(self.core.now()) {
            self.core.watchdog.forget(&hold);
            self.slot.drop_hold(hold.id, why);
            let doubt = gate.acquire;
            let left = sweep(self.core.clone(), self.kind, self.slot.clone(), Some(gate), doubt);
            self.core.janitor.finish(left);
            return Err(LockError::Lost { name, owner });
        }
        if !self.kind.reentrant {
            return Err(LockError::AlreadyHeld { name, owner });
        }
        let limit = self.core.settings.max_holds;
        if self.slot.count() >= limit {
            return Err(LockError::HoldLimit { name, owner, limit });
        }
        Ok(gate)
    }

    async fn settle(self, gate: OwnedMutexGuard<Debts>, patience: Patience) -> Result<Tried<Ticket>, LockError> {
        let keys = &self.slot.line.keys;
        let lease = millis(self.lease.duration()).to_string();
        let n = self.slot.count().to_string();
        let (seen, raise) = self.slot.fencing();
        let mut args = vec![&*self.slot.field, &lease, &n];
        if self.kind.fenced {
            args.extend([&*seen, raise]);
        }
        if self.kind.refresh.is_some() {
            args.push(if self.queues { "1" } else { "0" });
        }
        let script = self.kind.acquire;
        let settled = self.core.wire.settle(script, &keys.of(script.keys), &args, &patience).await;
        self.read(gate, settled)
    }

    fn read(&self, mut gate: OwnedMutexGuard<Debts>, settled: Settled) -> Result<Tried<Ticket>, LockError> {
        let name = self.slot.line.keys.name.to_string();
        let doubt = settled.doubt;
        let answer = match settled.result {
            Ok(answer) => answer,
            Err(fault) => {
                self.take_back(Some(gate), doubt);
                return Err(match fault {
                    Fault::Unreachable(detail) => LockError::Unreachable { name, detail },
                    Fault::Refused(why) => LockError::Refused { name, why },
                });
            }
        };
        if answer.status != Status::Done && doubt.is_some() {
            self.take_back(None, doubt);
        }
        match answer.status {
            Status::Done => {
                gate.acquire = gate.acquire.max(doubt);
                let ticket = Ticket::enter(&self.core, self.kind, &self.slot, &answer, self.lease);
                if ticket.hold.state(self.core.now()) == State::Lost {
                    let detail = "the answer took longer than the lease".to_owned();
                    return Err(LockError::Unreachable { name, detail });
                }
                Ok(Tried::Won(ticket))
            }
            Status::Busy => {
                self.slot.line.busy_elsewhere();
                if let Some(score) = answer.int(1).filter(|_| self.queues) {
                    self.slot.line.crowd.rank(&self.slot.field, score);
                }
                let left = answer.int(0).and_then(|ms| u64::try_from(ms).ok());
                Ok(Tried::Busy(left.map(Duration::from_millis)))
            }
            Status::NotHeld => {
                if let Some(hold) = self.slot.hold() {
                    self.core.watchdog.forget(&hold);
                    self.slot.drop_hold(hold.id, LostBy::Server);
                }
                if let Some(doubt) = gate.acquire.take() {
                    self.take_back(None, Some(doubt));
                }
                Err(LockError::Lost { name, owner: self.core.owner_of(&self.slot.field) })
            }
            Status::WrongType(detail) => Err(LockError::WrongType { name, detail }),
            Status::Tampered(found) => Err(LockError::Tampered { name, found }),
            Status::Refused(why) => Err(LockError::Refused { name, why }),
        }
    }

    /// Whatever copies in doubt may have taken, or may take yet.
    fn take_back(&self, gate: Option<OwnedMutexGuard<Debts>>, doubt: Option<i64>) {
        self.core.janitor.finish(sweep(self.core.clone(), self.kind, self.slot.clone(), gate, doubt));
    }
}

/// A waiter: in the process's line, and at its head on the server.
pub(crate) struct Contender {
    wish: Wish,
    place: Arc<Place>,
    ear: Ear,
    pub(crate) tally: Tally,
}

/// How often a waiter asked, and whether it was heard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) attempts: u32,
    /// Whether it made its first attempt, until one is answered.
    unheard: bool,
}

impl Tally {
    pub(crate) fn asks(&mut self) {
        self.attempts += 1;
        self.unheard |= self.attempts == 1;
    }

    pub(crate) fn heard(&mut self) {
        self.unheard = false;
    }

    /// It asked in vain: neither it nor any other call of this client was answered since `began`. (Since it asked would
    /// be too strict: who heads the line a moment before its limit has no time to hear.)
    pub(crate) fn is_unheard(self, core: &Core, began: Moment) -> bool {
        self.unheard && !core.wire.heard_since(began)
    }
}

/// What a waiter hears on its channel.
pub(crate) struct Ear {
    channel: Arc<str>,
    subscription: Option<Subscription>,
    /// Whether the channel was subscribed to before the last attempt was sent.
    listened: bool,
}

impl Ear {
    pub(crate) fn new(channel: Arc<str>) -> Self {
        Self { channel, subscription: None, listened: false }
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.subscription.as_ref().is_some_and(Subscription::is_confirmed)
    }

    /// Forgets what was heard so far: an attempt is about to be sent.
    pub(crate) fn drain(&mut self, core: &Core) {
        match &self.subscription {
            Some(subscription) => subscription.drain(),
            None => self.listened = core.channels.drain(&self.channel),
        }
    }

    /// `true`: only from now on.
    async fn subscribe(&mut self, core: &Core, limit: Duration) -> bool {
        if self.is_confirmed() {
            return false;
        }
        let confirmed = core.channels.is_confirmed(&self.channel);
        let (subscription, joined) = core.channels.join(&self.channel);
        // Kept unconfirmed too: the subscription is tried again, and wakes the waiter when it is there.
        self.subscription = Some(subscription);
        let joined = tokio::time::timeout(limit, joined).await;
        matches!(joined, Ok(Ok(true))) && !confirmed
    }

    /// Makes sure that what comes is heard. `true`: something after the last attempt was sent may have been missed.
    pub(crate) async fn listen(&mut self, core: &Core, limit: Duration) -> bool {
        if self.is_confirmed() {
            return false;
        }
        self.subscribe(core, limit).await;
        // What counts is whether a release right after the attempt was heard, not whether one is heard now.
        self.is_confirmed() && !self.listened
    }

    pub(crate) async fn wakes(&self) {
        match &self.subscription {
            Some(subscription) => subscription.heard().await,
            None => std::future::pending().await,
        }
    }
}

impl Contender {
    pub(crate) fn new(wish: Wish) -> Self {
        let line = &wish.slot.line;
        let place = line.join(wish.slot.clone(), wish.kind, wish.lease);
        let ear = Ear::new(line.keys.channel.clone());
        Self { wish, place, ear, tally: Tally::default() }
    }

    /// Lets another process go first: until it had the lock, at most as long as the line says.
    async fn stand_aside(&mut self) {
        let line = self.wish.slot.line.clone();
        if line.aside().is_none() {
            return;
        }
        let core = self.wish.core.clone();
        if self.wish.backoff.is_none() && self.ear.subscribe(&core, core.settings.command_timeout).await {
            self.ear.drain(&core);
        }
        while let Some(aside) = line.aside() {
            let left = aside.until.since(core.now());
            tokio::select! {
                () = self.ear.wakes() => line.heard_aside(core.now()),
                () = tokio::time::sleep(left) => line.end_aside(),
            }
        }
    }
}

impl Contest for Contender {
    type Prize = Ticket;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Turn<Ticket>, LockError> {
        let deadline = pause.map(|pause| tokio::time::Instant::now() + pause);
        let slot = self.wish.slot.clone();
        loop {
            match self.place.take_mail() {
                Mail::Granted(ticket) => return Ok(Turn::Won(ticket)),
                Mail::Closed => return Err(LockError::Closed),
                Mail::Try => {
                    self.stand_aside().await;
                    return Ok(Turn::Try);
                }
                Mail::Nothing | Mail::Gone => {}
            }
            let mut held = pin!(slot.held.notified());
            held.as_mut().enable();
            if slot.is_enterable() {
                // The same owner got it elsewhere: entering again needs no place in the line.
                return Ok(Turn::Try);
            }
            tokio::select! {
                () = self.place.bell.notified() => {}
                () = held => return Ok(Turn::Try),
                () = self.ear.wakes() => return Ok(Turn::Try),
                () = sleep_until(deadline) => return Ok(Turn::Try),
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.tally.asks();
        self.ear.drain(&self.wish.core);
        let tried = self.wish.attempt(Some(&self.place)).await;
        self.tally.heard();
        tried
    }

    async fn listen(&mut self) -> bool {
        let core = &self.wish.core;
        self.wish.backoff.is_none() && self.ear.listen(core, core.settings.command_timeout).await
    }

    fn pause(&mut self, left: Option<Duration>) -> Duration {
        let wire = &self.wish.core.wire;
        let cap = match &self.wish.backoff {
            Some(backoff) => backoff.pause(self.tally.attempts, |pause| wire.jittered(pause)),
            None => wire.jittered(self.wish.core.settings.wait_cap),
        };
        // A millisecond on top, as the server rounds down.
        left.map_or(cap, |left| cap.min(left + Duration::from_millis(1)))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.wish.slot.line.leave(&self.place);
    }
}

pub(crate) async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
