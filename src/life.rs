//! What a client knows of the life of its server: whether it may have lost what it granted. Rule 21 of
//! docs/PROTOCOL.md.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Moment;

/// One run of a server, as it was seen last.
#[derive(Debug)]
struct Run {
    id: String,
    seen: Moment,
    uptime: Duration,
    /// When this run was first seen in the place of another.
    changed: Option<Moment>,
}

/// Which servers are believed not to have lost a lease that still counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trust {
    /// No lease that a server granted before it restarted counts longer than this.
    pub(crate) max_lease: Duration,
    /// The servers may be as young as they like the first time that they are seen.
    pub(crate) fresh: bool,
    /// They lose nothing when they restart.
    pub(crate) durable: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Life {
    run: Mutex<Option<Run>>,
}

impl Life {
    fn run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a call that was sent at `sent` came from this run, which was that old.
    pub(crate) fn saw(&self, id: &str, uptime: Duration, sent: Moment) {
        let mut run = self.run();
        let changed = match &*run {
            Some(old) if old.id == id => old.changed,
            Some(_) => Some(sent),
            None => None,
        };
        *run = Some(Run { id: id.to_owned(), seen: sent, uptime, changed });
    }

    /// The run that was seen last.
    pub(crate) fn id(&self) -> Option<String> {
        self.run().as_ref().map(|run| run.id.clone())
    }

    /// For how long the server's votes don't count yet; `None` when they do.
    pub(crate) fn rests(&self, trust: Trust, now: Moment) -> Option<Duration> {
        if trust.durable {
            return None;
        }
        let run = self.run();
        let Some(run) = &*run else { return Some(trust.max_lease) };
        let age = run.uptime.saturating_add(now.since(run.seen));
        let (known, young) = match run.changed {
            Some(changed) => (now.since(changed), true),
            None => (trust.max_lease, !trust.fresh),
        };
        let known = if young { known.min(age) } else { known };
        Some(trust.max_lease.saturating_sub(known)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);
    const TRUST: Trust = Trust { max_lease: MINUTE, fresh: false, durable: false };

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn a_young_server_rests_until_it_is_old_enough() {
        let life = Life::default();
        life.saw("a", Duration::from_secs(50), at(1000));
        assert_eq!(life.rests(TRUST, at(1000)), Some(Duration::from_secs(10)));
        assert_eq!(life.rests(TRUST, at(1009)), Some(Duration::from_secs(1)));
        assert_eq!(life.rests(TRUST, at(1010)), None);
        assert_eq!(life.rests(Trust { fresh: true, ..TRUST }, at(1000)), None);
    }

    #[test]
    fn another_run_rests_however_old_it_says_that_it_is() {
        let life = Life::default();
        life.saw("a", HOUR, at(1000));
        assert_eq!(life.rests(TRUST, at(1000)), None);
        life.saw("b", HOUR, at(2000));
        for trust in [TRUST, Trust { fresh: true, ..TRUST }] {
            assert_eq!(life.rests(trust, at(2001)), Some(Duration::from_secs(59)));
            assert_eq!(life.rests(trust, at(2060)), None);
        }
        assert_eq!(life.rests(Trust { durable: true, ..TRUST }, at(2001)), None);
        life.saw("b", HOUR, at(2030));
        assert_eq!(life.rests(TRUST, at(2031)), Some(Duration::from_secs(29)));
        // Its own clock may be wrong: it is no older than what was seen of it.
        life.saw("c", Duration::ZERO, at(3000));
        assert_eq!(life.rests(Trust { fresh: true, ..TRUST }, at(3059)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_server_that_nobody_saw_does_not_vote() {
        assert_eq!(Life::default().rests(TRUST, at(1)), Some(MINUTE));
    }
}
