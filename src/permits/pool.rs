//! The permits of one semaphore, of either kind: who in this process waits for some, and what was taken until it is
//! given back. Rules 16 and 22 of docs/PROTOCOL.md.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, FutureExt};
use parking_lot::Mutex;
use scopeguard::ScopeGuard;
use tokio::sync::OwnedMutexGuard;

use crate::backend::Script;
use crate::base::clock::{millis, Moment};
use crate::base::config::Confirm;
use crate::base::host::Ids;
use crate::base::janitor::say;
use crate::base::keys::Key::{Channel, Lock as Free, Made};
use crate::base::keys::Keys;
use crate::base::registry::{Listed, Registry};
use crate::engine::Engine;
use crate::error::{LostReason, QueryError, SyncError};
use crate::lease::observer::Observer;
use crate::lease::validity::{Lease, Leased};
use crate::permits::receipt::{is_done, is_forbidden, Ledger, OnceCall};
use crate::spans::releasing;
use crate::waiting::row::Row;
use crate::waiting::wait::Tried;
use crate::waiting::waiters::Waiter;
use crate::wire::reply::Answer;
use crate::wire::script::Patience;
use crate::wire::table::script;

/// Takers that one script is asked for.
const BATCH: usize = 100;
/// The most permits with ids in one call (rule 12).
pub(crate) const MOST_IDS: u32 = 500;
/// Digits of one id.
pub(crate) const DIGITS: usize = 32;

/// Adds permits, or takes some away, whether they are free or not.
pub(crate) static CHANGE: &Script = script!("semaphore/change" after "announce" after "once", [Free, Made, Channel]);

/// What sets one kind of semaphore apart.
pub struct Scripts {
    /// The most permits in one call.
    pub(crate) most: u32,
    pub(crate) acquire: &'static Script,
    /// Undoes an acquire.
    pub(crate) cancel: &'static Script,
    pub(crate) give_back: &'static Script,
    pub(crate) inspect: &'static Script,
    /// Lengthens leases, where permits have them.
    pub(crate) renew: Option<&'static Script>,
}

/// What one taker wants.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) count: u32,
    /// For how long, where permits have leases.
    pub(crate) lease: Option<Lease>,
    /// By whom they have to be confirmed.
    pub(crate) confirm: Option<Confirm>,
}

impl Wanted {
    /// One behind the other, where permits have ids. No other call has these: what undoes a call in doubt must not undo
    /// a later one of the same taker.
    fn new_ids(self, ids: &Ids) -> Arc<str> {
        let numbers = 0..self.lease.map_or(0, |_| self.count);
        numbers.map(|_| ids.fresh().simple().to_string()).collect::<String>().into()
    }

    /// As an acquiring script is told.
    fn arg(self, ids: &str) -> String {
        match self.lease {
            Some(lease) => format!("{} {ids}", millis(lease.duration())),
            None => self.count.to_string(),
        }
    }
}

/// Permits that were taken together.
#[derive(Clone)]
enum Taken {
    /// So many, of the semaphore that was made by this call: they are not given to one that is set in its place.
    Counted { count: u32, made: Arc<str> },
    /// Those with the ids that are the mark of this lease.
    Leased(Arc<Leased>),
}

impl Taken {
    fn count(&self) -> u32 {
        match self {
            Self::Counted { count, .. } => *count,
            Self::Leased(leased) => u32::try_from(leased.mark().len() / DIGITS).unwrap_or(u32::MAX),
        }
    }

    fn leased(&self) -> Option<&Arc<Leased>> {
        match self {
            Self::Counted { .. } => None,
            Self::Leased(leased) => Some(leased),
        }
    }
}

/// A taker in the row.
pub(crate) type PermitWaiter = Arc<Waiter<Wanted, Grant>>;

impl Observer for Waiter<Wanted, Grant> {
    fn lapsed(self: Arc<Self>) {
        self.lapse();
    }
}

/// One semaphore in this process: who waits for its permits, and who has some.
pub(crate) struct Pool {
    pub(crate) ledger: Arc<Ledger>,
    scripts: &'static Scripts,
    pub(crate) row: Row<Wanted, Grant>,
    /// One acquire at a time, for all that wait.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// What guards have, or are about to, by the numbers of the grants.
    taken: Mutex<BTreeMap<u64, Taken>>,
    _listed: Listed<Pool>,
}

/// Permits that this process has to give back. Whoever drops it, a guard or a waiter that went away, has them given
/// back.
pub struct Grant {
    pool: Arc<Pool>,
    number: u64,
    taken: Taken,
}

impl Grant {
    /// Of what was taken by a call that was sent at `sent`.
    fn new(pool: &Arc<Pool>, wanted: Wanted, ids: Arc<str>, made: &Arc<str>, sent: Moment) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let taken = match wanted.lease.zip(pool.scripts.renew) {
            Some((lease, renew)) => {
                let (engine, keys) = (pool.engine(), pool.ledger.keys.clone());
                // A guard costs as much as five ids, beside its own.
                let weight = ids.len() / DIGITS + 5;
                let leased = Leased::new(keys, [ids.clone(), ids], weight, renew, sent, lease);
                leased.confirmed(wanted.confirm);
                engine.watchdog.watch(&leased, sent);
                Taken::Leased(leased)
            }
            None => Taken::Counted { count: wanted.count, made: made.clone() },
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        pool.taken.lock().insert(number, taken.clone());
        Self { pool: pool.clone(), number, taken }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.pool.ledger
    }

    pub(crate) fn count(&self) -> u32 {
        self.taken.count()
    }

    pub(crate) fn leased(&self) -> Option<&Arc<Leased>> {
        self.taken.leased()
    }

    /// Refuses permits whose lease ran out before their taker heard of them, or whose client is on its way to give them
    /// back.
    pub(crate) fn if_worth(self) -> Result<Self, SyncError> {
        if self.pool.engine().is_closing() {
            return Err(QueryError::Closed.into());
        }
        if self.leased().is_some_and(|leased| leased.lost(self.pool.engine().now()).is_some()) {
            let detail = "the answer took longer than the lease".to_owned();
            return Err(QueryError::Unreachable { name: self.ledger().name(), detail }.into());
        }
        Ok(self)
    }

    /// They stay taken, and are the caller's to give back; or the client gives them back as it ends.
    pub(crate) fn keep(self) -> Result<(), SyncError> {
        self.pool.forget(self.number).map(drop).ok_or(SyncError::Query(QueryError::Closed))
    }

    /// Gives them back, once polled whatever becomes of the caller. `false`: not all were there any more.
    pub(crate) async fn give_back(self) -> Result<bool, SyncError> {
        let engine = self.pool.engine();
        engine.can_release()?;
        let Some(work) = self.pool.give_back(self.number, engine.patience()) else { return Ok(false) };
        engine.janitor.carry_out(releasing([&self.pool.ledger.keys.name, &engine.client_id], work.boxed())).await
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let engine = self.pool.engine();
        // What has ids may be tried again by another call: it does not hold on for so long.
        let patience = if self.leased().is_some() { engine.brief() } else { engine.patience() };
        let Some(given) = self.pool.give_back(self.number, patience) else { return };
        engine.janitor.finish(async move {
            let given = given.await;
            if let Some(error) = given.err().filter(|error| !error.is_unreachable()) {
                say(|| tracing::warn!(target: "lockson", %error, "a dropped guard could not give its permits back"));
            }
        });
    }
}

/// Not answered, or not allowed now: what has ids ends with its lease, so that is tried again.
fn is_to_be_tried_again(given: &Result<bool, SyncError>, taken: &Taken) -> bool {
    let is_unreachable = given.as_ref().is_err_and(SyncError::is_unreachable);
    is_unreachable || is_forbidden(given) && taken.leased().is_some()
}

impl Pool {
    /// The one for these keys.
    pub(crate) fn of(
        registry: &Arc<Registry<Self>>,
        engine: &Arc<Engine>,
        keys: Keys,
        scripts: &'static Scripts,
    ) -> Arc<Self> {
        let channel = keys.channel.clone();
        registry.of(&channel, || Self {
            ledger: Ledger::new(engine, keys),
            scripts,
            row: Row::default(),
            asking: Arc::default(),
            taken: Mutex::default(),
            _listed: Listed::new(registry, &channel),
        })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.ledger.engine
    }

    /// A grant is nobody's to give back any more. `None`: it was not.
    fn forget(&self, number: u64) -> Option<Taken> {
        let taken = self.taken.lock().remove(&number)?;
        if let Some(leased) = taken.leased() {
            self.engine().watchdog.forget(leased);
            leased.end(LostReason::Released);
        }
        Some(taken)
    }

    /// Gives a grant back, again and again if there is no answer. `false`: not all were there any more. From this call
    /// on the client owes it. `None`: it was not there to be given back.
    fn give_back(
        self: &Arc<Self>,
        number: u64,
        patience: Patience,
    ) -> Option<impl Future<Output = Result<bool, SyncError>> + Send + use<>> {
        // Before it is not there any more.
        let owing = self.engine().owed.note(&self.ledger.keys.name);
        let (taken, pool) = (self.forget(number)?, self.clone());
        // Where it panics half-way.
        let unheard = scopeguard::guard((taken, pool), |(taken, pool)| {
            pool.engine().janitor.finish(pool.insist(taken, true));
        });
        Some(async move {
            let (given, in_doubt) = unheard.1.try_give_back(&unheard.0, patience).await;
            let (taken, pool) = ScopeGuard::into_inner(unheard);
            if is_to_be_tried_again(&given, &taken) {
                pool.engine().janitor.finish(pool.insist(taken, in_doubt));
            }
            drop(owing);
            given
        })
    }

    /// `false`: not all were there any more. And whether copies without an answer may have given them back.
    async fn try_give_back(&self, taken: &Taken, patience: Patience) -> (Result<bool, SyncError>, bool) {
        let count = taken.count();
        let args = match taken {
            Taken::Leased(leased) => vec![leased.mark().to_string(), "0".to_owned()],
            Taken::Counted { made, .. } => vec![count.to_string(), "same".to_owned(), made.to_string()],
        };
        // Not undone if it is in doubt: nobody would do it again.
        let call = OnceCall::back(self.scripts.give_back, args);
        let (answer, in_doubt) = self.ledger.once(call, patience).await;
        let all_given =
            |answer: Answer| is_done(&answer) && answer.int(0).is_none_or(|given| given == i64::from(count));
        (answer.map(all_given), in_doubt)
    }

    /// Gives back what was not answered: until it is, or the lease is over. What has no ids is given back only once,
    /// so that ends where it may have been. From this call on the client owes it.
    fn insist(self: &Arc<Self>, taken: Taken, in_doubt: bool) -> impl Future<Output = ()> + Send + 'static {
        let (pool, engine) = (self.clone(), self.engine().clone());
        let owing = engine.owed.note(&self.ledger.keys.name);
        let over = taken.leased().map(|leased| engine.now().after(leased.longest() + engine.settings.command_timeout));
        async move {
            let is_answered = AtomicBool::new(false);
            let again = || async {
                let patience = if over.is_some() { engine.brief() } else { engine.patience() };
                let (given, in_doubt) = pool.try_give_back(&taken, patience).await;
                let answered = !is_to_be_tried_again(&given, &taken);
                is_answered.store(answered, Ordering::Relaxed);
                answered || over.is_none() && in_doubt
            };
            if over.is_some() || !in_doubt {
                engine.insist(&pool.ledger.keys.lock, over, again).await;
            }
            if !is_answered.into_inner() {
                let name = &*pool.ledger.keys.name;
                say(|| tracing::warn!(target: "lockson", name, "permits may not have been given back: no answer"));
            }
            drop(owing);
        }
    }

    /// The call that acquires for these, with the ids that they would get.
    fn acquire(&self, takers: &[(PermitWaiter, Arc<str>)]) -> OnceCall {
        let args = takers.iter().map(|(waiter, ids)| waiter.wish.arg(ids)).collect();
        let all: String = takers.iter().map(|(_, ids)| &**ids).collect();
        let named = if all.is_empty() { Vec::new() } else { vec![all] };
        let confirm = takers.first().and_then(|(waiter, _)| waiter.wish.confirm);
        let cancel = Some((self.scripts.cancel, named));
        OnceCall { script: self.scripts.acquire, args, confirm, cancel, takes: true, waits: false }
    }

    /// One attempt for the first of the row, as many as may fit, and this one if it is among them. What others get,
    /// they get although this caller goes away.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        waiter: &PermitWaiter,
        patience: &Patience,
    ) -> Result<Tried<Grant>, SyncError> {
        let engine = self.engine();
        engine.ready()?;
        let turn = tokio::time::timeout(engine.settings.outage_limit, self.asking.clone().lock_owned());
        let turn = turn.await.map_err(|_| {
            let detail = "an earlier call is not over yet".to_owned();
            SyncError::Query(QueryError::Unreachable { name: self.ledger.name(), detail })
        })?;
        engine.ready()?;
        if let Some(grant) = waiter.take_prize() {
            return Ok(Tried::Won(grant));
        }
        let (pool, patience) = (self.clone(), patience.clone());
        let asked = engine.janitor.carry(move |abandoned| {
            let patience = patience.unless(abandoned);
            async move { pool.ask(turn, patience).await }
        });
        let left = asked.await;
        match waiter.take_prize() {
            Some(grant) => Ok(Tried::Won(grant)),
            None => left.map(Tried::Busy),
        }
    }

    /// Acquires for the first of the row. How long until more may be free, if that is known.
    async fn ask(
        self: &Arc<Self>,
        _turn: OwnedMutexGuard<()>,
        patience: Patience,
    ) -> Result<Option<Duration>, SyncError> {
        let mut named = 0;
        let waiters = self.row.first(BATCH);
        // One script is confirmed as a whole.
        let confirm = waiters.first().and_then(|waiter| waiter.wish.confirm);
        // Not more than one alone may name.
        let fits = |waiter: &PermitWaiter| {
            named += waiter.wish.lease.map_or(0, |_| waiter.wish.count);
            named <= MOST_IDS && waiter.wish.confirm == confirm
        };
        let waiters: Vec<PermitWaiter> = waiters.into_iter().take_while(fits).collect();
        if waiters.is_empty() {
            return Ok(None);
        }
        let with_ids =
            || waiters.iter().map(|waiter| (waiter.clone(), waiter.wish.new_ids(&self.engine().ids))).collect();
        // A receipt may answer for an earlier copy: leases count from before the first.
        let (engine, sent) = (self.engine(), self.engine().now());
        let mut takers: Vec<(PermitWaiter, Arc<str>)> = with_ids();
        let mut answer = self.ledger.once(self.acquire(&takers), patience.clone()).await.0?;
        // It had more to tidy up than one call may (rule 12). What undoes a copy in doubt undoes nothing of the next.
        while answer.goes_on() && !engine.is_closing() {
            takers = with_ids();
            answer = self.ledger.once(self.acquire(&takers), patience.clone()).await.0?;
        }
        if !is_done(&answer) {
            return Ok(answer.millis(0));
        }
        let served = answer.count(0);
        let made: Arc<str> = answer.text(2).unwrap_or_default().into();
        let served: Vec<_> = takers.into_iter().take(served).collect();
        let grant = |(waiter, ids): (PermitWaiter, _)| {
            let grant = Grant::new(self, waiter.wish, ids, &made, sent);
            (waiter, grant)
        };
        let handed: Vec<_> = served.iter().map(|(waiter, _)| Arc::downgrade(waiter)).collect();
        self.row.serve(served.into_iter().map(grant).collect());
        handed.into_iter().for_each(|waiter| engine.hand_out(waiter));
        Ok(None)
    }

    /// Takes all that are free, and keeps them.
    pub(crate) async fn drain(self: &Arc<Self>) -> Result<u32, SyncError> {
        self.engine().ready()?;
        let pool = self.clone();
        let drained = self.engine().janitor.carry(move |abandoned| {
            let patience = pool.engine().patience().unless(abandoned);
            async move {
                let _owing = pool.engine().owed.note(&pool.ledger.keys.name);
                let cancel = Some((pool.scripts.cancel, Vec::new()));
                let (script, args, confirm) =
                    (pool.scripts.acquire, vec!["all".to_owned()], pool.engine().settings.confirm);
                let call = OnceCall { script, args, confirm, cancel, takes: true, waits: false };
                let answer = pool.ledger.once(call, patience).await.0?;
                let count = answer.count(1);
                let made: Arc<str> = answer.text(2).unwrap_or_default().into();
                let grant =
                    || Grant::new(&pool, Wanted { count, lease: None, confirm }, Arc::default(), &made, answer.sent);
                Ok::<_, SyncError>((count > 0).then(grant))
            }
        });
        let Some(grant) = self.ledger.in_time(drained).await? else { return Ok(0) };
        let count = grant.count();
        grant.keep()?;
        Ok(count)
    }

    pub(crate) fn has_taken(&self) -> bool {
        !self.taken.lock().is_empty()
    }

    /// Ends every wait; what guards have is theirs no more.
    pub(crate) fn close(&self, why: LostReason) {
        self.row.close();
        let all = std::mem::take(&mut *self.taken.lock());
        for leased in all.values().filter_map(Taken::leased) {
            leased.end(why);
        }
    }

    /// Ends every wait and gives the guards' permits back. Whether that was confirmed.
    pub(crate) async fn shutdown(&self) -> bool {
        self.row.close();
        // What guards have waits for nobody. What is asked for may be given yet, and comes back by that.
        let had = self.give_all_back().await;
        drop(self.asking.lock().await);
        self.give_all_back().await && had
    }

    async fn give_all_back(&self) -> bool {
        let numbers: Vec<u64> = self.taken.lock().keys().copied().collect();
        let all = numbers.into_iter().filter_map(|number| self.forget(number));
        let given = all.map(|taken| async move { self.try_give_back(&taken, self.engine().patience()).await.0 });
        join_all(given).await.iter().all(Result::is_ok)
    }
}
