//! Takes a free lock and gives it back, so often, by one task on one thread: `instructions URL PAIRS [recorder]`. What
//! callgrind shall count goes on in `counted`: before that come as many pairs as have everything set up.

use lockson::{Locks, ReentrantLock};
use tokio::runtime::{Builder, Runtime};

type Failed = Box<dyn std::error::Error>;

/// What they need once comes in the first: a recorder looks for a while how fast the clock is.
const BEFORE: u32 = 300;

/// Keeps what metrics say, as a program does that shows them to Prometheus.
#[cfg(feature = "metrics")]
fn record() -> Result<(), Failed> {
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
    Ok(())
}

#[cfg(not(feature = "metrics"))]
fn record() -> Result<(), Failed> {
    Err("built without the feature `metrics`".into())
}

async fn pairs(lock: &ReentrantLock, pairs: u32) -> Result<(), Failed> {
    for _ in 0..pairs {
        lock.lock().await?;
        lock.unlock().await?;
    }
    Ok(())
}

#[inline(never)]
fn counted(runtime: &Runtime, lock: &ReentrantLock, count: u32) -> Result<(), Failed> {
    runtime.block_on(pairs(lock, count))
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, count, rest @ ..] = &words[..] else { return Err("URL PAIRS [recorder]".into()) };
    if rest == ["recorder"] {
        record()?;
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let lock = runtime.block_on(Locks::connect(url))?.lock("instructions");
    runtime.block_on(pairs(&lock, BEFORE))?;
    counted(&runtime, &lock, count.parse()?)
}
