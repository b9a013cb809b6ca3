//! A story: commands, time that passes, and calls of scripts, each with its answer, all that is stored then, and what
//! was heard.

use std::sync::{Arc, Mutex};

use lockson_embedded::{Connection, Server, Signal, Value};
use support::files;
use support::prelude::*;

/// What stands for the server's time of now in a story, and how it is written there.
const SCALES: [(usize, i64, &str); 3] = [(10, 1_000_000, "sec"), (13, 1_000, "now"), (16, 1, "us")];

struct Teller {
    server: Server,
    ear: Connection,
    heard: Arc<Mutex<Vec<String>>>,
}

/// Runs a story on a server without data. Its lines:
/// - `SET key 1`: a command; `now+5` is a time.
/// - `wait 100`: so many milliseconds pass.
/// - `hear c d`: somebody listens on these channels from now on. Scripts announce on `c`.
/// - `script key key / arg arg -> answer | all that is stored | what was heard`: a call. `_` is an empty argument, `~`
///   a blank in one, `id:ab` two ids of permits, which are stored as `<a>` and `<b>`. The answer is without nonce and time; it may end with `*`. Without a second part nothing has changed. Before the
///   script may stand `by 5` (its not_after from now), and `silent`, `fenced` or `red` as the client joins it then.
///
/// What is stored: `string=value hash{field=value} list[item] zset(member:score)`, each with `/TTL` if it has one.
pub async fn tell(lines: &[&str]) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (server, told) = (Server::new(), heard.clone());
    let ear = server.connect(secs(1), move |signal| {
        if let Signal::Message { channel, text } = signal {
            told.lock().unwrap().push(format!("{channel}={}", String::from_utf8_lossy(&text)));
        }
    });
    // The clock shows a time that is not whole in any unit.
    tokio::time::advance(ms(123)).await;
    let teller = Teller { server, ear, heard };
    for line in lines {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("wait", time) => tokio::time::advance(ms(time.parse().unwrap())).await,
            ("hear", channels) => {
                let channels = channels.split(' ').map(str::to_owned).collect();
                teller.ear.subscribe(channels).await.unwrap();
            }
            _ if line.contains(" -> ") => teller.call(line),
            _ => {
                let words = teller.absolute(line);
                let words: Vec<&str> = words.split(' ').collect();
                teller.server.command(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}

/// The text of a script, joined in this way.
fn text(way: &str, script: &str) -> String {
    match way {
        "silent" => files::silenced(&files::sent(script)),
        "fenced" => files::fenced(script),
        "red" => files::voting(script),
        _ => files::sent(script),
    }
}

impl Teller {
    fn call(&self, line: &str) {
        let (call, expected) = line.split_once(" -> ").unwrap();
        let (mut not_after, mut way, mut rest) = (60_000, "", call);
        while let Some((word, more)) = rest.split_once(' ') {
            match word {
                "by" => {
                    let (by, more) = more.split_once(' ').unwrap();
                    (not_after, rest) = (by.parse().unwrap(), more);
                }
                "silent" | "fenced" | "red" => (way, rest) = (word, more),
                _ => break,
            }
        }
        let (script, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (keys, args) = rest.split_once('/').unwrap_or((rest, ""));
        let keys: Vec<&str> = keys.split_whitespace().collect();
        let (now, args) = (self.server.now_ms(), self.absolute(args));
        let not_after = (now + not_after).to_string();
        let told = if files::announces(script) && way != "silent" { &["PUBLISH", "c"][..] } else { &[] };
        let own = args.split_whitespace().map(argument);
        let first = ["nonce", &not_after].into_iter().chain(told.iter().copied()).map(str::to_owned);
        let mut args: Vec<String> = first.collect();
        args.splice(2..2, own);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let before = self.state();
        self.heard.lock().unwrap().clear();
        let reply =
            self.server.eval(&text(way, script), &keys, &args).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Value::List(items) = reply else { panic!("{line}: {reply:?}") };
        let words: Vec<String> = items.iter().map(word).collect();
        assert_eq!(words[1..3], ["nonce".to_owned(), now.to_string()], "{line}: the nonce and the time");
        let reply = self.relative([&words[..1], &words[3..]].concat().join(" ").trim_end());
        let heard = self.heard.lock().unwrap().join(" ");
        let mut parts = expected.split('|').map(str::trim);
        let answer = parts.next().unwrap();
        let fits = answer.strip_suffix('*').map_or(reply == answer, |beginning| reply.starts_with(beginning));
        let (state, stored) = (self.state(), parts.next().map_or(before, str::to_owned));
        let same = fits && state == stored && heard == parts.next().unwrap_or_default();
        assert!(same, "{line}\n  came out as\n{call} -> {reply} | {state} | {heard}");
    }

    fn now_us(&self) -> i64 {
        let Ok(Value::List(time)) = self.server.command(&["TIME"]) else { panic!("no time") };
        word(&time[0]).parse::<i64>().unwrap() * 1_000_000 + word(&time[1]).parse::<i64>().unwrap()
    }

    /// `now+5` as the number that it is.
    fn absolute(&self, line: &str) -> String {
        let words = line.split(' ').map(|word| {
            let ahead = word.strip_prefix("now").map(|rest| if rest.is_empty() { "+0" } else { rest });
            match ahead.and_then(|ahead| ahead.parse::<i64>().ok()) {
                Some(ahead) => (self.server.now_ms() + ahead).to_string(),
                None => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// The other way round: times near now, in seconds, milliseconds or microseconds.
    fn relative(&self, text: &str) -> String {
        let (now, mut out, mut rest) = (self.now_us(), String::new(), text);
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let end = rest[start..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| start + end);
            let (number, digits) = (rest[start..end].parse::<i64>().unwrap_or(0), end - start);
            // What is kept below zero: microseconds less 1e16.
            let below = start > 0 && rest[..start].ends_with('-') && digits == 16;
            let number = if below { 10_000_000_000_000_000 - number } else { number };
            let scale = SCALES
                .iter()
                .find(|(length, unit, _)| *length == digits && (number * unit - now).abs() < 10_000_000_000_000);
            out += &rest[..start];
            match scale {
                Some((_, unit, name)) => match number - now / unit {
                    0 => out += name,
                    off => out += &format!("{name}{off:+}"),
                },
                None => out += &rest[start..end],
            }
            rest = &rest[end..];
        }
        out + rest
    }

    /// All that is stored, by the names of the keys.
    fn state(&self) -> String {
        let ask = |args: &[&str]| self.server.command(args).unwrap();
        let pairs = |key: &str, command: &[&str], sign: &str, sort: bool| {
            let Value::List(items) = ask(command) else { panic!("{key}: no list") };
            let mut pairs: Vec<[String; 2]> = items.chunks(2).map(|pair| [0, 1].map(|at| word(&pair[at]))).collect();
            if sort {
                pairs.sort();
            }
            pairs.iter().map(|pair| pair.join(sign)).collect::<Vec<_>>().join(" ")
        };
        let Value::List(mut keys) = ask(&["KEYS", "*"]) else { panic!("no keys") };
        keys.sort_by_key(word);
        let keys = keys.iter().map(word).map(|key| {
            let value = match word(&ask(&["TYPE", &key])).as_str() {
                "string" => format!("={}", word(&ask(&["GET", &key]))),
                "hash" => format!("{{{}}}", pairs(&key, &["HGETALL", &key], "=", true)),
                "zset" => format!("({})", pairs(&key, &["ZRANGE", &key, "0", "-1", "WITHSCORES"], ":", false)),
                _ => format!("[{}]", word(&ask(&["LRANGE", &key, "0", "-1"]))),
            };
            let ttl = word(&ask(&["PTTL", &key]));
            format!("{key}{value}{}", if ttl == "-1" { String::new() } else { format!("/{ttl}") })
        });
        let all = self.relative(&keys.collect::<Vec<_>>().join(" "));
        ('a'..'g').fold(all, |all, id| all.replace(&String::from(id).repeat(16), &format!("<{id}>")))
    }
}

/// An argument as it is sent.
fn argument(word: &str) -> String {
    let (before, ids) = word.split_once("id:").unwrap_or((word, ""));
    let ids: String = ids.bytes().map(|id| format!("{id:02x}").repeat(16)).collect();
    format!("{}{ids}", if before == "_" { "" } else { before }).replace('~', " ")
}

fn word(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Bulk(text) | Value::Status(text) | Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Value::List(items) => items.iter().map(word).collect::<Vec<_>>().join(" "),
    }
}
