//! The slowest single call of each script, among the worst that it can meet, as the server's SLOWLOG has it: rule 12 of
//! docs/PROTOCOL.md.

use std::collections::BTreeMap;

use crate::table::{median, Goal, Ratio, Row};
use support::bounds::{Bound, BOUNDS, CALLS, FAIR_BOUNDS};
use support::{Raw, Server};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const RUNS: usize = 5;
/// Milliseconds that no call may take.
const LIMIT: f64 = 2.0;

/// Builds it and calls the script: milliseconds of the slowest of the calls.
async fn slowest(raw: &mut Raw, bound: &Bound, text: &str, size: usize) -> f64 {
    raw.must(&["FLUSHALL"]).await;
    raw.must(&["EVAL", &bound.build(), "0", &size.to_string()]).await;
    let sha = raw.must(&["SCRIPT", "LOAD", text]).await.text();
    let keys = bound.keys();
    raw.must(&["SLOWLOG", "RESET"]).await;
    for call in 0..CALLS {
        let count = keys.len().to_string();
        let head = ["EVALSHA", &sha, &count];
        let args = bound.args(call);
        let words: Vec<&str> = head.into_iter().chain(keys.iter().chain(&args).map(String::as_str)).collect();
        raw.must(&words).await;
    }
    let log = raw.must(&["SLOWLOG", "GET", "-1"]).await.list();
    let calls = log.iter().filter(|entry| entry.list()[3].texts().first().is_some_and(|name| name == "EVALSHA"));
    calls.map(|entry| entry.list()[2].int() as f64 / 1000.0).fold(0.0, f64::max)
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let server = Server::with(&[("slowlog-log-slower-than", "0"), ("slowlog-max-len", "1000")]);
    let mut raw = server.raw().await;
    let (mut rows, mut scripts) = (Vec::new(), BTreeMap::<&str, f64>::new());
    for bound in BOUNDS.iter().chain(&FAIR_BOUNDS) {
        let text = bound.text();
        let mut medians = Vec::new();
        for size in SIZES {
            let mut times = Vec::new();
            for _ in 0..RUNS {
                times.push(slowest(&mut raw, bound, &text, size).await);
            }
            medians.push(median(&times));
        }
        let worst = medians.iter().copied().fold(0.0, f64::max);
        let said: Vec<String> = medians.iter().map(|ms| format!("{ms:.2}")).collect();
        let row =
            Row::new(format!("{}, {}: ms", bound.script, bound.what), said.join(", ")).ratio(Ratio::single(worst));
        rows.push(match bound.exception {
            Some(why) => row.beside(format!("excepted: {why}")),
            None => {
                let slowest = scripts.entry(bound.script).or_default();
                *slowest = slowest.max(worst);
                row.goal(Goal::AtMost(LIMIT))
            }
        });
    }
    let above: Vec<String> =
        scripts.iter().filter(|(_, ms)| **ms > LIMIT).map(|(script, ms)| format!("{script} {ms:.1}")).collect();
    let said = if above.is_empty() { "none".to_owned() } else { above.join(", ") };
    rows.push(Row::new(format!("scripts above {LIMIT} ms, of {} that meet something big", scripts.len()), said));
    rows
}
