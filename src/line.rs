//! The line for one lock in this process: its entries, its holder, its FIFO of waiters, and when to let other processes
//! in. Rule 16 of docs/PROTOCOL.md.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use crate::clock::Moment;
use crate::crowd::Crowd;
use crate::guard::Ticket;
use crate::hold::Slot;
use crate::janitor::say;
use crate::keys::Keys;
use crate::kind::{Role, Table};
use crate::lease::Lease;
use crate::release::Gate;
use crate::watchdog::Claim;

/// Acquisitions in a row by one process while others listen. A newcomer of another process may miss one chance while it
/// subscribes, so that it is served within 2 x 32 < 100 of its arrival.
const LONGEST_RUN: u32 = 32;
/// And the time that they may take.
const LONGEST_RUN_TIME: Duration = Duration::from_millis(20);
/// How long a process stands aside for the next of the others at most, when the last one that it stood aside for came
/// ..
const LONGEST_ASIDE: Duration = Duration::from_millis(50);
/// .. and when none came for a while: a subscription may linger without a waiter.
const SHORTEST_ASIDE: Duration = Duration::from_millis(2);
/// How long where no message tells whether anybody else waits.
const BLIND_ASIDE: Duration = Duration::from_micros(300);

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
        (gate.release.is_none() && self.slot.count() == 0 && !self.is_gone()).then_some(gate)
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

/// Standing aside for another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aside {
    /// When the next message has to come.
    pub(crate) until: Moment,
    /// Messages to come: one from each of the others, and one more when our own release is heard too. `None`: no
    /// message tells.
    left: Option<u32>,
    /// Runs of others that were heard of.
    came: u32,
    /// Whether our own release is still to be heard.
    own: bool,
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
    entries: HashMap<Arc<str>, Weak<Slot>>,
    purge_at: usize,
    /// The holds of this process: one, unless they are read holds.
    holders: Vec<(u64, Role)>,
    queue: VecDeque<Arc<Place>>,
    run: u32,
    run_began: Option<Moment>,
    aside: Option<Aside>,
    aside_span: Option<Duration>,
    /// How many others came the last time that fewer came than listened.
    rivals: Option<u32>,
}

pub(crate) struct Line {
    pub(crate) keys: Keys,
    state: Mutex<State>,
    /// The highest fencing token that this client has seen.
    token: AtomicU64,
    /// Those who wait in the server's queue.
    pub(crate) crowd: Crowd,
    /// One of this process at a time asks for the votes of a red lock.
    pub(crate) candidates: Arc<Semaphore>,
}

impl Line {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            state: Mutex::default(),
            token: AtomicU64::new(0),
            crowd: Crowd::default(),
            candidates: Arc::new(Semaphore::new(1)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of one owner.
    pub(crate) fn slot(self: &Arc<Self>, field: &Arc<str>) -> Arc<Slot> {
        let mut state = self.state();
        if let Some(slot) = state.entries.get(field).and_then(Weak::upgrade) {
            return slot;
        }
        if state.entries.len() >= state.purge_at {
            state.entries.retain(|_, slot| slot.strong_count() > 0);
            state.purge_at = (state.entries.len() * 2).max(16);
        }
        let slot = Arc::new(Slot::new(self.clone(), field.clone()));
        state.entries.insert(field.clone(), Arc::downgrade(&slot));
        slot
    }

    /// Takes a place at the end of the line.
    pub(crate) fn join(&self, slot: Arc<Slot>, kind: &'static Table, lease: Lease) -> Arc<Place> {
        let place = Arc::new(Place { slot, kind, lease, mail: Mutex::default(), bell: Notify::new() });
        self.line_up(&place);
        place
    }

    /// To the end of the line.
    pub(crate) fn line_up(&self, place: &Arc<Place>) {
        let mut state = self.state();
        // While readers are inside, one more need not wait for those that stand before it.
        let is_read = place.kind.role == Role::Read && !state.holders.is_empty();
        if state.queue.is_empty() || (is_read && state.readers().count() == state.queue.len()) {
            state.tell(place);
        }
        state.queue.push_back(place.clone());
    }

    /// Whether this place is the first: only that one listens and polls.
    pub(crate) fn is_head(&self, place: &Arc<Place>) -> bool {
        self.state().queue.front().is_some_and(|head| Arc::ptr_eq(head, place))
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
    pub(crate) fn served(&self) {
        let mut state = self.state();
        let before = state.queue.len();
        state.queue.retain(|place| !place.is_served());
        if state.queue.len() < before {
            state.wake();
        }
    }

    /// Leaves the line, with or without the lock. What had been handed over and was not taken goes back.
    pub(crate) fn leave(&self, place: &Arc<Place>) {
        let left = std::mem::replace(&mut *place.mail(), Mail::Gone);
        if matches!(left, Mail::Granted(_) | Mail::Gone) {
            // It left the line as the lock was handed over to it.
            return;
        }
        let mut state = self.state();
        let was_head = state.queue.front().is_some_and(|head| Arc::ptr_eq(head, place));
        if was_head {
            state.queue.pop_front();
        } else {
            state.queue.retain(|other| !Arc::ptr_eq(other, place));
        }
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
    pub(crate) fn took(&self, hold: u64, role: Role, now: Moment) {
        let mut state = self.state();
        if role != Role::Read {
            state.holders.clear();
        }
        state.holders.push((hold, role));
        state.aside = None;
        state.run += 1;
        state.run_began.get_or_insert(now);
        if role == Role::Read {
            state.wake();
        }
    }

    /// A hold of this process is over or lost.
    pub(crate) fn ended(&self, hold: u64) {
        let mut state = self.state();
        let before = state.holders.len();
        state.holders.retain(|(other, _)| *other != hold);
        if state.holders.len() < before {
            state.wake_after_end();
        }
    }

    /// The server says that it is busy: if nobody here holds it, another process does, and this one's run is over.
    pub(crate) fn busy_elsewhere(&self) {
        let mut state = self.state();
        if !state.holders.is_empty() {
            return;
        }
        state.run = 0;
        state.run_began = None;
        state.aside = None;
        state.aside_span = None;
        state.rivals = None;
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
        match state.queue.pop_front() {
            Some(heir) => Next::HandOver(heir),
            None => Next::Release { last_of_run: false },
        }
    }

    /// The hand-over did not happen: the waiter is the head again.
    pub(crate) fn put_back(&self, heir: Arc<Place>) {
        let mut state = self.state();
        if !heir.is_gone() {
            state.queue.push_front(heir);
        }
        state.wake();
    }

    /// The last release of a run: each of the `others` that heard it goes first, so that processes take turns. (The
    /// server tells all of them, but always in one order: whoever comes first in it would win every time.) Where nobody
    /// can tell (`None`), they get a chance, no more.
    pub(crate) fn stand_aside(&self, now: Moment, own: bool, others: Option<u32>) {
        let mut state = self.state();
        let span = state.aside_span.unwrap_or(LONGEST_ASIDE);
        state.aside = match others {
            None => Some(Aside { until: now.after(BLIND_ASIDE), left: None, came: 0, own: false }),
            Some(0) => {
                state.aside_span = None;
                state.rivals = None;
                None
            }
            Some(others) => {
                let others = state.rivals.map_or(others, |rivals| rivals.clamp(1, others));
                Some(Aside { until: now.after(span), left: Some(others + u32::from(own)), came: 0, own })
            }
        };
    }

    /// A message came while standing aside.
    pub(crate) fn heard_aside(&self, now: Moment) {
        let mut state = self.state();
        let span = state.aside_span.unwrap_or(LONGEST_ASIDE);
        let Some(Aside { until, left: Some(left), came, own }) = &mut state.aside else { return };
        *left -= 1;
        if !std::mem::take(own) {
            *came += 1;
            *until = now.after(span);
        }
        if *left == 0 {
            state.aside = None;
            state.aside_span = None;
        }
    }

    /// Whether to stand aside still.
    pub(crate) fn aside(&self) -> Option<Aside> {
        self.state().aside
    }

    /// Nobody else comes: standing aside is over.
    pub(crate) fn end_aside(&self) {
        let mut state = self.state();
        if let Some(Aside { left: Some(_), came, .. }) = state.aside.take() {
            let span = state.aside_span.unwrap_or(LONGEST_ASIDE);
            state.aside_span = (came == 0).then(|| (span / 2).max(SHORTEST_ASIDE));
            state.rivals = Some(came);
        }
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        for place in &self.state().queue {
            place.post(Mail::Closed);
        }
        drop(self.crowd.close());
    }

    /// Entries that are held or in use.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.state().entries.values().filter_map(Weak::upgrade).collect()
    }
}

impl State {
    /// Whether the holds of this process keep nobody of this role waiting. A writer goes to ask although there are
    /// readers inside, as other processes' readers let it go first then.
    fn lets_in(&self, role: Role) -> bool {
        match role {
            Role::Exclusive => self.holders.is_empty(),
            Role::Read | Role::Write => self.holders.iter().all(|(_, role)| *role == Role::Read),
        }
    }

    fn tell(&self, place: &Place) {
        if self.lets_in(place.kind.role) {
            place.post(Mail::Try);
        }
    }

    /// Tells the head, unless the holds of this process keep it waiting.
    fn wake(&self) {
        if let Some(head) = self.queue.front() {
            self.tell(head);
        }
    }

    /// The readers that stand first.
    fn readers(&self) -> impl Iterator<Item = &Arc<Place>> {
        self.queue.iter().take_while(|place| place.kind.role == Role::Read)
    }

    /// A hold ended. A writer is told of the last one only.
    fn wake_after_end(&self) {
        let is_writer = self.queue.front().is_some_and(|head| head.kind.role == Role::Write);
        if self.holders.is_empty() || !is_writer {
            self.wake();
        }
    }
}

/// What handles of one name share, by channel: it lives as long as anybody has it.
pub(crate) struct Registry<T> {
    known: Mutex<Known<T>>,
}

struct Known<T> {
    by_channel: HashMap<Arc<str>, Weak<T>>,
    purge_at: usize,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self { known: Mutex::new(Known { by_channel: HashMap::new(), purge_at: 0 }) }
    }
}

impl<T> Registry<T> {
    /// The one for these keys: one a channel, however many handles there are.
    pub(crate) fn of(&self, keys: Keys, make: impl FnOnce(Keys) -> T) -> Arc<T> {
        let mut guard = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { by_channel, purge_at } = &mut *guard;
        if let Some(found) = by_channel.get(&keys.channel).and_then(Weak::upgrade) {
            return found;
        }
        if by_channel.len() >= *purge_at {
            by_channel.retain(|_, found| found.strong_count() > 0);
            *purge_at = (by_channel.len() * 2).max(64);
        }
        let key = keys.channel.clone();
        let made = Arc::new(make(keys));
        by_channel.insert(key, Arc::downgrade(&made));
        made
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let guard = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        guard.by_channel.values().filter_map(Weak::upgrade).collect()
    }
}
