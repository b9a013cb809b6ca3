//! Makes a plan that fails smaller, as long as it fails: first the steps, then what each of them has beside.

use crate::plan::{End, Fault, Plan, Step, Turn, What};

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
        for at in 0..best.steps.len() {
            for step in simpler(&best.steps[at]) {
                let mut simple = best.clone();
                simple.steps[at] = step;
                attempt(simple, &mut best);
            }
        }
        if best == before {
            return best;
        }
    }
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
