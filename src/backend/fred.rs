//! Real servers, by fred: two connections, one for scripts and one for subscriptions. Only this, `fred_call` and
//! `fred_config` use fred.
//!
//! fred is used as a pipelined transport alone: it never sends a command twice, keeps no subscriptions for us, and its
//! URL parser, cluster router and redirections stay unused.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::futures::future::{BoxFuture, FutureExt, OptionFuture};
use fred::prelude::*;
use fred::types::{CustomCommand, Message, Value};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::{watch, Notify};

use super::fred_call::{begin, failed, one, order, outcome, within, Confirming, Connection, Lanes, Order, UnderWay};
use super::fred_config::{client, connect_error, Config, Times, FEW, MESSAGES};
use super::node::{connected, generation, look_if_failed, Away, Link, Node, NodeHealth, Only, Role, Topology};
use super::url::HostPort;
use super::{Backend, Call, Fate, Outcome, Signal, ALL_SLOTS};
use crate::base::clock::Clock;
use crate::base::fault::ConnectError;
use crate::base::janitor::say;

/// Timeouts in a row after which a connection is taken for dead.
const TIMEOUTS: u32 = 3;
/// A server that can't say which run of it this is, is asked again so soon.
const AGAIN: Duration = Duration::from_millis(100);

/// Connects both connections, or neither. Scripts go by `lent` where a program lends its own.
pub(crate) async fn connect(
    config: Config,
    times: Times,
    name: &Arc<str>,
    lent: Option<Client>,
) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError> {
    let command_timeout = times.command;
    let client_of = |room| {
        let config = Config { fail_fast: true, ..config.clone() };
        client(config, times, 1000, Some(command_timeout * 2), room)
    };
    let (is_lent, subscriber) = (lent.is_some(), client_of(MESSAGES)?);
    let commands = lent.map_or_else(|| client_of(FEW), Ok)?;
    let (phase, _) = watch::channel(Phase::Open);
    let lanes = Lanes::new(&config, times, name);
    let limit = is_lent.then_some(command_timeout);
    let confirming = Confirming::by(lanes.clone(), "PUBLISH");
    let link = Commands { way: Way::new(&commands, limit, None), confirming };
    let address = address(&config);
    // Dropped before its end, both connections are closed.
    let backend = Arc::new(Fred {
        only: Only::new(Node::new(address, Arc::new(link), Clock::System)),
        commands: commands.clone(),
        is_lent,
        subscriber: subscriber.clone(),
        lanes,
        command_timeout,
        runtime: Handle::current(),
        barriers: AtomicU64::new(0),
        away: Arc::default(),
        phase,
    });
    let limit = times.connect() * 2;
    for client in [&commands, &subscriber].into_iter().skip(usize::from(is_lent)) {
        let task = match tokio::time::timeout(limit, begin(client)).await {
            Ok(Ok(task)) => task,
            Ok(Err(error)) => return Err(connect_error(&error)),
            Err(_) => return Err(ConnectError::Unreachable(format!("no answer within {limit:?}"))),
        };
        tokio::spawn(supervise(client.clone(), name.clone(), task, backend.phase.subscribe()));
    }
    let (signals, received) = unbounded_channel();
    tokio::spawn(recognize(Arc::downgrade(&backend), commands, signals.clone(), backend.phase.subscribe()));
    let (messages, reconnects) = (subscriber.message_rx(), subscriber.reconnect_rx());
    tokio::spawn(listen(messages, reconnects, signals.clone(), backend.phase.subscribe()));
    let beating = beat(subscriber, command_timeout, signals, backend.away.clone(), backend.phase.subscribe());
    tokio::spawn(beating);
    Ok((backend, received))
}

/// Of one server, for messages.
pub(crate) fn address(config: &Config) -> String {
    config.server.hosts().first().map_or_else(|| "socket".to_owned(), ToString::to_string)
}

/// The same, as it is connected to.
#[cfg(feature = "lean")]
pub(crate) fn place(config: &Config) -> HostPort {
    let place = |server: &Server| HostPort { host: server.host.to_string(), port: server.port };
    // A socket has none.
    config.server.hosts().first().map(place).unwrap_or_default()
}

/// The connection for scripts to one server of many. It connects in the background. Once `left` is dropped it is gone,
/// and calls under way by it end, but for those that wait for replicas. `look` is woken when a call has failed.
pub(crate) fn link(
    config: &Config,
    to: &HostPort,
    times: Times,
    name: Arc<str>,
    mut left: watch::Receiver<()>,
    look: Arc<Notify>,
) -> Result<Arc<dyn Link>, ConnectError> {
    // Whoever calls it is told at once when the server is not there: it may be tried often.
    let client = client(one(config, to), times, 200, Some(times.command * 2), FEW)?;
    let confirming = Confirming::new(config, to, times, &name);
    let link = Commands { way: Way::new(&client, None, Some(look)), confirming: confirming.clone() };
    tokio::spawn(async move {
        let (_open, phase) = watch::channel(Phase::Open);
        let connection = Connection(client.connect());
        tokio::select! {
            () = supervise(client, name, connection, phase) => {}
            // Nothing is ever sent by it.
            _ = left.changed() => {}
        }
        confirming.close();
    });
    Ok(Arc::new(link))
}

/// The connections for scripts to one server.
struct Commands {
    way: Arc<Way>,
    confirming: Confirming,
}

/// The connection for scripts that no replica has to confirm.
struct Way {
    client: Client,
    /// Of each answer, where the client has none of its own.
    limit: Option<Duration>,
    /// The client's own, whichever its calls are polled on.
    runtime: Handle,
    /// In a row.
    timeouts: AtomicU32,
    under_way: UnderWay,
    look: Option<Arc<Notify>>,
}

impl Way {
    fn new(client: &Client, limit: Option<Duration>, look: Option<Arc<Notify>>) -> Arc<Self> {
        let (timeouts, under_way) = (AtomicU32::new(0), UnderWay::default());
        Arc::new(Self { client: client.clone(), limit, runtime: Handle::current(), timeouts, under_way, look })
    }

    async fn send(&self, order: Order) -> Outcome {
        // What else a program sends by its own client is not seen here.
        let turn = self.limit.is_none().then(|| self.under_way.begin());
        // Made where it is polled: a future that is moved has its room twice.
        let result = match self.limit {
            None => order.send(&self.client).await,
            // It is not every client's, so it takes no room in every call.
            Some(limit) => order.send_within(&self.client, limit).boxed().await,
        };
        if !matches!(&result, Err(error) if *error.kind() == ErrorKind::Timeout) {
            self.timeouts.store(0, Ordering::Relaxed);
        } else if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 == TIMEOUTS {
            self.replace();
        }
        match turn {
            Some(turn) => turn.came_to(outcome(result)),
            None => outcome(result),
        }
    }

    fn look_if_failed(&self, outcome: Outcome) -> Outcome {
        match &self.look {
            Some(look) => look_if_failed(look, outcome),
            None => outcome,
        }
    }

    fn replace(&self) {
        replace(&self.runtime, &self.client);
    }
}

struct Fred {
    only: Only,
    commands: Client,
    /// Whether it is a program's own: it stays when this ends.
    is_lent: bool,
    subscriber: Client,
    lanes: Arc<Lanes>,
    command_timeout: Duration,
    runtime: Handle,
    barriers: AtomicU64,
    /// As the connection for messages tells.
    away: Arc<Away>,
    phase: watch::Sender<Phase>,
}

/// How far the end of a client has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// It says goodbye to the server: fred's tasks are needed for that, and end by themselves.
    Leaving,
    Closed,
}

impl Drop for Fred {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Closed);
    }
}

impl Link for Commands {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        let way = self.way.clone();
        if let Some(confirm) = call.confirm {
            let answer = self.confirming.call(&call, confirm);
            return async move { way.look_if_failed(answer.await) }.boxed();
        }
        let order = order(&call, self.confirming.publish);
        async move { way.look_if_failed(way.send(order).await) }.boxed()
    }

    fn reset(&self) {
        self.way.replace();
    }

    fn settings(&self, names: &'static [&'static str]) -> BoxFuture<'static, BTreeMap<String, String>> {
        let client = self.way.client.with_options(&within(self.way.limit));
        async move {
            let words: Vec<Value> = ["GET"].iter().chain(names).map(|word| (*word).into()).collect();
            let found = client.custom(CustomCommand::new_static("CONFIG", None, false), words).await;
            found.map(|found: HashMap<String, String>| found.into_iter().collect()).unwrap_or_default()
        }
        .boxed()
    }
}

impl Backend for Fred {
    fn node(&self, _key: &str) -> Result<Arc<Node>, Fate> {
        Ok(self.only.node())
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![self.only.node()]
    }

    fn topology(&self) -> Topology {
        Topology::Single
    }

    fn seen(&self) -> Vec<NodeHealth> {
        let address = self.only.node().address.clone();
        vec![NodeHealth { address, role: Role::Primary, away: self.away.so_far() }]
    }

    /// The best there is: those that are connected at this moment.
    fn replicas(&self, _of: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        let limit = self.is_lent.then_some(self.command_timeout);
        let commands = self.commands.with_options(&within(limit));
        async move {
            let info = info(&commands, &["replication"]).await.map_err(|error| failed(&error))?;
            Ok(connected(&info))
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let (client, runtime) = (self.subscriber.clone(), self.runtime.clone());
        let token = format!("barrier-{}", self.barriers.fetch_add(1, Ordering::Relaxed));
        async move {
            client.subscribe(channels).await.map_err(|error| error.to_string())?;
            // fred answers before the server does: only the echo proves the subscription.
            match client.ping::<Value>(Some(token.clone())).await {
                Ok(echo) if echoes(&echo, &token) => Ok(()),
                Ok(_) => {
                    replace(&runtime, &client);
                    Err("the answer belongs to another call".to_owned())
                }
                Err(error) => Err(error.to_string()),
            }
        }
        .boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        let (client, runtime) = (self.subscriber.clone(), self.runtime.clone());
        async move {
            // What stays subscribed by a fault is gone with the connection.
            if !channels.is_empty() && client.unsubscribe(channels).await.is_err() {
                replace(&runtime, &client);
            }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.phase.send_replace(Phase::Leaving);
        self.lanes.close();
        let (subscriber, limit) = (self.subscriber.clone(), self.command_timeout);
        let (own, phase) = ((!self.is_lent).then(|| self.commands.clone()), self.phase.clone());
        async move {
            let commands = OptionFuture::from(own.as_ref().map(|commands| commands.quit()));
            let quit = ::futures::future::join(commands, subscriber.quit());
            let _ = tokio::time::timeout(limit, quit).await;
            phase.send_replace(Phase::Closed);
        }
        .boxed()
    }
}

/// Looks on each new connection whether the server is what it was. One that is another has all keys from then on.
async fn recognize(
    backend: Weak<Fred>,
    commands: Client,
    signals: UnboundedSender<Signal>,
    phase: watch::Receiver<Phase>,
) {
    let mut reconnects = commands.reconnect_rx();
    let looking = async {
        while !matches!(reconnects.recv().await, Err(RecvError::Closed)) {
            let found = introduced(&commands).await;
            let (Some(backend), Some(found)) = (backend.upgrade(), found) else { continue };
            if backend.only.becomes(&found) {
                let _ = signals.send(Signal::Over(vec![ALL_SLOTS]));
            }
        }
    };
    while_open(phase, looking).await;
}

/// Which run of a server it is. Asked again while it can't say; who may not ask keeps the node that it has.
async fn introduced(commands: &Client) -> Option<String> {
    loop {
        match info(commands, &["server", "replication"]).await {
            Ok(info) => return generation(&info),
            Err(error) if matches!(failed(&error), Fate::Refused(_)) => return None,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

async fn info(client: &impl ClientLike, sections: &[&str]) -> FredResult<String> {
    let sections: Vec<Value> = sections.iter().map(|section| (*section).into()).collect();
    client.custom(CustomCommand::new_static("INFO", None, false), sections).await
}

/// Drops a client's connection and makes a new one.
fn replace(runtime: &Handle, client: &Client) {
    let _entered = runtime.enter();
    // The first poll tells fred's task. Nobody waits for the rest: that task may be gone.
    let _ = client.force_reconnection().now_or_never();
}

/// fred's connection task may end by itself; then it is started anew. Ends it when the client is closed.
async fn supervise(client: Client, name: Arc<str>, mut connection: Connection, mut phase: watch::Receiver<Phase>) {
    let mut introducing = pin!(while_open(phase.clone(), introduce(&client, &name)).fuse());
    loop {
        tokio::select! {
            () = &mut introducing => continue,
            _ = phase.wait_for(|phase| *phase == Phase::Closed) => return,
            _ = &mut connection.0 => {}
        }
        if *phase.borrow() != Phase::Open {
            return;
        }
        say(|| tracing::warn!(target: "lockson", "the connection task ended and is started anew"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        connection = Connection(client.connect());
    }
}

/// Says on each new connection whose it is, for who lists a server's clients. To a user who may not it is said once.
async fn introduce(client: &Client, name: &str) {
    let mut reconnects = client.reconnect_rx();
    let mut is_new = client.is_connected();
    let is_refusal = |error: Error| matches!(failed(&error), Fate::Refused(_));
    loop {
        let say = |words: Vec<Value>| client.custom::<(), _>(CustomCommand::new_static("CLIENT", None, false), words);
        if is_new && say(vec!["SETNAME".into(), name.into()]).await.is_err_and(is_refusal) {
            return;
        }
        let infos = [("LIB-NAME", env!("CARGO_PKG_NAME")), ("LIB-VER", env!("CARGO_PKG_VERSION"))];
        for (what, info) in infos.into_iter().filter(|_| is_new) {
            // Redis 7.0 does not know it.
            let _ = say(vec!["SETINFO".into(), what.into(), info.into()]).await;
        }
        if matches!(reconnects.recv().await, Err(RecvError::Closed)) {
            return;
        }
        is_new = true;
    }
}

async fn listen(
    mut messages: Receiver<Message>,
    mut reconnects: Receiver<Server>,
    signals: UnboundedSender<Signal>,
    mut phase: watch::Receiver<Phase>,
) {
    loop {
        let signal = tokio::select! {
            _ = phase.wait_for(|phase| *phase != Phase::Open) => return,
            message = messages.recv() => match message {
                Ok(message) => Signal::Message {
                    zero: message.value.as_bytes() == Some(b"0"),
                    channel: message.channel.to_string(),
                },
                Err(RecvError::Lagged(_)) => Signal::Missed,
                Err(RecvError::Closed) => return,
            },
            reconnect = reconnects.recv() => match reconnect {
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    let _ = signals.send(Signal::Gap);
                    Signal::Whole
                }
                Err(RecvError::Closed) => return,
            },
        };
        if signals.send(signal).is_err() {
            return;
        }
    }
}

/// A subscriber has nothing to send, so only this finds that its connection is dead.
async fn beat(
    client: Client,
    command_timeout: Duration,
    signals: UnboundedSender<Signal>,
    away: Arc<Away>,
    phase: watch::Receiver<Phase>,
) {
    let beating = async {
        for beats in 1_u64.. {
            tokio::time::sleep(command_timeout).await;
            let token = format!("beat-{beats}");
            let alive = matches!(client.ping::<Value>(Some(token.clone())).await, Ok(echo) if echoes(&echo, &token));
            if alive {
                away.end();
                let _ = signals.send(Signal::Whole);
            } else {
                away.begin(false);
                // The reconnect signals a gap too; this one is for waiters that should poll until then.
                let _ = signals.send(Signal::Gap);
                let _ = client.force_reconnection().await;
            }
        }
    };
    while_open(phase, beating).await;
}

/// Until the client leaves, at any point of the work: behind the goodbye fred warns of what is said, and where its task
/// is gone nothing of it is answered any more. (No `async fn`: that would have room for the work twice.)
fn while_open<'a>(
    mut phase: watch::Receiver<Phase>,
    work: impl Future<Output = ()> + Send + 'a,
) -> impl Future<Output = ()> + Send + 'a {
    let work = work.boxed();
    async move {
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Open) => {}
            () = work => {}
        }
    }
}

/// RESP3 answers PING with its argument, RESP2 inside a subscription with `["pong", argument]`.
fn echoes(value: &Value, token: &str) -> bool {
    match value {
        Value::Array(items) => items.last().is_some_and(|item| echoes(item, token)),
        other => other.as_str().is_some_and(|text| text == token),
    }
}
