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
use tokio::sync::{watch, Semaphore};
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

/// One channel, and who uses it.
struct Channel {
    /// One permit for each message, more after a gap.
    wakes: Arc<Semaphore>,
    /// Messages `0`.
    zeros: Arc<AtomicU64>,
    /// Whether the server has the subscription, as far as is known. Users are told after each try, and when there will
    /// be none any more.
    confirmed: watch::Sender<bool>,
    users: usize,
    /// Without users: when it ends.
    ends: Option<Instant>,
    /// Messages since it has none.
    unheeded: u32,
}

/// The channels by name; and those that are to be subscribed to or left, so that nobody looks through all for them.
#[derive(Default)]
struct Map {
    all: HashMap<Arc<str>, Channel>,
    /// Those without users, by when they end.
    idle: BTreeSet<(Instant, Arc<str>)>,
    /// Those that the server has not confirmed.
    missing: BTreeSet<Arc<str>>,
    /// Since when messages may be missing, if they may.
    gap_since: Option<Instant>,
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

    /// Messages may be missing. `true`: since now.
    fn begin_gap(&mut self) -> bool {
        let begins = self.gap_since.is_none();
        self.gap_since.get_or_insert_with(Instant::now);
        begins
    }
}

/// The subscriptions of a client.
pub(crate) struct Channels {
    map: Mutex<Map>,
    /// Tells the pump of a channel that is new, or lost its last user; or of the end.
    news: UnboundedSender<()>,
    closing: AtomicBool,
    gaps: AtomicU64,
}

/// The loop that keeps them. Where it ends, nobody waits for a subscription any more.
pub(crate) struct Pump {
    channels: Arc<Channels>,
    news: UnboundedReceiver<()>,
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
        let (news, received) = unbounded_channel();
        let (map, closing, gaps) = Default::default();
        let channels = Arc::new(Self { map, news, closing, gaps });
        (channels.clone(), Pump { channels, news: received, signals, backend, over: Box::new(over) })
    }

    /// Subscribes, or shares a subscription that is there. One that the server did not confirm is tried again, and then
    /// wakes its users.
    pub(crate) fn join(self: &Arc<Self>, name: &Arc<str>) -> Subscription {
        let mut map = self.map.lock();
        map.end_at(name, None);
        let Map { all, missing, .. } = &mut *map;
        let channel = all.entry(name.clone()).or_insert_with(|| {
            missing.insert(name.clone());
            let (wakes, zeros) = (Arc::new(Semaphore::new(0)), Arc::default());
            Channel { wakes, zeros, confirmed: watch::Sender::new(false), users: 0, ends: None, unheeded: 0 }
        });
        channel.users += 1;
        channel.unheeded = 0;
        let (wakes, zeros, confirmed) = (channel.wakes.clone(), channel.zeros.clone(), channel.confirmed.subscribe());
        drop(map);
        if self.news.send(()).is_err() {
            self.let_go();
        }
        Subscription { channels: self.clone(), name: name.clone(), wakes, zeros, confirmed }
    }

    /// Ends every wait for a confirmation.
    fn let_go(&self) {
        self.map.lock().all.values().for_each(|channel| channel.confirmed.send_modify(|_| ()));
    }

    /// Forgets the messages of a channel that nobody took yet. Whether it is subscribed to.
    pub(crate) fn drain(&self, name: &str) -> bool {
        let map = self.map.lock();
        let Some(channel) = map.all.get(name) else { return false };
        channel.wakes.forget_permits(usize::MAX);
        let confirmed = *channel.confirmed.borrow();
        confirmed
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
        self.closing.store(true, Ordering::Release);
        let _ = self.news.send(());
        self.news.closed().await;
    }
}

/// One user of a channel. The subscription outlives the last one by the linger.
pub(crate) struct Subscription {
    channels: Arc<Channels>,
    name: Arc<str>,
    wakes: Arc<Semaphore>,
    zeros: Arc<AtomicU64>,
    confirmed: watch::Receiver<bool>,
}

impl Subscription {
    /// Whether the server has it, as far as is known.
    pub(crate) fn is_confirmed(&self) -> bool {
        *self.confirmed.borrow()
    }

    /// Waits until the server was asked for it, if it does not have it yet: whether it has.
    pub(crate) async fn joined(&mut self) -> bool {
        if !self.is_confirmed() {
            let _ = self.confirmed.changed().await;
        }
        self.is_confirmed()
    }

    /// How many messages `0` came while anybody used the channel.
    pub(crate) fn zeros(&self) -> u64 {
        self.zeros.load(Ordering::Acquire)
    }

    /// Waits for a message.
    pub(crate) async fn heard(&self) {
        match self.wakes.acquire().await {
            Ok(permits) => permits.forget(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Forgets the messages that nobody took yet.
    pub(crate) fn drain(&self) {
        self.wakes.forget_permits(usize::MAX);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut map = self.channels.map.lock();
        let Some(channel) = map.all.get_mut(&self.name) else { return };
        channel.users -= 1;
        if channel.users == 0 {
            map.end_at(&self.name, Some(Instant::now() + LINGER));
            let _ = self.channels.news.send(());
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.news.close();
        self.channels.let_go();
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
                news = self.news.recv() => {
                    if news.is_none() || self.channels.closing.load(Ordering::Acquire) {
                        return;
                    }
                }
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
        let Some(channel) = map.all.get_mut(name) else { return };
        channel.zeros.fetch_add(u64::from(zero), Ordering::AcqRel);
        if channel.wakes.available_permits() < MOST_WAKES {
            channel.wakes.add_permits(1);
        }
        if channel.users == 0 {
            channel.unheeded += 1;
            if channel.unheeded == UNHEEDED {
                map.end_at(&name.into(), Some(Instant::now()));
            }
        }
    }

    /// No subscription is left, or none of these, as far as is known.
    fn gap(&self, only: Option<&[String]>) {
        self.channels.gaps.fetch_add(1, Ordering::Relaxed);
        let mut map = self.channels.map.lock();
        let Map { all, missing, .. } = &mut *map;
        let before = missing.len();
        let mut lose = |name: &Arc<str>, channel: &Channel| {
            // Not told yet: who waits for it hears of the next try.
            channel.confirmed.send_if_modified(|confirmed| {
                *confirmed = false;
                false
            });
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
        let begins = map.begin_gap();
        drop(map);
        if begins {
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
            let begins = self.map.lock().begin_gap();
            say(|| match begins {
                true => tracing::warn!(target: "lockson", why, "gap: a subscription failed and is tried again"),
                false => tracing::debug!(target: "lockson", why, "a subscription failed and is tried again"),
            });
        }
        let mut map = self.map.lock();
        for name in names {
            if ok {
                map.missing.remove(name);
            }
            let Some(channel) = map.all.get(name) else { continue };
            channel.confirmed.send_replace(ok);
            channel.wakes.add_permits(channel.users.min(MOST_WAKES));
        }
        drop(map);
        if ok {
            self.end_gap();
        }
        went
    }

    /// The server answers: that is the end of a gap if no channel is without its subscription.
    fn end_gap(&self) {
        let mut map = self.map.lock();
        let ended = if map.missing.is_empty() { map.gap_since.take() } else { None };
        let channels = map.all.len();
        drop(map);
        if let Some(after) = ended.map(|since| since.elapsed()) {
            say(|| tracing::info!(target: "lockson", channels, ?after, "gap ended: messages come again"));
        }
    }
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::backend::embedded;
    use crate::base::clock::Clock;

    /// What was confirmed before a gap may be gone with it.
    #[tokio::test]
    async fn a_subscription_of_before_a_gap_is_not_one() {
        let (backend, signals) = embedded::connect(&Default::default(), Duration::from_secs(1), Clock::System);
        let (channels, pump) = Channels::new(backend, signals, |_| {});
        let name: Arc<str> = "channel".into();
        let subscription = channels.join(&name);
        let before = channels.gaps();
        pump.gap(None);
        channels.subscribed(std::slice::from_ref(&name), Ok(()), before);
        assert!(!subscription.is_confirmed());
        channels.subscribed(std::slice::from_ref(&name), Ok(()), channels.gaps());
        assert!(subscription.is_confirmed());
    }
}
