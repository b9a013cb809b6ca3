//! What comes through a door: lockson's own client in real time, beside one inside, and bytes that are no client's.

use std::future::Future;
use std::time::Duration;

use lockson::{Locks, Owner, WaitOutcome};
use lockson_testkit::{Door, TestServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{timeout, Instant};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

async fn connect(door: &Door) -> Locks {
    Locks::connect(door.url()).await.unwrap()
}

/// Fails if it takes longer than any of this should.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(secs(20), work).await.expect("not within 20 s")
}

/// Waits until the client listens for a release.
async fn listens(locks: &Locks) {
    soon(async {
        while locks.health().subscriptions == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn contract(one: &Locks, other: &Locks) {
    let (lock, its) = (one.lock("lock"), other.lock("lock"));
    lock.lock().await.unwrap();
    assert!(!its.try_lock().await.unwrap().is_acquired());
    let begun = Instant::now();
    let waits = tokio::spawn(async move { its.guard().await.unwrap() });
    listens(other).await;
    lock.unlock().await.unwrap();
    soon(waits).await.unwrap().unlock().await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(900), "woken by no message: {:?}", begun.elapsed());

    let (fair, second, third) = (one.fair_lock("fair"), other.fair_lock("fair"), one.fair_lock("fair"));
    let guard = fair.guard().await.unwrap();
    let second = tokio::spawn(async move { second.guard().await.unwrap() });
    soon(async { while fair.queue_len().await.unwrap() < 1 {} }).await;
    let third = tokio::spawn(async move { third.owned_by(&Owner::unique()).guard().await.unwrap() });
    soon(async { while fair.queue_len().await.unwrap() < 2 {} }).await;
    guard.unlock().await.unwrap();
    let guard = soon(second).await.unwrap();
    assert!(!third.is_finished());
    guard.unlock().await.unwrap();
    soon(third).await.unwrap().unlock().await.unwrap();

    let (ours, theirs) = (one.read_write_lock("config"), other.read_write_lock("config"));
    let readers = (ours.read().guard().await.unwrap(), theirs.read().guard().await.unwrap());
    let writer = theirs.write().owned_by(&Owner::unique());
    assert!(!writer.try_lock().await.unwrap().is_acquired());
    readers.0.unlock().await.unwrap();
    readers.1.unlock().await.unwrap();
    soon(writer.guard()).await.unwrap().unlock().await.unwrap();

    let (permits, its) = (one.permit_semaphore("permits"), other.permit_semaphore("permits"));
    assert!(permits.try_set_permits(1).await.unwrap());
    let permit = permits.guard(1).await.unwrap();
    let waits = tokio::spawn(async move { its.guard(1).await.unwrap() });
    permit.release().await.unwrap();
    drop(soon(waits).await.unwrap());

    let (latch, its) = (one.latch("latch"), other.latch("latch"));
    assert!(latch.try_set_count(1).await.unwrap());
    let waits = tokio::spawn(async move { its.wait().await });
    latch.count_down().await.unwrap();
    assert_eq!(soon(waits).await.unwrap().unwrap(), WaitOutcome::Opened);

    let fenced = (one.fenced_lock("fenced"), other.fenced_lock("fenced"));
    let first = fenced.0.guard().await.unwrap();
    let token = first.token();
    first.unlock().await.unwrap();
    assert!(fenced.1.guard().await.unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_share_locks_through_a_door() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    contract(&connect(&door).await, &connect(&door).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_inside_and_one_at_a_unix_door_share_locks() {
    let (server, folder) = (TestServer::new(), tempfile::tempdir().unwrap());
    assert!(server.unix_door("relative").is_err());
    let path = folder.path().join("door");
    let door = server.unix_door(&path).unwrap();
    assert!(server.unix_door(&path).is_err(), "there is one already");
    contract(&server.connect(), &connect(&door).await).await;
    server.wipe();
    // Another one: those that the restart cut off may be cut off while they unlock, and what came of that is not known.
    contract(&connect(&door).await, &server.connect()).await;
    drop(door);
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_inside_and_outside_are_never_inside_together() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let clients = [server.connect(), connect(&door).await, connect(&door).await];
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for (client, _) in clients.iter().flat_map(|client| (0..4).map(move |number| (client.clone(), number))) {
        let inside = inside.clone();
        tasks.spawn(async move {
            for _ in 0..50 {
                let guard = client.lock("busy").guard().await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_and_a_loss_are_felt_outside() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let outside = connect(&door).await;
    let guard = outside.lock("x").guard().await.unwrap();
    let outage = server.outage(secs(2));
    let begun = Instant::now();
    let other = outside.clone();
    let waits = tokio::spawn(async move { other.lock("y").guard().await });
    outage.await.unwrap();
    drop(soon(waits).await.unwrap().unwrap());
    assert!(begun.elapsed() >= secs(2));
    guard.verify().await.unwrap();
    let begun = Instant::now();
    server.wipe();
    soon(guard.lost()).await;
    assert!(begun.elapsed() < secs(5), "not seen when it was connected anew");
    drop(guard);
    assert!(soon(outside.lock("x").try_lock()).await.unwrap().is_acquired());
    server.slow(secs(1) / 5);
    let begun = Instant::now();
    outside.lock("x").unlock().await.unwrap();
    assert!(begun.elapsed() >= secs(1) / 5);
}

#[tokio::test]
async fn a_lost_answer_is_a_cut_connection() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    server.lose_replies(1);
    assert_eq!(told(&door, b"INCR n\r\nINCR n\r\n").await, "");
    assert_eq!(told(&door, b"GET n\r\nQUIT\r\n").await, "$1\r\n2\r\n+OK\r\n", "they were done all the same");
}

async fn raw(door: &Door) -> TcpStream {
    TcpStream::connect(door.address().unwrap()).await.unwrap()
}

/// What comes back for these bytes until the door closes.
async fn told(door: &Door, bytes: &[u8]) -> String {
    let mut stream = raw(door).await;
    stream.write_all(bytes).await.unwrap();
    let mut told = Vec::new();
    // A door that is closed while it has unread bytes resets the connection.
    drop(soon(stream.read_to_end(&mut told)).await);
    String::from_utf8_lossy(&told).into_owned()
}

#[tokio::test]
async fn what_is_no_request_harms_nobody() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let good = connect(&door).await;
    let guard = good.lock("x").guard().await.unwrap();
    let mut half = raw(&door).await;
    half.write_all(b"*2\r\n$3\r\nGET\r\n$1000000\r\nx").await.unwrap();
    drop(raw(&door).await);
    let error = |why: &str| format!("-ERR Protocol error: {why}\r\n");
    assert_eq!(told(&door, b"*1\r\n$99999999999\r\n").await, error("invalid bulk length"));
    assert_eq!(told(&door, b"*2147483647\r\n").await, error("invalid multibulk length"));
    assert_eq!(told(&door, &b"*1\r\n".repeat(2)).await, error("expected '$', got '*'"));
    let chance: Vec<u8> = (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for piece in chance.chunks(1000).chain([b"*1\r\n".repeat(1_000_000).as_slice()]) {
        let mut stream = raw(&door).await;
        // It may be closed by now.
        drop(stream.write_all(piece).await);
    }
    assert_eq!(
        told(&door, b"GARBAGE a b\r\nQUIT\r\nGET x\r\n").await,
        "-ERR unknown command 'GARBAGE', with args beginning with: 'a' 'b' \r\n+OK\r\n"
    );
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    // Of two halves the second one may come late, or never.
    half.write_all(b"yz").await.unwrap();
    half.shutdown().await.unwrap();
    assert_eq!(soon(half.read_u8()).await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    server.slow(Duration::from_millis(50));
    let mut last = raw(&door).await;
    last.write_all(b"PING\r\nPING x\r\n").await.unwrap();
    last.shutdown().await.unwrap();
    let mut pongs = String::new();
    soon(last.read_to_string(&mut pongs)).await.unwrap();
    assert_eq!(pongs, "+PONG\r\n$1\r\nx\r\n");
    server.slow(Duration::ZERO);
    // A client that goes while it waits leaves nobody waiting.
    let mut deaf = raw(&door).await;
    deaf.write_all(b"SUBSCRIBE news\r\n").await.unwrap();
    deaf.read_u8().await.unwrap();
    assert_eq!(server.command(&["PUBLISH", "news", "1"]), Ok(lockson::Reply::Int(1)));
    drop(deaf);
    soon(async {
        while server.command(&["PUBLISH", "news", "1"]) != Ok(lockson::Reply::Int(0)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A client that ends a subscription and wants it back sends both at once.
#[tokio::test]
async fn subscriptions_change_in_the_order_of_the_requests() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    for _ in 0..20 {
        let mut client = raw(&door).await;
        client.write_all(b"UNSUBSCRIBE a\r\nSUBSCRIBE a\r\nPING end\r\n").await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"end\r\n") {
            assert!(soon(client.read_buf(&mut heard)).await.unwrap() > 0);
        }
        assert_eq!(server.command(&["PUBLISH", "a", "1"]), Ok(lockson::Reply::Int(1)));
        drop(client);
        soon(async {
            while server.command(&["PUBLISH", "a", "1"]) != Ok(lockson::Reply::Int(0)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_closed_door_lets_nobody_in_and_everybody_out() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let (mut inside, address) = (raw(&door).await, door.address().unwrap());
    inside.write_all(b"PING\r\n").await.unwrap();
    let mut pong = [0; 7];
    inside.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    drop(door);
    assert_eq!(soon(inside.read(&mut pong)).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());
}
