//! What is waited for, and what is free, as the oracle keeps it.

use std::collections::{BTreeMap, BTreeSet};

/// A message comes at once; those who were told may stand aside for others, for 50 ms each.
pub const TOLD: u64 = 200;
/// How long who waits for a latch takes to know how often it was opened.
const LISTENS: u64 = 6;
/// What a fault leaves behind is over by then.
pub const SETTLED: u64 = 6_000;

/// A lock that nobody has, or a latch that is open.
#[derive(Clone, Copy)]
pub struct Free {
    pub since: u64,
    /// How long it may stay so.
    pub within: u64,
    /// Who waited for so long before is to hear of it.
    pub waited: u64,
}

/// What is waited for, and what is free.
#[derive(Default)]
pub struct Waits {
    /// By task: of which name, and since when.
    pub waiting: BTreeMap<usize, (usize, u64)>,
    /// By name.
    pub free: BTreeMap<usize, Free>,
    /// What slow ways add to each wait.
    pub slow: u64,
    /// What messages and calls add that are lost or late: who was to hear of one looks at the cap.
    pub unheard: u64,
    /// Until then something is in the way.
    pub noise: u64,
    /// The names that have a key while they are held.
    pub watched: BTreeSet<usize>,
}

impl Waits {
    /// A latch was open for a moment. Who had not waited long enough to know what it heard may have missed that, and so
    /// does who does not hear of it: to look later tells nothing.
    pub fn reopened(&mut self, now: u64, name: usize) {
        if self.unheard > 0 {
            return;
        }
        self.free.entry(name).or_insert(Free { since: now, within: TOLD, waited: LISTENS + self.slow });
    }
}
