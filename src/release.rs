//! Giving back: to the next in line, to the server, or, where an acquire is in doubt, whatever it may have taken.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::clock::ServerTime;
use crate::error::{LostBy, UnlockError};
use crate::guard::Ticket;
use crate::hold::{Debts, Hold, Share, Slot};
use crate::kind::Table;
use crate::line::{Next, Place};
use crate::script::{Answer, Fault, Status};
use crate::session::Core;
use crate::watchdog::report_lost;

pub(crate) type Gate = OwnedMutexGuard<Debts>;

/// A share of a hold on its way back, with its entry to itself.
struct Leaving<'a> {
    core: &'a Arc<Core>,
    kind: &'static Table,
    slot: &'a Arc<Slot>,
    share: Share,
    hold: Arc<Hold>,
    /// The count before.
    n: u32,
    gate: Gate,
}

/// Gives one share back, behind what its entry does at this moment. Once polled it is carried out: callers run it as
/// carried work or in the janitor.
pub(crate) async fn release(
    core: Arc<Core>,
    slot: Arc<Slot>,
    share: Share,
    gate: impl Future<Output = Gate>,
) -> Result<(), UnlockError> {
    let gate = gate.await;
    let Some((hold, n)) = slot.has(share) else { return Err(not_held(&core, &slot)) };
    // By the kind that took it: a release through another kind's handle wakes the same waiters.
    let kind = hold.kind;
    let leaving = Leaving { core: &core, kind, slot: &slot, share, hold, n, gate };
    if n > 1 {
        return leaving.give_to_server(false).await;
    }
    core.watchdog.forget(&leaving.hold);
    let can_hand_over = kind.hand_over.is_some() && leaving.gate.acquire.is_none();
    match slot.line.next(core.now(), can_hand_over) {
        Next::HandOver(heir) => leaving.give_to_heir(heir).await,
        Next::Release { last_of_run } => leaving.give_to_server(last_of_run).await,
    }
}

impl Leaving<'_> {
    async fn give_to_server(mut self, last_of_run: bool) -> Result<(), UnlockError> {
        let keys = &self.slot.line.keys;
        let own = last_of_run && self.core.channels.drain(&keys.channel);
        let (lease, n, left);
        // A late copy of an acquire may have added one: then only what is left counts, not what was there.
        let (script, args) = if self.gate.acquire.is_none() {
            (lease, n) = (self.hold.lease_millis(), self.n.to_string());
            (self.kind.release, vec![&*self.hold.mark, &lease, &n])
        } else {
            left = (self.n - 1).to_string();
            (self.kind.settle, settle_args(self.kind, self.slot, &self.hold.mark, &left))
        };
        let settled = self.core.wire.settle(script, &keys.of(script.keys), &args, &self.core.patience()).await;
        owe(self.core, self.slot, &mut self.gate, settled.doubt);
        match settled.result {
            Ok(answer) if matches!(answer.status, Status::Done | Status::Busy) => {
                if last_of_run {
                    let heard = answer.int(0).unwrap_or_default() - i64::from(own);
                    // Where waiters queue on the server, only the next one hears, on a channel of its own.
                    // Other libraries than this one hear nothing.
                    let hears = heard > 0 || !self.kind.anonymous;
                    let tells = self.kind.announces && self.kind.refresh.is_none() && hears;
                    let others = tells.then(|| u32::try_from(heard).unwrap_or_default());
                    self.slot.line.stand_aside(self.core.now(), own, others);
                }
                self.slot.leave(self.share);
                self.look_after_copies();
                Ok(())
            }
            Ok(answer) => Err(self.refused(&answer, settled.doubt.is_some())),
            Err(fault) => Err(self.unanswered(fault)),
        }
    }

    async fn give_to_heir(mut self, heir: Arc<Place>) -> Result<(), UnlockError> {
        let gate = heir.slot.gate.clone().try_lock_owned().ok();
        let gate = gate.filter(|gate| gate.release.is_none_or(|doubt| self.core.wire.is_past(doubt)));
        let (Some(script), Some(mut heir_gate)) = (heir.kind.hand_over, gate) else {
            // The waiter is busy with an attempt of its own, or copies of its last release may still end a new hold.
            self.slot.line.put_back(heir);
            return self.give_to_server(false).await;
        };
        let lease = crate::clock::millis(heir.lease.duration()).to_string();
        let keys = self.slot.line.keys.of(script.keys);
        let mark = heir.slot.mark(heir.kind);
        let seen = heir.kind.fenced.then(|| self.slot.line.token().to_string());
        let mut args = vec![&*self.hold.mark, &mark, &lease];
        args.extend(seen.iter().flat_map(|seen| [&*mark, seen, "0"]));
        let settled = self.core.wire.settle(script, &keys, &args, &self.core.patience()).await;
        owe(self.core, self.slot, &mut self.gate, settled.doubt);
        match settled.result {
            Ok(answer) if answer.status == Status::Done => {
                heir_gate.acquire = heir_gate.acquire.max(settled.doubt);
                let ticket = Ticket::enter(self.core, heir.kind, &heir.slot, &mark, &answer, heir.lease);
                // While the gate is closed: an attempt of the waiter's own that waits there finds the ticket.
                heir.grant(ticket);
                drop(heir_gate);
                self.slot.leave(self.share);
                self.look_after_copies();
                Ok(())
            }
            Ok(Answer { status: Status::Refused(_), .. }) | Err(Fault::Refused(_)) if settled.doubt.is_none() => {
                // Taking may be refused (out of memory) where giving back is not.
                drop(heir_gate);
                self.slot.line.put_back(heir);
                self.give_to_server(false).await
            }
            Ok(answer) => {
                drop(heir_gate);
                self.slot.line.put_back(heir);
                Err(self.refused(&answer, settled.doubt.is_some()))
            }
            Err(fault) => {
                // It may still happen: the waiter's next attempt waits for that and finds what came of it; if the
                // waiter goes away, the janitor does.
                heir_gate.release = heir_gate.release.max(settled.doubt);
                if !heir.kind.fenced {
                    heir_gate.untold = heir_gate.untold.max(settled.doubt);
                }
                drop(heir_gate);
                let (core, kind, slot) = (self.core.clone(), heir.kind, heir.slot.clone());
                self.core.janitor.finish(sweep(core, kind, slot, mark, None, settled.doubt));
                let error = self.unanswered(fault);
                heir.slot.line.put_back(heir.clone());
                Err(error)
            }
        }
    }

    /// Copies of an acquire without an answer may still raise the count: look once more when they no longer can.
    fn look_after_copies(&mut self) {
        if let Some(doubt) = self.gate.acquire {
            let (core, mark) = (self.core.clone(), self.hold.mark.clone());
            self.core.janitor.finish(sweep(core, self.kind, self.slot.clone(), mark, None, Some(doubt)));
        }
    }

    fn refused(&mut self, answer: &Answer, doubt: bool) -> UnlockError {
        let name = self.slot.line.keys.name.to_string();
        self.slot.drop_hold(self.hold.id, LostBy::Server);
        self.core.watchdog.forget(&self.hold);
        self.look_after_copies();
        match &answer.status {
            Status::WrongType(detail) => UnlockError::WrongType { name, detail: detail.clone() },
            Status::Tampered(found) => UnlockError::Tampered { name, found: found.clone() },
            Status::Refused(why) => UnlockError::Refused { name, why: why.clone() },
            Status::NotHeld | Status::Done | Status::Busy => {
                let owner = self.core.owner_of(&self.slot.field);
                if doubt && self.n == 1 {
                    return UnlockError::Unconfirmed { name, owner };
                }
                report_lost(&self.hold, LostBy::Server);
                UnlockError::NotHeld { name, owner }
            }
        }
    }

    /// It is not renewed any more, and what may be left of it is looked after.
    fn unanswered(self, fault: Fault) -> UnlockError {
        let name = self.slot.line.keys.name.to_string();
        self.hold.unanswered.store(true, Ordering::Release);
        self.slot.leave(self.share);
        let doubt = self.gate.release.max(self.gate.acquire);
        let core = self.core.clone();
        self.core.janitor.finish(sweep(
            core,
            self.kind,
            self.slot.clone(),
            self.hold.mark.clone(),
            Some(self.gate),
            doubt,
        ));
        match fault {
            Fault::Unreachable(detail) => UnlockError::Unreachable { name, detail },
            Fault::Refused(why) => UnlockError::Refused { name, why },
        }
    }
}

/// Makes the server's count what the registry says: at once where the gate is given, and once more after `doubt`.
pub(crate) async fn sweep(
    core: Arc<Core>,
    kind: &'static Table,
    slot: Arc<Slot>,
    mark: Arc<str>,
    gate: Option<Gate>,
    doubt: Option<ServerTime>,
) {
    if let Some(mut gate) = gate {
        settle(&core, kind, &slot, &mark, &mut gate).await;
    }
    if let Some(doubt) = doubt {
        core.wire.pass(doubt).await;
        let mut gate = slot.gate.clone().lock_owned().await;
        settle(&core, kind, &slot, &mark, &mut gate).await;
        gate.acquire = gate.acquire.filter(|owed| *owed > doubt);
        gate.untold = gate.untold.filter(|owed| *owed > doubt);
    }
}

/// What a settling script is told: the count, and where waiters queue on the server whether this owner still does.
fn settle_args<'a>(kind: &Table, slot: &Slot, mark: &'a str, n: &'a str) -> Vec<&'a str> {
    let mut args = vec![mark, n];
    if kind.refresh.is_some() {
        args.push(if slot.line.crowd.has(&slot.field) { "1" } else { "0" });
    }
    args
}

/// Waits until no copy of an earlier release, or of a change of the lease, can run any more.
pub(crate) async fn settle_debt(core: &Core, gate: &mut Gate) {
    if let Some(doubt) = gate.release {
        core.wire.pass(doubt).await;
        gate.release = None;
    }
}

/// Copies of a release without an answer, or of a change of the lease, may still run. The entry remembers that, so it
/// outlives its hold for as long.
pub(crate) fn owe(core: &Arc<Core>, slot: &Arc<Slot>, gate: &mut Gate, doubt: Option<ServerTime>) {
    gate.release = gate.release.max(doubt);
    if let Some(doubt) = doubt {
        let (kept, slot) = (core.clone(), slot.clone());
        core.janitor.finish(async move {
            kept.wire.pass(doubt).await;
            drop(slot);
        });
    }
}

async fn settle(core: &Arc<Core>, kind: &'static Table, slot: &Arc<Slot>, mark: &str, gate: &mut Gate) -> bool {
    settle_to(core, kind, slot, gate, [mark, &slot.count_of(mark).to_string()]).await
}

async fn settle_to(
    core: &Arc<Core>,
    kind: &'static Table,
    slot: &Arc<Slot>,
    gate: &mut Gate,
    [mark, n]: [&str; 2],
) -> bool {
    let keys = &slot.line.keys;
    let args = settle_args(kind, slot, mark, n);
    let settled = core.wire.settle(kind.settle, &keys.of(kind.settle.keys), &args, &core.patience()).await;
    // A copy of this may come late too.
    owe(core, slot, gate, settled.doubt);
    matches!(settled.result, Ok(answer) if matches!(answer.status, Status::Done | Status::Busy | Status::NotHeld))
}

/// Nobody waits as this owner any more: its place in the server's queue goes, as soon as its attempts are settled.
pub(crate) async fn leave_queue(core: Arc<Core>, kind: &'static Table, slot: Arc<Slot>) {
    let mut gate = slot.gate.clone().lock_owned().await;
    let _permit = slot.line.crowd.leaving.acquire().await;
    if !slot.line.crowd.has(&slot.field) {
        settle_to(&core, kind, &slot, &mut gate, [&slot.field, ""]).await;
    }
}

/// Ends whatever an entry holds, however often, and what it is about to hold: behind the call that is under way.
/// `true`: the server confirmed that it is gone.
pub(crate) async fn give_all_back(core: Arc<Core>, slot: Arc<Slot>) -> bool {
    let before = slot.hold();
    if let Some(hold) = &before {
        core.watchdog.forget(hold);
    }
    let mut gate = slot.gate.clone().lock_owned().await;
    let current = slot.hold();
    if let Some(hold) = &current {
        core.watchdog.forget(hold);
        slot.drop_hold(hold.id, LostBy::Released);
    }
    let unanswered = before.filter(|hold| hold.unanswered.load(Ordering::Acquire));
    let Some(hold) = current.or(unanswered) else { return true };
    let confirmed = settle(&core, hold.kind, &slot, &hold.mark, &mut gate).await;
    if let Some(doubt) = gate.acquire.take() {
        let mark = hold.mark.clone();
        core.janitor.finish(sweep(core.clone(), hold.kind, slot.clone(), mark, None, Some(doubt)));
    }
    confirmed
}

pub(crate) fn not_held(core: &Core, slot: &Slot) -> UnlockError {
    UnlockError::NotHeld { name: slot.line.keys.name.to_string(), owner: core.owner_of(&slot.field) }
}
