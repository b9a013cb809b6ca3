//! Redisson 4.7.0 and lockson on one server, by a JDK and Maven: without them it passes, and fails where CI is set.

mod composite;
mod crash;
mod fair;
mod hand_over;
mod jar;
mod java;
mod locks;
mod names;
mod peer;
mod read_write;
mod red;
mod soak;
mod synchronizers;
mod table;
mod transactions;

use std::pin::Pin;

use java::{Java, Jvm};
use locks::{leaves_nothing, Pair, LONG, PAIRS, SOON};
use peer::{epoch, Kind, Peer, Side};
use support::prelude::*;
use support::process::{self, Process};
use table::{shown, Absent};
use tokio::task::{spawn_local, JoinSet, LocalSet};

/// What the cases share. Names are from `support::unique`.
pub struct World {
    pub server: Server,
    pub class_path: String,
    pub jvms: [Arc<Jvm>; 2],
    /// The watchdog's lease of those who are to be seen renewing or dying.
    pub short: Duration,
}

impl World {
    fn start() -> Self {
        let began = Instant::now();
        let class_path = java::build();
        println!("Maven: {:.1?}", began.elapsed());
        let jvms = [0, 1].map(|_| Jvm::start(&class_path));
        Self { server: Server::start(), class_path, jvms, short: secs(4) }
    }

    /// A client of Redisson, with its defaults but for what the settings say.
    pub async fn java(&self, settings: &str) -> Java {
        self.jvms[0].client(self.server.port(), settings).await
    }

    pub async fn rust(&self, builder: Builder) -> Locks {
        connect(builder, &self.server.url()).await
    }

    /// Both, so that only messages come in time.
    pub async fn both(&self) -> [Peer; 2] {
        let rust = self.rust(Locks::builder().wait_cap(secs(60))).await;
        [Peer::Java(self.java("").await), Peer::Rust(rust)]
    }

    /// Both with short leases of their watchdogs.
    pub async fn both_short(&self) -> [Peer; 2] {
        let java = self.java(&format!("watchdog={}", self.short.as_millis())).await;
        [Peer::Java(java), Peer::Rust(self.rust(brief(self.short)).await)]
    }
}

/// Of a proxy that delays answers: waits for the so many-th such request, and lets its answer alone be late.
pub async fn late_answer(proxy: &Proxy, count: usize, requests: Filter) {
    proxy.wait_requests(count, requests).await;
    // It is carried out by then, and its answer under way.
    sleep(ms(300)).await;
    proxy.delay_replies(ms(0));
}

/// Some waiter of the name has subscribed.
pub async fn until_listening(server: &Server, name: &str) {
    let pattern = format!("*{name}*");
    let listens = async || !server.raw().await.must(&["PUBSUB", "CHANNELS", &pattern]).await.list().is_empty();
    eventually(SOON, "a waiter subscribes", listens).await;
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

/// Cases of one group run side by side. Those of the first mostly wait for leases; the others measure, or work.
const GROUPS: [&[Case]; 4] = [
    &cases! {
        locks: all_verbs all_renew;
        crash: a_killed_jvm_frees_what_it_held a_killed_rust_process_frees_what_it_held;
        names: prefixes_braces_and_tokens mapped_names hold_counts_of_many_owners;
        transactions: transactions_exclude transactions_end;
        composite: multi_locks_keep_each_other_out multi_locks_of_the_dead_are_free;
        red: red_locks_keep_each_other_out red_locks_of_the_dead_are_free;
        synchronizers:
            semaphores_count_for_both permits_are_the_same_for_both permits_expire_for_both
            permits_are_renewed_for_both permits_of_the_dead_come_back latches_open_for_both;
        hand_over: who_is_about_to_sleep_is_woken;
        fair: acquisitions_of_both_drop_nobody a_silent_waiter_keeps_its_place leases_end_in_the_order_of_the_queue;
        jar: the_weaknesses_are_the_jars;
    },
    // The waiters of the queue do nothing for most of the time.
    &cases! {
        hand_over: messages_come_both_ways;
        fair: waiters_of_both_are_served_in_the_order_of_the_queue;
    },
    &cases! { fair: scores_do_not_drift; read_write: readers_of_both_keep_each_other; },
    &cases! { soak: counters_are_exact_and_nothing_is_left; },
];

fn main() {
    if process::part(async |_, part, args| play(part, args).await) {
        return;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if args.iter().any(|arg| arg == "--list") {
        let names = GROUPS.into_iter().flatten().map(|case| case.0.to_owned());
        return names.chain(jar::names()).for_each(|name| println!("{name}: test"));
    }
    if let Some(what) = java::missing() {
        println!("interop is left out: {what}");
        let ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
        std::process::exit(i32::from(ci));
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |case: &&Case| filters.is_empty() || filters.iter().any(|filter| case.0.contains(filter.as_str()));
    let groups = GROUPS.into_iter().map(|group| group.iter().filter(wanted).collect());
    let groups: Vec<Vec<&Case>> = groups.filter(|group: &Vec<&Case>| !group.is_empty()).collect();
    if groups.is_empty() {
        return;
    }
    let began = Instant::now();
    let world = Arc::new(World::start());
    let local = LocalSet::new();
    let mut failed = Vec::new();
    for group in groups {
        failed.extend(local.block_on(&runtime, run(&group, &world)));
    }
    if filters.is_empty() && failed.is_empty() {
        let locks = locks::PAIRS.iter().map(|pair| pair.row);
        let rows: Vec<&str> =
            locks.chain([transactions::ROW, composite::ROW, red::ROW]).chain(synchronizers::ROWS).collect();
        let absent = [transactions::ABSENT, composite::ABSENT, red::ABSENT, synchronizers::ABSENT];
        failed = table::print(&rows, &absent.concat());
    }
    runtime.shutdown_timeout(secs(1));
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {:.1?}. {failed:?}", began.elapsed());
    std::process::exit(i32::from(!failed.is_empty()));
}

/// Runs cases side by side; the names of those that failed.
async fn run(cases: &[&Case], world: &Arc<World>) -> Vec<String> {
    let start = |(name, case): &Case| {
        let (name, began, future) = (*name, Instant::now(), case(world.clone()));
        spawn_local(async move {
            let outcome = spawn_local(future).await;
            println!("test {name} ... {} ({:.1?})", if outcome.is_ok() { "ok" } else { "FAILED" }, began.elapsed());
            (name.to_owned(), outcome.is_ok())
        })
    };
    let running: Vec<_> = cases.iter().map(|case| start(case)).collect();
    let mut failed = Vec::new();
    for case in running {
        let (name, passed) = case.await.unwrap();
        failed.extend((!passed).then_some(name));
    }
    failed
}

/// What the other processes do. They end when nobody holds their stdin any more.
async fn play(part: &str, args: &[String]) {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let url = format!("redis://127.0.0.1:{}", args[0]);
    match part {
        "hold" => crash::hold(&url, &args[1..]).await,
        "queue" => fair::queue(&url, &args[1..]).await,
        "multi" => composite::hold(&url, &args[1..]).await,
        "red" => red::hold(&url, &args[1..]).await,
        "permit" => synchronizers::permit(&url, &args[1..]).await,
        "soak" => soak::part(&url, &args[1..]).await,
        other => panic!("no part {other}"),
    }
}
