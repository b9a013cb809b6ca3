//! What was found, as JSON. Times are milliseconds; what is not known is null.

use std::time::Duration;

use lockson::{Description, Holder, Listed};
use serde_json::{json, Value};

use crate::clients::Clients;

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

/// Who it is by what its client says, if it does.
fn known(holder: &Holder, name: &str, clients: &Clients) -> Value {
    let mut value = self::holder(holder);
    if let Some(client) = clients.get(&holder.client) {
        value["held_ms"] = client.held(name, holder).map(millis).into();
        value["host"] = client.host.clone().into();
        value["pid"] = client.pid.into();
        value["version"] = client.version.clone().into();
        value["running_ms"] = millis(client.running).into();
    }
    value
}

pub fn description(found: &Description, clients: &Clients) -> Value {
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
        "holders": found.holders.iter().map(|holder| known(holder, &found.name, clients)).collect::<Vec<_>>(),
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
