//! What a client says of its servers, asked and in its log: who is there, who is away, who took whose place. Once.

use lockson::{NodeHealth, Role, Topology};
use support::prelude::*;
use support::{Cluster, Sentinels};
use tracing::Level;

fn at(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn of(locks: &Locks, server: &Server) -> NodeHealth {
    let found = locks.health().nodes.into_iter().find(|node| node.address == at(server));
    found.unwrap_or_else(|| panic!("{} in {:?}", at(server), locks.health().nodes))
}

/// Lines of a level with these words, about this server.
fn count(logs: &Logs, level: Level, words: &str, server: &Server) -> usize {
    logs.find(level, words).iter().filter(|line| line.contains(&at(server))).count()
}

#[tokio::test]
async fn one_server_is_there_or_away() {
    let (logs, _scope) = Logs::scoped();
    let server = Server::start();
    let locks = Locks::builder().command_timeout(ms(200)).connect(&server.url()).await.unwrap();
    assert_eq!(logs.count(Level::INFO, "connected"), 1);
    assert!(logs.find(Level::INFO, "connected")[0].contains(&format!("topology=single nodes=[\"{} p", at(&server))));
    let is_away = || of(&locks, &server).away.is_some();
    assert_eq!(
        (locks.health().topology, of(&locks, &server).role, is_away()),
        (Topology::Single, Role::Primary, false)
    );
    server.freeze();
    eventually(secs(20), "the server is away", async || is_away()).await;
    server.thaw();
    eventually(secs(20), "the server is back", async || !is_away()).await;
}

/// Behind sentinels: the primary and all of the sentinels, a sentinel that goes and comes, and another primary.
#[tokio::test]
async fn sentinels_and_their_primary_are_seen() {
    let (logs, _scope) = Logs::scoped();
    let all = Sentinels::start(ms(500));
    let locks = Locks::connect(&all.url()).await.unwrap();
    let others = || all.sentinels.iter().map(|sentinel| of(&locks, sentinel).role).collect::<Vec<_>>();
    eventually(secs(20), "all sentinels are known", async || locks.health().nodes.len() == 4).await;
    assert_eq!((locks.health().topology, others()), (Topology::Sentinel, vec![Role::Sentinel; 3]));
    assert_eq!(of(&locks, &all.servers[0]).role, Role::Primary);
    eventually(secs(20), "all are there", async || locks.health().nodes.iter().all(|node| node.away.is_none())).await;
    all.sentinels[2].kill();
    eventually(secs(20), "one is away", async || of(&locks, &all.sentinels[2]).away.is_some()).await;
    sleep(ms(500)).await;
    assert!(of(&locks, &all.sentinels[2]).away.unwrap() >= ms(500));
    all.sentinels[2].restart();
    eventually(secs(20), "it is back", async || of(&locks, &all.sentinels[2]).away.is_none()).await;
    assert_eq!(count(&logs, Level::WARN, "a server is away", &all.sentinels[2]), 1);
    assert_eq!(count(&logs, Level::INFO, "a server is back", &all.sentinels[2]), 1);
    all.servers[0].kill();
    let heir = tokio::time::timeout(secs(60), async {
        loop {
            let heir =
                (1..3).find(|server| locks.health().nodes.iter().any(|node| node.address == at(&all.servers[*server])));
            match heir {
                Some(heir) => return heir,
                None => sleep(ms(20)).await,
            }
        }
    });
    let heir = heir.await.expect("another primary");
    eventually(secs(20), "it is there", async || {
        locks.health().reachable && of(&locks, &all.servers[heir]).away.is_none()
    })
    .await;
    assert_eq!(of(&locks, &all.servers[heir]).role, Role::Primary);
    assert_eq!(count(&logs, Level::WARN, "a server is away", &all.servers[0]), 1);
    assert_eq!(count(&logs, Level::WARN, "the primary is left", &all.servers[0]), 1);
    assert_eq!(count(&logs, Level::INFO, "this is the primary", &all.servers[heir]), 1);
    assert!(locks.health().nodes.iter().all(|node| node.address != at(&all.servers[0])));
}

/// In a cluster: all primaries, one that dies, its successor, and the one that comes back as a replica.
#[tokio::test]
async fn the_primaries_of_a_cluster_are_seen() {
    let (logs, _scope) = Logs::scoped();
    let cluster = Cluster::start(1, ms(500));
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    let [dead, others @ ..] = [1, 0, 2].map(|node: usize| &cluster.nodes[node]);
    let heir = &cluster.nodes[cluster.replicas_of(1)[0]];
    for primary in [dead, others[0], others[1]] {
        let NodeHealth { role, away, .. } = of(&locks, primary);
        assert_eq!((role, away), (Role::Primary, None));
    }
    assert_eq!((locks.health().topology, locks.health().nodes.len()), (Topology::Cluster, 3));
    dead.kill();
    eventually(secs(20), "one is away", async || of(&locks, dead).away.is_some()).await;
    let has_heir = async || locks.health().nodes.iter().any(|node| node.address == at(heir) && node.away.is_none());
    eventually(secs(60), "its replica takes its place", has_heir).await;
    assert_eq!((of(&locks, heir).role, of(&locks, dead).role), (Role::Primary, Role::Other), "a seed is kept");
    dead.restart();
    eventually(secs(20), "it is back", async || of(&locks, dead).away.is_none()).await;
    assert_eq!(of(&locks, dead).role, Role::Other);
    assert_eq!(count(&logs, Level::WARN, "a server is away", dead), 1);
    assert_eq!(count(&logs, Level::INFO, "a server is back", dead), 1);
    assert_eq!(count(&logs, Level::WARN, "the server has no slots any more", dead), 1);
    assert_eq!(count(&logs, Level::INFO, "the server has slots now", heir), 1);
    for other in others {
        assert_eq!(
            logs.lines().iter().filter(|line| line.contains(&at(other)) && !line.contains("connected")).count(),
            0
        );
    }
}

/// When nothing is wrong: each tenth of a second here, and by default not within seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_asked_as_often_as_is_set() {
    let cluster = Cluster::start(0, ms(2_000));
    let calls = || cluster.nodes[0].calls("cluster|slots");
    let often = Locks::builder().refresh_interval(ms(100)).connect(&cluster.url()).await.unwrap();
    let before = calls();
    eventually(secs(20), "it is asked", async || calls() >= before + 10).await;
    often.shutdown(secs(5)).await.unwrap();
    let seldom = Locks::connect(&cluster.url()).await.unwrap();
    // What its beginning has asked for.
    sleep(secs(1)).await;
    let before = calls();
    sleep(secs(2)).await;
    assert!(calls() <= before + 1);
    drop(seldom);
}
