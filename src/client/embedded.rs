//! A server inside the process, for trying lockson out and for tests: that of `lockson-embedded`, with clients.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockson_embedded::{Server, Value};

use crate::backend::embedded::{connect, lossy};
use crate::base::clock::Clock;
use crate::base::config::Settings;
use crate::base::fault::ConnectError;
use crate::client::builder::Builder;
use crate::client::factory::Locks;
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
        self.client(Settings::default())
    }

    /// A client of this server with the settings of a builder; its user, password and database are not used.
    ///
    /// # Errors
    /// [`ConnectError::Setting`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect_with(&self, builder: Builder) -> Result<Locks, ConnectError> {
        builder.check()?;
        Ok(self.client(builder.settings))
    }

    fn client(&self, settings: Settings) -> Locks {
        let clock = Clock::Tokio(tokio::time::Instant::now(), self.asleep);
        let (backend, signals) = connect(&self.server, settings.command_timeout, clock);
        Locks::start(settings, backend, signals, clock)
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
