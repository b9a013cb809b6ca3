//! Connections that a program lends: shared while lockson is there, untouched when it goes, and refused where a lock is
//! not safe on them. `contract` has what locks do on them.

use fred::prelude::{Client, ClientInterface, ClientLike, ReconnectPolicy};
use fred::types::config::{Config, ServerConfig};
use redis::aio::MultiplexedConnection;
use redis::AsyncTypedCommands;
use support::by::{fred_client, lending};
use support::prelude::*;
use support::By;
use tokio::sync::mpsc::unbounded_channel;

/// A free connection to the shared server, by a proxy that sees all of it.
async fn resp2(proxy: &Proxy) -> MultiplexedConnection {
    let client = redis::Client::open(format!("{}?protocol=resp2", proxy.url())).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

fn sleepy() -> Builder {
    Locks::builder().wait_cap(secs(60))
}

/// Who waits by `locks` is told when another client gives the lock back.
async fn is_woken(locks: &Locks) {
    let name = unique("lent");
    let (mine, theirs) = (locks.lock(&name), Server::shared().locks().await.lock(&name));
    let held = theirs.guard().await.unwrap();
    let waiting = spawn_with(mine, |mine| async move { mine.guard().await.unwrap().unlock().await.unwrap() });
    let mut raw = Server::shared().raw().await;
    let channel = format!("redisson_lock__channel:{{{name}}}");
    eventually(secs(20), "it listens", async || raw.subscribers(&channel).await == 1).await;
    held.unlock().await.unwrap();
    patient("it is told", waiting).await.unwrap();
}

/// All goes by the program's connection but messages; when lockson goes, the connection stays as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_fred_is_shared() {
    let proxy = Proxy::start(Server::shared().port());
    let client = fred_client(&proxy.url()).await;
    let id: i64 = client.client_id().await.unwrap();
    let locks = sleepy().over_fred(&client).await.unwrap();
    is_woken(&locks).await;
    let clients = Server::shared().control(&["CLIENT", "LIST"]).text();
    let name = format!(" name=lockson:{} ", locks.client_id());
    let own: Vec<&str> = clients.lines().filter(|line| line.contains(&name)).collect();
    assert!(matches!(own[..], [one] if one.contains(" cmd=ping ")), "one, for messages: {own:?}");
    let shared = clients.lines().find(|line| line.starts_with(&format!("id={id} "))).unwrap();
    assert!(shared.contains(" cmd=eval"), "{shared}");
    locks.shutdown(secs(5)).await.unwrap();
    assert_eq!(client.client_id::<i64>().await.unwrap(), id, "the same connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_fred_lends_a_member() {
    let pool = lending(&Server::shared().url()).build_pool(3).unwrap();
    pool.init().await.unwrap();
    is_woken(&sleepy().over_fred(pool.next()).await.unwrap()).await;
}

#[tokio::test]
async fn what_makes_a_client_of_fred_unsafe_is_refused_by_name() {
    let url = Server::shared().url();
    let retrying = lending(&url).with_connection_config(|connection| connection.max_command_attempts = 3).build();
    let refused = Locks::builder().over_fred(&retrying.unwrap()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "ConnectionConfig::max_command_attempts is 3, must be 1: fred would send a call again that may have run"
    );
    let told_to_all =
        lending(&url).with_connection_config(|connection| connection.reconnect_on_auth_error = true).build().unwrap();
    assert_matches!(
        Locks::builder().over_fred(&told_to_all).await,
        Err(ConnectError::Setting { setting: "ConnectionConfig::reconnect_on_auth_error", .. })
    );
    let config = Config::from_url(&url).unwrap();
    let connection = fred::types::config::ConnectionConfig { max_command_attempts: 1, ..Default::default() };
    let fragile = Client::new(config, None, Some(connection), None);
    assert_matches!(
        Locks::builder().over_fred(&fragile).await,
        Err(ConnectError::Setting { setting: "ReconnectPolicy", .. })
    );
    let once = ReconnectPolicy::new_constant(1, 100);
    let gives_up = lending(&url).set_policy(once).build().unwrap();
    assert_matches!(
        Locks::builder().over_fred(&gives_up).await,
        Err(ConnectError::Setting { setting: "ReconnectPolicy::max_attempts", .. })
    );
    let unconnected = lending(&url).build().unwrap();
    let refused = patient("an answer", Locks::builder().connect_timeout(ms(200)).over_fred(&unconnected)).await;
    assert_matches!(refused, Err(ConnectError::Unreachable(why)) if why.contains("`init`"));
    let cluster = ServerConfig::new_clustered(vec![("127.0.0.1", Server::shared().port())]);
    let cluster = Client::new(Config { server: cluster, ..Config::default() }, None, None, None);
    assert_matches!(Locks::builder().over_fred(&cluster).await, Err(ConnectError::NoCluster(_)));
}

/// The program's own subscriptions go on beside ours, and after us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_of_redis_rs_is_shared() {
    let (mut connection, mut theirs, ours) = {
        let client = redis::Client::open(format!("{}?protocol=resp3", Server::shared().url())).unwrap();
        let ((to_us, ours), (to_them, theirs)) = (unbounded_channel(), unbounded_channel());
        let both = move |push: redis::PushInfo| to_them.send(push.clone()).and(to_us.send(push));
        let config = redis::aio::ConnectionManagerConfig::new().set_push_sender(both);
        (redis::aio::ConnectionManager::new_with_config(client, config).await.unwrap(), theirs, ours)
    };
    let news = unique("news");
    connection.subscribe(&news).await.unwrap();
    let locks = sleepy().over_redis_rs(connection.clone(), Some(ours)).await.unwrap();
    is_woken(&locks).await;
    locks.shutdown(secs(5)).await.unwrap();
    let id: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await.unwrap();
    let clients = Server::shared().control(&["CLIENT", "LIST", "ID", &id.to_string()]).text();
    assert!(clients.contains(" sub=1 "), "only the program's: {clients}");
    assert_eq!(connection.publish(&news, "1").await.unwrap(), 1);
    let is_message = |push: redis::PushInfo| {
        push.kind == redis::PushKind::Message && push.data[0] == redis::Value::BulkString(news.clone().into_bytes())
    };
    patient("its message", async { while !theirs.recv().await.is_some_and(is_message) {} }).await;
}

/// Nobody is told, nothing subscribes, and who waits looks by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_pushes_who_waits_looks() {
    let proxy = Proxy::start(Server::shared().port());
    let mut connection = resp2(&proxy).await;
    let locks = Locks::builder().wait_cap(ms(100)).over_redis_rs(connection.clone(), None).await.unwrap();
    let (name, latch) = (unique("looks"), unique("latch"));
    let theirs = Server::shared().locks().await;
    let held = theirs.lock(&name).guard().await.unwrap();
    let waiting = spawn_with(locks.lock(&name), |lock| async move { lock.guard().await.unwrap().unlock().await });
    proxy.wait_requests(5, Filter::Command("EVALSHA")).await;
    held.unlock().await.unwrap();
    patient("it looks", waiting).await.unwrap().unwrap();
    theirs.latch(&latch).try_set_count(1).await.unwrap();
    let waiting = spawn_with(locks.latch(&latch), |latch| async move { latch.wait().await.unwrap() });
    theirs.latch(&latch).count_down().await.unwrap();
    assert_eq!(patient("it looks", waiting).await.unwrap(), lockson::WaitOutcome::Opened);
    assert_eq!(proxy.requests(Filter::Command("SUBSCRIBE")), 0, "it would keep all else from the connection");
    connection.set(unique("its own"), "works").await.unwrap();
}

#[tokio::test]
async fn what_redis_rs_can_not_do_is_refused_by_name() {
    let proxy = Proxy::start(Server::shared().port());
    let mut connection = resp2(&proxy).await;
    let (_sender, pushes) = unbounded_channel();
    let refused = Locks::builder().over_redis_rs(connection.clone(), Some(pushes)).await;
    assert_matches!(refused, Err(ConnectError::Setting { setting: "pushes", .. }));
    let confirms = Locks::builder().confirm(lockson::Replicas::AtLeast(1), secs(1));
    let refused = confirms.over_redis_rs(connection.clone(), None).await;
    assert_matches!(refused, Err(ConnectError::Setting { setting: "confirm", .. }));
    proxy.refuse(true);
    let refused = patient("an answer", Locks::builder().over_redis_rs(connection.clone(), None)).await;
    assert_matches!(refused, Err(ConnectError::Unreachable(_)));
    assert!(connection.ping().await.is_err());
}

/// What is not made anew is told: holds end by their leases, and calls by their limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_over_loses_its_holds() {
    let proxy = Proxy::start(Server::shared().port());
    let builder = Locks::builder().watchdog_lease(secs(2)).outage_limit(secs(1)).command_timeout(ms(500));
    let locks = builder.over_redis_rs(resp2(&proxy).await, None).await.unwrap();
    let guard = locks.lock(&unique("over")).guard().await.unwrap();
    proxy.cut_all();
    patient("it is told", guard.lost()).await;
    assert_matches!(
        locks.lock(&unique("over")).try_lock().await,
        Err(LockError::Query(QueryError::Unreachable { .. }))
    );
}

/// A server that is another run of itself, whichever client it is that finds out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_data_is_told() {
    for by in [By::Fred, By::RedisRs, By::Lean] {
        let server = Server::start();
        let locks = by.connect(Locks::builder().command_timeout(secs(1)), &server.url()).await;
        let guard = locks.lock("gone").guard().await.unwrap();
        server.kill();
        server.restart();
        let lost = patient("it is told", guard.lost()).await;
        assert_eq!(lost.why, LostReason::Server, "{by:?}");
        drop(guard);
        patient("works", locks.lock("gone").guard()).await.unwrap().unlock().await.unwrap();
    }
}
