//! The examples for sentinels and clusters, with a failover in the middle.

use support::prelude::*;
use support::{Cluster, Sentinels};

#[path = "../../examples/cluster.rs"]
#[allow(dead_code)]
mod cluster;
#[path = "../../examples/sentinel.rs"]
#[allow(dead_code)]
mod sentinel;

const TURNS: u32 = 15;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_behind_sentinels_goes_on() {
    let all = Sentinels::start(ms(1_000));
    let example = spawn_with(all.url(), async move |url| sentinel::run(&url, TURNS).await);
    sleep(ms(600)).await;
    tokio::task::block_in_place(|| {
        all.fail_over();
        all.switched(0);
    });
    let written = patient("the example", example).await.unwrap().unwrap();
    assert!(written as u32 >= TURNS - 1, "{written}");
}

/// Money is neither made nor lost: the primary hands all that it has over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_in_a_cluster_go_on() {
    let cluster = Cluster::start(1, ms(2_000));
    let example = spawn_with(cluster.url(), async move |url| cluster::run(&url, TURNS).await);
    sleep(ms(600)).await;
    let balance = ["1", "2"].map(|number| format!("{{example:account:{number}}}:balance"));
    let slot = cluster.slot_of(&balance[0]);
    tokio::task::block_in_place(|| {
        let old = cluster.primary_of(slot);
        cluster.fail_over(cluster.replicas_of(old)[0], None);
        cluster.elected(slot, old);
    });
    let paid = patient("the example", example).await.unwrap().unwrap();
    assert!(paid >= TURNS - 1, "{paid}");
    let of = |key: &String| cluster.nodes[cluster.primary_of(cluster.slot_of(key))].control(&["GET", key]).text();
    assert_eq!(balance.each_ref().map(of), [format!("-{paid}"), format!("{paid}")]);
}
