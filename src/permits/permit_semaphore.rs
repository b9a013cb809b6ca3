//! The expirable semaphore (Redisson's `getPermitExpirableSemaphore`): permits with ids and leases. Rule 22 of
//! docs/PROTOCOL.md.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::backend::Script;
use crate::base::clock::millis;
use crate::base::keys::Key::{Channel, Expiries, Lock as Free};
use crate::engine::Engine;
use crate::error::{Lost, LostReason, SyncError};
use crate::lease::validity::{HoldState, Leased};
use crate::permits::pool::{Grant, Scripts, DIGITS, MOST_IDS};
use crate::permits::receipt::{is_done, number, CANCEL, MOST};
use crate::permits::semaphore::{AcquirePermits, PermitKind, Semaphore, SemaphorePermit};
use crate::spans::holding;
use crate::wire::confirm::Short;
use crate::wire::doubt::Doubt;
use crate::wire::reply::{Answer, Status};
use crate::wire::table::script;

static SET: &Script = script!("permit_semaphore/set" after "announce" after "once", [Free, Expiries, Channel]);
static RELEASE: &Script =
    script!("permit_semaphore/release" after "announce" after "once" after "ids", [Free, Expiries, Channel]);
static EXTEND: &Script = script!("permit_semaphore/extend" after "ids", [Expiries]);

/// Permits with ids and leases.
#[derive(Debug, Clone, Copy)]
pub enum Expirable {}

impl PermitKind for Expirable {
    const NAME: &'static str = "permit_semaphore";

    const SCRIPTS: &'static Scripts = &Scripts {
        most: MOST_IDS,
        acquire: script!("permit_semaphore/acquire" after "announce" after "once" after "ids",
            [Free, Expiries, Channel]),
        cancel: script!("permit_semaphore/cancel" after "announce" after "once" after "ids", [Free, Expiries, Channel]),
        give_back: RELEASE,
        inspect: script!("permit_semaphore/inspect" after "once", [Free, Expiries]),
        renew: Some(script!("permit_semaphore/renew" after "ids", [Expiries])),
    };

    type Lease = GuardLease;

    fn lease_of(grant: &Grant) -> Result<GuardLease, SyncError> {
        // What is taken for a lease has one.
        let leased = grant.leased().cloned().ok_or_else(|| SyncError::NotHeld { name: grant.ledger().name() })?;
        Ok(GuardLease { leased, changes: Arc::default() })
    }
}

/// The lease of a guard's permits.
pub struct GuardLease {
    leased: Arc<Leased>,
    /// One change of the lease at a time, and the copies of the last one that may run yet.
    changes: Arc<Mutex<Doubt>>,
}

/// The id of one permit: 16 bytes, shown as 32 hexadecimal digits, as Redisson's API has them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(String);

/// A text that is no permit's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a permit's id is 32 hexadecimal digits")]
pub struct InvalidPermitId;

impl FromStr for PermitId {
    type Err = InvalidPermitId;

    fn from_str(text: &str) -> Result<Self, InvalidPermitId> {
        let is_id = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_ascii_lowercase())).ok_or(InvalidPermitId)
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermitId({})", self.0)
    }
}

/// An expirable semaphore, of [`Locks::permit_semaphore`](crate::Locks::permit_semaphore): every permit has an id and a
/// lease, and is free again when that ends. So the permits of a process that is killed come back.
///
/// A [`guard`](PermitSemaphore::guard)'s lease is renewed by the watchdog. As in a counting [`Semaphore`], one that
/// nobody has set has no permits, and takers of a process are served in their order.
///
/// ```
/// # use std::time::Duration;
/// # async fn f(semaphore: lockson::PermitSemaphore) -> Result<(), lockson::SyncError> {
/// if let Some(guard) = semaphore.acquire(2).wait(Duration::from_secs(5)).guard().await? {
///     // two permits, renewed, given back when the guard is dropped
/// #   drop(guard);
/// }
/// if let Some(ids) = semaphore.acquire(2).ids(Duration::from_secs(60)).await? {
///     semaphore.release(&ids).await?; // any process may; else they end with their lease
/// }
/// # Ok(()) }
/// ```
pub type PermitSemaphore = Semaphore<Expirable>;

/// Permits that were taken for a lease, until this is dropped.
pub type PermitGuard = SemaphorePermit<Expirable>;

impl Semaphore<Expirable> {
    /// Makes it have this many permits in all, whether anybody has set it or not. If more are taken than that, what is
    /// free goes below zero, as after [`reduce_permits`](PermitSemaphore::reduce_permits).
    ///
    /// # Errors
    /// As [`try_set_permits`](PermitSemaphore::try_set_permits)'s; so is its cancel safety.
    pub async fn set_permits(&self, permits: u32) -> Result<(), SyncError> {
        let args = vec![number(permits, MOST)?.to_string()];
        self.pool.clone()?.ledger.change(SET, args, Some(CANCEL)).await.map(drop)
    }

    /// How many permits are taken and have not expired. One script, which writes nothing.
    ///
    /// # Errors
    /// As [`available_permits`](PermitSemaphore::available_permits)'s; so is its cancel safety.
    pub async fn acquired_permits(&self) -> Result<u64, SyncError> {
        Ok(self.inspect().await?.count(1))
    }

    /// Gives permits back, whoever took them: all of them, or none.
    ///
    /// # Errors
    /// [`SyncError::NotHeld`] if not all of them are held: nothing was changed. [`SyncError::Count`] for none, or more
    /// than 500.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out even if the future is dropped.
    pub async fn release(&self, permits: &[PermitId]) -> Result<(), SyncError> {
        let (pool, ids) = (self.pool.clone()?, joined(permits)?);
        self.held(&pool.ledger.change(RELEASE, vec![ids, "1".to_owned()], None).await?)
    }

    /// Sets the leases of permits anew, exactly: of all of them, or none.
    ///
    /// # Errors
    /// As [`release`](PermitSemaphore::release)'s; [`SyncError::Lease`] before anything is sent;
    /// [`Unreachable`](crate::QueryError::Unreachable) after three command timeouts.
    ///
    /// # Cancel safety
    /// Dropped half-way, or when it fails, the lease may or may not have been set, within a command timeout.
    pub async fn set_lease(&self, permits: &[PermitId], lease: Duration) -> Result<(), SyncError> {
        let (engine, pool) = (&self.session.engine, self.pool.clone()?);
        let (ids, lease) = (joined(permits)?, millis(engine.check_lease(lease)?).to_string());
        let set = async {
            let called = pool.ledger.send(EXTEND, &[&ids, &lease], &engine.patience()).await?;
            let answer = pool.ledger.read(called.result)?;
            // A late copy would undo what is set next.
            called.doubt.pass().await;
            self.held(&answer)
        };
        engine.ready()?;
        pool.ledger.in_time(set).await
    }

    /// What is left of a permit's lease on the server; `None` when it is not held.
    ///
    /// # Errors
    /// As [`available_permits`](PermitSemaphore::available_permits)'s; so is its cancel safety.
    pub async fn remaining_lease(&self, permit: &PermitId) -> Result<Option<Duration>, SyncError> {
        let answer = self.pool.clone()?.ledger.look(EXTEND, &[&permit.0, "0"]).await?;
        Ok(answer.millis(0).filter(|_| is_done(&answer)))
    }

    fn held(&self, answer: &Answer) -> Result<(), SyncError> {
        is_done(answer).then_some(()).ok_or_else(|| SyncError::NotHeld { name: self.name.to_string() })
    }
}

/// The ids as the scripts get them.
fn joined(permits: &[PermitId]) -> Result<String, SyncError> {
    let permits: BTreeSet<&PermitId> = permits.iter().collect();
    number(u32::try_from(permits.len()).unwrap_or(u32::MAX), MOST_IDS)?;
    Ok(permits.into_iter().map(|permit| permit.0.as_str()).collect())
}

impl AcquirePermits<'_, Expirable> {
    /// See [`Request::lease`](crate::Request::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.request = self.request.lease(lease);
        self
    }

    /// See [`Request::max_hold`](crate::Request::max_hold).
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.request = self.request.max_hold(limit);
        self
    }

    /// Ends the request with the ids of permits that have this lease, whatever was asked for before, and that nobody
    /// renews or gives back by itself.
    ///
    /// # Errors
    /// As [`PermitSemaphore::guard`]'s; so is its cancel safety.
    pub async fn ids(self, lease: Duration) -> Result<Option<Vec<PermitId>>, SyncError> {
        let Some(guard) = self.lease(lease).guard().await? else { return Ok(None) };
        let ids = guard.ids();
        guard.grant.keep()?;
        Ok(Some(ids))
    }
}

impl SemaphorePermit<Expirable> {
    fn engine(&self) -> &Arc<Engine> {
        &self.session.engine
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<PermitId> {
        let ids = self.lease.leased.mark().as_bytes().chunks(DIGITS);
        ids.map(|id| PermitId(String::from_utf8_lossy(id).into_owned())).collect()
    }

    /// What is known of them at this instant.
    pub fn state(&self) -> HoldState {
        self.lease.leased.state(self.engine().now())
    }

    /// Whether nobody else can have them at this instant.
    pub fn is_valid(&self) -> bool {
        self.state() != HoldState::Lost
    }

    /// How long they are valid from now on if they are not renewed; zero when they are lost.
    pub fn remaining(&self) -> Duration {
        let (now, leased) = (self.engine().now(), &self.lease.leased);
        leased.lost(now).map_or_else(|| leased.valid_until().since(now), |_| Duration::ZERO)
    }

    /// Resolves when they are lost, and before the server would give them to others.
    ///
    /// # Cancel safety
    /// Safe. The future is `'static`: it may be spawned, and does not keep the permits.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        self.lease.leased.clone().until_lost(self.engine().wire.clock)
    }

    /// Runs work that must not outlive the permits: it is dropped before their deadline, which renewals move.
    ///
    /// # Errors
    /// [`Lost`]: the work was stopped, or ended too late to be sure that it was within its permits.
    ///
    /// # Cancel safety
    /// As the work's. The permits stay taken.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        let (engine, leased) = (self.engine(), &self.lease.leased);
        holding([&leased.keys.name, &engine.client_id], leased.run(engine.wire.clock, work)).await
    }

    /// Sets the lease anew, exactly: it now ends `lease` (sent as milliseconds) from the send instant of this call.
    /// Permits that are renewed go on being so, and renewals only lengthen.
    ///
    /// # Errors
    /// [`SyncError::Lease`] before anything is sent; [`SyncError::NotHeld`] when they are lost; or the server did not
    /// answer for three command timeouts, and then the shorter of the two leases is the one to count on.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lease may or may not have been set.
    pub async fn set_lease(&self, lease: Duration) -> Result<(), SyncError> {
        let lease = self.engine().check_lease(lease)?;
        self.engine().ready()?;
        self.grant.ledger().in_time(self.change_lease(lease)).await
    }

    async fn change_lease(&self, lease: Duration) -> Result<(), SyncError> {
        let (engine, ledger) = (self.engine(), self.grant.ledger());
        let mut doubt = self.lease.changes.clone().lock_owned().await;
        let not_held = || SyncError::NotHeld { name: ledger.name() };
        if self.lease.leased.lost(engine.now()).is_some() {
            return Err(not_held());
        }
        let (to, of, leased) = (engine.clone(), ledger.clone(), self.lease.leased.clone());
        let work = engine.janitor.carry(|abandoned| async move {
            // A late copy of an earlier change would undo this one.
            doubt.pass().await;
            let patience = to.patience().unless(abandoned);
            let called = to.change_lease(&leased, EXTEND, &of.keys.of(EXTEND.keys), Some(lease), &patience).await;
            *doubt = called.doubt;
            of.read(called.result)
        });
        let answer = work.await?;
        if let Status::NotConfirmed(Short { acked, wanted }) = answer.status {
            return Err(SyncError::NotConfirmed { name: ledger.name(), acked, wanted, given_back: false });
        }
        if !is_done(&answer) {
            engine.watchdog.lose(&self.lease.leased, LostReason::Server);
        }
        self.lease.leased.lost(engine.now()).map_or(Ok(()), |_| Err(not_held()))
    }
}
