//! Permits: those of this process who want some of one semaphore, and what they were given. Rules 16 and 22 of
//! docs/PROTOCOL.md.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::OwnedMutexGuard;

use crate::acquire::{before, Request};
use crate::backend::Script;
use crate::clock::{millis, Moment};
use crate::ear::{Ear, Tally};
use crate::error::{LostBy, SyncError};
use crate::janitor::say;
use crate::keys::{Key, Keys};
use crate::lease::{Leasable, Lease, Leased};
use crate::receipt::{Call, Ledger};
use crate::registry::{shrink, Listed, Registry};
use crate::row::{Row, Seat};
use crate::script::{Answer, Patience, Status};
use crate::session::Core;
use crate::wait::{wait, Contest, Tried, Turn};

/// Wishes in one script.
const BATCH: usize = 100;
/// The most permits with ids in one call (rule 12).
pub(crate) const MOST_IDS: u32 = 500;

/// Of one id.
pub(crate) const DIGITS: usize = 32;

/// What sets one kind of semaphore apart.
pub(crate) struct Table {
    pub(crate) acquire: &'static Script,
    /// Undoes an acquire.
    pub(crate) cancel: &'static Script,
    pub(crate) give_back: &'static Script,
    /// Lengthens leases, where permits have them.
    pub(crate) renew: Option<&'static Script>,
}

/// What one taker wants.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) count: u32,
    /// For how long, where permits have leases.
    pub(crate) lease: Option<Lease>,
}

/// Permits that one call takes for one taker.
#[derive(Clone)]
struct Lot {
    count: u32,
    /// Of the semaphore that they are of, where permits have no ids.
    life: Arc<str>,
    /// The ids of the permits, one behind the other, and their lease: where permits have them.
    leased: Option<(Arc<str>, Lease)>,
}

impl Lot {
    /// With ids that no other call has: what undoes a call in doubt must not undo a later one of the same taker.
    fn new(wish: Wish) -> Self {
        let ids = || (0..wish.count).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect::<String>();
        Self { count: wish.count, life: Arc::default(), leased: wish.lease.map(|lease| (ids().into(), lease)) }
    }

    fn ids(&self) -> &str {
        self.leased.as_ref().map_or("", |(ids, _)| ids)
    }

    /// As an acquiring script is told.
    fn arg(&self) -> String {
        match &self.leased {
            Some((ids, lease)) => format!("{} {ids}", millis(lease.duration())),
            None => self.count.to_string(),
        }
    }
}

type Place = Arc<Seat<Wish, Grant>>;

/// One semaphore in this process: who waits for permits, and who has some.
pub(crate) struct Pool {
    pub(crate) ledger: Arc<Ledger>,
    table: &'static Table,
    row: Row<Wish, Grant>,
    /// One acquire at a time, for all that wait.
    gate: Arc<tokio::sync::Mutex<()>>,
    /// What guards have, or are about to.
    shares: Mutex<HashMap<u64, Share>>,
    _listed: Listed<Pool>,
}

/// Permits that were taken together.
#[derive(Clone)]
struct Share {
    lot: Lot,
    leased: Option<Arc<Leased>>,
}

/// Permits as the watchdog knows them.
struct Ids {
    ledger: Arc<Ledger>,
    ids: Arc<str>,
}

impl Leasable for Ids {
    fn name(&self) -> &str {
        &self.ledger.keys.name
    }

    fn holder(&self) -> &str {
        &self.ids
    }

    fn weight(&self) -> usize {
        self.ids.len() / DIGITS
    }

    fn keys(&self, keys: &[Key]) -> Vec<&str> {
        self.ledger.keys.of(keys)
    }

    fn ended(&self, _: u64) {}
}

/// Permits that nobody has taken responsibility for yet: dropped, they give themselves back.
pub(crate) struct Grant {
    core: Arc<Core>,
    pool: Arc<Pool>,
    id: u64,
    share: Share,
}

impl Grant {
    fn new(core: &Arc<Core>, pool: &Arc<Pool>, lot: Lot, sent: Moment) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let leased = lot.leased.as_ref().zip(pool.table.renew).map(|((ids, lease), renew)| {
            let of = Arc::new(Ids { ledger: pool.ledger.clone(), ids: ids.clone() });
            let leased = Leased::new(of, ids.clone(), core.renewal(renew), sent, *lease);
            core.watchdog.watch(&leased, sent);
            leased
        });
        let share = Share { lot, leased };
        pool.shares().insert(id, share.clone());
        Self { core: core.clone(), pool: pool.clone(), id, share }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.pool.ledger
    }

    pub(crate) fn count(&self) -> u32 {
        self.share.lot.count
    }

    pub(crate) fn ids(&self) -> &str {
        self.share.lot.ids()
    }

    pub(crate) fn leased(&self) -> Option<&Arc<Leased>> {
        self.share.leased.as_ref()
    }

    /// They stay taken.
    pub(crate) fn keep(self) {
        self.pool.forget(&self.core, self.id);
    }

    /// Gives them back, once polled whatever becomes of the caller. `false`: not all were there any more.
    pub(crate) async fn give_back(self) -> Result<bool, SyncError> {
        self.core.can_release()?;
        let Some(share) = self.pool.forget(&self.core, self.id) else { return Ok(false) };
        let (core, pool) = (self.core.clone(), self.pool.clone());
        let work = async move {
            let (given, in_doubt) = pool.give_back(&core, &share.lot, core.patience()).await;
            if matches!(given, Err(SyncError::Unreachable { .. })) {
                core.janitor.finish(pool.insist(core.clone(), share, in_doubt));
            }
            given
        };
        self.core.janitor.carry(|_| work).await
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let Some(share) = self.pool.forget(&self.core, self.id) else { return };
        let (core, pool) = (self.core.clone(), self.pool.clone());
        self.core.janitor.finish(async move {
            // What has ids may be tried again by another call: it does not hold on for so long.
            let patience = if share.leased.is_some() { core.brief() } else { core.patience() };
            let (given, in_doubt) = pool.give_back(&core, &share.lot, patience).await;
            match given {
                Err(SyncError::Unreachable { .. }) => pool.insist(core, share, in_doubt).await,
                Err(error) => {
                    say(
                        || tracing::warn!(target: "lockson", %error, "a dropped guard could not give its permits back"),
                    );
                }
                Ok(_) => {}
            }
        });
    }
}

impl Pool {
    /// The one for these keys.
    pub(crate) fn of(registry: &Arc<Registry<Self>>, keys: Keys, table: &'static Table) -> Arc<Self> {
        let channel = keys.channel.clone();
        registry.of(&channel, || Self {
            ledger: Ledger::new(keys),
            table,
            row: Row::default(),
            gate: Arc::default(),
            shares: Mutex::default(),
            _listed: Listed::new(registry, &channel),
        })
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<u64, Share>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A share is no guard's any more. `None`: it was not.
    fn forget(&self, core: &Core, id: u64) -> Option<Share> {
        let mut shares = self.shares();
        let share = shares.remove(&id)?;
        shrink(&mut shares);
        drop(shares);
        if let Some(leased) = &share.leased {
            core.watchdog.forget(leased);
            leased.end(LostBy::Released);
        }
        Some(share)
    }

    /// `false`: not all were there any more. And whether copies without an answer may have given them back.
    async fn give_back(&self, core: &Arc<Core>, lot: &Lot, patience: Patience) -> (Result<bool, SyncError>, bool) {
        let args = match &lot.leased {
            Some((ids, _)) => vec![ids.to_string(), "0".to_owned()],
            None => vec![lot.count.to_string(), "alive".to_owned(), lot.life.to_string()],
        };
        // Not undone if it is in doubt: nobody would do it again.
        let call = Call { script: self.table.give_back, args, cancel: None, waits: false };
        let (answer, in_doubt) = self.ledger.once_or_in_doubt(core, call, patience).await;
        let is_given = |answer: Answer| {
            let given = answer.int(0).unwrap_or_else(|| lot.count.into());
            answer.status == Status::Done && given == i64::from(lot.count)
        };
        (answer.map(is_given), in_doubt)
    }

    /// Gives back what was not answered: until it is, or the lease is over. What has no ids is given back only once,
    /// so that ends where it may have been. From this call on the client owes it.
    fn insist(
        self: &Arc<Self>,
        core: Arc<Core>,
        share: Share,
        in_doubt: bool,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (pool, owing) = (self.clone(), core.owed.note(&self.ledger.keys.name));
        let over =
            share.leased.as_ref().map(|leased| core.now().after(leased.longest() + core.settings.command_timeout));
        async move {
            let (to, lot, gives_up) = (&core, &share.lot, AtomicBool::new(over.is_none() && in_doubt));
            let again = || async {
                let patience = if over.is_some() { to.brief() } else { to.patience() };
                let (given, in_doubt) = pool.give_back(to, lot, patience).await;
                gives_up.store(over.is_none() && in_doubt && given.is_err(), Ordering::Relaxed);
                !matches!(given, Err(SyncError::Unreachable { .. })) || gives_up.load(Ordering::Relaxed)
            };
            let answered = gives_up.load(Ordering::Relaxed) || core.insist(over, again).await;
            if !answered || gives_up.into_inner() {
                let name = &*pool.ledger.keys.name;
                say(|| tracing::warn!(target: "lockson", name, "permits may not have been given back: no answer"));
            }
            drop(owing);
        }
    }

    /// The call that acquires these.
    fn acquire(&self, lots: &[Lot]) -> Call {
        let ids: String = lots.iter().map(Lot::ids).collect();
        let rest = if ids.is_empty() { Vec::new() } else { vec![ids] };
        let args = lots.iter().map(Lot::arg).collect();
        Call { script: self.table.acquire, args, cancel: Some((self.table.cancel, rest)), waits: false }
    }

    /// One attempt for the first of the row, as many as may fit, and this one if it is among them. What others get,
    /// they get although this caller goes away.
    async fn attempt(self: &Arc<Self>, core: &Arc<Core>, place: &Place, patience: &Patience) -> Asked {
        core.ready()?;
        let limit = core.settings.outage_limit;
        let gate = tokio::time::timeout(limit, self.gate.clone().lock_owned()).await.map_err(|_| {
            let detail = "an earlier call is not settled yet".to_owned();
            SyncError::Unreachable { name: self.ledger.name(), detail }
        })?;
        core.ready()?;
        if let Some(grant) = place.take_prize() {
            return Ok(Tried::Won(grant));
        }
        let (pool, to, patience) = (self.clone(), core.clone(), patience.clone());
        let asked = core.janitor.carry(move |abandoned| {
            let patience = patience.unless(abandoned);
            async move { pool.ask(&to, gate, patience).await }
        });
        let left = asked.await;
        match place.take_prize() {
            Some(grant) => Ok(Tried::Won(grant)),
            None => left.map(Tried::Busy),
        }
    }

    /// Acquires for the first of the row. How long until more may be free, if that is known.
    async fn ask(
        self: &Arc<Self>,
        core: &Arc<Core>,
        _gate: OwnedMutexGuard<()>,
        patience: Patience,
    ) -> Result<Option<Duration>, SyncError> {
        let mut ids = 0;
        // Not more than one alone may name.
        let fits = |place: &Place| {
            ids += place.wish.lease.map_or(0, |_| place.wish.count);
            ids <= MOST_IDS
        };
        let places: Vec<Place> = self.row.first(BATCH).into_iter().take_while(fits).collect();
        let lots: Vec<Lot> = places.iter().map(|place| Lot::new(place.wish)).collect();
        if lots.is_empty() {
            return Ok(None);
        }
        // A receipt may answer for an earlier copy: leases count from before the first.
        let sent = core.now();
        let mut answer = self.ledger.once(core, self.acquire(&lots), patience.clone()).await?;
        // It had more to tidy up than one call may (rule 12).
        while answer.goes_on() && !core.is_closing() {
            answer = self.ledger.once(core, self.acquire(&lots), patience.clone()).await?;
        }
        if answer.status != Status::Done {
            return Ok(answer.int(0).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis));
        }
        let served = answer.int(0).and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        let life: Arc<str> = answer.text(2).unwrap_or_default().into();
        let grants = lots.into_iter().map(|lot| Grant::new(core, self, Lot { life: life.clone(), ..lot }, sent));
        // Those that the server did not serve are not made.
        let served: Vec<_> = places.into_iter().zip(grants).take(served).collect();
        let claims: Vec<_> = served.iter().map(|(place, _)| Arc::downgrade(place)).collect();
        self.row.serve(served);
        claims.into_iter().for_each(|claim| core.hand_out(claim));
        Ok(None)
    }

    /// Takes all that are free.
    pub(crate) async fn drain(self: &Arc<Self>, core: &Arc<Core>) -> Result<u32, SyncError> {
        core.ready()?;
        let (pool, to) = (self.clone(), core.clone());
        let drained = core.janitor.carry(move |abandoned| {
            let patience = to.patience().unless(abandoned);
            async move {
                let cancel = Some((pool.table.cancel, Vec::new()));
                let call = Call { script: pool.table.acquire, args: vec!["all".to_owned()], cancel, waits: false };
                let answer = pool.ledger.once(&to, call, patience).await?;
                let count = answer.int(1).and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
                let lot = Lot { count, life: answer.text(2).unwrap_or_default().into(), leased: None };
                Ok::<_, SyncError>((count > 0).then(|| Grant::new(&to, &pool, lot, answer.sent)))
            }
        });
        let drained = tokio::time::timeout(core.look_limit(), drained).await;
        let Some(grant) = drained.unwrap_or_else(|_| Err(SyncError::late(&self.ledger.keys.name)))? else {
            return Ok(0);
        };
        let count = grant.count();
        grant.keep();
        Ok(count)
    }

    pub(crate) fn has_shares(&self) -> bool {
        !self.shares().is_empty()
    }

    /// Ends every wait; what guards have is theirs no more.
    pub(crate) fn close(&self, why: LostBy) {
        self.row.close();
        let shares = std::mem::take(&mut *self.shares());
        for leased in shares.into_values().filter_map(|share| share.leased) {
            leased.end(why);
        }
    }

    /// Ends every wait and gives the guards' permits back. Whether that was confirmed.
    pub(crate) async fn shutdown(self: &Arc<Self>, core: &Arc<Core>) -> bool {
        self.row.close();
        let ids: Vec<u64> = self.shares().keys().copied().collect();
        let shares = ids.into_iter().filter_map(|id| self.forget(core, id));
        let shares = shares.map(|share| async move { self.give_back(core, &share.lot, core.patience()).await.0 });
        join_all(shares).await.iter().all(Result::is_ok)
    }
}

type Asked = Result<Tried<Grant>, SyncError>;

/// A taker that waits.
struct Taker {
    core: Arc<Core>,
    pool: Arc<Pool>,
    place: Place,
    ear: Ear,
    tally: Tally,
    patience: Patience,
}

impl Contest for Taker {
    type Prize = Grant;
    type Error = SyncError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Turn<Grant>, SyncError> {
        self.pool.row.turn(&mut self.place, &self.ear, pause).await
    }

    async fn attempt(&mut self) -> Asked {
        self.tally.asks();
        self.ear.drain(&self.core);
        let tried = self.pool.attempt(&self.core, &self.place, &self.patience).await;
        self.tally.heard();
        tried
    }

    fn listen(&mut self) -> bool {
        self.pool.row.is_first(&self.place) && self.ear.listen(&self.core)
    }

    fn pause(&mut self, left: Option<Duration>) -> Duration {
        let cap = self.core.wire.jittered(self.core.settings.wait_cap);
        // A millisecond on top, as the server rounds down.
        left.map_or(cap, |left| cap.min(left + Duration::from_millis(1)))
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.pool.row.leave(&self.place);
    }
}

/// Takes what is wished: `None` when there was not enough until the limit of the request.
pub(crate) async fn take(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    wish: Wish,
    request: &Request,
) -> Result<Option<Grant>, SyncError> {
    core.ready()?;
    let deadline = request.deadline(core.look_limit()).map_err(SyncError::Wait)?;
    let (began, ear) = (core.now(), Ear::new(pool.ledger.keys.channel.clone()));
    let place = pool.row.join(wish);
    let mut taker = Taker {
        core: core.clone(),
        pool: pool.clone(),
        place,
        ear,
        tally: Tally::default(),
        patience: core.patience(),
    };
    let once = request.is_once();
    let outcome = match once {
        true => before(deadline, taker.attempt()).await.transpose()?,
        false => before(deadline, wait(&mut taker)).await.transpose()?.map(Tried::Won),
    };
    let grant = match outcome {
        Some(Tried::Won(grant)) => Some(grant),
        Some(Tried::Busy(_)) => None,
        // Few permits and no server are told apart by whether the server answers.
        None if once || taker.tally.is_unheard(core, began) || core.wire.is_silent() => {
            return Err(SyncError::late(&pool.ledger.keys.name));
        }
        None => None,
    };
    match grant {
        Some(grant) if grant.leased().is_some_and(|leased| leased.lost(core.now()).is_some()) => {
            let detail = "the answer took longer than the lease".to_owned();
            Err(SyncError::Unreachable { name: pool.ledger.name(), detail })
        }
        grant => Ok(grant),
    }
}

/// What an answer says of a change: whether it was made.
pub(crate) fn is_done(answer: &Answer) -> bool {
    answer.status == Status::Done
}
