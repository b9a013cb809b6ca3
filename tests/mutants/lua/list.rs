//! The mutants: those that operators make, those of `known.diff`, and those of docs/MUTANTS.md that change nothing.

use std::collections::BTreeMap;

use lockson::{EmbeddedServer, Reply};

use super::operators::changes;
use super::patch::fitted;
use crate::blocks::{blocks, equivalents, Block};

#[derive(Debug, Clone)]
pub struct Mutant {
    /// From `lua/` on, without its ending.
    pub script: String,
    pub operator: String,
    /// The lines that differ.
    pub old: String,
    pub new: String,
    pub line: usize,
    /// The whole text of the script.
    pub text: String,
    /// Why it does what the original does.
    pub equivalent: Option<String>,
}

impl Mutant {
    fn id(&self) -> (String, String, String) {
        let flat = |lines: &str| lines.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        (self.script.clone(), flat(&self.old), flat(&self.new))
    }

    /// On one line.
    pub fn name(&self) -> String {
        self.diff().trim_end().replace('\n', " ¦ ")
    }

    /// As a diff has it.
    pub fn diff(&self) -> String {
        let side = |sign: &str, lines: &str| -> String {
            lines.lines().map(|line| format!("{sign} {}\n", line.trim())).collect()
        };
        let Mutant { script, line, operator, .. } = self;
        format!("# {script}:{line} {operator}\n{}{}", side("-", &self.old), side("+", &self.new))
    }
}

/// The whole lines from `at` to `end`.
fn lines_of(text: &str, at: usize, end: usize) -> &str {
    let from = text[..at].rfind('\n').map_or(0, |before| before + 1);
    let to = text[end..].find('\n').map_or(text.len(), |more| end + more);
    &text[from..to]
}

/// Whether Lua takes it.
fn compiles(text: &str) -> bool {
    let server = EmbeddedServer::new();
    server.eval("return loadstring(ARGV[1]) and 1 or 0", &[], &[text]) == Ok(Reply::Int(1))
}

pub fn generated(texts: &BTreeMap<String, String>) -> Vec<Mutant> {
    let mut made = BTreeMap::new();
    for (script, text) in texts {
        for change in changes(text) {
            let whole = format!("{}{}{}", &text[..change.at.start], change.new, &text[change.at.end..]);
            let line = text[..change.at.start].matches('\n').count() + 1;
            let old = lines_of(text, change.at.start, change.at.end).to_owned();
            let new = lines_of(&whole, change.at.start, change.at.start + change.new.len()).to_owned();
            let Some(text) = fitted(text, &whole).filter(|text| compiles(text)) else { continue };
            let (script, operator) = (script.clone(), change.operator.to_owned());
            let mutant = Mutant { script, operator, old, new, line, text, equivalent: None };
            // The same line twice in a file: each is a mutant of its own.
            made.insert((mutant.script.clone(), line, mutant.new.clone()), mutant);
        }
    }
    let reasons = equivalents();
    let mut made: Vec<Mutant> = made.into_values().collect();
    for mutant in &mut made {
        mutant.equivalent = reasons.get(&mutant.id()).cloned();
    }
    made
}

/// The list that was written by hand, each by its number. One whose lines are not there any more fails.
pub fn known(texts: &BTreeMap<String, String>) -> Vec<Mutant> {
    let made = blocks(include_str!("known.diff")).into_iter().map(|Block { title, old, new }| {
        let (id, rest) = title.split_once(' ').unwrap();
        let (script, what) = rest.split_once(": ").unwrap();
        let original = &texts[script];
        let (old, new) = (old.trim_end().to_owned(), new.trim_end().to_owned());
        assert_eq!(original.matches(&old).count(), 1, "{id} {script}: stands there once: {old}");
        let whole = original.replace(&old, &new);
        let text = fitted(original, &whole).filter(|text| compiles(text));
        let text = text.unwrap_or_else(|| panic!("{id} {script}: is no script"));
        let line = original[..original.find(&old).unwrap()].matches('\n').count() + 1;
        Mutant { script: script.to_owned(), operator: format!("{id} {what}"), old, new, line, text, equivalent: None }
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::lua::patch::texts;

    /// A list that no script has the lines of any more judges nothing.
    #[test]
    fn the_lists_are_of_the_scripts_as_they_are() {
        let texts = texts();
        assert_eq!(known(&texts).len(), 98);
        let made: BTreeSet<_> = generated(&texts).iter().map(Mutant::id).collect();
        let gone: Vec<_> = equivalents().into_iter().filter(|(id, _)| !made.contains(id)).collect();
        assert!(gone.is_empty(), "docs/MUTANTS.md lists what no operator makes: {gone:#?}");
    }
}
