//! The simulator as a judge: schedules that are always the same, with one mutant switched on or none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::run::{limit, TICK};
use crate::book::Verdict;

/// By chance that is always the same, and short work of many tasks of one client.
const RUNS: [&[&str]; 2] = [&["--schedules", "2000"], &["--schedules", "600", "--hot", "--only", "Lock"]];

pub struct Simulator {
    program: PathBuf,
    /// Each run, how long it takes and which mutants it comes by.
    runs: Vec<(&'static [&'static str], Duration, BTreeSet<usize>)>,
}

/// How a run ended; `None`: it went on for far longer than it does without a mutant.
fn ended(program: &Path, words: &[&str], mutant: usize, reached: Option<&Path>, most: Duration) -> Option<ExitStatus> {
    let mut child = Command::new(program)
        .args(words)
        .args(["--quick", "--threads", "1"])
        .env("LOCKSON_MUTANT", mutant.to_string())
        .envs(reached.map(|path| ("LOCKSON_MUTANTS_REACHED", path)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A machine that is stopped, or busy elsewhere, is not the fault of a mutant: a tick is one however long it is.
    let mut waited = Duration::ZERO;
    while waited < most {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(TICK);
        waited += TICK;
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

impl Simulator {
    pub fn new(program: &Path, folder: &Path) -> Simulator {
        let file = folder.join("simulator");
        let runs = RUNS.map(|words| {
            let began = Instant::now();
            let status = ended(program, words, 0, Some(&file), Duration::MAX);
            assert!(status.is_some_and(|status| status.success()), "without a mutant {words:?} fails");
            let reached = fs::read_to_string(&file).unwrap();
            (words, began.elapsed(), reached.lines().map(|id| id.parse().unwrap()).collect())
        });
        Simulator { program: program.to_owned(), runs: runs.to_vec() }
    }

    /// Whether it sees this mutant: what it does depends on its seed alone.
    pub fn judge(&self, mutant: usize) -> Option<Verdict> {
        let runs = self.runs.iter().filter(|(_, _, reached)| reached.contains(&mutant));
        for (words, usual, _) in runs {
            match ended(&self.program, words, mutant, None, limit(*usual)) {
                None => return Some(Verdict::Endless),
                Some(status) if !status.success() => {
                    return Some(Verdict::Killed(format!("the simulator, {}", words.join(" "))));
                }
                Some(_) => {}
            }
        }
        None
    }
}
