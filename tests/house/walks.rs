//! The walks of the document: what a reader meets on the way of one call; and the parts of it that are written here.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::rooms::House;
use super::types::{Index, Type};

/// Functions in the order of a call, as the document lists them.
pub struct Walk {
    name: String,
    functions: Vec<String>,
}

/// A function, and the types that are met in it for the first time.
type Step<'a> = (&'a String, Vec<Type>);

impl Walk {
    /// Those of the section `## Walks`: a heading each, and functions as code.
    pub fn read(document: &str) -> Vec<Self> {
        let section = document.split("\n## Walks\n").nth(1).unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        let walks = section.split("\n### ").skip(1).map(|walk| {
            let (name, text) = walk.split_once('\n').unwrap_or((walk, ""));
            let code = text.split('`').skip(1).step_by(2).filter(|code| code.contains("::"));
            Self { name: name.trim().to_owned(), functions: code.map(str::to_owned).collect() }
        });
        walks.collect()
    }

    fn steps(&self, index: &Index) -> Result<Vec<Step<'_>>, String> {
        let mut met = Vec::<Type>::new();
        let steps = self.functions.iter().map(|name| {
            let mut types = index.named(name, &met).map_err(|why| format!("{}: {why}", self.name))?;
            types.retain(|found| !met.contains(found));
            met.extend(types.iter().cloned());
            Ok((name, types))
        });
        steps.collect()
    }

    /// `9 types in 8 files`.
    pub fn count(&self, index: &Index) -> Result<String, String> {
        let types: BTreeSet<Type> = self.steps(index)?.into_iter().flat_map(|(_, types)| types).collect();
        let files: BTreeSet<&String> = types.iter().map(|(file, _)| file).collect();
        Ok(format!("{} types in {} files", types.len(), files.len()))
    }

    pub fn print(&self, index: &Index) -> Result<String, String> {
        let steps = self.steps(index)?;
        let mut text = format!("{}: {}, by {} functions\n", self.name, self.count(index)?, steps.len());
        let mut numbers = 1..;
        for (name, types) in &steps {
            writeln!(text, "      {name}").unwrap();
            for ((file, found), number) in types.iter().zip(&mut numbers) {
                writeln!(text, "  {number:>3}   {found:<16} {file}").unwrap();
            }
        }
        Ok(text)
    }
}

/// The document with what this code writes in it, as it is now; counts from before the rooms stay as they are.
pub fn written(document: &str, house: &House, index: &Index) -> Result<String, String> {
    let mut written = document.to_owned();
    for name in ["drawing", "walks"] {
        let begin = format!("<!-- written by tests/house: {name} -->\n");
        let (_, old) = document.split_once(&begin).ok_or(format!("the document has no `{}`", begin.trim()))?;
        let old = old.split("<!-- end -->").next().unwrap_or(old);
        let mut new = format!("```text\n{}\n```\n", house.drawing());
        if name == "walks" {
            new = String::from("| walk | before | now |\n|---|---|---|\n");
            for walk in Walk::read(document) {
                let (name, now) = (&walk.name, walk.count(index)?);
                let row = old.lines().find_map(|row| row.strip_prefix(&format!("| {name} | ")));
                let before = row.and_then(|row| row.split(" |").next()).unwrap_or(&now);
                writeln!(new, "| {name} | {before} | {now} |").unwrap();
            }
        }
        written = written.replace(&format!("{begin}{old}"), &format!("{begin}{new}"));
    }
    Ok(written)
}
