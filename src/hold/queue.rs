//! Waiting in a queue that the server keeps: every waiter asks for its own place, and hears of its turn on its own
//! channel. Rule 17 of docs/PROTOCOL.md.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::attempt::Wish;
use crate::hold::doubt::owe;
use crate::hold::entry::{Entry, Place};
use crate::hold::ticket::Ticket;
use crate::waiting::listener::Listener;
use crate::waiting::wait::{sleep_until, Contest, Tried};
use crate::waiting::waiters::Mail;
use crate::wire::script::{Answer, Status};
use crate::wire::table;

/// The first waiter of a process asks at least this often: the server takes a client that is silent for 3 s for dead.
const CAP: Duration = Duration::from_secs(1);

/// A waiter in the server's queue.
pub(crate) struct Queuer {
    queue: table::Queue,
    waiting: Arc<Place>,
    pub(crate) listener: Listener,
    /// The server took it out of the queue as it got the lock.
    won: bool,
}

impl Queuer {
    pub(crate) fn new(wish: Wish, queue: table::Queue) -> Self {
        let entry = wish.entry.clone();
        let listener = Listener::new(&wish.engine, format!("{}:{}", entry.line.keys.channel, entry.field).into());
        Self {
            queue,
            waiting: entry.line.crowd.join(&entry.field, Wish { learn: learn_rank, ..wish }),
            listener,
            won: false,
        }
    }

    /// Says for all waiters of this process that they still wait, those that did not lately; this is the first of them.
    async fn refresh(&self) {
        let (script, line) = (self.queue.refresh, &self.waiting.wish.entry.line);
        let batches = line.crowd.due(&self.waiting);
        let calls = batches.into_iter().map(|owners| async move {
            let args: Vec<&str> = owners.iter().map(|owner| &**owner).collect();
            // One copy: it is said again.
            let (answer, _) = self.waiting.wish.engine.wire.copy(script, &line.keys.of(script.keys), &args).await;
            if let Ok(answer) = answer {
                let gone = |at: &usize| answer.status == Status::Done && answer.int(*at) == Some(0);
                for owner in (0..owners.len()).filter(gone).filter_map(|at| owners.get(at)) {
                    line.crowd.missing(owner);
                }
            }
        });
        join_all(calls).await;
    }
}

/// What a busy answer says of a waiter's place: its score, and whether it came just now.
fn learn_rank(Wish { entry, .. }: &Wish, answer: &Answer) {
    if let Some(score) = answer.int(1).filter(|_| answer.status == Status::Busy) {
        entry.line.crowd.rank(&entry.field, (answer.time, score), answer.int(2) == Some(1));
    }
}

impl Contest for Queuer {
    type Prize = Ticket;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Option<Ticket>, LockError> {
        let (began, entry) = (Instant::now(), self.waiting.wish.entry.clone());
        loop {
            match self.waiting.take_mail() {
                Mail::Won(ticket) => return Ok(Some(ticket)),
                Mail::Closed => return Err(LockError::Closed),
                // Its owner's place on the server is gone.
                Mail::Try => return Ok(None),
                Mail::Nothing | Mail::Lapsed | Mail::Gone => {}
            }
            let Some(pause) = pause.filter(|pause| !pause.is_zero()) else { return Ok(None) };
            let mut held = pin!(entry.held.notified());
            held.as_mut().enable();
            if entry.is_enterable() {
                // The same owner got it elsewhere.
                return Ok(None);
            }
            // One of a process asks for all; the others wait for their message.
            let deaf = (!self.listener.is_confirmed()).then_some(began);
            let since = entry.line.crowd.asked(&self.waiting).or(deaf);
            tokio::select! {
                () = self.waiting.bell.notified() => {}
                () = held => return Ok(None),
                () = self.listener.wakes() => {
                    self.waiting.wish.doubt_holders();
                    return Ok(None);
                }
                () = sleep_until(since.map(|since| since.max(began) + pause)) => return Ok(None),
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.listener.asks();
        self.waiting.wish.entry.line.crowd.asks();
        let tried = self.waiting.wish.attempt(Some(self.waiting.clone())).await;
        self.listener.answered();
        match &tried {
            Ok(Tried::Won(_)) => self.won = true,
            Ok(Tried::Busy(_)) => self.refresh().await,
            Err(_) => {}
        }
        tried
    }

    fn listen(&mut self) -> bool {
        self.listener.listen()
    }

    fn pause(&mut self) -> Duration {
        let engine = &self.waiting.wish.engine;
        engine.wire.jittered(engine.settings.wait_cap.min(CAP))
    }
}

impl Drop for Queuer {
    fn drop(&mut self) {
        let entry = &self.waiting.wish.entry;
        entry.line.crowd.leave(&entry.field, &self.waiting);
        if self.listener.attempts() > 0 && !self.won {
            let engine = &self.waiting.wish.engine;
            engine.janitor.finish(leave(engine.clone(), self.queue, entry.clone()));
        }
    }
}

/// The client is closed: they leave the queue. (They are told, and are gone from the crowd.)
pub(crate) async fn leave_queue(engine: Arc<Engine>, waiter: &Wish) {
    if let Some(queue) = waiter.kind.queue {
        leave(engine, queue, waiter.entry.clone()).await;
    }
}

/// Nobody waits as this owner any more: its place in the server's queue goes, as soon as its attempts are over.
async fn leave(engine: Arc<Engine>, queue: table::Queue, entry: Arc<Entry>) {
    let mut gate = entry.gate.clone().lock_owned().await;
    let _permit = entry.line.crowd.leaving.acquire().await;
    if !entry.line.crowd.has(&entry.field) {
        let keys = entry.line.keys.of(queue.leave.keys);
        let called = engine.wire.call(queue.leave, &keys, &[&entry.field], &engine.patience()).await;
        // A copy of this may come late, too.
        owe(&engine, &entry, &mut gate, &called.doubt);
    }
}
