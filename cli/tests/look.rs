//! `watch`, `top`, and what `show` and `ls` say of foreign keys and of debts: on each topology where that matters.

use lockson::kind::Fair;
use lockson::Lock;
use rustix::process::Signal;
use support::prelude::*;
use support::server::program;
use support::{Deployment, Topology};

use super::program::{lockson, until, Ran, Running};

/// Reads lines until one is an event of this sort.
fn event(watch: &mut Running, what: &str) -> serde_json::Value {
    loop {
        let value: serde_json::Value = serde_json::from_str(&watch.line()).unwrap();
        if value["event"] == what {
            return value;
        }
    }
}

fn owned(locks: &Locks, name: &str, owner: &str) -> Lock<Fair> {
    locks.fair_lock(name).owned_by(&Owner::named(owner).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_is_watched_on_each_topology() {
    for topology in [Topology::Single, Topology::Sentinel, Topology::Cluster] {
        let url = Deployment::shared(topology, &program()).url();
        let (locks, of) = (Locks::connect(&url).await.unwrap(), unique("look"));
        let names = ["a", "b", "c"].map(|name| format!("{of}:{name}"));
        let guard = owned(&locks, &names[0], "first").guard().await.unwrap();
        let mut watch = Running::start(&url, &["watch", &names[0], "--interval", "50ms", "--json"]);
        let owner = |value: serde_json::Value| value["owner"].as_str().unwrap().to_owned();
        assert!(owner(event(&mut watch, "held")).ends_with(":named-first"), "{topology:?}");
        let waits = owned(&locks, &names[0], "second");
        let waiter = spawn_with(waits, |lock| async move { lock.guard().await.unwrap() });
        assert!(owner(event(&mut watch, "waits")).ends_with(":named-second"), "{topology:?}");
        // Names of other slots, so of other nodes of a cluster.
        let others = join_all(names[1..].iter().map(|name| async { locks.lock(name).guard().await.unwrap() })).await;
        let words = ["top", &format!("{of}:*"), "--frames", "1", "--json"];
        let top = lockson(&url, &words).expect(0).values();
        let seen: Vec<_> = top.iter().map(|found| (found["name"].as_str(), found["waiting"].as_u64())).collect();
        let expected = names.iter().zip([1, 0, 0]).map(|(name, waiting)| (Some(&**name), Some(waiting)));
        assert_eq!(seen, expected.collect::<Vec<_>>(), "{topology:?}");
        drop(guard);
        assert!(owner(event(&mut watch, "released")).ends_with(":named-first"), "{topology:?}");
        assert!(owner(event(&mut watch, "held")).ends_with(":named-second"), "{topology:?}");
        drop(patient("the waiter", waiter).await.unwrap());
        assert!(owner(event(&mut watch, "released")).ends_with(":named-second"), "{topology:?}");
        watch.signal(if topology == Topology::Single { Signal::INT } else { Signal::TERM });
        watch.end().expect(0);
        drop(others);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lease_is_told_from_a_release() {
    let server = Server::start();
    let locks = server.locks().await;
    let mut watch = Running::start(&server.url(), &["watch", "leased", "--interval", "50ms", "--json"]);
    event(&mut watch, "free");
    assert!(locks.lock("leased").acquire().lease(secs(1)).await.unwrap().is_acquired());
    event(&mut watch, "held");
    event(&mut watch, "lease ended");
    let guard = locks.lock("leased").owned_by(&Owner::named("next").unwrap()).guard().await.unwrap();
    event(&mut watch, "held");
    drop(guard);
    event(&mut watch, "released");
    locks.permit_semaphore("leased:permits").try_set_permits(1).await.unwrap();
    let mut watch = Running::start(&server.url(), &["watch", "leased:permits", "--interval", "50ms", "--json"]);
    event(&mut watch, "number");
    locks.permit_semaphore("leased:permits").acquire(1).ids(secs(1)).await.unwrap();
    event(&mut watch, "held");
    event(&mut watch, "lease ended");
}

/// Nobody waits for a server that is away before it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_server_that_is_away_can_be_ended() {
    let server = Server::start();
    for signal in [Signal::TERM, Signal::INT] {
        let mut watch = Running::start(&server.url(), &["watch", "away", "--interval", "50ms", "--json"]);
        event(&mut watch, "free");
        server.freeze();
        event(&mut watch, "unreachable");
        let began = Instant::now();
        watch.signal(signal);
        watch.end().expect(0);
        assert!(began.elapsed() < secs(20), "{:?}", began.elapsed());
        server.thaw();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_gives_nothing_for_live_that_is_not() {
    let server = Server::start();
    let _guard = server.locks().await.lock("stale").guard().await.unwrap();
    let mut top = Running::start(&server.url(), &["top", "--frames", "100000", "--interval", "50ms", "--json"]);
    let line = |top: &mut Running| serde_json::from_str::<serde_json::Value>(&top.line()).unwrap();
    assert_eq!(line(&mut top)["name"], "stale");
    server.freeze();
    let is_away = |value: &serde_json::Value| value.get("unreachable").is_some();
    until(secs(30), "it says that it is away", || is_away(&line(&mut top)));
    let next = line(&mut top);
    assert!(is_away(&next) && next.get("name").is_none(), "{next}");
    server.thaw();
    until(secs(30), "it says what there is", || line(&mut top)["name"] == "stale");
}

#[test]
fn a_frame_is_as_high_as_what_it_shows() {
    let server = Server::start();
    let heights = |count: usize| {
        server.control(&["FLUSHALL"]);
        (0..count).for_each(|at| drop(server.control(&["SET", &format!("count:{at:03}"), "1"])));
        let ran = lockson(&server.url(), &["top", "--frames", "1"]).expect(0);
        (ran.out.lines().count(), ran.out.matches("\ncount:").count(), ran)
    };
    let (lines, rows, ran) = heights(40);
    assert!((lines, rows) == (43, 40) && !ran.out.contains("not shown"), "{ran:?}");
    let (lines, rows, ran) = heights(250);
    assert!((lines, rows) == (200, 197) && ran.out.contains("53 more are not shown"), "{ran:?}");
}

/// All that is at these keys, with what is left of it.
fn dumped(server: &Server, keys: &[&str]) -> Vec<String> {
    let all = keys.iter().map(|key| {
        let (dump, ttl) = (server.control(&["DUMP", key]), server.control(&["PEXPIRETIME", key]));
        format!("{key} {dump:?} {ttl:?}")
    });
    all.collect()
}

#[test]
fn what_is_foreign_is_said_and_never_touched() {
    let server = Server::start();
    let keys = ["text", "list", "set", "sorted", "stream", "hash", "leased", "number"];
    server.control(&["SET", "text", "of somebody else"]);
    server.control(&["RPUSH", "list", "a", "b"]);
    server.control(&["SADD", "set", "a", "b"]);
    server.control(&["ZADD", "sorted", "1", "a"]);
    server.control(&["XADD", "stream", "1-1", "a", "b"]);
    server.control(&["HSET", "hash", "a", "1"]);
    server.control(&["SET", "leased", "x", "PX", "600000"]);
    server.control(&["SET", "number", "7"]);
    let before = dumped(&server, &keys);
    let listed = lockson(&server.url(), &["ls", "--json"]).expect(0);
    let names: Vec<_> = listed.values().iter().map(|found| found["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["number"]);
    assert!(listed.err.contains("7 more keys are not listed"), "{listed:?}");
    lockson(&server.url(), &["top", "--frames", "1"]).expect(0);
    for key in keys {
        let kind = server.control(&["TYPE", key]).text();
        let shown = lockson(&server.url(), &["show", key]).expect(0);
        assert!(shown.out.contains(&format!("foreign: a {kind}")) || key == "number", "{shown:?}");
        lockson(&server.url(), &["force", key, "--yes"]).expect(1);
        let named = lockson(&server.url(), &["force", key, "--owner", "somebody", "--yes"]);
        assert!(named.code != Some(0) && named.err.contains("lockson: "), "{named:?}");
    }
    assert_eq!(dumped(&server, &keys), before);
    // Where all that there is is listed, nothing is said of others.
    server.control(&["DEL", "text", "list", "set", "sorted", "stream", "hash", "leased"]);
    assert_eq!(lockson(&server.url(), &["ls"]).expect(0).err, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debt_is_said() {
    let server = Server::start();
    let locks = server.locks().await;
    let said = |name: &str| -> (Ran, Ran) {
        let show = |words: &[&str]| lockson(&server.url(), words).expect(0);
        (show(&["show", name]), show(&["show", name, "--json"]))
    };
    let semaphore = locks.semaphore("owed");
    semaphore.try_set_permits(2).await.unwrap();
    semaphore.reduce_permits(5).await.unwrap();
    let permits = locks.permit_semaphore("owed:permits");
    permits.try_set_permits(3).await.unwrap();
    let _permit = permits.guard(2).await.unwrap();
    permits.set_permits(1).await.unwrap();
    for (name, kind, debt) in [("owed", "semaphore", -3), ("owed:permits", "expirable semaphore", -1)] {
        let (text, value) = said(name);
        let words = format!("{name}  {kind}: {} are owed before one is free", -debt);
        assert!(text.out.starts_with(&words), "{text:?}");
        assert_eq!(value.values()[0]["number"], debt, "{value:?}");
    }
    let forced = lockson(&server.url(), &["force", "owed", "--yes"]).expect(1);
    assert!(forced.err.contains("nobody holds"), "{forced:?}");
}
