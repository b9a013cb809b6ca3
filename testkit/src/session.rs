//! One client behind the door: its requests, what they are answered, and what it is told unasked.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::future::{ready, BoxFuture};
use futures::stream::{FuturesOrdered, StreamExt};
use lockson_embedded::{CallError, Connection, Server, Signal, Topic, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::Mutex;

use crate::reply::{shape, Protocol, Reply, Shape};
use crate::request::{Requests, Words};
use crate::verbs::{Client, Done};

/// A client whose call has no answer for so long is cut off, and so is one that does not read for so long.
const SILENCE: Duration = Duration::from_secs(60);
/// A client with so many requests that are not answered is not read from.
const MOST_DUE: usize = 1024;

/// What is due to a client for a request, once the server has answered.
struct Due {
    what: What,
    /// That which it spoke when it asked.
    protocol: Protocol,
    subscribes: bool,
}

enum What {
    /// What the server answers, in this shape.
    Answer(Shape),
    /// These, whatever it answers.
    Replies(Vec<Reply>),
    /// This, and no more.
    Last(Reply),
}

type Answer = Result<Value, CallError>;

/// A client that is connected.
struct Session {
    connection: Connection,
    client: Client,
    requests: Requests,
    /// In the order of the requests.
    due: FuturesOrdered<BoxFuture<'static, (Due, Answer)>>,
    /// How many of them subscribe.
    subscribing: usize,
    /// Who subscribes or ends that; the next one in line begins when this one is done, as one may undo the other.
    turn: Arc<Mutex<()>>,
    /// What comes from now on is not read.
    is_over: bool,
    out: BytesMut,
}

/// Serves a client until it goes, or the server cuts it off.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, server: Server, number: i64) {
    let (told, mut signals) = unbounded_channel();
    let mut session = Session {
        // Once the session is over nobody listens any more.
        connection: server.connect(SILENCE, move |signal| drop(told.send(signal))),
        client: Client::new(number),
        requests: Requests::default(),
        due: FuturesOrdered::new(),
        subscribing: 0,
        turn: Arc::default(),
        is_over: false,
        out: BytesMut::new(),
    };
    loop {
        let goes_on = tokio::select! {
            biased;
            // A message comes before the answer to who published it, and behind that to its SUBSCRIBE.
            signal = signals.recv(), if session.subscribing == 0 => session.tell(signal),
            Some((due, answer)) = session.due.next() => session.answer(due, answer),
            read = stream.read_buf(&mut session.requests.buffer), if session.reads() => {
                session.ask_all();
                // Who says no more may still listen.
                session.is_over |= matches!(read, Ok(0));
                read.is_ok()
            }
        };
        let bytes = session.out.split();
        let is_written = tokio::time::timeout(SILENCE, stream.write_all(&bytes)).await;
        let is_done = session.is_over && session.due.is_empty();
        if !goes_on || is_done || !matches!(is_written, Ok(Ok(()))) {
            return;
        }
    }
}

impl Session {
    fn reads(&self) -> bool {
        self.due.len() < MOST_DUE && !self.is_over
    }

    /// Sends what came in to the server.
    fn ask_all(&mut self) {
        while !self.is_over {
            match self.requests.next() {
                Ok(Some(words)) => self.ask(words),
                Ok(None) => return,
                Err(why) => {
                    let last = What::Last(Reply::error(format!("ERR Protocol error: {why}")));
                    self.is_over = true;
                    self.push(last, false, ready(Ok(Value::Nil)));
                }
            }
        }
    }

    fn push(&mut self, what: What, subscribes: bool, answer: impl Future<Output = Answer> + Send + 'static) {
        let due = Due { what, protocol: self.client.protocol, subscribes };
        self.subscribing += usize::from(subscribes);
        self.due.push_back(Box::pin(async move { (due, answer.await) }));
    }

    /// What the client is told of itself it is told when a PING has been to the server and back: it meets what any
    /// other call meets there.
    fn ask(&mut self, words: Words) {
        let ping = || self.connection.command(vec![b"PING".to_vec()]);
        match self.client.ask(&words) {
            Done::Not => {
                let (what, answer) = (What::Answer(shape(&words)), self.connection.command(words));
                self.push(what, false, answer);
            }
            Done::Said(replies) => {
                let answer = ping();
                self.push(What::Replies(replies), false, answer);
            }
            Done::Subscribed(topics, replies) => {
                let (turn, answer) = (self.turn.clone(), self.connection.subscribe(topics));
                self.push(What::Replies(replies), true, async move {
                    let _turn = turn.lock().await;
                    answer.await.map(|()| Value::Nil)
                });
            }
            Done::Unsubscribed(topics, replies) => {
                let (turn, ended, answer) = (self.turn.clone(), self.connection.unsubscribe(topics), ping());
                self.push(What::Replies(replies), false, async move {
                    let turn = turn.lock().await;
                    ended.await;
                    drop(turn);
                    answer.await
                });
            }
            Done::Quit(reply) => {
                let answer = ping();
                self.is_over = true;
                self.push(What::Last(reply), false, answer);
            }
        }
    }

    /// Whether the client stays.
    fn answer(&mut self, due: Due, answer: Answer) -> bool {
        let Due { what, protocol, subscribes } = due;
        self.subscribing -= usize::from(subscribes);
        let (what, value) = match answer {
            Ok(value) => (what, value),
            Err(CallError::Reply(why)) => (What::Answer(Shape::Plain), Value::Error(why.into())),
            Err(CallError::Closed | CallError::Unanswered(_)) => return false,
        };
        match what {
            What::Answer(shape) => Reply { shape, value }.write(protocol, &mut self.out),
            What::Replies(replies) => replies.into_iter().for_each(|reply| reply.write(protocol, &mut self.out)),
            What::Last(reply) => {
                reply.write(protocol, &mut self.out);
                return false;
            }
        }
        true
    }

    /// Whether the client stays.
    fn tell(&mut self, signal: Option<Signal>) -> bool {
        let Some(Signal::Message { topic, channel, text }) = signal else { return false };
        let words: Vec<Vec<u8>> = match topic {
            Topic::Channel(_) => vec!["message".into(), channel.into(), text],
            Topic::Pattern(pattern) => vec!["pmessage".into(), pattern.into(), channel.into(), text],
            Topic::Shard(_) => vec!["smessage".into(), channel.into(), text],
        };
        let value = Value::List(words.into_iter().map(Value::Bulk).collect());
        Reply { shape: Shape::Push, value }.write(self.client.protocol, &mut self.out);
        true
    }
}
