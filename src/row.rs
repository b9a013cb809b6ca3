//! Those of this process who wait for one thing, in the order of their arrival: the first asks the server, in the name
//! of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ear::Ear;
use crate::error::SyncError;
use crate::fifo::Fifo;
use crate::wait::{sleep_until, Turn};
use crate::watchdog::Claim;

/// What a waiter finds.
enum Mail<P> {
    Nothing,
    /// It is the first now.
    Try,
    Won(P),
    /// It did not take its prize in time, and has left the row by that.
    Lapsed,
    Closed,
    /// It went away.
    Gone,
}

/// One waiter: what it wants, and what it was given.
pub(crate) struct Seat<W, P> {
    /// In the row.
    number: u64,
    pub(crate) wish: W,
    mail: Mutex<Mail<P>>,
    bell: Notify,
}

impl<W, P> Seat<W, P> {
    fn mail(&self) -> MutexGuard<'_, Mail<P>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was given, if anything; other mail stays.
    pub(crate) fn take_prize(&self) -> Option<P> {
        let mut mail = self.mail();
        match std::mem::replace(&mut *mail, Mail::Nothing) {
            Mail::Won(prize) => Some(prize),
            other => {
                *mail = other;
                None
            }
        }
    }

    /// Leaves mail, unless something weightier lies there or nobody is there to read it: then a prize is dropped.
    fn post(&self, new: Mail<P>) {
        let mut mail = self.mail();
        if matches!(*mail, Mail::Nothing | Mail::Try) {
            *mail = new;
            drop(mail);
            self.bell.notify_one();
        }
    }
}

impl<W: Send + Sync, P: Send> Claim for Seat<W, P> {
    fn is_open(&self) -> bool {
        matches!(*self.mail(), Mail::Won(_))
    }

    fn lapse(&self) {
        let mut mail = self.mail();
        if matches!(*mail, Mail::Won(_)) {
            // Dropped outside of the lock, the prize gives itself back.
            let prize = std::mem::replace(&mut *mail, Mail::Lapsed);
            drop(mail);
            drop(prize);
        }
    }
}

pub(crate) struct Row<W, P> {
    seats: Mutex<Fifo<Seat<W, P>>>,
    closed: AtomicBool,
}

impl<W, P> Default for Row<W, P> {
    fn default() -> Self {
        Self { seats: Mutex::default(), closed: AtomicBool::new(false) }
    }
}

impl<W: Clone, P> Row<W, P> {
    fn seats(&self) -> MutexGuard<'_, Fifo<Seat<W, P>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes who waits, and tells whoever is the first by that.
    fn change<R>(&self, change: impl FnOnce(&mut Fifo<Seat<W, P>>) -> R) -> R {
        let mut seats = self.seats();
        let before = seats.first_number();
        let changed = change(&mut seats);
        if let Some(first) = seats.first().filter(|first| before != Some(first.number)) {
            first.post(Mail::Try);
        }
        changed
    }

    /// Takes the last seat.
    pub(crate) fn join(&self, wish: W) -> Arc<Seat<W, P>> {
        let make = |number| Seat { number, wish, mail: Mutex::new(Mail::Nothing), bell: Notify::new() };
        let seat = self.change(|seats| seats.join(make));
        if self.closed.load(Ordering::Acquire) {
            self.close();
        }
        seat
    }

    pub(crate) fn is_first(&self, seat: &Seat<W, P>) -> bool {
        self.seats().first_number() == Some(seat.number)
    }

    /// The first of them, in their order.
    pub(crate) fn first(&self, most: usize) -> Vec<Arc<Seat<W, P>>> {
        self.seats().iter().take(most).cloned().collect()
    }

    /// Gives these waiters what they waited for.
    pub(crate) fn serve(&self, served: Vec<(Arc<Seat<W, P>>, P)>) {
        self.change(|seats| {
            for (seat, _) in &served {
                seats.remove(seat.number);
            }
        });
        for (seat, prize) in served {
            seat.post(Mail::Won(prize));
        }
    }

    /// Goes away, with or without a prize. One that was not taken is dropped.
    pub(crate) fn leave(&self, seat: &Seat<W, P>) {
        let left = std::mem::replace(&mut *seat.mail(), Mail::Gone);
        self.change(|seats| seats.remove(seat.number));
        drop(left);
    }

    /// Waits for a prize, or until it is worth asking: the first listens, and asks after `pause`. Who was not there to
    /// take its prize gets another seat, the last.
    pub(crate) async fn turn(
        &self,
        seat: &mut Arc<Seat<W, P>>,
        ear: &Ear,
        pause: Option<Duration>,
    ) -> Result<Turn<P>, SyncError> {
        let deadline = pause.map(|pause| Instant::now() + pause);
        loop {
            let found = std::mem::replace(&mut *seat.mail(), Mail::Nothing);
            match found {
                Mail::Won(prize) => return Ok(Turn::Won(prize)),
                Mail::Lapsed => {
                    *seat = self.join(seat.wish.clone());
                    continue;
                }
                Mail::Closed => return Err(SyncError::Closed),
                Mail::Try => return Ok(Turn::Try),
                Mail::Nothing | Mail::Gone => {}
            }
            let is_first = self.is_first(seat);
            tokio::select! {
                () = seat.bell.notified() => {}
                () = ear.wakes(), if is_first => return Ok(Turn::Try),
                () = sleep_until(deadline), if is_first => return Ok(Turn::Try),
            }
        }
    }

    /// Ends every wait, those too that begin later.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut seats = self.seats();
        seats.iter().for_each(|seat| seat.post(Mail::Closed));
        seats.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(row: &Row<u32, ()>) -> Vec<u32> {
        row.first(usize::MAX).iter().map(|seat| seat.wish).collect()
    }

    #[test]
    fn each_leaves_from_wherever_it_sits_and_the_first_is_told() {
        let row: Row<u32, ()> = Row::default();
        let [first, second, third, _, last] = [0, 1, 2, 3, 4].map(|wish| row.join(wish));
        row.leave(&last);
        row.serve(vec![(third.clone(), ())]);
        assert_eq!(waiting(&row), [0, 1, 3]);
        assert!(third.take_prize().is_some() && !matches!(*second.mail(), Mail::Try));
        row.leave(&first);
        assert!(row.is_first(&second) && matches!(*second.mail(), Mail::Try));
        row.close();
        let late = row.join(5);
        // Who left is not taken for who came.
        row.leave(&first);
        assert!(matches!(*late.mail(), Mail::Closed) && waiting(&row).is_empty());
    }
}
