//! The command `lockson`, as it is typed, on real servers.

mod deadline;
mod documented;
mod program;
mod run;
mod see;
mod terminal;
