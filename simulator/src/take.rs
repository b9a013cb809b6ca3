//! What is taken, by which handle of the library.

use std::sync::Arc;
use std::time::Duration;

use lockson::kind::Expirable;
use lockson::{
    Acquire, Backoff, FencedGuard, Guard, HoldError, Locks, MultiLock, Owner, RLock, RedLock, Request, SemaphorePermit,
};

use crate::judge::Seen;
use crate::plan::{Kind, Turn, SERVERS};

/// The longest lease of a red lock: for so long a server that lost its data does not vote.
pub const RED_LEASE: Duration = Duration::from_secs(300);

/// What a task has.
pub enum Held {
    Guard(Guard),
    Fenced(FencedGuard),
    Counted(SemaphorePermit),
    Expirable(SemaphorePermit<Expirable>),
}

impl Seen for Held {
    fn is_valid(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.is_valid(),
            Self::Fenced(guard) => guard.is_valid(),
            Self::Counted(_) => true,
            Self::Expirable(permits) => permits.is_valid(),
        }
    }

    fn left(&self) -> Duration {
        match self {
            Self::Guard(guard) => guard.remaining(),
            Self::Fenced(guard) => guard.remaining(),
            Self::Expirable(permits) => permits.remaining(),
            Self::Counted(_) => Duration::ZERO,
        }
    }

    fn permits(&self) -> usize {
        match self {
            Self::Counted(permits) => permits.count() as usize,
            Self::Expirable(permits) => permits.count() as usize,
            _ => 0,
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            _ => None,
        }
    }
}

impl Held {
    pub fn excludes(&self) -> bool {
        matches!(self, Self::Guard(_) | Self::Fenced(_))
    }

    /// Works, as long as it is held.
    pub async fn works(&self, span: Duration) {
        let work = tokio::time::sleep(span);
        let _ = match self {
            Self::Guard(guard) => guard.run(work).await,
            Self::Fenced(guard) => guard.run(work).await,
            Self::Expirable(permits) => permits.run(work).await,
            Self::Counted(_) => {
                work.await;
                Ok(())
            }
        };
    }

    /// Asks whether it is held, and sets its lease anew.
    pub async fn extend(&self, lease: Duration) -> Result<(), HoldError> {
        let guard: &Guard = match self {
            Self::Guard(guard) => guard,
            Self::Fenced(guard) => guard,
            Self::Counted(_) | Self::Expirable(_) => return Ok(()),
        };
        guard.verify().await?;
        guard.set_lease(lease).await
    }

    /// The same, but waits at most so long.
    pub async fn give_back_within(self, limit: Duration) -> String {
        match self {
            Self::Guard(guard) => format!("{:?}", guard.unlock_within(limit).await),
            Self::Fenced(guard) => format!("{:?}", guard.unlock_within(limit).await),
            Self::Counted(permits) => format!("{:?}", permits.release_within(limit).await),
            Self::Expirable(permits) => format!("{:?}", permits.release_within(limit).await),
        }
    }

    /// Gives it back and says how that went.
    pub async fn give_back(self) -> String {
        match self {
            Self::Guard(guard) => format!("{:?}", guard.unlock().await),
            Self::Fenced(guard) => format!("{:?}", guard.unlock().await),
            Self::Counted(permits) => format!("{:?}", permits.release().await),
            Self::Expirable(permits) => format!("{:?}", permits.release().await),
        }
    }
}

/// Those of a group that are taken.
pub const VALUES: [&str; 2] = ["a", "b"];

/// What a name is called on the servers; the second is of a lock of two.
pub fn name_of((name, member): (usize, usize)) -> String {
    format!("n{name}{}", if member == 0 { "" } else { "b" })
}

/// The lock of a turn, by the client's connections to each server.
pub fn lock_of(turn: &Turn, servers: &[Locks]) -> Arc<dyn RLock> {
    let (first, own, other) = (&servers[0], name_of((turn.name, 0)), name_of((turn.name, 1)));
    match turn.kind {
        Kind::Mutex => Arc::new(first.mutex(&own)),
        Kind::Spin => Arc::new(first.spin_lock(&own, Backoff::default())),
        Kind::Fenced => Arc::new(first.fenced_lock(&own)),
        Kind::Plain => Arc::new(first.plain_lock(&own)),
        Kind::Fair => Arc::new(first.fair_lock(&own)),
        Kind::FairMutex => Arc::new(first.fair_mutex(&own)),
        Kind::FencedFair => Arc::new(first.fair_lock(&own).fenced()),
        Kind::Read => Arc::new(first.read_write_lock(&own).read()),
        Kind::Write | Kind::Downgrade => Arc::new(first.read_write_lock(&own).write()),
        Kind::FencedWrite => Arc::new(first.read_write_lock(&own).write().fenced()),
        Kind::Value => Arc::new(first.group_lock(&own, VALUES[0])),
        Kind::Group => Arc::new(MultiLock::new(VALUES.map(|value| first.group_lock(&own, value)))),
        Kind::Multi => {
            let members = [first.lock(&own), first.lock(&other)];
            Arc::new(MultiLock::new(members.map(|lock| Arc::new(lock) as Arc<dyn RLock>)))
        }
        Kind::Mixed => {
            let other = servers[1].read_write_lock(&other).write();
            Arc::new(MultiLock::new([Arc::new(first.fair_lock(&own)) as Arc<dyn RLock>, Arc::new(other)]))
        }
        Kind::Transaction => {
            let id = format!("transaction{}", turn.task);
            Arc::new(first.lock(&own).in_transaction(&id).expect("a good id"))
        }
        Kind::Red => {
            let members = servers.iter().take(SERVERS).map(|locks| locks.lock(&own));
            Arc::new(RedLock::new(members).fresh().max_lease(RED_LEASE))
        }
        _ => Arc::new(first.lock(&own)),
    }
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn fenced(acquire: Acquire<'_, FencedGuard>, turn: &Turn) -> Result<Option<Held>, String> {
    let acquire = acquire.wait(ms(turn.wait));
    let acquire = match turn.lease {
        Some(lease) => acquire.lease(ms(lease)),
        None => acquire,
    };
    acquire.guard().await.map(|guard| guard.map(Held::Fenced)).map_err(|error| format!("{error:?}"))
}

/// Takes what a turn is for. `None`: it was busy until its limit.
pub async fn take(turn: &Turn, servers: &[Locks]) -> Result<Option<Held>, String> {
    let (first, name) = (&servers[0], name_of((turn.name, 0)));
    let permits = 1 + u32::from(turn.work.is_multiple_of(5));
    match turn.kind {
        Kind::Fenced => fenced(first.fenced_lock(&name).acquire(), turn).await,
        Kind::FencedFair => fenced(first.fair_lock(&name).fenced().acquire(), turn).await,
        Kind::FencedWrite => fenced(first.read_write_lock(&name).write().fenced().acquire(), turn).await,
        Kind::Semaphore => {
            let taken = first.semaphore(&name).acquire(permits).wait(ms(turn.wait)).guard().await;
            taken.map(|permits| permits.map(Held::Counted)).map_err(|error| format!("{error:?}"))
        }
        Kind::PermitSemaphore => {
            let semaphore = first.permit_semaphore(&name);
            let acquire = semaphore.acquire(permits).wait(ms(turn.wait));
            let acquire = match turn.lease {
                Some(lease) => acquire.lease(ms(lease)),
                None => acquire,
            };
            let taken = acquire.guard().await;
            taken.map(|permits| permits.map(Held::Expirable)).map_err(|error| format!("{error:?}"))
        }
        _ => {
            let request = Request::default().wait(ms(turn.wait));
            let request = match turn.lease {
                Some(lease) => request.lease(ms(lease)),
                None => request,
            };
            let taken = lock_of(turn, servers).guard_with(request).await;
            taken.map(|guard| guard.map(Held::Guard)).map_err(|error| format!("{error:?}"))
        }
    }
}

/// Whom a task's calls are for: its name, so that runs repeat.
pub fn owner_of(task: usize) -> Owner {
    Owner::named(format!("task{task}")).expect("a good name")
}
