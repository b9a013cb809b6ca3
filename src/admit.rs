//! Readers of one process who wait together come in together. Rule 16 of docs/PROTOCOL.md.

use std::sync::Arc;

use crate::backend::Script;
use crate::clock::{millis, ServerTime};
use crate::lease::margin;
use crate::line::{Line, Place};
use crate::release::{sweep, Gate, Rest};
use crate::script::{Answer, Copy, Fate, Status};
use crate::session::Core;
use crate::ticket::Ticket;

/// Readers in one script.
const BATCH: usize = 100;

/// One who waits, with its entry to itself.
type Reader = (Arc<Place>, Gate);

/// A reader got in: those who stand first in its line come along, whatever becomes of it.
pub(crate) fn admit_readers(core: &Arc<Core>, line: &Arc<Line>, script: &'static Script) {
    let mut readers = line.readers().into_iter().peekable();
    while readers.peek().is_some() {
        let batch = readers.by_ref().take(BATCH).collect();
        core.janitor.finish(admit(core.clone(), line.clone(), script, batch));
    }
}

/// Sends one copy. Whoever is not let in by its answer is where it was: the head of the line asks for itself, and finds
/// what this may have done.
async fn admit(core: Arc<Core>, line: Arc<Line>, script: &'static Script, batch: Vec<Reader>) {
    let leases: Vec<String> = batch.iter().map(|(place, _)| millis(place.lease.duration()).to_string()).collect();
    let fields = batch.iter().map(|(place, _)| &*place.slot.field);
    let args: Vec<&str> = fields.zip(&leases).flat_map(|(field, lease)| [field, lease]).collect();
    let Copy { fate, not_after } = core.wire.copy(script, &line.keys.of(script.keys), &args).await;
    match fate {
        Fate::Answered(answer) if answer.status == Status::Done => {
            let places: Vec<_> = batch.iter().map(|(place, _)| place.clone()).collect();
            for (at, reader) in batch.into_iter().enumerate() {
                if answer.int(at) == Some(1) {
                    let_in(&core, reader, &answer);
                }
            }
            line.served(&places);
        }
        Fate::Doubtful(_) => {
            for (place, mut gate) in batch {
                gate.acquire = gate.acquire.max(Some(not_after));
                let gate = place.is_gone().then_some(gate);
                take_back(&core, &place, gate, Some(not_after));
            }
        }
        Fate::Answered(_) | Fate::Late | Fate::NotSent(_) | Fate::Refused(_) => {}
    }
}

/// Has what one reader may have got, and did not get to hold, given back.
fn take_back(core: &Arc<Core>, place: &Place, gate: Option<Gate>, doubt: Option<ServerTime>) {
    let (slot, mark) = (place.slot.clone(), place.slot.field.clone());
    let rest = Rest { kind: place.kind, slot, mark, lease: place.lease.duration() };
    core.janitor.finish(sweep(core.clone(), rest, gate, doubt));
}

fn let_in(core: &Arc<Core>, (place, gate): Reader, answer: &Answer) {
    let lease = place.lease.duration();
    if core.is_closing() || core.now() >= answer.sent.after(lease - margin(lease)) {
        return take_back(core, &place, Some(gate), None);
    }
    let ticket = Ticket::enter(core, place.kind, &place.slot, &place.slot.field, answer, place.lease);
    // While the gate is closed: an attempt of its own that waits there finds the ticket.
    place.grant(ticket);
}
