//! What goes wrong with locks that are written by hand, on real servers, command by command (docs/PITFALLS.md). Each
//! test shows the failure, and that lockson does not have it. What decides is the order of the commands, not a clock.

mod outliving;
mod releasing;
mod taking;

use std::collections::BTreeSet;

use support::prelude::*;

/// A lease that ends before the work does. Whoever uses it awaits its end.
const SHORT: &str = "50";
/// One that does not end within a test.
const LONG: &str = "60000";

async fn connect(server: &Server) -> Locks {
    server.locks().await
}

/// `SETNX`: whether it took the lock.
async fn setnx(raw: &mut Raw, key: &str, value: &str) -> bool {
    raw.must(&["SETNX", key, value]).await.int() == 1
}

/// `SET NX PX`, as it should be done: whether it took the lock.
async fn take(raw: &mut Raw, key: &str, value: &str, lease: &str) -> bool {
    raw.must(&["SET", key, value, "NX", "PX", lease]).await.optional().is_some()
}

/// Awaits that the lease ends.
async fn expired(raw: &mut Raw, key: &str) {
    eventually(secs(20), "the lease ends", async || !raw.exists(key).await).await;
}

/// The names after `mark`, up to a backtick or parenthesis.
fn names(text: &str, mark: &str) -> BTreeSet<String> {
    text.split(mark).skip(1).map(|rest| rest.split(['`', '(']).next().unwrap().to_owned()).collect()
}

#[test]
fn each_section_names_its_test_and_each_test_has_its_section() {
    let folder = support::root().join("tests/pitfalls");
    let mut tests = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        tests.extend(names(&text, "#[tokio::test]\nasync fn "));
    }
    let docs = include_str!("../../docs/PITFALLS.md");
    let sections: Vec<&str> = docs.split("\n## ").skip(1).collect();
    for section in &sections {
        assert_eq!(names(section, "\nTest: `").len(), 1, "one test: {section}");
    }
    assert_eq!(names(docs, "\nTest: `"), tests);
    assert_eq!(sections.len(), tests.len(), "a test stands in two sections");
}
