//! A holder that writes late: what a check before the write is worth, and what one at the resource is. Real servers
//! and a real database (issue 4; rule 19 of docs/PROTOCOL.md).

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
async fn without_a_token_the_late_write_lands() {
    let late = Late::begin(Server::shared(), &unique("late")).await;
    let database = orders();
    let write = |state: &str| database.execute("UPDATE orders SET state = ?1 WHERE id = 42", [state]).unwrap();
    assert_eq!(write("by the second"), 1);
    assert_eq!(write("by the first"), 1);
    assert_eq!(state(&database), "by the first", "it overwrote what the holder had written");
    assert!(!late.paused.is_valid() && late.current.is_valid());
}

#[tokio::test]
async fn a_where_refuses_the_late_write() {
    let late = Late::begin(Server::shared(), &unique("late")).await;
    let database = orders();
    let write = |state: &str, guard: &FencedGuard| {
        let sql = "UPDATE orders SET state = ?1, token = ?2 WHERE id = 42 AND token <= ?2";
        database.execute(sql, params![state, i64::try_from(guard.token()).unwrap()]).unwrap()
    };
    assert_eq!(write("by the second", &late.current), 1);
    assert_eq!(write("by the first", &late.paused), 0);
    assert_eq!(state(&database), "by the second");
    assert_eq!(write("by the second again", &late.current), 1, "one holder may write twice");
}

/// The same in Redis, on another server than the lock's. Tokens are compared as text: Lua's numbers end at 2^53.
const FENCED_SET: &str = "
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

/// The first holder was paused in the middle: its clock said yes, the call left, and the network kept it.
#[tokio::test]
async fn a_script_that_is_late_on_the_wire_does_not_run() {
    let (server, name) = (Server::start(), unique("late"));
    let proxy = Proxy::start(server.port());
    let timeout = ms(500);
    let one = Locks::builder().command_timeout(timeout).connect(&proxy.url()).await.unwrap();
    let guard = one.fenced_lock(&name).guard().await.unwrap();
    let key = format!("{{{name}}}:count");
    let count = "return redis.call('INCR', KEYS[1])";
    assert_eq!(guard.run_if_held(count, &[&key], &[]).await, Ok(Reply::Int(1)));

    let held = proxy.hold_back(1, Filter::Any.with(count));
    let unknown = guard.run_if_held(count, &[&key], &[]).await;
    assert!(matches!(unknown, Err(RunError::Unknown { .. })), "{unknown:?}");
    held.wait_for(1).await;
    // Now it arrives, the lock is another's.
    patient("the unlock", guard.unlock()).await.unwrap();
    let other = server.locks().await;
    let rival = patient("the rival", other.fenced_lock(&name).guard()).await.unwrap();
    let answers = held.release().await;
    let status = answers[0].clone().list()[0].int();
    assert!(status == 2 || status == 3, "{answers:?}");
    assert_eq!(rival.run_if_held(count, &[&key], &[]).await, Ok(Reply::Int(2)), "it ran once only");
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
    assert_eq!(answers[0].clone().list()[0].int(), 1, "it took the lock: {answers:?}");
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
    for _ in 0..3 {
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
    let key = format!("{{{name}}}:count");
    let keys = [key.as_str()];
    let mut call = Box::pin(guard.run_if_held("return redis.call('INCR', KEYS[1])", &keys, &[]));
    assert!(futures::poll!(call.as_mut()).is_pending());
    drop(call);
    guard.verify().await.unwrap();
    server.raw().await.must(&["DEL", &name]).await;
    let lost = guard.run_if_held("return 1", &[], &[]).await;
    assert!(matches!(lost, Err(RunError::Lost(Lost { why: LostReason::Server, .. }))), "{lost:?}");
}

/// Whatever is lost on the way: a script runs at most once, and what is said of it is true.
#[tokio::test]
async fn whatever_is_lost_a_script_runs_at_most_once() {
    let (server, name, seed, asked) = (Server::start(), unique("counted"), seed(), soak(1000));
    let (proxy, mut rng, mut raw) = (Proxy::start(server.port()), Rng::new(seed), server.raw().await);
    let locks = proxy.locks().await;
    let guard = locks.fenced_lock(&name).guard().await.unwrap();
    let key = format!("{{{name}}}:runs");
    let count = "return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)";
    let (mut failures, mut unknown) = (0, 0);
    for number in 0..asked {
        let id = format!("run {number}.");
        match rng.below(4) {
            0 => drop(proxy.cut_before(1, Filter::Any.with(&id))),
            1 => drop(proxy.cut_after(1, Filter::Any.with(&id))),
            2 => drop(raw.must(&["SCRIPT", "FLUSH"]).await),
            _ => {}
        }
        let said = patient("an answer", guard.run_if_held(count, &[&key], &[&id])).await;
        let ran = raw.hget(&key, &id).await;
        let right = match &said {
            Ok(Reply::Int(1)) => ran.as_deref() == Some("1"),
            Err(RunError::Unknown { .. }) => {
                unknown += 1;
                matches!(ran.as_deref(), None | Some("1"))
            }
            _ => false,
        };
        if !right {
            println!("{id} {said:?}, but it ran {ran:?}");
            failures += 1;
        }
        if said.is_err() {
            eventually(secs(20), "connected again", async || guard.verify().await.is_ok()).await;
        }
    }
    let runs = raw.hgetall(&key).await;
    failures += runs.iter().filter(|(_, count)| count != "1").count();
    assert!(unknown > asked / 10, "cuts were seen: {unknown}");
    report("scripts under a hold", asked, asked, failures, seed);
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
