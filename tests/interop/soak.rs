//! Two JVMs and two Rust processes on five names of each kind: a counter that each moves with a GET and a SET is exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use lockson::Locks;

use crate::locks::leaves_nothing;
use crate::peer::{epoch, Kind, Peer};
use crate::support::{eventually, seed, soak, unique, Raw, Rng};
use crate::{connect, ms, secs, Process, World};

const NAMES: usize = 5;
const THREADS: usize = 4;
const TASKS: usize = 40;

fn spec(names: &[(Kind, String)]) -> String {
    let all: Vec<String> = names.iter().map(|(kind, name)| format!("{}/{name}", kind.name())).collect();
    all.join(",")
}

/// Two minutes; a tenth of them in a short run. No key, no queue entry and no subscription is left.
pub async fn counters_are_exact_and_nothing_is_left(world: Arc<World>) {
    let (seed, shared) = (seed(), [(); NAMES].map(|()| unique("soak")));
    // Readers and writers of one lock have one name.
    let name = |kind: Kind, at: usize| match kind {
        Kind::Read | Kind::Write => shared[at].clone(),
        _ => unique("soak"),
    };
    let names: Vec<(Kind, String)> =
        Kind::ALL.iter().flat_map(|kind| (0..NAMES).map(|at| (*kind, name(*kind, at)))).collect();
    let (spec, port) = (spec(&names), world.server.port().to_string());
    let until = epoch() / 1000 + soak(120_000) as u64;
    let mut parts: Vec<Process> = (0..2)
        .map(|at| Process::start("soak", &[&port, &spec, &until.to_string(), &(seed + at).to_string()]))
        .collect();
    let (mut threads, mut clients) = (Vec::new(), Vec::new());
    for (at, jvm) in world.jvms.iter().enumerate() {
        let java = jvm.client(world.server.port(), "").await;
        for thread in 0..THREADS {
            let verb = format!("run {until} {}", seed as u32 + (at * THREADS + thread) as u32);
            threads.push(java.must(&format!("soak-{thread}"), "soak", &spec, &verb));
        }
        clients.push(java);
    }
    let (mut by_java, mut by_rust) = (vec![0; names.len()], vec![0; names.len()]);
    for part in &mut parts {
        let line = tokio::time::timeout(secs(300), part.lines.recv()).await.unwrap().unwrap();
        add(&mut by_rust, &line);
    }
    for thread in threads {
        add(&mut by_java, &thread.await);
    }
    println!(
        "soak, seed {seed}: {} turns of Java, {} of Rust",
        by_java.iter().sum::<u64>(),
        by_rust.iter().sum::<u64>()
    );
    let mut raw = world.server.raw().await;
    for (at, (kind, name)) in names.iter().enumerate().filter(|(_, (kind, _))| *kind != Kind::Read) {
        let counter: u64 = raw.get(&format!("{name}-counter")).await.map_or(0, |text| text.parse().unwrap());
        assert_eq!(counter, by_java[at] + by_rust[at], "{kind:?}: the counter is not exact, seed {seed}");
    }
    for (at, (kind, _)) in names.iter().enumerate().step_by(NAMES).filter(|(_, (kind, _))| *kind != Kind::Read) {
        let turns = |of: &[u64]| of[at..at + NAMES].iter().sum::<u64>();
        assert!(turns(&by_java) > 0 && turns(&by_rust) > 0, "{kind:?} was had by one side only, seed {seed}");
    }
    drop(parts);
    for (_, name) in &names {
        raw.must(&["DEL", &format!("{name}-counter")]).await;
        leaves_nothing(&world, name).await;
    }
    // Redisson forgets to end one now and then.
    let ended = tokio::time::timeout(secs(5), async {
        while !channels(&mut world.server.raw().await, &names).await.is_empty() {
            tokio::time::sleep(ms(20)).await;
        }
    });
    let left = if ended.await.is_ok() { vec![] } else { channels(&mut raw, &names).await };
    println!("  subscriptions that Redisson has left: {left:?}");
    for java in clients {
        java.must("closer", "client", "-", "shutdown").await;
    }
    eventually(secs(20), "no subscription is left", async || {
        channels(&mut world.server.raw().await, &names).await.is_empty()
    })
    .await;
}

/// Those of the soak that somebody listens to.
async fn channels(raw: &mut Raw, names: &[(Kind, String)]) -> Vec<String> {
    let channels = raw.must(&["PUBSUB", "CHANNELS"]).await.texts();
    channels.into_iter().filter(|channel| names.iter().any(|(_, name)| channel.contains(name.as_str()))).collect()
}

fn add(sums: &mut [u64], line: &str) {
    let numbers = line.split(',').map(|text| text.parse::<u64>().unwrap());
    sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
}

/// One Rust process: its tasks do what Soak.java does.
pub async fn part(url: &str, args: &[String]) {
    let [spec, until, seed] = args else { panic!("{args:?}") };
    let names: Arc<Vec<(Kind, String)>> = Arc::new(
        spec.split(',').map(|lock| lock.split_once('/').unwrap()).map(|(k, n)| (Kind::named(k), n.into())).collect(),
    );
    let (until, seed) = (until.parse::<u64>().unwrap(), seed.parse::<u64>().unwrap());
    let locks = connect(Locks::builder(), url).await;
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let raw = Arc::new(tokio::sync::Mutex::new(Raw::connect(port).await));
    let moved: Arc<Vec<AtomicU64>> = Arc::new(names.iter().map(|_| AtomicU64::new(0)).collect());
    let tasks: Vec<_> = (0..TASKS as u64)
        .map(|task| {
            let (names, locks, raw, moved) = (names.clone(), Peer::Rust(locks.clone()), raw.clone(), moved.clone());
            tokio::spawn(async move {
                let mut rng = Rng::new(seed ^ task << 32);
                while epoch() / 1000 < until {
                    let at = rng.below(names.len() as u64) as usize;
                    let (kind, name) = &names[at];
                    let lock = locks.lock(*kind, name, &format!("task-{task}"));
                    let wait = if rng.below(4) == 0 { ms(rng.below(50)) } else { secs(120) };
                    // A short limit may come before the first answer.
                    let taken = lock.try_lock(wait, None).await.or_else(|error| match wait < ms(50) {
                        true => Ok(false),
                        false => Err(error),
                    });
                    if taken.unwrap() {
                        moved[at].fetch_add(turn(&raw, *kind, name).await, Ordering::Relaxed);
                        lock.unlock().await.result.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    locks.shutdown(secs(5)).await.unwrap();
    let moved: Vec<String> = moved.iter().map(|count| count.load(Ordering::Relaxed).to_string()).collect();
    println!("{}", moved.join(","));
}

async fn turn(raw: &tokio::sync::Mutex<Raw>, kind: Kind, name: &str) -> u64 {
    let counter = format!("{name}-counter");
    let before = raw.lock().await.get(&counter).await;
    if kind == Kind::Read {
        assert_eq!(raw.lock().await.get(&counter).await, before, "a writer beside a reader of {name}");
        return 0;
    }
    let next = before.map_or(1, |text| text.parse::<u64>().unwrap() + 1).to_string();
    raw.lock().await.must(&["SET", &counter, &next]).await;
    1
}
