//! Giving a hold back: to the next in line, or to the server.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::{ready, BoxFuture, Either, FutureExt, Ready};
use tracing::Instrument;

use crate::backend::Script;
use crate::base::clock::{millis, Moment};
use crate::engine::Engine;
use crate::error::{LostReason, QueryError, UnlockError};
use crate::hold::doubt::{leave_until, owe, settle_args, Rest};
use crate::hold::entry::{count_text, Entry, Gate, Hold, Place, Ticket, Wish};
use crate::hold::run::{begins, go_on, may_go_on};
use crate::lease::validity::Place as Where;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Fault, Patience, Query};
use crate::wire::table::Runs;

/// A share of a hold on its way back. It is given back by the kind that took it: a release through another kind's
/// handle wakes the same waiters.
pub(crate) struct Release {
    pub(crate) engine: Arc<Engine>,
    /// That of a guard; `None`: the last bare one.
    share: Option<u64>,
    pub(crate) hold: Arc<Hold>,
    /// The count before.
    n: u32,
    patience: Patience,
    /// A waiter that was taken out of the line to be given the lock: else it goes back to the head.
    heir: Option<Arc<Place>>,
    /// Whether a copy of an earlier call may have given it back.
    pub(crate) in_doubt: bool,
    /// Whether its end was heard.
    done: bool,
}

/// Who gets what is given back.
enum Next {
    /// Nobody of this process: what `give_to_server` is told.
    Server((bool, bool)),
    /// The heir, whose gate is closed, by a script.
    Heir(&'static Script, Gate),
    /// Who has it already, without a script.
    Given,
}

/// Gives one share back, a guard's with its hold or (`None`) the last bare one, behind what its entry does at this
/// moment, and tries again through an outage of that length. Once polled it is carried out: callers run it as carried
/// work or in the janitor.
pub(crate) fn release(
    engine: Arc<Engine>,
    entry: Arc<Entry>,
    guard: Option<(u64, Arc<Hold>)>,
    outage: Duration,
) -> impl Future<Output = Result<(), UnlockError>> + Send + 'static {
    let (gate, began) = (in_line(&entry), engine.now());
    async move {
        let gate = gate.await;
        let share = guard.as_ref().map(|(share, _)| *share);
        let lost = |engine: &Engine| guard.as_ref().and_then(|(_, hold)| hold.leased.lost(engine.now()));
        let Some((hold, n)) = entry.has(share) else {
            engine.can_release()?;
            return Err(not_held(&engine, &entry).of_lost(lost(&engine)));
        };
        let mut release = Release::new(engine, share, hold, n, Patience::new(began, outage));
        let given = release.give(gate).await;
        release.end();
        given.map_err(|error| error.of_lost(lost(&release.engine)))
    }
}

/// A place in the line of an entry's gate, at once: without it a loop that takes the lock and drops the guard would
/// enter its own hold again and again, and nobody else would get it.
pub(crate) fn in_line(entry: &Entry) -> Either<Ready<Gate>, BoxFuture<'static, Gate>> {
    if let Ok(gate) = entry.gate.clone().try_lock_owned() {
        return ready(gate).left_future();
    }
    let mut gate = entry.gate.clone().lock_owned().boxed();
    match gate.poll_unpin(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(gate) => ready(gate).left_future(),
        Poll::Pending => gate.right_future(),
    }
}

impl Drop for Release {
    /// Dropped half-way, by a panic, the hold counts as given back, and what may be left of it is looked after.
    fn drop(&mut self) {
        self.disinherit();
        let entry = &self.hold.entry;
        if self.done || entry.hold().is_none_or(|hold| hold.leased.id != self.hold.leased.id) {
            return;
        }
        entry.leave(self.share);
        if self.hold.stays(self.engine.now()).is_some() {
            return;
        }
        let doubt = self.engine.wire.doubt(&entry.line.keys.lock);
        Rest::of(&self.hold).take_back(&self.engine, None, doubt);
    }
}

impl Release {
    pub(crate) fn new(engine: Arc<Engine>, share: Option<u64>, hold: Arc<Hold>, n: u32, patience: Patience) -> Self {
        Self { engine, share, hold, n, patience, heir: None, in_doubt: false, done: false }
    }

    /// Its end was heard.
    pub(crate) fn end(&mut self) {
        self.done = true;
    }

    /// What is left of it to do goes over to what is returned.
    fn for_another_task(&mut self) -> Self {
        let mut other = Self::new(self.engine.clone(), self.share, self.hold.clone(), self.n, self.patience.clone());
        (other.heir, self.done) = (self.heir.take(), true);
        other
    }

    /// It is renewed no more, and nobody of this process is to be handed it. Whether this is the last of a run, and our
    /// own message is heard here.
    pub(crate) fn leave_turn(&self) -> (bool, bool) {
        self.engine.watchdog.forget(&self.hold.leased);
        let line = &self.hold.entry.line;
        let (_, last_of_run) = line.turns.lock().next(self.engine.now(), false);
        (last_of_run, last_of_run && self.engine.channels.drain(&line.keys.channel))
    }

    async fn give(&mut self, mut gate: Gate) -> Result<(), UnlockError> {
        let now = self.engine.now();
        if let Some(until) = self.hold.stays(now) {
            let left = leave_until(&self.engine, &self.hold, &mut gate, until, &self.patience).boxed().await;
            self.hold.entry.leave(self.share);
            let name = &self.hold.entry.line.keys.name;
            return match left.map_err(|fault| QueryError::of_fault(name, fault, self.engine.is_dead()))? {
                Answer { status: Status::Done, .. } => Ok(()),
                answer => Err(self.refused(&gate, &answer, false)),
            };
        }
        match self.next(&gate, now) {
            Next::Server(last) => self.give_to_server(gate, last).await,
            // The heir waits for it: a future that is kept and not polled would keep it from the lock.
            Next::Heir(script, heir_gate) => {
                let mut own = self.for_another_task();
                let work = async move {
                    let given = own.give_to_heir(script, gate, heir_gate).await;
                    own.end();
                    given
                };
                self.engine.janitor.hand_in(work.in_current_span()).await.unwrap_or_else(|| Err(self.unheard()))
            }
            Next::Given => Ok(()),
        }
    }

    /// Who gets it.
    fn next(&mut self, gate: &Gate, now: Moment) -> Next {
        if self.n > 1 {
            return Next::Server((false, false));
        }
        self.engine.watchdog.forget(&self.hold.leased);
        // What is lost is not there to be handed over.
        let is_lost = self.hold.leased.lost(now).is_some();
        let is_moving = self.hold.leased.place() == Where::Moving;
        let can_hand_over = self.hold.kind.hand_over.is_some() && !gate.may_have_more() && !is_lost && !is_moving;
        let queues = self.hold.kind.queue.is_some();
        let (heir, last_of_run) = self.hold.entry.line.turns.lock().next(now, can_hand_over && !queues);
        if let Some(next) = (can_hand_over && queues && !last_of_run).then(|| self.next_of_queue()).flatten() {
            return next;
        }
        let Some(heir) = heir else {
            let own = last_of_run && self.engine.channels.drain(&self.hold.entry.line.keys.channel);
            return Next::Server((last_of_run, own));
        };
        self.heir = Some(heir.clone());
        let heir_gate = heir.wish.entry.gate.clone().try_lock_owned().ok();
        let heir_gate = heir_gate.filter(|gate| gate.release.is_past() && gate.entries.0.is_past() && !gate.unanswered);
        let Some((script, heir_gate)) = heir.wish.kind.hand_over.zip(heir_gate) else {
            // The waiter is busy with an attempt of its own, or copies of its last release may still end a new hold.
            self.disinherit();
            return Next::Server((false, false));
        };
        if !may_go_on(&self.hold, gate, &heir.wish, &heir_gate) {
            return Next::Heir(script, heir_gate);
        }
        let ticket = go_on(&self.hold, &heir);
        // Whatever comes now, what is on the server is the heir's.
        (self.heir, self.done) = (None, true);
        self.hold.entry.leave(self.share);
        ticket.hand_to(&heir);
        drop(heir_gate);
        Next::Given
    }

    /// Who is the next of this process in the server's queue, if nothing of it is under way.
    fn next_of_queue(&mut self) -> Option<Next> {
        let heir = self.hold.entry.line.crowd.lock().next()?;
        let gate = heir.wish.entry.gate.clone().try_lock_owned().ok().filter(|gate| gate.is_settled())?;
        let Wish { entry, kind, vote, confirm, .. } = &*heir.wish;
        let script = kind.hand_over.filter(|_| vote.is_none() && confirm.is_none() && entry.hold().is_none())?;
        self.heir = Some(heir);
        Some(Next::Heir(script, gate))
    }

    /// The hand-over did not happen.
    fn disinherit(&mut self) {
        let Some(heir) = self.heir.take() else { return };
        if self.hold.kind.queue.is_some() {
            // Its place on the server may be gone.
            self.hold.entry.line.crowd.lock().missing(&heir.wish.entry.field);
        } else {
            self.hold.entry.line.turns.lock().put_back(heir);
        }
    }

    /// `last`: whether it is the last of a run, and whether our own message is heard here.
    pub(crate) async fn give_to_server(&self, mut gate: Gate, last: (bool, bool)) -> Result<(), UnlockError> {
        let Self { engine, hold, .. } = self;
        let (lease, count);
        let (mark, other) = hold.leased.marks();
        let (script, args) = match (other, hold.runs) {
            // All that it has is one, of either.
            (Some(other), Some(Runs::Field { release, .. })) => (release, vec![&**mark, &**other]),
            _ if gate.may_have_more() => {
                count = count_text(self.n - 1);
                (hold.kind.settle, settle_args(hold.kind, &hold.entry, mark, &count))
            }
            _ => {
                (lease, count) = (hold.leased.lease_millis(), count_text(self.n));
                (hold.kind.release, vec![&**mark, &*lease, &*count])
            }
        };
        let keys = hold.entry.line.keys.of(script.keys);
        let query = Query::new(script, &keys, &args);
        let called = engine.wire.grant(&query, &self.patience).await;
        owe(engine, &hold.entry, &mut gate, &called.doubt);
        match called.result {
            Ok(answer) if matches!(answer.status, Status::Done | Status::Busy) => {
                self.given(gate, answer.int(0).unwrap_or_default(), last);
                Ok(())
            }
            Ok(Answer { status: Status::Refused(why), .. }) => Err(self.unanswered(gate, Fault::Refused(why))),
            Ok(answer) => Err(self.refused(&gate, &answer, self.in_doubt || !called.doubt.is_empty())),
            Err(fault) => Err(self.unanswered(gate, fault)),
        }
    }

    /// The server says so, and how many heard it.
    pub(crate) fn given(&self, mut gate: Gate, heard: i64, (last_of_run, own): (bool, bool)) {
        let Self { engine, hold, .. } = self;
        if last_of_run {
            let heard = heard - i64::from(own);
            // Other libraries than this one hear nothing.
            let hears = heard > 0 || !hold.kind.anonymous;
            // Who hears of a group may wait for another of its values.
            let tells = hold.kind.announces && hears && hold.entry.line.keys.value.is_empty();
            let others = tells.then(|| u32::try_from(heard).unwrap_or_default());
            hold.entry.line.turns.lock().others.begin(engine.now(), own, others);
        }
        gate.unanswered = false;
        hold.entry.leave(self.share);
        self.look_after_copies(&gate);
    }

    async fn give_to_heir(
        &mut self,
        script: &'static Script,
        mut gate: Gate,
        mut heir_gate: Gate,
    ) -> Result<(), UnlockError> {
        let Some(heir) = self.heir.clone() else { return self.give_to_server(gate, (false, false)).await };
        let Wish { entry: heir_entry, kind, lease, .. } = &*heir.wish;
        let ms = millis(lease.duration()).to_string();
        let keys = self.hold.entry.line.keys.of(script.keys);
        let mark = heir.wish.mark(heir_entry.hold().is_none());
        let seen = kind.fenced.then(|| self.hold.entry.line.token().to_string());
        let mut args = vec![&**self.hold.leased.mark(), &mark, &ms];
        args.extend(seen.iter().flat_map(|seen| [seen, "1"]));
        let query = Query { confirm: heir.wish.confirm, ..Query::new(script, &keys, &args) };
        let called = self.engine.wire.grant(&query, &self.patience).await;
        owe(&self.engine, &self.hold.entry, &mut gate, &called.doubt);
        let result = match called.result {
            Ok(Answer { status: Status::Refused(why), .. }) => Err(Fault::Refused(why)),
            result => result,
        };
        match result {
            Ok(answer) if answer.status == Status::Done => {
                heir_gate.acquire.merge(&called.doubt);
                let ticket = Ticket::enter(&heir.wish, &mark, &answer);
                begins(&ticket);
                self.heir = None;
                heir_entry.line.crowd.lock().left(&heir_entry.field);
                // While the gate is closed: an attempt of the waiter's own that waits there finds the ticket.
                ticket.hand_to(&heir);
                drop(heir_gate);
                self.hold.entry.leave(self.share);
                self.look_after_copies(&gate);
                Ok(())
            }
            Ok(answer) if answer.status == Status::Busy => {
                // Another process's is the next of the queue.
                self.heir = None;
                heir_gate.acquire.merge(&called.doubt);
                drop(heir_gate);
                self.given(gate, answer.int(0).unwrap_or_default(), (false, false));
                Ok(())
            }
            Ok(Answer { status: Status::NotConfirmed(_), .. }) => {
                // It is given back for the waiter, which is the head again and asks for itself.
                Rest::of_attempt(&heir.wish, mark).take_back(&self.engine, Some(heir_gate), called.doubt);
                self.disinherit();
                self.hold.entry.leave(self.share);
                self.look_after_copies(&gate);
                Ok(())
            }
            Err(Fault::Refused(_)) if called.doubt.is_empty() => {
                // Taking may be refused (out of memory) where giving back is not.
                drop(heir_gate);
                self.disinherit();
                self.give_to_server(gate, (false, false)).await
            }
            Ok(answer) => {
                drop(heir_gate);
                self.disinherit();
                Err(self.refused(&gate, &answer, !called.doubt.is_empty()))
            }
            Err(fault) => {
                // It may still happen: the waiter's next attempt waits for that and finds what came of it; if the
                // waiter goes away, the janitor does.
                heir_gate.release.merge(&called.doubt);
                drop(heir_gate);
                Rest::of_attempt(&heir.wish, mark).take_back(&self.engine, None, called.doubt);
                Err(self.unanswered(gate, fault))
            }
        }
    }

    /// Copies of an acquire without an answer may still raise the count: look once more when they no longer can.
    fn look_after_copies(&self, gate: &Gate) {
        if !gate.acquire.is_empty() {
            Rest::of(&self.hold).take_back(&self.engine, None, gate.acquire.clone());
        }
    }

    fn refused(&self, gate: &Gate, answer: &Answer, doubt: bool) -> UnlockError {
        let name = self.hold.entry.line.keys.name.to_string();
        self.hold.entry.drop_hold(self.hold.leased.id, LostReason::Server);
        self.engine.watchdog.forget(&self.hold.leased);
        self.look_after_copies(gate);
        match &answer.status {
            Status::WrongType(detail) => UnlockError::Query(QueryError::WrongType { name, detail: detail.clone() }),
            Status::Tampered(found) => UnlockError::Query(QueryError::Tampered { name, found: found.clone() }),
            Status::Refused(why) => UnlockError::Query(QueryError::Refused { name, why: why.clone() }),
            Status::NotHeld | Status::Done | Status::Busy | Status::NotConfirmed(_) => {
                let owner = self.engine.owner_of(&self.hold.entry.field);
                if doubt && self.n == 1 {
                    return UnlockError::Unconfirmed { name, owner };
                }
                self.hold.leased.report_lost(&self.engine.herald);
                UnlockError::NotHeld { name, owner, lost: self.hold.leased.lost(self.engine.now()) }
            }
        }
    }

    /// Who carried it out ended: with the client, or by a panic.
    fn unheard(&self) -> UnlockError {
        let why = Fault::Unreachable("the task that gave it back has ended".to_owned());
        QueryError::of_fault(&self.hold.entry.line.keys.name, why, self.engine.is_closing()).into()
    }

    /// It is not renewed any more, and what may be left of it is looked after.
    fn unanswered(&self, gate: Gate, fault: Fault) -> UnlockError {
        self.hold.unanswered.store(true, Ordering::Release);
        self.hold.entry.leave(self.share);
        let (closed, mut doubt) = (self.engine.is_dead(), gate.release.clone());
        doubt.merge(&gate.acquire);
        Rest::of(&self.hold).take_back(&self.engine, Some(gate), doubt);
        QueryError::of_fault(&self.hold.entry.line.keys.name, fault, closed).into()
    }
}

/// Ends whatever an entry holds, however often, and what it is about to hold: behind the call that is under way.
/// `true`: the server confirmed that it is gone.
pub(crate) async fn give_all_back(engine: Arc<Engine>, entry: Arc<Entry>) -> bool {
    let before = entry.hold();
    if let Some(hold) = &before {
        engine.watchdog.forget(&hold.leased);
    }
    let mut gate = entry.gate.clone().lock_owned().await;
    let current = entry.hold();
    if let Some(hold) = &current {
        engine.watchdog.forget(&hold.leased);
        entry.drop_hold(hold.leased.id, LostReason::Released);
    }
    let unanswered = before.filter(|hold| hold.unanswered.load(Ordering::Acquire));
    let Some(hold) = current.or(unanswered) else { return true };
    if let Some(until) = hold.stays(engine.now()) {
        let left = leave_until(&engine, &hold, &mut gate, until, &engine.patience()).await;
        return matches!(left, Ok(answer) if matches!(answer.status, Status::Done | Status::NotHeld));
    }
    let settled = Rest::of(&hold).settle(&engine, &mut gate, &engine.patience()).await;
    if let Some(doubt) = gate.acquire.take() {
        Rest::of(&hold).take_back(&engine, None, doubt);
    }
    matches!(settled, Ok(answer) if matches!(answer.status, Status::Done | Status::Busy | Status::NotHeld))
}

pub(crate) fn not_held(engine: &Engine, entry: &Entry) -> UnlockError {
    UnlockError::NotHeld { name: entry.line.keys.name.to_string(), owner: engine.owner_of(&entry.field), lost: None }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kind::Kind;
    use crate::{EmbeddedServer, Lock, Reply, Request};

    /// Its owner's bare hold on its way back, and the entry.
    async fn leaving<K: Kind>(lock: &Lock<K>) -> (Release, Gate) {
        lock.lock().await.unwrap();
        let (line, field) = (lock.line().unwrap(), lock.field());
        let Wish { engine, entry, .. } = lock.wish(&line, &field, &Request::default(), None).unwrap();
        let (gate, hold) = (entry.gate.clone().lock_owned().await, entry.hold().unwrap());
        let patience = engine.patience();
        (Release::new(engine, None, hold, 1, patience), gate)
    }

    /// Behind the last of a run this process stands aside for those who heard of it, itself not among them; for who
    /// can't hear it a moment; and for nobody where nobody listens.
    #[tokio::test(start_paused = true)]
    async fn who_heard_of_a_release_goes_first() {
        const HEARD: Option<bool> = Some(true);
        let locks = EmbeddedServer::new().connect();
        let aside = |release: Release, gate: Gate, heard: i64, own: bool| {
            release.given(gate, heard, (true, own));
            let others = &release.hold.entry.line.turns.lock().others;
            others.until().map(|_| others.is_heard())
        };
        for (at, (heard, own, expected)) in
            [(0, false, None), (1, true, None), (1, false, HEARD), (2, true, HEARD)].into_iter().enumerate()
        {
            let (release, gate) = leaving(&locks.lock(&format!("lock-{at}"))).await;
            assert_eq!(aside(release, gate, heard, own), expected, "{heard} heard it, ourselves: {own}");
        }
        // Other libraries hear nothing of a plain lock: nobody knows whether they wait.
        for (at, (heard, own, expected)) in
            [(0, false, Some(false)), (1, true, Some(false)), (1, false, HEARD), (2, true, HEARD)]
                .into_iter()
                .enumerate()
        {
            let (release, gate) = leaving(&locks.plain_lock(&format!("plain-{at}"))).await;
            assert_eq!(aside(release, gate, heard, own), expected, "plain: {heard} heard it, ourselves: {own}");
        }
    }

    /// A copy of the acquire that comes behind the release takes the lock for nobody: that is found when none can
    /// come any more, and not when the lease ends.
    #[tokio::test(start_paused = true)]
    async fn what_comes_behind_a_release_is_given_back() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let lock = locks.lock("late").owned_by(&"owner".parse().unwrap());
        lock.lock().await.unwrap();
        let entry = lock.line().unwrap().entry(&lock.field());
        entry.gate.lock().await.acquire.merge(&locks.engine().wire.doubt("late"));
        lock.unlock().await.unwrap();
        let is_there = || server.command(&["EXISTS", "late"]) == Ok(Reply::Int(1));
        assert!(!is_there());
        for late in [["HSET", "late", &entry.field, "1"].as_slice(), &["PEXPIRE", "late", "30000"]] {
            server.command(late).unwrap();
        }
        assert!(is_there());
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!is_there());
    }
}
