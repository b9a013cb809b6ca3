//! An acquisition that nobody has taken responsibility for yet: dropped, it gives itself back.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::{ready, FutureExt};

use crate::error::{in_runtime, HoldError, LockError, Lost, LostBy, QueryError, UnlockError};
use crate::hold::{Hold, Share, Slot};
use crate::janitor::say;
use crate::kind::Table;
use crate::lease::{Lease, Renewal};
use crate::owner::Owner;
use crate::release::{lose, not_held, owe, release, settle_debt, Gate};
use crate::script::{Answer, Patience, Status};
use crate::session::Core;

/// One acquisition that nobody has taken responsibility for yet: dropped, it gives itself back.
pub struct Ticket {
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
        let answer = result.map_err(|fault| QueryError::of_fault(&slot.line.keys.name, fault, core.is_closing()))?;
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
