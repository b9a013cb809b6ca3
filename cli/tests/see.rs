//! `ls`, `show` and `force`: of every kind, on one server, behind sentinels, in a cluster, and of Redisson's.

use support::prelude::*;
use support::server::program;
use support::{Deployment, Topology};

use super::program::{lockson, Ran, Running};

/// A holder's field as Redisson writes it.
const JAVA: &str = "8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:71";

fn names(ran: &Ran) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    ran.values().iter().map(|found| (text(&found["name"]), text(&found["kind"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_are_listed_shown_and_ended_on_each_topology() {
    for topology in [Topology::Single, Topology::Sentinel, Topology::Cluster] {
        let url = Deployment::shared(topology, &program()).url();
        let (locks, of) = (Locks::connect(&url).await.unwrap(), unique("see"));
        let name = |kind: &str| format!("{of}:{kind}");
        let held = [
            locks.lock(&name("lock")).guard().await.unwrap(),
            locks.read_write_lock(&name("read")).read().guard().await.unwrap(),
            locks.read_write_lock(&name("write")).write().guard().await.unwrap(),
            locks.plain_lock(&name("plain")).guard().await.unwrap(),
        ];
        locks.semaphore(&name("semaphore")).try_set_permits(2).await.unwrap();
        locks.permit_semaphore(&name("permits")).try_set_permits(2).await.unwrap();
        let permit = locks.permit_semaphore(&name("permits")).guard(1).await.unwrap();
        let listed = lockson(&url, &["ls", &format!("{of}:*"), "--json"]).expect(0);
        let kinds = ["lock", "permits", "plain", "read", "semaphore", "write"];
        assert_eq!(names(&listed), kinds.map(|kind| (name(kind), kind.to_owned())));
        for kind in ["lock", "read", "write", "plain", "permits"] {
            let shown = lockson(&url, &["show", &name(kind)]).expect(0);
            assert!(shown.out.starts_with(&name(kind)) && shown.out.contains("lease") | (kind == "plain"), "{shown:?}");
            lockson(&url, &["force", &name(kind), "--yes"]).expect(0);
            lockson(&url, &["force", &name(kind), "--yes"]).expect(1);
        }
        let only = lockson(&url, &["ls", &format!("{of}:*"), "--kind", "semaphore,lock", "--json"]).expect(0);
        // So is an expirable one of which no permit is taken.
        let semaphores = ["permits", "semaphore"].map(|kind| (name(kind), "semaphore".to_owned()));
        assert_eq!(names(&only), semaphores);
        lockson(&url, &["force", &name("semaphore"), "--yes"]).expect(1);
        for guard in held {
            assert!(guard.unlock().await.is_err(), "it was ended");
        }
        drop(permit);
    }
}

#[test]
fn a_hold_that_changed_hands_is_left_alone() {
    let server = Server::start();
    server.control(&["HSET", "java", JAVA, "1"]);
    let shown = lockson(&server.url(), &["show", "java", "--json"]).expect(0);
    let owner = shown.values()[0]["holders"][0]["owner"].as_str().unwrap().to_owned();
    assert_eq!(owner, JAVA);
    server.control(&["DEL", "java"]);
    server.control(&["HSET", "java", &JAVA.replace(":71", ":72"), "1"]);
    let forced = lockson(&server.url(), &["force", "java", "--owner", &owner, "--yes"]).expect(1);
    assert!(forced.err.contains("does not hold it any more"), "{forced:?}");
    assert_eq!(server.control(&["HLEN", "java"]).int(), 1);
    // Nobody is there to be asked.
    lockson(&server.url(), &["force", "java"]).expect(2);
    server.control(&["HSET", "read", "mode", "read", JAVA, "1", &JAVA.replace(":71", ":72"), "1"]);
    for owner in [JAVA, &JAVA.replace(":71", ":72")] {
        server.control(&["SET", &format!("{{read}}:{owner}:rwlock_timeout:1"), "1", "PX", "30000"]);
    }
    let several = lockson(&server.url(), &["force", "read", "--yes"]).expect(2);
    assert!(several.err.contains("--owner"), "{several:?}");
    assert_eq!(server.control(&["HLEN", "read"]).int(), 3);
}

/// Of a client that says who it is, its machine and process, and for how long it has held what it holds.
#[tokio::test(flavor = "multi_thread")]
async fn who_holds_it_is_shown() {
    let server = Server::start();
    let locks = Locks::builder().presence(true).watchdog_lease(secs(3)).connect(&server.url()).await.unwrap();
    let _guard = locks.lock("whose").guard().await.unwrap();
    let held = |shown: &Ran| shown.values()[0]["holders"][0]["held_ms"].as_u64();
    let is_said = async || held(&lockson(&server.url(), &["show", "whose", "--json"]).expect(0)).is_some();
    eventually(secs(20), "it says so", is_said).await;
    let shown = lockson(&server.url(), &["show", "whose", "--json"]).expect(0);
    let holder = shown.values()[0]["holders"][0].clone();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!((holder["pid"].as_u64(), holder["host"].as_str()), (Some(std::process::id().into()), Some(host.trim())));
    assert!(holder["running_ms"].as_u64() >= held(&shown), "{holder}");
    let shown = lockson(&server.url(), &["show", "whose"]).expect(0);
    let process = format!("process {} of {}, lockson ", std::process::id(), host.trim());
    assert!(shown.out.contains(&process) && shown.out.contains(", for "), "{shown:?}");
}

#[test]
fn bad_input_is_told_from_what_is_not_there() {
    let server = Server::start();
    lockson(&server.url(), &["show", "nothing"]).expect(1);
    lockson(&server.url(), &["show", "lockson:x"]).expect(2);
    lockson(&server.url(), &["ls", "--kind", "other"]).expect(2);
    lockson(&server.url(), &["nonsense"]).expect(2);
    lockson("http://x", &["ls"]).expect(69);
    server.control(&["SET", "text", "a\x1b[31m"]);
    let foreign = lockson(&server.url(), &["show", "text"]).expect(0);
    assert!(foreign.out.contains("foreign"), "{foreign:?}");
    lockson(&server.url(), &["force", "text", "--yes"]).expect(1);
    // A name and a holder that would do something to a terminal.
    let field = format!("{JAVA}\x1b[2J");
    server.control(&["HSET", "evil\x1b]0;x\x07", &field, "1"]);
    let listed = lockson(&server.url(), &["ls", "--color", "always"]).expect(0);
    assert!(!listed.out.contains("\x1b[2J") && !listed.out.contains('\x07'), "{listed:?}");
    assert!(lockson(&server.url(), &["ls"]).out.contains("evil\\u{1b}"));
    let wrong = lockson(&server.url().replace("redis://", "redis://nobody:secret@"), &["ls"]).expect(69);
    assert!(!wrong.err.contains("secret"), "{wrong:?}");
}

#[test]
fn what_endangers_locks_is_said() {
    let server = Server::with(&[("maxmemory", "100mb")]);
    let levels = |ran: &Ran, what: &str| -> Vec<String> {
        let found = ran.values().into_iter().filter(|finding| finding["what"] == what);
        found.map(|finding| finding["level"].as_str().unwrap().to_owned()).collect()
    };
    let well = lockson(&server.url(), &["doctor", "--json"]).expect(0);
    assert_eq!((levels(&well, "eviction"), levels(&well, "role")), (vec!["ok".into()], vec!["ok".into()]), "{well:?}");
    server.control(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    server.control(&["CONFIG", "SET", "appendonly", "yes"]);
    server.control(&["ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", "-zincrby", "-lpop"]);
    let url = server.url().replace("redis://", "redis://few:pw@");
    let ill = lockson(&url, &["doctor", "--json"]).expect(1);
    assert_eq!(
        (levels(&ill, "eviction"), levels(&ill, "rights")),
        (vec!["bad".into()], vec!["note".into()]),
        "{ill:?}"
    );
    assert!(ill.out.contains("no fair for this user: it may not call LPOP, ZINCRBY"), "{ill:?}");
    lockson("redis://127.0.0.1:1", &["doctor", "--timeout", "300ms"]).expect(69);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_looks_at_every_server_of_a_deployment() {
    for (topology, servers) in [(Topology::Sentinel, 1), (Topology::Cluster, support::cluster::PRIMARIES)] {
        let ran = lockson(&Deployment::shared(topology, &program()).url(), &["doctor", "--json"]).expect(0);
        let found = ran.values().into_iter().filter(|finding| finding["what"] == "version").count();
        assert_eq!(found, servers, "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_and_watch_outlast_a_server_that_is_away() {
    let server = Server::start();
    let locks = server.locks().await;
    let guard = locks.lock("top:1").guard().await.unwrap();
    let first = lockson(&server.url(), &["top", "--frames", "2", "--interval", "10ms"]).expect(0);
    assert_eq!(first.out.matches("1 objects, 1 held").count(), 2, "{first:?}");
    let mut watch = Running::start(&server.url(), &["watch", "top:1", "--interval", "50ms", "--json"]);
    let mut top = Running::start(&server.url(), &["top", "--frames", "1000", "--interval", "50ms"]);
    assert!(watch.line().contains("\"held\""));
    top.line();
    server.freeze();
    while !watch.line().contains("unreachable") {}
    while !top.line().contains("UNREACHABLE") {}
    assert!(top.line().contains("NAME") && top.line().contains("top:1"), "what was seen stays");
    server.thaw();
    while !watch.line().contains("\"reachable\"") {}
    while !top.line().contains("1 objects") {}
    drop(guard);
    while !watch.line().contains("released") {}
}

#[test]
fn completions_and_the_man_page_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(lockson("", &["completions", shell]).expect(0).out.contains("lockson"));
    }
    let page = lockson("", &["man"]).expect(0).out;
    assert!(page.contains(".TH lockson") && page.contains("LOCKSON_URL"), "{page}");
    let (_, run) = page.split_once(".SH \"LOCKSON RUN\"").expect("what `run` takes");
    assert!(run.contains("\\-\\-lease") && run.contains("\\-\\-grace"), "{run}");
}
