//! docs/OPERATIONS.md shows what the commands print: written by these runs, and compared with them.

use std::collections::BTreeMap;

use lockson::kind::Reentrant;
use lockson::Lock;
use rustix::process::Signal;
use support::prelude::*;
use support::root;

use super::program::{lockson, Running};

const DOCUMENT: &str = "docs/OPERATIONS.md";
const JAVA: &str = "8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:71";

/// What differs from run to run gets a value of its own length, where columns stand behind it.
#[derive(Default)]
struct Steady {
    uuids: BTreeMap<String, usize>,
}

impl Steady {
    fn text(&mut self, text: &str) -> String {
        let words = text.split_inclusive(|c: char| c.is_whitespace() || "\",;()/".contains(c));
        words.map(|word| self.word(word)).collect()
    }

    /// One that ends with the beginning of a known uuid.
    fn cut(&self, word: &str) -> Option<String> {
        let (uuid, number) = self.uuids.iter().find(|(uuid, _)| word.contains(&uuid[..8]))?;
        let (before, rest) = word.split_at(word.find(&uuid[..8])?);
        uuid.starts_with(rest).then(|| format!("{before}{}", &steady_uuid(*number)[..rest.len()]))
    }

    fn word(&mut self, word: &str) -> String {
        let end = word.find(|c: char| c.is_whitespace() || "\",;()/".contains(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let numbers = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        let at = (0..word.len().saturating_sub(35)).find(|at| {
            let part = word.get(*at..at + 36).unwrap_or_default();
            part.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && is_hex(&part.replace('-', ""))
        });
        let steady = match word {
            _ if word.starts_with(&JAVA[..36]) => word.to_owned(),
            _ if at.is_some() => {
                let at = at.unwrap();
                let next = self.uuids.len() + 1;
                let number = self.uuids.entry(word[at..at + 36].to_owned()).or_insert(next);
                format!("{}{}{}", &word[..at], steady_uuid(*number), &word[at + 36..])
            }
            // Cut off at the edge of a screen.
            _ if self.cut(word).is_some() => self.cut(word).unwrap(),
            _ if word.len() == 32 && is_hex(word) => "5d41402abc4b2a76b9719d911017c592".to_owned(),
            _ if word.len() >= 15 && numbers(word) => "1795404174579358".to_owned(),
            _ if word.len() >= 13 && numbers(word) => "1795404174579".to_owned(),
            _ if word.strip_suffix("ms").is_some_and(numbers) => "2ms".to_owned(),
            _ if word.strip_suffix("ms+").is_some_and(numbers) => format!("{:1$}", "2ms+", word.len()),
            _ if word.trim_end_matches('+').strip_suffix('s').is_some_and(|text| {
                text.split_once('.').is_some_and(|(whole, part)| numbers(whole) && numbers(part))
            }) =>
            {
                if word.ends_with('+') { "0.5s+" } else { "29.9s" }.to_owned()
            }
            _ if word.ends_with('Z') && word.matches(':').count() == 2 => "12:00:00Z".to_owned(),
            _ if word.strip_prefix("127.0.0.1:").is_some_and(numbers) => "127.0.0.1:6379".to_owned(),
            _ if word.split('.').count() == 3 && word.split('.').all(numbers) => "7.0.15".to_owned(),
            _ => word.to_owned(),
        };
        steady + after
    }
}

fn steady_uuid(number: usize) -> String {
    format!("1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633{number}")
}

/// JSON: any lease is a whole one.
fn leases(text: &str) -> String {
    let mut steady = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("lease_ms\":") {
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let value = if end == 0 { "" } else { "29990" };
        steady += &format!("{before}lease_ms\":{value}");
        rest = &after[end..];
    }
    steady + rest
}

/// How many keys there are beside what is listed is not always the same.
fn others(text: &str) -> String {
    match text.split_once(" more keys ") {
        Some((before, after)) => {
            format!("{}9 more keys {after}", before.trim_end_matches(|c: char| c.is_ascii_digit()))
        }
        None => text.to_owned(),
    }
}

/// Compares these parts of the document with what was printed, or writes them with `LOCKSON_BLESS=1`.
fn compare(parts: &[(&str, String)]) {
    let path = root().join(DOCUMENT);
    let mut text = std::fs::read_to_string(&path).unwrap();
    let mut differ = Vec::new();
    for (name, printed) in parts {
        let begin = format!("<!-- written by cli/tests: {name} -->\n");
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{DOCUMENT} has no part {name}"));
        let (old, after) = rest.split_once("<!-- end -->").expect("it has an end");
        let new = format!("```console\n{printed}```\n");
        if old != new {
            differ.push(format!("{name}: it says\n{old}and it is\n{new}"));
        }
        text = format!("{before}{begin}{new}<!-- end -->{after}");
    }
    if std::env::var("LOCKSON_BLESS").as_deref() == Ok("1") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert!(differ.is_empty(), "{DOCUMENT}, written anew with LOCKSON_BLESS=1:\n{}", differ.join("\n"));
}

/// Reads lines until one has this in it.
fn until(watch: &mut Running, lines: &mut Vec<String>, what: &str) {
    while !lines.last().is_some_and(|line| line.contains(what)) {
        lines.push(format!("{}\n", watch.line()));
    }
}

/// The first frame of `top` from here on that is like this.
fn frame(top: &mut Running, is_meant: impl Fn(&str) -> bool) -> String {
    let mut frame = String::new();
    loop {
        let line = top.line();
        let is_last = line.starts_with("the longest ");
        frame += &format!("{}\n", same_width(&line));
        if is_last && is_meant(&frame) {
            return frame;
        }
        if is_last {
            frame.clear();
        }
    }
}

/// With a time in the column `FOR` that is as wide in every run.
fn same_width(line: &str) -> String {
    let time = line.split(' ').find(|word| word.ends_with("s+"));
    match time.and_then(|time| line.split_once(time)) {
        Some((before, after)) => {
            let time = line.len() - before.len() - after.len();
            let behind = after.trim_start();
            format!("{before}{:1$}{behind}", "0.4s+", time + after.len() - behind.len())
        }
        None => line.to_owned(),
    }
}

/// What holds and waits while the document's commands are run.
async fn scene(server: &Server) -> (Vec<Box<dyn Send>>, JoinHandle<Guard>) {
    let client = |label: &str| {
        let builder = Locks::builder().label(label);
        let url = server.url();
        async move { builder.connect(&url).await.unwrap() }
    };
    let (orders, billing) = (client("orders").await, client("billing").await);
    let named = |lock: Lock<Reentrant>, owner: &str| lock.owned_by(&Owner::named(owner).unwrap());
    let owner = Owner::named("import").unwrap();
    let mut held: Vec<Box<dyn Send>> = vec![
        Box::new(named(orders.lock("orders:42"), "request-17").guard().await.unwrap()),
        Box::new(orders.fair_lock("tickets").owned_by(&owner).guard().await.unwrap()),
        Box::new(billing.fenced_lock("invoices").owned_by(&owner).guard().await.unwrap()),
        Box::new(billing.read_write_lock("prices").read().owned_by(&owner).guard().await.unwrap()),
    ];
    billing.permit_semaphore("partner:calls").try_set_permits(5).await.unwrap();
    held.push(Box::new(billing.permit_semaphore("partner:calls").guard(1).await.unwrap()));
    let mut raw = server.raw().await;
    raw.must(&["HSET", "stock:7", JAVA, "1"]).await;
    raw.must(&["PEXPIRE", "stock:7", "29950"]).await;
    raw.must(&["SET", "visits", "1234"]).await;
    let waits = Owner::named("export").unwrap();
    let waiter =
        spawn_with(billing.fair_lock("tickets").owned_by(&waits), |lock| async move { lock.guard().await.unwrap() });
    let admin = orders.admin();
    eventually(secs(20), "it waits", async || admin.describe("tickets").await.unwrap().waiting == 1).await;
    (held, waiter)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_shows_what_the_commands_print() {
    let server = Server::start();
    let (held, waiter) = scene(&server).await;
    let (mut steady, mut parts) = (Steady::default(), Vec::new());
    let mut add = |name: &'static str, typed: &str, words: &[&str], code: i32| {
        let ran = lockson(&server.url(), words).expect(code);
        let text = leases(&steady.text(&format!("{}{}", ran.out, others(&ran.err))));
        parts.push((name, format!("$ {typed}\n{text}")));
    };
    add("ls", "lockson ls", &["ls"], 0);
    add("json", "lockson ls 'orders:*' --json", &["ls", "orders:*", "--json"], 0);
    add("show", "lockson show tickets", &["show", "tickets"], 0);
    add("fenced", "lockson show invoices", &["show", "invoices"], 0);
    add("number", "lockson show visits", &["show", "visits"], 0);
    add("doctor", "lockson doctor", &["doctor"], 0);
    add("top", "lockson top --frames 1 > top.txt", &["top", "--frames", "1"], 0);
    let busy = ["run", "orders:42", "--wait", "100ms", "--", "./nightly.sh"];
    let busy: Vec<&str> = busy.iter().map(|word| if *word == "./nightly.sh" { "true" } else { *word }).collect();
    add("busy", "lockson run orders:42 --wait 100ms -- ./nightly.sh; echo $?", &busy, 75);
    add("force", "lockson force stock:7 --yes", &["force", "stock:7", "--yes"], 0);
    add(
        "again",
        &format!("lockson force stock:7 --owner {JAVA} --yes"),
        &["force", "stock:7", "--owner", JAVA, "--yes"],
        1,
    );
    parts.iter_mut().filter(|(name, _)| *name == "busy").for_each(|(_, text)| text.push_str("75\n"));

    let mut top = Running::start(&server.url(), &["top", "tickets", "--frames", "100000", "--interval", "100ms"]);
    let mut frames = frame(&mut top, |frame| frame.contains("orders-"));
    let mut watch = Running::start(&server.url(), &["watch", "tickets", "--interval", "50ms"]);
    let mut lines = Vec::new();
    until(&mut watch, &mut lines, "waits");
    drop(held);
    let guard = patient("the waiter", waiter).await.unwrap();
    until(&mut watch, &mut lines, "held         billing");
    frames += &frame(&mut top, |frame| frame.contains("billing-"));
    drop(guard);
    until(&mut watch, &mut lines, "released     billing");
    watch.signal(Signal::INT);
    watch.end().expect(0);
    parts.push(("watch", format!("$ lockson watch tickets\n{}", steady.text(&lines.concat()))));
    let typed = "lockson top tickets --frames 600 --interval 100ms | tee top.txt";
    parts.push(("recording", format!("$ {typed}\n{}", leases(&steady.text(&frames)))));
    compare(&parts);
}
