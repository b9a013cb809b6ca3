//! How soon lockson's clients go on when the servers do, beside how soon those do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use support::prelude::*;
use support::{Cluster, Sentinels};

/// Promised of a shard whose primary is replaced, and of the others, from when the server takes writes again.
const VICTIM: Duration = ms(500);
const HEALTHY: Duration = ms(100);

const ROUNDS: usize = 3;

/// Takes and gives back a lock again and again, and says when it had it.
fn user(locks: &Locks, name: &str, end: &Arc<AtomicBool>) -> JoinHandle<Vec<Instant>> {
    let (lock, end) = (locks.lock(name), end.clone());
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while !end.load(Ordering::Relaxed) {
            if let Ok(guard) = lock.guard().await {
                taken.push(Instant::now());
                let _ = guard.unlock().await;
            }
            sleep(ms(1)).await;
        }
        taken
    })
}

/// When a server took its first write since `after`, and since it refused one, if it must have; asked each millisecond.
fn writable(server: &Server, key: &str, after: Instant, refused_first: bool) -> Instant {
    let mut refused = !refused_first;
    loop {
        match server.try_control(&["SET", key, "x"]) {
            Ok(_) if refused => return Instant::now(),
            Ok(_) => {}
            Err(why) => refused |= why.starts_with("CLUSTERDOWN"),
        }
        assert!(after.elapsed() < secs(20), "it takes no writes");
        std::thread::sleep(ms(1));
    }
}

fn first_after(taken: &[Instant], at: Instant) -> Duration {
    taken.iter().find(|taken| **taken >= at).expect("it was taken again").duration_since(at)
}

#[track_caller]
fn within(what: &str, mut spans: Vec<Duration>, limit: Duration) {
    spans.sort();
    println!("{what}: {spans:?} after the server");
    assert!(spans[spans.len() / 2] <= limit, "{what}: {spans:?}, promised is {limit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_used_as_soon_as_they_are_back() {
    let cluster = Cluster::start(1, ms(500));
    let locks = Locks::builder().connect(&cluster.url()).await.unwrap();
    let (victim, healthy) = (cluster.name_on(0, "victim"), cluster.name_on(1, "healthy"));
    let (mut victims, mut others) = (Vec::new(), Vec::new());
    let slot = cluster.slot_of(&victim);
    for _ in 0..ROUNDS {
        let old = cluster.primary_of(slot);
        let [heir] = cluster.replicas_of(old)[..] else { panic!("one replica") };
        let end = Arc::new(AtomicBool::new(false));
        let users = [&victim, &healthy].map(|name| user(&locks, name, &end));
        sleep(ms(200)).await;
        let (killed, key) = (Instant::now(), |name: &str| format!("{{{name}}}:raw"));
        cluster.nodes[old].kill();
        let (back, up) = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let back = scope.spawn(|| writable(&cluster.nodes[heir], &key(&victim), killed, false));
                let up = scope.spawn(|| writable(&cluster.nodes[1], &key(&healthy), killed, true));
                (back.join().unwrap(), up.join().unwrap())
            })
        });
        println!("the servers: victim {:?}, healthy {:?} after the kill", back - killed, up - killed);
        sleep(ms(1_000)).await;
        end.store(true, Ordering::Relaxed);
        let [of_victim, of_healthy] = &patient_all("a user", users).await[..] else { panic!("two users") };
        victims.push(first_after(of_victim, back));
        others.push(first_after(of_healthy, up));
        cluster.nodes[old].restart();
        tokio::task::block_in_place(|| cluster.settle());
    }
    within("victim shard", victims, VICTIM);
    within("healthy shard", others, HEALTHY);
}

/// As soon as the first sentinel names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_primary_is_used_as_soon_as_a_sentinel_names_it() {
    let mut spans = Vec::new();
    for _ in 0..ROUNDS {
        let all = Sentinels::start(ms(500));
        let locks = Locks::builder().connect(&all.url()).await.unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let users = [user(&locks, &unique("victim"), &end)];
        sleep(ms(200)).await;
        let killed = Instant::now();
        all.servers[0].kill();
        let named = tokio::task::block_in_place(|| loop {
            if (0..3).any(|sentinel| all.named_by(sentinel).is_some_and(|named| named != 0)) {
                break Instant::now();
            }
            std::thread::sleep(ms(1));
        });
        println!("named {:?} after the kill", named - killed);
        sleep(ms(2_000)).await;
        end.store(true, Ordering::Relaxed);
        spans.push(first_after(&patient_all("a user", users).await[0], named));
    }
    within("behind sentinels", spans, VICTIM);
}
