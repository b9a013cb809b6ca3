//! What the holder of a lock holds.

use std::fmt;
use std::future::{poll_fn, Future};
use std::iter::once;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::{join_all, ready, FutureExt};

use crate::error::{HoldError, LockError, Lost, LostBy, QueryError, UnlockError};
use crate::group::{first_lost, Group, Taken};
use crate::hold::{Hold, Share, Slot};
use crate::janitor::say;
use crate::kind::Table;
use crate::lease::{Lease, Renewal, State};
use crate::owner::Owner;
use crate::release::{lose, not_held, owe, release, settle_debt, Gate};
use crate::script::{Answer, Patience, Status};
use crate::session::{in_runtime, Core, Session};

/// One acquisition that nobody has taken responsibility for yet: dropped, it gives itself back.
pub(crate) struct Ticket {
    pub(crate) core: Arc<Core>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) hold: Arc<Hold>,
    /// How its lease is renewed, if it is.
    renewal: Mutex<Option<Renewal>>,
    /// Whether its owner held the lock before.
    pub(crate) inner: bool,
    /// Whether it is still to be given back, or kept.
    armed: AtomicBool,
}

impl Ticket {
    /// The server confirmed it.
    pub(crate) fn enter(
        core: &Arc<Core>,
        kind: &'static Table,
        slot: &Arc<Slot>,
        mark: &Arc<str>,
        answer: &Answer,
        lease: Lease,
    ) -> Self {
        let hold = slot.enter(mark, kind, core.renewal(kind.renew), answer.sent, lease, core.now());
        if let Some(token) = answer.text(0).filter(|_| kind.fenced).and_then(|token| token.parse().ok()) {
            slot.line.saw_token(token);
            hold.set_token(token);
        }
        core.watchdog.watch(&hold.leased, answer.sent);
        let renewal = Mutex::new(Renewal::of(lease, answer.sent));
        let inner = slot.count() > 1;
        Self { core: core.clone(), slot: slot.clone(), hold, renewal, inner, armed: AtomicBool::new(true) }
    }

    /// A hold that is over is none: it may have been on its way, or in a mail that nobody read, for longer than its
    /// lease.
    pub(crate) fn if_worth(self) -> Result<Self, LockError> {
        if self.core.is_closing() {
            return Err(LockError::Closed);
        }
        let Some(why) = self.hold.lost(self.core.now()) else { return Ok(self) };
        let detail = format!("the hold was over before its owner knew of it: {why}");
        Err(LockError::Unreachable { name: self.slot.line.keys.name.to_string(), detail })
    }

    /// The server says that it is gone.
    pub(crate) fn refused(&self) {
        lose(&self.core, &self.hold, LostBy::Server);
    }

    /// It becomes a bare hold, for `unlock()` to give back.
    pub(crate) fn keep_bare(self) {
        self.armed.store(false, Ordering::Release);
        self.slot.keep_bare(&self.hold, *self.renewal());
    }

    pub(crate) fn owner(&self) -> Owner {
        self.core.owner_of(&self.slot.field)
    }

    fn renewal(&self) -> MutexGuard<'_, Option<Renewal>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on the owner's next acquisition comes after this release, whoever carries it out. Where it is on its
    /// way back already, only that is waited for.
    pub(crate) fn release(&self) -> impl Future<Output = Result<(), UnlockError>> + Send + 'static {
        self.release_within(self.core.patience())
    }

    fn release_within(&self, patience: Patience) -> impl Future<Output = Result<(), UnlockError>> + Send + 'static {
        let is_first = self.armed.swap(false, Ordering::AcqRel);
        if is_first {
            self.slot.leaving(self.hold.id);
        }
        let mut gate = self.slot.gate.clone().lock_owned().boxed();
        // A place in the gate's line, at once: without it a loop that takes the lock and drops the guard would enter
        // its own hold again and again, and nobody else would get it.
        let first = gate.poll_unpin(&mut Context::from_waker(Waker::noop()));
        let gate = match first {
            Poll::Ready(gate) => ready(gate).left_future(),
            Poll::Pending => gate.right_future(),
        };
        let share = Share::Guard { hold: self.hold.id, renewal: *self.renewal() };
        let (core, slot, hold) = (self.core.clone(), self.slot.clone(), self.hold.clone());
        async move {
            let given = if is_first {
                release(core.clone(), slot, share, gate, patience).await
            } else {
                drop(gate.await);
                Err(not_held(&core, &slot))
            };
            given.map_err(|error| error.of_lost(hold.lost(core.now())))
        }
    }

    /// Dropped without a word: the janitor gives it back. `false`: it is on its way back already, or kept.
    pub(crate) fn give_up(&self) -> bool {
        let is_armed = self.armed.load(Ordering::Acquire);
        if is_armed {
            // Not answered, it is tried again until it is.
            let work = self.release_within(self.core.brief());
            self.core.janitor.finish(async move {
                if let Err(error) = work.await {
                    say(|| tracing::debug!(target: "lockson", %error, "a dropped guard could not give its hold back"));
                }
            });
        }
        is_armed
    }

    /// It was taken to be renewed for as long as others are waited for; from here on it has the lease that is wanted:
    /// exactly, or where its owner held the lock before, no shorter.
    pub(crate) async fn begin(&self, lease: Lease) -> Result<(), HoldError> {
        let lease = match lease {
            Lease::Watched { max_hold, .. } => {
                let end = max_hold.map(|limit| self.core.now().after(limit));
                let renewal = *self.renewal();
                self.renew_by(renewal.map(|renewal| Renewal { end, ..renewal }));
                return Ok(());
            }
            Lease::Fixed(lease) => lease,
        };
        let gate = self.slot.gate.clone().lock_owned().await;
        self.renew_by(None);
        let now = self.core.now();
        if self.slot.count() > 1 && self.hold.valid_until().since(now) >= lease {
            return self.hold.lost(now).map_or(Ok(()), |why| Err(Lost { why }.into()));
        }
        self.extend_behind(gate, Some(lease)).await
    }

    fn renew_by(&self, renewal: Option<Renewal>) {
        let mut own = self.renewal();
        self.hold.replace(*own, renewal);
        *own = renewal;
    }

    /// Sets the lease anew, exactly, or (`None`) asks whether the hold is still there.
    pub(crate) async fn extend(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        if let Some(why) = self.hold.lost(self.core.now()) {
            return Err(Lost { why }.into());
        }
        in_runtime().map_err(QueryError::from)?;
        let extended = async { self.extend_behind(self.slot.gate.clone().lock_owned().await, lease).await };
        let extended = tokio::time::timeout(self.core.look_limit(), extended).await;
        extended.unwrap_or_else(|_| Err(QueryError::late(&self.slot.line.keys.name).into()))
    }

    async fn extend_behind(&self, mut gate: Gate, lease: Option<Duration>) -> Result<(), HoldError> {
        let Ticket { core, slot, hold, .. } = self;
        if let Some(why) = hold.lost(core.now()) {
            return Err(Lost { why }.into());
        }
        core.ready().map_err(QueryError::from)?;
        let (to, of, hold) = (core.clone(), slot.clone(), hold.clone());
        // Carried: an operation whose caller went away keeps the entry to itself until it is settled.
        let work = core.janitor.carry(|abandoned| async move {
            if lease.is_some() {
                // A late copy of an earlier change would undo this one.
                settle_debt(&to, &mut gate).await;
            }
            let (script, patience) = (hold.kind.extend, to.patience().unless(abandoned));
            let keys = of.line.keys.of(script.keys);
            let settled = to.change_lease(&hold.leased, script, &keys, lease, &patience).await;
            if lease.is_some() {
                owe(&to, &of, &mut gate, settled.doubt);
            }
            (settled.result, gate)
        });
        let (result, _gate) = work.await;
        let answer = result.map_err(|fault| QueryError::of(core, &slot.line.keys.name, fault))?;
        if answer.status != Status::Done {
            self.refused();
        }
        match self.hold.lost(core.now()) {
            None => Ok(()),
            Some(why) => Err(Lost { why }.into()),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A lock that is held, until this is dropped.
///
/// # Dropping
/// Drop never blocks: it asks the client's janitor to release, which happens within a round trip of a usable
/// connection. [`unlock`](Guard::unlock) waits for it and says whether it happened. What is dropped while its runtime
/// ends lives until its lease ends: programs that exit call `unlock` or [`Locks::shutdown`](crate::Locks::shutdown).
///
/// # Losing it
/// A hold is lost when its lease, counted on this machine's clock from the instant that the last confirmed renewal was
/// sent, runs out, or when the server says that it is gone. It never comes back. [`lost`](Guard::lost) and
/// [`run`](Guard::run) tell at once; [`is_valid`](Guard::is_valid) is judged by the clock on every call. A guard of a
/// lost hold gives nothing back, not even when the same owner has the lock again.
#[must_use = "the lock is released when the guard is dropped"]
#[clippy::has_significant_drop]
pub struct Guard {
    /// A multi-lock's other members, which are given back before the first.
    rest: Taken,
    first: Group,
    /// What a multi-lock or a red lock is called.
    name: Option<Arc<str>>,
}

/// A guard of a hold that a lock of the kind has just taken.
pub struct Fresh(pub(crate) Guard);

/// What holds are guarded by: a guard, or one that knows tokens.
pub trait Guards: Sized + Send + Sync + 'static {
    /// Nobody else makes a [`Fresh`] one.
    fn of(fresh: Fresh) -> Self;
}

impl Guards for Guard {
    fn of(fresh: Fresh) -> Self {
        fresh.0
    }
}

impl Guard {
    pub(crate) fn new(ticket: Ticket, session: Arc<Session>) -> Self {
        Self { first: Group::one(ticket, session), rest: Taken::default(), name: None }
    }

    /// Of a lock that is made of others. `None`: of none.
    pub(crate) fn over(mut taken: Taken, name: Arc<str>) -> Option<Self> {
        taken.0.iter().for_each(Group::complete);
        let mut groups = std::mem::take(&mut taken.0).into_iter();
        Some(Self { first: groups.next()?, rest: Taken(groups.collect()), name: Some(name) })
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        once(&self.first).chain(&self.rest.0)
    }

    pub(crate) fn ticket(&self) -> &Ticket {
        self.first.ticket()
    }

    /// The name of the lock, without the client's prefix; of a multi-lock all its members'.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.ticket().slot.line.keys.name)
    }

    /// Its holds, of a multi-lock one for each member.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.groups().map(Group::ticket)
    }

    /// The owner that the lock was taken for.
    pub fn owner(&self) -> Owner {
        self.ticket().owner()
    }

    /// What is known of the hold at this instant: of a multi-lock the worst of its members', of a red lock what most of
    /// its servers make of it.
    pub fn state(&self) -> State {
        let mut worst = State::Held;
        for group in self.groups() {
            match group.state() {
                State::Lost => return State::Lost,
                State::Uncertain => worst = State::Uncertain,
                State::Held => {}
            }
        }
        worst
    }

    /// Whether nobody else can have the lock at this instant. A process may be paused between this answer and what it
    /// does next: docs/GUARANTEES.md says what helps.
    pub fn is_valid(&self) -> bool {
        self.why_lost().is_none()
    }

    fn why_lost(&self) -> Option<LostBy> {
        self.groups().find_map(Group::lost)
    }

    /// How long the hold is valid from now on if it is not renewed; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.groups().map(Group::left).min().unwrap_or_default()
    }

    /// Resolves when the hold is lost, and before the server would give the lock to another.
    ///
    /// # Cancel safety
    /// Safe. The future is `'static`: it may be spawned, and does not keep the lock.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        first_lost(self.groups().map(Group::watched).collect())
    }

    /// Runs work that must not outlive the hold: it is dropped before the deadline of the hold, which renewals move.
    /// Every poll judges the deadline first.
    ///
    /// # Errors
    /// [`Lost`]: the work was stopped, or ended too late to be sure that it was protected.
    ///
    /// # Cancel safety
    /// As the work's. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(lost) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(lost));
            }
            if let Some(why) = self.why_lost() {
                return Poll::Ready(Err(Lost { why }));
            }
            let output = std::task::ready!(work.as_mut().poll(context));
            match self.why_lost() {
                None => Poll::Ready(Ok(output)),
                Some(why) => Poll::Ready(Err(Lost { why })),
            }
        })
        .await
    }

    /// Asks the server whether the hold is still there, or all servers that it is on. One script each, which writes
    /// nothing.
    ///
    /// # Errors
    /// [`HoldError::Lost`] when it is lost; anything else says nothing about the hold: [`QueryError::Unreachable`]
    /// after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn verify(&self) -> Result<(), HoldError> {
        self.extend_by(None).await
    }

    /// Sets the lease anew, exactly: the hold now ends `lease` (sent as milliseconds) from the send instant of this
    /// call. A watched hold is renewed on as before, and renewals only lengthen.
    ///
    /// # Errors
    /// [`HoldError::Lease`] before anything is sent; [`HoldError::Lost`]; or the server did not answer for three
    /// command timeouts, and then the old lease is the one to count on if it is the shorter.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lease may or may not have been set.
    pub async fn extend(&self, lease: Duration) -> Result<(), HoldError> {
        self.groups().try_for_each(|group| group.check_lease(lease))?;
        self.extend_by(Some(lease)).await
    }

    async fn extend_by(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        let done = join_all(self.groups().map(|group| group.extend(lease))).await;
        match self.why_lost() {
            Some(why) => Err(Lost { why }.into()),
            None => done.into_iter().collect(),
        }
    }

    /// Gives the hold back and says whether that happened. A multi-lock gives back all its members, the last one first,
    /// whatever becomes of the others; a red lock is given back as soon as most of its servers say so.
    ///
    /// # Errors
    /// [`UnlockError::NotHeld`] when the hold was lost before; [`UnlockError::Unconfirmed`] when it is gone, by whom is
    /// not known, as the answer to an earlier copy of this call was lost; [`UnlockError::Unreachable`] when the server
    /// was silent for the outage limit; the other variants say whether the server may still have it. Of several members
    /// each error counts: [`UnlockError::Several`]. None of them says that the work was unprotected:
    /// [`run`](Self::run) does. So an error here is to be logged, not a reason to fail what is done.
    ///
    /// # Cancel safety
    /// Once polled, the unlock is carried out even if the future is dropped.
    pub async fn unlock(mut self) -> Result<(), UnlockError> {
        in_runtime()?;
        let whole = self.name.take().map(|name| (name, self.owner()));
        let members = self.groups().map(Group::size).sum();
        let releases: Vec<_> = self.rest.last_first().chain(once(self.first)).map(Group::release).collect();
        let errors = join_all(releases).await.into_iter().flatten().collect();
        UnlockError::of(errors, members, whole.as_ref().map(|(name, owner)| (&**name, owner)))
    }

    /// [`unlock`](Self::unlock), but it waits for the server at most this long: for work that is done, and whose caller
    /// must not stand still in an outage. Zero sends it and does not wait.
    ///
    /// # Errors
    /// [`UnlockError::OnItsWay`] at the limit: the client goes on as for a guard that is dropped. Else as
    /// [`unlock`](Self::unlock)'s.
    ///
    /// # Cancel safety
    /// As [`unlock`](Self::unlock)'s.
    pub async fn unlock_within(self, limit: Duration) -> Result<(), UnlockError> {
        UnlockError::within(limit, self.name().to_owned(), self.unlock()).await
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("owner", &self.owner())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
