//! A primary that is one no more and does not know it grants nothing: it was frozen and wakes, or was replaced while it
//! lives.

use std::collections::BTreeMap;
use std::sync::Mutex;

use support::prelude::*;
use support::process::epoch;
use support::{Cluster, Sentinels};
use tokio::task::block_in_place;

/// How long after the first word of another primary its grants still count.
const GRACE: u64 = 300;
const TASKS: usize = 8;

/// Who was granted a lock, by field, and when it was told, by the clock that servers have too.
type Grants = Arc<Mutex<BTreeMap<String, u64>>>;

/// Takes and gives back the lock again and again, each time as somebody else.
fn contend(locks: &Locks, name: &str, grants: &Grants) -> Vec<JoinHandle<()>> {
    let one = |_| {
        let (locks, lock, grants) = (locks.clone(), locks.lock(name), grants.clone());
        tokio::spawn(async move {
            loop {
                let owner = Owner::unique();
                if let Ok(guard) = lock.owned_by(&owner).guard().await {
                    grants.lock().unwrap().insert(format!("{}:{owner}", locks.client_id()), epoch());
                    sleep(ms(1)).await;
                    let _ = guard.unlock().await;
                }
            }
        })
    };
    (0..TASKS).map(one).collect()
}

/// What scripts of the server write from here on, by its own account: the milliseconds, and the words.
async fn monitor(server: &Server) -> (Arc<Mutex<Vec<(u64, String)>>>, JoinHandle<()>) {
    let mut raw = server.raw().await;
    raw.must(&["MONITOR"]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let task = spawn_with(seen.clone(), async move |seen| {
        while let Ok(reply) = raw.receive().await {
            let line = reply.text();
            let (time, words) = line.split_once(' ').unwrap();
            let (seconds, micros) = time.split_once('.').unwrap();
            let at = seconds.parse::<u64>().unwrap() * 1_000 + micros.parse::<u64>().unwrap() / 1_000;
            if words.starts_with("[0 lua]") {
                seen.lock().unwrap().push((at, words.to_owned()));
            }
        }
    });
    (seen, task)
}

/// Has somebody else made the primary while tasks contend, by two clients; `switch` says when that was first told, and
/// returns when the old one knows.
async fn wake(url: &str, name: &str, old: &Server, switch: impl FnOnce() -> u64) {
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        // What comes back with a failover ends with its lease. Each grant is a write of its own.
        let builder = Locks::builder().command_timeout(ms(500)).watchdog_lease(secs(3)).local_turns(false);
        let locks = builder.connect(url).await.unwrap();
        tasks.extend(contend(&locks, name, &grants));
    }
    let (written, monitor) = monitor(old).await;
    sleep(ms(200)).await;
    let told = block_in_place(switch);
    let count = |is: &dyn Fn(u64) -> bool| grants.lock().unwrap().values().filter(|at| is(**at)).count();
    let before = count(&|at| at <= told);
    eventually(secs(10), "the new one grants", async || count(&|at| at > told + GRACE) > 10).await;
    tasks.iter().for_each(JoinHandle::abort);
    monitor.abort();
    let (grants, written) = (grants.lock().unwrap(), written.lock().unwrap());
    let late = written.iter().filter(|(at, _)| *at > told + GRACE);
    let is_grant = |words: &str| {
        let is_write = ["\"hincrby\"", "\"hset\""].iter().any(|verb| words.to_lowercase().contains(verb));
        is_write && words.split('"').any(|word| grants.contains_key(word))
    };
    let written_late = late.clone().filter(|(_, words)| words.to_lowercase().contains("\"hincrby\"")).count();
    let granted: Vec<_> = late.filter(|(_, words)| is_grant(words)).collect();
    let seen = written.iter().filter(|(_, words)| is_grant(words)).count();
    println!(
        "{before} grants before the switch, {seen} of them seen; {} after it, of these {} by the old one; it wrote \
         {written_late} owners",
        grants.len() - before,
        granted.len()
    );
    assert!(seen > 0, "none of its grants was seen: {:?} {:?}", grants.keys().next(), written.first());
    assert!(granted.is_empty(), "granted by the old primary: {granted:?}");
}

/// It is frozen until its successor is elected, and then wakes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_primary_of_a_cluster_wakes() {
    let cluster = Cluster::start(1, ms(500));
    let name = cluster.name_on(0, "wakes");
    let slot = cluster.slot_of(&name);
    for _ in 0..soak(10) {
        let old = cluster.primary_of(slot);
        let node = &cluster.nodes[old];
        wake(&cluster.url(), &name, node, || {
            node.freeze();
            cluster.elected(slot, old);
            let told = epoch();
            node.thaw();
            cluster.settle();
            told
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_primary_behind_sentinels_wakes() {
    let all = Sentinels::start(ms(500));
    for _ in 0..soak(10) {
        let old = all.settle();
        wake(&all.url(), &unique("wakes"), &all.servers[old], || {
            all.servers[old].freeze();
            let told = first_named(&all, old);
            all.servers[old].thaw();
            all.switched(old);
            all.demoted(old);
            told
        })
        .await;
    }
}

/// It lives, and takes writes until the sentinels tell it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_the_sentinels_replace_grants_nothing() {
    let all = Sentinels::start(ms(500));
    for _ in 0..soak(10) {
        let old = all.settle();
        wake(&all.url(), &unique("replaced"), &all.servers[old], || {
            all.fail_over();
            let told = first_named(&all, old);
            all.switched(old);
            all.demoted(old);
            told
        })
        .await;
    }
}

/// When a sentinel named another primary first.
fn first_named(all: &Sentinels, old: usize) -> u64 {
    while !(0..all.sentinels.len()).any(|at| all.named_by(at).is_some_and(|named| named != old)) {
        std::thread::sleep(ms(5));
    }
    epoch()
}
