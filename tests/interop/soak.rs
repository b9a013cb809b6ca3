//! Two JVMs and two Rust processes on five names of each kind: a counter that each moves with a GET and a SET is exact.

use support::permits;

use crate::*;

const NAMES: usize = 5;
const THREADS: usize = 4;
const TASKS: usize = 40;

/// What is taken beside the kinds of locks: multi-locks, red locks, transactions, and semaphores of one permit.
const OTHERS: [&str; 5] = ["multi", "red", "transaction", "semaphore", "permits"];
/// Those with a key that stays.
const PERMITS: [&str; 2] = ["semaphore", "permits"];

/// A kind by its name, and the name of the lock.
type Name = (String, String);

fn spec(names: &[Name]) -> String {
    let all: Vec<String> = names.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
    all.join(",")
}

/// Two minutes; a tenth of them in a short run. No key, no queue entry and no subscription is left.
pub async fn counters_are_exact_and_nothing_is_left(world: Arc<World>) {
    let (seed, shared) = (seed(), [(); NAMES].map(|()| unique("soak")));
    // Readers and writers of one lock have one name.
    let name = |kind: &str, at: usize| match kind {
        "read" | "write" => shared[at].clone(),
        _ => unique("soak"),
    };
    let kinds = Kind::ALL.iter().map(|kind| kind.name()).chain(OTHERS);
    let names: Vec<Name> = kinds
        .flat_map(|kind| (0..NAMES).map(move |at| (kind, at)))
        .map(|(kind, at)| (kind.into(), name(kind, at)))
        .collect();
    let locks = world.rust(Locks::builder()).await;
    for (kind, name) in &names {
        match kind.as_str() {
            "semaphore" => assert!(locks.semaphore(name).try_set_permits(1).await.unwrap()),
            "permits" => assert!(locks.permit_semaphore(name).try_set_permits(1).await.unwrap()),
            _ => {}
        }
    }
    // They vote on red locks, with the first one.
    let voters = [Server::start(), Server::start()];
    let urls = [world.place.url(), voters[0].url(), voters[1].url()];
    let mut clients = Vec::new();
    for jvm in &world.jvms {
        clients.push([jvm.client(&urls[0], "").await, jvm.client(&urls[1], "").await, jvm.client(&urls[2], "").await]);
    }
    let [by_java, by_rust] = turns(&clients, &urls, &names, seed).await;
    are_exact(&world, &names, &by_java, &by_rust).await;
    for (_, name) in &names {
        leaves_nothing(&world, name).await;
    }
    for server in &voters {
        let no_vote = async || server.raw().await.keys("*").await.iter().all(|key| key == "lockson:boot");
        eventually(secs(20), "no vote is left", no_vote).await;
    }
    no_subscription_is_left(&world, clients.into_iter().flatten(), &names).await;
}

/// How often each side moved each counter.
async fn turns(clients: &[[Java; 3]], urls: &[String; 3], names: &[Name], seed: u64) -> [Vec<u64>; 2] {
    let (spec, [url, second, third]) = (spec(names), urls.clone());
    let until = epoch() / 1000 + soak(120_000) as u64;
    let part =
        |seed: u64| [url.clone(), spec.clone(), until.to_string(), seed.to_string(), second.clone(), third.clone()];
    let mut parts: Vec<Process> =
        (0..2).map(|at| Process::start("interop", "soak", &part(seed + at).each_ref().map(String::as_str))).collect();
    let mut threads = Vec::new();
    for (at, [java, second, third]) in clients.iter().enumerate() {
        for thread in 0..THREADS {
            let seed = seed as u32 + (at * THREADS + thread) as u32;
            let verb = format!("run {until} {seed} {} {}", second.name(), third.name());
            threads.push(java.must(&format!("soak-{thread}"), "soak", &spec, &verb));
        }
    }
    let (mut by_java, mut by_rust) = (vec![0; names.len()], vec![0; names.len()]);
    for part in &mut parts {
        let line = part.line_within(secs(300)).await;
        add(&mut by_rust, &line);
    }
    for thread in threads {
        add(&mut by_java, &thread.await);
    }
    let [java, rust] = [&by_java, &by_rust].map(|turns| turns.iter().sum::<u64>());
    println!("soak, seed {seed}: {java} turns of Java, {rust} of Rust");
    [by_java, by_rust]
}

/// Each counter is the sum of the turns, both sides had some of each kind, and every permit is back.
async fn are_exact(world: &World, names: &[Name], by_java: &[u64], by_rust: &[u64]) {
    let mut raw = world.place.server().raw().await;
    for (at, (kind, name)) in names.iter().enumerate().filter(|(_, (kind, _))| kind != "read") {
        let counter: u64 = raw.get(&format!("{name}-counter")).await.map_or(0, |text| text.parse().unwrap());
        assert_eq!(counter, by_java[at] + by_rust[at], "{kind}: the counter is not exact");
    }
    for (at, (kind, _)) in names.iter().enumerate().step_by(NAMES).filter(|(_, (kind, _))| kind != "read") {
        let turns = |of: &[u64]| of[at..at + NAMES].iter().sum::<u64>();
        assert!(turns(by_java) > 0 && turns(by_rust) > 0, "{kind} was had by one side only");
    }
    for (kind, name) in names {
        raw.must(&["DEL", &format!("{name}-counter")]).await;
        if kind == "transaction" {
            raw.must(&["DEL", name]).await;
        }
        if PERMITS.contains(&kind.as_str()) {
            assert_eq!(raw.get(name).await.as_deref(), Some("1"), "{kind}: a permit is missing");
            raw.must(&["DEL", name]).await;
        }
    }
}

/// Redisson forgets to end one now and then: it ends with its client.
async fn no_subscription_is_left(world: &World, clients: impl Iterator<Item = Java>, names: &[Name]) {
    let mut raw = world.place.server().raw().await;
    println!("  subscriptions before the clients of Redisson end: {:?}", channels(&mut raw, names).await);
    for java in clients {
        java.must("closer", "client", "-", "shutdown").await;
    }
    let silent = async || channels(&mut world.place.server().raw().await, names).await.is_empty();
    eventually(secs(20), "no subscription is left", silent).await;
}

/// Those of the soak that somebody listens to.
async fn channels(raw: &mut Raw, names: &[Name]) -> Vec<String> {
    let channels = raw.must(&["PUBSUB", "CHANNELS"]).await.texts();
    channels.into_iter().filter(|channel| names.iter().any(|(_, name)| channel.contains(name.as_str()))).collect()
}

fn add(sums: &mut [u64], line: &str) {
    let numbers = line.split(',').map(|text| text.parse::<u64>().unwrap());
    sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
}

/// One Rust process: its tasks do what Soak.java does.
pub async fn part(url: &str, args: &[String]) {
    let [spec, until, seed, others @ ..] = args else { panic!("{args:?}") };
    let names = spec.split(',').map(|lock| lock.split_once('/').unwrap());
    let names: Arc<Vec<Name>> = Arc::new(names.map(|(kind, name)| (kind.into(), name.into())).collect());
    let (until, seed) = (until.parse::<u64>().unwrap(), seed.parse::<u64>().unwrap());
    let urls = others.iter().map(String::as_str).chain([url]);
    let servers = join_all(urls.map(|url| connect(Locks::builder(), url)));
    let servers = Arc::new(servers.await);
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let raw = Arc::new(tokio::sync::Mutex::new(Raw::connect(port).await));
    let moved: Arc<Vec<AtomicU64>> = Arc::new(names.iter().map(|_| AtomicU64::new(0)).collect());
    let tasks: Vec<_> = (0..TASKS as u64)
        .map(|task| {
            let (names, servers, raw, moved) = (names.clone(), servers.clone(), raw.clone(), moved.clone());
            tokio::spawn(async move {
                let mut rng = Rng::with_seed(seed ^ task << 32);
                while epoch() / 1000 < until {
                    let at = rng.usize(..names.len());
                    let wait = if rng.u64(..4) == 0 { ms(rng.u64(..50)) } else { secs(120) };
                    if let Some(held) = take(&servers, &names[at], task, wait).await {
                        moved[at].fetch_add(turn(&raw, &names[at]).await, Ordering::Relaxed);
                        held.release().await;
                    }
                }
            })
        })
        .collect();
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    for locks in servers.iter() {
        locks.shutdown(secs(5)).await.unwrap();
    }
    let moved: Vec<String> = moved.iter().map(|count| count.load(Ordering::Relaxed).to_string()).collect();
    println!("{}", moved.join(","));
}

enum Held {
    Lock(Side),
    Permit(permits::Guard),
}

impl Held {
    async fn release(self) {
        match self {
            Self::Lock(lock) => drop(lock.unlock().await.result.unwrap()),
            Self::Permit(guard) => guard.release().await.unwrap(),
        }
    }
}

/// `None`: it waited for too long, or its limit came before any answer. All but red locks are on the last server.
async fn take(servers: &[Locks], (kind, name): &Name, task: u64, wait: Duration) -> Option<Held> {
    let short = wait < ms(50);
    let (locks, who) = (servers.last().unwrap(), format!("task-{task}"));
    let lock = match kind.as_str() {
        "red" => Side::Rust(Arc::new(red::red(servers, name, &who))),
        "transaction" => {
            let lock = locks.lock(&format!("{name}:transaction_lock")).owned_by(&Owner::named(&who).unwrap());
            Side::Rust(Arc::new(lock.in_transaction(&format!("transaction-{task}")).unwrap()))
        }
        "multi" => Side::Rust(Arc::new(composite::multi(locks, &["a", "b"].map(|end| format!("{name}-{end}")), &who))),
        "semaphore" | "permits" => {
            let kind = if kind == "semaphore" { "counted" } else { "leased" };
            return unless(short, permits::Kind::of(kind, locks, name).guard(1, wait).await).map(Held::Permit);
        }
        kind => Peer::Rust(locks.clone()).lock(Kind::named(kind), name, &who),
    };
    let taken = lock.try_lock(wait, None).await.map(|taken| taken.then_some(()));
    unless(short, taken).map(|()| Held::Lock(lock))
}

fn unless<T, E: std::fmt::Debug>(short: bool, taken: Result<Option<T>, E>) -> Option<T> {
    if short {
        return taken.ok().flatten();
    }
    taken.unwrap()
}

async fn turn(raw: &tokio::sync::Mutex<Raw>, (kind, name): &Name) -> u64 {
    let counter = format!("{name}-counter");
    let before = raw.lock().await.get(&counter).await;
    if kind == "read" {
        assert_eq!(raw.lock().await.get(&counter).await, before, "a writer beside a reader of {name}");
        return 0;
    }
    let next = before.map_or(1, |text| text.parse::<u64>().unwrap() + 1).to_string();
    raw.lock().await.must(&["SET", &counter, &next]).await;
    1
}
