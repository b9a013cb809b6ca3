//! Deployments of servers behind the seam: which server has which key, behind sentinels, in a cluster, and alone.

pub(crate) mod cluster;
pub(crate) mod member;
pub(crate) mod sentinel;
#[cfg(feature = "lean")]
pub(crate) mod single;
pub(crate) mod slots;
mod state;
