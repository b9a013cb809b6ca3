//! What a server has, for those who run it: listed, described, and ended by force.

mod description;
mod listing;
mod pattern;
mod server;

use crate::base::keys::Key::{Absent, Ended, Expiries, Lock as Key, Made, Queue, Seen, Token, Writers};
use crate::base::keys::Keys;
use crate::client::factory::Locks;
use crate::error::{QueryError, SyncError};
use crate::presence::{self, Presence};
use crate::wire::table::script;
use crate::Topology;

pub use description::{Description, Permit, Waiter, What};
pub use listing::{Listed, Listing};
pub use server::ServerReport;

/// What [`Admin::force`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// The hold is ended.
    Ended,
    /// The one that was meant holds it no more: it ended, or is somebody else's. Nothing was changed.
    Changed,
}

/// What is on the server, whoever made it: every kind of lock, semaphore and latch, lockson's and Redisson's, but for
/// groups of values. Of [`Locks::admin`]. It goes by what the keys say (type, fields, TTL), and touches nothing but
/// what [`force`](Admin::force) is told to end.
///
/// A user of its own needs `+@read +pubsub` and `~*`, or what is to be seen, and to connect the rights of a lock for
/// names that begin with `lockson:preflight`; to end holds, what locks need: `docs/lockson.acl` has both.
#[derive(Debug, Clone)]
pub struct Admin {
    locks: Locks,
}

impl Locks {
    /// Sees what is on the server, and ends holds by force: see [`Admin`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut listing = locks.admin().list("orders:*");
    /// while let Some(page) = listing.next().await? {
    ///     for found in page {
    ///         println!("{} {} {:?}", found.name, found.what, found.ttl);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn admin(&self) -> Admin {
        Admin { locks: self.clone() }
    }
}

impl Admin {
    /// All locks, semaphores and latches that there are under names like this, as in Redis's `KEYS`: `*`, `?`, `[a-c]`,
    /// `[^a]` and `\`. Names are without the client's prefix, and as its mapper makes them.
    ///
    /// Every node that has keys is asked, for about forty keys in one script, so that no server stands still. What
    /// comes, goes or moves to another node meanwhile may be missing or come twice, as with `SCAN`.
    pub fn list(&self, pattern: &str) -> Listing {
        Listing::new(self.locks.engine().clone(), pattern)
    }

    /// What is under a name, who holds it and who waits: of very many the first hundred. One script, which writes
    /// nothing.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let found = locks.admin().describe("orders:42").await?;
    /// for holder in &found.holders {
    ///     println!("{} of {} has it, for {:?}", holder.owner, holder.client, holder.ttl);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`QueryError`]; [`QueryError::Unreachable`] after three command timeouts. A key of another type is none: it is
    /// [`What::Foreign`].
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn describe(&self, name: &str) -> Result<Description, QueryError> {
        let script = script!("admin/describe" after "read_write" after "admin/what",
            [Key, Token, Queue, Seen, Writers, Expiries, Made, Ended, Absent]);
        let (engine, keys) = (self.locks.engine(), self.locks.keys(name)?);
        let families: [fn(Keys) -> Keys; 5] =
            [|keys| keys, Keys::of_read_write, Keys::of_plain, Keys::of_semaphore, Keys::of_latch];
        let channels = families.map(|family| self.locks.keys(name).map(|keys| family(keys).channel));
        let channels = channels.into_iter().collect::<Result<Vec<_>, _>>()?;
        // Messages of a cluster have a slot.
        let count = if engine.wire.backend.topology() == Topology::Cluster { "SHARDNUMSUB" } else { "NUMSUB" };
        let args: Vec<&str> = std::iter::once(count).chain(channels.iter().map(|channel| &**channel)).collect();
        let answer = engine.ask(name, script, &keys.of(script.keys), &args).await?;
        Description::read(name, &answer)
    }

    /// Ends a hold, if `holder` has it yet: [`Holder::field`](crate::Holder::field) of the one that was seen, for a
    /// plain lock [`Description::token_of_hold`], for an expirable semaphore the id of a permit. Of a lock that is held
    /// more than once it ends all of that; others' holds of a read lock stay. The holder is not asked: as
    /// [`Lock::force_unlock`](crate::Lock::force_unlock).
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let admin = locks.admin();
    /// if let Some(dead) = admin.describe("orders:42").await?.holders.first() {
    ///     admin.force("orders:42", dead.field()).await?; // not of whoever has got it since
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`QueryError::WrongType`] of what nobody holds by a name: a semaphore, a latch, a foreign key. Else as
    /// [`describe`](Admin::describe)'s.
    ///
    /// # Cancel safety
    /// Dropped half-way, it may or may not happen.
    pub async fn force(&self, name: &str, holder: &str) -> Result<Forced, QueryError> {
        let found = self.describe(name).await?;
        if holder.is_empty() {
            return Ok(Forced::Changed);
        }
        let ended = match found.what {
            What::Free => false,
            // Who waits by a queue hears of it by its own script.
            What::Fair => self.locks.fair_lock(name).force_unlock_if(holder).await?,
            What::Lock => self.locks.lock(name).force_unlock_if(holder).await?,
            What::Read | What::Write if found.writes(holder) => {
                self.locks.read_write_lock(name).write().force_unlock_if(holder).await?
            }
            What::Read | What::Write => self.locks.read_write_lock(name).read().force_unlock_if(holder).await?,
            What::Plain => self.locks.plain_lock(name).force(holder).await?,
            What::PermitSemaphore => return self.end_permit(name, holder).await,
            What::Semaphore | What::Latch | What::Number | What::Foreign => {
                let detail = format!("nobody can be made to let go of it: {}", found.what);
                return Err(QueryError::WrongType { name: name.to_owned(), detail });
            }
        };
        Ok(if ended { Forced::Ended } else { Forced::Changed })
    }

    /// What each server that has keys says of itself, by address.
    ///
    /// # Errors
    /// As [`describe`](Admin::describe)'s, of the first that did not answer; so is its cancel safety.
    pub async fn servers(&self) -> Result<Vec<ServerReport>, QueryError> {
        let (engine, mut reports) = (self.locks.engine(), Vec::new());
        for node in engine.nodes()? {
            reports.push(ServerReport::of(engine, &node).await?);
        }
        reports.sort_by(|one, other| one.address.cmp(&other.address));
        Ok(reports)
    }

    /// What a client says of itself: on which machine and in which process it runs, and what it has held for how long.
    /// `None`: it says nothing, as clients do that have no [`presence`](crate::Builder::presence) and those of
    /// Redisson, or it is gone.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let admin = locks.admin();
    /// for holder in admin.describe("orders:42").await?.holders {
    ///     if let Some(client) = admin.client(&holder.client).await? {
    ///         println!("{} of {}, for {:?}", client.pid, client.host, client.held("orders:42", &holder));
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`describe`](Admin::describe)'s; so is its cancel safety.
    pub async fn client(&self, client_id: &str) -> Result<Option<Presence>, QueryError> {
        presence::ask(self.locks.engine(), client_id).await
    }

    async fn end_permit(&self, name: &str, id: &str) -> Result<Forced, QueryError> {
        let Ok(id) = id.parse() else { return Ok(Forced::Changed) };
        match self.locks.permit_semaphore(name).release(&[id]).await {
            Ok(()) => Ok(Forced::Ended),
            Err(SyncError::Query(error)) => Err(error),
            Err(_) => Ok(Forced::Changed),
        }
    }
}
