//! The rules of docs/PROTOCOL.md by themselves, without scripts: why they are enough, as short as it can be said.

pub mod calls;
pub mod failover;
