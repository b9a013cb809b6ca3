//! `doctor`: each thing that it finds, on servers that have it.

use support::prelude::*;
use support::server::program;
use support::{Cluster, Sentinels};

use super::program::{lockson, Ran};

/// How bad a finding of this sort is, and what was found.
fn found(ran: &Ran, what: &str) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let values = ran.values().into_iter().filter(|finding| finding["what"] == what);
    values.map(|finding| (text(&finding["level"]), text(&finding["found"]))).collect()
}

#[track_caller]
fn finds(ran: &Ran, what: &str, level: &str, text: &str) {
    let found = found(ran, what);
    assert!(found.iter().any(|(is, says)| is == level && says.contains(text)), "no {what}: {ran:?}");
}

/// What can be typed: the issue has `lockson doctor URL`.
#[test]
fn the_server_can_be_named_in_place_of_the_option() {
    let server = Server::start();
    let away = "redis://127.0.0.1:1";
    let ran = lockson(away, &["doctor", &server.url(), "--json"]).expect(0);
    finds(&ran, "role", "ok", "primary");
    let ran = lockson(away, &["doctor", &server.url(), "--url", away, "--json"]).expect(0);
    finds(&ran, "role", "ok", "primary");
    lockson(&server.url(), &["doctor", away, "--timeout", "300ms"]).expect(69);
}

#[test]
fn what_it_can_not_know_is_said() {
    let server = Server::start();
    let ran = lockson(&server.url(), &["doctor", "--json"]).expect(0);
    finds(&ran, "settings", "ok", "none endangers");
    finds(&ran, "persistence", "note", "no append-only file");
    server.control(&["ACL", "SETUSER", "blind", "on", ">pw", "~*", "&*", "+@all", "-info", "-config"]);
    let url = server.url().replace("redis://", "redis://blind:pw@");
    let ran = lockson(&url, &["doctor", "--json"]).expect(0);
    finds(&ran, "INFO", "note", "may not ask");
    finds(&ran, "settings", "note", "may not ask");
}

#[test]
fn settings_that_endanger_a_lock_are_said() {
    let server = Server::start();
    let set = |name: &str, value: &str| drop(server.control(&["CONFIG", "SET", name, value]));
    set("timeout", "300");
    set("client-output-buffer-limit", "pubsub 1mb 1mb 60");
    set("min-replicas-to-write", "1");
    set("min-replicas-max-lag", "60");
    set("save", "900 1");
    let ran = lockson(&server.url(), &["doctor", "--json"]).expect(0);
    finds(&ran, "timeout", "note", "300 s");
    finds(&ran, "client-output-buffer-limit", "note", "below its default");
    finds(&ran, "min-replicas-max-lag", "note", "60");
    finds(&ran, "save", "note", "900 1");
    let server = Server::with(&[("appendonly", "yes"), ("appendfsync", "always"), ("save", "")]);
    finds(&lockson(&server.url(), &["doctor", "--json"]).expect(0), "persistence", "ok", "always");
    let cluster = Cluster::of(&program(), 0, secs(30), &[("cluster-require-full-coverage", "yes")]);
    finds(&lockson(&cluster.url(), &["doctor", "--json"]).expect(0), "cluster-require-full-coverage", "note", "yes");
}

#[test]
fn persistence_that_fails_is_said() {
    let file = "dump-that-is-a-directory";
    let server = Server::with(&[("appendonly", "yes"), ("dbfilename", file)]);
    finds(&lockson(&server.url(), &["doctor", "--json"]).expect(0), "persistence", "note", "append-only file");
    // A snapshot that can't be written: where its file should be, a directory is.
    let dir = server.control(&["CONFIG", "GET", "dir"]).texts()[1].clone();
    std::fs::create_dir(std::path::Path::new(&dir).join(file)).unwrap();
    server.control(&["BGSAVE"]);
    let has_failed = || server.control(&["INFO", "persistence"]).text().contains("rdb_last_bgsave_status:err");
    super::program::until(secs(20), "the snapshot fails", has_failed);
    finds(&lockson(&server.url(), &["doctor", "--json"]).expect(1), "snapshots", "bad", "failed");
}

#[test]
fn memory_and_connections_that_run_out_are_said() {
    let server = Server::with(&[("maxmemory", "100mb"), ("maxclients", "10000")]);
    let stat = |key: &str| -> u64 {
        let info = server.control(&["INFO", "all"]).text();
        info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok()).unwrap()
    };
    let fill = || (0..500).for_each(|at| drop(server.control(&["SET", &format!("filler:{at}"), &"x".repeat(10_000)])));
    fill();
    let used = stat("used_memory");
    server.control(&["CONFIG", "SET", "maxmemory", &(used * 105 / 100).to_string()]);
    finds(&lockson(&server.url(), &["doctor", "--json"]).expect(0), "memory", "note", "% of maxmemory");
    // Connections, of which the program's are nearly all.
    let idle: Vec<_> = (0..30).map(|_| std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap()).collect();
    server.control(&["CONFIG", "SET", "maxclients", "35"]);
    finds(&lockson(&server.url(), &["doctor", "--json"]).expect(0), "connections", "note", "of 35");
    drop(idle);
    // Keys that are driven out.
    server.control(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    server.control(&["CONFIG", "SET", "maxmemory", &(used * 9 / 10).to_string()]);
    super::program::until(secs(20), "keys are evicted", || stat("evicted_keys") > 0);
    server.control(&["CONFIG", "SET", "maxmemory", "100mb"]);
    let ran = lockson(&server.url(), &["doctor", "--json"]).expect(1);
    finds(&ran, "evicted", "bad", "since it was started");
    finds(&ran, "eviction", "bad", "allkeys-random");
}

#[test]
fn a_replica_and_what_its_primary_lacks_are_said() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.control(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let is_there = || primary.control(&["INFO", "replication"]).text().contains("state=online");
    super::program::until(secs(30), "the replica is there", is_there);
    let ran = lockson(&primary.url(), &["doctor", "--json"]).expect(0);
    finds(&ran, "failover", "note", "a single server with replicas");
    finds(&ran, "replicas", "note", "min-replicas-to-write is not set");
    primary.control(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let ran = lockson(&primary.url(), &["doctor", "--json"]).expect(0);
    finds(&ran, "replicas", "ok", "min-replicas-to-write is set");
    let ran = lockson(&replica.url(), &["doctor", "--json"]).expect(69);
    assert!(ran.err.contains("a read-only replica: connect to its primary"), "{ran:?}");
}

#[test]
fn a_sentinel_deployment_is_looked_at() {
    let sentinels = Sentinels::of(&program(), secs(30), &[]);
    let ran = lockson(&sentinels.url(), &["doctor", "--json"]).expect(0);
    finds(&ran, "failover", "note", "a failover may lose");
    finds(&ran, "replicas", "note", "min-replicas-to-write is not set");
}

#[test]
fn who_is_away_is_named() {
    let sentinels = Sentinels::of(&program(), secs(30), &[]);
    let away = sentinels.sentinels.last().unwrap();
    away.kill();
    let ran = lockson(&sentinels.url(), &["doctor", "--json"]).expect(1);
    finds(&ran, "reachable", "bad", &format!("127.0.0.1:{} sentinel away", away.port()));
    // Without all of its primaries a cluster is not connected to.
    let cluster = Cluster::of(&program(), 0, secs(30), &[]);
    cluster.nodes[1].kill();
    let ran = lockson(&cluster.url(), &["doctor", "--json"]).expect(69);
    assert!(ran.err.contains("the server can't be reached"), "{ran:?}");
}
