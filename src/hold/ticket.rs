//! A confirmed acquisition, and who answers for it: dropped, it gives itself back, as release.rs says how.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::base::janitor::say;
use crate::base::owner::Owner;
use crate::error::{in_runtime, HoldError, LockError, LostReason, QueryError, UnlockError};
use crate::hold::doubt::{owe, wait_out};
pub(crate) use crate::hold::entry::Ticket;
use crate::hold::entry::{Gate, Place};
use crate::hold::release::{in_line, not_held, release};
use crate::hold::run::own;
use crate::lease::validity::{Lease, Standing};
use crate::spans::releasing;
use crate::waiting::waiters::Mail;
use crate::wire::confirm::Short;
use crate::wire::reply::Status;

impl Ticket {
    /// Gives the lock to a waiter, which has to take it.
    pub(crate) fn hand_to(self, place: &Arc<Place>) {
        let engine = self.engine.clone();
        place.post(Mail::Won(self));
        engine.hand_out(Arc::downgrade(place));
    }

    /// A hold that is over is none: it may have been on its way, or in a mail that nobody read, for longer than its
    /// lease.
    pub(crate) fn if_worth(self) -> Result<Self, LockError> {
        if self.engine.is_closing() {
            return Err(QueryError::Closed.into());
        }
        let Some(why) = self.hold.leased.lost(self.engine.now()) else { return Ok(self) };
        let detail = format!("the hold was over before its owner knew of it: {why}");
        Err(QueryError::Unreachable { name: self.hold.entry.line.keys.name.to_string(), detail }.into())
    }

    /// The server says that it is gone.
    pub(crate) fn refused(&self) {
        self.hold.lose(&self.engine, LostReason::Server);
    }

    pub(crate) fn standing(&self) -> Standing {
        self.hold.leased.standing(self.engine.now())
    }

    pub(crate) fn owner(&self) -> Owner {
        self.engine.owner_of(&self.hold.entry.field)
    }

    /// It was taken to be renewed for as long as others are waited for; from here on it has the lease that is wanted:
    /// exactly, or where its owner held the lock before, no shorter.
    pub(crate) async fn begin(&self, lease: Lease) -> Result<(), HoldError> {
        let lease = match lease {
            Lease::Watched { max_hold, .. } => {
                let end = max_hold.map(|limit| self.engine.now().after(limit));
                self.hold.leased.renew_until(self.share, end);
                return Ok(());
            }
            Lease::Fixed(lease) => lease,
        };
        let gate = self.hold.entry.gate.clone().lock_owned().await;
        self.hold.leased.stop_renewing(self.share);
        let now = self.engine.now();
        if self.hold.entry.count() > 1 && self.hold.leased.valid_until().since(now) >= lease {
            return Ok(self.hold.leased.check(now)?);
        }
        self.extend_behind(gate, Some(lease)).await
    }

    /// Sets the lease anew, exactly, or (`None`) asks whether the hold is still there.
    pub(crate) async fn extend(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        self.hold.leased.check(self.engine.now())?;
        in_runtime()?;
        let extended = async { self.extend_behind(self.hold.entry.gate.clone().lock_owned().await, lease).await };
        let extended = tokio::time::timeout(self.engine.look_limit(), extended).await;
        extended.unwrap_or_else(|_| Err(QueryError::late(&self.hold.entry.line.keys.name).into()))
    }

    async fn extend_behind(&self, mut gate: Gate, lease: Option<Duration>) -> Result<(), HoldError> {
        let Ticket { engine, hold, .. } = self;
        let entry = &hold.entry;
        hold.leased.check(engine.now())?;
        engine.ready()?;
        let (to, of, hold) = (engine.clone(), entry.clone(), hold.clone());
        // Carried: an operation whose caller went away keeps the entry to itself until it is over.
        let work = engine.janitor.carry(|abandoned| async move {
            if lease.is_some() {
                // A late copy of an earlier change would undo this one.
                wait_out(&mut gate).await;
            }
            let (script, patience) = (hold.kind.extend, to.patience().unless(abandoned));
            match own(&to, &hold, &mut gate, &patience).await {
                Ok(None) if hold.leased.lost(to.now()).is_none() => {}
                moved => return (Err(moved), gate),
            }
            let keys = of.line.keys.of(script.keys);
            let called = to.change_lease(&hold.leased, script, &keys, lease, &patience).await;
            if lease.is_some() {
                owe(&to, &of, &mut gate, &called.doubt);
            }
            (Ok(called.result), gate)
        });
        let (result, _gate) = work.await;
        let fault = |fault| QueryError::of_fault(&entry.line.keys.name, fault, engine.is_closing());
        let answer = match result {
            Ok(result) => result.map_err(fault)?,
            Err(moved) => {
                let short = moved.map_err(fault)?;
                self.hold.leased.check(engine.now())?;
                return short.map_or(Ok(()), |Short { acked, wanted }| Err(HoldError::NotConfirmed { acked, wanted }));
            }
        };
        match answer.status {
            Status::Done => {}
            Status::NotConfirmed(Short { acked, wanted }) => {
                self.hold.leased.check(engine.now())?;
                return Err(HoldError::NotConfirmed { acked, wanted });
            }
            _ => self.refused(),
        }
        Ok(self.hold.leased.check(engine.now())?)
    }

    /// From here on the owner's next acquisition comes after this release, whoever carries it out. Where it is on its
    /// way back already, only that is waited for.
    pub(crate) fn release(&self) -> BoxFuture<'static, Result<(), UnlockError>> {
        self.release_within(self.engine.settings.outage_limit)
    }

    fn release_within(&self, outage: Duration) -> BoxFuture<'static, Result<(), UnlockError>> {
        let is_first = self.armed.swap(false, Ordering::AcqRel);
        if is_first {
            self.hold.entry.leaving(self.share);
        }
        let (engine, hold, entry) = (self.engine.clone(), self.hold.clone(), &self.hold.entry);
        let work = if is_first {
            release(engine, entry.clone(), Some((self.share, hold)), outage).boxed()
        } else {
            let gate = in_line(entry);
            let waits = async move {
                drop(gate.await);
                Err(not_held(&engine, &hold.entry).of_lost(hold.leased.lost(engine.now())))
            };
            waits.boxed()
        };
        releasing([&entry.line.keys.name, &entry.field], work)
    }

    /// Dropped without a word: the janitor gives it back. `false`: it is on its way back already, or kept.
    pub(crate) fn give_up(&self) -> bool {
        let is_armed = self.armed.load(Ordering::Acquire);
        if is_armed {
            // Not answered, it is tried again until it is.
            let work = self.release_within(self.engine.settings.command_timeout);
            self.engine.janitor.finish(async move {
                if let Err(error) = work.await {
                    say(|| tracing::debug!(target: "lockson", %error, "a dropped guard could not give its hold back"));
                }
            });
        }
        is_armed
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.give_up();
    }
}
