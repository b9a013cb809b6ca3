//! docs/CHOOSING.md: what a cycle of each lock costs, counted by a real server, and the README's table beside it.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, FutureExt};
use lockson::Backoff;
use support::prelude::*;

const CYCLES: u64 = 10;

/// Every lock of a client, as the table names it.
fn locks(client: &Locks) -> Vec<(&'static str, Arc<dyn RLock>)> {
    let read_write = client.read_write_lock("read_write");
    let member = |name: &str| -> Arc<dyn RLock> { Arc::new(client.lock(name)) };
    vec![
        ("lock", Arc::new(client.lock("lock"))),
        ("mutex", Arc::new(client.mutex("mutex"))),
        ("in_transaction", Arc::new(client.lock("transaction").in_transaction("7").unwrap())),
        ("spin_lock", Arc::new(client.spin_lock("spin", Backoff::default()))),
        ("fenced_lock", Arc::new(client.fenced_lock("fenced"))),
        ("write().fenced()", Arc::new(client.read_write_lock("fenced write").write().fenced())),
        ("fair_lock", Arc::new(client.fair_lock("fair"))),
        ("fair_mutex", Arc::new(client.fair_mutex("fair mutex"))),
        ("MultiLock, of 3", Arc::new(MultiLock::new(vec![member("one"), member("two"), member("three")]))),
        ("group_lock", Arc::new(client.group_lock("group", "value"))),
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

type Cycle = Box<dyn Fn() -> BoxFuture<'static, ()>>;

fn cycle<T, F>(on: T, once: impl Fn(T) -> F + 'static) -> Cycle
where
    T: Clone + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    Box::new(move || once(on.clone()).boxed())
}

/// A cycle of everything that the table has.
async fn cycles(client: &Locks) -> Vec<(&'static str, Cycle)> {
    let guarded = |lock: Arc<dyn RLock>| async move { lock.guard().await.unwrap().unlock().await.unwrap() };
    let mut cycles: Vec<_> = locks(client).into_iter().map(|(name, lock)| (name, cycle(lock, guarded))).collect();
    let others = [Server::start(), Server::start()];
    let mut members = vec![client.lock("red")];
    members.extend(join_all(others.iter().map(async |other| other.locks().await.lock("red"))).await);
    let red = (RedLock::new(members).fresh(), Arc::new(others));
    cycles.push(("RedLock, on each server", cycle(red, move |(red, _servers)| guarded(Arc::new(red)))));
    let (semaphore, leased) = (client.semaphore("semaphore"), client.permit_semaphore("permits"));
    semaphore.try_set_permits(2).await.unwrap();
    leased.try_set_permits(2).await.unwrap();
    let one = cycle(semaphore, |permits| async move { permits.guard(1).await.unwrap().release().await.unwrap() });
    cycles.push(("semaphore", one));
    let one = cycle(leased, |permits| async move { permits.guard(1).await.unwrap().release().await.unwrap() });
    cycles.push(("permit_semaphore", one));
    let once = |(client, runs): (Locks, Arc<AtomicUsize>)| async move {
        // It stays taken: each cycle has a name.
        let name = format!("once {}", runs.fetch_add(1, Ordering::Relaxed));
        assert!(client.once_per(&name, secs(30), secs(60)).run(async {}).await.unwrap().is_some());
    };
    cycles.push(("once_per", cycle((client.clone(), Arc::default()), once)));
    let one = cycle(client.latch("latch"), |latch| async move {
        assert!(latch.try_set_count(1).await.unwrap());
        assert_eq!(latch.count_down().await.unwrap(), Some(0));
        assert_eq!(latch.wait().await.unwrap(), WaitOutcome::Opened);
    });
    cycles.push(("latch", one));
    cycles
}

#[tokio::test]
async fn a_cycle_costs_what_the_docs_say() {
    let server = Server::start();
    let client = server.locks().await;
    let table = rows(include_str!("../docs/CHOOSING.md"));
    // `Locks` has no factory that the table lacks.
    for factory in support::files::factories() {
        assert!(table.keys().any(|row| row.split(", ").next() == Some(&factory)), "{factory} is not in CHOOSING.md");
    }
    let mut wrong = vec![];
    for (name, cycle) in cycles(&client).await {
        // Once before: its scripts are loaded.
        cycle().await;
        server.reset_stats();
        for _ in 0..CYCLES {
            cycle().await;
        }
        let stats = server.stats();
        assert!(!stats.contains_key("eval"), "{name}: {stats:?}");
        let calls = |command: &str| stats.get(command).map_or(0, |(calls, _)| *calls);
        assert!(calls("subscribe") < CYCLES, "{name} subscribes in each cycle: {stats:?}");
        let scripts = calls("evalsha");
        let commands = server.commands_in_scripts();
        assert_eq!((scripts % CYCLES, commands % CYCLES), (0, 0), "{name}: {stats:?}");
        let (scripts, commands) = (scripts / CYCLES, commands / CYCLES);
        let cost = format!("{scripts}, {commands} commands");
        println!("{name}: {cost}");
        let said = table.get(name).map(|row| row[1]);
        if said != Some(&cost) {
            wrong.push(format!("{name}: {said:?}, but it is {cost:?}"));
        }
    }
    assert!(wrong.is_empty(), "docs/CHOOSING.md:\n  {}", wrong.join("\n  "));
}
