//! Redisson 4.7.0 and lockson on one server, behind sentinels and in a cluster. Needs a JDK and Maven: without them it
//! passes, and fails where CI is set.

mod command;
mod composite;
mod crash;
mod door;
mod failover;
mod fair;
mod group;
mod hand_over;
mod history;
mod jar;
mod java;
mod locks;
mod names;
mod peer;
mod place;
mod read_write;
mod red;
mod soak;
mod synchronizers;
mod table;
mod transactions;

use std::collections::HashMap;
use std::pin::Pin;

use java::{Java, Jvm};
use locks::{leaves_nothing, Pair, LONG, PAIRS, SOON};
use peer::{epoch, Kind, Peer, Side};
use place::Place;
use support::prelude::*;
use support::process::{self, Process};
use table::{Absent, Cell};
use tokio::sync::Mutex;
use tokio::task::{spawn_local, JoinSet, LocalSet};

/// What the cases at one place share. Names are from `support::unique`.
pub struct World {
    pub place: Place,
    pub class_path: String,
    pub jvms: [Arc<Jvm>; 2],
    /// The watchdog's lease of those who are to be seen renewing or dying.
    pub short: Duration,
    clients: Mutex<HashMap<String, Java>>,
}

impl World {
    /// One for each of these places; they start at the same time, beside Maven and the JVMs.
    fn start(places: &[&'static str]) -> Vec<Arc<Self>> {
        let begin = |name: &'static str| std::thread::spawn(move || Place::start(name));
        let starting: Vec<_> = places.iter().map(|name| begin(name)).collect();
        let began = Instant::now();
        let class_path = java::build();
        println!("Maven: {:.1?}", began.elapsed());
        let [one, two] = [0, 1].map(|_| Jvm::start(&class_path));
        let world = |place: Place| {
            // The jar's cases fill the first one.
            let jvms = [&one, &two].map(Arc::clone);
            let jvms = if matches!(place, Place::Single(_)) { jvms } else { [two.clone(), one.clone()] };
            let class_path = class_path.clone();
            Arc::new(Self { place, class_path, jvms, short: secs(4), clients: Mutex::default() })
        };
        starting.into_iter().map(|place| world(place.join().unwrap())).collect()
    }

    /// A client of Redisson, with its defaults but for `StringCodec` and what the settings say. All who say the same
    /// have the same.
    pub async fn java(&self, settings: &str) -> Java {
        let mut clients = self.clients.lock().await;
        if let Some(java) = clients.get(settings) {
            return java.clone();
        }
        let java = self.jvms[0].client(&self.place.url(), settings).await;
        clients.insert(settings.to_owned(), java.clone());
        java
    }

    pub async fn rust(&self, builder: Builder) -> Locks {
        connect(builder, &self.place.url()).await
    }

    /// Both, so that only messages come in time.
    pub async fn both(&self) -> [Peer; 2] {
        let rust = self.rust(client().wait_cap(secs(60))).await;
        [Peer::Java(self.java("").await), Peer::Rust(rust)]
    }

    /// Both with short leases of their watchdogs.
    pub async fn both_short(&self) -> [Peer; 2] {
        let java = self.java(&format!("watchdog={}", self.short.as_millis())).await;
        [Peer::Java(java), Peer::Rust(self.rust(brief(self.short)).await)]
    }

    /// A connection to the server that has this key now.
    pub async fn raw(&self, key: &str) -> Raw {
        self.place.server_of(key).raw().await
    }

    pub fn cell(&self, kind: &'static str, direction: &'static str) -> Cell {
        Cell { place: self.place.name(), kind, direction }
    }

    /// A case of these verbs has passed, in both directions.
    pub fn shows(&self, kind: &'static str, verbs: &[&'static str]) {
        table::DIRECTIONS.into_iter().for_each(|direction| self.cell(kind, direction).shows(verbs));
    }
}

/// Of a proxy that delays answers: waits for the so many-th such request, and lets its answer alone be late.
pub async fn late_answer(proxy: &Proxy, count: usize, requests: Filter) {
    proxy.wait_requests(count, requests).await;
    // It is carried out by then, and its answer under way.
    sleep(ms(300)).await;
    proxy.delay_replies(ms(0));
}

/// Whether somebody listens at this server for a name: in a cluster, channels are sharded on both sides.
pub async fn is_heard(raw: &mut Raw, name: &str) -> bool {
    let pattern = format!("*{name}*");
    for channels in ["CHANNELS", "SHARDCHANNELS"] {
        if !raw.must(&["PUBSUB", channels, &pattern]).await.list().is_empty() {
            return true;
        }
    }
    false
}

/// Some waiter of the name has subscribed.
pub async fn until_listening(server: &Server, name: &str) {
    eventually(SOON, "a waiter subscribes", async || is_heard(&mut server.raw().await, name).await).await;
}

/// Another process, which has what it is to hold.
pub async fn holder(part: &str, args: &[&str]) -> Process {
    let process = Process::start("interop", part, args);
    assert_eq!(process.line_within(SOON).await, "held");
    process
}

/// What such a process ends with: it is killed.
pub async fn say_held() {
    println!("held");
    std::future::pending().await
}

/// Connects, however busy the machine is: a builder does not wait for a server that is slow.
pub async fn connect(builder: Builder, url: &str) -> Locks {
    for _ in 0..20 {
        match builder.clone().connect(url).await {
            Err(ConnectError::Unreachable(_)) => {}
            known => return known.unwrap(),
        }
    }
    panic!("no connection to {url}");
}

/// A client of lockson on a machine that is busy: an answer may take a while.
pub fn client() -> Builder {
    Locks::builder().command_timeout(secs(3))
}

/// A client of lockson whose watchdog has a short lease.
pub fn brief(lease: Duration) -> Builder {
    Locks::builder().watchdog_lease(lease).command_timeout(lease / 3)
}

type Case = (&'static str, fn(Arc<World>) -> Pin<Box<dyn Future<Output = ()>>>);

macro_rules! cases {
    ($($module:ident: $($name:ident)*;)*) => {
        [$($((concat!(stringify!($module), "::", stringify!($name)), |world| Box::pin($module::$name(world))),)*)*]
    };
}

/// At each place, all side by side: they mostly wait for leases.
const EVERYWHERE: &[Case] = &cases! {
    locks: all_verbs all_renew;
    crash: a_killed_jvm_frees_what_it_held a_killed_rust_process_frees_what_it_held;
    names: prefixes_braces_and_tokens mapped_names hold_counts_of_many_owners entries_of_a_map;
    transactions: transactions_exclude transactions_end;
    command: the_program_sees_and_ends_what_java_holds;
    composite: multi_locks_keep_each_other_out;
    group: group_locks_keep_each_other_out;
    synchronizers:
        semaphores_count_for_both permits_are_the_same_for_both permits_expire_for_both
        permits_are_renewed_for_both latches_open_for_both;
    fair: acquisitions_of_both_drop_nobody leases_end_in_the_order_of_the_queue;
};

/// On one server: the first group beside those, the others one after another, as they measure, or work.
const ON_ONE_SERVER: [&[Case]; 5] = [
    &cases! {
        red: red_locks_keep_each_other_out red_locks_of_the_dead_are_free;
        door: both_knock_on_a_door;
        hand_over: who_is_about_to_sleep_is_woken;
        fair: a_silent_waiter_keeps_its_place;
        jar: the_weaknesses_are_the_jars;
    },
    // The waiters of the queue do nothing for most of the time.
    &cases! {
        hand_over: messages_come_both_ways;
        fair: waiters_of_both_are_served_in_the_order_of_the_queue;
    },
    &cases! { fair: scores_do_not_drift; read_write: readers_of_both_keep_each_other; },
    &cases! { soak: counters_are_exact_and_nothing_is_left; },
    &cases! { history: what_all_had_is_right a_failover_takes_no_more_than_it_may; },
];

/// Behind sentinels and in a cluster, in the same way.
const ON_MANY_SERVERS: [&[Case]; 2] =
    [&cases! { hand_over: messages_come_both_ways; }, &cases! { failover: the_primary_is_killed; }];

/// The cases of a place, by their names there, in groups.
fn cases_at(place: &str) -> Vec<Vec<(String, &'static Case)>> {
    let (prefix, groups) = match place {
        "single" => (String::new(), &ON_ONE_SERVER[..]),
        many => (many.to_lowercase() + "::", &ON_MANY_SERVERS[..]),
    };
    let named = |case: &'static Case| (format!("{prefix}{}", case.0), case);
    let mut groups: Vec<Vec<_>> = groups.iter().map(|group| group.iter().map(named).collect()).collect();
    groups[0].splice(..0, EVERYWHERE.iter().map(named));
    groups
}

fn main() {
    if process::part(async |_, part, args| play(part, args).await) {
        return;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if args.iter().any(|arg| arg == "--list") {
        let names = Place::NAMES.into_iter().flat_map(cases_at).flatten().map(|(name, _)| name);
        return names.chain(jar::names()).for_each(|name| println!("{name}: test"));
    }
    if let Some(what) = java::missing() {
        println!("interop is left out: {what}");
        let ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
        std::process::exit(i32::from(ci));
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let at = |place: &'static str| {
        let mut groups = cases_at(place);
        groups.iter_mut().for_each(|group| group.retain(|(name, _)| wanted(name)));
        groups.retain(|group| !group.is_empty());
        (place, groups)
    };
    let places: Vec<_> = Place::NAMES.into_iter().map(at).filter(|(_, groups)| !groups.is_empty()).collect();
    if places.is_empty() {
        return;
    }
    if places.iter().any(|(_, groups)| groups.iter().flatten().any(|(name, _)| name.contains("command::"))) {
        command::program();
    }
    let began = Instant::now();
    let names: Vec<&str> = places.iter().map(|(place, _)| *place).collect();
    let worlds = World::start(&names);
    // What is at one place need not wait for what is at another.
    let all = places.into_iter().zip(&worlds).enumerate().map(async |(at, ((_, groups), world))| {
        let mut failed = Vec::new();
        // All at once would be a test of the machine.
        sleep(secs(4) * at as u32).await;
        for group in groups {
            failed.extend(run(group, world).await);
        }
        failed
    });
    let failed = LocalSet::new().block_on(&runtime, async { join_all(all).await.concat() });
    let failed = if filters.is_empty() && failed.is_empty() { table() } else { failed };
    runtime.shutdown_timeout(secs(1));
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {:.1?}. {failed:?}", began.elapsed());
    // What `exit` skips.
    drop(worlds);
    std::process::exit(i32::from(!failed.is_empty()));
}

/// Prints what was shown. What is wrong with it.
fn table() -> Vec<String> {
    let locks = PAIRS.iter().map(|pair| pair.row);
    let rows: Vec<&str> =
        locks.chain([transactions::ROW, composite::ROW, group::ROW, red::ROW]).chain(synchronizers::ROWS).collect();
    let absent = [transactions::ABSENT, composite::ABSENT, group::ABSENT, red::ABSENT, synchronizers::ABSENT];
    table::print(&rows, &absent.concat())
}

/// Runs cases side by side; the names of those that failed.
async fn run(cases: Vec<(String, &Case)>, world: &Arc<World>) -> Vec<String> {
    let start = |(name, (_, case)): (String, &Case)| {
        let (began, future) = (Instant::now(), case(world.clone()));
        spawn_local(async move {
            let outcome = spawn_local(future).await;
            println!("test {name} ... {} ({:.1?})", if outcome.is_ok() { "ok" } else { "FAILED" }, began.elapsed());
            (name, outcome.is_ok())
        })
    };
    let running: Vec<_> = cases.into_iter().map(start).collect();
    let mut failed = Vec::new();
    for case in running {
        let (name, passed) = case.await.unwrap();
        failed.extend((!passed).then_some(name));
    }
    failed
}

/// What the other processes do. They end when nobody holds their stdin any more.
async fn play(part: &str, args: &[String]) {
    if part == "history" {
        return support::worker::play(&args[1]).await;
    }
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let [url, args @ ..] = args else { panic!("a URL") };
    match part {
        "hold" => crash::hold(url, args).await,
        "queue" => fair::queue(url, args).await,
        "red" => red::hold(url, args).await,
        "soak" => soak::part(url, args).await,
        other => panic!("no part {other}"),
    }
}
