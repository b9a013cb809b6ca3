//! What a waiter knows of its own waiting: how often it asked, and what it hears on its channel.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::notify::Subscription;
use crate::session::Core;

/// What came by a connection is counted after this.
const SETTLES: Duration = Duration::from_millis(5);

/// How often a waiter asked, and whether it was heard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) attempts: u32,
    /// Whether it made its first attempt, until one is answered.
    unheard: bool,
}

impl Tally {
    pub(crate) fn asks(&mut self) {
        self.attempts += 1;
        self.unheard |= self.attempts == 1;
    }

    pub(crate) fn heard(&mut self) {
        self.unheard = false;
    }

    /// It asked in vain: neither it nor any other call of this client was answered since `began`. (Since it asked would
    /// be too strict: who heads the line a moment before its limit has no time to hear.)
    pub(crate) fn is_unheard(self, core: &Core, began: Moment) -> bool {
        self.unheard && !core.wire.heard_since(began)
    }
}

/// What a waiter hears on its channel.
pub(crate) struct Ear {
    channel: Arc<str>,
    subscription: Option<Subscription>,
    /// Whether the channel was subscribed to before the last attempt was sent.
    listened: bool,
}

impl Ear {
    pub(crate) fn new(channel: Arc<str>) -> Self {
        Self { channel, subscription: None, listened: false }
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.subscription.as_ref().is_some_and(Subscription::is_confirmed)
    }

    /// Forgets what was heard so far: an attempt is about to be sent.
    pub(crate) fn drain(&mut self, core: &Core) {
        match &self.subscription {
            Some(subscription) => subscription.drain(),
            None => self.listened = core.channels.drain(&self.channel),
        }
    }

    /// `true`: only from now on.
    pub(crate) async fn subscribe(&mut self, core: &Core, limit: Duration) -> bool {
        if self.is_confirmed() {
            return false;
        }
        let confirmed = core.channels.is_confirmed(&self.channel);
        let (subscription, joined) = core.channels.join(&self.channel);
        // Kept unconfirmed too: the subscription is tried again, and wakes the waiter when it is there.
        self.subscription = Some(subscription);
        let joined = tokio::time::timeout(limit, joined).await;
        matches!(joined, Ok(Ok(true))) && !confirmed
    }

    /// Makes sure that what comes is heard. `true`: something after the last attempt was sent may have been missed.
    pub(crate) async fn listen(&mut self, core: &Core, limit: Duration) -> bool {
        if self.is_confirmed() {
            return false;
        }
        self.subscribe(core, limit).await;
        // What counts is whether a release right after the attempt was heard, not whether one is heard now.
        self.is_confirmed() && !self.listened
    }

    /// How often `0` was heard so far.
    pub(crate) fn heard_zeros(&self) -> u64 {
        self.subscription.as_ref().map_or(0, Subscription::zeros)
    }

    /// How often `0` was heard so far, all that was sent before this call among it. `None`: that can't be told.
    pub(crate) async fn zeros(&mut self, core: &Core, limit: Duration) -> Option<u64> {
        self.subscribe(core, limit).await;
        // Messages come by another connection than answers: what confirms a subscription comes behind them, and then
        // they have a way to go inside this process.
        let barrier = core.wire.backend.subscribe(vec![self.channel.to_string()]);
        tokio::time::timeout(limit, barrier).await.ok()?.ok()?;
        tokio::time::sleep(SETTLES).await;
        self.subscription.as_ref().filter(|subscription| subscription.is_confirmed()).map(Subscription::zeros)
    }

    pub(crate) async fn wakes(&self) {
        match &self.subscription {
            Some(subscription) => subscription.heard().await,
            None => std::future::pending().await,
        }
    }
}
