//! A client from its first task to its last: it is started, shut down, and ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{join_all, Future};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::backend::{Backend, Signal};
use crate::base::clock::Clock;
use crate::base::config::Settings;
use crate::client::names::Names;
use crate::engine::{Engine, Session};
use crate::error::{in_runtime, LostReason};
use crate::hold::contend::leave_queue;
use crate::hold::release::give_all_back;

/// Starts a client's tasks on the current runtime. They hold its parts, not the session.
pub(crate) fn start(
    settings: Settings,
    backend: Arc<dyn Backend>,
    signals: UnboundedReceiver<Signal>,
    clock: Clock,
) -> (Arc<Session>, Arc<Names>) {
    let (engine, pump, chores) = Engine::new(settings, backend, signals, clock);
    let names: Arc<Names> = Arc::default();
    spawn(&engine, &names, pump.run());
    spawn(&engine, &names, engine.watchdog.clone().run());
    let (parts, known) = (engine.clone(), names.clone());
    spawn(&engine, &names, async move {
        chores.run(parts.settings.command_timeout).await;
        end(&parts, &known).await;
    });
    (Arc::new(Session { engine }), names)
}

/// One of a client's tasks, as long as it runs.
struct Task {
    engine: Weak<Engine>,
    names: Arc<Names>,
}

impl Drop for Task {
    /// Unless the client is being closed, the runtime is gone: whoever waits is told, here and on other runtimes.
    fn drop(&mut self) {
        if self.engine.upgrade().is_some_and(|engine| engine.task_ended()) {
            self.names.let_go(LostReason::Ended);
        }
    }
}

/// Starts a task without which the client can't be.
fn spawn(engine: &Arc<Engine>, names: &Arc<Names>, work: impl Future<Output = ()> + Send + 'static) {
    let task = Task { engine: Arc::downgrade(engine), names: names.clone() };
    tokio::spawn(async move {
        let _task = task;
        work.await;
    });
}

/// Closes every task and socket.
async fn end(engine: &Engine, names: &Names) {
    engine.stop();
    names.let_go(LostReason::Released);
    engine.channels.close().await;
    for entry in names.entries() {
        // What this drops may take others' locks.
        let elected = std::mem::take(&mut *entry.elected.lock());
        drop(elected);
    }
    engine.wire.close().await;
}

/// Refuses new calls, ends every wait and gives every hold back. Returns the names that were not confirmed.
pub(crate) async fn shutdown(engine: &Arc<Engine>, names: &Arc<Names>, limit: Duration) -> Vec<String> {
    engine.refuse();
    if in_runtime().is_err() {
        return shutdown_unseen(engine, names, limit);
    }
    give_back(engine, names, limit).await
}

/// Outside of a runtime nothing can be waited for: the client's tasks do it, and all that is held is named.
fn shutdown_unseen(engine: &Arc<Engine>, names: &Arc<Names>, limit: Duration) -> Vec<String> {
    let held = names.entries().filter(|entry| entry.count() > 0).map(|entry| entry.line.keys.name.to_string());
    let taken = names.pools().filter(|pool| pool.has_taken()).map(|pool| pool.ledger.name());
    let left = held.chain(taken).collect();
    let (parts, known) = (engine.clone(), names.clone());
    engine.janitor.finish(async move { drop(give_back(&parts, &known, limit).await) });
    left
}

async fn give_back(engine: &Arc<Engine>, names: &Names, limit: Duration) -> Vec<String> {
    let began = engine.now();
    let mut entries = Vec::new();
    let mut waiters = Vec::new();
    for line in names.lines.all() {
        waiters.extend(line.crowd.lock().close());
        line.close();
        entries.extend(line.entries());
    }
    for latch in names.latches.all() {
        latch.close();
    }
    // Each is the name of what was not confirmed.
    let holds = entries.into_iter().map(|entry| async {
        let name = entry.line.keys.name.to_string();
        let given_back = tokio::time::timeout(limit, give_all_back(engine.clone(), entry)).await;
        (!given_back.unwrap_or(false)).then_some(name)
    });
    let permits = names.pools().map(|pool| async move {
        let given_back = tokio::time::timeout(limit, pool.shutdown()).await;
        (!given_back.unwrap_or(false)).then(|| pool.ledger.name())
    });
    let leaves = waiters.iter().map(|waiter| tokio::time::timeout(limit, leave_queue(waiter.wish.clone())));
    let (holds, permits, _) = tokio::join!(join_all(holds), join_all(permits), join_all(leaves));
    // Copies in doubt of calls that were given up, which may take something yet.
    let rest = limit.saturating_sub(engine.now().since(began));
    let _ = tokio::time::timeout(rest, engine.owed.none_left()).await;
    engine.janitor.close();
    let mut left: Vec<String> = holds.into_iter().chain(permits).flatten().collect();
    let owed: Vec<String> = engine.owed.names().into_iter().filter(|name| !left.contains(name)).collect();
    left.extend(owed);
    left
}
