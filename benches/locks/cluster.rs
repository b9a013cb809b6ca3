//! 64 tasks on 64 names: over three primaries, in one slot, and on one server. Beside the same scripts, raw, each by
//! the connection to its server. Calls of many tasks go as one script where their keys have one slot, as on one server:
//! what lockson costs more in one slot of a cluster is its routing.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::prelude::Client;
use futures::future::{join_all, FutureExt};
use lockson::{Builder, Locks, ReentrantLock, Replicas};
use support::cluster::PRIMARIES;
use support::{unique, Cluster, Server};

use crate::floor::{self, Ready};
use crate::table::{interleave_rounds, median, Cell, Figure, Goal, Ratio, Row, Window};
use crate::uncontended::lean;

const TASKS: usize = 64;
const ROUNDS: u32 = 5;

/// Where the names are.
enum Place {
    Server(Server),
    Cluster(Cluster),
}

impl Place {
    fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn servers(&self) -> &[Server] {
        match self {
            Self::Server(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => &cluster.nodes,
        }
    }

    /// By which messages are sent.
    fn publish(&self) -> &'static str {
        match self {
            Self::Server(_) => "PUBLISH",
            Self::Cluster(_) => "SPUBLISH",
        }
    }

    /// A name for each task, as many on each of the primaries, which is the second.
    fn names(&self, beginning: &str) -> Vec<(String, usize)> {
        let name = |task: usize| match self {
            Self::Server(_) => (unique(beginning), 0),
            Self::Cluster(cluster) => (cluster.name_on(task % PRIMARIES, beginning), task % PRIMARIES),
        };
        (0..TASKS).map(name).collect()
    }
}

/// What one task does again and again.
trait Pair: Send + Sync + 'static {
    fn run(&self) -> impl Future<Output = ()> + Send;
}

impl Pair for ReentrantLock {
    async fn run(&self) {
        self.lock().await.expect("held");
        self.unlock().await.expect("given back");
    }
}

struct Raw {
    client: Client,
    acquire: Ready,
    release: Ready,
}

impl Pair for Raw {
    async fn run(&self) {
        self.acquire.send(&self.client).await;
        self.release.send(&self.client).await;
    }
}

/// Lets every task do its pairs while a slice lasts. How many were done.
async fn run_all(slice: Duration, all: &[Arc<impl Pair>]) -> u64 {
    let began = Instant::now();
    let tasks = all.iter().cloned().map(|pair| {
        tokio::spawn(async move {
            let mut count = 0;
            while began.elapsed() < slice {
                pair.run().await;
                count += 1;
            }
            count
        })
    });
    join_all(tasks).await.into_iter().map(|count| count.expect("no task fails")).sum()
}

fn cell(figure: Figure, all: &[Arc<impl Pair>]) -> Cell {
    let all = all.to_vec();
    Box::new(move |slice| {
        let all = all.clone();
        async move {
            let window = Window::open();
            window.figure(figure, run_all(slice, &all).await)
        }
        .boxed()
    })
}

async fn lockson(place: &Place, builder: Builder) -> Vec<Arc<ReentrantLock>> {
    let locks = builder.connect(&place.url()).await.expect("a client");
    place.names("lockson").into_iter().map(|(name, _)| Arc::new(locks.lock(&name))).collect()
}

/// Of names that have one slot.
async fn in_a_slot(place: &Place) -> Vec<Arc<ReentrantLock>> {
    let locks = Locks::builder().connect(&place.url()).await.expect("a client");
    (0..TASKS).map(|_| Arc::new(locks.lock(&format!("{}{{slot}}", unique("lockson"))))).collect()
}

async fn raw(place: &Place) -> Vec<Arc<Raw>> {
    let clients = join_all(place.servers().iter().map(floor::client)).await;
    let pair = |(task, (name, at)): (u32, (String, usize))| {
        let (server, owner) = (&place.servers()[at], floor::owner(task));
        let acquire = Ready::acquire(server, &name, &owner);
        let release = Ready::release_by(server, &name, &owner, place.publish());
        Arc::new(Raw { client: clients[at].clone(), acquire, release })
    };
    (1..).zip(place.names("raw")).map(pair).collect()
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let cluster = Place::Cluster(Cluster::start(0, Duration::from_secs(2)));
    let server = Place::Server(Server::start());
    let (ours, floor) = (lockson(&cluster, Locks::builder()).await, raw(&cluster).await);
    let (ours_on_one, floor_on_one) = (lockson(&server, Locks::builder()).await, raw(&server).await);
    let (in_a_slot, by_lean) = (in_a_slot(&cluster).await, lockson(&cluster, lean()).await);
    let cells = |figure| {
        let [spread, on_one, in_a_slot, by_lean] =
            [&ours, &ours_on_one, &in_a_slot, &by_lean].map(|all| cell(figure, all));
        [spread, cell(figure, &floor), on_one, cell(figure, &floor_on_one), in_a_slot, by_lean]
    };
    let rates = interleave_rounds(ROUNDS, seconds, &cells(Figure::Rate)).await;
    let cpu = interleave_rounds(ROUNDS, seconds, &cells(Figure::Cpu)).await;
    let rate = |cell: usize| format!("{:.0}/s", median(&rates[cell]));
    let micros = |cell: usize| format!("{:.1} us", median(&cpu[cell]));
    let routing: Vec<f64> = (0..ROUNDS as usize).map(|at| cpu[4][at] - cpu[2][at]).collect();
    let mut rows = vec![
        Row::new("64 tasks on 64 names, 3 primaries: lock + unlock", rate(0))
            .beside(format!("the same scripts raw: {}", rate(1)))
            .ratio(Ratio::of(&rates[0], &rates[1])),
        Row::new("the same by lean connections", rate(5)).beside(rate(1)).ratio(Ratio::of(&rates[5], &rates[1])),
        Row::new("the same on one server", rate(2))
            .beside(format!("raw: {}", rate(3)))
            .ratio(Ratio::of(&rates[2], &rates[3])),
        Row::new("3 primaries over one server", rate(0)).beside(rate(2)).ratio(Ratio::of(&rates[0], &rates[2])),
        Row::new("the same in one slot of one primary", rate(4))
            .beside(format!("on one server: {}", rate(2)))
            .ratio(Ratio::of(&rates[4], &rates[2])),
        Row::new("CPU of this process per pair, 3 primaries", micros(0))
            .beside(format!("raw: {}", micros(1)))
            .ratio(Ratio::of(&cpu[0], &cpu[1])),
        Row::new("the same by lean connections", micros(5)).beside(micros(1)).ratio(Ratio::of(&cpu[5], &cpu[1])),
        Row::new("the same on one server", micros(2))
            .beside(format!("raw: {}", micros(3)))
            .ratio(Ratio::of(&cpu[2], &cpu[3])),
        Row::new(
            "routing: CPU per pair in one slot of one primary, beyond that on one server",
            format!("{:.1} us", median(&routing)),
        )
        .beside(micros(4))
        .ratio(Ratio::of(&routing, &cpu[4]))
        .goal(Goal::AtMost(0.05)),
        cost(&cluster, &ours, seconds).await,
    ];
    drop((cluster, server));
    rows.extend(confirmed(seconds).await);
    rows
}

/// What it costs that a replica has to have each grant: `WAIT` behind each acquisition, nothing behind a release.
async fn confirmed(seconds: Duration) -> Vec<Row> {
    let place = Place::Cluster(Cluster::start(1, Duration::from_secs(2)));
    let builder = Locks::builder().confirm(Replicas::All, Duration::from_secs(1));
    let (ours, plain) = (lockson(&place, builder).await, lockson(&place, Locks::builder()).await);
    let cells = |tasks: usize, figure| [cell(figure, &ours[..tasks]), cell(figure, &plain[..tasks])];
    let one = interleave_rounds(ROUNDS, seconds, &cells(1, Figure::Rate)).await;
    let all = interleave_rounds(ROUNDS, seconds, &cells(TASKS, Figure::Rate)).await;
    let cpu = interleave_rounds(ROUNDS, seconds, &cells(TASKS, Figure::Cpu)).await;
    let micros = |cell: usize| format!("{:.0} us", 1e6 / median(&one[cell]));
    let rate = |cell: usize| format!("{:.0}/s", median(&all[cell]));
    let cpu_of = |cell: usize| format!("{:.1} us", median(&cpu[cell]));
    vec![
        Row::new("confirm(All) of one replica, one task: lock + unlock", micros(0))
            .beside(format!("without: {}", micros(1)))
            .ratio(Ratio::of(&one[1], &one[0])),
        Row::new("the same, 64 tasks on 64 names, 3 primaries", rate(0))
            .beside(format!("without: {}", rate(1)))
            .ratio(Ratio::of(&all[0], &all[1])),
        Row::new("CPU of this process per pair, the same", cpu_of(0))
            .beside(format!("without: {}", cpu_of(1)))
            .ratio(Ratio::of(&cpu[0], &cpu[1])),
    ]
}

/// What all servers were asked for each pair.
async fn cost(place: &Place, all: &[Arc<impl Pair>], slice: Duration) -> Row {
    place.servers().iter().for_each(Server::reset_stats);
    let pairs = run_all(slice, all).await as f64;
    // What INFO counts of a script's own commands is in the script's time.
    let (mut scripts, mut micros, mut others) = (0, 0, 0);
    for server in place.servers() {
        for (command, (calls, time)) in server.stats() {
            match command.as_str() {
                "evalsha" => (scripts, micros) = (scripts + calls, micros + time),
                "ping" | "cluster|slots" | "info" => others += calls,
                _ => {}
            }
        }
    }
    Row::new("servers: scripts per pair, all three", format!("{:.3}", scripts as f64 / pairs))
        .beside(format!("{:.1} us; PING, INFO, CLUSTER: {others} in {slice:.0?}", micros as f64 / pairs))
        .ratio(Ratio::single(scripts as f64 / pairs))
        .goal(Goal::Exactly(2.0))
}
