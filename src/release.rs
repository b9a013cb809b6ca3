//! Giving back: to the next in line, to the server, or, where an acquire is in doubt, whatever it may have taken.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::clock::ServerTime;
use crate::error::{LostBy, Refused, UnlockError};
use crate::hold::{Debts, Hold, Share, Slot};
use crate::janitor::say;
use crate::kind::Table;
use crate::line::{Next, Place};
use crate::script::{Answer, Fate, Fault, Patience, Status};
use crate::session::Core;
use crate::ticket::Ticket;
use crate::watchdog::report_lost;

pub(crate) type Gate = OwnedMutexGuard<Debts>;

/// What there may be on the server of a hold, or of an attempt at one, that is to go.
pub(crate) struct Rest {
    pub(crate) kind: &'static Table,
    pub(crate) slot: Arc<Slot>,
    pub(crate) mark: Arc<str>,
    /// It ends by itself so long after the last call.
    pub(crate) lease: Duration,
}

/// A waiter that was taken out of the line to be given the lock: else it goes back to the head.
struct Heir {
    place: Arc<Place>,
    served: bool,
}

impl Drop for Heir {
    fn drop(&mut self) {
        if !self.served {
            self.place.slot.line.put_back(self.place.clone());
        }
    }
}

/// A release that nobody has heard the end of: dropped half-way, by a panic, the hold counts as given back, and what
/// may be left of it is looked after.
struct UnderWay {
    core: Arc<Core>,
    slot: Arc<Slot>,
    share: Share,
    hold: Arc<Hold>,
    done: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.done || self.slot.hold().is_none_or(|hold| hold.id != self.hold.id) {
            return;
        }
        self.slot.leave(self.share);
        let doubt = self.core.wire.latest(self.core.now());
        self.core.janitor.finish(sweep(self.core.clone(), self.hold.rest(&self.slot), None, Some(doubt)));
    }
}

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
    patience: Patience,
}

/// Gives one share back, behind what its entry does at this moment. Once polled it is carried out: callers run it as
/// carried work or in the janitor.
pub(crate) async fn release(
    core: Arc<Core>,
    slot: Arc<Slot>,
    share: Share,
    gate: impl Future<Output = Gate>,
    patience: Patience,
) -> Result<(), UnlockError> {
    let gate = gate.await;
    let Some((hold, n)) = slot.has(share) else {
        core.can_release()?;
        return Err(not_held(&core, &slot));
    };
    // By the kind that took it: a release through another kind's handle wakes the same waiters.
    let kind = hold.kind;
    let mut under_way = UnderWay { core: core.clone(), slot: slot.clone(), share, hold: hold.clone(), done: false };
    let leaving = Leaving { core: &core, kind, slot: &slot, share, hold, n, gate, patience };
    let given = leaving.give().await;
    under_way.done = true;
    given
}

impl Leaving<'_> {
    async fn give(self) -> Result<(), UnlockError> {
        if self.n > 1 {
            return self.give_to_server(false).await;
        }
        self.core.watchdog.forget(&self.hold);
        // What is lost is not there to be handed over.
        let is_lost = self.hold.lost(self.core.now()).is_some();
        let can_hand_over = self.kind.hand_over.is_some() && !self.may_have_more() && !is_lost;
        match self.slot.line.next(self.core.now(), can_hand_over) {
            Next::HandOver(place) => self.give_to_heir(Heir { place, served: false }).await,
            Next::Release { last_of_run } => self.give_to_server(last_of_run).await,
        }
    }

    /// Whether the server may have more of this owner than is known: a late copy of an acquire may have added one, or
    /// an earlier give-back was not answered. Then only what is left counts, not what was there.
    fn may_have_more(&self) -> bool {
        self.gate.acquire.is_some() || self.gate.unanswered
    }

    async fn give_to_server(mut self, last_of_run: bool) -> Result<(), UnlockError> {
        let keys = &self.slot.line.keys;
        let own = last_of_run && self.core.channels.drain(&keys.channel);
        let (lease, n, left);
        let (script, args) = if self.may_have_more() {
            left = (self.n - 1).to_string();
            (self.kind.settle, settle_args(self.kind, self.slot, &self.hold.mark, &left))
        } else {
            (lease, n) = (self.hold.lease_millis(), self.n.to_string());
            (self.kind.release, vec![&*self.hold.mark, &lease, &n])
        };
        let settled = self.core.wire.settle(script, &keys.of(script.keys), &args, &self.patience).await;
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
                self.gate.unanswered = false;
                self.slot.leave(self.share);
                self.look_after_copies();
                Ok(())
            }
            Ok(answer) => Err(self.refused(&answer, settled.doubt.is_some())),
            Err(fault) => Err(self.unanswered(fault)),
        }
    }

    async fn give_to_heir(mut self, mut heir: Heir) -> Result<(), UnlockError> {
        let place = heir.place.clone();
        let gate = place.slot.gate.clone().try_lock_owned().ok();
        let gate = gate.filter(|gate| gate.release.is_none_or(|doubt| self.core.wire.is_past(doubt)));
        let gate = gate.filter(|gate| !gate.unanswered);
        let (Some(script), Some(mut heir_gate)) = (place.kind.hand_over, gate) else {
            // The waiter is busy with an attempt of its own, or copies of its last release may still end a new hold.
            drop(heir);
            return self.give_to_server(false).await;
        };
        let lease = crate::clock::millis(place.lease.duration()).to_string();
        let keys = self.slot.line.keys.of(script.keys);
        let mark = place.slot.mark(place.kind);
        let seen = place.kind.fenced.then(|| self.slot.line.token().to_string());
        let mut args = vec![&*self.hold.mark, &mark, &lease];
        args.extend(seen.iter().flat_map(|seen| [&*mark, seen, "0"]));
        let settled = self.core.wire.settle(script, &keys, &args, &self.patience).await;
        owe(self.core, self.slot, &mut self.gate, settled.doubt);
        match settled.result {
            Ok(answer) if answer.status == Status::Done => {
                heir_gate.acquire = heir_gate.acquire.max(settled.doubt);
                let ticket = Ticket::enter(self.core, place.kind, &place.slot, &mark, &answer, place.lease);
                heir.served = true;
                // While the gate is closed: an attempt of the waiter's own that waits there finds the ticket.
                place.grant(ticket);
                drop(heir_gate);
                self.slot.leave(self.share);
                self.look_after_copies();
                Ok(())
            }
            Ok(Answer { status: Status::Refused(_), .. }) | Err(Fault::Refused(_)) if settled.doubt.is_none() => {
                // Taking may be refused (out of memory) where giving back is not.
                drop(heir_gate);
                drop(heir);
                self.give_to_server(false).await
            }
            Ok(answer) => {
                drop(heir_gate);
                drop(heir);
                Err(self.refused(&answer, settled.doubt.is_some()))
            }
            Err(fault) => {
                // It may still happen: the waiter's next attempt waits for that and finds what came of it; if the
                // waiter goes away, the janitor does.
                heir_gate.release = heir_gate.release.max(settled.doubt);
                if !place.kind.fenced {
                    heir_gate.untold = heir_gate.untold.max(settled.doubt);
                }
                drop(heir_gate);
                let (kind, slot, lease) = (place.kind, place.slot.clone(), place.lease.duration());
                let rest = Rest { kind, slot, mark, lease };
                self.core.janitor.finish(sweep(self.core.clone(), rest, None, settled.doubt));
                let error = self.unanswered(fault);
                drop(heir);
                Err(error)
            }
        }
    }

    /// Copies of an acquire without an answer may still raise the count: look once more when they no longer can.
    fn look_after_copies(&mut self) {
        if let Some(doubt) = self.gate.acquire {
            let rest = self.hold.rest(self.slot);
            self.core.janitor.finish(sweep(self.core.clone(), rest, None, Some(doubt)));
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
                report_lost(&self.hold);
                UnlockError::NotHeld { name, owner, lost: self.hold.lost(self.core.now()) }
            }
        }
    }

    /// It is not renewed any more, and what may be left of it is looked after.
    fn unanswered(self, fault: Fault) -> UnlockError {
        self.hold.unanswered.store(true, Ordering::Release);
        self.slot.leave(self.share);
        let doubt = self.gate.release.max(self.gate.acquire);
        let (core, closed) = (self.core.clone(), self.core.is_dead());
        self.core.janitor.finish(sweep(core, self.hold.rest(self.slot), Some(self.gate), doubt));
        UnlockError::of_fault(&self.slot.line.keys.name, fault, closed)
    }
}

/// Makes the server's count what the registry says: at once where the gate is given, and once more after `doubt`. From
/// this call on the client owes it.
pub(crate) fn sweep(
    core: Arc<Core>,
    rest: Rest,
    gate: Option<Gate>,
    doubt: Option<ServerTime>,
) -> impl Future<Output = ()> + Send + 'static {
    let owing = core.owed.note(&rest.slot.line.keys.name);
    async move {
        if let Some(gate) = gate {
            rest.clear(&core, gate).await;
        }
        if let Some(doubt) = doubt {
            core.wire.pass(doubt).await;
            let gate = rest.slot.gate.clone().lock_owned().await;
            rest.clear(&core, gate).await;
            let mut gate = rest.slot.gate.lock().await;
            gate.acquire = gate.acquire.filter(|owed| *owed > doubt);
            gate.untold = gate.untold.filter(|owed| *owed > doubt);
        }
        drop(owing);
    }
}

impl Rest {
    /// Until it is answered, or the lease is over. Between two tries the entry is open.
    async fn clear(&self, core: &Arc<Core>, gate: Gate) {
        // No copy runs later than a command timeout from now, and what it does lasts for the lease.
        let over = core.now().after(self.lease + core.settings.command_timeout);
        if self.is_answered(core, gate).await {
            return;
        }
        let again = || async {
            let gate = self.slot.gate.clone().lock_owned().await;
            self.is_answered(core, gate).await
        };
        if !core.insist(Some(over), again).await {
            let name = &*self.slot.line.keys.name;
            say(|| tracing::warn!(target: "lockson", name, "a hold was not given back: its lease has ended by now"));
        }
    }

    async fn is_answered(&self, core: &Arc<Core>, mut gate: Gate) -> bool {
        let n = self.slot.count_of(&self.mark).to_string();
        let settled = settle_to(core, self.kind, &self.slot, &mut gate, [&self.mark, &n], &core.brief()).await;
        !is_to_be_tried_again(&settled)
    }
}

fn is_to_be_tried_again(settled: &Result<Answer, Fault>) -> bool {
    matches!(settled, Err(Fault::Unreachable(_) | Fault::Refused(Refused::ReadOnly)))
}

/// The server does not have it any more.
pub(crate) fn lose(core: &Core, hold: &Hold, why: LostBy) {
    let why = if hold.forced.load(Ordering::Acquire) { LostBy::Forced } else { why };
    core.watchdog.forget(hold);
    hold.end(why);
    match why {
        // Who ends a hold by force says so.
        LostBy::Forced => drop(hold.tell()),
        _ => report_lost(hold),
    }
    hold.of.ended(hold.id);
}

/// Asks whether a hold is still there, behind what its owner does at this moment.
pub(crate) async fn look(core: Arc<Core>, hold: Arc<Hold>) {
    let _gate = hold.slot.gate.lock().await;
    if hold.is_watched() {
        let script = hold.kind.extend;
        // One copy: the watchdog asks again.
        let copy = core.wire.copy(script, &hold.slot.line.keys.of(script.keys), &[&hold.mark, "0"]).await;
        if matches!(copy.fate, Fate::Answered(answer) if answer.status == Status::NotHeld) {
            lose(&core, &hold, LostBy::Server);
        }
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

pub(crate) async fn settle_to(
    core: &Arc<Core>,
    kind: &'static Table,
    slot: &Arc<Slot>,
    gate: &mut Gate,
    [mark, n]: [&str; 2],
    patience: &Patience,
) -> Result<Answer, Fault> {
    let keys = &slot.line.keys;
    let args = settle_args(kind, slot, mark, n);
    let settled = core.wire.settle(kind.settle, &keys.of(kind.settle.keys), &args, patience).await;
    // A copy of this may come late too.
    owe(core, slot, gate, settled.doubt);
    if !n.is_empty() {
        gate.unanswered = is_to_be_tried_again(&settled.result);
    }
    settled.result
}

/// Nobody waits as this owner any more: its place in the server's queue goes, as soon as its attempts are settled.
pub(crate) async fn leave_queue(core: Arc<Core>, kind: &'static Table, slot: Arc<Slot>) {
    let mut gate = slot.gate.clone().lock_owned().await;
    let _permit = slot.line.crowd.leaving.acquire().await;
    if !slot.line.crowd.has(&slot.field) {
        let _ = settle_to(&core, kind, &slot, &mut gate, [&slot.field, ""], &core.patience()).await;
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
    let n = slot.count_of(&hold.mark).to_string();
    let settled = settle_to(&core, hold.kind, &slot, &mut gate, [&hold.mark, &n], &core.patience()).await;
    if let Some(doubt) = gate.acquire.take() {
        core.janitor.finish(sweep(core.clone(), hold.rest(&slot), None, Some(doubt)));
    }
    matches!(settled, Ok(answer) if matches!(answer.status, Status::Done | Status::Busy | Status::NotHeld))
}

pub(crate) fn not_held(core: &Core, slot: &Slot) -> UnlockError {
    UnlockError::NotHeld { name: slot.line.keys.name.to_string(), owner: core.owner_of(&slot.field), lost: None }
}
