//! The verbs of a lock that is made of others: a multi-lock, a red lock. They are those of [`RLock`](crate::RLock),
//! which it implements, for whoever has not imported that.

/// What stands in the `impl` of such a lock: its verbs, with this type of guard.
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
        /// As [`lock`](Self::lock)'s, but of a multi-lock [`LockError::Unreachable`] after three command timeouts, of
        /// all members together, and of a red lock [`LockError::NoMajority`] when too few servers can vote now.
        ///
        /// # Cancel safety
        /// As [`lock`](Self::lock)'s.
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
        /// As [`lock`](Self::lock)'s.
        ///
        /// # Cancel safety
        /// As [`lock`](Self::lock)'s.
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
        /// [`UnlockError::OnItsWay`] at the limit: the client goes on with it. Else as [`unlock`](Self::unlock)'s.
        ///
        /// # Cancel safety
        /// As [`unlock`](Self::unlock)'s.
        pub async fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
            RLock::unlock_within(self, limit).await
        }

        /// Whether the servers have all members in this owner's name, or most of them the red lock. One script each,
        /// which writes nothing.
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
