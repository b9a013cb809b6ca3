//! The spin lock (Redisson's `getSpinLock`): the reentrant lock without subscriptions and messages.

use crate::base::keys::Key::Lock;
use crate::kinds::reentrant::{FENCED, REENTRANT};
use crate::locks::traits::kind;
use crate::wire::table::{script, Table};

static SPIN: Table = Table {
    name: "spin",
    announces: false,
    together: None,
    release: script!(quick "reentrant/release" after "silent", [Lock]),
    settle: script!("reentrant/settle" after "silent", [Lock]),
    force: script!("reentrant/force" after "silent", [Lock]),
    ..REENTRANT
};

static FENCED_SPIN: Table =
    Table { name: "fenced_spin", fenced: true, acquire: FENCED.acquire, hand_over: FENCED.hand_over, ..SPIN };

kind! {
    /// The kind of [`Locks::spin_lock`](crate::Locks::spin_lock). It sends no SUBSCRIBE and no PUBLISH: its waiters ask
    /// again after a back-off. That suits a large cluster, where every PUBLISH crosses the bus, and locks that are
    /// rarely contended. It is the same lock on the server as [`Locks::lock`](crate::Locks::lock) of that name, but its
    /// release wakes nobody: other kinds that wait on the name find it within their cap (lockson) or when the lease
    /// ends (Redisson).
    Spin is SPIN, fenced by FENCED_SPIN
}
