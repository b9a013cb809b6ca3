//! The settings of a client, and limits that are not set.

use std::time::Duration;

use crate::base::keys::Naming;

/// No lease is shorter: what is left of it after a round trip and the margin would be too little to work in.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(100);
/// One attempt, or a question, gives up after so many command timeouts: long before the outage limit, as nobody who
/// only looks wants to stand still for that long.
pub(crate) const LOOK_TIMEOUTS: u32 = 3;

/// A lease that is too short or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {lease:?} is outside {min:?} to {max:?} (`Builder::max_lease`)")]
pub struct InvalidLease {
    /// What was asked for.
    pub lease: Duration,
    /// The shortest lease.
    pub min: Duration,
    /// The longest lease, see `Builder::max_lease`.
    pub max: Duration,
}

impl InvalidLease {
    /// The lease, if it is within its limits.
    pub(crate) fn check(lease: Duration, max: Duration) -> Result<Duration, Self> {
        let min = SHORTEST_LEASE;
        if lease < min || lease > max {
            return Err(Self { lease, min, max });
        }
        Ok(lease)
    }
}

/// The settings of a client, as they were checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) naming: Naming,
    pub(crate) label: Option<String>,
    pub(crate) watchdog_lease: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) wait_cap: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) outage_limit: Duration,
    pub(crate) max_lease: Duration,
    pub(crate) max_holds: u32,
    pub(crate) allow_eviction: bool,
    /// Each topology has its own where none is set.
    pub(crate) refresh_interval: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            naming: Naming::default(),
            label: None,
            watchdog_lease: Duration::from_secs(30),
            command_timeout: Duration::from_secs(1),
            wait_cap: Duration::from_secs(1),
            max_hold: None,
            outage_limit: Duration::from_secs(30),
            max_lease: Duration::from_secs(24 * 60 * 60),
            max_holds: u32::MAX >> 1,
            allow_eviction: false,
            refresh_interval: None,
        }
    }
}
