//! The fenced lock (Redisson's `getFencedLock`): every hold has a token that rises. Rule 19 of docs/PROTOCOL.md.

use std::fmt;
use std::ops::Deref;

use crate::acquire::Request;
use crate::error::{LockError, UnlockError};
use crate::guard::Guard;
use crate::keys::Key::{Lock as Key, Token};
use crate::kind::{script, Kind, Owned, Sealed, Table};
use crate::kinds::reentrant::REENTRANT;
use crate::lock::{Acquire, Lock};

static FENCED: Table = Table {
    name: "fenced",
    fenced: true,
    acquire: script!("fenced/acquire", [Key, Token]),
    hand_over: Some(script!("fenced/hand_over", [Key, Token])),
    ..REENTRANT
};

/// The kind of [`Locks::fenced_lock`](crate::Locks::fenced_lock).
#[derive(Debug, Clone, Copy)]
pub enum Fenced {}

impl Sealed for Fenced {
    const TABLE: &'static Table = &FENCED;
}

impl Kind for Fenced {}

impl Owned for Fenced {}

impl Lock<Fenced> {
    /// [`lock`](Lock::lock), and the token of the hold. A re-entry has the token of its hold: with a higher one, the
    /// inner section would fence its own outer one out.
    ///
    /// # Errors
    /// As [`lock`](Lock::lock)'s.
    ///
    /// # Cancel safety
    /// As [`lock`](Lock::lock)'s.
    pub async fn lock_and_get_token(&self) -> Result<u64, LockError> {
        let ticket = self.hold().await?;
        let token = ticket.hold.token();
        ticket.keep_bare();
        Ok(token)
    }

    /// [`guard`](Lock::guard), with the token of the hold.
    ///
    /// # Errors
    /// As [`lock`](Lock::lock)'s.
    ///
    /// # Cancel safety
    /// As [`lock`](Lock::lock)'s.
    pub async fn fenced_guard(&self) -> Result<FencedGuard, LockError> {
        self.guard().await.map(FencedGuard::new)
    }

    /// One attempt: a guard with a token, or `None` when another owner has the lock.
    ///
    /// # Errors
    /// As [`lock`](Lock::lock)'s.
    ///
    /// # Cancel safety
    /// As [`lock`](Lock::lock)'s.
    pub async fn try_fenced_guard(&self) -> Result<Option<FencedGuard>, LockError> {
        Ok(self.guard_with(&Request::once()).await?.map(FencedGuard::new))
    }
}

impl Acquire<'_, Fenced> {
    /// Ends the request with a guard that has a token; `None` when another owner had the lock until the limit.
    ///
    /// # Errors
    /// As [`Lock::lock`]'s.
    ///
    /// # Cancel safety
    /// As [`Lock::lock`]'s.
    pub async fn fenced_guard(self) -> Result<Option<FencedGuard>, LockError> {
        Ok(self.guard().await?.map(FencedGuard::new))
    }
}

/// A [`Guard`] with a fencing token: what it guards should refuse a token lower than the highest that it has seen.
///
/// The token is at least the server's time in microseconds, so that it rises over a loss of the server's data too, as
/// long as the new clock is not behind by more than the outage and no Java client (which counts from 1) takes the lock
/// first.
#[must_use = "the lock is released when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct FencedGuard {
    guard: Guard,
    token: u64,
}

impl FencedGuard {
    fn new(guard: Guard) -> Self {
        let token = guard.token();
        Self { guard, token }
    }

    /// The token of this hold.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// See [`Guard::unlock`].
    ///
    /// # Errors
    /// As [`Guard::unlock`]'s.
    ///
    /// # Cancel safety
    /// As [`Guard::unlock`]'s.
    pub async fn unlock(self) -> Result<(), UnlockError> {
        self.guard.unlock().await
    }
}

impl Deref for FencedGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedGuard").field("guard", &self.guard).field("token", &self.token).finish()
    }
}
