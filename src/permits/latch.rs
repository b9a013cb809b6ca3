//! The latch (Redisson's `getCountDownLatch`): waits until a count is zero.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::sync::oneshot;

use crate::backend::Script;
use crate::base::keys::Key::{Channel, Ended, Lock as Count};
use crate::base::keys::Keys;
use crate::base::registry::{Listed, Registry};
use crate::engine::{Engine, Session};
use crate::error::{QueryError, SyncError};
use crate::permits::receipt::{is_done, number, Ledger, MOST};
use crate::permits::take::within;
use crate::waiting::request::Request;
use crate::waiting::row::Row;
use crate::waiting::wait::{Contest, Listener, Tried};
use crate::waiting::waiters::Waiter;
use crate::wire::script::Patience;
use crate::wire::table::script;

static SET: &Script = script!("latch/set" after "announce" after "once", [Count, Channel]);
static COUNT_DOWN: &Script = script!("latch/count_down" after "announce" after "once", [Count, Ended, Channel]);
static DELETE: &Script = script!("latch/delete" after "announce" after "once", [Count, Ended, Channel]);
/// Undoes a count, as long as its latch is there.
static CANCEL: &Script = script!("latch/cancel" after "once", [Count, Ended]);
static INSPECT: &Script = script!("latch/inspect" after "once", [Count, Ended]);

/// How a wait for a latch ended. Whoever throws that away takes a limit, or a latch that was deleted, for an open one.
#[must_use = "only `Opened` says that all have counted down"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The count is zero, or there was no latch to wait for.
    Opened,
    /// The latch was deleted before its count was zero.
    Deleted,
    /// The limit came first.
    TimedOut,
}

/// One latch in this process: those who wait for it, with what they know of earlier latches of its name.
pub(crate) struct LocalLatch {
    ledger: Arc<Ledger>,
    row: Row<Arc<Known>, WaitOutcome>,
    _listed: Listed<LocalLatch>,
}

/// What a waiter knew when it began to wait.
struct Known {
    /// How the last latch of the name had ended.
    ended: String,
    /// How many messages `0` had been heard: one more is the end of the latch that it waits for, though another may
    /// have been set since (Redisson leaves no other trace). `u64::MAX` until that is known.
    zeros: AtomicU64,
}

impl LocalLatch {
    /// The one for these keys.
    pub(crate) fn of(registry: &Arc<Registry<Self>>, engine: &Arc<Engine>, keys: Keys) -> Arc<Self> {
        let channel = keys.channel.clone();
        registry.of(&channel, || Self {
            ledger: Ledger::new(engine, keys),
            row: Row::default(),
            _listed: Listed::new(registry, &channel),
        })
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        self.row.close();
    }

    /// The count, and how the last latch of the name ended.
    async fn look(&self, patience: &Patience) -> Result<(i64, String), SyncError> {
        let answer = self.ledger.read(self.ledger.send(INSPECT, &[], patience).await?.result)?;
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
    local: Result<Arc<LocalLatch>, QueryError>,
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Latch {
    pub(crate) fn new(session: Arc<Session>, name: &str, local: Result<Arc<LocalLatch>, QueryError>) -> Self {
        Self { session, name: name.into(), local }
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
        Ok(self.change(SET, vec![number(to, MOST)?.to_string()]).await?.is_some())
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

    /// Ends the latch, and every wait for it by [`WaitOutcome::Deleted`]. `false`: there is none.
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
        let answer = self.local.clone()?.ledger.change(script, args, Some(CANCEL)).await?;
        Ok(is_done(&answer).then(|| answer.count(0)))
    }

    /// The count; 0 when there is no such latch. One script, which writes nothing.
    ///
    /// # Errors
    /// [`SyncError`]; [`QueryError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn count(&self) -> Result<u64, SyncError> {
        let answer = self.local.clone()?.ledger.look(INSPECT, &[]).await?;
        Ok(answer.count(0))
    }

    /// Waits until the latch is opened or deleted.
    ///
    /// # Errors
    /// [`QueryError::Unreachable`] when the server was silent for the outage limit.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&self) -> Result<WaitOutcome, SyncError> {
        self.wait_with(&Request::default()).await
    }

    /// Waits until the latch is opened or deleted, for at most this long. Zero is one look.
    ///
    /// ```
    /// # async fn f(latch: lockson::Latch) -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// use lockson::WaitOutcome;
    /// match latch.wait_for(Duration::from_secs(60)).await? {
    ///     WaitOutcome::Opened => println!("all are ready"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`wait`](Latch::wait)'s; [`QueryError::Unreachable`] at the limit when the server was silent, which is three
    /// command timeouts for one look.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_for(&self, limit: Duration) -> Result<WaitOutcome, SyncError> {
        self.wait_with(&Request::default().wait(limit)).await
    }

    async fn wait_with(&self, request: &Request) -> Result<WaitOutcome, SyncError> {
        let (engine, latch) = (&self.session.engine, self.local.clone()?);
        let listener = Listener::new(engine, latch.ledger.keys.channel.clone());
        let ledger = latch.ledger.clone();
        let mut wait = LatchWait { latch, waiter: None, listener, asked: None, patience: engine.patience() };
        let ended = within(&ledger, request, &mut wait, |wait| &wait.listener).await?;
        Ok(ended.unwrap_or(WaitOutcome::TimedOut))
    }
}

/// Who waits for a latch. Each looks once; then the first of the process looks for all.
struct LatchWait {
    latch: Arc<LocalLatch>,
    /// Once it has found a latch to wait for.
    waiter: Option<Arc<Waiter<Arc<Known>, WaitOutcome>>>,
    listener: Listener,
    /// Who tells what was heard before it waited, from its first turn on, however many turns that takes.
    asked: Option<oneshot::Receiver<u64>>,
    patience: Patience,
}

/// What a look, and what was heard, says to who knew of `before`.
fn verdict(before: &Known, count: i64, ended: &str, zeros: u64) -> Option<WaitOutcome> {
    // It may have ended and been set again between two looks.
    if !ended.is_empty() && ended != before.ended {
        return Some(if ended.ends_with("deleted") { WaitOutcome::Deleted } else { WaitOutcome::Opened });
    }
    (count <= 0 || zeros > before.zeros.load(Ordering::Acquire)).then_some(WaitOutcome::Opened)
}

impl Contest for LatchWait {
    type Prize = WaitOutcome;
    type Error = SyncError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Option<WaitOutcome>, SyncError> {
        let Some(waiter) = &mut self.waiter else { return Ok(None) };
        let (known, listener, asked) = (waiter.wish.clone(), &self.listener, &mut self.asked);
        // Beside the wait: a subscription that does not come keeps nobody from looking.
        let learn = async {
            if known.zeros.load(Ordering::Acquire) == u64::MAX {
                *asked = asked.take().or_else(|| listener.ask_zeros());
                if let Some(zeros) = OptionFuture::from(asked.as_mut()).await.and_then(Result::ok) {
                    known.zeros.store(zeros, Ordering::Release);
                }
                // It was told; or nobody is left to tell it, and the next turn asks again.
                *asked = None;
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            turn = self.latch.row.turn(waiter, listener, pause) => turn,
            never = learn => never,
        }
    }

    async fn attempt(&mut self) -> Result<Tried<WaitOutcome>, SyncError> {
        self.listener.asks();
        // Who comes later may wait for a later latch.
        let all = if self.waiter.is_some() { self.latch.row.first(usize::MAX) } else { Vec::new() };
        // Before the look, which then knows why it was: a latch that is deleted says zero as well.
        let zeros = self.listener.heard_zeros();
        let looked = self.latch.look(&self.patience).await;
        self.listener.answered();
        let (count, ended) = looked?;
        let Some(waiter) = &self.waiter else {
            if count <= 0 {
                return Ok(Tried::Won(WaitOutcome::Opened));
            }
            let known = Known { ended, zeros: AtomicU64::new(u64::MAX) };
            self.waiter = Some(self.latch.row.join(Arc::new(known)));
            return Ok(Tried::Busy(None));
        };
        let told = all.into_iter().filter_map(|waiter| {
            let waited = verdict(&waiter.wish, count, &ended, zeros)?;
            Some((waiter, waited))
        });
        self.latch.row.serve(told.collect());
        Ok(waiter.take_prize().map_or(Tried::Busy(None), Tried::Won))
    }

    fn listen(&mut self) -> bool {
        let Some(waiter) = &self.waiter else { return false };
        // Who is not the first listens too: for how often the latch was opened.
        let missed = self.listener.listen();
        missed && self.latch.row.is_first(waiter)
    }

    fn pause(&mut self) -> Duration {
        let engine = &self.latch.ledger.engine;
        engine.wire.jittered(engine.settings.wait_cap)
    }
}

impl Drop for LatchWait {
    fn drop(&mut self) {
        if let Some(waiter) = &self.waiter {
            self.latch.row.leave(waiter);
        }
    }
}
