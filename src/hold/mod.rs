//! One lock in this process: its owners and their holds; taking it and giving it back.

pub(crate) mod admit;
pub(crate) mod attempt;
pub(crate) mod contend;
pub(crate) mod doubt;
pub(crate) mod entry;
pub(crate) mod release;
pub(crate) mod run;
pub(crate) mod ticket;
