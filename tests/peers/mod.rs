//! The plain lock beside the libraries that it shares a lock with: rslock, redis-py, and others' commands by hand.

pub mod peer;

use peer::{ByHand, Peer, RedisPy, Rslock, NODE_REDLOCK, REDSYNC};
use support::prelude::*;

const LONG: Duration = secs(60);
const SHORT: Duration = secs(1);

type Peers = [Box<dyn Peer>; 2];

/// What a case has: two users of the other library, and a name.
struct Meeting {
    server: &'static Server,
    peers: Peers,
    name: String,
}

async fn each_keeps_the_other_out(meeting: Meeting) {
    let lock = meeting.server.locks().await.plain_lock(&meeting.name);
    let [mut peer, mut other] = meeting.peers;
    for _ in 0..2 {
        let guard = lock.guard().await.unwrap();
        assert!(!peer.take(&meeting.name, LONG).await);
        guard.verify().await.unwrap();
        guard.unlock().await.unwrap();
        assert!(peer.take(&meeting.name, LONG).await);
        assert!(!other.take(&meeting.name, LONG).await && !lock.try_lock().await.unwrap().is_acquired());
        assert!(lock.is_locked().await.unwrap() && !lock.is_held().await.unwrap());
        peer.give_back().await;
    }
    assert!(!lock.is_locked().await.unwrap());
}

async fn each_waits_for_the_others_release(meeting: Meeting) {
    let locks = meeting.server.locks().await;
    let (lock, name) = (locks.plain_lock(&meeting.name), meeting.name);
    let [mut peer, _] = meeting.peers;
    let guard = lock.guard().await.unwrap();
    assert!(!peer.take(&name, LONG).await);
    let waits = tokio::spawn(async move {
        peer.wait(&name, LONG).await;
        peer
    });
    guard.unlock().await.unwrap();
    let mut peer = patient("the peer finds it free", waits).await.unwrap();
    let waits = spawn_with(lock.clone(), |lock| async move { lock.guard().await.unwrap() });
    eventually(secs(20), "it waits", async || locks.health().subscriptions > 0).await;
    assert!(!waits.is_finished());
    peer.give_back().await;
    patient("it looks again within the cap", waits).await.unwrap().unlock().await.unwrap();
}

/// And who comes too late to give back changes nothing.
async fn each_takes_over_what_expired(meeting: Meeting) {
    let lock = meeting.server.locks().await.plain_lock(&meeting.name);
    let [mut peer, _] = meeting.peers;
    let guard = lock.acquire().lease(SHORT).guard().await.unwrap().unwrap();
    patient("the peer's turn", peer.wait(&meeting.name, LONG)).await;
    assert!(!guard.is_valid());
    assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(!lock.try_lock().await.unwrap().is_acquired(), "a late unlock took the peer's hold away");
    peer.give_back().await;
    patient("the peer again", peer.wait(&meeting.name, SHORT)).await;
    let guard = patient("its lease ends", lock.guard()).await.unwrap();
    assert!(!peer.extend(LONG).await);
    peer.give_back().await;
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
}

async fn each_extends_its_own(meeting: Meeting) {
    let lock = meeting.server.locks().await.plain_lock(&meeting.name);
    let [mut peer, _] = meeting.peers;
    assert!(peer.take(&meeting.name, 5 * SHORT).await && peer.extend(LONG).await);
    assert!(lock.remaining_ttl().await.unwrap().unwrap() > LONG / 2);
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    assert!(lock.force_unlock().await.unwrap());
    let guard = lock.acquire().lease(5 * SHORT).guard().await.unwrap().unwrap();
    assert!(!peer.extend(LONG).await);
    assert!(lock.remaining_ttl().await.unwrap().unwrap() <= 5 * SHORT);
    guard.set_lease(LONG).await.unwrap();
    assert!(lock.remaining_ttl().await.unwrap().unwrap() > LONG / 2);
    guard.unlock().await.unwrap();
}

/// Two processes' worth of each, at once: nobody is inside with another, and everybody gets its turns.
async fn both_take_turns(meeting: Meeting) {
    let (inside, rounds) = (Arc::new(AtomicU32::new(0)), soak(50));
    let lock = meeting.server.locks().await.plain_lock(&meeting.name);
    let visit = |inside: Arc<AtomicU32>| async move {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
        sleep(ms(1)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
    };
    let mut tasks = vec![];
    for client in [meeting.server.locks().await, meeting.server.locks().await] {
        for _ in 0..2 {
            let lock = client.plain_lock(&meeting.name).owned_by(&Owner::unique());
            let inside = inside.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..rounds {
                    let guard = lock.guard().await.unwrap();
                    visit(inside.clone()).await;
                    guard.unlock().await.unwrap();
                }
            }));
        }
    }
    for mut peer in meeting.peers {
        let (inside, name) = (inside.clone(), meeting.name.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..rounds {
                peer.wait(&name, LONG).await;
                visit(inside.clone()).await;
                peer.give_back().await;
            }
        }));
    }
    for task in tasks {
        tokio::time::timeout(LONG * 3, task).await.expect("everybody gets its turns").unwrap();
    }
    assert!(!lock.is_locked().await.unwrap());
}

macro_rules! peers {
    ($($library:ident: $make:expr),* $(,)?) => {
        $(mod $library {
            use super::*;
            cases!($make; each_keeps_the_other_out, each_waits_for_the_others_release, each_takes_over_what_expired,
                each_extends_its_own, both_take_turns);
        })*
    };
}

macro_rules! cases {
    ($make:expr; $($case:ident),*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let server = Server::shared();
            if let (Some(one), Some(other)) = ($make(server).await, $make(server).await) {
                super::$case(Meeting { server, peers: [one, other], name: unique("peers") }).await;
            }
        })*
    };
}

peers! {
    rslock: Rslock::start,
    redis_py: |server: &'static Server| RedisPy::start(server.port()),
    redsync: |server| ByHand::start(server, REDSYNC),
    node_redlock: |server| ByHand::start(server, NODE_REDLOCK),
}
