//! The oracle finds what is wrong with a history, lets pass what a fault may break, and nothing else.

use lockson_simulator::history::{History, Said, What, PROCESS};
use lockson_simulator::plan::Kind;

use What::{Asks, Beats, Counted, Counts, Has, Leaves, Opened, Stands, Sure};

const SECOND: u64 = 1_000_000_000;

/// One turn: of whom, what, asked for at, with how many permits and which token, from, and until.
type Turn = (usize, Kind, u64, usize, Option<u64>, u64, u64);

/// What is wrong with turns at one name, whose numbers are milliseconds; who stood in a queue did so at once.
fn wrong(turns: &[Turn], change: impl FnOnce(&mut History)) -> Vec<String> {
    let mut history = History::new(6_000);
    history.set_permits(0, 2);
    let mut say = |at: u64, task, what| history.note(Said { at: at * 1_000_000 + 10 * SECOND, task, what });
    (0..200).for_each(|beat| say(beat * 250, 0, Beats));
    for (task, kind, asked, permits, token, begin, end) in turns.iter().copied() {
        say(asked, task, Asks { kind, name: 0 });
        say(asked + 1, task, Stands);
        say(begin, task, Has { permits, token });
        say(end, task, Sure);
        say(end, task, Leaves);
    }
    change(&mut history);
    history.judge()
}

/// What is wrong says this, and is nothing where that is empty.
#[track_caller]
fn says(wrong: &[String], what: &str) {
    match what {
        "" => assert!(wrong.is_empty(), "{wrong:?}"),
        what => assert!(wrong.len() == 1 && wrong[0].contains(what), "{what}: {wrong:?}"),
    }
}

fn nothing(_: &mut History) {}

#[test]
fn two_that_exclude_each_other() {
    let two = |one, other, from| [(1, one, 0, 0, None, 10, 20), (2, other, 5, 0, None, from, 40)];
    says(&wrong(&two(Kind::Lock, Kind::Lock, 20), nothing), "");
    says(&wrong(&two(Kind::Lock, Kind::Lock, 19), nothing), "tasks 1 and 2 are both inside");
    says(&wrong(&two(Kind::Read, Kind::FencedWrite, 15), nothing), "both inside");
    says(&wrong(&two(Kind::Read, Kind::Read, 15), nothing), "");
    // The first lasts behind the second.
    let nested = [(1, Kind::Plain, 0, 0, None, 10, 90), (2, Kind::Plain, 0, 0, None, 20, 30)];
    says(&wrong(&nested, nothing), "both inside");
}

#[test]
fn what_a_fault_loses_may_be_doubled_until_its_lease_is_over() {
    let span = (10 * SECOND, 11 * SECOND);
    let doubled = |at| [(1, Kind::Lock, 0, 0, None, 10, at + 20), (2, Kind::Lock, 5, 0, None, at, at + 40)];
    says(&wrong(&doubled(5_000), |history| history.fault(span, true)), "");
    says(&wrong(&doubled(5_000), |history| history.fault(span, false)), "both inside");
    // A second, the lease, and a timeout.
    says(&wrong(&doubled(7_370), |history| history.fault(span, true)), "");
    says(&wrong(&doubled(7_410), |history| history.fault(span, true)), "both inside");
    // Asked for when the fault was over.
    let later = [(1, Kind::Lock, 1_100, 0, None, 1_110, 1_200), (2, Kind::Lock, 1_100, 0, None, 1_150, 1_300)];
    says(&wrong(&later, |history| history.fault(span, true)), "both inside");
}

#[test]
fn tokens_that_fall() {
    let two = |token| [(1, Kind::Fenced, 0, 0, Some(7), 10, 20), (2, Kind::Fenced, 5, 0, Some(token), 30, 40)];
    says(&wrong(&two(8), nothing), "");
    says(&wrong(&two(7), nothing), "task 2 has token 7, after 7");
    says(&wrong(&two(6), nothing), "task 2 has token 6, after 7");
}

#[test]
fn a_permit_too_many() {
    let three = |kind, permits| [(1, kind, 0, 1, None, 10, 90), (2, kind, 0, permits, None, 20, 30)];
    for kind in [Kind::Semaphore, Kind::PermitSemaphore] {
        says(&wrong(&three(kind, 1), nothing), "");
        says(&wrong(&three(kind, 2), nothing), "3 permits of 2");
    }
}

#[test]
fn a_waiter_that_is_overtaken() {
    let two = |asked| [(1, Kind::Fair, 0, 0, None, 4_000, 4_010), (2, Kind::Fair, asked, 0, None, 30, 40)];
    says(&wrong(&two(1), nothing), "");
    says(&wrong(&two(2), nothing), "task 1 was overtaken by 2 on fair lock 0");
    // A fault that lasts longer than a waiter may be silent, and one that does not.
    let fault = |lasts| move |history: &mut History| history.fault((10 * SECOND, 10 * SECOND + lasts), false);
    says(&wrong(&two(2), fault(2 * SECOND)), "");
    says(&wrong(&two(2), fault(SECOND)), "overtaken");
    // Its process stood still meanwhile, or the other's.
    let stopped = |process: usize| {
        let mut turns = two(2);
        turns[0].0 += PROCESS;
        let beat = move |at| Said { at: 10 * SECOND + at, task: process * PROCESS, what: Beats };
        wrong(&turns, move |history| {
            history.note(beat(0));
            history.note(beat(2 * SECOND));
        })
    };
    says(&stopped(1), "");
    says(&stopped(2), "overtaken");
}

#[test]
fn latches_that_open_too_early() {
    let latch = |lines: &[What]| {
        let mut history = History::new(6_000);
        history.set_latch(0, 2);
        let lines = (1..).zip(lines).map(|(at, what)| Said { at, task: 0, what: what.clone() });
        lines.for_each(|said| history.note(said));
        history.judge()
    };
    let (counts, counted) = (Counts { name: 0 }, |left| Counted { name: 0, left });
    let [one, two] = [counted(Some(1)), counted(Some(0))];
    let all = [counts.clone(), one.clone(), counts.clone(), two.clone(), Opened { name: 0 }];
    says(&latch(&all), "");
    says(&latch(&[counts.clone(), one.clone(), Opened { name: 0 }]), "opened after 1 of 2");
    says(&latch(&[counts.clone(), counted(None)]), "was open after 1 of 2");
    says(&latch(&[&all[..4], &[counts, one]].concat()), "counted 3 down from 2");
}
