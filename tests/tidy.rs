//! The style rules of docs/CONTRIBUTING.md that a machine can check.

use std::path::PathBuf;

const CODE_LINES_OF_A_FILE: usize = 400;
const LINES_OF_A_FUNCTION: usize = 70;
const COLUMNS: usize = 120;
struct Source {
    path: String,
    text: String,
    /// The text with comments and the insides of literals blanked, line by line.
    code: String,
}

impl Source {
    /// The code before the unit tests, which end a file.
    fn shipped(&self) -> &str {
        self.code.split("\n#[cfg(test)]\nmod ").next().unwrap()
    }
}

fn read(folder: &str) -> Vec<Source> {
    let root = support::root();
    let (mut folders, mut files) = (vec![root.join(folder)], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    let source = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let path = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        Source { path, code: blanked(&text), text }
    };
    files.iter().map(source).collect()
}

/// Every source file, tests and benches too.
fn all() -> impl Iterator<Item = Source> {
    ["src", "tests", "examples", "benches"].into_iter().flat_map(read)
}

/// Where the comment or literal that begins here ends, if one does.
fn skipped(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |at| at + 2));
    }
    let in_a_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if let Some(raw) = text.strip_prefix('r').or_else(|| text.strip_prefix("br")).filter(|_| !in_a_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let begin = text.len() - raw.len() + hashes + 1;
            return Some(text[begin..].find(&close).map_or(text.len(), |at| begin + at + close.len()));
        }
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    // 'a is a lifetime, 'a' and '\'' are characters.
    let mut inside = text[1..].char_indices();
    let (_, first) = inside.next()?;
    if quote == '\'' && first != '\\' && !text[1 + first.len_utf8()..].starts_with('\'') {
        return None;
    }
    let mut escaped = false;
    for (at, c) in text[1..].char_indices() {
        if c == quote && !escaped {
            return Some(at + 2);
        }
        escaped = c == '\\' && !escaped;
    }
    Some(text.len())
}

fn blanked(text: &str) -> String {
    let (mut code, mut at, mut before) = (String::with_capacity(text.len()), 0, None);
    while let Some(c) = text[at..].chars().next() {
        let length = match skipped(&text[at..], before) {
            Some(length) => {
                code.extend(text[at..at + length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                length
            }
            None => {
                code.push(c);
                c.len_utf8()
            }
        };
        before = Some(c);
        at += length;
    }
    code
}

/// Fails with all that was found at once.
#[track_caller]
fn none(rule: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn the_blanking_knows_literals_from_code() {
    let text = "let a = \"x.unwrap() \\\" {\"; // }\nlet b: &'a str = r#\"\"{\"#; let c = '{';\n";
    let code = blanked(text);
    assert_eq!(code.lines().count(), 2);
    assert!(!code.contains(['{', '}']) && !code.contains("unwrap"), "{code}");
    assert!(code.contains("let b: &'a str ="), "{code}");
}

#[test]
fn files_are_short() {
    let found = all().filter_map(|source| {
        let lines = source.shipped().lines().filter(|line| !line.trim().is_empty()).count();
        (lines > CODE_LINES_OF_A_FILE).then(|| format!("{}: {lines} code lines", source.path))
    });
    none("a file has one noun and at most 400 code lines", found.collect());
}

#[test]
fn functions_are_short() {
    let mut found = vec![];
    for source in all() {
        let lines: Vec<&str> = source.code.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if line.split_whitespace().all(|word| word != "fn") {
                continue;
            }
            let (mut depth, mut open) = (0_i32, false);
            let body = lines[number..].iter().take_while(|line| {
                let ended = open && depth == 0;
                let declared = !open && number > 0 && depth == 0 && line.trim_start().starts_with('}');
                for c in line.chars() {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    open |= c == '{';
                }
                !ended && !declared
            });
            // A function of a trait may have no body, and then it ends with its line.
            let length = if line.trim_end().ends_with(';') { 1 } else { body.count() };
            if length > LINES_OF_A_FUNCTION {
                found.push(format!("{}:{}: {length} lines", source.path, number + 1));
            }
        }
    }
    none("a function has at most 70 lines", found);
}

#[test]
fn lines_are_short() {
    let mut found = vec![];
    for source in all() {
        for (number, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                found.push(format!("{}:{}: {columns} columns", source.path, number + 1));
            }
        }
    }
    none("a line has at most 120 columns", found);
}

/// Whether the code names this crate, and not a module of ours that is called the same (`backend::fred`).
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let is_use = code[..at].ends_with("use ");
        is_word && (code[at + name.len()..].starts_with("::") || is_use)
    })
}

#[test]
fn other_libraries_stay_behind_the_seam() {
    let mut found = vec![];
    for source in read("src") {
        if names_crate(&source.code, "fred") && source.path != "src/backend/fred.rs" {
            found.push(format!("{}: fred", source.path));
        }
        if names_crate(&source.code, "mlua") && !source.path.starts_with("src/backend/embedded/") {
            found.push(format!("{}: mlua", source.path));
        }
    }
    none("only src/backend/fred.rs uses fred, only src/backend/embedded uses mlua", found);
}

#[test]
fn nothing_is_left_to_panic() {
    let mut found = vec![];
    for source in read("src") {
        for (number, line) in source.shipped().lines().enumerate() {
            for word in [".unwrap()", ".expect(", "todo!", "unimplemented!"] {
                if line.contains(word) {
                    found.push(format!("{}:{}: {word}", source.path, number + 1));
                }
            }
        }
    }
    none("what ships has no unwrap and no expect, and nothing is left to do", found);
}

#[test]
fn what_can_fail_says_how() {
    let mut found = vec![];
    for source in read("src") {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in source.shipped().lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if !matches!(words[..], ["pub", "fn", ..] | ["pub", "async" | "const", "fn", ..]) {
                continue;
            }
            let signature: String = source.code.lines().skip(number).collect::<Vec<_>>().join(" ");
            let signature = signature.split(['{', ';']).next().unwrap();
            let docs = lines[..number].iter().rev().map(|line| line.trim());
            let mut docs = docs.take_while(|line| line.starts_with("///") || line.starts_with("#["));
            let returned = signature.rsplit("->").next().filter(|_| signature.contains("->")).unwrap_or_default();
            if returned.contains("Result<") && !docs.any(|line| line == "/// # Errors") {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    none("a public function that returns a Result has a section `# Errors`", found);
}

/// tests/redisson/README.md says which case covers which of Redisson's: each of them exists.
#[test]
fn the_map_of_redissons_tests_names_real_cases() {
    let map = std::fs::read_to_string(support::root().join("tests/redisson/README.md")).unwrap();
    let sources = read("tests");
    let (mut named, mut found) = (0, vec![]);
    for case in map.split('`').skip(1).step_by(2) {
        let Some((file, name)) = case.split_once("::") else { continue };
        named += 1;
        let (one, folder) = (format!("tests/{file}.rs"), format!("tests/{file}/"));
        let is_there = sources.iter().any(|source| {
            (source.path == one || source.path.starts_with(&folder)) && source.code.contains(&format!("fn {name}("))
        });
        found.extend((!is_there).then(|| case.to_owned()));
    }
    assert!(named > 50, "the map was not read: {named}");
    none("a case that is named in tests/redisson/README.md exists", found);
}

/// `6.A.2b` of the docs is `id_6_a_2b` in the code.
fn begin_of(id: &str) -> String {
    format!("id_{}", id.replace('.', "_").to_lowercase())
}

/// docs/WEAKNESSES.md has a row for each test of a weakness; a row is marked if its scenario is run on the jar, or says
/// below the table why it is not.
#[test]
fn each_weakness_is_shown_on_the_jar_or_says_why_not() {
    let root = support::root();
    let docs = std::fs::read_to_string(root.join("docs/WEAKNESSES.md")).unwrap();
    let functions = |folder: &str| -> Vec<String> {
        let code: String = read(folder).into_iter().map(|source| source.code).collect();
        let names = code.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        names.filter(|name| name.starts_with("id_")).map(str::to_owned).collect()
    };
    let (ours, jar) = (functions("tests/weaknesses"), functions("tests/interop/jar"));
    let list = std::fs::read_to_string(root.join("tests/interop/jar/mod.rs")).unwrap();
    let (mut claimed, mut found) = (Vec::<String>::new(), vec![]);
    for row in docs.lines().filter(|line| line.starts_with("| ") && line.contains("`id_")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (id, test) = (cells[1].trim_end_matches(" •"), cells[4].trim_matches('`').trim_end_matches(".."));
        let (scenario, reason) = (begin_of(id), format!("\n- {id}: "));
        match (cells[1].ends_with('•'), jar.contains(&scenario), docs.contains(&reason)) {
            (true, true, false) if list.contains(&format!("::{scenario},")) => {}
            (false, false, true) => {}
            (marked, runs, says) => found.push(format!("{id}: marked {marked}, run {runs}, left out {says}")),
        }
        if !test.starts_with(&scenario) || !ours.iter().any(|name| name.starts_with(test)) {
            found.push(format!("{id}: no test `{test}`"));
        }
        claimed.push(test.to_owned());
    }
    let unclaimed = ours.iter().filter(|name| !claimed.iter().any(|test| name.starts_with(test.as_str())));
    found.extend(unclaimed.map(|name| format!("{name} has no row")));
    let extra = jar.iter().filter(|name| !claimed.iter().any(|test| test.starts_with(&format!("{name}_"))));
    found.extend(extra.map(|name| format!("{name} of the jar has no row")));
    assert!(claimed.len() > 50, "the table was not read: {}", claimed.len());
    none("docs/WEAKNESSES.md, tests/weaknesses and tests/interop/jar say the same", found);
}
