//! What the processes of a fault run said, and what the simulator's oracle says of it.

use std::collections::{BTreeMap, HashMap};

use lockson_simulator::history::{History, Said, What};
use support::worker::LEASE;

/// All that was said.
pub struct Book {
    /// What tasks had.
    pub history: History,
    /// When each task was given something last.
    pub latest: HashMap<usize, u64>,
    pub turns: usize,
    /// How many waited until this round's latch was open.
    pub opened: usize,
    /// What failed, how often.
    pub failed: BTreeMap<String, usize>,
    /// What is kept: the name, and the field of its holder.
    pub kept: BTreeMap<String, String>,
    /// When the holder of a field was told that it lost it, and why.
    pub told: HashMap<String, (u64, String)>,
    pub paused: usize,
}

impl Book {
    pub fn new() -> Self {
        Self {
            history: History::new(LEASE.as_millis() as u64),
            latest: HashMap::new(),
            turns: 0,
            opened: 0,
            failed: BTreeMap::new(),
            kept: BTreeMap::new(),
            told: HashMap::new(),
            paused: 0,
        }
    }

    /// Takes down one line.
    pub fn note(&mut self, line: &str) {
        if line.starts_with('{') {
            return self.note_said(serde_json::from_str(line).unwrap());
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["kept", name, field] => {
                self.kept.insert(name.to_owned(), field.to_owned());
            }
            ["left", name] => {
                self.kept.remove(name);
            }
            ["told", field, at, why] => {
                self.told.insert(field.to_owned(), (at.parse().unwrap(), why.to_owned()));
                self.kept.retain(|_, kept| kept != field);
            }
            ["failed", ..] => *self.failed.entry(line[7..].to_owned()).or_default() += 1,
            ["paused"] => self.paused += 1,
            _ => panic!("not understood: {line}"),
        }
    }

    fn note_said(&mut self, said: Said) {
        match said.what {
            What::Has { .. } => {
                self.latest.insert(said.task, said.at);
                self.turns += 1;
            }
            What::Opened { .. } => self.opened += 1,
            _ => {}
        }
        self.history.note(said);
    }
}
