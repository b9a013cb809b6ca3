//! Names, owners, clocks, settings, chores.

pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod fault;
pub(crate) mod host;
pub(crate) mod janitor;
pub(crate) mod keys;
pub(crate) mod owner;
pub(crate) mod registry;
