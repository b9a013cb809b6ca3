//! What calls without an answer may have done, or may do yet: waited for, and taken back. Rule 6 of docs/PROTOCOL.md.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::ServerTime;
use crate::base::fault::Refused;
use crate::base::janitor::say;
use crate::engine::Core;
use crate::error::LostBy;
use crate::hold::entry::{Gate, Hold, Slot, Wish};
use crate::wire::script::{Answer, Fault, Patience, Status};
use crate::wire::table::Table;

/// What there may be on the server of a hold, or of an attempt at one, that is to go.
pub(crate) struct Rest {
    pub(crate) kind: &'static Table,
    pub(crate) slot: Arc<Slot>,
    pub(crate) mark: Arc<str>,
    /// It ends by itself so long after the last call.
    pub(crate) lease: Duration,
}

impl Rest {
    /// What there may be of a hold.
    pub(crate) fn of(hold: &Hold) -> Self {
        let (slot, mark) = (hold.slot.clone(), hold.leased.mark.clone());
        Self { kind: hold.kind, slot, mark, lease: hold.leased.longest() }
    }

    /// What there may be of an attempt.
    pub(crate) fn of_attempt(wish: &Wish, mark: Arc<str>) -> Self {
        Self { kind: wish.kind, slot: wish.slot.clone(), mark, lease: wish.lease.duration() }
    }

    /// It goes: see [`sweep`].
    pub(crate) fn take_back(self, core: &Arc<Core>, gate: Option<Gate>, doubt: Option<ServerTime>) {
        core.janitor.finish(sweep(core.clone(), self, gate, doubt));
    }

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
        let settled = settle(core, self.kind, &self.slot, &mut gate, [&self.mark, &n], &core.brief()).await;
        !is_to_be_tried_again(&settled)
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

fn is_to_be_tried_again(settled: &Result<Answer, Fault>) -> bool {
    matches!(settled, Err(Fault::Unreachable(_) | Fault::Refused(Refused::ReadOnly)))
}

/// Asks whether a hold is still there, behind what its owner does at this moment.
pub(crate) async fn look(core: Arc<Core>, hold: Arc<Hold>) {
    let _gate = hold.slot.gate.lock().await;
    if hold.leased.is_watched() {
        let script = hold.kind.extend;
        // One copy: the watchdog asks again.
        let copy = core.wire.copy(script, &hold.slot.line.keys.of(script.keys), &[&hold.leased.mark, "0"]).await;
        if matches!(copy.answer, Ok(answer) if answer.status == Status::NotHeld) {
            hold.lose(&core, LostBy::Server);
        }
    }
}

/// What a settling script is told: the count, and where waiters queue on the server whether this owner still does.
pub(crate) fn settle_args<'a>(kind: &Table, slot: &Slot, mark: &'a str, n: &'a str) -> Vec<&'a str> {
    let mut args = vec![mark, n];
    if kind.queue.is_some() {
        args.push(if slot.line.crowd.has(&slot.field) { "1" } else { "0" });
    }
    args
}

/// Waits until no copy of an earlier release, or of a change of the lease, can run any more.
pub(crate) async fn wait_out(core: &Core, gate: &mut Gate) {
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

/// Makes the server's count `n`, or lower where it is.
pub(crate) async fn settle(
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
    gate.unanswered = is_to_be_tried_again(&settled.result);
    settled.result
}
