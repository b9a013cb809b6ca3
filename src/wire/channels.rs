//! The channels that this client listens to: a message wakes those who wait for it. Rule 15 of docs/PROTOCOL.md:
//! messages are hints, and whenever some may have been missed every waiter is woken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::{watch, Semaphore};
use tokio::time::{sleep_until, Instant};

use crate::backend::{Backend, Changes, Signal, Slots};
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
/// Messages that are passed on before anything else is looked at.
const MOST_MESSAGES: usize = 64;

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
    /// Those that no server has confirmed, and none is being asked for.
    missing: BTreeSet<Arc<str>>,
    /// Those that one is being asked for, by the number of the try.
    asking: HashMap<Arc<str>, u64>,
    /// Those that are being left.
    leaving: BTreeSet<Arc<str>>,
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
            if self.asking.contains_key(&name) {
                self.end_at(&name, Some(now + RETRY));
                continue;
            }
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
    busy: BTreeSet<Lane>,
    /// How many SUBSCRIBEs there were.
    tries: u64,
}

/// What goes one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Leave,
    /// Subscriptions at the server with this address; empty where none is known.
    Home(String),
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
        let pump = Pump {
            channels: channels.clone(),
            news: received,
            signals,
            backend,
            over: Box::new(over),
            busy: BTreeSet::new(),
            tries: 0,
        };
        (channels, pump)
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
        let map = self.map.lock();
        let mut all: Vec<_> = map.all.iter().collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.iter().for_each(|(_, channel)| channel.confirmed.send_modify(|_| ()));
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
    /// One SUBSCRIBE at a time to each server, and one UNSUBSCRIBE at a time: none of a channel that is being left. A
    /// server that does not answer keeps no other's channels waiting; messages go on meanwhile.
    pub(crate) async fn run(mut self) {
        let mut works: FuturesUnordered<BoxFuture<'static, Lane>> = FuturesUnordered::new();
        loop {
            // Some, whatever else there is to do: nothing of it may hold messages up for long.
            for _ in 0..MOST_MESSAGES {
                let Ok(signal) = self.signals.try_recv() else { break };
                self.heed(signal);
            }
            works.extend(self.next_works());
            let idle_at = self.first_idle().filter(|_| !self.busy.contains(&Lane::Leave));
            // A message has nothing subscribed or left, most of the time.
            let mut is_message = true;
            while std::mem::take(&mut is_message) {
                tokio::select! {
                    // Messages last: they may come without end.
                    biased;
                    Some(lane) = works.next() => drop(self.busy.remove(&lane)),
                    news = self.news.recv() => match news {
                        Some(()) if !self.channels.closing.load(Ordering::Acquire) => {}
                        _ => return,
                    },
                    Some(()) = OptionFuture::from(idle_at.map(sleep_until)) => {}
                    signal = self.signals.recv() => match signal {
                        Some(signal) => is_message = self.heed(signal),
                        None => return,
                    },
                }
            }
        }
    }

    /// Whether it has nothing subscribed or left.
    fn heed(&mut self, signal: Signal) -> bool {
        match signal {
            Signal::Message { channel, zero } => return !self.wake(&channel, zero),
            Signal::Gap => self.gap(None),
            Signal::Lost(channels) => self.gap(Some(&channels)),
            Signal::Whole => self.channels.end_gap(),
            Signal::Over(slots) => (self.over)(slots),
        }
        false
    }

    fn first_idle(&self) -> Option<Instant> {
        self.channels.map.lock().idle.first().map(|(ends, _)| *ends)
    }

    /// Whether nobody heeds its messages, so that it ends now.
    fn wake(&self, name: &str, zero: bool) -> bool {
        let mut map = self.channels.map.lock();
        let Some(channel) = map.all.get_mut(name) else { return false };
        channel.zeros.fetch_add(u64::from(zero), Ordering::AcqRel);
        if channel.wakes.available_permits() < MOST_WAKES {
            channel.wakes.add_permits(1);
        }
        channel.unheeded += u32::from(channel.users == 0);
        let ends = channel.users == 0 && channel.unheeded == UNHEEDED;
        if ends {
            map.end_at(&name.into(), Some(Instant::now()));
        }
        ends
    }

    /// No subscription is left, or none of these, as far as is known.
    fn gap(&self, only: Option<&[String]>) {
        self.channels.gaps.fetch_add(1, Ordering::Relaxed);
        let mut map = self.channels.map.lock();
        let Map { all, missing, asking, .. } = &mut *map;
        let before = missing.len();
        let mut lose = |name: &Arc<str>, channel: &Channel| {
            // Not told yet: who waits for it hears of the next try.
            channel.confirmed.send_if_modified(|confirmed| {
                *confirmed = false;
                false
            });
            asking.remove(name);
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

    /// What is to be left, and to be asked for, of servers that are not being asked.
    fn next_works(&mut self) -> Vec<BoxFuture<'static, Lane>> {
        let channels = self.channels.clone();
        let mut map = channels.map.lock();
        let mut works: Vec<_> = self.leave(&mut map).into_iter().collect();
        let mut homes: BTreeMap<Lane, Vec<Arc<str>>> = BTreeMap::new();
        for name in map.missing.difference(&map.leaving) {
            let home = Lane::Home(self.backend.node(name).map_or_else(|_| String::new(), |node| node.address.clone()));
            if !self.busy.contains(&home) {
                homes.entry(home).or_default().push(name.clone());
            }
        }
        for (home, mut names) in homes {
            names.truncate(CHUNK);
            self.tries += 1;
            for name in &names {
                map.missing.remove(name);
                map.asking.insert(name.clone(), self.tries);
            }
            self.busy.insert(home.clone());
            works.push(self.ask(home, names));
        }
        works
    }

    fn leave(&mut self, map: &mut Map) -> Option<BoxFuture<'static, Lane>> {
        let idle = if self.busy.contains(&Lane::Leave) { Vec::new() } else { map.take_idle(Instant::now()) };
        if idle.is_empty() {
            return None;
        }
        self.busy.insert(Lane::Leave);
        let (channels, left) = (self.channels.clone(), self.backend.unsubscribe(texts(&idle)));
        map.leaving = idle.into_iter().collect();
        let work = async move {
            // Work that panics is work that failed, and what fails is gone with its connection.
            let _ = AssertUnwindSafe(left).catch_unwind().await;
            channels.map.lock().leaving.clear();
            Lane::Leave
        };
        Some(work.boxed())
    }

    /// Asks a server, which is not asked again for a moment if it fails.
    fn ask(&self, home: Lane, names: Vec<Arc<str>>) -> BoxFuture<'static, Lane> {
        let (channels, number, mut changes) = (self.channels.clone(), self.tries, self.backend.changes());
        let subscribed = AssertUnwindSafe(self.backend.subscribe(texts(&names))).catch_unwind();
        let work = async move {
            let result = subscribed.await.unwrap_or_else(|_| Err("it panicked".to_owned()));
            if !channels.subscribed(&names, number, result) {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(RETRY) => {}
                    Some(Ok(())) = OptionFuture::from(changes.as_mut().map(Changes::changed)) => {}
                }
            }
            home
        };
        work.boxed()
    }
}

impl Channels {
    /// Tells those who wait for it. After a gap the waiters try again: something may have been missed. Whether the rest
    /// may be tried at once.
    fn subscribed(&self, names: &[Arc<str>], number: u64, result: Result<(), String>) -> bool {
        let ok = result.is_ok();
        if let Err(why) = result {
            let begins = self.map.lock().begin_gap();
            say(|| match begins {
                true => tracing::warn!(target: "lockson", why, "gap: a subscription failed and is tried again"),
                false => tracing::debug!(target: "lockson", why, "a subscription failed and is tried again"),
            });
        }
        let mut map = self.map.lock();
        let Map { all, missing, asking, .. } = &mut *map;
        for name in names {
            // Else a gap came meanwhile, and it is asked for anew.
            if asking.get(name) != Some(&number) {
                continue;
            }
            asking.remove(name);
            let Some(channel) = all.get(name) else { continue };
            if !ok {
                missing.insert(name.clone());
            }
            channel.confirmed.send_replace(ok);
            channel.wakes.add_permits(channel.users.min(MOST_WAKES));
        }
        shrink(asking);
        drop(map);
        if ok {
            self.end_gap();
        }
        ok
    }

    /// The server answers: that is the end of a gap if no channel is without its subscription.
    fn end_gap(&self) {
        let mut map = self.map.lock();
        let is_whole = map.missing.is_empty() && map.asking.is_empty();
        let ended = if is_whole { map.gap_since.take() } else { None };
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
    use futures::future::join_all;

    use super::*;
    use crate::backend::embedded;
    use crate::base::clock::Clock;

    /// What was confirmed before a gap may be gone with it.
    #[tokio::test]
    async fn a_subscription_of_before_a_gap_is_not_one() {
        let (backend, signals) = embedded::connect(&Default::default(), Duration::from_secs(1), Clock::System);
        let (channels, mut pump) = Channels::new(backend, signals, |_| {});
        let name: Arc<str> = "channel".into();
        let subscription = channels.join(&name);
        let before = pump.next_works();
        pump.gap(None);
        for work in before {
            pump.busy.remove(&work.await);
        }
        assert!(!subscription.is_confirmed());
        join_all(pump.next_works()).await;
        assert!(subscription.is_confirmed());
    }
}
