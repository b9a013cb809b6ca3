//! Wake-ups: pub/sub channels on one side, semaphores on the other. Rule 15 of docs/PROTOCOL.md: they are hints, and
//! whenever some may have been missed every waiter is woken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, Semaphore};
use tokio::time::Instant;

use crate::backend::{Backend, Signal};

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

struct Channel {
    wakes: Arc<Semaphore>,
    confirmed: Arc<AtomicBool>,
    /// Messages `0`.
    zeros: Arc<AtomicU64>,
    users: usize,
    /// Since when there are none.
    idle_since: Option<Instant>,
    /// Messages since then.
    unheeded: u32,
    joining: Vec<oneshot::Sender<bool>>,
}

enum Order {
    /// A channel is new, or lost its last user.
    Look,
    Close(oneshot::Sender<()>),
}

/// The subscriptions of a client.
pub(crate) struct Channels {
    map: Mutex<HashMap<Arc<str>, Channel>>,
    orders: UnboundedSender<Order>,
    gaps: AtomicU64,
}

/// The loop that keeps them.
pub(crate) struct Pump {
    channels: Arc<Channels>,
    orders: UnboundedReceiver<Order>,
    signals: UnboundedReceiver<Signal>,
    backend: Arc<dyn Backend>,
}

impl Channels {
    pub(crate) fn new(backend: Arc<dyn Backend>, signals: UnboundedReceiver<Signal>) -> (Arc<Self>, Pump) {
        let (orders, received) = unbounded_channel();
        let channels = Arc::new(Self { map: Mutex::default(), orders, gaps: AtomicU64::new(0) });
        (channels.clone(), Pump { channels, orders: received, signals, backend })
    }

    fn map(&self) -> MutexGuard<'_, HashMap<Arc<str>, Channel>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes, or shares a subscription that is there; the receiver says whether the server confirmed it. One that
    /// it did not is tried again, and then wakes its users.
    pub(crate) fn join(self: &Arc<Self>, name: &Arc<str>) -> (Subscription, oneshot::Receiver<bool>) {
        let joined = {
            let mut map = self.map();
            let channel = map.entry(name.clone()).or_insert_with(|| Channel {
                wakes: Arc::new(Semaphore::new(0)),
                confirmed: Arc::default(),
                zeros: Arc::default(),
                users: 0,
                idle_since: None,
                unheeded: 0,
                joining: Vec::new(),
            });
            channel.users += 1;
            channel.idle_since = None;
            channel.unheeded = 0;
            let (done, confirmed) = oneshot::channel();
            if channel.confirmed.load(Ordering::Acquire) {
                let _ = done.send(true);
            } else {
                channel.joining.push(done);
            }
            let wakes = channel.wakes.clone();
            let (is_confirmed, zeros) = (channel.confirmed.clone(), channel.zeros.clone());
            let channels = self.clone();
            (Subscription { channels, name: name.clone(), wakes, confirmed: is_confirmed, zeros }, confirmed)
        };
        let _ = self.orders.send(Order::Look);
        joined
    }

    pub(crate) fn is_confirmed(&self, name: &str) -> bool {
        self.map().get(name).is_some_and(|channel| channel.confirmed.load(Ordering::Acquire))
    }

    /// Forgets the messages of a channel that nobody took yet. Whether it is subscribed to.
    pub(crate) fn drain(&self, name: &str) -> bool {
        let map = self.map();
        let Some(channel) = map.get(name) else { return false };
        channel.wakes.forget_permits(usize::MAX);
        channel.confirmed.load(Ordering::Acquire)
    }

    /// How many channels are subscribed to, those that linger included.
    pub(crate) fn len(&self) -> usize {
        self.map().len()
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
    /// One permit for each message, more after a gap.
    wakes: Arc<Semaphore>,
    confirmed: Arc<AtomicBool>,
    zeros: Arc<AtomicU64>,
}

impl Subscription {
    /// Whether the server has it, as far as is known.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
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
        let mut map = self.channels.map();
        if let Some(channel) = map.get_mut(&self.name) {
            channel.users -= 1;
            if channel.users == 0 {
                channel.idle_since = Some(Instant::now());
                let _ = self.channels.orders.send(Order::Look);
            }
        }
    }
}

impl Pump {
    /// One SUBSCRIBE or UNSUBSCRIBE at a time, so that their order is the map's; messages go on meanwhile.
    pub(crate) async fn run(mut self) {
        let mut work: Option<BoxFuture<'static, bool>> = None;
        let mut retry_at: Option<Instant> = None;
        loop {
            let wake_at = retry_at.into_iter().chain(self.first_idle().filter(|_| work.is_none())).min();
            tokio::select! {
                signal = self.signals.recv() => match signal {
                    Some(Signal::Message { channel, zero }) => self.wake(&channel, zero),
                    Some(Signal::Gap) => self.gap(),
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
                () = sleep_until(wake_at) => retry_at = retry_at.filter(|at| *at > Instant::now()),
            }
            if work.is_none() && retry_at.is_none() {
                work = self.next_work();
            }
        }
    }

    fn first_idle(&self) -> Option<Instant> {
        self.channels.map().values().filter_map(|channel| channel.idle_since).min().map(|since| since + LINGER)
    }

    fn wake(&self, name: &str, zero: bool) {
        if let Some(channel) = self.channels.map().get_mut(name) {
            channel.zeros.fetch_add(u64::from(zero), Ordering::AcqRel);
            channel.unheeded += u32::from(channel.users == 0);
            if channel.wakes.available_permits() < MOST_WAKES {
                channel.wakes.add_permits(1);
            }
        }
    }

    /// No subscription is left, as far as is known.
    fn gap(&self) {
        self.channels.gaps.fetch_add(1, Ordering::Relaxed);
        let map = self.channels.map();
        for channel in map.values() {
            channel.confirmed.store(false, Ordering::Release);
        }
        if !map.is_empty() {
            tracing::warn!(target: "lockson", channels = map.len(), "gap: messages may be missing, subscribing again");
        }
    }

    fn next_work(&self) -> Option<BoxFuture<'static, bool>> {
        let mut map = self.channels.map();
        let now = Instant::now();
        let stale: Vec<Arc<str>> = map
            .iter()
            .filter(|(_, channel)| {
                let idle = |since| channel.unheeded >= UNHEEDED || now.duration_since(since) >= LINGER;
                channel.idle_since.is_some_and(idle)
            })
            .map(|(name, _)| name.clone())
            .take(CHUNK)
            .collect();
        if !stale.is_empty() {
            map.retain(|name, _| !stale.contains(name));
            let left = self.backend.unsubscribe(texts(&stale));
            return Some(left.map(|()| true).boxed());
        }
        let missing: Vec<Arc<str>> = map
            .iter()
            .filter(|(_, channel)| !channel.confirmed.load(Ordering::Acquire))
            .map(|(name, _)| name.clone())
            .take(CHUNK)
            .collect();
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
    /// Tells those who wait for it. After a gap the waiters try again: something may have been missed.
    fn subscribed(&self, names: &[Arc<str>], result: Result<(), String>, gaps: u64) -> bool {
        let ok = result.is_ok() && self.gaps() == gaps;
        if let Err(why) = result {
            tracing::warn!(target: "lockson", why, "gap: a subscription failed and is tried again");
        }
        let mut map = self.map();
        for name in names {
            let Some(channel) = map.get_mut(name) else { continue };
            channel.confirmed.store(ok, Ordering::Release);
            for joining in channel.joining.drain(..) {
                let _ = joining.send(ok);
            }
            channel.wakes.add_permits(channel.users.min(MOST_WAKES));
        }
        ok
    }
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
