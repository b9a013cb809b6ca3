//! Work on a schedule: of many processes whose clocks strike, one does it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::base::janitor::say;
use crate::base::owner::Owner;
use crate::error::OnceError;
use crate::locks::any::RLock;
use crate::locks::guard::{Guard, Guards};
use crate::waiting::request::Request;

/// Work that many processes begin at one time, on a schedule that each of them keeps, and that one of them does
/// (ShedLock's habit). [`Locks::once_per`](crate::Locks::once_per) makes it. A cheap handle; nothing is sent until
/// [`run`](Self::run).
///
/// It is no scheduler: whatever tells the time calls `run`, and the lock says who does the work.
///
/// - `at_most` is the lease, from 100 ms to [`Builder::max_lease`](crate::Builder::max_lease), and nobody renews it. A
///   process that dies keeps the others out for so long. Work that takes longer is stopped, as others may begin it:
///   take a time that the work never needs.
/// - `at_least` is for how long from its beginning nobody else begins, even if the work is over at once: a process
///   whose clock is late by less than that finds that it was done. Take more than the clocks differ, and less than the
///   time between two ticks. The lock stays on the server for the rest of it, in nobody's hands.
///
/// Both are kept by the server's clock. What it does not know is which tick a call is for: a process that is late by
/// more than `at_least` and by more than the work took does it again.
///
/// The lock is the [`plain_lock`](crate::Locks::plain_lock) of that name, with a token for each run: who asks whether
/// that is locked learns whether the next run would begin.
#[derive(Debug, Clone)]
pub struct OncePer {
    lock: Arc<dyn RLock>,
    at_least: Duration,
    at_most: Duration,
}

impl OncePer {
    pub(crate) fn new(lock: Arc<dyn RLock>, at_least: Duration, at_most: Duration) -> Self {
        Self { lock, at_least, at_most }
    }

    /// The name, without the client's prefix.
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Does the work, unless somebody does it, or did within `at_least`: then it is `None`, at once. Calls of one task
    /// keep each other out too.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(locks: lockson::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn send_report() {}
    /// // Each night at one. The clocks differ by less than 10 s, the report takes minutes.
    /// let nightly = locks.once_per("report", Duration::from_secs(10), Duration::from_secs(3600));
    /// match nightly.run(send_report()).await? {
    ///     Some(()) => println!("sent, by this process"),
    ///     None => println!("another process sends it, or has sent it"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// What the work returns is returned, also where the lock's server is away by then: the lock ends with its lease.
    /// The call waits for three command timeouts for it, at most.
    ///
    /// # Errors
    /// [`OnceError::Spans`] before anything is sent. [`OnceError::Lock`]: the work did not begin. [`OnceError::Lost`]:
    /// it was stopped, or ended too late to be sure that nobody else had begun it.
    ///
    /// # Cancel safety
    /// Dropped before the work began it leaves nothing. Dropped later, by a panic of the work too, it stops the work,
    /// and others are kept out until `at_least` is over, or until the server can be told; at the latest until `at_most`
    /// is.
    pub async fn run<F: Future>(&self, work: F) -> Result<Option<F::Output>, OnceError> {
        let Self { at_least, at_most, .. } = *self;
        if at_least.is_zero() || at_least > at_most {
            return Err(OnceError::Spans { at_least, at_most });
        }
        // An owner of its own, to whom a run of the same task is another's.
        let lock = self.lock.owned_by(&Owner::unique());
        let Some(held) = lock.take(&Request::one_attempt().lease(at_most)).await? else { return Ok(None) };
        let ticket = held.ticket();
        let (engine, hold) = (ticket.engine.clone(), &ticket.hold);
        hold.stay(engine.now().after(at_least));
        let guard = Guard::of(held);
        let output = guard.run(work).await?;
        // It is done, whatever becomes of the lock.
        if let Err(error) = guard.unlock_within(engine.look_limit()).await {
            say(|| tracing::debug!(target: "lockson", %error, "the lock of a tick ends with its lease"));
        }
        Ok(Some(output))
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::future::ready;
    use std::time::Duration;

    use crate::EmbeddedServer;

    /// Parts of a millisecond count: the server has only whole ones, and nobody begins before the time is over.
    #[tokio::test(start_paused = true)]
    async fn what_stays_ends_no_earlier_than_it_was_to() {
        let server = EmbeddedServer::new();
        let once = || server.connect().once_per("tick", Duration::from_micros(100_600), Duration::from_secs(10));
        tokio::time::advance(Duration::from_micros(600)).await;
        assert_eq!(once().run(ready(())).await, Ok(Some(())));
        tokio::time::advance(Duration::from_micros(100_500)).await;
        assert_eq!(once().run(ready(())).await, Ok(None), "another process is early");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(once().run(ready(())).await, Ok(Some(())));
    }
}
