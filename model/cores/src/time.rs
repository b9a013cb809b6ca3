//! What the sources have of `tokio::time`: a time that goes to where the next sleeper wakes, at any point of a
//! schedule. So each timer may fire before or behind anything else, and who waits for none and is not told is stuck: a
//! deadlock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::future::{spawn, yield_now};
use tokio_itself::sync::Notify;

#[derive(Debug, Default)]
struct Clock {
    // Of std: whoever reads the time is not to be a point of a schedule.
    state: Mutex<State>,
    asleep: Notify,
}

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// Who wakes when, by a number of each.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

impl Clock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To where the next one wakes.
    fn go_on(&self) -> Option<Waker> {
        let mut state = self.state();
        let ((until, _), waker) = state.sleepers.pop_first()?;
        state.now = state.now.max(until);
        Some(waker)
    }
}

thread_local! {
    // All schedules of a test are in one thread of the system.
    static CLOCK: RefCell<Arc<Clock>> = RefCell::default();
}

fn clock() -> Arc<Clock> {
    CLOCK.with_borrow(Arc::clone)
}

/// Begins a play: time passes until its end, whenever somebody waits for that.
pub(crate) fn begin() {
    CLOCK.set(Arc::default());
    let clock = clock();
    // Nobody waits for its end: it does not keep a play from being over.
    drop(spawn(async move {
        loop {
            yield_now().await;
            match clock.go_on() {
                Some(waker) => waker.wake(),
                None => clock.asleep.notified().await,
            }
        }
    }));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Self(clock().state().now)
    }

    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0 + span)
    }
}

pub struct Sleep {
    key: (Duration, u64),
    clock: Arc<Clock>,
}

pub fn sleep_until(until: Instant) -> Sleep {
    let clock = clock();
    let mut state = clock.state();
    state.next += 1;
    let key = (until.0, state.next);
    drop(state);
    Sleep { key, clock }
}

pub fn sleep(span: Duration) -> Sleep {
    sleep_until(Instant::now() + span)
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        if state.now >= self.key.0 {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, context.waker().clone());
        drop(state);
        self.clock.asleep.notify_one();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.state().sleepers.remove(&self.key);
    }
}
