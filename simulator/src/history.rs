//! A history of real servers: what processes said of what their tasks had, and the simulator's oracle over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::judge::{Damage, Hold, Judge, Seen};
use crate::plan::{Kind, CLIENTS};

/// The tasks of a process are numbered from its own number times this on.
pub const PROCESS: usize = 1_000;
/// A place in a queue may be lost when its process was not heard of for three seconds; each asks once a second.
const SILENT: u64 = 1_500_000_000;

/// One line of a process: when, in nanoseconds of the machine's clock, of which task, and what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub at: u64,
    pub task: usize,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It asks for this from now on.
    Asks { kind: Kind, name: usize },
    /// It was seen in the queue of the fair lock that it asks for.
    Stands,
    /// It was given what it asked for, and that is valid.
    Has { permits: usize, token: Option<u64> },
    /// What it was given is valid still.
    Sure,
    /// It has it no more, or waits no more.
    Leaves,
    /// It begins to count a latch down.
    Counts { name: usize },
    /// It did: so many are left. `None`: the latch was open.
    Counted { name: usize, left: Option<u32> },
    /// A latch that it waited for is open.
    Opened { name: usize },
    /// The process runs.
    Beats,
}

/// What a task had.
struct Was {
    permits: usize,
    token: Option<u64>,
}

impl Seen for Was {
    /// It is looked at only while it was sure to be.
    fn is_valid(&self) -> bool {
        true
    }

    fn permits(&self) -> usize {
        self.permits
    }

    fn token(&self) -> Option<u64> {
        self.token
    }

    /// What was had is judged when it is over.
    fn left(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a task asked for and was given.
#[derive(Debug, Clone, Copy)]
struct Turn {
    task: usize,
    kind: Kind,
    name: usize,
    asked: u64,
    /// When it was first seen in the queue.
    stood: Option<u64>,
    permits: usize,
    token: Option<u64>,
    begin: u64,
    /// When it was last sure to have it.
    end: u64,
}

/// A span of time, in nanoseconds.
type Span = (u64, u64);

/// What is done in a history, in its order: at one moment what ends comes before what begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ends(usize),
    Begins(usize),
    Says(usize),
}

/// All that was said since the last time that it was judged.
pub struct History {
    judge: Judge,
    now: Arc<AtomicU64>,
    said: Vec<Said>,
    /// When places in queues may be lost, by a fault.
    troubles: Vec<Span>,
    lease: u64,
    pub taken: usize,
}

impl History {
    /// The longest lease is of so many milliseconds.
    pub fn new(lease: u64) -> Self {
        let now = Arc::new(AtomicU64::new(0));
        let clock = now.clone();
        let judge = Judge::new(lease, (0..CLIENTS).map(|_| Arc::default()).collect(), move || {
            clock.load(Ordering::Relaxed) / 1_000_000
        });
        Self { judge, now, said: Vec::new(), troubles: Vec::new(), lease, taken: 0 }
    }

    pub fn note(&mut self, said: Said) {
        self.said.push(said);
    }

    pub fn set_permits(&mut self, name: usize, permits: usize) {
        self.judge.set_permits(name, permits);
    }

    pub fn set_latch(&mut self, name: usize, needed: usize) {
        self.judge.set_latch(name, needed);
    }

    /// A fault of the servers or the network. `loses`: what was granted before its end may be lost with it, without a
    /// word to whoever has it.
    pub fn fault(&mut self, (from, until): Span, loses: bool) {
        if loses {
            let [from, until] = [from, until].map(|at| at / 1_000_000);
            self.judge.damages.push(Damage::of_all(from, until));
            self.judge.went_back = true;
        }
        if loses || until - from >= SILENT {
            self.loses_places((from, until));
        }
    }

    /// Another server may not have heard of places in queues: nobody confirms these.
    pub fn loses_places(&mut self, span: Span) {
        self.troubles.push(span);
    }

    /// What is wrong with it. Nobody has anything now, so it is forgotten, but for the tokens.
    pub fn judge(&mut self) -> Vec<String> {
        let mut said = std::mem::take(&mut self.said);
        said.sort_by_key(|said| said.at);
        let turns = turns(&said);
        self.taken += turns.len();
        let ends = turns.iter().enumerate().map(|(number, turn)| (turn.end, Step::Ends(number)));
        let begins = turns.iter().enumerate().map(|(number, turn)| (turn.begin, Step::Begins(number)));
        let says = said.iter().enumerate().map(|(number, said)| (said.at, Step::Says(number)));
        let mut steps: Vec<(u64, Step)> = ends.chain(begins).chain(says).collect();
        steps.sort();
        for (at, step) in steps {
            self.now.store(at, Ordering::Relaxed);
            match step {
                Step::Ends(number) => self.judge.leaves(turns[number].task),
                Step::Begins(number) => self.begins(&turns[number]),
                Step::Says(number) => self.says(&said[number].what),
            }
        }
        let mut wrong = std::mem::take(&mut self.judge.failures);
        // It is found at each look, with the moment of that before it.
        let mut found = BTreeSet::new();
        wrong.retain(|wrong| found.insert(wrong.split_once(": ").map(|(_, what)| what.to_owned())));
        let silences: Vec<_> = silences(&said).collect();
        wrong.extend(overtaken(&turns, &silences, &std::mem::take(&mut self.troubles)));
        self.judge.damages.clear();
        self.judge.went_back = false;
        wrong
    }

    fn begins(&mut self, turn: &Turn) {
        self.judge.enters(Hold {
            task: turn.task,
            kind: turn.kind,
            keys: vec![(turn.name, 0)],
            asked: turn.asked / 1_000_000,
            sent: turn.asked / 1_000_000,
            lease: self.lease,
            is_fixed: false,
            is_renewed: false,
            over: None,
            lost: None,
            is_worked: false,
            held: Arc::new(Was { permits: turn.permits, token: turn.token }),
        });
    }

    fn says(&mut self, what: &What) {
        match what {
            What::Counts { name } => self.judge.counts_down(*name),
            What::Counted { name, left } => self.judge.counted(*name, *left),
            What::Opened { name } => self.judge.opened(*name),
            _ => {}
        }
    }
}

/// Each thing that a task was given. What it was never sure of behind that moment is left out.
fn turns(said: &[Said]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut asked: BTreeMap<usize, Turn> = BTreeMap::new();
    for Said { at, task, what } in said {
        match *what {
            What::Asks { kind, name } => {
                let (task, asked_at) = (*task, *at);
                let turn =
                    Turn { task, kind, name, asked: asked_at, stood: None, permits: 0, token: None, begin: 0, end: 0 };
                turns.extend(asked.insert(task, turn));
            }
            What::Leaves => turns.extend(asked.remove(task)),
            What::Stands | What::Has { .. } | What::Sure => {
                let Some(turn) = asked.get_mut(task) else { continue };
                match *what {
                    What::Has { permits, token } => (turn.begin, turn.permits, turn.token) = (*at, permits, token),
                    What::Sure => turn.end = *at,
                    _ => turn.stood = turn.stood.or(Some(*at)),
                }
            }
            _ => {}
        }
    }
    turns.extend(asked.into_values());
    turns.retain(|turn| turn.begin > 0 && turn.end > turn.begin);
    turns
}

/// The processes that said nothing for long, and when. One that says no more is silent for ever.
fn silences(said: &[Said]) -> impl Iterator<Item = (usize, Span)> {
    let mut last: BTreeMap<usize, u64> = BTreeMap::new();
    let mut silences = Vec::new();
    for Said { at, task, what } in said {
        if *what == What::Beats {
            let process = task / PROCESS;
            silences.extend(last.insert(process, *at).map(|before| (process, (before, *at))));
        }
    }
    silences.extend(last.into_iter().map(|(process, at)| (process, (at, u64::MAX))));
    silences.into_iter().filter(|(_, (from, until))| until - from >= SILENT)
}

/// Who stood in the queue of a fair lock before another asked for it, and had it after that one.
fn overtaken(turns: &[Turn], silences: &[(usize, Span)], troubles: &[Span]) -> Vec<String> {
    let fair = |turn: &&Turn| matches!(turn.kind, Kind::Fair | Kind::FairMutex | Kind::FencedFair);
    let mut wrong = Vec::new();
    for turn in turns.iter().filter(fair) {
        let Some(stood) = turn.stood else { continue };
        let before = |other: &&Turn| other.name == turn.name && other.asked > stood && other.begin < turn.begin;
        for other in turns.iter().filter(fair).filter(before) {
            // A place that is lost then may be missed for as long again.
            let while_it_stood = |(from, until): &Span| *from < other.begin && until.saturating_add(SILENT) > stood;
            let silent = silences.iter().filter(|(process, _)| *process == turn.task / PROCESS).map(|(_, span)| span);
            if !silent.chain(troubles).any(while_it_stood) {
                let (task, name, late) = (turn.task, turn.name, (other.asked - stood) / 1_000);
                wrong.push(format!("task {task} was overtaken by {} on fair lock {name}, {late} us later", other.task));
            }
        }
    }
    wrong
}
