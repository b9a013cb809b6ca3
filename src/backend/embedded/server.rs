//! The server behind its lock: what came in, what it does, and the faults it was told to have.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::commands;
use super::hub::{Hub, Outbox};
use super::lua::Engine;
use super::reply::{lossy, Value};
use super::sha1::sha1_hex;
use super::store::Store;
use super::touched::Touched;
use crate::backend::{Call, Fate, Item, Outcome, Script};

/// A call that is under way, with words of its own.
#[derive(Debug)]
pub(super) struct Sent {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<String>,
}

impl From<Call<'_>> for Sent {
    fn from(call: Call<'_>) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut args = vec![call.nonce.to_string(), call.not_after.to_string()];
        args.extend(call.args.iter().map(|word| (*word).to_owned()));
        Self { script: call.script, keys: owned(call.keys), args }
    }
}

/// A call that came in and was not looked at yet.
#[derive(Debug)]
struct Pending {
    client: u64,
    call: Sent,
    /// Dropped without an answer when the call is lost.
    reply: oneshot::Sender<Outcome>,
}

/// All state of one server. Everything that happens to it happens under one lock, in an order.
#[derive(Debug)]
pub(super) struct Server {
    store: Arc<Mutex<Store>>,
    engine: Result<Engine, String>,
    inbox: VecDeque<Pending>,
    outgoing: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    stopped: bool,
    /// So many of the next calls are answered by a cut connection.
    replies_to_lose: u64,
    calls: u64,
}

impl Server {
    fn new() -> Self {
        let store = Arc::new(Mutex::new(Store::new()));
        let engine = Engine::new(&store).map_err(|error| format!("ERR Lua does not start: {error}"));
        Self {
            store,
            engine,
            inbox: VecDeque::new(),
            outgoing: Vec::new(),
            stopped: false,
            replies_to_lose: 0,
            calls: 0,
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hub<R>(&self, act: impl FnOnce(&mut Hub) -> R) -> R {
        act(&mut self.store().hub)
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn now_ms(&self) -> i64 {
        let mut store = self.store();
        store.tick();
        store.now_us() / 1000
    }

    /// Takes a call in; it is done by the next [`Server::drain`].
    pub(super) fn accept(&mut self, client: u64, call: Sent) -> Result<oneshot::Receiver<Outcome>, Fate> {
        if !self.hub(|hub| hub.is_connected(client)) {
            return Err(Fate::NotSent("the client is closed".to_owned()));
        }
        Ok(self.arrive(client, call))
    }

    /// The same for a call that was on its way, whatever became of its client meanwhile.
    pub(super) fn arrive(&mut self, client: u64, call: Sent) -> oneshot::Receiver<Outcome> {
        let (reply, answer) = oneshot::channel();
        if !self.stopped {
            self.inbox.push_back(Pending { client, call, reply });
        }
        answer
    }

    /// Does all calls that came in, in their order.
    pub(super) fn drain(&mut self) {
        while let Some(Pending { client, call, reply }) = self.inbox.pop_front() {
            let sha = call.script.sha.get_or_init(|| sha1_hex(call.script.text.as_bytes()));
            self.calls += 1;
            let outcome = outcome(self.run_script(sha, call.script.text, &call.keys, &call.args));
            if self.replies_to_lose == 0 {
                self.outgoing.push((reply, outcome));
                continue;
            }
            self.replies_to_lose -= 1;
            self.hub(|hub| hub.cut(client));
            self.outgoing
                .push((reply, Err(Fate::Doubtful("the connection was cut before the answer came".to_owned()))));
        }
    }

    pub(super) fn run_script(
        &mut self,
        sha: &str,
        text: &str,
        keys: &[String],
        args: &[String],
    ) -> Result<Value, String> {
        self.store().tick();
        match &mut self.engine {
            Ok(engine) => engine.run(sha, text, keys, args),
            Err(text) => Err(text.clone()),
        }
    }

    /// The same, and how many elements it touched.
    pub(super) fn run_counted(
        &mut self,
        sha: &str,
        text: &str,
        keys: &[String],
        args: &[String],
    ) -> (Result<Value, String>, usize) {
        self.store().touched = Some(Touched::default());
        let result = self.run_script(sha, text, keys, args);
        let touched = self.store().touched.take().map_or(0, |touched| touched.count());
        (result, touched)
    }

    pub(super) fn run_command(&mut self, words: &[Vec<u8>]) -> Result<Value, String> {
        let mut store = self.store();
        store.tick();
        commands::execute(&mut store, words).map_err(String::from)
    }

    /// Becomes unreachable: what is under way is lost, and so are all subscriptions.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.inbox.clear();
        self.hub(Hub::forget_subscriptions);
    }

    /// Becomes reachable again, which clients notice.
    pub(super) fn start(&mut self) {
        if std::mem::take(&mut self.stopped) {
            self.hub(Hub::cut_all);
        }
    }

    pub(super) fn lose_replies(&mut self, count: u64) {
        self.replies_to_lose = count;
    }

    /// Starts anew without data. While it is stopped, clients are told by [`Server::start`].
    pub(super) fn wipe(&mut self) {
        self.store().restart();
        if !self.stopped {
            self.hub(Hub::cut_all);
        }
    }

    pub(super) fn set_clock_ahead(&mut self, by: std::time::Duration) {
        self.store().set_clock_ahead(by);
    }

    /// Ends the connection of a client and makes it a new one.
    pub(super) fn reset(&mut self, client: u64) {
        if !self.stopped {
            self.hub(|hub| hub.cut(client));
        }
    }

    fn take_outgoing(&mut self) -> (Outbox, Vec<(oneshot::Sender<Outcome>, Outcome)>) {
        (self.hub(Hub::take_outbox), std::mem::take(&mut self.outgoing))
    }
}

/// What the server's handles share.
#[derive(Debug)]
pub(super) struct Shared(Mutex<Server>);

impl Shared {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Server::new()))
    }

    /// Acts on the server, then sends what that gave: first the messages, then the answers, and both without the lock.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Server) -> R) -> R {
        let (result, (messages, answers)) = {
            let mut server = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let result = act(&mut server);
            (result, server.take_outgoing())
        };
        messages.send();
        for (reply, outcome) in answers {
            // Nobody waits for it any more: its future was dropped.
            let _ = reply.send(outcome);
        }
        result
    }
}

/// What a script's end is at the seam.
fn outcome(result: Result<Value, String>) -> Outcome {
    let items = match result {
        Ok(Value::List(items)) => items.into_iter().map(item).collect::<Option<Vec<_>>>(),
        Ok(value) => item(value).map(|item| vec![item]),
        Err(text) => return Err(Fate::of_error(&text).unwrap_or_else(|| Fate::refused(&text))),
    };
    items.ok_or_else(|| Fate::refused("the script's reply is not a flat array"))
}

fn item(value: Value) -> Option<Item> {
    match value {
        Value::Nil => Some(Item::Nil),
        Value::Int(value) => Some(Item::Int(value)),
        Value::Bulk(text) | Value::Status(text) => Some(Item::Text(lossy(&text))),
        Value::Error(_) | Value::List(_) => None,
    }
}
