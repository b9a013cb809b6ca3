//! The kinds of locks: a table each, and its own verbs.

pub(crate) mod fair;
pub(crate) mod fenced;
#[cfg(feature = "map-entries")]
pub(crate) mod grouped;
pub(crate) mod plain;
pub(crate) mod read_write;
pub(crate) mod reentrant;
pub(crate) mod spin;
