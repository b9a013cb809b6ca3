//! Holds that stand together: a guard's one hold, or the votes of a red lock, of which most have to stand.

use std::future::Future;
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, ready, select_all};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::clock::Clock;
use crate::error::{HoldError, Lost, LostBy, UnlockError};
use crate::guard::Ticket;
use crate::hold::Hold;
use crate::lease::{Lease, State};
use crate::majority::{Majority, Rules, Standing, Voter};
use crate::session::Session;

/// One hold, and the client that it keeps open.
pub(crate) struct Member {
    pub(crate) ticket: Ticket,
    pub(crate) session: Arc<Session>,
}

impl Member {
    fn hold(&self) -> (Arc<Hold>, Clock) {
        (self.ticket.hold.clone(), self.session.core.wire.clock)
    }
}

/// One hold; or many, of which a majority has to stand.
pub(crate) struct Group {
    pub(crate) first: Member,
    rest: Vec<Member>,
    majority: Option<Arc<Majority>>,
}

impl Group {
    pub(crate) fn one(ticket: Ticket, session: Arc<Session>) -> Self {
        Self { first: Member { ticket, session }, rest: Vec::new(), majority: None }
    }

    /// Of the votes that these gave. `None`: of none.
    pub(crate) fn most(votes: Vec<Member>, voters: Vec<Voter>, rules: Rules) -> Option<Self> {
        let majority = Majority::new(rules, voters, votes.iter().map(Member::hold).collect());
        let mut votes = votes.into_iter();
        Some(Self { first: votes.next()?, rest: votes.collect(), majority: Some(majority) })
    }

    fn members(&self) -> impl DoubleEndedIterator<Item = &Member> {
        once(&self.first).chain(&self.rest)
    }

    fn standing(&self) -> Standing {
        match &self.majority {
            Some(majority) => majority.standing(),
            None => judge(&self.first.ticket.hold, self.first.session.core.wire.clock),
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
        match &self.majority {
            Some(majority) => Watched::Most(majority.clone()),
            None => Watched::One(self.first.hold()),
        }
    }

    /// Votes that are missing, now or later, are asked for again as long as the others are renewed.
    pub(crate) fn complete(&self) {
        if let Some(majority) = &self.majority {
            majority.open();
        }
    }

    /// How many holds it is made of.
    pub(crate) fn size(&self) -> usize {
        1 + self.rest.len()
    }

    /// Whether it was entered from an outer hold.
    pub(crate) fn is_inner(&self) -> bool {
        self.members().any(|member| member.ticket.inner)
    }

    pub(crate) fn check_lease(&self, lease: Duration) -> Result<(), HoldError> {
        let longest = self.members().map(|member| member.session.core.settings.max_lease).min();
        let most = self.majority.as_ref().map(|majority| majority.rules.trust.max_lease);
        let max = longest.into_iter().chain(most).min().unwrap_or(lease);
        let min = crate::config::SHORTEST_LEASE;
        if lease < min || lease > max {
            return Err(HoldError::Lease { lease, min, max });
        }
        Ok(())
    }

    /// Sets the lease anew, or (`None`) asks whether the hold is still there.
    pub(crate) async fn extend(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        let later = self.majority.as_ref().map(|majority| majority.later()).unwrap_or_default();
        let tickets = self.members().map(|member| &member.ticket).chain(later.iter().map(|ticket| &**ticket));
        let calls = tickets.map(|ticket| ticket.extend(lease)).collect();
        self.settled(enough(calls, self.needed(), Duration::ZERO).await)
    }

    /// It was taken to be renewed for as long as others are waited for; from here on it has the lease that is wanted.
    pub(crate) async fn begin(&mut self, lease: Lease) -> Result<(), HoldError> {
        let needed = self.needed();
        let members = once(&mut self.first).chain(&mut self.rest);
        let calls = members.map(|member| member.ticket.begin(lease)).collect();
        let errors = enough(calls, needed, Duration::ZERO).await;
        self.settled(errors)
    }

    fn needed(&self) -> usize {
        self.majority.as_ref().map_or(1, |majority| majority.rules.needed)
    }

    /// The first failure speaks for the others.
    fn settled(&self, errors: Vec<HoldError>) -> Result<(), HoldError> {
        match self.lost() {
            Some(why) => Err(Lost { why }.into()),
            None => errors.into_iter().next().map_or(Ok(()), Err),
        }
    }

    pub(crate) fn keep_bare(mut self) {
        for member in once(&mut self.first).chain(&mut self.rest) {
            member.ticket.keep();
        }
    }

    /// From here on no vote is asked for any more; those that were are given back first.
    fn close(&self) -> Vec<Ticket> {
        self.majority.as_ref().map(|majority| majority.close()).unwrap_or_default()
    }

    /// Gives all of it back, the last first; done when enough of it is. From here on it is carried out.
    pub(crate) fn release(mut self) -> impl Future<Output = Vec<UnlockError>> + Send + 'static {
        let grace = self.majority.as_ref().map_or(Duration::ZERO, |majority| majority.rules.server_timeout);
        let (needed, mut later) = (self.needed(), self.close());
        let members = once(&mut self.first).chain(&mut self.rest).map(|member| &mut member.ticket);
        let releases = members.chain(&mut later).rev().map(|ticket| {
            let work = ticket.release();
            ticket.core.janitor.carry(|_| work).begun()
        });
        let releases = releases.collect();
        async move {
            let errors = enough(releases, needed, grace).await;
            drop(self);
            errors
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(self.close());
        for member in once(&mut self.first).chain(&mut self.rest).rev() {
            member.ticket.give_up();
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
    match hold.lost(now) {
        Some(why) => Standing { state: State::Lost, left: Duration::ZERO, lost: Some(why) },
        None => Standing { state: hold.state(now), left: hold.valid_until().since(now), lost: None },
    }
}

/// The holds of a group, for whoever has to know when they are lost.
pub(crate) enum Watched {
    One((Arc<Hold>, Clock)),
    Most(Arc<Majority>),
}

impl Watched {
    fn holds(&self) -> Vec<(Arc<Hold>, Clock)> {
        match self {
            Self::One(hold) => vec![hold.clone()],
            Self::Most(majority) => majority.won(),
        }
    }

    fn standing(&self) -> Standing {
        match self {
            Self::One((hold, clock)) => judge(hold, *clock),
            Self::Most(majority) => majority.standing(),
        }
    }

    /// Resolves when it is lost.
    pub(crate) async fn lost(self) -> Lost {
        loop {
            let holds = self.holds();
            let mut changed: Vec<_> = holds.iter().map(|(hold, _)| Box::pin(hold.changed.notified())).collect();
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
