//! The reentrant lock (Redisson's `getLock`) and the non-reentrant one (`getNonReentrantLock`) on the same layout.

use crate::backend::Script;
use crate::base::keys::Key::{Boot, Channel, Lock, Token};
use crate::locks::guard::Guard;
use crate::locks::traits::{Fenceable, Kind, Owned, Votes};
use crate::wire::table::{script, Role, Table};

pub(super) static REENTRANT: Table = Table {
    name: "lock",
    role: Role::Exclusive,
    reentrant: true,
    announces: true,
    fenced: false,
    anonymous: false,
    goes_first: None,
    queue: None,
    acquire: script!("reentrant/acquire", [Lock]),
    asks: |_, _| None,
    release: script!("reentrant/release" after "announce", [Lock, Channel]),
    hand_over: Some(script!("reentrant/hand_over", [Lock])),
    admit: None,
    renew: script!("reentrant/renew", [Lock]),
    settle: script!("reentrant/settle" after "announce", [Lock, Channel]),
    extend: script!("reentrant/extend", [Lock]),
    inspect: script!("reentrant/inspect", [Lock]),
    force: script!("reentrant/force" after "announce", [Lock, Channel]),
};

pub(super) static FENCED: Table = Table {
    name: "fenced",
    fenced: true,
    acquire: script!("fenced/fence" over "reentrant/acquire", [Lock, Token]),
    hand_over: Some(script!("fenced/fence" over "reentrant/hand_over", [Lock, Token])),
    ..REENTRANT
};

static NON_REENTRANT: Table = Table { name: "mutex", reentrant: false, ..REENTRANT };

static FENCED_MUTEX: Table = Table { name: "fenced_mutex", reentrant: false, ..FENCED };

/// The kind of [`Locks::lock`](crate::Locks::lock): the same owner enters as often as it likes, and gives back as
/// often.
#[derive(Debug, Clone, Copy)]
pub enum Reentrant {}

impl Kind for Reentrant {
    const TABLE: &'static Table = &REENTRANT;
    type Guard = Guard;
}

impl Owned for Reentrant {}

impl Votes for Reentrant {
    const VOTE: &'static Script = script!("red/vote" over "reentrant/acquire", [Lock, Boot]);
}

impl Fenceable for Reentrant {
    const FENCED: &'static Table = &FENCED;
}

/// The kind of [`Locks::mutex`](crate::Locks::mutex): a second acquisition by the owner is an error at once.
#[derive(Debug, Clone, Copy)]
pub enum NonReentrant {}

impl Kind for NonReentrant {
    const TABLE: &'static Table = &NON_REENTRANT;
    type Guard = Guard;
}

impl Owned for NonReentrant {}

impl Votes for NonReentrant {
    const VOTE: &'static Script = Reentrant::VOTE;
}

impl Fenceable for NonReentrant {
    const FENCED: &'static Table = &FENCED_MUTEX;
}
