//! One client, from its first task to its last, and what it finds by name: one line of waiters, pool of permits or
//! latch a name, however many handles there are.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{join_all, Future};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::backend::{Backend, Signal};
use crate::base::config::Settings;
use crate::base::host::{Host, Work};
use crate::base::janitor::contain;
use crate::base::keys::Keys;
use crate::base::registry::Registry;
use crate::engine::Engine;
use crate::error::{in_runtime, LostReason};
use crate::events::Event;
use crate::hold::doubt::leave_server;
use crate::hold::entry::{Entry, Forgotten, Line};
use crate::hold::release::give_all_back;
use crate::permits::latch::LocalLatch;
use crate::permits::permit_semaphore::Expirable;
use crate::permits::pool::Pool;
use crate::permits::semaphore::{Counted, PermitKind};
use crate::presence::tell;

/// The engine of one client and its registries. The client's tasks hold them, not the session, so that they don't keep
/// the client open.
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    /// By what tells a lock from all others, its keys' place.
    pub(crate) lines: Arc<Registry<Line>>,
    pub(crate) semaphores: Arc<Registry<Pool>>,
    pub(crate) permit_semaphores: Arc<Registry<Pool>>,
    pub(crate) latches: Arc<Registry<LocalLatch>>,
    forgotten: Arc<Forgotten>,
    /// Its end, from the first call on that asks for it.
    ending: OnceLock<Ending>,
}

/// The end of a client, which its own tasks bring about, once, whoever asks for it again.
struct Ending {
    /// The names of all that was held, asked for or owed as it began.
    held: BTreeSet<String>,
    /// Of these, what was not confirmed, when that is known.
    left: watch::Receiver<Option<Vec<String>>>,
}

impl Parts {
    /// Starts a client's tasks on the current runtime.
    pub(crate) fn start(
        settings: Settings,
        backend: Arc<dyn Backend>,
        signals: UnboundedReceiver<Signal>,
        host: Host,
    ) -> Arc<Self> {
        let spawn = host.spawn.clone();
        let (engine, pump, chores) = Engine::new(settings, backend, signals, host);
        let (lines, semaphores, permit_semaphores, latches, forgotten) = Default::default();
        let ending = OnceLock::new();
        let parts = Arc::new(Self { engine, lines, semaphores, permit_semaphores, latches, forgotten, ending });
        spawn(parts.task(pump.run()));
        spawn(parts.task(parts.engine.watchdog.clone().run()));
        spawn(parts.task(parts.engine.lookout.clone().run()));
        if parts.engine.settings.presence {
            spawn(Box::pin(tell(parts.engine.clone())));
        }
        let of = parts.clone();
        spawn(parts.task(async move {
            chores.run(of.engine.settings.command_timeout).await;
            of.end().await;
        }));
        parts
    }

    /// A task without which the client can't be.
    fn task(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) -> Work {
        // Unless the client is being closed, the runtime is gone: whoever waits is told, here and on other runtimes.
        let task = scopeguard::guard(self.clone(), |parts| {
            if parts.engine.task_ended() {
                parts.let_go(LostReason::Ended);
            }
        });
        Box::pin(async move {
            let _task = task;
            work.await;
        })
    }

    /// The line for these keys, which are one lock.
    pub(crate) fn line(&self, keys: Keys) -> Arc<Line> {
        self.lines.of(&keys.place(), || Line::new(keys, &self.lines, &self.forgotten))
    }

    pub(crate) fn semaphore(&self, keys: Keys) -> Arc<Pool> {
        Pool::of(&self.semaphores, &self.engine, keys.of_semaphore(), Counted::SCRIPTS)
    }

    pub(crate) fn permit_semaphore(&self, keys: Keys) -> Arc<Pool> {
        Pool::of(&self.permit_semaphores, &self.engine, keys.of_semaphore(), Expirable::SCRIPTS)
    }

    pub(crate) fn latch(&self, keys: Keys) -> Arc<LocalLatch> {
        LocalLatch::of(&self.latches, &self.engine, keys.of_latch())
    }

    /// Every owner's entry of every lock.
    fn entries(&self) -> impl Iterator<Item = Arc<Entry>> {
        self.lines.all().into_iter().flat_map(|line| line.entries())
    }

    fn pools(&self) -> impl Iterator<Item = Arc<Pool>> {
        self.semaphores.all().into_iter().chain(self.permit_semaphores.all())
    }

    /// Nothing is held or waited for from here on.
    fn let_go(&self, why: LostReason) {
        self.lines.all().iter().for_each(|line| drop(line.close()));
        for entry in self.entries() {
            if let Some(hold) = entry.hold() {
                contain(|| entry.drop_hold(hold.leased.id, why));
            }
        }
        self.pools().for_each(|pool| pool.close(why));
        self.latches.all().iter().for_each(|latch| latch.close());
    }

    /// Closes every task and socket.
    async fn end(&self) {
        self.engine.stop();
        self.let_go(LostReason::Released);
        self.engine.channels.close().await;
        for entry in self.entries() {
            // What this drops may take others' locks.
            let elected = entry.elected.get().map(|elected| std::mem::take(&mut *elected.holds.lock()));
            drop(elected);
        }
        self.engine.wire.close().await;
    }

    /// Refuses new calls, ends every wait, and has every hold given back. Whether nobody asked for that before.
    fn begin_end(self: &Arc<Self>, limit: Duration) -> (&Ending, bool) {
        let mut is_first = false;
        let ending = self.ending.get_or_init(|| {
            is_first = true;
            let engine = &self.engine;
            engine.refuse();
            for line in self.lines.all() {
                line.close().iter().for_each(|waiter| leave_server(&waiter.wish));
            }
            self.latches.all().iter().for_each(|latch| latch.close());
            let in_use = |entry: &Arc<Entry>| entry.count() > 0 || entry.gate.try_lock().is_err();
            let held = self.entries().filter(in_use).map(|entry| entry.line.keys.name.to_string());
            let taken = self.pools().filter(|pool| pool.has_taken()).map(|pool| pool.ledger.name());
            let held = held.chain(taken).chain(engine.owed.names()).collect();
            let ((tell, left), parts) = (watch::channel(None), self.clone());
            engine.janitor.finish(async move {
                let left = parts.give_back(limit).await;
                tell.send_replace(Some(left));
            });
            Ending { held, left }
        });
        (ending, is_first)
    }

    /// The same, not waited for. Returns the names of all that is to be given back; behind the end, of what was not.
    pub(crate) fn end_in_background(self: &Arc<Self>, limit: Duration) -> Vec<String> {
        let (ending, is_first) = self.begin_end(limit);
        let left = ending.left.borrow().clone().filter(|_| !is_first);
        left.unwrap_or_else(|| ending.held.union(&self.engine.owed.names()).cloned().collect())
    }

    /// The same, waited for where that can be: the names of what was not confirmed.
    pub(crate) async fn shutdown(self: &Arc<Self>, limit: Duration) -> Vec<String> {
        if in_runtime().is_ok() {
            let (ending, is_first) = self.begin_end(limit);
            // The work has that limit itself, where its runtime runs.
            let more = if is_first { self.engine.settings.command_timeout } else { Duration::ZERO };
            let mut left = ending.left.clone();
            let _ = timeout(limit.saturating_add(more), left.wait_for(Option::is_some)).await;
        }
        self.end_in_background(limit)
    }

    /// Returns the names that were not confirmed.
    async fn give_back(&self, limit: Duration) -> Vec<String> {
        let (engine, began) = (&self.engine, self.engine.now());
        // Each is the name of what was not confirmed.
        let holds = self.entries().map(|entry| async {
            let name = entry.line.keys.name.to_string();
            let given_back = timeout(limit, give_all_back(engine.clone(), entry)).await;
            (!given_back.unwrap_or(false)).then_some(name)
        });
        let permits = self.pools().map(|pool| async move {
            let given_back = timeout(limit, pool.shutdown()).await;
            (!given_back.unwrap_or(false)).then(|| pool.ledger.name())
        });
        let (holds, permits) = tokio::join!(join_all(holds), join_all(permits));
        // Places of waiters, and copies in doubt of calls that were given up, which may take something yet. Behind that
        // only tasks that hear late of the end owe what has been given back already.
        let rest = limit.saturating_sub(engine.now().since(began));
        let owed = match timeout(rest, engine.owed.none_left()).await {
            Ok(()) => BTreeSet::new(),
            Err(_) => engine.owed.names(),
        };
        engine.janitor.close();
        let mut left: Vec<String> = holds.into_iter().chain(permits).flatten().collect();
        let known: HashSet<String> = left.iter().cloned().collect();
        left.extend(owed.into_iter().filter(|name| !known.contains(name)));
        engine.herald.tell(Event::Closed { left: left.clone() });
        left
    }
}
