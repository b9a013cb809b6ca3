//! The channels that this client listens to: a message wakes those who wait for it. Rule 15 of docs/PROTOCOL.md:
//! messages are hints, and whenever some may have been missed every waiter is woken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::base::janitor::say;
use crate::events::{Event, Herald};
use crate::messages::ear::{Channel, Ear, Map};

/// How long a subscription that nobody uses is kept.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// The subscriptions of a client.
pub(crate) struct Channels {
    pub(super) map: Mutex<Map>,
    /// Tells the pump of a channel that is new, lost its last user, or is asked about; or of the end.
    news: UnboundedSender<()>,
    pub(super) closing: AtomicBool,
    pub(super) gaps: AtomicU64,
    pub(super) herald: Herald,
}

impl Channels {
    /// None yet, and how its pump hears of them.
    pub(super) fn new(herald: Herald) -> (Arc<Self>, UnboundedReceiver<()>) {
        let (news, received) = unbounded_channel();
        let (map, closing, gaps) = Default::default();
        (Arc::new(Self { map, news, closing, gaps, herald }), received)
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
            Channel::missing()
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
    pub(super) fn let_go(&self) {
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

    /// Asks how many messages `0` came, all that were sent before this call among them: told once that can be.
    pub(crate) fn ask_zeros(&self) -> oneshot::Receiver<u64> {
        let (told, heard) = oneshot::channel();
        self.channels.map.lock().asks(&self.name, [told]);
        let _ = self.channels.news.send(());
        heard
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

impl Channels {
    /// Tells those who wait for it. After a gap the waiters try again: something may have been missed. Whether the rest
    /// may be tried at once.
    pub(super) fn subscribed(&self, names: &[Arc<str>], number: u64, result: Result<(), String>) -> bool {
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
    pub(super) fn end_gap(&self) {
        let mut map = self.map.lock();
        let ended = if map.open == 0 { map.gap_since.take() } else { None };
        let channels = map.all.len();
        drop(map);
        if let Some(after) = ended.map(|since| since.elapsed()) {
            self.herald.tell(Event::GapEnded { channels, after });
        }
    }
}
