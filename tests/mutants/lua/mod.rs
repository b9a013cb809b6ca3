//! Mistakes in the Lua scripts, one at a time, and which of them no test sees.

mod judge;
mod lexer;
mod list;
mod operators;
mod patch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use list::Mutant;
use patch::{Copy, Scripts};

use crate::book::{Book, Verdict};

/// What has to die of those that operators make, in percent, and how many may be listed as equivalent.
const KILLED: usize = 95;
const EQUIVALENT: usize = 3;

struct Options {
    program: PathBuf,
    folder: PathBuf,
    sample: usize,
    only: String,
    tests: String,
    /// How many of the suites with real servers judge too.
    servers: usize,
    list: bool,
}

fn options(mut words: impl Iterator<Item = String>) -> Options {
    let mut path = || PathBuf::from(words.next().expect("PROGRAM FOLDER: as scripts/mutants has them"));
    let (program, folder) = (path(), path());
    let mut options = Options {
        program,
        folder,
        sample: usize::MAX,
        only: String::new(),
        tests: String::new(),
        servers: 2,
        list: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} what?"));
        match word.as_str() {
            "--sample" => options.sample = value().parse().expect("how many"),
            "--only" => options.only = value(),
            "--tests" => options.tests = value(),
            "--servers" => options.servers = usize::MAX,
            "--embedded" => options.servers = 0,
            "--list" => options.list = true,
            _ => panic!("{word}? See scripts/mutants"),
        }
    }
    options
}

/// Those that are asked for, by chance where not all are. Those that were written by hand come first.
fn chosen(options: &Options, scripts: &Scripts) -> Vec<Mutant> {
    let seed = support::seed();
    let some = |mut mutants: Vec<Mutant>| {
        mutants.retain(|mutant| mutant.diff().contains(&options.only));
        if options.sample < mutants.len() {
            println!("{} of {}, seed {seed}", options.sample, mutants.len());
            support::Rng::with_seed(seed).shuffle(&mut mutants);
            mutants.truncate(options.sample);
        }
        mutants
    };
    [list::known(&scripts.texts), list::generated(&scripts.texts)].into_iter().flat_map(some).collect()
}

/// All that earlier runs did not see killed.
fn judge_chosen(options: &Options, scripts: &Scripts, mutants: &[Mutant], book: &Mutex<Book>) {
    let copy = Copy::new(scripts, &options.program, &options.folder.join("judges"));
    let judges = judge::judges(&copy, &options.tests, options.servers);
    let [tests, more] = [&judges.embedded, &judges.with_servers].map(Vec::len);
    assert!(tests > 100, "only {tests} tests pass on the scripts as they are");
    let left: Vec<&Mutant> = mutants.iter().filter(|mutant| !book.lock().unwrap().is_settled(&mutant.name())).collect();
    println!("{} mutants, {} of them not killed yet, {tests} tests, {more} with servers", mutants.len(), left.len());
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (next, left, judges) = (&next, &left, &judges);
            scope.spawn(move || {
                let copy = Copy::new(scripts, &options.program, &options.folder.join(worker.to_string()));
                while let Some(mutant) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = judge::judge(&copy, mutant, judges);
                    book.lock().unwrap().note(&mutant.name(), verdict);
                }
            });
        }
    });
}

/// The counts, by which it is decided, and those that live.
fn reported(mutants: &[Mutant], book: &Book) -> bool {
    let (mut survivors, mut good) = (String::new(), true);
    let mut counts = BTreeMap::<&str, [usize; 3]>::new();
    for mutant in mutants {
        let is_known = mutant.text.is_empty() || mutant.operator.starts_with('L');
        let count = counts.entry(if is_known { "by hand" } else { "by operators" }).or_default();
        let place = match (&book.verdicts[&mutant.name()], &mutant.equivalent) {
            (Verdict::Survived, Some(_)) => 2,
            (Verdict::Survived, None) => {
                survivors += &mutant.diff();
                1
            }
            (verdict, reason) => {
                if let Some(reason) = reason {
                    println!("not equivalent ({reason}): {verdict}\n{}", mutant.diff());
                    good = false;
                }
                0
            }
        };
        count[place] += 1;
    }
    println!("\nSurvivors:\n{survivors}");
    for (of, [killed, survived, equivalent]) in counts {
        let total = killed + survived + equivalent;
        println!("{of}: {total} mutants, {killed} killed, {equivalent} equivalent, {survived} survived");
        let asked = if of == "by hand" { 100 } else { KILLED };
        good &= killed * 100 >= (total - equivalent) * asked && equivalent * 100 <= total * EQUIVALENT.max(1);
    }
    println!("all of them: {}", book.path.display());
    good
}

/// Whether the tests are good enough.
pub fn judge_all(words: impl Iterator<Item = String>) -> bool {
    let options = options(words);
    let scripts = Scripts::of(&options.program);
    let mutants = chosen(&options, &scripts);
    if options.list {
        mutants.iter().for_each(|mutant| print!("{}", mutant.diff()));
        println!("{} mutants", mutants.len());
        return true;
    }
    let book = Mutex::new(Book::open(options.folder.join("lua.txt")));
    judge_chosen(&options, &scripts, &mutants, &book);
    reported(&mutants, &book.into_inner().unwrap())
}
