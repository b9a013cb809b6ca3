//! Where the mutants of a file stand: which part of its syntax each replaces.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::list::{Genre, Mutant};

/// What a mutant replaces, with the parts that others may stand in, in bytes.
#[derive(Debug, Clone)]
pub enum Part {
    /// The value of a function: it returns before it begins.
    Body,
    Binary {
        left: Range<usize>,
        right: Range<usize>,
    },
    Unary {
        operand: Range<usize>,
    },
    /// The condition of an arm of a match; without one, there is nothing yet.
    Arm {
        has_guard: bool,
    },
    Guard,
    /// Which field of a struct that takes the others from elsewhere, with its comma.
    Field {
        field: Range<usize>,
    },
}

#[derive(Debug, Clone)]
pub struct Site<'a> {
    pub whole: Range<usize>,
    pub part: Part,
    /// All that stand in this place.
    pub mutants: Vec<&'a Mutant>,
}

impl Site<'_> {
    /// An outer one comes before those in it, and of those in the same place the one that the others are part of.
    fn order(&self) -> (usize, bool, std::cmp::Reverse<usize>, usize) {
        let rank = match self.part {
            Part::Body => 0,
            Part::Arm { .. } => 1,
            Part::Guard => 2,
            Part::Field { .. } | Part::Binary { .. } | Part::Unary { .. } => 3,
        };
        (self.whole.start, !self.whole.is_empty(), std::cmp::Reverse(self.whole.end), rank)
    }
}

/// Gathers the sites by where cargo-mutants says that they begin.
struct Finder<'a> {
    wanted: Vec<&'a Mutant>,
    found: BTreeMap<usize, (Range<usize>, Part)>,
    text: &'a str,
}

impl Finder<'_> {
    fn see(&mut self, genre: Genre, at: &Range<usize>, whole: Range<usize>, part: Part) {
        let here = self.wanted.iter().filter(|mutant| mutant.genre == genre && mutant.at == at.start);
        let ids: Vec<usize> = here.map(|mutant| mutant.id).collect();
        self.found.extend(ids.into_iter().map(|id| (id, (whole.clone(), part.clone()))));
    }
}

fn bytes(span: Span) -> Range<usize> {
    span.byte_range()
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let [left, operator, right] = [binary.left.span(), binary.op.span(), binary.right.span()].map(bytes);
        let part = Part::Binary { left, right };
        self.see(Genre::Binary, &operator, bytes(binary.span()), part);
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let part = Part::Unary { operand: bytes(unary.expr.span()) };
        self.see(Genre::Unary, &bytes(unary.op.span()), bytes(unary.span()), part);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let end = bytes(arm.pat.span()).end;
        let guard = arm.guard.as_ref().map(|(_, guard)| bytes(guard.span()));
        let whole = guard.clone().unwrap_or(end..end);
        self.see(Genre::Arm, &bytes(arm.span()), whole, Part::Arm { has_guard: guard.is_some() });
        if let Some(guard) = guard {
            self.see(Genre::Guard, &guard.clone(), guard, Part::Guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, made: &'ast syn::ExprStruct) {
        for field in &made.fields {
            let mut range = bytes(field.span());
            let rest = &self.text[range.end..];
            range.end += rest.find(',').map_or(0, |comma| comma + 1);
            self.see(Genre::Field, &range.clone(), bytes(made.span()), Part::Field { field: range });
        }
        visit::visit_expr_struct(self, made);
    }
}

/// The sites of these mutants, which are of one file, outer ones first. Fails where one isn't found.
pub fn sites<'a>(text: &'a str, mutants: &[&'a Mutant]) -> Vec<Site<'a>> {
    let mut finder = Finder { wanted: mutants.to_vec(), found: BTreeMap::new(), text };
    finder.visit_file(&syn::parse_file(text).unwrap());
    let mut sites = Vec::<Site<'_>>::new();
    for &mutant in mutants {
        let (whole, part) = match mutant.genre {
            Genre::Body => (mutant.at..mutant.at, Part::Body),
            _ => finder.found.get(&mutant.id).cloned().unwrap_or_else(|| panic!("not found: {}", mutant.name)),
        };
        let is_same = |site: &&mut Site<'_>| site.whole == whole && site.mutants[0].genre == mutant.genre;
        let is_field = mutant.genre == Genre::Field;
        match sites.iter_mut().find(is_same).filter(|_| !is_field) {
            Some(site) => site.mutants.push(mutant),
            None => sites.push(Site { whole, part, mutants: vec![mutant] }),
        }
    }
    sites.sort_by_key(Site::order);
    sites
}
