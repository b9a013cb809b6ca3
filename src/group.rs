//! Holds that stand together: a guard's one hold, or the votes of a red lock, of which most have to stand.

use std::future::Future;
use std::iter::once;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{ready, select_all};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::clock::Clock;
use crate::error::{HoldError, Lost, LostBy, UnlockError};
use crate::guard::Ticket;
use crate::hold::Hold;
use crate::lease::{Lease, State};
use crate::session::Session;

/// One hold, and the client that it keeps open.
pub(crate) struct Member {
    pub(crate) ticket: Ticket,
    pub(crate) session: Arc<Session>,
}

/// How many of a group have to stand, and for how long they count.
pub(crate) struct Majority {
    pub(crate) needed: usize,
    /// Clocks may part by this much in a lease, beside what every lease is judged shorter.
    pub(crate) drift: Duration,
    pub(crate) max_lease: Duration,
    /// How long a release waits for the others when enough of them are given back: whoever comes next finds them free.
    pub(crate) grace: Duration,
    /// Once lost, lost for good.
    pub(crate) lost: OnceLock<LostBy>,
}

/// One hold; or many, of which a majority has to stand.
pub(crate) struct Group {
    pub(crate) first: Member,
    rest: Vec<Member>,
    majority: Option<Arc<Majority>>,
}

/// What is known of a group at one instant.
struct Standing {
    state: State,
    left: Duration,
    lost: Option<LostBy>,
}

impl Group {
    pub(crate) fn one(ticket: Ticket, session: Arc<Session>) -> Self {
        Self { first: Member { ticket, session }, rest: Vec::new(), majority: None }
    }

    /// Of votes. `None`: of none.
    pub(crate) fn most(votes: Vec<Member>, majority: Majority) -> Option<Self> {
        let mut votes = votes.into_iter();
        Some(Self { first: votes.next()?, rest: votes.collect(), majority: Some(Arc::new(majority)) })
    }

    fn members(&self) -> impl DoubleEndedIterator<Item = &Member> {
        once(&self.first).chain(&self.rest)
    }

    fn standing(&self) -> Standing {
        let holds = self.members().map(|member| (&*member.ticket.hold, member.session.core.wire.clock));
        judge(holds, self.majority.as_deref())
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
        let hold = |member: &Member| (member.ticket.hold.clone(), member.session.core.wire.clock);
        Watched { holds: self.members().map(hold).collect(), majority: self.majority.clone() }
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
        let most = self.majority.as_ref().map(|majority| majority.max_lease);
        let max = longest.into_iter().chain(most).min().unwrap_or(lease);
        let min = crate::config::SHORTEST_LEASE;
        if lease < min || lease > max {
            return Err(HoldError::Lease { lease, min, max });
        }
        Ok(())
    }

    /// Sets the lease anew, or (`None`) asks whether the hold is still there.
    pub(crate) async fn extend(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        let calls = self.members().map(|member| member.ticket.extend(lease)).collect();
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
        self.majority.as_ref().map_or(1, |majority| majority.needed)
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

    /// Gives all of it back, the last first; done when enough of it is. From here on it is carried out.
    pub(crate) fn release(mut self) -> impl Future<Output = Vec<UnlockError>> + Send + 'static {
        let (needed, grace) = (self.needed(), self.majority.as_ref().map_or(Duration::ZERO, |majority| majority.grace));
        let releases = once(&mut self.first).chain(&mut self.rest).rev().map(|member| {
            let work = member.ticket.release();
            member.session.core.janitor.carry(|_| work)
        });
        let releases: FuturesUnordered<_> = releases.collect();
        async move {
            let errors = enough(releases, needed, grace).await;
            drop(self);
            errors
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
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
pub(crate) async fn enough<F, E>(mut calls: FuturesUnordered<F>, needed: usize, grace: Duration) -> Vec<E>
where
    F: Future<Output = Result<(), E>>,
{
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

fn judge<'a>(holds: impl Iterator<Item = (&'a Hold, Clock)>, majority: Option<&Majority>) -> Standing {
    let Some(majority) = majority else { return judge_all(holds) };
    let (mut lefts, mut sure, mut lost) = (Vec::new(), 0, None);
    for (hold, clock) in holds {
        let now = clock.now();
        let left = hold.valid_until().since(now).saturating_sub(majority.drift);
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
    let left = majority.needed.checked_sub(1).and_then(|last| lefts.get(last)).copied();
    if left.is_none() {
        majority.lost.get_or_init(|| lost.unwrap_or(LostBy::Deadline));
    }
    match (majority.lost.get(), left) {
        (None, Some(left)) => {
            let state = if sure >= majority.needed { State::Held } else { State::Uncertain };
            Standing { state, left, lost: None }
        }
        (why, _) => Standing { state: State::Lost, left: Duration::ZERO, lost: why.copied() },
    }
}

/// The worst of all, where each has to stand.
fn judge_all<'a>(holds: impl Iterator<Item = (&'a Hold, Clock)>) -> Standing {
    let mut worst = Standing { state: State::Held, left: Duration::MAX, lost: None };
    for (hold, clock) in holds {
        let now = clock.now();
        if let Some(why) = hold.lost(now) {
            return Standing { state: State::Lost, left: Duration::ZERO, lost: Some(why) };
        }
        if hold.state(now) == State::Uncertain {
            worst.state = State::Uncertain;
        }
        worst.left = worst.left.min(hold.valid_until().since(now));
    }
    worst
}

/// The holds of a group, for whoever has to know when they are lost.
pub(crate) struct Watched {
    holds: Vec<(Arc<Hold>, Clock)>,
    majority: Option<Arc<Majority>>,
}

impl Watched {
    fn standing(&self) -> Standing {
        judge(self.holds.iter().map(|(hold, clock)| (&**hold, *clock)), self.majority.as_deref())
    }

    /// Resolves when it is lost.
    pub(crate) async fn lost(self) -> Lost {
        loop {
            let mut changed: Vec<_> = self.holds.iter().map(|(hold, _)| Box::pin(hold.changed.notified())).collect();
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
