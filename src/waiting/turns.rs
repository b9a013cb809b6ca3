//! Taking turns: who of this process is the next to have one lock, and when others are to get their chance. It knows
//! neither Redis nor what is handed over. Rule 16 of docs/PROTOCOL.md.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::waiting::others::Others;
use crate::waiting::waiters::{Mail, Waiter, Waiters};
use crate::wire::table::Role;

/// Acquisitions in a row by one process while others listen. A newcomer of another process may miss one chance while
/// it subscribes, so that it is served within 2 x 48 < 100 of its arrival. Of those that need no script more may follow
/// one another while nobody else was heard of ..
const LONGEST_RUN: u32 = 48;
/// .. and for so long where several others were, as the way from each process to the next takes longer than 48 of them.
const CROWDED_RUN_TIME: Duration = Duration::from_millis(2);
/// And the time that they may take, whoever listens.
pub(crate) const LONGEST_RUN_TIME: Duration = Duration::from_millis(20);

/// The holds `H` of one lock in this process, and those who wait with a wish `W` to be given a `P`.
pub(crate) struct Turns<H, W, P> {
    /// The one that is no read hold, with its id. What is known here of a holder decides who is woken, never whether
    /// the server is asked.
    holder: Option<(u64, Weak<H>)>,
    /// The read holds, by their ids.
    readers: BTreeMap<u64, Weak<H>>,
    waiters: Waiters<W, P>,
    /// How many of the waiters are no readers.
    other_waiters: usize,
    /// Acquisitions in a row by this process, how many of them took a script, and since when.
    run: u32,
    scripts: u32,
    run_began: Option<Moment>,
    /// When this process last asked the server for the lock, whoever headed the line.
    asked: Option<Moment>,
    pub(crate) others: Others,
    /// Whom a waiter would keep out.
    role: fn(&W) -> Role,
}

impl<H, W, P> Turns<H, W, P> {
    pub(crate) fn new(role: fn(&W) -> Role) -> Self {
        Self {
            holder: None,
            readers: BTreeMap::new(),
            waiters: Waiters::default(),
            other_waiters: 0,
            run: 0,
            scripts: 0,
            run_began: None,
            asked: None,
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
        let waiter = Waiter::join(&mut self.waiters, wish);
        if is_next {
            self.tell(&waiter);
        }
        waiter
    }

    /// Whether this is the first: only that one listens and polls.
    pub(crate) fn is_head(&self, waiter: &Waiter<W, P>) -> bool {
        waiter.is_first(&self.waiters)
    }

    /// The server is asked for the lock now: that is for all of the line.
    pub(crate) fn asks(&mut self, now: Moment) {
        self.asked = self.asked.max(Some(now));
    }

    /// Since when the head of the line, which waits since `began`, was not asked for: whoever headed it before left
    /// what it had waited to the next.
    pub(crate) fn unasked_since(&self, began: Moment) -> Moment {
        self.asked.map_or(began, |asked| asked.max(began))
    }

    /// Whether others than this one wait.
    pub(crate) fn has_others(&self, waiter: &Waiter<W, P>) -> bool {
        self.waiters.len() > usize::from(self.waiters.has(waiter))
    }

    /// It is worth asking, for the head.
    pub(crate) fn try_now(&self, waiter: &Waiter<W, P>) {
        if self.is_head(waiter) {
            waiter.post(Mail::Try);
        }
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
        let was_head = self.is_head(waiter);
        self.take_out(waiter);
        if was_head {
            // A wake-up that it did not use is passed on.
            self.wake();
        }
        left
    }

    /// A hold of this process began, by a script that was sent at `since`.
    pub(crate) fn took(&mut self, hold: &Arc<H>, role: Role, id: u64, since: Moment) {
        self.scripts += 1;
        self.asks(since);
        self.goes_on(hold, role, id, since);
    }

    /// The same, without a script of its own: the server has it from the one at `since`.
    pub(crate) fn goes_on(&mut self, hold: &Arc<H>, role: Role, id: u64, since: Moment) {
        let is_reader = role == Role::Read;
        if is_reader {
            self.readers.insert(id, Arc::downgrade(hold));
        } else {
            self.readers.clear();
            self.holder = Some((id, Arc::downgrade(hold)));
        }
        self.others.stop();
        self.run += 1;
        self.run_began.get_or_insert(since);
        if is_reader {
            self.wake();
        }
    }

    /// A hold of this process is over or lost.
    pub(crate) fn ended(&mut self, id: u64) {
        let was_holder = self.holder.take_if(|(holder, _)| *holder == id).is_some();
        if !was_holder && self.readers.remove(&id).is_none() {
            return;
        }
        // A writer is told of the last one only.
        let is_writer = self.waiters.first().is_some_and(|head| (self.role)(&head.wish) == Role::Write);
        if !self.is_held() || !is_writer {
            self.wake();
        }
    }

    /// Whether somebody of this process waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Whether nobody of this process has it or waits for it, and no others are to go first.
    pub(crate) fn is_idle(&self, now: Moment) -> bool {
        let others_first = self.others.until().is_some_and(|until| !until.since(now).is_zero());
        !self.is_held() && !self.is_waited_for() && !others_first
    }

    /// The hold of this process that shares the lock with nobody.
    pub(crate) fn holder(&self) -> Option<Arc<H>> {
        self.holder.as_ref().and_then(|(_, hold)| hold.upgrade())
    }

    /// The holds of this process.
    pub(crate) fn holds(&self) -> Vec<Arc<H>> {
        let holder = self.holder.iter().map(|(_, hold)| hold);
        holder.chain(self.readers.values()).filter_map(Weak::upgrade).collect()
    }

    /// The server says that it is busy: if nobody here holds it, another process does, and this one's run is over.
    pub(crate) fn busy_elsewhere(&mut self) {
        if !self.is_held() {
            self.end_run();
            self.others.have_it();
        }
    }

    /// The one place that decides between handing over here and letting others in: who is next here, if anybody, and
    /// whether this was the last of a run, so that others must get their chance now.
    pub(crate) fn next(&mut self, now: Moment, can_hand_over: bool) -> (Option<Arc<Waiter<W, P>>>, bool) {
        let time = self.run_began.map_or(Duration::ZERO, |began| now.since(began));
        let counts_turns = match self.others.listeners() {
            0 => false,
            1 => true,
            _ => time >= CROWDED_RUN_TIME,
        };
        let counted = if counts_turns { self.run } else { self.scripts };
        if counted >= LONGEST_RUN || time >= LONGEST_RUN_TIME {
            self.end_run();
            return (None, true);
        }
        let heir = if can_hand_over { self.waiters.pop_first() } else { None };
        if let Some(heir) = &heir {
            self.other_waiters -= usize::from((self.role)(&heir.wish) != Role::Read);
            self.ring();
        }
        (heir, false)
    }

    /// The hand-over did not happen: the waiter is the head again.
    pub(crate) fn put_back(&mut self, heir: Arc<Waiter<W, P>>) {
        if !heir.is_gone() {
            self.other_waiters += usize::from((self.role)(&heir.wish) != Role::Read);
            self.waiters.insert(heir);
        }
        self.wake();
    }

    /// Ends every wait, and says who asked for all.
    pub(crate) fn close(&self) -> Option<Arc<Waiter<W, P>>> {
        for waiter in self.waiters.iter() {
            waiter.post(Mail::Closed);
        }
        self.waiters.first().cloned()
    }

    fn end_run(&mut self) {
        (self.run, self.scripts, self.run_began) = (0, 0, None);
    }

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
        let was_there = self.waiters.remove(waiter);
        self.other_waiters -= usize::from(was_there && (self.role)(&waiter.wish) != Role::Read);
        was_there
    }

    fn tell(&self, waiter: &Waiter<W, P>) {
        if self.lets_in((self.role)(&waiter.wish)) {
            waiter.post(Mail::Try);
        }
    }

    /// Tells the head, unless the holds of this process keep it waiting. Then it looks from time to time.
    fn wake(&self) {
        self.ring();
        if let Some(head) = self.waiters.first() {
            self.tell(head);
        }
    }

    /// Tells the head that it may have become that.
    fn ring(&self) {
        if let Some(head) = self.waiters.first() {
            head.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1);

    fn turns() -> Turns<Role, Role, ()> {
        Turns::new(|role| *role)
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
        turns.ended(1);
        assert!(is_told(&third) && turns.holds().is_empty());
        let (Some(heir), false) = turns.next(NOW, true) else { panic!("nobody is next") };
        turns.put_back(heir);
        assert!(turns.is_head(&third) && is_told(&third), "nobody is left to tell it");
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
    fn turns_without_scripts_are_few_where_others_listen() {
        let (mut turns, hold) = (turns(), Arc::new(Role::Exclusive));
        let _waiters: Vec<_> = (0..200).map(|_| turns.join(Role::Exclusive)).collect();
        turns.took(&hold, *hold, 1, NOW);
        for number in 2..=100 {
            assert!(!turns.next(NOW, true).1, "{number}: nobody else was heard of");
            turns.goes_on(&hold, *hold, number, NOW);
        }
        turns.others.begin(NOW, false, Some(1));
        assert!(turns.next(NOW, true).1);
        turns.took(&hold, *hold, 101, NOW);
        for number in 102..101 + u64::from(LONGEST_RUN) {
            assert!(!turns.next(NOW, true).1, "{number}");
            turns.goes_on(&hold, *hold, number, NOW);
        }
        assert!(turns.next(NOW, true).1);
    }

    #[test]
    fn turns_without_scripts_have_their_time_where_several_others_listen() {
        let (mut turns, hold) = (turns(), Arc::new(Role::Exclusive));
        let _waiters: Vec<_> = (0..200).map(|_| turns.join(Role::Exclusive)).collect();
        turns.others.begin(NOW, false, Some(2));
        turns.took(&hold, *hold, 1, NOW);
        let soon = NOW.after(CROWDED_RUN_TIME - Duration::from_nanos(1));
        for number in 2..=100 {
            assert!(!turns.next(soon, true).1, "{number}");
            turns.goes_on(&hold, *hold, number, NOW);
        }
        assert!(turns.next(NOW.after(CROWDED_RUN_TIME), true).1);
        // Of few turns each takes long: they are counted as where one other listens.
        turns.took(&hold, *hold, 101, NOW);
        for number in 102..101 + u64::from(LONGEST_RUN) {
            assert!(!turns.next(NOW.after(CROWDED_RUN_TIME), true).1, "{number}");
            turns.goes_on(&hold, *hold, number, NOW);
        }
        assert!(turns.next(NOW.after(CROWDED_RUN_TIME), true).1);
        // And scripts are counted however soon they come.
        for number in 1..u64::from(LONGEST_RUN) {
            turns.took(&hold, *hold, 200 + number, NOW);
            assert!(!turns.next(NOW, true).1, "{number}");
        }
        turns.took(&hold, *hold, 300, NOW);
        assert!(turns.next(NOW, true).1);
    }

    #[test]
    fn who_becomes_the_head_goes_on_waiting_where_the_one_before_was() {
        let (mut turns, ms) = (turns(), |ms| NOW.after(Duration::from_millis(ms)));
        let waiters = [Role::Exclusive; 3].map(|role| turns.join(role));
        assert_eq!(turns.unasked_since(ms(1)), ms(1), "nobody asked yet");
        turns.asks(ms(500));
        assert_eq!(turns.unasked_since(ms(900)), ms(900), "who comes now waits no shorter than others");
        turns.leave(&waiters[0]);
        assert_eq!(turns.unasked_since(ms(1)), ms(500));
        turns.took(&Arc::new(Role::Exclusive), Role::Exclusive, 1, ms(700));
        assert_eq!(turns.unasked_since(ms(1)), ms(700), "that it was this process's is known since then");
        turns.asks(ms(600));
        assert_eq!(turns.unasked_since(ms(1)), ms(700), "an older answer that comes later");
    }

    #[test]
    fn who_waits_besides_is_known() {
        let mut turns = turns();
        assert!(!turns.is_waited_for() && turns.is_idle(NOW));
        let [first, second] = [Role::Exclusive; 2].map(|role| turns.join(role));
        assert!(turns.is_waited_for() && turns.has_others(&first));
        turns.leave(&second);
        assert!(!turns.has_others(&first), "it is the only one");
        assert!(!turns.is_idle(NOW), "nobody has it, and one waits");
        assert!(turns.has_others(&second), "which has left");
        turns.leave(&first);
        assert!(!turns.has_others(&first));
    }

    /// A reader that arrives beside readers is told at once, unless somebody waits who is none: also one to whom the
    /// lock was handed, and who did not take it.
    #[test]
    fn whom_a_writer_keeps_out_is_counted() {
        let mut turns = turns();
        let hold = Arc::new(Role::Read);
        turns.took(&hold, *hold, 1, NOW);
        let writer = turns.join(Role::Write);
        turns.join(Role::Read);
        let (Some(heir), false) = turns.next(NOW, true) else { panic!("the writer is next") };
        assert!(Arc::ptr_eq(&heir, &writer));
        assert!(is_told(&turns.join(Role::Read)), "no writer waits any more");
        turns.put_back(heir);
        assert!(!is_told(&turns.join(Role::Read)), "it does again");
    }

    /// Whoever stands behind one that was let in is told, and nobody where none was.
    #[test]
    fn who_was_served_wakes_the_next() {
        let mut turns = turns();
        let waiters = [Role::Read; 2].map(|role| turns.join(role));
        assert!(is_told(&waiters[0]));
        turns.served(&waiters);
        assert!(!is_told(&waiters[0]), "none of them was");
        waiters[0].post(Mail::Won(()));
        turns.served(&waiters);
        assert!(turns.is_head(&waiters[1]) && is_told(&waiters[1]));
    }

    #[test]
    fn who_has_it_is_not_idle() {
        let (mut turns, hold) = (turns(), Arc::new(Role::Exclusive));
        turns.took(&hold, *hold, 1, NOW);
        assert!(!turns.is_idle(NOW) && !turns.is_waited_for());
        turns.ended(1);
        assert!(turns.is_idle(NOW));
    }

    #[test]
    fn who_has_it_stands_aside_for_nobody() {
        let (mut turns, hold) = (turns(), Arc::new(Role::Exclusive));
        turns.others.begin(NOW, false, Some(1));
        assert!(!turns.is_idle(NOW), "others go first");
        assert!(turns.is_idle(NOW.after(Duration::from_secs(1))), "none came");
        turns.took(&hold, *hold, 1, NOW);
        turns.ended(1);
        assert!(turns.is_idle(NOW));
        turns.others.begin(NOW, false, Some(1));
        turns.busy_elsewhere();
        assert!(turns.is_idle(NOW), "the other one came");
        turns.took(&hold, *hold, 2, NOW);
        turns.others.begin(NOW, false, Some(1));
        turns.busy_elsewhere();
        assert!(turns.others.until().is_some(), "busy as it is held here");
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
    /// It looks from time to time from then on, which those behind it do not.
    #[test]
    fn who_becomes_the_head_is_rung_for() {
        use futures::future::FutureExt;
        let mut turns: Turns<(), (), ()> = Turns::new(|()| Role::Exclusive);
        let [first, second, third, fourth] = [(); 4].map(|()| turns.join(()));
        let rung = |waiter: &Waiter<(), ()>| waiter.bell.notified().now_or_never().is_some();
        assert!(rung(&first) && !rung(&second));
        let Some(heir) = turns.next(Moment::from_nanos(1), true).0 else { panic!("somebody waits") };
        assert!(Arc::ptr_eq(&heir, &first) && rung(&second) && !rung(&third));
        let _ = turns.leave(&second);
        assert!(rung(&third) && !rung(&fourth));
        turns.put_back(heir);
        assert!(rung(&first) && !rung(&fourth));
    }
}
