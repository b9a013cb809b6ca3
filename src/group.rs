//! Holds that stand together: a guard's one hold, or the votes of a red lock, of which most have to stand.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, ready, select_all, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::clock::Clock;
use crate::error::{HoldError, Lost, LostBy, UnlockError};
use crate::hold::Hold;
use crate::lease::{Lease, State};
use crate::majority::{Majority, Rules, Standing, Voter};
use crate::session::Session;
use crate::ticket::Ticket;

/// One hold, or a vote, and the client that it keeps open.
pub(crate) struct Member {
    pub(crate) ticket: Ticket,
    pub(crate) session: Arc<Session>,
}

/// One hold; or many, of which a majority has to stand.
pub(crate) enum Group {
    One(Member),
    Most(Elected),
}

/// Votes that are given back with this, and the clients that they keep open.
pub(crate) struct Elected {
    majority: Arc<Majority>,
    _sessions: Vec<Arc<Session>>,
}

impl Drop for Elected {
    fn drop(&mut self) {
        self.majority.let_go();
    }
}

impl Group {
    pub(crate) fn one(ticket: Ticket, session: Arc<Session>) -> Self {
        Self::One(Member { ticket, session })
    }

    /// Of the votes that these gave. `None`: of none.
    pub(crate) fn most(votes: Vec<Member>, voters: Vec<Voter>, rules: Rules) -> Option<Self> {
        let (votes, sessions) = votes.into_iter().map(|vote| (Arc::new(vote.ticket), vote.session)).unzip();
        let majority = Majority::new(rules, voters, votes)?;
        Some(Self::Most(Elected { majority, _sessions: sessions }))
    }

    /// That of its first hold, which speaks for the others.
    pub(crate) fn ticket(&self) -> &Ticket {
        match self {
            Self::One(member) => &member.ticket,
            Self::Most(Elected { majority, .. }) => &majority.first,
        }
    }

    fn standing(&self) -> Standing {
        match self {
            Self::One(Member { ticket, .. }) => judge(&ticket.hold, ticket.core.wire.clock),
            Self::Most(Elected { majority, .. }) => majority.standing(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.standing().state
    }

    /// Why it is lost, if it is.
    pub(crate) fn lost(&self) -> Option<LostBy> {
        self.standing().lost
    }

    /// How long it is valid from now on if nothing is renewed.
    pub(crate) fn left(&self) -> Duration {
        self.standing().left
    }

    /// Its holds, to be watched by one who can't give them back.
    pub(crate) fn watched(&self) -> Watched {
        match self {
            Self::One(Member { ticket, .. }) => Watched::One(ticket.hold.clone(), ticket.core.wire.clock),
            Self::Most(Elected { majority, .. }) => Watched::Most(majority.clone()),
        }
    }

    /// Votes that are missing, now or later, are asked for again as long as the others are renewed.
    pub(crate) fn complete(&self) {
        if let Self::Most(Elected { majority, .. }) = self {
            majority.open();
        }
    }

    /// How many holds it is made of.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Most(Elected { majority, .. }) => majority.tickets().len(),
        }
    }

    /// Whether it was entered from an outer hold.
    pub(crate) fn is_inner(&self) -> bool {
        match self {
            Self::One(member) => member.ticket.inner,
            Self::Most(Elected { majority, .. }) => majority.tickets().iter().any(|ticket| ticket.inner),
        }
    }

    pub(crate) fn check_lease(&self, lease: Duration) -> Result<(), HoldError> {
        let max = match self {
            Self::One(member) => member.ticket.core.settings.max_lease,
            Self::Most(Elected { majority, .. }) => majority.max_lease(),
        };
        let min = crate::config::SHORTEST_LEASE;
        if lease < min || lease > max {
            return Err(HoldError::Lease { lease, min, max });
        }
        Ok(())
    }

    /// Sets the lease anew, or (`None`) asks whether the hold is still there.
    pub(crate) async fn extend(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        match self {
            Self::One(member) => self.settled(member.ticket.extend(lease).await.err()),
            Self::Most(Elected { majority, .. }) => {
                let tickets = majority.tickets();
                let calls = tickets.iter().map(|ticket| ticket.extend(lease)).collect();
                self.settled(enough(calls, majority.rules.needed, Duration::ZERO).await)
            }
        }
    }

    /// It was taken to be renewed for as long as others are waited for; from here on it has the lease that is wanted.
    pub(crate) async fn begin(&mut self, lease: Lease) -> Result<(), HoldError> {
        match self {
            Self::One(member) => {
                let begun = member.ticket.begin(lease).await;
                self.settled(begun.err())
            }
            Self::Most(Elected { majority, .. }) => {
                majority.begin(lease);
                let tickets = majority.tickets();
                let calls = tickets.iter().map(|ticket| ticket.begin(lease)).collect();
                let errors = enough(calls, majority.rules.needed, Duration::ZERO).await;
                self.settled(errors)
            }
        }
    }

    /// The first failure speaks for the others.
    fn settled(&self, errors: impl IntoIterator<Item = HoldError>) -> Result<(), HoldError> {
        match self.lost() {
            Some(why) => Err(Lost { why }.into()),
            None => errors.into_iter().next().map_or(Ok(()), Err),
        }
    }

    pub(crate) fn keep_bare(self) {
        match self {
            Self::One(member) => member.ticket.keep_bare(),
            Self::Most(elected) => elected.majority.keep_bare(),
        }
    }

    /// Gives all of it back, the last first; done when enough of it is. From here on it is carried out.
    pub(crate) fn release(self) -> impl Future<Output = Vec<UnlockError>> + Send + 'static {
        let work = match &self {
            Self::One(Member { ticket, .. }) => {
                let work = ticket.release();
                ticket.core.janitor.carry(|_| work).begun().map(|done| done.err().into_iter().collect()).left_future()
            }
            Self::Most(Elected { majority, .. }) => majority.clone().release().right_future(),
        };
        async move {
            let errors = work.await;
            drop(self);
            errors
        }
    }
}

/// Groups in the order that they were taken: dropped, the last one is given back first.
#[derive(Default)]
pub(crate) struct Taken(pub(crate) Vec<Group>);

impl Taken {
    /// In the order of release.
    pub(crate) fn last_first(&mut self) -> impl Iterator<Item = Group> + '_ {
        self.0.drain(..).rev()
    }
}

impl Taken {
    pub(crate) fn keep_bare(mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(Group::keep_bare);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.last_first().for_each(drop);
    }
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

fn judge(hold: &Hold, clock: Clock) -> Standing {
    let now = clock.now();
    match hold.leased.lost(now) {
        Some(why) => Standing { state: State::Lost, left: Duration::ZERO, lost: Some(why) },
        None => Standing { state: hold.leased.state(now), left: hold.leased.valid_until().since(now), lost: None },
    }
}

/// The holds of a group, for whoever has to know when they are lost.
pub(crate) enum Watched {
    One(Arc<Hold>, Clock),
    Most(Arc<Majority>),
}

impl Watched {
    fn holds(&self) -> Vec<Arc<Hold>> {
        match self {
            Self::One(hold, _) => vec![hold.clone()],
            Self::Most(majority) => majority.tickets().iter().map(|ticket| ticket.hold.clone()).collect(),
        }
    }

    fn standing(&self) -> Standing {
        match self {
            Self::One(hold, clock) => judge(hold, *clock),
            Self::Most(majority) => majority.standing(),
        }
    }

    /// Resolves when it is lost. Where the machine slept its timer is late, but not the watchdogs', which ring.
    pub(crate) async fn lost(self) -> Lost {
        loop {
            let holds = self.holds();
            let mut changed: Vec<_> = holds.iter().map(|hold| Box::pin(hold.leased.changed.notified())).collect();
            for change in &mut changed {
                change.as_mut().enable();
            }
            let Standing { left, lost, .. } = self.standing();
            if let Some(why) = lost {
                return Lost { why };
            }
            tokio::select! {
                _ = select_all(changed) => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

/// Resolves when the first of these is lost; never, when there are none.
pub(crate) async fn first_lost(watches: Vec<Watched>) -> Lost {
    let mut watches: FuturesUnordered<_> = watches.into_iter().map(Watched::lost).collect();
    match watches.next().await {
        Some(lost) => lost,
        None => std::future::pending().await,
    }
}
