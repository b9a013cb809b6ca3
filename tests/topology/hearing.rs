//! Who waits hears messages again when a slot moves, or another shard is away.

use std::time::Instant;

use support::cluster::PRIMARIES;
use support::prelude::*;
use support::Cluster;

/// Promised from a move of a slot on.
const HEARS: Duration = ms(50);
/// Behind a failover, until which the old primary tells what the new one is told.
const HEARS_HEIR: Duration = ms(250);

async fn client(cluster: &Cluster) -> Locks {
    Locks::builder().wait_cap(secs(60)).connect(&cluster.url()).await.unwrap()
}

/// Somebody waits for a lock that another one holds.
async fn waits(locks: &Locks, holder: &Locks, name: &str) -> (Guard, JoinHandle<Instant>) {
    let guard = holder.lock(name).guard().await.unwrap();
    let (before, lock) = (locks.health().subscriptions, locks.lock(name));
    let waiter = tokio::spawn(async move {
        let guard = lock.guard().await.unwrap();
        let at = Instant::now();
        guard.unlock().await.unwrap();
        at
    });
    eventually(secs(20), "the waiter listens", async || locks.health().subscriptions > before).await;
    sleep(ms(50)).await;
    (guard, waiter)
}

fn is_heard(node: &Server, name: &str) -> bool {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    node.control(&["PUBSUB", "SHARDNUMSUB", &channel]).list()[1].int() > 0
}

/// When the node has the subscription of this lock's waiter.
fn heard_at(node: &Server, name: &str) -> Instant {
    let limit = Instant::now() + secs(20);
    loop {
        if is_heard(node, name) {
            return Instant::now();
        }
        assert!(Instant::now() < limit, "nobody listens");
        std::thread::sleep(ms(1));
    }
}

/// Moves the slot of a lock that is waited for, and looks how soon its waiter hears again.
async fn moved(cluster: &Cluster, how: &str, [from, to]: [usize; 2], moves: impl Fn(&Cluster, &str) -> Instant + Sync) {
    let (one, other) = (client(cluster).await, client(cluster).await);
    let name = cluster.name_on(from, "moved");
    let (guard, waiter) = waits(&one, &other, &name).await;
    let took = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let heard = scope.spawn(|| heard_at(&cluster.nodes[to], &name));
            let moved = moves(cluster, &name);
            heard.join().unwrap().saturating_duration_since(moved)
        })
    });
    // Asked again before it was known who took over, the old primary takes it, as any replica does.
    let others = || cluster.nodes.iter().enumerate().filter(|(at, _)| *at != to);
    let is_left = async || others().all(|(_, node)| !is_heard(node, &name));
    eventually(secs(20), "it is heard nowhere else", is_left).await;
    let released = Instant::now();
    guard.unlock().await.unwrap();
    let woken = patient("the waiter", waiter).await.unwrap().duration_since(released);
    println!("{how}: it hears again after {took:?}, and was woken {woken:?} after a release");
    assert!(took <= if how == "CLUSTER FAILOVER" { HEARS_HEIR } else { HEARS }, "{how}: {took:?}");
    assert!(woken <= secs(1), "{how}: {woken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_hears_again_behind_a_move() {
    let cluster = Cluster::start(1, ms(2_000));
    moved(&cluster, "key by key", [0, 2], |cluster, name| {
        let moving = cluster.move_slot(cluster.slot_of(name), 2);
        std::thread::sleep(ms(100));
        moving.finish_at()
    })
    .await;
    // All of one node's slots at once.
    if cluster.nodes[0].try_control(&["CLUSTER", "GETSLOTMIGRATIONS"]).is_ok() {
        moved(&cluster, "MIGRATESLOTS", [0, 1], |cluster, name| {
            let slot = cluster.slot_of(name).to_string();
            let to = cluster.nodes[1].control(&["CLUSTER", "MYID"]).text();
            cluster.nodes[0].control(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &to]);
            let limit = Instant::now() + secs(20);
            while cluster.nodes[0].try_control(&["GET", name]).is_ok_and(|_| Instant::now() < limit)
                || cluster.nodes[1].try_control(&["EXISTS", name]).is_err()
            {
                std::thread::sleep(ms(1));
            }
            Instant::now()
        })
        .await;
    }
    // Of a server that the client was told of by its URL: it stays connected to it.
    moved(&cluster, "CLUSTER FAILOVER", [1, PRIMARIES + 1], |cluster, name| {
        cluster.fail_over(PRIMARIES + 1, None);
        cluster.elected(cluster.slot_of(name), 1);
        Instant::now()
    })
    .await;
}

/// A node that answers nothing keeps no waiter of another from hearing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_shard_keeps_no_other_deaf() {
    let cluster = Cluster::start(0, secs(60));
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let names = [0, 1].map(|node| cluster.name_on(node, "deaf"));
    let (_dead, _waits) = waits(&one, &other, &names[0]).await;
    cluster.nodes[0].freeze();
    // By then its connection is given up, and its channel is asked for again and again.
    sleep(secs(3)).await;
    for _ in 0..3 {
        let guard = other.lock(&names[1]).guard().await.unwrap();
        let (lock, began) = (one.lock(&names[1]), Instant::now());
        let waiter = tokio::spawn(async move {
            let guard = lock.guard().await.unwrap();
            guard.unlock().await.unwrap();
        });
        let heard = tokio::task::block_in_place(|| heard_at(&cluster.nodes[1], &names[1]));
        println!("subscribed {:?} after it began to wait", heard - began);
        assert!(heard - began < ms(250), "{:?}", heard - began);
        guard.unlock().await.unwrap();
        patient("the waiter", waiter).await.unwrap();
        // So that the next one has to be subscribed anew.
        cluster.nodes[1].control(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }
    cluster.nodes[0].thaw();
}
