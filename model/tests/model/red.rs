//! Red votes.

use lockson_model::red::{Scope, Without, EXCLUSION, NOTHING_LEFT};
use lockson_model::search::search;

use crate::soak;

#[test]
fn red_vote() {
    search("red vote: 2 candidates", Scope::new(2, 1, 1, 1)).holds();
    if soak() {
        search("red vote: 2 candidates, 2 rounds", Scope::new(2, 2, 1, 3)).holds();
        search("red vote: 2 candidates, 2 faults", Scope::new(2, 1, 2, 2)).holds();
    }
}

#[test]
fn no_majority_stands_without_its_rule() {
    let broken = |name: &str, scope: Scope, property: &str| search(name, scope).breaks(property);
    broken("without rest", Scope::new(2, 1, 1, 1).without(Without::Rest), EXCLUSION);
    let marked = "local since, run = whole_since(ARGV[#ARGV])";
    let old = Scope::new(2, 1, 1, 1).with(marked, "local since, run = 1, 'run'");
    broken("without the marker", old, EXCLUSION);
    broken("without a majority", Scope::new(2, 1, 1, 1).without(Without::Majority), EXCLUSION);
    broken("without giving back", Scope::new(2, 1, 1, 2).without(Without::GiveBack), NOTHING_LEFT);
}
