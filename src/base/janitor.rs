//! The janitor: finishes what nobody awaits any more. Rule 7 of docs/PROTOCOL.md.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;

enum Job {
    Finish(BoxFuture<'static, ()>),
    Close,
}

/// The sending end: cheap, never blocks, works outside a runtime.
#[derive(Clone)]
pub(crate) struct Janitor {
    jobs: UnboundedSender<Job>,
}

/// The receiving end, for one task of the client.
pub(crate) struct Chores {
    jobs: UnboundedReceiver<Job>,
}

impl Janitor {
    pub(crate) fn new() -> (Self, Chores) {
        let (jobs, received) = unbounded_channel();
        (Self { jobs }, Chores { jobs: received })
    }

    /// Has a piece of work done. If it panics, it ends alone.
    pub(crate) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        let work = AssertUnwindSafe(work).catch_unwind().map(|done| {
            if done.is_err() {
                say(|| tracing::error!(target: "lockson", "a clean-up panicked: what it left ends with its lease"));
            }
        });
        // It fails only when the client is closed, and then there is no connection to do the work on.
        let _ = self.jobs.send(Job::Finish(work.boxed()));
    }

    /// Work that goes on here if its caller goes away after the first poll. `work` is given a flag that says so.
    pub(crate) fn carry<T, F>(&self, work: impl FnOnce(Arc<AtomicBool>) -> F) -> Carried<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let abandoned = Arc::new(AtomicBool::new(false));
        let work = Some(work(abandoned.clone()).boxed());
        Carried { work, started: false, abandoned, janitor: self.clone() }
    }

    /// Ends [`Chores::run`] when what is under way is done, at the latest after its limit.
    pub(crate) fn close(&self) {
        let _ = self.jobs.send(Job::Close);
    }
}

impl Chores {
    /// Does the work that comes in, until the client is closed; then for at most `drain` what is left.
    pub(crate) async fn run(mut self, drain: Duration) {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                job = self.jobs.recv() => match job {
                    Some(Job::Finish(work)) => open.push(work),
                    Some(Job::Close) | None => break,
                },
                Some(()) = open.next() => {}
            }
        }
        let left = async {
            loop {
                while let Ok(job) = self.jobs.try_recv() {
                    if let Job::Finish(work) = job {
                        open.push(work);
                    }
                }
                if open.next().await.is_none() && self.jobs.is_empty() {
                    return;
                }
            }
        };
        if tokio::time::timeout(drain, left).await.is_err() {
            let left = open.len();
            say(|| {
                tracing::warn!(target: "lockson", left, "closed with work undone: the holds end with their leases");
            });
        }
    }
}

/// What may be left on the server of calls that nobody awaits any more: the names of the locks, by a number each.
#[derive(Clone, Default)]
pub(crate) struct Owed(Arc<watch::Sender<BTreeMap<u64, String>>>);

/// One of them, until that is known.
pub(crate) struct Owing {
    to: Owed,
    number: u64,
}

impl Owed {
    pub(crate) fn note(&self, name: &str) -> Owing {
        let mut number = 0;
        self.0.send_modify(|names| {
            number = names.last_key_value().map_or(0, |(last, _)| last + 1);
            names.insert(number, name.to_owned());
        });
        Owing { to: self.clone(), number }
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.0.borrow().values().cloned().collect()
    }

    /// Waits until nothing is owed.
    pub(crate) async fn none_left(&self) {
        let _ = self.0.subscribe().wait_for(BTreeMap::is_empty).await;
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        self.to.0.send_modify(|names| drop(names.remove(&self.number)));
    }
}

/// Runs what may panic for reasons that are not ours (a subscriber of logs, a waker): a task of the client goes on.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Logs something from a task of the client.
pub(crate) fn say(log: impl FnOnce()) {
    let _ = contain(log);
}

/// A future that the janitor takes over when it is dropped half-way.
pub(crate) struct Carried<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    started: bool,
    abandoned: Arc<AtomicBool>,
    janitor: Janitor,
}

impl<T: Send + 'static> Carried<T> {
    /// It goes on whether it was polled or not.
    pub(crate) fn begun(mut self) -> Self {
        self.started = true;
        self
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.started = true;
        // Taken out for the poll: work that panics is gone, and is not polled again, by the janitor neither.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let done = work.poll_unpin(context);
        if done.is_pending() {
            self.work = Some(work);
        }
        done
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.started) {
            self.abandoned.store(true, Ordering::Release);
            // What it returns is dropped there; a hold that is dropped gives itself back.
            self.janitor.finish(work.map(drop));
        }
    }
}
