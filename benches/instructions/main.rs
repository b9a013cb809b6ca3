//! Takes a free lock and gives it back, so often, by one task on one thread: `instructions URL PAIRS [recorder]`.

use lockson::Locks;

type Failed = Box<dyn std::error::Error>;

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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, pairs, rest @ ..] = &words[..] else { return Err("URL PAIRS [recorder]".into()) };
    if rest == ["recorder"] {
        record()?;
    }
    let locks = Locks::connect(url).await?;
    let lock = locks.lock("instructions");
    for _ in 0..pairs.parse()? {
        lock.lock().await?;
        lock.unlock().await?;
    }
    Ok(())
}
