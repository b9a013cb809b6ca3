//! The server as its connections see it: order, subscriptions and faults; and its numbers.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};
use tokio::time::Instant;

use crate::numbers::{format_float, parse_float, parse_int};
use crate::{sha1_hex, Call, CallError, Connection, Network, Server, Signal, Snapshot, Topic, Trip, Value};

const TIMEOUT: Duration = Duration::from_secs(3);

const INCR: &str = "return redis.call('INCR', KEYS[1])";
const PUBLISH: &str = "return redis.call('PUBLISH', KEYS[1], '0')";

fn client(server: &Server) -> (Connection, UnboundedReceiver<Signal>) {
    let (signals, received) = unbounded_channel();
    // What comes after a test stopped listening is of no interest.
    (server.connect(TIMEOUT, move |signal| drop(signals.send(signal))), received)
}

fn call(script: &'static str, key: &str) -> Call {
    Call::new(script).keys(&[key])
}

fn int(value: i64) -> Result<Value, CallError> {
    Ok(Value::Int(value))
}

fn count(server: &Server) -> Result<Value, String> {
    server.command(&["GET", "n"])
}

fn text(text: &str) -> Result<Value, String> {
    Ok(Value::Bulk(text.into()))
}

fn message(channel: &str, text: &str) -> Signal {
    Signal::Message { topic: channel.to_owned().into(), channel: channel.to_owned(), text: text.into() }
}

/// What came so far.
fn drained(signals: &mut UnboundedReceiver<Signal>) -> Vec<Signal> {
    std::iter::from_fn(|| signals.try_recv().ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_are_done_in_the_order_in_which_they_were_polled() {
    let server = Server::new();
    let (client, _signals) = client(&server);
    let mut running = Vec::new();
    let mut expected = Vec::new();
    for value in 1..=500 {
        let mut future = Box::pin(client.call(call(INCR, "n")));
        assert!(poll!(&mut future).is_pending());
        // From here on each runs on whatever thread comes first.
        running.push(tokio::spawn(future));
        expected.push(int(value));
    }
    let outcomes: Vec<_> = join_all(running).await.into_iter().filter_map(Result::ok).collect();
    assert_eq!(outcomes, expected);
    assert_eq!(server.calls(), 500);
}

#[tokio::test]
async fn a_call_is_made_by_its_first_poll_and_not_taken_back() {
    let server = Server::new();
    let (client, _signals) = client(&server);
    drop(client.call(call(INCR, "n")));
    assert_eq!(count(&server), Ok(Value::Nil));
    let mut future = Box::pin(client.call(call(INCR, "n")));
    assert!(poll!(&mut future).is_pending());
    assert_eq!(count(&server), Ok(Value::Nil), "it takes a hop to the server");
    drop(future);
    assert_eq!(count(&server), text("1"));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_does_nothing_and_answers_late() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    assert_eq!(client.subscribe(vec!["channel".to_owned()]).await, Ok(()));
    let mut under_way = Box::pin(client.call(call(INCR, "n")));
    assert!(poll!(&mut under_way).is_pending());
    server.stop();

    let begun = Instant::now();
    assert!(matches!(under_way.await, Err(CallError::Unanswered(_))));
    assert_eq!(begun.elapsed(), TIMEOUT);
    assert!(matches!(client.call(call(INCR, "n")).await, Err(CallError::Unanswered(_))));
    assert_eq!(begun.elapsed(), TIMEOUT * 2);
    assert!(client.subscribe(vec!["channel".to_owned()]).await.is_err());
    assert_eq!(begun.elapsed(), TIMEOUT * 3);

    // Made while it was stopped, and lost although it is back before the timeout.
    let mut made_while_stopped = Box::pin(client.call(call(INCR, "n")));
    assert!(poll!(&mut made_while_stopped).is_pending());
    assert_eq!(drained(&mut signals), []);
    server.start();
    server.start();
    assert!(matches!(made_while_stopped.await, Err(CallError::Unanswered(_))));
    assert_eq!(begun.elapsed(), TIMEOUT * 4);
    assert_eq!((count(&server), server.calls()), (Ok(Value::Nil), 0));

    assert_eq!(client.call(call(PUBLISH, "channel")).await, int(0), "subscriptions are lost");
    assert_eq!(drained(&mut signals), [Signal::Cut]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_the_work_done() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    let (other, mut other_signals) = self::client(&server);
    for client in [&client, &other] {
        assert_eq!(client.subscribe(vec!["channel".to_owned()]).await, Ok(()));
    }
    server.lose_replies(2);
    let begun = Instant::now();
    for _ in 0..2 {
        assert!(matches!(client.call(call(INCR, "n")).await, Err(CallError::Unanswered(_))));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(client.call(call(INCR, "n")).await, int(3));
    assert_eq!(drained(&mut signals), [Signal::Cut, Signal::Cut]);
    assert_eq!(client.call(call(PUBLISH, "channel")).await, int(1), "only the other is subscribed");
    assert_eq!(drained(&mut other_signals), [message("channel", "0")]);
    assert_eq!(drained(&mut signals), []);
}

#[tokio::test]
async fn messages_reach_subscribers_unless_they_are_to_be_lost() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    let channels = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(client.subscribe(channels).await, Ok(()));
    assert_eq!(client.call(call(PUBLISH, "a")).await, int(1));
    assert_eq!(server.command(&["PUBLISH", "b", "x"]), Ok(Value::Int(1)));
    assert_eq!(server.command(&["PUBLISH", "c", "x"]), Ok(Value::Int(0)));
    assert_eq!(server.command(&["SPUBLISH", "a", "x"]), Ok(Value::Int(0)));
    server.lose_messages(true);
    assert_eq!(client.call(call(PUBLISH, "a")).await, int(1));
    server.lose_messages(false);
    client.unsubscribe(vec!["b".to_owned()]).await;
    assert_eq!(server.command(&["PUBLISH", "b", "x"]), Ok(Value::Int(0)));
    assert_eq!(drained(&mut signals), [message("a", "0"), message("b", "x")]);
    client.reset();
    assert_eq!(drained(&mut signals), [Signal::Cut]);
    assert_eq!(client.call(call(PUBLISH, "a")).await, int(0));
}

#[tokio::test]
async fn a_wiped_server_is_a_new_one() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    assert_eq!(client.subscribe(vec!["channel".to_owned()]).await, Ok(()));
    assert_eq!(client.call(call(INCR, "n")).await, int(1));
    let before = server.command(&["INFO", "server"]);
    assert_eq!(before, server.command(&["INFO", "server"]));
    server.wipe();
    assert_ne!(before, server.command(&["INFO", "server"]), "another run id");
    assert_eq!(drained(&mut signals), [Signal::Cut]);
    assert_eq!(client.call(call(PUBLISH, "channel")).await, int(0));
    assert_eq!(client.call(call(INCR, "n")).await, int(1));
}

#[tokio::test]
async fn a_closed_client_is_told_so() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    assert_eq!(client.subscribe(vec!["channel".to_owned()]).await, Ok(()));
    client.close().await;
    assert_eq!(client.call(call(INCR, "n")).await, Err(CallError::Closed));
    assert_eq!(client.subscribe(vec!["channel".to_owned()]).await, Err(CallError::Closed));
    assert_eq!(server.command(&["PUBLISH", "channel", "x"]), Ok(Value::Int(0)));
    assert_eq!(signals.recv().await, None);
    let (dropped, mut signals) = self::client(&server);
    drop(dropped);
    assert_eq!(signals.recv().await, None);
}

#[tokio::test]
async fn a_script_that_raises_an_error_has_done_what_it_did_before() {
    let server = Server::new();
    let (client, _signals) = client(&server);
    let error = |result| match result {
        Err(CallError::Reply(text)) => text,
        other => format!("{other:?}"),
    };
    let wrong = "redis.call('INCR', KEYS[1]) return redis.call('HGET', KEYS[1], 'f')";
    let wrong = error(client.call(call(wrong, "n")).await);
    assert!(wrong.starts_with("WRONGTYPE ") && wrong.ends_with(", on @user_script:1."), "{wrong}");
    assert_eq!(count(&server), text("1"));
    assert_eq!(error(client.call(call("return redis.error_reply('OOM no room')", "n")).await), "OOM no room");
    let mixed = Call::new("return {redis.call('PING'), false, ARGV[1], 2.9, {KEYS[1]}, redis.pcall('NONE')}");
    let raised = Value::Error(b"ERR Unknown Redis command called from script".into());
    let list = Value::List(vec![Value::Bulk(b"k".into())]);
    let items = vec![Value::Status(b"PONG".into()), Value::Nil, Value::Bulk(b"x".into()), Value::Int(2), list, raised];
    assert_eq!(client.call(mixed.keys(&["k"]).args(&["x"])).await, Ok(Value::List(items)));
}

#[test]
fn a_table_that_contains_itself_is_an_error() {
    let answer = Server::new().eval("local t = {} t[1] = t return t", &[], &[]);
    assert_eq!(answer, Err("ERR reached lua stack limit".to_owned()));
}

#[test]
fn numbers_are_read_and_written_as_c_does() {
    let written = [(0.1, "0.10000000000000001"), (1e17, "1e+17"), (1e16, "10000000000000000"), (-0.0, "-0")];
    let small = [(1e-5, "1.0000000000000001e-05"), (0.0001, "0.0001"), (2.5, "2.5"), (f64::NEG_INFINITY, "-inf")];
    for (value, text) in written.into_iter().chain(small) {
        assert_eq!(format_float(value), text);
    }
    assert_eq!(["+5", "05", "-0", " 5", "", "9223372036854775808"].map(|text| parse_int(text.as_bytes())), [None; 6]);
    assert_eq!(["nan", "1e400", "1e-400", "0x", "1 "].map(|text| parse_float(text.as_bytes())), [None; 5]);
    assert_eq!(parse_float(b"-Infinity"), Some(f64::NEG_INFINITY));
    let long = "a".repeat(119);
    assert_eq!(sha1_hex(long), "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56");
    assert_eq!(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

/// What a simulation does to a server.
#[test]
fn a_server_goes_back_to_what_it_had() {
    let server = Server::new();
    server.command(&["SET", "kept", "1"]).unwrap();
    let (saved, run) = (server.snapshot(), server.command(&["INFO", "server"]));
    server.command(&["SET", "kept", "2"]).unwrap();
    server.command(&["SET", "new", "1"]).unwrap();
    server.restart(&saved);
    assert_eq!(server.command(&["GET", "kept"]), Ok(Value::Bulk(b"1".to_vec())));
    assert_eq!(server.command(&["EXISTS", "new"]), Ok(Value::Int(0)));
    assert_ne!(server.command(&["INFO", "server"]), run);
}

#[test]
fn a_full_server_refuses_the_first_write_of_a_script_alone() {
    let server = Server::new();
    server.set_full(true);
    let refused = server.eval("return redis.call('SET', 'a', '1')", &[], &[]).unwrap_err();
    assert!(refused.starts_with("OOM command not allowed"), "{refused}");
    let second = "redis.call('DEL', 'a') return redis.call('SET', 'a', '1')";
    assert_eq!(server.eval(second, &[], &[]), Ok(Value::Status(b"OK".to_vec())));
    server.set_full(false);
    assert!(server.eval("return redis.call('SET', 'a', '1')", &[], &[]).is_ok());
}

#[test]
fn a_denied_command_is_refused_to_scripts() {
    let server = Server::new();
    server.deny(Some("SET"));
    let refused = server.eval("return redis.call('set', 'a', '1')", &[], &[]).unwrap_err();
    assert!(refused.contains("no permissions to run the 'set' command"), "{refused}");
    assert_eq!(
        server.eval("return {redis.acl_check_cmd('SET', 'a', '1')}", &[], &[]),
        Ok(Value::List(vec![Value::Nil]))
    );
    server.deny(None);
    assert!(server.eval("return redis.call('SET', 'a', '1')", &[], &[]).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_clock_drifts_and_is_set_back() {
    let server = Server::new();
    let begun = server.now_ms();
    server.set_clock_rate(10_000);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(server.now_ms() - begun, 101_000);
    server.set_clock_rate(-10_000);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(server.now_ms() - begun, 200_000);
    server.set_clock_back(Duration::from_secs(200));
    assert_eq!(server.now_ms(), begun);
}

/// Bytes that are in a proxy, or in the server's socket, when the connection ends.
#[tokio::test(start_paused = true)]
async fn a_call_arrives_behind_the_cut_of_its_connection() {
    struct Cut;
    impl Network for Cut {
        fn call(&mut self, _: u64) -> Trip {
            Trip { is_cut: true, delays: [Duration::from_millis(50), Duration::ZERO], ..Trip::GOOD }
        }

        fn message(&mut self, _: u64) -> Option<Duration> {
            Some(Duration::ZERO)
        }
    }
    let server = Server::new();
    let (told, heard) = std::sync::mpsc::channel();
    let connection = server.connect(Duration::from_millis(100), move |signal| drop(told.send(signal)));
    server.inject(Cut);
    let begun = tokio::time::Instant::now();
    let answer = connection.call(Call::new("return redis.call('INCR', KEYS[1])").keys(&["n"])).await;
    assert!(matches!(answer, Err(CallError::Unanswered(_))) && begun.elapsed().is_zero());
    assert!(matches!(heard.try_recv(), Ok(Signal::Cut)));
    assert_eq!(server.command(&["GET", "n"]), Ok(Value::Nil));
    tokio::time::sleep(Duration::from_millis(51)).await;
    assert_eq!(server.command(&["GET", "n"]), Ok(Value::Bulk(b"1".to_vec())));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_twice_is_done_twice_and_seen_twice() {
    struct Twice;
    impl Network for Twice {
        fn call(&mut self, _: u64) -> Trip {
            Trip { is_answered: false, again: Some(Duration::from_millis(300)), ..Trip::GOOD }
        }

        fn message(&mut self, _: u64) -> Option<Duration> {
            Some(Duration::from_millis(200))
        }
    }
    let (server, seen) = (Server::new(), Arc::new(Mutex::new(Vec::new())));
    let (told, heard) = std::sync::mpsc::channel();
    let connection = server.connect(Duration::from_millis(100), move |signal| drop(told.send(signal)));
    connection.subscribe(vec!["c".to_owned()]).await.unwrap();
    server.inject(Twice);
    let list = seen.clone();
    server.watch(move |commit| list.lock().unwrap().push((commit.connection, commit.result.clone())));
    let call = Call::new("redis.call('PUBLISH', 'c', 'x') return redis.call('INCR', KEYS[1])").keys(&["n"]);
    assert!(matches!(connection.call(call).await, Err(CallError::Unanswered(_))));
    assert!(heard.try_recv().is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*seen.lock().unwrap(), [(1, Ok(Value::Int(1))), (1, Ok(Value::Int(2)))]);
    assert_eq!(heard.try_iter().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_renewed_server_is_as_a_new_one_and_repeats() {
    let server = Server::new();
    let run = || {
        server.renew(7);
        let fresh = (server.command(&["EXISTS", "a"]), server.command(&["INFO", "server"]), server.calls());
        server.command(&["SET", "a", "1"]).unwrap();
        server.set_full(true);
        fresh
    };
    assert_eq!(run(), run());
    assert_eq!(run().0, Ok(Value::Int(0)));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_what_commands_can_see() {
    let server = Server::new();
    let fill = |names: [&str; 2]| {
        for name in names {
            server.command(&["ZADD", "set", "1", name]).unwrap();
            server.command(&["RPUSH", "list", "item"]).unwrap();
        }
        server.command(&["HSET", "hash", "field", "1"]).unwrap();
        server.command(&["SET", "short", "1", "PX", "1000"]).unwrap();
    };
    let hash = |snapshot: &Snapshot| BuildHasherDefault::<DefaultHasher>::new().hash_one(snapshot);
    let now = server.now_ms() + 10_000;
    server.set_clock(now);
    let empty = server.snapshot();
    fill(["a", "b"]);
    let full = server.snapshot();
    assert_ne!(full, empty);
    server.command(&["DEL", "set", "list", "hash", "short"]).unwrap();
    assert_eq!(server.snapshot(), empty);
    // In another order, and behind another field: no command could tell.
    server.command(&["HSET", "hash", "gone", "1", "field", "0"]).unwrap();
    server.command(&["HDEL", "hash", "gone"]).unwrap();
    fill(["b", "a"]);
    let again = server.snapshot();
    assert_eq!((&again, hash(&again)), (&full, hash(&full)));
    // The clock is no part of it: what has expired by it is gone.
    server.set_clock(now + 2000);
    server.restore(&full);
    assert_eq!(server.command(&["EXISTS", "short", "hash", "set", "list"]), Ok(Value::Int(3)));
    assert_ne!(server.snapshot(), full);
}

#[tokio::test(start_paused = true)]
async fn a_client_sends_words_and_names_scripts_until_a_restart() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    let send = |line: &str| client.command(line.split(' ').map(Into::into).collect());
    let sha = sha1_hex("return#ARGV[1]");
    let unknown = Err(CallError::Reply("NOSCRIPT No matching script. Please use EVAL.".to_owned()));
    assert_eq!(send(&format!("EVALSHA {sha} 0 abc")).await, unknown);
    assert_eq!(send("eval return#ARGV[1] 0 abc").await, int(3));
    assert_eq!(send(&format!("EVALSHA {} 0 ab", sha.to_uppercase())).await, int(2));
    let bytes = vec![b"EVAL".to_vec(), b"return ARGV[1]".to_vec(), b"0".to_vec(), vec![0xFF, 0]];
    assert_eq!(client.command(bytes).await, Ok(Value::Bulk(vec![0xFF, 0])));
    assert_eq!(send("SCRIPT EXISTS x").await, Ok(Value::List(vec![Value::Int(0)])));
    assert_eq!(send("SCRIPT LOAD return").await, Ok(Value::bulk(sha1_hex("return"))));
    assert!(matches!(send("SCRIPT LOAD (").await, Err(CallError::Reply(why)) if why.contains("compiling")));
    assert_eq!(server.calls(), 3);
    server.wipe();
    assert_eq!(drained(&mut signals), [Signal::Cut]);
    assert_eq!(send(&format!("EVALSHA {sha} 0 abc")).await, unknown);
    server.stop();
    let begun = Instant::now();
    assert!(matches!(send("PING").await, Err(CallError::Unanswered(_))));
    assert_eq!(begun.elapsed(), TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn patterns_and_shards_are_subscribed_to_beside_channels() {
    let server = Server::new();
    let (client, mut signals) = client(&server);
    let pattern = Topic::Pattern("n*".to_owned());
    let (shard, channel) = (Topic::Shard("news".to_owned()), Topic::Channel("news".to_owned()));
    let topics = vec![pattern.clone(), shard.clone(), channel.clone()];
    client.subscribe(topics.clone()).await.unwrap();
    let mut heard = |command: [&str; 3]| {
        let receivers = server.command(&command).unwrap();
        let topics = drained(&mut signals).into_iter().map(|signal| match signal {
            Signal::Message { topic, channel, .. } if channel == command[1] => topic,
            signal => panic!("{signal:?}"),
        });
        (receivers, topics.collect::<Vec<_>>())
    };
    assert_eq!(heard(["PUBLISH", "news", "1"]), (Value::Int(2), vec![channel, pattern.clone()]));
    assert_eq!(heard(["PUBLISH", "none", "1"]), (Value::Int(1), vec![pattern]));
    assert_eq!(heard(["SPUBLISH", "news", "1"]), (Value::Int(1), vec![shard]));
    assert_eq!(heard(["SPUBLISH", "none", "1"]), (Value::Int(0), vec![]));
    client.unsubscribe(topics).await;
    assert_eq!(heard(["PUBLISH", "news", "1"]), (Value::Int(0), vec![]));
}
