//! Those of this process who wait for one thing, in the order of their arrival, and the mailbox of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::lease::watchdog::Claim;

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

/// One waiter: what it wants, and what it was given.
pub(crate) struct Waiter<W, P> {
    /// Among those who wait for the same.
    number: u64,
    pub(crate) wish: W,
    mail: Mutex<Mail<P>>,
    /// Rung when there is mail.
    pub(crate) bell: Notify,
    lapsed: fn(&W),
}

impl<W, P> Waiter<W, P> {
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
}

impl<W: Send + Sync, P: Send> Claim for Waiter<W, P> {
    fn is_open(&self) -> bool {
        matches!(*self.mail.lock(), Mail::Won(_))
    }

    fn lapse(&self) {
        let mut mail = self.mail.lock();
        if !matches!(*mail, Mail::Won(_)) {
            return;
        }
        // Dropped outside of the lock, the prize gives itself back.
        let prize = std::mem::replace(&mut *mail, Mail::Lapsed);
        drop(mail);
        drop(prize);
        (self.lapsed)(&self.wish);
    }
}

/// Each is found by its number, from wherever it leaves.
pub(crate) struct Waiters<W, P> {
    waiting: BTreeMap<u64, Arc<Waiter<W, P>>>,
    next: u64,
    /// Told of one that did not take its prize in time.
    lapsed: fn(&W),
}

impl<W, P> Default for Waiters<W, P> {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl<W, P> Waiters<W, P> {
    pub(crate) fn new(lapsed: fn(&W)) -> Self {
        Self { waiting: BTreeMap::new(), next: 0, lapsed }
    }

    /// Behind all others, with a number that nobody else has.
    pub(crate) fn join(&mut self, wish: W) -> Arc<Waiter<W, P>> {
        let number = self.next;
        self.next += 1;
        let (mail, bell, lapsed) = (Mutex::new(Mail::Nothing), Notify::new(), self.lapsed);
        let joined = Arc::new(Waiter { number, wish, mail, bell, lapsed });
        self.waiting.insert(number, joined.clone());
        joined
    }

    pub(crate) fn first(&self) -> Option<&Arc<Waiter<W, P>>> {
        self.waiting.first_key_value().map(|(_, first)| first)
    }

    pub(crate) fn is_first(&self, waiter: &Waiter<W, P>) -> bool {
        self.first().is_some_and(|first| first.number == waiter.number)
    }

    /// Takes it out; `None` if it was not there.
    pub(crate) fn remove(&mut self, waiter: &Waiter<W, P>) -> Option<Arc<Waiter<W, P>>> {
        self.waiting.remove(&waiter.number)
    }

    pub(crate) fn pop(&mut self) -> Option<Arc<Waiter<W, P>>> {
        self.waiting.pop_first().map(|(_, first)| first)
    }

    /// To where it was.
    pub(crate) fn put_back(&mut self, back: Arc<Waiter<W, P>>) {
        self.waiting.insert(back.number, back);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Waiter<W, P>>> {
        self.waiting.values()
    }

    /// Numbers go on.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
