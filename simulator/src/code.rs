//! A plan as the code of a story: what a seed came to stays as data when seeds give something else.

use std::fmt::Debug;

use crate::plan::{Plan, Step, Turn, What, TURN};

/// As it stands in `found.rs`.
pub fn of(plan: &Plan) -> String {
    let steps: Vec<String> = plan.steps.iter().map(step).collect();
    let Plan { seed, lease, confirmed, .. } = plan;
    format!("Plan {{ seed: {seed}, lease: {lease}, confirmed: {confirmed:?}, steps: vec![{}] }}", steps.join(", "))
}

fn step(Step { at, what }: &Step) -> String {
    match what {
        What::Turn(turn) => format!("turn({at}, {})", self::turn(turn)),
        What::Fault(fault) => format!("fault({at}, Fault::{})", format!("{fault:?}").replace("fate: ", "fate: Fate::")),
    }
}

/// With the fields that are not as in any turn.
fn turn(turn: &Turn) -> String {
    let mut text = String::from("Turn { ");
    let mut add = |name: &str, of: &str, value: &dyn Debug, usual: &dyn Debug| {
        let [value, usual] = [value, usual].map(|value| format!("{value:?}"));
        if value != usual {
            text += &format!("{name}: {of}{value}, ");
        }
    };
    add("task", "", &turn.task, &TURN.task);
    add("name", "", &turn.name, &TURN.name);
    add("kind", "Kind::", &turn.kind, &TURN.kind);
    add("wait", "", &turn.wait, &TURN.wait);
    add("patience", "", &turn.patience, &TURN.patience);
    add("lease", "", &turn.lease, &TURN.lease);
    add("work", "", &turn.work, &TURN.work);
    add("entries", "", &turn.entries, &TURN.entries);
    add("entry_patience", "", &turn.entry_patience, &TURN.entry_patience);
    add("limited", "", &turn.limited, &TURN.limited);
    add("end", "End::", &turn.end, &TURN.end);
    text + "..TURN }"
}
