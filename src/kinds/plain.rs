//! The plain lock of redsync, node-redlock, redis-py and rslock: a string key with a random token. Rule 23 of
//! docs/PROTOCOL.md.

use crate::backend::Script;
use crate::base::keys::Key::{Channel, Lock as Key};
use crate::kinds::reentrant::REENTRANT;
use crate::locks::guard::Guard;
use crate::locks::traits::{Kind, Votes};
use crate::wire::table::{script, Runs, Table};

static PLAIN: Table = Table {
    name: "plain",
    reentrant: false,
    anonymous: true,
    together: None,
    runs: Some(Runs::Token),
    acquire: script!(quick "plain/acquire" as 3, [Key]),
    release: script!(quick "plain/release" as 4 after "announce", [Key, Channel]),
    hand_over: Some(script!("plain/hand_over", [Key])),
    renew: script!("plain/renew", [Key]),
    settle: script!("plain/settle" after "announce", [Key, Channel]),
    extend: script!("plain/extend", [Key]),
    inspect: script!("plain/inspect", [Key]),
    force: script!("plain/force" after "announce", [Key, Channel]),
    ..REENTRANT
};

/// The kind of [`Locks::plain_lock`](crate::Locks::plain_lock): the one to take where programs with redsync,
/// node-redlock, redis-py's `Lock` or rslock use the same lock on one server. (Over several servers they ask a
/// majority of them; this asks its own.)
///
/// The key is the name, its value a random token of the hold, as `SET name token NX PX lease` makes it. Whoever has
/// another token can't release, extend or renew the hold. It waits, is renewed, handed over and guarded as every
/// lock here is, and a second acquisition by its owner is [`LockError::AlreadyHeld`](crate::LockError::AlreadyHeld)
/// at once.
///
/// What it does not give: the server does not know the owner, so that nobody can be asked who holds it, it is not
/// entered again, and it has no fencing token. The other libraries publish nothing when they release: a waiter here
/// finds it within the wait cap (1 s by default), or when the lease ends. They poll: while the waiters of a lockson
/// client keep the lock busy, they get it by chance.
///
/// It is another lock than [`Locks::lock`](crate::Locks::lock) of that name, on the same key: while one of them is
/// held, the other is [`QueryError::WrongType`](crate::QueryError::WrongType).
#[derive(Debug, Clone, Copy)]
pub enum Plain {}

impl Kind for Plain {
    const TABLE: &'static Table = &PLAIN;
    type Guard = Guard;
}

impl Votes for Plain {
    fn vote() -> &'static Script {
        script!("red/vote" over "plain/acquire" after "boot", [Key])
    }
}
