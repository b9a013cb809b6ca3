//! Grants that replicas have to confirm: how many have to, and whether so many did. Rule 25 of docs/PROTOCOL.md.

use crate::backend::node::Node;
use crate::backend::{Backend, Fate, Item};
use crate::base::config::{Confirm, Replicas};
use crate::base::fault::Refused;

/// Fewer replicas have what was granted than have to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) acked: u32,
    pub(crate) wanted: u32,
}

/// So many replicas of this node have to have it.
pub(crate) async fn wanted(backend: &dyn Backend, node: &Node, confirm: Confirm) -> Result<u32, Fate> {
    match confirm.replicas {
        Replicas::AtLeast(count) => Ok(count),
        Replicas::All => Ok(listed(backend, node).await?.max(1)),
    }
}

async fn listed(backend: &dyn Backend, node: &Node) -> Result<u32, Fate> {
    if let Some(listed) = node.replicas() {
        return Ok(listed);
    }
    let listed = backend.replicas(node).await?;
    node.lists(Some(listed));
    Ok(listed)
}

/// Refuses what could not be confirmed, as the node with this key has too few replicas. Nothing is written.
pub(crate) async fn check(backend: &dyn Backend, key: &str, confirm: Option<Confirm>) -> Result<(), Refused> {
    let Some(confirm) = confirm else { return Ok(()) };
    let Ok(node) = backend.node(key) else { return Ok(()) };
    let asked = confirm.replicas.fewest();
    if node.replicas().is_some_and(|listed| listed < asked) {
        // It may have got some since.
        node.lists(None);
    }
    match listed(backend, &node).await {
        Ok(listed) if listed < asked => Err(Refused::Replicas { asked, listed }),
        Err(Fate::Refused(why)) => Err(why),
        // Where it does not answer, the call itself waits for it.
        _ => Ok(()),
    }
}

/// Takes off an answer how many replicas have it, and how many are connected. `wanted` have to have it, and of all
/// those too that are connected and not listed yet, as they may be promoted. `None`: so many have it.
pub(crate) fn short(items: &mut Vec<Item>, confirm: Confirm, wanted: u32) -> Option<Short> {
    let mut count = || match items.pop() {
        Some(Item::Int(count)) => u32::try_from(count).unwrap_or_default(),
        _ => 0,
    };
    let (online, acked) = (count(), count());
    let wanted = if confirm.replicas == Replicas::All { wanted.max(online) } else { wanted };
    (acked < wanted).then_some(Short { acked, wanted })
}
