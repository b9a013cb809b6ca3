//! The kinds of locks: a table each.

pub(crate) mod reentrant;
