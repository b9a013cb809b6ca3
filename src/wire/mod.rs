//! One call with all its copies, and what it answers.

pub(crate) mod confirm;
pub(crate) mod doubt;
mod group;
pub(crate) mod life;
pub(crate) mod reply;
pub(crate) mod script;
#[cfg(test)]
pub(crate) mod stub;
pub(crate) mod table;
