//! Several locks as one: all of them, or none. Rule 20 of docs/PROTOCOL.md.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{join_all, BoxFuture, FutureExt, OptionFuture};

use crate::acquire::{Request, Told};
use crate::any::{sealed, RLock};
use crate::error::{in_runtime, HoldError, LockError, LostBy, QueryError, UnlockError};
use crate::group::{first_lost, Group, Taken};
use crate::guard::{Fresh, Guard, Guards};
use crate::keys::NameError;
use crate::kind::Role;
use crate::leaf::Leaf;
use crate::lease::Lease;
use crate::owner::Owner;
use crate::wait::before;

/// Several locks as one (Redisson's `getMultiLock`): all of them are held, or none.
///
/// They may be of any kind, of any client, on any server, and other multi-locks. They are taken one after the other, in
/// an order that is the same for every lockson client, whatever order they are given in: so no two multi-locks wait for
/// each other without end. (Java's multi-locks take theirs in the caller's order: with those they may.) A lock that
/// is given twice is taken once.
///
/// One wait limit counts for all. While one is waited for, those that are held are renewed; a lease is set on all when
/// all are held. When it is busy, fails or is dropped half-way, what was taken is given back, the last one first.
///
/// A hold that is lost while others are waited for never comes out as a guard: all are given back, and it starts again,
/// within the wait limit. Only where the owner held that lock before is it [`LockError::Lost`]: the caller relies on
/// the outer hold.
///
/// ```
/// # use std::sync::Arc;
/// use lockson::{MultiLock, RLock};
/// # async fn f(locks: lockson::Locks) -> Result<(), lockson::LockError> {
/// let both = MultiLock::new([locks.lock("account:1"), locks.lock("account:2")]);
/// let guard = both.guard().await?;
/// // move the money
/// # drop(guard);
/// let of_any_kind: Vec<Arc<dyn RLock>> = vec![locks.fair_lock("queue").into(), both.into()];
/// let all = MultiLock::new(of_any_kind);
/// # Ok(()) }
/// ```
pub struct MultiLock<G = Guard> {
    name: Arc<str>,
    locks: Vec<Arc<dyn RLock>>,
    guards: PhantomData<fn() -> G>,
}

impl<G> Clone for MultiLock<G> {
    fn clone(&self) -> Self {
        Self::of(self.name.clone(), self.locks.clone())
    }
}

impl<G> fmt::Debug for MultiLock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("locks", &self.locks).finish()
    }
}

/// What one round of taking all came to.
enum Round {
    Held(Taken),
    Busy,
    /// One was lost while others were waited for.
    Lost(LockError),
}

impl MultiLock {
    /// Of these locks: of one kind, or of any as `Arc<dyn RLock>`. Without any, taking it is [`LockError::Members`].
    pub fn new(locks: impl IntoIterator<Item = impl Into<Arc<dyn RLock>>>) -> Self {
        Self::over(locks.into_iter().map(Into::into).collect())
    }
}

impl<G> MultiLock<G> {
    fn of(name: Arc<str>, locks: Vec<Arc<dyn RLock>>) -> Self {
        Self { name, locks, guards: PhantomData }
    }

    pub(crate) fn over(locks: Vec<Arc<dyn RLock>>) -> Self {
        let names: Vec<&str> = locks.iter().map(|lock| lock.name()).collect();
        Self::of(names.join(" + ").into(), locks)
    }
}

impl<G: Guards> MultiLock<G> {
    /// The names of its members.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same locks for another owner, in place of the scope, task or thread that calls and of those that the members
    /// have.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self::of(self.name.clone(), self.locks.iter().map(|lock| lock.owned_by(owner)).collect())
    }

    /// Waits until all are held, each as a bare hold: see [`Lock::lock`](crate::Lock::lock).
    ///
    /// # Errors
    /// That of the member that failed. [`LockError::Members`]: there is no member, or two of them keep each other out.
    ///
    /// # Cancel safety
    /// Dropped at any point it leaves nothing: what it took is given back.
    pub async fn lock(&self) -> Result<(), LockError> {
        self.take(&Request::default()).await?.ok_or(LockError::Closed).map(Taken::keep_bare)
    }

    /// One attempt at each: `false` when another owner has one of them.
    ///
    /// # Errors
    /// As [`lock`](Self::lock)'s, but [`LockError::Unreachable`] after three command timeouts, of all together.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock)'s.
    pub async fn try_lock(&self) -> Result<bool, LockError> {
        Ok(self.take(&Request::once()).await?.map(Taken::keep_bare).is_some())
    }

    /// Begins a request with a wait limit, a lease, or a guard at its end: see [`Lock::acquire`](crate::Lock::acquire).
    pub fn acquire(&self) -> AcquireAll<'_, G> {
        AcquireAll { lock: self, request: Request::default() }
    }

    /// Waits until all are held, by one guard: it is valid as long as all of them are, and gives them back when it is
    /// dropped.
    ///
    /// # Errors
    /// As [`lock`](Self::lock)'s.
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock)'s.
    pub async fn guard(&self) -> Result<G, LockError> {
        let guard = self.guarded(&Request::default()).await?.ok_or(LockError::Closed)?;
        Ok(G::of(Fresh(guard)))
    }

    async fn guarded(&self, request: &Request) -> Result<Option<Guard>, LockError> {
        Ok(self.take(request).await?.and_then(|taken| Guard::over(taken, self.name.clone())))
    }

    /// Gives one bare hold of each member back, the last one first, and tries every one.
    ///
    /// # Errors
    /// [`UnlockError::NotHeld`] when none of them was held; of several errors each, [`UnlockError::Several`].
    ///
    /// # Cancel safety
    /// Once polled, all are given back even if the future is dropped.
    pub async fn unlock(&self) -> Result<(), UnlockError> {
        let leaves = self.held_leaves()?;
        let owner = leaves.first().map_or_else(Owner::current, Leaf::owner);
        let (members, janitor) = (leaves.len(), leaves.first().map(|leaf| leaf.session.core.janitor.clone()));
        let all = async move { join_all(leaves.iter().rev().map(Leaf::unlock)).await };
        // Carried as one: of many, not all are polled at once.
        let results = OptionFuture::from(janitor.map(|janitor| janitor.carry(|_| all))).await.unwrap_or_default();
        let errors = results.into_iter().filter_map(Result::err).collect();
        UnlockError::of(errors, members, Some((&self.name, &owner)))
    }

    /// [`unlock`](Self::unlock), but it waits for the server at most this long. Zero sends it and does not wait.
    ///
    /// # Errors
    /// [`UnlockError::OnItsWay`] at the limit: the client goes on with it. Else as [`unlock`](Self::unlock)'s.
    ///
    /// # Cancel safety
    /// As [`unlock`](Self::unlock)'s.
    pub async fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
        UnlockError::within(limit, self.name.to_string(), self.unlock()).await
    }

    /// Whether the servers have all of them in this owner's name. One script each, which writes nothing.
    ///
    /// # Errors
    /// [`QueryError`], of any member; [`QueryError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn is_held(&self) -> Result<bool, QueryError> {
        let leaves = self.held_leaves()?;
        let held = join_all(leaves.iter().map(|leaf| leaf.lock.is_held())).await;
        let held: Result<Vec<bool>, QueryError> = held.into_iter().collect();
        Ok(!leaves.is_empty() && held?.into_iter().all(|held| held))
    }

    /// What it is made of, for whoever is the owner now, sorted.
    fn leaves(&self) -> Result<Vec<Leaf>, NameError> {
        let mut leaves = Vec::new();
        for lock in &self.locks {
            lock.leaves(&mut leaves)?;
        }
        leaves.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(leaves)
    }

    /// What there is to give back: of locks that may be the same one of the same server, those that are held.
    fn held_leaves(&self) -> Result<Vec<Leaf>, NameError> {
        let mut held: Vec<Leaf> = Vec::new();
        for leaf in self.leaves()? {
            let twin = held.iter_mut().find(|other| other.order() == leaf.order());
            match twin {
                Some(twin) if leaf.is(twin) || !leaf.has_bare_hold() => {}
                Some(twin) if !twin.has_bare_hold() => *twin = leaf,
                _ => held.push(leaf),
            }
        }
        Ok(held)
    }

    /// What there is to take, in the order of all clients, each lock once.
    async fn members(&self, leaves: Vec<Leaf>) -> Result<Vec<Leaf>, LockError> {
        let twins = |leaf: &Leaf| leaves.iter().any(|other| leaf.key() == other.key() && !leaf.is_client_of(other));
        let ids = leaves.iter().map(|leaf| async {
            let id = if twins(leaf) { Some(leaf.ask_server_id().await?) } else { None };
            Ok(Leaf { server: id, ..leaf.clone() })
        });
        let leaves: Result<Vec<Leaf>, LockError> = join_all(ids).await.into_iter().collect();
        let mut leaves = leaves?;
        leaves.sort_by(|one, other| one.order().cmp(&other.order()));
        let mut members: Vec<Leaf> = Vec::new();
        for leaf in leaves {
            match members.last().map(|last| merges(last, &leaf)) {
                Some(Ok(true)) => {}
                Some(Err(error)) => return Err(error),
                Some(Ok(false)) | None => members.push(leaf),
            }
        }
        Ok(members)
    }

    async fn take(&self, request: &Request) -> Result<Option<Taken>, LockError> {
        let leaves = self.leaves()?;
        let Some(first) = leaves.first().cloned() else {
            return Err(LockError::Members("a multi-lock needs at least one member".to_owned()));
        };
        let (rounds, clock) = (AtomicU32::new(0), first.session.core.wire.clock);
        let told = Told { kind: "multi", name: &self.name, owner: &first.field, clock, attempts: &rounds };
        told.by(self.take_all(leaves, request, &rounds)).await
    }

    async fn take_all(
        &self,
        leaves: Vec<Leaf>,
        request: &Request,
        rounds: &AtomicU32,
    ) -> Result<Option<Taken>, LockError> {
        in_runtime()?;
        let looks = leaves.iter().map(|leaf| leaf.session.core.look_limit());
        let deadline = request.deadline(looks.max().unwrap_or_default()).map_err(LockError::Wait)?;
        let late = || LockError::late(&self.name);
        let leases: Result<Vec<Lease>, LockError> = leaves.iter().map(|leaf| leaf.lock.lease(request)).collect();
        leases?;
        let members = before(deadline, self.members(leaves)).await.unwrap_or_else(|| Err(late()))?;
        loop {
            rounds.fetch_add(1, Ordering::Relaxed);
            let round = before(deadline, self.round(&members, request, deadline)).await;
            match round.unwrap_or_else(|| Err(late()))? {
                Round::Held(taken) => return Ok(Some(taken)),
                Round::Busy => return Ok(None),
                Round::Lost(error) if request.is_once() => return Err(error),
                Round::Lost(_) => tracing::debug!(target: "lockson", name = &*self.name, "one was lost: again"),
            }
        }
    }

    /// One after the other, and the lease that is wanted when all are held.
    async fn round(
        &self,
        members: &[Leaf],
        request: &Request,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Round, LockError> {
        let open = request.of_member(deadline);
        let mut taken = Taken::default();
        for member in members {
            let next = tokio::select! {
                biased;
                next = member.lock.take(&open) => next?,
                _ = first_lost(taken.0.iter().map(Group::watched).collect()) => return self.lost(&taken),
            };
            match next {
                Some(group) => taken.0.push(group),
                None => return Ok(Round::Busy),
            }
        }
        let begun = taken.0.iter_mut().zip(members).map(|(group, member)| {
            let lease = member.lock.lease(request);
            async move { group.begin(lease?).await.map_err(refused_lease) }
        });
        let begun: Result<Vec<()>, LockError> = join_all(begun).await.into_iter().collect();
        match taken.0.iter().find_map(Group::lost) {
            // The lease that is wanted is too short for the way to the server: another round would find the same.
            Some(LostBy::Deadline) => self.lost(&taken).and(Err(LockError::Unreachable {
                name: self.name.to_string(),
                detail: "the answers took longer than the lease".to_owned(),
            })),
            Some(_) => self.lost(&taken),
            None => begun.map(|_| Round::Held(taken)),
        }
    }

    /// An outer hold that is lost is said; anything else is only a round lost.
    fn lost(&self, taken: &Taken) -> Result<Round, LockError> {
        let is_lost = |group: &&Group| group.lost().is_some();
        let lost = |group: &Group| {
            let ticket = group.ticket();
            LockError::Lost { name: ticket.slot.line.keys.name.to_string(), owner: ticket.owner() }
        };
        let outer = taken.0.iter().filter(is_lost).find(|group| group.is_inner());
        match (outer, taken.0.iter().find(is_lost)) {
            (Some(outer), _) => Err(lost(outer)),
            (None, Some(group)) => Ok(Round::Lost(lost(group))),
            (None, None) => Err(LockError::Closed),
        }
    }
}

/// A lease that could not be set when all were held.
fn refused_lease(error: HoldError) -> LockError {
    match error {
        HoldError::Lease { lease, min, max } => LockError::Lease { lease, min, max },
        HoldError::Query(error) => LockError::from_query(error),
        // The caller looks for what is lost, and for whose.
        HoldError::Lost(_) => LockError::Closed,
    }
}

/// Whether the second is the same lock as the first, next to it in the order.
fn merges(first: &Leaf, second: &Leaf) -> Result<bool, LockError> {
    let same_key = (first.key(), &first.server) == (second.key(), &second.server);
    if !same_key || first.votes != second.votes {
        return Ok(false);
    }
    let same_role = first.role == second.role;
    let same_owner = first.owner() == second.owner();
    if same_role && same_owner {
        return Ok(true);
    }
    let downgrade = first.role == Role::Write && second.role == Role::Read;
    if downgrade && same_owner && first.is_client_of(second) {
        return Ok(false);
    }
    Err(LockError::Members(format!(
        "two members are lock {:?} in ways that keep each other out: of two owners, or once as a read/write lock",
        first.line.keys.name
    )))
}

/// A request for a [`MultiLock`] under construction; awaiting it says whether all are held.
///
/// # Errors
/// As [`MultiLock::lock`]'s; [`LockError::Unreachable`] at the wait limit when the server was silent.
///
/// # Cancel safety
/// As [`MultiLock::lock`]'s.
#[must_use = "a request does nothing until it is awaited"]
#[derive(Debug)]
pub struct AcquireAll<'a, G = Guard> {
    lock: &'a MultiLock<G>,
    request: Request,
}

impl<G: Guards> AcquireAll<'_, G> {
    /// See [`Request::wait`]. One limit for all members.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.request = self.request.wait(limit);
        self
    }

    /// See [`Request::lease`]. It begins when all are held.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.request = self.request.lease(lease);
        self
    }

    /// See [`Request::max_hold`]. It begins when all are held.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.request = self.request.max_hold(limit);
        self
    }

    /// Ends the request with a guard; `None` when another owner had one of the locks until the limit.
    ///
    /// # Errors
    /// As [`MultiLock::lock`]'s.
    ///
    /// # Cancel safety
    /// As [`MultiLock::lock`]'s.
    pub async fn guard(self) -> Result<Option<G>, LockError> {
        Ok(self.lock.guarded(&self.request).await?.map(|guard| G::of(Fresh(guard))))
    }
}

impl<'a, G: Guards> IntoFuture for AcquireAll<'a, G> {
    type Output = Result<bool, LockError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(self.lock.take(&self.request).await?.map(Taken::keep_bare).is_some()) }.boxed()
    }
}

impl<G: Guards> From<MultiLock<G>> for Arc<dyn RLock> {
    fn from(lock: MultiLock<G>) -> Self {
        Arc::new(lock)
    }
}

impl<G: Guards> sealed::Sealed for MultiLock<G> {
    fn leaves(&self, into: &mut Vec<Leaf>) -> Result<(), NameError> {
        self.locks.iter().try_for_each(|lock| lock.leaves(into))
    }
}

#[async_trait]
impl<G: Guards> RLock for MultiLock<G> {
    fn name(&self) -> &str {
        Self::name(self)
    }

    async fn lock(&self) -> Result<(), LockError> {
        Self::lock(self).await
    }

    async fn try_lock(&self) -> Result<bool, LockError> {
        Self::try_lock(self).await
    }

    async fn acquire_with(&self, request: Request) -> Result<bool, LockError> {
        AcquireAll { lock: self, request }.await
    }

    async fn guard(&self) -> Result<Guard, LockError> {
        self.guarded(&Request::default()).await?.ok_or(LockError::Closed)
    }

    async fn guard_with(&self, request: Request) -> Result<Option<Guard>, LockError> {
        self.guarded(&request).await
    }

    async fn unlock(&self) -> Result<(), UnlockError> {
        Self::unlock(self).await
    }

    async fn is_held(&self) -> Result<bool, QueryError> {
        Self::is_held(self).await
    }

    fn owned_by(&self, owner: &Owner) -> Arc<dyn RLock> {
        Arc::new(Self::owned_by(self, owner))
    }
}
