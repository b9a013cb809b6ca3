//! The style rules of docs/CONTRIBUTING.md that a machine can check, and neither rustfmt nor clippy does.

use std::collections::BTreeSet;

use support::files;

const CODE_LINES_OF_A_FILE: usize = 400;
const COLUMNS: usize = 120;

struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The lines of code before the unit tests, without comments and blank ones. A string that goes on is one.
    fn shipped(&self) -> Vec<String> {
        let text = self.text.split("\n#[cfg(test)]\nmod ").next().unwrap().replace("\\\n", "");
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        lines.map(str::to_owned).collect()
    }
}

fn read(folder: &str) -> impl Iterator<Item = Source> {
    let files = files::below(folder).into_iter().filter(|path| path.ends_with(".rs"));
    files.map(|path| Source { text: files::read(&path), path })
}

/// Every source file, tests and benches too.
fn all() -> impl Iterator<Item = Source> {
    let folders = [
        "src",
        "cli",
        "embedded/src",
        "simulator/src",
        "testkit",
        "tests",
        "model",
        "examples",
        "benches",
        "services",
        "tower",
    ];
    folders.into_iter().flat_map(read)
}

/// Fails with all that was found at once.
#[track_caller]
fn none(rule: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn files_and_lines_are_short() {
    let mut found = vec![];
    for source in all() {
        let lines = source.shipped().len();
        found.extend((lines > CODE_LINES_OF_A_FILE).then(|| format!("{}: {lines} code lines", source.path)));
        let lines = source.text.lines().enumerate().map(|(number, line)| (number + 1, line.chars().count()));
        let long = lines.filter(|(_, columns)| *columns > COLUMNS);
        found.extend(long.map(|(number, columns)| format!("{}:{number}: {columns} columns", source.path)));
    }
    none("a file has one noun and at most 400 code lines, a line at most 120 columns", found);
}

/// Whether a line of code names this crate, and not a module of ours that is called the same (`backend::fred`).
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let is_word = !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '"'));
        is_word && (line[at + name.len()..].starts_with("::") || line[..at].ends_with("use "))
    })
}

#[test]
fn other_libraries_stay_behind_the_seam() {
    let mut found = vec![];
    for source in read("src") {
        let embedded = ["src/client/embedded.rs", "src/backend/embedded.rs"];
        let fred = ["src/backend/fred.rs", "src/backend/fred_call.rs", "src/backend/fred_config.rs"];
        for (name, homes) in [("fred", &fred[..]), ("lockson_embedded", &embedded)] {
            let names = source.shipped().iter().any(|line| names_crate(line, name));
            let strays = names && !homes.contains(&source.path.as_str());
            found.extend(strays.then(|| format!("{}: {name}", source.path)));
        }
    }
    none(
        "fred is used by fred.rs, fred_call.rs and fred_config.rs of src/backend, lockson_embedded by the embedded.rs",
        found,
    );
}

/// The path of a source that a document or a comment names.
fn named_files(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)));
    words.filter(|word| word.contains('/') && word.ends_with(".rs"))
}

#[test]
fn files_that_are_named_exist() {
    let others = ["README.md", "tests/redisson/README.md"].map(str::to_owned);
    let documents = files::below("docs").into_iter().chain(others);
    let mut texts: Vec<(String, String)> = documents.map(|path| (files::read(&path), path)).collect();
    for source in all() {
        let comments: Vec<&str> = source.text.lines().filter(|line| line.trim().starts_with("//")).collect();
        texts.push((comments.join("\n"), source.path));
    }
    let named = texts.iter().flat_map(|(text, path)| named_files(text).map(move |file| (file, path)));
    let is_there = |file: &str| ["", "src"].iter().any(|folder| support::root().join(folder).join(file).exists());
    let strays = named.filter(|(file, _)| !is_there(file));
    none("a file that is named exists", strays.map(|(file, path)| format!("{path}: {file}")).collect());
}

/// `suite::case`, and not `Type::function`.
fn is_case(name: &str) -> bool {
    name.contains("::") && name.starts_with(|first: char| first.is_lowercase())
}

/// Which of these cases there are not. A case is named by its suite, as in `wakeups::a_gap_wakes_every_waiter`.
fn missing<'a>(cases: impl Iterator<Item = &'a str>) -> Vec<String> {
    let sources: Vec<Source> = read("tests").collect();
    let is_missing = |case: &&str| {
        let Some((file, name)) = case.split_once("::") else { return false };
        let (one, folder, begin) = (format!("tests/{file}.rs"), format!("tests/{file}/"), format!("fn {name}("));
        let is_of = |source: &&Source| source.path == one || source.path.starts_with(&folder);
        !sources.iter().filter(is_of).any(|source| source.text.contains(&begin))
    };
    cases.filter(is_missing).map(str::to_owned).collect()
}

/// Which case covers which of Redisson's and of its faults, and which one shows a pitfall.
#[test]
fn cases_that_documents_name_exist() {
    for (path, least) in [("tests/redisson/README.md", 50), ("docs/PITFALLS.md", 12), ("docs/WEAKNESSES.md", 30)] {
        let text = files::read(path);
        let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|case| is_case(case)).collect();
        assert!(named.len() >= least, "{path} was not read: {}", named.len());
        none(&format!("a case that is named in {path} exists"), missing(named.into_iter()));
    }
}

/// docs/WEAKNESSES.md has a row for each test of a weakness, marked if it is run on the jar, or said why it is not.
#[test]
fn each_weakness_is_shown_on_the_jar_or_says_why_not() {
    let docs = files::read("docs/WEAKNESSES.md");
    let functions = |folder: &str| -> Vec<String> {
        let code: String = read(folder).map(|source| source.text).collect();
        let names = code.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        names.filter(|name| name.starts_with("id_")).map(str::to_owned).collect()
    };
    let (ours, jar) = (functions("tests/weaknesses"), functions("tests/interop/jar"));
    let list = files::read("tests/interop/jar/mod.rs");
    let (mut scenarios, mut cases, mut found) = (vec![], vec![], vec![]);
    for row in docs.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (id, case) = (cells[1].trim_end_matches(" •"), cells[4].trim_matches('`').trim_end_matches(".."));
        // `6.A.2b` of the docs is `id_6_a_2b` in the code.
        let scenario = format!("id_{}", id.replace('.', "_").to_lowercase());
        match (cells[1].ends_with('•'), jar.contains(&scenario), docs.contains(&format!("\n- {id}: "))) {
            (true, true, false)
                if list.split(|at: char| !at.is_alphanumeric() && at != '_').any(|case| case == scenario) => {}
            (false, false, true) => {}
            (marked, runs, says) => found.push(format!("{id}: marked {marked}, run {runs}, left out {says}")),
        }
        let is_there = case.contains("::") || ours.iter().any(|name| name.starts_with(case));
        found.extend((!is_there).then(|| format!("{id}: no test `{case}`")));
        scenarios.push(scenario);
        cases.push(case);
    }
    let has_row = |name: &String| cases.iter().any(|case| name.starts_with(case.trim_start_matches("weaknesses::")));
    found.extend(ours.iter().filter(|name| !has_row(name)).map(|name| format!("{name} has no row")));
    found.extend(
        jar.iter().filter(|name| !scenarios.contains(name)).map(|name| format!("{name} of the jar has no row")),
    );
    assert!(cases.len() > 50, "the table was not read: {}", cases.len());
    none("docs/WEAKNESSES.md, tests/weaknesses and tests/interop/jar say the same", found);
}

/// Text and level of each line that this code has an operator told by `tracing`.
fn told(code: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    for level in ["error", "warn", "info"] {
        for (at, call) in code.match_indices(&format!("tracing::{level}!(")) {
            // The first text is the target, the second what is told, if that does not stand before the call.
            let text = match code[at + call.len()..].split('"').nth(3) {
                Some("{text}") => code[..at].rsplit("let text = \"").next().and_then(|rest| rest.split('"').next()),
                text => text,
            };
            let text = text.expect("a call has a text").split_whitespace().collect::<Vec<_>>().join(" ");
            found.push((text, level.to_uppercase()));
        }
    }
    found
}

/// For an operator who looks a line up that stands in the log.
#[test]
fn each_line_of_the_log_is_in_the_catalogue() {
    let told: BTreeSet<_> = read("src").flat_map(|source| told(&source.shipped().join(" "))).collect();
    let docs = files::read("docs/OPERATIONS.md");
    let cells = docs.lines().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() > 3 && ["ERROR", "WARN", "INFO"].contains(&cells[2]));
    let rows: BTreeSet<_> = rows.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())).collect();
    assert!(told.len() > 30, "the sources were not read: {}", told.len());
    let strays = told.symmetric_difference(&rows).map(|(text, level)| format!("{level} {text}")).collect();
    none("docs/OPERATIONS.md has each line of the log of src/, and no other", strays);
}
