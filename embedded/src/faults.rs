//! What the way to the server does to calls: faults by chance, from a seed.

use std::time::Duration;

/// What a bad network does to the calls of clients, by chance: for
/// [`Server::inject`](crate::Server::inject).
///
/// The same seed gives the same sequence of faults; which call meets which of them also depends on the order in which
/// tokio runs tasks that are ready at the same instant.
#[derive(Debug, Clone)]
pub struct Faults {
    chance: fastrand::Rng,
    lost_calls: u32,
    lost_replies: u32,
    lost_messages: u32,
    longest_delay: Duration,
}

/// What the way to the server does to calls and messages: [`Faults`], or what a simulation has in mind, for
/// [`Server::inject`](crate::Server::inject).
pub trait Network: Send {
    /// What becomes of the next call of a connection. They are numbered from 1 on, as they were made.
    fn call(&mut self, connection: u64) -> Trip;

    /// How late the next message for a connection comes, if it does.
    fn message(&mut self, connection: u64) -> Option<Duration>;

    /// How long the next SUBSCRIBE of a connection is on its way to the server, and its answer on the way back.
    fn subscription(&mut self, _connection: u64) -> [Duration; 2] {
        [Duration::ZERO; 2]
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trip {
    /// Whether the server gets it.
    pub arrives: bool,
    /// Whether its client gets the answer.
    pub is_answered: bool,
    /// On the way to the server, and on the way back.
    pub delays: [Duration; 2],
    /// The server gets it once more, so much later.
    pub again: Option<Duration>,
    /// The connection is cut as soon as it is sent: its client knows at once that no answer comes, while the call is on
    /// its way yet.
    pub is_cut: bool,
}

impl Trip {
    /// As it should be.
    pub const GOOD: Self =
        Self { arrives: true, is_answered: true, delays: [Duration::ZERO; 2], again: None, is_cut: false };
}

impl Network for Faults {
    fn call(&mut self, _: u64) -> Trip {
        Trip {
            arrives: !self.happens(self.lost_calls),
            is_answered: !self.happens(self.lost_replies),
            delays: [self.some_delay(), self.some_delay()],
            ..Trip::GOOD
        }
    }

    fn message(&mut self, _: u64) -> Option<Duration> {
        (!self.happens(self.lost_messages)).then_some(Duration::ZERO)
    }
}

impl Faults {
    /// No faults yet; all that are added take their chance from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self {
            chance: fastrand::Rng::with_seed(seed),
            lost_calls: 0,
            lost_replies: 0,
            lost_messages: 0,
            longest_delay: Duration::ZERO,
        }
    }

    /// So many of a thousand calls never arrive; their clients hear nothing until their command timeout.
    pub fn lose_calls(self, per_mille: u32) -> Self {
        Self { lost_calls: per_mille, ..self }
    }

    /// So many of a thousand calls are executed, and their clients hear nothing until their command timeout.
    pub fn lose_replies(self, per_mille: u32) -> Self {
        Self { lost_replies: per_mille, ..self }
    }

    /// So many of a thousand messages of channels reach nobody.
    pub fn lose_messages(self, per_mille: u32) -> Self {
        Self { lost_messages: per_mille, ..self }
    }

    /// Each way takes up to this long, by chance. A call that takes longer than its client's command timeout arrives
    /// all the same, when the client no longer waits for it; calls pass each other on the way.
    pub fn delay(self, longest: Duration) -> Self {
        Self { longest_delay: longest, ..self }
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        self.chance.u32(..1000) < per_mille
    }

    fn some_delay(&mut self) -> Duration {
        let longest = u64::try_from(self.longest_delay.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.chance.u64(..=longest))
    }
}
