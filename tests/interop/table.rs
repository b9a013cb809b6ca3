//! What the run has shown: kind x verb, at each place and in each direction. It is written by the cases as they pass.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::place::Place;

/// The verbs of the table, in its order.
const VERBS: [&str; 10] =
    ["excludes", "wakes", "times out", "re-enters", "renews", "expires", "forces", "state", "crash", "failover"];

/// Redisson holds or acts, lockson is kept out or told; and the other way.
pub const DIRECTIONS: [&str; 2] = ["J>R", "R>J"];

/// What a kind does not have, and why.
pub type Absent = &'static [(&'static str, &'static str, &'static str)];

/// What a place does not have: place, kind and verb, where an empty one is any.
const NOT_THERE: [(&str, &str, &str); 3] =
    [("single", "", "failover"), ("Sentinel", "red", ""), ("Cluster", "red", "")];

const DOCUMENT: &str = "docs/REDISSON.md";
const BEGIN: &str = "<!-- written by tests/interop: table -->\n";
const END: &str = "<!-- end -->";

/// A kind at a place, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub place: &'static str,
    pub kind: &'static str,
    pub direction: &'static str,
}

static SHOWN: Mutex<BTreeSet<(Cell, &'static str)>> = Mutex::new(BTreeSet::new());

impl Cell {
    /// A case of these verbs has passed.
    pub fn shows(self, verbs: &[&'static str]) {
        for verb in verbs {
            assert!(VERBS.contains(verb), "{verb} is no column");
            SHOWN.lock().unwrap().insert((self, verb));
        }
    }

    fn has(self, verb: &'static str) -> bool {
        SHOWN.lock().unwrap().contains(&(self, verb))
    }
}

/// Prints the table, and says which cells are empty, and whether the document has another one.
pub fn print(kinds: &[&'static str], absent: &[(&str, &str, &str)]) -> Vec<String> {
    let (table, mut wrong) = written(kinds, absent);
    println!("\n{table}");
    let path = support::root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the begin of the table");
    let now = format!("{before}{BEGIN}{table}{}", &rest[rest.find(END).expect("its end")..]);
    if wrong.is_empty() && now != document {
        match std::env::var_os("LOCKSON_BLESS") {
            Some(_) => std::fs::write(path, now).unwrap(),
            None => wrong.push(format!("{DOCUMENT} has another table: LOCKSON_BLESS=1 writes it")),
        }
    }
    wrong
}

/// As Markdown; and which cells are empty.
fn written(kinds: &[&'static str], absent: &[(&str, &str, &str)]) -> (String, Vec<String>) {
    let mut empty = Vec::new();
    let mut cell = |kind: &'static str, verb: &'static str| {
        if absent.iter().any(|(of, what, _)| *of == kind && *what == verb) {
            return "–".to_owned();
        }
        let is_there = |place: &&str| {
            let fits = |(one, two): (&str, &str)| one.is_empty() || one == two;
            !NOT_THERE.iter().any(|(at, of, what)| at == place && fits((of, kind)) && fits((what, verb)))
        };
        let places = Place::NAMES.into_iter().filter(is_there);
        let has = |place: &&'static str| {
            let has = |direction: &&'static str| Cell { place, kind, direction }.has(verb);
            let missing: Vec<&str> = DIRECTIONS.into_iter().filter(|direction| !has(direction)).collect();
            empty.extend((!missing.is_empty()).then(|| format!("{kind} {verb} at {place} lacks {missing:?}")));
            missing.is_empty()
        };
        places.filter(has).map(|place| if place == "single" { "1" } else { &place[..1] }).collect::<Vec<_>>().join(" ")
    };
    let line = |words: Vec<String>| format!("| {} |\n", words.join(" | "));
    let mut table = line([""].into_iter().chain(VERBS).map(str::to_owned).collect());
    table += &format!("|{}\n", "---|".repeat(1 + VERBS.len()));
    for kind in kinds {
        table += &line([kind.to_string()].into_iter().chain(VERBS.map(|verb| cell(kind, verb))).collect());
    }
    table.push('\n');
    for (kind, verb, why) in absent.iter().filter(|(kind, ..)| kinds.contains(kind)) {
        table += &format!("- {kind}, {verb}: {why}\n");
    }
    (table, empty)
}
