//! What an acquisition is asked with: how long it waits, and for what lease.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::config::{Confirm, InvalidLease, Replicas};
use crate::engine::Engine;
use crate::lease::validity::Lease;
use crate::waiting::wait::deadline;

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
    confirm: Option<Confirm>,
}

impl Request {
    /// The default.
    pub(crate) const UNLIMITED: &'static Self =
        &Self { one_attempt: false, wait: None, until: None, lease: None, max_hold: None, confirm: None };

    /// One attempt, no waiting: [`QueryError::Unreachable`](crate::QueryError::Unreachable) if it is not answered
    /// within three command timeouts.
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

    /// Counts only when so many replicas have it, in place of [`Builder::confirm`](crate::Builder::confirm), which says
    /// what that is; [`AtLeast(0)`](Replicas::AtLeast) asks none of them.
    pub fn confirm(mut self, replicas: Replicas, within: Duration) -> Self {
        self.confirm = Some(Confirm::new(replicas, within));
        self
    }

    /// What one of several is asked for: to be renewed for as long as the others take, until the same deadline.
    pub(crate) fn of_member(&self, deadline: Option<Instant>) -> Self {
        Self { until: deadline, wait: None, lease: None, max_hold: Some(Duration::MAX), ..self.clone() }
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

    /// By whom it has to be confirmed: as it was asked for, or as the client was told.
    pub(crate) fn confirmation(&self, engine: &Engine) -> Option<Confirm> {
        self.confirm.or(engine.settings.confirm).and_then(Confirm::if_any)
    }

    /// The lease asked for, or the watchdog's.
    pub(crate) fn leases(&self, engine: &Engine) -> Result<Lease, InvalidLease> {
        engine.lease(self.lease, self.max_hold)
    }
}
