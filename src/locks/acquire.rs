//! The options of an acquisition, and the one way from a request to a held lock: attempt, wait, hold.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use tokio::time::Instant;
use tracing::field::{debug, display, Empty};
use tracing::Instrument;

use crate::base::config::LeaseRange;
use crate::engine::Engine;
use crate::error::{LockError, QueryError};
use crate::hold::attempt::Wish;
use crate::hold::contend::{Contender, Queuer};
use crate::hold::ticket::Ticket;
use crate::lease::validity::Lease;
use crate::waiting::wait::{before, contend, deadline, Tried};

/// The options of an acquisition, for [`RLock::acquire_with`](crate::RLock::acquire_with) and
/// [`RLock::guard_with`](crate::RLock::guard_with). [`Lock::acquire`](crate::Lock::acquire) has the same as methods.
///
/// Without a wait limit it waits as long as it takes; without a lease it has the watchdog's, renewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    one_attempt: bool,
    wait: Option<Duration>,
    /// In place of `wait`, where several share one limit.
    until: Option<Instant>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
}

impl Request {
    /// One attempt, no waiting: [`LockError::Unreachable`] if it is not answered within three command timeouts.
    pub fn one_attempt() -> Self {
        Self { one_attempt: true, ..Self::default() }
    }

    /// Waits for at most this long, for the server too. Zero is one attempt, as [`one_attempt`](Self::one_attempt) is.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.one_attempt = limit.is_zero();
        self.wait = Some(limit);
        self
    }

    /// A lease of its own, not renewed: from 100 ms to `Builder::max_lease`, sent as whole milliseconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Ends the watchdog's renewal this long after the acquisition, in place of `Builder::max_hold`. Of no use with a
    /// lease of its own, which nobody renews. It is this acquisition's alone: while the same owner holds the lock
    /// another time, that one's wish counts for the hold, and this one's guard is valid as long as the hold is.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.max_hold = Some(limit);
        self
    }
}

/// Runs an acquisition in a span that says of it what it is told, and the attempts that it counts. (No `async fn`: that
/// would have room for the acquisition twice.)
pub(crate) fn in_span<'a, T>(
    [kind, name, owner]: [&str; 3],
    engine: &'a Engine,
    attempts: &'a AtomicU32,
    acquisition: impl Future<Output = Result<Option<T>, LockError>> + 'a,
) -> impl Future<Output = Result<Option<T>, LockError>> + 'a {
    let span = tracing::debug_span!(
        target: "lockson", "acquire", kind, name, owner, attempts = Empty, waited = Empty, outcome = Empty
    );
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

/// The one path. Without a hold within the request's limit it is `None`.
pub(crate) async fn acquire(wish: Wish, request: &Request, attempts: &AtomicU32) -> Result<Option<Ticket>, LockError> {
    let (engine, line) = (wish.engine.clone(), wish.entry.line.clone());
    let deadline = request.deadline(engine.look_limit()).map_err(LockError::Wait)?;
    let (tried, unheard) = if request.one_attempt {
        attempts.store(1, Ordering::Relaxed);
        (before(deadline, wish.attempt(None)).await.transpose(), true)
    } else if let Some(queue) = wish.kind.queue {
        let mut queuer = Queuer::new(wish, queue);
        let tried = contend(&mut queuer, false, deadline).await;
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

impl Request {
    /// What one of several is asked for: to be renewed for as long as the others take, until the same deadline.
    pub(crate) fn of_member(&self, deadline: Option<Instant>) -> Self {
        Self { one_attempt: self.one_attempt, until: deadline, wait: None, lease: None, max_hold: Some(Duration::MAX) }
    }

    /// When the wait ends, or one attempt, which is given `look`; the limit itself if that is beyond the clock.
    pub(crate) fn deadline(&self, look: Duration) -> Result<Option<Instant>, Duration> {
        if self.until.is_some() {
            return Ok(self.until);
        }
        deadline(if self.one_attempt { Some(look) } else { self.wait })
    }

    pub(crate) fn is_one_attempt(&self) -> bool {
        self.one_attempt
    }

    /// The lease asked for, or the watchdog's.
    pub(crate) fn leases(&self, engine: &Engine) -> Result<Lease, LeaseRange> {
        engine.lease(self.lease, self.max_hold)
    }
}
