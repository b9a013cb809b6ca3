//! A red lock on five servers beside a lock on one, and a multi-lock of three beside three locks: lock and unlock, by
//! one task.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use lockson::{Locks, MultiLock, RLock, RedLock};
use rustix::time::ClockId;

use crate::table::{interleave, median, Cell, Ratio, Row};
use crate::uncontended::{lockson, pairs};
use support::Server;

fn cell(lock: Arc<dyn RLock>) -> Cell {
    Box::new(move |slice| {
        let lock = lock.clone();
        async move {
            pairs(slice, ClockId::Monotonic, || async {
                lock.lock().await.expect("held");
                lock.unlock().await.expect("given back");
            })
            .await
        }
        .boxed()
    })
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(Locks::connect(&server.url()).await.expect("a client"));
    }
    let red = |members: usize| {
        let locks = clients.iter().take(members).map(|locks| locks.lock("red"));
        Arc::new(RedLock::new(locks).fresh().server_timeout(Duration::from_secs(5)))
    };
    let one = &clients[0];
    let members = ["a", "b", "c"].map(|name| Arc::new(one.lock(name)) as Arc<dyn RLock>);
    let multi = Arc::new(MultiLock::new(members.to_vec()));
    let cells = [lockson(&servers[0], false, ClockId::Monotonic).await, cell(red(3)), cell(red(5)), cell(multi)];
    let figures = interleave(seconds, &cells).await;
    let said = |at: usize| format!("{:.0} us", median(&figures[at]));
    let row = |what: &str, at: usize| {
        let beside = format!("lock + unlock on one server: {}", said(0));
        Row::new(what, said(at)).beside(beside).ratio(Ratio::of(&figures[at], &figures[0]))
    };
    vec![
        row("red lock on 3 servers: lock + unlock", 1),
        row("red lock on 5 servers: lock + unlock", 2),
        row("multi-lock of 3 on one server: lock + unlock", 3),
    ]
}
