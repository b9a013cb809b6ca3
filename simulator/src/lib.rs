//! What plays a schedule of lockson's clients and scripts, and the oracle that judges it, and real servers too.

#![forbid(unsafe_code)]

mod backed;
mod chance;
pub mod code;
mod faults;
mod found;
mod gate;
pub mod history;
pub mod judge;
mod left;
pub mod plan;
pub mod play;
mod queue;
mod road;
pub mod shrink;
pub mod stories;
pub mod take;
mod trace;
mod waits;
mod wake;
mod world;
