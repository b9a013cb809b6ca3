//! Each Lua script by itself: what it answers, what is stored behind it and who hears of it, told as stories.

mod admin;
mod fair;
mod fair_free;
mod fair_hand_over;
mod fair_leave;
mod group;
mod grouped;
mod permits;
mod plain;
mod read;
mod reentrant;
mod rights;
mod shared;
mod stage;
mod story;
mod write;

use std::collections::BTreeMap;

use support::Server;

/// Tests that are a story each: lines as [`story::tell`] reads them. `STORIES` are all of them, by their names;
/// those that write nothing are told once only.
macro_rules! stories {
    ($($name:ident { $($line:literal)* })*) => {
        #[allow(dead_code)]
        pub const STORIES: &[(&str, &[&str])] = &[$((stringify!($name), &[$($line),*])),*];
        $(#[tokio::test(start_paused = true)]
        async fn $name() {
            crate::lua::story::tell(&[$($line),*]).await;
        })*
    };
}
use stories;

/// Those of calls that are alone, with all their rights: of `group` each call is all or nothing by itself. Of an
/// operator's scripts one alone writes.
const STORIES: [&[(&str, &[&str])]; 10] = [
    fair::STORIES,
    fair_free::STORIES,
    fair_hand_over::STORIES,
    grouped::STORIES,
    permits::STORIES,
    plain::STORIES,
    read::STORIES,
    reentrant::STORIES,
    shared::STORIES,
    write::STORIES,
];

/// What takes, makes, hands on or says that it still waits: refused where there is no memory. All else works then, what
/// gives back above all.
const REFUSED: [&str; 20] = [
    "admin/present",
    "fair/acquire",
    "fair/hand_over",
    "fair/refresh",
    "fenced/run",
    "grouped/acquire",
    "grouped/acquire_all",
    "latch/set",
    "multi/acquire",
    "multi/server_id",
    "permit_semaphore/acquire",
    "permit_semaphore/set",
    "plain/acquire",
    "plain/hand_over",
    "read/acquire",
    "read/admit",
    "reentrant/acquire",
    "reentrant/hand_over",
    "semaphore/acquire",
    "write/acquire",
];

/// The story of an operator's script that writes.
const OF_A_CLIENT: &str = "a_client_says_who_it_is";

/// Every call of every story, and every script that writes among them: with no memory left it does all, or nothing.
#[tokio::test]
async fn out_of_memory_it_is_all_or_nothing() {
    let server = Server::start();
    let (mut done, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    let of_a_client = admin::STORIES.iter().copied().filter(|(name, _)| *name == OF_A_CLIENT);
    for (name, lines) in STORIES.concat().into_iter().chain(of_a_client) {
        // A lease may end on a busy machine, or a call come too late. What is wrong is so each time.
        let mut told = Err(String::new());
        for _ in 0..3 {
            if told.is_err() {
                told = story::tell_out_of_memory(&server, lines).await;
            }
        }
        match told {
            Ok((did, scripts)) => {
                done += did;
                scripts.into_iter().for_each(|script| *refused.entry(script).or_insert(0) += 1);
            }
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    println!("{done} calls did all without memory; refused, and nothing written: {refused:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(refused.keys().map(String::as_str).collect::<Vec<_>>(), REFUSED);
    assert!(done > 300, "{done}");
}

/// What a script may leave that is refused one command: what was true before it, and what ends by itself. Nothing of it
/// is a hold, a permit or a count.
const LEFT: [(&str, &[&str]); 21] = [
    // The receipt lives for longer.
    ("cancel", &["SET"]),
    ("latch/cancel", &["SET"]),
    ("latch/count_down", &["SET"]),
    // It lives for a millisecond more.
    ("reentrant/move", &["HSET"]),
    // The lease is set.
    ("plain/extend", &["PTTL"]),
    ("reentrant/extend", &["PTTL"]),
    // What has expired is free. And refused once for another reason, it may not undo what it did.
    ("permit_semaphore/acquire", &["DECRBY", "PTTL", "SET", "ZADD", "ZRANGE", "DEL", "ZREM"]),
    // The receipt of an earlier call is gone; and as above.
    ("semaphore/acquire", &["DECRBY", "DEL"]),
    // A count of 0 is gone; as above; the marker of a vote is there.
    ("reentrant/acquire", &["PEXPIRE", "HDEL", "HEXISTS", "HGET", "HINCRBY", "PTTL"]),
    // Refused once for another reason, it may not undo what it did.
    ("multi/acquire", &["HDEL"]),
    // Not given back, it says.
    ("multi/release", &["HDEL", "HGET"]),
    // It lives for longer.
    ("reentrant/release", &["HINCRBY"]),
    // What is over has gone; and refused once for another reason, it may not undo what it did.
    ("grouped/acquire", &["HSET", "HDEL", "PEXPIRE"]),
    // As above.
    ("grouped/acquire_all", &["HSET", "HDEL", "PEXPIRE", "PTTL"]),
    // Not renewed, it says, or nothing; the group lives for longer.
    ("grouped/renew", &["HGET", "HSET"]),
    // Not given back, it says.
    ("grouped/release_all", &["HDEL", "HGET"]),
    // As above, and readers have no turn.
    ("write/release", &["HINCRBY", "SET", "ZCOUNT"]),
    // It is said to wait for 2 s more.
    ("write/settle", &["ZREM"]),
    // Not renewed, it says.
    ("permit_semaphore/renew", &["ZCARD"]),
    // As above; and without PTTL, which only a lease that is long enough needs, those before it are renewed.
    ("plain/renew", &["GET", "PTTL"]),
    ("reentrant/renew", &["HEXISTS", "PTTL"]),
];

/// Every call of the stories, without each right that it uses: it does all, or nothing. (Of the queue of a fair lock
/// and of readers something may be left, which the next call of the client for the same owner makes good.)
#[tokio::test(start_paused = true)]
async fn without_a_right_it_is_all_or_nothing() {
    let (mut refused, mut wrong, mut unknown) = (0, BTreeMap::new(), Vec::new());
    for (_, lines) in STORIES.concat() {
        let (count, found) = story::tell_without_rights(lines).await;
        refused += count;
        wrong.extend(found.into_iter().map(|(script, command, what)| ((script, command), what)));
    }
    let left = LEFT.iter().flat_map(|(script, commands)| commands.iter().map(|command| (*script, *command)));
    let mut left: Vec<(&str, &str)> = left.collect();
    let settled = ["fair/", "read/", "write/acquire", "write/extend", "write/renew", "preflight"];
    for ((script, command), what) in wrong {
        if left.contains(&(script.as_str(), command.as_str())) {
            left.retain(|known| *known != (script.as_str(), command.as_str()));
        } else if !settled.iter().any(|room| script.starts_with(room)) {
            unknown.push(format!("without {command} {what}"));
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    println!("{refused} calls were refused, and left nothing");
    assert!(refused > 2_000, "{refused}");
    assert!(left.is_empty(), "nothing is left any more: {left:?}");
}
