//! One lock on several independent servers, held by whoever most of them vote for. Rule 21 of docs/PROTOCOL.md.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;

use crate::base::config::InvalidLease;
use crate::base::owner::Owner;
use crate::compose::ballot::Candidate;
use crate::compose::held::Held;
use crate::compose::quorum::{Quorum, Rules, Voter};
use crate::error::{in_runtime, LockError, QueryError, UnlockError};
use crate::lease::validity::Lease;
use crate::locks::any::sealed::Sealed;
use crate::locks::any::{verbs, Acquire, Leaf, Member, RLock};
use crate::locks::guard::{Guard, Guards};
use crate::locks::lock::Lock;
use crate::locks::traits::Votes;
use crate::metrics::Class;
use crate::spans::acquiring;
use crate::waiting::request::Request;
use crate::waiting::wait::{before, wait, AcquireOutcome, Tried};
use crate::wire::life::Trust;
use crate::wire::table::Role;

/// A server is given at least this long for its vote.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(50);

/// One lock on several independent servers (Redisson's `getRedLock`, the algorithm Redlock): it is held while most of
/// them say so, and goes on being held and renewed while any minority of them is down, hangs or has lost its data.
///
/// All servers are asked at once. A hold is valid for its lease, less the time that asking took, 1 % of it and
/// [`drift`](Self::drift), counted for each server from the instant that it was asked: it is lost when the quorum's
/// validity ends, whatever the minority says. What the others gave is given back everywhere, also where there was no
/// answer. Between two rounds a waiter pauses at random, up to 200 ms; nothing is subscribed to. Waiters of a process
/// are served in order.
///
/// # What it takes
/// Independent deployments (no replicas of each other), three or five, each a server, a primary behind sentinels, or a
/// cluster; the same name and the same settings in every client; clocks that run at about the same speed.
/// docs/GUARANTEES.md says what it gives then, and what it does not.
///
/// # Servers that restart
/// A server that restarts, is flushed, or takes another's place may have forgotten what was granted, so its votes don't
/// count for [`max_lease`](Self::max_lease): counted from a marker (`lockson:boot`) that goes with its data, which the
/// first vote asked of it writes, and by what this client saw of it. A fleet of servers that no red lock was ever taken
/// on therefore grants nothing at first: wait, or say that it is [`fresh`](Self::fresh). A hold that is renewed takes
/// its vote again after that, as long as it has its quorum: so it is held through a restart of all servers, one after
/// the other, if each is given `max_lease` and a lease before the next.
///
/// # Losing it
/// Without its quorum it is lost, and the rest of the votes are given back at once, though the guard may live. A bare
/// hold is kept by the clients of its servers until [`unlock`](Self::unlock): nobody is told when it is lost.
///
/// ```
/// # async fn f(servers: [lockson::Locks; 3]) -> Result<(), lockson::LockError> {
/// use lockson::RedLock;
/// let red = RedLock::new(servers.iter().map(|locks| locks.lock("orders:42")));
/// let guard = red.guard().await?;
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedLock<K: Votes> {
    locks: Vec<Lock<K>>,
    rules: Rules,
    server_timeout: Option<Duration>,
}

impl<K: Votes> fmt::Debug for RedLock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedLock").field("locks", &self.locks).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl<K: Votes> RedLock<K> {
    verbs!(Guard);

    /// Of the lock of one name on each of several servers. Taking it is [`LockError::Members`] without any, with
    /// several names, and where two of them are found to be on one server.
    pub fn new(locks: impl IntoIterator<Item = Lock<K>>) -> Self {
        let locks: Vec<Lock<K>> = locks.into_iter().collect();
        let mut names: Vec<&str> = locks.iter().map(Lock::name).collect();
        names.dedup();
        let rules = Rules {
            name: names.join(" + ").into(),
            needed: locks.len() / 2 + 1,
            trust: Trust { max_lease: Duration::from_secs(60), fresh: false, durable: false },
            server_timeout: SHORTEST_TIMEOUT,
            drift: Duration::from_millis(2),
            min_validity: Duration::ZERO,
        };
        Self { locks, rules, server_timeout: None }
    }

    /// No lease is longer than this, and for so long a server that lost its data does not vote. Default: 60 s. It must
    /// be the same in all clients. Longer: such a server is out for longer. Shorter: longer leases are refused.
    pub fn max_lease(mut self, limit: Duration) -> Self {
        self.rules.trust.max_lease = limit;
        self
    }

    /// How long each server is given for its vote. Default: a hundredth of the lease, at least 50 ms (300 ms for the
    /// watchdog's 30 s). Longer than the slowest server's round trip, or it never votes. Longer: a server that is down
    /// costs each acquisition more, until it is known to be silent. For a question, which has no lease, it is reckoned
    /// from [`max_lease`](Self::max_lease).
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.server_timeout = Some(timeout);
        self
    }

    /// How much the clocks may part during a lease, beside 1 % of it. Default: 2 ms.
    pub fn drift(mut self, drift: Duration) -> Self {
        self.rules.drift = drift;
        self
    }

    /// A hold with less validity left than this is not worth having: it counts as not taken. Default: any is.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.rules.min_validity = validity;
        self
    }

    /// The servers were started for the first time: none of them has granted anything that it could have lost. Young
    /// servers then vote at once. Those that this client sees lose their data do not.
    pub fn fresh(mut self) -> Self {
        self.rules.trust.fresh = true;
        self
    }

    /// The servers lose nothing when they restart (`appendonly yes` and `appendfsync always` on all of them): their
    /// votes always count, but for those behind sentinels and in clusters, where a replica may take a server's place.
    pub fn durable(mut self) -> Self {
        self.rules.trust.durable = true;
        self
    }

    /// The same lock for another owner, in place of the scope, task or thread that calls.
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { locks: self.locks.iter().map(|lock| lock.owned_by(owner)).collect(), ..self.clone() }
    }

    /// The same lock, for whoever is the owner now.
    fn of_caller(&self) -> Self {
        Self { locks: self.locks.iter().map(Lock::of_caller).collect(), ..self.clone() }
    }

    fn timeout(&self, lease: Duration) -> Duration {
        self.server_timeout.unwrap_or_else(|| (lease / 100).max(SHORTEST_TIMEOUT))
    }

    /// Those that are asked, and the lease that they are asked for. Nothing is sent.
    fn voters(&self, request: &Request) -> Result<(Vec<Voter>, Rules), LockError> {
        let Some(first) = self.locks.first() else { return Err(no_members()) };
        let lease = Member::lease(self, request)?.duration();
        let voters = self.locks.iter().map(|lock| voter(lock, request)).collect::<Result<Vec<_>, _>>()?;
        let mut clients = HashSet::new();
        if !voters.iter().all(|voter| clients.insert(Arc::as_ptr(&voter.session))) {
            return Err(no_members());
        }
        if self.locks.iter().any(|lock| lock.name() != first.name()) {
            let why = format!("the locks of a red lock have one name on all servers: these are {:?}", self.rules.name);
            return Err(LockError::Members(why));
        }
        let rules = Rules { server_timeout: self.timeout(lease), ..self.rules.clone() };
        Ok((voters, rules))
    }

    async fn elect(&self, request: &Request, rounds: &AtomicU32) -> Result<Option<Held>, LockError> {
        in_runtime()?;
        let (voters, rules) = self.voters(request)?;
        let deadline = request.deadline(rules.server_timeout).map_err(LockError::Wait)?;
        let mut candidate = Candidate::new(voters, rules, rounds);
        let won = if request.is_one_attempt() {
            match candidate.round().await? {
                Tried::Won(held) => Some(held),
                Tried::Busy(_) => None,
            }
        } else {
            before(deadline, wait(&mut candidate)).await.transpose()?
        };
        match (won, candidate.failure.take()) {
            (Some(held), _) => Ok(Some(held)),
            (None, Some(failure)) => Err(failure),
            (None, None) => candidate.unheard().map_or(Ok(None), Err),
        }
    }
}

/// This lock's server, as one of several that are asked for a vote.
fn voter<K: Votes>(lock: &Lock<K>, request: &Request) -> Result<Voter, LockError> {
    let mut wish = lock.wish(&lock.line()?, &lock.field(), request, Some(K::vote()))?;
    wish.learn = |wish, answer| {
        if let Some((run, since, age)) = answer.run() {
            wish.engine.life.saw(wish.slot(), run, since, age, wish.engine.now());
        }
    };
    Ok(Voter { wish: wish.into(), session: lock.session.clone() })
}

/// The bare hold that its vote belongs to, the newest one.
fn elected<K: Votes>(lock: &Lock<K>) -> Option<Arc<Quorum>> {
    Quorum::elected(&lock.line().ok()?.entry(&lock.field()))
}

fn no_members() -> LockError {
    LockError::Members("a red lock needs at least one member, and each of another client and server".to_owned())
}

#[async_trait]
impl<K: Votes> Sealed for RedLock<K> {
    async fn take(&self, request: &Request) -> Result<Option<Held>, LockError> {
        let Some(first) = self.locks.first() else { return Err(no_members()) };
        let (rounds, owner) = (AtomicU32::new(0), first.field());
        let (engine, name) = (&first.session.engine, &self.rules.name);
        acquiring("red", [name, &owner], &Class::default(), engine.wire.clock, &rounds, self.elect(request, &rounds))
            .await
    }

    /// One, in the place of its first server's lock.
    fn leaves(&self, into: &mut Vec<Leaf>) -> Result<(), QueryError> {
        let (of_caller, mut first) = (Arc::new(self.of_caller()), Vec::new());
        of_caller.locks.first().map_or(Ok(()), |lock| lock.leaves(&mut first))?;
        into.extend(first.pop().map(|leaf| Leaf { votes: true, role: Role::Exclusive, lock: of_caller, ..leaf }));
        Ok(())
    }
}

impl<K: Votes> Member for RedLock<K> {
    fn lease(&self, request: &Request) -> Result<Lease, LockError> {
        let leases = self.locks.iter().map(|lock| Member::lease(lock, request)).collect::<Result<Vec<_>, _>>()?;
        let longest = leases.into_iter().min_by_key(|lease| Reverse(lease.duration())).ok_or_else(no_members)?;
        InvalidLease::check(longest.duration(), self.rules.trust.max_lease)?;
        Ok(longest)
    }
}

#[async_trait]
impl<K: Votes> RLock for RedLock<K> {
    fn name(&self) -> &str {
        &self.rules.name
    }

    async fn unlock(&self) -> Result<(), UnlockError> {
        let mut leaves = Vec::new();
        self.leaves(&mut leaves)?;
        let owner = leaves.first().map_or_else(Owner::current, Leaf::owner);
        in_runtime()?;
        let caller = self.of_caller();
        let locks = caller.locks.iter();
        let Some(quorum) = locks.filter_map(elected).max_by_key(|quorum| quorum.first.share) else {
            return Err(UnlockError::NotHeld { name: self.rules.name.to_string(), owner, lost: None });
        };
        let votes = quorum.tickets().len();
        UnlockError::of(quorum.release().await, votes, Some((&self.rules.name, &owner)))
    }

    async fn is_held(&self) -> Result<bool, QueryError> {
        let of_caller = self.of_caller();
        in_runtime()?;
        let held = join_all(of_caller.locks.iter().map(|lock| async {
            let asked = tokio::time::timeout(self.timeout(self.rules.trust.max_lease), lock.is_held()).await;
            let detail = "its server gave no answer in time".to_owned();
            asked.unwrap_or_else(|_| Err(QueryError::Unreachable { name: self.rules.name.to_string(), detail }))
        }));
        let held = held.await;
        let (of_all, needed) = (self.locks.len(), self.rules.needed);
        let count = |wanted: bool| held.iter().filter(|held| **held == Ok(wanted)).count();
        if count(true) >= needed || count(false) + needed > of_all {
            return Ok(count(true) >= needed);
        }
        held.into_iter().find(Result::is_err).unwrap_or(Ok(false))
    }

    fn owned_by(&self, owner: &Owner) -> Arc<dyn RLock> {
        Arc::new(Self::owned_by(self, owner))
    }
}

impl<K: Votes> From<RedLock<K>> for Arc<dyn RLock> {
    fn from(lock: RedLock<K>) -> Self {
        Arc::new(lock)
    }
}
