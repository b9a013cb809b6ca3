//! Those of this process who wait for one thing, in the order of their arrival: the first asks the server, in the name
//! of all.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::attempt::sleep_until;
use crate::ear::Ear;
use crate::error::SyncError;
use crate::wait::Turn;
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
    seats: Mutex<VecDeque<Arc<Seat<W, P>>>>,
    closed: AtomicBool,
}

impl<W, P> Default for Row<W, P> {
    fn default() -> Self {
        Self { seats: Mutex::default(), closed: AtomicBool::new(false) }
    }
}

impl<W, P> Row<W, P> {
    fn seats(&self) -> MutexGuard<'_, VecDeque<Arc<Seat<W, P>>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes who waits, and tells whoever is the first by that.
    fn change(&self, change: impl FnOnce(&mut VecDeque<Arc<Seat<W, P>>>)) {
        let mut seats = self.seats();
        let before = seats.front().cloned();
        change(&mut seats);
        let same = |now: &&Arc<Seat<W, P>>| before.as_ref().is_some_and(|before| Arc::ptr_eq(before, now));
        if let Some(first) = seats.front().filter(|first| !same(first)) {
            first.post(Mail::Try);
        }
    }

    /// Takes the last seat.
    pub(crate) fn join(&self, wish: W) -> Arc<Seat<W, P>> {
        let seat = Arc::new(Seat { wish, mail: Mutex::new(Mail::Nothing), bell: Notify::new() });
        self.line_up(&seat);
        seat
    }

    /// To the end of the row.
    fn line_up(&self, seat: &Arc<Seat<W, P>>) {
        self.change(|seats| seats.push_back(seat.clone()));
        if self.closed.load(Ordering::Acquire) {
            self.close();
        }
    }

    pub(crate) fn is_first(&self, seat: &Arc<Seat<W, P>>) -> bool {
        self.seats().front().is_some_and(|first| Arc::ptr_eq(first, seat))
    }

    /// The first of them, in their order.
    pub(crate) fn first(&self, most: usize) -> Vec<Arc<Seat<W, P>>> {
        self.seats().iter().take(most).cloned().collect()
    }

    /// Gives these waiters what they waited for.
    pub(crate) fn serve(&self, served: Vec<(Arc<Seat<W, P>>, P)>) {
        let gone: HashSet<_> = served.iter().map(|(seat, _)| Arc::as_ptr(seat)).collect();
        self.change(|seats| seats.retain(|seat| !gone.contains(&Arc::as_ptr(seat))));
        for (seat, prize) in served {
            seat.post(Mail::Won(prize));
        }
    }

    /// Goes away, with or without a prize. One that was not taken is dropped.
    pub(crate) fn leave(&self, seat: &Arc<Seat<W, P>>) {
        let left = std::mem::replace(&mut *seat.mail(), Mail::Gone);
        self.change(|seats| seats.retain(|other| !Arc::ptr_eq(other, seat)));
        drop(left);
    }

    /// Waits for a prize, or until it is worth asking: the first listens, and asks after `pause`.
    pub(crate) async fn turn(
        &self,
        seat: &Arc<Seat<W, P>>,
        ear: &Ear,
        pause: Option<Duration>,
    ) -> Result<Turn<P>, SyncError> {
        let deadline = pause.map(|pause| Instant::now() + pause);
        loop {
            let mail = std::mem::replace(&mut *seat.mail(), Mail::Nothing);
            match mail {
                Mail::Won(prize) => return Ok(Turn::Won(prize)),
                Mail::Lapsed => self.line_up(seat),
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
        for seat in std::mem::take(&mut *self.seats()) {
            seat.post(Mail::Closed);
        }
    }
}
