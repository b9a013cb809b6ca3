//! A side of a case: Redisson or lockson, asked in the same words. Each case is written once, and runs both ways round.

use std::time::SystemTime;

use async_trait::async_trait;
use lockson::{Backoff, Lock};
use support::prelude::*;

use crate::java::{Answer, Java};

/// A kind of lock that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Lock,
    Mutex,
    Fair,
    FairMutex,
    Spin,
    Fenced,
    Read,
    Write,
}

impl Kind {
    pub const ALL: [Kind; 8] =
        [Kind::Lock, Kind::Mutex, Kind::Fair, Kind::FairMutex, Kind::Spin, Kind::Fenced, Kind::Read, Kind::Write];

    /// Its name here, and in Locks.java.
    pub fn name(self) -> &'static str {
        ["lock", "mutex", "fair_lock", "fair_mutex", "spin_lock", "fenced_lock", "read", "write"][self as usize]
    }

    pub fn named(name: &str) -> Kind {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap()
    }

    pub fn is_reentrant(self) -> bool {
        !matches!(self, Kind::Mutex | Kind::FairMutex)
    }
}

/// What one side says of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub locked: bool,
    /// Whether the one that asks holds it, and how often.
    pub held: bool,
    pub count: u64,
    /// Milliseconds; `None` when nobody holds it.
    pub ttl: Option<u64>,
}

/// One lock, for one owner of one side.
#[derive(Clone)]
pub enum Side {
    Java { java: Java, who: String, object: &'static str, name: String },
    Rust(Arc<dyn Handle>),
}

/// A client of either.
#[derive(Clone)]
pub enum Peer {
    Java(Java),
    Rust(Locks),
}

impl Peer {
    pub fn lock(&self, kind: Kind, name: &str, who: &str) -> Side {
        match self {
            Peer::Java(java) => {
                Side::Java { java: java.clone(), who: who.into(), object: kind.name(), name: name.into() }
            }
            Peer::Rust(locks) => Side::Rust(handle(locks, kind, name, who)),
        }
    }

    /// "J>R" when this one holds and that one is kept out.
    pub fn towards(&self, other: &Peer) -> &'static str {
        match (self, other) {
            (Peer::Java(_), Peer::Rust(_)) => "J>R",
            (Peer::Rust(_), Peer::Java(_)) => "R>J",
            _ => panic!("a case has two sides"),
        }
    }
}

fn handle(locks: &Locks, kind: Kind, name: &str, who: &str) -> Arc<dyn Handle> {
    let owner = Owner::named(who).unwrap();
    match kind {
        Kind::Lock => Arc::new(locks.lock(name).owned_by(&owner)),
        Kind::Mutex => Arc::new(locks.mutex(name).owned_by(&owner)),
        Kind::Fair => Arc::new(locks.fair_lock(name).owned_by(&owner)),
        Kind::FairMutex => Arc::new(locks.fair_mutex(name).owned_by(&owner)),
        Kind::Spin => Arc::new(locks.spin_lock(name, Backoff::default()).owned_by(&owner)),
        Kind::Fenced => Arc::new(locks.fenced_lock(name).owned_by(&owner)),
        Kind::Read => Arc::new(locks.read_write_lock(name).read().owned_by(&owner)),
        Kind::Write => Arc::new(locks.read_write_lock(name).write().owned_by(&owner)),
    }
}

/// Microseconds of the clock that all processes of a machine share.
pub fn epoch() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64
}

/// The verbs of every lock, and those that one made of others has not.
#[async_trait]
pub trait Handle: RLock {
    async fn force(&self) -> bool {
        panic!("its members are forced");
    }

    async fn look(&self) -> State {
        panic!("its members are looked at");
    }
}

#[async_trait]
impl<K: lockson::kind::Owned> Handle for Lock<K> {
    async fn force(&self) -> bool {
        self.force_unlock().await.unwrap()
    }

    async fn look(&self) -> State {
        let ttl = self.remaining_ttl().await.unwrap().map(|ttl| ttl.as_millis() as u64);
        let (locked, held) = (self.is_locked().await.unwrap(), self.is_held().await.unwrap());
        State { locked, held, count: self.hold_count().await.unwrap(), ttl }
    }
}

impl Handle for MultiLock {}

impl Handle for RedLock<Reentrant> {}

impl Side {
    fn call(&self, verb: String) -> impl std::future::Future<Output = Answer> + Send + 'static {
        let Side::Java { java, who, object, name } = self else { panic!("a side of Java") };
        java.timed(who, object, name, &verb)
    }

    /// Waits for it: with a lease of its own, or renewed. Begins now, and says when it began and ended.
    pub fn lock(&self, lease: Option<Duration>) -> tokio::task::JoinHandle<Answer> {
        match self {
            Side::Java { .. } => {
                let answer = self.call(lease.map_or("lock".into(), |lease| format!("lock {}", lease.as_millis())));
                tokio::spawn(answer)
            }
            Side::Rust(handle) => {
                let (handle, request) = (handle.clone(), with_lease(Request::default(), lease));
                tokio::spawn(async move {
                    let begin = epoch();
                    let taken = handle.acquire_with(request).await;
                    let result = taken.map(|taken| taken.is_acquired().to_string()).map_err(|error| error.to_string());
                    Answer { begin, end: epoch(), result }
                })
            }
        }
    }

    /// Waits for it and must get it.
    pub async fn must_lock(&self, lease: Option<Duration>) {
        support::patient("the lock", self.lock(lease)).await.unwrap().result.unwrap();
    }

    pub async fn try_lock(&self, wait: Duration, lease: Option<Duration>) -> Result<bool, String> {
        match self {
            Side::Java { .. } => {
                let lease = lease.map_or(-1, |lease| lease.as_millis() as i64);
                let verb = match (wait.as_millis(), lease) {
                    (0, -1) => "try_lock".into(),
                    (wait, lease) => format!("try_lock {wait} {lease}"),
                };
                self.call(verb).await.result.map(|text| text == "true")
            }
            Side::Rust(handle) => loop {
                match handle.acquire_with(with_lease(Request::default().wait(wait), lease)).await {
                    // A busy machine: nothing is known, so it is asked again.
                    Err(LockError::Query(QueryError::Unreachable { .. })) => {}
                    known => return known.map(AcquireOutcome::is_acquired).map_err(|error| error.to_string()),
                }
            },
        }
    }

    /// Whether it gets it within a limit.
    pub async fn take(&self, wait: Duration, lease: Option<Duration>) -> bool {
        self.try_lock(wait, lease).await.unwrap()
    }

    /// The same of a limit that nobody waits for. Begins now.
    pub fn begin(&self, lease: Option<Duration>) -> tokio::task::JoinHandle<bool> {
        let side = self.clone();
        tokio::spawn(async move { side.take(crate::LONG, lease).await })
    }

    pub async fn unlock(&self) -> Answer {
        match self {
            Side::Java { .. } => self.call("unlock".into()).await,
            Side::Rust(handle) => {
                let begin = epoch();
                let result = handle.unlock().await.map(|()| String::new()).map_err(|error| error.to_string());
                Answer { begin, end: epoch(), result }
            }
        }
    }

    pub async fn force_unlock(&self) -> bool {
        match self {
            Side::Java { .. } => self.call("force_unlock".into()).await.result.unwrap() == "true",
            Side::Rust(handle) => handle.force().await,
        }
    }

    pub async fn is_held(&self) -> bool {
        match self {
            Side::Java { .. } => self.call("held".into()).await.result.unwrap() == "true",
            Side::Rust(handle) => handle.is_held().await.unwrap(),
        }
    }

    pub async fn state(&self) -> State {
        match self {
            Side::Rust(handle) => handle.look().await,
            Side::Java { .. } => {
                let text = self.call("state".into()).await.result.unwrap();
                let words: Vec<&str> = text.split(' ').collect();
                let (count, ttl) = (words[2].parse().unwrap(), words[3].parse::<i64>().unwrap());
                State { locked: words[0] == "true", held: words[1] == "true", count, ttl: u64::try_from(ttl).ok() }
            }
        }
    }
}

fn with_lease(request: Request, lease: Option<Duration>) -> Request {
    match lease {
        Some(lease) => request.lease(lease),
        None => request,
    }
}
