//! Those of this process who wait for one thing, in the order of their arrival: the first asks the server, in the name
//! of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{QueryError, SyncError};
use crate::waiting::wait::{sleep_until, Listener};
use crate::waiting::waiters::{Mail, Waiter, Waiters};

/// Those who wait, and whether anybody may yet.
pub(crate) struct Row<W, P> {
    waiters: Mutex<Waiters<W, P>>,
    closed: AtomicBool,
}

impl<W, P> Default for Row<W, P> {
    fn default() -> Self {
        Self { waiters: Mutex::default(), closed: AtomicBool::new(false) }
    }
}

impl<W: Clone, P> Row<W, P> {
    /// Changes who waits, and tells whoever is the first by that.
    fn change<R>(&self, change: impl FnOnce(&mut Waiters<W, P>) -> R) -> R {
        let mut waiters = self.waiters.lock();
        let before = waiters.first().map(|first| first.number);
        let changed = change(&mut waiters);
        if let Some(first) = waiters.first().filter(|first| Some(first.number) != before) {
            first.post(Mail::Try);
        }
        changed
    }

    /// Behind all others.
    pub(crate) fn join(&self, wish: W) -> Arc<Waiter<W, P>> {
        let waiter = self.change(|waiters| Waiter::join(waiters, wish));
        if self.closed.load(Ordering::Acquire) {
            self.close();
        }
        waiter
    }

    pub(crate) fn is_first(&self, waiter: &Waiter<W, P>) -> bool {
        waiter.is_first(&self.waiters.lock())
    }

    /// The first of them, in their order.
    pub(crate) fn first(&self, most: usize) -> Vec<Arc<Waiter<W, P>>> {
        self.waiters.lock().iter().take(most).cloned().collect()
    }

    /// Gives these waiters what they waited for.
    pub(crate) fn serve(&self, served: Vec<(Arc<Waiter<W, P>>, P)>) {
        self.change(|waiters| {
            for (waiter, _) in &served {
                waiters.remove(waiter);
            }
        });
        for (waiter, prize) in served {
            waiter.post(Mail::Won(prize));
        }
    }

    /// Goes away, with or without a prize. One that was not taken is dropped.
    pub(crate) fn leave(&self, waiter: &Waiter<W, P>) {
        let left = waiter.go();
        self.change(|waiters| waiters.remove(waiter));
        drop(left);
    }

    /// Waits for a prize, or until it is worth asking: the first listens, and asks after `pause`. Who was not there to
    /// take its prize goes behind all others.
    pub(crate) async fn turn(
        &self,
        waiter: &mut Arc<Waiter<W, P>>,
        listener: &Listener,
        pause: Option<Duration>,
    ) -> Result<Option<P>, SyncError> {
        let deadline = pause.map(|pause| Instant::now() + pause);
        loop {
            match waiter.take_mail() {
                Mail::Won(prize) => return Ok(Some(prize)),
                Mail::Lapsed => {
                    *waiter = self.join(waiter.wish.clone());
                    continue;
                }
                Mail::Closed => return Err(QueryError::Closed.into()),
                Mail::Try => return Ok(None),
                Mail::Nothing | Mail::Gone => {}
            }
            let is_first = self.is_first(waiter);
            tokio::select! {
                biased;
                () = waiter.bell.notified() => {}
                () = listener.wakes(), if is_first => return Ok(None),
                () = sleep_until(deadline), if is_first => return Ok(None),
            }
        }
    }

    /// Ends every wait, those too that begin later.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut waiters = self.waiters.lock();
        let closed = std::mem::take(&mut *waiters);
        closed.iter().for_each(|waiter| waiter.post(Mail::Closed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(row: &Row<u32, ()>) -> Vec<u32> {
        row.first(usize::MAX).iter().map(|waiter| waiter.wish).collect()
    }

    #[test]
    fn each_leaves_from_wherever_it_sits_and_the_first_is_told() {
        let row: Row<u32, ()> = Row::default();
        let [first, second, third, _, last] = [0, 1, 2, 3, 4].map(|wish| row.join(wish));
        assert!(row.is_first(&first) && !row.is_first(&second));
        row.leave(&last);
        row.serve(vec![(third.clone(), ())]);
        assert_eq!(waiting(&row), [0, 1, 3]);
        assert!(third.take_prize().is_some() && !matches!(second.take_mail(), Mail::Try));
        row.leave(&first);
        assert!(row.is_first(&second) && matches!(second.take_mail(), Mail::Try));
        row.close();
        let late = row.join(5);
        // Who left is not taken for who came.
        row.leave(&first);
        assert!(matches!(late.take_mail(), Mail::Closed) && waiting(&row).is_empty());
    }
}
