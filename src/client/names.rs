//! What a client finds by name: one line of waiters, pool of permits or latch a name, however many handles there are.

use std::sync::Arc;

use crate::base::janitor::contain;
use crate::base::keys::Keys;
use crate::base::registry::Registry;
use crate::engine::Engine;
use crate::error::LostReason;
use crate::hold::entry::{Entry, Forgotten, Line};
use crate::permits::latch::LocalLatch;
use crate::permits::permit_semaphore::Expirable;
use crate::permits::pool::Pool;
use crate::permits::semaphore::{Counted, PermitKind};

/// The registries of one client.
#[derive(Default)]
pub(crate) struct Names {
    /// By channel: the read/write lock of a name has another than its exclusive ones.
    pub(crate) lines: Arc<Registry<Line>>,
    pub(crate) semaphores: Arc<Registry<Pool>>,
    pub(crate) permit_semaphores: Arc<Registry<Pool>>,
    pub(crate) latches: Arc<Registry<LocalLatch>>,
    forgotten: Arc<Forgotten>,
}

impl Names {
    /// The line for these keys, which are one lock.
    pub(crate) fn line(&self, keys: Keys) -> Arc<Line> {
        let channel = keys.channel.clone();
        self.lines.of(&channel, || Line::new(keys, &self.lines, &self.forgotten))
    }

    pub(crate) fn semaphore(&self, engine: &Arc<Engine>, keys: Keys) -> Arc<Pool> {
        Pool::of(&self.semaphores, engine, keys.of_semaphore(), Counted::SCRIPTS)
    }

    pub(crate) fn permit_semaphore(&self, engine: &Arc<Engine>, keys: Keys) -> Arc<Pool> {
        Pool::of(&self.permit_semaphores, engine, keys.of_semaphore(), Expirable::SCRIPTS)
    }

    pub(crate) fn latch(&self, engine: &Arc<Engine>, keys: Keys) -> Arc<LocalLatch> {
        LocalLatch::of(&self.latches, engine, keys.of_latch())
    }

    /// Every owner's entry of every lock.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Arc<Entry>> {
        self.lines.all().into_iter().flat_map(|line| line.entries())
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = Arc<Pool>> {
        self.semaphores.all().into_iter().chain(self.permit_semaphores.all())
    }

    /// Nothing is held or waited for from here on.
    pub(crate) fn let_go(&self, why: LostReason) {
        for line in self.lines.all() {
            line.close();
            for entry in line.entries() {
                if let Some(hold) = entry.hold() {
                    contain(|| entry.drop_hold(hold.leased.id, why));
                }
            }
        }
        for pool in self.pools() {
            pool.close(why);
        }
        for latch in self.latches.all() {
            latch.close();
        }
    }
}
