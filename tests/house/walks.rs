//! The walks of the document: what a reader meets on the way of one call.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::types::{Index, Type};

/// Functions in the order of a call, as the document lists them.
pub struct Walk {
    pub name: String,
    functions: Vec<String>,
}

/// A function, and the types that are met in it for the first time.
struct Step {
    function: usize,
    types: Vec<Type>,
}

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

    fn steps(&self, index: &Index) -> Result<Vec<Step>, String> {
        let (mut steps, mut met) = (Vec::new(), Vec::<Type>::new());
        for name in &self.functions {
            let function = index.find(name).map_err(|why| format!("{}: {why}", self.name))?;
            let types: Vec<Type> =
                index.named(function, &met).types.into_iter().filter(|found| !met.contains(found)).collect();
            met.extend(types.iter().cloned());
            steps.push(Step { function, types });
        }
        Ok(steps)
    }

    /// Functions, types, files that declare these.
    pub fn count(&self, index: &Index) -> Result<[usize; 3], String> {
        let steps = self.steps(index)?;
        let types: Vec<&Type> = steps.iter().flat_map(|step| &step.types).collect();
        let files: BTreeSet<&String> = types.iter().map(|(file, _)| file).collect();
        Ok([steps.len(), types.len(), files.len()])
    }

    /// Step by step; and what it comes to with all that these functions call, down to the last.
    pub fn print(&self, index: &Index) -> Result<String, String> {
        let (steps, [functions, types, files]) = (self.steps(index)?, self.count(index)?);
        let mut text = format!("{}: {types} types in {files} files, by {functions} functions\n", self.name);
        let mut number = 0;
        for (step, name) in steps.iter().zip(&self.functions) {
            writeln!(text, "      {name}").unwrap();
            for (file, found) in &step.types {
                number += 1;
                writeln!(text, "  {number:>3}   {found:<16} {file}").unwrap();
            }
        }
        let walked: Vec<usize> = steps.iter().map(|step| step.function).collect();
        let (mut all, mut todo, mut met) = (BTreeSet::new(), walked.clone(), BTreeSet::new());
        while let Some(function) = todo.pop() {
            if all.insert(function) {
                let named = index.named(function, &[]);
                todo.extend(named.calls);
                met.extend(named.types);
            }
        }
        let files: BTreeSet<&String> = met.iter().map(|(file, _)| file).collect();
        let (called, types, files) = (all.len(), met.len(), files.len());
        writeln!(text, "  with all that they call: {types} types in {files} files, by {called} functions:").unwrap();
        let beside = all.iter().filter(|function| !walked.contains(function));
        let beside: Vec<String> = beside.map(|at| index.functions[*at].route.join("::")).collect();
        writeln!(text, "    {}", beside.join("\n    ")).unwrap();
        Ok(text)
    }
}
