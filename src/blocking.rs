//! The same locks for threads without tokio: each verb blocks its thread until it is done.
//!
//! ```no_run
//! # #[cfg(feature = "redis")] {
//! use std::time::Duration;
//! use lockson::{blocking, Request};
//!
//! let locks = blocking::Locks::connect("redis://127.0.0.1:6379")?;
//! let lock = locks.lock("orders:42");
//! let guard = lock.guard()?; // waits; renewed by the client's own thread
//! assert!(guard.is_valid());
//! guard.unlock()?;
//! if let Some(guard) = lock.guard_with(Request::default().wait(Duration::from_secs(5)))? {
//!     drop(guard); // given back in the background
//! }
//! locks.shutdown(Duration::from_secs(5))?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client has one thread of its own, on which it listens, renews and cleans up: holds are renewed while the thread
//! that has them computes. The owner of a hold is the thread that calls, as in Redisson, or the one given by
//! [`AnyLock::owned_by`]; no verb can be cancelled, so give those that wait a limit.
//!
//! Work is not stopped when its hold is lost: ask [`is_valid`](crate::Guard::is_valid) before what must not happen
//! twice, or take a fencing token by [`Locks::run`].
//!
//! In a tokio runtime every verb is an error, [`QueryError::InRuntime`], also in `spawn_blocking`: a thread that blocks
//! there may be the one that others wait for. There the verbs that are awaited are to be taken.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::base::fault::ConnectError;
use crate::base::owner::Owner;
use crate::client::factory::{Leftover, Locks as Client};
use crate::error::{HoldError, LockError, QueryError, UnlockError};
use crate::locks::any::RLock;
use crate::locks::guard::Guard as Held;
use crate::waiting::request::Request;
use crate::waiting::wait::AcquireOutcome;

/// The client's thread, which ends when this is dropped: all that is held is given back before.
struct Background {
    handle: Handle,
    _open: oneshot::Sender<()>,
}

impl Background {
    fn run<F: Future>(&self, future: F) -> Result<F::Output, QueryError> {
        match Handle::try_current() {
            Ok(_) => Err(QueryError::InRuntime),
            Err(_) => Ok(self.handle.block_on(future)),
        }
    }
}

/// A client with a thread of its own: see the [module](self). Cheap to clone. When the last clone, handle and guard of
/// it goes, all that is held is given back; a program that exits calls [`shutdown`](Self::shutdown), which waits for
/// that.
#[derive(Clone)]
pub struct Locks {
    client: Client,
    background: Arc<Background>,
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("blocking::Locks").field(&self.client).finish()
    }
}

impl Locks {
    /// Connects with the default settings. See [`Builder::connect`](crate::Builder::connect) for the URLs.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[cfg(feature = "redis")]
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        let url = url.to_owned();
        Self::new(|| async move { Client::connect(&url).await })
    }

    /// A client that is made as `connect` says, which runs on its thread: with settings, or of an embedded server.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// # use std::time::Duration;
    /// use lockson::{blocking, EmbeddedServer, Locks};
    /// let server = EmbeddedServer::new();
    /// let settings = Locks::builder().command_timeout(Duration::from_millis(500));
    /// let locks = blocking::Locks::new(move || async move { server.connect_with(settings) })?;
    /// assert!(locks.lock("x").try_lock()?.is_acquired());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As `connect` says; [`ConnectError::InRuntime`]; [`ConnectError::Thread`] when there is no thread for it, or
    /// `connect` panicked.
    pub fn new<F>(connect: impl FnOnce() -> F + Send + 'static) -> Result<Self, ConnectError>
    where
        F: Future<Output = Result<Client, ConnectError>>,
    {
        if Handle::try_current().is_ok() {
            return Err(ConnectError::InRuntime);
        }
        let no_thread = |error: std::io::Error| ConnectError::Thread(error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (handle, (open, closed), (told, made)) = (runtime.handle().clone(), oneshot::channel(), sync_channel(1));
        let work = move || {
            runtime.block_on(async {
                let client = connect().await;
                // It fails only if nobody waits for it.
                let _ = told.send(client.clone());
                if let Ok(client) = client {
                    // Nobody sends: it ends with what is held open.
                    let _ = closed.await;
                    let limit = client.engine().settings.command_timeout;
                    // What is left ends with its lease, and is in the log.
                    let _ = client.shutdown(limit).await;
                    // Of one that was shut down before, clean-ups may go on.
                    let _ = tokio::time::timeout(limit, client.engine().ended()).await;
                }
            });
        };
        thread::Builder::new().name("lockson".to_owned()).spawn(work).map_err(no_thread)?;
        let ended = |_| ConnectError::Thread("it ended before the client was made".to_owned());
        let client = made.recv().map_err(ended)??;
        Ok(Self { client, background: Arc::new(Background { handle, _open: open }) })
    }

    /// The reentrant lock of this name: [`Locks::lock`](Client::lock).
    pub fn lock(&self, name: &str) -> AnyLock {
        self.of(self.client.lock(name))
    }

    /// A lock of any kind that [`client`](Self::client) makes, or of several:
    ///
    /// ```
    /// # fn f(locks: lockson::blocking::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let tickets = locks.of(locks.client().fair_lock("tickets"));
    /// tickets.lock()?;
    /// tickets.unlock()?;
    /// # Ok(()) }
    /// ```
    pub fn of(&self, lock: impl Into<Arc<dyn RLock>>) -> AnyLock {
        AnyLock { lock: lock.into(), background: self.background.clone() }
    }

    /// The client whose verbs are awaited.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Blocks until a future is done: for all that has no method here, as semaphores, latches, questions and tokens.
    ///
    /// ```
    /// # fn f(locks: lockson::blocking::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.run(locks.client().fenced_lock("ledger").guard())??;
    /// println!("token {}", guard.token());
    /// locks.run(guard.unlock())??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`QueryError::InRuntime`].
    ///
    /// # Panics
    /// As the future does.
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, QueryError> {
        self.background.run(future)
    }

    /// Ends the client: see [`Locks::shutdown`](Client::shutdown).
    ///
    /// # Errors
    /// [`Leftover`]: in a tokio runtime it names all that is held, which is given back in the background.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Leftover> {
        self.run(self.client.shutdown(limit)).unwrap_or_else(|_| self.client.begin_shutdown(limit))
    }
}

/// A lock of any kind whose verbs block. Their errors are those of the verbs of [`Lock`](crate::Lock), and
/// [`QueryError::InRuntime`].
#[derive(Clone)]
pub struct AnyLock {
    lock: Arc<dyn RLock>,
    background: Arc<Background>,
}

impl fmt::Debug for AnyLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("blocking::AnyLock").field(&self.lock).finish()
    }
}

#[allow(clippy::missing_errors_doc)] // They stand above.
impl AnyLock {
    /// The name, without the client's prefix.
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// See [`Lock::owned_by`](crate::Lock::owned_by).
    pub fn owned_by(&self, owner: &Owner) -> Self {
        Self { lock: self.lock.owned_by(owner), background: self.background.clone() }
    }

    /// See [`Lock::lock`](crate::Lock::lock).
    pub fn lock(&self) -> Result<(), LockError> {
        self.background.run(self.lock.lock())?
    }

    /// See [`Lock::try_lock`](crate::Lock::try_lock).
    pub fn try_lock(&self) -> Result<AcquireOutcome, LockError> {
        self.background.run(self.lock.try_lock())?
    }

    /// See [`Lock::acquire`](crate::Lock::acquire).
    pub fn acquire(&self, request: Request) -> Result<AcquireOutcome, LockError> {
        self.background.run(self.lock.acquire_with(request))?
    }

    /// See [`Lock::guard`](crate::Lock::guard).
    pub fn guard(&self) -> Result<Guard, LockError> {
        self.background.run(self.lock.guard())?.map(|guard| self.hold(guard))
    }

    /// See [`Acquire::guard`](crate::Acquire::guard).
    pub fn guard_with(&self, request: Request) -> Result<Option<Guard>, LockError> {
        Ok(self.background.run(self.lock.guard_with(request))??.map(|guard| self.hold(guard)))
    }

    /// See [`Lock::unlock`](crate::Lock::unlock).
    pub fn unlock(&self) -> Result<(), UnlockError> {
        self.background.run(self.lock.unlock())?
    }

    /// See [`Lock::unlock_within`](crate::Lock::unlock_within).
    pub fn unlock_within(&self, limit: Duration) -> Result<(), UnlockError> {
        self.background.run(self.lock.unlock_within(limit))?
    }

    /// See [`Lock::is_held`](crate::Lock::is_held).
    pub fn is_held(&self) -> Result<bool, QueryError> {
        self.background.run(self.lock.is_held())?
    }

    fn hold(&self, guard: Held) -> Guard {
        Guard { guard, background: self.background.clone() }
    }
}

/// A lock that is held until this is dropped, which never blocks. What is asked without waiting is
/// [`Guard`](crate::Guard)'s; errors are those of its verbs, and [`QueryError::InRuntime`].
#[must_use = "the lock is released when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    // Dropped first: given back while there is a thread for that.
    guard: Held,
    background: Arc<Background>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.guard
    }
}

#[allow(clippy::missing_errors_doc)] // They stand above.
impl Guard {
    /// See [`Guard::verify`](Held::verify).
    pub fn verify(&self) -> Result<(), HoldError> {
        self.background.run(self.guard.verify())?
    }

    /// See [`Guard::set_lease`](Held::set_lease).
    pub fn set_lease(&self, lease: Duration) -> Result<(), HoldError> {
        self.background.run(self.guard.set_lease(lease))?
    }

    /// See [`Guard::unlock`](Held::unlock). In a tokio runtime it is given back in the background.
    pub fn unlock(self) -> Result<(), UnlockError> {
        self.background.run(self.guard.unlock())?
    }

    /// See [`Guard::unlock_within`](Held::unlock_within). In a tokio runtime it is given back in the background.
    pub fn unlock_within(self, limit: Duration) -> Result<(), UnlockError> {
        self.background.run(self.guard.unlock_within(limit))?
    }
}
