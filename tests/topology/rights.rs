//! The rights of docs/GUARANTEES.md on many servers: users are each server's own, and what one of them lacks is named.

use lockson::Replicas;
use support::prelude::*;
use support::{Cluster, Sentinels};

use super::every_kind_works_for;
use crate::acl;

/// The lines of the docs for a topology.
const CLUSTER: &str = "+cluster|slots ";
const SENTINEL: &str = "+role";
const SENTINELS_OWN: &str = "+sentinel|master ";

/// All kinds', and those of a topology.
fn rights(topology: &'static str) -> Vec<&'static str> {
    let kinds = [acl::FENCED, acl::READ_WRITE, acl::READ_WRITE_OPTIONAL, acl::FAIR, acl::PLAIN, acl::PLAIN_OPTIONAL];
    let permits =
        ["+decrby +get +incrby +set ~lockson:receipt", "+zadd +zcard", "+decrby +get +incrby +set ~lockson:*"];
    let more = kinds.into_iter().chain(permits).chain([topology]).flat_map(acl::rights);
    acl::rule().into_iter().chain(more).collect()
}

fn settings() -> Builder {
    let own = Locks::builder().sentinel_username("watcher").sentinel_password("secret");
    own.username("locker").password("password").key_prefix("app:").command_timeout(ms(500)).outage_limit(secs(20))
}

/// What connecting is refused for.
async fn refused(url: &str) -> Refused {
    refused_by(settings(), url).await
}

async fn refused_by(builder: Builder, url: &str) -> Refused {
    match patient("an error", builder.connect(url)).await {
        Err(ConnectError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// All of them are enough; without one of the cluster's own at one node it is named, and so is the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_of_a_cluster_is_asked_for_the_rights() {
    let (cluster, all) = (Cluster::start(0, ms(2_000)), rights(CLUSTER));
    for node in &cluster.nodes {
        acl::grant(node, &all).await;
    }
    every_kind_works_for(settings(), &cluster.url()).await;
    let last = &cluster.nodes[2];
    let port = last.port().to_string();
    for right in acl::rights(CLUSTER).into_iter().chain(["+hget"]) {
        acl::grant(last, &all.iter().copied().filter(|word| *word != right).collect::<Vec<_>>()).await;
        let command = right[1..].split('|').next().unwrap();
        let is_named = |what: &str| what.to_lowercase().contains(command) && what.contains(&port);
        assert_matches!(refused(&cluster.url()).await, Refused::NoPermission(what) if is_named(&what), right);
    }
    // What it takes to hear of replicas is asked for where they are to confirm.
    let confirmed = || settings().confirm(Replicas::All, secs(1));
    for (held, missed) in [("+wait", "cluster"), ("+cluster|nodes", "wait")] {
        for node in &cluster.nodes {
            acl::grant(node, &[&all[..], &[held]].concat()).await;
        }
        let told = refused_by(confirmed(), &cluster.url()).await;
        assert_matches!(told, Refused::NoPermission(what) if what.to_lowercase().contains(missed), held);
    }
    last.control(&["ACL", "DELUSER", "locker"]);
    assert_matches!(refused(&cluster.url()).await, Refused::NotAuthenticated(what) if what.contains(&port));
}

/// And of a primary behind sentinels, which have a user of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_primary_are_asked_for_the_rights() {
    let (all, own) = (Sentinels::start(ms(2_000)), rights(SENTINEL));
    for server in &all.servers {
        acl::grant(server, &own).await;
    }
    let watcher = |rights: &[&str]| {
        let command = [&["ACL", "SETUSER", "watcher", "reset", "on", ">secret", "-@all"], rights].concat();
        all.sentinels.iter().for_each(|sentinel| drop(sentinel.control(&command)));
    };
    watcher(&acl::rights(SENTINELS_OWN));
    every_kind_works_for(settings(), &all.url()).await;
    for right in ["+role", "+hget"] {
        acl::grant(&all.servers[0], &own.iter().copied().filter(|word| *word != right).collect::<Vec<_>>()).await;
        let is_named = |what: &str| what.to_lowercase().contains(&right[1..]);
        assert_matches!(refused(&all.url()).await, Refused::NoPermission(what) if is_named(&what), right);
    }
    for rights in [&["+ping"][..], &[]] {
        watcher(rights);
        assert_matches!(refused(&all.url()).await, Refused::NoPermission(what) if what.contains("sentinel|master"));
    }
    let stranger = settings().sentinel_password("another").connect(&all.url()).await;
    assert_matches!(stranger, Err(ConnectError::Refused(Refused::NotAuthenticated(_))));
}

/// Whoever calls is told at once that the server has no such user, and when it has one goes on.
async fn is_told_and_goes_on(locks: &Locks, name: &str, grant: impl AsyncFnOnce()) {
    let lock = locks.lock(name);
    let refused = |told: &Result<AcquireOutcome, LockError>| {
        matches!(told, Err(LockError::Query(QueryError::Refused { why: Refused::NotAuthenticated(_), .. })))
    };
    eventually(secs(20), "it is told", async || refused(&lock.try_lock().await)).await;
    grant().await;
    eventually(secs(20), "it goes on", async || lock.try_lock().await == Ok(Acquired)).await;
    lock.unlock().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_server_without_the_user_says_so_until_it_has_it() {
    let all = Sentinels::start(ms(2_000));
    acl::grant(&all.servers[0], &rights(SENTINEL)).await;
    let watcher = ["ACL", "SETUSER", "watcher", "on", ">secret", "+@all", "&*"];
    all.sentinels.iter().for_each(|sentinel| drop(sentinel.control(&watcher)));
    let locks = settings().connect(&all.url()).await.unwrap();
    locks.lock("promoted").guard().await.unwrap().unlock().await.unwrap();
    tokio::task::block_in_place(|| {
        all.fail_over();
        all.switched(0);
    });
    is_told_and_goes_on(&locks, "promoted", async || {
        for server in &all.servers {
            acl::grant(server, &rights(SENTINEL)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_node_without_the_user_says_so_until_it_has_it() {
    let cluster = Cluster::start(1, ms(2_000));
    for node in &cluster.nodes[..3] {
        acl::grant(node, &rights(CLUSTER)).await;
    }
    let locks = settings().connect(&cluster.url()).await.unwrap();
    // By its slot with the prefix.
    let place = |name: &str| cluster.primary_of(cluster.slot_of(&format!("app:{name}")));
    let on = |node| std::iter::repeat_with(|| unique("promoted")).find(|name| place(name) == node).unwrap();
    let (name, other) = (on(0), on(1));
    let [replica] = cluster.replicas_of(0)[..] else { panic!("one replica") };
    tokio::task::block_in_place(|| {
        cluster.fail_over(replica, None);
        cluster.elected(cluster.slot_of(&format!("app:{name}")), 0);
    });
    is_told_and_goes_on(&locks, &name, async || {
        locks.lock(&other).guard().await.unwrap().unlock().await.unwrap();
        acl::grant(&cluster.nodes[replica], &rights(CLUSTER)).await;
    })
    .await;
}
