//! The server of a test, and the accidents that befall it.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use lockson::{EmbeddedServer, Reply};
use lockson_embedded::{Network, Trip};
use tokio::task::JoinHandle;

use crate::door::Door;

/// A server for one test: an [`EmbeddedServer`], to which it derefs, with accidents that take one line each, and a
/// door.
///
/// A clone is another handle of the same server. [`connect`](EmbeddedServer::connect) makes clients of it, which
/// exclude each other as processes do. Use it in one runtime only; with tokio's clock paused no lease, renewal or
/// outage takes any real time.
#[derive(Clone, Default)]
pub struct TestServer {
    server: EmbeddedServer,
    /// How many outages there were.
    outages: Arc<AtomicU64>,
}

impl TestServer {
    /// Starts a server without data.
    pub fn new() -> Self {
        Self::default()
    }

    /// The server loses who holds the lock, semaphore or latch of this name, as when somebody deletes its key. Returns
    /// whether there was anything to lose.
    ///
    /// Those who hold it find out at their next renewal, a third of a lease later at most: `guard.lost()` resolves. Who
    /// waits comes in. What stands beside it, a fair lock's queue and the last fencing token, stays.
    ///
    /// With a key prefix or a name mapper this is the name that they made.
    pub fn lose(&self, name: &str) -> bool {
        // The permits' ends, and those of read holds.
        let beside = if name.contains('{') { format!("{name}:") } else { format!("{{{name}}}:") };
        let is_of_it = |key: &str| {
            key.strip_prefix(&beside).is_some_and(|rest| rest == "timeout" || rest.contains(":rwlock_timeout:"))
        };
        let Ok(Reply::List(keys)) = self.command(&["KEYS", "*"]) else { return false };
        let keys = keys.iter().filter_map(|key| match key {
            Reply::Text(key) if key == name || is_of_it(key) => Some(key.as_str()),
            _ => None,
        });
        let del: Vec<&str> = std::iter::once("DEL").chain(keys).collect();
        matches!(self.command(&del), Ok(Reply::Int(1..)))
    }

    /// The server is unreachable from now on, for so long. It comes back by itself; who awaits what this returns learns
    /// when, and dropping that changes nothing.
    ///
    /// Keys stay, and go on expiring. An outage that begins while another is on takes its place.
    /// [`start`](lockson_embedded::Server::start) ends it early.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn outage(&self, span: Duration) -> JoinHandle<()> {
        let number = self.outages.fetch_add(1, Ordering::Relaxed) + 1;
        self.stop();
        let server = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(span).await;
            if server.outages.load(Ordering::Relaxed) == number {
                server.start();
            }
        })
    }

    /// From now on each answer takes so long, half of it on the way there, and each message half. With a zero span the
    /// way is good again. It takes the place of what [`inject`](lockson_embedded::Server::inject) began.
    ///
    /// What takes longer than a client's command timeout is done all the same, when the client no longer waits for it.
    pub fn slow(&self, span: Duration) {
        if span.is_zero() {
            self.heal();
        } else {
            self.inject(Slow([span / 2, span - span / 2]));
        }
    }

    /// Opens a TCP door on a free port of the loopback interface.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn door(&self) -> io::Result<Door> {
        Door::tcp(&self.server)
    }

    /// Opens a door that is a Unix socket. There must be no file of this name; the door removes it when it is closed.
    ///
    /// # Errors
    /// Those of the system, and one of its own for a path that is not absolute or no UTF-8: it could not be in a URL.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[cfg(unix)]
    pub fn unix_door(&self, path: impl AsRef<std::path::Path>) -> io::Result<Door> {
        Door::unix(&self.server, path.as_ref())
    }
}

impl Deref for TestServer {
    type Target = EmbeddedServer;

    fn deref(&self) -> &EmbeddedServer {
        &self.server
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

/// How long each way takes.
struct Slow([Duration; 2]);

impl Network for Slow {
    fn call(&mut self, _: u64) -> Trip {
        Trip { delays: self.0, ..Trip::GOOD }
    }

    fn message(&mut self, _: u64) -> Option<Duration> {
        let [_, back] = self.0;
        Some(back)
    }

    fn subscription(&mut self, _: u64) -> [Duration; 2] {
        self.0
    }
}
