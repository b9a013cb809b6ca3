//! A lean way for scripts: whoever calls writes if nothing is under way; what comes together meanwhile is one write.
//!
//! It is lost and made anew, and nothing is sent twice. An answer is for whoever waits longest. No call has a timer:
//! as answers come in order, one look at the first that waits is enough.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{ready, Context, Poll, Waker};
use std::time::Duration;

use ::futures::future::{BoxFuture, FutureExt};
use itoa::{Buffer as Digits, Integer};
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::io::{split, AsyncReadExt, AsyncWrite, WriteHalf};
use tokio::sync::{oneshot, watch, Notify};
use tokio::time::{sleep, Instant};

use super::connection::{FIRST_PAUSE, LONGEST_PAUSE};
use super::resp::{frame, heard, Answer, Heard, Reply, Stream, Talk};
use crate::backend::fred_call::Confirming;
use crate::backend::fred_config::Dial;
use crate::backend::node::{look_if_failed, Link};
use crate::backend::url::HostPort;
use crate::backend::{Call, Fate, Item, Outcome};
use crate::base::janitor::contain;

/// Memory that a connection keeps for what it writes.
const KEPT: usize = 1 << 16;
/// Room for what is read at once, at first.
const ROOM: usize = 1 << 12;

/// Which server it is to, and how it is made.
pub(crate) struct Way {
    pub(crate) dial: Dial,
    pub(crate) to: HostPort,
    pub(crate) database: u8,
    /// Of each answer.
    pub(crate) limit: Duration,
    /// Calls that wait for replicas go by these.
    pub(crate) confirming: Confirming,
}

/// The connection for scripts to one server, made in the background. Once `left` is dropped it is gone, and calls under
/// way by it end. `look` is woken when a call has failed, and `up` is called when it is there again.
pub(crate) fn link(
    way: Way,
    mut left: watch::Receiver<()>,
    look: Arc<Notify>,
    up: impl Fn() + Send + Sync + 'static,
) -> Arc<dyn Link> {
    let Way { dial, to, database, limit, confirming } = way;
    let is_tls = dial.is_tls();
    let pipe = Arc::new(Pipe { flow: Mutex::default(), stirred: Notify::new(), limit, is_tls });
    // Whatever ends the task: nobody waits for it in vain.
    let ended = guard((pipe.clone(), confirming.clone()), |(pipe, confirming)| {
        pipe.close("it has been left");
        confirming.close();
    });
    tokio::spawn(async move {
        tokio::select! {
            () = stay(&ended.0, dial, to, database, up) => {}
            // Nothing is ever sent by it.
            _ = left.changed() => {}
        }
    });
    Arc::new(Lean { pipe, confirming, look })
}

/// Calls by such a connection.
struct Lean {
    pipe: Arc<Pipe>,
    confirming: Confirming,
    look: Arc<Notify>,
}

impl Link for Lean {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        if let Some(confirm) = call.confirm {
            let (answer, look) = (self.confirming.call(&call, confirm), self.look.clone());
            return async move { look_if_failed(&look, answer.await) }.boxed();
        }
        let (words, asking) = (words(&call, self.confirming.publish), call.asking);
        let (pipe, look) = (self.pipe.clone(), self.look.clone());
        async move { look_if_failed(&look, pipe.ask(&words, asking).await.and_then(outcome)) }.boxed()
    }

    fn reset(&self) {
        self.pipe.flow.lock().wrong = Some("an answer belonged to another question".to_owned());
        self.pipe.stirred.notify_one();
    }

    fn settings(&self, names: &'static [&'static str]) -> BoxFuture<'static, BTreeMap<String, String>> {
        let pipe = self.pipe.clone();
        async move {
            let mut words = Words::of(2 + names.len(), 0);
            ["CONFIG", "GET"].iter().chain(names).for_each(|word| words.put(word));
            let found = pipe.ask(&words.0, false).await.ok().and_then(Answer::ok).unwrap_or(Reply::Nil);
            let pairs = found.items().chunks_exact(2).filter_map(|pair| match pair {
                [name, value] => Some((name.text()?.to_owned(), value.text()?.to_owned())),
                _ => None,
            });
            pairs.collect()
        }
        .boxed()
    }
}

/// The answer to a script.
fn outcome(answer: Answer) -> Outcome {
    match answer {
        Ok(Reply::Text(text)) => Ok(Item::of_text(&text)),
        Ok(Reply::List(replies)) => Ok(replies.into_iter().map(item).collect()),
        Ok(other) => Ok(vec![item(other)]),
        Err(text) => Err(Fate::of_reply(&text)),
    }
}

fn item(reply: Reply) -> Item {
    match reply {
        Reply::Int(number) => Item::Int(number),
        Reply::Text(text) => Item::Text(text),
        Reply::Nil | Reply::List(_) => Item::Nil,
    }
}

/// One command as it is written.
struct Words(Vec<u8>);

impl Words {
    fn of(count: usize, length: usize) -> Self {
        let mut words = Self(Vec::with_capacity(length + 16 * (count + 1)));
        words.head(b'*', count);
        words
    }

    fn head(&mut self, mark: u8, count: usize) {
        self.0.push(mark);
        self.0.extend_from_slice(Digits::new().format(count).as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    fn put(&mut self, word: &str) {
        self.head(b'$', word.len());
        self.0.extend_from_slice(word.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, number: impl Integer) {
        self.put(Digits::new().format(number));
    }
}

/// A call as it is written; where it is asking, ASKING goes before it.
fn words(call: &Call<'_>, publish: &str) -> Vec<u8> {
    let (verb, script) = if call.in_full { ("EVAL", call.script.text) } else { ("EVALSHA", call.script.sha()) };
    let (keys, args) = (call.keys().count(), call.argv().chain(call.announces(publish)));
    let length = script.len() + call.names.iter().chain(call.args).map(|word| word.len()).sum::<usize>();
    let mut words = Words::of(5 + keys + args.clone().count(), length + 64);
    words.put(verb);
    words.put(script);
    words.number(keys);
    call.keys().for_each(|key| words.put(key));
    words.number(call.nonce);
    words.number(call.not_after);
    args.for_each(|word| words.put(word));
    match call.asking {
        true => [b"*1\r\n$6\r\nASKING\r\n", &words.0[..]].concat(),
        false => words.0,
    }
}

/// What callers and the connection's task have in common.
struct Pipe {
    flow: Mutex<Flow>,
    /// Rung where the task has something to do.
    stirred: Notify,
    /// Of each answer; when there is none for twice as long the connection is taken for dead.
    limit: Duration,
    is_tls: bool,
}

#[derive(Default)]
struct Flow {
    to: To,
    out: Vec<u8>,
    /// So much of that is written.
    written: usize,
    /// What this connection had before that.
    before: u64,
    is_flushed: bool,
    waiting: VecDeque<Waiting>,
    /// Why this connection is good no more.
    wrong: Option<String>,
    /// Whether a write to it has failed.
    is_torn: bool,
}

#[derive(Default)]
enum To {
    /// For the first time: calls wait.
    #[default]
    Opening,
    Open(WriteHalf<Box<dyn Stream>>),
    /// And why.
    Down(String),
}

/// What has no answer yet.
struct Waiting {
    /// Where it begins in what the connection is written.
    begins: u64,
    until: Instant,
    /// Nobody, where nothing is to be told any more.
    asker: Option<oneshot::Sender<Result<Answer, Fate>>>,
}

impl Pipe {
    /// Sends it, once. Where it is asking, it is two commands, and the first one's answer is nobody's.
    async fn ask(&self, words: &[u8], asking: bool) -> Result<Answer, Fate> {
        let (asker, answer) = oneshot::channel();
        {
            let mut nobody = Context::from_waker(Waker::noop());
            let mut flow = self.flow.lock();
            if let To::Down(why) = &flow.to {
                return Err(not_sent(why));
            }
            let (begins, until) = (flow.before + flow.out.len() as u64, Instant::now() + self.limit);
            let is_alone = flow.waiting.is_empty();
            if asking {
                flow.waiting.push_back(Waiting { begins, until, asker: None });
            }
            flow.waiting.push_back(Waiting { begins, until, asker: Some(asker) });
            flow.out.extend_from_slice(words);
            // What it could not write, and why, the task finds.
            let is_written = is_alone && matches!(flow.write(&mut nobody), Poll::Ready(Ok(())));
            if !is_written {
                self.stirred.notify_one();
            }
        }
        answer.await.unwrap_or_else(|_| Err(Fate::Doubtful("the client's runtime has ended".to_owned())))
    }

    /// What waits is told why: of what was not written, that it was not.
    fn close(&self, why: &str) {
        let Flow { out, written, before, waiting, is_torn, .. } =
            std::mem::replace(&mut *self.flow.lock(), Flow { to: To::Down(why.to_owned()), ..Flow::default() });
        // TLS keeps what it is given, and may have sent of it before the write failed.
        let written = if self.is_tls && is_torn { out.len() } else { written };
        for Waiting { begins, asker, .. } in waiting {
            let is_sent = begins < before + written as u64;
            let fate = if is_sent { Fate::Doubtful(why.to_owned()) } else { not_sent(why) };
            contain(|| asker.map(|asker| asker.send(Err(fate))));
        }
    }

    /// Until the connection is lost: why it was. `up` is called once calls may go by it.
    async fn converse(&self, talk: Talk, up: &impl Fn()) -> String {
        let Talk { stream, mut read } = talk;
        // Who reads less than there is room for knows that it is all.
        read.reserve(ROOM);
        let (mut from, to) = split(stream);
        {
            let mut flow = self.flow.lock();
            // What is found wrong late was of the last one.
            (flow.to, flow.wrong, flow.is_torn) = (To::Open(to), None, false);
        }
        up();
        let mut beat = pin!(sleep(self.limit));
        loop {
            tokio::select! {
                biased;
                // What there is to write is looked for below, each time around.
                () = self.stirred.notified() => {}
                why = poll_fn(|cx| self.flow.lock().fail(cx)) => return why,
                got = from.read_buf(&mut read) => {
                    let told = match got {
                        Ok(0) => Err("the server closed the connection".to_owned()),
                        Ok(_) => self.hear(&mut read),
                        Err(error) => Err(error.to_string()),
                    };
                    if let Err(why) = told {
                        return why;
                    }
                }
                () = &mut beat => match self.expire() {
                    Ok(next) => beat.as_mut().reset(next),
                    Err(why) => return why,
                },
            }
        }
    }

    /// Gives each answer that was read to whom it is for.
    fn hear(&self, read: &mut Vec<u8>) -> Result<(), String> {
        let mut done = 0;
        while let Some((frame, length)) = frame(read.get(done..).unwrap_or_default())? {
            done += length;
            let Heard::Answer(answer) = heard(frame) else { continue };
            let first = self.flow.lock().waiting.pop_front();
            let first = first.ok_or("the server answered what nobody asked")?;
            // Who is gone is not told. Wakers are anybody's code.
            contain(|| first.asker.map(|asker| asker.send(Ok(answer))));
        }
        read.drain(..done);
        Ok(())
    }

    /// Ends what has waited for too long, and says when to look again; or that the connection is dead.
    fn expire(&self) -> Result<Instant, String> {
        let (now, limit) = (Instant::now(), self.limit);
        let mut flow = self.flow.lock();
        let dead = flow.waiting.front().map(|first| first.until + limit);
        if dead.is_some_and(|dead| dead <= now) {
            return Err(format!("no answer within {:?}", limit * 2));
        }
        let late = flow.waiting.iter_mut().take_while(|waiting| waiting.until <= now);
        let late: Vec<_> = late.filter_map(|waiting| waiting.asker.take()).collect();
        let next = flow.waiting.iter().map(|waiting| waiting.until).find(|until| *until > now);
        // A waker may call by this connection.
        drop(flow);
        for asker in late {
            let fate = Fate::Doubtful(format!("no answer within {limit:?}"));
            contain(|| asker.send(Err(fate)));
        }
        // What comes from here on has its limit later than that.
        Ok([next, dead].into_iter().flatten().min().unwrap_or(now + limit))
    }
}

impl Flow {
    /// Writes all that there is.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let To::Open(to) = &mut self.to else { return Poll::Pending };
        let mut to = Pin::new(to);
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            self.is_flushed = false;
            let failed: std::io::Error = match to.as_mut().poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => std::io::ErrorKind::WriteZero.into(),
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    continue;
                }
                Poll::Ready(Err(error)) => error,
                Poll::Pending => {
                    // Else it would grow for as long as there is always more.
                    if self.written > KEPT {
                        self.out.drain(..self.written);
                        self.before += std::mem::take(&mut self.written) as u64;
                    }
                    return Poll::Pending;
                }
            };
            // Not written once more: what failed may be on its way.
            (self.wrong, self.is_torn) = (Some(failed.to_string()), true);
            return Poll::Ready(Err(failed));
        }
        if !self.is_flushed {
            ready!(to.poll_flush(cx))?;
            self.is_flushed = true;
        }
        self.before += self.out.len() as u64;
        self.written = 0;
        self.out.clear();
        self.out.shrink_to(KEPT);
        Poll::Ready(Ok(()))
    }

    /// The same for who waits until the connection is good no more.
    fn fail(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        if let Some(why) = &self.wrong {
            return Poll::Ready(why.clone());
        }
        match ready!(self.write(cx)) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(error.to_string()),
        }
    }
}

/// No connection took it. Where the server refused the connection, it will not either.
fn not_sent(why: &str) -> Fate {
    match Fate::of_error(why) {
        Some(fate @ Fate::Refused(_)) => fate,
        // That one passes.
        _ if why.starts_with("ERR ") && !why.starts_with("ERR max number of clients") => Fate::refused(why),
        _ => Fate::NotSent(format!("no connection: {why}")),
    }
}

async fn stay(pipe: &Pipe, dial: Dial, to: HostPort, database: u8, up: impl Fn()) {
    let (number, mut pause) = (database.to_string(), FIRST_PAUSE);
    let select = ["SELECT", &number];
    loop {
        let why = match dial.connect(&to, if database == 0 { &["PING"] } else { &select }).await {
            // Who may not say PING need not.
            Ok((_, Err(why))) if database != 0 => why,
            Ok((talk, _)) => {
                pause = FIRST_PAUSE;
                pipe.converse(talk, &up).await
            }
            Err(why) => why,
        };
        pipe.close(&why);
        sleep(pause * fastrand::u32(512..1024) / 1024).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use tokio::io::{duplex, AsyncWriteExt, DuplexStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::backend::Script;
    use crate::base::keys::Key;
    use crate::connections::resp::reply;

    const LIMIT: Duration = Duration::from_secs(1);
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    type Asked = JoinHandle<Result<Answer, Fate>>;

    fn pipe() -> Arc<Pipe> {
        Arc::new(Pipe { flow: Mutex::default(), stirred: Notify::new(), limit: LIMIT, is_tls: false })
    }

    /// With room for so many bytes, and what becomes of it.
    fn begun(pipe: &Arc<Pipe>, room: usize) -> (DuplexStream, JoinHandle<String>) {
        let (ours, theirs) = duplex(room);
        let (talk, pipe) = (Talk { stream: Box::new(ours), read: Vec::new() }, pipe.clone());
        (theirs, tokio::spawn(async move { pipe.converse(talk, &|| ()).await }))
    }

    async fn asked(pipe: &Arc<Pipe>) -> Asked {
        let asking = pipe.clone();
        let asked = tokio::spawn(async move { asking.ask(PING, false).await });
        tokio::task::yield_now().await;
        asked
    }

    async fn read(theirs: &mut DuplexStream, commands: usize) {
        let mut bytes = vec![0; commands * PING.len()];
        theirs.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, PING.repeat(commands));
    }

    fn text(asked: Result<Answer, Fate>) -> Result<String, Fate> {
        asked.map(|answer| answer.unwrap().text().unwrap().to_owned())
    }

    #[tokio::test]
    async fn each_hears_its_own_answer() {
        let pipe = pipe();
        let early = asked(&pipe).await;
        let (mut theirs, _) = begun(&pipe, 1024);
        read(&mut theirs, 1).await;
        let (late, latest) = (asked(&pipe).await, asked(&pipe).await);
        read(&mut theirs, 2).await;
        theirs.write_all(b"+one\r\n>2\r\n+x\r\n+y\r\n+two\r\n+th").await.unwrap();
        assert_eq!(text(early.await.unwrap()), Ok("one".to_owned()));
        assert_eq!(text(late.await.unwrap()), Ok("two".to_owned()));
        theirs.write_all(b"ree\r\n").await.unwrap();
        assert_eq!(text(latest.await.unwrap()), Ok("three".to_owned()));
    }

    /// Nobody else is there to write it: the connection's task never runs again.
    #[tokio::test]
    async fn who_calls_alone_writes() {
        let pipe = pipe();
        let (mut theirs, task) = begun(&pipe, 1024);
        tokio::task::yield_now().await;
        task.abort();
        let _ = task.await;
        let (mine, mut theirs_again) = duplex(1024);
        pipe.flow.lock().to = To::Open(split(Box::new(mine) as Box<dyn Stream>).1);
        let first = asked(&pipe).await;
        read(&mut theirs_again, 1).await;
        let _second = asked(&pipe).await;
        assert_eq!(pipe.flow.lock().out, PING, "it waits for the task, as the first has no answer yet");
        assert!(!first.is_finished() && theirs.read_u8().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_and_its_answer_is_nobodys() {
        let pipe = pipe();
        let (mut theirs, task) = begun(&pipe, 1024);
        tokio::task::yield_now().await;
        let (began, first) = (Instant::now(), asked(&pipe).await);
        sleep(LIMIT / 2).await;
        let second = asked(&pipe).await;
        assert!(matches!(first.await.unwrap(), Err(Fate::Doubtful(why)) if why == "no answer within 1s"));
        assert!((1000..1003).contains(&began.elapsed().as_millis()));
        theirs.write_all(b"+late\r\n+mine\r\n").await.unwrap();
        assert_eq!(text(second.await.unwrap()), Ok("mine".to_owned()));
        let (began, _third) = (Instant::now(), asked(&pipe).await);
        assert_eq!(task.await.unwrap(), "no answer within 2s");
        assert!((2000..2003).contains(&began.elapsed().as_millis()));
    }

    /// Of what reached no server one need not ask.
    #[tokio::test]
    async fn what_was_written_is_in_doubt_when_the_connection_is_lost() {
        let pipe = pipe();
        let (theirs, task) = begun(&pipe, PING.len() + 1);
        let asked = [asked(&pipe).await, asked(&pipe).await, asked(&pipe).await];
        drop(theirs);
        let why = task.await.unwrap();
        pipe.close(&why);
        let [first, second, third] = asked;
        assert!(matches!(first.await.unwrap(), Err(Fate::Doubtful(_))));
        assert!(matches!(second.await.unwrap(), Err(Fate::Doubtful(_))), "a part of it was");
        assert!(matches!(third.await.unwrap(), Err(Fate::NotSent(_))));
        assert!(matches!(pipe.ask(PING, false).await, Err(Fate::NotSent(_))), "at once");
        pipe.close("WRONGPASS invalid username-password pair");
        assert!(matches!(pipe.ask(PING, false).await, Err(Fate::Refused(_))));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_asked_for_ends_it() {
        let pipe = pipe();
        let (mut theirs, task) = begun(&pipe, 1024);
        theirs.write_all(b"+x\r\n").await.unwrap();
        assert_eq!(task.await.unwrap(), "the server answered what nobody asked");
        let (_theirs, task) = begun(&pipe, 1024);
        tokio::task::yield_now().await;
        pipe.flow.lock().wrong = Some("an answer belonged to another question".to_owned());
        pipe.stirred.notify_one();
        assert_eq!(task.await.unwrap(), "an answer belonged to another question");
        let (mut theirs, _life) = begun(&pipe, 1024);
        let asked = asked(&pipe).await;
        read(&mut theirs, 1).await;
        theirs.write_all(b"+x\r\n").await.unwrap();
        assert_eq!(text(asked.await.unwrap()), Ok("x".to_owned()), "the next one is not wrong");
    }

    /// What was handed to a write that failed may have been sent, where TLS is between.
    #[tokio::test]
    async fn by_tls_all_that_a_failed_write_had_is_in_doubt() {
        for is_tls in [false, true] {
            let pipe = Pipe { flow: Mutex::default(), stirred: Notify::new(), limit: LIMIT, is_tls };
            let pipe = Arc::new(pipe);
            let (theirs, task) = begun(&pipe, 1024);
            tokio::task::yield_now().await;
            drop(theirs);
            let asked = asked(&pipe).await;
            pipe.close(&task.await.unwrap());
            let fate = asked.await.unwrap().err().unwrap();
            assert_eq!(matches!(fate, Fate::Doubtful(_)), is_tls, "{fate:?}");
        }
    }

    #[test]
    fn a_call_is_its_words_in_order() {
        static SCRIPT: Script = Script::new("some/verb", "return 1", &[Key::Lock, Key::Channel]);
        let mut call = Call {
            script: &SCRIPT,
            names: &["name", "told"],
            nonce: 7,
            not_after: -1,
            args: &["ä", ""],
            in_full: true,
            asking: true,
            confirm: None,
        };
        let list = |bytes: &[u8]| {
            let (frame, length) = frame(bytes).unwrap().unwrap();
            let words: Vec<_> = reply(frame).items().iter().map(|word| word.text().unwrap().to_owned()).collect();
            (words.join(" "), length)
        };
        let bytes = words(&call, "PUBLISH");
        let (asking, length) = list(&bytes);
        assert_eq!(asking, "ASKING");
        assert_eq!(
            list(&bytes[length..]),
            ("EVAL return 1 1 name 7 -1 ä  PUBLISH told".to_owned(), bytes.len() - length)
        );
        (call.in_full, call.asking) = (false, false);
        let expected = format!("EVALSHA {} 1 name 7 -1 ä  PUBLISH told", SCRIPT.sha());
        assert_eq!(list(&words(&call, "PUBLISH")).0, expected);
    }

    /// What is written is kept no longer, where there is always more to write.
    #[tokio::test(start_paused = true)]
    async fn what_was_written_is_not_kept() {
        let (pipe, room) = (pipe(), 4 * KEPT);
        let (mut theirs, _life) = begun(&pipe, room);
        tokio::task::yield_now().await;
        let mut got = vec![0; room];
        for _ in 0..20 {
            let asked = vec![b'x'; room];
            let asking = pipe.clone();
            tokio::spawn(async move { asking.ask(&asked, false).await });
            tokio::task::yield_now().await;
            theirs.read_exact(&mut got[..room / 2]).await.unwrap();
            theirs.read_exact(&mut got[..room / 4]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let flow = pipe.flow.lock();
        let left = 20 * room as u64 - flow.before - flow.written as u64;
        assert!(left > room as u64, "{left} are written yet");
        assert!(flow.out.len() as u64 <= left + 2 * KEPT as u64, "{} for {left}", flow.out.len());
    }

    /// Which refusals pass, and which do not.
    #[test]
    fn a_full_server_is_not_for_good() {
        assert!(matches!(not_sent("ERR max number of clients reached"), Fate::NotSent(_)));
        assert!(matches!(not_sent("ERR DB index is out of range"), Fate::Refused(_)));
    }
}
