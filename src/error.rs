//! What can go wrong, by verb. A busy lock is never an error, and an unreachable server is never a busy lock.
//!
//! What `source()` gives is in the text of the error too: most programs log an error by its text alone.

use std::future::Future;
use std::time::Duration;

use crate::base::config::InvalidLease;
use crate::base::fault::{Fault, Refused};
use crate::base::keys::NameError;
use crate::base::owner::Owner;

/// Why a lock was not taken. `Busy` and `None` mean that somebody else has it; an error never means that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lease is too short or too long. Nothing was sent.
    #[error("{0}")]
    Lease(#[from] InvalidLease),
    /// The wait limit ends beyond the clock: leave it out to wait without limit. Nothing was sent.
    #[error("a wait of {0:?} ends beyond the clock: leave the limit out to wait without one")]
    Wait(Duration),
    /// A non-reentrant lock is held by this very owner. Nothing was sent; the hold is untouched.
    #[error("lock {name:?} is not reentrant and owner {owner} holds it already: give it back first")]
    AlreadyHeld {
        /// The lock.
        name: String,
        /// The owner.
        owner: Owner,
    },
    /// The owner holds the read lock and asked for the write lock, which would wait for its own read hold without end.
    /// Nothing was sent; the read hold is untouched: give it back first.
    #[error("owner {owner} holds lock {name:?} for reading: it has to give that back before it can write")]
    Upgrade {
        /// The lock.
        name: String,
        /// The owner.
        owner: Owner,
    },
    /// The owner holds the lock as often as the limit allows. Nothing was sent; the holds are untouched.
    #[error("lock {name:?} is held {limit} times by owner {owner}, the limit of `max_holds`")]
    HoldLimit {
        /// The lock.
        name: String,
        /// The owner.
        owner: Owner,
        /// The limit in force.
        limit: u32,
    },
    /// This owner held the lock, and the hold was lost (it expired, or the server lost it). It is not taken again
    /// silently: the owner now holds nothing, and the next call starts anew.
    #[error("owner {owner} lost its hold of lock {name:?} and holds nothing now: stop its work, then lock anew")]
    Lost {
        /// The lock.
        name: String,
        /// The owner.
        owner: Owner,
    },
    /// Too few servers of a red lock can vote: they are silent, or have restarted and may have lost what they granted.
    /// The votes that came are given back. Where there was no answer, the server may have the lock in this owner's name
    /// for a moment.
    #[error("red lock {name:?}: {votes} votes, {needed} are needed; {detail}")]
    NoMajority {
        /// The lock.
        name: String,
        /// How many voted for this owner.
        votes: usize,
        /// How many have to.
        needed: usize,
        /// What the others said.
        detail: String,
    },
    /// Too few replicas had it in time ([`Builder::confirm`](crate::Builder::confirm), or the request's), so it was
    /// given back, to what the owner held before. Where the primary dies now, the key may come back with its successor,
    /// until its lease ends.
    #[error("lock {name:?}: {acked} of {wanted} replicas had it in time: it is given back{}", in_doubt(*.given_back))]
    NotConfirmed {
        /// The lock.
        name: String,
        /// How many replicas had it.
        acked: u32,
        /// How many have to.
        wanted: u32,
        /// Whether the primary said that it is given back. If not it may be held in this owner's name yet: the client
        /// gives it back as soon as it can.
        given_back: bool,
    },
    /// The locks that a multi-lock is made of can't be held together: there are none, or two of them keep each other
    /// out. Nothing was sent but a question.
    #[error("{0}")]
    Members(String),
    /// The server was not asked, did not answer or refused. After [`QueryError::Unreachable`] the lock may be held by
    /// this owner for a moment: the client gives it back as soon as it can, at the latest its lease ends.
    #[error("{0}")]
    Query(#[from] QueryError),
}

impl LockError {
    /// Whether the server may have the lock in this owner's name after this error.
    pub fn may_hold(&self) -> bool {
        self.is_unreachable()
            || matches!(self, Self::AlreadyHeld { .. } | Self::Upgrade { .. } | Self::HoldLimit { .. })
            || matches!(self, Self::NotConfirmed { given_back: false, .. })
    }

    /// Whether the server was silent, or too many of a red lock's servers were: it is worth another try.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Query(QueryError::Unreachable { .. }) | Self::NoMajority { .. })
    }
}

fn in_doubt(given_back: bool) -> &'static str {
    if given_back {
        ""
    } else {
        " (whether that is done is not known)"
    }
}

/// Why work of [`OncePer`](crate::OncePer) was not done, or not to its end. That another process does it is no error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The least is zero, or longer than the most. Nothing was sent.
    #[error(
        "at least {at_least:?} and at most {at_most:?}: the least has to be above zero and no longer than the most"
    )]
    Spans {
        /// What was asked for as the least.
        at_least: Duration,
        /// What was asked for as the most.
        at_most: Duration,
    },
    /// The lock was not taken, so the work did not begin; [`LockError::Lease`] is of `at_most`.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// The work was stopped, or was over too late: it took longer than `at_most`, or the lock was lost before. Somebody
    /// else may do it now.
    #[error("{0}")]
    Lost(#[from] Lost),
}

/// Why a lock was not released.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The owner holds nothing to give back here: it never did, it gave it back, or the hold was lost. Nothing was
    /// changed. A guard's hold is the guard's to give back, not `unlock()`'s.
    #[error("{}", not_held(.name, .owner, *.lost))]
    NotHeld {
        /// The lock.
        name: String,
        /// The owner asked for.
        owner: Owner,
        /// Why the hold that was to be given back was over before. `None`: there was none.
        lost: Option<LostReason>,
    },
    /// The hold is gone, by whom is not known: most likely by this unlock, the answer to which was lost, or else before
    /// it (it expired, or was ended by force). Nothing is left to give back, so there is nothing to try again, and no
    /// reason to fail what was done under the lock: [`Guard::run`](crate::Guard::run) has judged that.
    #[error("owner {owner} holds lock {name:?} no more: an answer was lost, so by whom that was ended is not known")]
    Unconfirmed {
        /// The lock.
        name: String,
        /// The owner asked for.
        owner: Owner,
    },
    /// The limit of `unlock_within` came before the answer. The unlock is on its way: the client goes on with it, and
    /// the hold is no longer renewed, so it ends with its lease at the latest.
    #[error("the unlock of {name:?} was not answered within {limit:?}: it goes on without its caller")]
    OnItsWay {
        /// The lock.
        name: String,
        /// The limit that was given.
        limit: Duration,
    },
    /// The server was not asked, did not answer or refused. After [`QueryError::Name`], [`QueryError::NoRuntime`] and
    /// [`QueryError::InRuntime`] nothing was sent: a bare hold stays held, and a guard's is given back in the
    /// background, as if the guard had been dropped. After all others the hold is no longer renewed: it ends with its
    /// lease, if not with this call.
    #[error("{}", unconfirmed(.0))]
    Query(#[from] QueryError),
    /// A lock that is made of others: more than one of them was not given back, and this is what each said. All were
    /// tried, and those that are not in the list are given back.
    #[error("{} locks were not given back: {}", .0.len(), in_words(.0))]
    Several(Vec<UnlockError>),
}

fn not_held(name: &str, owner: &Owner, lost: Option<LostReason>) -> String {
    match lost {
        Some(LostReason::Released) => format!("the hold of lock {name:?} by owner {owner} was given back before"),
        Some(why) => format!(
            "owner {owner} had lost lock {name:?} before this unlock ({why}): others may have had it while the work \
             went on, check what it did"
        ),
        None => format!(
            "owner {owner} has no bare hold of lock {name:?} to give back: it never locked it, or gave it back; a \
             guard's hold is given back by the guard"
        ),
    }
}

fn unconfirmed(error: &QueryError) -> String {
    match error {
        QueryError::Name(_) | QueryError::NoRuntime | QueryError::InRuntime => error.to_string(),
        _ => format!("an unlock was not confirmed, so its hold ends with its lease at the latest: {error}"),
    }
}

fn in_words(errors: &[UnlockError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl UnlockError {
    /// Whether the server may still have the lock in this owner's name after this error.
    pub fn may_hold(&self) -> bool {
        match self {
            Self::Several(errors) => errors.iter().any(Self::may_hold),
            Self::Query(error) => !matches!(error, QueryError::Name(_) | QueryError::WrongType { .. }),
            Self::OnItsWay { .. } => true,
            Self::NotHeld { .. } | Self::Unconfirmed { .. } => false,
        }
    }

    /// The same, of a hold that was over for this reason.
    pub(crate) fn of_lost(self, why: Option<LostReason>) -> Self {
        match self {
            Self::NotHeld { name, owner, lost } => Self::NotHeld { name, owner, lost: lost.or(why) },
            other => other,
        }
    }

    /// What the members of a lock said that could not be given back. `whole`: what it is called and whose it is, if it
    /// is made of others. If none of `members` was held, it was not.
    pub(crate) fn of(errors: Vec<Self>, members: usize, whole: Option<(&str, &Owner)>) -> Result<(), Self> {
        let not_held = errors.iter().all(|error| matches!(error, Self::NotHeld { .. }));
        let lost = errors.iter().find_map(|error| match error {
            Self::NotHeld { lost, .. } => *lost,
            _ => None,
        });
        match whole {
            Some((name, owner)) if not_held && errors.len() >= members => {
                Err(Self::NotHeld { name: name.to_owned(), owner: owner.clone(), lost })
            }
            _ if errors.len() > 1 => Err(Self::Several(errors)),
            _ => errors.into_iter().next().map_or(Ok(()), Err),
        }
    }
}

/// Why the server was not asked, or gave no answer: what any call can end with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The name can't be used. Nothing was sent.
    #[error("{0}")]
    Name(#[from] NameError),
    /// The key is not what it should be. Nothing was written.
    #[error("key {name:?} is something else, or another kind of lock, semaphore or latch: use another; {detail}")]
    WrongType {
        /// The name.
        name: String,
        /// The server's words.
        detail: String,
    },
    /// Somebody changed this owner's count on the server. Nothing was written.
    #[error("the hold count of lock {name:?} is {found}, which this client did not write: find out who did")]
    Tampered {
        /// The name.
        name: String,
        /// What the server has.
        found: String,
    },
    /// No answer in time.
    #[error("no answer from the server for {name:?}, look at the address and whether it runs: {detail}")]
    Unreachable {
        /// The name.
        name: String,
        /// What was seen last.
        detail: String,
    },
    /// The server refused. Nothing was written.
    #[error("{name:?}: {why}")]
    Refused {
        /// The name.
        name: String,
        /// Why.
        #[source]
        why: Refused,
    },
    /// The client was shut down, or the runtime that it was made on has ended.
    #[error("the client is shut down, or the runtime that it was made on has ended: connect a new one")]
    Closed,
    /// Called outside of a tokio runtime. Nothing was sent.
    #[error("this is not in a tokio runtime: call it from a task, or in `Runtime::block_on`")]
    NoRuntime,
    /// A verb of [`blocking`](crate::blocking) was called in a tokio runtime. Nothing was sent.
    #[error("this would block a thread of a tokio runtime: take the verb that is awaited, of `lockson::Locks`")]
    InRuntime,
}

/// Why a hold could not be verified or its lease not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The hold is lost.
    #[error("{0}")]
    Lost(#[from] Lost),
    /// The lease is too short or too long. Nothing was sent.
    #[error("{0}")]
    Lease(#[from] InvalidLease),
    /// The lease was set, and too few replicas have it: the shorter of the old and the new one is the one to count on.
    #[error("{acked} of {wanted} replicas had the lease in time: count on the shorter of the old and the new one")]
    NotConfirmed {
        /// How many replicas had it.
        acked: u32,
        /// How many have to.
        wanted: u32,
    },
    /// The server did not answer, or refused: the hold is what [`Guard::state`](crate::Guard::state) says.
    #[error("{0}")]
    Query(#[from] QueryError),
}

/// Why a script was not run under a hold, or what became of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The hold is lost. The script did not run.
    #[error("{0}")]
    Lost(#[from] Lost),
    /// A key of the script is not in the lock's slot, so one call can't reach both. Nothing was sent.
    #[error("key {key:?} is not in the slot of the lock: have `{{{tag}}}` in it, as in `{{{tag}}}:{key}`")]
    CrossSlot {
        /// The key.
        key: String,
        /// What it has to have in braces.
        tag: String,
    },
    /// The script ran and raised this error. What it wrote before stays written: the server takes nothing back.
    #[error("the script failed: {0}")]
    Script(String),
    /// No answer in time: it ran once, or it did not. A copy that is still under way runs only within a command timeout
    /// from its sending, and only while the lock is held by this owner. It was not sent again, as a script may not be
    /// run twice: look at what it writes.
    #[error("no answer from the server to a script under lock {name:?}, it may have run: {detail}")]
    Unknown {
        /// The lock.
        name: String,
        /// What was seen last.
        detail: String,
    },
    /// The script did not run: the server did not take it, refused it (it does not compile, a right is missing), or the
    /// key of the lock is not a lock.
    #[error("{0}")]
    Query(#[from] QueryError),
}

/// What went wrong with a semaphore or a latch. `Busy` and `None` mean that there are too few permits; an error never
/// means that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// No permits, or too many at once. Nothing was sent.
    #[error("{asked} is outside 1 to {max}")]
    Count {
        /// What was asked for.
        asked: u64,
        /// The most that can be asked for.
        max: u32,
    },
    /// The lease is too short or too long. Nothing was sent.
    #[error("{0}")]
    Lease(#[from] InvalidLease),
    /// The wait limit ends beyond the clock: leave it out to wait without limit. Nothing was sent.
    #[error("a wait of {0:?} ends beyond the clock: leave the limit out to wait without one")]
    Wait(Duration),
    /// Not all of the permits are held: they expired or were given back. Nothing was changed, but by a guard's release,
    /// which gives back those that are.
    #[error("not all of these permits of {name:?} are held: they expired, or were given back")]
    NotHeld {
        /// The semaphore.
        name: String,
    },
    /// The limit of `release_within` came before the answer. The release is on its way: the client goes on with it.
    #[error("the release of permits of {name:?} was not answered within {limit:?}: it goes on without its caller")]
    OnItsWay {
        /// The semaphore.
        name: String,
        /// The limit that was given.
        limit: Duration,
    },
    /// Too few replicas had it in time ([`Builder::confirm`](crate::Builder::confirm), or the request's). Permits that
    /// were taken are given back; of a lease that was set the shorter of the old and the new one is to be counted on.
    #[error("{name:?}: {acked} of {wanted} replicas had it in time, so it does not count{}", in_doubt(*.given_back))]
    NotConfirmed {
        /// The semaphore.
        name: String,
        /// How many replicas had it.
        acked: u32,
        /// How many have to.
        wanted: u32,
        /// Whether the primary said that the permits are given back. If not that is tried for the outage limit. Of a
        /// lease nothing is given back.
        given_back: bool,
    },
    /// The server was not asked, did not answer or refused. After [`QueryError::Unreachable`] what was asked for is
    /// undone if it was done, as soon as the server answers again, so it may be asked for once more. Setting a number
    /// is not undone, and may be asked for once more too; a release by a guard or by ids is not, and may have been
    /// done.
    #[error("{0}")]
    Query(#[from] QueryError),
}

impl SyncError {
    /// Whether the server was silent: it is worth another try, but for a release by a guard or by ids.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Query(QueryError::Unreachable { .. }))
    }
}

/// An error that passes.
pub(crate) trait Passing {
    /// After how long it is worth another try, for those who wait.
    fn passes_after(&self) -> Option<Duration>;

    /// Whether no server answered.
    fn is_away(&self) -> bool;
}

impl Passing for QueryError {
    fn passes_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { why: Refused::Quarantine(left), .. } => Some(*left),
            _ => None,
        }
    }

    fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

impl Passing for LockError {
    fn passes_after(&self) -> Option<Duration> {
        if let Self::Query(error) = self {
            error.passes_after()
        } else {
            None
        }
    }

    fn is_away(&self) -> bool {
        self.is_unreachable()
    }
}

impl Passing for SyncError {
    fn passes_after(&self) -> Option<Duration> {
        if let Self::Query(error) = self {
            error.passes_after()
        } else {
            None
        }
    }

    fn is_away(&self) -> bool {
        self.is_unreachable()
    }
}

/// tokio's timers panic outside of a runtime.
pub(crate) fn in_runtime() -> Result<(), QueryError> {
    tokio::runtime::Handle::try_current().map(drop).map_err(|_| QueryError::NoRuntime)
}

impl QueryError {
    /// Of a call that was not answered. `closed`: by a client that was being closed, which ends calls too.
    pub(crate) fn of_fault(name: &str, fault: Fault, closed: bool) -> Self {
        let name = name.to_owned();
        match fault {
            Fault::Unreachable(_) if closed => Self::Closed,
            Fault::Unreachable(detail) => Self::Unreachable { name, detail },
            Fault::Refused(why) => Self::Refused { name, why },
        }
    }

    /// Of a call that was not answered within the limit of its verb.
    pub(crate) fn late(name: &str) -> Self {
        Self::Unreachable { name: name.to_owned(), detail: "the limit came before an answer".to_owned() }
    }
}

/// Waits at most this long for a release that goes on by itself once it is polled; `late` says that it does.
pub(crate) async fn within<E: From<QueryError>>(
    limit: Duration,
    late: E,
    release: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    in_runtime()?;
    tokio::time::timeout(limit, release).await.unwrap_or(Err(late))
}

/// A hold is lost: it may be somebody else's now, so the work that it guarded has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hold is lost: {why}")]
#[non_exhaustive]
pub struct Lost {
    /// How that is known.
    pub why: LostReason,
}

/// How a hold is known to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// Its lease, counted from the send instant of its last confirmed renewal, ran out here: the server may hold it on
    /// for a moment, but nobody can promise that.
    Deadline,
    /// The server said that it is gone: it expired, was ended by force, or the server lost its data.
    Server,
    /// This client ended it by force.
    Forced,
    /// It was given back or the client was shut down.
    Released,
    /// The runtime that the client was made on has ended: nobody renews it any more, or can give it back.
    Ended,
}

impl LostReason {
    /// As a label of metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Server => "server",
            Self::Forced => "forced",
            Self::Released => "released",
            Self::Ended => "runtime",
        }
    }
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Deadline => "its lease ran out without a confirmed renewal",
            Self::Server => "the server no longer has it",
            Self::Forced => "it was ended by force",
            Self::Released => "it was given back",
            Self::Ended => "the runtime of its client has ended",
        })
    }
}
