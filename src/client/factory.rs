//! A client: the factory of locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::Stream;

use crate::backend::node::{NodeHealth, Topology};
use crate::base::keys::Keys;
use crate::client::parts::Parts;
use crate::engine::{Engine, Session};
use crate::error::QueryError;
use crate::events::Event;
use crate::kinds::fair::{Fair, NonReentrantFair};
use crate::kinds::fenced::Fenced;
use crate::kinds::plain::Plain;
use crate::kinds::read_write::ReadWriteLock;
use crate::kinds::reentrant::{NonReentrant, Reentrant};
use crate::kinds::spin::Spin;
use crate::lease::validity::{margin, HoldState, Leased};
use crate::locks::lock::Lock;
use crate::locks::once_per::OncePer;
use crate::locks::traits::Kind;
use crate::permits::latch::Latch;
use crate::permits::permit_semaphore::PermitSemaphore;
use crate::permits::semaphore::Semaphore;
use crate::waiting::backoff::Backoff;
use crate::wire::script::Wire;

/// A client of one server, or of those that belong together: makes locks. Cheap to clone; it lives as long as any
/// clone, handle or guard of it.
///
/// # Runtimes
/// Its tasks run on the tokio runtime that it was made on. It may be used on others, as long as that one runs. When
/// that one has ended, every verb and every waiter says `Closed`, and every guard is lost: what it held ends with its
/// lease. Each `#[tokio::test]` is a runtime of its own: make a client in each, or keep a multi-thread runtime in a
/// static beside the client:
///
/// ```no_run
/// # #[cfg(feature = "redis")] {
/// use std::sync::OnceLock;
/// use lockson::Locks;
/// use tokio::runtime::Runtime;
///
/// fn shared() -> &'static Locks {
///     static SHARED: OnceLock<(Runtime, Locks)> = OnceLock::new();
///     let (_, locks) = SHARED.get_or_init(|| {
///         std::thread::spawn(|| {
///             let runtime = Runtime::new().unwrap();
///             let locks = runtime.block_on(Locks::connect("redis://127.0.0.1:6379")).unwrap();
///             (runtime, locks)
///         })
///         .join()
///         .unwrap()
///     });
///     locks
/// }
/// # }
/// ```
///
/// A verb outside of any runtime is an error (`NoRuntime`). Guards may be dropped anywhere.
#[derive(Clone)]
pub struct Locks {
    session: Arc<Session>,
    parts: Arc<Parts>,
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("client_id", &self.client_id()).finish_non_exhaustive()
    }
}

/// How a client is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether all servers with keys answer, as far as the last calls tell.
    pub reachable: bool,
    /// How they belong together.
    pub topology: Topology,
    /// Every server and sentinel that the client has, or wants, a connection to, by address.
    pub nodes: Vec<NodeHealth>,
    /// Holds that are looked after.
    pub holds: usize,
    /// Of these, holds whose last renewal failed.
    pub uncertain: usize,
    /// The shortest time that is left to any of them if nothing is renewed from now on.
    pub shortest_validity: Option<Duration>,
    /// How long ago the oldest renewal was sent that a watched hold counts on.
    pub oldest_renewal: Option<Duration>,
    /// Channels that are subscribed to.
    pub subscriptions: usize,
    /// How often messages may have been missed since the client was made.
    pub gaps: u64,
}

/// What [`Locks::shutdown`] could not give back: it ends with its lease, but the permits of a
/// [`Semaphore`](crate::Semaphore) stay taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not confirmed in time was the release of {names:?}: leases end by themselves, permits of a plain semaphore don't"
)]
#[non_exhaustive]
pub struct Leftover {
    /// Their names.
    pub names: Vec<String>,
}

impl Leftover {
    fn of(names: Vec<String>) -> Result<(), Self> {
        if names.is_empty() {
            return Ok(());
        }
        Err(Self { names })
    }
}

impl Locks {
    /// The reentrant lock of this name (Redisson's `getLock`).
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = locks.lock("orders:42");
    /// let outer = lock.guard().await?;
    /// let inner = lock.guard().await?; // the same task: at once
    /// # drop((outer, inner));
    /// # Ok(()) }
    /// ```
    pub fn lock(&self, name: &str) -> Lock<Reentrant> {
        self.handle(name)
    }

    /// The non-reentrant lock of this name (Redisson's `getNonReentrantLock`): the same lock on the server, but its
    /// owner can't take it again.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = locks.mutex("orders:42");
    /// let guard = mutex.guard().await?;
    /// assert!(mutex.try_lock().await.is_err()); // the same task: `AlreadyHeld`
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn mutex(&self, name: &str) -> Lock<NonReentrant> {
        self.handle(name)
    }

    /// The reentrant lock of this name without subscriptions and messages (Redisson's `getSpinLock`): see [`Spin`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// use lockson::Backoff;
    /// let guard = locks.spin_lock("orders:42", Backoff::default()).guard().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn spin_lock(&self, name: &str, backoff: Backoff) -> Lock<Spin> {
        self.handle(name).spinning(backoff)
    }

    /// The reentrant lock of this name with a token for every hold (Redisson's `getFencedLock`): see
    /// [`FencedGuard`](crate::FencedGuard). It is `lock(name).fenced()`; other kinds have [`Lock::fenced`] too.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.fenced_lock("orders:42").guard().await?;
    /// println!("refuse what is written with less than {}", guard.token());
    /// # Ok(()) }
    /// ```
    pub fn fenced_lock(&self, name: &str) -> Lock<Fenced> {
        self.lock(name).fenced()
    }

    /// The read/write lock of this name (Redisson's `getReadWriteLock`): many readers, or one writer.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let prices = locks.read_write_lock("prices");
    /// let reading = prices.read().guard().await?; // beside other readers
    /// reading.unlock().await?;
    /// let writing = prices.write().guard().await?; // alone
    /// writing.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub fn read_write_lock(&self, name: &str) -> ReadWriteLock {
        let line = self.keys(name).map(|keys| self.parts.line(keys.of_read_write()));
        ReadWriteLock::new(self.session.clone(), name, line)
    }

    /// The lock of this name that is given in the order of arrival, over all waiters of all processes (Redisson's
    /// `getFairLock`): see [`Fair`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = locks.fair_lock("tickets");
    /// let guard = lock.guard().await?; // after all who came before, in any process
    /// println!("{} wait", lock.queue_len().await?);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn fair_lock(&self, name: &str) -> Lock<Fair> {
        self.handle(name)
    }

    /// The fair lock of this name, but its owner can't take it again (Redisson's `getNonReentrantFairLock`).
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.fair_mutex("tickets").guard().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn fair_mutex(&self, name: &str) -> Lock<NonReentrantFair> {
        self.handle(name)
    }

    /// The lock of this name that other libraries than Redisson have too: see [`Plain`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.plain_lock("shared-with-redis-py").guard().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn plain_lock(&self, name: &str) -> Lock<Plain> {
        let line = self.keys(name).map(|keys| self.parts.line(keys.of_plain()));
        Lock::new(self.session.clone(), name, line)
    }

    /// One value of the group of this name. A [`MultiLock`](crate::MultiLock) of several is what Redisson's
    /// `getMultiLock(group, values)` is: all of them by one script, and both keep each other out, value by value.
    ///
    /// Redisson tells a value by the bytes that the client's codec gives for it. For `StringCodec` these are the
    /// value's own in UTF-8; for any other codec the caller has to give what that codec writes, byte for byte.
    ///
    /// ```
    /// use lockson::{Locks, MultiLock};
    ///
    /// async fn move_stock(locks: &Locks) -> Result<(), Box<dyn std::error::Error>> {
    ///     // Java, with StringCodec: redisson.getMultiLock("shelves", List.of("a7", "b3"))
    ///     let shelves = MultiLock::new(["a7", "b3"].map(|shelf| locks.group_lock("shelves", shelf)));
    ///     let guard = shelves.guard().await?;
    ///     // ..
    ///     guard.unlock().await?;
    ///     Ok(())
    /// }
    /// # #[cfg(feature = "embedded")]
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async { move_stock(&Locks::embedded()).await.unwrap() });
    /// ```
    ///
    /// Each value is a lock as [`lock`](Self::lock)'s is, of its own owner, count and lease. A group is one key, so
    /// give it a name that no other lock has: the two would keep each other's key alive, and a release of the other one
    /// may end what is held of the group. Its values have one channel: a release wakes those who wait for any of them,
    /// so a group is no place for thousands of contended values. Errors, events and logs name the group; and
    /// [`Admin`](crate::Admin) takes a group for something foreign. What a dead holder had stays in the group until
    /// its value is taken again, or nobody holds any: values should be names that come again, not ids. Java
    /// writes the end of a lease by the clock of its client, lockson by the server's: where a Java client's clock is
    /// ahead of the server's, its view of what is over is early by as much.
    #[cfg(feature = "map-entries")]
    pub fn group_lock(&self, group: &str, value: impl AsRef<[u8]>) -> Lock<crate::kinds::grouped::Grouped> {
        let line = self.keys(group).map(|keys| self.parts.line(keys.of_value(value.as_ref())));
        Lock::new(self.session.clone(), group, line)
    }

    /// Work on a schedule: of all processes that run it at one time one does, and nobody else begins it within
    /// `at_least`; `at_most` is for how long a process that dies keeps the others out: see [`OncePer`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # async fn clean_up() {}
    /// let hourly = locks.once_per("clean-up", Duration::from_secs(10), Duration::from_secs(600));
    /// let done = hourly.run(clean_up()).await?.is_some(); // `false`: another process does it, or did
    /// # Ok(()) }
    /// ```
    pub fn once_per(&self, name: &str, at_least: Duration, at_most: Duration) -> OncePer {
        OncePer::new(self.plain_lock(name).into(), at_least, at_most)
    }

    /// The semaphore of this name (Redisson's `getSemaphore`): permits that are counted. Those of a killed process are
    /// lost: see [`Semaphore`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let downloads = locks.semaphore("downloads");
    /// downloads.try_set_permits(10).await?; // `false` when somebody has set it before
    /// let permit = downloads.guard(1).await?;
    /// permit.release().await?; // or drop it
    /// # Ok(()) }
    /// ```
    pub fn semaphore(&self, name: &str) -> Semaphore {
        let pool = self.keys(name).map(|keys| self.parts.semaphore(keys));
        Semaphore::new(self.session.clone(), name, pool)
    }

    /// The expirable semaphore of this name (Redisson's `getPermitExpirableSemaphore`): permits with ids and leases,
    /// which come back when their process dies: see [`PermitSemaphore`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let calls = locks.permit_semaphore("partner:calls");
    /// calls.try_set_permits(10).await?;
    /// let permit = calls.guard(1).await?; // renewed as long as this process lives
    /// permit.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn permit_semaphore(&self, name: &str) -> PermitSemaphore {
        let pool = self.keys(name).map(|keys| self.parts.permit_semaphore(keys));
        PermitSemaphore::new(self.session.clone(), name, pool)
    }

    /// The latch of this name (Redisson's `getCountDownLatch`): see [`Latch`].
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let ready = locks.latch("three-are-ready");
    /// ready.try_set_count(3).await?;
    /// ready.count_down().await?; // each of the three
    /// if ready.wait().await? == lockson::WaitOutcome::Opened {
    ///     // all three are; another outcome is that the latch was deleted
    /// }
    /// # Ok(()) }
    /// ```
    pub fn latch(&self, name: &str) -> Latch {
        let latch = self.keys(name).map(|keys| self.parts.latch(keys));
        Latch::new(self.session.clone(), name, latch)
    }

    fn handle<K: Kind>(&self, name: &str) -> Lock<K> {
        let line = self.keys(name).map(|keys| self.parts.line(keys));
        Lock::new(self.session.clone(), name, line)
    }

    pub(crate) fn keys(&self, name: &str) -> Result<Keys, QueryError> {
        Ok(Keys::new(&self.engine().settings.naming, name)?)
    }

    /// The id of this client, as the server has it before the owner: a fresh uuid, behind the label if there is one.
    pub fn client_id(&self) -> &str {
        &self.engine().client_id
    }

    /// How the client is doing. Asks nobody.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// let health = locks.health();
    /// if !health.reachable || health.uncertain > 0 {
    ///     println!("{health:?}");
    /// }
    /// for node in health.nodes.iter().filter(|node| node.away.is_some()) {
    ///     println!("{node}"); // 10.0.0.7:6379 primary away for 2.1s
    /// }
    /// # Ok(()) }
    /// ```
    pub fn health(&self) -> Health {
        let engine = self.engine();
        let now = engine.now();
        let holds = engine.watchdog.holds();
        let left = |hold: &Arc<Leased>| hold.valid_until().since(now);
        let renewed_ago =
            |hold: &Arc<Leased>| hold.renewable(now).map(|lease| (lease - margin(lease)).saturating_sub(left(hold)));
        Health {
            reachable: !engine.is_dead() && engine.wire.is_reachable(),
            topology: engine.wire.backend.topology(),
            nodes: nodes(&engine.wire),
            holds: holds.len(),
            uncertain: holds.iter().filter(|hold| hold.state(now) == HoldState::Uncertain).count(),
            shortest_validity: holds.iter().map(left).min(),
            oldest_renewal: holds.iter().filter_map(renewed_ago).max(),
            subscriptions: engine.channels.len(),
            gaps: engine.channels.gaps(),
        }
    }

    /// What happens to this client from here on, for alarms of one's own: lost holds, gaps, servers that were replaced,
    /// holds ended by force, the end. But for that and [`Event::Missed`](crate::Event::Missed) each is a line of
    /// `tracing` too.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) {
    /// use futures::StreamExt;
    ///
    /// let mut events = locks.events();
    /// tokio::spawn(async move {
    ///     while let Some(event) = events.next().await {
    ///         if let lockson::Event::Lost { name, why, .. } = event {
    ///             eprintln!("page somebody: {name} was lost, {why}");
    ///         }
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// The stream keeps nothing open and ends with the client. It holds 256 events for who reads slowly: then the
    /// oldest are left out, and [`Event::Missed`] says how many. The work of locks never waits for a listener.
    ///
    /// # Cancel safety
    /// An event that `next` did not return is returned by the following.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + Unpin + 'static {
        self.engine().herald.listen()
    }

    /// Ends the client: refuses new calls, ends every wait with `Closed`, gives every hold back, and closes its
    /// connections. For programs that exit.
    ///
    /// ```
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// if let Err(leftover) = locks.shutdown(Duration::from_secs(5)).await {
    ///     println!("{leftover}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Leftover`] names the locks whose release was not confirmed within `limit`, those that a call which was given
    /// up may take yet, and those where a waiter may still have a place: in a fair lock's queue, or as the writer whom
    /// readers let go first. Outside of a tokio runtime nothing can be waited for: then it names all that is held,
    /// and the rest is done in the background.
    ///
    /// One that is called again waits for the first, within a limit of its own, and says the same; where that limit
    /// comes first, it names all that was held.
    ///
    /// # Cancel safety
    /// Once polled, it goes on in the background: as long as there is a handle of this client, and for a command
    /// timeout more.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), Leftover> {
        Leftover::of(self.parts.shutdown(limit).await)
    }

    /// The same, not waited for: names all that is held.
    pub(crate) fn begin_shutdown(&self, limit: Duration) -> Result<(), Leftover> {
        Leftover::of(self.parts.end_in_background(limit))
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.session.engine
    }

    pub(crate) fn of(parts: Arc<Parts>) -> Self {
        Self { session: Arc::new(Session { engine: parts.engine.clone() }), parts }
    }
}

/// All servers, as their connections and the calls to them tell; by address.
pub(crate) fn nodes(wire: &Wire) -> Vec<NodeHealth> {
    let mut seen = wire.backend.seen();
    for node in wire.backend.nodes().iter().filter(|node| node.is_silent(wire.slow())) {
        let silent = node.silent_since().map(|since| wire.clock.now().since(since));
        let its = seen.iter_mut().filter(|seen| seen.address == node.address);
        its.for_each(|seen| seen.away = seen.away.max(silent));
    }
    seen.sort_by(|one, other| one.address.cmp(&other.address));
    seen
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    /// What the client has of names, after each was used once.
    #[tokio::test(start_paused = true)]
    async fn names_that_were_used_once_leave_nothing() {
        let locks = crate::EmbeddedServer::new().connect();
        let (parts, secs) = (locks.parts.clone(), Duration::from_secs);
        let known = || [parts.lines.len(), parts.semaphores.len(), parts.permit_semaphores.len(), parts.latches.len()];
        let kept = locks.lock("kept");
        for number in 0..300 {
            let name = format!("name:{number}");
            drop(locks.lock(&name).guard().await.unwrap());
            assert!(locks.plain_lock(&format!("plain:{name}")).acquire().lease(secs(1)).await.unwrap().is_acquired());
            assert!(locks.fair_lock(&format!("fair:{name}")).acquire().lease(secs(1)).await.unwrap().is_acquired());
            assert!(!locks.semaphore(&format!("s:{name}")).try_acquire(1).await.unwrap().is_acquired());
            assert_eq!(locks.permit_semaphore(&format!("p:{name}")).available_permits().await, Ok(0));
            assert_eq!(locks.latch(&format!("l:{name}")).count().await, Ok(0));
            // Of one lock that is kept, as many owners.
            let owned = kept.owned_by(&crate::Owner::unique());
            assert!(owned.acquire().wait(secs(9)).lease(Duration::from_millis(100)).await.unwrap().is_acquired());
        }
        tokio::time::sleep(secs(10)).await;
        let [lines, others @ ..] = known();
        assert_eq!(others, [0; 3]);
        // The last that were lost are kept, to tell their owners.
        assert!(lines <= 257, "{lines}");
        assert!(kept.line().is_ok_and(|line| line.entries.len() <= 256));
        assert!(matches!(locks.fair_lock("fair:name:299").try_lock().await, Err(crate::LockError::Lost { .. })));
        assert_eq!(locks.health().holds, 0);
        for number in 0..300 {
            assert!(locks.mutex(&format!("last:{number}")).acquire().lease(secs(1)).await.unwrap().is_acquired());
            tokio::time::sleep(secs(2)).await;
        }
        assert!(kept.line().is_ok_and(|line| line.entries.len() == 0));
    }
}
