//! Waiting in a queue that the server keeps: every waiter asks for its own place, and hears of its turn on its own
//! channel. Rule 17 of docs/PROTOCOL.md.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use crate::attempt::Wish;
use crate::crowd::{Member, News};
use crate::ear::{Ear, Tally};
use crate::error::LockError;
use crate::guard::Ticket;
use crate::release::leave_queue;
use crate::script::{Fate, Status};
use crate::wait::{sleep_until, Contest, Tried, Turn};

/// The first waiter of a process asks at least this often: the server takes a client that is silent for 3 s for dead.
const CAP: Duration = Duration::from_secs(1);

/// A waiter in the server's queue.
pub(crate) struct Queuer {
    wish: Wish,
    member: Arc<Member>,
    ear: Ear,
    pub(crate) tally: Tally,
    /// The server took it out of the queue as it got the lock.
    won: bool,
}

impl Queuer {
    pub(crate) fn new(wish: Wish) -> Self {
        let wish = Wish { queues: true, ..wish };
        let line = &wish.slot.line;
        let member = line.crowd.join(wish.slot.clone(), wish.kind);
        let ear = Ear::new(format!("{}:{}", line.keys.channel, wish.slot.field).into());
        Self { wish, member, ear, tally: Tally::default(), won: false }
    }

    /// Says for all waiters of this process that they still wait, those that did not lately; this is the first of them.
    async fn refresh(&self) {
        let Some(script) = self.wish.kind.refresh else { return };
        let line = &self.wish.slot.line;
        let batches = line.crowd.due(&self.member);
        let calls = batches.into_iter().map(|owners| async move {
            let args: Vec<&str> = owners.iter().map(|owner| &**owner).collect();
            // One copy: it is said again.
            let copy = self.wish.core.wire.copy(script, &line.keys.of(script.keys), &args).await;
            if let Fate::Answered(answer) = copy.fate {
                let gone = |at: &usize| answer.status == Status::Done && answer.int(*at) == Some(0);
                for owner in (0..owners.len()).filter(gone).filter_map(|at| owners.get(at)) {
                    line.crowd.missing(owner);
                }
            }
        });
        join_all(calls).await;
    }
}

impl Contest for Queuer {
    type Prize = Ticket;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Turn<Ticket>, LockError> {
        let (began, slot) = (Instant::now(), self.wish.slot.clone());
        loop {
            match self.member.take_news() {
                News::Closed => return Err(LockError::Closed),
                News::Ask => return Ok(Turn::Try),
                News::Nothing => {}
            }
            let Some(pause) = pause.filter(|pause| !pause.is_zero()) else { return Ok(Turn::Try) };
            let mut held = pin!(slot.held.notified());
            held.as_mut().enable();
            if slot.is_enterable() {
                // The same owner got it elsewhere.
                return Ok(Turn::Try);
            }
            // One of a process asks for all; the others wait for their message.
            let deaf = (!self.ear.is_confirmed()).then_some(began);
            let since = slot.line.crowd.asked(&self.member).or(deaf);
            tokio::select! {
                () = self.member.bell.notified() => {}
                () = held => return Ok(Turn::Try),
                () = self.ear.wakes() => {
                    self.wish.doubt_holders();
                    return Ok(Turn::Try);
                }
                () = sleep_until(since.map(|since| since.max(began) + pause)) => return Ok(Turn::Try),
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.tally.asks();
        self.ear.drain(&self.wish.core);
        self.wish.slot.line.crowd.asks();
        let tried = self.wish.attempt(None).await;
        self.tally.heard();
        match &tried {
            Ok(Tried::Won(_)) => self.won = true,
            Ok(Tried::Busy(_)) => self.refresh().await,
            Err(_) => {}
        }
        tried
    }

    fn listen(&mut self) -> bool {
        self.ear.listen(&self.wish.core)
    }

    fn pause(&mut self, left: Option<Duration>) -> Duration {
        let core = &self.wish.core;
        let cap = core.wire.jittered(core.settings.wait_cap.min(CAP));
        // A millisecond on top, as the server rounds down.
        left.map_or(cap, |left| cap.min(left + Duration::from_millis(1)))
    }
}

impl Drop for Queuer {
    fn drop(&mut self) {
        let slot = self.wish.slot.clone();
        slot.line.crowd.leave(&self.member);
        if self.tally.attempts > 0 && !self.won {
            let core = self.wish.core.clone();
            core.janitor.finish(leave_queue(core.clone(), self.wish.kind, slot));
        }
    }
}
