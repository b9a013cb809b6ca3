//! The channels that this client listens to: a message wakes those who wait for it. Rule 15 of docs/PROTOCOL.md:
//! messages are hints, and whenever some may have been missed every waiter is woken.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::time::{sleep_until, Instant};

use crate::backend::{Backend, Changes, Signal, Slots};
use crate::base::janitor::say;
use crate::events::{Event, Herald};
use crate::messages::batch::{ask, texts};
use crate::messages::ear::{Channel, Ear, Lane, Map, Stage, RETRY};

/// How long a subscription that nobody uses is kept.
const LINGER: Duration = Duration::from_secs(5);
/// Or until this many messages came by it: whoever publishes them may stand aside for us.
const UNHEEDED: u32 = 4;
/// Messages that are passed on before anything else is looked at.
const MOST_MESSAGES: usize = 64;

/// The subscriptions of a client.
pub(crate) struct Channels {
    map: Mutex<Map>,
    /// Tells the pump of a channel that is new, or lost its last user; or of the end.
    news: UnboundedSender<()>,
    closing: AtomicBool,
    gaps: AtomicU64,
    herald: Herald,
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

impl Channels {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        signals: UnboundedReceiver<Signal>,
        herald: Herald,
        over: impl Fn(Slots) + Send + 'static,
    ) -> (Arc<Self>, Pump) {
        let (news, received) = unbounded_channel();
        let (map, closing, gaps) = Default::default();
        let channels = Arc::new(Self { map, news, closing, gaps, herald });
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
        let (Map { all, fresh, open, .. }, mut is_new) = (&mut *map, false);
        let channel = all.entry(name.clone()).or_insert_with(|| {
            is_new = true;
            *open += 1;
            fresh.insert(name.clone());
            Channel { ear: Arc::default(), stage: Stage::Missing, users: 0, ends: None, unheeded: 0, is_refused: false }
        });
        channel.users += 1;
        channel.unheeded = 0;
        let ear = channel.ear.clone();
        let tried = ear.tries.load(Ordering::Acquire);
        let heard = AtomicU64::new(ear.rings.load(Ordering::Acquire));
        drop(map);
        if is_new && self.news.send(()).is_err() || self.news.is_closed() {
            self.let_go();
        }
        Subscription { channels: self.clone(), name: name.clone(), ear, tried, heard }
    }

    /// Ends every wait for a confirmation.
    fn let_go(&self) {
        let map = self.map.lock();
        let all: BTreeMap<_, _> = map.all.iter().collect();
        all.values().for_each(|channel| channel.ear.tell());
    }

    /// Forgets the messages of a channel that nobody took yet. Whether it is subscribed to.
    pub(crate) fn drain(&self, name: &str) -> bool {
        self.map.lock().all.get(name).is_some_and(|channel| channel.ear.drain())
    }

    /// The same for who is about to ask and does not listen: what others listen for is theirs, as they may be in the
    /// middle of a look that knows nothing of it yet.
    pub(crate) fn drain_unheard(&self, name: &str) -> bool {
        self.map.lock().all.get(name).is_some_and(|channel| match channel.users {
            0 => channel.ear.drain(),
            _ => channel.ear.is_confirmed(),
        })
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
    ear: Arc<Ear>,
    /// How often the server had been asked for it.
    tried: u32,
    /// The rings that were heard, of a user whom each message may be for.
    heard: AtomicU64,
}

impl Subscription {
    /// Whether the server has it, as far as is known.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.ear.is_confirmed()
    }

    /// Waits until the server was asked for it, if it does not have it yet: whether it has.
    pub(crate) async fn joined(&self) -> bool {
        self.ear.hears(|| self.is_confirmed() || self.ear.tries.load(Ordering::Acquire) != self.tried).await;
        self.is_confirmed()
    }

    /// How many messages `0` came while anybody used the channel.
    pub(crate) fn zeros(&self) -> u64 {
        self.ear.zeros.load(Ordering::Acquire)
    }

    /// Waits for a message, no matter who else hears it.
    pub(crate) async fn heard_by_all(&self) {
        let rings = || self.ear.rings.load(Ordering::Acquire);
        self.ear.hears(|| rings() != self.heard.load(Ordering::Acquire)).await;
        self.heard.store(rings(), Ordering::Release);
    }

    /// Waits for a message, which is for one.
    pub(crate) async fn heard(&self) {
        match self.ear.wakes.acquire().await {
            Ok(permits) => permits.forget(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Forgets the messages that nobody took yet.
    pub(crate) fn drain(&self) {
        self.ear.drain();
        self.heard.store(self.ear.rings.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut map = self.channels.map.lock();
        let Some(channel) = map.all.get_mut(&self.name) else { return };
        channel.users -= 1;
        if channel.users == 0 {
            // The pump sleeps until the first of them ends.
            let is_first = map.idle.is_empty();
            map.end_at(&self.name, Some(Instant::now() + LINGER));
            if is_first {
                let _ = self.channels.news.send(());
            }
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
            while self.news.try_recv().is_ok() {}
            if self.channels.closing.load(Ordering::Acquire) {
                return;
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
                    news = self.news.recv() => if news.is_none() {
                        return;
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
            Signal::Missed => {
                self.missed();
                return true;
            }
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
        channel.ear.zeros.fetch_add(u64::from(zero), Ordering::AcqRel);
        channel.ear.wake(1);
        channel.unheeded += u32::from(channel.users == 0);
        let ends = channel.users == 0 && channel.unheeded == UNHEEDED;
        if ends {
            map.end_at(&name.into(), Some(Instant::now()));
        }
        ends
    }

    /// Messages were lost, no matter whose: all look. The subscriptions stand.
    fn missed(&self) {
        self.channels.gaps.fetch_add(1, Ordering::Relaxed);
        let map = self.channels.map.lock();
        map.all.values().for_each(|channel| channel.ear.wake(channel.users));
    }

    /// No subscription is left, or none of these, as far as is known.
    fn gap(&self, only: Option<&[String]>) {
        self.channels.gaps.fetch_add(1, Ordering::Relaxed);
        let mut map = self.channels.map.lock();
        let channels = map.lose(only);
        let begins = map.begin_gap();
        drop(map);
        if begins {
            self.channels.herald.tell(Event::GapBegan { channels, why: None });
        }
    }

    /// What is to be left, and to be asked for, of servers that are not being asked.
    fn next_works(&mut self) -> Vec<BoxFuture<'static, Lane>> {
        let channels = self.channels.clone();
        let mut map = channels.map.lock();
        let mut works: Vec<_> = self.leave(&mut map).into_iter().collect();
        loop {
            for name in std::mem::take(&mut map.fresh) {
                let lane = map.lane(&name, self.home(&name));
                map.missing.entry(lane).or_default().insert(name);
            }
            let free: Vec<_> = map.missing.keys().filter(|lane| !self.busy.contains(*lane)).cloned().collect();
            for lane in free {
                works.extend(self.subscribe(&mut map, lane));
            }
            // Some have moved since.
            if map.fresh.is_empty() {
                return works;
            }
        }
    }

    /// The server that has a channel, as far as is known.
    fn home(&self, name: &str) -> String {
        self.backend.node(name).map_or_else(|_| String::new(), |node| node.address.clone())
    }

    fn subscribe(&mut self, map: &mut Map, lane: Lane) -> Option<BoxFuture<'static, Lane>> {
        self.tries += 1;
        let names = map.take_missing(&lane, self.tries, |name| self.home(name));
        if names.is_empty() {
            return None;
        }
        self.busy.insert(lane.clone());
        Some(self.ask(lane, names))
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
    fn ask(&self, lane: Lane, names: Vec<Arc<str>>) -> BoxFuture<'static, Lane> {
        let (channels, number, mut changes) = (self.channels.clone(), self.tries, self.backend.changes());
        let asked =
            ask(self.backend.clone(), names, matches!(lane, Lane::Apart(_)), move |names, result, is_refused| {
                names.iter().filter(|_| is_refused).for_each(|name| channels.map.lock().refuse(name, true));
                channels.subscribed(names, number, result) || is_refused
            });
        let work = async move {
            if !asked.await {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(RETRY) => {}
                    Some(Ok(())) = OptionFuture::from(changes.as_mut().map(Changes::changed)) => {}
                }
            }
            lane
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
            let mut map = self.map.lock();
            let (begins, channels) = (map.begin_gap(), names.len());
            drop(map);
            match begins {
                true => self.herald.tell(Event::GapBegan { channels, why: Some(why) }),
                false => say(|| tracing::debug!(target: "lockson", why, "a subscription failed and is tried again")),
            }
        }
        self.map.lock().asked(names, number, ok);
        if ok {
            self.end_gap();
        }
        ok
    }

    /// The server answers: that is the end of a gap if no channel is without its subscription.
    fn end_gap(&self) {
        let mut map = self.map.lock();
        let ended = if map.open == 0 { map.gap_since.take() } else { None };
        let channels = map.all.len();
        drop(map);
        if let Some(after) = ended.map(|since| since.elapsed()) {
            self.herald.tell(Event::GapEnded { channels, after });
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use futures::future::join_all;

    use super::*;
    use crate::backend::embedded;
    use crate::backend::node::{Node, NodeHealth, Topology};
    use crate::backend::Fate;
    use crate::base::clock::Clock;

    /// Counts how often it is asked where a channel is. Its server takes a while to answer.
    struct Slow {
        inner: Arc<dyn Backend>,
        asked: AtomicU64,
    }

    impl Backend for Slow {
        fn node(&self, key: &str) -> Result<Arc<Node>, Fate> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.inner.node(key)
        }

        fn nodes(&self) -> Vec<Arc<Node>> {
            self.inner.nodes()
        }

        fn topology(&self) -> Topology {
            self.inner.topology()
        }

        fn seen(&self) -> Vec<NodeHealth> {
            self.inner.seen()
        }

        fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
            let subscribed = self.inner.subscribe(channels);
            tokio::time::sleep(RETRY).then(|()| subscribed).boxed()
        }

        fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
            self.inner.unsubscribe(channels)
        }

        fn close(&self) -> BoxFuture<'static, ()> {
            self.inner.close()
        }
    }

    /// What one channel costs does not grow with the others that are there, or are missing.
    #[tokio::test(start_paused = true)]
    async fn a_channel_is_looked_at_a_few_times() {
        let (inner, signals) = embedded::connect(&Default::default(), Duration::from_secs(1), Clock::System);
        let backend = Arc::new(Slow { inner, asked: AtomicU64::new(0) });
        let (channels, pump) = Channels::new(backend.clone(), signals, Herald::default(), |_| {});
        let running = tokio::spawn(pump.run());
        let mut all = Vec::new();
        for number in 0..3_000 {
            all.push(channels.join(&number.to_string().into()));
            tokio::task::yield_now().await;
        }
        while !all.iter().all(Subscription::is_confirmed) {
            assert!(join_all(all.iter().map(Subscription::joined)).await.len() == all.len());
        }
        let asked = backend.asked.load(Ordering::Relaxed);
        assert!(asked <= 3 * 3_000, "{asked}");
        drop(all);
        tokio::time::sleep(LINGER * 4).await;
        assert_eq!(channels.len(), 0);
        channels.close().await;
        running.await.unwrap();
    }

    /// What was confirmed before a gap may be gone with it.
    #[tokio::test]
    async fn a_subscription_of_before_a_gap_is_not_one() {
        let (backend, signals) = embedded::connect(&Default::default(), Duration::from_secs(1), Clock::System);
        let (channels, mut pump) = Channels::new(backend, signals, Herald::default(), |_| {});
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
