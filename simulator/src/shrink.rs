//! Makes a plan that fails smaller, as long as it fails: first the steps, then kinds, then what each has beside.

use crate::plan::{End, Fault, Kind, Plan, Step, Turn, What};

/// The smallest plan found that still fails, after at most `tries` runs.
pub fn shrink(plan: Plan, mut tries: usize, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut best = plan;

    let mut attempt = |candidate: Plan, best: &mut Plan| {
        if tries == 0 || candidate == *best || candidate.steps.is_empty() {
            return false;
        }
        tries -= 1;
        let failed = fails(&candidate);
        if failed {
            *best = candidate;
        }
        failed
    };
    loop {
        let before = best.clone();
        // Halves, quarters, .. of the steps at once, down to each alone.
        let mut size = best.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < best.steps.len() {
                let mut smaller = best.clone();
                smaller.steps.drain(at..(at + size).min(best.steps.len()));
                if !attempt(smaller, &mut best) {
                    at += size;
                }
            }
            size /= 2;
        }
        for (name, _) in best.kinds() {
            let simple = with_locks(&best, name);
            attempt(simple, &mut best);
        }
        for at in 0..best.steps.len() {
            // Each of what the one before has left.
            let mut number = 0;
            while let Some(step) = simpler(&best.steps[at]).into_iter().nth(number) {
                let mut simple = best.clone();
                simple.steps[at] = step;
                attempt(simple, &mut best);
                number += 1;
            }
        }
        if best == before {
            return best;
        }
    }
}

/// The same plan with locks of the simplest kind under this name: if what is there excludes each other, too.
fn with_locks(plan: &Plan, of: usize) -> Plan {
    let mut simple = plan.clone();
    if plan.kinds().iter().any(|(name, kind)| *name == of && *kind >= Kind::Semaphore) {
        return simple;
    }
    for step in &mut simple.steps {
        match &mut step.what {
            What::Turn(Turn { name, kind, .. }) | What::Fault(Fault::Force { name, kind, .. }) if *name == of => {
                *kind = Kind::Lock;
            }
            _ => {}
        }
    }
    simple
}

/// The same step with less in it.
fn simpler(step: &Step) -> Vec<Step> {
    let mut all = Vec::new();
    let mut add = |step: Step| all.push(step);
    for at in [0, step.at / 2, step.at / 100 * 100] {
        add(Step { at, ..step.clone() });
    }
    match &step.what {
        What::Turn(turn) => {
            let mut turns = vec![
                Turn { entries: 0, ..*turn },
                Turn { patience: None, ..*turn },
                Turn { lease: None, ..*turn },
                Turn { limited: None, ..*turn },
                Turn { end: End::Unlock, ..*turn },
                Turn { work: 0, ..*turn },
                Turn { work: turn.work / 2, ..*turn },
                Turn { wait: turn.wait / 2, ..*turn },
                Turn { entry_patience: 10_000, ..*turn },
            ];
            turns.extend((0..turn.task).map(|task| Turn { task, ..*turn }));
            turns.into_iter().for_each(|turn| add(Step { at: step.at, what: What::Turn(turn) }));
        }
        What::Fault(fault) => {
            simpler_fault(fault).into_iter().for_each(|fault| add(Step { at: step.at, what: What::Fault(fault) }));
        }
    }
    all
}

fn simpler_fault(fault: &Fault) -> Vec<Fault> {
    match fault.clone() {
        Fault::Weather { lasts, lost, unanswered, again, silent, delay } => vec![
            Fault::Weather { lasts, lost: 0, unanswered, again, silent, delay },
            Fault::Weather { lasts, lost, unanswered: 0, again, silent, delay },
            Fault::Weather { lasts, lost, unanswered, again: 0, silent, delay },
            Fault::Weather { lasts, lost, unanswered, again, silent: 0, delay },
            Fault::Weather { lasts, lost, unanswered, again, silent, delay: 0 },
            Fault::Weather { lasts: lasts / 2, lost, unanswered, again, silent, delay },
        ],
        Fault::Calls { client, count, fate } => vec![Fault::Calls { client, count: count / 2, fate }],
        Fault::Slow { client, server, there, back, lasts } => vec![
            Fault::Slow { client, server, there: 0, back, lasts },
            Fault::Slow { client, server, there, back: 0, lasts },
            Fault::Slow { client, server, there: there / 2, back: back / 2, lasts },
            Fault::Slow { client, server, there, back, lasts: lasts / 2 },
        ],
        Fault::Flush { servers } => {
            let without = |server: &usize| servers.iter().copied().filter(|other| other != server).collect();
            servers.iter().map(|server| Fault::Flush { servers: without(server) }).collect()
        }
        Fault::Stop { server, lasts } => vec![Fault::Stop { server, lasts: lasts / 2 }],
        Fault::Pause { client, lasts } => vec![Fault::Pause { client, lasts: lasts / 2 }],
        Fault::Suspend { span } => vec![Fault::Suspend { span: span / 2 }],
        Fault::ClockAhead { server, by } => vec![Fault::ClockAhead { server, by: by / 2 }],
        Fault::ClockBack { server, by } => vec![Fault::ClockBack { server, by: by / 2 }],
        Fault::Rollback { server, age } => vec![Fault::Rollback { server, age: age / 2 }],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{fault, turn, TURN};

    /// What it takes is one turn of each of two names, and a fault.
    #[test]
    fn what_it_does_not_take_is_left_out() {
        let of = |name, kind| turn(50, Turn { task: 2, name, kind, entries: 3, lease: Some(500), ..TURN });
        let kinds = [(0, Kind::Read), (0, Kind::FencedWrite), (1, Kind::Semaphore), (1, Kind::Semaphore)];
        let mut steps: Vec<Step> = kinds.into_iter().map(|(name, kind)| of(name, kind)).collect();
        steps.push(fault(100, Fault::Force { client: 0, name: 0, kind: Kind::Read }));
        let plan = Plan { seed: 1, lease: 3_000, confirmed: None, steps };
        let names = |plan: &Plan| plan.turns().map(|(_, turn)| turn.name).collect::<std::collections::BTreeSet<_>>();
        let small = shrink(plan, 1_000, |plan| names(plan).len() == 2 && plan.faults().count() == 1);
        let left = |name, kind| turn(0, Turn { name, kind, work: 0, wait: 0, ..TURN });
        let force = fault(0, Fault::Force { client: 0, name: 0, kind: Kind::Lock });
        assert_eq!(small.steps, [left(0, Kind::Lock), left(1, Kind::Semaphore), force]);
    }
}
