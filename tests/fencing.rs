//! A holder that writes late: what a check before the write is worth, and one at the resource (PROTOCOL rule 19).

use lockson::{FencedGuard, Reply};
use rusqlite::{params, Connection};
use support::prelude::*;

/// One holder that is paused beyond its lease after it has looked, and the one that came meanwhile.
struct Late {
    paused: FencedGuard,
    current: FencedGuard,
}

impl Late {
    /// The pause is over when the other has the lock: no clock decides what comes first.
    async fn begin(server: &Server, name: &str) -> Late {
        let [one, other] = [server.locks().await, server.locks().await];
        let lock = one.fenced_lock(name);
        let paused = patient("the first", lock.acquire().lease(ms(500)).guard()).await;
        let paused = paused.unwrap().unwrap();
        // Both checks say yes, and both are out of date before the write. On a slow machine the lease may be over here.
        if let Err(error) = paused.verify().await {
            assert!(!paused.is_valid(), "{error}");
        }
        let current = patient("the second", other.fenced_lock(name).guard()).await.unwrap();
        Late { paused, current }
    }
}

fn orders() -> Connection {
    let database = Connection::open_in_memory().unwrap();
    let table = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, token INTEGER NOT NULL);
         INSERT INTO orders VALUES (42, 'new', 0)";
    database.execute_batch(table).unwrap();
    database
}

fn state(database: &Connection) -> String {
    database.query_row("SELECT state FROM orders WHERE id = 42", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_where_refuses_the_late_write_that_lands_without_a_token() {
    let late = Late::begin(Server::shared(), &unique("late")).await;
    for is_fenced in [false, true] {
        let database = orders();
        let write = |state: &str, guard: &FencedGuard| {
            let token = if is_fenced { i64::try_from(guard.token()).unwrap() } else { 0 };
            let sql = "UPDATE orders SET state = ?1, token = ?2 WHERE id = 42 AND token <= ?2";
            database.execute(sql, params![state, token]).unwrap()
        };
        assert_eq!(write("by the second", &late.current), 1);
        assert_eq!(write("by the first", &late.paused), usize::from(!is_fenced));
        assert_eq!(state(&database), if is_fenced { "by the second" } else { "by the first" });
        assert_eq!(write("by the second again", &late.current), 1, "one holder may write twice");
    }
    assert!(!late.paused.is_valid() && late.current.is_valid());
}

/// The same in Redis, on another server than the lock's. Tokens are compared as text: Lua's numbers end at 2^53.
pub const FENCED_SET: &str = "
    local seen, token = redis.call('HGET', KEYS[1], 'token') or '0', ARGV[2]
    if #seen > #token or (#seen == #token and seen > token) then return 0 end
    redis.call('HSET', KEYS[1], 'state', ARGV[1], 'token', token)
    return 1";

#[tokio::test]
async fn a_redis_script_refuses_the_late_write() {
    let server = Server::shared();
    // From Java's counter on too, where these two tokens are the same number to Lua.
    for counter in [None, Some(((1_u64 << 53) + 2).to_string())] {
        let (name, key) = (unique("late"), unique("orders"));
        let mut raw = server.raw().await;
        if let Some(counter) = &counter {
            raw.must(&["SET", &format!("redisson_lock_token:{{{name}}}"), counter]).await;
        }
        let late = Late::begin(server, &name).await;
        let mut write = async |state: &str, guard: &FencedGuard| {
            raw.must(&["EVAL", FENCED_SET, "1", &key, state, &guard.token().to_string()]).await.int()
        };
        assert_eq!(write("by the second", &late.current).await, 1);
        assert_eq!(write("by the first", &late.paused).await, 0, "{} {}", late.paused.token(), late.current.token());
        assert_eq!(write("by the second again", &late.current).await, 1);
        assert_eq!(raw.hget(&key, "state").await.as_deref(), Some("by the second again"));
    }
}

/// The same owner, by a handle without tokens: its late copy takes the lock, and has no token to be kept.
#[tokio::test]
async fn a_late_copy_of_a_call_without_tokens_gives_no_old_token() {
    let (server, name) = (Server::start(), unique("late"));
    let proxy = Proxy::start(server.port());
    let timeout = secs(20);
    let settings = Locks::builder().command_timeout(timeout).watchdog_lease(timeout * 3);
    let locks = settings.connect(&proxy.url()).await.unwrap();
    let first = server.locks().await;
    // The server knows the script from here on.
    first.lock(&name).guard().await.unwrap().unlock().await.unwrap();
    let before = first.fenced_lock(&name).guard().await.unwrap();
    let token = before.token();
    before.unlock().await.unwrap();
    let owner = Owner::named("me").unwrap();
    let (lock, kind) = (locks.lock(&name).owned_by(&owner), KINDS.iter().find(|kind| kind.name == "lock").unwrap());
    // Its server's time is known, so the call is not late at first.
    assert!(!lock.is_locked().await.unwrap());
    let held = proxy.hold_back(1, kind.script("acquire"));
    let mut call = Box::pin(lock.try_lock());
    tokio::select! {
        _ = &mut call => panic!("it was answered"),
        () = held.wait_for(1) => drop(call),
    }
    // It is taken back, and only then it comes.
    patient("it is taken back", proxy.wait_requests(1, kind.script("settle"))).await;
    assert!(!lock.is_locked().await.unwrap());
    let answers = held.release().await;
    assert!(answers[0].text().starts_with("1 "), "it took the lock: {answers:?}");
    let guard = patient("the hold", lock.fenced().guard()).await.unwrap();
    assert!(guard.token() > token, "{} is the token of the hold before", guard.token());
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_script_is_sent_once() {
    let (server, name) = (Server::start(), unique("once"));
    let proxy = Proxy::start(server.port());
    let locks = proxy.locks().await;
    let guard = locks.fenced_lock(&name).guard().await.unwrap();
    let key = format!("{{{name}}}:count");
    let count = "return redis.call('INCR', KEYS[1])";
    let mut raw = server.raw().await;
    let mut expected = 0;
    for _ in 0..soak(100) {
        // A server that lost its scripts has run nothing: the second sending is the first that runs.
        raw.must(&["SCRIPT", "FLUSH"]).await;
        expected += 1;
        assert_eq!(guard.run_if_held(count, &[&key], &[]).await, Ok(Reply::Int(expected)));

        let calls = server.calls("evalsha");
        let cut = proxy.cut_after(1, Filter::Any.with(count));
        let unknown = guard.run_if_held(count, &[&key], &[]).await;
        assert!(matches!(unknown, Err(RunError::Unknown { .. })), "{unknown:?}");
        cut.done().await;
        expected += 1;
        assert_eq!(raw.get(&key).await, Some(expected.to_string()), "the answer was lost: it ran, once");
        // Renewals come each ten seconds: nothing else is sent.
        assert_eq!(server.calls("evalsha"), calls + 1);

        eventually(secs(20), "connected again", async || guard.verify().await.is_ok()).await;
        let cut = proxy.cut_before(1, Filter::Any.with(count));
        let unknown = guard.run_if_held(count, &[&key], &[]).await;
        assert!(matches!(unknown, Err(RunError::Unknown { .. })), "{unknown:?}");
        cut.done().await;
        assert_eq!(raw.get(&key).await, Some(expected.to_string()), "the call was lost: it did not run");
        eventually(secs(20), "connected again", async || guard.verify().await.is_ok()).await;
    }
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_leaves_the_hold_alone() {
    let (server, name) = (Server::start(), unique("dropped"));
    let locks = server.locks().await;
    let guard = locks.fenced_lock(&name).guard().await.unwrap();
    let mut call = Box::pin(guard.run_if_held("return 1", &[], &[]));
    assert!(futures::poll!(call.as_mut()).is_pending());
    drop(call);
    guard.verify().await.unwrap();
    assert_eq!(guard.run_if_held("return 2", &[], &[]).await, Ok(Reply::Int(2)));
}

/// The double that users get for their own tests behaves the same.
#[tokio::test]
async fn a_lost_answer_of_the_embedded_server() {
    let server = lockson::EmbeddedServer::new();
    let guard = server.connect().fenced_lock("x").guard().await.unwrap();
    server.lose_replies(1);
    let unknown = guard.run_if_held("return redis.call('INCR', KEYS[1])", &["{x}:runs"], &[]).await;
    assert!(matches!(unknown, Err(RunError::Unknown { .. })), "{unknown:?}");
    assert_eq!(server.command(&["GET", "{x}:runs"]), Ok(Reply::Text("1".to_owned())));
    assert_eq!(guard.run_if_held("return redis.call('INCR', KEYS[1])", &["{x}:runs"], &[]).await, Ok(Reply::Int(2)));
}
