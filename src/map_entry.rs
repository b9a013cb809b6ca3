//! The names that Redisson gives to the locks and permits of an entry of a map, a set or a multimap.

use crate::base::keys::hashed;

/// An entry of a Redisson map (`RMap`, `RSet`, `RMultimap`, ..): the names of what `map.getLock(key)` and its like give
/// in Java, to be asked of [`Locks`](crate::Locks). Rust and Java then keep each other from one entry of the map.
///
/// Redisson makes the name of the bytes that the map's codec gives for the key. For `StringCodec` these are the key's
/// own in UTF-8; for any other codec the caller has to give what that codec writes, byte for byte.
///
/// ```
/// use lockson::{Locks, MapEntry};
///
/// async fn deliver(locks: &Locks) -> Result<(), Box<dyn std::error::Error>> {
///     // Java: redisson.getMap("orders", StringCodec.INSTANCE).getLock("42")
///     let order = locks.lock(&MapEntry::new("orders", "42").lock());
///     let guard = order.guard().await?;
///     // ..
///     guard.unlock().await?;
///     Ok(())
/// }
/// # #[cfg(feature = "embedded")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async { deliver(&Locks::embedded()).await.unwrap() });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapEntry {
    stem: String,
}

impl MapEntry {
    /// The entry `key`, as its codec encodes it, of the map of that name. Nothing is looked up: there need be no such
    /// map, and no such entry in it, nor in Java. Where Java has a `NameMapper`, `map` is the name that it gives to the
    /// map: Redisson maps the names of these locks twice, so [`key_prefix`](crate::Builder::key_prefix) `"app:"` goes
    /// with the map `"app:orders"`.
    pub fn new(map: &str, key: impl AsRef<[u8]>) -> Self {
        let hash = hashed(key.as_ref());
        // One slot for the map and its locks.
        let stem = if map.contains('{') { format!("{map}:{hash}") } else { format!("{{{map}}}:{hash}") };
        Self { stem }
    }

    /// Of `getLock(key)`, for [`Locks::lock`](crate::Locks::lock). Redisson's transactions take it to change the entry.
    pub fn lock(&self) -> String {
        format!("{}:lock", self.stem)
    }

    /// Of `getFairLock(key)`, for [`Locks::fair_lock`](crate::Locks::fair_lock).
    pub fn fair_lock(&self) -> String {
        format!("{}:fairlock", self.stem)
    }

    /// Of `getReadWriteLock(key)`, for [`Locks::read_write_lock`](crate::Locks::read_write_lock).
    pub fn read_write_lock(&self) -> String {
        format!("{}:rw_lock", self.stem)
    }

    /// Of `getSemaphore(key)`, for [`Locks::semaphore`](crate::Locks::semaphore).
    pub fn semaphore(&self) -> String {
        format!("{}:semaphore", self.stem)
    }

    /// Of `getPermitExpirableSemaphore(key)`, for [`Locks::permit_semaphore`](crate::Locks::permit_semaphore).
    pub fn permit_semaphore(&self) -> String {
        format!("{}:permitexpirablesemaphore", self.stem)
    }

    /// Of `getCountDownLatch(key)`, for [`Locks::latch`](crate::Locks::latch).
    pub fn latch(&self) -> String {
        format!("{}:countdownlatch", self.stem)
    }
}
