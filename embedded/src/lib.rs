#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::todo, clippy::unimplemented)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod commands;
mod connection;
mod convert;
mod faults;
mod hash;
mod host;
mod hub;
mod keyspace;
mod lua;
mod numbers;
mod replica;
mod scripts;
mod sorted_set;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod touched;
mod value;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use commands::REDIS_VERSION;
pub use connection::{Call, CallError, Connection};
pub use faults::{Faults, Network, Trip};
pub use hub::{Signal, Topic};
pub use keyspace::Snapshot;
pub use state::Commit;
pub use value::Value;

use state::Shared;

/// A server inside the process that stands in for Redis. It keeps strings, hashes, lists and sorted sets in memory,
/// runs scripts over them, passes messages between its connections, and answers as Redis 7.0 does.
///
/// A clone is another handle of the same server.
///
/// # Time
/// Keys expire on tokio's clock. In a test with `tokio::time::pause` a key therefore expires when the test advances the
/// clock or sleeps, and takes no real time. Use a server in one runtime only: each paused runtime has a clock of its
/// own. The server may be made outside of a runtime.
///
/// # Faults
/// A test can have the server fail: [`stop`](Self::stop) and [`start`](Self::start) make it unreachable for a while,
/// [`lose_replies`](Self::lose_replies) cuts connections between a write and its answer,
/// [`lose_messages`](Self::lose_messages) keeps messages from subscribers, [`wipe`](Self::wipe) is a restart without
/// persistence, [`set_clock_ahead`](Self::set_clock_ahead) has its clock jump, and [`inject`](Self::inject) loses and
/// delays by chance, from a seed.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server without data.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared::new()) }
    }

    /// A new connection, which ends when it is closed or dropped. Its calls give up after `timeout`.
    ///
    /// `told` hears what comes by itself: messages, and that the connection was cut. It is called while whoever caused
    /// that waits, so it should only pass it on, as the sender of a channel does.
    pub fn connect(&self, timeout: Duration, told: impl Fn(Signal) + Send + Sync + 'static) -> Connection {
        Connection::new(Arc::clone(&self.shared), timeout, Arc::new(told))
    }

    /// Runs one command as `redis-cli` would, for tests that look at what is stored or store something themselves. It
    /// reaches the server even while that is stopped.
    ///
    /// # Errors
    /// The text of the server's error reply.
    pub fn command(&self, args: &[&str]) -> Result<Value, String> {
        let words: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        self.shared.with(|server| server.run_words(None, &words))
    }

    /// Runs a Lua script, as EVAL would. Like [`command`](Self::command) it reaches a stopped server, and it is not
    /// among the [`calls`](Self::calls).
    ///
    /// Of Lua's libraries there are the base, `table`, `string` and `math`; of Redis's only `redis`.
    ///
    /// # Errors
    /// The text of the error that the script raised or returned.
    pub fn eval(&self, text: &str, keys: &[&str], args: &[&str]) -> Result<Value, String> {
        let (keys, args) = (owned(keys), owned(args));
        let sha = sha1_hex(text);
        self.shared.with(|server| server.run_script(&sha, text.as_bytes(), &keys, &args))
    }

    /// [`eval`](Self::eval), and how many elements it touched: fields, members and items that its commands named,
    /// listed, went through or deleted, each once, and for a string, or a key as a whole, one. It tells whether a
    /// script stays bounded as its keys grow.
    ///
    /// # Errors
    /// As [`eval`](Self::eval)'s.
    pub fn eval_counted(&self, text: &str, keys: &[&str], args: &[&str]) -> Result<(Value, usize), String> {
        let (keys, args) = (owned(keys), owned(args));
        let sha = sha1_hex(text);
        let (value, touched) = self.shared.with(|server| server.run_counted(&sha, text.as_bytes(), &keys, &args));
        Ok((value?, touched))
    }

    /// How many scripts the server has run for its clients: the measure of how much they asked of it.
    pub fn calls(&self) -> u64 {
        self.shared.with(|server| server.calls())
    }

    /// Makes the server unreachable. A call under way now, or made before [`start`](Self::start), is never executed,
    /// but its client learns only that it had no answer, after its command timeout. Subscriptions are lost; keys stay,
    /// and go on expiring.
    pub fn stop(&self) {
        self.shared.with(|server| server.stop());
    }

    /// Makes a stopped server reachable again. Clients notice that they were cut off and subscribe again.
    pub fn start(&self) {
        self.shared.with(|server| server.start());
    }

    /// Has the next `count` calls of any clients executed without an answer, as when a connection is cut after the
    /// server read the call: the client learns at once that it can't know. Each time that client loses its
    /// subscriptions. A new `count` takes the place of what is left of an earlier one.
    pub fn lose_replies(&self, count: u64) {
        self.shared.with(|server| server.lose_replies(count));
    }

    /// While `lose` is set, messages reach nobody, and nobody is told. Their senders still see the number of
    /// subscribers.
    pub fn lose_messages(&self, lose: bool) {
        self.shared.with(|server| server.hub(|hub| hub.mute = lose));
    }

    /// Sets the server's clock ahead: keys whose leases would have ended by then are gone.
    pub fn set_clock_ahead(&self, by: Duration) {
        self.shared.with(|server| server.set_clock_ahead(micros(by)));
    }

    /// Sets the server's clock back: leases last longer by that.
    pub fn set_clock_back(&self, by: Duration) {
        self.shared.with(|server| server.set_clock_ahead(-micros(by)));
    }

    /// Has the server's clock count so many microseconds more in a second than others do, or fewer.
    pub fn set_clock_rate(&self, fast: i32) {
        self.shared.with(|server| server.set_clock_rate(fast));
    }

    /// While `full` is set the server is out of memory: a script whose first write would need more is refused there.
    pub fn set_full(&self, full: bool) {
        self.shared.with(|server| server.store().set_full(full));
    }

    /// Nobody may call this command from scripts any more; `None` gives all rights back.
    pub fn deny(&self, command: Option<&str>) {
        self.shared.with(|server| server.store().deny(command));
    }

    /// Restarts the server with what it had then: with a file, or as a replica that was behind and takes its place. All
    /// else is as [`wipe`](Self::wipe) has it. Keys end when they would have ended.
    pub fn restart(&self, snapshot: &Snapshot) {
        self.shared.with(|server| server.restart(snapshot));
    }

    /// Gives the server a replica that has each write so much later, for those who [`wait`](Connection::wait) for it;
    /// `None` takes it away. [`restart`](Self::restart) with a [`snapshot`](Self::snapshot) as old as that has it take
    /// the server's place.
    pub fn set_replica(&self, lag: Option<Duration>) {
        self.shared.with(|server| server.set_replica(lag));
    }

    /// While `is_silent` is set the replica says nothing of what it has.
    pub fn silence_replica(&self, is_silent: bool) {
        self.shared.with(|server| server.silence_replica(is_silent));
    }

    /// How many replicas it has.
    pub fn replicas(&self) -> u32 {
        self.shared.with(|server| server.replicas())
    }

    /// Has `watch` see each script of a client when it has run, in the order in which they run.
    pub fn watch(&self, watch: impl FnMut(&mut Commit<'_>) + Send + 'static) {
        drop(self.shared.with(|server| server.watch(Box::new(watch))));
    }

    /// Makes it as good as new but for what it has compiled, which takes the longest: for the next run of a simulation,
    /// in a runtime of its own. Its run ids are made of `number`, so that they repeat too, and each script takes a
    /// microsecond of its clock.
    pub fn renew(&self, number: u64) {
        drop(self.shared.with(|server| server.renew(number)));
    }

    /// Sets the server's clock to this time in milliseconds since 1970, ahead or back; from there it goes on.
    pub fn set_clock(&self, now_ms: i64) {
        self.shared.with(|server| server.set_clock(now_ms));
    }

    /// A copy of all keys: to compare what is stored, to go back to it, or to give it to another server.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.with(|server| server.snapshot())
    }

    /// Puts a copy in the place of all keys. Clients are not told, and the clock stays, so what has expired by it is
    /// gone.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.shared.with(|server| server.restore(snapshot));
    }

    /// Has calls and messages of all clients meet these faults, in place of those injected before, until
    /// [`heal`](Self::heal).
    pub fn inject(&self, network: impl Network + 'static) {
        self.shared.with(|server| server.hub(|hub| hub.network = Some(Box::new(network))));
    }

    /// Ends what [`inject`](Self::inject) began. Calls that are under way still take their time.
    pub fn heal(&self) {
        self.shared.with(|server| server.hub(|hub| hub.network = None));
    }

    /// Restarts the server as one without persistence: all keys are gone, all clients are cut off and subscribe again,
    /// and its run id and uptime are those of a new server. If it is stopped it stays so.
    pub fn wipe(&self) {
        self.shared.with(|server| server.restart(&Snapshot::default()));
    }

    /// The server's time in milliseconds since 1970; it starts at some fixed time in the past.
    pub fn now_ms(&self) -> i64 {
        self.shared.with(|server| server.now_ms())
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The SHA-1 of a script's text in hexadecimal, by which servers know scripts.
pub fn sha1_hex(text: impl AsRef<[u8]>) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
