//! The reentrant lock (Redisson's `getLock`) and the non-reentrant one (`getNonReentrantLock`) on the same layout.

use crate::backend::Script;
use crate::base::keys::Key::{Channel, Lock, Token};
use crate::locks::traits::{kind, Votes};
use crate::wire::table::{script, Role, Runs, Table, Together};

/// What the other kinds are made of.
pub(super) static REENTRANT: Table = Table {
    name: "lock",
    role: Role::Exclusive,
    reentrant: true,
    announces: true,
    fenced: false,
    anonymous: false,
    runs: None,
    goes_first: None,
    queue: None,
    acquire: script!(quick "reentrant/acquire" as 1, [Lock]),
    asks: |_, _| None,
    release: script!(quick "reentrant/release" as 2 after "announce", [Lock, Channel]),
    hand_over: Some(script!("reentrant/hand_over", [Lock])),
    admit: None,
    together: Some(Together {
        acquire: script!("multi/acquire", []),
        release: script!("multi/release" after "announce", [Channel]),
    }),
    renew: script!("reentrant/renew", [Lock]),
    weight: 1,
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
    together: None,
    ..REENTRANT
};

static RUNNING: Table = Table {
    runs: Some(Runs::Field {
        moves: script!("reentrant/move", [Lock]),
        release: script!("reentrant/release_both" after "announce", [Lock, Channel]),
    }),
    ..REENTRANT
};

static NON_REENTRANT: Table = Table { name: "mutex", reentrant: false, ..RUNNING };

static FENCED_MUTEX: Table = Table { name: "fenced_mutex", reentrant: false, ..FENCED };

kind! {
    /// The kind of [`Locks::lock`](crate::Locks::lock): the same owner enters as often as it likes, and gives back as
    /// often.
    Reentrant is RUNNING, fenced by FENCED
}

impl Votes for Reentrant {
    fn vote() -> &'static Script {
        script!("red/vote" over "reentrant/acquire" after "boot", [Lock])
    }
}

kind! {
    /// The kind of [`Locks::mutex`](crate::Locks::mutex): a second acquisition by the owner is an error at once.
    NonReentrant is NON_REENTRANT, fenced by FENCED_MUTEX
}

impl Votes for NonReentrant {
    fn vote() -> &'static Script {
        Reentrant::vote()
    }
}
