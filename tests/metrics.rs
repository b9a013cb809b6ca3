//! What an operator's dashboard gets by the `metrics` facade.

use std::collections::BTreeMap;

use futures::StreamExt;
use lockson::Event;
use metrics::set_default_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use support::prelude::*;

/// What was counted, and how many values of histograms there were, by name and labels.
struct Counted {
    snapshotter: Snapshotter,
    all: BTreeMap<String, f64>,
}

impl Counted {
    fn new(recorder: &DebuggingRecorder) -> Counted {
        Counted { snapshotter: recorder.snapshotter(), all: BTreeMap::new() }
    }

    /// Each snapshot takes with it what it has.
    fn look(&mut self) -> &BTreeMap<String, f64> {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{} {}", key.name(), labels.join(" ")).trim().to_owned();
            let before = self.all.get(&name).copied().unwrap_or_default();
            let now = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(level) => level.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            };
            self.all.insert(name, before + now);
        }
        &self.all
    }

    #[track_caller]
    fn is(&mut self, name: &str, wanted: f64) {
        let all = self.look();
        assert_eq!(all.get(name), Some(&wanted), "{name} of {all:#?}");
    }
}

/// Held, busy, unreachable and refused; what is held and waited for now, and how holds end.
#[tokio::test(start_paused = true)]
async fn acquisitions_and_holds_are_counted() {
    let recorder = DebuggingRecorder::new();
    let (_guard, mut counted) = (set_default_local_recorder(&recorder), Counted::new(&recorder));
    let server = EmbeddedServer::new();
    let locks = server.connect_with(Locks::builder().metrics_class(|name| name.split(':').next().unwrap().to_owned()));
    let locks = locks.unwrap();
    let guard = locks.mutex("orders:1").guard().await.unwrap();
    counted.is("lockson_acquire_seconds kind=mutex outcome=held class=orders", 1.0);
    counted.is("lockson_holds", 1.0);
    let stranger = locks.mutex("orders:1").owned_by(&Owner::unique());
    let waiting = tokio::spawn(async move { stranger.acquire().wait(secs(5)).await });
    sleep(secs(1)).await;
    counted.is("lockson_waiting kind=mutex class=orders", 1.0);
    assert!(!waiting.await.unwrap().unwrap().is_acquired());
    counted.is("lockson_acquire_seconds kind=mutex outcome=busy class=orders", 1.0);
    counted.is("lockson_waiting kind=mutex class=orders", 0.0);
    // Dropped half-way, it does not wait any more, and has no outcome.
    let stranger = locks.mutex("orders:1").owned_by(&Owner::unique());
    assert!(tokio::time::timeout(secs(1), stranger.guard()).await.is_err());
    counted.is("lockson_waiting kind=mutex class=orders", 0.0);
    guard.unlock().await.unwrap();
    counted.is("lockson_hold_seconds ended=released class=orders", 1.0);
    counted.is("lockson_holds", 0.0);
    assert!(locks.lock("orders:2").acquire().lease(ms(1)).await.is_err());
    counted.is("lockson_acquire_seconds kind=lock outcome=refused class=orders", 1.0);
    server.stop();
    assert!(locks.lock("jobs").try_lock().await.is_err());
    counted.is("lockson_acquire_seconds kind=lock outcome=unreachable class=jobs", 1.0);
}

/// A lost hold, its renewals, the gap, and scripts without an answer.
#[tokio::test(start_paused = true)]
async fn losses_are_counted() {
    let recorder = DebuggingRecorder::new();
    let (_guard, mut counted) = (set_default_local_recorder(&recorder), Counted::new(&recorder));
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let mut events = locks.events();
    let guard = locks.lock("cut-off").guard().await.unwrap();
    counted.is("lockson_script_seconds script=reentrant/acquire outcome=answered", 1.0);
    sleep(secs(11)).await;
    counted.is("lockson_renewals_total outcome=answered", 1.0);
    server.stop();
    patient_for(secs(60), guard.lost()).await;
    let lost = patient_for(secs(60), events.next()).await;
    assert!(matches!(lost, Some(Event::Lost { .. })), "{lost:?}");
    counted.is("lockson_events_total event=lost why=deadline", 1.0);
    counted.is("lockson_hold_seconds ended=deadline", 1.0);
    let failed = counted.look().get("lockson_renewals_total outcome=failed").copied();
    assert!(failed >= Some(1.0), "{failed:?}");
    server.start();
    sleep(secs(5)).await;
    counted.is("lockson_events_total event=gap_began why=", 1.0);
    counted.is("lockson_events_total event=gap_ended why=", 1.0);
}

async fn patient_for<F: Future>(limit: Duration, future: F) -> F::Output {
    tokio::time::timeout(limit, future).await.expect("in time")
}

/// A million names are a hundred classes and one for the rest; without a class, names make no series at all.
#[tokio::test(start_paused = true)]
async fn very_many_names_are_few_series() {
    let recorder = DebuggingRecorder::new();
    let (_guard, mut counted) = (set_default_local_recorder(&recorder), Counted::new(&recorder));
    let server = EmbeddedServer::new();
    let classed = server.connect_with(Locks::builder().metrics_class(str::to_owned)).unwrap();
    for number in 0..1_000 {
        assert!(classed.mutex(&format!("name-{number}")).try_lock().await.unwrap().is_acquired());
    }
    let of_acquire = |(name, _): &(&String, &f64)| name.starts_with("lockson_acquire_seconds");
    let series = counted.look().iter().filter(of_acquire).count();
    assert_eq!(series, 101);
    counted.is("lockson_acquire_seconds kind=mutex outcome=held class=other", 900.0);
    let plain = server.connect();
    for number in 0..10 {
        assert!(plain.lock(&format!("plain-{number}")).try_lock().await.unwrap().is_acquired());
    }
    counted.is("lockson_acquire_seconds kind=lock outcome=held", 10.0);
}
