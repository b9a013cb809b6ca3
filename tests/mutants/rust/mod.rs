//! Mistakes in the Rust core, one at a time, and which of them no test sees: all of them stand in one program, each
//! behind a switch that is read when it starts.

mod build;
mod judge;
mod list;
mod render;
mod run;
mod simulated;
mod sites;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use judge::{Judges, Round};
use list::Mutant;

use crate::book::{Book, Verdict};

/// What has to die, in percent, and how many may be listed as equivalent.
const KILLED: usize = 90;
const EQUIVALENT: usize = 3;

struct Options {
    /// What cargo-mutants lists.
    listed: PathBuf,
    folder: PathBuf,
    sample: usize,
    only: String,
    jobs: usize,
    servers: bool,
    list: bool,
}

fn options(mut words: impl Iterator<Item = String>) -> Options {
    let mut path = || PathBuf::from(words.next().expect("LIST FOLDER: as scripts/mutants has them"));
    let (listed, folder) = (path(), path());
    let jobs = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut options =
        Options { listed, folder, sample: usize::MAX, only: String::new(), jobs, servers: false, list: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} what?"));
        match word.as_str() {
            "--sample" => options.sample = value().parse().expect("how many"),
            "--only" => options.only = value(),
            "--jobs" => options.jobs = value().parse().expect("how many at once"),
            "--servers" => options.servers = true,
            "--list" => options.list = true,
            _ => panic!("{word}? See scripts/mutants"),
        }
    }
    options
}

/// Those that are asked for, by chance where not all are: what doesn't compile is drawn from no more.
fn chosen(options: &Options, book: &Book, mutants: &[Mutant]) -> Vec<Mutant> {
    let is_viable = |mutant: &&Mutant| book.verdicts.get(&mutant.name) != Some(&Verdict::Unviable);
    let mut chosen: Vec<Mutant> =
        mutants.iter().filter(is_viable).filter(|mutant| mutant.diff().contains(&options.only)).cloned().collect();
    let seed = support::seed();
    println!("{} of {} mutants that compile, seed {seed}", options.sample.min(chosen.len()), chosen.len());
    support::Rng::with_seed(seed).shuffle(&mut chosen);
    chosen.truncate(options.sample);
    chosen
}

/// All by the tests of the first round, then who is left by those of the next.
fn judge_chosen(judges: &Judges, chosen: &[Mutant], book: &Mutex<Book>, jobs: usize) {
    let mut left: Vec<&Mutant> =
        chosen.iter().filter(|mutant| !book.lock().unwrap().is_settled(&mutant.name)).collect();
    for round in Round::ALL {
        println!("{} are left for {round:?}", left.len());
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(mutant) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match judges.judge(mutant.id, round) {
                            Some(verdict) => book.lock().unwrap().note(&mutant.name, verdict),
                            None => println!("not in this round | {}", mutant.name),
                        }
                    }
                });
            }
        });
        left.retain(|mutant| !book.lock().unwrap().is_settled(&mutant.name));
    }
    left.into_iter().for_each(|mutant| book.lock().unwrap().note(&mutant.name, Verdict::Survived));
}

/// The counts of each room, by which it is decided, and those that live.
fn reported(chosen: &[Mutant], book: &Book) -> bool {
    let (mut counts, mut survivors, mut good) = (BTreeMap::<&str, [usize; 4]>::new(), String::new(), true);
    for mutant in chosen {
        let verdict = &book.verdicts[&mutant.name];
        let place = match (verdict, &mutant.equivalent) {
            (Verdict::Survived, Some(_)) => 3,
            (Verdict::Survived, None) => {
                let _ = writeln!(survivors, "{}", mutant.diff());
                2
            }
            (verdict, reason) => {
                if let Some(reason) = reason {
                    println!("not equivalent ({reason}): {verdict}\n{}", mutant.diff());
                    good = false;
                }
                usize::from(*verdict == Verdict::Endless)
            }
        };
        for of in [mutant.room(), "all"] {
            counts.entry(of).or_default()[place] += 1;
        }
    }
    println!("\nSurvivors:\n{survivors}");
    for (of, [killed, endless, survived, equivalent]) in &counts {
        let total = killed + endless + survived + equivalent;
        println!(
            "{of}: {total} mutants, {killed} killed, {endless} endless, {equivalent} equivalent, {survived} survived"
        );
        let is_enough = (killed + endless) * 100 >= (total - equivalent) * KILLED;
        good &= *of != "all" || is_enough && equivalent * 100 <= total * EQUIVALENT;
    }
    good
}

/// Whether the tests are good enough.
pub fn judge_all(words: impl Iterator<Item = String>) -> bool {
    let options = options(words);
    let mutants = list::listed(&options.listed);
    if options.list {
        mutants
            .iter()
            .filter(|mutant| mutant.diff().contains(&options.only))
            .for_each(|mutant| print!("{}", mutant.diff()));
        println!("{} mutants", mutants.len());
        return true;
    }
    let mut book = Book::open(options.folder.join("rust.txt"));
    let copy = build::Copy::new(&options.folder.join("tree"));
    let viable: Vec<&Mutant> =
        mutants.iter().filter(|mutant| book.verdicts.get(&mutant.name) != Some(&Verdict::Unviable)).collect();
    for name in copy.write_all_that_compile(&viable) {
        book.note(&name, Verdict::Unviable);
    }
    let chosen = chosen(&options, &book, &mutants);
    let judges = Judges::new(&copy, &options.folder.join("reached"), options.servers);
    let book = Mutex::new(book);
    judge_chosen(&judges, &chosen, &book, options.jobs);
    let book = book.into_inner().unwrap();
    println!("all of them: {}", book.path.display());
    reported(&chosen, &book)
}
