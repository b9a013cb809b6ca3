//! What the processes of a fault run said, and whether two ever had one lock at one instant.

use std::collections::{BTreeMap, HashMap};

/// A span of time in which a task was sure to have a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    begin: u64,
    end: u64,
    task: String,
}

/// All that was said.
#[derive(Default)]
pub struct Book {
    held: BTreeMap<usize, Vec<Held>>,
    /// How often the counter of a name was made one more.
    pub counted: BTreeMap<usize, u64>,
    /// When each task had its lock last, and which that is.
    pub latest: HashMap<String, (u64, usize)>,
    pub turns: usize,
    /// What failed, how often.
    pub failed: BTreeMap<String, usize>,
    /// What is kept: the name, and the field of its holder.
    pub kept: BTreeMap<String, String>,
    /// When the holder of a field was told that it lost it, and why.
    pub told: HashMap<String, (u64, String)>,
    pub paused: usize,
}

impl Book {
    /// Takes down one line.
    pub fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["held", name, task, begin, end, writes] => {
                let (name, begin, end) = (name.parse().unwrap(), begin.parse().unwrap(), end.parse().unwrap());
                self.held.entry(name).or_default().push(Held { begin, end, task: task.to_owned() });
                *self.counted.entry(name).or_default() += writes.parse::<u64>().unwrap();
                self.latest.insert(task.to_owned(), (begin, name));
                self.turns += 1;
            }
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

    /// Holds that began while another one of the same name lasted, in words. They are forgotten with all before them,
    /// so nothing may be held.
    pub fn doubled(&mut self) -> Vec<String> {
        let mut doubled = Vec::new();
        for (name, mut held) in std::mem::take(&mut self.held) {
            held.sort_by_key(|held| held.begin);
            let mut last: Option<Held> = None;
            for next in held {
                if let Some(last) = last.as_ref().filter(|last| next.begin < last.end) {
                    let both = (last.end.min(next.end) - next.begin) / 1000;
                    doubled.push(format!("{name} by {} and {} for {both} us", last.task, next.task));
                }
                last = last.filter(|last| last.end >= next.end).or(Some(next));
            }
        }
        doubled
    }
}

#[test]
fn two_that_have_a_lock_at_one_instant_are_found() {
    let doubled = |spans: &[(u8, u64, u64)]| {
        let mut book = Book::default();
        for (name, begin, end) in spans {
            book.note(&format!("held {name} task-{begin} {begin} {end} 1"));
        }
        book.doubled().len()
    };
    assert_eq!(doubled(&[(0, 1_000, 2_000), (0, 2_000, 3_000), (1, 1_500, 2_500)]), 0);
    assert_eq!(doubled(&[(0, 1_999, 3_000), (0, 1_000, 2_000)]), 1);
    // The first lasts behind the second.
    assert_eq!(doubled(&[(0, 1_000, 9_000), (0, 2_000, 3_000), (0, 4_000, 5_000)]), 2);
}
