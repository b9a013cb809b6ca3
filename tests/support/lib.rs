//! What the tests share: servers, faults, chance and reports.

pub mod bounds;
pub mod by;
pub mod certs;
pub mod cluster;
pub mod deployment;
pub mod fault;
pub mod files;
pub mod fleet;
mod hub;
pub mod kinds;
mod link;
pub mod logs;
pub mod permits;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod reply;
pub mod request;
pub mod sentinels;
pub mod server;
pub mod sites;
mod spawner;
pub mod worker;

pub use by::By;
pub use certs::{Certs, Pair};
pub use cluster::Cluster;
pub use deployment::{Deployment, Topology};
pub use fastrand::Rng;
pub use fault::{Fault, Held};
pub use files::root;
pub use kinds::{Kind, KINDS};
pub use logs::Logs;
pub use proxy::Proxy;
pub use raw::{Listener, Raw};
pub use reply::Reply;
pub use request::{Filter, Request};
pub use sentinels::Sentinels;
pub use server::Server;

/// What nearly every suite uses.
pub mod prelude {
    pub use super::{
        begun, eventually, is_full_run, ms, patient, patient_all, report, secs, seed, soak, soak_part, spawn_each,
        spawn_with, unique,
    };
    pub use super::{Fault, Filter, Held, Kind, Listener, Logs, Proxy, Raw, Rng, Server, KINDS};
    pub use crate::assert_matches;
    pub use futures::future::{join, join_all};
    pub use lockson::kind::Reentrant;
    pub use lockson::AcquireOutcome::{Acquired, Busy};
    pub use lockson::{
        AcquireOutcome, Builder, ConnectError, EmbeddedServer, Guard, HoldError, HoldState, LockError, Locks, Lost,
        LostReason, MultiLock, NameError, Owner, QueryError, RLock, RedLock, Refused, Request, RunError, SyncError,
        UnlockError, WaitOutcome,
    };
    pub use std::cell::Cell;
    pub use std::future::{Future, IntoFuture};
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use std::sync::Arc;
    pub use std::time::{Duration, Instant};
    pub use tokio::task::JoinHandle;
    pub use tokio::time::sleep;
}

/// A script as the client sends it: these files of lua/, behind the one that all begin with.
#[macro_export]
macro_rules! lua {
    ($($file:literal),+) => {
        concat!(
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../lua/begin.lua")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../lua/now.lua")),
            $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../lua/", $file, ".lua"))),+
        )
    };
}

/// Fails, and says what was found and where that was, unless it fits.
#[macro_export]
macro_rules! assert_matches {
    ($found:expr, $fits:pat $(if $so:expr)? $(, $place:expr)?) => {
        match $found {
            $fits $(if $so)? => {}
            other => panic!("{:?} {other:?}", ($($place,)?)),
        }
    };
}

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinHandle;

/// By which EVALSHA calls a script.
pub fn sha1(text: &str) -> String {
    sha1_smol::Sha1::from(text).hexdigest()
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A name nobody else uses at this server: `name` with the process and a count.
pub fn unique(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{count}", std::process::id())
}

/// How often a long test repeats: `full` with `LOCKSON_SOAK=1`, otherwise a tenth of it, at least once.
pub fn soak(full: usize) -> usize {
    soak_part(full, 10)
}

/// The same with another part than a tenth, of a test that is long by its rounds and for every kind does them all.
pub fn soak_part(full: usize, part: usize) -> usize {
    match is_full_run() {
        true => full,
        false => (full / part).max(1),
    }
}

/// Whether long tests do all of their rounds. Each has more of the machine to itself then.
pub fn is_full_run() -> bool {
    std::env::var("LOCKSON_SOAK").as_deref() == Ok("1")
}

/// The seed of this run: `LOCKSON_SEED`, or one from the clock.
pub fn seed() -> u64 {
    match std::env::var("LOCKSON_SEED") {
        Ok(text) => text.parse().expect("LOCKSON_SEED is a whole number"),
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64,
    }
}

/// Spawns work on a value that it takes along, such as a handle that it borrows.
pub fn spawn_with<T, F>(value: T, work: impl FnOnce(T) -> F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(work(value))
}

/// Spawns a future that has begun: it stands in its line, and its first call is on its way.
pub async fn begun<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut future = Box::pin(future);
    assert!(futures::poll!(&mut future).is_pending());
    tokio::spawn(future)
}

/// The same on each of these.
pub fn spawn_each<T, F>(values: impl IntoIterator<Item = T>, work: impl FnMut(T) -> F) -> Vec<JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    values.into_iter().map(work).map(tokio::spawn).collect()
}

/// Awaits that a condition comes true; panics with `what` when it has not within `limit` of real time.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, mut check: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    let what = what.to_string();
    async move {
        let start = Instant::now();
        while !check().await {
            let waited = start.elapsed();
            assert!(waited < limit, "not within {limit:?}: {what} (at {caller})");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Awaits what must come soon; panics with `what` after 20 seconds.
#[track_caller]
pub fn patient<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    let what = what.to_string();
    async move {
        match tokio::time::timeout(Duration::from_secs(20), future).await {
            Ok(output) => output,
            Err(_) => panic!("waited in vain: {what} (at {caller})"),
        }
    }
}

/// Awaits these tasks one after the other, each of which must end soon: what they came to.
#[track_caller]
pub fn patient_all<T>(what: &str, tasks: impl IntoIterator<Item = JoinHandle<T>>) -> impl Future<Output = Vec<T>> {
    let waits: Vec<_> = tasks.into_iter().map(|task| patient(what, task)).collect();
    async move {
        let mut all = Vec::new();
        for wait in waits {
            all.push(wait.await.unwrap());
        }
        all
    }
}

/// Prints what a long test did and fails it unless all went well. No seed: no chance was involved.
#[track_caller]
pub fn report(name: &str, done: usize, asked: usize, failures: usize, seed: impl Into<Option<u64>>) {
    let chance = seed.into().map_or("no chance involved".to_owned(), |seed| format!("seed {seed}"));
    println!("{name}: {done}/{asked}, {failures} failures, {chance}");
    assert_eq!(failures, 0, "{name}: failures, {chance}");
    assert_eq!(done, asked, "{name}: not all done, {chance}");
}
