//! Plays seeded schedules of lockson's clients and scripts, judges each, and makes the first that fails small.
//!
//! `cargo run --release -p lockson-simulator -- --schedules 20000`; README.md says what else there is.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockson::EmbeddedServer;

use lockson_simulator::plan::{Kind, Plan, KINDS, SERVERS};
use lockson_simulator::play::{play, Outcome};
use lockson_simulator::{code, shrink, stories};

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What was asked for on the command line.
struct Asked {
    schedules: u64,
    seed: u64,
    only: Option<Kind>,
    /// Short work of many tasks of one client.
    hot: bool,
    /// One seed alone, with all that happens.
    trace: bool,
    /// The hashes of the first seeds, one a line, are to be those of this file. If it is not there, it is written, and
    /// nothing is compared.
    hashes: Option<String>,
    /// Goes on after a failure.
    all: bool,
    /// Stops at a failure, and makes nothing small.
    quick: bool,
    /// Begins with the seeds: how many of them a fault takes is not known where a story has it before.
    no_stories: bool,
    threads: u64,
}

impl Asked {
    fn read() -> Result<Self, String> {
        let mut asked = Self {
            schedules: 2_000,
            seed: 0,
            only: None,
            hot: false,
            trace: false,
            hashes: None,
            all: false,
            quick: false,
            no_stories: false,
            threads: 1,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
            match word.as_str() {
                "--schedules" => asked.schedules = number(value()?)?,
                "--seed" => asked.seed = number(value()?)?,
                "--only" => {
                    let name = value()?;
                    let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == name);
                    asked.only = Some(kind.ok_or(format!("{name} is none of {KINDS:?}"))?);
                }
                "--hot" => asked.hot = true,
                "--trace" => asked.trace = true,
                "--all" => asked.all = true,
                "--quick" => asked.quick = true,
                "--no-stories" => asked.no_stories = true,
                "--threads" => asked.threads = number(value()?)?.max(1),
                "--hashes" => asked.hashes = Some(value()?),
                other => return Err(format!("{other} is not known")),
            }
        }
        Ok(asked)
    }

    fn plan(&self, seed: u64) -> Plan {
        let plan = Plan::of(seed, self.only);
        if self.hot {
            plan.hot()
        } else {
            plan
        }
    }
}

fn main() -> ExitCode {
    let asked = match Asked::read() {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    if asked.trace {
        let plan = asked.plan(asked.seed);
        println!("{plan:#?}\n{:#?}", play(&plan, &servers(), true));
        return ExitCode::SUCCESS;
    }
    match (asked.no_stories || stories::hold(&servers())) && run(&asked) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn servers() -> Vec<EmbeddedServer> {
    (0..SERVERS).map(|_| EmbeddedServer::new()).collect()
}

/// What some schedules came to.
#[derive(Default)]
struct Tally {
    scripts: Vec<usize>,
    taken: usize,
    failed: usize,
    hashes: Vec<(u64, u64)>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.scripts.extend(other.scripts);
        self.hashes.extend(other.hashes);
        (self.taken, self.failed) = (self.taken + other.taken, self.failed + other.failed);
    }
}

/// Plays each schedule of one thread.
fn part(asked: &Asked, thread: u64, stop: &AtomicBool) -> Tally {
    let (servers, mut tally) = (servers(), Tally::default());
    for number in (thread..asked.schedules).step_by(usize::try_from(asked.threads).unwrap_or(1)) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let seed = asked.seed.wrapping_add(number);
        let plan = asked.plan(seed);
        let outcome = play(&plan, &servers, false);
        tally.scripts.push(outcome.scripts);
        tally.taken += outcome.taken;
        tally.hashes.push((seed, outcome.hash));
        if outcome.failures.is_empty() {
            continue;
        }
        tally.failed += 1;
        let faults: Vec<_> = plan.faults().collect();
        println!("seed {seed}: {:#?}\n  of {faults:?}", outcome.failures);
        if !asked.all && !stop.swap(true, Ordering::Relaxed) && !asked.quick {
            explain(plan, &outcome, &servers);
        }
    }
    tally
}

fn run(asked: &Asked) -> bool {
    let (began, stop, mut tally) = (Instant::now(), AtomicBool::new(false), Tally::default());
    std::thread::scope(|scope| {
        let stop = &stop;
        let parts: Vec<_> = (0..asked.threads).map(|thread| scope.spawn(move || part(asked, thread, stop))).collect();
        parts.into_iter().for_each(|part| tally.add(part.join().expect("a thread that does not panic")));
    });
    let (seconds, total) = (began.elapsed().as_secs_f64(), tally.scripts.iter().sum::<usize>());
    tally.scripts.sort_unstable();
    tally.hashes.sort_unstable();
    println!(
        "{} schedules, {} failed; {} holds, {total} scripts, {} in the median; {seconds:.1} s, {:.0} scripts/s a core",
        tally.scripts.len(),
        tally.failed,
        tally.taken,
        tally.scripts.get(tally.scripts.len() / 2).copied().unwrap_or(0),
        total as f64 / seconds / asked.threads as f64,
    );
    let hashes: Vec<u64> = tally.hashes.iter().map(|(_, hash)| *hash).collect();
    tally.failed == 0 && asked.hashes.as_ref().is_none_or(|path| same_hashes(path, &hashes))
}

/// Makes a plan that fails small, and prints it.
fn explain(plan: Plan, outcome: &Outcome, servers: &[EmbeddedServer]) {
    // The same thing has to fail, not another.
    let sort = |failures: &[String]| {
        let first = failures.first().map(String::as_str).unwrap_or_default();
        let words = first.split_once(": ").map_or(first, |(_, what)| what);
        words.chars().filter(char::is_ascii_alphabetic).take(24).collect::<String>()
    };
    let wanted = sort(&outcome.failures);
    let smallest = shrink::shrink(plan, 3_000, |plan| sort(&play(plan, servers, false).failures) == wanted);
    println!("{}", code::of(&smallest));
    let outcome = play(&smallest, servers, true);
    println!("{:#?}", outcome.failures);
}

fn same_hashes(path: &str, hashes: &[u64]) -> bool {
    let lines: Vec<String> = hashes.iter().map(|hash| format!("{hash:016x}")).collect();
    let Ok(text) = std::fs::read_to_string(path) else {
        let written = std::fs::write(path, lines.join("\n") + "\n");
        println!("{} hashes written to {path}, none compared: {written:?}", lines.len());
        return false;
    };
    let known: Vec<&str> = text.lines().collect();
    let differ: Vec<usize> =
        (0..known.len()).filter(|at| lines.get(*at).is_none_or(|line| line != known[*at])).collect();
    println!("{} hashes compared, {} differ: {:?}", known.len(), differ.len(), differ.first());
    differ.is_empty() && !known.is_empty()
}
