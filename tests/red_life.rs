//! A red lock's servers that lose their data: no vote before every lease that they granted is over (PROTOCOL rule 21).

use lockson::{Faults, Reply};
use support::fleet::{connected, red, Fleet};
use support::prelude::*;

const BOOT: &str = "lockson:boot";
const LONGEST: Duration = secs(60);

/// A lock by clients that have not seen these servers before, which are not said to be fresh.
fn strict(clients: &[Locks]) -> RedLock<Reentrant> {
    RedLock::new(clients.iter().map(|locks| locks.lock("red")))
}

fn marker(server: &EmbeddedServer) -> Option<String> {
    match server.command(&["GET", BOOT]).unwrap() {
        Reply::Text(text) => Some(text),
        _ => None,
    }
}

/// Asks again and again; as soon as it is held, the first one must be over.
async fn no_second_holder(first: &Guard, second: &RedLock<Reentrant>) -> Guard {
    loop {
        match second.acquire().wait(Duration::ZERO).guard().await {
            Ok(Some(guard)) => {
                assert!(!(first.is_valid() && guard.is_valid()), "two holders: {:?} are left", first.remaining());
                return guard;
            }
            Ok(None) | Err(LockError::NoMajority { .. }) => sleep(ms(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whole seconds of an uptime are up to one too many: all votes are lost at the end of a second of the server's clock.
#[tokio::test(start_paused = true)]
async fn a_restart_right_after_a_grant_gives_no_second_holder() {
    let (fleet, ours, _) = Fleet::acquainted().await;
    sleep(LONGEST + ms(990)).await;
    let first = ours.acquire().lease(LONGEST).guard().await.unwrap().unwrap();
    fleet.servers.iter().for_each(|server| server.wipe());
    // Whoever is first writes the marker; one that comes later has nothing but that.
    strict(&fleet.clients()).try_lock().await.unwrap_err();
    let began = tokio::time::Instant::now();
    drop(no_second_holder(&first, &strict(&fleet.clients())).await);
    assert!(began.elapsed() <= LONGEST + ms(50), "{:?}", began.elapsed());
}

/// The age of a life counts from its answer: a call may have been under way for long before it ran.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_long_under_way_makes_no_server_older() {
    let (fleet, ours, _) = Fleet::acquainted().await;
    for seed in 1..=20 {
        sleep(LONGEST).await;
        let first = ours.acquire().lease(LONGEST).guard().await.unwrap().unwrap();
        fleet.servers.iter().for_each(|server| server.wipe());
        strict(&fleet.clients()).try_lock().await.unwrap_err();
        let patient = Builder::default().command_timeout(secs(10));
        let second = strict(&fleet.clients_of(patient)).server_timeout(secs(9));
        sleep(secs(50)).await;
        fleet.servers.iter().for_each(|server| server.inject(Faults::seeded(seed).delay(secs(4))));
        let second = no_second_holder(&first, &second).await;
        fleet.servers.iter().for_each(|server| server.heal());
        drop((first, second));
        sleep(secs(10)).await;
    }
}

/// The marker goes with the data, whoever deletes it: by that it is known what was lost.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_flushed_rests() {
    let (fleet, ours, theirs) = Fleet::acquainted().await;
    sleep(secs(1)).await;
    let first = ours.acquire().lease(LONGEST).guard().await.unwrap().unwrap();
    for server in &fleet.servers[..3] {
        server.command(&["FLUSHALL"]).unwrap();
    }
    // One that had said that they are fresh, and one that had not.
    for other in [&theirs, &strict(&fleet.clients())] {
        // What does not count is given back.
        sleep(secs(1)).await;
        let refused = other.try_lock().await;
        assert_matches!(refused, Err(LockError::NoMajority { votes: 0, detail, .. }) if detail.contains("not voting"));
    }
    drop(no_second_holder(&first, &theirs).await);
}

/// Restored from a dump, or of the server that this one was a replica of; or ahead of a clock that was set back.
#[tokio::test(start_paused = true)]
async fn a_marker_that_is_not_of_this_run_vouches_for_nothing() {
    let (fleet, ours, _) = Fleet::acquainted().await;
    let markers: Vec<String> = fleet.servers.iter().filter_map(marker).collect();
    assert_eq!(markers.len(), 5);
    sleep(LONGEST * 2).await;
    strict(&fleet.clients()).guard().await.expect("old enough by now").unlock().await.unwrap();
    assert_eq!(fleet.servers.iter().filter_map(marker).collect::<Vec<_>>(), markers, "written once");
    for server in &fleet.servers {
        assert_eq!(server.command(&["PTTL", BOOT]), Ok(Reply::Int(-1)), "it is no lease");
    }
    for kept in [true, false] {
        let first = ours.acquire().lease(LONGEST).guard().await.unwrap().unwrap();
        for (server, marker) in fleet.servers.iter().zip(&markers) {
            let (_, run) = marker.split_once(' ').unwrap();
            let restored = if kept { marker.clone() } else { format!("9999999999999 {run}") };
            server.wipe();
            server.command(&["SET", BOOT, &restored]).unwrap();
        }
        assert_matches!(strict(&fleet.clients()).try_lock().await, Err(LockError::NoMajority { votes: 0, .. }));
        drop(no_second_holder(&first, &strict(&fleet.clients())).await);
        sleep(secs(1)).await;
    }
    for server in &fleet.servers {
        let marker = marker(server).unwrap();
        let (_, run) = marker.split_once(' ').unwrap();
        server.command(&["SET", BOOT, &format!("9999999999999 {run}")]).unwrap();
    }
    let began = tokio::time::Instant::now();
    let taken = strict(&fleet.clients()).acquire().wait(secs(1000)).await;
    assert_eq!(taken, Ok(Acquired), "a clock that was set back costs a rest, not years");
    assert!(began.elapsed() <= LONGEST + secs(1));
}

/// What stands in the marker's place is not written over.
#[tokio::test]
async fn a_stranger_in_the_markers_place_is_said() {
    let server = EmbeddedServer::new();
    server.command(&["HSET", BOOT, "a", "b"]).unwrap();
    assert_matches!(red(&[server.connect()]).try_lock().await, Err(LockError::Query(QueryError::Refused { .. })));
    assert_eq!(server.command(&["EXISTS", "red"]), Ok(Reply::Int(0)));
}

/// The same on real servers, which are killed and started again right after they voted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_that_restart_right_after_a_grant_give_no_second_holder() {
    const LONGEST: Duration = secs(3);
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let connect = || connected(&servers, Locks::builder().command_timeout(secs(1)).watchdog_lease(LONGEST));
    let terms = |lock: RedLock<Reentrant>| lock.max_lease(LONGEST).server_timeout(secs(1));
    let ours = terms(red(&connect().await));
    for _ in 0..4 {
        let first = patient("it is free", ours.acquire().lease(LONGEST).guard()).await.unwrap().unwrap();
        tokio::task::block_in_place(|| {
            std::thread::scope(|scope| servers.iter().for_each(|server| drop(scope.spawn(|| server.restart()))));
        });
        let second = terms(strict(&connect().await));
        let guard = patient("the lease ends", no_second_holder(&first, &second)).await;
        guard.unlock().await.unwrap();
    }
}
