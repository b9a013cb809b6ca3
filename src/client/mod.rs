//! One client: the factory of locks, its builder, its beginning and its end.

pub(crate) mod builder;
#[cfg(feature = "redis")]
pub(crate) mod connect;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod factory;
#[cfg(feature = "redis")]
mod late;
pub(crate) mod parts;
#[cfg(any(feature = "redis", feature = "redis-rs"))]
pub(crate) mod preflight;
#[cfg(feature = "redis-rs")]
mod redis_rs;
