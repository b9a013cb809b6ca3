//! The handles that users have: locks, requests, guards, locks made of others.

pub(crate) mod acquire;
pub(crate) mod any;
pub(crate) mod guard;
pub(crate) mod lock;
pub(crate) mod multi;
pub(crate) mod once_per;
pub(crate) mod red;
pub(crate) mod traits;
