//! The read/write lock (Redisson's `getReadWriteLock`): many readers, or one writer. Rule 18 of docs/PROTOCOL.md.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::millis;
use crate::base::keys::Key::{Absent, Channel, FirstHold, Lock as Key, Token, Turn, Writers};
use crate::engine::Session;
use crate::error::QueryError;
use crate::hold::entry::Line;
use crate::kinds::reentrant::REENTRANT;
use crate::locks::lock::Lock;
use crate::locks::traits::kind;
use crate::wire::table::{script, Role, Table};

/// How long readers let a waiting writer go first after each of its attempts.
const GOES_FIRST: Duration = Duration::from_secs(2);

static READ: Table = Table {
    name: "read",
    role: Role::Read,
    acquire: script!("read/acquire" after "read_write", [Key, Writers, Turn, Absent]),
    asks: |sibling, _| sibling.map(str::to_owned),
    release: script!("read/release" after "announce" after "read_write", [Key, Absent, Channel]),
    hand_over: None,
    together: None,
    admit: Some(script!("read/admit" after "read_write", [Key, Writers, Turn, Absent])),
    renew: script!("read/renew" after "read_write", [Key, FirstHold]),
    weight: 5,
    settle: script!("read/settle" after "announce" after "read_write", [Key, Absent, Channel]),
    extend: script!("read/extend" after "read_write", [Key, Absent]),
    inspect: script!("read/inspect" after "read_write", [Key, Absent]),
    force: script!("read/force" after "announce" after "read_write", [Key, Absent, Channel]),
    ..REENTRANT
};

static WRITE: Table = Table {
    name: "write",
    role: Role::Write,
    goes_first: Some(GOES_FIRST),
    acquire: script!("write/acquire" after "read_write", [Key, Writers, Absent]),
    asks: |_, waits| Some(millis(GOES_FIRST * u32::from(waits)).to_string()),
    release: script!("write/release" after "announce" after "read_write", [Key, Writers, Turn, Absent, Channel]),
    hand_over: None,
    together: None,
    renew: script!("write/renew" after "read_write", [Key]),
    weight: 5,
    settle: script!("write/settle" after "announce" after "read_write", [Key, Writers, Turn, Absent, Channel]),
    extend: script!("write/extend" after "read_write", [Key, Absent]),
    inspect: script!("write/inspect" after "read_write", [Key]),
    force: script!("write/force" after "announce" after "read_write", [Key, Writers, Turn, Absent, Channel]),
    ..REENTRANT
};

static FENCED_WRITE: Table = Table {
    name: "fenced_write",
    fenced: true,
    acquire: script!("fenced/fence" over "write/acquire" after "read_write", [Key, Writers, Absent, Token]),
    ..WRITE
};

kind! {
    /// The kind of [`ReadWriteLock::read`]: shared with other readers, not with a writer.
    ///
    /// A reader lets a lockson writer that waits go first, unless its owner holds the lock already, or a writer has
    /// just been served. Java's readers do not.
    Read is READ
}

kind! {
    /// The kind of [`ReadWriteLock::write`]: shared with nobody but its own owner's read holds.
    Write is WRITE, fenced by FENCED_WRITE
}

/// A read/write lock, of [`Locks::read_write_lock`](crate::Locks::read_write_lock): many readers, or one writer.
///
/// Both sides are reentrant. An owner that writes may read too, and when it then gives the write hold back, it goes on
/// reading without a gap (a downgrade). The other way round is
/// [`LockError::Upgrade`](crate::LockError::Upgrade) at once: two readers that both waited to write would wait for
/// ever.
///
/// A waiting writer gets in after the read holds that are open at its arrival, and after the writers that came before
/// it, however many lockson readers come: with k of those after at most k + 1 times the longest read and 150 ms, and k
/// times the longest write. Each lost message adds the wait cap.
#[derive(Debug, Clone)]
pub struct ReadWriteLock(Lock<Read>);

impl ReadWriteLock {
    pub(crate) fn new(session: Arc<Session>, name: &str, line: Result<Arc<Line>, QueryError>) -> Self {
        Self(Lock::new(session, name, line))
    }

    /// The side that readers share.
    ///
    /// ```
    /// # async fn f(prices: lockson::ReadWriteLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = prices.read().guard().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn read(&self) -> Lock<Read> {
        self.0.clone()
    }

    /// The side of one writer.
    ///
    /// ```
    /// # async fn f(prices: lockson::ReadWriteLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let (writing, reading) = (prices.write().guard().await?, prices.read().guard().await?);
    /// writing.unlock().await?; // goes on reading: no writer came in between
    /// # drop(reading);
    /// # Ok(()) }
    /// ```
    pub fn write(&self) -> Lock<Write> {
        self.0.as_kind()
    }

    /// The name, without the client's prefix.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}
