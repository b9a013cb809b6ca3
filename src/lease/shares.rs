//! The shares of one owner's hold: one for each acquisition, which a guard has or nobody but its owner's memory.

/// The numbers of the shares.
#[derive(Default)]
pub(crate) struct Shares {
    /// Those that are bare holds, oldest first, and behind them those that guards have.
    all: Vec<u64>,
    /// How many of them are bare.
    bare: usize,
    /// Guards that are on their way back.
    leaving: u32,
}

impl Shares {
    /// One more, of a guard.
    pub(crate) fn enter(&mut self, share: u64) {
        self.all.push(share);
    }

    pub(crate) fn total(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are more than are on their way back.
    pub(crate) fn is_enterable(&self) -> bool {
        self.total() > self.leaving
    }

    /// Whether all are on their way back.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving > 0 && !self.is_enterable()
    }

    /// Whether this guard has one; without, whether there is a bare one.
    pub(crate) fn has(&self, guard: Option<u64>) -> bool {
        guard.map_or(self.bare > 0, |share| self.guards().contains(&share))
    }

    /// This guard is about to be given back.
    pub(crate) fn begin_leaving(&mut self, guard: u64) {
        self.leaving += u32::from(self.has(Some(guard)));
    }

    /// A guard's becomes a bare one. `true` if the guard had it.
    pub(crate) fn keep_bare(&mut self, guard: u64) -> bool {
        let had_it = self.take(guard);
        if had_it {
            self.all.insert(self.bare, guard);
            self.bare += 1;
        }
        had_it
    }

    /// A guard's was given back; without, the newest bare one, which is returned.
    pub(crate) fn leave(&mut self, guard: Option<u64>) -> Option<u64> {
        let Some(share) = guard else {
            self.bare = self.bare.checked_sub(1)?;
            return Some(self.all.remove(self.bare));
        };
        if self.take(share) {
            self.leaving = self.leaving.saturating_sub(1);
        }
        guard
    }

    fn guards(&self) -> &[u64] {
        self.all.get(self.bare..).unwrap_or_default()
    }

    /// `true` if a guard had it.
    fn take(&mut self, guard: u64) -> bool {
        let at = self.guards().iter().rposition(|share| *share == guard);
        at.map(|at| self.all.remove(self.bare + at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_ones_go_newest_first_whatever_guards_there_are() {
        let mut shares = Shares::default();
        assert!(!shares.has(None) && shares.leave(None).is_none() && !shares.is_enterable());
        (1..=5).for_each(|share| shares.enter(share));
        assert!(shares.keep_bare(4) && shares.keep_bare(1) && !shares.keep_bare(1) && !shares.keep_bare(9));
        assert!(shares.has(None) && shares.has(Some(5)) && !shares.has(Some(4)));
        assert_eq!((shares.leave(Some(3)), shares.leave(None), shares.total()), (Some(3), Some(1), 3));
        assert_eq!((shares.leave(None), shares.leave(None)), (Some(4), None));
        assert!(shares.has(Some(2)) && shares.has(Some(5)) && shares.total() == 2);
    }

    #[test]
    fn what_is_on_its_way_back_is_not_to_be_entered() {
        let mut shares = Shares::default();
        (1..=2).for_each(|share| shares.enter(share));
        shares.begin_leaving(1);
        shares.begin_leaving(9);
        assert!(shares.is_enterable() && !shares.is_leaving(), "one is left");
        shares.begin_leaving(2);
        assert!(!shares.is_enterable() && shares.is_leaving());
        shares.leave(Some(1));
        assert!(shares.is_leaving());
        shares.enter(3);
        assert!(shares.is_enterable());
        shares.leave(Some(2));
        assert!(shares.is_enterable() && !shares.is_leaving());
    }
}
