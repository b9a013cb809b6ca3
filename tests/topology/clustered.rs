//! lockson's clients of a cluster: every kind, wake-ups, a primary that dies, and slots that move.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use support::prelude::*;
use support::Cluster;

use super::{contend, every_kind_works};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_works_on_a_cluster() {
    let cluster = Cluster::start(0, ms(2_000));
    every_kind_works(&cluster.url()).await;
}

/// All tasks go on when another primary is elected; a hold says what became of it; nobody else loses anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_dies() {
    let cluster = Cluster::start(1, ms(500));
    let locks = Locks::builder().connect(&cluster.url()).await.unwrap();
    let names: Vec<String> = (0..3).map(|node| cluster.name_on(node, "dies")).collect();
    let kept = [0, 1, 2].map(|node| cluster.name_on(node, "kept"));
    let guards = join_all(kept.iter().map(async |name| locks.lock(name).guard().await.unwrap())).await;
    let end = Arc::new(AtomicBool::new(false));
    let tasks = contend(&locks, &names, &end);
    sleep(ms(300)).await;
    let slot = cluster.slot_of(&names[0]);
    cluster.nodes[0].kill();
    let killed = Instant::now();
    tokio::task::block_in_place(|| cluster.elected(slot, 0));
    println!("elected {:?} after the kill", killed.elapsed());
    let elected = Instant::now();
    locks.lock(&names[0]).guard().await.unwrap().unlock().await.unwrap();
    println!("taken {:?} after the election", elected.elapsed());
    eventually(secs(5), "the hold of the dead primary is told", async || {
        guards[0].state() != HoldState::Uncertain && elected.elapsed() > ms(500)
    })
    .await;
    sleep(ms(500)).await;
    end.store(true, Ordering::Relaxed);
    for turns in patient_all("a task", tasks).await {
        println!("{} turns, {:?} the longest gap, {:?}", turns.done, turns.gap, turns.failed);
        assert!(turns.done > 5 && turns.failed.len() <= 1, "{:?}", turns.failed);
    }
    for guard in &guards[1..] {
        assert_eq!(guard.state(), HoldState::Held);
        guard.verify().await.unwrap();
    }
    for guard in guards {
        let _ = guard.unlock().await;
    }
    assert!(locks.health().reachable);
}

/// Slots that nobody has keep a client from no other failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_dies_where_a_slot_is_nobodys() {
    let cluster = Cluster::of(&support::server::program(), 1, ms(500), &[("cluster-require-full-coverage", "no")]);
    let locks = Locks::builder().connect(&cluster.url()).await.unwrap();
    let [name, gone] = [0, 1].map(|node| cluster.name_on(node, "covered"));
    let [slot, nobodys] = [&name, &gone].map(|name| cluster.slot_of(name));
    tokio::task::block_in_place(|| {
        cluster.unassign(nobodys);
        cluster.nodes[0].kill();
        cluster.elected(slot, 0)
    });
    patient("the new primary's lock", locks.lock(&name).guard()).await.unwrap().unlock().await.unwrap();
    let nobody = locks.lock(&gone).try_lock().await;
    assert!(matches!(nobody, Err(LockError::Query(QueryError::Unreachable { .. }))), "{nobody:?}");
}

/// A replica that takes over in agreement with its primary: no call fails and no hold is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over() {
    let cluster = Cluster::start(1, ms(2_000));
    let locks = Locks::builder().connect(&cluster.url()).await.unwrap();
    let names = [cluster.name_on(0, "over"), cluster.name_on(1, "over")];
    let guard = locks.lock(&cluster.name_on(0, "kept")).guard().await.unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let tasks = contend(&locks, &names, &end);
    sleep(ms(200)).await;
    let [replica] = cluster.replicas_of(0)[..] else { panic!("one replica") };
    tokio::task::block_in_place(|| {
        cluster.fail_over(replica, None);
        cluster.elected(cluster.slot_of(&names[0]), 0);
    });
    sleep(ms(500)).await;
    end.store(true, Ordering::Relaxed);
    for turns in patient_all("a task", tasks).await {
        assert!(turns.done > 5 && turns.failed.len() <= 1, "{turns:?}");
    }
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
}

/// A slot moves key by key under load: nothing fails. Who waits for a lock of it hears of the release behind the move,
/// and was not asleep for longer than the move took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load() {
    let cluster = Cluster::start(0, ms(2_000));
    let client = || async { Locks::builder().wait_cap(secs(60)).connect(&cluster.url()).await.unwrap() };
    let (locks, other) = (client().await, client().await);
    let name = cluster.name_on(0, "moves");
    let inside = |part: &str| format!("{{{name}}}:{part}");
    let guard = locks.lock(&inside("held")).guard().await.unwrap();
    let waited = inside("held");
    let waiter = spawn_with(other.clone(), async move |other| {
        let guard = other.lock(&waited).guard().await.unwrap();
        let at = Instant::now();
        guard.unlock().await.unwrap();
        at
    });
    eventually(secs(20), "the waiter listens", async || other.health().subscriptions > 0).await;
    let end = Arc::new(AtomicBool::new(false));
    let tasks = contend(&locks, &["a", "b", "c"].map(inside), &end);
    sleep(ms(100)).await;
    tokio::task::block_in_place(|| {
        let moving = cluster.move_slot(cluster.slot_of(&name), 2);
        std::thread::sleep(ms(200));
        for key in moving.left() {
            moving.take(&key);
            std::thread::sleep(ms(20));
        }
        moving.finish();
    });
    sleep(ms(50)).await;
    end.store(true, Ordering::Relaxed);
    for turns in patient_all("a task", tasks).await {
        println!("{} turns, {:?} the longest gap", turns.done, turns.gap);
        assert!(turns.done > 5 && turns.failed.is_empty(), "{turns:?}");
    }
    guard.verify().await.unwrap();
    let released = Instant::now();
    guard.unlock().await.unwrap();
    let took = patient("the waiter", waiter).await.unwrap().duration_since(released);
    println!("woken after {took:?}");
    assert!(took < secs(5), "{took:?}");
}
