//! The wait loop, and who waits in which order: no Redis, no kinds.

pub(crate) mod backoff;
pub(crate) mod crowd;
pub(crate) mod others;
pub(crate) mod request;
pub(crate) mod row;
pub(crate) mod turns;
pub(crate) mod wait;
pub(crate) mod waiters;
