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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::stub::Stub;

    async fn check(stub: &Stub, replicas: Replicas) -> Result<(), Refused> {
        super::check(stub, "key", Some(confirm(replicas))).await
    }

    fn confirm(replicas: Replicas) -> Confirm {
        Confirm::new(replicas, std::time::Duration::from_secs(1))
    }

    #[tokio::test]
    async fn all_that_are_listed_have_to_have_it_and_one_at_least() {
        for (listed, all) in [(0, 1), (1, 1), (3, 3)] {
            let stub = Stub::new();
            stub.list([Ok(listed)]);
            assert_eq!(wanted(&*stub, &stub.node, confirm(Replicas::AtLeast(2))).await, Ok(2));
            assert_eq!(wanted(&*stub, &stub.node, confirm(Replicas::All)).await, Ok(all), "{listed}");
        }
    }

    #[tokio::test]
    async fn what_is_listed_is_asked_once_while_it_suffices() {
        let stub = Stub::new();
        stub.list([Ok(2), Ok(1)]);
        for replicas in [Replicas::AtLeast(2), Replicas::AtLeast(1), Replicas::All, Replicas::AtLeast(2)] {
            assert_eq!(check(&stub, replicas).await, Ok(()));
        }
        assert_eq!(stub.node.replicas(), Some(2));
        let refused = check(&stub, Replicas::AtLeast(3)).await;
        assert_eq!(refused, Err(Refused::Replicas { asked: 3, listed: 1 }), "there are others by now");
    }

    #[tokio::test]
    async fn a_refusal_is_one_and_silence_is_none() {
        let stub = Stub::new();
        stub.list([Err(Fate::Refused(Refused::OutOfMemory)), Err(Fate::Doubtful(String::new()))]);
        assert_eq!(check(&stub, Replicas::All).await, Err(Refused::OutOfMemory));
        assert_eq!(check(&stub, Replicas::All).await, Ok(()));
        assert_eq!(super::check(&*stub, "key", None).await, Ok(()));
    }

    #[test]
    fn those_that_have_it_are_counted() {
        let two = Some(Short { acked: 1, wanted: 2 });
        for (replicas, wanted, acked, online, expected) in [
            (Replicas::AtLeast(2), 2, 2, 5, None),
            (Replicas::AtLeast(2), 2, 3, 5, None),
            (Replicas::AtLeast(2), 2, 1, 5, two),
            (Replicas::All, 1, 1, 1, None),
            (Replicas::All, 1, 1, 2, two),
            (Replicas::All, 2, 1, 1, two),
        ] {
            let mut items = vec![Item::Int(7), Item::Int(acked), Item::Int(online)];
            assert_eq!(short(&mut items, confirm(replicas), wanted), expected, "{replicas:?} {acked} of {online}");
            assert_eq!(items, [Item::Int(7)]);
        }
        let none = short(&mut vec![Item::Nil, Item::Nil], confirm(Replicas::All), 1);
        assert_eq!(none, Some(Short { acked: 0, wanted: 1 }));
    }
}
