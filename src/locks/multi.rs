//! Several locks as one: all of them, or none. Rule 20 of docs/PROTOCOL.md.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{join_all, OptionFuture};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::base::owner::Owner;
use crate::compose::held::Held;
use crate::compose::together::{self, Part, Taken};
use crate::error::{in_runtime, HoldError, LockError, LostReason, QueryError, UnlockError};
use crate::locks::any::sealed::Sealed;
use crate::locks::any::{verbs, Acquire, Leaf, RLock};
use crate::locks::guard::{Guard, Guards};
use crate::metrics::Class;
use crate::spans::acquiring;
use crate::waiting::request::Request;
use crate::waiting::wait::{before, AcquireOutcome};
use crate::wire::table::Role;

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
    Held(Held),
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
    verbs!(G);

    /// The same locks for another owner, in place of the scope, task or thread that calls and of those that the members
    /// have.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self::of(self.name.clone(), self.locks.iter().map(|lock| lock.owned_by(owner)).collect())
    }

    /// What it is made of, for whoever is the owner now, sorted.
    fn leaves(&self) -> Result<Vec<Leaf>, QueryError> {
        let mut leaves = Vec::new();
        Sealed::leaves(self, &mut leaves)?;
        leaves.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(leaves)
    }

    /// What there is to give back: of locks that may be the same one of the same server, those that are held.
    fn held_leaves(&self) -> Result<Vec<Leaf>, QueryError> {
        let mut held: Vec<Leaf> = Vec::new();
        for leaf in self.leaves()? {
            // In this order those that may be the same one stand together.
            let first = held.iter().rposition(|other| other.order() != leaf.order()).map_or(0, |at| at + 1);
            match held.get_mut(first) {
                Some(twin) if leaf.is(twin) || !leaf.has_bare_hold() => {}
                Some(twin) if !twin.has_bare_hold() => *twin = leaf,
                _ => held.push(leaf),
            }
        }
        Ok(held)
    }

    /// What there is to take, in the order of all clients, each lock once.
    async fn members(&self, mut leaves: Vec<Leaf>) -> Result<Vec<Leaf>, LockError> {
        // In this order those of one key stand together.
        let ids = leaves.chunk_by(|one, other| one.key() == other.key()).flat_map(|same| {
            let several = same.first().is_some_and(|first| same.iter().any(|other| !other.is_client_of(first)));
            same.iter().map(move |leaf| OptionFuture::from(several.then(|| leaf.ask_server_id())))
        });
        let ids = join_all(ids).await;
        for (leaf, id) in leaves.iter_mut().zip(ids) {
            leaf.server = id.transpose()?;
        }
        leaves.sort_by(|one, other| one.order().cmp(&other.order()));
        let mut members: Vec<Leaf> = Vec::new();
        for leaf in leaves {
            if !members.last().map_or(Ok(false), |last| merges(last, &leaf))? {
                members.push(leaf);
            }
        }
        Ok(members)
    }

    async fn take_all(
        &self,
        leaves: Vec<Leaf>,
        request: &Request,
        rounds: &AtomicU32,
    ) -> Result<Option<Held>, LockError> {
        in_runtime()?;
        let looks = leaves.iter().map(|leaf| leaf.session.engine.look_limit());
        let deadline = request.deadline(looks.max().unwrap_or_default()).map_err(LockError::Wait)?;
        let late = || LockError::from(QueryError::late(&self.name));
        // Until all are held each has another lease.
        let open = request.of_member(None);
        leaves.iter().try_for_each(|leaf| leaf.lock.lease(request).and(leaf.lock.lease(&open)).map(drop))?;
        let members = before(deadline, self.members(leaves)).await.unwrap_or_else(|| Err(late()))?;
        loop {
            rounds.fetch_add(1, Ordering::Relaxed);
            let round = before(deadline, self.round(&members, request, deadline)).await;
            match round.unwrap_or_else(|| Err(late()))? {
                Round::Held(taken) => return Ok(Some(taken)),
                Round::Busy => return Ok(None),
                Round::Lost(error) if request.is_one_attempt() => return Err(error),
                Round::Lost(_) => tracing::debug!(target: "lockson", name = &*self.name, "one was lost: again"),
            }
        }
    }

    /// All by one script where they are free and of one slot. `None`: they are to be asked for one after the other.
    async fn at_once(&self, members: &[Leaf], request: &Request) -> Result<Option<Round>, LockError> {
        let wishes: Result<Vec<_>, _> = members.iter().map(|member| member.lock.wish(request)).collect();
        let Some(wishes) = wishes?.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        Ok(match together::take(wishes).await? {
            Taken::All(tickets) => {
                let sessions = members.iter().map(|member| member.session.clone());
                // The last one is the first here.
                let both = tickets.into_iter().zip(sessions).rev();
                let taken = both.map(|(ticket, session)| Held::One(ticket, session));
                Some(Round::Held(Held::all(taken.collect(), self.name.clone()).ok_or_else(no_members)?))
            }
            Taken::Busy if request.is_one_attempt() => Some(Round::Busy),
            Taken::Busy | Taken::Alone => None,
        })
    }

    /// One after the other, and the lease that is wanted when all are held.
    async fn round(
        &self,
        members: &[Leaf],
        request: &Request,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Round, LockError> {
        if let Some(round) = self.at_once(members, request).await? {
            return Ok(round);
        }
        let open = request.of_member(deadline);
        // The last one is the first here, as it is the first to be given back.
        let (mut taken, mut losses) = (VecDeque::new(), FuturesUnordered::new());
        for member in members {
            let next = tokio::select! {
                biased;
                next = member.lock.take(&open) => next?,
                Some(_) = losses.next() => return self.lost(&taken),
            };
            match next {
                Some(held) => {
                    losses.push(held.until_lost());
                    taken.push_front(held);
                }
                None => return Ok(Round::Busy),
            }
        }
        let begun = taken.iter().rev().zip(members).map(|(held, member)| {
            let lease = member.lock.lease(request);
            async move { held.begin(lease?).await.map_err(|error| refused_lease(&self.name, error)) }
        });
        let begun: Result<Vec<()>, LockError> = join_all(begun).await.into_iter().collect();
        match taken.iter().rev().find_map(Held::lost) {
            // The lease that is wanted is too short for the way to the server: another round would find the same.
            Some(LostReason::Deadline) => self.lost(&taken).and(Err(QueryError::Unreachable {
                name: self.name.to_string(),
                detail: "the answers took longer than the lease".to_owned(),
            }
            .into())),
            Some(_) => self.lost(&taken),
            None => {
                begun?;
                Held::all(taken, self.name.clone()).map(Round::Held).ok_or_else(no_members)
            }
        }
    }

    /// An outer hold that is lost is said; anything else is only a round lost.
    fn lost(&self, taken: &VecDeque<Held>) -> Result<Round, LockError> {
        let lost = || taken.iter().rev().filter(|held| held.lost().is_some());
        let error = |held: &Held| {
            let ticket = held.ticket();
            LockError::Lost { name: ticket.hold.entry.line.keys.name.to_string(), owner: ticket.owner() }
        };
        match (lost().find(|held| held.is_inner()), lost().next()) {
            (Some(outer), _) => Err(error(outer)),
            (None, Some(held)) => Ok(Round::Lost(error(held))),
            (None, None) => Err(QueryError::Closed.into()),
        }
    }
}

/// Gives a bare hold of each back by one script, if that can be.
fn release_together(leaves: &[Leaf]) -> Option<impl Future<Output = Vec<UnlockError>> + Send + 'static> {
    let part = |leaf: &Leaf| Part::bare(&leaf.session.engine, &leaf.line.entry(&leaf.field));
    let patience = leaves.first()?.session.engine.patience();
    together::release(leaves.iter().map(part).collect::<Option<_>>()?, &patience)
}

fn no_members() -> LockError {
    LockError::Members("a multi-lock needs at least one member".to_owned())
}

/// A lease that could not be set when all were held.
fn refused_lease(name: &str, error: HoldError) -> LockError {
    match error {
        HoldError::Lease(error) => error.into(),
        HoldError::Query(error) => error.into(),
        HoldError::NotConfirmed { acked, wanted } => {
            LockError::NotConfirmed { name: name.to_string(), acked, wanted, given_back: false }
        }
        // The caller looks for what is lost, and for whose.
        HoldError::Lost(_) => LockError::Query(QueryError::Closed),
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
    let is_downgrade = first.role == Role::Write && second.role == Role::Read && first.is_client_of(second);
    if same_owner && (same_role || is_downgrade) {
        return Ok(same_role);
    }
    Err(LockError::Members(format!(
        "two members are lock {:?} in ways that keep each other out: of two owners, or once as a read/write lock",
        first.line.keys.name
    )))
}

#[async_trait]
impl<G: Guards> Sealed for MultiLock<G> {
    async fn take(&self, request: &Request) -> Result<Option<Held>, LockError> {
        let leaves = self.leaves()?;
        let Some(first) = leaves.first() else { return Err(no_members()) };
        let (rounds, engine, owner) = (AtomicU32::new(0), first.session.engine.clone(), first.field.clone());
        let acquisition = self.take_all(leaves, request, &rounds);
        acquiring("multi", [&self.name, &owner], &Class::default(), engine.wire.clock, &rounds, acquisition).await
    }

    fn leaves(&self, into: &mut Vec<Leaf>) -> Result<(), QueryError> {
        self.locks.iter().try_for_each(|lock| lock.leaves(into))
    }
}

#[async_trait]
impl<G: Guards> RLock for MultiLock<G> {
    fn name(&self) -> &str {
        &self.name
    }

    async fn unlock(&self) -> Result<(), UnlockError> {
        let leaves = self.held_leaves()?;
        let owner = leaves.first().map_or_else(Owner::current, Leaf::owner);
        let (members, janitor) = (leaves.len(), leaves.first().map(|leaf| leaf.session.engine.janitor.clone()));
        let all = async move {
            if let Some(work) = release_together(&leaves) {
                return work.await;
            }
            let results = join_all(leaves.iter().rev().map(|leaf| leaf.lock.unlock())).await;
            results.into_iter().filter_map(Result::err).collect()
        };
        // Carried as one: of many, not all are polled at once.
        let errors = OptionFuture::from(janitor.map(|janitor| janitor.carry(|_| all))).await.unwrap_or_default();
        UnlockError::of(errors, members, Some((&self.name, &owner)))
    }

    async fn is_held(&self) -> Result<bool, QueryError> {
        let leaves = self.held_leaves()?;
        let held = join_all(leaves.iter().map(|leaf| leaf.lock.is_held())).await;
        let held: Result<Vec<bool>, QueryError> = held.into_iter().collect();
        Ok(!leaves.is_empty() && held?.into_iter().all(|held| held))
    }

    fn owned_by(&self, owner: &Owner) -> Arc<dyn RLock> {
        Arc::new(Self::owned_by(self, owner))
    }
}

impl<G: Guards> From<MultiLock<G>> for Arc<dyn RLock> {
    fn from(lock: MultiLock<G>) -> Self {
        Arc::new(lock)
    }
}
