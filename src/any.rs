//! The verbs that every lock has, for code that takes any.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::acquire::Request;
use crate::error::{LockError, QueryError, UnlockError};
use crate::guard::Guard;
use crate::lock::{Acquire, Lock};
use crate::owner::Owner;
use crate::traits::Kind;

/// The verbs that every lock has. Sealed: lockson's own locks implement it.
///
/// Plain use needs no import, as [`Lock`] has the same verbs; this is for code that takes any lock, as `Arc<dyn
/// RLock>`. Errors and cancel safety are those of [`Lock`]'s verbs.
#[async_trait]
pub trait RLock: sealed::Sealed + fmt::Debug + Send + Sync {
    /// The name, without the client's prefix.
    fn name(&self) -> &str;

    /// See [`Lock::lock`].
    async fn lock(&self) -> Result<(), LockError>;

    /// See [`Lock::try_lock`].
    async fn try_lock(&self) -> Result<bool, LockError>;

    /// See [`Lock::acquire`].
    async fn acquire_with(&self, request: Request) -> Result<bool, LockError>;

    /// See [`Lock::guard`].
    async fn guard(&self) -> Result<Guard, LockError>;

    /// See [`Acquire::guard`].
    async fn guard_with(&self, request: Request) -> Result<Option<Guard>, LockError>;

    /// See [`Lock::unlock`].
    async fn unlock(&self) -> Result<(), UnlockError>;

    /// See [`Lock::unlock_within`].
    async fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
        UnlockError::within(limit, self.name().to_owned(), self.unlock()).await
    }

    /// See [`Lock::is_held`].
    async fn is_held(&self) -> Result<bool, QueryError>;

    /// See [`Lock::owned_by`].
    fn owned_by(&self, owner: &Owner) -> Arc<dyn RLock>;
}

pub(crate) mod sealed {
    use crate::keys::NameError;
    use crate::leaf::Leaf;

    pub trait Sealed {
        /// Adds the locks that it is made of, for whoever is the owner now.
        fn leaves(&self, into: &mut Vec<Leaf>) -> Result<(), NameError>;
    }
}

#[async_trait]
impl<K: Kind> RLock for Lock<K> {
    fn name(&self) -> &str {
        Lock::name(self)
    }

    async fn lock(&self) -> Result<(), LockError> {
        Lock::lock(self).await
    }

    async fn try_lock(&self) -> Result<bool, LockError> {
        Lock::try_lock(self).await
    }

    async fn acquire_with(&self, request: Request) -> Result<bool, LockError> {
        Acquire { lock: self, request }.await
    }

    async fn guard(&self) -> Result<Guard, LockError> {
        Ok(Guard::new(self.hold().await?, self.session.clone()))
    }

    async fn guard_with(&self, request: Request) -> Result<Option<Guard>, LockError> {
        Lock::guard_with(self, &request).await
    }

    async fn unlock(&self) -> Result<(), UnlockError> {
        Lock::unlock(self).await
    }

    async fn is_held(&self) -> Result<bool, QueryError> {
        Lock::is_held(self).await
    }

    fn owned_by(&self, owner: &Owner) -> Arc<dyn RLock> {
        Arc::new(Lock::owned_by(self, owner))
    }
}
