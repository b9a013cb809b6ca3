//! What was found, as JSON. Times are milliseconds; what is not known is null.

use std::time::Duration;

use lockson::{Description, Holder, Listed};
use serde_json::{json, Value};

pub fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn holder(holder: &Holder) -> Value {
    json!({
        "owner": holder.field(),
        "client": holder.client,
        "task": holder.owner.as_str(),
        "count": holder.count,
        "lease_ms": holder.ttl.map(millis),
    })
}

pub fn listed(found: &Listed) -> Value {
    json!({
        "name": found.name,
        "kind": found.what.to_string(),
        "lease_ms": found.ttl.map(millis),
        "holders": found.holders,
        "holder": found.holder.as_ref().map(holder),
        "waiting": found.waiting,
        "number": found.number,
    })
}

pub fn description(found: &Description) -> Value {
    let waiters = found.waiters.iter();
    let waiters: Vec<_> = waiters.map(|at| json!({ "owner": at.field, "silent_ms": at.silent.map(millis) })).collect();
    let permits = found.permits.iter();
    let permits: Vec<_> =
        permits.map(|permit| json!({ "id": permit.id.to_string(), "lease_ms": millis(permit.left) })).collect();
    json!({
        "name": found.name,
        "kind": found.what.to_string(),
        "lease_ms": found.ttl.map(millis),
        "held": found.held,
        "holders": found.holders.iter().map(holder).collect::<Vec<_>>(),
        "waiting": found.waiting,
        "waiters": waiters,
        "listening": found.listening,
        "token": found.token,
        "token_of_hold": found.token_of_hold,
        "number": found.number,
        "taken": found.taken,
        "permits": permits,
        "ended": found.ended,
        "type": found.foreign,
    })
}
