//! Waiting for permits, or for a latch: until there are enough, or a limit.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{QueryError, SyncError};
use crate::permits::pool::{Grant, PermitWaiter, Pool, Wanted};
use crate::permits::receipt::Ledger;
use crate::waiting::request::Request;
use crate::waiting::wait::{before, wait, Contest, Listener, Tried};
use crate::wire::script::Patience;

/// Contends as long as the request says: `None` when it was not won until then.
pub(crate) async fn within<C: Contest<Error = SyncError>>(
    ledger: &Ledger,
    request: &Request,
    contest: &mut C,
    listener: impl Fn(&C) -> &Listener,
) -> Result<Option<C::Prize>, SyncError> {
    ledger.engine.ready()?;
    let one_attempt = request.is_one_attempt();
    let deadline = request.deadline(ledger.engine.look_limit()).map_err(SyncError::Wait)?;
    let tried = match one_attempt {
        true => before(deadline, contest.attempt()).await.transpose()?,
        false => before(deadline, wait(contest)).await.transpose()?.map(Tried::Won),
    };
    match tried {
        Some(Tried::Won(prize)) => Ok(Some(prize)),
        Some(Tried::Busy(_)) => Ok(None),
        // Nothing to be had and no server are told apart by whether the server answers.
        None if one_attempt || listener(contest).is_unheard() => Err(QueryError::late(&ledger.keys.name).into()),
        None => Ok(None),
    }
}

/// Who waits for permits.
pub(crate) struct Taker {
    pool: Arc<Pool>,
    waiter: PermitWaiter,
    pub(crate) listener: Listener,
    patience: Patience,
}

impl Taker {
    pub(crate) fn new(pool: &Arc<Pool>, wanted: Wanted) -> Self {
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
