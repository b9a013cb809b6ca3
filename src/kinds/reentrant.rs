//! The reentrant lock (Redisson's `getLock`) and the non-reentrant one (`getNonReentrantLock`) on the same layout.

use crate::backend::Script;
use crate::kind::{Kind, Sealed, Table};

macro_rules! script {
    ($verb:literal) => {{
        static SCRIPT: Script = Script::new(
            concat!("reentrant/", $verb),
            concat!(include_str!("../../lua/begin.lua"), include_str!(concat!("../../lua/reentrant/", $verb, ".lua"))),
        );
        &SCRIPT
    }};
}

static REENTRANT: Table = Table {
    name: "lock",
    reentrant: true,
    acquire: script!("acquire"),
    release: script!("release"),
    hand_over: Some(script!("hand_over")),
    renew: script!("renew"),
    settle: script!("settle"),
    extend: script!("extend"),
    inspect: script!("inspect"),
    force: script!("force"),
};

static NON_REENTRANT: Table = Table { name: "mutex", reentrant: false, ..REENTRANT };

/// The kind of [`Locks::lock`](crate::Locks::lock): the same owner enters as often as it likes, and gives back as often.
#[derive(Debug, Clone, Copy)]
pub enum Reentrant {}

impl Sealed for Reentrant {
    const TABLE: &'static Table = &REENTRANT;
}

impl Kind for Reentrant {}

/// The kind of [`Locks::mutex`](crate::Locks::mutex): a second acquisition by the owner is an error at once.
#[derive(Debug, Clone, Copy)]
pub enum NonReentrant {}

impl Sealed for NonReentrant {
    const TABLE: &'static Table = &NON_REENTRANT;
}

impl Kind for NonReentrant {}
