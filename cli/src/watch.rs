//! `watch`: what becomes of a lock, an event a line.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use lockson::{Description, Locks, What};
use serde_json::{json, Value};
use tokio::signal::unix::{signal, SignalKind};
use tokio::time::{interval, Instant, MissedTickBehavior};

use crate::args::Watch;
use crate::out::{clean, Out, Paint};
use crate::{End, Failure, Outcome};

/// Looks again and again, and says what is different; what comes and goes between two looks is not seen.
pub async fn run(locks: &Locks, out: &Out, args: Watch) -> Outcome {
    let admin = locks.admin();
    let mut looks = interval(args.interval.max(Duration::from_millis(50)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut is_away): (Option<Look>, bool) = (None, false);
    let end = |kind| signal(kind).map_err(Failure::unreachable);
    let (mut interrupted, mut terminated) = (end(SignalKind::interrupt())?, end(SignalKind::terminate())?);
    loop {
        tokio::select! {
            biased;
            _ = interrupted.recv() => return Ok(End::Done),
            _ = terminated.recv() => return Ok(End::Done),
            _ = looks.tick() => {}
        }
        let began = Instant::now();
        // A server that is away keeps nobody from ending this.
        let found = tokio::select! {
            biased;
            _ = interrupted.recv() => return Ok(End::Done),
            _ = terminated.recv() => return Ok(End::Done),
            found = admin.describe(&args.name) => found,
        };
        match found {
            Ok(found) => {
                if std::mem::take(&mut is_away) {
                    say(out, &args.name, &Event::new("reachable"))?;
                }
                let passed = before.as_ref().map_or(Duration::ZERO, |look| look.began.elapsed());
                for event in events(before.as_ref().map(|look| &look.found), &found, passed) {
                    say(out, &args.name, &event)?;
                }
                before = Some(Look { began, found });
            }
            Err(error @ (lockson::QueryError::Name(_) | lockson::QueryError::Closed)) => {
                return Err(error.into());
            }
            Err(error) if !is_away => {
                is_away = true;
                say(out, &args.name, &Event { detail: Some(error.to_string()), ..Event::new("unreachable") })?;
            }
            Err(_) => {}
        }
    }
}

/// What was seen, by a look that began then: what was left of leases then, is from then on.
struct Look {
    began: Instant,
    found: Description,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    what: &'static str,
    owner: Option<String>,
    detail: Option<String>,
}

impl Event {
    fn new(what: &'static str) -> Self {
        Self { what, owner: None, detail: None }
    }

    fn of(what: &'static str, owner: &str) -> Self {
        Self { owner: Some(owner.to_owned()), ..Self::new(what) }
    }

    fn with(self, detail: impl ToString) -> Self {
        Self { detail: Some(detail.to_string()), ..self }
    }
}

/// Who holds it, by field, and how often.
pub(crate) fn holders(found: &Description) -> BTreeMap<String, u64> {
    let owners = found.holders.iter().map(|holder| (holder.field().to_owned(), holder.count));
    let permits = found.permits.iter().map(|permit| (permit.id.to_string(), 1));
    owners.chain(found.token_of_hold.iter().map(|token| (token.clone(), 1))).chain(permits).collect()
}

/// What was left of a hold's lease; `None`: it has none, or did not hold.
fn lease(found: &Description, owner: &str) -> Option<Duration> {
    let of_lock = found.holders.iter().find(|holder| holder.field() == owner).and_then(|holder| holder.ttl);
    let of_plain = || found.ttl.filter(|_| found.token_of_hold.as_deref() == Some(owner));
    let of_permit = || found.permits.iter().find(|permit| permit.id.to_string() == owner).map(|permit| permit.left);
    of_lock.or_else(of_plain).or_else(of_permit)
}

/// What is different; `passed`: so long ago, or less, it was as before.
fn events(before: Option<&Description>, now: &Description, passed: Duration) -> Vec<Event> {
    let mut events = Vec::new();
    let (old, new) = (before.map(holders).unwrap_or_default(), holders(now));
    let waited: Vec<&str> = before.iter().flat_map(|found| &found.waiters).map(|waiter| &*waiter.field).collect();
    let waits: Vec<&str> = now.waiters.iter().map(|waiter| &*waiter.field).collect();
    for owner in old.keys().filter(|owner| !new.contains_key(*owner)) {
        // It had a lease for longer than that: somebody has ended the hold, itself or by force.
        let has_ended = before.and_then(|found| lease(found, owner)).is_some_and(|left| left <= passed);
        events.push(Event::of(if has_ended { "lease ended" } else { "released" }, owner));
    }
    for (owner, count) in &new {
        match old.get(owner) {
            None => events.push(Event::of("held", owner).with(now.what)),
            Some(before) if before != count => events.push(Event::of("count", owner).with(count)),
            Some(_) => {}
        }
    }
    // Who has got it waits no more, and that is said above.
    for owner in waited.iter().filter(|owner| !waits.contains(owner) && !new.contains_key(**owner)) {
        events.push(Event::of("gave up", owner));
    }
    for (place, owner) in waits.iter().enumerate().filter(|(_, owner)| !waited.contains(owner)) {
        events.push(Event::of("waits", owner).with(format!("{}. of {}", place + 1, now.waiting)));
    }
    let number = |found: &Description| found.number;
    if before.and_then(number) != now.number {
        let detail = now.number.map_or("gone".to_owned(), |number| number.to_string());
        events.push(Event::new("number").with(detail));
    }
    if before.is_none() && events.is_empty() && now.what == What::Free {
        events.push(Event::new("free"));
    }
    events
}

fn say(out: &Out, name: &str, event: &Event) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if out.json {
        let at = crate::json::millis(now);
        let value: Value =
            json!({ "at_ms": at, "name": name, "event": event.what, "owner": event.owner, "detail": event.detail });
        return out.value(&value);
    }
    let of_day = now.as_secs() % 86_400;
    let at = format!("{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60);
    let words = [event.owner.as_deref(), event.detail.as_deref()].into_iter().flatten().map(clean);
    let text = words.collect::<Vec<_>>().join("  ");
    out.line(format!("{}  {:11}  {text}", out.paint(Paint::Dim, &at), event.what).trim_end())
}
