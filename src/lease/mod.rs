//! How long something is valid, and the loop that renews it.

pub(crate) mod lookout;
pub(crate) mod observer;
pub(crate) mod shares;
pub(crate) mod standing;
pub(crate) mod validity;
pub(crate) mod watchdog;
