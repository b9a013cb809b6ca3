//! Fencing: every hold has a token that rises (Redisson's `getFencedLock`, here of every exclusive kind). Rule 19 of
//! docs/PROTOCOL.md.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Script;
use crate::base::keys::Key::Lock as Key;
use crate::compose::held::Held;
use crate::error::{LockError, Lost, LostReason, RunError, UnlockError};
use crate::hold::ticket::Ticket;
use crate::kinds::reentrant::Reentrant;
use crate::locks::any::RLock;
use crate::locks::guard::{Guard, Guards};
use crate::locks::lock::Lock;
use crate::locks::multi::MultiLock;
use crate::locks::traits::{Fenceable, Kind, Owned};
use crate::wire::reply::Reply;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::Fault;
use crate::wire::table::{script, Table};

/// The kind `K` with a token for every hold: of [`Lock::fenced`] and [`Locks::fenced_lock`](crate::Locks::fenced_lock).
/// On the server it is the same lock, and beside it the last token that was given; the holds of those who take it
/// without a token have none.
///
/// [`Plain`](crate::kind::Plain) locks have no [`fenced`](Lock::fenced), as their token is not ordered, and
/// [`RedLock`](crate::RedLock)s take no lock that has one, as votes have none:
///
/// ```compile_fail
/// # fn f(locks: lockson::Locks) {
/// locks.plain_lock("x").fenced();
/// # }
/// ```
/// ```compile_fail
/// # fn f(locks: lockson::Locks) {
/// lockson::RedLock::new([locks.lock("x").fenced()]);
/// # }
/// ```
/// ```compile_fail
/// # fn f(locks: lockson::Locks) {
/// lockson::MultiLock::fenced([locks.lock("x")]);
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Fenced<K = Reentrant>(PhantomData<fn() -> K>);

impl<K: Fenceable> Kind for Fenced<K> {
    const TABLE: &'static Table = K::FENCED;
    type Guard = FencedGuard;
}

impl<K: Fenceable> Owned for Fenced<K> {}

impl<K: Fenceable> Lock<K> {
    /// The same lock, of which every hold has a token that rises: see [`FencedGuard`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), lockson::LockError> {
    /// let guard = locks.read_write_lock("config").write().fenced().guard().await?;
    /// println!("whatever was written with less than {} is older", guard.token());
    /// # Ok(()) }
    /// ```
    pub fn fenced(&self) -> Lock<Fenced<K>> {
        self.as_kind()
    }
}

impl<K: Fenceable> Lock<Fenced<K>> {
    /// [`lock`](Lock::lock), and the token of the hold. A re-entry has the token of its hold: with a higher one, the
    /// inner section would fence its own outer one out.
    ///
    /// ```
    /// # async fn f(lock: lockson::FencedLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let token = lock.lock_and_get_token().await?;
    /// println!("refuse what is written with less than {token}");
    /// lock.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`lock`](Lock::lock)'s; so is its cancel safety.
    pub async fn lock_and_get_token(&self) -> Result<u64, LockError> {
        let ticket = self.hold().await?;
        let token = ticket.hold.token();
        ticket.keep_bare();
        Ok(token)
    }
}

/// The locks whose every hold has a token, as [`MultiLock::fenced`] takes them: [`Lock<Fenced<K>>`](Fenced) and what it
/// returns itself. Sealed, as [`RLock`] is.
pub trait Fencing: RLock {}

impl<K: Fenceable> Fencing for Lock<Fenced<K>> {}

impl Fencing for MultiLock<FencedGuards> {}

impl MultiLock<FencedGuards> {
    /// Of these locks, each of which has a token for every hold. The guard knows them all:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use lockson::kind::Fencing;
    /// use lockson::MultiLock;
    /// # async fn f(locks: lockson::Locks) -> Result<(), lockson::LockError> {
    /// let both = MultiLock::fenced([locks.lock("account:1").fenced(), locks.lock("account:2").fenced()]);
    /// let guard = both.guard().await?;
    /// for (name, token) in guard.tokens() {
    ///     println!("write {name} with {token}");
    /// }
    /// let of_any_kind: Vec<Arc<dyn Fencing>> = vec![locks.fair_lock("queue").fenced().into(), both.into()];
    /// let all = MultiLock::fenced(of_any_kind);
    /// # Ok(()) }
    /// ```
    pub fn fenced(locks: impl IntoIterator<Item = impl Into<Arc<dyn Fencing>>>) -> Self {
        Self::over(locks.into_iter().map(|lock| -> Arc<dyn RLock> { lock.into() }).collect())
    }
}

impl<K: Fenceable> From<Lock<Fenced<K>>> for Arc<dyn Fencing> {
    fn from(lock: Lock<Fenced<K>>) -> Self {
        Arc::new(lock)
    }
}

impl From<MultiLock<FencedGuards>> for Arc<dyn Fencing> {
    fn from(lock: MultiLock<FencedGuards>) -> Self {
        Arc::new(lock)
    }
}

/// A [`Guard`] with a fencing token: what it guards should refuse a token lower than the highest that it has seen, as a
/// database does by `UPDATE .. WHERE token <= ?` (`services/fenced_storage.rs`). To look at the guard first and write
/// then is not enough: the process may be paused in between.
///
/// The token is at least the server's time in microseconds, so that it rises over a loss of the server's data too, as
/// long as the new clock is not behind by more than the outage and no Java client (which counts from 1) takes the lock
/// first.
///
/// A multi-lock's guard has one for each of its members: [`FencedGuards`].
#[must_use = "what is locked is released when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct FencedGuard<const MANY: bool = false>(Guard);

/// The guard of [`MultiLock::fenced`]: each of its members has a token of its own.
pub type FencedGuards = FencedGuard<true>;

impl<const MANY: bool> Guards for FencedGuard<MANY> {
    fn of(held: Held) -> Self {
        Self(Guard::of(held))
    }
}

impl<const MANY: bool> FencedGuard<MANY> {
    fn holds(&self) -> impl Iterator<Item = FencedHold<'_>> {
        self.0.held.parts().map(|held| FencedHold(held.ticket()))
    }

    /// See [`Guard::unlock`].
    ///
    /// # Errors
    /// As [`Guard::unlock`]'s; so is its cancel safety.
    pub async fn unlock(self) -> Result<(), UnlockError> {
        self.0.unlock().await
    }

    /// See [`Guard::unlock_within`].
    ///
    /// # Errors
    /// As [`Guard::unlock_within`]'s; so is its cancel safety.
    pub async fn unlock_within(self, limit: Duration) -> Result<(), UnlockError> {
        self.0.unlock_within(limit).await
    }
}

impl<const MANY: bool> Deref for FencedGuard<MANY> {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl<const MANY: bool> fmt::Debug for FencedGuard<MANY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens: Vec<_> = self.holds().map(|hold| hold.token()).collect();
        f.debug_struct("FencedGuard").field("guard", &self.0).field("tokens", &tokens).finish()
    }
}

impl FencedGuard {
    fn hold(&self) -> FencedHold<'_> {
        FencedHold(self.0.held.ticket())
    }

    /// The token of this hold.
    pub fn token(&self) -> u64 {
        self.hold().token()
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
    /// [`RunError::Lost`], [`RunError::CrossSlot`] and [`RunError::Query`]: it did not run. [`RunError::Script`]: it
    /// ran, and raised an error. [`RunError::Unknown`]: the answer was lost, or has more than 128 lists inside of each
    /// other. It was sent once, so it ran once or not at all. It is not sent later than three command timeouts from the
    /// call.
    ///
    /// # Cancel safety
    /// Dropped half-way, it may or may not run.
    pub async fn run_if_held(&self, script: &str, keys: &[&str], args: &[&str]) -> Result<Reply, RunError> {
        self.hold().run_if_held(script, keys, args).await
    }
}

impl FencedGuards {
    /// Its members, each lock once, in the order in which every client takes them.
    pub fn members(&self) -> impl Iterator<Item = FencedHold<'_>> {
        self.holds()
    }

    /// The name and the token of each member, as [`members`](Self::members). Two of one name are on two servers.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, u64)> {
        self.members().map(|member| (member.name(), member.token()))
    }
}

/// One hold with a token, as a guard has it.
#[derive(Clone, Copy)]
pub struct FencedHold<'a>(&'a Ticket);

impl<'a> FencedHold<'a> {
    /// The name of the lock, without the client's prefix.
    pub fn name(&self) -> &'a str {
        &self.0.hold.entry.line.keys.name
    }

    /// The token of this hold.
    pub fn token(&self) -> u64 {
        self.0.hold.token()
    }

    /// [`FencedGuard::run_if_held`] on the server of this member, while this member is held there: of the others, which
    /// may be on other servers, nothing is asked.
    ///
    /// # Errors
    /// As [`FencedGuard::run_if_held`]'s; so is its cancel safety.
    pub async fn run_if_held(&self, script: &str, keys: &[&str], args: &[&str]) -> Result<Reply, RunError> {
        let of = &self.0.hold.entry.line.keys;
        if let Some(key) = keys.iter().find(|key| !of.share_slot(key)) {
            return Err(RunError::CrossSlot { key: (*key).to_owned(), tag: of.tag().to_owned() });
        }
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let mut all = vec![self.token().to_string(), script.to_owned()];
        all.extend(owned(args));
        let answer = self.0.run_script(script!("fenced/run", [Key]), owned(keys), all).await?;
        let name = of.name.to_string();
        let unread = || RunError::Unknown { name, detail: "its value is not run.lua's, or too deep".to_owned() };
        Reply::read(answer.items()).ok_or_else(unread)?.map_err(RunError::Script)
    }
}

impl fmt::Debug for FencedHold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedHold").field("name", &self.name()).field("token", &self.token()).finish()
    }
}

impl Ticket {
    /// Runs a script that looks for this owner's field first: its answer, if it ran. It is sent once, as nobody knows
    /// whether it may run twice.
    async fn run_script(
        &self,
        script: &'static Script,
        mut keys: Vec<String>,
        mut args: Vec<String>,
    ) -> Result<Answer, RunError> {
        let Self { engine, hold, .. } = self;
        let entry = &hold.entry;
        hold.leased.check(engine.now())?;
        engine.ready()?;
        let name = entry.line.keys.name.to_string();
        keys.splice(..0, entry.line.keys.of(script.keys).into_iter().map(str::to_owned));
        args.insert(0, entry.field.to_string());
        let (to, patience) =
            (engine.clone(), engine.patience().until(engine.now().after(engine.look_limit())).one_copy());
        // Carried, so that its answer is read even if nobody waits for it any more.
        let work = engine.janitor.carry(|abandoned| async move {
            let [keys, args] = [&keys, &args].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
            to.wire.call(script, &keys, &args, &patience.unless(abandoned)).await
        });
        let called = work.await;
        if let (Err(Fault::Unreachable(detail)), false) = (&called.result, called.doubt.is_empty()) {
            return Err(RunError::Unknown { name, detail: detail.clone() });
        }
        let answer = Answer::of(called.result, &name, engine.is_closing())?;
        match answer.status {
            Status::Done => Ok(answer),
            _ => {
                self.refused();
                Err(Lost { why: LostReason::Server }.into())
            }
        }
    }
}
