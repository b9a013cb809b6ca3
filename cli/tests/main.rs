//! The command `lockson`, as it is typed, on real servers.

mod deadline;
mod documented;
mod look;
mod program;
mod pty;
mod run;
mod screen;
mod see;
mod terminal;
mod well;
