//! Plans that failed once, as they were when they were small, each with what was wrong. They are played first.

use lockson::EmbeddedServer;

use crate::plan::{Fate, Fault, Plan, Step, Turn, What, TURN};
use crate::play::play;

fn turn(at: u64, turn: Turn) -> Step {
    Step { at, what: What::Turn(turn) }
}

fn fault(at: u64, fault: Fault) -> Step {
    Step { at, what: What::Fault(fault) }
}

fn all() -> Vec<(&'static str, Plan)> {
    let in_doubt = (0..4).map(|entry| Turn { task: 0, entries: 2, entry_patience: 10 + entry * 150, ..TURN });
    let mut steps: Vec<Step> = in_doubt.map(|again| turn(0, again)).collect();
    steps.extend((1..4).map(|task| turn(50, Turn { task, ..TURN })));
    let lost = [Fate::Unanswered, Fate::Late(300, 300), Fate::Unanswered];
    steps.extend((0..).zip(lost).map(|(at, fate)| fault(at * 400, Fault::Calls { client: 0, count: 3, fate })));
    vec![(
        "a give-back without an answer left the server's count above the registry's, and the next release took that \
         for somebody else's writing",
        Plan { seed: 1, lease: 3_000, steps },
    )]
}

/// Whether all of them are well now.
pub fn hold(servers: &[EmbeddedServer]) -> bool {
    let mut well = true;
    for (story, plan) in all() {
        let failures = play(&plan, servers, false).failures;
        if !failures.is_empty() {
            println!("{story}: {failures:#?}");
            well = false;
        }
    }
    well
}
