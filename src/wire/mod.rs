//! One call with all its copies, what it answers, and messages.

pub(crate) mod channels;
pub(crate) mod confirm;
pub(crate) mod doubt;
pub(crate) mod life;
mod quarantine;
pub(crate) mod reply;
pub(crate) mod script;
pub(crate) mod table;
