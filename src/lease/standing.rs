//! What is known of a hold at one instant, and what stands for it on the server.

use std::time::Duration;

use crate::error::LostReason;

/// What is known of a hold at this instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Nobody else can have it.
    Held,
    /// A renewal failed; its lease has not run out yet, so nobody else can have it.
    Uncertain,
    /// Somebody else may have it.
    Lost,
}

/// What is known at one instant of what is held.
pub(crate) struct Standing {
    /// Whether nothing speaks against it: its last renewal was confirmed.
    pub(crate) sure: bool,
    /// How long it is valid from now on if nothing is renewed.
    pub(crate) left: Duration,
    pub(crate) lost: Option<LostReason>,
}

impl Standing {
    pub(crate) fn over(why: LostReason) -> Self {
        Self { sure: false, left: Duration::ZERO, lost: Some(why) }
    }

    /// Of both as one.
    pub(crate) fn and(self, other: Self) -> Self {
        let (sure, left) = (self.sure && other.sure, self.left.min(other.left));
        Self { sure, left, lost: self.lost.or(other.lost) }
    }

    pub(crate) fn state(&self) -> HoldState {
        match self {
            Self { lost: Some(_), .. } => HoldState::Lost,
            Self { sure: true, .. } => HoldState::Held,
            Self { sure: false, .. } => HoldState::Uncertain,
        }
    }
}

/// What stands for a lease on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// What did as it was taken.
    First,
    /// That, or its holder already.
    Moving,
    /// Its holder.
    Own,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_holds_as_one_are_as_good_as_the_worse() {
        let of = |sure, left, lost| Standing { sure, left: Duration::from_secs(left), lost };
        let both = of(true, 2, None).and(of(true, 1, None));
        assert_eq!((both.state(), both.left), (HoldState::Held, Duration::from_secs(1)));
        assert_eq!(of(true, 2, None).and(of(false, 3, None)).state(), HoldState::Uncertain);
        assert_eq!(of(false, 2, None).and(of(true, 3, None)).state(), HoldState::Uncertain);
        let lost = Standing::over(LostReason::Server);
        assert_eq!(of(true, 2, None).and(lost).state(), HoldState::Lost);
    }
}
