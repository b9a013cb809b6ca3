//! The only wait loop, and how a waiter listens: the channel that wakes it, how often it asked the server, and whether
//! that answered.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::base::clock::Moment;
use crate::engine::Engine;
use crate::error::Passing;
use crate::messages::channels::Subscription;

/// Whether a lock, or permits, were acquired. Whoever throws that away would go on without: the compiler warns.
///
/// ```
/// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
/// if lock.try_lock().await?.is_acquired() {
///     // nobody else has it
///     lock.unlock().await?;
/// }
/// # Ok(()) }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
/// lock.try_lock().await?; // it may be busy
/// lock.unlock().await?;
/// # Ok(()) }
/// ```
#[must_use = "when it is `Busy`, nothing was acquired"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// It is the caller's, who gives it back.
    Acquired,
    /// Others had it until the limit, or too many of the permits. Nothing is held.
    Busy,
}

impl AcquireOutcome {
    /// Of what was taken, if it was.
    pub(crate) fn of(taken: Option<()>) -> Self {
        taken.map_or(Self::Busy, |()| Self::Acquired)
    }

    /// Whether it is the caller's now.
    pub fn is_acquired(self) -> bool {
        self == Self::Acquired
    }
}

/// What an attempt came to.
pub(crate) enum Tried<P> {
    Won(P),
    /// Somebody else has it, for at most this long if that is known.
    Busy(Option<Duration>),
}

/// Something that is contended for.
pub(crate) trait Contest: Send {
    type Prize: Send;
    type Error: Send + Passing;

    /// Waits until an attempt is worth it, at most `pause`; without one, until told. `Some`: it was given meanwhile.
    fn turn(
        &mut self,
        pause: Option<Duration>,
    ) -> impl Future<Output = Result<Option<Self::Prize>, Self::Error>> + Send;

    /// One attempt.
    fn attempt(&mut self) -> impl Future<Output = Result<Tried<Self::Prize>, Self::Error>> + Send;

    /// Has a release be heard. `true`: it is from now on, so what happened before was missed. `false`: it was heard all
    /// along, or the waiter is woken as soon as it is.
    fn listen(&mut self) -> bool;

    /// How long to sleep at most after an attempt that found it busy.
    fn pause(&mut self) -> Duration;

    /// Whether it may sleep after that for as long as it takes: somebody else looks for it, and tells.
    fn is_looked_for(&self, _left: Option<Duration>) -> bool {
        false
    }
}

/// Contends until it is won. Dropping the future leaves nothing behind that the contest does not take back.
pub(crate) async fn wait<C: Contest>(contest: &mut C) -> Result<C::Prize, C::Error> {
    let mut pause = None;
    loop {
        if let Some(prize) = contest.turn(pause).await? {
            return Ok(prize);
        }
        let tried = contest.attempt().await;
        let passing = |error: C::Error| error.passes_after().map(|left| Tried::Busy(Some(left))).ok_or(error);
        match tried.or_else(passing)? {
            Tried::Won(prize) => return Ok(prize),
            Tried::Busy(_) if contest.listen() => pause = Some(Duration::ZERO),
            Tried::Busy(left) if contest.is_looked_for(left) => pause = None,
            Tried::Busy(left) => {
                let cap = contest.pause();
                // A millisecond on top, as the server rounds down.
                pause = Some(left.map_or(cap, |left| cap.min(left + Duration::from_millis(1))));
            }
        }
    }
}

/// `None`: the deadline came first.
pub(crate) fn before<'a, T: Send + 'a>(
    deadline: Option<Instant>,
    work: impl Future<Output = T> + Send + 'a,
) -> impl Future<Output = Option<T>> + Send + 'a {
    match deadline {
        // Boxed: those without one would have room for its timer.
        Some(deadline) => tokio::time::timeout_at(deadline, work).map(Result::ok).boxed().left_future(),
        None => work.map(Some).right_future(),
    }
}

/// When a wait for so long ends; the limit itself if that is beyond what the clock can say.
pub(crate) fn deadline(limit: Option<Duration>) -> Result<Option<Instant>, Duration> {
    limit.map(|limit| Instant::now().checked_add(limit).ok_or(limit)).transpose()
}

/// Sleeps until then; without a deadline, for ever.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// One waiter's end of a channel. It is made when the wait begins.
pub(crate) struct Listener {
    engine: Arc<Engine>,
    began: Moment,
    channel: Arc<str>,
    /// Whether a message may be for others too: all hear it then.
    shares: bool,
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
        let (shares, subscription, listened, attempts, unanswered) = (false, None, false, 0, false);
        Self { engine: engine.clone(), began, channel, shares, subscription, listened, attempts, unanswered }
    }

    /// The same, where the channel is that of many locks.
    pub(crate) fn sharing(self) -> Self {
        Self { shares: true, ..self }
    }

    /// When the wait began.
    pub(crate) fn began(&self) -> Moment {
        self.began
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
            None => self.listened = self.engine.channels.drain_unheard(&self.channel),
        }
    }

    /// Waits until it is subscribed, for at most `limit`. `true`: only from now on.
    pub(crate) async fn subscribe(&mut self, limit: Duration) -> bool {
        if self.is_confirmed() {
            return false;
        }
        // Kept unconfirmed too: the subscription is tried again, and wakes the waiter when it is there.
        let subscription = self.subscription.insert(self.engine.channels.join(&self.channel));
        let confirmed = subscription.is_confirmed();
        tokio::time::timeout(limit, subscription.joined()).await == Ok(true) && !confirmed
    }

    /// Subscribes, and does not wait for that: its confirmation wakes the waiter, who looks meanwhile too. `true`:
    /// something after the last attempt was sent may have been missed.
    pub(crate) fn listen(&mut self) -> bool {
        if self.subscription.is_some() {
            return false;
        }
        self.subscription = Some(self.engine.channels.join(&self.channel));
        // What counts is whether a release right after the attempt was heard, not whether one is heard now. What all
        // hear is heard from now on.
        self.is_confirmed() && (self.shares || !self.listened)
    }

    /// How often `0` was heard so far.
    pub(crate) fn heard_zeros(&self) -> u64 {
        self.subscription.as_ref().map_or(0, Subscription::zeros)
    }

    /// Asks for the same, all that were sent before this call among them: told once that can be.
    pub(crate) fn ask_zeros(&self) -> Option<oneshot::Receiver<u64>> {
        self.subscription.as_ref().map(Subscription::ask_zeros)
    }

    /// Waits for a message.
    pub(crate) async fn wakes(&self) {
        match &self.subscription {
            Some(subscription) if self.shares => subscription.heard_by_all().await,
            Some(subscription) => subscription.heard().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests {
    use super::*;

    /// A wait that was never answered is unheard, unless its node answers others; and one beside a silent node.
    #[tokio::test(start_paused = true)]
    async fn who_asked_in_vain_is_unheard() {
        let server = crate::EmbeddedServer::new();
        let locks = server.connect();
        let lock = locks.lock("asked");
        let wish = || {
            let (line, field) = (lock.line().unwrap(), lock.field());
            lock.wish(&line, &field, &crate::Request::default(), None).unwrap()
        };
        let engine = wish().engine.clone();
        let mut listener = Listener::new(&engine, "channel".into());
        assert!(!listener.is_unheard(), "it asked nothing");
        listener.asks();
        assert!(listener.is_unheard() && listener.attempts() == 1);
        listener.answered();
        assert!(!listener.is_unheard());
        listener.asks();
        assert!(!listener.is_unheard() && listener.attempts() == 2, "one that was answered is known to be heard");
        let mut other = Listener::new(&engine, "channel".into());
        other.asks();
        other.asks();
        assert!(other.is_unheard(), "it is still the first that is not answered");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(lock.try_lock().await.unwrap().is_acquired());
        assert!(!other.is_unheard(), "the node answers others");
        server.stop();
        drop(tokio::time::timeout(engine.wire.slow() * 2, lock.unlock()).await);
        assert!(listener.is_unheard() && other.is_unheard(), "it is silent");
    }

    /// A message of many locks is for each who waits for one of them; one that was drained is for nobody.
    #[tokio::test(start_paused = true)]
    async fn who_shares_a_channel_hears_each_message() {
        let server = crate::EmbeddedServer::new();
        let locks = server.connect();
        let (engine, channel): (_, Arc<str>) = (locks.engine().clone(), "channel".into());
        let mut listeners = [(); 3].map(|()| Listener::new(&engine, channel.clone()).sharing());
        for listener in &mut listeners {
            listener.subscribe(Duration::from_secs(1)).await;
            listener.drain();
        }
        let [one, other, third] = &mut listeners;
        let heard =
            async |listener: &Listener| tokio::time::timeout(Duration::from_secs(1), listener.wakes()).await.is_ok();
        for _ in 0..2 {
            server.command(&["PUBLISH", "channel", "0"]).unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            third.drain();
            assert!(heard(one).await && heard(other).await && !heard(third).await);
        }
        assert!(!heard(one).await && !heard(other).await);
    }

    /// A message that came while who listens was looking is not lost by somebody else's first look.
    #[tokio::test(start_paused = true)]
    async fn who_does_not_listen_takes_no_message() {
        let server = crate::EmbeddedServer::new();
        let locks = server.connect();
        let (engine, channel): (_, Arc<str>) = (locks.engine().clone(), "channel".into());
        let [mut first, mut other] = [(); 2].map(|()| Listener::new(&engine, channel.clone()));
        first.subscribe(Duration::from_secs(1)).await;
        first.drain();
        server.command(&["PUBLISH", "channel", "0"]).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        other.asks();
        assert!(other.listened && tokio::time::timeout(Duration::from_secs(1), first.wakes()).await.is_ok());
    }

    /// What told of the end of one latch does not open the next of its name.
    #[tokio::test(start_paused = true)]
    async fn a_message_of_before_opens_no_latch() {
        let server = crate::EmbeddedServer::new();
        let locks = server.connect();
        let latch = locks.latch("latch");
        assert!(latch.try_set_count(1).await.unwrap());
        let opened = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            latch.count_down().await.unwrap()
        };
        assert_eq!(tokio::join!(latch.wait(), opened), (Ok(crate::WaitOutcome::Opened), Some(0)));
        assert!(latch.try_set_count(1).await.unwrap());
        assert_eq!(latch.wait_for(Duration::from_secs(10)).await, Ok(crate::WaitOutcome::TimedOut));
    }
}
