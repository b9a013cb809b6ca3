//! Chance that can be repeated.

/// A generator: the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(fastrand::Rng::with_seed(seed))
    }

    pub fn draw(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number from 0 to `limit - 1`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit.max(1))
    }

    /// True with probability `share` (0.0 to 1.0).
    pub fn chance(&mut self, share: f64) -> bool {
        self.0.f64() < share
    }

    /// A generator of its own, for a task of the same run.
    pub fn fork(&mut self) -> Rng {
        Rng(self.0.fork())
    }
}
