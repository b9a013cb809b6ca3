//! Whether the tests see a mutant: those that come by it, from the quickest on, until the first that fails, and then
//! the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::build::Copy;
use super::run::{End, Run};
use super::simulated::Simulator;
use crate::book::Verdict;

/// Suites about texts, which say nothing of what the code does, those of other servers and libraries, the one that
/// takes longest, and what the other processes of some tests begin with.
const NO_JUDGES: [&str; 9] =
    ["house::", "tidy::", "scripts::", "choosing::", "topology::", "peers::", "processes::", "red_schedules::", "part"];
/// What only real servers have: groups of calls, replicas that confirm, others in a server's place, other processes.
const WITH_SERVERS: [&str; 6] =
    ["groups::", "runs::", "topology::confirm::", "topology::quarantine::", "turns::", "wakeups::"];
/// Such tests come last.
const LONG: Duration = Duration::from_secs(1);
/// What takes far longer is none either.
const USUAL: Duration = Duration::from_secs(1);

/// A test, how long it takes and which mutants it comes by.
struct Test {
    name: String,
    time: Duration,
    reached: BTreeSet<usize>,
}

/// Who judges first. Most cases are tests of every kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    OneOfEachCase,
    OtherKinds,
    Long,
    /// No tests: the simulator.
    Simulated,
}

impl Round {
    pub const ALL: [Round; 4] = [Round::OneOfEachCase, Round::OtherKinds, Round::Long, Round::Simulated];
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.reached.iter().map(usize::to_string).collect();
        write!(f, "{} {} {}", self.name, self.time.as_millis(), ids.join(","))
    }
}

impl Test {
    /// Its round, where `cases` are those that had a test before.
    fn round<'a>(&'a self, cases: &mut BTreeSet<&'a str>) -> Round {
        match self.name.rsplit("::").next() {
            _ if self.time > LONG => Round::Long,
            Some(case) if cases.insert(case) => Round::OneOfEachCase,
            _ => Round::OtherKinds,
        }
    }

    fn parse(line: &str) -> Test {
        let [name, millis, ids] = <[&str; 3]>::try_from(line.split(' ').collect::<Vec<_>>()).unwrap();
        let reached = ids.split_terminator(',').map(|id| id.parse().unwrap()).collect();
        Test { name: name.to_owned(), time: Duration::from_millis(millis.parse().unwrap()), reached }
    }
}

pub struct Judges {
    /// Each with its tests, the quickest first.
    programs: Vec<(PathBuf, Vec<Test>)>,
    /// Whether they are those of `WITH_SERVERS`, or all others.
    servers: bool,
    /// Not where servers are asked.
    simulator: Option<Simulator>,
}

fn names(program: &Path, servers: bool) -> Vec<String> {
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let is_of = |name: &str, suites: &[&str]| suites.iter().any(|suite| name.starts_with(suite));
    let judges = names.filter(|name| match servers {
        true => is_of(name, &WITH_SERVERS),
        false => !name.contains("::real::") && !is_of(name, &NO_JUDGES),
    });
    judges.map(str::to_owned).collect()
}

/// Runs a test by itself: one that fails needs more than the embedded server, and is no judge.
fn tried(program: &Path, name: &str, file: &Path, servers: bool) -> Option<Test> {
    let began = Instant::now();
    let end = Run { program, tests: &[name], mutant: 0, reached: Some(file), usual: USUAL, servers }.run();
    let reached = fs::read_to_string(file).unwrap_or_default();
    let _ = fs::remove_file(file);
    let reached = reached.lines().map(|id| id.parse().unwrap()).collect();
    (end == End::Passed).then(|| Test { name: name.to_owned(), time: began.elapsed(), reached })
}

/// Those that pass, by themselves and without a mutant.
fn passing(program: &Path, folder: &Path, servers: bool) -> Vec<Test> {
    let (names, next) = (names(program, servers), AtomicUsize::new(0));
    let found = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (names, next, found) = (&names, &next, &found);
            let file = folder.join(worker.to_string());
            scope.spawn(move || {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let test = tried(program, name, &file, servers);
                    found.lock().unwrap().extend(test);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    println!("{} of {} tests of {} judge", found.len(), names.len(), program.display());
    found.sort_by_key(|test| test.time);
    found
}

/// The same, as they were found when this program was new.
fn tests(program: &Path, folder: &Path, servers: bool) -> Vec<Test> {
    let ending = if servers { "servers.txt" } else { "txt" };
    let file = folder.join(program.with_extension(ending).file_name().unwrap());
    let age = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if age(&file) > age(program) {
        let text = fs::read_to_string(&file).unwrap();
        return text.lines().map(Test::parse).collect();
    }
    let found = passing(program, folder, servers);
    let lines: Vec<String> = found.iter().map(Test::to_string).collect();
    fs::write(file, lines.join("\n")).unwrap();
    found
}

impl Judges {
    pub fn new(copy: &Copy, folder: &Path, servers: bool) -> Judges {
        fs::create_dir_all(folder).unwrap();
        let with_tests = |program: PathBuf| (program.clone(), tests(&program, folder, servers));
        let programs = copy.programs().into_iter().map(with_tests).collect();
        let simulator = (!servers).then(|| Simulator::new(&copy.simulator(), folder));
        Judges { programs, servers, simulator }
    }

    /// Whether a test of this round sees it.
    pub fn judge(&self, mutant: usize, round: Round) -> Option<Verdict> {
        if round == Round::Simulated {
            return self.simulator.as_ref()?.judge(mutant);
        }
        for (program, tests) in &self.programs {
            let mut cases = BTreeSet::new();
            let mut rest: Vec<&Test> = tests.iter().filter(|test| test.reached.contains(&mutant)).collect();
            // The quickest of each case is of the first round.
            rest.retain(|test| test.round(&mut cases) == round);
            let mut most = Duration::from_millis(500);
            while !rest.is_empty() {
                let mut time = Duration::ZERO;
                let more = rest.iter().take_while(|test| {
                    time += test.time;
                    time < most
                });
                let later = rest.split_off(more.count().max(1));
                let verdict = seen(program, mutant, &rest, self.servers);
                if verdict.is_some() {
                    return verdict;
                }
                (rest, most) = (later, most * 3);
            }
        }
        None
    }
}

/// Whether one of these sees it: twice, and not without it, so that nothing is chance.
fn seen(program: &Path, mutant: usize, tests: &[&Test], servers: bool) -> Option<Verdict> {
    let usual: BTreeMap<&str, Duration> = tests.iter().map(|test| (&*test.name, test.time)).collect();
    let run = |tests: &[&str], mutant| {
        let usual = tests.iter().map(|name| usual[name]).sum();
        Run { program, tests, mutant, reached: None, usual, servers }.run()
    };
    let mut names: Vec<&str> = tests.iter().map(|test| &*test.name).collect();
    loop {
        match run(&names, mutant) {
            End::Passed => return None,
            End::Endless => return (run(&names, 0) == End::Passed).then_some(Verdict::Endless),
            End::Failed(by) if run(&[&by], mutant) != End::Passed && run(&[&by], 0) == End::Passed => {
                return Some(Verdict::Killed(by));
            }
            End::Failed(by) => names.retain(|name| *name != by),
        }
        if names.is_empty() {
            return None;
        }
    }
}
