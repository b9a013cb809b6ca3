// The first definition of a link counts: here the documents are pages, in the README files.
#![doc = include_str!("links.md")]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::todo, clippy::unimplemented)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
// A build for the embedded server alone, or for none, has parts that only a real one needs.
#![cfg_attr(not(feature = "redis"), allow(dead_code))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod backend;
mod base;
pub mod blocking;
mod client;
mod compose;
#[cfg(feature = "redis")]
mod connections;
mod engine;
mod error;
mod events;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod hold;
mod kinds;
mod lease;
mod locks;
#[cfg(feature = "map-entries")]
mod map_entry;
mod messages;
mod metrics;
mod permits;
mod presence;
#[cfg(feature = "redis-rs")]
mod redis_rs;
mod spans;
#[cfg(feature = "redis")]
mod topology;
mod waiting;
mod wire;

pub use admin::{Admin, Description, Forced, Listed, Listing, Permit, ServerReport, Waiter, What};
pub use backend::node::{NodeHealth, Role, Topology};
pub use base::config::{InvalidLease, Replicas};
pub use base::fault::{ConnectError, Refused};
pub use base::keys::NameError;
pub use base::owner::{InvalidOwner, Owner};
pub use client::builder::Builder;
#[cfg(feature = "embedded")]
pub use client::embedded::{EmbeddedServer, Faults};
pub use client::factory::{Health, Leftover, Locks};
pub use error::{HoldError, LockError, Lost, LostReason, OnceError, QueryError, RunError, SyncError, UnlockError};
pub use events::Event;
pub use kinds::fenced::{FencedGuard, FencedGuards, FencedHold};
pub use kinds::read_write::ReadWriteLock;
pub use lease::validity::HoldState;
pub use locks::any::{Acquire, RLock};
pub use locks::guard::Guard;
pub use locks::lock::{Holder, Lock};
pub use locks::multi::MultiLock;
pub use locks::once_per::OncePer;
pub use locks::red::RedLock;
#[cfg(feature = "map-entries")]
pub use map_entry::MapEntry;
pub use permits::latch::{Latch, WaitOutcome};
pub use permits::permit_semaphore::{InvalidPermitId, PermitGuard, PermitId, PermitSemaphore};
pub use permits::semaphore::{AcquirePermits, Semaphore, SemaphorePermit};
pub use presence::{HeldFor, Presence};
pub use waiting::backoff::Backoff;
pub use waiting::request::Request;
pub use waiting::wait::AcquireOutcome;
pub use wire::reply::Reply;

/// The kinds of locks, as in [`Lock<K>`], and of permits, as in [`Semaphore<K>`], and the traits that say what a kind
/// can do. All kinds are lockson's own.
pub mod kind {
    pub use crate::kinds::fair::{Fair, NonReentrantFair, Queued};
    pub use crate::kinds::fenced::{Fenced, Fencing};
    #[cfg(feature = "map-entries")]
    pub use crate::kinds::grouped::Grouped;
    pub use crate::kinds::plain::Plain;
    pub use crate::kinds::read_write::{Read, Write};
    pub use crate::kinds::reentrant::{NonReentrant, Reentrant};
    pub use crate::kinds::spin::Spin;
    pub use crate::locks::traits::{Fenceable, Kind, Owned, Votes};
    pub use crate::permits::permit_semaphore::Expirable;
    pub use crate::permits::semaphore::{Counted, PermitKind};
}
use kind::{Fair, Fenced, NonReentrant, NonReentrantFair, Plain, Read, Reentrant, Spin, Write};

/// The lock of [`Locks::lock`].
pub type ReentrantLock = Lock<Reentrant>;
/// The lock of [`Locks::mutex`].
pub type Mutex = Lock<NonReentrant>;
/// The lock of [`Locks::fair_lock`].
pub type FairLock = Lock<Fair>;
/// The lock of [`Locks::fair_mutex`].
pub type FairMutex = Lock<NonReentrantFair>;
/// The lock of [`Locks::spin_lock`].
pub type SpinLock = Lock<Spin>;
/// The lock of [`ReadWriteLock::read`].
pub type ReadLock = Lock<Read>;
/// The lock of [`ReadWriteLock::write`].
pub type WriteLock = Lock<Write>;
/// The lock of [`Locks::plain_lock`].
pub type PlainLock = Lock<Plain>;
/// The lock of [`Locks::group_lock`].
#[cfg(feature = "map-entries")]
pub type GroupLock = Lock<kind::Grouped>;
/// The lock of [`Locks::fenced_lock`].
pub type FencedLock = Lock<Fenced>;
