//! What one acquisition holds: one lock, several locks as one, or the votes of most servers of a red lock.

use std::collections::VecDeque;
use std::future::Future;
use std::iter::once;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use crate::base::config::InvalidLease;
use crate::base::janitor::say;
use crate::compose::quorum::{enough, Quorum, Rules, Voter};
use crate::compose::together::{self, Part};
use crate::engine::Session;
use crate::error::{HoldError, Lost, LostReason, UnlockError};
use crate::hold::ticket::Ticket;
use crate::lease::validity::{Lease, Standing};
use crate::wire::script::Patience;

/// What was acquired, and the clients that it keeps open. Dropped, it gives itself back.
pub enum Held {
    /// One lock.
    One(Ticket, Arc<Session>),
    /// Several locks, held while each of them is.
    All(Whole),
    /// The votes of several servers, held while most of them stand.
    Quorum(Elected),
}

/// Several locks as one.
pub struct Whole {
    /// The last one that was taken is the first here, as it is the first to be given back.
    rest: VecDeque<Held>,
    first: Box<Held>,
    /// What they are called together.
    name: Arc<str>,
}

impl Whole {
    /// In the order in which they were taken.
    fn parts(&self) -> impl Iterator<Item = &Held> {
        once(&*self.first).chain(self.rest.iter().rev())
    }

    /// By one script, if they are locks that can be given back so: from here on they are on their way. Else `None`.
    fn release_together(&self, patience: &Patience) -> Option<impl Future<Output = Vec<UnlockError>> + Send + 'static> {
        let tickets = self.parts().map(|part| if let Held::One(ticket, _) = part { Some(ticket) } else { None });
        let tickets: Vec<&Ticket> = tickets.collect::<Option<_>>()?;
        let parts = tickets.iter().map(|ticket| Part::of_guard(ticket)).collect::<Option<_>>()?;
        let work = together::release(parts, patience)?;
        tickets.iter().for_each(|ticket| ticket.armed.store(false, Ordering::Release));
        Some(work)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let engine = self.first.ticket().engine.clone();
        if let Some(work) = self.release_together(&engine.brief()) {
            engine.janitor.finish(work.map(|errors| {
                for error in errors {
                    say(|| tracing::debug!(target: "lockson", %error, "a dropped guard could not give a hold back"));
                }
            }));
        }
    }
}

/// What is done with a hold.
type Change = dyn for<'t> Fn(&'t Ticket) -> BoxFuture<'t, Result<(), HoldError>> + Send + Sync;

/// Votes that are given back with this.
pub struct Elected {
    quorum: Arc<Quorum>,
    _sessions: Vec<Arc<Session>>,
}

impl Drop for Elected {
    fn drop(&mut self) {
        self.quorum.let_go();
    }
}

impl Held {
    /// Of these, the last one that was taken first. `None`: of none.
    pub(crate) fn all(mut taken: VecDeque<Self>, name: Arc<str>) -> Option<Self> {
        let first = Box::new(taken.pop_back()?);
        Some(Self::All(Whole { rest: taken, first, name }))
    }

    /// Of the votes that these gave. `None`: of none.
    pub(crate) fn quorum(votes: Vec<Ticket>, voters: Vec<Voter>, rules: Rules) -> Option<Self> {
        // Those too that gave none yet: they are asked again.
        let sessions = voters.iter().map(|voter| voter.session.clone()).collect();
        let quorum = Quorum::new(rules, voters, votes.into_iter().map(Arc::new).collect())?;
        Some(Self::Quorum(Elected { quorum, _sessions: sessions }))
    }

    /// What it is made of, in the order in which it was taken.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Self> {
        let (whole, one) = match self {
            Self::All(whole) => (Some(whole), None),
            part => (None, Some(part)),
        };
        one.into_iter().chain(whole.into_iter().flat_map(Whole::parts))
    }

    /// That of its first hold, which speaks for the others.
    pub(crate) fn ticket(&self) -> &Ticket {
        match self {
            Self::One(ticket, _) => ticket,
            Self::All(whole) => whole.first.ticket(),
            Self::Quorum(Elected { quorum, .. }) => &quorum.first,
        }
    }

    /// What a lock that is made of others is called.
    pub(crate) fn name_of_whole(&self) -> Option<&Arc<str>> {
        match self {
            Self::One(..) => None,
            Self::All(whole) => Some(&whole.name),
            Self::Quorum(Elected { quorum, .. }) => Some(&quorum.rules.name),
        }
    }

    /// What is known of it at this instant: of several, the worst that is known of any.
    pub(crate) fn standing(&self) -> Standing {
        match self {
            Self::One(ticket, _) => ticket.standing(),
            Self::All(Whole { first, rest, .. }) => {
                rest.iter().rev().map(Self::standing).fold(first.standing(), Standing::and)
            }
            Self::Quorum(Elected { quorum, .. }) => quorum.standing(),
        }
    }

    /// Why it is lost, if it is.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.standing().lost
    }

    /// Resolves when it is lost, and before the server would give it to another. It does not keep it.
    pub(crate) fn until_lost(&self) -> BoxFuture<'static, Lost> {
        match self {
            Self::One(ticket, _) => ticket.hold.leased.clone().until_lost(ticket.engine.wire.clock).boxed(),
            Self::All(_) => first_lost(self.parts()).boxed(),
            Self::Quorum(Elected { quorum, .. }) => quorum.clone().until_lost().boxed(),
        }
    }

    /// Votes that are missing, now or later, are asked for again as long as the others are renewed.
    pub(crate) fn complete(&self) {
        match self {
            Self::One(..) => {}
            Self::All(_) => self.parts().for_each(Self::complete),
            Self::Quorum(Elected { quorum, .. }) => quorum.open(),
        }
    }

    /// How many holds it is made of.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::All(_) => self.parts().map(Self::size).sum(),
            Self::Quorum(Elected { quorum, .. }) => quorum.tickets().len(),
        }
    }

    /// Whether it was entered from an outer hold.
    pub(crate) fn is_inner(&self) -> bool {
        match self {
            Self::One(ticket, _) => ticket.inner,
            Self::All(_) => self.parts().any(Self::is_inner),
            Self::Quorum(Elected { quorum, .. }) => quorum.tickets().iter().any(|ticket| ticket.inner),
        }
    }

    pub(crate) fn check_lease(&self, lease: Duration) -> Result<(), HoldError> {
        let max = match self {
            Self::One(ticket, _) => ticket.engine.settings.max_lease,
            Self::All(_) => return self.parts().try_for_each(|part| part.check_lease(lease)),
            Self::Quorum(Elected { quorum, .. }) => quorum.max_lease(),
        };
        InvalidLease::check(lease, max)?;
        Ok(())
    }

    /// Sets the lease anew, or (`None`) asks whether the hold is still there.
    pub(crate) async fn extend(&self, lease: Option<Duration>) -> Result<(), HoldError> {
        self.outcome_of(self.each(&move |ticket| ticket.extend(lease).boxed()).await)
    }

    /// It was taken to be renewed for as long as others are waited for; from here on it has the lease that is wanted.
    pub(crate) async fn begin(&self, lease: Lease) -> Result<(), HoldError> {
        for part in self.parts() {
            if let Self::Quorum(Elected { quorum, .. }) = part {
                quorum.begin(lease);
            }
        }
        self.outcome_of(self.each(&move |ticket| ticket.begin(lease).boxed()).await)
    }

    /// Does this with each hold that it is made of; done when enough of them are: then what went wrong.
    fn each<'a>(&'a self, change: &'a Change) -> BoxFuture<'a, Vec<HoldError>> {
        async move {
            match self {
                Self::One(ticket, _) => change(ticket).await.err().into_iter().collect(),
                Self::All(_) => join_all(self.parts().map(|part| part.each(change))).await.concat(),
                Self::Quorum(Elected { quorum, .. }) => {
                    let tickets = quorum.tickets();
                    enough(tickets.iter().map(|ticket| change(ticket)).collect(), quorum.rules.needed, Duration::ZERO)
                        .await
                }
            }
        }
        .boxed()
    }

    /// The first failure speaks for the others.
    fn outcome_of(&self, errors: Vec<HoldError>) -> Result<(), HoldError> {
        match self.lost() {
            Some(why) => Err(Lost { why }.into()),
            None => errors.into_iter().next().map_or(Ok(()), Err),
        }
    }

    /// It becomes a bare hold, or several, for `unlock()` to give back.
    pub(crate) fn keep_bare(&self) {
        match self {
            Self::One(ticket, _) => ticket.keep_bare(),
            Self::All(whole) => whole.parts().for_each(Self::keep_bare),
            Self::Quorum(elected) => elected.quorum.keep_bare(),
        }
    }

    /// Gives all of it back, the last first; done when enough of it is. From here on it is carried out.
    pub(crate) fn release(self) -> BoxFuture<'static, Vec<UnlockError>> {
        let work = self.begin_release();
        async move {
            let errors = work.await;
            drop(self);
            errors
        }
        .boxed()
    }

    fn begin_release(&self) -> BoxFuture<'static, Vec<UnlockError>> {
        match self {
            Self::One(ticket, _) => {
                let work = ticket.engine.janitor.carry_out(ticket.release());
                work.map(|given| given.err().into_iter().collect()).boxed()
            }
            Self::All(whole) => {
                let engine = &whole.first.ticket().engine;
                if let Some(work) = whole.release_together(&engine.patience()) {
                    return engine.janitor.carry_out(work.boxed()).boxed();
                }
                let releases: Vec<_> = whole.rest.iter().chain(once(&*whole.first)).map(Self::begin_release).collect();
                join_all(releases).map(|errors| errors.concat()).boxed()
            }
            Self::Quorum(elected) => elected.quorum.clone().release().boxed(),
        }
    }
}

/// Resolves when the first of these is lost; never, when there are none.
fn first_lost<'a>(parts: impl Iterator<Item = &'a Held>) -> impl Future<Output = Lost> + Send + 'static {
    let mut losses: FuturesUnordered<_> = parts.map(Held::until_lost).collect();
    async move {
        match losses.next().await {
            Some(lost) => lost,
            None => std::future::pending().await,
        }
    }
}
