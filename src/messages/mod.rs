//! What a client listens to, and who is woken by what it hears.

mod batch;
pub(crate) mod channels;
mod ear;
pub(crate) mod pump;
