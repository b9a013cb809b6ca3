//! One connection to the server: calls, subscriptions, and what the way there does to them.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::faults::Trip;
use crate::hub::{Told, Topic};
use crate::sha1_hex;
use crate::state::{Request, Shared};
use crate::value::{lossy, Value};

const STOPPED: &str = "the embedded server is stopped";
const LATE: &str = "there was no answer in time";
pub(crate) const CUT: &str = "the connection was cut before the answer came";

/// A script with its keys and arguments.
#[derive(Debug, Clone)]
pub struct Call {
    /// The SHA-1 of the text, by which the server finds what it compiled before.
    pub sha: Cow<'static, str>,
    /// The script.
    pub text: Cow<'static, str>,
    /// Its KEYS.
    pub keys: Vec<String>,
    /// Its ARGV.
    pub args: Vec<String>,
}

impl Call {
    /// Of a script without keys and arguments.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { sha: sha1_hex(&*text).into(), text, keys: Vec::new(), args: Vec::new() }
    }

    /// What is seen of one that came as words: bytes that are no UTF-8 are replaced.
    pub(crate) fn of_words(sha: String, text: &[u8], keys: &[Vec<u8>], args: &[Vec<u8>]) -> Self {
        let list = |words: &[Vec<u8>]| words.iter().map(|word| lossy(word)).collect();
        Self { sha: sha.into(), text: lossy(text).into(), keys: list(keys), args: list(args) }
    }

    /// With these KEYS.
    pub fn keys(self, keys: &[&str]) -> Self {
        Self { keys: owned(keys), ..self }
    }

    /// With these ARGV.
    pub fn args(self, args: &[&str]) -> Self {
        Self { args: owned(args), ..self }
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What a connection that got no value knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The server answered with this error. What a script did before it raised one stays done.
    Reply(String),
    /// The connection was closed before: the server never hears of it.
    Closed,
    /// No answer came, for this reason: whether the server did it is not known.
    Unanswered(&'static str),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reply(text) => text,
            Self::Closed => "the client is closed",
            Self::Unanswered(why) => why,
        })
    }
}

impl std::error::Error for CallError {}

/// A connection to the server, which ends when this is dropped: [`Server::connect`](crate::Server::connect) makes one.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    id: u64,
    timeout: Duration,
}

/// The way to the server. Also when its future is dropped on the way, the call arrives.
struct Hop<'a>(&'a Shared);

impl Drop for Hop<'_> {
    fn drop(&mut self) {
        self.0.with(|server| server.drain());
    }
}

/// Takes so long; no time at all is not waited for.
async fn pass(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// A call with faults on its way: it goes on when nobody waits for its answer any more.
fn travel(shared: Arc<Shared>, id: u64, call: Request, trip: Trip) -> oneshot::Receiver<Result<Value, CallError>> {
    let (reply, answer) = oneshot::channel();
    tokio::spawn(async move {
        let [there, back] = trip.delays;
        tokio::time::sleep(there).await;
        if !trip.arrives {
            return;
        }
        let copy = trip.again.map(|later| (later, call.clone()));
        let answer = shared.with(|server| server.arrive(id, call));
        shared.with(|server| server.drain());
        if let Some((later, copy)) = copy {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                tokio::time::sleep(later).await;
                // Nobody waits for its answer.
                drop(shared.with(|server| server.arrive(id, copy)));
                shared.with(|server| server.drain());
            });
        }
        tokio::time::sleep(back).await;
        if let Some(result) = answer.await.ok().filter(|_| trip.is_answered) {
            // Its client waits no longer.
            let _ = reply.send(result);
        }
    });
    answer
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, timeout: Duration, told: Told) -> Self {
        let id = shared.with(|server| server.hub(|hub| hub.connect(told)));
        Self { shared, id, timeout }
    }

    /// Runs a script. Calls of one connection are done in the order of their first polls, unless faults delay them.
    /// Nothing is sent before the first poll, and dropping the future afterwards does not take the call back.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if polled there.
    pub fn call(&self, call: Call) -> impl Future<Output = Result<Value, CallError>> + Send + 'static {
        self.send(Request::Script(call))
    }

    /// Runs a command as a client sends it: its name, then its arguments, in bytes. EVAL, EVALSHA and SCRIPT are among
    /// those that it knows. All else is as for [`call`](Self::call).
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if polled there.
    pub fn command(&self, words: Vec<Vec<u8>>) -> impl Future<Output = Result<Value, CallError>> + Send + 'static {
        self.send(Request::Words(words))
    }

    fn send(&self, call: Request) -> impl Future<Output = Result<Value, CallError>> + Send + 'static {
        let (shared, id, timeout) = (Arc::clone(&self.shared), self.id, self.timeout);
        async move {
            let begun = Instant::now();
            let trip = shared.with(|server| server.hub(|hub| hub.network.as_mut().map(|network| network.call(id))));
            if let Some(trip) = trip.filter(|trip| *trip != Trip::GOOD) {
                if trip.is_cut {
                    shared.with(|server| server.reset(id));
                    drop(travel(shared, id, call, trip));
                    return Err(CallError::Unanswered(CUT));
                }
                let answer = travel(shared, id, call, trip);
                if let Ok(Ok(result)) = tokio::time::timeout_at(begun + timeout, answer).await {
                    return result;
                }
                tokio::time::sleep_until(begun + timeout).await;
                return Err(CallError::Unanswered(LATE));
            }
            let answer = shared.with(|server| server.accept(id, call))?;
            let hop = Hop(&shared);
            tokio::task::yield_now().await;
            drop(hop);
            if let Ok(result) = answer.await {
                return result;
            }
            tokio::time::sleep(timeout.saturating_sub(begun.elapsed())).await;
            Err(CallError::Unanswered(STOPPED))
        }
    }

    /// Subscribes to channels: what is published after this returned `Ok` is told, unless the connection is cut.
    ///
    /// # Errors
    /// [`CallError`], but no error reply.
    pub fn subscribe<T: Into<Topic>>(
        &self,
        topics: Vec<T>,
    ) -> impl Future<Output = Result<(), CallError>> + Send + 'static + use<T> {
        let topics = topics.into_iter().map(Into::into).collect();
        let (shared, id, timeout) = (Arc::clone(&self.shared), self.id, self.timeout);
        async move {
            let way = shared.with(|server| server.hub(|hub| hub.network.as_mut().map(|way| way.subscription(id))));
            let [there, back] = way.unwrap_or_default();
            tokio::task::yield_now().await;
            pass(there).await;
            let subscribed = shared.with(|server| {
                if !server.hub(|hub| hub.is_connected(id)) {
                    return Some(Err(CallError::Closed));
                }
                if server.is_stopped() {
                    return None;
                }
                server.hub(|hub| hub.subscribe(id, topics));
                Some(Ok(()))
            });
            if let Some(result) = subscribed {
                pass(back).await;
                return result;
            }
            tokio::time::sleep(timeout).await;
            Err(CallError::Unanswered(STOPPED))
        }
    }

    /// WAIT: how many replicas have what was written until now, and how many there are. It ends as soon as so many have
    /// it, or at the limit.
    ///
    /// Call it before the writes, and poll it behind them: where the connection was cut between the two, nobody knows.
    ///
    /// # Errors
    /// [`CallError::Unanswered`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if polled there.
    pub fn wait(
        &self,
        replicas: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<[u32; 2], CallError>> + Send + 'static {
        let (shared, cuts) = (Arc::clone(&self.shared), self.shared.with(|server| server.cuts()));
        async move {
            let Some(replica) = shared.with(|server| server.replica()) else { return Ok([0, 0]) };
            let time = replica.keeps_waiting(replicas, limit);
            pass(time).await;
            let (is_whole, now) = shared.with(|server| (server.cuts() == cuts, server.replica()));
            if !is_whole {
                return Err(CallError::Unanswered(STOPPED));
            }
            let has_it = time > replica.lag && now.is_some_and(|replica| !replica.is_silent);
            if !has_it {
                pass(limit.saturating_sub(time)).await;
            }
            Ok([u32::from(has_it), u32::from(now.is_some())])
        }
    }

    /// How many replicas the server has.
    pub fn replicas(&self) -> u32 {
        self.shared.with(|server| server.replicas())
    }

    /// Ends subscriptions.
    pub fn unsubscribe<T: Into<Topic>>(&self, topics: Vec<T>) -> impl Future<Output = ()> + Send + 'static + use<T> {
        let topics: Vec<Topic> = topics.into_iter().map(Into::into).collect();
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        async move {
            tokio::task::yield_now().await;
            shared.with(|server| server.hub(|hub| hub.unsubscribe(id, &topics)));
        }
    }

    /// Cuts the connection and makes it anew: its subscriptions are gone, and it is told so. While the server is
    /// stopped this does nothing.
    pub fn reset(&self) {
        self.shared.with(|server| server.reset(self.id));
    }

    /// Closes the connection.
    pub fn close(&self) -> impl Future<Output = ()> + Send + 'static {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        // What it told is dropped when no lock is held.
        async move { drop(shared.with(|server| server.hub(|hub| hub.disconnect(id)))) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.shared.with(|server| server.hub(|hub| hub.disconnect(self.id))));
    }
}
