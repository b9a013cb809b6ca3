//! The channels that this client listens to: a message wakes those who wait for it. Rule 15 of docs/PROTOCOL.md:
//! messages are hints, and whenever some may have been missed every waiter is woken.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, Semaphore};
use tokio::time::{sleep_until, Instant};

use crate::backend::{Backend, Signal, Slots};
use crate::base::janitor::say;
use crate::base::registry::shrink;

/// How long a subscription that nobody uses is kept.
const LINGER: Duration = Duration::from_secs(5);
/// Or until this many messages came by it: whoever publishes them may stand aside for us.
const UNHEEDED: u32 = 4;
/// A failed subscription is tried again after this.
const RETRY: Duration = Duration::from_millis(250);
/// Channels in one SUBSCRIBE.
const CHUNK: usize = 500;
/// More wake-ups than anyone can use.
const MOST_WAKES: usize = 1 << 16;

/// What came by a channel.
struct Heard {
    /// One permit for each message, more after a gap.
    wakes: Semaphore,
    /// Whether the server has the subscription, as far as is known.
    confirmed: AtomicBool,
    /// Messages `0`.
    zeros: AtomicU64,
}

struct Channel {
    heard: Arc<Heard>,
    users: usize,
    /// Without users: when it ends.
    ends: Option<Instant>,
    /// Messages since it has none.
    unheeded: u32,
    joining: Vec<oneshot::Sender<bool>>,
}

enum Order {
    /// A channel is new, or lost its last user.
    Look,
    Close(oneshot::Sender<()>),
}

/// The channels by name, and those that want something, so that nobody looks through all of them.
#[derive(Default)]
struct Map {
    all: HashMap<Arc<str>, Channel>,
    /// Those without users, by when they end.
    idle: BTreeSet<(Instant, Arc<str>)>,
    /// Those that the server has not confirmed.
    missing: BTreeSet<Arc<str>>,
}

impl Map {
    /// When a channel ends, unless it is used again.
    fn end_at(&mut self, name: &Arc<str>, ends: Option<Instant>) {
        let Some(channel) = self.all.get_mut(name) else { return };
        if let Some(before) = std::mem::replace(&mut channel.ends, ends) {
            self.idle.remove(&(before, name.clone()));
        }
        self.idle.extend(ends.map(|ends| (ends, name.clone())));
    }

    /// A message came that nobody uses.
    fn unheeded(&mut self, name: &Arc<str>) {
        let Some(channel) = self.all.get_mut(name) else { return };
        channel.unheeded += 1;
        if channel.unheeded == UNHEEDED {
            self.end_at(name, Some(Instant::now()));
        }
    }

    /// Takes out what is at its end, as much as goes into one call.
    fn take_idle(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut taken = Vec::new();
        while taken.len() < CHUNK && self.idle.first().is_some_and(|(ends, _)| *ends <= now) {
            let Some((_, name)) = self.idle.pop_first() else { break };
            self.all.remove(&name);
            self.missing.remove(&name);
            taken.push(name);
        }
        shrink(&mut self.all);
        taken
    }
}

/// The subscriptions of a client.
pub(crate) struct Channels {
    map: Mutex<Map>,
    orders: UnboundedSender<Order>,
    gaps: AtomicU64,
    /// Since when messages may be missing, if they may.
    gap_since: Mutex<Option<Instant>>,
}

/// The loop that keeps them. Where it ends, nobody waits for a subscription any more.
pub(crate) struct Pump {
    channels: Arc<Channels>,
    orders: UnboundedReceiver<Order>,
    signals: UnboundedReceiver<Signal>,
    backend: Arc<dyn Backend>,
    /// Told when the node of some slots is over.
    over: Box<dyn Fn(Slots) + Send>,
}

impl Channels {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        signals: UnboundedReceiver<Signal>,
        over: impl Fn(Slots) + Send + 'static,
    ) -> (Arc<Self>, Pump) {
        let (orders, received) = unbounded_channel();
        let channels =
            Arc::new(Self { map: Mutex::default(), orders, gaps: AtomicU64::new(0), gap_since: Mutex::default() });
        (channels.clone(), Pump { channels, orders: received, signals, backend, over: Box::new(over) })
    }

    /// Subscribes, or shares a subscription that is there; the receiver says whether the server confirmed it. One that
    /// it did not is tried again, and then wakes its users.
    pub(crate) fn join(self: &Arc<Self>, name: &Arc<str>) -> (Subscription, oneshot::Receiver<bool>) {
        let (done, confirmed) = oneshot::channel();
        let mut map = self.map.lock();
        map.end_at(name, None);
        let Map { all, missing, .. } = &mut *map;
        let channel = all.entry(name.clone()).or_insert_with(|| {
            missing.insert(name.clone());
            let (wakes, confirmed, zeros) = (Semaphore::new(0), AtomicBool::new(false), AtomicU64::new(0));
            let heard = Arc::new(Heard { wakes, confirmed, zeros });
            Channel { heard, users: 0, ends: None, unheeded: 0, joining: Vec::new() }
        });
        channel.users += 1;
        channel.unheeded = 0;
        if channel.heard.confirmed.load(Ordering::Acquire) {
            let _ = done.send(true);
        } else {
            channel.joining.push(done);
        }
        let heard = channel.heard.clone();
        drop(map);
        if self.orders.send(Order::Look).is_err() {
            self.map.lock().all.values_mut().for_each(|channel| channel.joining.clear());
        }
        (Subscription { channels: self.clone(), name: name.clone(), heard }, confirmed)
    }

    pub(crate) fn is_confirmed(&self, name: &str) -> bool {
        self.map.lock().all.get(name).is_some_and(|channel| channel.heard.confirmed.load(Ordering::Acquire))
    }

    /// Forgets the messages of a channel that nobody took yet. Whether it is subscribed to.
    pub(crate) fn drain(&self, name: &str) -> bool {
        let map = self.map.lock();
        let Some(channel) = map.all.get(name) else { return false };
        channel.heard.wakes.forget_permits(usize::MAX);
        channel.heard.confirmed.load(Ordering::Acquire)
    }

    /// How many channels are subscribed to, those that linger included.
    pub(crate) fn len(&self) -> usize {
        self.map.lock().all.len()
    }

    /// How often messages may have been missed.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Relaxed)
    }

    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.orders.send(Order::Close(done)).is_ok() {
            let _ = closed.await;
        }
    }
}

/// One user of a channel. The subscription outlives the last one by the linger.
pub(crate) struct Subscription {
    channels: Arc<Channels>,
    name: Arc<str>,
    heard: Arc<Heard>,
}

impl Subscription {
    /// Whether the server has it, as far as is known.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.heard.confirmed.load(Ordering::Acquire)
    }

    /// How many messages `0` came while anybody used the channel.
    pub(crate) fn zeros(&self) -> u64 {
        self.heard.zeros.load(Ordering::Acquire)
    }

    /// Waits for a message.
    pub(crate) async fn heard(&self) {
        match self.heard.wakes.acquire().await {
            Ok(permits) => permits.forget(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Forgets the messages that nobody took yet.
    pub(crate) fn drain(&self) {
        self.heard.wakes.forget_permits(usize::MAX);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut map = self.channels.map.lock();
        let Some(channel) = map.all.get_mut(&self.name) else { return };
        channel.users -= 1;
        if channel.users == 0 {
            map.end_at(&self.name, Some(Instant::now() + LINGER));
            let _ = self.channels.orders.send(Order::Look);
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.orders.close();
        self.channels.map.lock().all.values_mut().for_each(|channel| channel.joining.clear());
    }
}

impl Pump {
    /// One SUBSCRIBE or UNSUBSCRIBE at a time, so that their order is the map's; messages go on meanwhile.
    pub(crate) async fn run(mut self) {
        let mut work: Option<BoxFuture<'static, bool>> = None;
        let mut retry_at: Option<Instant> = None;
        loop {
            // What is due behind a failure waits for the next try too.
            let wake_at = retry_at.or_else(|| self.first_idle().filter(|_| work.is_none()));
            tokio::select! {
                signal = self.signals.recv() => match signal {
                    Some(Signal::Message { channel, zero }) => self.wake(&channel, zero),
                    Some(Signal::Gap) => self.gap(None),
                    Some(Signal::Lost(channels)) => self.gap(Some(&channels)),
                    Some(Signal::Whole) => self.channels.end_gap(),
                    Some(Signal::Over(slots)) => (self.over)(slots),
                    None => return,
                },
                order = self.orders.recv() => match order {
                    Some(Order::Look) => {}
                    Some(Order::Close(done)) => {
                        let _ = done.send(());
                        return;
                    }
                    None => return,
                },
                Some(ok) = OptionFuture::from(work.as_mut()) => {
                    work = None;
                    retry_at = (!ok).then(|| Instant::now() + RETRY);
                }
                Some(()) = OptionFuture::from(wake_at.map(sleep_until)) => {
                    retry_at = retry_at.filter(|at| *at > Instant::now());
                }
            }
            if work.is_none() && retry_at.is_none() {
                // Work that panics is work that failed.
                work = self
                    .next_work()
                    .map(|work| AssertUnwindSafe(work).catch_unwind().map(|done| done.unwrap_or_default()).boxed());
            }
        }
    }

    fn first_idle(&self) -> Option<Instant> {
        self.channels.map.lock().idle.first().map(|(ends, _)| *ends)
    }

    fn wake(&self, name: &str, zero: bool) {
        let mut map = self.channels.map.lock();
        let Some((name, channel)) = map.all.get_key_value(name) else { return };
        channel.heard.zeros.fetch_add(u64::from(zero), Ordering::AcqRel);
        if channel.heard.wakes.available_permits() < MOST_WAKES {
            channel.heard.wakes.add_permits(1);
        }
        if channel.users == 0 {
            let name = name.clone();
            map.unheeded(&name);
        }
    }

    /// No subscription is left, or none of these, as far as is known.
    fn gap(&self, only: Option<&[String]>) {
        self.channels.gaps.fetch_add(1, Ordering::Relaxed);
        let mut map = self.channels.map.lock();
        let Map { all, missing, .. } = &mut *map;
        let before = missing.len();
        let mut lose = |name: &Arc<str>, channel: &Channel| {
            channel.heard.confirmed.store(false, Ordering::Release);
            missing.insert(name.clone());
        };
        match only {
            None => all.iter().for_each(|(name, channel)| lose(name, channel)),
            Some(names) => {
                let known = names.iter().filter_map(|name| all.get_key_value(name.as_str()));
                known.for_each(|(name, channel)| lose(name, channel));
            }
        }
        let channels = missing.len() - before;
        drop(map);
        if self.channels.begin_gap() {
            say(|| tracing::warn!(target: "lockson", channels, "gap: messages may be missing, subscribing again"));
        }
    }

    fn next_work(&self) -> Option<BoxFuture<'static, bool>> {
        let mut map = self.channels.map.lock();
        let idle = map.take_idle(Instant::now());
        if !idle.is_empty() {
            let left = self.backend.unsubscribe(texts(&idle));
            return Some(left.map(|()| true).boxed());
        }
        let missing: Vec<Arc<str>> = map.missing.iter().take(CHUNK).cloned().collect();
        if missing.is_empty() {
            return None;
        }
        let channels = self.channels.clone();
        let gaps = channels.gaps();
        let subscribed = self.backend.subscribe(texts(&missing));
        Some(async move { channels.subscribed(&missing, subscribed.await, gaps) }.boxed())
    }
}

impl Channels {
    /// Tells those who wait for it. After a gap the waiters try again: something may have been missed. Whether the rest
    /// may be tried at once.
    fn subscribed(&self, names: &[Arc<str>], result: Result<(), String>, gaps: u64) -> bool {
        let went = result.is_ok();
        let ok = went && self.gaps() == gaps;
        if let Err(why) = result {
            let is_new = self.begin_gap();
            say(|| match is_new {
                true => tracing::warn!(target: "lockson", why, "gap: a subscription failed and is tried again"),
                false => tracing::debug!(target: "lockson", why, "a subscription failed and is tried again"),
            });
        }
        let mut map = self.map.lock();
        for name in names {
            if ok {
                map.missing.remove(name);
            }
            let Some(channel) = map.all.get_mut(name) else { continue };
            channel.heard.confirmed.store(ok, Ordering::Release);
            for joining in channel.joining.drain(..) {
                let _ = joining.send(ok);
            }
            channel.heard.wakes.add_permits(channel.users.min(MOST_WAKES));
        }
        drop(map);
        if ok {
            self.end_gap();
        }
        went
    }

    /// `true`: it is the beginning of one.
    fn begin_gap(&self) -> bool {
        let mut since = self.gap_since.lock();
        let begins = since.is_none();
        since.get_or_insert_with(Instant::now);
        begins
    }

    /// The server answers: that is the end of a gap if no channel is without its subscription.
    fn end_gap(&self) {
        let map = self.map.lock();
        if !map.missing.is_empty() {
            return;
        }
        let (channels, since) = (map.all.len(), self.gap_since.lock().take());
        drop(map);
        if let Some(after) = since.map(|since| since.elapsed()) {
            say(|| tracing::info!(target: "lockson", channels, ?after, "gap ended: messages come again"));
        }
    }
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}
