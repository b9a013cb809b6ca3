//! Chance that can be repeated.

/// A small generator (splitmix64): the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator at the start of the row of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next number of the row.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `limit - 1`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }

    /// True with probability `share` (0.0 to 1.0).
    pub fn chance(&mut self, share: f64) -> bool {
        ((self.draw() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    /// A generator of its own, for a task of the same run.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.draw())
    }
}
