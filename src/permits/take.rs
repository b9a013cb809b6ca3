//! Taking permits: the request for some, and the wait until there are enough.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{QueryError, SyncError};
use crate::permits::pool::{Grant, PermitWaiter, Pool, Wanted};
use crate::permits::receipt::Ledger;
use crate::waiting::wait::{contend, deadline, wait, Contest, Listener, Tried};
use crate::wire::script::Patience;

/// An acquisition of permits with options, of a [`Semaphore`](crate::Semaphore) or a
/// [`PermitSemaphore`](crate::PermitSemaphore). Awaited, one of a `Semaphore` says whether they were taken; permits
/// that were taken so stay taken until they are given back by [`release`](crate::Semaphore::release).
///
/// # Errors
/// As [`Semaphore::guard`](crate::Semaphore::guard)'s; [`SyncError::Unreachable`] at the wait limit when the server was
/// silent.
///
/// # Cancel safety
/// As [`Semaphore::guard`](crate::Semaphore::guard)'s.
#[must_use = "a request does nothing until it, or its `guard` or `ids`, is awaited"]
#[derive(Debug)]
pub struct Take<'a, S> {
    pub(crate) semaphore: &'a S,
    pub(crate) permits: u32,
    pub(crate) limit: Option<Duration>,
    /// Where permits have leases.
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
}

impl<'a, S> Take<'a, S> {
    pub(crate) fn new(semaphore: &'a S, permits: u32) -> Self {
        Self { semaphore, permits, limit: None, lease: None, max_hold: None }
    }

    /// Waits for at most this long, for the server too. Zero is one attempt, which is given three command timeouts.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// Waits for what is wanted, as long as it takes.
pub(crate) async fn take(pool: &Arc<Pool>, wanted: Wanted) -> Result<Grant, SyncError> {
    pool.engine().ready()?;
    let grant = wait(&mut Taker::new(pool, wanted)).await?;
    grant.if_worth()
}

/// Waits at most so long: `None` when there was not enough until then. Zero is one attempt.
pub(crate) async fn take_within(
    pool: &Arc<Pool>,
    wanted: Wanted,
    limit: Option<Duration>,
) -> Result<Option<Grant>, SyncError> {
    let mut taker = Taker::new(pool, wanted);
    within(&pool.ledger, limit, &mut taker, |taker| &taker.listener).await?.map(Grant::if_worth).transpose()
}

/// Contends at most so long: `None` when it was not won until then. Zero is one attempt.
pub(crate) async fn within<C: Contest<Error = SyncError>>(
    ledger: &Ledger,
    limit: Option<Duration>,
    contest: &mut C,
    listener: impl Fn(&C) -> &Listener,
) -> Result<Option<C::Prize>, SyncError> {
    ledger.engine.ready()?;
    let one_attempt = limit.is_some_and(|limit| limit.is_zero());
    let ends = deadline(if one_attempt { Some(ledger.engine.look_limit()) } else { limit }).map_err(SyncError::Wait)?;
    match contend(contest, one_attempt, ends).await? {
        Some(Tried::Won(prize)) => Ok(Some(prize)),
        Some(Tried::Busy(_)) => Ok(None),
        // Nothing to be had and no server are told apart by whether the server answers.
        None if one_attempt || listener(contest).is_unheard() => Err(QueryError::late(&ledger.keys.name).into()),
        None => Ok(None),
    }
}

/// Who waits for permits.
struct Taker {
    pool: Arc<Pool>,
    waiter: PermitWaiter,
    listener: Listener,
    patience: Patience,
}

impl Taker {
    fn new(pool: &Arc<Pool>, wanted: Wanted) -> Self {
        let listener = Listener::new(pool.engine(), pool.ledger.keys.channel.clone());
        Self { pool: pool.clone(), waiter: pool.row.join(wanted), listener, patience: pool.engine().patience() }
    }
}

impl Contest for Taker {
    type Prize = Grant;
    type Error = SyncError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Option<Grant>, SyncError> {
        self.pool.row.turn(&mut self.waiter, &self.listener, pause).await
    }

    async fn attempt(&mut self) -> Result<Tried<Grant>, SyncError> {
        self.listener.asks();
        let tried = self.pool.attempt(&self.waiter, &self.patience).await;
        self.listener.answered();
        tried
    }

    fn listen(&mut self) -> bool {
        self.pool.row.is_first(&self.waiter) && self.listener.listen()
    }

    fn pause(&mut self) -> Duration {
        let engine = self.pool.engine();
        engine.wire.jittered(engine.settings.wait_cap)
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.pool.row.leave(&self.waiter);
    }
}
