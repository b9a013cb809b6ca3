//! Taking turns: who of this process is the next to have one lock, and when other processes get their chance. It knows
//! neither Redis nor what is handed over. Rule 16 of docs/PROTOCOL.md.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::waiting::aside::{Aside, Others};
use crate::waiting::waiters::{Mail, Waiter, Waiters};
use crate::wire::table::Role;

/// Acquisitions in a row by one process while others listen. A newcomer of another process may miss one chance while it
/// subscribes, so that it is served within 2 x 32 < 100 of its arrival.
const LONGEST_RUN: u32 = 32;
/// And the time that they may take.
const LONGEST_RUN_TIME: Duration = Duration::from_millis(20);

/// The holds `H` of one lock in this process, and those who wait with a wish `W` to be given a `P`.
pub(crate) struct Turns<H, W, P> {
    /// The hold of this process that keeps others out, and its read holds. What is known here of a holder decides who
    /// is woken, never whether the server is asked.
    holder: Option<Weak<H>>,
    readers: BTreeMap<u64, Weak<H>>,
    waiters: Waiters<W, P>,
    /// How many of the waiters are no readers.
    other_waiters: usize,
    /// Acquisitions in a row by this process, and since when.
    run: u32,
    run_began: Option<Moment>,
    others: Others,
    /// Whom a waiter would keep out.
    role: fn(&W) -> Role,
}

impl<H, W, P> Turns<H, W, P> {
    /// `lapsed` is told of a waiter that did not take in time what it was given.
    pub(crate) fn new(role: fn(&W) -> Role, lapsed: fn(&W)) -> Self {
        Self {
            holder: None,
            readers: BTreeMap::new(),
            waiters: Waiters::new(lapsed),
            other_waiters: 0,
            run: 0,
            run_began: None,
            others: Others::default(),
            role,
        }
    }

    /// A waiter arrives, behind all others.
    pub(crate) fn join(&mut self, wish: W) -> Arc<Waiter<W, P>> {
        // While readers are inside, one more need not wait for those that stand before it.
        let is_reader = (self.role)(&wish) == Role::Read;
        let is_next = self.waiters.is_empty() || (is_reader && self.is_held() && self.other_waiters == 0);
        self.other_waiters += usize::from(!is_reader);
        let waiter = self.waiters.join(wish);
        if is_next {
            self.tell(&waiter);
        }
        waiter
    }

    /// Whether this is the first: only that one listens and polls.
    pub(crate) fn is_head(&self, waiter: &Waiter<W, P>) -> bool {
        self.waiters.is_first(waiter)
    }

    /// The readers that stand first while readers may come in, each with what `free` says of it. Left out is whom it
    /// says nothing of.
    pub(crate) fn first_readers<F>(&self, free: impl Fn(&Waiter<W, P>) -> Option<F>) -> Vec<(Arc<Waiter<W, P>>, F)> {
        if !self.lets_in(Role::Read) {
            return Vec::new();
        }
        let readers = self.waiters.iter().take_while(|waiter| (self.role)(&waiter.wish) == Role::Read);
        readers.filter_map(|waiter| Some((waiter.clone(), free(waiter)?))).collect()
    }

    /// Who was given the lock stands in nobody's way, whether it knows yet or is gone with it.
    pub(crate) fn served(&mut self, waiters: &[Arc<Waiter<W, P>>]) {
        let served = waiters.iter().filter(|waiter| waiter.is_served());
        if served.filter(|waiter| self.take_out(waiter)).count() > 0 {
            self.wake();
        }
    }

    /// A waiter goes away, with or without the lock. Returns what it did not read: what had been handed over and was
    /// not taken goes back as it is dropped.
    pub(crate) fn leave(&mut self, waiter: &Waiter<W, P>) -> Mail<P> {
        let left = waiter.go();
        if matches!(left, Mail::Won(_) | Mail::Gone) {
            // It was taken out as the lock was handed over to it.
            return left;
        }
        let was_head = self.waiters.is_first(waiter);
        self.take_out(waiter);
        if was_head {
            // A wake-up that it did not use is passed on.
            self.wake();
        }
        left
    }

    /// A hold of this process began.
    pub(crate) fn took(&mut self, hold: &Arc<H>, role: Role, id: u64, since: Moment) {
        let (began, is_reader) = (Arc::downgrade(hold), role == Role::Read);
        if is_reader {
            self.readers.insert(id, began);
        } else {
            self.readers.clear();
            self.holder = Some(began);
        }
        self.others.took();
        self.run += 1;
        self.run_began.get_or_insert(since);
        if is_reader {
            self.wake();
        }
    }

    /// A hold of this process is over or lost.
    pub(crate) fn ended(&mut self, hold: &H, role: Role, id: u64) {
        let was_there = match role {
            Role::Read => self.readers.remove(&id).is_some(),
            _ => self.holder.take_if(|holder| std::ptr::eq(holder.as_ptr(), hold)).is_some(),
        };
        if was_there {
            self.wake_after_end();
        }
    }

    /// The holds of this process.
    pub(crate) fn holds(&self) -> Vec<Arc<H>> {
        self.holder.iter().chain(self.readers.values()).filter_map(Weak::upgrade).collect()
    }

    /// The server says that it is busy: if nobody here holds it, another process does, and this one's run is over.
    pub(crate) fn busy_elsewhere(&mut self) {
        if !self.is_held() {
            self.run = 0;
            self.run_began = None;
            self.others.have_it();
        }
    }

    /// The one place that decides between handing over here and letting others in: who is next here, if anybody, and
    /// whether this was the last of a run, so that others must get their chance now.
    pub(crate) fn next(&mut self, now: Moment, can_hand_over: bool) -> (Option<Arc<Waiter<W, P>>>, bool) {
        let long = self.run_began.is_some_and(|began| now.since(began) >= LONGEST_RUN_TIME);
        if self.run >= LONGEST_RUN || long {
            self.run = 0;
            self.run_began = None;
            return (None, true);
        }
        let heir = if can_hand_over { self.waiters.pop() } else { None };
        self.other_waiters -= usize::from(heir.as_ref().is_some_and(|heir| (self.role)(&heir.wish) != Role::Read));
        (heir, false)
    }

    /// The hand-over did not happen: the waiter is the head again.
    pub(crate) fn put_back(&mut self, heir: Arc<Waiter<W, P>>) {
        if !heir.is_gone() {
            self.other_waiters += usize::from((self.role)(&heir.wish) != Role::Read);
            self.waiters.put_back(heir);
        }
        self.wake();
    }

    /// The last release of a run: see [`Others::begin`].
    pub(crate) fn stand_aside(&mut self, now: Moment, own: bool, others: Option<u32>) {
        self.others.begin(now, own, others);
    }

    /// A message came while standing aside.
    pub(crate) fn heard_aside(&mut self, now: Moment) {
        self.others.heard(now);
    }

    /// Whether to stand aside still.
    pub(crate) fn aside(&self) -> Option<Aside> {
        self.others.aside()
    }

    /// Nobody else comes: standing aside is over.
    pub(crate) fn end_aside(&mut self) {
        self.others.end();
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        for waiter in self.waiters.iter() {
            waiter.post(Mail::Closed);
        }
    }
}

impl<H, W, P> Turns<H, W, P> {
    fn is_held(&self) -> bool {
        self.holder.is_some() || !self.readers.is_empty()
    }

    /// Whether the holds of this process keep nobody of this role waiting. A writer goes to ask although there are
    /// readers inside, as other processes' readers let it go first then.
    fn lets_in(&self, role: Role) -> bool {
        match role {
            Role::Exclusive => !self.is_held(),
            Role::Read | Role::Write => self.holder.is_none(),
        }
    }

    /// `true` if it was there.
    fn take_out(&mut self, waiter: &Waiter<W, P>) -> bool {
        let was_there = self.waiters.remove(waiter).is_some();
        self.other_waiters -= usize::from(was_there && (self.role)(&waiter.wish) != Role::Read);
        was_there
    }

    fn tell(&self, waiter: &Waiter<W, P>) {
        if self.lets_in((self.role)(&waiter.wish)) {
            waiter.post(Mail::Try);
        }
    }

    /// Tells the head, unless the holds of this process keep it waiting.
    fn wake(&self) {
        if let Some(head) = self.waiters.first() {
            self.tell(head);
        }
    }

    /// A hold ended. A writer is told of the last one only.
    fn wake_after_end(&self) {
        let is_writer = self.waiters.first().is_some_and(|head| (self.role)(&head.wish) == Role::Write);
        if !self.is_held() || !is_writer {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1);

    fn turns() -> Turns<Role, Role, ()> {
        Turns::new(|role| *role, |_| ())
    }

    fn is_told(waiter: &Waiter<Role, ()>) -> bool {
        matches!(waiter.take_mail(), Mail::Try)
    }

    #[test]
    fn a_turn_that_is_not_used_is_passed_on() {
        let mut turns = turns();
        let [first, second, third] = [Role::Exclusive; 3].map(|role| turns.join(role));
        assert!(is_told(&first) && !is_told(&second));
        turns.leave(&second);
        turns.leave(&first);
        assert!(turns.is_head(&third) && is_told(&third));
        let fourth = turns.join(Role::Exclusive);
        let hold = Arc::new(Role::Exclusive);
        turns.took(&hold, *hold, 1, NOW);
        let (Some(heir), false) = turns.next(NOW, true) else { panic!("nobody is next") };
        assert!(Arc::ptr_eq(&heir, &third) && !turns.is_head(&third));
        turns.put_back(heir);
        assert!(turns.is_head(&third) && !is_told(&third), "before who came later; the holder keeps it waiting");
        turns.ended(&hold, *hold, 1);
        assert!(is_told(&third) && turns.holds().is_empty());
        turns.leave(&third);
        turns.leave(&fourth);
        assert!(matches!(turns.next(NOW, true), (None, false)));
    }

    #[test]
    fn others_get_their_chance_after_a_run() {
        let mut turns = turns();
        let _waiters: Vec<_> = (0..100).map(|_| turns.join(Role::Exclusive)).collect();
        for (number, hold) in (1..=2 * LONGEST_RUN).map(|number| (number, Arc::new(Role::Exclusive))) {
            turns.took(&hold, *hold, number.into(), NOW);
            assert_eq!(turns.next(NOW, true).1, number % LONGEST_RUN == 0, "{number}");
        }
        turns.took(&Arc::new(Role::Exclusive), Role::Exclusive, 100, NOW);
        assert!(turns.next(NOW.after(LONGEST_RUN_TIME), true).1);
    }

    #[test]
    fn readers_come_along_until_a_writer_stands_before_them() {
        let mut turns = turns();
        let readers = [Role::Read; 3].map(|role| turns.join(role));
        assert_eq!(turns.first_readers(|_| Some(())).len(), 3);
        let hold = Arc::new(Role::Read);
        turns.took(&hold, *hold, 1, NOW);
        turns.leave(&readers[0]);
        assert!(is_told(&turns.join(Role::Read)), "it need not wait for those before it");
        turns.join(Role::Write);
        assert!(!is_told(&turns.join(Role::Read)));
        for reader in &readers {
            turns.leave(reader);
        }
        assert_eq!(turns.first_readers(|_| Some(())).len(), 1);
        turns.took(&Arc::new(Role::Write), Role::Write, 2, NOW);
        assert!(turns.first_readers(|_| Some(())).is_empty());
    }
}
