#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::todo, clippy::unimplemented)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod door;
mod reply;
mod request;
mod server;
mod session;
mod verbs;

pub use door::Door;
pub use lockson::{EmbeddedServer, Faults};
pub use server::TestServer;
