//! A connection of our own to one server: it answers commands in order and tells at once what the server says unasked,
//! which fred drops (`sunsubscribe`) or does not hear (a sentinel's `+switch-master`).
//!
//! It stays: a lost connection is made anew, and a command that comes meanwhile is an error at once. Nothing of a lock
//! goes this way, so a command that failed may be sent again.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{interval, sleep, timeout, Instant};

use super::resp::{Answer, Heard, Reply, Talk, ASKS};
use crate::backend::fred_config::Dial;
use crate::backend::node::Away;
use crate::backend::url::HostPort;
use crate::backend::Fate;
use crate::base::janitor::say;

/// The first pause before a lost connection is made anew, and the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What becomes of a connection, and what comes by it unasked.
#[derive(Debug)]
pub(crate) enum Told {
    /// It is connected to, and says this of itself by INFO. Until this is heard it is not up.
    Met(Reply),
    /// It is not what it was when it was connected to before.
    Another,
    Up,
    Down(String),
    Push(Vec<Reply>),
}

/// Commands that go in one write, and what they come to.
struct Order {
    commands: Vec<Vec<String>>,
    /// The last is a PING with this word, and only errors are answered before it.
    barrier: Option<String>,
    answer: oneshot::Sender<Answer>,
}

/// Connected, or why not.
pub(crate) type State = Result<(), String>;

/// A connection that stays until this is dropped.
pub(crate) struct Connection {
    orders: UnboundedSender<Order>,
    limit: Duration,
    /// The same of an order that waits for a connection.
    first_limit: Duration,
    state: Arc<Mutex<State>>,
    away: Arc<Away>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects in the background, and listens to these channels always. `tell` must not wait.
    pub(crate) fn start(
        dial: Dial,
        to: HostPort,
        channels: &[&str],
        tell: impl Fn(Told) + Send + Sync + 'static,
    ) -> Self {
        let (orders, received) = unbounded_channel();
        let limit = dial.limit;
        let asks = if dial.login.provider.is_some() { limit * ASKS } else { Duration::ZERO };
        let first_limit = asks + dial.connect;
        let state: Arc<Mutex<State>> = Arc::new(Mutex::new(Err("it is being connected to".to_owned())));
        let away: Arc<Away> = Arc::default();
        let tell = {
            let (state, away, server) = (state.clone(), away.clone(), to.to_string());
            move |told: Told| {
                match &told {
                    Told::Up => {
                        *state.lock() = Ok(());
                        if let Some(after) = away.end() {
                            say(|| tracing::info!(target: "lockson", server, ?after, "a server is back"));
                        }
                    }
                    Told::Down(why) => {
                        // Of one that was never there whoever wants it is told.
                        let was_up = std::mem::replace(&mut *state.lock(), Err(why.clone())).is_ok();
                        away.begin(was_up);
                        if was_up {
                            say(|| tracing::warn!(target: "lockson", server, why, "a server is away"));
                        }
                    }
                    Told::Met(_) | Told::Another | Told::Push(_) => {}
                }
                tell(told);
            }
        };
        let subscribe = ["SUBSCRIBE"].iter().chain(channels).map(|word| (*word).to_owned()).collect();
        let greeting = if channels.is_empty() { Vec::new() } else { vec![subscribe] };
        let task = tokio::spawn(stay(dial, to, greeting, received, tell)).abort_handle();
        Self { orders, limit, first_limit, state, away, task }
    }

    /// Whether it is connected.
    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// The same, for whoever looks often.
    pub(crate) fn watched(&self) -> Arc<Mutex<State>> {
        self.state.clone()
    }

    /// For how long it has been lost, or could not be made, so far.
    pub(crate) fn away(&self) -> Option<Duration> {
        self.away.so_far()
    }

    /// One command.
    pub(crate) async fn ask(&self, words: &[&str]) -> Answer {
        self.order(vec![words.iter().map(|word| (*word).to_owned()).collect()], None).await
    }

    /// Commands that are confirmed by pushes: it ends when the server has done all of them, with the first refusal.
    /// They go in the order of the calls, whether or not what this returns is polled.
    pub(crate) fn subscribe(&self, mut commands: Vec<Vec<String>>) -> impl Future<Output = Result<(), String>> + use<> {
        let barrier = format!("barrier-{}", fastrand::u64(..));
        commands.push(vec!["PING".to_owned(), barrier.clone()]);
        let answered = self.order(commands, Some(barrier));
        async { answered.await.map(drop) }
    }

    fn order(&self, commands: Vec<Vec<String>>, barrier: Option<String>) -> impl Future<Output = Answer> + use<> {
        let (answer, answered) = oneshot::channel();
        let _ = self.orders.send(Order { commands, barrier, answer });
        let limit = if self.state().is_ok() { self.limit } else { self.first_limit };
        async move {
            match timeout(limit, answered).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err("the connection was closed".to_owned())),
                Err(_) => Err(format!("no answer within {limit:?}")),
            }
        }
    }
}

async fn stay(
    dial: Dial,
    to: HostPort,
    greeting: Vec<Vec<String>>,
    mut orders: UnboundedReceiver<Order>,
    tell: impl Fn(Told),
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match dial.connect(&to, &["INFO", "server", "replication"]).await {
            // Which run of a server it is, it says later: nothing goes to it before.
            Ok((_, Err(why))) if matches!(Fate::of_error(&why), Some(Fate::NotSent(_))) => why,
            Ok((talk, info)) => {
                pause = FIRST_PAUSE;
                // Who may not ask is told nothing.
                tell(Told::Met(info.unwrap_or(Reply::Nil)));
                tell(Told::Up);
                converse(talk, dial.limit, &greeting, &mut orders, &tell).await
            }
            Err(why) => why,
        };
        tell(Told::Down(why.clone()));
        let until = Instant::now() + pause * fastrand::u32(512..1024) / 1024;
        // What came meanwhile, and what comes until the next try.
        while let Ok(Some(order)) = tokio::time::timeout_at(until, orders.recv()).await {
            let _ = order.answer.send(Err(why.clone()));
        }
        sleep(until.saturating_duration_since(Instant::now())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What was asked and is not answered yet.
struct Asked {
    since: Instant,
    barrier: Option<String>,
    /// The first error before the barrier.
    refusal: Option<String>,
    /// Nobody, for a sign of life.
    asker: Option<oneshot::Sender<Answer>>,
}

impl Asked {
    fn new(barrier: Option<String>, asker: Option<oneshot::Sender<Answer>>) -> Self {
        Self { since: Instant::now(), barrier, refusal: None, asker }
    }
}

/// A server that loads its data, or can't save them, refuses a PING, and no subscription.
fn lets_subscribe(why: &str) -> bool {
    why.starts_with("LOADING ") || why.starts_with("MISCONF ")
}

/// Whom the next answer is for. `Err`: nobody asked.
fn answered(waiting: &mut VecDeque<Asked>, answer: Answer) -> Result<(), String> {
    let Some(first) = waiting.front_mut() else {
        return Err("the server answered what nobody asked".to_owned());
    };
    let ends = |word: &str| match &answer {
        Ok(reply) => reply.text() == Some(word),
        // It is one that this user may not send.
        Err(why) => why.contains("'ping' command") || lets_subscribe(why),
    };
    if first.barrier.as_deref().is_some_and(|word| !ends(word)) {
        let why = answer.err().unwrap_or_else(|| "the answer belongs to another command".to_owned());
        first.refusal.get_or_insert(why);
        return Ok(());
    }
    if let Some(Asked { barrier, refusal, asker: Some(asker), .. }) = waiting.pop_front() {
        let answer = match answer {
            Err(why) if barrier.is_some() && lets_subscribe(&why) => Ok(Reply::Nil),
            answer => answer,
        };
        let _ = asker.send(refusal.map_or(answer, Err));
    }
    Ok(())
}

/// Talks until the connection is lost, and says why it was.
async fn converse(
    mut talk: Talk,
    limit: Duration,
    greeting: &[Vec<String>],
    orders: &mut UnboundedReceiver<Order>,
    tell: &impl Fn(Told),
) -> String {
    let mut waiting = VecDeque::new();
    if !greeting.is_empty() {
        // The first sign of life is its barrier: what is refused is not heard, and that is all.
        waiting.push_back(Asked::new(Some("PONG".to_owned()), None));
        let ping = [vec!["PING".to_owned()]];
        let all: Vec<Vec<String>> = greeting.iter().chain(&ping).cloned().collect();
        if let Err(why) = talk.send(&all, limit).await {
            return why;
        }
    }
    let mut beat = interval(limit);
    loop {
        let done = tokio::select! {
            heard = talk.hear() => match heard {
                Ok(Heard::Answer(answer)) => answered(&mut waiting, answer),
                Ok(Heard::Push(items)) => {
                    tell(Told::Push(items));
                    Ok(())
                }
                Err(why) => Err(why),
            },
            Some(Order { commands, barrier, answer }) = orders.recv() => {
                waiting.push_back(Asked::new(barrier, Some(answer)));
                talk.send(&commands, limit).await
            }
            // Whatever else is heard meanwhile: who answers each, but nothing as it was asked, is out of step for good.
            _ = beat.tick() => match waiting.front() {
                Some(first) if first.since.elapsed() >= limit => Err(format!("no answer within {limit:?}")),
                Some(_) => Ok(()),
                None => {
                    waiting.push_back(Asked::new(None, None));
                    talk.send(&[["PING"]], limit).await
                }
            },
        };
        if let Err(why) = done {
            for asker in waiting.into_iter().filter_map(|asked: Asked| asked.asker) {
                let _ = asker.send(Err(why.clone()));
            }
            return why;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Each hears its own: askers of one command, and subscribers, whose answer is behind errors only.
        #[test]
        fn any_asker_hears_its_own_answer(orders in prop::collection::vec((any::<bool>(), 0usize..3), 1..8)) {
            let (mut waiting, mut asked) = (VecDeque::new(), Vec::new());
            for (at, (subscribes, _)) in orders.iter().enumerate() {
                let (asker, answer) = oneshot::channel();
                let barrier = subscribes.then(|| format!("barrier-{at}"));
                waiting.push_back(Asked::new(barrier, Some(asker)));
                asked.push(answer);
            }
            for (at, (subscribes, errors)) in orders.iter().enumerate() {
                let refused = if *subscribes { *errors } else { 0 };
                for error in 0..refused {
                    answered(&mut waiting, Err(format!("refused {error}"))).unwrap();
                }
                let word = if *subscribes { format!("barrier-{at}") } else { format!("answer-{at}") };
                answered(&mut waiting, Ok(Reply::Text(word.clone()))).unwrap();
                let expected = if refused > 0 { Err("refused 0".to_owned()) } else { Ok(Reply::Text(word)) };
                prop_assert_eq!(asked[at].try_recv(), Ok(expected));
            }
            prop_assert!(answered(&mut waiting, Ok(Reply::Nil)).is_err(), "nobody asked");
        }
    }

    /// It refuses the barrier alone: what stands before it was done, and who asked next hears its own answer.
    #[test]
    fn who_loads_its_data_is_subscribed_to() {
        for why in ["LOADING Redis is loading the dataset in memory", "MISCONF Errors writing to the AOF file"] {
            let (subscriber, mut subscribed) = oneshot::channel();
            let (asker, mut asked) = oneshot::channel();
            let barrier = Some("barrier".to_owned());
            let mut waiting = VecDeque::from([Asked::new(barrier, Some(subscriber)), Asked::new(None, Some(asker))]);
            answered(&mut waiting, Err(why.to_owned())).unwrap();
            assert_eq!(subscribed.try_recv(), Ok(Ok(Reply::Nil)));
            answered(&mut waiting, Err(why.to_owned())).unwrap();
            assert_eq!(asked.try_recv(), Ok(Err(why.to_owned())));
        }
    }
}
