//! The searches: each scope holds, and breaks without any of the rules that hold it.

use lockson_model::locks::{Kind, Owner, Scope, Step, Verb, Without};
use lockson_model::search::search;

const ONCE: &[Step] = &[Step::Lock, Step::Unlock];

fn rivals(kind: &Kind) -> Vec<Owner> {
    vec![Owner::new(kind, "a:1", 0, ONCE), Owner::new(kind, "b:1", 1, ONCE)]
}

#[test]
fn reentrant_rivals() {
    search("reentrant: 2 owners", Scope::new(rivals(&Kind::reentrant()), 1, 5)).holds();
}

#[test]
fn reentrant_without_not_after() {
    let kind = Kind::reentrant().with(Verb::Acquire, "if now > not_after then return {2, nonce, now} end", "");
    search("reentrant without not_after", Scope::new(rivals(&kind), 1, 5)).breaks("nothing is left at the end");
}

#[test]
fn reentrant_without_the_second_settle() {
    let scope = Scope::new(rivals(&Kind::reentrant()), 1, 5).without(Without::SecondSettle);
    search("reentrant without the second settle", scope).breaks("nothing is left at the end");
}
