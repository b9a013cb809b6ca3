//! A copy of the repository with all mutants in it, and its programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use support::files;

use super::list::Mutant;
use super::render::{blamed, rendered, ARM, RETURN};

/// Which mutant is switched on. A run that is asked for it writes down which it came by.
const SWITCH: &str = r#"//! Which mutant is switched on.
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

struct Reached {
    file: std::fs::File,
    ids: BTreeSet<u32>,
}

pub(crate) fn is(id: u32) -> bool {
    static ON: OnceLock<u32> = OnceLock::new();
    static REACHED: OnceLock<Option<Mutex<Reached>>> = OnceLock::new();
    let reached = REACHED.get_or_init(|| {
        let file = std::fs::File::create(std::env::var_os("LOCKSON_MUTANTS_REACHED")?).ok()?;
        Some(Mutex::new(Reached { file, ids: BTreeSet::new() }))
    });
    if let Some(Ok(mut reached)) = reached.as_ref().map(Mutex::lock) {
        if reached.ids.insert(id) {
            let _ = writeln!(reached.file, "{id}");
        }
    }
    *ON.get_or_init(|| std::env::var("LOCKSON_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0)) == id
}
"#;

/// The programs of the tests: all suites, and the unit tests.
const TESTS: [&str; 9] =
    ["test", "--no-run", "--message-format", "json", "-p", "lockson", "-p", "lockson-tests", "--test=suites"];
const SIMULATOR: [&str; 7] =
    ["build", "--message-format", "json", "-p", "lockson-simulator", "--bin", "lockson-simulator"];

pub struct Copy {
    folder: PathBuf,
}

/// So that what is the same is not built again.
fn write(path: &Path, bytes: &[u8]) {
    if !fs::read(path).is_ok_and(|old| old == bytes) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

impl Copy {
    /// Of all files that git has or could have, as they are.
    pub fn new(folder: &Path) -> Copy {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(files::root())
            .output()
            .unwrap();
        for path in String::from_utf8(listed.stdout).unwrap().split_terminator('\0') {
            // The sources are written with their mutants, and nothing that judges is built of this program.
            let is_other = path.starts_with("src/") || path.starts_with("tests/mutants/");
            if let (false, Ok(bytes)) = (is_other, fs::read(files::root().join(path))) {
                write(&folder.join(path), &bytes);
            }
        }
        let copy = Copy { folder: folder.to_owned() };
        copy.write("src/mutant.rs", SWITCH.to_owned());
        copy.write("tests/mutants/main.rs", "//! Left out.\nfn main() {}\n".to_owned());
        copy
    }

    fn write(&self, path: &str, text: String) {
        write(&self.folder.join(path), text.as_bytes());
    }

    /// What cargo has to say, and whether it could build.
    fn built(&self, what: &[&str], more: &[&str]) -> (Vec<Value>, bool) {
        let mut command = Command::new("cargo");
        // Beside the sources themselves cargo would take the one for the other.
        let target = self.folder.join("target");
        command
            .args(what)
            .args(more)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", target)
            .stderr(Stdio::inherit());
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        (printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(), output.status.success())
    }

    /// Writes the sources with these mutants but those that the compiler does not take, whose names it gives.
    pub fn write_all_that_compile(&self, mutants: &[&Mutant]) -> Vec<String> {
        let (mut dropped, sources) = (BTreeSet::new(), files::below("src"));
        loop {
            let mut pages: BTreeMap<&str, Vec<&Mutant>> = sources.iter().map(|path| (&**path, Vec::new())).collect();
            for mutant in mutants.iter().filter(|mutant| !dropped.contains(&mutant.id)) {
                pages.entry(&mutant.file).or_default().push(mutant);
            }
            let pages = pages.into_iter().map(|(file, mutants)| (file, rendered(&source(file), &mutants)));
            let pages: BTreeMap<&str, String> = pages.collect();
            for (file, text) in &pages {
                self.write(file, text.clone());
            }
            let (messages, good) = self.built(&TESTS, &[]);
            if good {
                break;
            }
            let errors: Vec<&Value> = messages.iter().filter(|message| is_error(message)).collect();
            let before = dropped.len();
            dropped.extend(errors.iter().filter_map(|error| culprit(&error["message"], &pages)));
            println!("{} errors, {} mutants that do not compile", errors.len(), dropped.len());
            assert!(dropped.len() > before, "nothing of it is a mutant's: {errors:#?}");
        }
        let names = mutants.iter().filter(|mutant| dropped.contains(&mutant.id));
        names.map(|mutant| mutant.name.clone()).collect()
    }

    /// The unit tests, and the suites.
    pub fn programs(&self) -> Vec<PathBuf> {
        let (messages, good) = self.built(&TESTS, &["--lib"]);
        assert!(good, "the tests do not compile");
        let tests = messages.iter().filter(|message| message["profile"]["test"] == true);
        let paths = tests.filter_map(|test| Some((test["target"]["name"].as_str()?, test["executable"].as_str()?)));
        let programs: BTreeMap<&str, &str> = paths.collect();
        ["lockson", "suites"].map(|name| programs[name].into()).to_vec()
    }

    pub fn simulator(&self) -> PathBuf {
        let (messages, good) = self.built(&SIMULATOR, &[]);
        assert!(good, "the simulator does not compile");
        let mut programs = messages.iter().filter_map(|message| message["executable"].as_str());
        programs.next_back().expect("it is a program").into()
    }
}

/// As it is, but that the crate has one module more.
fn source(path: &str) -> String {
    let text = files::read(path);
    if path != "src/lib.rs" {
        return text;
    }
    let lib = text.replacen("\nmod base;\n", "\nmod base;\nmod mutant;\n", 1);
    assert!(lib.contains("mod mutant;"), "src/lib.rs has other modules");
    lib
}

fn is_error(message: &Value) -> bool {
    message["reason"] == "compiler-message" && message["message"]["level"] == "error"
}

/// Whose mistake it is: of one of the spans of an error, or of what it is explained with.
fn culprit(message: &Value, pages: &BTreeMap<&str, String>) -> Option<usize> {
    let spans = message["spans"].as_array().into_iter().flatten();
    let (first, more): (Vec<&Value>, Vec<&Value>) = spans.partition(|span| span["is_primary"] == true);
    let places = first.into_iter().chain(more).filter_map(|span| {
        let [start, end] = ["byte_start", "byte_end"].map(|of| span[of].as_u64());
        Some((pages.get(span["file_name"].as_str()?)?.as_str(), start? as usize..end? as usize))
    });
    let places: Vec<_> = places.collect();
    // A match that does not have all is without an arm; a function with two types returns before it begins.
    let afar = |text: &str, at: &Range<usize>| match message["code"]["code"].as_str()? {
        "E0004" => Some(at.end + text[at.end..].find(ARM)? + ARM.len()),
        "E0308" => text[..at.start].rfind(RETURN),
        _ => None,
    };
    let own = places.iter().find_map(|(text, at)| blamed(text, at).last().copied());
    let child = || message["children"].as_array()?.iter().find_map(|child| culprit(child, pages));
    let far =
        || places.iter().find_map(|(text, at)| afar(text, at).and_then(|at| blamed(text, &(at..at)).last().copied()));
    match message["code"]["code"].as_str() {
        Some("E0004") => far().or(own),
        _ => own.or_else(child).or_else(far),
    }
}
