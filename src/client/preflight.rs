//! What is looked at on real servers before the first lock.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::backend::node::{entry, generation, online, Node, Topology};
use crate::backend::{Backend, Script, Signal};
use crate::base::config::Settings;
use crate::base::fault::{ConnectError, Fault, Refused};
use crate::base::host::Host;
use crate::base::keys::Key::{Channel, Lock};
use crate::base::keys::Naming;
use crate::client::factory::{nodes, Locks};
use crate::client::parts::Parts;
use crate::engine::Engine;
use crate::wire::confirm::check;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Patience, Wire};
use crate::wire::table::script;

/// Tries to find a name on a node.
const MOST_NAMES: u32 = 20_000;

/// The oldest server that the tests run on.
const LOWEST_VERSION: u32 = 7;

static PREFLIGHT: &Script = script!("preflight" after "announce", [Lock, Channel]);

/// Begins a client on servers that are connected, and looks them over before they are used.
pub(crate) async fn begin(
    settings: Settings,
    backend: Arc<dyn Backend>,
    signals: UnboundedReceiver<Signal>,
    host: Host,
) -> Result<Locks, ConnectError> {
    let locks = Locks::of(Parts::start(settings, backend, signals, host));
    look_over(locks.engine(), &locks.engine().wire).await?;
    Ok(locks)
}

/// Looks all servers over that are reached by this wire, for a client that is to use them.
pub(crate) async fn look_over(engine: &Engine, wire: &Wire) -> Result<(), ConnectError> {
    let (settings, topology) = (&engine.settings, wire.backend.topology());
    let is_one = topology == Topology::Single;
    let mut goes_on_alone = false;
    for name in scratch_names(wire, &settings.naming) {
        goes_on_alone |= preflight(engine, wire, &name, is_one).await?;
        check(&*wire.backend, &name, settings.confirm).await?;
    }
    if goes_on_alone && !is_one && settings.confirm.is_none() {
        let text = "a primary that is cut off goes on granting what its successor grants too: set \
            min-replicas-to-write 1 and min-replicas-max-lag 1, or use Builder::confirm";
        tracing::warn!(target: "lockson", "{text}");
    }
    let nodes: Vec<String> = nodes(wire).iter().map(ToString::to_string).collect();
    tracing::info!(target: "lockson", client = &*engine.client_id, %topology, ?nodes, "connected");
    Ok(())
}

/// A name on each node that nobody uses.
fn scratch_names(wire: &Wire, naming: &Naming) -> Vec<String> {
    let on = |node: Arc<Node>| {
        let mut names = (0..MOST_NAMES).map(|number| match number {
            0 => naming.key("lockson:preflight"),
            _ => naming.key(&format!("lockson:preflight:{number}")),
        });
        names.find(|name| wire.backend.node(name).is_ok_and(|its| Arc::ptr_eq(&its, &node)))
    };
    // None is found where the prefix or the mapper says which node all names are on.
    wire.backend.nodes().into_iter().filter_map(on).collect()
}

/// Looks a server over. Whether it would go on without its replicas.
async fn preflight(engine: &Engine, wire: &Wire, scratch: &str, is_one: bool) -> Result<bool, ConnectError> {
    let channel = format!("redisson_lock__channel:{{{scratch}}}");
    // Users are each server's own.
    let place = match wire.backend.node(scratch) {
        Ok(node) if !is_one => format!(", at {}", node.address),
        _ => String::new(),
    };
    let patience = Patience::new(wire.clock.now(), wire.command_timeout * 2);
    let also: &[&str] = if engine.settings.confirm.is_some() { &["WAIT"] } else { &[] };
    let called = wire.call(PREFLIGHT, &[scratch, &channel], also, &patience).await;
    let answer = called.result.map_err(|fault| match fault {
        Fault::Unreachable(why) => ConnectError::Unreachable(why),
        // The scripts' TIME comes before anything that could name what is missing.
        Fault::Refused(Refused::NoPermission(text)) => {
            let hint = "locks need +eval, +evalsha, +time and their keys and channels: docs/GUARANTEES.md has the rule";
            Refused::NoPermission(format!("{text} ({hint}){place}")).into()
        }
        Fault::Refused(Refused::NotAuthenticated(text)) => Refused::NotAuthenticated(text + &place).into(),
        Fault::Refused(why) => ConnectError::Refused(why),
    })?;
    if answer.status != Status::Done {
        return Err(ConnectError::Unreachable("the server's answer can't be read".to_owned()));
    }
    let generation = answer.text(1).zip(answer.text(2)).and_then(|(run, role)| generation(&format!("{run}\n{role}")));
    if let (Some(generation), Ok(node)) = (generation, wire.backend.node(scratch)) {
        node.is_of(&generation);
    }
    inspect(engine, wire.slot(scratch), &answer, is_one, &place)?;
    Ok(answer.text(2).is_some_and(goes_on_alone))
}

/// Whether a primary with these replicas needs none of them to write: else its INFO says how many it counts on.
fn goes_on_alone(replication: &str) -> bool {
    online(replication) > 0 && entry(replication, "min_slaves_good_slaves").is_none()
}

fn inspect(engine: &Engine, slot: u16, answer: &Answer, is_one: bool, place: &str) -> Result<(), ConnectError> {
    let section = |at: usize| answer.text(at).unwrap_or_default();
    let (server, replication, memory) = (section(1), section(2), section(3));
    let version = entry(server, "redis_version");
    let (role, policy) = (entry(replication, "role"), entry(memory, "maxmemory_policy"));
    let missing = section(0);
    if !missing.is_empty() {
        let keys = match &engine.settings.naming {
            Naming { mapper: None, prefix, .. } => format!("{prefix}*"),
            Naming { mapper: Some(_), .. } => "of the mapped names".to_owned(),
        };
        let needed = format!("{missing} on keys {keys}, and on the channels redisson_lock__channel:*{place}");
        return Err(Refused::NoPermission(needed).into());
    }
    if let Some(found) = version.filter(|version| is_too_old(version)) {
        return Err(ConnectError::TooOld { found: found.to_owned() });
    }
    if is_one && entry(server, "redis_mode") == Some("cluster") {
        return Err(Refused::Cluster.into());
    }
    if let Some(run) = entry(server, "run_id") {
        engine.life.met(slot, run);
    }
    if role == Some("slave") {
        return Err(Refused::ReadOnly.into());
    }
    match policy {
        Some("noeviction") | None => {}
        Some(policy) if engine.settings.allow_eviction => {
            tracing::warn!(target: "lockson", policy, "the server may drop locks to make room");
        }
        Some(policy) => return Err(ConnectError::Evicts(policy.to_owned())),
    }
    let asked = [(version, "its version"), (role, "its role"), (policy, "its maxmemory-policy")];
    let unknown: Vec<&str> = asked.iter().filter(|(found, _)| found.is_none()).map(|(_, what)| *what).collect();
    if !unknown.is_empty() {
        tracing::warn!(target: "lockson", ?unknown, "the server does not say what a lock's safety depends on");
    }
    Ok(())
}

fn is_too_old(version: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse().ok());
    major.unwrap_or(0) < LOWEST_VERSION
}
