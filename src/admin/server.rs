//! What each server says of itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use crate::backend::node::Node;
use crate::base::clock::millis;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::wire::table::script;

/// Those that a lock's safety, or the hearing of its messages, depends on and that INFO does not tell.
const SETTINGS: &[&str] = &[
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-require-full-coverage",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "save",
    "stop-writes-on-bgsave-error",
    "timeout",
];

/// A server that has keys, by [`Admin::servers`](super::Admin::servers).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// `host:port` as the client dials it; `embedded` of one inside this process.
    pub address: String,
    /// What its `INFO` says of itself, its clients, memory, persistence, statistics and replicas. Empty where this user
    /// may not ask.
    pub info: BTreeMap<String, String>,
    /// What `CONFIG GET` says of those of its settings that locks depend on. Empty where this user may not ask, and of
    /// the embedded server.
    pub settings: BTreeMap<String, String>,
    /// Of each kind of lock the commands that this user may not call, where there are such.
    pub lacks: BTreeMap<String, Vec<String>>,
    /// How long the answer took.
    pub round_trip: Duration,
    /// By how many milliseconds its clock is ahead of this machine's, up to a round trip. Below zero it is behind.
    pub clock_ahead: i64,
}

impl ServerReport {
    pub(super) async fn of(engine: &Arc<Engine>, node: &Arc<Node>) -> Result<Self, QueryError> {
        let script = script!("admin/server", []);
        let name = engine.settings.naming.key("lockson:admin");
        let (began, at) = (engine.now(), SystemTime::now());
        let answer = engine.ask_at(node, script, [name]).await?;
        let round_trip = engine.now().since(began);
        // The answer's time is of some moment between.
        let here = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + round_trip / 2;
        let settings = timeout(engine.look_limit(), node.link.settings(SETTINGS)).await.unwrap_or_default();
        let lines = answer.text(0).unwrap_or_default().lines();
        let info = lines.filter_map(|line| line.trim().split_once(':'));
        let pairs = (1..answer.items().len()).step_by(2);
        let lacks = pairs.filter_map(|at| Some((answer.text(at)?, answer.text(at + 1)?)));
        Ok(Self {
            address: node.address.clone(),
            info: info.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            settings,
            lacks: lacks
                .map(|(kind, commands)| (kind.to_owned(), commands.split(' ').map(str::to_owned).collect()))
                .collect(),
            round_trip,
            clock_ahead: answer.time.saturating_sub(millis(here)),
        })
    }
}
