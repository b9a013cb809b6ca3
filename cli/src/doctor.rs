//! `doctor`: what about the servers endangers locks, and what to do about it.

use std::time::Duration;

use lockson::{Health, Locks, ServerReport, Topology};
use serde_json::json;

use crate::out::{brief, clean, Out, Paint};
use crate::{End, Failure, Outcome};

/// An answer that takes longer makes each lock slow.
const SLOW: Duration = Duration::from_millis(50);
/// A clock that is further from this machine's is worth a look.
const CLOCKS: i64 = 1_000;
/// Of the memory, or of the connections, in percent.
const NEARLY: u64 = 90;

/// Of who listens, in bytes: the server's defaults.
const PILED_UP: [u64; 2] = [32 << 20, 8 << 20];
/// Seconds that a primary may be cut off and grant.
const CUT_OFF: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Fine,
    /// Good to know.
    Note,
    /// It endangers locks.
    Bad,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Bad => "BAD",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    level: Level,
    what: &'static str,
    /// What was found.
    found: String,
    /// What to do about it.
    advice: &'static str,
}

pub async fn run(locks: &Locks, out: &Out) -> Outcome {
    let servers = locks.admin().servers().await?;
    let health = locks.health();
    let mut worst = Level::Fine;
    let all = std::iter::once((None, of_deployment(&health, &servers)));
    for (server, findings) in
        all.chain(servers.iter().map(|server| (Some(&server.address), of_server(server, &health))))
    {
        let place = server.map_or_else(|| health.topology.to_string(), |address| clean(address));
        if !out.json {
            out.line(&out.paint(Paint::Bold, &place))?;
        }
        for finding in findings {
            worst = worst.max(finding.level);
            show(out, server.map(String::as_str), &finding)?;
        }
    }
    Ok(if worst == Level::Bad { End::No } else { End::Done })
}

fn show(out: &Out, server: Option<&str>, finding: &Finding) -> Result<(), Failure> {
    let Finding { level, what, found, advice } = finding;
    if out.json {
        let level = level.name().to_lowercase();
        let advice = Some(advice).filter(|advice| !advice.is_empty());
        return out.value(&json!({
            "server": server, "level": level, "what": what, "found": found, "advice": advice,
        }));
    }
    let paint = match level {
        Level::Fine => Paint::Green,
        Level::Note => Paint::Yellow,
        Level::Bad => Paint::Red,
    };
    out.line(&format!("  {}  {what}: {}", out.paint(paint, &format!("{:4}", level.name())), clean(found)))?;
    if advice.is_empty() {
        Ok(())
    } else {
        out.line(&format!("        {advice}"))
    }
}

fn fine(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { level: Level::Fine, what, found: found.into(), advice: "" }
}

fn note(what: &'static str, found: impl Into<String>, advice: &'static str) -> Finding {
    Finding { level: Level::Note, what, found: found.into(), advice }
}

fn bad(what: &'static str, found: impl Into<String>, advice: &'static str) -> Finding {
    Finding { level: Level::Bad, what, found: found.into(), advice }
}

/// What all servers together are.
fn of_deployment(health: &Health, servers: &[ServerReport]) -> Vec<Finding> {
    let mut findings = vec![fine("servers", format!("{} with keys", servers.len()))];
    for node in health.nodes.iter().filter(|node| node.away.is_some()) {
        findings.push(bad(
            "reachable",
            node.to_string(),
            "it does not answer: look whether it runs, and at the network",
        ));
    }
    let has_replicas = servers.iter().all(|server| number(server, "connected_slaves").unwrap_or_default() > 0);
    findings.extend(match health.topology {
        Topology::Single if has_replicas => Some(note(
            "failover",
            "a single server with replicas",
            "nobody promotes them for this client: use redis-sentinel:// or redis-cluster:// where somebody else does",
        )),
        Topology::Sentinel | Topology::Cluster if !has_replicas => Some(note(
            "failover",
            "a primary without a connected replica",
            "its keys have no other place to go: add replicas",
        )),
        Topology::Sentinel | Topology::Cluster => Some(note(
            "failover",
            "a failover may lose what was granted last",
            "use Builder::confirm, Builder::quarantine or fencing tokens where that must not be: docs/TOPOLOGIES.md",
        )),
        _ => None,
    });
    findings
}

fn number(server: &ServerReport, key: &str) -> Option<u64> {
    server.info.get(key)?.parse().ok()
}

/// What one of them says of itself.
fn of_server(server: &ServerReport, health: &Health) -> Vec<Finding> {
    let text = |key: &str| server.info.get(key).map(String::as_str);
    let mut findings = vec![timing(server), clocks(server)];
    if server.info.is_empty() {
        let advice = "grant +info to see what its settings endanger";
        findings.push(note("INFO", "this user may not ask", advice));
    } else {
        let version = text("valkey_version").map(|version| format!("Valkey {version}"));
        let version = version.or_else(|| text("redis_version").map(|version| format!("Redis {version}")));
        findings.push(fine("version", version.unwrap_or_default()));
        findings.push(match text("role") {
            Some("master") | None => fine("role", "primary"),
            Some(role) => bad("role", role, "it is a replica, which grants nothing: connect to its primary"),
        });
        findings.push(eviction(server));
        findings.extend(memory(server));
        findings.extend(persistence(server));
        findings.extend(replicas(server));
        findings.extend(connections(server));
        findings.extend(cut_off(server));
    }
    findings.extend(settings(server, health.topology == Topology::Cluster));
    findings.extend(server.lacks.iter().map(|(kind, commands)| {
        let advice = "grant them to this user, if it is to use such: docs/GUARANTEES.md, Rights on the server";
        note("rights", format!("no {kind} for this user: it may not call {}", commands.join(", ")), advice)
    }));
    if server.lacks.is_empty() {
        findings.push(fine("rights", "this user may call what every kind needs"));
    }
    findings
}

fn timing(server: &ServerReport) -> Finding {
    let found = format!("an answer took {}", brief(server.round_trip));
    if server.round_trip > SLOW {
        let advice = "each lock waits for it at least once: look at the network, and at SLOWLOG and LATENCY DOCTOR";
        return note("round trip", found, advice);
    }
    fine("round trip", found)
}

fn clocks(server: &ServerReport) -> Finding {
    let ahead = server.clock_ahead;
    if ahead.abs() <= CLOCKS {
        return fine("clock", "within a second of this machine's");
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let by = brief(Duration::from_millis(ahead.unsigned_abs()));
    let advice = "lockson goes by the server's alone, Redisson's fair locks and permits by the clients': run NTP";
    note("clock", format!("{by} {side} this machine's"), advice)
}

fn eviction(server: &ServerReport) -> Finding {
    let policy = server.info.get("maxmemory_policy").map_or("not known", String::as_str);
    let (is_safe, has_limit) = (policy == "noeviction", number(server, "maxmemory") != Some(0));
    let advice = "a full server drops locks that are held: set maxmemory-policy noeviction, or use another server";
    match (is_safe, has_limit) {
        (true, _) => fine("eviction", policy),
        (false, true) => bad("eviction", policy, advice),
        (false, false) => note("eviction", format!("{policy}, and no maxmemory"), advice),
    }
}

fn memory(server: &ServerReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(count @ 1..) = number(server, "evicted_keys") {
        let advice = "locks may have been among them: see eviction";
        findings.push(bad("evicted", format!("{count} keys since it was started"), advice));
    }
    if let (Some(used), Some(limit @ 1..)) = (number(server, "used_memory"), number(server, "maxmemory")) {
        if used.saturating_mul(100) / limit >= NEARLY {
            let advice = "a full server refuses new locks (it releases old ones): raise maxmemory, or free some";
            findings.push(note("memory", format!("{}% of maxmemory", used.saturating_mul(100) / limit), advice));
        }
    }
    findings
}

fn persistence(server: &ServerReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.info.get("rdb_last_bgsave_status").is_some_and(|status| status != "ok") {
        let advice = "with stop-writes-on-bgsave-error it refuses to write, so to lock: look at its log and its disk";
        findings.push(bad("snapshots", "the last one failed", advice));
    }
    if server.info.get("aof_last_write_status").is_some_and(|status| status != "ok") {
        let advice = "it refuses to write, so to lock, until that works again: look at its log and its disk";
        findings.push(bad("append-only file", "the last write to it failed", advice));
    }
    if number(server, "loading") == Some(1) {
        findings.push(bad("loading", "it is reading its data", "it answers when that is done"));
    }
    findings.push(match number(server, "aof_enabled") {
        Some(1) => match server.settings.get("appendfsync").map(String::as_str) {
            Some("always") => fine("persistence", "append-only file, appendfsync always"),
            Some("no") => note(
                "persistence",
                "append-only file, appendfsync no",
                "a crash may lose what was granted in half a minute: appendfsync everysec, or always",
            ),
            _ => note(
                "persistence",
                "append-only file",
                "with appendfsync everysec a crash may lose what was granted in the last second",
            ),
        },
        _ => note(
            "persistence",
            "no append-only file",
            "a restart forgets locks: holders are told at their next renewal, and others may be let in before. Fencing \
             tokens keep late writes out",
        ),
    });
    findings
}

fn replicas(server: &ServerReport) -> Option<Finding> {
    let replicas = number(server, "connected_slaves").filter(|count| *count > 0)?;
    let found = format!("{replicas} connected");
    Some(match number(server, "min_slaves_good_slaves") {
        Some(_) => fine("replicas", format!("{found}, and min-replicas-to-write is set")),
        None => note(
            "replicas",
            format!("{found}, and min-replicas-to-write is not set"),
            "a primary that is cut off goes on granting: min-replicas-to-write 1, min-replicas-max-lag 10",
        ),
    })
}

/// What `INFO` does not tell.
fn settings(server: &ServerReport, is_cluster: bool) -> Vec<Finding> {
    if server.settings.is_empty() {
        let advice = "grant +config|get to see them, or ask redis-cli: docs/OPERATIONS.md says what each should be";
        return vec![note("settings", "this user may not ask", advice)];
    }
    let text = |key: &str| server.settings.get(key).map_or("", String::as_str);
    let count = |key: &str| text(key).parse::<u64>().unwrap_or_default();
    let mut findings = Vec::new();
    if let seconds @ 1.. = count("timeout") {
        let advice = "a connection that is closed for idleness is a gap, in which messages are missed: timeout 0";
        findings.push(note("timeout", format!("{seconds} s"), advice));
    }
    if are_low(text("client-output-buffer-limit")) {
        let advice = "who listens and reads slowly is cut off, which is a gap: pubsub 32mb 8mb 60, or more";
        findings.push(note("client-output-buffer-limit", "pubsub below its default", advice));
    }
    if count("min-replicas-to-write") > 0 && count("min-replicas-max-lag") > CUT_OFF {
        let advice = "a primary that is cut off goes on granting for so long: min-replicas-max-lag 1, up to 10";
        findings.push(note("min-replicas-max-lag", text("min-replicas-max-lag"), advice));
    }
    if !text("save").is_empty() && text("stop-writes-on-bgsave-error") == "yes" {
        let advice =
            "where a snapshot fails it refuses to lock: watch its disk, or save \"\" on a server for locks alone";
        findings.push(note("save", text("save"), advice));
    }
    if is_cluster && text("cluster-require-full-coverage") == "yes" {
        let advice = "healthy shards refuse too while one has no primary: cluster-require-full-coverage no";
        findings.push(note("cluster-require-full-coverage", "yes", advice));
    }
    if findings.is_empty() {
        findings.push(fine("settings", "none endangers a lock"));
    }
    findings
}

/// Whether the limits of who listens are below the server's defaults; 0 is none. (`.. pubsub HARD SOFT SECONDS`)
fn are_low(limits: &str) -> bool {
    let of_pubsub = limits.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
    let limits = of_pubsub.take(2).filter_map(|word| word.parse::<u64>().ok());
    limits.zip(PILED_UP).any(|(limit, least)| limit > 0 && limit < least)
}

fn connections(server: &ServerReport) -> Option<Finding> {
    let (used, limit) =
        (number(server, "connected_clients")?, number(server, "maxclients").filter(|limit| *limit > 0)?);
    let percent = used.saturating_mul(100) / limit;
    let advice = "it refuses new ones at the limit: raise maxclients, or find who leaks them (CLIENT LIST)";
    (percent >= NEARLY).then(|| note("connections", format!("{used} of {limit}"), advice))
}

/// Clients that the server itself has cut off, or has not let in.
fn cut_off(server: &ServerReport) -> Vec<Finding> {
    let count = |key: &str| number(server, key).filter(|count| *count > 0);
    let cut = count("client_output_buffer_limit_disconnections").map(|count| {
        let advice = "one that listens and reads too slowly misses messages then, and looks now and then only: raise \
                      client-output-buffer-limit pubsub, or find the slow one (CLIENT LIST)";
        note("cut off", format!("{count} clients whose answers piled up, since it was started"), advice)
    });
    let refused = count("rejected_connections").map(|count| {
        let advice = "clients that can't connect can't renew: raise maxclients, or find who leaks connections";
        note("refused", format!("{count} connections beyond maxclients, since it was started"), advice)
    });
    [cut, refused].into_iter().flatten().collect()
}
