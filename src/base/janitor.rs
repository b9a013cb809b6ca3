//! The janitor: finishes what nobody awaits any more. Rule 7 of docs/PROTOCOL.md.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::{poll_immediate, BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};

/// A piece of work, or (`None`) the end.
type Job = Option<BoxFuture<'static, ()>>;

/// Where work is handed in: cheap, never blocks, works outside a runtime.
#[derive(Clone)]
pub(crate) struct Janitor {
    jobs: UnboundedSender<Job>,
}

/// The work that comes in, for one task of the client.
pub(crate) struct Chores(UnboundedReceiver<Job>);

impl Janitor {
    pub(crate) fn new() -> (Self, Chores) {
        let (jobs, received) = unbounded_channel();
        (Self { jobs }, Chores(received))
    }

    /// Has a piece of work done. If it panics, it ends alone.
    pub(crate) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.take(contained(work));
    }

    fn take(&self, work: BoxFuture<'static, ()>) {
        // It fails only when the client is closed, and then there is no connection to do the work on.
        let _ = self.jobs.send(Some(work));
    }

    /// Work that goes on here if its caller goes away after the first poll. `work` is given a flag that says so.
    pub(crate) fn carry<T, F>(&self, work: impl FnOnce(Arc<AtomicBool>) -> F) -> impl Future<Output = T> + Send
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let abandoned = Arc::new(AtomicBool::new(false));
        let (work, janitor) = (work(abandoned.clone()).boxed(), self.clone());
        // It begins with the first poll.
        async move { janitor.carried(work, Some(abandoned)).await }
    }

    /// Work that goes on here if its caller goes away, whether it was polled or not.
    pub(crate) fn carry_out<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, T>,
    ) -> impl Future<Output = T> + Send + 'static {
        self.clone().carried(work, None)
    }

    fn carried<T: Send + 'static>(
        self,
        work: BoxFuture<'static, T>,
        abandoned: Option<Arc<AtomicBool>>,
    ) -> impl Future<Output = T> + Send + 'static {
        let mut left = scopeguard::guard(Some(work), move |left| {
            if let Some(work) = left {
                abandoned.iter().for_each(|flag| flag.store(true, Ordering::Release));
                // What it returns is dropped there; a hold that is dropped gives itself back.
                self.finish(work.map(drop));
            }
        });
        poll_fn(move |context| {
            // Taken out for the poll: work that panics is gone, and is not polled again, by the janitor neither.
            let Some(mut work) = left.take() else { return Poll::Pending };
            let done = work.poll_unpin(context);
            if done.is_pending() {
                *left = Some(work);
            }
            done
        })
    }

    /// Work that others wait for: from its first poll on it goes on here, whether its caller polls or not. `None`: it
    /// panicked, or the client has ended.
    pub(crate) fn hand_in<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send {
        let ((tell, told), janitor) = (oneshot::channel(), self.clone());
        let mut work = contained(work.map(|done| drop(tell.send(done))));
        async move {
            if poll_immediate(&mut work).await.is_none() {
                janitor.take(work);
            }
            told.await.ok()
        }
    }

    /// Ends [`Chores::run`] when what is under way is done, at the latest after its limit.
    pub(crate) fn close(&self) {
        let _ = self.jobs.send(None);
    }
}

impl Chores {
    /// Does the work that comes in, until the client is closed; then for at most `drain` what is left.
    pub(crate) async fn run(self, drain: Duration) {
        let Self(mut jobs) = self;
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = open.next() => {}
                job = jobs.recv() => match job.flatten() {
                    Some(work) => open.push(work),
                    None => break,
                },
            }
        }
        let left = async {
            loop {
                while let Ok(job) = jobs.try_recv() {
                    open.extend(job);
                }
                if open.is_empty() {
                    return;
                }
                // What is done may wait for what comes in.
                tokio::select! {
                    biased;
                    _ = open.next() => {}
                    Some(job) = jobs.recv() => open.extend(job),
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

fn contained(work: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
    let work = AssertUnwindSafe(work).catch_unwind().map(|done| {
        if done.is_err() {
            say(|| tracing::error!(target: "lockson", "a clean-up panicked: what it left ends with its lease"));
        }
    });
    work.boxed()
}

/// What may be left on the server of calls that nobody awaits any more: the names of the locks, by a number each.
#[derive(Clone, Default)]
pub(crate) struct Owed(Arc<watch::Sender<BTreeMap<u64, String>>>);

impl Owed {
    /// One of them, until what is returned is dropped.
    pub(crate) fn note(&self, name: &str) -> impl Send + 'static {
        let mut number = 0;
        self.0.send_modify(|names| {
            number = names.last_key_value().map_or(0, |(last, _)| last + 1);
            names.insert(number, name.to_owned());
        });
        scopeguard::guard(self.0.clone(), move |owed| owed.send_modify(|names| drop(names.remove(&number))))
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.0.borrow().values().cloned().collect()
    }

    /// Waits until nothing is owed.
    pub(crate) async fn none_left(&self) {
        let _ = self.0.subscribe().wait_for(BTreeMap::is_empty).await;
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
