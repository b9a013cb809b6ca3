//! A cluster forms, fails over, and has its nodes back.

use std::collections::BTreeSet;

use support::cluster::PRIMARIES;
use support::prelude::*;
use support::Cluster;

use super::told;

#[test]
fn a_cluster_serves_all_slots_and_every_primary_has_its_replicas() {
    let cluster = Cluster::start(2, ms(2_000));
    assert_eq!(cluster.nodes.len(), 3 * PRIMARIES);
    let all: BTreeSet<usize> = (0..PRIMARIES).flat_map(|node| cluster.replicas_of(node)).collect();
    assert_eq!(all, (PRIMARIES..3 * PRIMARIES).collect());
    for node in 0..PRIMARIES {
        assert_eq!(cluster.replicas_of(node).len(), 2);
        let name = cluster.name_on(node, "topology");
        assert_eq!(told(cluster.nodes[node].try_control(&["SET", &name, "x"])), "OK");
        assert_eq!(told(cluster.nodes[(node + 1) % PRIMARIES].try_control(&["GET", &name])), "MOVED");
    }
}

#[test]
fn a_killed_primary_has_a_successor_and_follows_it_when_it_is_back() {
    let cluster = Cluster::start(1, ms(500));
    let name = cluster.name_on(1, "topology");
    let slot = cluster.slot_of(&name);
    cluster.nodes[1].control(&["SET", &name, "kept"]);
    assert_eq!(cluster.nodes[1].control(&["WAIT", "1", "5000"]).int(), 1);
    cluster.nodes[1].kill();
    let heir = cluster.elected(slot, 1);
    assert_eq!(heir, 1 + PRIMARIES);
    cluster.nodes[1].restart();
    cluster.settle();
    assert_eq!((cluster.primary_of(slot), cluster.replicas_of(heir)), (heir, vec![1]));
    assert_eq!(cluster.nodes[heir].control(&["GET", &name]).text(), "kept");
}

#[test]
fn a_frozen_primary_has_a_successor_and_follows_it_when_it_wakes() {
    let cluster = Cluster::start(1, ms(500));
    cluster.nodes[0].freeze();
    let heir = cluster.elected(0, 0);
    cluster.nodes[0].thaw();
    cluster.settle();
    assert_eq!((cluster.primary_of(0), cluster.replicas_of(heir)), (heir, vec![0]));
}

#[test]
fn a_replica_takes_over_when_it_is_told() {
    let cluster = Cluster::start(1, ms(2_000));
    for how in [None, Some("FORCE"), Some("TAKEOVER")] {
        let old = cluster.primary_of(0);
        let [replica] = cluster.replicas_of(old)[..] else { panic!("one replica") };
        cluster.fail_over(replica, how);
        assert_eq!(cluster.elected(0, old), replica, "{how:?}");
        cluster.settle();
    }
}
