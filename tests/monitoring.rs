//! The alerts and the dashboard of docs/monitoring: each query, and each series that an alert is about, is
//! found in a Prometheus that scrapes a client.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use metrics::set_default_local_recorder;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::Value;
use support::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Where `prometheus` and `promtool` are. `None`: nowhere, which is an error where all has to be tested.
fn programs() -> Option<PathBuf> {
    if let Ok(place) = std::env::var("LOCKSON_PROMETHEUS") {
        return Some(place.into());
    }
    let is_ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
    assert!(!is_ci, "LOCKSON_PROMETHEUS is not set: run the tests by scripts/test, which gets Prometheus");
    // Not by a macro: those are captured.
    std::io::stderr().write_all(b"left out: Prometheus. Run the tests by scripts/test with CI=true\n").unwrap();
    None
}

/// Renewed each third of it.
const LEASE: Duration = secs(2);

fn file(name: &str) -> PathBuf {
    support::root().join("docs/monitoring").join(name)
}

/// A Prometheus of its own, which ends with the test.
struct Prometheus {
    port: u16,
    _program: Child,
}

impl Prometheus {
    /// Looks at the exporter on this port five times a second.
    fn start(programs: &Path, place: &Path, exporter: u16) -> Prometheus {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let config = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
             scrape_configs: [{{job_name: shop, static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]}}]\n"
        );
        std::fs::write(place.join("prometheus.yml"), config).unwrap();
        // It ends when nobody holds its input any more.
        let script = "\"$0\" --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:$1 \
                      2>log & read -r _; kill $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(programs.join("prometheus")).arg(port.to_string());
        let program = command.current_dir(place).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Prometheus { port, _program: program }
    }

    /// What the query finds: values, or why there are none.
    async fn ask(&self, query: &str) -> Result<Vec<f64>, String> {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.map_err(|error| error.to_string())?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(|error| error.to_string())?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no body")?;
        let body: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        let found = body["data"]["result"].as_array().ok_or_else(|| body.to_string())?;
        let values = found.iter().filter_map(|series| series["value"][1].as_str()?.parse().ok());
        Ok(values.filter(|value: &f64| value.is_finite()).collect())
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// What Prometheus scrapes, until the test ends.
async fn exported(handle: PrometheusHandle) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).await;
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            let _ = stream.write_all(format!("{head}{}", handle.render()).as_bytes()).await;
        }
    });
    port
}

/// All that a service may see on a bad day: contention, a forced hold, an outage in which one is lost and calls fail.
async fn bad_day(server: &EmbeddedServer, locks: &Locks) {
    let hot = locks.lock("hot");
    join_all((0..8).map(|_| {
        let task = hot.owned_by(&Owner::unique());
        async move {
            for _ in 0..10 {
                task.guard().await.unwrap().unlock().await.unwrap();
            }
        }
    }))
    .await;
    let forced = locks.lock("forced").guard().await.unwrap();
    assert!(locks.lock("forced").force_unlock().await.unwrap());
    forced.lost().await;
    let lost = locks.lock("lost").guard().await.unwrap();
    sleep(LEASE).await;
    server.stop();
    assert!(locks.lock("away").try_lock().await.is_err());
    patient("it is lost", lost.lost()).await;
    server.start();
    eventually(secs(20), "it answers again", async || locks.lock("back").try_lock().await.is_ok()).await;
}

/// What the alerts look at: names with what they ask of the labels.
fn looked_at() -> BTreeSet<String> {
    let text = std::fs::read_to_string(file("alerts.yml")).unwrap();
    let text: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    let names = text.match_indices("lockson_").map(|(at, _)| {
        let rest = &text[at..];
        let name = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap();
        let labels = if rest[name..].starts_with('{') { rest[name..].find('}').unwrap() + 1 } else { 0 };
        rest[..name + labels].to_owned()
    });
    names.collect()
}

/// Every query of the dashboard, as Grafana sends them.
fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(file("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "1m").replace("$job", "shop"))
        .collect()
}

#[tokio::test]
async fn each_panel_shows_something() {
    let Some(programs) = programs() else { return };
    let recorder = PrometheusBuilder::new().set_buckets(&[0.001, 0.01, 0.1, 1.0, 10.0]).unwrap().build_recorder();
    let _recorded = set_default_local_recorder(&recorder);
    let place = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(&programs, place.path(), exported(recorder.handle()).await);
    let server = EmbeddedServer::new();
    let settings = Locks::builder().watchdog_lease(LEASE).command_timeout(ms(300)).outage_limit(secs(2));
    let locks = server.connect_with(settings).unwrap();
    bad_day(&server, &locks).await;
    let (asked, alerts) = (queries(), looked_at());
    assert!(asked.len() >= 15 && alerts.len() >= 8, "{asked:#?} {alerts:#?}");
    for query in asked.into_iter().chain(alerts) {
        let shown = async || {
            // A rate is of two looks, between which something happened.
            locks.lock("again").guard().await.unwrap().unlock().await.unwrap();
            prometheus.ask(&query).await.is_ok_and(|values| !values.is_empty())
        };
        eventually(secs(20), &query, shown).await;
    }
    let told = prometheus.ask("lockson_events_total{event=\"lost\", why=\"deadline\"}").await;
    assert_eq!(told, Ok(vec![1.0]));
}

#[test]
fn the_alerts_fire_when_they_should() {
    let Some(programs) = programs() else { return };
    for (what, name) in [("check", "alerts.yml"), ("test", "alerts.test.yml")] {
        let mut tool = std::process::Command::new(programs.join("promtool"));
        let said = tool.args([what, "rules"]).arg(file(name)).output().unwrap();
        assert!(
            said.status.success(),
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        );
    }
}
