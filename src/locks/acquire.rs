//! The one way from a request to a held lock: attempt, wait, hold.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use futures::future::FutureExt;
use tracing::field::{debug, display, Empty};
use tracing::Instrument;

use crate::engine::Engine;
use crate::error::{LockError, QueryError};
use crate::hold::attempt::Wish;
use crate::hold::contend::{Contender, Queuer};
use crate::hold::ticket::Ticket;
use crate::metrics::{Acquiring, Class};
use crate::waiting::request::Request;
use crate::waiting::wait::{before, contend, Tried};

/// Runs an acquisition in a span that says of it what it is told, and the attempts that it counts. (No `async fn`: that
/// would have room for the acquisition twice.)
pub(crate) fn in_span<'a, T>(
    kind: &'static str,
    [name, owner]: [&'a str; 2],
    class: &'a Class,
    engine: &'a Engine,
    attempts: &'a AtomicU32,
    acquisition: impl Future<Output = Result<Option<T>, LockError>> + 'a,
) -> impl Future<Output = Result<Option<T>, LockError>> + 'a {
    let span = tracing::debug_span!(
        target: "lockson", "acquire", kind, name, owner, attempts = Empty, waited = Empty, outcome = Empty
    );
    let acquiring = Acquiring::begin();
    let acquisition = acquisition.inspect(move |outcome| acquiring.end(kind, class, word(outcome)));
    if span.is_disabled() {
        return acquisition.left_future();
    }
    let began = engine.now();
    let told = acquisition.instrument(span.clone()).inspect(move |outcome| {
        span.record("attempts", attempts.load(Ordering::Relaxed));
        span.record("waited", debug(engine.now().since(began)));
        match outcome {
            Ok(Some(_)) => span.record("outcome", "held"),
            Ok(None) => span.record("outcome", "busy"),
            Err(error) => span.record("outcome", display(error)),
        };
    });
    told.right_future()
}

/// As a label of metrics.
fn word<T>(outcome: &Result<Option<T>, LockError>) -> &'static str {
    match outcome {
        Ok(Some(_)) => "held",
        Ok(None) => "busy",
        Err(error) if error.is_unreachable() => "unreachable",
        Err(_) => "refused",
    }
}

/// The one path. Without a hold within the request's limit it is `None`.
pub(crate) async fn acquire(
    wish: Arc<Wish>,
    request: &Request,
    attempts: &AtomicU32,
) -> Result<Option<Ticket>, LockError> {
    let (engine, line) = (wish.engine.clone(), wish.entry.line.clone());
    let deadline = request.deadline(engine.look_limit()).map_err(LockError::Wait)?;
    let (tried, unheard) = if request.is_one_attempt() {
        attempts.store(1, Ordering::Relaxed);
        (before(deadline, wish.attempt(None)).await.transpose(), true)
    } else if let Some(queue) = wish.kind.queue {
        let mut queuer = Queuer::new(wish, queue);
        // Boxed, as most locks are not fair.
        let tried = contend(&mut queuer, false, deadline).boxed().await;
        attempts.store(queuer.listener.attempts(), Ordering::Relaxed);
        (tried, queuer.listener.is_unheard())
    } else {
        let mut contender = Contender::new(wish);
        let tried = contend(&mut contender, false, deadline).await;
        attempts.store(contender.listener.attempts(), Ordering::Relaxed);
        (tried, contender.listener.is_unheard())
    };
    match tried? {
        // It may have been handed over a while ago.
        Some(Tried::Won(ticket)) => ticket.if_worth().map(Some),
        Some(Tried::Busy(_)) => Ok(None),
        // Busy and unreachable are told apart by whether the server answers.
        None if unheard => Err(QueryError::late(&line.keys.name).into()),
        None => Ok(None),
    }
}
