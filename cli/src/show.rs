//! `show`: what is under a name.

use lockson::{Description, Locks, Presence, What};

use crate::args::Show;
use crate::clients::{self, Clients};
use crate::json;
use crate::out::{brief, clean, Out, Paint};
use crate::{End, Outcome};

pub async fn run(locks: &Locks, out: &Out, args: Show) -> Outcome {
    let found = locks.admin().describe(&args.name).await?;
    let clients = clients::of(locks, &found).await?;
    if out.json {
        out.value(&json::description(&found, &clients))?;
    } else {
        for line in lines(out, &found, &clients) {
            out.line(&line)?;
        }
    }
    let is_there = found.what != What::Free;
    Ok(if is_there { End::Done } else { End::No })
}

pub fn lines(out: &Out, found: &Description, clients: &Clients) -> Vec<String> {
    let mut lines = vec![format!("{}  {}", out.paint(Paint::Bold, &clean(&found.name)), said(found))];
    let mut add =
        |what: &str, text: String| lines.push(format!("  {} {text}", out.paint(Paint::Dim, &format!("{what:11}"))));
    for holder in &found.holders {
        let times = if holder.count == 1 { String::new() } else { format!(", {} times", holder.count) };
        let left = holder.ttl.map_or("no lease".to_owned(), |ttl| format!("lease {}", brief(ttl)));
        let client = clients.get(&holder.client);
        let held = client.and_then(|client| client.held(&found.name, holder));
        let held = held.map_or(String::new(), |held| format!(", for {}", brief(held)));
        add("held by", format!("{}{times}, {left}{held}", clean(holder.field())));
        if let Some(Presence { host, pid, version, running, .. }) = client {
            let (host, version) = (clean(host), clean(version));
            add("", format!("process {pid} of {host}, lockson {version}, a client for {}", brief(*running)));
        }
    }
    if found.held > found.holders.len() as u64 {
        add("", format!("{} in all, the dead among them", found.held));
    }
    if let Some(token) = &found.token_of_hold {
        add("held with", format!("{}, {}", clean(token), found.ttl.map_or("no lease".to_owned(), brief)));
    }
    for permit in &found.permits {
        add("permit", format!("{}, lease {}", permit.id, brief(permit.left)));
    }
    if found.taken > Some(found.permits.len() as u64) {
        add("", format!("{} in all", found.taken.unwrap_or_default()));
    }
    for (place, waiter) in found.waiters.iter().enumerate() {
        let silent = waiter.silent.map_or(String::new(), |silent| format!(", heard of {} ago", brief(silent)));
        add("waits", format!("{}. {}{silent}", place + 1, clean(&waiter.field)));
    }
    if found.waiting > found.waiters.len() as u64 {
        add("", format!("{} in all", found.waiting));
    }
    if let Some(listening) = found.listening.filter(|listening| *listening > 0) {
        add("listening", format!("{listening} connections"));
    }
    if let Some(token) = found.token {
        add("last token", token.to_string());
    }
    if let Some(ended) = &found.ended {
        add("last latch", clean(ended));
    }
    lines
}

fn said(found: &Description) -> String {
    let number = found.number.unwrap_or_default();
    match found.what {
        What::Free => "free: nobody holds it, and nobody is in a queue for it".to_owned(),
        What::Lock => "lock (or mutex, spin, fenced; fair, for which nobody waits)".to_owned(),
        What::Fair => "fair lock".to_owned(),
        What::Read => "read/write lock, held for reading".to_owned(),
        What::Write => "read/write lock, held for writing".to_owned(),
        What::Plain => "plain lock, of lockson or another library".to_owned(),
        What::Semaphore | What::PermitSemaphore if number < 0 => {
            format!("{}: {} are owed before one is free", semaphore(found.what), number.unsigned_abs())
        }
        What::Semaphore | What::PermitSemaphore => format!("{}: {number} free", semaphore(found.what)),
        What::Latch => format!("latch: {number} to go"),
        What::Number => format!("number {number}: a semaphore, a latch, or another program's: its key does not tell"),
        What::Foreign => {
            let kind = clean(found.foreign.as_deref().unwrap_or("key"));
            format!("foreign: a {kind}, of neither lockson nor Redisson")
        }
        _ => found.what.to_string(),
    }
}

fn semaphore(what: What) -> &'static str {
    match what {
        What::PermitSemaphore => "expirable semaphore",
        _ => "semaphore",
    }
}
