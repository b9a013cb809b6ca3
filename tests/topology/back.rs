//! How soon a client goes on behind a failover, beside how soon the servers do.

use std::sync::Mutex;

use support::prelude::*;
use support::Cluster;
use tokio::task::block_in_place;

/// How long after the servers themselves the shard that lost its primary may take, and the others.
const VICTIM: Duration = ms(500);
const HEALTHY: Duration = ms(100);
/// What a busy machine adds.
const MARGIN: Duration = ms(400);

/// When a lock was granted, again and again.
fn grants(locks: &Locks, name: &str) -> (Arc<Mutex<Vec<Instant>>>, JoinHandle<()>) {
    let (lock, grants) = (locks.lock(name), Arc::<Mutex<Vec<Instant>>>::default());
    let task = spawn_with(grants.clone(), async move |grants| loop {
        if let Ok(guard) = lock.guard().await {
            grants.lock().unwrap().push(Instant::now());
            let _ = guard.unlock().await;
        }
        sleep(ms(2)).await;
    });
    (grants, task)
}

/// Writes to a slot by this node again and again: when it was refused last, if it was, and when it was done behind that.
fn writable(node: &Server, key: &str, until: Instant) -> (Option<Instant>, Option<Instant>) {
    let (mut refused, mut done) = (None, None);
    while Instant::now() < until {
        match node.try_control(&["SET", key, "x", "PX", "1"]) {
            Ok(_) => done = done.or_else(|| Some(Instant::now())),
            Err(_) => (refused, done) = (Some(Instant::now()), None),
        }
        std::thread::sleep(ms(2));
    }
    (refused, done)
}

/// The first grant behind a moment.
fn first_after(grants: &Mutex<Vec<Instant>>, moment: Instant) -> Duration {
    let grants = grants.lock().unwrap();
    let first = grants.iter().find(|at| **at >= moment);
    first.map_or(Duration::MAX, |at| at.duration_since(moment))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_go_on_when_the_servers_do() {
    let cluster = Cluster::start(1, ms(500));
    let locks = Locks::builder().connect(&cluster.url()).await.unwrap();
    let names: Vec<String> = (0..3).map(|node| cluster.name_on(node, "back")).collect();
    let tasks: Vec<_> = names.iter().map(|name| grants(&locks, name)).collect();
    for round in 0..soak(10) {
        let victim = round % 3;
        let slots: Vec<u16> = names.iter().map(|name| cluster.slot_of(name)).collect();
        let primaries: Vec<usize> = slots.iter().map(|slot| cluster.primary_of(*slot)).collect();
        let probes: Vec<String> = names.iter().map(|name| format!("{{{name}}}:probe")).collect();
        sleep(ms(200)).await;
        let old = primaries[victim];
        let [heir] = cluster.replicas_of(old)[..] else { panic!("one replica") };
        let killed = Instant::now();
        cluster.nodes[old].kill();
        let until = killed + secs(5);
        let nodes = (0..3).map(|at| &cluster.nodes[if at == victim { heir } else { primaries[at] }]);
        let servers = block_in_place(|| {
            std::thread::scope(|scope| {
                let asked: Vec<_> =
                    nodes.zip(&probes).map(|(node, probe)| scope.spawn(move || writable(node, probe, until))).collect();
                asked.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
            })
        });
        for (at, (refused, done)) in servers.into_iter().enumerate() {
            let done = done.expect("the server takes writes again");
            let Some(refused) = refused else {
                println!("shard {at} was never refused");
                continue;
            };
            let took = first_after(&tasks[at].0, refused);
            let whose = if at == victim { "the victim" } else { "a healthy shard" };
            println!(
                "{whose}: the server is back {:.3?} after the kill, a lock is granted {took:.3?} later",
                done.duration_since(killed)
            );
            assert!(took < MARGIN + if at == victim { VICTIM } else { HEALTHY }, "{whose}: {took:?}");
        }
        block_in_place(|| {
            cluster.nodes[old].restart();
            cluster.settle();
        });
    }
    tasks.iter().for_each(|(_, task)| task.abort());
}
