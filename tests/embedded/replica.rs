//! A replica of the embedded server: what it has to confirm, and what it keeps when it takes over.

use lockson::Replicas;
use support::prelude::*;
use tokio::time::Instant;

/// How far behind the replica is.
const LAG: Duration = Duration::from_millis(40);
const WITHIN: Duration = Duration::from_millis(100);

fn confirming(server: &EmbeddedServer) -> Locks {
    server.connect_with(Locks::builder().confirm(Replicas::All, WITHIN)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_grant_counts_when_the_replica_has_it() {
    let server = EmbeddedServer::new();
    server.set_replica(Some(LAG));
    let locks = confirming(&server);
    let began = Instant::now();
    let guard = locks.lock("x").guard().await.unwrap();
    assert!(began.elapsed() > LAG && began.elapsed() < WITHIN, "{:?}", began.elapsed());
    // Releases wait for nobody.
    let began = Instant::now();
    guard.unlock().await.unwrap();
    assert!(began.elapsed() < LAG, "{:?}", began.elapsed());
    server.silence_replica(true);
    let refused = locks.lock("x").try_lock().await;
    let short = matches!(refused, Err(LockError::NotConfirmed { acked: 0, wanted: 1, given_back: true, .. }));
    assert!(short, "{refused:?}");
    assert!(server.connect().lock("x").try_lock().await.unwrap().is_acquired(), "it was given back");
}

#[tokio::test(start_paused = true)]
async fn what_is_confirmed_outlives_a_failover() {
    let server = EmbeddedServer::new();
    server.set_replica(Some(LAG));
    let [sure, quick] = [confirming(&server), server.connect()];
    let confirmed = sure.lock("confirmed").guard().await.unwrap();
    let behind = server.snapshot();
    let told = quick.lock("told").guard().await.unwrap();
    tokio::time::sleep(LAG / 2).await;
    server.restart(&behind);
    assert_eq!(told.lost().await.why, LostReason::Server);
    tokio::time::sleep(WITHIN).await;
    confirmed.verify().await.unwrap();
    assert!(!quick.lock("confirmed").try_lock().await.unwrap().is_acquired());
    confirmed.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_failover_came_before_is_in_doubt_and_asked_again() {
    let server = EmbeddedServer::new();
    server.set_replica(Some(LAG));
    let locks = confirming(&server);
    let behind = server.snapshot();
    let lock = locks.lock("x");
    let (granted, ()) = tokio::join!(lock.guard(), async {
        tokio::time::sleep(LAG / 2).await;
        server.restart(&behind);
    });
    // The first copy was granted by a server that is no more. Nobody had confirmed it.
    let guard = granted.unwrap();
    guard.verify().await.unwrap();
    assert!(!server.connect().lock("x").try_lock().await.unwrap().is_acquired());
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_comes_back_has_a_new_token() {
    let server = EmbeddedServer::new();
    let (one, other) = (server.connect(), server.connect());
    for is_fenced in [true, false] {
        let last = other.fenced_lock("x").lock_and_get_token().await.unwrap();
        other.fenced_lock("x").unlock().await.unwrap();
        let mine = match is_fenced {
            true => one.fenced_lock("x").lock_and_get_token().await.unwrap(),
            false => one.lock("x").lock().await.map(|()| last).unwrap(),
        };
        let behind = server.snapshot();
        one.lock("x").unlock().await.unwrap();
        server.restart(&behind);
        let again = one.fenced_lock("x").lock_and_get_token().await.unwrap();
        assert!(again > mine, "{again} after {mine}");
        one.fenced_lock("x").unlock().await.unwrap();
    }
}

#[tokio::test]
async fn who_confirms_needs_a_replica() {
    let server = EmbeddedServer::new();
    let connected = || server.connect_with(Locks::builder().confirm(Replicas::AtLeast(1), WITHIN));
    let refused = Refused::Replicas { asked: 1, listed: 0 };
    assert!(matches!(connected(), Err(ConnectError::Refused(why)) if why == refused));
    server.set_replica(Some(LAG));
    let locks = connected().unwrap();
    // It is lost later.
    server.set_replica(None);
    let tried = locks.lock("x").try_lock().await;
    assert!(matches!(tried, Err(LockError::Query(QueryError::Refused { .. }))), "{tried:?}");
}
