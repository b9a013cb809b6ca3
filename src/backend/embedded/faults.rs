//! What the way to the server does to calls: faults by chance, from a seed.

use std::time::Duration;

/// What a bad network does to the calls of clients, by chance: for
/// [`EmbeddedServer::inject`](super::EmbeddedServer::inject).
///
/// The same seed gives the same sequence of faults; which call meets which of them also depends on the order in which
/// tokio runs tasks that are ready at the same instant.
#[derive(Debug, Clone)]
pub struct Faults {
    state: u64,
    lost_calls: u32,
    lost_replies: u32,
    lost_messages: u32,
    longest_delay: Duration,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trip {
    pub(super) arrives: bool,
    pub(super) is_answered: bool,
    /// On the way to the server, and on the way back.
    pub(super) delays: [Duration; 2],
}

impl Faults {
    /// No faults yet; all that are added take their chance from this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed, lost_calls: 0, lost_replies: 0, lost_messages: 0, longest_delay: Duration::ZERO }
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

    pub(super) fn trip(&mut self) -> Trip {
        Trip {
            arrives: !self.happens(self.lost_calls),
            is_answered: !self.happens(self.lost_replies),
            delays: [self.some_delay(), self.some_delay()],
        }
    }

    pub(super) fn loses_message(&mut self) -> bool {
        self.happens(self.lost_messages)
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        self.next() % 1000 < u64::from(per_mille)
    }

    fn some_delay(&mut self) -> Duration {
        let longest = u64::try_from(self.longest_delay.as_micros()).unwrap_or(u64::MAX);
        let share = self.next();
        Duration::from_micros(longest.checked_add(1).map_or(share, |span| share % span))
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
