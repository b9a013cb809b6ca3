//! Layers of tower for lockson: an owner for each request, and a lock by a key of the request.
//!
//! ```
//! use std::time::Duration;
//! use axum::{body::Body, extract::Request, routing::post, Router};
//! use lockson::Locks;
//! use lockson_tower::{LockLayer, OwnerLayer};
//!
//! fn service(locks: Locks) -> Router {
//!     // One request at a time of each path; the others wait for a second, then they are told 409.
//!     let lock = LockLayer::new(move |request: &Request<Body>| Some(locks.lock(request.uri().path())))
//!         .wait(Duration::from_secs(1));
//!     Router::new()
//!         .route("/orders/{order}/pay", post(|| async { "paid" }))
//!         .layer(lock)
//!         // Outside of it: what runs there takes locks too, each request as an owner of its own.
//!         .layer(OwnerLayer)
//! }
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod lock;
mod owner;

pub use lock::{Deadline, LockLayer, Locked, Rejection};
pub use owner::{Owned, OwnerLayer};
