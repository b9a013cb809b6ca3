//! The one way from a request to a held lock: attempt, wait, hold.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use futures::future::FutureExt;

use crate::error::{LockError, QueryError};
use crate::hold::attempt::Wish;
use crate::hold::contend::{Contender, Queuer};
use crate::hold::ticket::Ticket;
use crate::waiting::request::Request;
use crate::waiting::wait::{before, wait, Tried};

/// The one path. Without a hold within the request's limit it is `None`.
pub(crate) async fn acquire(
    wish: Arc<Wish>,
    request: &Request,
    attempts: &AtomicU32,
) -> Result<Option<Ticket>, LockError> {
    let line = wish.entry.line.clone();
    let deadline = request.deadline(wish.engine.look_limit()).map_err(LockError::Wait)?;
    let (tried, unheard) = if request.is_one_attempt() {
        attempts.store(1, Ordering::Relaxed);
        // Boxed, as most wait.
        (before(deadline, wish.attempt(None)).boxed().await.transpose()?, true)
    } else if let Some(queue) = wish.kind.queue {
        let mut queuer = Queuer::new(wish, queue);
        // Boxed, as most locks are not fair.
        let won = before(deadline, wait(&mut queuer)).boxed().await.transpose();
        attempts.store(queuer.listener.attempts(), Ordering::Relaxed);
        (won?.map(Tried::Won), queuer.listener.is_unheard())
    } else {
        let mut contender = Contender::new(wish);
        let won = before(deadline, wait(&mut contender)).await.transpose();
        attempts.store(contender.listener.attempts(), Ordering::Relaxed);
        (won?.map(Tried::Won), contender.listener.is_unheard())
    };
    match tried {
        // It may have been handed over a while ago.
        Some(Tried::Won(ticket)) => ticket.if_worth().map(Some),
        Some(Tried::Busy(_)) => Ok(None),
        // Busy and unreachable are told apart by whether the server answers.
        None if unheard => Err(QueryError::late(&line.keys.name).into()),
        None => Ok(None),
    }
}
