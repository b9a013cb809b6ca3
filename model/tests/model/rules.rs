//! The rules by themselves.

use lockson_model::rules::calls::{Calls, Without, COUNTS, EXCLUSION, SURPRISE};
use lockson_model::rules::failover::{self, Failover, Guard};
use lockson_model::search::search;

use crate::soak;

#[test]
fn calls() {
    let (end, calls, doubts) = if soak() { (6, [3, 2], 2) } else { (4, [3, 1], 1) };
    search("rules 5, 6 and 9", Calls { end, calls, doubts, without: Without::Nothing }).holds();
}

#[test]
fn no_rule_is_idle() {
    for (without, property) in [
        (Without::Absolute, EXCLUSION),
        (Without::NotAfter, COUNTS),
        (Without::SecondSettle, COUNTS),
        (Without::Wait, EXCLUSION),
        (Without::Settle, SURPRISE),
        (Without::SendInstant, COUNTS),
        (Without::Margin, COUNTS),
    ] {
        let name = format!("rules 5, 6 and 9, without {without:?}");
        search(&name, Calls { end: 5, calls: [3, 1], doubts: 1, without }).breaks(property);
    }
}

#[test]
fn failover() {
    let search = |guard: Guard| search(&format!("rule 25, {guard:?}"), Failover { end: 8, guard });
    search(Guard::Confirm).holds();
    search(Guard::Quarantine { stops: true }).holds();
    for guard in [Guard::Nothing, Guard::ConfirmGrants, Guard::Quarantine { stops: false }] {
        search(guard).breaks(failover::EXCLUSION);
    }
}
