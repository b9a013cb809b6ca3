//! The server behind its lock: what came in, what it does, and the faults it was told to have.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::commands;
use crate::connection::{Call, CallError, CUT};
use crate::hub::{Hub, Outbox};
use crate::keyspace::Snapshot;
use crate::lua::Engine;
use crate::replica::Replica;
use crate::scripts::{Asked, Scripts};
use crate::store::Store;
use crate::touched::Touched;
use crate::value::Value;

/// What becomes of a call.
type Outcome = Result<Value, CallError>;

/// What a client asks.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Script(Call),
    /// A command as it is sent: its name and its arguments.
    Words(Vec<Vec<u8>>),
}

/// A request that came in and was not looked at yet.
#[derive(Debug)]
pub(crate) struct Pending {
    client: u64,
    request: Request,
    /// Dropped without an answer when the call is lost.
    reply: oneshot::Sender<Outcome>,
}

/// All state of one server. Everything that happens to it happens under one lock, in an order.
pub(crate) struct State {
    store: Arc<Mutex<Store>>,
    engine: Result<Engine, String>,
    /// Those that clients may name by their SHA-1.
    scripts: Scripts,
    inbox: VecDeque<Pending>,
    outgoing: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    stopped: bool,
    /// So many of the next calls are answered by a cut connection.
    replies_to_lose: u64,
    calls: u64,
    watch: Option<Watch>,
    replica: Option<Replica>,
    /// How often all clients were cut off.
    cuts: u64,
}

/// Who sees what scripts did.
type Watch = Box<dyn FnMut(&mut Commit<'_>) + Send>;

/// A script that has run for a client.
pub struct Commit<'a> {
    /// The connection that it came by. They are numbered from 1 on, as they were made.
    pub connection: u64,
    /// What was asked.
    pub call: &'a Call,
    /// What was answered, though the answer may be lost.
    pub result: &'a Result<Value, String>,
    store: &'a Mutex<Store>,
}

impl fmt::Debug for Commit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, call, result, .. } = self;
        f.debug_struct("Commit").field("connection", connection).field("call", call).field("result", result).finish()
    }
}

impl Commit<'_> {
    /// The server's time in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).now_us() / 1000
    }

    /// Runs one command, as [`Server::command`](crate::Server::command) does, to look at what was stored.
    ///
    /// # Errors
    /// The text of the server's error reply.
    pub fn command(&mut self, args: &[&str]) -> Result<Value, String> {
        let words: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        commands::execute(&mut store, &words).map_err(String::from)
    }
}

impl State {
    fn new() -> Self {
        let store = Arc::new(Mutex::new(Store::new()));
        let engine = Engine::new(&store).map_err(|error| format!("ERR Lua does not start: {error}"));
        Self {
            store,
            engine,
            scripts: Scripts::default(),
            inbox: VecDeque::new(),
            outgoing: Vec::new(),
            stopped: false,
            replies_to_lose: 0,
            calls: 0,
            watch: None,
            replica: None,
            cuts: 0,
        }
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hub<R>(&self, act: impl FnOnce(&mut Hub) -> R) -> R {
        act(&mut self.store().hub)
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn now_ms(&self) -> i64 {
        let mut store = self.store();
        store.tick();
        store.now_us() / 1000
    }

    /// Takes a call in; it is done by the next [`State::drain`].
    pub(crate) fn accept(&mut self, client: u64, request: Request) -> Result<oneshot::Receiver<Outcome>, CallError> {
        if !self.hub(|hub| hub.is_connected(client)) {
            return Err(CallError::Closed);
        }
        Ok(self.arrive(client, request))
    }

    /// The same for a call that was on its way, whatever became of its client meanwhile.
    pub(crate) fn arrive(&mut self, client: u64, request: Request) -> oneshot::Receiver<Outcome> {
        let (reply, answer) = oneshot::channel();
        if !self.stopped {
            self.inbox.push_back(Pending { client, request, reply });
        }
        answer
    }

    /// Does all calls that came in, in their order.
    pub(crate) fn drain(&mut self) {
        while let Some(Pending { client, request, reply }) = self.inbox.pop_front() {
            let result = match request {
                Request::Script(call) => {
                    let result = self.run_script(&call.sha, call.text.as_bytes(), &call.keys, &call.args);
                    self.saw(client, &call, &result);
                    result
                }
                Request::Words(words) => self.run_words(Some(client), &words),
            };
            let outcome = result.map_err(CallError::Reply);
            if self.replies_to_lose == 0 {
                self.outgoing.push((reply, outcome));
                continue;
            }
            self.replies_to_lose -= 1;
            self.hub(|hub| hub.cut(client));
            self.outgoing.push((reply, Err(CallError::Unanswered(CUT))));
        }
    }

    /// A client's script has run.
    fn saw(&mut self, connection: u64, call: &Call, result: &Result<Value, String>) {
        self.calls += 1;
        if let Some(watch) = &mut self.watch {
            watch(&mut Commit { connection, call, result, store: &self.store });
        }
    }

    pub(crate) fn run_script<W: AsRef<[u8]>>(
        &mut self,
        sha: &str,
        text: &[u8],
        keys: &[W],
        args: &[W],
    ) -> Result<Value, String> {
        {
            let mut store = self.store();
            store.tick();
            store.begin();
        }
        match &mut self.engine {
            Ok(engine) => engine.run(sha, text, keys, args),
            Err(text) => Err(text.clone()),
        }
    }

    /// The same, and how many elements it touched.
    pub(crate) fn run_counted(
        &mut self,
        sha: &str,
        text: &[u8],
        keys: &[String],
        args: &[String],
    ) -> (Result<Value, String>, usize) {
        self.store().touched = Some(Touched::default());
        let result = self.run_script(sha, text, keys, args);
        let touched = self.store().touched.take().map_or(0, |touched| touched.count());
        (result, touched)
    }

    /// Runs a command, a client's or one from outside.
    pub(crate) fn run_words(&mut self, client: Option<u64>, words: &[Vec<u8>]) -> Result<Value, String> {
        match self.scripts.asked(words)? {
            Asked::Command => {
                let mut store = self.store();
                store.tick();
                commands::execute(&mut store, words).map_err(String::from)
            }
            Asked::Answer(value) => Ok(value),
            Asked::Load(sha, text) => {
                self.learn(&sha, text)?;
                Ok(Value::bulk(sha))
            }
            Asked::Run { sha, text, keys, args } => {
                self.learn(&sha, &text)?;
                let result = self.run_script(&sha, &text, keys, args);
                if let Some(client) = client {
                    self.saw(client, &Call::of_words(sha, &text, keys, args), &result);
                }
                result
            }
        }
    }

    /// From now on clients may name this script.
    fn learn(&mut self, sha: &str, text: &[u8]) -> Result<(), String> {
        self.engine.as_mut().map_err(|text| text.clone())?.compile(sha, text)?;
        self.scripts.add(sha, text);
        Ok(())
    }

    /// Becomes unreachable: what is under way is lost, and so are all subscriptions.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.cuts += 1;
        self.inbox.clear();
        self.hub(Hub::forget_subscriptions);
    }

    /// Becomes reachable again, which clients notice.
    pub(crate) fn start(&mut self) {
        if std::mem::take(&mut self.stopped) {
            self.hub(Hub::cut_all);
        }
    }

    pub(crate) fn set_replica(&mut self, lag: Option<Duration>) {
        self.replica = lag.map(|lag| Replica { lag, is_silent: false });
    }

    pub(crate) fn silence_replica(&mut self, is_silent: bool) {
        self.replica.iter_mut().for_each(|replica| replica.is_silent = is_silent);
    }

    pub(crate) fn replica(&self) -> Option<Replica> {
        self.replica
    }

    pub(crate) fn replicas(&self) -> u32 {
        u32::from(self.replica.is_some())
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    pub(crate) fn lose_replies(&mut self, count: u64) {
        self.replies_to_lose = count;
    }

    /// Starts anew with these data. While it is stopped, clients are told by [`State::start`].
    pub(crate) fn restart(&mut self, snapshot: &Snapshot) {
        self.store().restart(snapshot);
        self.scripts.clear();
        self.cuts += 1;
        if !self.stopped {
            self.hub(Hub::cut_all);
        }
    }

    pub(crate) fn set_clock_ahead(&mut self, by_us: i64) {
        self.store().set_clock_ahead(by_us);
    }

    pub(crate) fn set_clock_rate(&mut self, fast: i32) {
        self.store().set_clock_rate(fast);
    }

    /// Returns who watched before, to be dropped when no lock is held.
    pub(crate) fn watch(&mut self, watch: Watch) -> Option<Watch> {
        self.watch.replace(watch)
    }

    /// All anew but the engine. What there was is to be dropped when no lock is held.
    pub(crate) fn renew(&mut self, number: u64) -> (Store, VecDeque<Pending>, Option<Watch>) {
        (self.stopped, self.replies_to_lose, self.calls) = (false, 0, 0);
        self.replica = None;
        self.outgoing.clear();
        self.scripts.clear();
        let store = std::mem::replace(&mut *self.store(), Store::numbered(number));
        (store, std::mem::take(&mut self.inbox), self.watch.take())
    }

    pub(crate) fn set_clock(&mut self, now_ms: i64) {
        self.store().set_clock(now_ms.saturating_mul(1000));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut store = self.store();
        store.tick();
        store.keys.snapshot()
    }

    pub(crate) fn restore(&mut self, snapshot: &Snapshot) {
        self.store().keys.restore(snapshot);
    }

    /// Ends the connection of a client and makes it a new one.
    pub(crate) fn reset(&mut self, client: u64) {
        if !self.stopped {
            self.hub(|hub| hub.cut(client));
        }
    }

    fn take_outgoing(&mut self) -> (Outbox, Vec<(oneshot::Sender<Outcome>, Outcome)>) {
        (self.hub(Hub::take_outbox), std::mem::take(&mut self.outgoing))
    }
}

/// What the server's handles share.
pub(crate) struct Shared(Mutex<State>);

impl Shared {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::new()))
    }

    /// Acts on the server, then sends what that gave: first the messages, then the answers, and both without the lock.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
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

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
