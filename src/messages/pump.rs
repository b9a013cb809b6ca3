//! The loop that has channels subscribed to and left, and passes their messages on.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep_until, Instant};

use crate::backend::{Backend, Changes, Signal, Slots};
use crate::base::janitor::contain;
use crate::events::{Event, Herald};
use crate::messages::batch::{ask, texts};
use crate::messages::channels::Channels;
use crate::messages::ear::{Asked, Lane, Map, RETRY};

/// A subscription that nobody uses is left when this many messages came by it: whoever publishes them may stand aside
/// for us.
const UNHEEDED: u32 = 4;
/// Messages that are passed on before anything else is looked at.
const MOST_MESSAGES: usize = 64;
/// How long a message that has come by its connection may still need to be counted in this process.
const DELIVERED_WITHIN: Duration = Duration::from_millis(5);

/// What was worked on, and who is to be told of it.
type Done = (Lane, Asked);

/// The loop that keeps the subscriptions. Where it ends, nobody waits for a subscription any more.
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

impl Drop for Pump {
    fn drop(&mut self) {
        self.news.close();
        self.channels.let_go();
    }
}

impl Pump {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        signals: UnboundedReceiver<Signal>,
        herald: Herald,
        over: impl Fn(Slots) + Send + 'static,
    ) -> (Arc<Channels>, Self) {
        let ((channels, news), over) = (Channels::new(herald), Box::new(over));
        let pump = Self { channels: channels.clone(), news, signals, backend, over, busy: BTreeSet::new(), tries: 0 };
        (channels, pump)
    }

    /// One SUBSCRIBE at a time to each server, and one UNSUBSCRIBE at a time: none of a channel that is being left. A
    /// server that does not answer keeps no other's channels waiting; messages go on meanwhile.
    pub(crate) async fn run(mut self) {
        let mut works: FuturesUnordered<BoxFuture<'static, Done>> = FuturesUnordered::new();
        loop {
            // Some, whatever else there is to do: nothing of it may hold messages up for long.
            self.pass_on(MOST_MESSAGES);
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
                    Some(done) = works.next() => self.done(done),
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

    /// Work is done. Those it was done for are told what was heard, behind all that has come by now.
    fn done(&mut self, (lane, asked): Done) {
        self.busy.remove(&lane);
        if asked.is_empty() {
            return;
        }
        self.pass_on(self.signals.len());
        let told = self.channels.map.lock().heard(asked);
        for (asker, zeros) in told {
            // Wakers are anybody's code.
            contain(|| asker.send(zeros));
        }
    }

    /// What has come, so much of it at most.
    fn pass_on(&mut self, most: usize) {
        for _ in 0..most {
            let Ok(signal) = self.signals.try_recv() else { break };
            self.heed(signal);
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
    fn next_works(&mut self) -> Vec<BoxFuture<'static, Done>> {
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

    fn subscribe(&mut self, map: &mut Map, lane: Lane) -> Option<BoxFuture<'static, Done>> {
        self.tries += 1;
        let names = map.take_missing(&lane, self.tries, |name| self.home(name));
        if names.is_empty() {
            return None;
        }
        if matches!(lane, Lane::Again(_)) {
            let asked = map.take_askers(names);
            return (!asked.is_empty()).then(|| self.ask_again(lane, asked));
        }
        self.busy.insert(lane.clone());
        Some(self.ask(lane, names))
    }

    /// One at a time to each server, for all who ask what was heard.
    fn ask_again(&mut self, lane: Lane, asked: Asked) -> BoxFuture<'static, Done> {
        self.busy.insert(lane.clone());
        let names: Vec<_> = asked.iter().map(|(name, _)| name.clone()).collect();
        let (channels, subscribed) = (self.channels.clone(), self.backend.subscribe(texts(&names)));
        let work = async move {
            if matches!(AssertUnwindSafe(subscribed).catch_unwind().await, Ok(Ok(()))) {
                tokio::time::sleep(DELIVERED_WITHIN).await;
                return (lane, asked);
            }
            tokio::time::sleep(RETRY).await;
            let mut map = channels.map.lock();
            asked.into_iter().for_each(|(name, askers)| map.asks(&name, askers));
            (lane, Vec::new())
        };
        work.boxed()
    }

    fn leave(&mut self, map: &mut Map) -> Option<BoxFuture<'static, Done>> {
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
            (Lane::Leave, Vec::new())
        };
        Some(work.boxed())
    }

    /// Asks a server, which is not asked again for a moment if it fails.
    fn ask(&self, lane: Lane, names: Vec<Arc<str>>) -> BoxFuture<'static, Done> {
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
            (lane, Vec::new())
        };
        work.boxed()
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use futures::future::join_all;

    use super::*;
    use crate::backend::embedded;
    use crate::backend::node::{Node, NodeHealth, Topology};
    use crate::backend::Fate;
    use crate::base::clock::Clock;
    use crate::messages::channels::{Subscription, LINGER};

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
        let (channels, pump) = Pump::new(backend.clone(), signals, Herald::default(), |_| {});
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
        let (channels, mut pump) = Pump::new(backend, signals, Herald::default(), |_| {});
        let name: Arc<str> = "channel".into();
        let subscription = channels.join(&name);
        let before = pump.next_works();
        pump.gap(None);
        for work in before {
            pump.done(work.await);
        }
        assert!(!subscription.is_confirmed());
        join_all(pump.next_works()).await;
        assert!(subscription.is_confirmed());
    }
}
