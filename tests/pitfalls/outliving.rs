//! Holders that outlive their lock.

use lockson::FencedGuard;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::pitfalls::*;

const PATIENCE: Duration = secs(20);

/// The network between a replica and its primary, by its port, until its task is aborted.
async fn network(primary: u16) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let mut links = JoinSet::new();
        loop {
            let (mut replica, _) = listener.accept().await.unwrap();
            links.spawn(async move {
                let Ok(mut primary) = TcpStream::connect(("127.0.0.1", primary)).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut replica, &mut primary).await;
            });
        }
    });
    (port, task)
}

async fn until_info(server: &Server, line: &str) {
    let said = async || server.control(&["INFO", "replication"]).text().lines().any(|found| found == line);
    eventually(PATIENCE, line, said).await;
}

#[tokio::test]
async fn an_asynchronous_failover() {
    let primary = Server::with(&[("repl-diskless-sync-delay", "0")]);
    let (port, network) = network(primary.port()).await;
    let replica = Server::with(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    until_info(&replica, "master_link_status:up").await;
    let [mut a, mut b] = [primary.raw().await, replica.raw().await];
    a.must(&["SET", "before", "1"]).await;
    eventually(PATIENCE, "it replicates", async || b.get("before").await.is_some()).await;

    // What is written from here on does not get to the replica in time.
    network.abort();
    until_info(&primary, "connected_slaves:0").await;
    assert!(take(&mut a, "lock", "a", LONG).await, "a is told that it has the lock");
    let settings = Locks::builder().watchdog_lease(secs(8));
    let first = settings.connect(&primary.url()).await.unwrap();
    let first: FencedGuard = first.fenced_lock("fenced").guard().await.unwrap();
    primary.kill();
    replica.control(&["REPLICAOF", "NO", "ONE"]);
    assert!(take(&mut b, "lock", "b", LONG).await, "and so is b: two holders");

    // lockson can't prevent it. Its token tells them apart, and the first one is told at the end of its lease.
    let second = connect(&replica).await.fenced_lock("fenced").guard().await.unwrap();
    assert!(second.token() > first.token());
    patient("the first is told", first.lost()).await;
    second.verify().await.unwrap();
    second.unlock().await.unwrap();
}

#[tokio::test]
async fn a_paused_holder_writes_late() {
    let (server, key, resource) = (Server::shared(), unique("pitfall"), unique("resource"));
    let [mut a, mut b] = [server.raw().await, server.raw().await];
    assert!(take(&mut a, &key, "a", SHORT).await);
    // a looked whether the lock is its own, and is paused here: a collection, a page fault, a suspended machine.
    expired(&mut b, &key).await;
    assert!(take(&mut b, &key, "b", LONG).await);
    b.must(&["SET", &resource, "by b"]).await;
    // It goes on with what it was about to do.
    a.must(&["SET", &resource, "by a"]).await;
    assert_eq!(a.get(&resource).await.as_deref(), Some("by a"), "b's write is gone, and b has the lock");

    // With the token of a fenced lock the resource itself can refuse. (A database: tests/fencing.rs.)
    let (first, second) = (connect(server).await, connect(server).await);
    let name = unique("pitfall");
    let lease = ms(200);
    let paused = first.fenced_lock(&name).acquire().lease(lease).guard().await.unwrap().unwrap();
    let current = patient("the second", second.fenced_lock(&name).guard()).await.unwrap();
    let script = crate::fencing::FENCED_SET;
    a.must(&["DEL", &resource]).await;
    let token = |guard: &FencedGuard| guard.token().to_string();
    assert_eq!(b.must(&["EVAL", script, "1", &resource, "by b", &token(&current)]).await.int(), 1);
    assert_eq!(a.must(&["EVAL", script, "1", &resource, "by a", &token(&paused)]).await.int(), 0);
    assert_eq!(a.hget(&resource, "state").await.as_deref(), Some("by b"));
}

#[tokio::test]
async fn a_writer_dies_half_way() {
    let (server, key, resource) = (Server::shared(), unique("pitfall"), unique("resource"));
    let [mut a, mut b] = [server.raw().await, server.raw().await];
    a.must(&["HSET", &resource, "version", "1", "limit", "10"]).await;
    assert!(take(&mut a, &key, "a", SHORT).await);
    a.must(&["HSET", &resource, "version", "2"]).await;
    drop(a);
    expired(&mut b, &key).await;
    assert!(take(&mut b, &key, "b", LONG).await);
    let half = [b.hget(&resource, "version").await, b.hget(&resource, "limit").await];
    assert_eq!(half, [Some("2".to_owned()), Some("10".to_owned())], "and b has the lock");

    // With lockson a writer that is dropped half-way leaves half of it too.
    let (one, other) = (connect(server).await, connect(server).await);
    let name = unique("pitfall");
    let lock = one.read_write_lock(&name);
    b.must(&["HSET", &resource, "version", "3", "limit", "30"]).await;
    let guard = lock.write().guard().await.unwrap();
    b.must(&["HSET", &resource, "version", "4"]).await;
    drop(guard);
    let reading = patient("a reader", other.read_write_lock(&name).read().guard()).await.unwrap();
    assert_eq!(b.hget(&resource, "version").await.as_deref(), Some("4"));
    assert_eq!(b.hget(&resource, "limit").await.as_deref(), Some("30"));
    reading.unlock().await.unwrap();

    // In one step, by the token of the hold: whoever comes late changes nothing, and nobody sees a half.
    let version = format!("{{{name}}}:version");
    let all = "return redis.call('HSET', KEYS[1], 'version', ARGV[1], 'limit', ARGV[1] * 10)";
    let lease = ms(200);
    let paused = lock.write().fenced().acquire().lease(lease).guard().await.unwrap().unwrap();
    let current = patient("the second", other.read_write_lock(&name).write().fenced().guard()).await.unwrap();
    assert!(current.token() > paused.token());
    current.run_if_held(all, &[&version], &["5"]).await.unwrap();
    let late = paused.run_if_held(all, &[&version], &["4"]).await;
    assert!(matches!(late, Err(RunError::Lost(_))), "{late:?}");
    assert_eq!(b.hget(&version, "limit").await.as_deref(), Some("50"));
    current.unlock().await.unwrap();
}
