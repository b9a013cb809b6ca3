//! One server as a client sees it: the way to it, its clock, and since when it is silent or away. Rules 24 and 25 of
//! docs/PROTOCOL.md.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::futures::future::{ready, BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::{Call, Fate, Outcome};
use crate::base::clock::{Clock, Moment, ServerClock, ServerTime, TICK};
use crate::base::janitor::say;

/// What one server did not answer is tried again by so many at once.
const RETRIES: usize = 16;

/// The connection to one server. Calls that are polled in order reach the server in that order, as long as it lives.
pub(crate) trait Link: Send + Sync + 'static {
    /// Sends one copy, once, and answers within the command timeout. Nothing is sent before the first poll. Dropping
    /// the future does not take the copy back. Where the call is `asking`, ASKING goes before it in the same write.
    /// Where what it grants is to be confirmed, WAIT goes behind it, by a connection that has nothing else to do: the
    /// answer comes by so much later, and ends with how many replicas have what it wrote, and how many are connected.
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome>;

    /// Drops the connection and makes a new one: an answer did not belong to its question.
    fn reset(&self);

    /// For an operator: the server's settings of these names, as far as this user may ask and there are any.
    fn settings(&self, _names: &'static [&'static str]) -> BoxFuture<'static, BTreeMap<String, String>> {
        ready(BTreeMap::new()).boxed()
    }
}

/// A server in one of its generations: one run of its process, with one history of writes. Restarted, demoted or
/// promoted, it is another node, with a clock that is not known yet.
pub(crate) struct Node {
    /// `host:port`, for messages.
    pub(crate) address: String,
    pub(crate) link: Arc<dyn Link>,
    clock: Clock,
    server: ServerClock,
    /// Nanoseconds of the first copy that is without any answer since; 0 when the server answers.
    silent_since: AtomicU64,
    /// Nanoseconds of the last answer.
    heard_at: AtomicU64,
    /// Which generation this is, once that is known.
    generation: OnceLock<String>,
    over: AtomicBool,
    /// When it may grant what nobody holds, for a client that waits after failovers; once that is known.
    grants_from: OnceLock<Moment>,
    /// How many replicas the topology lists, one more than that; 0 while it is not known.
    replicas: AtomicU32,
    /// Who tries again what it did not answer.
    retries: Arc<Semaphore>,
}

/// What INFO says of this.
pub(crate) fn entry<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// How many replicas are connected to a primary, and in step, by its INFO.
pub(crate) fn online(info: &str) -> u32 {
    let is_replica = |line: &&str| line.starts_with("slave") && line.contains(",state=online,");
    u32::try_from(info.lines().filter(is_replica).count()).unwrap_or(u32::MAX)
}

/// How many replicas are connected to a primary, by its INFO.
pub(crate) fn connected(info: &str) -> u32 {
    entry(info, "connected_slaves").and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// Wakes what looks for servers, where this answer says that another one may have the keys.
pub(crate) fn look_if_failed(look: &Notify, outcome: Outcome) -> Outcome {
    if let Err(Fate::Doubtful(_) | Fate::NotSent(_) | Fate::Moved(_)) = &outcome {
        look.notify_one();
    }
    outcome
}

/// What tells a generation of a server from others: its run, and its history of writes. `None`: this INFO does not say.
pub(crate) fn generation(info: &str) -> Option<String> {
    Some(format!("{} {}", entry(info, "run_id")?, entry(info, "master_replid")?))
}

impl Node {
    pub(crate) fn new(address: impl Into<String>, link: Arc<dyn Link>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            address: address.into(),
            link,
            clock,
            server: ServerClock::default(),
            silent_since: AtomicU64::new(0),
            heard_at: AtomicU64::new(0),
            generation: OnceLock::new(),
            over: AtomicBool::new(false),
            grants_from: OnceLock::new(),
            replicas: AtomicU32::new(0),
            retries: Arc::new(Semaphore::new(RETRIES)),
        })
    }

    /// Whether this is its generation. The first that is told is.
    pub(crate) fn is_of(&self, generation: &str) -> bool {
        self.generation.get_or_init(|| generation.to_owned()) == generation
    }

    pub(crate) fn grants_from(&self) -> Option<Moment> {
        self.grants_from.get().copied()
    }

    /// The first that is told counts.
    pub(crate) fn grant_from(&self, moment: Moment) -> Moment {
        *self.grants_from.get_or_init(|| moment)
    }

    /// Its generation has ended: what it answers from here on grants nothing. Whoever says so has put another node in
    /// its place, and tells by [`Signal::Over`](super::Signal::Over) which keys it had.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// For who tries again what was not answered here: so many at once do.
    pub(crate) async fn turn_to_retry(&self) -> Option<OwnedSemaphorePermit> {
        self.retries.clone().acquire_owned().await.ok()
    }

    /// How many replicas it has, connected or not, if that is known.
    pub(crate) fn replicas(&self) -> Option<u32> {
        self.replicas.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The topology lists so many of its replicas. `None`: it is to be asked again.
    pub(crate) fn lists(&self, replicas: Option<u32>) {
        self.replicas.store(replicas.map_or(0, |count| count.saturating_add(1)), Ordering::Relaxed);
    }

    /// Its clock is at least here at this moment. Until it answered once that is far in its past.
    pub(crate) fn time_at(&self, moment: Moment) -> ServerTime {
        self.server.at(moment)
    }

    /// Whether its clock is past this.
    pub(crate) fn is_past(&self, time: ServerTime) -> bool {
        self.time_at(self.clock.now()) > time
    }

    /// When its clock will be past this.
    pub(crate) fn passes(&self, time: ServerTime) -> Moment {
        let now = self.clock.now();
        let left = u64::try_from(time.saturating_sub(self.time_at(now))).unwrap_or_default();
        now.after(Duration::from_millis(left.saturating_add(1)))
    }

    /// Waits until its clock is past this.
    pub(crate) async fn pass(&self, time: ServerTime) {
        while !self.is_past(time) {
            // What is known of its clock may change meanwhile.
            tokio::time::sleep(self.passes(time).since(self.clock.now()).min(TICK)).await;
        }
    }

    /// A copy is sent: from here on it is silent if it was not before.
    pub(crate) fn asked(&self, sent: Moment) {
        // Moments are never 0 once a client is connected, but the embedded clock starts there.
        let _ = self.silent_since.compare_exchange(0, sent.nanos().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It said something.
    pub(crate) fn spoke(&self) {
        self.silent_since.store(0, Ordering::Relaxed);
    }

    /// A script told its time in an answer that came at this moment.
    pub(crate) fn answered(&self, time: ServerTime, now: Moment) {
        self.server.learn(time, now);
        self.heard_at.store(now.nanos(), Ordering::Relaxed);
        self.spoke();
    }

    /// Since when nothing has been answered, if something is waiting for an answer.
    pub(crate) fn silent_since(&self) -> Option<Moment> {
        Some(self.silent_since.load(Ordering::Relaxed)).filter(|&nanos| nanos != 0).map(Moment::from_nanos)
    }

    /// Whether it has been silent for this long.
    pub(crate) fn is_silent(&self, span: Duration) -> bool {
        self.silent_since().is_some_and(|since| self.clock.now().since(since) >= span)
    }

    /// When it answered last.
    pub(crate) fn heard(&self) -> Moment {
        Moment::from_nanos(self.heard_at.load(Ordering::Relaxed))
    }

    /// Whether it answered anything after `moment`.
    pub(crate) fn heard_since(&self, moment: Moment) -> bool {
        self.heard_at.load(Ordering::Relaxed) > moment.nanos()
    }
}

/// The server of a backend that has one, as it is now.
pub(crate) struct Only(Mutex<Arc<Node>>);

impl Only {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self(Mutex::new(node))
    }

    pub(crate) fn node(&self) -> Arc<Node> {
        self.0.lock().clone()
    }

    /// It says that it is of this generation. Whether that is another one: then another node has all keys from now on.
    pub(crate) fn becomes(&self, generation: &str) -> bool {
        let mut node = self.0.lock();
        if node.is_of(generation) {
            return false;
        }
        let next = Node::new(node.address.clone(), node.link.clone(), Clock::System);
        next.is_of(generation);
        node.end();
        *node = next;
        say(|| tracing::warn!(target: "lockson", server = node.address, "another run: all holds are asked for"));
        true
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// How the servers of a client belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Topology {
    /// One inside this process.
    Embedded,
    /// One.
    Single,
    /// The primary that sentinels name.
    Sentinel,
    /// The primaries of a cluster.
    Cluster,
}

/// What a server is to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// It has keys, and calls are sent to it.
    Primary,
    /// None of the primaries: it is only asked who they are.
    Other,
    /// A sentinel.
    Sentinel,
}

/// One server, as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// `host:port` as the client dials it; `embedded` of one inside this process.
    pub address: String,
    /// What it is to the client.
    pub role: Role,
    /// How long it has not been connected, or has not answered what it was asked. `None`: it is there.
    pub away: Option<Duration>,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Single => "single",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        })
    }
}

impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Primary => "primary",
            Role::Other => "other",
            Role::Sentinel => "sentinel",
        };
        write!(f, "{} {role}", self.address)?;
        self.away.map_or(Ok(()), |away| write!(f, " away for {away:?}"))
    }
}

/// Since when a connection is away.
#[derive(Debug, Default)]
pub(crate) struct Away(Mutex<Option<(Instant, bool)>>);

impl Away {
    /// Since now, unless it is; and whether people are told, so that they are told of its end.
    pub(crate) fn begin(&self, is_told: bool) {
        self.0.lock().get_or_insert_with(|| (Instant::now(), is_told));
    }

    /// For how long it was, if people were told.
    pub(crate) fn end(&self) -> Option<Duration> {
        self.0.lock().take().filter(|(_, is_told)| *is_told).map(|(since, _)| since.elapsed())
    }

    /// For how long it has been, so far.
    pub(crate) fn so_far(&self) -> Option<Duration> {
        self.0.lock().map(|(since, _)| since.elapsed())
    }
}
