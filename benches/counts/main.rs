//! Takes something free and gives it back, so often, by one task on one thread: `counts URL KIND PAIRS`, with the words
//! `lean` and `recorder` behind it where wanted. What callgrind shall count goes on in `counted`: before that come as
//! many pairs as have everything set up.

use std::future::Future;

use lockson::kind::Kind;
use lockson::{Backoff, Lock, Locks, MultiLock, PermitSemaphore, Semaphore};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

type Failed = Box<dyn std::error::Error>;
type Done = Result<(), Failed>;

/// What they need once comes in the first: a recorder looks for a while how fast the clock is.
const BEFORE: u32 = 300;
const NAME: &str = "counted";

/// Keeps what metrics say, as a program does that shows them to Prometheus.
#[cfg(feature = "metrics")]
fn record() -> Done {
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
    Ok(())
}

#[cfg(not(feature = "metrics"))]
fn record() -> Done {
    Err("built without the feature `metrics`".into())
}

#[inline(never)]
fn counted(runtime: &Runtime, pairs: impl Future<Output = Done>) -> Done {
    runtime.block_on(pairs)
}

/// The pairs before, and those that count.
fn run<F: Future<Output = Done>>(runtime: &Runtime, count: u32, pairs: impl Fn(u32) -> F) -> Done {
    runtime.block_on(pairs(BEFORE))?;
    counted(runtime, pairs(count))
}

async fn locked<K: Kind>(lock: &Lock<K>, pairs: u32) -> Done {
    for _ in 0..pairs {
        lock.lock().await?;
        lock.unlock().await?;
    }
    Ok(())
}

async fn all_locked(multi: &MultiLock, pairs: u32) -> Done {
    for _ in 0..pairs {
        multi.lock().await?;
        multi.unlock().await?;
    }
    Ok(())
}

/// So many tasks at once.
const TASKS: u32 = 64;
/// A task's lock.
type Taken<K> = fn(&Locks, u32) -> Lock<K>;

async fn many_locked<K: Kind>((locks, lock): &(Locks, Taken<K>), pairs: u32) -> Done {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let lock = lock(locks, task);
        tasks.spawn(async move { locked(&lock, pairs / TASKS).await.map_err(|error| error.to_string()) });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn counted_out(semaphore: &Semaphore, pairs: u32) -> Done {
    semaphore.try_set_permits(2).await?;
    for _ in 0..pairs {
        semaphore.guard(1).await?.release().await?;
    }
    Ok(())
}

async fn leased_out(semaphore: &PermitSemaphore, pairs: u32) -> Done {
    semaphore.set_permits(2).await?;
    for _ in 0..pairs {
        semaphore.guard(1).await?.release().await?;
    }
    Ok(())
}

fn main() -> Done {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, kind, count, rest @ ..] = &words[..] else { return Err("URL KIND PAIRS [lean] [recorder]".into()) };
    let is_there = |word: &str| rest.iter().any(|given| given == word);
    if is_there("recorder") {
        record()?;
    }
    let (runtime, count) = (Builder::new_current_thread().enable_all().build()?, count.parse()?);
    let locks = runtime.block_on(Locks::builder().lean_connections(is_there("lean")).connect(url))?;
    let (both, in_a_slot) = (locks.read_write_lock(NAME), ["{a}1", "{a}2", "{a}3"].map(|name| locks.lock(name)));
    macro_rules! run {
        ($pairs:ident($of:expr)) => {{
            let of = $of;
            run(&runtime, count, |pairs| $pairs(&of, pairs))
        }};
    }
    match kind.as_str() {
        "lock" => run!(locked(locks.lock(NAME))),
        "mutex" => run!(locked(locks.mutex(NAME))),
        "spin" => run!(locked(locks.spin_lock(NAME, Backoff::default()))),
        "fenced" => run!(locked(locks.fenced_lock(NAME))),
        "plain" => run!(locked(locks.plain_lock(NAME))),
        "fair" => run!(locked(locks.fair_lock(NAME))),
        "read" => run!(locked(both.read())),
        "write" => run!(locked(both.write())),
        "hot" => run!(many_locked((locks.clone(), (|locks, _| locks.lock(NAME)) as Taken<_>))),
        "queue" => run!(many_locked((locks.clone(), (|locks, _| locks.fair_lock(NAME)) as Taken<_>))),
        "distinct" => {
            run!(many_locked((locks.clone(), (|locks, task| locks.lock(&format!("{NAME}{task}"))) as Taken<_>)))
        }
        "multi" => run!(all_locked(MultiLock::new(in_a_slot))),
        "semaphore" => run!(counted_out(locks.semaphore(NAME))),
        "permits" => run!(leased_out(locks.permit_semaphore(NAME))),
        other => Err(format!("no kind {other}").into()),
    }
}
