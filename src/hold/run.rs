//! Runs: turns of one process without a script each. What the first of them took is the next one's on the server, as it
//! is, until one of them stays: then its owner takes the run's place there. Rule 27 of docs/PROTOCOL.md.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::clock::millis;
use crate::engine::Engine;
use crate::error::LostReason;
use crate::hold::doubt::{look, owe, wait_out};
use crate::hold::entry::{Debts, Gate, Hold, Line, Place, Ticket, Wish};
use crate::lease::validity::{Leased, Place as Where};
use crate::metrics::handed_over;
use crate::waiting::turns::LONGEST_RUN_TIME;
use crate::wire::confirm::Short;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Fault, Patience, Query};
use crate::wire::table::Runs;

/// Who has it so long after the script that took it stays: nobody is given it without another by then.
const STAYS: Duration = Duration::from_millis(25);
/// And so long after that was answered.
const MOMENT: Duration = Duration::from_millis(5);
/// The first pause before a move that was not done is tried again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Whether a waiter may have it without a script, when its holder, who has entered it once, gives it back.
pub(crate) fn may_go_on(hold: &Hold, gate: &Debts, heir: &Wish, heir_gate: &Debts) -> bool {
    let (engine, leased) = (&heir.engine, &hold.leased);
    let now = engine.now();
    let is_settled = gate.is_settled() && heir_gate.is_settled() && heir.entry.hold().is_none();
    let is_run = hold.runs.is_some() && leased.place() == Where::First && heir.runs().is_some();
    let is_alike = heir.confirm <= leased.confirm() && leased.is_whole(heir.lease, now);
    let is_same_node = !engine.watchdog.is_switched(leased, leased.since);
    let is_ending = engine.is_closing() || hold.forced.load(Ordering::Acquire);
    let is_in_time = now.since(leased.since) < LONGEST_RUN_TIME;
    is_settled && is_run && is_alike && is_same_node && !is_ending && is_in_time
}

/// The next turn of a run: a waiter that holds nothing has what the hold before it had.
pub(crate) fn go_on(before: &Hold, heir: &Arc<Place>) -> Ticket {
    handed_over();
    let ticket = Ticket::of_next(heir, &before.leased);
    // Of a token nobody has to hear, unless somebody stays.
    if matches!(before.runs, Some(Runs::Token)) && before.heir.is_none() {
        look_after(&ticket);
    }
    if [before, &*ticket.hold].iter().any(|hold| hold.forced.load(Ordering::Acquire)) {
        // It was ended by force, by whom may not have seen this one, or not as one that is watched.
        ticket.hold.lose(&ticket.engine, LostReason::Forced);
    }
    ticket
}

/// A hold was taken by a script: if it begins a run, that is looked after.
pub(crate) fn begins(ticket: &Ticket) {
    if !ticket.inner && matches!(ticket.hold.runs, Some(Runs::Field { .. })) {
        look_after(ticket);
    }
}

fn look_after(Ticket { engine, hold, .. }: &Ticket) {
    let (line, run) = (Arc::downgrade(&hold.entry.line), hold.leased.clone());
    engine.janitor.finish(end(engine.clone(), line, run));
}

/// When the turns of a run are over, who still has it takes its place on the server.
async fn end(engine: Arc<Engine>, line: Weak<Line>, run: Arc<Leased>) {
    // A run that was a long way off is as old as that when it is heard of: its turns may take a moment, too.
    let moment = run.since.after(STAYS).max(engine.now().after(MOMENT));
    engine.wire.clock.sleep_until(moment).await;
    let holds = line.upgrade().map(|line| line.holds()).unwrap_or_default();
    drop(line);
    let Some(hold) = holds.into_iter().find(|hold| hold.leased.is_of_run(&run)) else { return };
    // Who was given it and was not polled since loses it to the next.
    if hold.heir.as_ref().and_then(Weak::upgrade).is_some_and(|heir| heir.lapse()) {
        return;
    }
    if matches!(hold.runs, Some(Runs::Token)) {
        return look(engine, hold).await;
    }
    let mut pause = FIRST_PAUSE;
    while !engine.is_closing() && hold.leased.is_watched() && hold.leased.place() != Where::Own {
        let mut gate = hold.entry.gate.clone().lock_owned().await;
        let is_moved = match gate.is_past() && hold.leased.is_watched() {
            true => matches!(own(&engine, &hold, &mut gate, &engine.one_copy()).await, Ok(None)),
            false => false,
        };
        drop(gate);
        if is_moved {
            return;
        }
        tokio::time::sleep(engine.wire.jittered(pause)).await;
        let longest = hold.leased.renewable(engine.now()).map_or(LONGEST_PAUSE, |lease| lease / 60);
        pause = (pause * 2).min(longest.clamp(FIRST_PAUSE, LONGEST_PAUSE));
    }
}

/// The owner of a hold that a run began takes the run's place on the server, and no turn follows without a script. What
/// is not of a run stays as it is. If the server has neither, the hold is lost. `Some`: too few replicas have it.
pub(crate) async fn own(
    engine: &Arc<Engine>,
    hold: &Arc<Hold>,
    gate: &mut Gate,
    patience: &Patience,
) -> Result<Option<Short>, Fault> {
    let (entry, leased) = (&hold.entry, &hold.leased);
    let Some(Runs::Field { moves: script, .. }) = hold.runs.filter(|_| leased.place() != Where::Own) else {
        return Ok(None);
    };
    // A late copy of what took the run, or of what gave this owner's own hold back, would undo it.
    gate.acquire.pass().await;
    wait_out(gate).await;
    let before = leased.place();
    let now = engine.now();
    let lease = leased.renewable(now).or_else(|| leased.unconfirmed(now));
    leased.moves(Where::Moving);
    let (keys, ms) = (entry.line.keys.of(script.keys), lease.map_or(0, millis).to_string());
    let args = [&**leased.mark(), &*entry.field, &ms];
    let query = Query { confirm: leased.confirm(), ..Query::new(script, &keys, &args) };
    let called = engine.wire.grant(&query, patience).await;
    owe(engine, entry, gate, &called.doubt);
    let is_refused = called.result.as_ref().map_or(true, |answer| matches!(answer.status, Status::Refused(_)));
    if is_refused && called.doubt.is_empty() {
        stays(engine, leased, before);
    }
    let is_unconfirmed = matches!(&called.result, Ok(Answer { status: Status::NotConfirmed(_), .. }));
    if (is_refused || is_unconfirmed) && leased.place() == Where::Moving {
        // What is being moved is renewed by that alone.
        leased.doubted();
    }
    let Answer { status, sent, .. } = called.result?;
    match status {
        Status::Done => {
            leased.moves(Where::Own);
            if let Some(lease) = lease {
                leased.renewed(sent, lease, engine.now());
            }
            if leased.is_watched() {
                engine.watchdog.watch(leased, sent);
            }
            Ok(None)
        }
        Status::NotConfirmed(short) => Ok(Some(short)),
        Status::Refused(why) => Err(Fault::Refused(why)),
        Status::NotHeld | Status::Busy | Status::WrongType(_) | Status::Tampered(_) => {
            hold.lose(engine, LostReason::Server);
            Ok(None)
        }
    }
}

/// Nothing was done: it is where it was, and renewed as it was.
fn stays(engine: &Engine, leased: &Arc<Leased>, before: Where) {
    leased.moves(before);
    if leased.is_watched() {
        engine.watchdog.watch(leased, leased.since);
    }
}

/// Who is asked about here is on the server by its own name, if that can be.
pub(crate) async fn show(engine: &Arc<Engine>, hold: Arc<Hold>) {
    if !matches!(hold.runs, Some(Runs::Field { .. })) || hold.leased.place() == Where::Own {
        return;
    }
    let of = engine.clone();
    // Whoever asks may stop polling: the owner must not wait for that.
    let work = engine.janitor.hand_in(async move {
        let mut gate = hold.entry.gate.clone().lock_owned().await;
        if hold.leased.is_watched() {
            // What is asked next says what came of it.
            let _ = own(&of, &hold, &mut gate, &of.brief()).await;
        }
    });
    let _ = tokio::time::timeout(engine.look_limit(), work).await;
}

#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests {
    use super::*;
    use crate::base::config::Replicas;
    use crate::error::LockError;
    use crate::hold::doubt::Rest;
    use crate::wire::doubt::Doubt;
    use crate::{EmbeddedServer, HoldState, Locks, Request};

    fn wish(locks: &Locks, owner: &str, request: &Request) -> Wish {
        let lock = locks.lock("run").owned_by(&owner.parse().unwrap());
        let (line, field) = (lock.line().unwrap(), lock.field());
        lock.wish(&line, &field, request, None).unwrap()
    }

    /// What a holder has who began a run, or who took it for itself.
    fn hold(wish: &Wish, mark: &str) -> Arc<Hold> {
        let owners = [wish.entry.field.clone(), mark.into()];
        let keys = wish.entry.line.keys.clone();
        Hold::new(wish, Leased::new(keys, owners, 1, wish.kind.renew, wish.engine.now(), wish.lease), None)
    }

    /// Each that keeps a run from going on does so by itself.
    #[tokio::test(start_paused = true)]
    async fn a_run_goes_on_only_where_nothing_speaks_against_it() {
        let locks = EmbeddedServer::new().connect();
        let (watched, debts) = (Request::default(), Debts::default);
        let owing = || Debts { unanswered: true, ..debts() };
        let (holder, heir) = (wish(&locks, "holder", &watched), wish(&locks, "heir", &watched));
        let run = || hold(&holder, "client:run-1");
        let goes = |hold: &Hold| may_go_on(hold, &debts(), &heir, &debts());
        assert!(goes(&run()));
        assert!(!may_go_on(&run(), &owing(), &heir, &debts()) && !may_go_on(&run(), &debts(), &heir, &owing()));
        let open = Doubt::new(crate::wire::stub::Stub::new().node.clone(), i64::MAX);
        let released = Debts { release: open, ..debts() };
        assert!(!may_go_on(&run(), &released, &heir, &debts()));
        assert!(!goes(&hold(&holder, &holder.entry.field)), "it took it for itself");
        for place in [Where::Moving, Where::Own] {
            let run = run();
            run.leased.moves(place);
            assert!(!goes(&run), "{place:?}");
        }
        let votes = Wish { vote: Some(heir.kind.acquire), ..heir.clone() };
        assert!(!may_go_on(&run(), &debts(), &votes, &debts()), "its acquire is another");
        let leased = wish(&locks, "heir", &Request::default().lease(Duration::from_secs(30)));
        assert!(!may_go_on(&run(), &debts(), &leased, &debts()), "it is not renewed");
        let confirmed = wish(&locks, "heir", &Request::default().confirm(Replicas::AtLeast(1), STAYS));
        assert!(!may_go_on(&run(), &debts(), &confirmed, &debts()), "nobody has confirmed it");
        let surer = run();
        surer.leased.confirmed(confirmed.confirm);
        assert!(goes(&surer) && may_go_on(&surer, &debts(), &confirmed, &debts()));
        let (unsure, forced) = (run(), run());
        unsure.leased.doubted();
        assert!(!goes(&unsure));
        forced.forced.store(true, Ordering::Release);
        assert!(!goes(&forced));
    }

    /// From LONGEST_RUN_TIME on, behind a switch of its server, and to whom who holds it already it does not.
    #[tokio::test(start_paused = true)]
    async fn a_run_ends_in_time() {
        let locks = EmbeddedServer::new().connect();
        let wishes = ["holder", "heir"].map(|owner| wish(&locks, owner, &Request::default()));
        let goes = |hold: &Hold| may_go_on(hold, &Debts::default(), &wishes[1], &Debts::default());
        let old = hold(&wishes[0], "client:run-1");
        tokio::time::advance(LONGEST_RUN_TIME - Duration::from_millis(1)).await;
        assert!(goes(&old));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!goes(&old), "its time is over");
        let new = hold(&wishes[0], "client:run-2");
        assert!(goes(&new));
        tokio::time::advance(Duration::from_millis(1)).await;
        wishes[0].engine.watchdog.confirm(vec![0..=u16::MAX]);
        assert!(!goes(&new), "another server has its place");
        let behind = hold(&wishes[0], "client:run-3");
        assert!(goes(&behind));
        let _guard = locks.lock("run").owned_by(&"heir".parse().unwrap()).guard().await.unwrap();
        assert!(!goes(&behind), "it holds it");
    }

    /// A client that is closed hands on nothing.
    #[tokio::test(start_paused = true)]
    async fn a_run_ends_with_its_client() {
        let locks = EmbeddedServer::new().connect();
        let wishes = ["holder", "heir"].map(|owner| wish(&locks, owner, &Request::default()));
        let run = hold(&wishes[0], "client:run-1");
        let _ = locks.shutdown(Duration::from_secs(1)).await;
        assert!(!may_go_on(&run, &Debts::default(), &wishes[1], &Debts::default()));
    }

    /// Who still has it when the turns of a run are over takes its place on the server.
    #[tokio::test(start_paused = true)]
    async fn who_stays_is_there_by_its_own_name() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let of = |owner: &str| locks.lock("run").owned_by(&owner.parse().unwrap());
        let fields = || match server.command(&["HKEYS", "run"]) {
            Ok(crate::Reply::List(fields)) => fields.iter().map(|field| format!("{field:?}")).collect::<String>(),
            other => panic!("{other:?}"),
        };
        let first = of("first").guard().await.unwrap();
        let [second, third] = ["second", "third"].map(|owner| {
            let lock = of(owner);
            tokio::spawn(async move { lock.guard().await })
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        first.unlock().await.unwrap();
        let second = second.await.unwrap().unwrap();
        assert!(fields().contains(":run-"), "{}", fields());
        tokio::time::sleep(STAYS * 2).await;
        assert!(fields().contains(":second") && !fields().contains(":run-"), "{}", fields());
        second.unlock().await.unwrap();
        let third = third.await.unwrap().unwrap();
        third.unlock().await.unwrap();
    }

    /// Nothing is asked of what nobody looks after any more, or of what is being moved.
    #[tokio::test(start_paused = true)]
    async fn only_what_is_watched_is_looked_at() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let holder = wish(&locks, "holder", &Request::default());
        let engine = holder.engine.clone();
        let (forgotten, moving) = (hold(&holder, "client:run-1"), hold(&holder, "client:run-2"));
        engine.watchdog.watch(&moving.leased, engine.now());
        moving.leased.moves(Where::Moving);
        let before = server.calls();
        look(engine.clone(), forgotten.clone()).await;
        look(engine.clone(), moving.clone()).await;
        assert_eq!(server.calls(), before);
        moving.leased.moves(Where::First);
        look(engine, moving.clone()).await;
        assert_eq!(server.calls(), before + 1);
        assert!(moving.leased.lost(holder.engine.now()).is_some() && !forgotten.leased.is_watched());
    }

    /// What may have been moved is given back where it was and where it may be: else it would stay for its lease.
    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_moved_is_given_back_in_both_places() {
        const RUN: &str = "client:run-1";
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let holder = wish(&locks, "holder", &Request::default());
        for field in [RUN, &holder.entry.field] {
            let hold = hold(&holder, RUN);
            hold.leased.moves(Where::Moving);
            server.command(&["HSET", "run", field, "1"]).unwrap();
            let mut gate = holder.entry.gate.clone().lock_owned().await;
            Rest::of(&hold).settle(&holder.engine, &mut gate, &holder.engine.brief()).await.unwrap();
            assert_eq!(server.command(&["HKEYS", "run"]), Ok(crate::Reply::List(Vec::new())), "{field}");
        }
    }

    /// A run that its owner could not take over is still one, which is renewed and goes on.
    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_moved_is_what_it_was() {
        const RUN: &str = "client:run-1";
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let wishes = ["holder", "heir"].map(|owner| wish(&locks, owner, &Request::default()));
        let [holder, heir] = &wishes;
        let (engine, hold) = (&holder.engine, hold(holder, RUN));
        server.command(&["HSET", "run", RUN, "1"]).unwrap();
        server.command(&["PEXPIRE", "run", "30000"]).unwrap();
        engine.watchdog.watch(&hold.leased, engine.now());
        server.deny(Some("HDEL"));
        let mut gate = holder.entry.gate.clone().lock_owned().await;
        assert!(own(engine, &hold, &mut gate, &engine.one_copy()).await.is_err());
        assert!(may_go_on(&hold, &gate, heir, &Debts::default()));
        tokio::time::sleep(holder.lease.duration() * 3).await;
        assert_eq!(hold.leased.lost(engine.now()), None);
    }

    /// A force is answered while who got the lock meanwhile gives it on: who has it next has lost it, and need not ask.
    #[tokio::test(start_paused = true)]
    async fn what_goes_on_as_it_is_ended_by_force_is_over() {
        const RUN: &str = "client:run-1";
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let wishes = ["first", "second", "third"].map(|owner| wish(&locks, owner, &Request::default()));
        let [first, second, third] = wishes.map(Arc::new);
        let (engine, first, lock) = (first.engine.clone(), hold(&first, RUN), locks.lock("run"));
        let line = first.entry.line.clone();
        server.command(&["HSET", "run", RUN, "1"]).unwrap();
        line.turns.lock().took(&first, first.kind.role, first.leased.id, first.leased.since);
        let mut forcing = std::pin::pin!(lock.force_unlock());
        assert!(futures::poll!(&mut forcing).is_pending());
        let [second, third] = [second, third].map(|wish| line.turns.lock().join(wish));
        // It is given on by who looked whether that is forced before it was.
        first.forced.store(false, Ordering::Release);
        let second = go_on(&first, &second);
        assert_eq!(second.hold.leased.lost(engine.now()), None);
        // As whoever gives it back does first.
        engine.watchdog.forget(&second.hold.leased);
        assert_eq!(forcing.await, Ok(true));
        let third = go_on(&second.hold, &third);
        for ticket in [second, third] {
            assert_eq!(ticket.hold.leased.lost(engine.now()), Some(LostReason::Forced));
        }
    }

    /// The server is a long way off, so that each turn is a run of its own: one script takes it, one gives it back, and
    /// who has had it for a moment only is not moved.
    #[tokio::test(start_paused = true)]
    async fn what_was_long_on_its_way_does_not_stay_for_that() {
        let server = EmbeddedServer::new();
        server.inject(crate::Faults::seeded(7).delay(Duration::from_millis(400)));
        let locks = server.connect();
        let turns = (0..10).map(|_| {
            let lock = locks.lock("far");
            tokio::spawn(async move {
                let guard = lock.guard().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                guard.unlock().await
            })
        });
        let before = server.calls();
        assert!(futures::future::join_all(turns).await.into_iter().all(|turn| turn.unwrap().is_ok()));
        assert!(server.calls() - before <= 24, "{} calls", server.calls() - before);
    }

    /// What may have been moved and is not known to be there is not sure, as nothing else renews it.
    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_moved_is_uncertain() {
        const RUN: &str = "client:run-1";
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let holder = wish(&locks, "holder", &Request::default());
        let (engine, hold) = (&holder.engine, hold(&holder, RUN));
        server.command(&["HSET", "run", RUN, "1"]).unwrap();
        engine.watchdog.watch(&hold.leased, engine.now());
        server.lose_replies(1);
        let mut gate = holder.entry.gate.clone().lock_owned().await;
        assert!(own(engine, &hold, &mut gate, &engine.one_copy()).await.is_err());
        assert_eq!(hold.leased.state(engine.now()), HoldState::Uncertain);
        assert!(own(engine, &hold, &mut gate, &engine.one_copy()).await.is_ok());
        assert_eq!(hold.leased.state(engine.now()), HoldState::Held);
    }

    /// Who waits for a hold that replicas confirm is not handed one that they do not have.
    #[tokio::test(start_paused = true)]
    async fn what_is_handed_over_is_confirmed_as_its_heir_asked() {
        let server = EmbeddedServer::new();
        server.set_replica(Some(Duration::from_millis(1)));
        let locks = server.connect();
        let of = |owner: &str| locks.lock("handed").owned_by(&owner.parse().unwrap());
        let (giver, heir) = (of("giver").guard().await.unwrap(), of("heir"));
        let waits = tokio::spawn(async move {
            heir.acquire().confirm(Replicas::AtLeast(1), Duration::from_millis(100)).guard().await
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        server.silence_replica(true);
        giver.unlock().await.unwrap();
        let told = waits.await.unwrap();
        assert!(matches!(told, Err(LockError::NotConfirmed { acked: 0, wanted: 1, .. })), "{told:?}");
    }
}
