//! Plays seeded schedules of lockson's clients and scripts, judges each, and makes the first that fails small.
//!
//! `cargo run --release -p lockson-simulator -- --schedules 20000`; README.md says what else there is.

#![forbid(unsafe_code)]

mod faults;
mod gate;
mod judge;
mod left;
mod plan;
mod play;
mod queue;
mod road;
mod shrink;
mod take;
mod trace;

use std::process::ExitCode;
use std::time::Instant;

use lockson::EmbeddedServer;

use plan::{Kind, Plan, SERVERS};
use play::{play, Outcome};

/// What was asked for on the command line.
struct Asked {
    schedules: u64,
    seed: u64,
    only: Option<Kind>,
    /// One seed alone, with all that happens.
    trace: bool,
    /// The hashes of the first seeds, one a line, are to be those of this file; it is written if it is not there.
    hashes: Option<String>,
    /// Goes on after a failure.
    all: bool,
}

const KINDS: [Kind; 17] = [
    Kind::Lock,
    Kind::Mutex,
    Kind::Spin,
    Kind::Fenced,
    Kind::Plain,
    Kind::Fair,
    Kind::FairMutex,
    Kind::FencedFair,
    Kind::Read,
    Kind::Write,
    Kind::FencedWrite,
    Kind::Multi,
    Kind::Red,
    Kind::Semaphore,
    Kind::PermitSemaphore,
    Kind::CountDown,
    Kind::Await,
];

impl Asked {
    fn read() -> Result<Self, String> {
        let mut asked = Self { schedules: 2_000, seed: 0, only: None, trace: false, hashes: None, all: false };
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
                "--trace" => asked.trace = true,
                "--all" => asked.all = true,
                "--hashes" => asked.hashes = Some(value()?),
                other => return Err(format!("{other} is not known")),
            }
        }
        Ok(asked)
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
    let servers: Vec<_> = (0..SERVERS).map(|_| EmbeddedServer::new()).collect();
    if asked.trace {
        let plan = Plan::of(asked.seed, asked.only);
        println!("{plan:#?}\n{:#?}", play(&plan, &servers, true));
        return ExitCode::SUCCESS;
    }
    match run(&asked, &servers) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn run(asked: &Asked, servers: &[EmbeddedServer]) -> bool {
    let (began, mut scripts, mut taken, mut hashes) = (Instant::now(), Vec::new(), 0, Vec::new());
    let mut failed = 0;
    for seed in (0..asked.schedules).map(|number| asked.seed.wrapping_add(number)) {
        let plan = Plan::of(seed, asked.only);
        let outcome = play(&plan, servers, false);
        scripts.push(outcome.scripts);
        taken += outcome.taken;
        hashes.push(outcome.hash);
        if !outcome.failures.is_empty() {
            failed += 1;
            let faults: Vec<_> = plan.faults().collect();
            println!("seed {seed}: {:#?}\n  of {faults:?}", outcome.failures);
            if !asked.all {
                explain(plan, &outcome, servers);
                break;
            }
        }
    }
    let (seconds, total) = (began.elapsed().as_secs_f64(), scripts.iter().sum::<usize>());
    scripts.sort_unstable();
    println!(
        "{} schedules, {failed} failed; {taken} holds, {total} scripts, {} in the median; {seconds:.1} s, {:.0} scripts/s",
        scripts.len(),
        scripts.get(scripts.len() / 2).copied().unwrap_or(0),
        total as f64 / seconds,
    );
    failed == 0 && asked.hashes.as_ref().is_none_or(|path| same_hashes(path, &hashes))
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
    println!("{smallest:#?}");
    let outcome = play(&smallest, servers, true);
    println!("{:#?}", outcome.failures);
}

fn same_hashes(path: &str, hashes: &[u64]) -> bool {
    let lines: Vec<String> = hashes.iter().map(|hash| format!("{hash:016x}")).collect();
    let Ok(text) = std::fs::read_to_string(path) else {
        return std::fs::write(path, lines.join("\n") + "\n").is_ok();
    };
    let known: Vec<&str> = text.lines().collect();
    let differ: Vec<usize> = (0..known.len().min(lines.len())).filter(|at| known[*at] != lines[*at]).collect();
    println!("{} hashes compared, {} differ: {:?}", known.len().min(lines.len()), differ.len(), differ.first());
    differ.is_empty()
}
