//! Votes that stand together: most of them have to. Those that are missing are asked for again. Rule 21 of
//! docs/PROTOCOL.md.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{join_all, ready};
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::Moment;
use crate::engine::Session;
use crate::error::{LockError, Lost, LostReason, UnlockError};
use crate::hold::attempt::Wish;
use crate::hold::entry::{Entry, Hold};
use crate::hold::release::not_held;
use crate::hold::ticket::Ticket;
use crate::lease::observer::Observer;
use crate::lease::validity::{until_lost, Lease, Standing};
use crate::waiting::wait::Tried;
use crate::wire::life::Trust;

/// What a quorum has to be of.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) name: Arc<str>,
    pub(crate) needed: usize,
    pub(crate) trust: Trust,
    /// A server is given this long for its vote. A release waits as long for the others when enough of them are given
    /// back: whoever comes next finds them free.
    pub(crate) server_timeout: Duration,
    /// Clocks may part by this much in a lease, beside what every lease is judged shorter.
    pub(crate) drift: Duration,
    pub(crate) min_validity: Duration,
}

/// One server that is asked.
#[derive(Clone)]
pub(crate) struct Voter {
    pub(crate) wish: Arc<Wish>,
    pub(crate) session: Arc<Session>,
}

/// Votes for one owner, of which most have to stand.
pub(crate) struct Quorum {
    pub(crate) rules: Rules,
    /// Of an older quorum than another: with a lower share.
    pub(crate) first: Arc<Ticket>,
    /// Once lost, lost for good.
    lost: OnceLock<LostReason>,
    votes: Mutex<Votes>,
    /// Rung when it is given back.
    closed: Notify,
}

struct Votes {
    /// All that were ever won. A lost one never counts again.
    won: Vec<Arc<Ticket>>,
    /// Empty from when it is given back.
    seats: Vec<Seat>,
    /// Whether the missing ones are asked for: from when somebody relies on them until they are given back.
    open: bool,
    /// A bare hold: kept until somebody gives it back.
    bare: bool,
}

/// One server's place among the votes.
struct Seat {
    wish: Arc<Wish>,
    asked: Option<Moment>,
    /// Since when the lock is held.
    since: Moment,
}

impl Quorum {
    /// `None`: of no votes.
    pub(crate) fn new(rules: Rules, voters: Vec<Voter>, won: Vec<Arc<Ticket>>) -> Option<Arc<Self>> {
        let first = won.first()?.clone();
        let seat = |Voter { wish, .. }| Seat { since: wish.engine.now(), asked: None, wish };
        let seats = voters.into_iter().map(seat).collect();
        let quorum = Arc::new(Self {
            rules,
            first,
            lost: OnceLock::new(),
            votes: Mutex::new(Votes { won, seats, open: false, bare: false }),
            closed: Notify::new(),
        });
        for ticket in quorum.tickets() {
            ticket.hold.leased.tell(Arc::downgrade(&quorum));
        }
        Some(quorum)
    }

    /// A lost one is on its way back when this returns, whoever asks.
    pub(crate) fn standing(&self) -> Standing {
        let standing = self.judge(&self.votes.lock().won);
        if standing.lost.is_some() {
            self.give_up(true);
        }
        standing
    }

    /// Resolves when it is lost.
    pub(crate) async fn until_lost(self: Arc<Self>) -> Lost {
        let leases = || self.tickets().iter().map(|ticket| ticket.hold.leased.clone()).collect();
        until_lost(leases, || self.standing()).await
    }

    /// Of all votes that were ever won.
    pub(crate) fn tickets(&self) -> Vec<Arc<Ticket>> {
        self.votes.lock().won.clone()
    }

    /// The longest lease that it may have.
    pub(crate) fn max_lease(&self) -> Duration {
        let leases = self.tickets().into_iter().map(|ticket| ticket.engine.settings.max_lease);
        leases.fold(self.rules.trust.max_lease, Duration::min)
    }

    /// All of what it is a part of is held: from here on it has this lease.
    pub(crate) fn begin(&self, lease: Lease) {
        for seat in &mut self.votes.lock().seats {
            seat.since = seat.wish.engine.now();
            Arc::make_mut(&mut seat.wish).lease = seat.wish.lease.changed(lease);
        }
    }

    /// From here on missing votes are asked for.
    pub(crate) fn open(&self) {
        self.votes.lock().open = true;
    }

    /// From here on the entries of its owner keep it, until it is given back, or lost.
    pub(crate) fn keep_bare(self: &Arc<Self>) {
        let mut votes = self.votes.lock();
        (votes.open, votes.bare) = (true, true);
        votes.won.iter().for_each(|ticket| ticket.hold.leased.set_bare(true));
        for Seat { wish, .. } in &votes.seats {
            wish.entry.elected.get_or_init(Box::default).holds.lock().push(self.clone());
        }
        drop(votes);
        self.standing();
    }

    /// The newest bare hold that the vote of this entry belongs to.
    pub(crate) fn elected(entry: &Entry) -> Option<Arc<Self>> {
        entry.elected.get()?.holds.lock().last()?.clone().downcast().ok()
    }

    /// Its guard is gone.
    pub(crate) fn let_go(&self) {
        let is_bare = self.votes.lock().bare;
        if !is_bare {
            self.give_up(false);
        }
    }

    /// From here on nothing is asked for. Returns what was won, to be given back.
    fn close(&self) -> Vec<Arc<Ticket>> {
        let mut votes = self.votes.lock();
        votes.open = false;
        let (won, seats) = (votes.won.clone(), std::mem::take(&mut votes.seats));
        drop(votes);
        self.closed.notify_waiters();
        for elected in seats.iter().filter_map(|seat| seat.wish.entry.elected.get()) {
            elected.holds.lock().retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), self));
        }
        won
    }

    /// Gives all votes back, the last first, and waits for none of them. `is_lost`: under a guard that still lives.
    fn give_up(&self, is_lost: bool) {
        for ticket in self.close().iter().rev() {
            if ticket.give_up() || !is_lost {
                ticket.hold.entry.outer_lost.store(is_lost, Ordering::Release);
            }
        }
    }

    /// Gives all votes back, the last first; done when enough of them are. From here on it is carried out.
    pub(crate) fn release(self: Arc<Self>) -> impl Future<Output = Vec<UnlockError>> + Send + 'static {
        let is_lost = self.standing().lost.is_some();
        let releases = self.close().into_iter().rev().map(|ticket| {
            ticket.hold.entry.outer_lost.store(false, Ordering::Release);
            let work = ticket.release();
            ticket.engine.janitor.carry_out(work)
        });
        let releases = releases.collect::<Vec<_>>();
        async move {
            let Rules { needed, server_timeout, .. } = self.rules;
            if is_lost {
                // On their way back already, each as long as that takes.
                let _ = tokio::time::timeout(server_timeout, join_all(releases)).await;
                return vec![not_held(&self.first.engine, &self.first.hold.entry)];
            }
            enough(releases, needed, server_timeout).await
        }
    }

    fn judge(&self, won: &[Arc<Ticket>]) -> Standing {
        let (mut lefts, mut sure, mut lost) = (Vec::new(), 0, None);
        for ticket in won {
            let vote = ticket.standing();
            let left = vote.left.saturating_sub(self.rules.drift);
            lost = lost.or(vote.lost);
            if !left.is_zero() {
                sure += usize::from(vote.sure);
                lefts.push(left);
            }
        }
        lefts.sort_unstable_by(|one, other| other.cmp(one));
        let left = self.rules.needed.checked_sub(1).and_then(|last| lefts.get(last)).copied();
        if left.is_none() {
            self.lost.get_or_init(|| lost.unwrap_or(LostReason::Deadline));
        }
        match self.lost.get() {
            Some(why) => Standing::over(*why),
            None => Standing { sure: sure >= self.rules.needed, left: left.unwrap_or_default(), lost: None },
        }
    }

    /// Who has no vote here now and may give one; only while most of the others stand.
    fn missing(&self) -> Vec<Wish> {
        let mut votes = self.votes.lock();
        if self.judge(&votes.won).lost.is_some() {
            drop(votes);
            self.give_up(true);
            return Vec::new();
        }
        if !votes.open {
            return Vec::new();
        }
        let Votes { won, seats, .. } = &mut *votes;
        seats.iter_mut().filter_map(|seat| seat.missing(won, self.rules.trust)).collect()
    }

    /// Asks one server for its vote once more. Nothing is sent after the lock began to be given back.
    async fn ask(self: Arc<Self>, wish: Arc<Wish>) {
        let closed = pin!(self.closed.notified());
        if !self.votes.lock().open {
            return;
        }
        let asked = async {
            match wish.attempt(None).await {
                // What may be left of the lost vote is on its way back: behind that.
                Err(LockError::Lost { .. }) => wish.attempt(None).await,
                tried => tried,
            }
        };
        tokio::select! {
            biased;
            () = closed => {}
            tried = tokio::time::timeout(self.rules.server_timeout, asked) => {
                if let Ok(Ok(Tried::Won(ticket))) = tried {
                    self.add(ticket);
                }
            }
        }
    }

    /// A vote that comes now counts if its server may vote, and if most of the others stood until this instant: so
    /// nobody had the lock in between. Else it is given back, as the ticket goes.
    fn add(self: &Arc<Self>, ticket: Ticket) {
        let now = ticket.engine.now();
        // That the servers were fresh when the lock was taken says nothing of now.
        let trust = Trust { fresh: false, ..self.rules.trust };
        let slot = ticket.engine.wire.slot(&ticket.hold.entry.line.keys.lock);
        let may_vote = ticket.engine.life.rests(slot, trust, now).is_none();
        let mut votes = self.votes.lock();
        let stands = votes.open && self.judge(&votes.won).lost.is_none();
        if !may_vote || !stands || is_among(&votes.won, &ticket.hold, now) {
            drop(votes);
            return;
        }
        ticket.hold.leased.tell(Arc::downgrade(self));
        ticket.hold.leased.set_bare(votes.bare);
        votes.won.push(Arc::new(ticket));
    }
}

impl Observer for Quorum {
    fn renewed(self: Arc<Self>) {
        for wish in self.missing() {
            let engine = wish.engine.clone();
            engine.janitor.finish(self.clone().ask(Wish { began: engine.now(), ..wish }.into()));
        }
    }

    fn ended(self: Arc<Self>) {
        self.standing();
    }

    fn stands(&self) -> bool {
        self.standing().lost.is_none()
    }
}

impl Seat {
    fn missing(&mut self, won: &[Arc<Ticket>], trust: Trust) -> Option<Wish> {
        let wish = &self.wish;
        let (life, now) = (&wish.engine.life, wish.engine.now());
        let has_vote = wish.entry.hold().is_some_and(|hold| is_among(won, &hold, now));
        let rests = life.is_known_to_rest(wish.slot(), trust, now);
        // Each of the votes that stand is renewed at about this time.
        let was_asked = self.asked.is_some_and(|asked| now.since(asked) < wish.lease.duration() / 4);
        // Its own `max_hold` ends that, whoever else has the same holds renewed.
        let lease = wish.lease.rest(now.since(self.since)).filter(|_| !has_vote && !rests && !was_asked)?;
        self.asked = Some(now);
        Some(Wish { lease, ..Wish::clone(wish) })
    }
}

/// Whether this hold is one of these, and not lost.
fn is_among(won: &[Arc<Ticket>], hold: &Hold, now: Moment) -> bool {
    hold.leased.lost(now).is_none() && won.iter().any(|ticket| ticket.hold.leased.id == hold.leased.id)
}

/// Waits until `needed` calls have succeeded, and `grace` longer for the others; or until all are over: then what went
/// wrong.
pub(crate) async fn enough<F, E>(calls: Vec<F>, needed: usize, grace: Duration) -> Vec<E>
where
    F: Future<Output = Result<(), E>>,
{
    // A single one needs nobody who tells which of them is done: that costs a wake-up.
    if calls.len() == 1 {
        return join_all(calls).await.into_iter().filter_map(Result::err).collect();
    }
    let mut calls: FuturesUnordered<F> = calls.into_iter().collect();
    let (mut done, mut errors) = (0, Vec::new());
    while let Some(result) = calls.next().await {
        match result {
            Ok(()) => done += 1,
            Err(error) => errors.push(error),
        }
        if done == needed {
            // A timer of its own is only for those who wait for more.
            if !calls.is_empty() && !grace.is_zero() {
                let _ = tokio::time::timeout(grace, calls.by_ref().for_each(|_| ready(()))).await;
            }
            return Vec::new();
        }
    }
    errors
}
