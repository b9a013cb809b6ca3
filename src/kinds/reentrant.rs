//! The reentrant lock (Redisson's `getLock`) and the non-reentrant one (`getNonReentrantLock`) on the same layout.

use crate::backend::Script;
use crate::guard::Guard;
use crate::keys::Key::{Boot, Channel, Lock};
use crate::kind::{script, vote_script, Ballot, Kind, Owned, Role, Sealed, Table, Votes};

pub(super) static REENTRANT: Table = Table {
    name: "lock",
    role: Role::Exclusive,
    reentrant: true,
    announces: true,
    fenced: false,
    anonymous: false,
    refresh: None,
    acquire: script!("reentrant/acquire", [Lock]),
    release: script!("reentrant/release", [Lock, Channel]),
    hand_over: Some(script!("reentrant/hand_over", [Lock])),
    admit: None,
    renew: script!("reentrant/renew", [Lock]),
    settle: script!("reentrant/settle", [Lock, Channel]),
    extend: script!("reentrant/extend", [Lock]),
    inspect: script!("reentrant/inspect", [Lock]),
    force: script!("reentrant/force", [Lock, Channel]),
};

pub(super) static NON_REENTRANT: Table = Table { name: "mutex", reentrant: false, ..REENTRANT };

/// The kind of [`Locks::lock`](crate::Locks::lock): the same owner enters as often as it likes, and gives back as
/// often.
#[derive(Debug, Clone, Copy)]
pub enum Reentrant {}

impl Sealed for Reentrant {
    const TABLE: &'static Table = &REENTRANT;
}

impl Kind for Reentrant {
    type Guard = Guard;
}

impl Owned for Reentrant {}

impl Ballot for Reentrant {
    const VOTE: &'static Script = vote_script!("reentrant/acquire", [Lock, Boot]);
}

impl Votes for Reentrant {}

/// The kind of [`Locks::mutex`](crate::Locks::mutex): a second acquisition by the owner is an error at once.
#[derive(Debug, Clone, Copy)]
pub enum NonReentrant {}

impl Sealed for NonReentrant {
    const TABLE: &'static Table = &NON_REENTRANT;
}

impl Kind for NonReentrant {
    type Guard = Guard;
}

impl Owned for NonReentrant {}

impl Ballot for NonReentrant {
    const VOTE: &'static Script = Reentrant::VOTE;
}

impl Votes for NonReentrant {}
