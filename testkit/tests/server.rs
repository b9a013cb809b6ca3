//! A user's unit tests: the accidents of a server, on paused time.

use std::time::Duration;

use lockson::LostReason;
use lockson_testkit::TestServer;
use tokio::time::{sleep, Instant};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test(start_paused = true)]
async fn holders_learn_what_the_server_lost_and_waiters_come_in() {
    let server = TestServer::new();
    let (one, other) = (server.connect(), server.connect());
    let guard = one.lock("x").guard().await.unwrap();
    let _beside = one.lock("x:y").guard().await.unwrap();
    let waits = tokio::spawn(async move { other.lock("x").guard().await });
    sleep(secs(1)).await;
    assert!(server.lose("x"));
    assert!(!server.lose("x") || waits.is_finished(), "it was there once");
    let lost = Instant::now();
    assert_eq!(guard.lost().await.why, LostReason::Server);
    assert!(lost.elapsed() <= secs(10), "{:?}", lost.elapsed());
    assert!(waits.await.unwrap().is_ok());
    assert!(one.lock("x:y").is_locked().await.unwrap(), "another lock was lost");
}

#[tokio::test(start_paused = true)]
async fn every_kind_can_be_lost() {
    let server = TestServer::new();
    let locks = server.connect();
    let none = Ok(lockson::Reply::List(vec![]));
    for name in ["x", "a{b}c"] {
        let (read, write) = (locks.read_write_lock(name).read(), locks.read_write_lock(name).write());
        let guard = read.guard().await.unwrap();
        assert!(server.lose(name));
        assert_eq!(server.command(&["KEYS", "*:rwlock_timeout:*"]), none, "the ends of its holds");
        guard.lost().await;
        drop(write.guard().await.unwrap());
        let fair = locks.fair_lock(name).guard().await.unwrap();
        assert!(server.lose(name));
        fair.lost().await;
        let semaphore = locks.permit_semaphore(name);
        assert!(semaphore.try_set_permits(1).await.unwrap());
        let _permit = semaphore.guard(1).await.unwrap();
        assert!(server.lose(name));
        let left = server.command(&["KEYS", "*:timeout"]);
        assert_eq!(left, none, "the ends of its permits");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_by_itself_and_the_last_one_counts() {
    let server = TestServer::new();
    let locks = server.connect();
    let guard = locks.lock("x").guard().await.unwrap();
    let begun = Instant::now();
    let first = server.outage(secs(2));
    sleep(secs(1)).await;
    let second = server.outage(secs(5));
    first.await.unwrap();
    assert!(locks.lock("y").try_lock().await.is_err_and(|error| error.is_unreachable()));
    second.await.unwrap();
    assert_eq!(begun.elapsed(), secs(6));
    assert!(locks.lock("y").try_lock().await.unwrap().is_acquired());
    guard.verify().await.unwrap();
    drop(server.outage(secs(60)));
    guard.lost().await;
    server.start();
    assert!(locks.lock("z").try_lock().await.unwrap().is_acquired());
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_is_slow_by_so_much() {
    let server = TestServer::new();
    let locks = server.connect();
    let lock = locks.lock("x");
    server.slow(secs(1) / 2);
    let begun = Instant::now();
    assert!(lock.try_lock().await.unwrap().is_acquired());
    assert_eq!(begun.elapsed(), secs(1) / 2);
    server.slow(Duration::ZERO);
    lock.unlock().await.unwrap();
    assert_eq!(begun.elapsed(), secs(1) / 2);
}

#[tokio::test(start_paused = true)]
async fn clocks_and_data_are_the_embedded_servers() {
    let server = TestServer::new();
    let locks = server.connect();
    let guard = locks.lock("x").guard().await.unwrap();
    server.set_clock_ahead(secs(3600));
    assert!(!locks.lock("x").is_locked().await.unwrap(), "its lease is over by the server's clock");
    guard.lost().await;
    let guard = locks.lock("y").guard().await.unwrap();
    server.wipe();
    guard.lost().await;
}
