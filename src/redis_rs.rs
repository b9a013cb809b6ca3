//! One real server, by a connection of redis-rs that a program lends: scripts go by it, and messages come by what it
//! pushes where it speaks RESP3. Only this uses redis-rs.
//!
//! Such a connection sends a command once and answers in the order of the requests. What breaks it ends it
//! (`MultiplexedConnection`), or it is made anew by itself (`ConnectionManager`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::futures::future::{join_all, ready, BoxFuture, FutureExt};
use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::{cmd, from_redis_value, Cmd, ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::{watch, Notify};
use tokio::time::timeout;

use crate::backend::node::{generation, Away, Link, Node, NodeHealth, Only, Role, Topology};
use crate::backend::{Backend, Call, Fate, Item, Outcome, Signal, ALL_SLOTS};
use crate::base::clock::Clock;
use crate::base::fault::ConnectError;

/// Begins to use it. Without `pushes` nobody is told anything: who waits looks by itself.
pub(crate) async fn connect<C>(
    connection: C,
    pushes: Option<UnboundedReceiver<PushInfo>>,
    limit: Duration,
) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let way = Arc::new(Way { connection: lent(connection), limit });
    if pushes.is_some() {
        speaks_resp3(&way).await?;
    }
    let (signals, received) = unbounded_channel();
    let only = Only::new(Node::new("redis-rs", way.clone(), Clock::System));
    let sight = Arc::new(Sight { only, away: Away::default(), look: Notify::new(), signals });
    let (open, _) = watch::channel(());
    let channels = pushes.is_some().then(Mutex::default);
    if let Some(pushes) = pushes {
        tokio::spawn(until_closed(listen(pushes, sight.clone()), open.subscribe()));
    }
    tokio::spawn(until_closed(beat(way.clone(), sight.clone()), open.subscribe()));
    Ok((Arc::new(Lent { way, sight, channels, open }), received))
}

/// Sends a command, once, and has its answer.
type Connection = Box<dyn Fn(Cmd) -> BoxFuture<'static, RedisResult<Value>> + Send + Sync>;

/// Whatever its type is.
fn lent<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: C) -> Connection {
    Box::new(move |command| {
        let mut connection = connection.clone();
        async move { connection.req_packed_command(&command).await }.boxed()
    })
}

/// In RESP2 a subscription would keep all else from the connection.
async fn speaks_resp3(way: &Way) -> Result<(), ConnectError> {
    match way.ask(cmd("HELLO")).await {
        Ok(Value::Map(_)) => Ok(()),
        Ok(_) => {
            let problem = "need RESP3, which this connection does not speak: open its client with `?protocol=resp3`";
            Err(ConnectError::Setting { setting: "pushes", problem: problem.to_owned() })
        }
        Err(Fate::Refused(why)) => Err(ConnectError::Refused(why)),
        Err(fate) => Err(ConnectError::Unreachable(format!("{fate:?}"))),
    }
}

struct Way {
    connection: Connection,
    /// Of each answer.
    limit: Duration,
}

impl Way {
    fn ask(&self, command: Cmd) -> BoxFuture<'static, Result<Value, Fate>> {
        let (answer, limit) = ((self.connection)(command), self.limit);
        async move {
            match timeout(limit, answer).await {
                Ok(answer) => answer.and_then(Value::extract_error).map_err(|error| failed(&error)),
                Err(_) => Err(Fate::Doubtful(format!("no answer within {limit:?}"))),
            }
        }
        .boxed()
    }
}

impl Link for Way {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        let (name, script) = if call.in_full { ("EVAL", call.script.text) } else { ("EVALSHA", call.script.sha()) };
        let keys: Vec<&str> = call.keys().collect();
        let mut command = cmd(name);
        command.arg(script).arg(keys.len()).arg(keys).arg(call.nonce).arg(call.not_after);
        command.arg(call.argv().chain(call.announces("PUBLISH")).collect::<Vec<_>>());
        let (answer, is_confirmed) = (self.ask(command), call.confirm.is_some());
        async move {
            let mut items = items(answer.await?);
            if is_confirmed {
                // Nothing waits for replicas here, so none has confirmed it.
                items.extend([Item::Int(0), Item::Int(0)]);
            }
            Ok(items)
        }
        .boxed()
    }

    /// It is the program's: what answers it wrongly does so for all that it does.
    fn reset(&self) {}

    fn settings(&self, names: &'static [&'static str]) -> BoxFuture<'static, BTreeMap<String, String>> {
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(names);
        let answer = self.ask(command);
        async move { answer.await.ok().and_then(|found| from_redis_value(found).ok()).unwrap_or_default() }.boxed()
    }
}

/// What is known of the server.
struct Sight {
    only: Only,
    away: Away,
    /// Rung where it is to be looked at before the next beat.
    look: Notify,
    signals: UnboundedSender<Signal>,
}

impl Sight {
    fn tell(&self, signal: Signal) {
        // Who is not there any more misses nothing.
        let _ = self.signals.send(signal);
    }

    fn is_away(&self) {
        self.away.begin(false);
        self.tell(Signal::Gap);
    }
}

struct Lent {
    way: Arc<Way>,
    sight: Arc<Sight>,
    /// Those that are subscribed to, where messages come.
    channels: Option<Mutex<BTreeSet<String>>>,
    open: watch::Sender<()>,
}

impl Lent {
    /// One command for each: redis-rs takes the first confirmation for the answer to all.
    fn each(&self, verb: &str, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let asked: Vec<_> = channels.iter().map(|channel| self.way.ask(cmd(verb).arg(channel).to_owned())).collect();
        let answers = join_all(asked);
        let told = |answer: Result<Value, Fate>| answer.map(drop).map_err(|fate| format!("{fate:?}"));
        async move { answers.await.into_iter().try_for_each(told) }.boxed()
    }
}

impl Backend for Lent {
    fn node(&self, _key: &str) -> Result<Arc<Node>, Fate> {
        Ok(self.sight.only.node())
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![self.sight.only.node()]
    }

    fn topology(&self) -> Topology {
        Topology::Single
    }

    fn seen(&self) -> Vec<NodeHealth> {
        let address = self.sight.only.node().address.clone();
        vec![NodeHealth { address, role: Role::Primary, away: self.sight.away.so_far() }]
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let Some(subscribed) = &self.channels else {
            return ready(Err("this connection of redis-rs pushes no messages".to_owned())).boxed();
        };
        subscribed.lock().extend(channels.iter().cloned());
        self.each("SUBSCRIBE", channels)
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        if let Some(subscribed) = &self.channels {
            subscribed.lock().retain(|channel| !channels.contains(channel));
        }
        self.each("UNSUBSCRIBE", channels).map(drop).boxed()
    }

    /// The connection stays, without subscriptions of ours.
    fn close(&self) -> BoxFuture<'static, ()> {
        self.open.send_replace(());
        let left = self.channels.as_ref().map(|channels| std::mem::take(&mut *channels.lock()));
        self.each("UNSUBSCRIBE", left.into_iter().flatten().collect()).map(drop).boxed()
    }
}

async fn until_closed(work: impl Future<Output = ()>, mut open: watch::Receiver<()>) {
    tokio::select! {
        _ = open.changed() => {}
        () = work => {}
    }
}

/// Until nobody pushes any more.
async fn listen(mut pushes: UnboundedReceiver<PushInfo>, sight: Arc<Sight>) {
    while let Some(PushInfo { kind, data }) = pushes.recv().await {
        match (kind, &*data) {
            (PushKind::Message, [channel, text]) => {
                let (channel, text) = (words(channel), words(text));
                sight
                    .tell(Signal::Message { channel: channel.unwrap_or_default(), zero: text.as_deref() == Some("0") });
            }
            (PushKind::Disconnection, _) => {
                sight.is_away();
                sight.look.notify_one();
            }
            _ => {}
        }
    }
    sight.tell(Signal::Gap);
}

/// Looks every now and then whether the server is there, and is what it was: nobody tells when a connection is there
/// again.
async fn beat(way: Arc<Way>, sight: Arc<Sight>) {
    loop {
        let _ = timeout(way.limit, sight.look.notified()).await;
        match way.ask(cmd("INFO").arg("server").arg("replication").to_owned()).await {
            Err(Fate::Doubtful(_) | Fate::NotSent(_)) => sight.is_away(),
            // Who may not ask keeps the node that it has.
            answer => {
                let found = answer.ok().and_then(|info| generation(&words(&info)?));
                if found.is_some_and(|found| sight.only.becomes(&found)) {
                    sight.tell(Signal::Over(vec![ALL_SLOTS]));
                }
                sight.away.end();
                sight.tell(Signal::Whole);
            }
        }
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

fn items(value: Value) -> Vec<Item> {
    match value {
        Value::Array(values) => values.iter().map(item).collect(),
        Value::BulkString(text) => Item::of_text(&String::from_utf8_lossy(&text)),
        value => vec![item(&value)],
    }
}

fn item(value: &Value) -> Item {
    match value {
        Value::Int(number) => Item::Int(*number),
        Value::Boolean(yes) => Item::Int(i64::from(*yes)),
        other => words(other).map_or(Item::Nil, Item::Text),
    }
}

/// What an error of redis-rs says of the call.
fn failed(error: &RedisError) -> Fate {
    let is_reply = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
    match error.code().filter(|_| is_reply) {
        Some(code) => Fate::of_reply(format!("{code} {}", error.detail().unwrap_or_default()).trim_end()),
        None if error.is_connection_refusal() => Fate::NotSent(error.to_string()),
        None => Fate::Doubtful(error.to_string()),
    }
}
