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

mod acquire;
mod admit;
mod any;
mod aside;
mod attempt;
mod backend;
mod backoff;
mod builder;
mod client;
mod clock;
mod config;
#[cfg(feature = "redis")]
mod connect;
mod contend;
mod crowd;
mod doubt;
mod ear;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
mod fault;
mod group;
mod guard;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod hold;
mod janitor;
mod keys;
mod kind;
mod kinds;
mod latch;
mod leaf;
mod lease;
mod life;
mod lifecycle;
mod lock;
mod majority;
mod multi;
mod names;
mod notify;
mod once;
mod owner;
mod permit_semaphore;
mod permits;
mod queue;
mod receipt;
mod red;
mod registry;
mod release;
mod reply;
mod row;
mod script;
mod semaphore;
mod session;
mod take;
mod ticket;
mod traits;
mod turns;
#[cfg(feature = "redis")]
mod url;
mod vote;
mod wait;
mod waiters;
mod watchdog;

pub use acquire::Request;
pub use any::{Acquire, RLock};
pub use backoff::Backoff;
pub use builder::Builder;
pub use client::{Health, Leftover, Locks};
#[cfg(feature = "embedded")]
pub use embedded::{EmbeddedServer, Faults};
pub use error::{HoldError, LockError, Lost, LostBy, QueryError, RunError, SyncError, UnlockError};
pub use fault::{ConnectError, Refused};
pub use guard::Guard;
pub use keys::NameError;
pub use kinds::fair::{Fair, NonReentrantFair, Queued};
pub use kinds::fenced::{Fenced, FencedGuard, FencedGuards, FencedHold, Fencing};
pub use kinds::plain::Plain;
pub use kinds::read_write::{Read, ReadWriteLock, Write};
pub use kinds::reentrant::{NonReentrant, Reentrant};
pub use kinds::spin::Spin;
pub use latch::{Latch, WaitOutcome};
pub use lease::State;
pub use lock::{Holder, Lock};
pub use multi::MultiLock;
pub use owner::{InvalidOwner, Owner};
pub use permit_semaphore::{InvalidPermitId, PermitGuard, PermitId, PermitSemaphore};
pub use red::RedLock;
pub use reply::Reply;
pub use semaphore::{Semaphore, SemaphorePermit};
pub use take::Take;
pub use traits::{Fenceable, Kind, Owned, Votes};

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
/// The lock of [`Locks::fenced_lock`].
pub type FencedLock = Lock<Fenced>;
