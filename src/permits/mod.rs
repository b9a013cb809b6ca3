//! Semaphores and latches.

pub(crate) mod latch;
pub(crate) mod permit_semaphore;
pub(crate) mod pool;
pub(crate) mod receipt;
pub(crate) mod semaphore;
pub(crate) mod take;
