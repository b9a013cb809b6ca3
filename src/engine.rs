//! The engine of a client: what every call needs, and no lock, permit or latch.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{join_all, Future, FutureExt, OptionFuture};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::backend::node::Node;
use crate::backend::{Backend, Script, Signal, Slots};
use crate::base::clock::{millis, Moment};
use crate::base::config::{InvalidLease, Settings, LOOK_TIMEOUTS};
use crate::base::host::{Host, Ids};
use crate::base::janitor::{Chores, Janitor, Owed};
use crate::base::owner::Owner;
use crate::error::{in_runtime, LostReason, QueryError};
use crate::events::{Event, Herald};
use crate::lease::lookout::Lookout;
use crate::lease::observer::Observer;
use crate::lease::validity::{Lease, Leased, Place, Verdict};
use crate::lease::watchdog::{Batch, Watchdog};
use crate::messages::channels::Channels;
use crate::messages::pump::Pump;
use crate::metrics::{self, Asking};
use crate::wire::life::Life;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Called, Fate, Fault, Patience, Query, Wire};

/// Give-backs that were not answered are tried again: after this pause first, and after this one at last.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Who is given what it waited for has to take it within so many command timeouts.
const CLAIMED_WITHIN: u32 = 3;

/// The engine: the way to the server, the wake-ups, the renewals and the clean-up of one client. It knows no lock.
/// Background tasks and work under way hold it, not the [`Session`], so that they don't keep the client open.
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    /// A fresh uuid, behind the label if there is one.
    pub(crate) client_id: String,
    pub(crate) wire: Arc<Wire>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) life: Arc<Life>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) lookout: Arc<Lookout>,
    pub(crate) janitor: Janitor,
    pub(crate) herald: Herald,
    pub(crate) ids: Ids,
    pub(crate) owed: Owed,
    closing: AtomicBool,
    /// Its tasks ended before it did.
    dead: AtomicBool,
    /// Nothing is held, waited for or renewed any more.
    over: watch::Sender<bool>,
    numbers: AtomicU64,
}

/// One client, open. Handles and guards hold it: the last of them that goes closes the client.
pub struct Session {
    pub(crate) engine: Arc<Engine>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.engine.refuse();
        self.engine.janitor.close();
    }
}

impl Engine {
    /// The engine, and the work of two of the client's tasks. The third is the watchdog's.
    pub(crate) fn new(
        settings: Settings,
        backend: Arc<dyn Backend>,
        signals: UnboundedReceiver<Signal>,
        Host { id, clock, ids, spawn }: Host,
    ) -> (Arc<Self>, Pump, Chores) {
        let client_id = settings.client_id(id);
        let (janitor, chores) = Janitor::new();
        let quarantine = settings.quarantine.then_some(settings.max_lease);
        let wire = Arc::new(Wire::new(backend.clone(), clock, settings.command_timeout, quarantine, spawn));
        let renewing = wire.clone();
        let renewed = move |script, holds| {
            let asking = Asking::begin();
            let told = move |verdicts: &Vec<Verdict>| {
                let failed = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Unknown)).count();
                asking.renewals(verdicts.len(), failed);
            };
            renew(renewing.clone(), script, holds).inspect(told).boxed()
        };
        let routes = backend.clone();
        metrics::describe();
        let herald = Herald::default();
        let watchdog =
            Arc::new(Watchdog::new(clock, herald.clone(), renewed, move |hold| routes.slot(&hold.keys.lock)));
        let life = Arc::new(Life::new(backend.fails_over()));
        let (confirms, lives, tells) = (watchdog.clone(), life.clone(), herald.clone());
        let over = move |slots: Slots| {
            lives.lost(&slots, clock.now());
            tells.tell(Event::Switched { slots: slots.iter().map(|range| range.len()).sum() });
            confirms.confirm(slots);
        };
        let (channels, pump) = Pump::new(backend, signals, herald.clone(), over);
        let lookout = Lookout::new(wire.clone(), settings.wait_cap);
        let engine = Self {
            wire,
            settings,
            client_id,
            channels,
            life,
            watchdog,
            lookout,
            janitor,
            herald,
            ids,
            owed: Owed::default(),
            closing: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            over: watch::Sender::new(false),
            numbers: AtomicU64::new(0),
        };
        (Arc::new(engine), pump, chores)
    }

    pub(crate) fn now(&self) -> Moment {
        self.wire.clock.now()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether its tasks ended before it did: nothing can be given back any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// What every verb asks first.
    pub(crate) fn ready(&self) -> Result<(), QueryError> {
        if self.is_closing() {
            return Err(QueryError::Closed);
        }
        in_runtime()
    }

    /// What a release asks first: one of a client that was shut down finds nothing to give back.
    pub(crate) fn can_release(&self) -> Result<(), QueryError> {
        if self.is_dead() {
            return Err(QueryError::Closed);
        }
        in_runtime()
    }

    /// No verb begins from here on.
    pub(crate) fn refuse(&self) {
        self.closing.store(true, Ordering::Release);
        self.wire.refuse();
    }

    /// Nothing is renewed or looked for from here on.
    pub(crate) fn stop(&self) {
        self.over.send_replace(true);
        self.lookout.close();
        self.watchdog.close();
    }

    /// Waits until nothing is renewed any more.
    pub(crate) async fn ended(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// One of its tasks has ended. `true`: before the client did, so its runtime is gone, and nothing is renewed or
    /// answered any more.
    pub(crate) fn task_ended(&self) -> bool {
        if self.over.send_replace(true) {
            return false;
        }
        if !self.closing.swap(true, Ordering::AcqRel) {
            self.herald.tell(Event::RuntimeEnded);
        }
        self.dead.store(true, Ordering::Release);
        self.wire.end();
        self.watchdog.close();
        true
    }

    /// A number that this client has not used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The owner part of a field of this client.
    pub(crate) fn owner_of(&self, own: &str) -> Owner {
        let owner = own.get(self.client_id.len() + 1..).and_then(|owner| Owner::of_field(owner).ok());
        // Every field was made of an owner.
        owner.unwrap_or_else(Owner::current)
    }

    /// A call is sent again until the outage limit.
    pub(crate) fn patience(&self) -> Patience {
        self.patience_since(self.now())
    }

    /// The same for one that began then.
    pub(crate) fn patience_since(&self, began: Moment) -> Patience {
        Patience::new(began, self.settings.outage_limit)
    }

    /// Somebody was given what it waited for. If it does not take it in time, the next one gets it.
    pub(crate) fn hand_out(&self, waiter: Weak<impl Observer + 'static>) {
        self.watchdog.hand_out(waiter, self.settings.command_timeout * CLAIMED_WITHIN);
    }

    /// A call of what is tried again anyway is not sent again for so long.
    pub(crate) fn brief(&self) -> Patience {
        Patience::new(self.now(), self.settings.command_timeout)
    }

    /// Tries again, with pauses, what this key's node did not answer: until it does (`true`), or until `over`, when the
    /// lease that it is about has ended. However many there are, a few at once try at one node, so that an outage is
    /// not met with a flood.
    pub(crate) async fn insist<F: Future<Output = bool>>(
        &self,
        key: &str,
        over: Option<Moment>,
        mut answered: impl FnMut() -> F,
    ) -> bool {
        let mut ends = pin!(OptionFuture::from(over.map(|over| self.wire.clock.sleep_until(over))));
        let mut pause = FIRST_RETRY;
        loop {
            let turn = async {
                tokio::time::sleep(self.wire.jittered(pause)).await;
                // Where none is known to have the key, nobody is asked.
                self.wire.backend.node(key).ok()?.turn_to_retry().await
            };
            let turn = tokio::select! {
                biased;
                turn = turn => turn,
                Some(()) = &mut ends => return false,
            };
            // Never dropped half-way: nobody would know of its copies, which may come behind what follows.
            if turn.is_some() && answered().await {
                return true;
            }
            drop(turn);
            if over.is_some_and(|over| self.now() >= over) {
                return false;
            }
            pause = (pause * 2).min(LAST_RETRY);
        }
    }

    /// What is tried again anyway is sent once.
    pub(crate) fn one_copy(&self) -> Patience {
        self.brief().one_copy()
    }

    /// How long one attempt or a question waits for the server.
    pub(crate) fn look_limit(&self) -> Duration {
        self.settings.command_timeout * LOOK_TIMEOUTS
    }

    /// A lease that somebody asks for.
    pub(crate) fn check_lease(&self, lease: Duration) -> Result<Duration, InvalidLease> {
        InvalidLease::check(lease, self.settings.max_lease)
    }

    /// The lease of a request: its own, or the watchdog's.
    pub(crate) fn lease(&self, own: Option<Duration>, max_hold: Option<Duration>) -> Result<Lease, InvalidLease> {
        match own {
            Some(lease) => self.check_lease(lease).map(Lease::Fixed),
            None => {
                let lease = self.settings.watchdog_lease;
                Ok(Lease::Watched { lease, max_hold: max_hold.or(self.settings.max_hold) })
            }
        }
    }

    /// Asks what a caller wants to know, for no longer than one question is waited for.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        name: &str,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<Answer, QueryError> {
        self.ready()?;
        let [keys, args] = [keys, args].map(|words| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let of = self.clone();
        // Carried, so that its answer is read, and counts as one, even if nobody waits for it any more.
        let work = self.janitor.carry(|abandoned| async move {
            let [keys, args] = [&keys, &args].map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
            of.wire.call(script, &keys, &args, &of.patience().unless(abandoned)).await
        });
        let called = tokio::time::timeout(self.look_limit(), work).await.map_err(|_| QueryError::late(name))?;
        Answer::of(called.result, name, self.is_closing())
    }

    /// All that have keys.
    pub(crate) fn nodes(&self) -> Result<Vec<Arc<Node>>, QueryError> {
        let nodes = self.wire.backend.nodes();
        if nodes.is_empty() {
            return Err(QueryError::Unreachable { name: "*".to_owned(), detail: "no server is known yet".to_owned() });
        }
        Ok(nodes)
    }

    /// The same of one node, whichever keys it has: for what is its own. The script writes nothing, so that it may be
    /// sent any number of times.
    pub(crate) async fn ask_at<const N: usize>(
        self: &Arc<Self>,
        node: &Arc<Node>,
        script: &'static Script,
        args: [String; N],
    ) -> Result<Answer, QueryError> {
        self.ready()?;
        let (of, node, address) = (self.clone(), node.clone(), node.address.clone());
        let work = self.janitor.carry(|abandoned| async move {
            let patience = of.patience().unless(abandoned);
            loop {
                match of.wire.call_at(&node, script, &[], &args.each_ref().map(String::as_str)).await {
                    Ok(answer) => return Ok(answer),
                    Err(Fate::Refused(why)) => return Err(Fault::Refused(why)),
                    Err(fate) if patience.is_abandoned() || node.is_over() || of.is_closing() => {
                        return Err(Fault::Unreachable(format!("{fate:?}")))
                    }
                    Err(_) => tokio::time::sleep(of.wire.jittered(FIRST_RETRY)).await,
                }
            }
        });
        let result = tokio::time::timeout(self.look_limit(), work).await.map_err(|_| QueryError::late(&address))?;
        Answer::of(result, &address, self.is_closing())
    }

    /// Sets a lease anew, exactly, or (`None`) only looks whether it is still there. What is left is judged by the
    /// worst that copies in doubt can do.
    pub(crate) async fn change_lease(
        &self,
        leased: &Arc<Leased>,
        script: &'static Script,
        keys: &[&str],
        lease: Option<Duration>,
        patience: &Patience,
    ) -> Called {
        if let Some(lease) = lease {
            leased.begin_change(self.now(), lease);
            self.watchdog.watch(leased, self.now());
        }
        let ms = lease.map_or(0, millis).to_string();
        // One that is only looked at writes nothing that a replica could have.
        let confirm = leased.confirm().filter(|_| lease.is_some());
        let args = [&**leased.mark(), &ms];
        let query = Query { confirm, ..Query::new(script, keys, &args) };
        let called = self.wire.grant(&query, patience).await;
        if lease.is_some() {
            let done = called.result.as_ref().ok().filter(|answer| answer.status == Status::Done);
            let sent = done.map(|answer| answer.sent);
            leased.end_change(sent, self.now(), called.doubt.passes());
            // Its caller may have gone away and given it back meanwhile.
            if !matches!(leased.lost(self.now()), Some(LostReason::Released | LostReason::Ended)) {
                self.watchdog.watch(leased, sent.unwrap_or(self.now()));
            }
        }
        called
    }
}

/// Renews a batch with one script; where some of its keys have moved to another node and others have not, one by one.
async fn renew(wire: Arc<Wire>, script: &'static Script, holds: Batch) -> Vec<Verdict> {
    let renewed = match renew_all(&wire, script, &holds).await {
        Err(Fate::TryAgain(_)) if holds.len() > 1 => {
            let alone = holds.chunks(1).map(|hold| renew_all(&wire, script, hold));
            let verdict = |renewed: Result<Vec<_>, _>| renewed.ok()?.pop();
            let verdicts = join_all(alone).await.into_iter().map(verdict);
            return verdicts.map(|verdict| verdict.unwrap_or(Verdict::Unknown)).collect();
        }
        renewed => renewed,
    };
    renewed.unwrap_or_else(|_| vec![Verdict::Unknown; holds.len()])
}

async fn renew_all(
    wire: &Wire,
    script: &'static Script,
    holds: &[(Arc<Leased>, Duration)],
) -> Result<Vec<Verdict>, Fate> {
    let keys: Vec<_> = holds.iter().flat_map(|(hold, _)| hold.keys_of(script.keys)).collect();
    let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
    let leases: Vec<String> = holds.iter().map(|(_, lease)| millis(*lease).to_string()).collect();
    let places: Vec<Place> = holds.iter().map(|(hold, _)| hold.place()).collect();
    let args: Vec<&str> =
        holds.iter().zip(&leases).flat_map(|((hold, _), lease)| [&**hold.mark(), lease.as_str()]).collect();
    // That of all of them: the watchdog puts no others together.
    let confirm = holds.first().and_then(|(hold, _)| hold.confirm());
    let query = Query { confirm, ..Query::new(script, &keys, &args) };
    // The watchdog itself tries again.
    let answer = wire.copy_in_time(&query).await?;
    let verdicts = holds.iter().zip(places).enumerate().map(|(at, ((hold, _), place))| match answer.int(at) {
        // Too few replicas have it: the old deadline counts.
        Some(1) if answer.status == Status::Done => Verdict::Renewed { sent: answer.sent },
        // It went, or may have gone, to another field as this was under way.
        Some(0) if place == Place::Moving || place != hold.place() => Verdict::Moved,
        Some(0) => Verdict::Refused,
        _ => Verdict::Unknown,
    });
    Ok(verdicts.collect())
}
