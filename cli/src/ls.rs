//! `ls`: what there is.

use std::collections::BTreeMap;

use lockson::{Listed, Locks, What};

use crate::args::Ls;
use crate::json;
use crate::out::{brief, clean, table, tell, Out, Paint};
use crate::{End, Failure, Outcome};

const KINDS: [What; 9] = [
    What::Lock,
    What::Fair,
    What::Read,
    What::Write,
    What::Plain,
    What::Semaphore,
    What::PermitSemaphore,
    What::Latch,
    What::Number,
];

pub async fn run(locks: &Locks, out: &Out, args: Ls) -> Outcome {
    for kind in &args.kind {
        if !KINDS.iter().any(|what| what.to_string() == *kind) {
            let kinds = KINDS.map(|what| what.to_string()).join(", ");
            return Err(Failure(End::Of(2), format!("no kind {kind:?}: there are {kinds}")));
        }
    }
    let is_wanted = |found: &Listed| args.kind.is_empty() || args.kind.contains(&found.what.to_string());
    let mut listing = locks.admin().list(&args.pattern);
    // SCAN may show one twice.
    let (mut all, mut known): (BTreeMap<String, Listed>, u64) = (BTreeMap::new(), 0);
    while let Some(page) = listing.next().await? {
        known += page.len() as u64;
        all.extend(page.into_iter().filter(is_wanted).map(|found| (found.name.clone(), found)));
    }
    if listing.hidden() > 0 {
        tell(&format!("lockson: {} keys may not be read by this user", listing.hidden()));
    }
    // What was asked for is a little more than the pattern: some of them may be locks of other names.
    let others = listing.scanned().saturating_sub(known + listing.hidden());
    if others > 0 {
        tell(&format!("lockson: {others} more keys are not listed: beside a lock, or foreign; `show NAME` tells"));
    }
    if out.json {
        for found in all.values() {
            out.value(&json::listed(found))?;
        }
        return Ok(End::Done);
    }
    let head = ["NAME", "KIND", "LEASE", "HELD", "WAIT", "HOLDER"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(all.values().map(row)).collect();
    let mut lines = table(&rows).into_iter();
    if let Some(head) = lines.next() {
        out.line(&out.paint(Paint::Bold, &head))?;
    }
    for line in lines {
        out.line(&line)?;
    }
    Ok(End::Done)
}

pub fn row(found: &Listed) -> Vec<String> {
    let some = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let holder = match (&found.holder, found.number) {
        (Some(holder), _) => clean(holder.field()),
        (None, Some(number)) if found.what == What::Number => number.to_string(),
        (None, Some(number)) => format!("{number} free"),
        (None, None) => String::new(),
    };
    let lease = found.ttl.map_or("-".to_owned(), brief);
    vec![clean(&found.name), found.what.to_string(), lease, some(found.holders), some(found.waiting), holder]
}
