//! The same lock from several processes.

use std::time::Duration;

use crate::child::Child;
use crate::table::{median, Goal, Ratio, Row};
use support::{unique, Server};

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const ROUNDS: u32 = 5;

/// What the processes came to together.
struct Together {
    rate: f64,
    /// Turns within the window, by process.
    turns: Vec<u64>,
}

/// One run, whose counter must be exact over all processes.
async fn together(which: &str, server: &Server, window: Duration) -> Together {
    let counter = server.dir().join(unique("counter"));
    std::fs::write(&counter, [0; 8]).expect("a counter file");
    let (name, tasks, millis) = (unique(which), TASKS.to_string(), window.as_millis().to_string());
    let path = counter.to_str().expect("a path").to_owned();
    let mut children: Vec<Child> =
        (0..PROCESSES).map(|_| Child::start(&["hot", which, &server.url(), &name, &tasks, &millis, &path])).collect();
    for child in &mut children {
        child.numbers().await;
    }
    for child in &mut children {
        child.go().await;
    }
    let mut together = Together { rate: 0.0, turns: Vec::new() };
    let mut all = 0;
    for child in &mut children {
        let numbers = child.numbers().await;
        together.rate += numbers[0] as f64;
        together.turns.push(numbers[3]);
        all += numbers[4];
    }
    let bytes = std::fs::read(&counter).expect("a counter file");
    assert_eq!(bytes, all.to_le_bytes(), "two processes were in at once");
    for child in &mut children {
        child.go().await;
    }
    together
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let (mut ours, mut theirs, mut spreads, mut their_spreads) = (vec![], vec![], vec![], vec![]);
    let mut all_turns = [0; PROCESSES];
    for _ in 0..ROUNDS {
        let run = together("lockson", &server, seconds).await;
        ours.push(run.rate);
        spreads.push(spread(&run.turns));
        all_turns.iter_mut().zip(&run.turns).for_each(|(all, turns)| *all += turns);
        let run = together("rslock", &server, seconds).await;
        theirs.push(run.rate);
        their_spreads.push(spread(&run.turns));
    }
    let turns: Vec<String> = all_turns.iter().map(u64::to_string).collect();
    vec![
        Row::new(format!("{PROCESSES} processes x {TASKS} tasks: acquisitions"), format!("{:.0}/s", median(&ours)))
            .beside(format!("rslock: {:.0}/s", median(&theirs)))
            .ratio(Ratio::of(&ours, &theirs))
            .goal(Goal::AtLeast(10.0)),
        Row::new("busiest process over idlest", format!("turns {}", turns.join(", ")))
            .beside(format!("rslock: {:.2}", median(&their_spreads)))
            .ratio(Ratio::single(median(&spreads)))
            .goal(Goal::AtMost(1.1)),
    ]
}

fn spread(turns: &[u64]) -> f64 {
    let (low, high) = (turns.iter().min(), turns.iter().max());
    high.copied().unwrap_or_default() as f64 / low.copied().unwrap_or_default() as f64
}
