//! What the holder of a lock holds.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::{ready, FutureExt};

use crate::clock::millis;
use crate::error::{HoldError, Lost, LostBy, UnlockError};
use crate::hold::{Hold, Share, Slot};
use crate::kind::Table;
use crate::lease::{Lease, State};
use crate::owner::Owner;
use crate::release::release;
use crate::script::{Answer, Status};
use crate::session::{Core, Session};

/// One acquisition that nobody has taken responsibility for yet: dropped, it gives itself back.
pub(crate) struct Ticket {
    pub(crate) core: Arc<Core>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) hold: Arc<Hold>,
    watched: bool,
    armed: bool,
}

impl Ticket {
    /// The server confirmed it.
    pub(crate) fn enter(
        core: &Arc<Core>,
        kind: &'static Table,
        slot: &Arc<Slot>,
        mark: &Arc<str>,
        answer: &Answer,
        lease: Lease,
    ) -> Self {
        let hold = slot.enter(mark, kind, core.renewal(kind.renew), answer.sent, lease);
        if let Some(token) = answer.text(0).filter(|_| kind.fenced).and_then(|token| token.parse().ok()) {
            slot.line.saw_token(token);
            hold.set_token(token);
        }
        core.watchdog.watch(&hold.leased, answer.sent);
        let watched = matches!(lease, Lease::Watched { .. });
        Self { core: core.clone(), slot: slot.clone(), hold, watched, armed: true }
    }

    /// The server says that it is gone.
    pub(crate) fn refused(&self) {
        self.core.watchdog.forget(&self.hold);
        if self.hold.end(LostBy::Server) {
            crate::watchdog::report_lost(&self.hold, LostBy::Server);
        }
        self.slot.line.ended(self.hold.id);
    }

    /// It becomes a bare hold, for `unlock()` to give back.
    pub(crate) fn keep_bare(mut self) {
        self.armed = false;
        self.slot.keep_bare(&self.hold, self.watched);
    }

    /// From here on the owner's next acquisition comes after this release, whoever carries it out.
    fn release(&mut self) -> impl Future<Output = Result<(), UnlockError>> + Send + 'static {
        self.armed = false;
        self.slot.leaving(self.hold.id);
        let mut gate = self.slot.gate.clone().lock_owned().boxed();
        // A place in the gate's line, at once: without it a loop that takes the lock and drops the guard would enter
        // its own hold again and again, and nobody else would get it.
        let first = gate.poll_unpin(&mut Context::from_waker(Waker::noop()));
        let gate = match first {
            Poll::Ready(gate) => ready(gate).left_future(),
            Poll::Pending => gate.right_future(),
        };
        let share = Share::Guard { hold: self.hold.id, watched: self.watched };
        release(self.core.clone(), self.slot.clone(), share, gate)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.armed {
            let work = self.release();
            self.core.janitor.finish(async move {
                if let Err(error) = work.await {
                    tracing::debug!(target: "lockson", %error, "a dropped guard could not give its hold back");
                }
            });
        }
    }
}

/// A lock that is held, until this is dropped.
///
/// # Dropping
/// Drop never blocks: it asks the client's janitor to release, which happens within a round trip of a usable
/// connection. [`unlock`](Guard::unlock) waits for it and says whether it happened. What is dropped while its runtime
/// ends lives until its lease ends: programs that exit call `unlock` or [`Locks::shutdown`](crate::Locks::shutdown).
///
/// # Losing it
/// A hold is lost when its lease, counted on this machine's clock from the instant that the last confirmed renewal was
/// sent, runs out, or when the server says that it is gone. It never comes back. [`lost`](Guard::lost) and
/// [`run`](Guard::run) tell at once; [`is_valid`](Guard::is_valid) is judged by the clock on every call. A guard of a
/// lost hold gives nothing back, not even when the same owner has the lock again.
#[must_use = "the lock is released when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct Guard {
    ticket: Ticket,
    /// Keeps the client open.
    _session: Arc<Session>,
}

impl Guard {
    pub(crate) fn new(ticket: Ticket, session: Arc<Session>) -> Self {
        Self { ticket, _session: session }
    }

    pub(crate) fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The name of the lock, without the client's prefix.
    pub fn name(&self) -> &str {
        &self.ticket.slot.line.keys.name
    }

    /// The fencing token of the hold; 0 where its kind has none.
    pub(crate) fn token(&self) -> u64 {
        self.ticket.hold.token()
    }

    /// The owner that the lock was taken for.
    pub fn owner(&self) -> Owner {
        self.ticket.core.owner_of(&self.ticket.slot.field)
    }

    /// What is known of the hold at this instant.
    pub fn state(&self) -> State {
        self.ticket.hold.state(self.ticket.core.now())
    }

    /// Whether nobody else can have the lock at this instant. A process may be paused between this answer and what it
    /// does next: docs/GUARANTEES.md says what helps.
    pub fn is_valid(&self) -> bool {
        self.state() != State::Lost
    }

    /// How long the hold is valid from now on if it is not renewed; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        let now = self.ticket.core.now();
        match self.ticket.hold.lost(now) {
            None => self.ticket.hold.valid_until().since(now),
            Some(_) => Duration::ZERO,
        }
    }

    /// Resolves when the hold is lost, and before the server would give the lock to another.
    ///
    /// # Cancel safety
    /// Safe. The future is `'static`: it may be spawned, and does not keep the lock.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        self.ticket.hold.leased.clone().until_lost(self.ticket.core.wire.clock)
    }

    /// Runs work that must not outlive the hold: it is dropped before the deadline of the hold, which renewals move.
    /// Every poll judges the deadline first.
    ///
    /// # Errors
    /// [`Lost`]: the work was stopped, or ended too late to be sure that it was protected.
    ///
    /// # Cancel safety
    /// As the work's. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.ticket.hold.leased.run(self.ticket.core.wire.clock, work).await
    }

    /// Asks the server whether the hold is still there. One script, which writes nothing.
    ///
    /// # Errors
    /// [`HoldError::Lost`] when it is lost; anything else says nothing about the hold.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn verify(&self) -> Result<(), HoldError> {
        self.extend_by(None).await
    }

    /// Sets the lease anew, exactly: the hold now ends `lease` (sent as milliseconds) from the send instant of this
    /// call. A watched hold is renewed on as before, and renewals only lengthen.
    ///
    /// # Errors
    /// [`HoldError::Lease`] before anything is sent; [`HoldError::Lost`]; or the server did not answer, and then the
    /// old lease is the one to count on if it is the shorter.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lease may or may not have been set.
    pub async fn extend(&self, lease: Duration) -> Result<(), HoldError> {
        let lease = self.ticket.core.check_lease(lease)?;
        self.extend_by(Some(lease)).await
    }

    async fn extend_by(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        let Ticket { core, slot, hold, .. } = &self.ticket;
        let gate = slot.gate.clone().lock_owned().await;
        if let Some(why) = hold.lost(core.now()) {
            return Err(Lost { why }.into());
        }
        if let Some(lease) = lease {
            // A shorter lease counts from now even if its answer is lost.
            hold.shorten(core.now(), lease);
        }
        let ms = lease.map_or(0, millis).to_string();
        let name = slot.line.keys.name.to_string();
        let (to, of, mark, script) = (core.clone(), slot.clone(), hold.mark.clone(), hold.kind.extend);
        // Carried: an operation whose caller went away keeps the entry to itself until it is settled.
        let work = core.janitor.carry(|abandoned| async move {
            let patience = to.patience().unless(abandoned);
            let settled = to.wire.settle(script, &of.line.keys.of(script.keys), &[&mark, &ms], &patience).await;
            (settled, gate)
        });
        let (settled, _gate) = work.await;
        let answer = settled.result.map_err(|fault| crate::lock::query_error(&name, fault))?;
        match (&answer.status, lease) {
            (Status::Done, Some(lease)) => {
                hold.set_lease(answer.sent, lease, core.now());
                core.watchdog.watch(&hold.leased, answer.sent);
            }
            (Status::Done, None) => {}
            _ => self.ticket.refused(),
        }
        match hold.lost(core.now()) {
            None => Ok(()),
            Some(why) => Err(Lost { why }.into()),
        }
    }

    /// Gives the hold back and says whether that happened.
    ///
    /// # Errors
    /// [`UnlockError::NotHeld`] when the hold was lost before; [`UnlockError::Unconfirmed`] when it is gone but the
    /// answer to an earlier copy of this call was lost; the other variants say whether the server may still have it.
    ///
    /// # Cancel safety
    /// Once polled, the unlock is carried out even if the future is dropped.
    pub async fn unlock(mut self) -> Result<(), UnlockError> {
        let core = self.ticket.core.clone();
        let work = self.ticket.release();
        core.janitor.carry(|_| work).await
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("owner", &self.owner())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
