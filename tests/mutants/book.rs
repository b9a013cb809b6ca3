//! What became of each mutant, in a file: a run that was stopped goes on there.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// By this test.
    Killed(String),
    /// It ends the program, or lets a test go on without an end.
    Endless,
    Survived,
    Unviable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Killed(by) => write!(f, "killed by {by}"),
            Verdict::Endless => write!(f, "endless"),
            Verdict::Survived => write!(f, "survived"),
            Verdict::Unviable => write!(f, "does not compile"),
        }
    }
}

impl Verdict {
    pub fn parse(text: &str) -> Verdict {
        match (text, text.strip_prefix("killed by ")) {
            (_, Some(by)) => Verdict::Killed(by.to_owned()),
            ("endless", _) => Verdict::Endless,
            ("survived", _) => Verdict::Survived,
            ("does not compile", _) => Verdict::Unviable,
            _ => panic!("{text}? Of another version"),
        }
    }
}

/// By the names of the mutants. Survivors are judged anew, as there may be tests for them now.
pub struct Book {
    pub path: PathBuf,
    pub verdicts: BTreeMap<String, Verdict>,
}

impl Book {
    pub fn open(path: PathBuf) -> Book {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let parsed = text.lines().filter_map(|line| {
            let (verdict, name) = line.split_once(" | ")?;
            Some((name.to_owned(), Verdict::parse(verdict)))
        });
        Book { path, verdicts: parsed.collect() }
    }

    pub fn is_settled(&self, name: &str) -> bool {
        self.verdicts.get(name).is_some_and(|verdict| *verdict != Verdict::Survived)
    }

    pub fn note(&mut self, name: &str, verdict: Verdict) {
        println!("{verdict} | {name}");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        writeln!(file, "{verdict} | {name}").unwrap();
        self.verdicts.insert(name.to_owned(), verdict);
    }
}
