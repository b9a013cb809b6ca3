//! The only wait loop. It knows neither Redis nor kinds.

use std::future::Future;
use std::time::Duration;

use futures::future::FutureExt;
use tokio::time::Instant;

/// Whether a lock, or permits, were acquired. Whoever throws that away would go on without: the compiler warns.
///
/// ```
/// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
/// if lock.try_lock().await?.is_acquired() {
///     // nobody else has it
///     lock.unlock().await?;
/// }
/// # Ok(()) }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
/// lock.try_lock().await?; // it may be busy
/// lock.unlock().await?;
/// # Ok(()) }
/// ```
#[must_use = "when it is `Busy`, nothing was acquired"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// It is the caller's, who gives it back.
    Acquired,
    /// Others had it until the limit, or too many of the permits. Nothing is held.
    Busy,
}

impl AcquireOutcome {
    /// Of what was taken, if it was.
    pub(crate) fn of(taken: Option<()>) -> Self {
        taken.map_or(Self::Busy, |()| Self::Acquired)
    }

    /// Whether it is the caller's now.
    pub fn is_acquired(self) -> bool {
        self == Self::Acquired
    }
}

/// What an attempt came to.
pub(crate) enum Tried<P> {
    Won(P),
    /// Somebody else has it, for at most this long if that is known.
    Busy(Option<Duration>),
}

/// Something that is contended for.
pub(crate) trait Contest: Send {
    type Prize: Send;
    type Error: Send;

    /// Waits until an attempt is worth it, at most `pause`; without one, until told. `Some`: it was given meanwhile.
    fn turn(
        &mut self,
        pause: Option<Duration>,
    ) -> impl Future<Output = Result<Option<Self::Prize>, Self::Error>> + Send;

    /// One attempt.
    fn attempt(&mut self) -> impl Future<Output = Result<Tried<Self::Prize>, Self::Error>> + Send;

    /// Has a release be heard. `true`: it is from now on, so what happened before was missed. `false`: it was heard all
    /// along, or the waiter is woken as soon as it is.
    fn listen(&mut self) -> bool;

    /// How long to sleep at most after an attempt that found it busy.
    fn pause(&mut self) -> Duration;
}

/// Contends until it is won. Dropping the future leaves nothing behind that the contest does not take back.
pub(crate) async fn wait<C: Contest>(contest: &mut C) -> Result<C::Prize, C::Error> {
    let mut pause = None;
    loop {
        if let Some(prize) = contest.turn(pause).await? {
            return Ok(prize);
        }
        match contest.attempt().await? {
            Tried::Won(prize) => return Ok(prize),
            Tried::Busy(_) if contest.listen() => pause = Some(Duration::ZERO),
            Tried::Busy(left) => {
                let cap = contest.pause();
                // A millisecond on top, as the server rounds down.
                pause = Some(left.map_or(cap, |left| cap.min(left + Duration::from_millis(1))));
            }
        }
    }
}

/// `one_attempt`, or as many as it takes, until the deadline. `None`: that came first.
pub(crate) async fn contend<C: Contest>(
    contest: &mut C,
    one_attempt: bool,
    deadline: Option<Instant>,
) -> Result<Option<Tried<C::Prize>>, C::Error> {
    if one_attempt {
        before(deadline, contest.attempt()).await.transpose()
    } else {
        Ok(before(deadline, wait(contest)).await.transpose()?.map(Tried::Won))
    }
}

/// `None`: the deadline came first.
pub(crate) fn before<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).map(Result::ok).left_future(),
        None => work.map(Some).right_future(),
    }
}

/// When a wait for so long ends; the limit itself if that is beyond what the clock can say.
pub(crate) fn deadline(limit: Option<Duration>) -> Result<Option<Instant>, Duration> {
    limit.map(|limit| Instant::now().checked_add(limit).ok_or(limit)).transpose()
}

/// Sleeps until then; without a deadline, for ever.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
