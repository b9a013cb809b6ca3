//! How a waiter listens: the channel that wakes it, how often it asked the server, and whether that answered.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::engine::Engine;
use crate::wire::channels::Subscription;

/// How long a message that has come by its connection may still need to be counted in this process.
const DELIVERED_WITHIN: Duration = Duration::from_millis(5);

/// One waiter's end of a channel. It is made when the wait begins.
pub(crate) struct Listener {
    engine: Arc<Engine>,
    began: Moment,
    channel: Arc<str>,
    subscription: Option<Subscription>,
    /// Whether the channel was subscribed to before the last attempt was sent.
    listened: bool,
    attempts: u32,
    /// Whether it made its first attempt, until one is answered.
    unanswered: bool,
}

impl Listener {
    pub(crate) fn new(engine: &Arc<Engine>, channel: Arc<str>) -> Self {
        let began = engine.now();
        let (subscription, listened, attempts, unanswered) = (None, false, 0, false);
        Self { engine: engine.clone(), began, channel, subscription, listened, attempts, unanswered }
    }

    /// How many attempts it made.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// An attempt is about to be sent: what was heard so far does not matter any more.
    pub(crate) fn asks(&mut self) {
        self.attempts += 1;
        self.unanswered |= self.attempts == 1;
        self.drain();
    }

    /// The attempt came back.
    pub(crate) fn answered(&mut self) {
        self.unanswered = false;
    }

    /// Whether it asked in vain: its node answered no call of this client since the wait began, or is silent now.
    /// (Since it asked would be too strict: who heads the line a moment before its limit has no time to be answered.)
    pub(crate) fn is_unheard(&self) -> bool {
        let wire = &self.engine.wire;
        self.unanswered && !wire.heard_since(&self.channel, self.began) || wire.is_silent(&self.channel)
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.subscription.as_ref().is_some_and(Subscription::is_confirmed)
    }

    /// Forgets what was heard so far.
    pub(crate) fn drain(&mut self) {
        match &self.subscription {
            Some(subscription) => subscription.drain(),
            None => self.listened = self.engine.channels.drain(&self.channel),
        }
    }

    /// Waits until it is subscribed, for at most `limit`. `true`: only from now on.
    pub(crate) async fn subscribe(&mut self, limit: Duration) -> bool {
        if self.is_confirmed() {
            return false;
        }
        let confirmed = self.engine.channels.is_confirmed(&self.channel);
        let (subscription, joined) = self.engine.channels.join(&self.channel);
        // Kept unconfirmed too: the subscription is tried again, and wakes the waiter when it is there.
        self.subscription = Some(subscription);
        let joined = tokio::time::timeout(limit, joined).await;
        matches!(joined, Ok(Ok(true))) && !confirmed
    }

    /// Subscribes, and does not wait for that: its confirmation wakes the waiter, who looks meanwhile too. `true`:
    /// something after the last attempt was sent may have been missed.
    pub(crate) fn listen(&mut self) -> bool {
        if self.subscription.is_some() {
            return false;
        }
        self.subscription = Some(self.engine.channels.join(&self.channel).0);
        // What counts is whether a release right after the attempt was heard, not whether one is heard now.
        self.is_confirmed() && !self.listened
    }

    /// How often `0` was heard so far.
    pub(crate) fn heard_zeros(&self) -> u64 {
        self.subscription.as_ref().map_or(0, Subscription::zeros)
    }

    /// How often `0` was heard so far, all that was sent before this call among it. `None`: that can't be told.
    pub(crate) async fn zeros(&self) -> Option<u64> {
        let (wire, limit) = (&self.engine.wire, self.engine.settings.command_timeout);
        // Messages come by another connection than answers. The confirmation of a subscription comes by theirs, behind
        // all that was sent before.
        let barrier = wire.backend.subscribe(vec![self.channel.to_string()]);
        tokio::time::timeout(limit, barrier).await.ok()?.ok()?;
        tokio::time::sleep(DELIVERED_WITHIN).await;
        self.subscription.as_ref().filter(|subscription| subscription.is_confirmed()).map(Subscription::zeros)
    }

    /// Waits for a message.
    pub(crate) async fn wakes(&self) {
        match &self.subscription {
            Some(subscription) => subscription.heard().await,
            None => std::future::pending().await,
        }
    }
}
