//! `run`: what it takes, what the command gets, and how it ends.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use support::prelude::*;
use support::server::program;
use support::{Deployment, Topology};

use super::program::{command, is_ignored, lives, lockson, pttl, until, Ran, Running};

const KINDS: [&str; 7] = ["lock", "fair", "read", "write", "fenced", "plain", "semaphore:1"];

#[test]
fn it_ends_as_its_command_does_and_gives_the_lock_back() {
    let server = Server::start();
    for kind in KINDS {
        let held = format!("it:{kind}");
        let show = format!("[ \"$LOCKSON_NAME\" = '{held}' ] && echo \"token=$LOCKSON_TOKEN\" && exit 7");
        let ran = lockson(&server.url(), &["run", &held, "--kind", kind, "--", "sh", "-c", &show]).expect(7);
        assert_eq!(ran.out.trim() != "token=", kind == "fenced", "{ran:?}");
        let found = lockson(&server.url(), &["show", &held, "--json"]).values();
        assert_eq!(found[0]["held"], 0, "{kind}: {found:?}");
        assert!(found[0]["taken"].is_null() || found[0]["taken"] == 0, "{kind}: {found:?}");
    }
    lockson(&server.url(), &["run", "it", "--", "true"]).expect(0);
    lockson(&server.url(), &["run", "it", "--", "sh", "-c", "kill -TERM $$"]).expect(128 + 15);
}

#[test]
fn who_holds_it_keeps_others_out() {
    let server = Server::start();
    for kind in KINDS {
        let holder = ["run", "out", "--kind", kind, "--", "sh", "-c", "echo $$; exec sleep 100"];
        let mut running = Running::start(&server.url(), &holder);
        let group = running.pid();
        let other = if kind == "read" { "write" } else { kind };
        let words = ["run", "out", "--kind", other, "--wait", "0", "--", "false"];
        let busy = lockson(&server.url(), &words).expect(75);
        assert_eq!(busy.err, "lockson: out is busy\n", "{kind}");
        let words = ["run", "out", "--kind", other, "--wait", "100ms", "-E", "9", "--", "false"];
        lockson(&server.url(), &words).expect(9);
        let words = ["run", "out", "--kind", other, "--wait", "20s", "--", "true"];
        let waiter = Running::start(&server.url(), &words);
        running.signal(Signal::TERM);
        running.end().expect(128 + 15);
        assert!(!lives(group));
        waiter.end().expect(0);
    }
}

#[test]
fn what_can_not_be_started_takes_no_lock() {
    let server = Server::start();
    for (program, code) in [("no-such-command", 127), ("/no/such", 127), ("/etc/passwd", 126)] {
        let ran = lockson(&server.url(), &["run", "none", "--", program]).expect(code);
        assert!(ran.err.starts_with(&format!("lockson: {program}: ")), "{ran:?}");
    }
    assert_eq!(server.calls("evalsha"), 0, "the server was not asked");
    // Found, but nothing can run it: the command's process says so.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "#!/no/such/interpreter\n").unwrap();
    let path = file.into_temp_path();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    lockson(&server.url(), &["run", "none", "--", path.to_str().unwrap()]).expect(127);
    assert_eq!(pttl(&server, "none"), -2);
    let words = ["run", "none", "--timeout", "300ms", "--url", "redis://127.0.0.1:1", "--", "true"];
    lockson("redis://127.0.0.1:1", &words).expect(69);
    server.control(&["RPUSH", "list", "a"]);
    lockson(&server.url(), &["run", "list", "--", "true"]).expect(2);
    lockson(&server.url(), &["run", "x", "--kind", "other", "--", "true"]).expect(2);
    lockson(&server.url(), &["run", "x"]).expect(2);
}

#[test]
fn the_command_has_the_input_the_output_and_the_signals() {
    let server = Server::start();
    let mut cat = command(&server.url(), &["run", "input", "--", "cat"]);
    let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"one\ntwo\n");
    let script = "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s\" $s; done; echo ready; \
                  while :; do sleep 0.05; done";
    let mut running = Running::start(&server.url(), &["run", "signals", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "ready");
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    for (signal, name) in signals.into_iter().zip(["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"]) {
        // As of a test that was started in the background: it stays ignored.
        if is_ignored(signal) {
            continue;
        }
        running.signal(signal);
        assert_eq!(running.line(), name);
    }
}

/// The lock is the whole group's: what the command leaves there is ended before others get it.
#[test]
fn what_the_command_leaves_behind_is_ended() {
    let server = Server::start();
    let script = "echo $$; trap '' TERM; sleep 1000 & sleep 1000 & exit 3";
    let words = ["run", "left", "--grace", "300ms", "--", "sh", "-c", script];
    let mut running = Running::start(&server.url(), &words);
    let group = running.pid();
    running.end().expect(3);
    assert!(!lives(group));
    assert_eq!(pttl(&server, "left"), -2, "and then it was given back");
}

#[test]
fn a_hold_that_is_ended_by_force_ends_the_command() {
    let server = Server::start();
    let words = ["run", "forced", "--lease", "3s", "--grace", "1s", "--", "sh", "-c", "echo $$; exec sleep 1000"];
    let mut running = Running::start(&server.url(), &words);
    let group = running.pid();
    assert!(pttl(&server, "forced") > 0);
    lockson(&server.url(), &["force", "forced", "--yes"]).expect(0);
    let ran = running.end().expect(74);
    assert!(ran.err.contains("the hold is lost"), "{ran:?}");
    assert!(!lives(group));
}

/// A second terminal's `kill` hits one process; all others of this hold have to end too.
#[test]
fn whoever_of_the_three_is_killed_the_command_ends() {
    let server = Server::start();
    // The keeper, which is the command's parent: as soon as there is a command, and so each time at another moment.
    for _ in 0..10 {
        let words = ["run", "keeper", "--", "sh", "-c", "echo $PPID; echo $$; sleep 1000; true"];
        let mut running = Running::start(&server.url(), &words);
        let (keeper, group) = (running.pid(), running.pid());
        rustix::process::kill_process(keeper, Signal::KILL).unwrap();
        let ran = running.end().expect(74);
        assert!(ran.err.contains("the helper was killed"), "{ran:?}");
        until(secs(5), "the group is gone", || !lives(group));
    }
    // While it waits for the lock.
    let mut holder = Running::start(&server.url(), &["run", "keeper", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    holder.pid();
    let waiter = Running::start(&server.url(), &["run", "keeper", "--", "true"]);
    until(secs(20), "it waits", || {
        lockson(&server.url(), &["show", "keeper", "--json"]).values()[0]["listening"].as_u64() > Some(0)
    });
    waiter.signal(Signal::TERM);
    waiter.end().expect(128 + 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_holds_on_each_topology() {
    let topologies = [Topology::Single, Topology::Sentinel, Topology::Cluster];
    let urls = topologies.map(|topology| (topology, Deployment::shared(topology, &program()).url()));
    // At once, as each hears of the force at its next renewal.
    std::thread::scope(|cases| {
        for (topology, url) in &urls {
            for kind in ["lock", "fenced", "semaphore:1"] {
                cases.spawn(move || holds(*topology, url, kind));
            }
        }
    });
}

fn holds(topology: Topology, url: &str, kind: &'static str) {
    let name = unique("run");
    let run = |rest: &[&'static str]| [&["run", name.as_str(), "--kind", kind][..], rest].concat();
    let own = lockson(url, &run(&["--", "sh", "-c", "echo \"token=$LOCKSON_TOKEN\"; exit 7"])).expect(7);
    assert_eq!(own.out.trim() != "token=", kind == "fenced", "{topology:?}: {own:?}");
    let held = run(&["--grace", "1s", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut running = Running::start(url, &held);
    let group = running.pid();
    lockson(url, &run(&["--wait", "0", "--", "true"])).expect(75);
    lockson(url, &["force", &name, "--yes"]).expect(0);
    running.end().expect(74);
    assert!(!lives(group), "{topology:?} {kind}");
    lockson(url, &run(&["--wait", "0", "--", "true"])).expect(0);
}

/// What is on the last line of stderr, and what is on those before it.
fn outcome(ran: &Ran) -> (serde_json::Value, Vec<&str>) {
    let mut lines: Vec<&str> = ran.err.lines().collect();
    let last = lines.pop().unwrap_or_default();
    (serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {ran:?}")), lines)
}

#[test]
fn as_json_it_says_what_it_came_to() {
    let server = Server::start();
    let of = |url: &str, words: &[&str], code: i32| {
        let ran = lockson(url, &[&["--json", "run"], words].concat()).expect(code);
        let (told, before) = outcome(&ran);
        assert!(told["code"] == code && before.is_empty() && ran.out.is_empty(), "{ran:?}");
        told
    };
    let expect = |told: serde_json::Value, outcome: &str| assert_eq!(told["outcome"], outcome, "{told}");
    let ended = of(&server.url(), &["told", "--", "sh", "-c", "exit 7"], 7);
    assert_eq!(ended, serde_json::json!({ "name": "told", "outcome": "ended", "code": 7 }));
    let fenced = of(&server.url(), &["fenced", "--kind", "fenced", "--", "true"], 0);
    let found = lockson(&server.url(), &["show", "fenced", "--json"]).values();
    assert!(fenced["token"].is_u64() && fenced["token"] == found[0]["token"], "{fenced}: {found:?}");
    let mut running =
        Running::start(&server.url(), &["run", "told", "--json", "--", "sh", "-c", "echo; exec sleep 1000"]);
    running.line();
    let busy = of(&server.url(), &["told", "--wait", "0", "--", "true"], 75);
    assert_eq!(busy["error"], "told is busy");
    expect(busy, "busy");
    lockson(&server.url(), &["force", "told", "--yes"]).expect(0);
    let ran = running.end().expect(74);
    let (lost, before) = outcome(&ran);
    assert_eq!((lost, before), (serde_json::json!({ "name": "told", "outcome": "lost", "code": 74 }), vec![]));
    expect(of("redis://127.0.0.1:1", &["told", "--timeout", "300ms", "--", "true"], 69), "unreachable");
    expect(of(&server.url(), &["told", "--", "no-such-command"], 127), "not_started");
    expect(of(&server.url(), &["lockson:x", "--", "true"], 2), "refused");
    // Found, but nothing can run it: the command's process says so before.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = lockson(&server.url(), &["run", "told", "--json", "--", path.to_str().unwrap()]).expect(127);
    let (told, before) = outcome(&ran);
    expect(told, "ended");
    let before: serde_json::Value = serde_json::from_str(before[0]).unwrap();
    assert!(before["code"] == 127 && before["error"].is_string(), "{ran:?}");
    // Given up while it waits.
    let mut holder = Running::start(&server.url(), &["run", "told", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    holder.pid();
    let waiter = Running::start(&server.url(), &["run", "told", "--json", "--", "true"]);
    until(secs(20), "it waits", || {
        lockson(&server.url(), &["show", "told", "--json"]).values()[0]["listening"].as_u64() > Some(0)
    });
    waiter.signal(Signal::TERM);
    expect(outcome(&waiter.end().expect(128 + 15)).0, "interrupted");
}

#[test]
fn as_json_every_verb_says_its_failures() {
    let server = Server::start();
    server.control(&["HSET", "held", "8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:71", "1"]);
    let away = "redis://127.0.0.1:1";
    let here = server.url();
    let cases: [(&str, &[&str], i32); 10] = [
        (away, &["ls", "--timeout", "300ms"], 69),
        (away, &["show", "x", "--timeout", "300ms"], 69),
        (away, &["force", "x", "--timeout", "300ms"], 69),
        (away, &["doctor", "--timeout", "300ms"], 69),
        (away, &["watch", "x", "--timeout", "300ms"], 69),
        (away, &["top", "--timeout", "300ms"], 69),
        (&here, &["ls", "--kind", "other"], 2),
        (&here, &["force", "held"], 2),
        (&here, &["force", "nothing", "--yes"], 1),
        // What is not understood as it is typed.
        (&here, &["run", "x", "--kind", "other", "--", "true"], 2),
    ];
    for (url, words, code) in cases {
        let ran = lockson(url, &[&["--json"], words].concat()).expect(code);
        let (told, before) = outcome(&ran);
        assert!(told["error"].is_string() && told["code"] == code && before.is_empty(), "{words:?}: {ran:?}");
    }
    // That is a word of the command's.
    let ran = lockson(&here, &["run", "x", "--kind", "other", "--", "true", "--json"]).expect(2);
    assert!(ran.err.starts_with("error: invalid value 'other'"), "{ran:?}");
}
