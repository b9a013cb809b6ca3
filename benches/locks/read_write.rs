//! One name that all tasks read or write, in their mix.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use fred::prelude::Client;
use futures::future::FutureExt;
use lockson::kind::Kind;
use lockson::{Lock, Locks, ReadWriteLock};
use rslock::LockManager;
use tokio::sync::RwLock;

use crate::distinct::pace;
use crate::floor::{self, Ready, LEASE};
use crate::hot::rslock_manager;
use crate::room::Room;
use crate::table::{interleave_rounds, median, Cell, Figure, Ratio, Row};
use support::{unique, Server};

const ROUNDS: u32 = 5;
const TASKS: u64 = 64;
/// One of so many turns of a task is a write.
const MIXES: [u64; 2] = [20, 2];

/// Who has a name to read and write.
#[derive(Clone)]
enum Contender {
    Lockson(ReadWriteLock),
    /// Its only lock is exclusive.
    Rslock(LockManager, String),
    Raw(Arc<Raw>),
}

/// The same scripts, on fred. They find the lock free: who may not come in waits for the lock in this process.
struct Raw {
    client: Client,
    line: RwLock<()>,
    /// By task: to read, and to write.
    read: Vec<[Ready; 2]>,
    write: Vec<[Ready; 2]>,
}

impl Raw {
    async fn of(server: &Server, name: &str) -> Self {
        let [writers, turn, absent] =
            ["writers", "readers_turn", "absent"].map(|what| format!("lockson:{what}:{{{name}}}"));
        let channel = format!("redisson_rwlock:{{{name}}}");
        let all = [name, &writers, &turn, &absent];
        let pair = |task: u64| {
            let owner = floor::owner(task as u32);
            let writer = format!("{owner}:write");
            let acquire = Ready::new(server, "read/acquire", &all, &[&owner, LEASE, "0", &writer]);
            let release =
                Ready::new(server, "read/release", &[name, &absent], &[&owner, LEASE, "1", "PUBLISH", &channel]);
            let take = Ready::new(server, "write/acquire", &[name, &writers, &absent], &[&writer, LEASE, "0", "0"]);
            let give_back = Ready::new(server, "write/release", &all, &[&writer, LEASE, "1", "PUBLISH", &channel]);
            ([acquire, release], [take, give_back])
        };
        let (read, write) = (0..TASKS).map(pair).unzip();
        Self { client: floor::client(server).await, line: RwLock::new(()), read, write }
    }

    async fn turn(&self, [acquire, release]: &[Ready; 2], stay: impl Future<Output = ()>) {
        acquire.send(&self.client).await;
        stay.await;
        release.send(&self.client).await;
    }
}

async fn turn<K: Kind>(lock: Lock<K>, stay: impl Future<Output = ()>) {
    lock.lock().await.expect("held");
    stay.await;
    lock.unlock().await.expect("given back");
}

impl Contender {
    async fn turn(&self, task: usize, writes: bool, room: &Room) {
        let stay = room.visit(if writes { TASKS } else { 1 });
        match self {
            Self::Lockson(lock) if writes => turn(lock.write(), stay).await,
            Self::Lockson(lock) => turn(lock.read(), stay).await,
            Self::Rslock(manager, name) => {
                let lock = manager.acquire_no_guard(name.as_str(), Duration::from_secs(30)).await.expect("held");
                stay.await;
                manager.unlock(&lock).await;
            }
            Self::Raw(raw) if writes => {
                let _alone = raw.line.write().await;
                raw.turn(&raw.write[task], stay).await;
            }
            Self::Raw(raw) => {
                let _among_readers = raw.line.read().await;
                raw.turn(&raw.read[task], stay).await;
            }
        }
    }
}

fn cell(contender: Contender, mix: u64, figure: Figure) -> Cell {
    Box::new(move |length| {
        let contender = contender.clone();
        async move {
            let room = Arc::new(Room::new(TASKS));
            let task = |task: u64| {
                let (contender, room) = (contender.clone(), room.clone());
                // Not all write at the same turn.
                let turns = AtomicU64::new(task);
                move || {
                    let (contender, room) = (contender.clone(), room.clone());
                    let writes = turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(mix);
                    async move { contender.turn(task as usize, writes, &room).await }
                }
            };
            let figure = pace((0..TASKS).map(task).collect(), length, figure).await;
            room.check();
            figure
        }
        .boxed()
    })
}

pub async fn lockson(server: &Server, mix: u64, figure: Figure) -> Cell {
    let locks = Locks::connect(&server.url()).await.expect("a client");
    cell(Contender::Lockson(locks.read_write_lock(&unique("read-write"))), mix, figure)
}

pub async fn raw(server: &Server, mix: u64, figure: Figure) -> Cell {
    cell(Contender::Raw(Arc::new(Raw::of(server, &unique("read-write")).await)), mix, figure)
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let mut rows = Vec::new();
    for mix in MIXES {
        let rslock = Contender::Rslock(rslock_manager(&server.url()), unique("read-write"));
        let cells = [
            lockson(&server, mix, Figure::Rate).await,
            cell(rslock, mix, Figure::Rate),
            raw(&server, mix, Figure::Rate).await,
        ];
        let figures = interleave_rounds(ROUNDS, seconds, &cells).await;
        let said = |cell: usize| format!("{:.0}/s", median(&figures[cell]));
        let row = |what: String, name: &str, theirs: usize| {
            Row::new(what, said(0))
                .beside(format!("{name}: {}", said(theirs)))
                .ratio(Ratio::of(&figures[0], &figures[theirs]))
        };
        let writes = 100 / mix;
        rows.push(row(
            format!("one name, {TASKS} tasks, {writes} % writes: acquisitions"),
            "rslock, where a reader is alone too",
            1,
        ));
        rows.push(row(format!("the same, {writes} % writes"), "the same scripts raw, behind tokio's RwLock", 2));
    }
    rows
}
