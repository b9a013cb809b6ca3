//! Whether the servers have what clients say that they hold, and for as long: a loss is told before a lease is over.

use std::time::Duration;

use lockson::EmbeddedServer;
use lockson_embedded::Value;

use crate::judge::{Claim, Key};
use crate::plan::{Kind, SERVERS};
use crate::queue::texts;
use crate::take::{name_of, VALUES};
use crate::world::World;

impl World {
    /// All that is said to be held is there for as long as that is said.
    pub fn look_at_claims(&self) {
        let mut judge = self.judge.lock().unwrap();
        for claim in judge.claims() {
            let has = left_of(&claim, &self.servers);
            // Both are cut to milliseconds.
            if claim.left.as_millis() > has.as_millis() + 1 {
                let Claim { task, kind, left, .. } = claim;
                judge.fails(format!(
                    "task {task} says that it has its {kind:?} for {left:?} yet, and it is there for {has:?}"
                ));
            }
        }
    }
}

/// For how long the servers have it yet, all parts of it.
fn left_of(claim: &Claim, servers: &[EmbeddedServer]) -> Duration {
    let left = match claim.kind {
        Kind::Value => left_of_values(claim, &servers[0], 1),
        Kind::Group => left_of_values(claim, &servers[0], VALUES.len()),
        Kind::PermitSemaphore => left_of_permits(claim, &servers[0]),
        // Most of its servers.
        Kind::Red => {
            let mut votes: Vec<u64> =
                servers.iter().take(SERVERS).map(|server| left_of_key(claim, claim.keys[0], server)).collect();
            votes.sort_unstable();
            votes[SERVERS / 2]
        }
        _ => {
            let server_of = |key: &Key| if claim.kind == Kind::Mixed { key.1 } else { 0 };
            let parts = claim.keys.iter().map(|key| left_of_key(claim, *key, &servers[server_of(key)]));
            parts.min().unwrap_or_default()
        }
    };
    Duration::from_millis(left)
}

fn ttl(server: &EmbeddedServer, key: &str) -> u64 {
    match (**server).command(&["PTTL", key]) {
        Ok(Value::Int(left)) => left.try_into().unwrap_or(0),
        _ => 0,
    }
}

/// Of one lock, if this task has it: by itself, or in a run of its client.
fn left_of_key(claim: &Claim, key: Key, server: &EmbeddedServer) -> u64 {
    let key = name_of(key);
    // A key of text names nobody.
    if claim.kind == Kind::Plain {
        return ttl(server, &key);
    }
    let held = texts((**server).command(&["HKEYS", &key]));
    let names = [format!("named-task{}", claim.task), format!("transaction{}", claim.task)];
    let is_its = |part: &str| part.starts_with("run-") || names.iter().any(|name| name == part);
    let of_side = |field: &&String| claim.kind != Kind::Read || !field.ends_with(":write");
    let Some(field) = held.iter().filter(of_side).find(|field| field.split(':').any(is_its)) else { return 0 };
    let left = ttl(server, &key);
    if claim.kind != Kind::Read {
        return left;
    }
    // The field counts for as long as one of its holds.
    let holds = (1..10).map(|hold| ttl(server, &format!("{{{key}}}:{field}:rwlock_timeout:{hold}")));
    holds.max().map_or(0, |longest| longest.min(left))
}

/// Of so many values of a group. What these are called on the server is a hash of them.
fn left_of_values(claim: &Claim, server: &EmbeddedServer, values: usize) -> u64 {
    let (group, now, end) = (name_of(claim.keys[0]), now(server), format!(":named-task{}:expire_time", claim.task));
    let all = texts((**server).command(&["HGETALL", &group]));
    let ends = all.chunks(2).filter(|pair| pair[0].ends_with(&end)).filter_map(|pair| pair[1].parse::<u64>().ok());
    let mut left: Vec<u64> = ends.map(|ends| ends.saturating_sub(now)).collect();
    left.sort_unstable_by(|one, other| other.cmp(one));
    left.get(values - 1).map_or(0, |left| (*left).min(ttl(server, &group)))
}

/// As long as is said, if as many permits are there for so long.
fn left_of_permits(claim: &Claim, server: &EmbeddedServer) -> u64 {
    let said = u64::try_from(claim.left.as_millis()).unwrap_or(u64::MAX);
    let (key, until) = (format!("{{{}}}:timeout", name_of(claim.keys[0])), (now(server) + said).saturating_sub(1));
    match (**server).command(&["ZCOUNT", &key, &until.to_string(), "+inf"]) {
        Ok(Value::Int(count)) if usize::try_from(count).is_ok_and(|count| count >= claim.permits) => said,
        _ => 0,
    }
}

/// The server's clock.
fn now(server: &EmbeddedServer) -> u64 {
    let parts: Vec<u64> = texts((**server).command(&["TIME"])).iter().filter_map(|part| part.parse().ok()).collect();
    parts.first().copied().unwrap_or_default() * 1_000 + parts.get(1).copied().unwrap_or_default() / 1_000
}
