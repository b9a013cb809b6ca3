//! Those of this process who wait for one thing, in the order of their arrival, and the mailbox of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// What a waiter finds.
pub(crate) enum Mail<P> {
    Nothing,
    /// It is worth asking: nobody here keeps it waiting.
    Try,
    /// It was given what it waits for.
    Won(P),
    /// It was given it, and did not take it in time: it has left those who wait by that.
    Lapsed,
    Closed,
    /// It went away, or has what it waited for.
    Gone,
}

/// Those who wait for one thing, by their numbers: in the order of their arrival.
pub(crate) type Waiters<W, P> = BTreeMap<u64, Arc<Waiter<W, P>>>;

/// One waiter: what it wants, and what it was given.
pub(crate) struct Waiter<W, P> {
    /// Nobody else has it. Who comes later has a higher one.
    pub(crate) number: u64,
    pub(crate) wish: W,
    mail: Mutex<Mail<P>>,
    /// Rung when there is mail.
    pub(crate) bell: Notify,
}

impl<W, P> Waiter<W, P> {
    /// Arrives behind all others.
    pub(crate) fn join(waiters: &mut Waiters<W, P>, wish: W) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let joined = Arc::new(Self { number, wish, mail: Mutex::new(Mail::Nothing), bell: Notify::new() });
        waiters.insert(number, joined.clone());
        joined
    }

    pub(crate) fn is_first(&self, waiters: &Waiters<W, P>) -> bool {
        waiters.first_key_value().is_some_and(|(first, _)| *first == self.number)
    }

    pub(crate) fn take_mail(&self) -> Mail<P> {
        let mut mail = self.mail.lock();
        let left = if matches!(*mail, Mail::Won(_)) { Mail::Gone } else { Mail::Nothing };
        std::mem::replace(&mut *mail, left)
    }

    /// What it was given, if anything; other mail stays.
    pub(crate) fn take_prize(&self) -> Option<P> {
        let mut mail = self.mail.lock();
        match std::mem::replace(&mut *mail, Mail::Gone) {
            Mail::Won(prize) => Some(prize),
            other => {
                *mail = other;
                None
            }
        }
    }

    /// Leaves mail, unless something weightier lies there or nobody is there to read it: then a prize is dropped here,
    /// and gives itself back.
    pub(crate) fn post(&self, new: Mail<P>) {
        let mut mail = self.mail.lock();
        if matches!(*mail, Mail::Nothing | Mail::Try) {
            *mail = new;
            drop(mail);
            self.bell.notify_one();
        }
    }

    /// It goes away. Returns what it did not read.
    pub(crate) fn go(&self) -> Mail<P> {
        std::mem::replace(&mut *self.mail.lock(), Mail::Gone)
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.mail.lock(), Mail::Gone)
    }

    /// Whether it was given what it waits for, be it that it knows yet or is gone with it.
    pub(crate) fn is_served(&self) -> bool {
        matches!(*self.mail.lock(), Mail::Won(_) | Mail::Gone)
    }
    /// It was given something a while ago: what it has not taken by now gives itself back, and the waiter finds, when
    /// it is polled, that it has to stand behind all others again. `false`: it took it, or has gone.
    pub(crate) fn lapse(&self) -> bool {
        let mut mail = self.mail.lock();
        let lapses = matches!(*mail, Mail::Won(_));
        let prize = lapses.then(|| std::mem::replace(&mut *mail, Mail::Lapsed));
        // Outside of the lock.
        drop(mail);
        drop(prize);
        lapses
    }
}
