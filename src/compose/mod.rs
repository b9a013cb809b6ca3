//! Holds that stand together: all of them, or most.

pub(crate) mod ballot;
pub(crate) mod held;
pub(crate) mod members;
pub(crate) mod quorum;
pub(crate) mod together;
