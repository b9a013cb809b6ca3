//! Plans that failed once, as they were when they were small, each with what was wrong. They are played first.

use lockson::EmbeddedServer;

use crate::found;
use crate::plan::{fault, turn, Fate, Fault, Kind, Plan, Step, Turn, TURN};
use crate::play::play;

fn all() -> Vec<(&'static str, Plan)> {
    let in_doubt = (0..4).map(|entry| Turn { task: 0, entries: 2, entry_patience: 10 + entry * 150, ..TURN });
    let mut steps: Vec<Step> = in_doubt.map(|again| turn(0, again)).collect();
    steps.extend((1..4).map(|task| turn(50, Turn { task, ..TURN })));
    let lost = [Fate::Unanswered, Fate::Late(300, 300), Fate::Unanswered];
    steps.extend((0..).zip(lost).map(|(at, fate)| fault(at * 400, Fault::Calls { client: 0, count: 3, fate })));
    let waiter = Turn { task: 1, kind: Kind::PermitSemaphore, wait: 2_163, patience: Some(151), work: 37, ..TURN };
    let refused = vec![
        turn(779, waiter),
        fault(700, Fault::Deny { server: 0, command: "zrem", lasts: 1_286 }),
        fault(700, Fault::Calls { client: 1, count: 1, fate: Fate::Unanswered }),
    ];
    let red = Turn { kind: Kind::Red, ..TURN };
    let spin = Turn { name: 1, kind: Kind::Spin, ..TURN };
    let dropped = vec![
        turn(758, Turn { wait: 2_553, work: 554, ..spin }),
        turn(758, Turn { wait: 2_187, work: 36, entries: 2, ..red }),
        turn(85, Turn { task: 1, wait: 2_890, work: 9, entries: 1, ..red }),
        turn(499, Turn { task: 1, wait: 3_617, patience: Some(126), work: 392, ..red }),
        turn(714, Turn { task: 2, wait: 3_425, patience: Some(371), work: 544, ..spin }),
        fault(1_000, Fault::Suspend { span: 3_182 }),
        fault(0, Fault::Calls { client: 1, count: 4, fate: Fate::Late(209, 536) }),
    ];
    vec![
        (
            "a give-back that was tried again was dropped half-way, and a copy of it ended the owner's next hold",
            Plan { seed: 596_131, lease: 3_000, confirmed: None, steps: dropped },
        ),
        (
            "a give-back without an answer left the server's count above the registry's, and the next release took \
             that for somebody else's writing",
            Plan { seed: 1, lease: 3_000, confirmed: None, steps },
        ),
        (
            "what undoes a call in doubt was refused for want of a right, and not tried again: the permits that it had \
             taken were nobody's for their lease",
            Plan { seed: 586_722, lease: 300_000, confirmed: None, steps: refused },
        ),
    ]
}

/// Whether all of them are well now.
pub fn hold(servers: &[EmbeddedServer]) -> bool {
    let mut well = true;
    for (story, plan) in all().into_iter().chain(found::all()) {
        let failures = play(&plan, servers, false).failures;
        if !failures.is_empty() {
            println!("{story}: {failures:#?}");
            well = false;
        }
    }
    well
}
