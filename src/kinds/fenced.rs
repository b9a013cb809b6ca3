//! The fenced lock (Redisson's `getFencedLock`): every hold has a token that rises. Rule 19 of docs/PROTOCOL.md.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::acquire::Request;
use crate::error::{LockError, RunError, UnlockError};
use crate::guard::Guard;
use crate::keys::Key::{Lock as Key, Token};
use crate::kind::{script, Kind, Owned, Sealed, Table};
use crate::kinds::reentrant::REENTRANT;
use crate::lock::{Acquire, Lock};
use crate::reply::Reply;

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
    /// As [`try_lock`](Lock::try_lock)'s.
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

/// A [`Guard`] with a fencing token: what it guards should refuse a token lower than the highest that it has seen, as a
/// database does by `UPDATE .. WHERE token <= ?` (`examples/fenced_storage.rs`). To look at the guard first and write
/// then is not enough: the process may be paused in between.
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

    /// Runs a Lua script on the lock's server if this owner still holds the lock there. Looking and running are one
    /// call: nobody can take the lock in between. To ask first ([`is_valid`](Guard::is_valid),
    /// [`verify`](Guard::verify)) and write then is not the same: the process may be paused after the answer, for
    /// longer than the lease, and the write lands in somebody else's turn.
    ///
    /// The script is written as for EVAL: it has `KEYS` and `ARGV`, these keys (as they are on the server, without the
    /// client's prefix) and arguments, and besides `token`, the [`token`](Self::token) of this hold as text. Each key
    /// needs the hash tag of the lock's key: for the lock `orders:42` a `{orders:42}` in it, and `{app:orders:42}` if
    /// the client has the key prefix `app:`. The user of the connection needs the rights that the script does.
    ///
    /// ```
    /// # async fn f(guard: lockson::FencedGuard) -> Result<(), lockson::RunError> {
    /// use lockson::Reply;
    /// let script = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])";
    /// let reply = guard.run_if_held(script, &["{orders:42}:state", "{orders:42}:version"], &["paid"]).await?;
    /// assert_eq!(reply, Reply::Int(1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RunError::Lost`], [`RunError::Slot`] and [`RunError::Query`]: it did not run. [`RunError::Script`]: it ran,
    /// and raised an error. [`RunError::Unknown`]: the answer was lost. It was sent once, so it ran once or not at
    /// all. It is not sent later than three command timeouts from the call.
    ///
    /// # Cancel safety
    /// Dropped half-way, it may or may not run.
    pub async fn run_if_held(&self, script: &str, keys: &[&str], args: &[&str]) -> Result<Reply, RunError> {
        let of = &self.guard.ticket().slot.line.keys;
        if let Some(key) = keys.iter().find(|key| !of.share_slot(key)) {
            return Err(RunError::Slot { key: (*key).to_owned(), tag: of.tag().to_owned() });
        }
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let mut all = vec![self.token.to_string(), script.to_owned()];
        all.extend(owned(args));
        let answer = self.guard.ticket().run_once(script!("fenced/run", [Key]), owned(keys), all).await?;
        let name = of.name.to_string();
        let unread = || RunError::Unknown { name, detail: "its value has not the shape of run.lua's".to_owned() };
        Reply::read(answer.items()).ok_or_else(unread)?.map_err(RunError::Script)
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

    /// See [`Guard::unlock_within`].
    ///
    /// # Errors
    /// As [`Guard::unlock_within`]'s.
    ///
    /// # Cancel safety
    /// As [`Guard::unlock`]'s.
    pub async fn unlock_within(self, limit: Duration) -> Result<(), UnlockError> {
        self.guard.unlock_within(limit).await
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
