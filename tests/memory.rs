//! A server that is out of memory: nothing new is taken or written; what is held is renewed and given back (rule 13).

use support::prelude::*;
use support::sites::*;

const LEASE: Duration = secs(2);

fn is_full<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Query(QueryError::Refused { why: Refused::OutOfMemory, .. })))
}

/// What of a lock is there: the keys, and how much the queue holds.
async fn found(server: &Server, own: &Own) -> Vec<String> {
    let mut found = Vec::new();
    for key in own.kind.keys(&own.name, &own.field) {
        let length = server.raw().await.command(&["LLEN", &key]).await.map_or(0, |length| length.int());
        if server.raw().await.exists(&key).await {
            found.push(format!("{key} {length}"));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_takes_nothing_and_releases() {
    every_kind(full).await;
}

async fn full(kind: &'static Kind) {
    let server = Server::start();
    let builder = Locks::builder().watchdog_lease(LEASE).command_timeout(LEASE / 4);
    let site = Site::start(&server, kind, builder.clone()).await;
    // What is handed over inside the process comes from there.
    let other = builder.connect(&server.url()).await.unwrap();
    let before = if kind.hands_over { &site.locks } else { &other };
    let (deep, long, depth) = (site.own(), site.own(), kind.deepest.min(2));
    let guard = deep.lock.guard().await.unwrap();
    deep.lock_times(depth - 1).await;
    // A lease that no inner release lengthens: its first write is not the one that lengthens then.
    assert!(long.lock.acquire_with(Request::default().lease(LEASE * 300)).await.unwrap().is_acquired());
    long.lock_times(depth - 1).await;
    let heir = site.own();
    let (holder, late) = (heir.rival(before), Own::new(kind, &site.locks, &heir.name));
    holder.lock_times(1).await;
    let mut waiting = heir.lock.lock();
    assert!(begin(&mut waiting).await);
    let waiter = async {
        let given = patient("an answer", waiting).await;
        assert!(is_full(&given), "the heir: {given:?}");
    };
    let rest = async {
        let waits = || async { kind.hands_over || site.listens(&heir).await };
        eventually(secs(20), "the heir waits on the server", waits).await;
        server.control(&["CONFIG", "SET", "maxmemory", "1"]);
        refused(&server, &site, &deep, &late, depth).await;
        holder.unlock_times(1).await.unwrap();
    };
    tokio::join!(waiter, rest);
    eventually(secs(20), "nothing is left of the heir", || async { !site.exists(&heir).await }).await;
    sleep(LEASE + LEASE / 4).await;
    assert_eq!(guard.state(), HoldState::Held);
    for own in [&deep, &long] {
        own.unlock_times(depth - 1).await.unwrap();
        assert_eq!(site.count(own).await, 1);
    }
    long.unlock_times(1).await.unwrap();
    guard.unlock().await.unwrap();
    for own in [&deep, &long] {
        assert_eq!(found(&server, own).await, [""; 0]);
    }
}

/// Neither is a token, before or behind a hold without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_raises_no_token() {
    let server = Server::start();
    let locks = server.locks().await;
    let control = async |limit| drop(server.raw().await.must(&["CONFIG", "SET", "maxmemory", limit]).await);
    for kind in KINDS.iter().filter(|kind| kind.name.starts_with("fenced")) {
        let lock = (kind.make)(&locks, kind.name);
        let token = format!("redisson_lock_token:{{{}}}", kind.name);
        control("1").await;
        assert!(is_full(&lock.try_lock().await), "{}", kind.name);
        assert_eq!(server.raw().await.must(&["KEYS", "*"]).await.texts(), [""; 0], "{}", kind.name);
        control("0").await;
        lock.lock().await.unwrap();
        let before = server.raw().await.get(&token).await;
        control("1").await;
        assert!(is_full(&lock.try_lock().await), "{}", kind.name);
        assert_eq!(server.raw().await.get(&token).await, before);
        lock.unlock().await.unwrap();
        assert_eq!(server.raw().await.must(&["KEYS", "*"]).await.texts().join(" "), token);
        server.raw().await.must(&["DEL", &token]).await;
        control("0").await;
    }
}

/// What takes is refused, and leaves all as it was.
async fn refused(server: &Server, site: &Site, deep: &Own, late: &Own, depth: u64) {
    let new = site.own();
    let taken = new.lock.try_lock().await;
    assert!(is_full(&taken), "a free lock: {taken:?}");
    assert_eq!(found(server, &new).await, [""; 0]);
    if depth > 1 {
        let again = deep.lock.try_lock().await;
        assert!(is_full(&again), "once more: {again:?}");
        assert_eq!(site.count(deep).await, depth);
    }
    // One who comes to wait now: it is told, or waits in vain, and its place is not left behind.
    let before = found(server, late).await;
    let came = late.lock.acquire_with(Request::default().wait(ms(100))).await;
    assert!(came == Ok(Busy) || is_full(&came), "a waiter: {came:?}");
    let unchanged = async || found(server, late).await.len() <= before.len();
    eventually(secs(20), "no more than before", unchanged).await;
}
