//! Waiting for a lock in the process's line, and at its head for the server. Rules 15 and 16 of docs/PROTOCOL.md.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::time::Instant;

use crate::error::LockError;
use crate::hold::attempt::Wish;
use crate::hold::doubt::{sweep, Rest};
use crate::hold::entry::Place;
use crate::hold::ticket::Ticket;
use crate::waiting::listener::Listener;
use crate::waiting::wait::{Contest, Tried};
use crate::waiting::waiters::Mail;
use crate::wire::doubt::Doubt;

/// A waiter: in the process's line, and at its head on the server.
pub(crate) struct Contender {
    place: Arc<Place>,
    pub(crate) listener: Listener,
    /// Whether readers may be letting it go first.
    goes_first: bool,
    /// Whether the last look found that the owner holds the lock in the other role.
    saw_sibling: bool,
}

impl Contender {
    pub(crate) fn new(wish: Wish) -> Self {
        let line = wish.entry.line.clone();
        let listener = Listener::new(&wish.engine, line.keys.channel.clone());
        let place = line.turns.lock().join(wish);
        Self { place, listener, goes_first: false, saw_sibling: false }
    }

    /// `true` once whenever the same owner got the lock in the other role: then it may enter, or must not wait.
    fn finds_sibling(&mut self) -> bool {
        let holds = self.place.wish.holds_as_sibling();
        let saw = std::mem::replace(&mut self.saw_sibling, holds);
        holds && !saw
    }

    /// The longest pause between two attempts.
    fn cap(&self) -> Duration {
        let Wish { engine, kind, .. } = &self.place.wish;
        let cap = engine.settings.wait_cap;
        // Who goes first says so in time.
        engine.wire.jittered(kind.goes_first.map_or(cap, |first| cap.min(first / 2)))
    }

    /// Lets another process go first: until it had the lock, at most as long as the line says.
    async fn stand_aside(&mut self) {
        let line = self.place.wish.entry.line.clone();
        let Some(aside) = line.aside() else { return };
        let engine = self.place.wish.engine.clone();
        let limit = aside.until.since(engine.now());
        if self.place.wish.backoff.is_none() && self.listener.subscribe(limit).await {
            self.listener.drain();
        }
        while let Some(aside) = line.aside() {
            let left = aside.until.since(engine.now());
            tokio::select! {
                () = self.listener.wakes() => line.turns.lock().heard_aside(engine.now()),
                () = tokio::time::sleep(left) => line.turns.lock().end_aside(),
            }
        }
    }
}

impl Contest for Contender {
    type Prize = Ticket;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Option<Ticket>, LockError> {
        // Nobody tells what becomes of a hold on the server: the head asks, behind one of its own process too.
        let mut deadline = Instant::now() + pause.unwrap_or_else(|| self.cap());
        let entry = self.place.wish.entry.clone();
        loop {
            match self.place.take_mail() {
                Mail::Won(ticket) => return Ok(Some(ticket)),
                Mail::Lapsed => {
                    let again = entry.line.turns.lock().join(self.place.wish.clone());
                    self.place = again;
                    continue;
                }
                Mail::Closed => return Err(LockError::Closed),
                Mail::Try => {
                    self.stand_aside().await;
                    return Ok(None);
                }
                Mail::Nothing | Mail::Gone => {}
            }
            let mut held = pin!(entry.held.notified());
            held.as_mut().enable();
            let sibling = self.place.wish.sibling.clone();
            let mut sibling_held = pin!(OptionFuture::from(sibling.as_ref().map(|sibling| sibling.held.notified())));
            // Nothing to be told yet: the first poll registers it.
            let _ = futures::poll!(sibling_held.as_mut());
            if entry.is_enterable() || self.finds_sibling() {
                // The same owner got it elsewhere: entering again needs no place in the line.
                return Ok(None);
            }
            let is_head = entry.line.turns.lock().is_head(&self.place);
            let listens = is_head && pause != Some(Duration::ZERO);
            tokio::select! {
                // Mail first: who was handed the lock holds it, too.
                biased;
                () = self.place.bell.notified() => {}
                () = held => return Ok(None),
                Some(()) = sibling_held => {}
                () = self.listener.wakes(), if listens => {
                    self.place.wish.doubt_holders();
                    return Ok(None);
                }
                () = tokio::time::sleep_until(deadline) => {
                    if entry.line.turns.lock().is_head(&self.place) {
                        return Ok(None);
                    }
                    deadline = Instant::now() + self.cap();
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.listener.asks();
        let went_first = std::mem::replace(&mut self.goes_first, self.place.wish.kind.goes_first.is_some());
        let tried = self.place.wish.attempt(Some(self.place.clone())).await;
        self.listener.answered();
        self.goes_first = match &tried {
            Ok(Tried::Won(_)) => false,
            Ok(Tried::Busy(_)) => self.goes_first,
            Err(_) => went_first,
        };
        tried
    }

    fn listen(&mut self) -> bool {
        self.place.wish.backoff.is_none() && self.listener.listen()
    }

    fn pause(&mut self) -> Duration {
        let Wish { engine, entry, backoff, .. } = &self.place.wish;
        match backoff.as_ref().filter(|_| entry.line.holds().is_empty()) {
            Some(backoff) => backoff.pause(self.listener.attempts(), |pause| engine.wire.jittered(pause)),
            // Behind a hold of this process it is told of the release.
            None => self.cap(),
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let left = self.place.wish.entry.line.turns.lock().leave(&self.place);
        // Dropped outside of that lock, the prize gives itself back.
        drop(left);
        if self.goes_first {
            // Readers need not let it any more.
            let Wish { engine, kind, entry, .. } = self.place.wish.clone();
            engine.janitor.clone().finish(async move {
                let gate = entry.gate.clone().lock_owned().await;
                let (mark, lease) = (entry.field.clone(), kind.goes_first.unwrap_or_default());
                sweep(engine, Rest { kind, entry, mark, lease }, Some(gate), Doubt::default()).await;
            });
        }
    }
}
