//! One call by fred: its words and its answer; and the connections for calls that wait for replicas, one call at a time,
//! as WAIT holds up all that stands behind it.

use std::sync::Arc;
use std::time::Duration;

use fred::prelude::*;
use fred::types::config::Options;
use fred::types::{ConnectHandle, CustomCommand, Key, Value};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::fred_config::{client, Config, Times};
use super::node::online;
use super::{Fate, Item, Outcome, Script};
use crate::base::janitor::say;

/// So many at most: who comes beyond waits until one is free.
const MOST: usize = 16;

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
    /// ASKING, if it has to go before it, and the script.
    pub(super) async fn put<C: ClientLike>(self, pipeline: &C) -> FredResult<()> {
        if self.asking {
            put(pipeline, "ASKING", Vec::new()).await?;
        }
        let (name, text) = if self.in_full { ("EVAL", self.script.text) } else { ("EVALSHA", self.script.sha()) };
        let mut words: Vec<Value> = vec![text.into(), self.keys.len().to_string().into()];
        words.extend(self.keys.into_iter().map(|key| Value::Bytes(key.into_bytes())));
        words.extend(self.args);
        put(pipeline, name, words).await
    }
}

async fn put<C: ClientLike>(pipeline: &C, name: &'static str, words: Vec<Value>) -> FredResult<()> {
    pipeline.custom(CustomCommand::new_static(name, None, false), words).await
}

/// The connections to one server that have nothing else to do. They are made when they are needed.
pub(super) struct Lanes {
    config: Config,
    times: Times,
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
    pub(super) fn new(config: &Config, times: Times) -> Arc<Self> {
        // Its first call waits for it.
        let (config, runtime) = (Config { fail_fast: false, ..config.clone() }, Handle::current());
        Arc::new(Self { config, times, runtime, idle: Mutex::default(), room: Semaphore::new(MOST) })
    }

    /// Ends those that are idle; each of the others ends with its call.
    pub(super) fn close(&self) {
        self.room.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    /// Sends a script and, in the same write, what waits for so many replicas, for so many milliseconds. Behind the
    /// script's answer stand how many have what it wrote, and how many are connected.
    pub(super) async fn send(&self, order: Order, (replicas, ms): (u32, i64)) -> Outcome {
        let _room = match timeout(self.times.command, self.room.acquire()).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(Fate::NotSent("the client is closed".to_owned())),
            Err(_) => return Err(Fate::NotSent(format!("{MOST} calls wait for replicas already"))),
        };
        let lane = self.lane()?;
        let limit = Duration::from_millis(ms.unsigned_abs()) + self.times.command;
        let options = Options { timeout: Some(limit), ..Options::default() };
        let pipeline = lane.client.pipeline().with_options(&options);
        let queued = async {
            order.put(&pipeline).await?;
            put(&pipeline, "WAIT", vec![replicas.to_string().into(), ms.to_string().into()]).await?;
            put(&pipeline, "INFO", vec!["replication".into()]).await
        };
        // In this client's memory only.
        queued.await.map_err(|error| Fate::NotSent(error.to_string()))?;
        let mut answers = pipeline.try_all::<Value>().await;
        let (info, waited) = match answers.len() {
            0 | 1 => return Err(broken(answers.pop().and_then(Result::err))),
            _ => (answers.pop(), answers.pop()),
        };
        let acked = acked(waited);
        let info = info.and_then(Result::ok).and_then(|info| info.as_string());
        if acked >= replicas {
            self.put_back(lane);
        }
        let mut items = outcome(answers.pop().unwrap_or(Ok(Value::Null)))?;
        items.extend([acked, info.map_or(0, |info| online(&info))].map(|count| Item::Int(count.into())));
        Ok(items)
    }

    fn lane(&self) -> Result<Lane, Fate> {
        let idle = self.idle.lock().pop();
        if let Some(lane) = idle.filter(|lane| !lane.connection.0.is_finished()) {
            return Ok(lane);
        }
        let _entered = self.runtime.enter();
        let client = client(self.config.clone(), self.times, 200, None);
        let client = client.map_err(|error| Fate::NotSent(error.to_string()))?;
        let connection = Connection(client.connect());
        Ok(Lane { client, connection })
    }

    /// One that still waits for something is not put back: whoever comes next would have to wait for that too.
    fn put_back(&self, lane: Lane) {
        if !self.room.is_closed() {
            self.idle.lock().push(lane);
        }
    }
}

/// How many replicas have it.
fn acked(waited: Option<FredResult<Value>>) -> u32 {
    match waited {
        Some(Ok(count)) => count.as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        Some(Err(why)) => {
            say(|| tracing::warn!(target: "lockson", %why, "WAIT is refused: no replica can confirm anything"));
            0
        }
        None => 0,
    }
}

/// There is no answer to any of it: the script may have run all the same.
fn broken(error: Option<Error>) -> Fate {
    match error.as_ref().map(failed) {
        Some(Fate::NotSent(_)) if error.as_ref().is_some_and(|error| *error.kind() != ErrorKind::Canceled) => {
            Fate::NotSent(error.map(|error| error.to_string()).unwrap_or_default())
        }
        _ => Fate::Doubtful(error.map_or_else(|| "no answer".to_owned(), |error| error.to_string())),
    }
}

pub(super) fn outcome(result: FredResult<Value>) -> Outcome {
    match result {
        Ok(Value::Array(values)) => Ok(values.into_iter().map(item).collect()),
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

/// What a fred error says of the call (reference: fred 10.1, with one attempt and no redirections).
pub(super) fn failed(error: &Error) -> Fate {
    let text = error.details();
    match error.kind() {
        ErrorKind::Backpressure | ErrorKind::Canceled => Fate::NotSent(text.to_owned()),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Protocol | ErrorKind::Parse => {
            Fate::Doubtful(error.to_string())
        }
        ErrorKind::Cluster | ErrorKind::Routing => Fate::of_error(text).unwrap_or_else(|| Fate::refused(text)),
        _ => {
            if let Some(fate) = Fate::of_error(text) {
                return fate;
            }
            match text {
                "Client is not initialized." | "Failed to send command to router." => Fate::NotSent(text.to_owned()),
                _ if text.starts_with("ERR ") || text.starts_with("WRONGTYPE") => Fate::of_reply(text),
                _ => Fate::Doubtful(error.to_string()),
            }
        }
    }
}
