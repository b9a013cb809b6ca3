//! The verbs that every lock has, for code that takes any.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::base::config::Replicas;
use crate::base::owner::Owner;
use crate::compose::held::Held;
use crate::error::{within, LockError, QueryError, UnlockError};
use crate::hold::attempt::Wish;
use crate::lease::validity::Lease;
use crate::locks::guard::{Guard, Guards};
use crate::waiting::request::Request;
use crate::waiting::wait::AcquireOutcome;

/// The verbs that every lock has. Sealed: lockson's own locks implement it.
///
/// Plain use needs no import, as [`Lock`](crate::Lock) has the same verbs; this is for code that takes any lock, as
/// `Arc<dyn RLock>`. Errors and cancel safety are those of [`Lock`](crate::Lock)'s verbs.
///
/// ```
/// # async fn f(lock: std::sync::Arc<dyn lockson::RLock>) -> Result<(), Box<dyn std::error::Error>> {
/// use lockson::{RLock, Request};
/// let request = Request::default().wait(std::time::Duration::from_secs(5));
/// if let Some(guard) = lock.guard_with(request).await? {
///     guard.unlock().await?;
/// }
/// # Ok(()) }
/// ```
#[async_trait]
pub trait RLock: sealed::Sealed + fmt::Debug + Send + Sync {
    /// The name, without the client's prefix.
    fn name(&self) -> &str;

    /// See [`Lock::lock`](crate::Lock::lock).
    async fn lock(&self) -> Result<(), LockError> {
        self.take_without_limit().await.map(|held| held.keep_bare())
    }

    /// See [`Lock::try_lock`](crate::Lock::try_lock).
    async fn try_lock(&self) -> Result<AcquireOutcome, LockError> {
        self.acquire_with(Request::one_attempt()).await
    }

    /// See [`Lock::acquire`](crate::Lock::acquire).
    async fn acquire_with(&self, request: Request) -> Result<AcquireOutcome, LockError> {
        Ok(AcquireOutcome::of(self.take(&request).await?.map(|held| held.keep_bare())))
    }

    /// See [`Lock::guard`](crate::Lock::guard).
    async fn guard(&self) -> Result<Guard, LockError> {
        self.take_without_limit().await.map(Guard::of)
    }

    /// See [`Acquire::guard`].
    async fn guard_with(&self, request: Request) -> Result<Option<Guard>, LockError> {
        Ok(self.take(&request).await?.map(Guard::of))
    }

    /// See [`Lock::unlock`](crate::Lock::unlock).
    async fn unlock(&self) -> Result<(), UnlockError>;

    /// See [`Lock::unlock_within`](crate::Lock::unlock_within).
    async fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
        within(limit, UnlockError::OnItsWay { name: self.name().to_owned(), limit }, self.unlock()).await
    }

    /// See [`Lock::is_held`](crate::Lock::is_held).
    async fn is_held(&self) -> Result<bool, QueryError>;

    /// See [`Lock::owned_by`](crate::Lock::owned_by).
    fn owned_by(&self, owner: &Owner) -> Arc<dyn RLock>;
}

/// A lock that is taken as one: on one server, or by the votes of several.
pub trait Member: RLock {
    /// The lease that a request has here. Nothing is sent.
    fn lease(&self, request: &Request) -> Result<Lease, LockError>;

    /// What is asked for, where one server has it.
    fn wish(&self, _request: &Request) -> Result<Option<Wish>, LockError> {
        Ok(None)
    }
}

/// One of those that a lock is made of.
pub type Leaf = crate::compose::members::Leaf<dyn Member>;

pub(crate) mod sealed {
    use async_trait::async_trait;

    use super::{Held, Leaf, LockError, Request};
    use crate::error::QueryError;

    #[async_trait]
    pub trait Sealed {
        /// Takes it. `None`: it was busy until the request's limit.
        async fn take(&self, request: &Request) -> Result<Option<Held>, LockError>;

        /// Takes it, however long that takes.
        async fn take_without_limit(&self) -> Result<Held, LockError>
        where
            Self: Sync,
        {
            loop {
                if let Some(held) = self.take(&Request::default()).await? {
                    return Ok(held);
                }
            }
        }

        /// Adds the locks that it is made of, for whoever is the owner now.
        fn leaves(&self, into: &mut Vec<Leaf>) -> Result<(), QueryError>;
    }
}

/// An acquisition with options, of `acquire()`. Awaited, it says whether the lock was acquired: of a multi-lock all its
/// members, of a red lock most of its servers. [`guard`](Self::guard) ends it with a guard in place of that.
///
/// # Errors
/// As the lock's `lock()`'s, and before anything is sent [`LockError::Lease`] and [`LockError::Wait`];
/// [`QueryError::Unreachable`] at the wait limit when the server was silent. Its cancel safety is the same.
#[must_use = "a request does nothing until it is awaited"]
#[derive(Debug)]
pub struct Acquire<'a, G = Guard> {
    lock: &'a dyn RLock,
    request: Request,
    guards: PhantomData<fn() -> G>,
}

impl<'a, G: Guards> Acquire<'a, G> {
    pub(crate) fn new(lock: &'a dyn RLock) -> Self {
        Self { lock, request: Request::default(), guards: PhantomData }
    }

    /// See [`Request::wait`]. One limit for all members of a multi-lock.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.request = self.request.wait(limit);
        self
    }

    /// See [`Request::lease`]. A multi-lock's begins when all are held; a red lock's is at most
    /// [`RedLock::max_lease`](crate::RedLock::max_lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.request = self.request.lease(lease);
        self
    }

    /// See [`Request::max_hold`]. A multi-lock's begins when all are held.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.request = self.request.max_hold(limit);
        self
    }

    /// See [`Request::confirm`]. Of a multi-lock it counts for each member, of a red lock for each vote.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// use lockson::{LockError, Replicas};
    /// match lock.acquire().confirm(Replicas::All, Duration::from_millis(500)).guard().await {
    ///     Err(LockError::NotConfirmed { acked, wanted, .. }) => println!("{acked} of {wanted}: try later"),
    ///     guard => drop(guard?), // every replica has it: it outlives the primary
    /// }
    /// # Ok(()) }
    /// ```
    pub fn confirm(mut self, replicas: Replicas, within: Duration) -> Self {
        self.request = self.request.confirm(replicas, within);
        self
    }

    /// Ends the request with a guard; `None` when another owner had the lock, or one of its members, until the limit.
    ///
    /// # Errors
    /// As the lock's `lock()`'s; [`QueryError::Unreachable`] at the wait limit when the server was silent. Its cancel
    /// safety is the same.
    pub async fn guard(self) -> Result<Option<G>, LockError> {
        Ok(self.lock.take(&self.request).await?.map(G::of))
    }
}

impl<'a, G: Guards> IntoFuture for Acquire<'a, G> {
    type Output = Result<AcquireOutcome, LockError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.lock.acquire_with(self.request)
    }
}

/// The verbs of a lock that is made of others, a multi-lock or a red lock, with this type of guard: those of [`RLock`],
/// for whoever has not imported that.
macro_rules! verbs {
    ($guard:ty) => {
        /// The names of the locks that it is made of, without the clients' prefixes; of a red lock they are one.
        pub fn name(&self) -> &str {
            RLock::name(self)
        }

        /// Waits until it is held, as a bare hold: of a multi-lock all members, of a red lock most of its servers. See
        /// [`Lock::lock`](crate::Lock::lock).
        ///
        /// # Errors
        /// Never that it is busy. Of a multi-lock that of the member that failed, or [`LockError::Members`]: there is
        /// no member, or two of them keep each other out. Of a red lock [`LockError::NoMajority`] when too few of the
        /// servers answered for the outage limit of the first client, or [`LockError::Lease`] for a lease above
        /// [`RedLock::max_lease`](crate::RedLock::max_lease), before anything is sent.
        ///
        /// # Cancel safety
        /// Dropped at any point it leaves nothing: what it took is given back.
        pub async fn lock(&self) -> Result<(), LockError> {
            RLock::lock(self).await
        }

        /// One attempt at each member of a multi-lock, or one round of votes in which each server is given its
        /// [`server_timeout`](crate::RedLock::server_timeout): `Busy` when another owner has a member, or most of the
        /// servers can vote and did not vote for this owner.
        ///
        /// # Errors
        /// As [`lock`](Self::lock)'s, but of a multi-lock [`QueryError::Unreachable`] after three command timeouts, of
        /// all members together, and of a red lock [`LockError::NoMajority`] when too few servers can vote now. Its
        /// cancel safety is the same.
        pub async fn try_lock(&self) -> Result<AcquireOutcome, LockError> {
            RLock::try_lock(self).await
        }

        /// Begins a request with a wait limit, a lease, or a guard at its end: see
        /// [`Lock::acquire`](crate::Lock::acquire).
        pub fn acquire(&self) -> Acquire<'_, $guard> {
            Acquire::new(self)
        }

        /// Waits until it is held, by one guard. It is valid as long as all members are, or most of the servers are
        /// bound by it, and gives all of them back when it is dropped.
        ///
        /// # Errors
        /// As [`lock`](Self::lock)'s; so is its cancel safety.
        pub async fn guard(&self) -> Result<$guard, LockError> {
            self.take_without_limit().await.map(<$guard>::of)
        }

        /// Gives one bare hold back: of each member of a multi-lock, the last one first, and every one is tried; of a
        /// red lock on every server, the newest one, which is done when most of them said so.
        ///
        /// # Errors
        /// [`UnlockError::NotHeld`] when no member was held, or the red lock was not, or was lost; of several errors
        /// each, [`UnlockError::Several`].
        ///
        /// # Cancel safety
        /// Once polled, all is given back even if the future is dropped.
        pub async fn unlock(&self) -> Result<(), UnlockError> {
            RLock::unlock(self).await
        }

        /// [`unlock`](Self::unlock), but it waits for the server at most this long. Zero sends it and does not wait.
        ///
        /// # Errors
        /// [`UnlockError::OnItsWay`] at the limit: the client goes on with it. Else as [`unlock`](Self::unlock)'s. Its
        /// cancel safety is the same.
        pub async fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
            RLock::unlock_within(self, limit).await
        }

        /// Whether the servers have all members in this owner's name, or most of them the red lock. Of each member as
        /// [`Lock::is_held`](crate::Lock::is_held).
        ///
        /// # Errors
        /// [`QueryError`], of any member; [`QueryError::Unreachable`] after three command timeouts. Of a red lock only
        /// when too few servers answered to know.
        ///
        /// # Cancel safety
        /// Safe.
        pub async fn is_held(&self) -> Result<bool, QueryError> {
            RLock::is_held(self).await
        }
    };
}
pub(crate) use verbs;
