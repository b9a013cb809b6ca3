//! What the run has shown: kind x verb x direction. It is written by the cases as they pass.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The verbs of the table, in its order.
pub const VERBS: [&str; 9] =
    ["excludes", "wakes", "times out", "re-enters", "renews", "expires", "forces", "state", "crash"];

const DIRECTIONS: [&str; 2] = ["J>R", "R>J"];

/// What a kind does not have.
pub type Absent = &'static [(&'static str, &'static str, &'static str)];

static SHOWN: Mutex<BTreeSet<(String, String, String)>> = Mutex::new(BTreeSet::new());

/// A case of these verbs has passed.
pub fn shown(kind: &str, verbs: &[&str], direction: &str) {
    for verb in verbs {
        assert!(VERBS.contains(verb), "{verb} is no column");
        SHOWN.lock().unwrap().insert((kind.to_owned(), verb.to_string(), direction.to_owned()));
    }
}

/// Prints the table, and says which cells are empty.
pub fn print(kinds: &[&str], absent: &[(&str, &str, &str)]) -> Vec<String> {
    let shown = SHOWN.lock().unwrap();
    let mut empty = Vec::new();
    println!(
        "\nkind x verb x direction (J>R: Redisson holds or acts, lockson is kept out or told; R>J: the other way)"
    );
    println!("{:14}{}", "", VERBS.map(|verb| format!("{verb:>11}")).concat());
    for kind in kinds {
        let cell = |verb: &&str| {
            if absent.iter().any(|(of, what, _)| of == kind && what == verb) {
                return format!("{:>11}", "-");
            }
            let has = |direction: &&str| shown.contains(&(kind.to_string(), verb.to_string(), direction.to_string()));
            let both: Vec<&str> = DIRECTIONS.into_iter().filter(has).collect();
            empty.extend((both.len() < 2).then(|| format!("{kind} {verb} has {both:?}")));
            format!("{:>11}", both.join(" "))
        };
        println!("{kind:14}{}", VERBS.iter().map(cell).collect::<String>());
    }
    for (kind, verb, why) in absent.iter().filter(|(kind, ..)| kinds.contains(kind)) {
        println!("- {kind}, {verb}: {why}");
    }
    empty
}
