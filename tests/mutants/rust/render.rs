//! The text of a file with all its mutants, each behind its switch.

use std::ops::Range;

use super::list::Mutant;
use super::sites::{sites, Part, Site};

/// How an arm that is left out, and a function that returns at once, look here.
pub const ARM: &str = "*/!crate::mutant::is";
pub const RETURN: &str = "{ return ";

/// A comment before and behind what belongs to a mutant, by which an error of the compiler finds it.
fn marked(mutants: &[&Mutant], text: &str) -> String {
    let ids: Vec<String> = mutants.iter().map(|mutant| mutant.id.to_string()).collect();
    let ids = ids.join(",");
    format!("/*<{ids}*/{text}/*{ids}>*/")
}

fn switch(mutant: &Mutant) -> String {
    format!("crate::mutant::is({})", mutant.id)
}

struct Page<'a> {
    text: &'a str,
    sites: Vec<Site<'a>>,
}

impl Page<'_> {
    /// The text of a range with the sites in it, but for those up to the `from`th.
    fn render(&self, range: Range<usize>, from: usize) -> String {
        let (mut made, mut at) = (String::new(), range.start);
        for (index, site) in self.sites.iter().enumerate().skip(from) {
            let is_inside = site.whole.start >= at && site.whole.end <= range.end;
            // What comes behind is another's, unless it is the range itself.
            if is_inside && (site.whole.start < range.end || range.is_empty()) {
                made += &self.text[at..site.whole.start];
                made += &self.site(site, index);
                at = site.whole.end;
            }
        }
        made + &self.text[at..range.end]
    }

    fn site(&self, site: &Site<'_>, index: usize) -> String {
        let inner = |range: &Range<usize>| self.render(range.clone(), index + 1);
        let original = inner(&site.whole);
        let choice = |mutated: &dyn Fn(&Mutant) -> String| {
            let one =
                |mutant: &&Mutant| marked(&[*mutant], &format!("if {} {{ {} }} else", switch(mutant), mutated(mutant)));
            let all: Vec<String> = site.mutants.iter().map(one).collect();
            marked(&site.mutants, &format!("({} {{ {original} }})", all.join(" ")))
        };
        match &site.part {
            Part::Body => {
                let one = |mutant: &&Mutant| {
                    marked(&[*mutant], &format!("if {} {RETURN}{}; }} ", switch(mutant), mutant.replacement))
                };
                site.mutants.iter().map(one).collect()
            }
            Part::Binary { left, right, .. } => {
                choice(&|mutant| format!("({}) {} ({})", inner(left), mutant.replacement, inner(right)))
            }
            Part::Unary { operand } => choice(&|_| inner(operand)),
            Part::Arm { has_guard } => {
                let off = marked(&site.mutants, &format!("!{}", switch(site.mutants[0])));
                if *has_guard {
                    format!("{off} && ({original})")
                } else {
                    format!(" if {off}")
                }
            }
            Part::Guard => choice(&|mutant| mutant.replacement.clone()),
            Part::Field { field } => {
                choice(&|_| inner(&(site.whole.start..field.start)) + &inner(&(field.end..site.whole.end)))
            }
        }
    }
}

pub fn rendered(text: &str, mutants: &[&Mutant]) -> String {
    if mutants.is_empty() {
        return text.to_owned();
    }
    let page = Page { text, sites: sites(text, mutants) };
    page.render(0..text.len(), 0)
}

/// The mutants to which a range of the rendered text belongs: the innermost.
pub fn blamed(rendered: &str, range: &Range<usize>) -> Vec<usize> {
    let (before, behind) = (&rendered[..range.start], &rendered[range.end..]);
    for (at, _) in before.rmatch_indices("/*<") {
        let Some((ids, _)) = before[at + "/*<".len()..].split_once("*/") else { continue };
        let end = format!("/*{ids}>*/");
        // Not closed before it.
        if !before[at..].contains(&end) && behind.contains(&end) {
            return ids.split(',').map(|id| id.parse().unwrap()).collect();
        }
    }
    Vec::new()
}
