//! The handle of a lock, and its verbs.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::FutureExt;

use crate::backend::Script;
use crate::base::config::InvalidLease;
use crate::base::owner::{current_field, field, InvalidOwner, Owner};
use crate::compose::held::Held;
use crate::engine::{Engine, Session};
use crate::error::{LockError, LostReason, QueryError, UnlockError};
use crate::events::Event;
use crate::hold::attempt::Wish;
use crate::hold::entry::{Hold, Line};
use crate::hold::release::release;
use crate::hold::run::show;
use crate::hold::ticket::Ticket;
use crate::lease::validity::Lease;
use crate::locks::acquire::acquire;
use crate::locks::any::sealed::Sealed;
use crate::locks::any::{Acquire, Leaf, Member, RLock};
use crate::locks::guard::Guards;
use crate::locks::traits::{Kind, Owned};
use crate::spans::{acquiring, releasing};
use crate::waiting::backoff::Backoff;
use crate::waiting::request::Request;
use crate::waiting::wait::AcquireOutcome;
use crate::wire::reply::{Answer, Status};
use crate::wire::table::Role;

/// Owners that a log line names.
const MOST_TOLD: usize = 10;

/// Holds of this client that it is about to end by force: what is heard of them meanwhile is that.
struct Forcing(Vec<Arc<Hold>>);

impl Forcing {
    /// (While nobody takes a turn: who gives one on at this moment sees it behind that.)
    fn new(line: &Line, is_meant: impl Fn(&Arc<Hold>) -> bool) -> Self {
        let turns = line.turns.lock();
        let holds: Vec<_> = turns.holds().into_iter().filter(is_meant).collect();
        holds.iter().for_each(|hold| hold.forced.store(true, Ordering::Release));
        Self(holds)
    }
}

impl Drop for Forcing {
    fn drop(&mut self) {
        self.0.iter().for_each(|hold| hold.forced.store(false, Ordering::Release));
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The client that took it.
    pub client: String,
    /// The owner within that client. `run-` and a number, while another client hands the lock on from task to task: who
    /// has it longer than some milliseconds is named.
    pub owner: Owner,
    /// How many times it is held.
    pub count: u64,
    /// What is left of the lease on the server; `None` when somebody took its lease away.
    pub ttl: Option<Duration>,
    field: String,
}

impl Holder {
    /// Of a field of the server's; `None`: nobody's is so.
    pub(crate) fn of(field: &str, count: Option<u64>, ttl: Option<Duration>) -> Option<Self> {
        let (client, owner) = field.split_once(':')?;
        let (client, owner) = (client.to_owned(), Owner::of_field(owner).ok()?);
        Some(Self { client, owner, count: count?, ttl, field: field.to_owned() })
    }

    /// The owner as the server has it, for [`Lock::force_unlock_if`].
    pub fn field(&self) -> &str {
        &self.field
    }
}

/// A handle of one lock: cheap, `Clone`, `Send`, `Sync`. [`Locks::lock`](crate::Locks::lock) and its like make it; a
/// bad name is the error of its first verb.
#[derive(Clone)]
pub struct Lock<K: Kind> {
    pub(crate) session: Arc<Session>,
    name: Arc<str>,
    line: Result<Arc<Line>, Box<QueryError>>,
    owner: Option<Owner>,
    transaction: Option<Owner>,
    backoff: Option<Arc<Backoff>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("kind", &K::TABLE.name)
            .field("name", &self.name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl<K: Kind> Lock<K> {
    pub(crate) fn new(session: Arc<Session>, name: &str, line: Result<Arc<Line>, QueryError>) -> Self {
        // Where names are mapped, the line may have another one.
        let shared = line.as_ref().ok().map(|line| &line.keys.name).filter(|known| ***known == *name);
        let name = shared.cloned().unwrap_or_else(|| name.into());
        let line = line.map_err(Box::new);
        Self { session, name, line, owner: None, transaction: None, backoff: None, kind: PhantomData }
    }

    /// The same handle as one of another kind.
    pub(crate) fn as_kind<L: Kind>(&self) -> Lock<L> {
        Lock {
            session: self.session.clone(),
            name: self.name.clone(),
            line: self.line.clone(),
            owner: self.owner.clone(),
            transaction: self.transaction.clone(),
            backoff: self.backoff.clone(),
            kind: PhantomData,
        }
    }

    pub(crate) fn spinning(self, backoff: Backoff) -> Self {
        Self { backoff: Some(Arc::new(backoff)), ..self }
    }

    /// The name, without the client's prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same lock for another owner, in place of the scope, task or thread that calls.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// use lockson::Owner;
    /// let request = Owner::named("request-17")?;
    /// lock.owned_by(&request).lock().await?; // in one task
    /// lock.owned_by(&request).unlock().await?; // in another
    /// # Ok(()) }
    /// ```
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { owner: Some(owner.clone()), ..self.clone() }
    }

    /// Waits until the lock is held. It is a bare hold: renewed until [`unlock`](Lock::unlock),
    /// [`Locks::shutdown`](crate::Locks::shutdown) or `max_hold`, even if this task ends. A [`guard`](Lock::guard) ends
    /// with its scope.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// lock.lock().await?;
    /// // nobody else has it
    /// lock.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Never that it is busy. Before anything is sent: [`Name`](QueryError::Name), [`Closed`](QueryError::Closed),
    /// [`NoRuntime`](QueryError::NoRuntime), and of this owner's own hold [`AlreadyHeld`](LockError::AlreadyHeld)
    /// (kinds that can't be entered again), [`Upgrade`](LockError::Upgrade) (a writer that reads),
    /// [`HoldLimit`](LockError::HoldLimit) and [`Lost`](LockError::Lost). Where replicas confirm a grant,
    /// [`NotConfirmed`](LockError::NotConfirmed). From the server: [`WrongType`](QueryError::WrongType),
    /// [`Tampered`](QueryError::Tampered), [`Refused`](QueryError::Refused), and
    /// [`Unreachable`](QueryError::Unreachable) when it was silent for the outage limit.
    ///
    /// # Cancel safety
    /// Dropped at any point it leaves nothing: what it took is given back.
    pub async fn lock(&self) -> Result<(), LockError> {
        self.hold().await.map(|ticket| ticket.keep_bare())
    }

    pub(crate) async fn hold(&self) -> Result<Ticket, LockError> {
        // Without a limit it is busy until it is held.
        loop {
            if let Some(ticket) = self.contend(Request::UNLIMITED).await? {
                return Ok(ticket);
            }
        }
    }

    /// One attempt: `Busy` when another owner has it. A bare hold, as [`lock`](Lock::lock)'s.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// if lock.try_lock().await?.is_acquired() {
    ///     lock.unlock().await?;
    /// } else {
    ///     println!("busy");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`lock`](Lock::lock)'s, but [`Unreachable`](QueryError::Unreachable) after three command timeouts. Its cancel
    /// safety is the same.
    pub async fn try_lock(&self) -> Result<AcquireOutcome, LockError> {
        let ticket = self.contend(&Request::one_attempt()).await?;
        Ok(AcquireOutcome::of(ticket.map(|ticket| ticket.keep_bare())))
    }

    /// Begins a request with a wait limit, a lease, or a guard at its end:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), lockson::LockError> {
    /// if lock.acquire().wait(Duration::from_secs(5)).lease(Duration::from_secs(60)).await?.is_acquired() {
    ///     // a bare hold of at most a minute
    /// }
    /// if let Some(guard) = lock.acquire().wait(Duration::from_secs(5)).guard().await? {
    ///     // a guard, renewed
    /// #   drop(guard);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self) -> Acquire<'_, K::Guard> {
        Acquire::new(self)
    }

    /// Waits until the lock is held, by a guard that gives it back when it is dropped.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = lock.guard().await?;
    /// guard.run(async { /* stopped if the hold is lost */ }).await?;
    /// guard.unlock().await?; // or drop it
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`lock`](Lock::lock)'s; so is its cancel safety.
    pub async fn guard(&self) -> Result<K::Guard, LockError> {
        Ok(K::Guard::of(Held::One(self.hold().await?, self.session.clone())))
    }

    /// Gives one bare hold of this owner back.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// lock.lock().await?;
    /// if let Err(error) = lock.unlock().await {
    ///     println!("{error}"); // what was done is done; `error.may_hold()`: others may have to wait for the lease
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`UnlockError::NotHeld`] when this owner has no bare hold, and nothing is changed: guards are given back by
    /// their guards. [`UnlockError::Unconfirmed`] when the hold is gone, by whom is not known, as the answer to an
    /// earlier copy was lost. [`QueryError::Unreachable`] when the server was silent for the outage limit.
    ///
    /// # Cancel safety
    /// Once polled, the unlock is carried out even if the future is dropped.
    pub async fn unlock(&self) -> Result<(), UnlockError> {
        let line = self.line()?;
        let engine = self.engine();
        engine.can_release()?;
        let entry = line.entry(&self.field());
        if entry.count() == 0 {
            return Err(crate::hold::release::not_held(engine, &entry));
        }
        let work = release(engine.clone(), entry.clone(), None, engine.settings.outage_limit).boxed();
        engine.janitor.carry_out(releasing([&line.keys.name, &entry.field], work)).await
    }

    /// [`unlock`](Lock::unlock), but it waits for the server at most this long. Zero sends it and does not wait.
    ///
    /// # Errors
    /// [`UnlockError::OnItsWay`] at the limit: the client goes on with it. Else as [`unlock`](Lock::unlock)'s. Its
    /// cancel safety is the same.
    pub async fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
        RLock::unlock_within(self, limit).await
    }

    /// Whether the server has the lock in this owner's name. One script, which writes nothing; where this client has it
    /// by a turn without a script, another one before it puts the owner's name there.
    ///
    /// # Errors
    /// [`QueryError`]; [`QueryError::Unreachable`] after three command timeouts, or as many more for that name.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn is_held(&self) -> Result<bool, QueryError> {
        let line = self.line()?;
        let entry = line.entry(&self.field());
        let hold = entry.hold();
        if let Some(hold) = &hold {
            show(self.engine(), hold.clone()).await;
        }
        let mark = hold.map_or(entry.field.clone(), |hold| hold.leased.mark().clone());
        let answer = self.inspect(&line, &mark, "0").await?;
        let held = fields(&answer).any(|(_, field)| *field == *mark);
        Ok(held)
    }

    /// Whether anybody holds the lock.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn is_locked(&self) -> Result<bool, QueryError> {
        let line = self.line()?;
        Ok(self.inspect(&line, "", "0").await?.status == Status::Done)
    }

    /// What is left of the holder's lease on the server; `None` when the lock is free, or its key has no lease.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn remaining_ttl(&self) -> Result<Option<Duration>, QueryError> {
        let line = self.line()?;
        Ok(self.inspect(&line, "", "0").await?.millis(0))
    }

    /// Ends whatever hold there is, of any owner of any client. `true` when there was one. The holder is not asked. A
    /// hold of this client is lost at once ([`LostReason::Forced`]). Another client's is when it hears the message, as
    /// it does while somebody waits there, or at its next renewal; until then only a fencing token protects what it
    /// does. Not answered in time, it is sent again, and ends whatever hold there is by then: also one that came next.
    ///
    /// # Errors
    /// [`QueryError`]; [`QueryError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Dropped half-way, it may or may not happen.
    pub async fn force_unlock(&self) -> Result<bool, QueryError> {
        self.force("").await
    }

    /// Who holds it, or only whether `field` does: of very many some, from a place on that an earlier answer told.
    async fn inspect(&self, line: &Line, field: &str, place: &str) -> Result<Answer, QueryError> {
        let mut answer = self.ask(line, K::TABLE.inspect, &[field, place]).await?;
        // All that it looked at were dead.
        while let Some(next) = next_place(&answer).filter(|_| answer.items().len() == 2).map(str::to_owned) {
            answer = self.ask(line, K::TABLE.inspect, &[field, &next]).await?;
        }
        Ok(answer)
    }

    pub(crate) async fn force(&self, field: &str) -> Result<bool, QueryError> {
        let line = self.line()?;
        if !field.is_empty() {
            self.show(&line).await;
        }
        // What is taken behind this call is not meant.
        let is_meant =
            |hold: &Arc<Hold>| hold.kind.role == K::TABLE.role && (field.is_empty() || **hold.leased.mark() == *field);
        let mut forcing = Forcing::new(&line, is_meant);
        let answer = self.ask(&line, K::TABLE.force, &[field]).await?;
        let ended = answer.status == Status::Done;
        if ended {
            // Meanwhile others here may have got what was one of them on the server.
            let is_one = |hold: &Arc<Hold>| forcing.0.iter().any(|one| one.leased.is_of_run(&hold.leased));
            line.forced.store(self.engine().now().nanos() + 1, Ordering::Release);
            let turns = line.turns.lock();
            let (ended, others): (Vec<_>, Vec<_>) = turns.holds().into_iter().partition(is_one);
            // One that is on its way back may go on to the next at this moment, who is not in the list: it is told.
            ended.iter().for_each(|hold| hold.forced.store(true, Ordering::Release));
            drop(turns);
            for hold in forcing.0.iter().chain(&ended) {
                hold.lose(self.engine(), LostReason::Forced);
            }
            // They stay so, for whoever gets one of them at this moment.
            forcing.0.clear();
            // Granted before, and heard of only now, it was ended too.
            others.iter().filter(|hold| is_meant(hold)).for_each(|hold| hold.look(self.engine()));
            // A plain lock's owner is known to its client alone.
            let owners: Vec<&str> = (1..).map_while(|at| answer.text(at)).collect();
            let (name, holds) = (self.name.to_string(), owners.len().max(1));
            let owners = owners.into_iter().take(MOST_TOLD).map(str::to_owned).collect();
            self.engine().herald.tell(Event::Forced { name, owners, holds });
        }
        Ok(ended)
    }

    /// The holders of this client are on the server by their own names, as far as that can be.
    async fn show(&self, line: &Line) {
        for hold in line.holds() {
            show(self.engine(), hold).await;
        }
    }

    /// A question of a kind's own.
    pub(crate) async fn query(&self, script: &'static Script) -> Result<Answer, QueryError> {
        let (line, field) = (self.line()?, self.field());
        self.ask(&line, script, &[&field]).await
    }

    async fn ask(&self, line: &Line, script: &'static Script, args: &[&str]) -> Result<Answer, QueryError> {
        self.engine().ask(&self.name, script, &line.keys.of(script.keys), args).await
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.session.engine
    }

    pub(crate) fn line(&self) -> Result<Arc<Line>, QueryError> {
        self.line.clone().map_err(|why| *why)
    }

    /// The same lock, for whoever is the owner now.
    pub(crate) fn of_caller(&self) -> Self {
        self.owned_by(&self.owner.clone().unwrap_or_else(Owner::current))
    }

    pub(crate) fn field(&self) -> Arc<str> {
        self.field_as(K::TABLE.role)
    }

    fn field_as(&self, role: Role) -> Arc<str> {
        let is_plain = self.transaction.is_none() && role != Role::Write;
        let owner = match &self.owner {
            None if is_plain => return current_field(&self.engine().client_id),
            owner => owner.clone().unwrap_or_else(Owner::current),
        };
        let owner = if role == Role::Write { owner.as_writer() } else { owner };
        match &self.transaction {
            Some(id) => field(&self.engine().client_id, &owner.within(id)),
            None => field(&self.engine().client_id, &owner),
        }
    }

    async fn contend(&self, request: &Request) -> Result<Option<Ticket>, LockError> {
        let line = self.line()?;
        let (engine, field, attempts) = (self.engine(), self.field(), AtomicU32::new(0));
        let acquisition = async {
            engine.ready()?;
            let wish = Arc::new(self.wish(&line, &field, request, None)?);
            acquire(wish, request, &attempts).await
        };
        acquiring(K::TABLE.name, [&self.name, &field], &line.keys.class, engine.wire.clock, &attempts, acquisition)
            .await
    }

    /// What is asked for as this owner, with the kind's acquire script or in place of it with one that votes.
    pub(crate) fn wish(
        &self,
        line: &Arc<Line>,
        field: &Arc<str>,
        request: &Request,
        vote: Option<&'static Script>,
    ) -> Result<Wish, InvalidLease> {
        let engine = self.engine();
        Ok(Wish {
            engine: engine.clone(),
            kind: K::TABLE,
            entry: line.entry(field),
            sibling: K::TABLE.role.sibling().map(|role| line.entry(&self.field_as(role))),
            lease: request.leases(engine)?,
            confirm: request.confirmation(engine),
            backoff: self.backoff.clone(),
            vote,
            began: engine.now(),
            learn: |_, _| (),
        })
    }
}

impl<K: Owned> Lock<K> {
    /// The same lock within a transaction: its owner has `:<id>` appended, as Redisson's transactions have, so that two
    /// transactions of one task exclude each other. Whoever is the owner when the lock is used, the transaction goes
    /// with it.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let bucket = lock.in_transaction("transfer-17")?;
    /// bucket.lock().await?;
    /// bucket.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`InvalidOwner`] for an id that no owner may have.
    pub fn in_transaction(&self, id: &str) -> Result<Self, InvalidOwner> {
        let transaction = Some(if id.contains(':') { Err(InvalidOwner) } else { id.parse() }?);
        Ok(Self { transaction, ..self.clone() })
    }

    /// How many times this owner holds the lock, on the server.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn hold_count(&self) -> Result<u64, QueryError> {
        let field = self.field();
        let holders = self.ask_holders(&field).await?;
        Ok(holders.iter().find(|holder| holder.field == *field).map_or(0, |holder| holder.count))
    }

    /// Who holds the lock, if anybody does. Its scripts are as [`is_held`](Lock::is_held)'s.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(holder) = lock.holder().await? {
    ///     println!("{} of {} has it, for {:?}", holder.owner, holder.client, holder.ttl);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn holder(&self) -> Result<Option<Holder>, QueryError> {
        Ok(self.ask_holders("").await?.into_iter().next())
    }

    /// All who hold it: of a read lock more than one may, of which [`holder`](Lock::holder) is any. It takes one
    /// script, which writes nothing, for each hundred or so: of those who come or go meanwhile some may be missing.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn holders(&self) -> Result<Vec<Holder>, QueryError> {
        let line = self.line()?;
        self.show(&line).await;
        let (mut holders, mut place) = (Vec::new(), Some("0".to_owned()));
        while let Some(from) = place {
            let answer = self.inspect(&line, "", &from).await?;
            holders.extend(self.holders_of(&answer)?);
            place = next_place(&answer).map(str::to_owned);
        }
        // HSCAN may show one twice.
        let mut seen = HashSet::new();
        holders.retain(|holder| seen.insert(holder.field.clone()));
        Ok(holders)
    }

    /// Those who hold it, or only one field: of very many some.
    async fn ask_holders(&self, field: &str) -> Result<Vec<Holder>, QueryError> {
        let line = self.line()?;
        self.show(&line).await;
        self.holders_of(&self.inspect(&line, field, "0").await?)
    }

    fn holders_of(&self, answer: &Answer) -> Result<Vec<Holder>, QueryError> {
        fields(answer).map(|(at, field)| self.holder_of(field, answer.known(at + 1), answer.millis(0))).collect()
    }

    fn holder_of(&self, field: &str, count: Option<u64>, ttl: Option<Duration>) -> Result<Holder, QueryError> {
        Holder::of(field, count, ttl).ok_or_else(|| QueryError::WrongType {
            name: self.name.to_string(),
            detail: format!("its field {field:?} is not client:owner with a count"),
        })
    }

    /// [`force_unlock`](Lock::force_unlock), but only if `field` holds it: [`Holder::field`] of the one that was seen.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(dead) = lock.holder().await? {
    ///     lock.force_unlock_if(dead.field()).await?; // not of whoever has got it since
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`force_unlock`](Lock::force_unlock)'s; so is its cancel safety.
    pub async fn force_unlock_if(&self, field: &str) -> Result<bool, QueryError> {
        if field.is_empty() {
            return Ok(false);
        }
        self.force(field).await
    }
}

/// Who holds it, in the answer of an inspecting script, each with its place there.
fn fields(answer: &Answer) -> impl Iterator<Item = (usize, &str)> {
    (1..answer.items().len().saturating_sub(1)).step_by(2).map_while(|at| Some((at, answer.text(at)?)))
}

/// Where to go on, in the answer of an inspecting script that did not look at all: behind the pairs.
fn next_place(answer: &Answer) -> Option<&str> {
    answer.text(answer.items().len().checked_sub(1)?).filter(|_| answer.items().len().is_multiple_of(2))
}

impl<K: Kind> From<Lock<K>> for Arc<dyn RLock> {
    fn from(lock: Lock<K>) -> Self {
        Arc::new(lock)
    }
}

#[async_trait]
impl<K: Kind> Sealed for Lock<K> {
    async fn take(&self, request: &Request) -> Result<Option<Held>, LockError> {
        let ticket = self.contend(request).await?;
        Ok(ticket.map(|ticket| Held::One(ticket, self.session.clone())))
    }

    fn leaves(&self, into: &mut Vec<Leaf>) -> Result<(), QueryError> {
        let lock = self.of_caller();
        into.push(Leaf {
            session: self.session.clone(),
            line: self.line()?,
            field: lock.field(),
            role: K::TABLE.role,
            votes: false,
            server: None,
            lock: Arc::new(lock),
        });
        Ok(())
    }
}

impl<K: Kind> Member for Lock<K> {
    fn lease(&self, request: &Request) -> Result<Lease, LockError> {
        Ok(request.leases(self.engine())?)
    }

    fn wish(&self, request: &Request) -> Result<Option<Wish>, LockError> {
        Ok(Some(Self::wish(self, &self.line()?, &self.field(), request, None)?))
    }
}

#[async_trait]
impl<K: Kind> RLock for Lock<K> {
    fn name(&self) -> &str {
        Self::name(self)
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
