//! The server's clock: tokio's, made to look like a server's.

use tokio::time::Instant;

/// What the clock shows at its origin, in milliseconds since 1970.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// Follows tokio's clock, so that a paused runtime pauses expiry and `tokio::time::advance` brings it about. Outside a
/// runtime tokio's clock is the system's monotonic one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    /// By how much it was set ahead; negative: back.
    ahead_us: i64,
    /// How many microseconds more than others' it counts in a second.
    fast: i32,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), ahead_us: 0, fast: 0 }
    }

    /// Sets it ahead, or back.
    pub(crate) fn set_ahead(&mut self, by_us: i64) {
        self.ahead_us = self.ahead_us.saturating_add(by_us);
    }

    /// From now on it counts so many microseconds more in a second.
    pub(crate) fn set_rate(&mut self, fast: i32) {
        let now_us = self.now_us();
        self.origin = Instant::now();
        self.ahead_us = now_us - EPOCH_MS * 1000;
        self.fast = fast;
    }

    /// Sets it to this time, wherever it was.
    pub(crate) fn set(&mut self, now_us: i64) {
        self.ahead_us = 0;
        self.ahead_us = now_us.saturating_sub(self.now_us());
    }

    /// Microseconds since 1970. A runtime whose clock is behind the origin reads the origin.
    pub(crate) fn now_us(self) -> i64 {
        let elapsed = Instant::now().saturating_duration_since(self.origin).as_micros();
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        let drifted =
            elapsed / 1_000_000 * i64::from(self.fast) + elapsed % 1_000_000 * i64::from(self.fast) / 1_000_000;
        (EPOCH_MS * 1000).saturating_add(elapsed).saturating_add(drifted).saturating_add(self.ahead_us)
    }
}
