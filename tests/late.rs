//! Clients that begin before their servers are there: `connect_lazy`.

use std::thread;

use futures::StreamExt;
use support::prelude::*;
use support::{server, Deployment, Topology};
use tokio::time::timeout;

fn refusal(outcome: Result<AcquireOutcome, LockError>) -> Refused {
    match outcome {
        Err(LockError::Query(QueryError::Refused { why, .. })) => why,
        other => panic!("{other:?}"),
    }
}

/// Who began to wait for a lock before there was a server has it soon after there is one, and is told of releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_may_start_before_its_servers() {
    for topology in [Topology::Single, Topology::Sentinel, Topology::Cluster] {
        let deployment = Deployment::shared(topology, &server::program());
        let way = deployment.way();
        way.close(true);
        let (locks, name) = (way.connect_lazy(Locks::builder().wait_cap(secs(60))), unique("late"));
        let waiting = spawn_with(locks.lock(&name), |lock| async move { lock.guard().await.unwrap() });
        let health = locks.health();
        assert!(!health.reachable && !health.nodes.is_empty(), "{topology:?}: {health:?}");
        assert!(health.nodes.iter().all(|node| node.away.is_some()), "{topology:?}: {health:?}");
        assert!(!waiting.is_finished());
        way.close(false);
        let guard = patient("it has it", waiting).await.unwrap();
        assert!(locks.health().reachable, "{topology:?}");
        let theirs = Locks::connect(&deployment.url()).await.unwrap();
        let waiting = spawn_with(theirs.lock(&name), |lock| async move { lock.guard().await.unwrap() });
        eventually(secs(20), "it listens", async || theirs.health().subscriptions == 1).await;
        guard.unlock().await.unwrap();
        let theirs = patient("it is told", waiting).await.unwrap();
        let waiting = spawn_with(locks.lock(&name), |lock| async move { lock.guard().await.unwrap() });
        eventually(secs(20), "it listens", async || locks.health().subscriptions == 1).await;
        theirs.unlock().await.unwrap();
        patient("it is told too", waiting).await.unwrap().unlock().await.unwrap();
    }
}

/// What `connect` would have told is told by the calls, until it is mended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_refuses_is_told_until_it_is_mended() {
    let server = Server::with(&[("requirepass", "right"), ("maxmemory-policy", "allkeys-lru")]);
    let url = format!("redis://:{}@127.0.0.1:{}", "wrong", server.port());
    let locks = Locks::builder().outage_limit(secs(20)).connect_lazy(&url).unwrap();
    let lock = locks.lock("mended");
    assert_matches!(refusal(lock.try_lock().await), Refused::NotAuthenticated(_));
    let mut raw = server.raw().await;
    raw.must(&["CONFIG", "SET", "requirepass", "wrong"]).await;
    let evicts = async || matches!(refusal(lock.try_lock().await), Refused::Other(why) if why.contains("allkeys-lru"));
    eventually(secs(20), "it may drop locks", evicts).await;
    assert_eq!(raw.must(&["DBSIZE"]).await.int(), 0, "nothing is left behind");
    raw.must(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let works = async || lock.try_lock().await.is_ok_and(|outcome| outcome.is_acquired());
    eventually(secs(20), "it works", works).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_words_is_told_at_once() {
    assert_matches!(Locks::builder().connect_lazy("http://127.0.0.1"), Err(ConnectError::Scheme));
    let refused = Locks::builder().wait_cap(Duration::ZERO).connect_lazy("redis://127.0.0.1:1");
    assert_matches!(refused, Err(ConnectError::Setting { .. }));
    let outside = thread::spawn(|| Locks::builder().connect_lazy("redis://127.0.0.1:1").err());
    assert_matches!(outside.join().unwrap(), Some(ConnectError::NoRuntime));
}

/// Calls end at their limits, an operator is told that nobody is there, and nothing goes on when the client goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_comes_is_an_outage() {
    let proxy = Proxy::start(Server::shared().port());
    proxy.refuse(true);
    let builder = Locks::builder().command_timeout(ms(200)).outage_limit(secs(1));
    let locks = builder.connect_lazy(&proxy.url()).unwrap();
    let unreachable = |error: LockError| matches!(error, LockError::Query(QueryError::Unreachable { .. }));
    assert!(unreachable(patient("its limit", locks.lock("never").lock()).await.unwrap_err()));
    assert!(unreachable(patient("its limit", locks.lock("never").try_lock()).await.unwrap_err()));
    assert_matches!(locks.admin().servers().await, Err(QueryError::Unreachable { .. }));
    assert_matches!(locks.admin().list("*").next().await, Err(QueryError::Unreachable { .. }));
    let _ = patient("its end", locks.shutdown(secs(1))).await;
    let events = locks.events();
    drop(locks);
    patient("its end", events.collect::<Vec<_>>()).await;
    proxy.forget_requests();
    proxy.refuse(false);
    let comes = proxy.wait_requests(1, Filter::Any);
    assert!(timeout(secs(2), comes).await.is_err(), "nobody connects any more");
}

/// What was never sent can take nothing: nobody waits for that at the end, and nothing is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_does_not_wait_for_who_asks_in_vain() {
    let proxy = Proxy::start(Server::shared().port());
    proxy.refuse(true);
    let locks = Locks::builder().outage_limit(secs(300)).connect_lazy(&proxy.url()).unwrap();
    let (lock, pool) = (locks.lock("never"), locks.semaphore("never"));
    let waiter = begun(async move { lock.lock().await }).await;
    let taker = begun(async move { pool.guard(1).await.map(drop) }).await;
    assert_eq!(patient("the end", locks.shutdown(secs(300))).await, Ok(()));
    assert_eq!(waiter.await.unwrap(), Err(LockError::Query(QueryError::Closed)));
    assert_eq!(taker.await.unwrap(), Err(SyncError::Query(QueryError::Closed)));
}
