//! How long a spinning waiter sleeps between attempts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// No pause is longer: it is added to a moment.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pauses of a [`SpinLock`](crate::SpinLock): by the number of attempts that found it busy.
///
/// # Default
/// [`Backoff::exponential`] from 1 ms to 128 ms, as Redisson; with jitter, of which Redisson has nearly none.
#[derive(Clone)]
pub struct Backoff {
    pause: Arc<dyn Fn(u32) -> Duration + Send + Sync>,
    /// Whether a part of each pause is left to chance.
    jitters: bool,
}

impl Backoff {
    /// A random pause of half to all of `first`, doubled with each attempt up to `longest`.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        let doubled = move |attempts: u32| first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1)));
        Self { jitters: true, ..Self::own(move |attempts| doubled(attempts).min(longest)) }
    }

    /// The same pause each time.
    pub fn constant(pause: Duration) -> Self {
        Self::own(move |_| pause)
    }

    /// A pause of your own, by the number of attempts that failed (1 and up).
    pub fn own(pause: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self { pause: Arc::new(pause), jitters: false }
    }

    /// The pause after this many attempts. `jitter` takes a pause and returns a part of it.
    pub(crate) fn pause(&self, attempts: u32, jitter: impl Fn(Duration) -> Duration) -> Duration {
        let pause = (self.pause)(attempts).min(LONGEST);
        let pause = if self.jitters { jitter(pause) } else { pause };
        // A pause of zero would hammer the server.
        pause.max(Duration::from_micros(100))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(1), Duration::from_millis(128))
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff").field("jitters", &self.jitters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses() {
        let grows = Backoff::default();
        let pauses: Vec<u128> = (1..=10).map(|n| grows.pause(n, |pause| pause).as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
        assert_eq!(grows.pause(u32::MAX, |pause| pause), MS * 128);
        assert_eq!(Backoff::constant(MS * 64).pause(9, |_| Duration::ZERO), MS * 64);
        assert_eq!(Backoff::own(|n| MS * n).pause(3, |_| Duration::ZERO), MS * 3);
        assert_eq!(Backoff::constant(Duration::MAX).pause(1, |pause| pause), LONGEST);
        assert_eq!(Backoff::exponential(Duration::MAX, Duration::MAX).pause(2, |pause| pause * 1_024 / 1_024), LONGEST);
        assert!(Backoff::constant(Duration::ZERO).pause(1, |pause| pause) > Duration::ZERO);
    }
}
