//! Those who listen to channels at a server that loses connections and messages, refuses, and moves channels. Whoever
//! is told neither of a message nor of a gap waits in vain: that is a deadlock, which shuttle finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use shuttle::future::{block_on, spawn, yield_now, JoinHandle};
use shuttle::rand::{thread_rng, Rng};
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio::sync::{watch, Notify};

use crate::backend::{Backend, Changes, Node, Signal, Unknown};
use crate::events::Herald;
use crate::messages::channels::{Channels, Subscription};
use crate::messages::pump::Pump;

#[derive(Default)]
struct State {
    /// The channels that are subscribed to.
    has: BTreeSet<String>,
    /// How often each was subscribed to, and left.
    subscribed: BTreeMap<String, u32>,
    left: BTreeMap<String, u32>,
    /// So many SUBSCRIBEs may fail yet, and so many messages be missed. Or all fail.
    fails: u32,
    misses: u32,
    refuses: bool,
    /// How often channels moved from one node to the other.
    moves: usize,
    /// Whether a SUBSCRIBE of `a` is answered never, or not before the gate is opened.
    hangs: bool,
    /// What is free: whoever takes it tells when it is again. And how often something was told to all.
    free: u32,
    news: u32,
}

/// The servers of a play.
struct Server {
    state: Mutex<State>,
    signals: UnboundedSender<Signal>,
    changes: watch::Sender<()>,
    gate: Notify,
    /// Rung behind each UNSUBSCRIBE.
    ended: Notify,
}

impl Server {
    fn take(&self) -> bool {
        let mut state = self.state.lock();
        let some = state.free > 0;
        state.free -= u32::from(some);
        some
    }

    /// Tells whoever is subscribed.
    fn publish(&self, name: &str, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        if !state.has.contains(name) {
            return;
        }
        let signal = if state.misses > 0 && thread_rng().gen() {
            state.misses -= 1;
            Signal::Missed
        } else {
            Signal::Message { channel: name.to_owned(), zero: false }
        };
        let _ = self.signals.send(signal);
    }

    /// Whether it did as it was asked. It may have and not say so.
    fn serve(&self, names: &[String]) -> bool {
        let mut state = self.state.lock();
        let fails = state.fails > 0 && thread_rng().gen();
        state.fails -= u32::from(fails);
        if state.refuses {
            return false;
        }
        if !fails || thread_rng().gen() {
            for name in names {
                state.has.insert(name.clone());
                *state.subscribed.entry(name.clone()).or_default() += 1;
            }
        }
        !fails
    }

    fn end(&self, names: Vec<String>) {
        let mut state = self.state.lock();
        for name in names {
            state.has.remove(&name);
            *state.left.entry(name).or_default() += 1;
        }
    }

    /// Loses subscriptions. The client hears of that at once.
    fn lose(&self, some: impl FnOnce(&mut State) -> BTreeSet<String>, signal: impl FnOnce(Vec<String>) -> Signal) {
        let mut state = self.state.lock();
        let lost = some(&mut state).into_iter().collect();
        let _ = self.signals.send(signal(lost));
    }
}

/// What a client has of them.
struct Door(Arc<Server>);

impl Backend for Door {
    /// Each name is at the one or the other.
    fn node(&self, key: &str) -> Result<Arc<Node>, Unknown> {
        let node = (usize::from(key == "a") + self.0.state.lock().moves) % 2;
        Ok(Arc::new(Node { address: node.to_string() }))
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.0.changes.subscribe())
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let server = self.0.clone();
        let work = async move {
            let hangs = server.state.lock().hangs && channels.iter().any(|name| name == "a");
            if hangs {
                server.gate.notified().await;
            }
            yield_now().await;
            let done = server.serve(&channels);
            yield_now().await;
            if done {
                Ok(())
            } else {
                Err("no".to_owned())
            }
        };
        work.boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        let server = self.0.clone();
        let work = async move {
            yield_now().await;
            server.end(channels);
            yield_now().await;
            server.ended.notify_waiters();
        };
        work.boxed()
    }
}

/// A client, and its server.
#[derive(Clone)]
struct World {
    server: Arc<Server>,
    channels: Arc<Channels>,
    herald: Herald,
}

impl World {
    fn new(state: State) -> (Self, Pump) {
        let (signals, received) = unbounded_channel();
        let (state, changes, gate, ended) = (Mutex::new(state), watch::Sender::default(), Notify::new(), Notify::new());
        let (server, herald) = (Arc::new(Server { state, signals, changes, gate, ended }), Herald::default());
        let (channels, pump) = Pump::new(Arc::new(Door(server.clone())), received, herald.clone(), |_| {});
        crate::time::begin();
        (Self { server, channels, herald }, pump)
    }

    fn join(&self, name: &str) -> Subscription {
        self.channels.join(&name.into())
    }

    /// Until nothing is subscribed to, as nobody listens.
    async fn none_left(&self) {
        loop {
            let ended = self.server.ended.notified();
            if self.channels.len() == 0 && self.server.state.lock().has.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// All that was begun comes to its end.
    async fn close(self, pump: JoinHandle<()>) {
        self.channels.close().await;
        pump.await.expect("nobody panics");
    }
}

async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.expect("nobody panics"));
    }
    done
}

/// Connections are lost, and channels move.
async fn trouble(world: World) {
    for _ in 0..2 {
        yield_now().await;
        let server = &world.server;
        match thread_rng().gen_range(0..4) {
            0 => {
                server.lose(|state| std::mem::take(&mut state.has), |_| Signal::Gap);
                yield_now().await;
                let _ = server.signals.send(Signal::Whole);
            }
            1 => server.lose(|state| state.has.pop_last().into_iter().collect(), Signal::Lost),
            2 => {
                server.state.lock().moves += 1;
                server.lose(|state| std::mem::take(&mut state.has), Signal::Lost);
                server.changes.send_replace(());
            }
            _ => {}
        }
    }
}

/// Takes what is free, and tells one that it is again. Once more, with the channel left meanwhile.
async fn takes(world: World, name: &'static str) {
    for _ in 0..2 {
        let subscription = world.join(name);
        subscription.joined().await;
        while !world.server.take() {
            subscription.heard().await;
        }
        yield_now().await;
        world.server.publish(name, |state| state.free += 1);
    }
}

/// Listens, and goes away.
async fn leaves(world: World, name: &'static str) {
    let subscription = world.join(name);
    yield_now().await;
    let mut heard = Box::pin(subscription.heard());
    let _ = futures::poll!(heard.as_mut());
    yield_now().await;
}

fn troubled() -> State {
    State { fails: thread_rng().gen_range(0..2), misses: thread_rng().gen_range(0..2), free: 1, ..State::default() }
}

/// Each message is for one.
///
/// # Panics
/// Where a subscription is left that nobody has, or a gap does not end.
pub fn one_hears() {
    let (world, pump) = World::new(troubled());
    let pump = spawn(pump.run());
    block_on(async {
        let mut tasks: Vec<_> = (0..3).map(|_| spawn(takes(world.clone(), "a"))).collect();
        tasks.push(spawn(leaves(world.clone(), "a")));
        tasks.push(spawn(trouble(world.clone())));
        all(tasks).await;
        world.none_left().await;
        // Who comes after all that finds a subscription, behind which no gap is.
        let last = world.join("b");
        while !last.is_confirmed() {
            last.heard().await;
        }
        let herald = world.herald.clone();
        world.close(pump).await;
        assert!(!herald.is_gap());
    });
}

/// Waits until it has heard of all news.
async fn hears(world: World, name: &'static str) {
    let subscription = world.join(name);
    subscription.joined().await;
    while world.server.state.lock().news < 2 {
        subscription.heard_by_all().await;
    }
}

/// Each message is for all.
///
/// # Panics
/// Where a subscription is left that nobody has.
pub fn all_hear() {
    let (world, pump) = World::new(troubled());
    let pump = spawn(pump.run());
    block_on(async {
        let mut tasks: Vec<_> = (0..3).map(|_| spawn(hears(world.clone(), "a"))).collect();
        tasks.push(spawn(trouble(world.clone())));
        for _ in 0..2 {
            yield_now().await;
            world.server.publish("a", |state| state.news += 1);
        }
        all(tasks).await;
        world.none_left().await;
        world.close(pump).await;
    });
}

/// Several are the first listeners at once. One server is silent until the other's channel is there.
///
/// # Panics
/// Where they make more than one subscription, or it is not left once, when they are gone.
pub fn one_subscription() {
    let (world, pump) = World::new(State { hangs: true, ..State::default() });
    let pump = spawn(pump.run());
    let come = |name: &'static str| {
        let world = world.clone();
        spawn(async move {
            let subscription = world.join(name);
            assert!(subscription.joined().await, "nothing fails");
            if name == "b" {
                world.server.gate.notify_one();
            }
            subscription
        })
    };
    block_on(async {
        let listeners = all(["a", "a", "b", "a"].map(come).into()).await;
        let times = || ["a", "b"].map(|name| world.server.state.lock().subscribed[name]);
        assert_eq!(times(), [1, 1]);
        all(listeners.into_iter().map(|one| spawn(async { drop(one) })).collect()).await;
        world.none_left().await;
        assert_eq!(times(), [1, 1]);
        assert_eq!(["a", "b"].map(|name| world.server.state.lock().left[name]), [1, 1]);
        world.clone().close(pump).await;
    });
}

/// A server that refuses says so: nobody waits until it does not any more, and then all are told.
///
/// # Panics
/// Where a gap is not told of, or its end.
pub fn refused() {
    let (world, pump) = World::new(State { refuses: true, ..State::default() });
    let pump = spawn(pump.run());
    let herald = world.herald.clone();
    block_on(async {
        let come = |name: &'static str| {
            let world = world.clone();
            spawn(async move {
                let subscription = world.join(name);
                assert!(!subscription.joined().await && world.herald.is_gap());
                subscription
            })
        };
        let listeners = all(["a", "b", "a"].map(come).into()).await;
        world.server.state.lock().refuses = false;
        for listener in &listeners {
            while !listener.is_confirmed() {
                listener.heard_by_all().await;
            }
        }
        world.close(pump).await;
        assert!(!herald.is_gap());
    });
}

/// The client is closed, or its runtime is over, while some wait for a confirmation: of a server that may never answer.
pub fn nobody_waits_behind_the_end() {
    let (world, pump) = World::new(State { hangs: thread_rng().gen(), fails: 1, ..State::default() });
    let (stop, is_over) = (Arc::new(Notify::new()), thread_rng().gen::<bool>());
    let stopped = stop.clone();
    let pump = spawn(async move {
        tokio::select! {
            () = pump.run() => {}
            () = stopped.notified() => {}
        }
    });
    block_on(async {
        let come = |name: &'static str| {
            let world = world.clone();
            spawn(async move { world.join(name).joined().await })
        };
        let tasks: Vec<_> = ["a", "b", "a"].map(come).into();
        yield_now().await;
        if is_over {
            stop.notify_one();
            pump.await.expect("nobody panics");
        } else {
            world.clone().close(pump).await;
        }
        all(tasks).await;
        assert!(!world.join("late").joined().await);
    });
}
