//! Connections that take long to be made: they are waited for as long as is set, and by default not for long.

use support::prelude::*;
use support::{Cluster, Sentinels};
use tokio::net::{TcpListener, TcpStream};

/// Longer than any default.
const PAUSE: Duration = ms(2_500);

/// A port that passes connections on, each after a pause. It works on without one.
async fn slow(target: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                sleep(PAUSE).await;
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    port
}

async fn is_waited_for(url: &str) {
    let refused = patient("an error", Locks::connect(url)).await;
    assert_matches!(refused, Err(ConnectError::Unreachable(_)), url);
    let locks = Locks::builder().connect_timeout(secs(20)).connect(url).await.unwrap();
    locks.lock(&unique("slow")).guard().await.unwrap().unlock().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_are_waited_for() {
    let (one, all, cluster) = (Server::start(), Sentinels::start(secs(5)), Cluster::start(0, ms(2_000)));
    let [server, sentinel, seed] =
        [slow(one.port()).await, slow(all.sentinels[0].port()).await, slow(cluster.nodes[0].port()).await];
    is_waited_for(&format!("redis://127.0.0.1:{server}")).await;
    is_waited_for(&format!("redis-sentinel://127.0.0.1:{sentinel}/mymaster")).await;
    is_waited_for(&format!("redis-cluster://127.0.0.1:{seed}")).await;
}
