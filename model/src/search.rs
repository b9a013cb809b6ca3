//! One search: all states that can be reached, what was asserted of each, and what it came to.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, DiscoveryClassification, Expectation, HasDiscoveries, Model};

/// What a search came to.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub depth: usize,
    /// The properties that were broken, each with the shortest way to a state that does.
    pub broken: Vec<(String, String)>,
}

/// Searches breadth first, and prints how much there was.
///
/// # Panics
/// Where a state that has to be reached somewhere was not: then the search proves nothing.
pub fn search<M>(name: &str, model: M) -> Found
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Debug + Send + Sync + Clone + PartialEq + 'static,
    M::Action: Debug + Send + Sync + Clone + PartialEq + 'static,
{
    let began = Instant::now();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f64();
    let mut broken = Vec::new();
    let mut reached = Vec::new();
    for (property, path) in checker.discoveries() {
        if matches!(checker.discovery_classification(property), DiscoveryClassification::Counterexample) {
            let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
            broken.push((property.to_owned(), steps.join("\n  ")));
        } else {
            reached.push(property);
        }
    }
    let found = Found { states: checker.unique_state_count(), depth: checker.max_depth(), broken };
    let verdict = if found.broken.is_empty() { "0 violations" } else { "broken" };
    let (states, depth) = (found.states, found.depth);
    println!("{name:<44} {states:>9} states  depth {depth:>3}  {seconds:>7.1} s  {verdict}");
    if found.broken.is_empty() {
        for property in checker.model().properties() {
            let is_reached = reached.contains(&property.name);
            let is_to_be = matches!(property.expectation, Expectation::Sometimes);
            assert!(!is_to_be || is_reached, "{name}: never {}", property.name);
        }
    }
    found
}

impl Found {
    /// # Panics
    /// Where a property was broken.
    #[track_caller]
    pub fn holds(self) {
        if let Some((property, path)) = self.broken.first() {
            panic!("broken: {property}\n  {path}");
        }
    }

    /// # Panics
    /// Where this property was not broken.
    #[track_caller]
    pub fn breaks(self, property: &str) {
        assert!(self.broken.iter().any(|(broken, _)| broken == property), "{property}: {:#?}", self.broken);
    }
}
