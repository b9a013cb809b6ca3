//! The settings of a client, and limits that are not set.

use std::time::Duration;

use uuid::Uuid;

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

/// How many replicas of a shard have to have what is granted there: for [`Builder::confirm`](crate::Builder::confirm)
/// and [`Acquire::confirm`](crate::Acquire::confirm).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replicas {
    /// So many, whichever they are. A replica without the grant may still be promoted; none asks nobody.
    AtLeast(u32),
    /// Every replica that the topology lists, also one that is silent or disconnected; there has to be one at least.
    All,
}

impl Replicas {
    /// The fewest that there have to be.
    pub(crate) fn fewest(self) -> u32 {
        match self {
            Self::AtLeast(count) => count,
            Self::All => 1,
        }
    }
}

/// By whom a grant has to be confirmed, and for how long that is waited for. The stricter of two is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    pub(crate) within: Duration,
}

impl Confirm {
    /// The longest wait: a renewal, due each third of a lease, has to be over before the next.
    const LONGEST: Duration = Duration::from_secs(10);

    pub(crate) fn new(replicas: Replicas, within: Duration) -> Self {
        Self { replicas, within: within.clamp(Duration::from_millis(1), Self::LONGEST) }
    }

    /// `None`: nobody is asked.
    pub(crate) fn if_any(self) -> Option<Self> {
        (self.replicas.fewest() > 0).then_some(self)
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
    /// Each sort of connection has its own where none is set.
    pub(crate) connect_timeout: Option<Duration>,
    /// Each topology has its own where none is set.
    pub(crate) refresh_interval: Option<Duration>,
    pub(crate) confirm: Option<Confirm>,
    /// Whether nothing is granted for `max_lease` after a failover.
    pub(crate) quarantine: bool,
    /// Whether a lock goes from one owner to the next inside the process without a script.
    pub(crate) local_turns: bool,
    /// Whether it says on the server who it is.
    pub(crate) presence: bool,
}

impl Settings {
    /// What a client of this id is called on servers, and in the fields of its holds.
    pub(crate) fn client_id(&self, id: Uuid) -> String {
        match &self.label {
            Some(label) => format!("{label}-{id}"),
            None => id.to_string(),
        }
    }
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
            connect_timeout: None,
            refresh_interval: None,
            confirm: None,
            quarantine: false,
            local_turns: true,
            presence: false,
        }
    }
}
