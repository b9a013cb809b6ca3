//! The mutants of the Rust core: those that cargo-mutants lists, and those of docs/MUTANTS.md that change nothing.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::files;

use crate::blocks::equivalents;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Genre {
    Body,
    Binary,
    Unary,
    Arm,
    Guard,
    Field,
}

#[derive(Debug, Clone)]
pub struct Mutant {
    /// What the switch is set to for it: one of the list of today, from 1 on.
    pub id: usize,
    pub file: String,
    /// With its place.
    pub name: String,
    pub genre: Genre,
    /// Where what is replaced begins in the file, in bytes.
    pub at: usize,
    pub replacement: String,
    /// What is done, and the lines that come of it.
    what: String,
    lines: String,
    /// Why it does what the original does.
    pub equivalent: Option<String>,
}

impl Mutant {
    /// As docs/MUTANTS.md has it, with its line.
    pub fn diff(&self) -> String {
        let lines: String = self.lines.lines().map(|line| format!("+ {line}\n")).collect();
        format!("# {}\n- {}\n{lines}", self.name, self.what)
    }

    pub fn room(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }
}

/// Where this line and column, both from 1 on, are in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let before: usize = text[start..].chars().take(column - 1).map(char::len_utf8).sum();
    start + before
}

/// The lines that a diff puts in, without the comment that cargo-mutants leaves there, in one spelling.
fn lines_in(diff: &str) -> String {
    let lines = diff.lines().skip(2).filter_map(|line| line.strip_prefix('+'));
    let clean = lines.map(|line| line.replace("/* ~ changed by cargo-mutants ~ */", " "));
    let flat = clean.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    flat.collect::<Vec<_>>().join("\n")
}

fn genre(name: &str) -> Genre {
    match name {
        "FnValue" => Genre::Body,
        "BinaryOperator" => Genre::Binary,
        "UnaryOperator" => Genre::Unary,
        "MatchArm" => Genre::Arm,
        "MatchArmGuard" => Genre::Guard,
        "StructField" => Genre::Field,
        other => panic!("{other}: cargo-mutants has learned something"),
    }
}

pub fn listed(path: &Path) -> Vec<Mutant> {
    let list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let (mut texts, reasons) = (HashMap::new(), equivalents());
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let made = list.as_array().unwrap().iter().enumerate().map(|(at, value)| {
        let (file, name) = (word(&value["file"]), word(&value["name"]));
        let text: &String = texts.entry(file.clone()).or_insert_with(|| files::read(&file));
        let start = &value["span"]["start"];
        let [line, column] = ["line", "column"].map(|of| start[of].as_u64().unwrap() as usize);
        let (_, what) = name.split_once(": ").unwrap();
        let (what, lines) = (what.to_owned(), lines_in(value["diff"].as_str().unwrap()));
        let id = (file.clone(), what, lines);
        let equivalent = reasons.get(&id).cloned();
        let (_, what, lines) = id;
        Mutant {
            id: at + 1,
            at: offset(text, line, column),
            genre: genre(value["genre"].as_str().unwrap()),
            replacement: word(&value["replacement"]),
            file,
            name,
            what,
            lines,
            equivalent,
        }
    });
    made.collect()
}
