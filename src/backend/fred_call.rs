//! One call by fred: its words and its answer; and the connections for calls that wait for replicas, one call at a
//! time, as WAIT holds up all that stands behind it.

use std::fmt::Write;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::futures::future::{BoxFuture, FutureExt};
use fred::bytes::{Bytes, BytesMut};
use fred::bytes_utils::Str;
use fred::prelude::*;
use fred::types::config::Options;
use fred::types::{ConnectHandle, CustomCommand, Key, Value};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::call::{grants, CLUSTER_DOWN};
use super::fred_config::{client, without_ours, Config, Times, FEW};
use super::node::online;
use super::url::HostPort;
use super::{Call, Fate, Item, Outcome, Script};
use crate::base::janitor::say;

/// So many at most: who comes beyond waits until one is free.
const MOST: usize = 16;
/// A connection has to be made first, whatever the limit of an answer is.
const SHORTEST_LIMIT: Duration = Duration::from_millis(500);
/// Room for a nonce and a time.
const TWO_NUMBERS: usize = 40;
/// How answers begin that fred may tell to all calls under way, with its feature `custom-reconnect-errors`.
const TOLD_TO_ALL: [&str; 6] = ["LOADING", "READONLY", "MASTERDOWN", "MISCONF", "BUSY", "NOREPLICAS"];

/// fred's connection task, which ends with this.
pub(super) struct Connection(pub(super) ConnectHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A script with all that it is sent with.
pub(super) struct Order {
    pub(super) script: &'static Script,
    pub(super) in_full: bool,
    pub(super) asking: bool,
    pub(super) keys: Vec<Key>,
    pub(super) args: Vec<Value>,
}

impl Order {
    /// Sends it, once.
    pub(super) async fn send(self, client: &Client) -> FredResult<Value> {
        match (self.asking, self.in_full) {
            (false, false) => client.evalsha(Str::from_static(self.script.sha()), self.keys, self.args).await,
            // It also loads it. It is rare, so it takes no room in every call.
            (false, true) => client.eval(self.script.text, self.keys, self.args).boxed().await,
            (true, _) => self.ask(client).boxed().await,
        }
    }

    /// The same by a client that a program lends: to the only server, which nobody is sent on from.
    pub(super) async fn send_within(self, client: &Client, limit: Duration) -> FredResult<Value> {
        // (Its methods for scripts have no options.)
        let (client, (name, words)) = (client.with_options(&within(Some(limit))), self.command());
        let sent = client.custom(CustomCommand::new_static(name, None, false), words);
        // fred's own limit does not hold for what it does before it sends, but only it takes back what is not written.
        let late = |_| Err(Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}")));
        timeout(limit * 2, sent).await.unwrap_or_else(late)
    }

    /// ASKING and one copy, back to back: another call between them would use the permission up.
    async fn ask(self, client: &Client) -> FredResult<Value> {
        let pipeline = client.pipeline();
        put(&pipeline, "ASKING", Vec::new()).await?;
        let (name, words) = self.command();
        put(&pipeline, name, words).await?;
        pipeline.last().await
    }

    /// Its name, and all that stands behind that.
    fn command(self) -> (&'static str, Vec<Value>) {
        let (name, text) = if self.in_full { ("EVAL", self.script.text) } else { ("EVALSHA", self.script.sha()) };
        let mut words: Vec<Value> = vec![text.into(), self.keys.len().to_string().into()];
        words.extend(self.keys.into_iter().map(|key| Value::Bytes(key.into_bytes())));
        words.extend(self.args);
        (name, words)
    }
}

/// For a client that may have no limits of its own: it would keep what it can't write in an outage, without end, and
/// write it once nobody waits for it. `None`: it has them.
pub(super) fn within(limit: Option<Duration>) -> Options {
    Options { timeout: limit, fail_fast: limit.is_some(), ..Options::default() }
}

/// One command; to a pipeline it goes into this client's memory only.
async fn put<C: ClientLike>(to: &C, name: &'static str, words: Vec<Value>) -> FredResult<()> {
    to.custom(CustomCommand::new_static(name, None, false), words).await
}

pub(super) fn order(call: &Call<'_>, publish: &str) -> Order {
    let (keys, args) = words(call, publish);
    Order { script: call.script, in_full: call.in_full, asking: call.asking, keys, args }
}

/// KEYS and ARGV, all of them shares of one buffer: fred copies each on its way, and to copy a share takes no memory.
fn words(call: &Call<'_>, publish: &str) -> (Vec<Key>, Vec<Value>) {
    let length: usize = call.names.iter().chain(call.args).map(|word| word.len()).sum::<usize>() + publish.len();
    let mut buffer = BytesMut::with_capacity(length + TWO_NUMBERS);
    let keys = call.keys().map(|key| share(&mut buffer, key).into()).collect();
    let mut args = Vec::with_capacity(4 + call.args.len());
    // Writing can't fail: the buffer grows.
    let _ = write!(buffer, "{}", call.nonce);
    args.push(Value::Bytes(buffer.split().freeze()));
    let _ = write!(buffer, "{}", call.not_after);
    args.push(Value::Bytes(buffer.split().freeze()));
    let words = call.argv().chain(call.announces(publish));
    args.extend(words.map(|arg| Value::Bytes(share(&mut buffer, arg))));
    (keys, args)
}

fn share(buffer: &mut BytesMut, word: &str) -> Bytes {
    buffer.extend_from_slice(word.as_bytes());
    buffer.split().freeze()
}

/// As fred's `init`, but dropped half-way it leaves no task behind.
pub(super) async fn begin(client: &Client) -> FredResult<Connection> {
    let mut ready = pin!(client.wait_for_connect());
    // It hears of what comes after its first poll.
    let _ = ready.as_mut().now_or_never();
    let connection = Connection(client.connect());
    ready.await?;
    Ok(connection)
}

/// Calls under way by one connection, and which of them was alone there: what a server says of one, fred tells to all.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    begun: u64,
    open: usize,
    /// So many had begun when one was left without an answer. It may be under way until one behind it is answered.
    left: Option<u64>,
}

/// One of them. Dropped, it is left.
pub(super) struct Turn<'a> {
    all: &'a UnderWay,
    /// How many had begun, with it.
    number: u64,
    began_alone: bool,
    is_over: bool,
}

impl UnderWay {
    /// Before anything is sent.
    pub(super) fn begin(&self) -> Turn<'_> {
        let mut calls = self.0.lock();
        let began_alone = calls.open == 0 && calls.left.is_none();
        calls.begun += 1;
        calls.open += 1;
        Turn { all: self, number: calls.begun, began_alone, is_over: false }
    }
}

impl Turn<'_> {
    /// What it came to: CLUSTERDOWN and its like prove that it did not run, if no other was under way beside it.
    pub(super) fn came_to(mut self, outcome: Outcome) -> Outcome {
        let is_told = outcome.as_ref().is_err_and(Fate::is_told);
        if matches!(outcome, Err(Fate::Doubtful(_))) && !is_told {
            return outcome;
        }
        match self.ends(outcome.is_ok()) {
            true => outcome.map_err(Fate::said_of_it),
            false => outcome,
        }
    }

    /// Whether none was beside it.
    fn ends(&mut self, is_answered: bool) -> bool {
        self.is_over = true;
        let mut calls = self.all.0.lock();
        calls.open -= 1;
        if is_answered && calls.left.is_some_and(|left| left < self.number) {
            calls.left = None;
        }
        self.began_alone && calls.begun == self.number
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut calls = self.all.0.lock();
            calls.open -= 1;
            calls.left = Some(calls.begun);
        }
    }
}

/// The connections to one server that have nothing else to do. They are made when they are needed.
pub(super) struct Lanes {
    config: Config,
    times: Times,
    /// As `CLIENT LIST` has it, where that may be said.
    name: Arc<str>,
    /// The client's own, whichever its calls are polled on.
    runtime: Handle,
    idle: Mutex<Vec<Lane>>,
    room: Semaphore,
}

struct Lane {
    client: Client,
    connection: Connection,
}

impl Lanes {
    pub(super) fn new(config: &Config, times: Times, name: &Arc<str>) -> Arc<Self> {
        let (config, name, runtime) = (Config { fail_fast: true, ..config.clone() }, name.clone(), Handle::current());
        Arc::new(Self { config, times, name, runtime, idle: Mutex::default(), room: Semaphore::new(MOST) })
    }

    /// Ends those that are idle; each of the others ends with its call.
    pub(super) fn close(&self) {
        self.room.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    /// Sends a script and, if it grants something, behind it what waits for so many replicas, for so many milliseconds.
    /// Behind the script's answer stand how many have what it wrote, and how many are connected.
    pub(super) async fn send(&self, order: Order, confirm: (u32, i64)) -> Outcome {
        let _room = match timeout(self.times.command, self.room.acquire()).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(Fate::NotSent("the client is closed".to_owned())),
            Err(_) => return Err(Fate::NotSent(format!("{MOST} calls wait for replicas already"))),
        };
        let lane = self.lane().await?;
        let mut others = lane.client.reconnect_rx();
        let mut items = match outcome(order.send(&lane.client).await) {
            Ok(items) => items,
            Err(fate) => {
                if !matches!(fate, Fate::Doubtful(_)) {
                    self.put_back(lane);
                }
                // It was alone there.
                return Err(fate.said_of_it());
            }
        };
        let is_granted = grants(&items);
        let (mut acked, mut online) = (0, 0);
        if is_granted {
            (acked, online) = self.wait(&lane.client, confirm).await?;
            // WAIT by another connection answers for what others wrote.
            if !matches!(others.try_recv(), Err(TryRecvError::Empty)) {
                return Err(Fate::Doubtful("the connection broke before the replicas confirmed it".to_owned()));
            }
        }
        // One that still waited would keep whoever comes next waiting.
        if !is_granted || acked >= confirm.0 {
            self.put_back(lane);
        }
        items.extend([acked, online].map(|count| Item::Int(count.into())));
        Ok(items)
    }

    /// Waits for so many replicas. How many have what was written last, and how many are connected.
    async fn wait(&self, client: &Client, (replicas, ms): (u32, i64)) -> Result<(u32, u32), Fate> {
        let limit = Duration::from_millis(ms.unsigned_abs()) + self.times.command;
        let options = Options { timeout: Some(limit), ..Options::default() };
        let pipeline = client.pipeline().with_options(&options);
        let queued = async {
            put(&pipeline, "WAIT", vec![replicas.to_string().into(), ms.to_string().into()]).await?;
            put(&pipeline, "INFO", vec!["replication".into()]).await
        };
        // What was granted was granted, whatever keeps this from being sent.
        let in_doubt = |why: String| Fate::Doubtful(format!("nothing confirmed it: {why}"));
        queued.await.map_err(|error| in_doubt(error.to_string()))?;
        let mut answers = pipeline.try_all::<Value>().await.into_iter();
        match (answers.next(), answers.next()) {
            (Some(waited), Some(info)) => {
                let info = info.ok().and_then(|info| info.as_string());
                Ok((acked(waited), info.map_or(0, |info| online(&info))))
            }
            (Some(Err(why)), None) => Err(in_doubt(why.to_string())),
            _ => Err(in_doubt("no answer".to_owned())),
        }
    }

    async fn lane(&self) -> Result<Lane, Fate> {
        let idle = self.idle.lock().pop();
        if let Some(lane) = idle.filter(|lane| !lane.connection.0.is_finished()) {
            return Ok(lane);
        }
        let not_sent = |why: String| Fate::NotSent(format!("no connection that can wait for replicas: {why}"));
        let (config, times, name) = (self.config.clone(), self.times, self.name.clone());
        let limit = times.connect.unwrap_or(SHORTEST_LIMIT).max(times.command);
        let begun = self.runtime.spawn(async move {
            let client = client(config, times, 200, None, FEW).map_err(|error| error.to_string())?;
            let begun = timeout(limit, begin(&client)).await.map_err(|_| "no answer".to_owned())?;
            let connection = begun.map_err(|error| error.to_string())?;
            let _ = put(&client, "CLIENT", vec!["SETNAME".into(), (&*name).into()]).await;
            Ok::<_, String>(Lane { client, connection })
        });
        begun.await.map_err(|error| not_sent(error.to_string()))?.map_err(not_sent)
    }

    fn put_back(&self, lane: Lane) {
        if !self.room.is_closed() {
            self.idle.lock().push(lane);
        }
    }
}

/// The connections for scripts that replicas have to confirm.
#[derive(Clone)]
pub(crate) struct Confirming {
    lanes: Arc<Lanes>,
    /// The command that messages are sent by.
    pub(crate) publish: &'static str,
}

impl Confirming {
    /// To one server of many, or the only one.
    pub(crate) fn new(config: &Config, to: &HostPort, times: Times, name: &Arc<str>) -> Self {
        // In a cluster the messages of a slot stay on its node.
        let publish = if config.server.is_clustered() { "SPUBLISH" } else { "PUBLISH" };
        Self::by(Lanes::new(&one(config, to), times, name), publish)
    }

    pub(super) fn by(lanes: Arc<Lanes>, publish: &'static str) -> Self {
        Self { lanes, publish }
    }

    pub(crate) fn call(&self, call: &Call<'_>, confirm: (u32, i64)) -> BoxFuture<'static, Outcome> {
        let (order, lanes) = (order(call, self.publish), self.lanes.clone());
        async move {
            let runtime = lanes.runtime.clone();
            // By a task of the client's: a caller who does not poll would keep one of few connections.
            let sent = runtime.spawn(async move { lanes.send(order, confirm).await });
            sent.await.unwrap_or_else(|_| Err(Fate::Doubtful("the task of this call has ended".to_owned())))
        }
        .boxed()
    }

    pub(crate) fn close(&self) {
        self.lanes.close();
    }
}

/// The configuration of one of these servers.
pub(super) fn one(config: &Config, to: &HostPort) -> Config {
    let server = match &config.server {
        only @ (ServerConfig::Centralized { .. } | ServerConfig::Unix { .. }) => only.clone(),
        _ => ServerConfig::new_centralized(to.host.clone(), to.port),
    };
    Config { server, fail_fast: false, ..config.clone() }
}

/// How many replicas have it.
fn acked(waited: FredResult<Value>) -> u32 {
    match waited {
        Ok(count) => count.as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        Err(why) => {
            say(|| tracing::warn!(target: "lockson", %why, "WAIT is refused: no replica can confirm anything"));
            0
        }
    }
}

pub(super) fn outcome(result: FredResult<Value>) -> Outcome {
    match result {
        Ok(Value::Array(values)) => Ok(values.into_iter().map(item).collect()),
        Ok(Value::String(text)) => Ok(Item::of_text(&text)),
        Ok(Value::Bytes(text)) => Ok(Item::of_text(&String::from_utf8_lossy(&text))),
        Ok(value) => Ok(vec![item(value)]),
        Err(error) => Err(failed(&error)),
    }
}

fn item(value: Value) -> Item {
    match value {
        Value::Integer(number) => Item::Int(number),
        Value::Boolean(yes) => Item::Int(i64::from(yes)),
        Value::Null => Item::Nil,
        Value::Bytes(bytes) => Item::Text(String::from_utf8_lossy(&bytes).into_owned()),
        other => other.as_string().map_or(Item::Nil, Item::Text),
    }
}

/// Whether fred breaks a connection on some answers, and tells them to all that was under way there: any crate of the
/// program may have enabled that, and nothing but the settings that fred has then tells.
fn breaks_on_answers() -> bool {
    static BREAKS: OnceLock<bool> = OnceLock::new();
    *BREAKS.get_or_init(|| format!("{:?}", ConnectionConfig::default()).contains("reconnect_errors"))
}

/// What a fred error says of the call (reference: fred 10.1, with one attempt and no redirections).
pub(super) fn failed(error: &Error) -> Fate {
    judged(error, breaks_on_answers())
}

fn judged(error: &Error, breaks_on_answers: bool) -> Fate {
    let text = &*without_ours(error.details());
    match error.kind() {
        ErrorKind::Backpressure | ErrorKind::Canceled => Fate::NotSent(text.to_owned()),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Protocol | ErrorKind::Parse => {
            Fate::Doubtful(error.to_string())
        }
        // It is told to all that was under way, but said of one: others may have run, if the cluster is up again.
        ErrorKind::Cluster if text.starts_with(CLUSTER_DOWN) => Fate::Doubtful(text.to_owned()),
        // The same.
        _ if breaks_on_answers && TOLD_TO_ALL.iter().any(|begin| text.starts_with(begin)) => {
            Fate::Doubtful(text.to_owned())
        }
        ErrorKind::Cluster | ErrorKind::Routing => Fate::of_error(text).unwrap_or_else(|| Fate::refused(text)),
        _ => {
            if let Some(fate) = Fate::of_error(text) {
                return fate;
            }
            match text {
                "Client is not initialized." | "Failed to send command to router." => Fate::NotSent(text.to_owned()),
                _ if text.starts_with("ERR ") || text.starts_with("WRONGTYPE") => Fate::of_reply(text),
                _ => Fate::Doubtful(without_ours(&error.to_string())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::Refused;

    #[test]
    fn what_fred_tells_to_all_that_is_under_way_may_have_run() {
        let fate = failed(&Error::new(ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"));
        assert!(matches!(fate, Fate::Doubtful(_)), "{fate:?}");
        assert!(fate.is_down(), "it is asked again as soon as if it had not run");
    }

    /// Where another crate of the program has had fred built so; else each answer is of its own call.
    #[test]
    fn so_may_what_fred_breaks_connections_on() {
        let error = Error::new(ErrorKind::Unknown, "READONLY You can't write against a read only replica.");
        assert_eq!(judged(&error, false), Fate::Refused(Refused::ReadOnly));
        let told = judged(&error, true);
        assert!(matches!(told, Fate::Doubtful(_)), "{told:?}");
        let calls = UnderWay::default();
        let said = calls.begin().came_to(Err(told.clone()));
        assert_eq!(said, Err(Fate::Refused(Refused::ReadOnly)), "it was alone");
        let (first, _second) = (calls.begin(), calls.begin());
        assert_eq!(first.came_to(Err(told.clone())), Err(told));
    }

    /// It would be kept for as long as an outage lasts, and sent then.
    #[tokio::test]
    async fn what_a_lent_client_can_not_send_now_it_does_not_keep() {
        static SCRIPT: Script = Script::new("test/lent", "", &[]);
        let order = Order { script: &SCRIPT, in_full: false, asking: false, keys: Vec::new(), args: Vec::new() };
        let sent = order.send_within(&Client::default(), Duration::from_secs(60)).await;
        assert!(matches!(outcome(sent), Err(Fate::NotSent(_))));
    }

    fn down() -> Outcome {
        Err(Fate::Doubtful("CLUSTERDOWN The cluster is down".to_owned()))
    }

    fn proves(turn: Turn<'_>) -> bool {
        matches!(turn.came_to(down()), Err(Fate::NotSent(_)))
    }

    #[test]
    fn it_is_said_of_one_that_was_alone() {
        let calls = UnderWay::default();
        assert!(proves(calls.begin()) && proves(calls.begin()));
        let lost = Fate::Doubtful("the connection broke".to_owned());
        assert_eq!(calls.begin().came_to(Err(lost.clone())), Err(lost));
    }

    #[test]
    fn it_is_told_to_all_that_overlap() {
        let calls = UnderWay::default();
        let (first, second) = (calls.begin(), calls.begin());
        assert!(!proves(first), "the second began beside it");
        let third = calls.begin();
        assert!(!proves(second) && !proves(third));
        assert!(proves(calls.begin()));
    }

    /// Whoever waited for it has left, or its answer took too long: the server may have it before it, or later.
    #[test]
    fn what_was_left_counts_until_one_behind_it_is_answered() {
        let calls = UnderWay::default();
        let before = calls.begin();
        drop(calls.begin());
        assert!(!proves(calls.begin()));
        assert!(before.came_to(Ok(Vec::new())).is_ok());
        assert!(!proves(calls.begin()), "that one was before it");
        assert!(calls.begin().came_to(Err(Fate::Doubtful("late".to_owned()))).is_err());
        assert!(!proves(calls.begin()));
        assert!(calls.begin().came_to(Ok(Vec::new())).is_ok());
        assert!(proves(calls.begin()));
    }
}
