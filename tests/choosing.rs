//! docs/CHOOSING.md: what a cycle of each lock costs, counted by a real server, and the README's table beside it.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockson::{Backoff, Locks, RLock};
use support::Server;

const CYCLES: u64 = 10;
/// What clients send; all else is called by scripts.
const SENT: [&str; 8] = ["evalsha", "eval", "ping", "hello", "client|setinfo", "info", "config|resetstat", "auth"];

/// Every lock of a client, as the table names it.
fn locks(client: &Locks) -> Vec<(&'static str, Arc<dyn RLock>)> {
    let read_write = client.read_write_lock("read_write");
    vec![
        ("lock", Arc::new(client.lock("lock"))),
        ("mutex", Arc::new(client.mutex("mutex"))),
        ("in_transaction", Arc::new(client.lock("transaction").in_transaction("7").unwrap())),
        ("spin_lock", Arc::new(client.spin_lock("spin", Backoff::default()))),
        ("fenced_lock", Arc::new(client.fenced_lock("fenced"))),
        ("fair_lock", Arc::new(client.fair_lock("fair"))),
        ("fair_mutex", Arc::new(client.fair_mutex("fair mutex"))),
        ("plain_lock", Arc::new(client.plain_lock("plain"))),
        ("read_write_lock, read", Arc::new(read_write.read())),
        ("read_write_lock, write", Arc::new(read_write.write())),
    ]
}

/// The cells of a table's rows, by the first.
fn rows(docs: &'static str) -> BTreeMap<String, Vec<&'static str>> {
    let rows = docs.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|mut row| (row.remove(0).replace('`', ""), row)).collect()
}

#[tokio::test]
async fn a_cycle_costs_what_the_docs_say() {
    let server = Server::start();
    let client = Locks::connect(&server.url()).await.unwrap();
    let table = rows(include_str!("../docs/CHOOSING.md"));
    let mut wrong = vec![];
    for (name, lock) in locks(&client) {
        // Once before: its scripts are loaded.
        lock.guard().await.unwrap().unlock().await.unwrap();
        server.reset_stats();
        for _ in 0..CYCLES {
            lock.guard().await.unwrap().unlock().await.unwrap();
        }
        let stats = server.stats();
        assert!(!stats.contains_key("eval"), "{name}: {stats:?}");
        let scripts = stats.get("evalsha").map_or(0, |(calls, _)| *calls);
        let commands: u64 =
            stats.iter().filter(|(command, _)| !SENT.contains(&command.as_str())).map(|(_, (calls, _))| calls).sum();
        assert_eq!((scripts % CYCLES, commands % CYCLES), (0, 0), "{name}: {stats:?}");
        let cost = format!("{}, {} commands", scripts / CYCLES, commands / CYCLES);
        println!("{name}: {cost}");
        let said = table.get(name).map(|row| row[1]);
        if said != Some(&cost) {
            wrong.push(format!("{name}: {said:?}, but it is {cost:?}"));
        }
    }
    assert!(wrong.is_empty(), "docs/CHOOSING.md:\n  {}", wrong.join("\n  "));
}

/// `Locks` has a factory for each name in the table, and the other way round.
#[test]
fn each_factory_can_be_chosen() {
    let factories = include_str!("../src/client.rs").lines().filter_map(|line| line.trim().strip_prefix("pub fn "));
    let factories =
        factories.filter(|line| line.contains("(&self, name: &str")).filter_map(|line| line.split('(').next());
    let table = rows(include_str!("../docs/CHOOSING.md"));
    for factory in factories {
        assert!(table.keys().any(|row| row.split(", ").next() == Some(factory)), "{factory} is not in CHOOSING.md");
    }
}
