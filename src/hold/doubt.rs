//! What is left on the server of those who went away, and what calls without an answer may have done or may do yet:
//! waited for, and taken back. Rule 6 of docs/PROTOCOL.md.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use parking_lot::Mutex;

use crate::base::clock::{millis, Moment};
use crate::base::config::SHORTEST_LEASE;
use crate::base::janitor::say;
use crate::engine::Engine;
use crate::error::LostReason;
use crate::hold::entry::{Entry, Gate, Hold, Leaver, Line, Wish};
use crate::lease::validity::Place;
use crate::wire::doubt::Doubt;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Fault, Patience, Query};
use crate::wire::table::Table;

/// Owners that leave a queue by one script.
const LEAVERS: usize = 100;
/// They are tried again for so long where they were not answered: what a place in the queue is worth at least.
const LEAVES_FOR: Duration = Duration::from_secs(300);

/// What there may be on the server of a hold, or of an attempt at one, that is to go.
pub(crate) struct Rest {
    pub(crate) kind: &'static Table,
    pub(crate) entry: Arc<Entry>,
    pub(crate) mark: Arc<str>,
    /// The owner's, to which it may have been moved.
    pub(crate) other: Option<Arc<str>>,
    /// It ends by itself so long after the last call.
    pub(crate) lease: Duration,
}

impl Rest {
    /// What there may be of a hold.
    pub(crate) fn of(hold: &Hold) -> Self {
        let (mark, other) = hold.leased.marks();
        let (entry, mark, other) = (hold.entry.clone(), mark.clone(), other.cloned());
        Self { kind: hold.kind, entry, mark, other, lease: hold.leased.longest() }
    }

    /// What there may be of an attempt.
    pub(crate) fn of_attempt(wish: &Wish, mark: Arc<str>) -> Self {
        Self { kind: wish.kind, entry: wish.entry.clone(), mark, other: None, lease: wish.lease.duration() }
    }

    /// It goes: see [`sweep`].
    pub(crate) fn take_back(self, engine: &Arc<Engine>, gate: Option<Gate>, doubt: Doubt) {
        engine.janitor.finish(sweep(engine.clone(), self, gate, doubt));
    }

    /// Until it is answered, or the lease is over. Between two tries the entry is open.
    async fn clear(&self, engine: &Arc<Engine>, gate: Gate, over: Moment) {
        if self.is_answered(engine, gate).await {
            return;
        }
        let again = || async {
            let gate = self.entry.gate.clone().lock_owned().await;
            self.is_answered(engine, gate).await
        };
        if !engine.insist(&self.entry.line.keys.lock, Some(over), again).await {
            let name = &*self.entry.line.keys.name;
            say(|| tracing::warn!(target: "lockson", name, "a hold was not given back: its lease has ended by now"));
        }
    }

    async fn is_answered(&self, engine: &Arc<Engine>, mut gate: Gate) -> bool {
        let settled = self.settle(engine, &mut gate, &engine.brief()).await;
        !is_to_be_tried_again(&settled)
    }

    /// The run first: then nothing can be moved any more.
    pub(crate) async fn settle(
        &self,
        engine: &Arc<Engine>,
        gate: &mut Gate,
        patience: &Patience,
    ) -> Result<Answer, Fault> {
        let settled = settle(engine, self.kind, &self.entry, gate, &self.mark, patience).await;
        match &self.other {
            Some(other) if !is_to_be_tried_again(&settled) => {
                settle(engine, self.kind, &self.entry, gate, other, patience).await
            }
            _ => settled,
        }
    }
}

/// Makes the server's count what the registry says: at once where the gate is given, and once more after `doubt`. From
/// this call on the client owes it.
pub(crate) fn sweep(
    engine: Arc<Engine>,
    rest: Rest,
    gate: Option<Gate>,
    doubt: Doubt,
) -> impl Future<Output = ()> + Send + 'static {
    let owing = engine.owed.note(&rest.entry.line.keys.name);
    // No copy runs later than a command timeout from now, and what it does lasts for the lease.
    let over = engine.now().after(rest.lease + engine.settings.command_timeout);
    async move {
        if let Some(gate) = gate {
            rest.clear(&engine, gate, over).await;
        }
        if !doubt.is_empty() {
            doubt.pass().await;
            let gate = rest.entry.gate.clone().lock_owned().await;
            rest.clear(&engine, gate, over).await;
            let mut gate = rest.entry.gate.lock().await;
            gate.forget_acquire(&doubt);
        }
        drop(owing);
    }
}

/// Nobody waits as this owner any more: what the server knows of that goes, as soon as its attempts are over. From this
/// call on the client owes it, or who sees to it already does.
pub(crate) fn leave_server(wish: &Arc<Wish>) {
    let work = match wish.kind.goes_first {
        Some(lease) => Some(let_others_in(wish.clone(), lease).boxed()),
        None => wish.kind.queue.and_then(|_| leave_queue(wish.clone())),
    };
    work.into_iter().for_each(|work| wish.engine.janitor.finish(work));
}

/// Readers need not let a writer go first that does not wait.
fn let_others_in(wish: Arc<Wish>, lease: Duration) -> impl Future<Output = ()> + Send + 'static {
    let owing = wish.engine.owed.note(&wish.entry.line.keys.name);
    async move {
        let Wish { engine, kind, entry, .. } = &*wish;
        let gate = entry.gate.clone().lock_owned().await;
        let (kind, entry, mark, other) = (*kind, entry.clone(), entry.field.clone(), None);
        sweep(engine.clone(), Rest { kind, entry, mark, other, lease }, Some(gate), Doubt::default()).await;
        drop(owing);
    }
}

/// Many leave the server's queue by one script: what is returned, by the first of them, sees to it.
fn leave_queue(wish: Arc<Wish>) -> Option<BoxFuture<'static, ()>> {
    if let Ok(gate) = wish.entry.gate.clone().try_lock_owned() {
        return add_leaver(wish, gate);
    }
    let owing = wish.engine.owed.note(&wish.entry.line.keys.name);
    let later = async move {
        let gate = wish.entry.gate.clone().lock_owned().await;
        OptionFuture::from(add_leaver(wish, gate)).await;
        drop(owing);
    };
    Some(later.boxed())
}

fn add_leaver(wish: Arc<Wish>, gate: Gate) -> Option<BoxFuture<'static, ()>> {
    let (engine, line) = (wish.engine.clone(), wish.entry.line.clone());
    let mut leavers = line.leavers.lock();
    let is_seen_to = leavers.is_some();
    leavers.get_or_insert_default().push_back((wish, gate));
    // Before anybody else finds that they are seen to.
    let owing = (!is_seen_to).then(|| engine.owed.note(&line.keys.name));
    drop(leavers);
    owing.map(|owing| see_to_leavers(engine, line, owing).boxed())
}

fn see_to_leavers(
    engine: Arc<Engine>,
    line: Arc<Line>,
    owing: impl Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    // Nobody else sees to who is left where this is dropped half-way.
    let line = scopeguard::guard(line, |line| {
        let left = line.leavers.lock().take();
        drop(left);
    });
    async move {
        let mut is_away = false;
        while let Some(batch) = next_leavers(&line) {
            let left = match is_away {
                true => batch.into_iter().map(|(wish, _)| wish).filter(|wish| has_left(wish)).collect(),
                false => leave(&engine, batch).await,
            };
            if !left.is_empty() {
                // The others need not find that out, too.
                is_away = true;
                engine.janitor.finish(leave_later(engine.clone(), line.clone(), left));
            }
        }
        // Another may see to those who came since.
        scopeguard::ScopeGuard::into_inner(line);
        drop(owing);
    }
}

fn next_leavers(line: &Line) -> Option<Vec<Leaver>> {
    let mut leavers = line.leavers.lock();
    let batch: Vec<_> = leavers.as_mut().map(|list| list.drain(..list.len().min(LEAVERS)).collect())?;
    if batch.is_empty() {
        *leavers = None;
    }
    Some(batch).filter(|batch| !batch.is_empty())
}

/// Whether nobody waits again as this owner.
fn has_left(Wish { entry, .. }: &Wish) -> bool {
    !entry.line.crowd.lock().has(&entry.field)
}

/// Takes them out of the queue. Returns who is to be tried again: the server was not there, or let nobody in.
async fn leave(engine: &Arc<Engine>, mut batch: Vec<Leaver>) -> Vec<Arc<Wish>> {
    batch.retain(|(wish, _)| has_left(wish));
    while let Some((Wish { entry, kind, .. }, _)) = batch.first().map(|(wish, gate)| (&**wish, gate)) {
        let Some(queue) = kind.queue else { break };
        let (keys, patience) = (entry.line.keys.of(queue.leave.keys), engine.brief());
        let owners: Vec<&str> = batch.iter().map(|(wish, _)| &*wish.entry.field).collect();
        let called = engine.wire.call(queue.leave, &keys, &owners, &patience).await;
        for (wish, gate) in &mut batch {
            // A copy of this may come late, too.
            owe(engine, &wish.entry, gate, &called.doubt);
        }
        if is_to_be_tried_again(&called.result) {
            return batch.into_iter().map(|(wish, _)| wish).collect();
        }
        // Of a long queue only some go at once.
        let gone = called.result.ok().and_then(|answer| usize::try_from(answer.int(0)?).ok());
        batch.drain(..gone.unwrap_or(batch.len()).clamp(1, batch.len()));
    }
    Vec::new()
}

/// Who comes behind them would wait until each is taken for dead. From this call on the client owes it.
fn leave_later(
    engine: Arc<Engine>,
    line: Arc<Line>,
    leavers: Vec<Arc<Wish>>,
) -> impl Future<Output = ()> + Send + 'static {
    let owing = engine.owed.note(&line.keys.name);
    let over = engine.now().after(LEAVES_FOR);
    async move {
        let left = Mutex::new(leavers);
        let again = || async {
            let (mut batch, mut busy) = (Vec::new(), Vec::new());
            let leavers = std::mem::take(&mut *left.lock());
            for wish in leavers.into_iter().filter(|wish| has_left(wish)) {
                // Not waited for: another that leaves later may have some of them, and wait for these.
                match wish.entry.gate.clone().try_lock_owned() {
                    Ok(gate) => batch.push((wish, gate)),
                    Err(_) => busy.push(wish),
                }
            }
            busy.extend(leave(&engine, batch).await);
            let are_gone = busy.is_empty();
            *left.lock() = busy;
            are_gone
        };
        if !engine.insist(&line.keys.lock, Some(over), again).await {
            let name = &*line.keys.name;
            let text = "places in its queue were not given back: each costs 3 s there";
            say(|| tracing::warn!(target: "lockson", name, "{text}"));
        }
        drop(owing);
    }
}

/// It was not answered, or is not allowed now.
pub(crate) fn is_to_be_tried_again(settled: &Result<Answer, Fault>) -> bool {
    match settled {
        Ok(Answer { status: Status::Refused(why), .. }) | Err(Fault::Refused(why)) => why.may_end(),
        settled => matches!(settled, Err(Fault::Unreachable(_))),
    }
}

impl Hold {
    /// Asks whether it is still there, unless somebody is about to.
    pub(crate) fn look(self: &Arc<Self>, engine: &Arc<Engine>) {
        if self.doubt() {
            engine.janitor.finish(look(engine.clone(), self.clone()));
        }
    }

    /// The same of one that was asked for at `sent`, if this client has been told since that all was ended by force.
    pub(crate) fn look_if_forced(self: &Arc<Self>, engine: &Arc<Engine>, sent: Moment) {
        if sent.nanos() < self.entry.line.forced.load(Ordering::Acquire) {
            self.look(engine);
        }
    }
}

/// Asks whether a hold is still there, behind what its owner does at this moment.
pub(crate) async fn look(engine: Arc<Engine>, hold: Arc<Hold>) {
    let _gate = hold.entry.gate.lock().await;
    hold.asks();
    // What is being moved is looked at by that.
    if hold.leased.is_watched() && hold.leased.place() != Place::Moving {
        let script = hold.kind.extend;
        // One copy: the watchdog asks again.
        let (keys, args) = (hold.entry.line.keys.of(script.keys), [&**hold.leased.mark(), "0"]);
        let (answer, _) = engine.wire.copy(&Query::new(script, &keys, &args)).await;
        if matches!(answer, Ok(answer) if answer.status == Status::NotHeld) {
            hold.lose(&engine, LostReason::Server);
        }
    }
}

/// What a settling script is told: the count, and where waiters queue on the server whether this owner still does.
pub(crate) fn settle_args<'a>(kind: &Table, entry: &Entry, mark: &'a str, n: &'a str) -> Vec<&'a str> {
    let mut args = vec![mark, n];
    if kind.queue.is_some() {
        args.push(if entry.line.crowd.lock().has(&entry.field) { "1" } else { "0" });
    }
    args
}

/// Waits until no copy of an earlier release, or of a change of the lease, can run any more.
pub(crate) async fn wait_out(gate: &mut Gate) {
    gate.release.pass().await;
    gate.release = Doubt::default();
}

/// Nobody has it any more, and nobody gets it before this moment: its lease is set to what is left until then. Without
/// an answer that is tried again; if it is not done, it stays for the lease that it has, which is longer.
pub(crate) async fn leave_until(
    engine: &Arc<Engine>,
    hold: &Arc<Hold>,
    gate: &mut Gate,
    until: Moment,
    patience: &Patience,
) -> Result<Answer, Fault> {
    engine.watchdog.forget(&hold.leased);
    let left = set_rest(engine, hold, gate, until, patience).await;
    if is_to_be_tried_again(&left) {
        engine.janitor.finish(set_rest_later(engine.clone(), hold.clone(), until));
    }
    left
}

async fn set_rest(
    engine: &Arc<Engine>,
    hold: &Hold,
    gate: &mut Gate,
    until: Moment,
    patience: &Patience,
) -> Result<Answer, Fault> {
    // A late copy of what took it would undo this, or take it anew when it is over.
    gate.acquire.pass().await;
    gate.acquire.take();
    wait_out(gate).await;
    let left = until.since(engine.now()).max(SHORTEST_LEASE);
    // Whole milliseconds, and no shorter.
    let ms = (millis(left) + 1).to_string();
    let script = hold.kind.extend;
    let keys = hold.entry.line.keys.of(script.keys);
    let called = engine.wire.call(script, &keys, &[&**hold.leased.mark(), &ms], patience).await;
    owe(engine, &hold.entry, gate, &called.doubt);
    called.result
}

/// From this call on the client owes it.
fn set_rest_later(engine: Arc<Engine>, hold: Arc<Hold>, until: Moment) -> impl Future<Output = ()> + Send + 'static {
    let owing = engine.owed.note(&hold.entry.line.keys.name);
    let over = engine.now().after(hold.leased.longest() + engine.settings.command_timeout);
    async move {
        let again = || async {
            let mut gate = hold.entry.gate.clone().lock_owned().await;
            let left = set_rest(&engine, &hold, &mut gate, until, &engine.brief()).await;
            !is_to_be_tried_again(&left)
        };
        engine.insist(&hold.entry.line.keys.lock, Some(over), again).await;
        drop(owing);
    }
}

/// Copies of a release without an answer, or of a change of the lease, may still run. The entry remembers that, so it
/// outlives its hold for as long.
pub(crate) fn owe(engine: &Arc<Engine>, entry: &Arc<Entry>, gate: &mut Gate, doubt: &Doubt) {
    gate.release.merge(doubt);
    if !doubt.is_empty() {
        let (doubt, entry) = (doubt.clone(), entry.clone());
        engine.janitor.finish(async move {
            doubt.pass().await;
            drop(entry);
        });
    }
}

/// Makes the server's count what the registry says, or lower where it is.
pub(crate) async fn settle(
    engine: &Arc<Engine>,
    kind: &'static Table,
    entry: &Arc<Entry>,
    gate: &mut Gate,
    mark: &str,
    patience: &Patience,
) -> Result<Answer, Fault> {
    let (keys, n) = (&entry.line.keys, entry.count_of(mark).to_string());
    let args = settle_args(kind, entry, mark, &n);
    let called = engine.wire.call(kind.settle, &keys.of(kind.settle.keys), &args, patience).await;
    // A copy of this may come late too.
    owe(engine, entry, gate, &called.doubt);
    gate.unanswered = is_to_be_tried_again(&called.result);
    called.result
}
