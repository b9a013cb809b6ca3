//! Searches through every order of events in small scopes: of the shipped scripts with a small model of the client that
//! calls them (`locks`, `permits`, `red`), and of the protocol's rules alone (`rules`). docs/MODEL.md is about both.

pub mod locks;
pub mod permits;
pub mod red;
pub mod rules;
pub mod search;
pub mod server;
