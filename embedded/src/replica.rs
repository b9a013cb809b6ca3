//! A replica as WAIT sees it: it has each write some time later, or is silent. It keeps no data.

use std::time::Duration;

/// How a replica follows its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) lag: Duration,
    pub(crate) is_silent: bool,
}

impl Replica {
    /// How long WAIT takes with it, where so many are asked for, and no longer than this. What was written in the very
    /// moment from which on all is missing may be missing too, so it takes longer than the lag.
    pub(crate) fn keeps_waiting(&self, replicas: u32, limit: Duration) -> Duration {
        match replicas {
            0 => Duration::ZERO,
            1 if !self.is_silent => (self.lag + Duration::from_millis(1)).min(limit),
            _ => limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_takes_the_lag_or_its_limit() {
        let ms = Duration::from_millis;
        for (replicas, lag, is_silent, taken) in
            [(0, 5, true, 0), (1, 5, false, 6), (1, 5, true, 100), (1, 500, false, 100), (2, 5, false, 100)]
        {
            let replica = Replica { lag: ms(lag), is_silent };
            assert_eq!(replica.keeps_waiting(replicas, ms(100)), ms(taken), "{replicas} {lag} {is_silent}");
        }
    }
}
