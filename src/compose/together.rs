//! Several locks of one server and slot, taken by one script or not at all, and given back by one. What does not go its
//! usual way goes lock by lock. Rule 20 of docs/PROTOCOL.md.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use futures::future::join_all;

use crate::base::clock::millis;
use crate::base::keys::Keys;
use crate::engine::Engine;
use crate::error::{LockError, UnlockError};
use crate::hold::doubt::{owe, Rest};
use crate::hold::entry::{Entry, Gate, Hold, Wish};
use crate::hold::release::Release;
use crate::hold::ticket::Ticket;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Fate, Patience, Query};
use crate::wire::table::Together;

/// Locks in one script.
const MOST: usize = 100;

/// What came of one script for all.
pub(crate) enum Taken {
    All(Vec<Ticket>),
    /// Another owner has one of them.
    Busy,
    /// It is not known, or not to be had so: each is asked for by itself.
    Alone,
}

/// The scripts for locks of these kinds, if they are those of all.
fn scripts<'a>(mut kinds: impl Iterator<Item = Option<&'a Together>>) -> Option<&'a Together> {
    let first = kinds.next()??;
    kinds.all(|other| other.is_some_and(|other| std::ptr::eq(other.acquire, first.acquire))).then_some(first)
}

/// Whether one script may have these locks.
fn are_of_one_slot(engine: &Engine, keys: &[&str]) -> bool {
    let mut slots = keys.iter().map(|key| engine.wire.slot(key));
    let first = slots.next();
    (2..=MOST).contains(&keys.len()) && slots.all(|slot| Some(slot) == first)
}

/// What one of the scripts' locks is told by, and this of it: behind its value, where it is one of a group's.
fn words<'a>(keys: &'a Keys, [owner, other]: [&'a str; 2]) -> impl Iterator<Item = &'a str> {
    let value = Some(&*keys.value).filter(|value| !value.is_empty());
    value.into_iter().chain([owner, other])
}

/// Takes all at once, each for its own lease from the same instant on; by one script, sent once.
pub(crate) async fn take(wishes: Vec<Wish>) -> Result<Taken, LockError> {
    let Some(first) = wishes.first() else { return Ok(Taken::Alone) };
    let engine = first.engine.clone();
    let keys: Vec<&str> = wishes.iter().map(|wish| &*wish.entry.line.keys.lock).collect();
    let are_of_one = wishes.iter().all(|wish| Arc::ptr_eq(&wish.engine, &engine)) && are_of_one_slot(&engine, &keys);
    let scripts = scripts(wishes.iter().map(|wish| wish.kind.together.as_ref()));
    let (true, Some(scripts)) = (are_of_one, scripts) else { return Ok(Taken::Alone) };
    engine.ready()?;
    let Some(gates) = wishes.iter().map(free_entry).collect::<Option<Vec<Gate>>>() else { return Ok(Taken::Alone) };
    let to = engine.clone();
    let work = engine.janitor.carry(|_| async move { ask(&to, scripts, wishes, gates).await });
    Ok(work.await)
}

/// Its entry, if nothing is under way, held or owed, and nobody of this process has the lock or waits for it.
fn free_entry(wish: &Wish) -> Option<Gate> {
    let entry = &wish.entry;
    let gate = entry.gate.clone().try_lock_owned().ok()?;
    let owes = !gate.is_clear() || gate.may_have_more();
    let is_idle = entry.line.turns.lock().is_idle(wish.engine.now());
    let is_new = entry.count() == 0 && !entry.outer_lost.load(Ordering::Acquire);
    (!owes && is_idle && is_new && wish.confirm.is_none()).then_some(gate)
}

async fn ask(engine: &Arc<Engine>, scripts: &Together, wishes: Vec<Wish>, gates: Vec<Gate>) -> Taken {
    let leases: Vec<String> = wishes.iter().map(|wish| millis(wish.lease.duration()).to_string()).collect();
    let keys: Vec<&str> = wishes.iter().map(|wish| &*wish.entry.line.keys.lock).collect();
    let of_each = wishes.iter().zip(&leases).map(|(wish, lease)| (&wish.entry, lease));
    let args: Vec<&str> = of_each.flat_map(|(entry, lease)| words(&entry.line.keys, [&entry.field, lease])).collect();
    let query = Query { takes: true, ..Query::new(scripts.acquire, &keys, &args) };
    match engine.wire.copy(&query).await {
        (Ok(answer), _) if answer.status == Status::Done => {
            let enter = |wish: &Wish| {
                wish.outlive(answer.sent);
                Ticket::enter(wish, &wish.entry.field, &answer)
            };
            let tickets: Vec<Ticket> = wishes.iter().map(enter).collect();
            // Behind all, so that those that are not worth it are given back with the others.
            let worth: Result<Vec<Ticket>, LockError> = tickets.into_iter().map(Ticket::if_worth).collect();
            worth.map_or(Taken::Alone, Taken::All)
        }
        (Ok(Answer { status: Status::Busy, .. }), _) => Taken::Busy,
        (Err(Fate::Doubtful(_)), doubt) => {
            // Who asks for one of them finds what this may have done.
            for (wish, mut gate) in wishes.iter().zip(gates) {
                gate.acquire.merge(&doubt);
                drop(gate);
                Rest::of_attempt(wish, wish.entry.field.clone()).take_back(engine, None, doubt.clone());
            }
            Taken::Alone
        }
        _ => Taken::Alone,
    }
}

/// What is to be given back: a guard's share of a hold, or (`None`) a bare one.
pub(crate) struct Part {
    engine: Arc<Engine>,
    hold: Arc<Hold>,
    share: Option<u64>,
}

impl Part {
    pub(crate) fn of_guard(Ticket { engine, hold, share, armed, .. }: &Ticket) -> Option<Self> {
        let part = || Self { engine: engine.clone(), hold: hold.clone(), share: Some(*share) };
        armed.load(Ordering::Acquire).then(part)
    }

    pub(crate) fn bare(engine: &Arc<Engine>, entry: &Entry) -> Option<Self> {
        Some(Self { engine: engine.clone(), hold: entry.has(None)?.0, share: None })
    }

    /// Its entry, if this is its owner's only hold, it is known what stands for it on the server, and nobody of this
    /// process is to be handed the lock.
    fn gate(&self) -> Option<Gate> {
        let entry = &self.hold.entry;
        let gate = entry.gate.clone().try_lock_owned().ok()?;
        let is_last = entry.has(self.share).is_some_and(|(_, count)| count == 1);
        let is_waited_for = entry.line.turns.lock().is_waited_for();
        let has_one_mark = self.hold.leased.marks().1.is_none();
        (is_last && !is_waited_for && has_one_mark && !gate.may_have_more()).then_some(gate)
    }
}

/// A hold on its way back, with its entry to itself.
struct Leaving {
    release: Release,
    gate: Gate,
}

/// Gives all back by one script. `None`: they are to be given back one by one, and nothing is done yet. From this call
/// on the owners' next acquisitions come after it, whoever carries it out.
pub(crate) fn release(
    parts: Vec<Part>,
    patience: &Patience,
) -> Option<impl Future<Output = Vec<UnlockError>> + Send + 'static> {
    let engine = parts.first()?.engine.clone();
    let keys: Vec<&str> = parts.iter().map(|part| &*part.hold.entry.line.keys.lock).collect();
    let are_of_one = parts.iter().all(|part| Arc::ptr_eq(&part.engine, &engine));
    let scripts = scripts(parts.iter().map(|part| part.hold.kind.together.as_ref()))?;
    if !are_of_one || !are_of_one_slot(&engine, &keys) {
        return None;
    }
    let gates = parts.iter().map(Part::gate).collect::<Option<Vec<Gate>>>()?;
    let leave = |(part, gate): (Part, Gate)| {
        if let Some(share) = part.share {
            part.hold.entry.leaving(share);
        }
        Leaving { release: Release::new(part.engine, part.share, part.hold, 1, patience.clone()), gate }
    };
    let leaving: Vec<Leaving> = parts.into_iter().zip(gates).map(leave).collect();
    Some(async move { give_back(&engine, scripts, leaving).await })
}

async fn give_back(engine: &Arc<Engine>, scripts: &Together, mut leaving: Vec<Leaving>) -> Vec<UnlockError> {
    let lasts: Vec<(bool, bool)> = leaving.iter().map(|leaving| leaving.release.leave_turn()).collect();
    let holds: Vec<_> = leaving.iter().map(|leaving| leaving.release.hold.clone()).collect();
    let keys = holds.iter().map(|hold| &*hold.entry.line.keys);
    let args: Vec<&str> =
        holds.iter().zip(keys).flat_map(|(hold, keys)| words(keys, [hold.leased.mark(), &keys.channel])).collect();
    let locks = holds.iter().map(|hold| &*hold.entry.line.keys.lock);
    // Its place is the first one's channel's; the script is told where each is announced.
    let names: Vec<&str> = holds.first().map(|hold| &*hold.entry.line.keys.channel).into_iter().chain(locks).collect();
    let (answer, doubt) = engine.wire.copy(&Query::new(scripts.release, &names, &args)).await;
    let answer = answer.ok().filter(|answer| answer.status == Status::Done);
    for Leaving { release, gate } in &mut leaving {
        owe(engine, &release.hold.entry, gate, &doubt);
        release.in_doubt = !doubt.is_empty();
    }
    let given = leaving.into_iter().zip(lasts).enumerate().map(|(at, (Leaving { mut release, gate }, last))| {
        let heard = answer.as_ref().and_then(|answer| answer.int(at));
        async move {
            let given = match heard {
                Some(heard) => {
                    release.given(gate, heard, last);
                    Ok(())
                }
                None => release.give_to_server(gate, last).await,
            };
            release.end();
            given.err().map(|error| error.of_lost(release.hold.leased.lost(release.engine.now())))
        }
    });
    join_all(given).await.into_iter().flatten().collect()
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::time::Duration;

    use crate::{EmbeddedServer, MultiLock};

    /// Locks that are taken together are given back as others are: at the end of a run who listens goes first.
    #[tokio::test(start_paused = true)]
    async fn a_run_of_many_together_ends() {
        let server = EmbeddedServer::new();
        let (locks, other) = (server.connect(), server.connect());
        let both = ["a", "b"].map(|name| locks.lock(name));
        let lines = both.each_ref().map(|lock| lock.line().unwrap());
        let _ears = lines.each_ref().map(|line| other.engine().channels.join(&line.keys.channel));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let both = MultiLock::new(both);
        let mut rounds = 0;
        while lines.iter().any(|line| line.turns.lock().others.until().is_none()) {
            rounds += 1;
            assert!(rounds < 100, "nobody else got a chance");
            both.guard().await.unwrap().unlock().await.unwrap();
        }
        assert_eq!(server.calls(), rounds * 2, "each round by one script, and given back by one");
    }
}
