//! A story: commands, time that passes, and calls of scripts, each with its answer, all that is stored then, and what
//! was heard.

use std::collections::BTreeSet;

use support::files;
use support::prelude::*;
use support::Reply;

use super::stage::Stage;

/// What stands for the server's time of now in a story, and how it is written there.
const SCALES: [(usize, i64, &str); 3] = [(10, 1_000_000, "sec"), (13, 1_000, "now"), (16, 1, "us")];

/// Runs a story on an embedded server without data, whose clock shows a time that is not whole in any unit. Its lines:
/// - `SET key 1`: a command; `now+5` is a time, `<run>` the server's run_id, `~` a blank.
/// - `lua for i = 1, 9 do .. end`: a script that sets something up.
/// - `wait 100`: so many milliseconds pass. What follows needs a clock that stands still else, so real servers are not
///   asked for it.
/// - `hear c d`: somebody listens on these channels from now on. Scripts announce on `c`.
/// - `script key key / arg arg -> answer | all that is stored | what was heard`: a call. `_` is an empty argument, `~`
///   a blank in one, `^` a new line, `id:ab` two ids of permits, which are stored as `<a>` and `<b>`. The answer is
///   without nonce and time, of several lines with `;` between; it may end with `*`. Without a second part nothing has
///   changed; where that is `*`, a `lua assert(..)` behind it looks at what is too much to be written down. Before the
///   script may stand `by 5` (its not_after from now; `at 5`: as it is), `without GET`, where the user may not call
///   that, `full`, where no memory is left, and `silent`, `fenced` or `red` as the client joins it then, or `sharded`,
///   as it announces in a cluster, or `unheard`, where the server refuses the message.
///
/// What is stored: `string=value hash{field=value} list[item] zset(member:score)`, each with `/TTL` if it has one.
pub async fn tell(lines: &[&str]) {
    let mut teller = Teller { stage: Stage::embedded().await };
    for line in lines {
        if !teller.set(line).await {
            let call = teller.read(line).await;
            let before = teller.state().await;
            teller.stage.deny(call.without.as_deref());
            teller.stage.fill(call.is_full);
            let found = teller.run(&call).await;
            teller.stage.deny(None);
            teller.stage.fill(false);
            assert!(call.fits(&found, &before), "{line}\n  came out as\n{} -> {found}", call.line);
        }
    }
}

/// Runs it on a real server, up to where it needs the embedded clock, each call with no memory left: it does all that
/// it does with enough, or it is refused and nothing has changed. Returns how many did, and the scripts that were
/// refused; or the first that did neither.
pub async fn tell_out_of_memory(server: &Server, lines: &[&str]) -> Result<(usize, Vec<String>), String> {
    let mut teller = Teller { stage: Stage::real(server).await };
    let (mut done, mut refused) = (0, Vec::new());
    for line in lines.iter().take_while(|line| !line.starts_with("wait ")) {
        if teller.set(line).await {
            continue;
        }
        let call = teller.read(line).await.roughly();
        let before = rough(&teller.state().await);
        teller.stage.limit("1").await;
        let mut found = teller.run(&call).await.roughly();
        teller.stage.limit("0").await;
        done += 1;
        if found.answer.contains("OOM") {
            if found.stored != before {
                return Err(format!("{line}\n  was refused, and wrote:\n{found}"));
            }
            done -= 1;
            refused.push(call.script.clone());
            found = teller.run(&call).await.roughly();
        }
        if !call.fits(&found, &before) {
            return Err(format!("{line}\n  came out as\n{} -> {found}", call.line));
        }
    }
    Ok((done, refused))
}

/// Tells it once for each call and each command of its script, which that call may not use: it does all that it does
/// with the right, or it is refused and nothing has changed. Returns how many were refused, and which did neither:
/// script, command, and what came of it.
pub async fn tell_without_rights(lines: &[&str]) -> (usize, Vec<(String, String, String)>) {
    let (mut refused, mut wrong) = (0, Vec::new());
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" -> ")) {
        let text = Teller { stage: Stage::embedded().await }.read(line).await.text;
        for command in commands(&text) {
            let mut teller = Teller { stage: Stage::embedded().await };
            for line in &lines[..at] {
                if !teller.set(line).await {
                    let call = teller.read(line).await;
                    teller.run(&call).await;
                }
            }
            let call = teller.read(line).await;
            let before = teller.state().await;
            teller.stage.deny(Some(&command));
            let found = teller.run(&call).await;
            teller.stage.deny(None);
            let is_refused = is_refusal(&found.answer);
            refused += usize::from(is_refused);
            let is_right = if is_refused { found.stored == before } else { call.is_done(&found, &before) };
            if !is_right {
                wrong.push((call.script, command, format!("{line}\n  came out as\n{found}")));
            }
        }
    }
    (refused, wrong)
}

/// An error reply, or what a script says that found out by itself.
fn is_refusal(answer: &str) -> bool {
    let text = answer.trim_start_matches("6 ");
    text.starts_with("OOM") || text.starts_with("NOPERM") || text.contains("ACL failure in script")
}

/// The commands that a script may call.
fn commands(text: &str) -> BTreeSet<String> {
    let words = text.lines().filter(|line| !line.starts_with("--")).flat_map(|line| line.split('\''));
    words
        .filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect()
}

/// Without times, and with long numbers as `#`: a real clock goes on.
fn rough(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| at + end);
        let before = rest[..at].trim_end_matches(['+', '-', '.']);
        let is_time = SCALES.iter().any(|(.., name)| before.ends_with(name)) && before.len() < at;
        out += if is_time { before } else { &rest[..at] };
        match end - at {
            _ if is_time => {}
            3.. => out += "#",
            _ => out += &rest[at..end],
        }
        rest = &rest[end..];
    }
    out + rest
}

/// What came of a call.
struct Found {
    answer: String,
    stored: String,
    heard: String,
}

impl Found {
    fn roughly(self) -> Found {
        Found { answer: rough(&self.answer), stored: rough(&self.stored), heard: String::new() }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} | {} | {}", self.answer, self.stored, self.heard)
    }
}

/// A call, and what is to come of it.
struct Call {
    line: String,
    script: String,
    text: String,
    keys: Vec<String>,
    args: Vec<String>,
    not_after: i64,
    without: Option<String>,
    is_full: bool,
    answer: String,
    stored: Option<String>,
    heard: String,
}

impl Call {
    fn fits(&self, found: &Found, before: &str) -> bool {
        self.is_done(found, before) && found.heard == self.heard
    }

    /// Whoever heard of it.
    fn is_done(&self, found: &Found, before: &str) -> bool {
        let answered = match self.answer.strip_suffix('*') {
            Some(beginning) => found.answer.starts_with(beginning),
            None => found.answer == self.answer,
        };
        let stored = self.stored.as_deref().unwrap_or(before);
        answered && (stored == "*" || found.stored == stored)
    }

    fn roughly(self) -> Call {
        let stored = self.stored.map(|stored| rough(&stored));
        // What is in time by a clock that stands still may be late by one that goes on.
        let not_after = if self.not_after < 0 { self.not_after } else { 60_000 };
        Call { answer: rough(&self.answer), stored, heard: String::new(), not_after, ..self }
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

/// An argument as it is sent.
fn argument(word: &str) -> String {
    let (before, ids) = word.split_once("id:").unwrap_or((word, ""));
    let ids: String = ids.bytes().map(|id| format!("{id:02x}").repeat(16)).collect();
    format!("{}{ids}", if before == "_" { "" } else { before }).replace('~', " ").replace('^', "\n")
}

struct Teller {
    stage: Stage,
}

impl Teller {
    /// Does what a line says that is no call.
    async fn set(&mut self, line: &str) -> bool {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("wait", time) => tokio::time::advance(ms(time.parse().unwrap())).await,
            ("hear", channels) => self.stage.hear(channels).await,
            ("lua", script) => drop(self.stage.eval(script, &[], &[]).await.unwrap()),
            _ if line.contains(" -> ") => return false,
            _ => {
                let words = self.absolute(line).await;
                let words: Vec<String> = words.split(' ').map(|word| word.replace('~', " ")).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.stage.command(&words).await.unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
        true
    }

    async fn read(&mut self, line: &str) -> Call {
        let (call, expected) = line.split_once(" -> ").unwrap();
        let (mut not_after, mut without, mut is_full, mut way, mut rest) = (60_000, None, false, "", call);
        while let Some((word, more)) = rest.split_once(' ') {
            match word {
                "by" => {
                    let (by, more) = more.split_once(' ').unwrap();
                    (not_after, rest) = (by.parse().unwrap(), more);
                }
                "at" => {
                    let (at, more) = more.split_once(' ').unwrap();
                    (not_after, rest) = (at.parse::<i64>().unwrap() - self.now_us().await / 1000, more);
                }
                "without" => {
                    let (command, more) = more.split_once(' ').unwrap();
                    (without, rest) = (Some(command.to_owned()), more);
                }
                "full" => (is_full, rest) = (true, more),
                "silent" | "fenced" | "red" | "sharded" | "unheard" => (way, rest) = (word, more),
                _ => break,
            }
        }
        let (script, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (keys, args) = rest.split_once('/').unwrap_or((rest, ""));
        let told: &[&str] = match (files::announces(script), way) {
            (false, _) | (_, "silent") => &[],
            (_, "unheard") => &["NO-SUCH-COMMAND", "c"],
            (_, "sharded") => &["SPUBLISH", "c"],
            _ => &["PUBLISH", "c"],
        };
        let args = self.absolute(args).await;
        let args = args.split_whitespace().map(argument).chain(told.iter().map(|word| (*word).to_owned()));
        let mut parts = expected.split('|').map(|part| part.trim().to_owned());
        Call {
            line: call.to_owned(),
            script: script.to_owned(),
            text: text(way, script),
            keys: keys.split_whitespace().map(str::to_owned).collect(),
            args: args.collect(),
            not_after,
            without,
            is_full,
            answer: parts.next().unwrap(),
            stored: parts.next(),
            heard: parts.next().unwrap_or_default(),
        }
    }

    async fn run(&mut self, call: &Call) -> Found {
        let now = self.now_us().await / 1000;
        let first = ["nonce".to_owned(), (now + call.not_after).to_string()];
        let args: Vec<&str> = first.iter().chain(&call.args).map(String::as_str).collect();
        let keys: Vec<&str> = call.keys.iter().map(String::as_str).collect();
        self.stage.heard();
        let answer = match self.stage.eval(&call.text, &keys, &args).await {
            Ok(reply @ (Reply::List(_) | Reply::Text(_))) => {
                let lines: Vec<Vec<String>> = match reply {
                    Reply::List(items) => vec![items.iter().map(word).collect()],
                    text => text.text().lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect(),
                };
                let said = lines.iter().enumerate().map(|(at, words)| {
                    // Further lines are of the calls of a group, which have those of the first.
                    if at > 0 {
                        assert_eq!(words[1..3], ["", ""], "{}: what the first line has", call.line);
                    } else {
                        assert_eq!(words[1], "nonce", "{}: the nonce", call.line);
                        self.stage.is_now(&words[2], now);
                    }
                    [&words[..1], &words[3..]].concat().join(" ")
                });
                said.collect::<Vec<_>>().join("; ")
            }
            Err(error) if is_refusal(&error) => error,
            other => panic!("{}: {other:?}", call.line),
        };
        let answer = self.relative(answer.trim_end()).await;
        Found { answer, heard: self.stage.heard(), stored: self.state().await }
    }

    async fn now_us(&mut self) -> i64 {
        let Ok(Reply::List(time)) = self.stage.command(&["TIME"]).await else { panic!("no time") };
        time[0].int() * 1_000_000 + time[1].int()
    }

    /// `now+5` as the number that it is.
    async fn absolute(&mut self, line: &str) -> String {
        let now = self.now_us().await / 1000;
        let line = line.replace("<run>", &self.run_id().await);
        let words = line.split_inclusive([' ', '~']).map(|word| {
            let (word, blank) = word.split_at(word.trim_end_matches([' ', '~']).len());
            let ahead = word.strip_prefix("now").map(|rest| if rest.is_empty() { "+0" } else { rest });
            match ahead.and_then(|ahead| ahead.parse::<i64>().ok()) {
                Some(ahead) => format!("{}{blank}", now + ahead),
                None => format!("{word}{blank}"),
            }
        });
        words.collect()
    }

    async fn run_id(&mut self) -> String {
        let info = self.ask(&["INFO", "server"]).await;
        info.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a run_id").to_owned()
    }

    /// The other way round: times near now, in seconds, milliseconds or microseconds.
    async fn relative(&mut self, text: &str) -> String {
        let text = text.replace(&self.run_id().await, "<run>");
        let (now, mut out, mut rest) = (self.now_us().await, String::new(), text.as_str());
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let end = rest[start..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| start + end);
            let (number, digits) = (rest[start..end].parse::<i64>().unwrap_or(0), end - start);
            // What is kept below zero: microseconds less 1e16.
            let below = start > 0 && rest[..start].ends_with('-') && digits == 16;
            let number = if below { 10_000_000_000_000_000 - number } else { number };
            let near = |unit: i64| (number.saturating_mul(unit).saturating_sub(now)).abs() < 10_000_000_000_000;
            let scale = SCALES.iter().find(|(length, unit, _)| *length == digits && near(*unit));
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
    async fn state(&mut self) -> String {
        let mut keys = self.stage.command(&["KEYS", "*"]).await.unwrap().texts();
        keys.sort();
        let mut all = Vec::new();
        for key in keys {
            let value = match self.ask(&["TYPE", &key]).await.as_str() {
                // It ended meanwhile.
                "none" => continue,
                "string" => format!("={}", self.ask(&["GET", &key]).await),
                "hash" => {
                    let mut pairs = self.pairs(&["HGETALL", &key]).await;
                    pairs.sort();
                    format!("{{{}}}", pairs.iter().map(|pair| pair.join("=")).collect::<Vec<_>>().join(" "))
                }
                "zset" => {
                    let pairs = self.pairs(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await;
                    format!("({})", pairs.iter().map(|pair| pair.join(":")).collect::<Vec<_>>().join(" "))
                }
                _ => format!("[{}]", self.ask(&["LRANGE", &key, "0", "-1"]).await),
            };
            let ttl = self.ask(&["PTTL", &key]).await;
            all.push(format!("{key}{value}{}", if ttl == "-1" { String::new() } else { format!("/{ttl}") }));
        }
        let all = self.relative(&all.join(" ")).await;
        ('a'..'g').fold(all, |all, id| all.replace(&String::from(id).repeat(16), &format!("<{id}>")))
    }

    async fn ask(&mut self, args: &[&str]) -> String {
        word(&self.stage.command(args).await.unwrap())
    }

    async fn pairs(&mut self, args: &[&str]) -> Vec<[String; 2]> {
        let items = self.stage.command(args).await.unwrap().texts();
        items.chunks(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect()
    }
}

fn word(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::List(items) => items.iter().map(word).collect::<Vec<_>>().join(" "),
        Reply::Error(text) => text.clone(),
        other => other.text(),
    }
}
