//! Each Lua script by itself: what it answers, what is stored behind it and who hears of it, told as stories.

mod fair;
mod fair_free;
mod permits;
mod plain;
mod read;
mod reentrant;
mod shared;
mod stage;
mod story;
mod write;

use std::collections::BTreeMap;

use support::Server;

/// Tests that are a story each: lines as [`story::tell`] reads them. `STORIES` are all of them, by their names.
macro_rules! stories {
    ($($name:ident { $($line:literal)* })*) => {
        pub const STORIES: &[(&str, &[&str])] = &[$((stringify!($name), &[$($line),*])),*];
        $(#[tokio::test(start_paused = true)]
        async fn $name() {
            crate::lua::story::tell(&[$($line),*]).await;
        })*
    };
}
use stories;

const STORIES: [&[(&str, &[&str])]; 8] = [
    fair::STORIES,
    fair_free::STORIES,
    permits::STORIES,
    plain::STORIES,
    read::STORIES,
    reentrant::STORIES,
    shared::STORIES,
    write::STORIES,
];

/// What takes, makes, hands on or says that it still waits: refused where there is no memory. All else works then, what
/// gives back above all.
const REFUSED: [&str; 15] = [
    "fair/acquire",
    "fair/refresh",
    "fenced/run",
    "latch/set",
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

/// Every call of every story, and every script that writes among them: with no memory left it does all, or nothing.
#[tokio::test]
async fn out_of_memory_it_is_all_or_nothing() {
    let server = Server::start();
    let (mut done, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for (name, lines) in STORIES.concat() {
        // A lease may end on a busy machine. What is wrong is so each time.
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
