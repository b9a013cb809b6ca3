//! What a client is told that connects to what is not there, or not as it believes.

use support::prelude::*;
use support::{Cluster, Sentinels};

#[tokio::test]
async fn a_single_server_is_no_cluster_and_has_no_sentinels() {
    let port = Server::shared().port();
    let cluster = Locks::connect(&format!("redis-cluster://127.0.0.1:{port}")).await;
    assert_matches!(cluster, Err(ConnectError::NoCluster(why)) if why.contains(&port.to_string()));
    let sentinel = Locks::connect(&format!("redis-sentinel://127.0.0.1:{port}/mymaster")).await;
    assert_matches!(sentinel, Err(ConnectError::NoSentinel(why)) if why.contains(&port.to_string()));
}

/// A server that knows no HELLO, as old ones and some proxies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resp3_is_needed() {
    let server = Server::with(&[("rename-command", "HELLO HOWDY")]);
    let at = format!("127.0.0.1:{}", server.port());
    for url in ["redis://AT", "redis-cluster://AT", "redis-sentinel://AT/mymaster"] {
        // The server repeats what it was sent: what is secret of that is not said.
        let url = url.replace("AT", &format!("someone:pass-of-theirs@{at}"));
        let refused = patient("an error", Locks::connect(&url)).await;
        let is_told = |why: &str| why.contains("HELLO") && !why.contains("theirs");
        assert_matches!(refused, Err(ConnectError::Resp2(why)) if is_told(&why), url);
    }
}

/// Of every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_may_be_run() {
    let cluster = Cluster::start(0, ms(2_000));
    cluster.nodes[2].control(&["ACL", "SETUSER", "default", "-eval", "-evalsha"]);
    let refused = Locks::connect(&cluster.url()).await;
    let named = |why: &str| why.contains("eval");
    assert_matches!(refused, Err(ConnectError::Refused(Refused::NoPermission(why))) if named(&why));
}

/// All that were tried are named.
#[tokio::test]
async fn nobody_is_there() {
    for url in ["redis-cluster://127.0.0.1:1,127.0.0.1:2", "redis-sentinel://127.0.0.1:1,127.0.0.1:2/mymaster"] {
        let refused = patient("an error", Locks::connect(url)).await;
        let named = |why: &str| why.contains(":1 (") && why.contains(":2 (");
        assert_matches!(refused, Err(ConnectError::Unreachable(why)) if named(&why), url);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_no_single_server_and_needs_all_slots() {
    let cluster = Cluster::start(0, ms(2_000));
    for node in &cluster.nodes {
        assert_matches!(Locks::connect(&node.url()).await, Err(ConnectError::Refused(Refused::Cluster)));
    }
    tokio::task::block_in_place(|| cluster.unassign(7000));
    assert_matches!(Locks::connect(&cluster.url()).await, Err(ConnectError::Uncovered { slot: 7000 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_know_no_such_primary_say_so() {
    let all = Sentinels::start(ms(1_000));
    let url = all.url().replace("mymaster", "nobody");
    assert_matches!(
        Locks::connect(&url).await,
        Err(ConnectError::UnknownPrimary { name, sentinels }) if name == "nobody" && sentinels.contains("No such")
    );
    let cluster = Locks::connect(&format!("redis-cluster://127.0.0.1:{}", all.sentinels[0].port())).await;
    assert_matches!(cluster, Err(ConnectError::NoCluster(_)));
}
