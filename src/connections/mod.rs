//! Connections of our own to one server: what is said on one, one that listens and answers, and a lean one for scripts.

pub(crate) mod connection;
#[cfg(feature = "lean")]
pub(crate) mod lean;
pub(crate) mod resp;
