//! A red lock's votes: asked for from all servers at once, counted, given back unless most of them came. Rule 21 of
//! docs/PROTOCOL.md.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::{select_all, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::base::clock::Moment;
use crate::compose::held::Held;
use crate::compose::quorum::{Rules, Voter};
use crate::error::{LockError, Passing};
use crate::hold::ticket::Ticket;
use crate::waiting::backoff::Backoff;
use crate::waiting::wait::{sleep_until, Contest, Tried};
use crate::wire::life::Trust;

/// The random pause between two rounds: half of this to all of it, doubled with each round up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What the servers said.
#[derive(Default)]
struct Count {
    votes: Vec<Ticket>,
    /// Somebody else has these, for as long as that.
    busy: Vec<Option<Duration>>,
    /// These may have lost what they granted, and don't vote for as long as that.
    resting: Vec<Duration>,
    silent: usize,
    /// What was said in place of a vote.
    errors: Vec<LockError>,
}

/// Who wants a red lock.
pub(crate) struct Candidate<'a> {
    voters: Vec<Voter>,
    rules: Rules,
    /// The first of this process's that wait.
    permit: Option<OwnedSemaphorePermit>,
    rounds: &'a AtomicU32,
    /// Since when no quorum answers.
    dark: Option<Moment>,
    /// Why the last round was no vote at all; busy is no reason.
    pub(crate) failure: Option<LockError>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(voters: Vec<Voter>, rules: Rules, rounds: &'a AtomicU32) -> Self {
        Self { voters, rules, permit: None, rounds, dark: None, failure: None }
    }

    /// One round: all are asked at once, and whatever is no quorum is given back.
    pub(crate) async fn round(&mut self) -> Result<Tried<Held>, LockError> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) == 0 {
            self.failure = Some(self.rules.no_majority(0, "the wait limit came before an answer".to_owned()));
        }
        let mut count = self.ask().await;
        self.failure = None;
        if self.has_twins() {
            return Err(LockError::Members(
                "two members of a red lock are on one server: each needs its own".to_owned(),
            ));
        }
        if count.votes.len() >= self.rules.needed {
            if let Some(held) = self.elected(&mut count) {
                return Ok(Tried::Won(held));
            }
            let detail = "the answers took too long for the lease".to_owned();
            return self.fails(self.rules.no_majority(self.rules.needed, detail), true);
        }
        let held = count.errors.iter().position(|error| matches!(error, LockError::AlreadyHeld { .. }));
        if let Some(at) = held {
            return Err(count.errors.swap_remove(at));
        }
        if count.votes.len() + count.busy.len() >= self.rules.needed {
            self.dark = None;
            return Ok(Tried::Busy(count.busy.iter().flatten().min().copied()));
        }
        if !count.errors.is_empty() {
            let error = count.errors.swap_remove(0);
            if matches!(error, LockError::Lost { .. }) {
                // Said once, whatever each member has noted of it meanwhile.
                self.voters.iter().for_each(|voter| voter.wish.entry.outer_lost.store(false, Ordering::Release));
            }
            return Err(error);
        }
        let failure = self.rules.no_majority(count.votes.len(), count.in_words());
        let can_vote = count.votes.len() + count.busy.len() + count.resting.len();
        self.fails(failure, can_vote < self.rules.needed)
    }

    /// Why it was not won until its limit, if no quorum answers anybody: who waits behind another asked nobody itself.
    pub(crate) fn unheard(&self) -> Option<LockError> {
        let is_heard = |Voter { wish, session }: &&Voter| !session.engine.wire.is_silent(&wish.entry.line.keys.lock);
        let heard = self.voters.iter().filter(is_heard).count();
        (heard < self.rules.needed).then(|| self.rules.no_majority(0, "no answer until the wait limit".to_owned()))
    }

    /// No quorum, for the reason given: it is asked again until the outage limit, if they are silent.
    fn fails(&mut self, failure: LockError, silent: bool) -> Result<Tried<Held>, LockError> {
        self.failure = Some(failure.clone());
        let Some(engine) = self.voters.first().map(|voter| &voter.session.engine) else { return Err(failure) };
        let now = engine.now();
        self.dark = self.dark.filter(|_| silent).or(silent.then_some(now));
        match self.dark {
            Some(since) if now.since(since) >= engine.settings.outage_limit => Err(failure),
            _ => Ok(Tried::Busy(None)),
        }
    }

    async fn ask(&self) -> Count {
        let mut count = Count::default();
        let mut open: Vec<&Voter> = self.voters.iter().collect();
        let calls = self.voters.iter().map(|voter| {
            let asked = timeout(self.rules.server_timeout, voter.wish.attempt(None));
            asked.map(move |tried| (voter, tried.ok()))
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        while let Some((voter, tried)) = calls.next().await {
            open.retain(|other| !std::ptr::eq(*other, voter));
            count.add(voter, tried, self.rules.trust);
            let no_hope = count.votes.len() + open.len() < self.rules.needed;
            let is_busy = count.votes.len() + count.busy.len() >= self.rules.needed;
            let silent = count.votes.len() >= self.rules.needed
                && open.iter().all(|voter| voter.session.engine.wire.is_silent(&voter.wish.entry.line.keys.lock));
            // Whoever is not waited for is left to its janitor, which gives back what comes of it.
            if (no_hope && is_busy) || (silent && !open.is_empty()) {
                break;
            }
        }
        count
    }

    /// The votes as one hold, if enough of the lease is left.
    fn elected(&self, count: &mut Count) -> Option<Held> {
        let votes = std::mem::take(&mut count.votes);
        let held = Held::quorum(votes, self.voters.clone(), self.rules.clone())?;
        let standing = held.standing();
        (standing.lost.is_none() && standing.left > self.rules.min_validity).then_some(held)
    }

    /// Two votes of one server would be one.
    fn has_twins(&self) -> bool {
        let mut runs = HashSet::new();
        let run = |Voter { wish, .. }: &Voter| wish.engine.life.id(wish.slot());
        !self.voters.iter().filter_map(run).all(|run| runs.insert(run))
    }

    /// The same owner holds it already, as far as is known here.
    fn is_inner(&self) -> bool {
        self.voters.iter().filter(|voter| voter.wish.entry.is_enterable()).count() >= self.rules.needed
    }

    /// The first in this process's line of those who wait, or one who need not stand in it.
    async fn stand_in_line(&mut self) {
        let Some(first) = self.voters.first() else { return };
        let mut permit = pin!(first.wish.entry.line.candidates.clone().acquire_owned());
        loop {
            let held = self
                .voters
                .iter()
                .map(|voter| Box::pin(voter.wish.entry.elected.get_or_init(Box::default).held.notified()));
            let mut held: Vec<_> = held.collect();
            for held in &mut held {
                held.as_mut().enable();
            }
            if self.is_inner() {
                return;
            }
            tokio::select! {
                biased;
                permit = permit.as_mut() => {
                    drop(held);
                    self.permit = permit.ok();
                    return;
                }
                _ = select_all(held.iter_mut()) => {}
            }
        }
    }
}

impl Contest for Candidate<'_> {
    type Prize = Held;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Option<Held>, LockError> {
        match pause {
            None => self.stand_in_line().await,
            Some(pause) => sleep_until(Some(tokio::time::Instant::now() + pause)).await,
        }
        Ok(None)
    }

    async fn attempt(&mut self) -> Result<Tried<Held>, LockError> {
        self.round().await
    }

    fn listen(&mut self) -> bool {
        false
    }

    fn pause(&mut self) -> Duration {
        let Some(first) = self.voters.first() else { return LONGEST_PAUSE };
        let wire = &first.session.engine.wire;
        let rounds = self.rounds.load(Ordering::Relaxed);
        Backoff::exponential(FIRST_PAUSE, LONGEST_PAUSE).pause(rounds, |pause| wire.jittered(pause))
    }
}

impl Rules {
    fn no_majority(&self, votes: usize, detail: String) -> LockError {
        LockError::NoMajority { name: self.name.to_string(), votes, needed: self.needed, detail }
    }
}

impl Count {
    fn add(&mut self, voter: &Voter, tried: Option<Result<Tried<Ticket>, LockError>>, trust: Trust) {
        let engine = &voter.session.engine;
        match tried {
            Some(Ok(Tried::Won(ticket))) => match engine.life.rests(voter.wish.slot(), trust, engine.now()) {
                None => self.votes.push(ticket),
                // The vote is given back as the ticket goes.
                Some(left) => self.resting.push(left),
            },
            Some(Ok(Tried::Busy(left))) => self.busy.push(left),
            None => self.silent += 1,
            Some(Err(error)) if error.is_unreachable() => self.silent += 1,
            Some(Err(error)) => match error.passes_after() {
                Some(left) => self.resting.push(left),
                None => self.errors.push(error),
            },
        }
    }

    fn in_words(&self) -> String {
        let mut text = format!("{} busy, {} without an answer", self.busy.len(), self.silent);
        if let Some(left) = self.resting.iter().max() {
            let resting = self.resting.len();
            text.push_str(&format!(", {resting} not voting for {left:?} as they may have lost what they granted"));
        }
        text
    }
}
