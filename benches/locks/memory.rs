//! Memory of a hold and of a waiter: growth of a process of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::child::{Child, Parent};
use crate::renewals::hold_many;
use crate::table::{Ratio, Row};
use lockson::Locks;
use support::Server;

const COUNT: u64 = 10_000;

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// Says how many bytes the process grew by.
pub async fn child(what: &str, url: &str, count: usize, parent: &mut Parent) {
    let locks = Locks::connect(url).await.expect("a client");
    // What the first use sets up is not counted.
    drop(locks.lock("warm").guard().await.expect("held"));
    let before = resident();
    let mut guards = Vec::new();
    match what {
        "holds" => guards = hold_many(&locks, count).await,
        "waiters of one" => wait_many(count, |_| locks.lock("taken")),
        "waiters each of one" => wait_many(count, |number| locks.lock(&format!("many:{number}"))),
        _ => {
            let mutex = Arc::new(tokio::sync::Mutex::new(()));
            let held = mutex.clone().lock_owned().await;
            for _ in 0..count {
                tokio::spawn(mutex.clone().lock_owned());
            }
            std::mem::forget(held);
        }
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    parent.say(&[resident() - before]).await;
    drop(guards);
}

fn wait_many(count: usize, lock: impl Fn(usize) -> lockson::ReentrantLock) {
    for number in 0..count {
        let lock = lock(number);
        tokio::spawn(async move { lock.guard().await });
    }
}

/// Bytes per hold, waiter or task.
async fn per_one(what: &str, server: &Server) -> (f64, Child) {
    let mut child = Child::start(&["memory", what, &server.url(), &COUNT.to_string()]);
    let grown = child.numbers().await[0];
    (grown as f64 / COUNT as f64, child)
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let server = Server::start();
    let taken = Locks::connect(&server.url()).await.expect("a client");
    let _taken = taken.lock("taken").guard().await.expect("held");
    let (task, _) = per_one("tasks", &server).await;
    let (waiter, _) = per_one("waiters of one", &server).await;
    // Its names stay held for the next.
    let (hold, _holder) = per_one("holds", &server).await;
    let (apart, _) = per_one("waiters each of one", &server).await;
    let said = |bytes: f64| format!("{bytes:.0} bytes");
    let beside = format!("a task that waits for a tokio Mutex: {task:.0} bytes");
    vec![
        Row::new(format!("memory per watched hold, of {COUNT} names"), said(hold)),
        Row::new(format!("memory per waiting task, {COUNT} on one name"), said(waiter))
            .beside(beside.clone())
            .ratio(Ratio::single(waiter / task)),
        Row::new(format!("the same, on {COUNT} names"), said(apart)).beside(beside).ratio(Ratio::single(apart / task)),
    ]
}
