//! Readers of one process who wait together come in together. Rule 16 of docs/PROTOCOL.md.

use std::sync::Arc;

use crate::backend::Script;
use crate::base::clock::millis;
use crate::engine::Engine;
use crate::hold::doubt::Rest;
use crate::hold::entry::{Gate, Place, Wish};
use crate::hold::ticket::Ticket;
use crate::lease::validity::margin;
use crate::wire::doubt::Doubt;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Fate, Query};

/// Readers in one script.
const BATCH: usize = 100;

/// One who waits, with its entry to itself.
type Reader = (Arc<Place>, Gate);

/// A reader got in: those who stand first in its line come along, whatever becomes of it.
pub(crate) fn admit_readers(first: &Wish, script: &'static Script) {
    let Wish { engine, entry, confirm, .. } = first;
    // One script is confirmed as a whole.
    let free = |place: &Place| free_entry(place).filter(|_| place.wish.confirm == *confirm);
    let mut readers = entry.line.turns.lock().first_readers(free).into_iter().peekable();
    while readers.peek().is_some() {
        let batch = readers.by_ref().take(BATCH).collect();
        engine.janitor.finish(admit(first.clone(), script, batch));
    }
}

/// Its entry, if an acquire may be sent for it: nothing else is under way, held or owed.
fn free_entry(place: &Place) -> Option<Gate> {
    let entry = &place.wish.entry;
    let gate = entry.gate.clone().try_lock_owned().ok()?;
    (gate.release.is_empty() && !gate.unanswered && entry.count() == 0 && !place.is_gone()).then_some(gate)
}

/// Sends one copy. Whoever is not let in by its answer is where it was: the head of the line asks for itself, and finds
/// what this may have done.
async fn admit(first: Wish, script: &'static Script, batch: Vec<Reader>) {
    let (engine, line, confirm) = (&first.engine, &first.entry.line, first.confirm);
    let leases: Vec<String> = batch.iter().map(|(place, _)| millis(place.wish.lease.duration()).to_string()).collect();
    let fields = batch.iter().map(|(place, _)| &*place.wish.entry.field);
    let args: Vec<&str> = fields.zip(&leases).flat_map(|(field, lease)| [field, lease]).collect();
    let (answer, doubt) =
        engine.wire.copy(Query { confirm, ..Query::new(script, &line.keys.of(script.keys), &args) }).await;
    match answer {
        Ok(answer) if answer.status == Status::Done => {
            let places: Vec<_> = batch.iter().map(|(place, _)| place.clone()).collect();
            for (at, reader) in batch.into_iter().enumerate() {
                if answer.int(at) == Some(1) {
                    let_in(engine, reader, &answer);
                }
            }
            line.turns.lock().served(&places);
        }
        Ok(answer) if matches!(answer.status, Status::NotConfirmed(_)) => {
            for (place, gate) in batch {
                take_back(engine, &place, Some(gate), Doubt::default());
            }
        }
        Err(Fate::Doubtful(_)) => {
            for (place, mut gate) in batch {
                gate.acquire.merge(&doubt);
                let gate = place.is_gone().then_some(gate);
                take_back(engine, &place, gate, doubt.clone());
            }
        }
        _ => {}
    }
}

/// Has what one reader may have got, and did not get to hold, given back.
fn take_back(engine: &Arc<Engine>, place: &Place, gate: Option<Gate>, doubt: Doubt) {
    let mark = place.wish.entry.field.clone();
    Rest::of_attempt(&place.wish, mark).take_back(engine, gate, doubt);
}

fn let_in(engine: &Arc<Engine>, (place, gate): Reader, answer: &Answer) {
    let lease = place.wish.lease.duration();
    if engine.is_closing() || engine.now() >= answer.sent.after(lease - margin(lease)) {
        return take_back(engine, &place, Some(gate), Doubt::default());
    }
    let ticket = Ticket::enter(&place.wish, &place.wish.entry.field, answer);
    // While the gate is closed: an attempt of its own that waits there finds the ticket.
    ticket.hand_to(&place);
}
