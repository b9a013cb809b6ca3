//! Votes that stand together: most of them have to. Those that are missing are asked for again. Rule 21 of
//! docs/PROTOCOL.md.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::attempt::Wish;
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LostBy};
use crate::guard::Ticket;
use crate::hold::Hold;
use crate::lease::{Follower, Lease, State};
use crate::life::Trust;
use crate::session::Session;
use crate::wait::Tried;

/// What a majority has to be of.
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
    pub(crate) wish: Wish,
    pub(crate) session: Arc<Session>,
}

/// What is known at one instant of holds that stand together.
pub(crate) struct Standing {
    pub(crate) state: State,
    pub(crate) left: Duration,
    pub(crate) lost: Option<LostBy>,
}

pub(crate) struct Majority {
    pub(crate) rules: Rules,
    /// Once lost, lost for good.
    lost: OnceLock<LostBy>,
    votes: Mutex<Votes>,
    /// Rung when it is given back.
    closed: Notify,
}

#[derive(Default)]
struct Votes {
    /// All that were ever won. A lost one never counts again.
    won: Vec<(Arc<Hold>, Clock)>,
    seats: Vec<Seat>,
    /// Those that were taken after the lock was.
    later: Vec<Arc<Ticket>>,
    /// Whether the missing ones are asked for: from when somebody relies on them until they are given back.
    open: bool,
}

/// One server's place among the votes.
struct Seat {
    voter: Voter,
    asked: Option<Moment>,
}

impl Majority {
    pub(crate) fn new(rules: Rules, voters: Vec<Voter>, won: Vec<(Arc<Hold>, Clock)>) -> Arc<Self> {
        let seats = voters.into_iter().map(|voter| Seat { voter, asked: None }).collect();
        let votes = Votes { won, seats, ..Votes::default() };
        let lost = OnceLock::new();
        let majority = Arc::new(Self { rules, lost, votes: Mutex::new(votes), closed: Notify::new() });
        for (hold, _) in &majority.votes().won {
            hold.follow(majority.as_follower());
        }
        majority
    }

    fn as_follower(self: &Arc<Self>) -> Weak<dyn Follower> {
        let weak: Weak<Self> = Arc::downgrade(self);
        weak
    }

    fn votes(&self) -> MutexGuard<'_, Votes> {
        self.votes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn standing(&self) -> Standing {
        self.judge(&self.votes().won)
    }

    /// All that were won, to be listened to.
    pub(crate) fn won(&self) -> Vec<(Arc<Hold>, Clock)> {
        self.votes().won.clone()
    }

    /// Those that were taken after the lock was.
    pub(crate) fn later(&self) -> Vec<Arc<Ticket>> {
        self.votes().later.clone()
    }

    /// From here on missing votes are asked for.
    pub(crate) fn open(&self) {
        self.votes().open = true;
    }

    /// From here on nothing is asked for. Returns what was, to be given back.
    pub(crate) fn close(&self) -> Vec<Ticket> {
        let mut votes = self.votes();
        votes.open = false;
        let (later, seats) = (std::mem::take(&mut votes.later), std::mem::take(&mut votes.seats));
        drop(votes);
        drop(seats);
        self.closed.notify_waiters();
        later.into_iter().filter_map(Arc::into_inner).collect()
    }

    fn judge(&self, won: &[(Arc<Hold>, Clock)]) -> Standing {
        let (mut lefts, mut sure, mut lost) = (Vec::new(), 0, None);
        for (hold, clock) in won {
            let now = clock.now();
            let left = hold.valid_until().since(now).saturating_sub(self.rules.drift);
            match hold.lost(now) {
                Some(why) => lost = lost.or(Some(why)),
                None if left.is_zero() => {}
                None => {
                    sure += usize::from(hold.state(now) == State::Held);
                    lefts.push(left);
                }
            }
        }
        lefts.sort_unstable_by(|one, other| other.cmp(one));
        let left = self.rules.needed.checked_sub(1).and_then(|last| lefts.get(last)).copied();
        if left.is_none() {
            self.lost.get_or_init(|| lost.unwrap_or(LostBy::Deadline));
        }
        match (self.lost.get(), left) {
            (None, Some(left)) => {
                let state = if sure >= self.rules.needed { State::Held } else { State::Uncertain };
                Standing { state, left, lost: None }
            }
            (why, _) => Standing { state: State::Lost, left: Duration::ZERO, lost: why.copied() },
        }
    }

    /// What a vote that comes now has to be. That the servers were fresh when the lock was taken says nothing of now.
    fn trust(&self) -> Trust {
        Trust { fresh: false, ..self.rules.trust }
    }

    /// Who has no vote here now and may give one; only while most of the others stand.
    fn missing(&self) -> Vec<Wish> {
        let mut votes = self.votes();
        if !votes.open || self.judge(&votes.won).lost.is_some() {
            return Vec::new();
        }
        let Votes { won, seats, .. } = &mut *votes;
        seats.iter_mut().filter_map(|seat| seat.missing(won, self.trust())).collect()
    }

    /// Asks one server for its vote once more. Nothing is sent after the lock began to be given back.
    async fn ask(self: Arc<Self>, wish: Wish) {
        let closed = pin!(self.closed.notified());
        if !self.votes().open {
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
        let (clock, now) = (ticket.core.wire.clock, ticket.core.now());
        let may_vote = ticket.core.life.rests(self.trust(), now).is_none();
        let mut votes = self.votes();
        let stands = votes.open && self.judge(&votes.won).lost.is_none();
        if !may_vote || !stands || is_among(&votes.won, &ticket.hold, now) {
            drop(votes);
            return;
        }
        ticket.hold.follow(self.as_follower());
        votes.won.push((ticket.hold.clone(), clock));
        votes.later.push(Arc::new(ticket));
    }
}

impl Follower for Majority {
    fn renewed(self: Arc<Self>, max_hold: Option<Duration>) {
        for wish in self.missing() {
            let core = wish.core.clone();
            let lease = Lease::Watched { lease: wish.lease.duration(), max_hold };
            core.janitor.finish(self.clone().ask(Wish { lease, patience: core.patience(), ..wish }));
        }
    }

    fn stands(&self) -> bool {
        self.standing().lost.is_none()
    }
}

impl Seat {
    fn missing(&mut self, won: &[(Arc<Hold>, Clock)], trust: Trust) -> Option<Wish> {
        let Voter { wish, session } = &self.voter;
        let (life, now) = (&session.core.life, session.core.now());
        let has_vote = wish.slot.hold().is_some_and(|hold| is_among(won, &hold, now));
        let rests = life.is_known_to_rest(trust, now);
        // Each of the votes that stand is renewed at about this time.
        let was_asked = self.asked.is_some_and(|asked| now.since(asked) < wish.lease.duration() / 4);
        if has_vote || rests || was_asked {
            return None;
        }
        self.asked = Some(now);
        Some(wish.clone())
    }
}

/// Whether this hold is one of these, and not lost.
fn is_among(won: &[(Arc<Hold>, Clock)], hold: &Hold, now: Moment) -> bool {
    hold.lost(now).is_none() && won.iter().any(|(other, _)| other.id == hold.id)
}
