//! What a program is told of its client by `Locks::events`.

use futures::{Stream, StreamExt};
use lockson::{Event, LostReason};
use support::prelude::*;

async fn next(events: &mut (impl Stream<Item = Event> + Unpin)) -> Event {
    patient("an event", events.next()).await.expect("the client is open")
}

/// An outage: the hold that it costs, and the gap, which is noticed as the server is back.
#[tokio::test(start_paused = true)]
async fn an_outage_is_told() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let mut events = locks.events();
    let guard = locks.lock("cut-off").guard().await.unwrap();
    server.stop();
    let lost = later(&mut events).await;
    let Event::Lost { name, owner, why } = lost else { panic!("{lost:?}") };
    assert_eq!((name.as_str(), why), ("cut-off", LostReason::Deadline));
    assert!(owner.ends_with(&Owner::current().to_string()), "{owner}");
    assert!(!guard.is_valid());
    server.start();
    let begun = later(&mut events).await;
    assert!(matches!(begun, Event::GapBegan { why: None, .. }), "{begun:?}");
    let ended = later(&mut events).await;
    assert!(matches!(ended, Event::GapEnded { .. }), "{ended:?}");
}

/// Within a minute of paused time.
async fn later(events: &mut (impl Stream<Item = Event> + Unpin)) -> Event {
    tokio::time::timeout(secs(60), events.next()).await.expect("an event").expect("the client is open")
}

/// By force, by others or by us; and the end, with what is left.
#[tokio::test(start_paused = true)]
async fn force_and_the_end_are_told() {
    let server = EmbeddedServer::new();
    let (locks, other) = (server.connect(), server.connect());
    let (mut events, mut others) = (locks.events(), other.events());
    let owner = Owner::named("worker").unwrap();
    locks.lock("forced").owned_by(&owner).lock().await.unwrap();
    assert!(other.lock("forced").force_unlock().await.unwrap());
    let forced =
        Event::Forced { name: "forced".to_owned(), owners: vec![format!("{}:{owner}", locks.client_id())], holds: 1 };
    assert_eq!(next(&mut others).await, forced);
    // Whose it was is told by its next renewal.
    let lost = later(&mut events).await;
    assert!(matches!(&lost, Event::Lost { name, why: LostReason::Server, .. } if name == "forced"), "{lost:?}");
    locks.lock("left").lock().await.unwrap();
    server.stop();
    locks.shutdown(secs(1)).await.unwrap_err();
    let told: Vec<Event> = events.collect().await;
    let is_left = |names: &[String]| names.iter().any(|name| name == "left");
    assert!(matches!(told.last(), Some(Event::Closed { left }) if is_left(left)), "{told:?}");
}

/// One vote of three is no loss of the lock, two are.
#[tokio::test(start_paused = true)]
async fn a_lost_vote_is_not_a_lost_lock() {
    let servers = [EmbeddedServer::new(), EmbeddedServer::new(), EmbeddedServer::new()];
    let clients = servers.each_ref().map(EmbeddedServer::connect);
    // The data that goes takes the subscriptions with it.
    let of_votes =
        |event: &Event| std::future::ready(!matches!(event, Event::GapBegan { .. } | Event::GapEnded { .. }));
    let [mut first, mut second] = [0, 1].map(|at| clients[at].events().filter(of_votes));
    let guard = RedLock::new(clients.iter().map(|locks| locks.lock("voted"))).fresh().guard().await.unwrap();
    servers[0].wipe();
    let told = later(&mut first).await;
    assert!(matches!(&told, Event::VoteLost { name, .. } if name == "voted"), "{told:?}");
    assert!(guard.is_valid());
    servers[1].wipe();
    let told = later(&mut second).await;
    assert!(matches!(&told, Event::Lost { name, .. } if name == "voted"), "{told:?}");
    assert!(!guard.is_valid());
}

/// A listener that does not read costs nothing but what it missed; it ends with the client, and keeps it not open.
#[tokio::test(start_paused = true)]
async fn who_does_not_listen_misses_the_oldest() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let mut events = locks.events();
    for number in 0..300 {
        let lock = locks.lock(&format!("forced-{number}"));
        lock.lock().await.unwrap();
        assert!(lock.force_unlock().await.unwrap());
    }
    assert_eq!(next(&mut events).await, Event::Missed(300 - 256));
    let first = next(&mut events).await;
    assert!(matches!(&first, Event::Forced { name, .. } if name == "forced-44"), "{first:?}");
    drop(locks);
    let rest: Vec<Event> = patient("the end of the client", events.collect()).await;
    assert_eq!(rest.len(), 255, "{:?}", rest.last());
}

/// Who comes late hears of the end, and waits for nothing else.
#[tokio::test(start_paused = true)]
async fn who_listens_behind_the_end_hears_of_it() {
    let locks = EmbeddedServer::new().connect();
    locks.lock("held").lock().await.unwrap();
    locks.shutdown(secs(5)).await.unwrap();
    let told = patient("the end", locks.events().collect::<Vec<_>>()).await;
    assert_eq!(told, [Event::Closed { left: Vec::new() }]);
}

/// A server that is another run of itself granted what it does not know any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_all_is_told() {
    let server = Server::start();
    let locks = server.locks().await;
    let events = locks.events();
    let guard = locks.lock("lost").guard().await.unwrap();
    server.kill();
    server.restart();
    let all = events.take_while(|event| std::future::ready(!matches!(event, Event::Lost { .. }))).collect::<Vec<_>>();
    let told = patient("the loss", all).await;
    assert!(told.contains(&Event::Switched { slots: 16_384 }), "{told:?}");
    assert!(!guard.is_valid());
}
