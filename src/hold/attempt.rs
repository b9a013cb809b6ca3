//! One attempt at a lock: a call with all its copies, and what becomes of its answer.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::Poll;

use futures::future::FutureExt;
use futures::poll;
use scopeguard::ScopeGuard;

use crate::backend::BOOT;
use crate::base::clock::{millis, Moment};
use crate::base::owner::Owner;
use crate::error::{LockError, LostReason, QueryError};
use crate::hold::admit::admit_readers;
use crate::hold::doubt::{is_to_be_tried_again, settle, wait_out, Rest};
pub(crate) use crate::hold::entry::Wish;
use crate::hold::entry::{count_text, Debts, Gate, Hold, Place};
use crate::hold::run::{begins, own};
use crate::hold::ticket::Ticket;
use crate::waiting::wait::Tried;
use crate::wire::confirm::{check, Short};
use crate::wire::doubt::Doubt;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Called, Fault, Patience, Query};
use crate::wire::table::Role;

/// What an attempt came to, and the entry until somebody has taken it over.
type Attempted = (Result<Tried<Ticket>, LockError>, Option<Gate>);

impl Wish {
    /// One attempt with all its copies. Dropped half-way, the janitor finishes it.
    pub(crate) async fn attempt(self: &Arc<Self>, waiter: Option<Arc<Place>>) -> Result<Tried<Ticket>, LockError> {
        self.engine.ready()?;
        let begun = {
            let mut begin = pin!(self.begin(waiter.as_deref()));
            match poll!(&mut begin) {
                // Mostly nothing is in its way, and no timer is needed.
                Poll::Ready(begun) => Ok(begun),
                Poll::Pending => tokio::time::timeout(self.engine.settings.outage_limit, begin).await,
            }
        };
        let (gate, handed) = begun.unwrap_or_else(|_| {
            // What an earlier call left in doubt is still asked about, in vain.
            let detail = "an earlier call of this owner is not over yet".to_owned();
            Err(QueryError::Unreachable { name: self.name(), detail }.into())
        })?;
        if let Some(ticket) = handed {
            return Ok(Tried::Won(ticket));
        }
        let wish = self.clone();
        let work = self.engine.janitor.carry(move |abandoned| {
            let patience = wish.engine.patience_since(wish.began).unless(abandoned);
            async move { wish.ask(gate, waiter, &patience).await }
        });
        // The gate opens last: where nobody awaits the ticket, it is on its way back before this owner's next attempt.
        let (tried, _gate) = work.await;
        tried
    }

    /// The entry to itself, with nothing owed; and what was handed over meanwhile, if anything.
    async fn begin(&self, waiter: Option<&Place>) -> Result<(Gate, Option<Ticket>), LockError> {
        let mut gate = self.gate().await;
        if let Some(ticket) = waiter.and_then(Place::take_prize) {
            return Ok((gate, Some(ticket)));
        }
        wait_out(&mut gate).await;
        gate.pass_entries(self.entry.count()).await;
        // Behind that: the owner may give its read hold back while this waits.
        let is_upgrade = self.is_upgrade().await;
        Ok((self.check(gate, is_upgrade)?, None))
    }

    /// The entry to itself, behind the releases that this owner began, in the other role too.
    async fn gate(&self) -> Gate {
        if let Some(sibling) = self.sibling.as_ref().filter(|sibling| sibling.is_leaving()) {
            drop(sibling.gate.lock().await);
        }
        loop {
            let gate = self.entry.gate.clone().lock_owned().await;
            // What can't be entered again is taken anew, behind its release.
            if self.kind.reentrant || !self.entry.is_leaving() {
                return gate;
            }
        }
    }

    /// That of its lock.
    pub(crate) fn slot(&self) -> u16 {
        self.engine.wire.slot(&self.entry.line.keys.lock)
    }

    fn name(&self) -> String {
        self.entry.line.keys.name.to_string()
    }

    fn owner(&self) -> Owner {
        self.engine.owner_of(&self.entry.field)
    }

    /// Whether this would be an upgrade: told behind what is under way in the other role, as what comes of that may be
    /// on its way back at once. (Nobody who has that entry to itself waits for this one.)
    async fn is_upgrade(&self) -> bool {
        let Some(reader) = self.sibling.as_ref().filter(|_| self.kind.role == Role::Write && self.holds_as_sibling())
        else {
            return false;
        };
        let _gate = reader.gate.lock().await;
        self.holds_as_sibling()
    }

    /// What can be refused without asking the server.
    fn check(&self, gate: Gate, is_upgrade: bool) -> Result<Gate, LockError> {
        if self.engine.is_closing() {
            return Err(QueryError::Closed.into());
        }
        let outer_lost = self.entry.outer_lost.swap(false, Ordering::AcqRel);
        let Some(hold) = self.entry.hold() else {
            if outer_lost {
                return Err(LockError::Lost { name: self.name(), owner: self.owner() });
            }
            if is_upgrade {
                return Err(LockError::Upgrade { name: self.name(), owner: self.owner() });
            }
            return Ok(gate);
        };
        if let Some(why) = hold.leased.lost(self.engine.now()) {
            return Err(self.end(&hold, why, gate, &Doubt::default()));
        }
        if !self.kind.reentrant {
            return Err(LockError::AlreadyHeld { name: self.name(), owner: self.owner() });
        }
        let limit = self.engine.settings.max_holds;
        if self.entry.count() >= limit {
            return Err(LockError::HoldLimit { name: self.name(), owner: self.owner(), limit });
        }
        Ok(gate)
    }

    /// The owner's hold was lost: it is over, and whatever the server has of it is given back.
    fn end(&self, hold: &Hold, why: LostReason, gate: Gate, doubt: &Doubt) -> LockError {
        self.drop_hold(hold, why);
        let mut doubt = doubt.clone();
        doubt.merge(&gate.acquire);
        // This attempt may have lengthened what is left.
        let lease = hold.leased.longest().max(self.lease.duration());
        Rest { lease, ..Rest::of(hold) }.take_back(&self.engine, Some(gate), doubt);
        LockError::Lost { name: self.name(), owner: self.owner() }
    }

    fn drop_hold(&self, hold: &Hold, why: LostReason) {
        self.engine.watchdog.forget(&hold.leased);
        self.entry.drop_hold(hold.leased.id, why);
        hold.leased.report_lost(&self.engine.herald);
    }

    /// Whether the same owner holds the lock in the other role, as far as is known here.
    pub(crate) fn holds_as_sibling(&self) -> bool {
        let hold = self.sibling.as_ref().filter(|sibling| !sibling.is_leaving()).and_then(|sibling| sibling.hold());
        hold.is_some_and(|hold| hold.leased.lost(self.engine.now()).is_none())
    }

    /// The server may have more than this owner holds, as an earlier give-back was not answered: that goes first, as
    /// what is found there would be taken for what this attempt did.
    async fn clear(&self, gate: &mut Gate, patience: &Patience) -> Result<(), LockError> {
        let settled = settle(&self.engine, self.kind, &self.entry, gate, &self.entry.field, patience).await;
        let cleared = match settled {
            Ok(Answer { status: Status::Refused(why), .. }) => Err(Fault::Refused(why)),
            settled => settled,
        };
        gate.unanswered |= cleared.is_err();
        cleared.map_err(|fault| self.failed(fault))?;
        wait_out(gate).await;
        Ok(())
    }

    fn failed(&self, fault: Fault) -> LockError {
        QueryError::of_fault(&self.entry.line.keys.name, fault, self.engine.is_closing()).into()
    }

    async fn ask(&self, mut gate: Gate, waiter: Option<Arc<Place>>, patience: &Patience) -> Attempted {
        // What few need is boxed, so that it takes no room in every attempt.
        if gate.unanswered && !self.kind.anonymous {
            if let Err(error) = self.clear(&mut gate, patience).boxed().await {
                return (Err(error), Some(gate));
            }
        }
        if let Some(hold) = self.entry.hold() {
            match own(&self.engine, &hold, &mut gate, patience).boxed().await {
                Ok(None) => {}
                Ok(Some(Short { acked, wanted })) => {
                    let given_back = true;
                    return (Err(LockError::NotConfirmed { name: self.name(), acked, wanted, given_back }), Some(gate));
                }
                Err(fault) => return (Err(self.failed(fault)), Some(gate)),
            }
            if let Some(why) = hold.leased.lost(self.engine.now()) {
                return (Err(self.end(&hold, why, gate, &Doubt::default())), None);
            }
        }
        let others_wait = waiter.as_ref().is_some_and(|waiter| self.entry.line.turns.lock().has_others(waiter));
        let (keys, mark) = (&self.entry.line.keys, self.mark(others_wait && self.entry.hold().is_none()));
        let from = self.entry.count();
        let (lease, count) = (millis(self.lease.duration()).to_string(), count_text(from));
        let asks = (self.kind.asks)(self.sibling.as_ref().map(|sibling| &*sibling.field), waiter.is_some());
        let fence = self.kind.fenced.then(|| self.entry.fence());
        let marker = self.vote.map(|_| self.engine.wire.backend.marker(BOOT, &keys.lock));
        // What some kinds want besides.
        let more: Vec<String> = asks.into_iter().chain(fence.into_iter().flatten()).chain(marker).collect();
        let mut args: Vec<&str> = vec![&mark, &lease, &count];
        args.extend(more.iter().map(|word| &**word));
        let script = self.vote.unwrap_or(self.kind.acquire);
        // Nothing moves the validity of a hold by less than confirms its others.
        let confirm = self.confirm.max(self.entry.hold().and_then(|hold| hold.leased.confirm()));
        let (keys, takes) = (keys.of(script.keys), from == 0);
        let query = Query { script, keys: &keys, args: &args, confirm, takes };
        if query.confirm.is_some() {
            let checked = check(&*self.engine.wire.backend, query.key(), query.confirm).boxed();
            if let Err(why) = checked.await {
                return (Err(QueryError::Refused { name: self.name(), why }.into()), Some(gate));
            }
        }
        // Where this panics, as the timers do of a runtime that has ended.
        let unheard = scopeguard::guard((), |()| {
            let doubt = self.engine.wire.doubt(&self.entry.line.keys.lock);
            self.take_back(&mark, None, doubt);
        });
        let mut called = self.engine.wire.grant(&query, patience).await;
        // It had more to tidy up than one call may (rule 12).
        while called.goes_on() && !patience.is_abandoned() && !self.engine.is_closing() {
            let doubt = called.doubt;
            called = self.engine.wire.grant(&query, patience).boxed().await;
            called.doubt.merge(&doubt);
        }
        ScopeGuard::into_inner(unheard);
        // A copy without an answer may add a count whatever comes of this: the owner's next calls have to know.
        gate.owe_acquire(&called.doubt, from);
        match &called.result {
            Ok(Answer { status: Status::NotConfirmed(short), sent, .. }) => {
                let (short, sent) = (*short, *sent);
                self.unconfirmed(&mark, gate, called.doubt, (short, sent)).boxed().await
            }
            _ => self.read(&mark, gate, called),
        }
    }

    /// Too few replicas have it: it is given back at once, to what this owner held before.
    async fn unconfirmed(
        &self,
        mark: &Arc<str>,
        mut gate: Gate,
        doubt: Doubt,
        (short, sent): (Short, Moment),
    ) -> Attempted {
        self.outlive(sent);
        let settled = settle(&self.engine, self.kind, &self.entry, &mut gate, mark, &self.engine.brief()).await;
        let is_open = is_to_be_tried_again(&settled);
        let given_back = !is_open && doubt.is_empty() && gate.release.is_empty();
        let gate = match is_open {
            true => {
                self.take_back(mark, Some(gate), doubt);
                None
            }
            false => {
                if !doubt.is_empty() {
                    self.take_back(mark, None, doubt);
                }
                Some(gate)
            }
        };
        let Short { acked, wanted } = short;
        (Err(LockError::NotConfirmed { name: self.name(), acked, wanted, given_back }), gate)
    }

    fn read(&self, mark: &Arc<str>, mut gate: Gate, called: Called) -> Attempted {
        let doubt = called.doubt;
        match called.result {
            Ok(answer) => {
                (self.learn)(self, &answer);
                match self.entry.hold().and_then(|outer| self.why_over(&outer, &answer).map(|why| (outer, why))) {
                    Some((outer, why)) => (Err(self.end(&outer, why, gate, &doubt)), None),
                    None => (self.read_answer(mark, &mut gate, answer, doubt), Some(gate)),
                }
            }
            // No copy was sent.
            Err(fault @ Fault::Unreachable(_)) if doubt.is_empty() => (Err(self.failed(fault)), Some(gate)),
            Err(fault) => {
                self.take_back(mark, Some(gate), doubt);
                (Err(self.failed(fault)), None)
            }
        }
    }

    /// The answer came too late for the hold that was to be entered, or the server has it no more.
    fn why_over(&self, outer: &Hold, answer: &Answer) -> Option<LostReason> {
        match answer.status {
            Status::Done => outer.leased.lost(self.engine.now()),
            Status::NotHeld => Some(LostReason::Server),
            _ => None,
        }
    }

    fn read_answer(
        &self,
        mark: &Arc<str>,
        gate: &mut Debts,
        answer: Answer,
        doubt: Doubt,
    ) -> Result<Tried<Ticket>, LockError> {
        if answer.status != Status::Done && !doubt.is_empty() {
            self.take_back(mark, None, doubt.clone());
        }
        match answer.status {
            Status::Done => {
                self.outlive(answer.sent);
                let ticket = Ticket::enter(self, mark, &answer);
                begins(&ticket);
                let ticket = ticket.if_worth()?;
                if let Some(script) = self.kind.admit.filter(|_| !ticket.inner) {
                    admit_readers(self, script);
                }
                Ok(Tried::Won(ticket))
            }
            Status::Busy => {
                self.entry.line.turns.lock().busy_elsewhere();
                Ok(Tried::Busy(answer.millis(0)))
            }
            Status::NotHeld => {
                if let Some(doubt) = gate.acquire.take() {
                    self.take_back(mark, None, doubt);
                }
                Err(LockError::Lost { name: self.name(), owner: self.owner() })
            }
            Status::WrongType(detail) => Err(QueryError::WrongType { name: self.name(), detail }.into()),
            Status::Tampered(found) => Err(QueryError::Tampered { name: self.name(), found }.into()),
            Status::Refused(why) => Err(QueryError::Refused { name: self.name(), why }.into()),
            // Not from here: it was given back before.
            Status::NotConfirmed(Short { acked, wanted }) => {
                Err(LockError::NotConfirmed { name: self.name(), acked, wanted, given_back: false })
            }
        }
    }

    /// The server gave it to this owner: whoever has it by the record of this process has lost it, but for one that is
    /// on its way back, and the writer that this owner is itself. Where it is not clear which of them is the newer, the
    /// next renewal tells.
    pub(crate) fn outlive(&self, sent: Moment) {
        if self.entry.count() > 0 {
            return;
        }
        // Readers are beside each other, however many.
        let others = match self.kind.role {
            Role::Read => self.entry.line.turns.lock().holder().into_iter().collect(),
            _ => self.entry.line.holds(),
        };
        for hold in others {
            let beside = match hold.kind.role {
                Role::Exclusive | Role::Read => false,
                Role::Write => self.sibling.as_ref().is_some_and(|sibling| Arc::ptr_eq(sibling, &hold.entry)),
            };
            if !beside && hold.leased.since <= sent && hold.leased.is_watched() {
                hold.lose(&self.engine, LostReason::Server);
            }
        }
    }

    /// A message came, or may have been missed: nobody else releases what this process holds.
    pub(crate) fn doubt_holders(&self) {
        self.entry.line.holds().iter().for_each(|hold| hold.look(&self.engine));
    }

    /// Whatever copies in doubt may have taken, or may take yet.
    fn take_back(&self, mark: &Arc<str>, gate: Option<Gate>, doubt: Doubt) {
        Rest::of_attempt(self, mark.clone()).take_back(&self.engine, gate, doubt);
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::base::clock::Clock;
    use crate::base::config::{Replicas, Settings};
    use crate::base::fault::Refused;
    use crate::client::parts::Parts;
    use crate::wire::stub::Stub;
    use crate::{EmbeddedServer, Locks, Request};

    /// What nobody holds is not taken on a server that may have lost what it granted.
    #[tokio::test(start_paused = true)]
    async fn a_server_in_quarantine_grants_nothing_new() {
        const LONGEST: Duration = Duration::from_secs(60);
        let server = EmbeddedServer::new();
        let builder = || Locks::builder().watchdog_lease(LONGEST).max_lease(LONGEST).quarantine(true);
        let locks = server.connect_with(builder()).unwrap();
        let lock = locks.lock("new").owned_by(&"owner".parse().unwrap());
        let refused = lock.try_lock().await;
        let is_refused =
            matches!(&refused, Err(LockError::Query(QueryError::Refused { why: Refused::Quarantine(_), .. })));
        assert!(is_refused, "{refused:?}");
        tokio::time::advance(LONGEST).await;
        assert!(lock.try_lock().await.unwrap().is_acquired());
    }

    /// A copy without an answer may take it yet, whatever was given back: who is told otherwise would not look for it.
    #[tokio::test(start_paused = true)]
    async fn nothing_counts_as_given_back_while_a_copy_may_come() {
        const WITHIN: Duration = Duration::from_millis(100);
        let server = EmbeddedServer::new();
        server.set_replica(Some(Duration::from_millis(1)));
        server.silence_replica(true);
        for (lost, expected) in [(0, true), (1, false)] {
            server.lose_replies(lost);
            let lock = server.connect().lock("lost");
            let told = lock.acquire().confirm(Replicas::AtLeast(1), WITHIN).guard().await;
            let is_it = matches!(&told, Err(LockError::NotConfirmed { given_back, .. }) if *given_back == expected);
            assert!(is_it, "{lost} answers lost: {told:?}");
        }
    }

    /// Locks of two nodes of one cluster have two votes.
    #[tokio::test]
    async fn a_vote_is_known_by_the_slot_of_its_lock() {
        let (_told, signals) = unbounded_channel();
        let parts = Parts::start(Settings::default(), Stub::new(), signals, Clock::System.into());
        let locks = Locks::of(parts);
        let slots = ["a", "bb"].map(|name| {
            let lock = locks.lock(name);
            let (line, field) = (lock.line().unwrap(), lock.field());
            lock.wish(&line, &field, &Request::default(), None).unwrap().slot()
        });
        let life = &locks.engine().life;
        slots.iter().zip(["one", "other"]).for_each(|(slot, run)| life.met(*slot, run));
        assert_eq!(slots.map(|slot| life.id(slot)), ["one", "other"].map(|run| Some(run.to_owned())));
    }

    /// A copy that would enter a hold again comes when less is held, and would count on top of that: an acquire from
    /// there waits until none can come, and what they did goes first. A hand-over is not tried before.
    #[tokio::test(start_paused = true)]
    async fn what_would_enter_again_is_waited_for_by_who_has_less() {
        let server = EmbeddedServer::new();
        let locks = server.connect();
        let lock = locks.lock("entered").owned_by(&"owner".parse().unwrap());
        let entry = lock.line().unwrap().entry(&lock.field());
        for from in [0, 1, 2] {
            let held = u32::saturating_sub(from, 1);
            for _ in 0..held {
                lock.lock().await.unwrap();
            }
            let began = tokio::time::Instant::now();
            entry.gate.lock().await.owe_acquire(&locks.engine().wire.doubt("entered"), from);
            server.command(&["HSET", "entered", &entry.field, &(from + 1).to_string()]).unwrap();
            server.command(&["PEXPIRE", "entered", "30000"]).unwrap();
            assert_eq!(entry.gate.lock().await.is_clear(), from == 0);
            lock.lock().await.unwrap();
            assert_eq!(began.elapsed().as_secs() > 0, from > 0, "what takes it is found there at once");
            let count = Ok(crate::Reply::Text((held + 1).to_string()));
            assert_eq!(server.command(&["HGET", "entered", &entry.field]), count);
            for _ in 0..=held {
                lock.unlock().await.unwrap();
            }
        }
    }
}
