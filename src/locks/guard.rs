//! The guard of a lock: the lock is held until it is dropped.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::base::owner::Owner;
use crate::compose::held::Held;
use crate::error::{in_runtime, within, HoldError, Lost, UnlockError};
use crate::lease::validity::{while_held, HoldState};
use crate::spans::holding;

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
    pub(crate) held: Held,
}

/// The types of guard: [`Guard`], and those that know fencing tokens.
pub trait Guards: Sized + Send + Sync + 'static {
    /// Nobody outside has what this needs.
    fn of(held: Held) -> Self;
}

impl Guards for Guard {
    fn of(held: Held) -> Self {
        held.complete();
        Self { held }
    }
}

impl Guard {
    /// The name of the lock, without the client's prefix; of a multi-lock all its members'.
    pub fn name(&self) -> &str {
        self.held.name_of_whole().unwrap_or(&self.held.ticket().hold.entry.line.keys.name)
    }

    /// The owner that the lock was taken for.
    pub fn owner(&self) -> Owner {
        self.held.ticket().owner()
    }

    /// What is known of the hold at this instant: of a multi-lock the worst of its members', of a red lock what most of
    /// its servers make of it.
    pub fn state(&self) -> HoldState {
        self.held.standing().state()
    }

    /// Whether nobody else can have the lock at this instant. A process may be paused between this answer and what it
    /// does next: docs/GUARANTEES.md says what helps.
    pub fn is_valid(&self) -> bool {
        self.held.lost().is_none()
    }

    /// How long the hold is valid from now on if it is not renewed; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.held.standing().left
    }

    /// Resolves when the hold is lost, and before the server would give the lock to another.
    ///
    /// ```
    /// # async fn f(guard: lockson::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn charge() {}
    /// tokio::select! {
    ///     lost = guard.lost() => println!("{lost}"),
    ///     () = charge() => {}
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Safe. The future is `'static`: it may be spawned, and does not keep the lock.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        self.held.until_lost()
    }

    /// Runs work that must not outlive the hold: it is dropped before the deadline of the hold, which renewals move.
    /// Every poll judges the deadline first.
    ///
    /// ```
    /// # async fn f(guard: lockson::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn charge() {}
    /// if let Err(lost) = guard.run(charge()).await {
    ///     println!("stopped half-way: {lost}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Lost`]: the work was stopped, or ended too late to be sure that it was protected.
    ///
    /// # Cancel safety
    /// As the work's. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        let entry = &self.held.ticket().hold.entry;
        let work = while_held(|| self.held.lost(), self.lost(), work);
        holding([&entry.line.keys.name, &entry.field], work).await
    }

    /// Asks the server whether the hold is still there, or all servers that it is on. One script each, which writes
    /// nothing; a hold by a turn without a script gets its owner's name on the server by another before it.
    ///
    /// # Errors
    /// [`HoldError::Lost`] when it is lost; anything else says nothing about the hold:
    /// [`QueryError::Unreachable`](crate::QueryError::Unreachable) after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn verify(&self) -> Result<(), HoldError> {
        self.held.extend(None).await
    }

    /// Sets the lease anew, exactly: the hold now ends `lease` (sent as milliseconds) from the send instant of this
    /// call. A watched hold is renewed on as before, and renewals only lengthen.
    ///
    /// ```
    /// # async fn f(guard: lockson::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// guard.set_lease(Duration::from_secs(120)).await?; // the next step takes longer
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`HoldError::Lease`] before anything is sent; [`HoldError::Lost`]; [`HoldError::NotConfirmed`] where replicas
    /// confirm; or the server did not answer for three command timeouts, and then the old lease is the one to count on
    /// if it is the shorter.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lease may or may not have been set.
    pub async fn set_lease(&self, lease: Duration) -> Result<(), HoldError> {
        self.held.check_lease(lease)?;
        self.held.extend(Some(lease)).await
    }

    /// Gives the hold back and says whether that happened. A multi-lock gives back all its members, the last one first,
    /// whatever becomes of the others; a red lock is given back as soon as most of its servers say so.
    ///
    /// ```
    /// # async fn f(guard: lockson::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Err(error) = guard.unlock().await {
    ///     println!("{error}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`UnlockError::NotHeld`] when the hold was lost before; [`UnlockError::Unconfirmed`] when it is gone, by whom is
    /// not known, as the answer to an earlier copy of this call was lost;
    /// [`Unreachable`](crate::QueryError::Unreachable) when the server was silent for the outage limit; the other
    /// variants say whether the server may still have it. Of several members each error counts:
    /// [`UnlockError::Several`]. None of them says that the work was unprotected: [`run`](Self::run) does. So an error
    /// here is to be logged, not a reason to fail what is done.
    ///
    /// # Cancel safety
    /// Once polled, the unlock is carried out even if the future is dropped.
    pub async fn unlock(self) -> Result<(), UnlockError> {
        in_runtime()?;
        let (whole, owner, members) = (self.held.name_of_whole().cloned(), self.owner(), self.held.size());
        let errors = self.held.release().await;
        UnlockError::of(errors, members, whole.as_ref().map(|name| (&**name, &owner)))
    }

    /// [`unlock`](Self::unlock), but it waits for the server at most this long: for work that is done, and whose caller
    /// must not stand still in an outage. Zero sends it and does not wait.
    ///
    /// # Errors
    /// [`UnlockError::OnItsWay`] at the limit: the client goes on as for a guard that is dropped. Else as
    /// [`unlock`](Self::unlock)'s. Its cancel safety is the same.
    pub async fn unlock_within(self, limit: Duration) -> Result<(), UnlockError> {
        within(limit, UnlockError::OnItsWay { name: self.name().to_owned(), limit }, self.unlock()).await
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
