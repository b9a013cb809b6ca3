//! A value of a group, of which Redisson's `getMultiLock(group, values)` takes several: all values of a group are in
//! one hash, and their releases on one channel.

use crate::base::keys::Key::{Channel, Lock, Value};
use crate::kinds::reentrant::REENTRANT;
use crate::locks::traits::kind;
use crate::wire::table::{script, Table, Together};

static GROUPED: Table = Table {
    name: "grouped",
    acquire: script!("grouped/acquire" after "grouped/hold" after "grouped/begin", [Lock, Value]),
    release: script!("grouped/release" after "announce" after "grouped/hold" after "grouped/begin",
        [Lock, Value, Channel]),
    // Whoever waits for another value of the group hears of no hand-over.
    hand_over: None,
    together: Some(Together {
        acquire: script!("grouped/acquire_all" after "grouped/hold", []),
        release: script!("grouped/release_all" after "announce" after "grouped/hold", [Channel]),
    }),
    renew: script!("grouped/renew" after "grouped/hold", [Lock, Value]),
    weight: 5,
    settle: script!("grouped/settle" after "announce" after "grouped/hold" after "grouped/begin",
        [Lock, Value, Channel]),
    extend: script!("grouped/extend" after "grouped/hold" after "grouped/begin", [Lock, Value]),
    inspect: script!("grouped/inspect" after "grouped/hold" after "grouped/begin", [Lock, Value]),
    force: script!("grouped/force" after "announce" after "grouped/hold" after "grouped/begin", [Lock, Value, Channel]),
    ..REENTRANT
};

kind! {
    /// The kind of [`Locks::group_lock`](crate::Locks::group_lock): a value of a group, as reentrant as
    /// [`Locks::lock`](crate::Locks::lock).
    Grouped is GROUPED
}
