//! What `run` holds: a lock of any kind, or a permit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockson::{FencedGuard, Guard, LockError, Locks, PermitGuard, QueryError, RLock, Request, SyncError};
use tokio::time::timeout;

use crate::args::{Kind, Run};
use crate::{End, Failure};

/// How long a release is waited for; the lease ends it otherwise.
const RELEASE: Duration = Duration::from_secs(3);

pub enum Hold {
    Lock(Guard),
    Fenced(FencedGuard),
    Permit(PermitGuard),
}

impl Hold {
    /// `None`: it was busy for as long as was to be waited.
    pub async fn take(locks: &Locks, args: &Run) -> Result<Option<Self>, Failure> {
        let name = &args.name;
        let lock: Arc<dyn RLock> = match args.kind {
            Kind::Semaphore(permits) => return permit(locks, args, permits).await,
            Kind::Fenced => {
                let (lock, acquire) = (locks.fenced_lock(name), args.wait);
                let guard = match acquire {
                    Some(wait) => lock.acquire().wait(wait).guard().await,
                    None => lock.guard().await.map(Some),
                };
                return guard.map(|guard| guard.map(Self::Fenced)).map_err(of_lock);
            }
            Kind::Lock => locks.lock(name).into(),
            Kind::Fair => locks.fair_lock(name).into(),
            Kind::Read => locks.read_write_lock(name).read().into(),
            Kind::Write => locks.read_write_lock(name).write().into(),
            Kind::Plain => locks.plain_lock(name).into(),
        };
        let guard = match args.wait {
            Some(wait) => lock.guard_with(Request::default().wait(wait)).await,
            None => lock.guard().await.map(Some),
        };
        guard.map(|guard| guard.map(Self::Lock)).map_err(of_lock)
    }

    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            Self::Lock(_) | Self::Permit(_) => None,
        }
    }

    pub fn remaining(&self) -> Duration {
        match self {
            Self::Lock(guard) => guard.remaining(),
            Self::Fenced(guard) => guard.remaining(),
            Self::Permit(guard) => guard.remaining(),
        }
    }

    pub fn is_valid(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_valid(),
            Self::Fenced(guard) => guard.is_valid(),
            Self::Permit(guard) => guard.is_valid(),
        }
    }

    /// Until it is lost.
    pub fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self {
            Self::Lock(guard) => quiet(guard.lost()),
            Self::Fenced(guard) => quiet(guard.lost()),
            Self::Permit(guard) => quiet(guard.lost()),
        }
    }

    /// Gives it back.
    pub async fn release(self) -> Result<(), String> {
        let released = async {
            match self {
                Self::Lock(guard) => guard.unlock().await.map_err(|error| error.to_string()),
                Self::Fenced(guard) => guard.unlock().await.map_err(|error| error.to_string()),
                Self::Permit(guard) => guard.release().await.map_err(|error| error.to_string()),
            }
        };
        let late = || format!("the release was not answered within {RELEASE:?}: it ends with its lease");
        timeout(RELEASE, released).await.unwrap_or_else(|_| Err(late()))
    }
}

fn quiet<T>(lost: impl Future<Output = T> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move { drop(lost.await) })
}

/// One of so many permits, of a semaphore that gets them back from who dies.
async fn permit(locks: &Locks, args: &Run, permits: u32) -> Result<Option<Hold>, Failure> {
    let semaphore = locks.permit_semaphore(&args.name);
    // Whoever was first has set their number.
    semaphore.try_set_permits(permits).await.map_err(of_permit)?;
    let guard = match args.wait {
        Some(wait) => semaphore.acquire(1).wait(wait).guard().await,
        None => semaphore.guard(1).await.map(Some),
    };
    Ok(guard.map_err(of_permit)?.map(Hold::Permit))
}

fn of_lock(error: LockError) -> Failure {
    let is_usage = matches!(&error, LockError::Query(error) if is_usage(error));
    Failure(end(is_usage), error.to_string())
}

fn of_permit(error: SyncError) -> Failure {
    let is_usage = matches!(&error, SyncError::Query(error) if is_usage(error));
    Failure(end(is_usage), error.to_string())
}

/// Whether another name would do.
fn is_usage(error: &QueryError) -> bool {
    matches!(error, QueryError::Name(_) | QueryError::WrongType { .. })
}

fn end(is_usage: bool) -> End {
    if is_usage {
        End::Of(2)
    } else {
        End::Unreachable
    }
}
