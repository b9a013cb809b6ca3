//! The latch (Redisson's `getCountDownLatch`): waits until a count is zero.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{before, Request};
use crate::backend::Script;
use crate::ear::{Ear, Tally};
use crate::error::SyncError;
use crate::keys::Key::{Channel, Ended, Lock as Count};
use crate::keys::{Keys, NameError};
use crate::kind::script;
use crate::permits::is_done;
use crate::receipt::{Call, Ledger};
use crate::row::{Row, Seat};
use crate::script::Patience;
use crate::semaphore::{count, MOST};
use crate::session::{Core, Session};
use crate::wait::{wait, Contest, Tried, Turn};

static SET: &Script = script!("latch/set" after "once", [Count, Channel]);
static COUNT_DOWN: &Script = script!("latch/count_down" after "once", [Count, Channel, Ended]);
static DELETE: &Script = script!("latch/delete" after "once", [Count, Channel, Ended]);
/// Undoes a count, as long as its latch is there.
static CANCEL: &Script = script!("latch/cancel" after "once", [Count, Ended]);
static INSPECT: &Script = script!("latch/inspect" after "once", [Count, Ended]);

/// How a wait for a latch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waited {
    /// The count is zero, or there was no latch to wait for.
    Opened,
    /// The latch was deleted before its count was zero.
    Deleted,
    /// The limit came first.
    TimedOut,
}

/// One latch in this process: those who wait for it, with what they know of earlier latches of its name.
pub(crate) struct Gate {
    ledger: Arc<Ledger>,
    row: Row<Known, Waited>,
}

/// What a waiter knew when it took its seat.
struct Known {
    /// How the last latch of the name had ended.
    ended: String,
    /// How many messages `0` had been heard: one more is the end of the latch that it waits for, though another may
    /// have been set since (Redisson leaves no other trace). `u64::MAX` until that is known.
    zeros: AtomicU64,
}

impl Known {
    fn new(ended: String) -> Self {
        Self { ended, zeros: AtomicU64::new(u64::MAX) }
    }
}

impl Gate {
    pub(crate) fn new(keys: Keys) -> Self {
        Self { ledger: Ledger::new(keys), row: Row::default() }
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        self.row.close();
    }

    /// The count, and how the last latch of the name ended.
    async fn look(&self, core: &Core, patience: &Patience) -> Result<(i64, String), SyncError> {
        let answer = self.ledger.ask(core, INSPECT, &[], patience).await?;
        Ok((answer.int(0).unwrap_or_default(), answer.text(1).unwrap_or_default().to_owned()))
    }
}

/// A latch, of [`Locks::latch`](crate::Locks::latch): tasks of any process wait until others have counted it down to
/// zero. It is then gone, and may be set again.
///
/// One that nobody has set is open, as in Redisson: [`try_set_count`](Latch::try_set_count) comes before who waits.
#[derive(Clone)]
pub struct Latch {
    session: Arc<Session>,
    name: Arc<str>,
    gate: Result<Arc<Gate>, NameError>,
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Latch {
    pub(crate) fn new(session: Arc<Session>, name: &str, gate: Result<Arc<Gate>, NameError>) -> Self {
        Self { session, name: name.into(), gate }
    }

    fn core(&self) -> &Arc<Core> {
        &self.session.core
    }

    /// The name, without the client's prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the count, if there is no such latch. `false`: there is one.
    ///
    /// # Errors
    /// [`SyncError`]; [`SyncError::Count`] for 0, or more than `i32::MAX`.
    ///
    /// # Cancel safety
    /// Once polled, it is carried out even if the future is dropped.
    pub async fn try_set_count(&self, to: u32) -> Result<bool, SyncError> {
        Ok(self.change(SET, vec![count(to, MOST)?.to_string()]).await?.is_some())
    }

    /// One less to wait for: the count that is left. `None`: there is no such latch.
    ///
    /// # Errors
    /// [`SyncError`].
    ///
    /// # Cancel safety
    /// As [`try_set_count`](Latch::try_set_count)'s.
    pub async fn count_down(&self) -> Result<Option<u32>, SyncError> {
        self.change(COUNT_DOWN, Vec::new()).await
    }

    /// Ends the latch, and every wait for it by [`Waited::Deleted`]. `false`: there is none.
    ///
    /// Java's waiters go on as if it had been opened. (Redisson's own `delete()` leaves them asleep.)
    ///
    /// # Errors
    /// [`SyncError`].
    ///
    /// # Cancel safety
    /// As [`try_set_count`](Latch::try_set_count)'s.
    pub async fn delete(&self) -> Result<bool, SyncError> {
        Ok(self.change(DELETE, Vec::new()).await?.is_some())
    }

    async fn change(&self, script: &'static Script, args: Vec<String>) -> Result<Option<u32>, SyncError> {
        let call = Call { script, args, cancel: Some((CANCEL, Vec::new())), waits: true };
        let answer = self.gate.clone()?.ledger.change(self.core(), call).await?;
        let left = answer.int(0).and_then(|left| u32::try_from(left).ok()).unwrap_or_default();
        Ok(is_done(&answer).then_some(left))
    }

    /// The count; 0 when there is no such latch. One script, which writes nothing.
    ///
    /// # Errors
    /// [`SyncError`].
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn count(&self) -> Result<u64, SyncError> {
        let (count, _) = self.gate.clone()?.look(self.core(), &self.core().patience()).await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Waits until the latch is opened or deleted.
    ///
    /// # Errors
    /// [`SyncError::Unreachable`] when the server was silent for the outage limit.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&self) -> Result<Waited, SyncError> {
        self.wait_by(&Request::default()).await
    }

    /// Waits until the latch is opened or deleted, for at most this long. Zero is one look.
    ///
    /// # Errors
    /// As [`wait`](Latch::wait)'s; [`SyncError::Unreachable`] at the limit when the server was silent.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_for(&self, limit: Duration) -> Result<Waited, SyncError> {
        self.wait_by(&Request::default().wait(limit)).await
    }

    async fn wait_by(&self, request: &Request) -> Result<Waited, SyncError> {
        let (core, gate) = (self.core(), self.gate.clone()?);
        let deadline = request.deadline().map_err(SyncError::Wait)?;
        let began = core.now();
        let ear = Ear::new(gate.ledger.keys.channel.clone());
        let mut waiter =
            Waiter { core: core.clone(), gate, seat: None, ear, tally: Tally::default(), patience: core.patience() };
        if request.is_once() {
            return match waiter.attempt().await? {
                Tried::Won(waited) => Ok(waited),
                Tried::Busy(_) => Ok(Waited::TimedOut),
            };
        }
        match before(deadline, wait(&mut waiter)).await {
            Some(outcome) => outcome,
            None if waiter.tally.is_unheard(core, began) || core.wire.is_silent() => {
                let detail = "the wait limit came before an answer".to_owned();
                Err(SyncError::Unreachable { name: self.name.to_string(), detail })
            }
            None => Ok(Waited::TimedOut),
        }
    }
}

/// Who waits for a latch. Each looks once; then the first of the process looks for all.
struct Waiter {
    core: Arc<Core>,
    gate: Arc<Gate>,
    /// Once it has found a latch to wait for.
    seat: Option<Arc<Seat<Known, Waited>>>,
    ear: Ear,
    tally: Tally,
    patience: Patience,
}

/// What a look, and what was heard, says to who knew of `before`.
fn verdict(before: &Known, count: i64, ended: &str, zeros: u64) -> Option<Waited> {
    // It may have ended and been set again between two looks.
    if !ended.is_empty() && ended != before.ended {
        return Some(if ended.ends_with("deleted") { Waited::Deleted } else { Waited::Opened });
    }
    (count <= 0 || zeros > before.zeros.load(Ordering::Acquire)).then_some(Waited::Opened)
}

impl Contest for Waiter {
    type Prize = Waited;
    type Error = SyncError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Turn<Waited>, SyncError> {
        match &self.seat {
            Some(seat) => self.gate.row.turn(seat, &self.ear, pause).await,
            None => Ok(Turn::Try),
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Waited>, SyncError> {
        self.tally.asks();
        self.ear.drain(&self.core);
        // Who comes later may wait for a later latch.
        let all = if self.seat.is_some() { self.gate.row.first(usize::MAX) } else { Vec::new() };
        let looked = self.gate.look(&self.core, &self.patience).await;
        self.tally.heard();
        let (count, ended) = looked?;
        let Some(seat) = &self.seat else {
            if count <= 0 {
                return Ok(Tried::Won(Waited::Opened));
            }
            self.seat = Some(self.gate.row.join(Known::new(ended)));
            return Ok(Tried::Busy(None));
        };
        let zeros = self.ear.heard_zeros();
        let told = all.into_iter().filter_map(|seat| {
            let waited = verdict(&seat.wish, count, &ended, zeros)?;
            Some((seat, waited))
        });
        self.gate.row.serve(told.collect());
        Ok(seat.take_prize().map_or(Tried::Busy(None), Tried::Won))
    }

    async fn listen(&mut self) -> bool {
        let limit = self.core.settings.command_timeout;
        let Some(seat) = &self.seat else { return false };
        let missed = self.gate.row.is_first(seat) && self.ear.listen(&self.core, limit).await;
        if seat.wish.zeros.load(Ordering::Acquire) == u64::MAX {
            if let Some(zeros) = self.ear.zeros(&self.core, limit).await {
                seat.wish.zeros.store(zeros, Ordering::Release);
            }
        }
        missed
    }

    fn pause(&mut self, _: Option<Duration>) -> Duration {
        self.core.wire.jittered(self.core.settings.wait_cap)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            self.gate.row.leave(seat);
        }
    }
}
