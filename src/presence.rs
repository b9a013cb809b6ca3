//! Who a client is, and what it has held for how long: the client itself says it on the server, where it is asked to,
//! and whoever runs it reads it there.

use std::fs;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Script;
use crate::base::fault::Refused;
use crate::base::janitor::say;
use crate::base::keys::Key::Lock;
use crate::base::keys::Naming;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::lease::validity::Leased;
use crate::locks::lock::Holder;
use crate::permits::pool::DIGITS;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::Fault;
use crate::wire::table::script;

/// Of those that are held, the ones that have been for longest.
const MOST: usize = 100;

static PRESENT: &Script = script!("admin/present", [Lock]);
static CLIENT: &Script = script!("admin/client", [Lock]);

/// What a client said of itself last, by [`Admin::client`](crate::Admin::client).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Presence {
    /// The name of its machine; empty where that is not known.
    pub host: String,
    /// Its process on that machine.
    pub pid: u32,
    /// The version of lockson.
    pub version: String,
    /// How long it has been a client.
    pub running: Duration,
    /// How long ago it said so: of a client that is alive up to a third of its `watchdog_lease`.
    pub silent: Duration,
    /// What it held then, the longest hold first: up to a hundred.
    pub holds: Vec<HeldFor>,
}

impl Presence {
    /// For how long this holder, which is of this client, has had the lock of this name, as far as it said so.
    pub fn held(&self, name: &str, holder: &Holder) -> Option<Duration> {
        self.holds.iter().find(|hold| hold.name == name && hold.owner == holder.field()).map(|hold| hold.held)
    }
}

/// What a client holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldFor {
    /// The name, of a lock or a semaphore.
    pub name: String,
    /// The owner as the server has it; of permits the first of their ids.
    pub owner: String,
    /// For how long.
    pub held: Duration,
}

/// Says it every third of the lease, until the client ends.
pub(crate) async fn tell(engine: Arc<Engine>) {
    let (began, lease) = (engine.now(), engine.settings.watchdog_lease);
    let (key, ttl) = (key(&engine.settings.naming, &engine.client_id), lease.as_millis().to_string());
    let telling = async {
        let mut is_refused = false;
        loop {
            let text = text(&engine, engine.now().since(began));
            let called = engine.wire.call(PRESENT, &[&key], &[&ttl, &text], &engine.patience()).await;
            if let (Err(Fault::Refused(why)), false) = (called.result, is_refused) {
                is_refused = true;
                say(|| warn_refused(&why));
            }
            tokio::time::sleep(lease / 3).await;
        }
    };
    tokio::select! {
        biased;
        () = engine.ended() => {}
        () = telling => {}
    }
}

fn warn_refused(why: &Refused) {
    tracing::warn!(target: "lockson", %why, "this client can't say who it is: `presence` is of no use");
}

/// Asks for it.
pub(crate) async fn ask(engine: &Arc<Engine>, client_id: &str) -> Result<Option<Presence>, QueryError> {
    let key = key(&engine.settings.naming, client_id);
    let answer = engine.ask(client_id, CLIENT, &[&key], &[]).await?;
    Ok(read(&answer))
}

fn key(naming: &Naming, client_id: &str) -> String {
    naming.key(&format!("lockson:client:{client_id}"))
}

/// A line for each word: none of them has a control character.
fn text(engine: &Engine, running: Duration) -> String {
    let (host, pid, version) = (host(), process::id(), env!("CARGO_PKG_VERSION"));
    let mut holds = engine.watchdog.holds();
    holds.sort_by_key(|hold| hold.since);
    let now = engine.now();
    let line = |hold: &Arc<Leased>| {
        // Of permits it is all their ids.
        let is_owner = hold.holder.starts_with(&*engine.client_id);
        let owner = hold.holder.get(..DIGITS).filter(|_| !is_owner).unwrap_or(&hold.holder);
        format!("\n{}\n{owner}\n{}", hold.keys.name, now.since(hold.since).as_millis())
    };
    let holds: String = holds.iter().take(MOST).map(line).collect();
    format!("{host}\n{pid}\n{version}\n{}{holds}", running.as_millis())
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    name.unwrap_or_default().trim().chars().filter(|c| !c.is_control()).collect()
}

/// `None`: it says nothing, or what no client would say.
fn read(answer: &Answer) -> Option<Presence> {
    let text = answer.text(0).filter(|_| answer.status == Status::Done)?;
    let (said, text) = text.split_once(' ')?;
    let (said, mut lines): (i64, _) = (said.parse().ok()?, text.split('\n'));
    let silent = Duration::from_millis(u64::try_from(answer.time.saturating_sub(said)).unwrap_or_default());
    let span = |text: &str| Some(Duration::from_millis(text.parse().ok()?) + silent);
    let (host, pid, version) = (lines.next()?.to_owned(), lines.next()?.parse().ok()?, lines.next()?.to_owned());
    let running = span(lines.next()?)?;
    let rest: Vec<&str> = lines.collect();
    let held = |hold: &[&str]| match hold {
        [name, owner, held] => Some(HeldFor { name: (*name).into(), owner: (*owner).into(), held: span(held)? }),
        _ => None,
    };
    let holds = rest.chunks(3).map(held).collect::<Option<_>>()?;
    Some(Presence { host, pid, version, running, silent, holds })
}
