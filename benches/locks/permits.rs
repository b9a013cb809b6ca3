//! Both kinds of semaphore: many tasks that all want one of a few permits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use fred::prelude::Client;
use futures::future::FutureExt;
use lockson::Locks;
use tokio::sync::Semaphore;

use crate::distinct::pace;
use crate::floor::{self, Ready, LEASE};
use crate::room::Room;
use crate::table::{interleave_rounds, median, Cell, Figure, Ratio, Row};
use support::permits::Kind;
use support::{unique, Server};

const ROUNDS: u32 = 5;
const TASKS: usize = 64;
const PERMITS: u32 = 4;
/// No task waits for so long.
const LONG: Duration = Duration::from_secs(60);
/// How long a receipt lives.
const RECEIPT: &str = "60000";

/// Who has a semaphore.
#[derive(Clone)]
enum Contender {
    Lockson(Kind),
    Raw(Arc<Raw>),
}

/// The same scripts, on fred. They find a free permit: who may not have one waits for a semaphore in this process.
struct Raw {
    client: Client,
    line: Semaphore,
    /// By task.
    scripts: Vec<[Ready; 2]>,
    /// Each has a number: a script does what it did before once.
    calls: AtomicU64,
}

impl Raw {
    async fn of(kind: &str, server: &Server, name: &str) -> Self {
        server.control(&["SET", name, &PERMITS.to_string()]);
        let tell = ["PUBLISH", &format!("redisson_sc:{{{name}}}")];
        let (made, expiries) = (format!("lockson:semaphore_life:{{{name}}}"), format!("{{{name}}}:timeout"));
        let pair = |task: usize| {
            let receipt = format!("lockson:receipt:{{{name}}}:{}", floor::owner(task as u32));
            let script = |verb: &str, key: &str, args: &[&str]| {
                Ready::new(server, verb, &[name, key, &receipt], &[&["0", RECEIPT], args].concat())
            };
            if kind == "counted" {
                let give_back = ["1", "same", "none", tell[0], tell[1]];
                [script("semaphore/acquire", &made, &["1"]), script("semaphore/change", &made, &give_back)]
            } else {
                let id = format!("{task:032x}");
                let take = [&format!("{LEASE} {id}"), tell[0], tell[1]];
                let give_back = [&id, "0", tell[0], tell[1]];
                let acquire = script("permit_semaphore/acquire", &expiries, &take);
                [acquire, script("permit_semaphore/release", &expiries, &give_back)]
            }
        };
        let scripts = (0..TASKS).map(pair).collect();
        let line = Semaphore::new(PERMITS as usize);
        Self { client: floor::client(server).await, line, scripts, calls: AtomicU64::new(1) }
    }

    async fn send(&self, script: &Ready) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        script.by(&call.to_string()).send(&self.client).await;
    }
}

impl Contender {
    async fn turn(&self, task: usize, room: &Room) {
        match self {
            Self::Lockson(semaphore) => {
                let guard = semaphore.guard(1, LONG).await.expect("an answer").expect("a permit");
                room.visit(1).await;
                guard.release().await.expect("given back");
            }
            Self::Raw(raw) => {
                let [acquire, release] = &raw.scripts[task];
                let _permit = raw.line.acquire().await.expect("open");
                raw.send(acquire).await;
                room.visit(1).await;
                raw.send(release).await;
            }
        }
    }
}

fn cell(contender: Contender, figure: Figure) -> Cell {
    Box::new(move |length| {
        let contender = contender.clone();
        async move {
            let room = Arc::new(Room::new(u64::from(PERMITS)));
            let task = |task: usize| {
                let (contender, room) = (contender.clone(), room.clone());
                move || {
                    let (contender, room) = (contender.clone(), room.clone());
                    async move { contender.turn(task, &room).await }
                }
            };
            let figure = pace((0..TASKS).map(task).collect(), length, figure).await;
            room.check();
            figure
        }
        .boxed()
    })
}

/// lockson's, and raw.
pub async fn cells(kind: &str, server: &Server, figure: Figure) -> [Cell; 2] {
    let locks = Locks::connect(&server.url()).await.expect("a client");
    let ours = Kind::of(kind, &locks, &unique(kind));
    assert!(ours.set(PERMITS).await, "a fresh name");
    let raw = Raw::of(kind, server, &unique(kind)).await;
    [cell(Contender::Lockson(ours), figure), cell(Contender::Raw(Arc::new(raw)), figure)]
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let mut rows = Vec::new();
    for (kind, what) in [("counted", "semaphore"), ("leased", "semaphore whose permits expire")] {
        let figures = interleave_rounds(ROUNDS, seconds, &cells(kind, &server, Figure::Rate).await).await;
        let said = |cell: usize| format!("{:.0}/s", median(&figures[cell]));
        rows.push(
            Row::new(format!("{what}, {TASKS} tasks, {PERMITS} permits: acquisitions"), said(0))
                .beside(format!("the same scripts raw, behind tokio's Semaphore: {}", said(1)))
                .ratio(Ratio::of(&figures[0], &figures[1])),
        );
    }
    rows
}
