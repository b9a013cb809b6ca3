//! The seam: all that lockson asks of servers. Behind it stand `fred` and `redis_rs` for one real one, `topology` for
//! many, and [`embedded`](super) for one inside the process; all run the same Lua files.

mod call;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
#[cfg(feature = "redis")]
pub(crate) mod fred;
#[cfg(feature = "redis")]
pub(crate) mod fred_call;
#[cfg(feature = "redis")]
pub(crate) mod fred_config;
pub(crate) mod node;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(feature = "redis")]
pub(crate) mod url;

use std::ops::RangeInclusive;
use std::sync::Arc;

use ::futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

pub use call::Script;
pub(crate) use call::{Call, Fate, Item, Outcome};
use node::{Node, NodeHealth, Topology};

use crate::base::fault::Refused;

/// Ranges of hash slots. Where one server has all keys they are all in one: [`ALL_SLOTS`] has it.
pub(crate) type Slots = Vec<RangeInclusive<u16>>;

/// Every slot there is.
pub(crate) const ALL_SLOTS: RangeInclusive<u16> = 0..=16_383;

/// The keys that say since when a server has lost nothing, strictly, and as far as failovers go. In a cluster each node
/// has its own, with a tag behind it.
pub(crate) const BOOT: &str = "lockson:boot";
pub(crate) const QUARANTINE: &str = "lockson:quarantine";

/// Told whenever more is known of the servers: one is there again, or another has its keys.
pub(crate) type Changes = watch::Receiver<()>;

/// What a backend reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A message arrived on this channel; `zero` if it says `0`.
    Message { channel: String, zero: bool },
    /// Messages may have been missed and no subscription may be left: subscribe again, then let every waiter try again.
    Gap,
    /// The same, of these channels alone.
    Lost(Vec<String>),
    /// Messages were missed, more of them than there was room for, but every subscription is left.
    Missed,
    /// The server answers where messages come from.
    Whole,
    /// A node that had these slots is over, by [`Node::end`], and another one has them: what it granted may be lost.
    Over(Slots),
}

/// The servers of one deployment, as seen by one client: which node has which key, and messages.
pub(crate) trait Backend: Send + Sync + 'static {
    /// The node that has this key, as far as is known. It may not be connected yet. Else [`Fate::NotSent`]: no node is
    /// known to have it, which may change.
    fn node(&self, key: &str) -> Result<Arc<Node>, Fate>;

    /// All nodes that have keys.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// How they belong together.
    fn topology(&self) -> Topology;

    /// All servers that it has, or wants, a connection to, as far as the connections tell.
    fn seen(&self) -> Vec<NodeHealth>;

    /// The slot of a key: keys of two slots are in no script together.
    fn slot(&self, _key: &str) -> u16 {
        0
    }

    /// The marker of this name on the node that has this key.
    fn marker(&self, name: &str, _key: &str) -> String {
        name.to_owned()
    }

    /// Whether another server may take the place of one, which may have lost what that one did last.
    fn fails_over(&self) -> bool {
        false
    }

    /// When it is worth while to try again what did not reach its node. `None`: nobody tells.
    fn changes(&self) -> Option<Changes> {
        None
    }

    /// `by` said that the node at this address has the key: that one, from now on.
    fn moved(&self, _key: &str, _address: &str, _by: &Node) -> Result<Arc<Node>, Fate> {
        Err(Fate::Refused(Refused::Cluster))
    }

    /// `by` said that the node at this address is about to have a key: that one, which is only to be asked.
    fn asked(&self, _address: &str, _by: &Node) -> Result<Arc<Node>, Fate> {
        Err(Fate::Refused(Refused::Cluster))
    }

    /// `by` said that it is a read-only replica. Whether another one is looked for: then that is no refusal.
    fn demoted(&self, _by: &Node) -> bool {
        false
    }

    /// Asks how many replicas this node has, those among them that are silent or not connected.
    fn replicas(&self, _of: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        std::future::ready(Ok(0)).boxed()
    }

    /// Subscribes and confirms it: a message published after this returned `Ok` is reported, or a [`Signal::Gap`] is.
    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>>;

    /// Ends subscriptions.
    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()>;

    /// Ends every task and socket.
    fn close(&self) -> BoxFuture<'static, ()>;
}
