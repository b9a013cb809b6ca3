//! Lists of mutants as diffs have them: those written by hand, and those of docs/MUTANTS.md that change nothing.

use std::collections::BTreeMap;

use support::files;

/// Its first line, what is taken out, what is put in.
pub struct Block {
    pub title: String,
    pub old: String,
    pub new: String,
}

pub fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::<Block>::new();
    for line in text.lines() {
        match (line.split_once(' ').map_or((line, ""), |(sign, rest)| (sign, rest)), found.last_mut()) {
            (("#", title), _) => {
                found.push(Block { title: title.to_owned(), old: String::new(), new: String::new() });
            }
            (("-", rest), Some(block)) => block.old += &format!("{rest}\n"),
            (("+", rest), Some(block)) => block.new += &format!("{rest}\n"),
            _ => {}
        }
    }
    found
}

/// What docs/MUTANTS.md says of those that do what the original does: by file, what is taken out, what is put in.
pub fn equivalents() -> BTreeMap<(String, String, String), String> {
    let mut reasons = BTreeMap::new();
    for Block { title, old, new } in blocks(&files::read("docs/MUTANTS.md")) {
        let Some((file, reason)) = title.split_once(": ") else { continue };
        reasons.insert((file.to_owned(), old.trim_end().to_owned(), new.trim_end().to_owned()), reason.to_owned());
    }
    reasons
}
