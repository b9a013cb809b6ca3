//! A server inside the process, for trying lockson out and for tests: that of `lockson-embedded`, with clients.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lockson_embedded::{Server, Value};

use crate::backend::embedded::{connect, lossy};
use crate::base::clock::Clock;
use crate::base::config::Settings;
use crate::base::fault::{ConnectError, Refused};
use crate::base::host::{Host, Ids};
use crate::client::builder::Builder;
use crate::client::factory::Locks;
use crate::client::parts::Parts;
use crate::wire::reply::Reply;

pub use lockson_embedded::Faults;

/// A server inside the process that stands in for Redis: for trying lockson out, and for the unit tests of code that
/// uses it. It keeps strings, hashes, lists and sorted sets in memory, knows the commands that lock scripts use, and
/// answers them as Redis 7.0 does.
///
/// A clone is another handle of the same server. Clients of one server contend for the same locks. What a test does to
/// the server, and may ask of it, are methods of the [`Server`] that it derefs to.
///
/// # Time
/// Keys expire on tokio's clock. In a test with `tokio::time::pause` a lease therefore ends when the test advances the
/// clock or sleeps, and takes no real time. Use a server in one runtime only: each paused runtime has a clock of its
/// own. The server may be made outside of a runtime.
///
/// # Faults
/// A test can have the server fail: [`stop`](Server::stop) and [`start`](Server::start) make it unreachable for a
/// while, [`lose_replies`](Server::lose_replies) cuts connections between a write and its answer,
/// [`lose_messages`](Server::lose_messages) keeps wake-ups from waiters, [`wipe`](Server::wipe) is a restart without
/// persistence, [`suspend`](Self::suspend) has the clients' machine sleep, and [`inject`](Server::inject) loses and
/// delays by chance, from a seed.
#[derive(Clone)]
pub struct EmbeddedServer {
    server: Server,
    /// For how many nanoseconds its clients' machine slept: eight bytes a server that stay, so that clocks are copied.
    asleep: &'static AtomicU64,
}

impl EmbeddedServer {
    /// Starts a server without data.
    ///
    /// ```
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use lockson::EmbeddedServer;
    /// let server = EmbeddedServer::new();
    /// let (one, other) = (server.connect(), server.connect()); // as two processes
    /// let guard = one.lock("orders:42").guard().await?;
    /// assert!(!other.lock("orders:42").try_lock().await?.is_acquired());
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn new() -> Self {
        Self { server: Server::new(), asleep: Box::leak(Box::default()) }
    }

    /// Runs one command as `redis-cli` would, for tests that look at what is stored or store something themselves. It
    /// reaches the server even while that is stopped.
    ///
    /// # Errors
    /// The text of the server's error reply.
    pub fn command(&self, args: &[&str]) -> Result<Reply, String> {
        self.server.command(args).map(reply)
    }

    /// Runs a Lua script, as EVAL would. Like [`command`](Self::command) it reaches a stopped server, and it is not
    /// among the [`calls`](Server::calls).
    ///
    /// Of Lua's libraries there are the base, `table`, `string` and `math`; of Redis's only `redis`.
    ///
    /// # Errors
    /// The text of the error that the script raised or returned.
    pub fn eval(&self, text: &str, keys: &[&str], args: &[&str]) -> Result<Reply, String> {
        self.server.eval(text, keys, args).map(reply)
    }

    /// [`eval`](Self::eval), and how many elements it touched: fields, members and items that its commands named,
    /// listed, went through or deleted, each once, and for a string, or a key as a whole, one. It tells whether a
    /// script stays bounded as its keys grow.
    ///
    /// # Errors
    /// As [`eval`](Self::eval)'s.
    pub fn eval_counted(&self, text: &str, keys: &[&str], args: &[&str]) -> Result<(Reply, usize), String> {
        let (value, touched) = self.server.eval_counted(text, keys, args)?;
        Ok((reply(value), touched))
    }

    /// Has all clients of this server wake from a sleep of their machine, a suspended laptop say, that took this long:
    /// the server's time went on and their clocks count it, but no timer of tokio's does.
    pub fn suspend(&self, span: Duration) {
        self.set_clock_ahead(span);
        self.asleep.fetch_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A client of this server with the default settings. Several clients of one server exclude each other as processes
    /// do.
    ///
    /// # Panics
    /// Outside a tokio runtime: the client's tasks live on it.
    pub fn connect(&self) -> Locks {
        self.client(Settings::default(), Host::from)
    }

    /// A client of this server with the settings of a builder; its user, password and database are not used.
    ///
    /// # Errors
    /// [`ConnectError::Setting`], and [`Refused::Replicas`] where a grant has to be confirmed, and the server was not
    /// given so many replicas ([`set_replica`](Server::set_replica)).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect_with(&self, builder: Builder) -> Result<Locks, ConnectError> {
        self.connect_by(builder, Host::from)
    }

    /// A client of a simulation: the same as [`connect_with`](Self::connect_with)'s, but its ids come by chance from a
    /// seed, and `spawn` begins its tasks, so that it can poll them when it likes. With tokio's clock paused in a
    /// runtime of one thread, and owners that have names, the same calls give the same run.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub fn connect_simulated(
        &self,
        builder: Builder,
        seed: u64,
        spawn: impl Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync + 'static,
    ) -> Result<Locks, ConnectError> {
        let ids = Ids::Seeded(fastrand::Rng::with_seed(seed).into());
        self.connect_by(builder, |clock| Host { id: ids.fresh(), clock, ids, spawn: Arc::new(spawn) })
    }

    fn connect_by(&self, builder: Builder, host: impl FnOnce(Clock) -> Host) -> Result<Locks, ConnectError> {
        builder.check()?;
        let (asked, listed) = (builder.settings.confirm.map(|confirm| confirm.replicas.fewest()), self.replicas());
        if let Some(asked) = asked.filter(|asked| *asked > listed) {
            return Err(Refused::Replicas { asked, listed }.into());
        }
        Ok(self.client(builder.settings, host))
    }

    /// [`Server::renew`], and its clients' machine never slept.
    pub fn renew(&self, number: u64) {
        self.asleep.store(0, Ordering::Relaxed);
        self.server.renew(number);
    }

    fn client(&self, settings: Settings, host: impl FnOnce(Clock) -> Host) -> Locks {
        let clock = Clock::Tokio(tokio::time::Instant::now(), self.asleep);
        let (backend, signals) = connect(&self.server, settings.command_timeout, clock);
        Locks::of(Parts::start(settings, backend, signals, host(clock)))
    }
}

impl Deref for EmbeddedServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Locks {
    /// A client of a new server inside this process: no server needed.
    ///
    /// ```
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = lockson::Locks::embedded();
    /// let guard = locks.lock("orders:42").guard().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn embedded() -> Self {
        EmbeddedServer::new().connect()
    }
}

impl Default for EmbeddedServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedServer").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

/// What a test sees of a value.
fn reply(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(value) => Reply::Int(value),
        Value::Bulk(text) | Value::Status(text) | Value::Error(text) => Reply::Text(lossy(&text)),
        Value::List(items) => Reply::List(items.into_iter().map(reply).collect()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use std::sync::atomic::AtomicUsize;

    use futures::future::{ready, BoxFuture, FutureExt};
    use parking_lot::Mutex;
    use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
    use tokio::time::Instant;

    use super::*;
    use crate::backend::node::{Link, Node, NodeHealth, Topology};
    use crate::backend::{Backend, Call, Fate, Outcome, Signal, ALL_SLOTS};
    use crate::base::config::Replicas;
    use crate::base::fault::Refused;
    use crate::error::{LockError, LostReason, QueryError, UnlockError};
    use crate::lease::validity::HoldState;

    const HOUR: Duration = Duration::from_secs(3600);
    const TIMEOUT: Duration = Duration::from_secs(1);

    /// A connection to one of two servers, which sends calls elsewhere if it is told to.
    struct Route {
        way: Arc<dyn Link>,
        /// What it answers to all that do not ask.
        instead: Mutex<Option<Fate>>,
        calls: AtomicUsize,
        asked: AtomicUsize,
    }

    impl Link for Route {
        fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.asked.fetch_add(usize::from(call.asking), Ordering::Relaxed);
            match self.instead.lock().clone().filter(|_| !call.asking) {
                Some(fate) => ready(Err(fate)).boxed(),
                None => self.way.call(call),
            }
        }

        fn reset(&self) {}
    }

    /// Two servers, of which one has all keys.
    struct Two {
        servers: [Server; 2],
        routes: [Arc<Route>; 2],
        nodes: [Arc<Node>; 2],
        current: AtomicUsize,
        told: UnboundedSender<Signal>,
    }

    impl Two {
        fn connect() -> (Arc<Self>, Locks) {
            let clock = Clock::Tokio(Instant::now(), Box::leak(Box::default()));
            let (told, signals) = unbounded_channel();
            let servers = [Server::new(), Server::new()];
            let routes = servers.each_ref().map(|server| {
                let way = Arc::new(server.connect(TIMEOUT, |_| {}));
                let (calls, asked) = (AtomicUsize::new(0), AtomicUsize::new(0));
                Arc::new(Route { way, instead: Mutex::default(), calls, asked })
            });
            let nodes = [0, 1].map(|at: usize| Node::new(at.to_string(), routes[at].clone(), clock));
            let two = Arc::new(Self { servers, routes, nodes, current: AtomicUsize::new(0), told });
            let settings = Settings { outage_limit: TIMEOUT * 5, ..Settings::default() };
            (two.clone(), Locks::of(Parts::start(settings, two, signals, clock.into())))
        }

        /// The second server takes the place of the first.
        fn switch(&self) {
            self.nodes[0].end();
            self.current.store(1, Ordering::Relaxed);
            self.told.send(Signal::Over(vec![ALL_SLOTS])).unwrap();
        }

        fn instead(&self, at: usize, fate: impl Into<Option<Fate>>) {
            *self.routes[at].instead.lock() = fate.into();
        }

        fn has(&self, at: usize, key: &str) -> bool {
            self.servers[at].command(&["EXISTS", key]) == Ok(Value::Int(1))
        }

        fn calls(&self) -> [usize; 2] {
            self.routes.each_ref().map(|route| route.calls.load(Ordering::Relaxed))
        }
    }

    impl Backend for Two {
        fn node(&self, _: &str) -> Result<Arc<Node>, Fate> {
            Ok(self.nodes[self.current.load(Ordering::Relaxed)].clone())
        }

        fn nodes(&self) -> Vec<Arc<Node>> {
            self.nodes.to_vec()
        }

        fn topology(&self) -> Topology {
            Topology::Cluster
        }

        fn seen(&self) -> Vec<NodeHealth> {
            Vec::new()
        }

        fn moved(&self, key: &str, address: &str, by: &Node) -> Result<Arc<Node>, Fate> {
            self.current.store(address.parse().unwrap(), Ordering::Relaxed);
            self.asked(address, by).and_then(|_| self.node(key))
        }

        fn asked(&self, address: &str, _: &Node) -> Result<Arc<Node>, Fate> {
            Ok(self.nodes[address.parse::<usize>().unwrap()].clone())
        }

        fn demoted(&self, _: &Node) -> bool {
            true
        }

        fn subscribe(&self, _: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
            ready(Ok(())).boxed()
        }

        fn unsubscribe(&self, _: Vec<String>) -> BoxFuture<'static, ()> {
            ready(()).boxed()
        }

        fn close(&self) -> BoxFuture<'static, ()> {
            ready(()).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_goes_where_its_key_is() {
        let (two, locks) = Two::connect();
        // The clock of each node is learned by itself, from a copy that is late.
        two.servers[1].set_clock_ahead(HOUR);
        locks.lock("first").guard().await.unwrap().unlock().await.unwrap();
        two.instead(0, Fate::Ask("1".to_owned()));
        let asked = locks.lock("asked").guard().await.unwrap();
        assert!(two.has(1, "asked") && !two.has(0, "asked"));
        assert_eq!(two.routes[1].asked.load(Ordering::Relaxed), 2, "late, then done");
        // Each call is for the first node first.
        let before = two.calls()[0];
        asked.unlock().await.unwrap();
        assert_eq!((two.calls()[0], two.routes[1].asked.load(Ordering::Relaxed)), (before + 1, 3));
        two.instead(0, Fate::Moved("1".to_owned()));
        let before = two.calls();
        let moved = locks.lock("moved").guard().await.unwrap();
        assert!(two.has(1, "moved") && two.calls()[0] == before[0] + 1);
        moved.unlock().await.unwrap();
        assert_eq!(two.calls()[0], before[0] + 1, "it is remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_send_on_without_end_are_not_followed() {
        let (two, locks) = Two::connect();
        two.instead(0, Fate::Moved("1".to_owned()));
        two.instead(1, Fate::Moved("0".to_owned()));
        let began = Instant::now();
        let tried = locks.lock("x").try_lock().await;
        assert!(matches!(tried, Err(LockError::Query(QueryError::Unreachable { .. }))), "{tried:?}");
        assert!(began.elapsed() < TIMEOUT * 10);
        // Nothing ran, so nothing is owed.
        two.instead(0, None);
        two.instead(1, None);
        let began = Instant::now();
        drop(locks.lock("x").guard().await.unwrap());
        assert!(began.elapsed() < TIMEOUT / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_owed_to_a_node_is_waited_for_by_its_own_clock() {
        let (two, locks) = Two::connect();
        two.servers[1].set_clock_ahead(HOUR);
        let lock = locks.lock("x");
        lock.lock().await.unwrap();
        two.servers[0].lose_replies(1);
        let began = Instant::now();
        let (unlocked, ()) = tokio::join!(lock.unlock(), async { two.current.store(1, Ordering::Relaxed) });
        assert!(matches!(unlocked, Err(UnlockError::Unconfirmed { .. })), "{unlocked:?}");
        assert!(began.elapsed() < TIMEOUT / 10);
        // The clock of the node that answered is an hour past what the first one may do.
        lock.lock().await.unwrap();
        assert!(began.elapsed() >= TIMEOUT && began.elapsed() < TIMEOUT * 2, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_node_in_place_does_not_have_is_lost_at_once() {
        let (two, locks) = Two::connect();
        let [gone, kept] = ["gone", "kept"].map(|name| locks.lock(name));
        let [gone, kept] = [gone.guard().await.unwrap(), kept.guard().await.unwrap()];
        let fixed = locks.lock("fixed").acquire().lease(Duration::from_secs(20)).guard().await.unwrap().unwrap();
        for (guard, name) in [(&kept, "kept"), (&fixed, "fixed")] {
            let owner = format!("{}:{}", locks.engine().client_id, guard.owner());
            two.servers[1].command(&["HSET", name, &owner, "1"]).unwrap();
            two.servers[1].command(&["PEXPIRE", name, "30000"]).unwrap();
        }
        two.switch();
        let began = Instant::now();
        assert_eq!(gone.lost().await.why, LostReason::Server);
        assert!(began.elapsed() < TIMEOUT / 10, "{:?}", began.elapsed());
        tokio::time::sleep(TIMEOUT / 10).await;
        for guard in [&kept, &fixed] {
            assert_eq!(guard.state(), HoldState::Held);
        }
        let left = fixed.remaining();
        assert!(left < Duration::from_secs(20) && left > Duration::from_secs(18), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_over_grants_nothing() {
        let (two, locks) = Two::connect();
        drop(locks.lock("first").guard().await.unwrap());
        let lock = locks.lock("x");
        let tried = lock.lock();
        let (locked, ()) = tokio::join!(tried, async { two.switch() });
        locked.unwrap();
        // The first may have run it. It was asked of the second too, which is who counts.
        assert!(two.has(1, "x"));
        two.instead(0, Fate::NotSent("gone".to_owned()));
        lock.unlock().await.unwrap();
        assert!(!two.has(1, "x"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_only_node_is_no_refusal_where_another_is_looked_for() {
        let (two, locks) = Two::connect();
        two.instead(0, Fate::Refused(Refused::ReadOnly));
        let lock = locks.lock("x");
        let (locked, ()) = tokio::join!(lock.lock(), async {
            tokio::time::sleep(TIMEOUT).await;
            two.switch();
        });
        locked.unwrap();
        assert!(two.has(1, "x"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_client_is_of_its_seed_and_has_no_replicas() {
        let server = EmbeddedServer::new();
        let connect = |builder, seed| server.connect_simulated(builder, seed, |work| drop(tokio::spawn(work)));
        let [one, same, other] = [7, 7, 8].map(|seed| connect(Locks::builder(), seed).unwrap());
        assert_eq!(one.client_id(), same.client_id());
        assert_ne!(one.client_id(), other.client_id());
        one.lock("x").lock().await.unwrap();
        assert!(!other.lock("x").try_lock().await.unwrap().is_acquired());
        let confirming = Locks::builder().confirm(Replicas::All, TIMEOUT);
        let refused = Refused::Replicas { asked: 1, listed: 0 };
        assert!(matches!(connect(confirming, 9), Err(ConnectError::Refused(why)) if why == refused));
    }
}
