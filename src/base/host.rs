//! What a client takes from its surroundings: its clock, ids that nobody else has, and where its tasks run. A
//! simulation has its own, so that one seed gives one run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rand::rngs::OsRng;
use rand::RngCore;
use tokio::runtime::Handle;
use uuid::{Builder, Uuid};

use crate::base::clock::Clock;

/// Ids that nobody else has.
#[derive(Default)]
pub(crate) enum Ids {
    #[default]
    Random,
    /// For a simulation: by chance from a seed.
    #[cfg(feature = "embedded")]
    Seeded(parking_lot::Mutex<fastrand::Rng>),
}

impl Ids {
    pub(crate) fn fresh(&self) -> Uuid {
        match self {
            Self::Random => random(),
            #[cfg(feature = "embedded")]
            Self::Seeded(chance) => Builder::from_random_bytes(chance.lock().u128(..).to_le_bytes()).into_uuid(),
        }
    }
}

/// An id of the system's randomness.
///
/// # Panics
/// Where the system has none.
pub(crate) fn random() -> Uuid {
    let mut bytes = [0; 16];
    OsRng.fill_bytes(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid()
}

/// The work of a task.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The surroundings of a client.
pub(crate) struct Host {
    /// The client's own.
    pub(crate) id: Uuid,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    /// Begins a task.
    pub(crate) spawn: Arc<dyn Fn(Work) + Send + Sync>,
}

impl From<Clock> for Host {
    /// Random ids, and tasks on the current runtime, whoever begins them.
    fn from(clock: Clock) -> Self {
        let runtime = Handle::current();
        let (ids, spawn) = (Ids::Random, Arc::new(move |work| drop(runtime.spawn(work))));
        Self { id: ids.fresh(), clock, ids, spawn }
    }
}
