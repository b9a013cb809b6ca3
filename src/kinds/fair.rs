//! The fair lock (Redisson's `getFairLock`) and the non-reentrant one (`getNonReentrantFairLock`): first come, first
//! served, by a queue on the server. Rule 17 of docs/PROTOCOL.md.

use crate::backend::Script;
use crate::base::keys::Key::{Channel, Front, Lock as Key, Queue, Seen, Timeouts, Token};
use crate::error::QueryError;
use crate::kinds::fenced::Fenced;
use crate::kinds::reentrant::REENTRANT;
use crate::locks::lock::Lock;
use crate::locks::traits::{kind, Fenceable, Kind};
use crate::wire::table::{self, script, Table};

/// A script with all that belongs to the queue.
macro_rules! queue_script {
    ($file:literal) => {
        script!($file after "announce" after "fair/begin", [Key, Queue, Timeouts, Seen, Front, Channel])
    };
}

static FAIR: Table = Table {
    name: "fair",
    acquire: queue_script!("fair/acquire"),
    asks: |_, waits| Some(u8::from(waits).to_string()),
    release: queue_script!("fair/release"),
    // The next one may be another process's.
    hand_over: None,
    together: None,
    renew: script!("fair/renew", [Key, Queue, Timeouts]),
    weight: 5,
    settle: queue_script!("fair/settle"),
    extend: queue_script!("fair/extend"),
    force: queue_script!("fair/force"),
    // Its channel is that of the next one alone.
    announces: false,
    queue: Some(table::Queue { refresh: queue_script!("fair/refresh"), leave: queue_script!("fair/leave") }),
    ..REENTRANT
};

static FENCED_FAIR: Table = Table {
    name: "fenced_fair",
    fenced: true,
    acquire: script!("fenced/fence" over "fair/acquire" after "announce" after "fair/begin",
        [Key, Queue, Timeouts, Seen, Front, Token, Channel]),
    ..FAIR
};

static NON_REENTRANT_FAIR: Table = Table { name: "fair_mutex", reentrant: false, ..FAIR };

static FENCED_FAIR_MUTEX: Table = Table { name: "fenced_fair_mutex", reentrant: false, ..FENCED_FAIR };

static PLACE: &Script = queue_script!("fair/place");

kind! {
    /// The kind of [`Locks::fair_lock`](crate::Locks::fair_lock). Every waiter of every process has a place of its own
    /// in a queue on the server, from its first attempt on, and only the first of the queue gets the lock. An owner
    /// that enters again does not queue, and one attempt ([`try_lock`](Lock::try_lock)) succeeds only when nobody
    /// waits. A waiter that is cancelled or at its limit leaves the queue; one that died costs the next 3 s. It costs
    /// more than [`Locks::lock`](crate::Locks::lock): each hand-over is a release, a message and an acquire.
    ///
    /// It is the same lock on the server as [`Locks::lock`](crate::Locks::lock) of that name, whose users do not look
    /// at the queue.
    Fair is FAIR, fenced by FENCED_FAIR
}

kind! {
    /// The kind of [`Locks::fair_mutex`](crate::Locks::fair_mutex): as [`Fair`], but a second acquisition by the owner
    /// is an error at once.
    NonReentrantFair is NON_REENTRANT_FAIR, fenced by FENCED_FAIR_MUTEX
}

/// The kinds that have a queue on the server.
pub trait Queued: Kind {}

impl Queued for Fair {}

impl Queued for NonReentrantFair {}

impl<K: Fenceable + Queued> Queued for Fenced<K> {}

impl<K: Queued> Lock<K> {
    /// How many waiters of all processes are in the queue. One script, which writes nothing.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn queue_len(&self) -> Result<u64, QueryError> {
        let answer = self.query(PLACE).await?;
        Ok(answer.count(0))
    }

    /// How many are before this owner in the queue; `None` when it is not in it. A task that waits can't ask: ask by a
    /// handle that is [`owned_by`](Lock::owned_by) the same owner. One script, which writes nothing and reads the queue
    /// up to there.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn queue_position(&self) -> Result<Option<u64>, QueryError> {
        Ok(self.query(PLACE).await?.known(1))
    }
}
