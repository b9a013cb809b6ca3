//! The line for one lock in this process: its entries, its holder, its FIFO of waiters, and when to let other processes
//! in. Rule 16 of docs/PROTOCOL.md.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use crate::aside::{Aside, Others};
use crate::clock::Moment;
use crate::crowd::Crowd;
use crate::fifo::Fifo;
use crate::hold::{Forgotten, Hold, Slot};
use crate::janitor::say;
use crate::keys::Keys;
use crate::kind::{Role, Table};
use crate::lease::Lease;
use crate::registry::{Listed, Registry};
use crate::release::Gate;
use crate::ticket::Ticket;
use crate::watchdog::Claim;

/// Acquisitions in a row by one process while others listen. A newcomer of another process may miss one chance while it
/// subscribes, so that it is served within 2 x 32 < 100 of its arrival.
const LONGEST_RUN: u32 = 32;
/// And the time that they may take.
const LONGEST_RUN_TIME: Duration = Duration::from_millis(20);

/// What a waiter finds.
#[derive(Default)]
pub(crate) enum Mail {
    #[default]
    Nothing,
    /// It is worth asking: nobody here keeps it waiting.
    Try,
    /// The lock was handed over to it.
    Granted(Ticket),
    /// It was handed over to it, and it did not take it in time: it has left the line by that.
    Lapsed,
    Closed,
    /// It went away, or has its ticket.
    Gone,
}

/// A waiter's place in the line.
pub(crate) struct Place {
    /// In the line.
    number: u64,
    pub(crate) slot: Arc<Slot>,
    pub(crate) kind: &'static Table,
    pub(crate) lease: Lease,
    mail: Mutex<Mail>,
    pub(crate) bell: Notify,
}

impl Place {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_mail(&self) -> Mail {
        let mut mail = self.mail();
        let left = if matches!(*mail, Mail::Granted(_)) { Mail::Gone } else { Mail::Nothing };
        std::mem::replace(&mut *mail, left)
    }

    /// The ticket, when it was handed over; other mail stays.
    pub(crate) fn take_ticket(&self) -> Option<Ticket> {
        let mut mail = self.mail();
        match std::mem::replace(&mut *mail, Mail::Gone) {
            Mail::Granted(ticket) => Some(ticket),
            other => {
                *mail = other;
                None
            }
        }
    }

    /// Leaves mail, unless something weightier lies there or nobody is there to read it.
    fn post(&self, new: Mail) {
        let mut mail = self.mail();
        if matches!(*mail, Mail::Nothing | Mail::Try) {
            *mail = new;
            drop(mail);
            self.bell.notify_one();
        }
        // A ticket that is not delivered is dropped here, and gives its hold back.
    }

    /// Gives the lock to this waiter.
    pub(crate) fn grant(self: &Arc<Self>, ticket: Ticket) {
        let core = ticket.core.clone();
        self.post(Mail::Granted(ticket));
        let claim: Weak<Self> = Arc::downgrade(self);
        core.hand_out(claim);
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.mail(), Mail::Gone)
    }

    fn is_served(&self) -> bool {
        matches!(*self.mail(), Mail::Granted(_) | Mail::Gone)
    }

    /// Its entry, if an acquire may be sent for it: nothing else is under way, held or owed.
    fn entry(&self) -> Option<Gate> {
        let gate = self.slot.gate.clone().try_lock_owned().ok()?;
        (gate.release.is_none() && !gate.unanswered && self.slot.count() == 0 && !self.is_gone()).then_some(gate)
    }
}

impl Claim for Place {
    fn is_open(&self) -> bool {
        matches!(*self.mail(), Mail::Granted(_))
    }

    fn lapse(&self) {
        let mut mail = self.mail();
        if !matches!(*mail, Mail::Granted(_)) {
            return;
        }
        // Dropped outside of the lock, the ticket gives its hold back.
        let ticket = std::mem::replace(&mut *mail, Mail::Lapsed);
        drop(mail);
        drop(ticket);
        let name = &*self.slot.line.keys.name;
        say(|| tracing::warn!(target: "lockson", name, "handed over to a future that nobody polls: on to the next"));
    }
}

/// What a release does.
pub(crate) enum Next {
    HandOver(Arc<Place>),
    /// `last_of_run`: others must get their chance now.
    Release {
        last_of_run: bool,
    },
}

#[derive(Default)]
struct State {
    /// The hold of this process that keeps others out, and its read holds. What is known here of a holder decides who
    /// is woken, never whether the server is asked.
    holder: Option<Weak<Hold>>,
    readers: BTreeMap<u64, Weak<Hold>>,
    queue: Fifo<Place>,
    /// How many of the queue are no readers.
    others_in_queue: usize,
    run: u32,
    run_began: Option<Moment>,
    others: Others,
}

pub(crate) struct Line {
    pub(crate) keys: Keys,
    /// The entry of each owner.
    pub(crate) entries: Registry<Slot>,
    state: Mutex<State>,
    /// The highest fencing token that this client has seen.
    token: AtomicU64,
    /// Those who wait in the server's queue.
    pub(crate) crowd: Crowd,
    /// One of this process at a time asks for the votes of a red lock.
    pub(crate) candidates: Arc<Semaphore>,
    pub(crate) forgotten: Arc<Forgotten>,
    _listed: Listed<Line>,
}

impl Line {
    pub(crate) fn new(keys: Keys, registry: &Arc<Registry<Self>>, forgotten: &Arc<Forgotten>) -> Self {
        let listed = Listed::new(registry, &keys.channel);
        Self {
            keys,
            entries: Registry::default(),
            state: Mutex::default(),
            token: AtomicU64::new(0),
            crowd: Crowd::default(),
            candidates: Arc::new(Semaphore::new(1)),
            forgotten: forgotten.clone(),
            _listed: listed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of one owner.
    pub(crate) fn slot(self: &Arc<Self>, field: &Arc<str>) -> Arc<Slot> {
        self.entries.of(field, || Slot::new(self.clone(), field.clone()))
    }

    /// Takes a place at the end of the line.
    pub(crate) fn join(&self, slot: Arc<Slot>, kind: &'static Table, lease: Lease) -> Arc<Place> {
        let mut state = self.state();
        // While readers are inside, one more need not wait for those that stand before it.
        let is_read = kind.role == Role::Read && state.is_held();
        let is_next = state.queue.is_empty() || (is_read && state.others_in_queue == 0);
        state.others_in_queue += usize::from(kind.role != Role::Read);
        let make = |number| Place { number, slot, kind, lease, mail: Mutex::default(), bell: Notify::new() };
        let place = state.queue.join(make);
        if is_next {
            state.tell(&place);
        }
        place
    }

    /// Whether this place is the first: only that one listens and polls.
    pub(crate) fn is_head(&self, place: &Place) -> bool {
        self.state().queue.first_number() == Some(place.number)
    }

    /// The readers that stand first while readers may come in, each with its entry to itself. Left out is whoever does
    /// something else at this moment.
    pub(crate) fn readers(&self) -> Vec<(Arc<Place>, Gate)> {
        let state = self.state();
        if !state.lets_in(Role::Read) {
            return Vec::new();
        }
        state.readers().filter_map(|place| Some((place.clone(), place.entry()?))).collect()
    }

    /// Who was given the lock stands in nobody's way, whether it knows yet or is gone with it.
    pub(crate) fn served(&self, places: &[Arc<Place>]) {
        let mut state = self.state();
        let mut served = places.iter().filter(|place| place.is_served());
        if served.by_ref().filter(|place| state.take_out(place.number).is_some()).count() > 0 {
            state.wake();
        }
    }

    /// Leaves the line, with or without the lock. What had been handed over and was not taken goes back.
    pub(crate) fn leave(&self, place: &Place) {
        let left = std::mem::replace(&mut *place.mail(), Mail::Gone);
        if matches!(left, Mail::Granted(_) | Mail::Gone) {
            // It left the line as the lock was handed over to it.
            return;
        }
        let mut state = self.state();
        let was_head = state.queue.first_number() == Some(place.number);
        state.take_out(place.number);
        if was_head {
            // A wake-up that it did not use is passed on.
            state.wake();
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    pub(crate) fn saw_token(&self, token: u64) {
        self.token.fetch_max(token, Ordering::Relaxed);
    }

    /// A hold of this process began.
    pub(crate) fn took(&self, hold: &Arc<Hold>) {
        let mut state = self.state();
        let began = Arc::downgrade(hold);
        if hold.kind.role == Role::Read {
            state.readers.insert(hold.id, began);
        } else {
            state.readers.clear();
            state.holder = Some(began);
        }
        state.others.took();
        state.run += 1;
        state.run_began.get_or_insert(hold.since);
        if hold.kind.role == Role::Read {
            state.wake();
        }
    }

    /// A hold of this process is over or lost.
    pub(crate) fn ended(&self, hold: &Hold) {
        let mut state = self.state();
        let was_there = match hold.kind.role {
            Role::Read => state.readers.remove(&hold.id).is_some(),
            _ => state.holder.take_if(|holder| std::ptr::eq(holder.as_ptr(), hold)).is_some(),
        };
        if was_there {
            state.wake_after_end();
        }
    }

    /// The holds of this process.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        let state = self.state();
        state.holder.iter().chain(state.readers.values()).filter_map(Weak::upgrade).collect()
    }

    /// The server says that it is busy: if nobody here holds it, another process does, and this one's run is over.
    pub(crate) fn busy_elsewhere(&self) {
        let mut state = self.state();
        if !state.is_held() {
            state.run = 0;
            state.run_began = None;
            state.others.have_it();
        }
    }

    /// The one place that decides between handing over here and letting others in.
    pub(crate) fn next(&self, now: Moment, can_hand_over: bool) -> Next {
        let mut state = self.state();
        let long = state.run_began.is_some_and(|began| now.since(began) >= LONGEST_RUN_TIME);
        if state.run >= LONGEST_RUN || long {
            state.run = 0;
            state.run_began = None;
            return Next::Release { last_of_run: true };
        }
        if !can_hand_over {
            return Next::Release { last_of_run: false };
        }
        match state.queue.first_number().and_then(|number| state.take_out(number)) {
            Some(heir) => Next::HandOver(heir),
            None => Next::Release { last_of_run: false },
        }
    }

    /// The hand-over did not happen: the waiter is the head again.
    pub(crate) fn put_back(&self, heir: Arc<Place>) {
        let mut state = self.state();
        if !heir.is_gone() {
            state.put_back(heir);
        }
        state.wake();
    }

    /// The last release of a run: see [`Others::begin`].
    pub(crate) fn stand_aside(&self, now: Moment, own: bool, others: Option<u32>) {
        self.state().others.begin(now, own, others);
    }

    /// A message came while standing aside.
    pub(crate) fn heard_aside(&self, now: Moment) {
        self.state().others.heard(now);
    }

    /// Whether to stand aside still.
    pub(crate) fn aside(&self) -> Option<Aside> {
        self.state().others.aside()
    }

    /// Nobody else comes: standing aside is over.
    pub(crate) fn end_aside(&self) {
        self.state().others.end();
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        for place in self.state().queue.iter() {
            place.post(Mail::Closed);
        }
        drop(self.crowd.close());
    }

    /// Entries that are held or in use.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.entries.all()
    }
}

impl State {
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

    fn take_out(&mut self, number: u64) -> Option<Arc<Place>> {
        let place = self.queue.remove(number)?;
        self.others_in_queue -= usize::from(place.kind.role != Role::Read);
        Some(place)
    }

    fn put_back(&mut self, place: Arc<Place>) {
        self.others_in_queue += usize::from(place.kind.role != Role::Read);
        self.queue.put_back(place.number, place);
    }

    fn tell(&self, place: &Place) {
        if self.lets_in(place.kind.role) {
            place.post(Mail::Try);
        }
    }

    /// Tells the head, unless the holds of this process keep it waiting.
    fn wake(&self) {
        if let Some(head) = self.queue.first() {
            self.tell(head);
        }
    }

    /// The readers that stand first.
    fn readers(&self) -> impl Iterator<Item = &Arc<Place>> {
        self.queue.iter().take_while(|place| place.kind.role == Role::Read)
    }

    /// A hold ended. A writer is told of the last one only.
    fn wake_after_end(&self) {
        let is_writer = self.queue.first().is_some_and(|head| head.kind.role == Role::Write);
        if !self.is_held() || !is_writer {
            self.wake();
        }
    }
}
