//! Deployments of many servers behind the seam: which server has which key, behind sentinels and in a cluster.

pub(crate) mod cluster;
mod connection;
pub(crate) mod member;
mod resp;
pub(crate) mod sentinel;
pub(crate) mod slots;
mod state;
