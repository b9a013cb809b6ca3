//! The semaphore (Redisson's `getSemaphore`): permits that are counted. Rule 22 of docs/PROTOCOL.md.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::backend::Script;
use crate::base::keys::Key::{Life, Lock as Free};
use crate::base::keys::NameError;
use crate::engine::Session;
use crate::error::SyncError;
use crate::permits::pool::{Grant, Pool, Scripts, Wanted, CHANGE};
use crate::permits::receipt::{number, CANCEL, MOST};
use crate::permits::take::{take, take_within, Take};
use crate::waiting::wait::AcquireOutcome;
use crate::wire::table::script;

static INSPECT: &Script = script!("semaphore/inspect" after "once", [Free]);

pub(crate) static COUNTED: Scripts = Scripts {
    acquire: script!("semaphore/acquire" after "once", [Free, Life]),
    cancel: CANCEL,
    give_back: CHANGE,
    renew: None,
};

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
pub struct Semaphore {
    session: Arc<Session>,
    name: Arc<str>,
    pool: Result<Arc<Pool>, NameError>,
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Semaphore {
    pub(crate) fn new(session: Arc<Session>, name: &str, pool: Result<Arc<Pool>, NameError>) -> Self {
        Self { session, name: name.into(), pool }
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
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    ///
    /// # Cancel safety
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    pub async fn add_permits(&self, permits: u32) -> Result<(), SyncError> {
        self.change(number(permits, MOST)?.into(), "always").await.map(drop)
    }

    /// Takes permits away, whether they are free or not: what is free may go below zero, and then as many have to be
    /// given back before anybody gets one.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    ///
    /// # Cancel safety
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    pub async fn reduce_permits(&self, permits: u32) -> Result<(), SyncError> {
        self.change(-i64::from(number(permits, MOST)?), "always").await.map(drop)
    }

    /// How many permits are free; below zero after [`reduce_permits`](Semaphore::reduce_permits), 0 when nobody has set
    /// it. One script, which writes nothing.
    ///
    /// # Errors
    /// [`SyncError`]; [`SyncError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn available_permits(&self) -> Result<i64, SyncError> {
        let answer = self.pool.clone()?.ledger.look(INSPECT, Vec::new()).await?;
        Ok(answer.int(0).unwrap_or_default())
    }

    /// Takes all permits that are free, and says how many they were. They are not given back by themselves.
    ///
    /// # Errors
    /// [`SyncError`]; [`SyncError::Unreachable`] after three command timeouts.
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
    /// As [`guard`](Semaphore::guard)'s, but [`SyncError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// As [`guard`](Semaphore::guard)'s.
    pub async fn try_acquire(&self, permits: u32) -> Result<AcquireOutcome, SyncError> {
        self.acquire(permits).wait(Duration::ZERO).await
    }

    /// Begins a request with a wait limit, or a guard at its end. Awaited, it says whether the permits were taken; they
    /// are then not given back by themselves, but by [`release`](Semaphore::release).
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
    pub fn acquire(&self, permits: u32) -> Take<'_, Self> {
        Take::new(self, permits)
    }

    /// Waits for this many permits, all at once: a guard that gives them back when it is dropped.
    ///
    /// ```
    /// # async fn f(semaphore: lockson::Semaphore) -> Result<(), Box<dyn std::error::Error>> {
    /// let permits = semaphore.guard(2).await?;
    /// permits.release().await?; // or drop it
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SyncError::Unreachable`] when the server was silent for the outage limit; never that there are too few.
    ///
    /// # Cancel safety
    /// Dropped at any point it leaves nothing: what it took is given back.
    pub async fn guard(&self, permits: u32) -> Result<SemaphorePermit, SyncError> {
        let grant = take(&self.pool.clone()?, wanted(permits)?).await?;
        Ok(SemaphorePermit { grant, _session: self.session.clone() })
    }

    /// Gives permits back: as many as it is told, whoever took them. It makes the semaphore if there is none.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    ///
    /// # Cancel safety
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    pub async fn release(&self, permits: u32) -> Result<(), SyncError> {
        self.add_permits(permits).await
    }

    /// [`release`](Semaphore::release), unless there is no such semaphore: then it is `false`.
    ///
    /// # Errors
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    ///
    /// # Cancel safety
    /// As [`try_set_permits`](Semaphore::try_set_permits)'s.
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, SyncError> {
        self.change(number(permits, MOST)?.into(), "exists").await
    }

    async fn change(&self, by: i64, when: &str) -> Result<bool, SyncError> {
        self.pool.clone()?.change(by, when).await
    }
}

fn wanted(permits: u32) -> Result<Wanted, SyncError> {
    Ok(Wanted { count: number(permits, MOST)?, lease: None })
}

impl Take<'_, Semaphore> {
    /// Ends the request with a guard; `None` when there were too few permits until the limit.
    ///
    /// # Errors
    /// As [`Semaphore::guard`]'s; [`SyncError::Unreachable`] at the wait limit when the server was silent.
    ///
    /// # Cancel safety
    /// As [`Semaphore::guard`]'s.
    pub async fn guard(self) -> Result<Option<SemaphorePermit>, SyncError> {
        let session = self.semaphore.session.clone();
        Ok(self.grant().await?.map(|grant| SemaphorePermit { grant, _session: session }))
    }

    async fn grant(self) -> Result<Option<Grant>, SyncError> {
        let pool = self.semaphore.pool.clone()?;
        take_within(&pool, wanted(self.permits)?, self.limit).await
    }
}

impl<'a> IntoFuture for Take<'a, Semaphore> {
    type Output = Result<AcquireOutcome, SyncError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(AcquireOutcome::of(self.grant().await?.map(Grant::keep))) }.boxed()
    }
}

/// Permits that were taken, until this is dropped.
///
/// Drop never blocks: the client's janitor gives them back, within a round trip of a usable connection. If the server
/// is silent for longer than the outage limit then, they may be lost, as those of a killed process are.
#[must_use = "the permits are given back when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit {
    grant: Grant,
    /// Keeps the client open.
    _session: Arc<Session>,
}

impl SemaphorePermit {
    /// How many permits.
    pub fn count(&self) -> u32 {
        self.grant.count()
    }

    /// Gives them back, and says so. Nothing happens if somebody deleted the semaphore, though it may have been set
    /// again since: they were permits of the one before.
    ///
    /// # Errors
    /// [`SyncError`]: the permits may not have been given back, and are nobody's now.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out even if the future is dropped.
    pub async fn release(self) -> Result<(), SyncError> {
        self.grant.give_back().await.map(drop)
    }

    /// [`release`](Self::release), but it waits for the server at most this long. Zero sends it and does not wait.
    ///
    /// # Errors
    /// [`SyncError::OnItsWay`] at the limit: the client goes on as for a guard that is dropped. Else as
    /// [`release`](Self::release)'s.
    ///
    /// # Cancel safety
    /// As [`release`](Self::release)'s.
    pub async fn release_within(self, limit: Duration) -> Result<(), SyncError> {
        SyncError::within(limit, self.grant.ledger().name(), self.release()).await
    }
}

impl fmt::Debug for SemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit").field("count", &self.count()).finish_non_exhaustive()
    }
}
