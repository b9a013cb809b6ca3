//! Semaphores: permits that processes take and give back. Those of [`Semaphore`] are counted (Redisson's
//! `getSemaphore`), those of [`PermitSemaphore`](crate::PermitSemaphore) have ids and leases. Rule 22 of
//! docs/PROTOCOL.md.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::base::config::Replicas;
use crate::base::keys::Key::{Lock as Free, Made};
use crate::engine::Session;
use crate::error::{QueryError, SyncError};
use crate::permits::pool::{Grant, Pool, Scripts, Wanted, CHANGE};
use crate::permits::receipt::{is_done, number, CANCEL, MOST};
use crate::permits::take::{within, Taker};
use crate::spans::acquiring;
use crate::waiting::request::Request;
use crate::waiting::wait::AcquireOutcome;
use crate::wire::reply::Answer;
use crate::wire::table::script;

/// A kind of permits: [`Counted`], or [`Expirable`](crate::kind::Expirable). They are lockson's own.
pub trait PermitKind: Clone + Send + Sync + 'static {
    /// As spans and metrics have it.
    const NAME: &'static str;

    /// The scripts.
    const SCRIPTS: &'static Scripts;

    /// What a guard knows of the lease of its permits.
    type Lease: Send + Sync + Unpin;

    /// The lease of what was taken.
    ///
    /// # Errors
    /// [`SyncError::NotHeld`] if it has none, where permits have leases.
    fn lease_of(grant: &Grant) -> Result<Self::Lease, SyncError>;
}

/// Permits that are only counted.
#[derive(Debug, Clone, Copy)]
pub enum Counted {}

impl PermitKind for Counted {
    const NAME: &'static str = "semaphore";

    const SCRIPTS: &'static Scripts = &Scripts {
        most: MOST,
        acquire: script!("semaphore/acquire" after "once", [Free, Made]),
        cancel: CANCEL,
        give_back: CHANGE,
        inspect: script!("semaphore/inspect" after "once", [Free]),
        renew: None,
    };

    type Lease = ();

    fn lease_of(_: &Grant) -> Result<(), SyncError> {
        Ok(())
    }
}

/// A semaphore, of [`Locks::semaphore`](crate::Locks::semaphore): a number of permits, over all processes.
///
/// Permits have no owner: anybody may give some back. So **those of a process that is killed are lost**, until somebody
/// adds as many; a [`PermitSemaphore`](crate::PermitSemaphore)'s come back. A task that panics or is aborted loses
/// nothing if it has a [`guard`](Semaphore::guard).
///
/// One that nobody has set has no permits: [`try_set_permits`](Semaphore::try_set_permits). Within a process takers are
/// served first come first served, so a large request is not starved by small ones; one for more permits than
/// there are keeps all behind it waiting.
#[derive(Clone)]
pub struct Semaphore<K: PermitKind = Counted> {
    pub(super) session: Arc<Session>,
    pub(super) name: Arc<str>,
    pub(super) pool: Result<Arc<Pool>, QueryError>,
    kind: PhantomData<fn() -> K>,
}

impl<K: PermitKind> fmt::Debug for Semaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K: PermitKind> Semaphore<K> {
    pub(crate) fn new(session: Arc<Session>, name: &str, pool: Result<Arc<Pool>, QueryError>) -> Self {
        Self { session, name: name.into(), pool, kind: PhantomData }
    }

    /// The name, without the client's prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives it this many permits, if nobody has set it yet. `false`: somebody has.
    ///
    /// # Errors
    /// [`SyncError`]; [`SyncError::Count`] for none, or more than `i32::MAX`, as in every call here.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out even if the future is dropped.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, SyncError> {
        self.change(number(permits, MOST)?.into(), "absent").await
    }

    /// Adds permits, whether anybody has set it or not.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s; so is its cancel safety.
    pub async fn add_permits(&self, permits: u32) -> Result<(), SyncError> {
        self.change(number(permits, MOST)?.into(), "always").await.map(drop)
    }

    /// Takes permits away, whether they are free or not: what is free may go below zero, and then as many have to be
    /// given back, or expire, before anybody gets one.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s; so is its cancel safety.
    pub async fn reduce_permits(&self, permits: u32) -> Result<(), SyncError> {
        self.change(-i64::from(number(permits, MOST)?), "always").await.map(drop)
    }

    /// How many permits are free, those that have expired among them; below zero after
    /// [`reduce_permits`](Semaphore::reduce_permits), 0 when nobody has set it. One script, which writes nothing.
    ///
    /// # Errors
    /// [`SyncError`]; [`QueryError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn available_permits(&self) -> Result<i64, SyncError> {
        Ok(self.inspect().await?.int(0).unwrap_or_default())
    }

    /// Begins a request with a wait limit, or a guard at its end; of a [`PermitSemaphore`](crate::PermitSemaphore) with
    /// a lease too, or the bare ids of permits. Awaited, that of a counting semaphore says whether the permits were
    /// taken; they are then not given back by themselves, but by [`release`](Semaphore::release).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(semaphore: lockson::Semaphore) -> Result<(), lockson::SyncError> {
    /// if let Some(guard) = semaphore.acquire(2).wait(Duration::from_secs(5)).guard().await? {
    ///     // two permits, given back when the guard is dropped
    /// #   drop(guard);
    /// }
    /// if semaphore.acquire(2).wait(Duration::from_secs(5)).await?.is_acquired() {
    ///     semaphore.release(2).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self, permits: u32) -> AcquirePermits<'_, K> {
        AcquirePermits { semaphore: self, permits, request: Request::default() }
    }

    /// Waits for this many permits, all at once: a guard that gives them back when it is dropped, and until then renews
    /// them where they have leases.
    ///
    /// ```
    /// # async fn f(semaphore: lockson::PermitSemaphore) -> Result<(), Box<dyn std::error::Error>> {
    /// let permits = semaphore.guard(2).await?;
    /// permits.run(async { /* stopped if they are lost */ }).await?;
    /// permits.release().await?; // or drop it
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`QueryError::Unreachable`] when the server was silent for the outage limit; never that there are too few.
    /// [`SyncError::Count`] for none, or more than `i32::MAX`, or than 500 with leases. [`SyncError::NotConfirmed`]
    /// where replicas confirm.
    ///
    /// # Cancel safety
    /// Dropped at any point it leaves nothing: what it took is given back.
    pub async fn guard(&self, permits: u32) -> Result<SemaphorePermit<K>, SyncError> {
        // Without a limit there are too few until there are enough.
        loop {
            if let Some(permit) = self.acquire(permits).guard().await? {
                return Ok(permit);
            }
        }
    }

    pub(super) async fn inspect(&self) -> Result<Answer, SyncError> {
        self.pool.clone()?.ledger.look(K::SCRIPTS.inspect, &[]).await
    }

    /// Changes how many are free. Whether it was done: `when` says when it is.
    async fn change(&self, by: i64, when: &str) -> Result<bool, SyncError> {
        let args = vec![by.to_string(), when.to_owned()];
        Ok(is_done(&self.pool.clone()?.ledger.change(CHANGE, args, Some(CANCEL)).await?))
    }
}

impl Semaphore {
    /// Takes all permits that are free, and says how many they were. They are not given back by themselves.
    ///
    /// # Errors
    /// [`SyncError`], [`NotConfirmed`](SyncError::NotConfirmed) among them where replicas confirm;
    /// [`QueryError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Dropped at any point it leaves nothing: what it took is given back.
    pub async fn drain_permits(&self) -> Result<u32, SyncError> {
        self.pool.clone()?.drain().await
    }

    /// One attempt: `Busy` when there are not so many, or others of this process wait for theirs. What it takes is not
    /// given back by itself.
    ///
    /// ```
    /// # async fn f(semaphore: lockson::Semaphore) -> Result<(), Box<dyn std::error::Error>> {
    /// if semaphore.try_acquire(2).await?.is_acquired() {
    ///     semaphore.release(2).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`guard`](Semaphore::guard)'s, but [`QueryError::Unreachable`] after three command timeouts. Its cancel
    /// safety is the same.
    pub async fn try_acquire(&self, permits: u32) -> Result<AcquireOutcome, SyncError> {
        self.acquire(permits).wait(Duration::ZERO).await
    }

    /// Gives permits back: as many as it is told, whoever took them. It makes the semaphore if there is none.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s; so is its cancel safety.
    pub async fn release(&self, permits: u32) -> Result<(), SyncError> {
        self.add_permits(permits).await
    }

    /// [`release`](Semaphore::release), unless there is no such semaphore: then it is `false`.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s; so is its cancel safety.
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, SyncError> {
        self.change(number(permits, MOST)?.into(), "exists").await
    }
}

/// An acquisition of permits with options, of a [`Semaphore`](crate::Semaphore) or a
/// [`PermitSemaphore`](crate::PermitSemaphore). Awaited, one of a `Semaphore` says whether they were taken; permits
/// that were taken so stay taken until they are given back by [`release`](crate::Semaphore::release).
///
/// # Errors
/// As [`Semaphore::guard`](crate::Semaphore::guard)'s; [`QueryError::Unreachable`] at the wait limit when the server
/// was silent. Its cancel safety is the same.
#[must_use = "a request does nothing until it, or its `guard` or `ids`, is awaited"]
#[derive(Debug)]
pub struct AcquirePermits<'a, K: PermitKind = Counted> {
    semaphore: &'a Semaphore<K>,
    permits: u32,
    pub(super) request: Request,
}

impl<K: PermitKind> AcquirePermits<'_, K> {
    /// Waits for at most this long, for the server too. Zero is one attempt, which is given three command timeouts.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.request = self.request.wait(limit);
        self
    }

    /// See [`Request::confirm`](crate::Request::confirm).
    pub fn confirm(mut self, replicas: Replicas, within: Duration) -> Self {
        self.request = self.request.confirm(replicas, within);
        self
    }

    /// Ends the request with a guard; `None` when there were too few permits until the limit.
    ///
    /// # Errors
    /// As [`Semaphore::guard`]'s; [`QueryError::Unreachable`] at the wait limit when the server was silent. Its cancel
    /// safety is the same.
    pub async fn guard(self) -> Result<Option<SemaphorePermit<K>>, SyncError> {
        let session = &self.semaphore.session;
        self.grant().await?.map(|grant| SemaphorePermit::of(grant, session)).transpose()
    }

    async fn grant(&self) -> Result<Option<Grant>, SyncError> {
        let (pool, wanted) = self.wanted()?;
        let mut taker = Taker::new(&pool, wanted);
        let (ledger, attempts) = (&pool.ledger, AtomicU32::new(0));
        let acquisition = async {
            let grant = within(ledger, &self.request, &mut taker, |taker| &taker.listener).await;
            attempts.store(taker.listener.attempts(), Ordering::Relaxed);
            grant?.map(Grant::if_worth).transpose()
        };
        let (name, engine) = (&ledger.keys.name, &ledger.engine);
        acquiring(K::NAME, [name, &engine.client_id], &ledger.keys.class, engine.wire.clock, &attempts, acquisition)
            .await
    }

    fn wanted(&self) -> Result<(Arc<Pool>, Wanted), SyncError> {
        let Semaphore { session, pool, .. } = self.semaphore;
        let (pool, count) = (pool.clone()?, number(self.permits, K::SCRIPTS.most)?);
        let lease = K::SCRIPTS.renew.map(|_| self.request.leases(&session.engine)).transpose()?;
        Ok((pool, Wanted { count, lease, confirm: self.request.confirmation(&session.engine) }))
    }
}

impl<'a> IntoFuture for AcquirePermits<'a> {
    type Output = Result<AcquireOutcome, SyncError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(AcquireOutcome::of(self.grant().await?.map(Grant::keep).transpose()?)) }.boxed()
    }
}

/// Permits that were taken, until this is dropped: then they are given back.
///
/// Drop never blocks: the client's janitor gives them back, within a round trip of a usable connection. If the server
/// is silent for longer than the outage limit then, counted permits may be lost, as those of a killed process are;
/// those of a [`PermitSemaphore`](crate::PermitSemaphore) end with their lease at the latest.
///
/// A [`PermitGuard`](crate::PermitGuard) has permits with a lease, which is renewed if none of its own was asked for.
/// They are lost, as a lock's hold is, when the lease runs out by this machine's clock, or the server says that they
/// are gone: [`lost`](crate::PermitGuard::lost) and [`run`](crate::PermitGuard::run) tell at once.
#[must_use = "the permits are given back when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit<K: PermitKind = Counted> {
    pub(super) grant: Grant,
    pub(super) lease: K::Lease,
    /// Keeps the client open.
    pub(super) session: Arc<Session>,
}

impl<K: PermitKind> SemaphorePermit<K> {
    fn of(grant: Grant, session: &Arc<Session>) -> Result<Self, SyncError> {
        Ok(Self { lease: K::lease_of(&grant)?, grant, session: session.clone() })
    }

    /// How many permits.
    pub fn count(&self) -> u32 {
        self.grant.count()
    }

    /// Gives them back, and says so. Of counted permits nothing happens if somebody deleted the semaphore, though it
    /// may have been set again since: they were permits of the one before.
    ///
    /// # Errors
    /// [`SyncError::NotHeld`] when not all of those with a lease were held any more; those that were are given back.
    /// Otherwise they may not have been given back: those with a lease end with it, others are nobody's now.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out even if the future is dropped.
    pub async fn release(self) -> Result<(), SyncError> {
        let (name, is_counted) = (self.grant.ledger().name(), self.grant.leased().is_none());
        match self.grant.give_back().await? {
            all_given if all_given || is_counted => Ok(()),
            _ => Err(SyncError::NotHeld { name }),
        }
    }

    /// [`release`](Self::release), but it waits for the server at most this long. Zero sends it and does not wait.
    ///
    /// # Errors
    /// [`SyncError::OnItsWay`] at the limit: the client goes on as for a guard that is dropped. Else as
    /// [`release`](Self::release)'s. Its cancel safety is the same.
    pub async fn release_within(self, limit: Duration) -> Result<(), SyncError> {
        crate::error::within(limit, SyncError::OnItsWay { name: self.grant.ledger().name(), limit }, self.release())
            .await
    }
}

impl<K: PermitKind> fmt::Debug for SemaphorePermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit").field("count", &self.count()).finish_non_exhaustive()
    }
}
