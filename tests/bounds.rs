//! No script touches more than about 500 elements (PROTOCOL rule 12): counted here, timed by the bench `bounds`.

use std::collections::BTreeSet;

use lockson::Reply;
use support::bounds::{Bound, BOUNDS, CALLS, FAIR_BOUNDS, MOST};
use support::files;
use support::prelude::*;

/// What a small hash (up to 512 fields) costs is bounded by its being small: a real server gives it in one piece.
const SIZES: [usize; 3] = [100, 1_000, 10_000];

/// The keys themselves are counted, too.
const KEYS: usize = 10;

/// The most that one of its calls touches, and what they answered.
fn touched(bound: &Bound, size: usize) -> Result<(usize, Vec<i64>), String> {
    let server = EmbeddedServer::new();
    server.eval(&bound.build(), &[], &[&size.to_string()]).unwrap();
    let text = bound.text();
    let keys = bound.keys();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (mut most, mut statuses) = (0, vec![]);
    for call in 0..CALLS {
        let args = bound.args(call);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (reply, touched) = server.eval_counted(&text, &keys, &args)?;
        let status = match &reply {
            Reply::List(items) => items.first().cloned(),
            Reply::Text(text) => text.split(' ').next().and_then(|word| word.parse().ok()).map(Reply::Int),
            _ => None,
        };
        let Some(Reply::Int(status)) = status else { panic!("{}: {reply:?}", bound.script) };
        most = most.max(touched);
        statuses.push(status);
    }
    Ok((most, statuses))
}

/// Those that touch more, of which none may be.
fn too_many(bounds: &[Bound]) -> Vec<String> {
    let mut found = vec![];
    for bound in bounds {
        for size in SIZES {
            let said = format!("{}, {}, n = {size}", bound.script, bound.what);
            match touched(bound, size) {
                Ok((touched, statuses)) => {
                    println!("{said}: {touched} elements, {statuses:?}");
                    if touched > MOST + KEYS && bound.exception.is_none() {
                        found.push(format!("{said}: {touched}"));
                    }
                }
                Err(error) => found.push(format!("{said}: {error}")),
            }
        }
    }
    found
}

#[test]
fn no_script_touches_more_than_500_elements() {
    assert_eq!(too_many(&BOUNDS), Vec::<String>::new());
}

#[test]
fn no_script_of_the_fair_lock_touches_more_than_500_elements() {
    assert_eq!(too_many(&FAIR_BOUNDS), Vec::<String>::new());
}

/// What the server counts, for a script that touches ten of everything and more.
#[test]
fn elements_are_counted_once_each() {
    let server = EmbeddedServer::new();
    let count = |text: &str| server.eval_counted(text, &[], &[]).unwrap().1;
    server
        .eval(
            "for i = 1, 10 do redis.call('HSET', 'h', 'f' .. i, 1) redis.call('RPUSH', 'l', i) \
             redis.call('ZADD', 'z', i, 'm' .. i) end",
            &[],
            &[],
        )
        .unwrap();
    assert_eq!(count("return 1"), 0);
    let one = "redis.call('HGET', 'h', 'f1') redis.call('HDEL', 'h', 'f1') redis.call('HSET', 'h', 'f1', 2)";
    assert_eq!(count(one), 1);
    assert_eq!(count("return redis.call('HGETALL', 'h')"), 10);
    assert_eq!(count("return redis.call('HSCAN', 'h', 0)[1]"), 10);
    assert_eq!(count("redis.call('HMGET', 'h', 'a', 'b') redis.call('ZSCORE', 'z', 'a')"), 3);
    assert_eq!(count("return redis.call('LRANGE', 'l', 0, 3)"), 4);
    assert_eq!(count("redis.call('ZADD', 'z', 'XX', 'GT', 1, 'm1', 2, 'm2')"), 2);
    assert_eq!(count("return redis.call('ZCOUNT', 'z', '-inf', '+inf')"), 1);
    assert_eq!(count("redis.call('LREM', 'l', 0, 'none')"), 11);
    assert_eq!(count("redis.call('ZREMRANGEBYRANK', 'z', 0, 2)"), 3);
    assert_eq!(count("redis.call('UNLINK', 'h') redis.call('DEL', 'l')"), 12);
}

/// What goes through a key, or round a loop.
const GOES_THROUGH: [&str; 14] = [
    "'HGETALL'",
    "'HKEYS'",
    "'HVALS'",
    "'HSCAN'",
    "'LRANGE'",
    "'LREM'",
    "'LPOS'",
    "'ZRANGE",
    "'ZREMRANGE",
    "'ZPOPMIN'",
    "unpack(",
    "for ",
    "while ",
    "repeat",
];

/// A new script, or a new loop in one, is measured too.
#[test]
fn every_script_that_goes_through_something_is_measured() {
    let measured: BTreeSet<&str> = BOUNDS.iter().chain(&FAIR_BOUNDS).map(|bound| bound.script).collect();
    let mut missing = vec![];
    for path in files::below("lua") {
        let script = path.trim_start_matches("lua/").trim_end_matches(".lua").to_owned();
        let text = files::read(&path);
        let code: String = text.lines().filter_map(|line| line.split("--").next()).collect::<Vec<_>>().join("\n");
        // What stands before scripts is measured with them; `fenced/run` runs what a caller wrote.
        let is_shared = ["begin", "once", "ids", "read_write", "fair/begin", "fair/wait", "fenced/run", "admin/what"]
            .contains(&script.as_str());
        let goes_through = GOES_THROUGH.iter().any(|word| code.contains(word));
        let uses_shared = ["read/", "write/", "fair/"].iter().any(|folder| script.starts_with(folder));
        if !is_shared && (goes_through || uses_shared) && !measured.contains(script.as_str()) {
            missing.push(script);
        }
    }
    assert!(missing.is_empty(), "tests/support/bounds.rs lacks {missing:?}");
}
