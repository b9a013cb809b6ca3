//! Memory of a hold, a waiter and a client: the live heap of a process of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::child::{Child, Parent};
use crate::heap;
use crate::renewals::hold_many;
use crate::table::{Goal, Ratio, Row};
use lockson::Locks;
use support::Server;

const COUNT: u64 = 10_000;

/// Clients are fewer.
const CLIENTS: u64 = 50;

/// Says how many bytes more there are.
pub async fn child(what: &str, url: &str, count: usize, parent: &mut Parent) {
    heap::begin();
    let locks = Locks::connect(url).await.expect("a client");
    // What the first use sets up is not counted.
    drop(locks.lock("warm").guard().await.expect("held"));
    let before = heap::live();
    let (mut guards, mut clients) = (Vec::new(), Vec::new());
    match what {
        "holds" => guards = hold_many(&locks, count).await,
        "clients" => {
            for _ in 0..count {
                clients.push(Locks::connect(url).await.expect("a client"));
            }
        }
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
    tokio::time::sleep(Duration::from_secs(4)).await;
    parent.say(&[(heap::live() - before).unsigned_abs()]).await;
    drop((guards, clients));
}

fn wait_many(count: usize, lock: impl Fn(usize) -> lockson::ReentrantLock) {
    for number in 0..count {
        let lock = lock(number);
        tokio::spawn(async move { lock.guard().await });
    }
}

/// Bytes per hold, waiter, task or client.
async fn per_one(what: &str, server: &Server, count: u64) -> (f64, Child) {
    let mut child = Child::start(&["memory", what, &server.url(), &count.to_string()]);
    let grown = child.numbers().await[0];
    (grown as f64 / count as f64, child)
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let server = Server::start();
    let taken = Locks::connect(&server.url()).await.expect("a client");
    let _taken = taken.lock("taken").guard().await.expect("held");
    let (client, _) = per_one("clients", &server, CLIENTS).await;
    let (task, _) = per_one("tasks", &server, COUNT).await;
    let (waiter, _) = per_one("waiters of one", &server, COUNT).await;
    // Its names stay held for the next.
    let (hold, _holder) = per_one("holds", &server, COUNT).await;
    let (apart, _) = per_one("waiters each of one", &server, COUNT).await;
    let said = |bytes: f64| format!("{bytes:.0} bytes");
    let within = |row: Row, bytes: f64, most: f64| row.ratio(Ratio::single(bytes / most)).goal(Goal::AtMost(1.0));
    let beside = format!("a task that waits for a tokio Mutex: {task:.0} bytes");
    vec![
        within(Row::new("live heap per client", said(client)).beside("at most 400,000"), client, 400_000.0),
        within(
            Row::new(format!("per watched hold, of {COUNT} names"), said(hold)).beside("at most 1,024"),
            hold,
            1024.0,
        ),
        within(
            Row::new(format!("per waiting task, {COUNT} on one name"), said(waiter)).beside("at most 1,024"),
            waiter,
            1024.0,
        ),
        Row::new("the same", said(waiter)).beside(beside.clone()).ratio(Ratio::single(waiter / task)),
        Row::new(format!("the same, on {COUNT} names"), said(apart)).beside(beside).ratio(Ratio::single(apart / task)),
    ]
}
