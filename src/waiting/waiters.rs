//! Those of this process who wait for one thing, in the order of their arrival, and the mailbox of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::janitor::contain;

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

impl<P> Mail<P> {
    /// Whether other mail may take its place.
    fn is_light(&self) -> bool {
        matches!(self, Mail::Nothing | Mail::Try)
    }
}

/// Those who wait for one thing, in the order of their arrival: by their numbers.
pub(crate) struct Waiters<W, P> {
    /// Outside of the map, which takes 200 bytes for one as for ten: most wait alone.
    first: Option<Arc<Waiter<W, P>>>,
    others: BTreeMap<u64, Arc<Waiter<W, P>>>,
}

impl<W, P> Default for Waiters<W, P> {
    fn default() -> Self {
        Self { first: None, others: BTreeMap::new() }
    }
}

impl<W, P> Waiters<W, P> {
    pub(crate) fn insert(&mut self, waiter: Arc<Waiter<W, P>>) {
        let later = match self.first.take_if(|first| waiter.number < first.number) {
            Some(later) => {
                self.first = Some(waiter);
                later
            }
            None if self.first.is_some() => waiter,
            None => {
                self.first = Some(waiter);
                return;
            }
        };
        self.others.insert(later.number, later);
    }

    /// `true` if it was there.
    pub(crate) fn remove(&mut self, waiter: &Waiter<W, P>) -> bool {
        if waiter.is_first(self) {
            self.pop_first().is_some()
        } else {
            self.others.remove(&waiter.number).is_some()
        }
    }

    pub(crate) fn pop_first(&mut self) -> Option<Arc<Waiter<W, P>>> {
        let first = self.first.take();
        self.first = self.others.pop_first().map(|(_, next)| next);
        if self.first.is_none() {
            // An empty map keeps what it took.
            self.others = BTreeMap::new();
        }
        first
    }

    pub(crate) fn first(&self) -> Option<&Arc<Waiter<W, P>>> {
        self.first.as_ref()
    }

    pub(crate) fn has(&self, waiter: &Waiter<W, P>) -> bool {
        waiter.is_first(self) || self.others.contains_key(&waiter.number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Waiter<W, P>>> {
        self.first.iter().chain(self.others.values())
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

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
        waiters.insert(joined.clone());
        joined
    }

    pub(crate) fn is_first(&self, waiters: &Waiters<W, P>) -> bool {
        waiters.first().is_some_and(|first| first.number == self.number)
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
        if mail.is_light() {
            *mail = new;
            drop(mail);
            self.ring();
        }
    }

    /// Has it look. Its waker may be anybody's code, and whoever rings has others to see to.
    pub(crate) fn ring(&self) {
        contain(|| self.bell.notify_one());
    }

    /// It goes away. Returns what it did not read.
    pub(crate) fn go(&self) -> Mail<P> {
        std::mem::replace(&mut *self.mail.lock(), Mail::Gone)
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.mail.lock(), Mail::Gone)
    }

    /// Whether it would take what it is given.
    pub(crate) fn is_waiting(&self) -> bool {
        self.mail.lock().is_light()
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

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    /// A waker is anybody's code.
    #[test]
    fn a_waker_that_panics_is_not_heard_of() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("the waker does");
            }
        }
        let mut waiters: Waiters<(), u32> = Waiters::default();
        let waiter = Waiter::join(&mut waiters, ());
        let mut rung = std::pin::pin!(waiter.bell.notified());
        let waker = Arc::new(Panics).into();
        assert!(rung.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        waiter.post(Mail::Won(7));
        assert_eq!(waiter.take_prize(), Some(7));
    }

    #[test]
    fn they_stand_in_the_order_of_their_arrival() {
        let mut waiters: Waiters<(), ()> = Waiters::default();
        let all = [(); 4].map(|()| Waiter::join(&mut waiters, ()));
        let order = |waiters: &Waiters<(), ()>| waiters.iter().map(|waiter| waiter.number).collect::<Vec<_>>();
        let numbers = all.each_ref().map(|waiter| waiter.number);
        assert_eq!((order(&waiters), waiters.len()), (numbers.to_vec(), 4));
        let [first, second, third, fourth] = &all;
        assert!(waiters.remove(second) && !waiters.remove(second) && !waiters.has(second));
        assert!(waiters.pop_first().is_some_and(|popped| Arc::ptr_eq(&popped, first)));
        assert!(third.is_first(&waiters) && waiters.has(third) && waiters.has(fourth) && waiters.len() == 2);
        waiters.insert(second.clone());
        assert!(second.is_first(&waiters), "it came before");
        waiters.insert(first.clone());
        assert_eq!(order(&waiters), numbers);
        assert!(all.iter().all(|waiter| waiters.remove(waiter)));
        assert!(waiters.is_empty() && waiters.first().is_none() && waiters.pop_first().is_none());
    }
}
