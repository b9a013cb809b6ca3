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
    (gate.is_clear() && entry.count() == 0 && !place.is_gone()).then_some(gate)
}

/// Sends one copy. Whoever is not let in by its answer is where it was: the head of the line asks for itself, and finds
/// what this may have done.
async fn admit(first: Wish, script: &'static Script, batch: Vec<Reader>) {
    let (engine, line, confirm) = (&first.engine, &first.entry.line, first.confirm);
    let leases: Vec<String> = batch.iter().map(|(place, _)| millis(place.wish.lease.duration()).to_string()).collect();
    let fields = batch.iter().map(|(place, _)| &*place.wish.entry.field);
    let args: Vec<&str> = fields.zip(&leases).flat_map(|(field, lease)| [field, lease]).collect();
    let (answer, doubt) =
        engine.wire.copy(&Query { confirm, ..Query::new(script, &line.keys.of(script.keys), &args) }).await;
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

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::config::Replicas;
    use crate::{EmbeddedServer, Locks, Reply, Request};

    const SEC: Duration = Duration::from_secs(1);

    fn reader(locks: &Locks, owner: &str, request: &Request) -> Arc<Place> {
        let lock = locks.read_write_lock("read").read().owned_by(&owner.parse().unwrap());
        let (line, field) = (lock.line().unwrap(), lock.field());
        let wish = lock.wish(&line, &field, request, None).unwrap();
        let place = line.turns.lock().join(Arc::new(wish));
        place
    }

    /// Two who wait are let in together.
    async fn admit_two(locks: &Locks, request: &Request) -> [Arc<Place>; 2] {
        let places = ["one", "other"].map(|owner| reader(locks, owner, request));
        let batch = places.iter().map(|place| (place.clone(), free_entry(place).unwrap())).collect();
        let [first, _] = &places;
        admit(Wish::clone(&first.wish), first.wish.kind.admit.unwrap(), batch).await;
        places
    }

    fn is_held(server: &EmbeddedServer) -> bool {
        server.command(&["EXISTS", "read"]) == Ok(Reply::Int(1))
    }

    /// Its late release would end what is taken for it now; what was not given back would be taken for that.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_let_in_who_owes_or_holds_something() {
        let locks = EmbeddedServer::new().connect();
        let lock = locks.read_write_lock("read").read().owned_by(&"reader".parse().unwrap());
        let guard = lock.guard().await.unwrap();
        let place = reader(&locks, "reader", &Request::default());
        let is_free = || free_entry(&place).is_some();
        assert!(!is_free(), "it is inside");
        guard.unlock().await.unwrap();
        let (entry, node) = (&place.wish.entry, locks.engine().wire.backend.node("read").unwrap());
        assert!(is_free());
        entry.gate.lock().await.release = Doubt::new(node, i64::MAX);
        assert!(!is_free(), "a release may still run");
        *entry.gate.lock().await = Default::default();
        entry.gate.lock().await.unanswered = true;
        assert!(!is_free(), "the server may have more");
        *entry.gate.lock().await = Default::default();
        let gate = entry.gate.clone().lock_owned().await;
        assert!(!is_free(), "an attempt of its own is under way");
        drop(gate);
        assert!(is_free());
        drop(place.go());
        assert!(!is_free(), "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_stand_first_come_in_together() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let places = admit_two(&locks, &Request::default()).await;
        assert!(places.each_ref().map(|place| place.take_prize()).iter().all(Option::is_some));
        assert_eq!(server.calls(), 1);
    }

    /// An answer that was lost leaves nobody inside until a lease ends: writers would wait for that.
    #[tokio::test(start_paused = true)]
    async fn who_may_be_inside_without_knowing_is_taken_out() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        server.lose_replies(1);
        let places = admit_two(&locks, &Request::default()).await;
        assert!(is_held(&server) && !places.iter().any(|place| place.is_served()));
        for place in &places {
            let left = place.wish.entry.line.turns.lock().leave(place);
            drop(left);
        }
        tokio::time::sleep(SEC * 5).await;
        assert!(!is_held(&server));
        let writer = server.connect().read_write_lock("read").write();
        assert!(writer.try_lock().await.unwrap().is_acquired());
    }

    /// Too few replicas have it: nobody is let in by that, and nobody stays inside.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_confirmed_lets_nobody_in() {
        let server = EmbeddedServer::new();
        server.set_replica(Some(SEC / 1000));
        server.silence_replica(true);
        let request = Request::default().confirm(Replicas::AtLeast(1), SEC / 10);
        let locks = server.connect();
        let places = admit_two(&locks, &request).await;
        assert!(!places.iter().any(|place| place.is_served()));
        tokio::time::sleep(SEC).await;
        assert!(!is_held(&server));
    }

    /// Who is not let in has nothing on the server: nothing is given back.
    #[tokio::test(start_paused = true)]
    async fn who_is_not_let_in_costs_no_script() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        server.command(&["SET", "read", "of another type"]).unwrap();
        let places = admit_two(&locks, &Request::default()).await;
        tokio::time::sleep(SEC).await;
        assert!(!places.iter().any(|place| place.is_served()));
        assert_eq!(server.calls(), 1);
    }

    /// An answer that took nearly the whole lease is worth nothing: its reader waits on, and is not told that it had
    /// it.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_let_in_behind_its_lease() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let place = reader(&locks, "late", &Request::default().lease(SEC));
        let Wish { engine, entry, kind, .. } = &*place.wish;
        let (script, args) = (kind.admit.unwrap(), [&*entry.field, "1000"]);
        let keys = entry.line.keys.of(script.keys);
        let answer = engine.wire.copy(&Query::new(script, &keys, &args)).await.0.unwrap();
        assert_eq!(answer.int(0), Some(1));
        tokio::time::advance(SEC - margin(SEC) / 2).await;
        let_in(engine, (place.clone(), free_entry(&place).unwrap()), &answer);
        assert!(!place.is_served());
        tokio::task::yield_now().await;
        assert!(!place.is_gone());
    }
}
