//! One server of a deployment: a connection by fred for scripts, once it is a primary, and one of our own, which
//! listens and answers questions.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::futures::future::{BoxFuture, FutureExt};
use ::futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{watch, Notify};
use tokio::time::{sleep, sleep_until, timeout, Instant};

use super::slots::{followers, AddressMap};
use crate::backend::fred::link;
#[cfg(feature = "lean")]
use crate::backend::fred_call::Confirming;
use crate::backend::fred_config::{dial, is_resp2, wants_certificate, Config, Dial, Times, CREDENTIALS};
use crate::backend::node::{generation, Link, Node, NodeHealth, Role};
use crate::backend::url::HostPort;
use crate::backend::{Call, Fate, Outcome, Signal, ALL_SLOTS};
use crate::base::clock::Clock;
use crate::base::fault::{ConnectError, Refused};
use crate::base::janitor::say;
use crate::connections::connection::{Connection, State, Told};
#[cfg(feature = "lean")]
use crate::connections::lean;
use crate::connections::resp::{Reply, TLS};

/// What asks for servers has no shorter limit: a connection has to be made first.
const SHORTEST_LIMIT: Duration = Duration::from_millis(500);
/// How long the others have to answer, once one has.
const GRACE: Duration = Duration::from_millis(100);

/// How long after a look at the servers the next may come: at first, and at most, as long as they go on changing.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(125);
/// They change no more when nothing was wrong for so long.
const QUIET: Duration = Duration::from_secs(1);

/// Looks at the servers whenever `wanted`, or after `calm`; while something is wrong again and again. One look at a
/// time. `look` says whether all is well; `None` ends it.
pub(super) async fn keep_looking<F: Future<Output = Option<bool>>>(
    wanted: Arc<Notify>,
    calm: Duration,
    mut look: impl FnMut() -> F,
) {
    let (mut is_well, mut pause) = (true, SHORTEST_PAUSE);
    loop {
        let began = Instant::now();
        let _ = timeout(if is_well { calm } else { pause }, wanted.notified()).await;
        let was_quiet = began.elapsed() > QUIET;
        is_well = match look().await {
            Some(is_well) => is_well,
            None => return,
        };
        pause = if was_quiet { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        // So that clients drift apart.
        sleep(pause * fastrand::u32(512..1024) / 1024).await;
    }
}

/// How the servers of a deployment are reached.
pub(crate) struct Access {
    pub(super) dial: Dial,
    config: Config,
    times: Times,
    /// Whether scripts go by lean connections.
    #[cfg(feature = "lean")]
    lean: bool,
    /// The client's own, whichever its calls are polled on.
    pub(super) runtime: Handle,
    pub(super) addresses: Option<AddressMap>,
    /// How often the servers are asked when nothing seems wrong, if not as often as is usual.
    pub(super) calm: Option<Duration>,
    /// Wakes what looks for the servers: what is known of them may be wrong.
    pub(super) look: Arc<Notify>,
    /// Tells of each server that is there again, or has other keys than before.
    pub(super) changes: watch::Sender<()>,
}

impl Access {
    pub(crate) fn new(
        config: Config,
        times: Times,
        name: &Arc<str>,
        addresses: Option<AddressMap>,
        calm: Option<Duration>,
    ) -> Result<Self, ConnectError> {
        let dial = dial(&config, times.command.max(SHORTEST_LIMIT), times.connect, name)?;
        let (look, changes, runtime) = (Arc::default(), watch::Sender::default(), Handle::current());
        Ok(Self {
            dial,
            config,
            times,
            #[cfg(feature = "lean")]
            lean: false,
            runtime,
            addresses,
            calm,
            look,
            changes,
        })
    }

    /// Scripts go by lean connections, or by fred's.
    #[cfg(feature = "lean")]
    pub(crate) fn lean(mut self, on: bool) -> Self {
        self.lean = on;
        self
    }

    /// The connection for scripts to this server.
    fn link(&self, to: &HostPort, left: watch::Receiver<()>) -> Result<Arc<dyn Link>, ConnectError> {
        let (name, look) = (self.dial.name.clone(), self.look.clone());
        #[cfg(feature = "lean")]
        if self.lean {
            let way = lean::Way {
                dial: self.dial.clone(),
                to: to.clone(),
                database: self.config.database.unwrap_or_default(),
                limit: self.times.command,
                confirming: Confirming::new(&self.config, to, self.times, &name),
            };
            let changes = self.changes.clone();
            return Ok(lean::link(way, left, look, move || {
                changes.send_replace(());
            }));
        }
        link(&self.config, to, self.times, name, left, look)
    }
}

/// One server.
pub(super) struct Member {
    pub(super) at: HostPort,
    pub(super) ears: Connection,
    seating: Arc<Mutex<Seating>>,
    /// When a redirection named it last.
    needed: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Seating {
    seat: Option<Seat>,
    /// Which generation it said it is when it was connected to last.
    generation: Option<String>,
}

/// What it has while it is a primary.
struct Seat {
    node: Arc<Node>,
    /// Dropped when it is one no more: its calls end then.
    _left: watch::Sender<()>,
}

impl Member {
    pub(super) fn start(access: &Access, at: HostPort, tell: impl Fn(Told) + Send + Sync + 'static) -> Arc<Self> {
        let _entered = access.runtime.enter();
        let seating: Arc<Mutex<Seating>> = Arc::default();
        let met = seating.clone();
        let ears = Connection::start(access.dial.clone(), at.clone(), &[], move |told| match told {
            Told::Met(info) if met.lock().is_another(&info) => tell(Told::Another),
            told => tell(told),
        });
        Arc::new(Self { at, ears, seating, needed: Mutex::default() })
    }

    /// The node that scripts go to: it is a primary from now on.
    pub(super) fn node(&self, access: &Access) -> Result<Arc<Node>, ConnectError> {
        let mut seating = self.seating.lock();
        if let Some(seat) = &seating.seat {
            return Ok(seat.node.clone());
        }
        let _entered = access.runtime.enter();
        let (sender, left) = watch::channel(());
        let inner = access.link(&self.at, left.clone())?;
        let link = Watched { inner, left, state: self.ears.watched(), look: access.look.clone() };
        let node = Node::new(self.at.to_string(), Arc::new(link), Clock::System);
        if let Some(generation) = &seating.generation {
            node.is_of(generation);
        }
        seating.seat = Some(Seat { node: node.clone(), _left: sender });
        Ok(node)
    }

    /// Its node, if it is a primary.
    pub(super) fn seated(&self) -> Option<Arc<Node>> {
        Some(self.seating.lock().seat.as_ref()?.node.clone())
    }

    /// Begins or ends subscriptions, by SUBSCRIBE or UNSUBSCRIBE.
    pub(super) async fn subscription(&self, verb: &str, channels: Vec<String>) -> Result<(), String> {
        self.ears.subscribe(vec![std::iter::once(verb.to_owned()).chain(channels).collect()]).await
    }

    /// How many replicas it has by its own account, in a cluster: those too that have failed, which CLUSTER SLOTS
    /// leaves out.
    pub(super) async fn replicas(&self) -> Result<u32, String> {
        Ok(followers(self.ears.ask(&["CLUSTER", "NODES"]).await?.text().unwrap_or_default()))
    }

    /// Counts them anew, where somebody counts on them.
    pub(super) async fn recount(&self) -> Result<(), String> {
        if let Some(node) = self.seated().filter(|node| node.replicas().is_some()) {
            let count = self.replicas().await?;
            // As long as nobody has them asked for anew.
            if node.replicas().is_some() {
                node.lists(Some(count));
            }
        }
        Ok(())
    }

    /// For people.
    pub(super) fn seen(&self, role: Role) -> NodeHealth {
        NodeHealth { address: self.at.to_string(), role, away: self.ears.away() }
    }

    /// A redirection names it.
    pub(super) fn is_needed(&self) {
        *self.needed.lock() = Some(Instant::now());
    }

    /// Whether one did within this time.
    pub(super) fn was_needed(&self, within: Duration) -> bool {
        self.needed.lock().is_some_and(|at| at.elapsed() < within)
    }

    /// It is a primary no more: nothing that it answers from here on counts.
    pub(super) fn leave(&self) {
        if let Some(seat) = self.seating.lock().seat.take() {
            seat.node.end();
        }
    }
}

impl Seating {
    /// A new connection was told this by INFO, and no script goes by it yet. Whether it is another than before: then it
    /// has another node from here on, and what it granted may be lost.
    fn is_another(&mut self, info: &Reply) -> bool {
        // Who may not ask keeps the node that it has.
        let Some(found) = info.text().and_then(generation) else { return false };
        self.generation = Some(found.clone());
        let Some(Seat { node, .. }) = self.seat.as_mut().filter(|seat| !seat.node.is_of(&found)) else { return false };
        let next = Node::new(node.address.clone(), node.link.clone(), Clock::System);
        next.is_of(&found);
        node.end();
        *node = next;
        say(|| {
            let server = &node.address;
            tracing::warn!(target: "lockson", server, "it is another run, or was a replica meanwhile")
        });
        true
    }
}

/// The way to a primary that may be left.
struct Watched {
    inner: Arc<dyn Link>,
    left: watch::Receiver<()>,
    state: Arc<Mutex<State>>,
    look: Arc<Notify>,
}

impl Watched {
    /// A call to a server that is not there would only wait.
    fn is_there(&self) -> Result<(), Fate> {
        if self.left.has_changed().is_err() {
            return Err(Fate::NotSent("the server is the primary no more".to_owned()));
        }
        let Err(why) = self.state.lock().clone() else { return Ok(()) };
        match refused(&why) {
            Some(why) => Err(Fate::Refused(why)),
            None => Err(Fate::NotSent(format!("no connection: {why}"))),
        }
    }
}

impl Link for Watched {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        if let Err(fate) = self.is_there() {
            self.look.notify_one();
            return std::future::ready(Err(fate)).boxed();
        }
        let is_confirmed = call.confirm.is_some();
        let answer = self.inner.call(call);
        if !is_confirmed {
            // It ends with its connection.
            return answer;
        }
        let mut left = self.left.clone();
        async move {
            tokio::select! {
                biased;
                outcome = answer => outcome,
                // It only ends.
                _ = left.changed() => Err(Fate::Doubtful("the server is the primary no more".to_owned())),
            }
        }
        .boxed()
    }

    fn reset(&self) {
        self.inner.reset();
    }

    fn settings(&self, names: &'static [&'static str]) -> BoxFuture<'static, BTreeMap<String, String>> {
        self.inner.settings(names)
    }
}

/// What the connection to the only server that has keys tells whoever waits.
pub(super) fn signals(told: &Told) -> Vec<Signal> {
    match told {
        Told::Push(items) => match items.as_slice() {
            [kind, channel, text] if kind.text() == Some("message") => {
                let channel = channel.text().unwrap_or_default().to_owned();
                vec![Signal::Message { channel, zero: text.text() == Some("0") }]
            }
            _ => Vec::new(),
        },
        Told::Met(_) => Vec::new(),
        Told::Another => vec![Signal::Over(vec![ALL_SLOTS])],
        Told::Up => vec![Signal::Gap, Signal::Whole],
        Told::Down(_) => vec![Signal::Gap],
    }
}

/// What servers answer that are asked at once: of all, or of those that are no slower than the first by the grace, or
/// of more than `enough`. And why the others did not.
pub(super) async fn gather<T>(
    asked: impl IntoIterator<Item = (HostPort, impl Future<Output = Result<T, String>>)>,
    enough: usize,
) -> (Vec<(HostPort, T)>, HashMap<HostPort, String>) {
    let mut asked: FuturesUnordered<_> =
        asked.into_iter().map(|(at, answer)| async move { (at, answer.await) }).collect();
    let (mut answers, mut failures) = (Vec::new(), HashMap::new());
    let mut until: Option<Instant> = None;
    loop {
        tokio::select! {
            next = asked.next() => match next {
                Some((at, Ok(answer))) => {
                    answers.push((at, answer));
                    until.get_or_insert_with(|| Instant::now() + GRACE);
                    if answers.len() > enough {
                        break;
                    }
                }
                Some((at, Err(why))) => {
                    failures.insert(at, why);
                }
                None => break,
            },
            () = async { sleep_until(until.unwrap_or_else(Instant::now)).await }, if until.is_some() => break,
        }
    }
    (answers, failures)
}

/// All of them, with why.
pub(super) fn in_words(failures: &HashMap<HostPort, String>) -> String {
    let mut words: Vec<String> = failures.iter().map(|(at, why)| format!("{at} ({why})")).collect();
    words.sort();
    words.join(", ")
}

/// Why servers did not answer, by type where one refused.
pub(super) fn unreachable(failures: &HashMap<HostPort, String>) -> ConnectError {
    if let Some(why) = failures.values().find_map(|why| refused(why)) {
        return ConnectError::Refused(why);
    }
    let is_by = |words: &str| failures.values().any(|why| why.starts_with(words));
    let error = match () {
        () if is_by(CREDENTIALS) => ConnectError::Credentials,
        () if failures.values().any(|why| wants_certificate(why)) => ConnectError::ClientCertificate,
        () if failures.values().any(|why| is_resp2(why)) => ConnectError::Resp2,
        () if is_by(TLS) => ConnectError::Tls,
        () => ConnectError::Unreachable,
    };
    error(in_words(failures))
}

/// Words of a server that refuses this user.
pub(super) fn refused(why: &str) -> Option<Refused> {
    match Fate::of_error(why) {
        Some(Fate::Refused(why @ (Refused::NoPermission(_) | Refused::NotAuthenticated(_)))) => Some(why),
        _ => None,
    }
}
