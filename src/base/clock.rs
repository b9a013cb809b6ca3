//! The clocks: one that judges leases, and what is known of the server's.

#[cfg(feature = "embedded")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;
#[cfg(not(feature = "suspend-clock"))]
use std::time::Instant;

#[cfg(feature = "suspend-clock")]
use boot_time::Instant;

/// An instant of a client's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long from `earlier` to this; zero when this came first.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What waits for a moment looks at least this often whether it has come: timers do not count the time that a machine
/// sleeps.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Where a client reads the time. Rule 9 of docs/PROTOCOL.md: a lease runs on while a machine sleeps, so the clock that
/// judges it must too.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// The system's. With the feature `suspend-clock` it counts suspended time on Linux and macOS.
    System,
    /// tokio's, which tests can pause, since this instant, and these nanoseconds, which its timers know nothing of: for
    /// the embedded server.
    #[cfg(feature = "embedded")]
    Tokio(tokio::time::Instant, &'static AtomicU64),
}

impl Clock {
    pub(crate) fn now(self) -> Moment {
        match self {
            Self::System => system_now(),
            #[cfg(feature = "embedded")]
            Self::Tokio(origin, asleep) => Moment(asleep.load(Ordering::Relaxed)).after(origin.elapsed()),
        }
    }

    /// Sleeps until this clock says `moment`. tokio's timers stand still while the machine sleeps, so the time is read
    /// again every [`TICK`].
    pub(crate) async fn sleep_until(self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }
}

/// Since it was first asked for.
fn system_now() -> Moment {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    Moment(0).after(ORIGIN.get_or_init(Instant::now).elapsed())
}

/// Milliseconds of the server's TIME.
pub(crate) type ServerTime = i64;

/// What is known of the server's clock: a lower bound, from its last answer. Rule 6 of docs/PROTOCOL.md.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    /// Server milliseconds less local milliseconds.
    offset: AtomicI64,
}

impl ServerClock {
    /// The server said `time` in an answer that was received at `received`.
    pub(crate) fn learn(&self, time: ServerTime, received: Moment) {
        self.offset.store(time.saturating_sub(local_ms(received)).saturating_sub(1), Ordering::Relaxed);
    }

    /// The server's clock is at least here.
    pub(crate) fn at(&self, moment: Moment) -> ServerTime {
        local_ms(moment).saturating_add(self.offset.load(Ordering::Relaxed))
    }
}

fn local_ms(moment: Moment) -> i64 {
    i64::try_from(moment.0 / 1_000_000).unwrap_or(i64::MAX)
}

/// Whole milliseconds, for the wire.
pub(crate) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_clock_is_a_lower_bound() {
        let clock = ServerClock::default();
        let received = Moment::from_nanos(5_000_000_000);
        clock.learn(1_700_000_000_000, received);
        assert_eq!(clock.at(received.after(Duration::from_millis(250))), 1_700_000_000_249);
    }

    #[test]
    fn moments_saturate() {
        let end = Moment::from_nanos(u64::MAX);
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(Moment::from_nanos(1).since(end), Duration::ZERO);
    }
}
