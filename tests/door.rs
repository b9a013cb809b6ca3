//! The test kit's door, as those know it who did not make it: a real server's answers, redis-cli and redis-py.

use lockson_testkit::{Door, TestServer};
use redis_protocol::{resp2, resp3};
use support::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peers::peer::RedisPy;

/// Words of requests, parted by `|`.
const REQUESTS: &[&str] = &[
    "SET|s|1",
    "get|s",
    "GET|none",
    "INCR|s",
    "SET|s|x|XX|GET",
    "INCR|s",
    "HGET|s|x",
    "HSET|one|field|1",
    "HGETALL|one",
    "HGETALL|none",
    "HRANDFIELD|one|1",
    "HKEYS|one",
    "ZADD|z|1.5|a|2|b|inf|c",
    "ZSCORE|z|a",
    "ZSCORE|z|none",
    "ZMSCORE|z|a|none",
    "ZRANGE|z|0|-1",
    "ZRANGE|z|0|-1|WITHSCORES",
    "ZRANGEBYSCORE|z|-inf|2|WITHSCORES",
    "ZINCRBY|z|1|a",
    "ZADD|z|INCR|1|a",
    "ZADD|z|NX|INCR|1|a",
    "ZPOPMIN|z",
    "ZPOPMIN|z|1",
    "ZPOPMIN|none",
    "ZPOPMIN|none|1",
    "RPUSH|l|a|b",
    "LRANGE|l|0|-1",
    "LPOP|l",
    "LPOP|none",
    "TYPE|l",
    "EXISTS|l|none",
    "PTTL|none",
    "EVAL|return {1, 'a', {2.9}, false, redis.call('HGETALL', KEYS[1])}|1|one",
    "EVAL|return {KEYS[1], ARGV[1], {ok = 'FINE'}, {err = 'BAD x'}}|1|key|\u{1F511}",
    "EVAL|return redis.status_reply('FINE')|0",
    "EVAL|return redis.error_reply('BAD x')|0",
    "EVAL|return nil|0",
    "EVAL|return redis.call('NOPE')|0",
    "EVAL|return (|0",
    "EVAL|x",
    "EVAL|return 1|-1",
    "EVAL|return 1|5|a",
    "EVAL|return 1|x",
    "EVALSHA|0123|0",
    "EVALSHA|x",
    "SCRIPT|LOAD|return ARGV[1]",
    "SCRIPT|LOAD|return (",
    "EVALSHA|098e0f0d1448c0a81dafe820f66d460eb09263da|0|x",
    "EVALSHA|098E0F0D1448C0A81DAFE820F66D460EB09263DA|0|x",
    "SCRIPT|EXISTS|098e0f0d1448c0a81dafe820f66d460eb09263da|0123",
    "SCRIPT|FLUSH|ASYNC",
    "SCRIPT|FLUSH|NOW",
    "SCRIPT|EXISTS|098e0f0d1448c0a81dafe820f66d460eb09263da",
    "SCRIPT|KILL",
    "SCRIPT|NOPE",
    "SCRIPT",
    "NOPE|a|b",
    "GET",
    "GET|a|b",
    "PING",
    "PING|x",
    "PING|x|y",
    "SELECT|0",
    "SELECT|99",
    "SELECT",
    "AUTH|x",
    "AUTH|default|x",
    "AUTH|nobody|x",
    "CLIENT|GETNAME",
    "CLIENT|SETNAME|me",
    "CLIENT|GETNAME",
    "CLIENT|SETNAME|two words",
    "CLIENT|NOPE",
    "CLIENT",
    "HELLO|9",
    "HELLO|x",
    "HELLO|3|NOPE",
    "HELLO|3|AUTH|nobody|x",
    "PUBLISH|nobody|x",
    "SPUBLISH|nobody|x",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE|x",
    "SUBSCRIBE|a|b",
    "SUBSCRIBE|b",
    "PSUBSCRIBE|n*",
    "SSUBSCRIBE|a",
    "PING",
    "PING|x",
    "GET|s",
    "UNSUBSCRIBE|a",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "SUBSCRIBE",
    "GET|s",
    "QUIT",
    "PING",
];

/// A request as clients send it.
fn request(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split('|').collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    bytes
}

/// One client of a door or a server, which speaks in bytes.
struct Speaker(TcpStream);

impl Speaker {
    async fn connect(port: u16, protocol: u8) -> Self {
        let mut speaker = Self(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        speaker.0.write_all(&request(&format!("HELLO|{protocol}"))).await.unwrap();
        let hello = speaker.hear(protocol, 1).await.remove(0);
        let facts = ["server", "proto", "mode", "role", "modules"];
        assert!(facts.iter().all(|fact| hello.contains(fact)) && hello.contains("redis"), "{hello}");
        speaker
    }

    async fn say(&mut self, words: &str) {
        self.0.write_all(&request(words)).await.unwrap();
    }

    /// So many answers and messages, or all until it is closed.
    async fn hear(&mut self, protocol: u8, count: usize) -> Vec<String> {
        let (mut bytes, mut heard) = (Vec::new(), Vec::new());
        while heard.len() < count {
            let frame = match protocol {
                2 => resp2::decode::decode(&bytes).unwrap().map(|(frame, read)| (shown2(&frame), read)),
                _ => resp3::decode::complete::decode(&bytes).unwrap().map(|(frame, read)| (shown3(&frame), read)),
            };
            if let Some((frame, read)) = frame {
                bytes.drain(..read);
                heard.push(frame);
            } else if patient("an answer", self.0.read_buf(&mut bytes)).await.unwrap() == 0 {
                break;
            }
        }
        heard
    }
}

fn shown2(frame: &resp2::types::OwnedFrame) -> String {
    use resp2::types::OwnedFrame;
    match frame {
        OwnedFrame::SimpleString(text) => format!("+{}", text.escape_ascii()),
        OwnedFrame::Error(text) => format!("-{text}"),
        OwnedFrame::Integer(number) => format!(":{number}"),
        OwnedFrame::BulkString(text) => format!("${}", text.escape_ascii()),
        OwnedFrame::Array(items) => format!("*{:?}", items.iter().map(shown2).collect::<Vec<_>>()),
        OwnedFrame::Null => "nil".to_owned(),
    }
}

fn shown3(frame: &resp3::types::OwnedFrame) -> String {
    use resp3::types::OwnedFrame;
    let list = |items: &[OwnedFrame]| format!("{:?}", items.iter().map(shown3).collect::<Vec<_>>());
    match frame {
        OwnedFrame::SimpleString { data, .. } => format!("+{}", data.escape_ascii()),
        OwnedFrame::SimpleError { data, .. } => format!("-{data}"),
        OwnedFrame::Number { data, .. } => format!(":{data}"),
        OwnedFrame::Double { data, .. } => format!(",{data}"),
        OwnedFrame::BlobString { data, .. } => format!("${}", data.escape_ascii()),
        OwnedFrame::Array { data, .. } => format!("*{}", list(data)),
        OwnedFrame::Push { data, .. } => format!(">{}", list(data)),
        OwnedFrame::Map { data, .. } => {
            // It has no order.
            let pairs = data.iter().map(|(key, value)| (shown3(key), shown3(value)));
            format!("%{:?}", pairs.collect::<std::collections::BTreeMap<_, _>>())
        }
        OwnedFrame::Null => "nil".to_owned(),
        other => panic!("nothing says {other:?}"),
    }
}

async fn is_7_0(server: &Server) -> bool {
    server.raw().await.must(&["INFO", "server"]).await.text().lines().any(|line| line.starts_with("redis_version:7.0."))
}

/// The texts of errors differ between versions: of others than 7.0 their first word is compared.
fn in_short(frame: &str) -> &str {
    frame.split(' ').next().filter(|_| frame.starts_with('-')).unwrap_or(frame)
}

fn port(door: &Door) -> u16 {
    door.address().unwrap().port()
}

#[tokio::test]
async fn answers_are_those_of_a_real_server() {
    let real = Server::start();
    let by_words = is_7_0(&real).await;
    for protocol in [2, 3] {
        real.control(&["FLUSHALL"]);
        let server = TestServer::new();
        let door = server.door().unwrap();
        let mut heard = Vec::new();
        for port in [real.port(), port(&door)] {
            let mut speaker = Speaker::connect(port, protocol).await;
            // All at once: they are answered in their order.
            let all: Vec<u8> = REQUESTS.iter().flat_map(|words| request(words)).collect();
            speaker.0.write_all(&all).await.unwrap();
            heard.push(speaker.hear(protocol, usize::MAX).await);
        }
        let [real, ours] = &heard[..] else { panic!("two of them") };
        for (at, (real, ours)) in real.iter().zip(ours).enumerate() {
            let same = if by_words { real == ours } else { in_short(real) == in_short(ours) };
            assert!(
                same,
                "RESP{protocol}, answer {at}\n real: {real}\n ours: {ours}\n to {}",
                REQUESTS[at.min(REQUESTS.len() - 1)]
            );
        }
        assert_eq!(real.len(), ours.len());
    }
}

#[tokio::test]
async fn messages_are_those_of_a_real_server() {
    let (real, server) = (Server::start(), TestServer::new());
    let door = server.door().unwrap();
    for protocol in [2, 3] {
        let mut heard = Vec::new();
        for port in [real.port(), port(&door)] {
            let mut listener = Speaker::connect(port, protocol).await;
            for words in ["SUBSCRIBE|news|other", "PSUBSCRIBE|n[a-f]*", "SSUBSCRIBE|news"] {
                listener.say(words).await;
            }
            let mut all = listener.hear(protocol, 4).await;
            let mut speaker = Speaker::connect(port, protocol).await;
            for words in ["PUBLISH|news|\u{1F511}", "PUBLISH|never|x", "PUBLISH|nothing|x", "SPUBLISH|news|x"] {
                speaker.say(words).await;
            }
            all.extend(speaker.hear(protocol, 4).await);
            all.extend(listener.hear(protocol, 4).await);
            heard.push(all);
        }
        assert_eq!(heard[0], heard[1]);
        assert_eq!(heard[0].len(), 12);
    }
}

/// The client that came with the servers.
async fn cli(port: u16, args: &[&str]) -> String {
    let port = port.to_string();
    for program in ["redis-cli", "valkey-cli"] {
        let mut command = tokio::process::Command::new(program);
        if let Ok(output) = command.args(["-p", &port]).args(args).output().await {
            return String::from_utf8(output.stdout).unwrap();
        }
    }
    panic!("there is no redis-cli");
}

#[tokio::test]
async fn redis_cli_knocks() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let locks = server.connect();
    let lock = locks.lock("orders").owned_by(&Owner::named("me").unwrap());
    lock.lock().await.unwrap();
    let field = format!("{}:named-me", locks.client_id());
    assert_eq!(cli(port(&door), &["HGETALL", "orders"]).await, format!("{field}\n1\n"));
    assert_eq!(cli(port(&door), &["-3", "--no-raw", "HGETALL", "orders"]).await, format!("1# \"{field}\" => \"1\"\n"));
    assert_eq!(cli(port(&door), &["EVAL", "return redis.call('DEL', KEYS[1])", "1", "orders"]).await, "1\n");
    assert!(!lock.is_locked().await.unwrap());
    let unknown = cli(port(&door), &["FLY", "high"]).await;
    assert_eq!(unknown.trim_end(), "ERR unknown command 'FLY', with args beginning with: 'high'");
}

#[tokio::test]
async fn redis_py_shares_a_lock_with_a_client_inside() {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let Some(mut peer) = RedisPy::start(port(&door)).await else { return };
    let lock = server.connect().plain_lock("orders");
    let guard = lock.guard().await.unwrap();
    assert!(!peer.take("orders", secs(60)).await);
    guard.unlock().await.unwrap();
    peer.wait("orders", secs(60)).await;
    assert!(!lock.try_lock().await.unwrap().is_acquired() && peer.extend(secs(50)).await);
    peer.give_back().await;
    lock.guard().await.unwrap().unlock().await.unwrap();
    assert!(peer.take("orders", secs(60)).await && server.lose("orders"));
    assert!(!peer.extend(secs(50)).await, "it was lost");
}
