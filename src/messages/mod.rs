//! What a client listens to, and who is woken by what it hears.

pub(crate) mod channels;
mod ear;
