//! Both kinds of semaphore, as one.

use std::time::Duration;

use lockson::{Locks, PermitGuard, PermitSemaphore, Semaphore, SemaphorePermit, SyncError};

/// Either kind, as takers use it.
#[derive(Clone)]
pub enum Kind {
    Counted(Semaphore),
    Leased(PermitSemaphore),
}

pub enum Guard {
    Counted(SemaphorePermit),
    Leased(PermitGuard),
}

impl Kind {
    pub fn of(kind: &str, locks: &Locks, name: &str) -> Self {
        match kind {
            "counted" => Self::Counted(locks.semaphore(name)),
            _ => Self::Leased(locks.permit_semaphore(name)),
        }
    }

    pub async fn guard(&self, permits: u32, wait: Duration) -> Result<Option<Guard>, SyncError> {
        Ok(match self {
            Self::Counted(semaphore) => semaphore.acquire(permits).wait(wait).guard().await?.map(Guard::Counted),
            Self::Leased(semaphore) => semaphore.acquire(permits).wait(wait).guard().await?.map(Guard::Leased),
        })
    }

    pub async fn set(&self, permits: u32) -> bool {
        match self {
            Self::Counted(semaphore) => semaphore.try_set_permits(permits).await.unwrap(),
            Self::Leased(semaphore) => semaphore.try_set_permits(permits).await.unwrap(),
        }
    }

    pub async fn available(&self) -> i64 {
        match self {
            Self::Counted(semaphore) => semaphore.available_permits().await.unwrap(),
            Self::Leased(semaphore) => semaphore.available_permits().await.unwrap(),
        }
    }
}

impl Guard {
    pub async fn release(self) -> Result<(), SyncError> {
        match self {
            Self::Counted(guard) => guard.release().await,
            Self::Leased(guard) => guard.release().await,
        }
    }

    pub fn is_valid(&self) -> bool {
        match self {
            Self::Counted(_) => true,
            Self::Leased(guard) => guard.is_valid(),
        }
    }
}
