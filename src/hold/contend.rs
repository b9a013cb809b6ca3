//! Waiting for a lock: in the process's line, whose head asks the server; or in a queue that the server keeps, where
//! every waiter asks for its own place, and hears of its turn on its own channel. Rules 15 to 17 of docs/PROTOCOL.md.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, FutureExt, OptionFuture};
use tokio::time::Instant;

use crate::backend::Script;
use crate::base::clock::Moment;
use crate::error::{LockError, QueryError};
use crate::hold::attempt::Wish;
use crate::hold::doubt::leave_server;
use crate::hold::entry::Place;
use crate::hold::ticket::Ticket;
use crate::waiting::wait::{sleep_until, Contest, Listener, Tried};
use crate::waiting::waiters::Mail;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::Query;
use crate::wire::table::{Queue, Role};

/// The first waiter of a process asks at least this often: the server takes a client that is silent for 3 s for dead.
const CAP: Duration = Duration::from_secs(1);

/// Behind all others of the line.
fn join(wish: Arc<Wish>) -> Arc<Place> {
    let entry = wish.entry.clone();
    let place = entry.line.turns.lock().join(wish);
    entry.waiting.lock().insert(place.clone());
    place
}

/// A waiter in the process's line.
pub(crate) struct Contender {
    place: Arc<Place>,
    pub(crate) listener: Listener,
    /// Whether readers may be letting it go first.
    goes_first: bool,
    /// Whether the last look found that the owner holds the lock in the other role.
    saw_sibling: bool,
}

impl Contender {
    pub(crate) fn new(wish: Arc<Wish>) -> Self {
        let keys = &wish.entry.line.keys;
        let listener = Listener::new(&wish.engine, keys.channel.clone());
        let listener = if keys.value.is_empty() { listener } else { listener.sharing() };
        Self { place: join(wish), listener, goes_first: false, saw_sibling: false }
    }

    /// `true` once whenever the same owner got the lock in the other role: then it may enter, or must not wait.
    fn finds_sibling(&mut self) -> bool {
        let holds = self.place.wish.holds_as_sibling();
        let saw = std::mem::replace(&mut self.saw_sibling, holds);
        holds && !saw
    }

    /// Since when nobody of the line asked the server for it, as far as that matters to this waiter.
    fn unasked_since(&self) -> Moment {
        self.place.wish.entry.line.turns.lock().unasked_since(self.listener.began())
    }

    /// When the head looks whom nobody tells: a line looks once a cap, whoever heads it, and however short.
    fn next_look(&self) -> Instant {
        let next = self.unasked_since().after(self.cap());
        Instant::now() + next.since(self.place.wish.engine.now())
    }

    /// Whether messages come, and others look for its lock meanwhile: by its key, which values of a group share.
    fn may_sleep(&self) -> bool {
        self.listener.is_confirmed() && self.place.wish.entry.line.keys.value.is_empty()
    }

    /// The longest pause between two attempts.
    fn cap(&self) -> Duration {
        let Wish { engine, kind, .. } = &*self.place.wish;
        let cap = engine.settings.wait_cap;
        // Who goes first says so in time.
        engine.wire.jittered(kind.goes_first.map_or(cap, |first| cap.min(first / 2)))
    }

    /// Waits for a message (`true`), or until the deadline.
    async fn hears(&self, deadline: Option<Instant>, listens: bool) -> bool {
        tokio::select! {
            biased;
            () = self.listener.wakes(), if listens => true,
            () = sleep_until(deadline) => false,
        }
    }

    /// How long it lets another process go first, if at all.
    fn aside(&self) -> Option<Duration> {
        let Wish { engine, entry, .. } = &*self.place.wish;
        entry.line.turns.lock().others.until().map(|until| until.since(engine.now()))
    }

    /// Lets another process go first: until it had the lock, at most as long as the line says.
    async fn stand_aside(&mut self, limit: Duration) {
        let Wish { engine, entry, backoff, .. } = &*self.place.wish;
        let turns = &entry.line.turns;
        let is_heard = turns.lock().others.is_heard();
        if backoff.is_none() && is_heard && self.listener.subscribe(limit).await {
            self.listener.drain();
        }
        while let Some(left) = self.aside() {
            tokio::select! {
                biased;
                () = self.listener.wakes() => turns.lock().others.heard(engine.now()),
                () = tokio::time::sleep(left) => turns.lock().others.end(),
            }
        }
    }
}

impl Contest for Contender {
    type Prize = Ticket;
    type Error = LockError;

    // (No `async fn`: who waits would have room for what it is given twice.)
    fn turn(&mut self, pause: Option<Duration>) -> impl Future<Output = Result<Option<Ticket>, LockError>> + Send {
        let mut deadline = pause.map(|pause| Instant::now() + pause);
        let (sleeps, listens) = (pause.is_none(), pause != Some(Duration::ZERO));
        async move {
            let mut watch = None;
            let entry = self.place.wish.entry.clone();
            loop {
                match self.place.take_mail() {
                    Mail::Won(ticket) => return Ok(Some(ticket)),
                    Mail::Lapsed => {
                        entry.waiting.lock().remove(&self.place);
                        self.place = join(self.place.wish.clone());
                        // It was for the place before.
                        watch = None;
                        continue;
                    }
                    Mail::Closed => return Err(QueryError::Closed.into()),
                    Mail::Try => {
                        if let Some(limit) = self.aside() {
                            self.stand_aside(limit).boxed().await;
                        }
                        return Ok(None);
                    }
                    Mail::Nothing | Mail::Gone => {}
                }
                if entry.is_enterable() || self.finds_sibling() {
                    // The same owner got it elsewhere: entering again needs no place in the line.
                    return Ok(None);
                }
                let is_head = entry.line.turns.lock().is_head(&self.place);
                // Nobody tells what becomes of a hold on the server: the head looks, behind one of its own process too.
                if is_head && sleeps && self.may_sleep() {
                    let lookout = &self.place.wish.engine.lookout;
                    watch.get_or_insert_with(|| lookout.watch(&self.place, self.unasked_since()));
                } else if is_head && deadline.is_none() {
                    deadline = Some(self.next_look());
                }
                // Those behind it sleep until they are rung for: boxed, it is of no weight for them.
                let looks = is_head.then(|| self.hears(deadline, listens).boxed());
                tokio::select! {
                    // Mail first: who was handed the lock holds it, too.
                    biased;
                    () = self.place.bell.notified() => {}
                    Some(heard) = OptionFuture::from(looks) => {
                        if heard {
                            self.place.wish.doubt_holders();
                        }
                        if heard || entry.line.turns.lock().is_head(&self.place) {
                            return Ok(None);
                        }
                        deadline = None;
                    }
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.listener.asks();
        let went_first = std::mem::replace(&mut self.goes_first, self.place.wish.kind.goes_first.is_some());
        {
            let Wish { engine, entry, .. } = &*self.place.wish;
            entry.line.turns.lock().asks(engine.now());
        }
        // Boxed, as who waits would have room for it all the time.
        let tried = self.place.wish.attempt(Some(self.place.clone())).boxed().await;
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

    fn is_looked_for(&self, left: Option<Duration>) -> bool {
        let Wish { engine, kind, backoff, .. } = &*self.place.wish;
        // The others say by their attempts that they wait; and who knows when the lease ends asks then.
        kind.role == Role::Exclusive
            && backoff.is_none()
            && self.may_sleep()
            && left.is_none_or(|left| left >= engine.settings.wait_cap)
    }

    fn pause(&mut self) -> Duration {
        let Wish { engine, entry, backoff, .. } = &*self.place.wish;
        match backoff.as_ref().filter(|_| entry.line.holds().is_empty()) {
            Some(backoff) => backoff.pause(self.listener.attempts(), |pause| engine.wire.jittered(pause)),
            // Behind a hold of this process it is told of the release.
            None => self.cap(),
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let entry = &self.place.wish.entry;
        entry.waiting.lock().remove(&self.place);
        let left = entry.line.turns.lock().leave(&self.place);
        // Dropped outside of that lock, the prize gives itself back.
        drop(left);
        if self.goes_first {
            leave_server(&self.place.wish);
        }
    }
}

/// A waiter in the server's queue.
pub(crate) struct Queuer {
    /// Says that waiters are still there.
    refresh: &'static Script,
    place: Arc<Place>,
    pub(crate) listener: Listener,
    /// In the middle of an attempt.
    asks: bool,
    /// The server took it out of the queue as it got the lock.
    won: bool,
}

impl Queuer {
    pub(crate) fn new(mut wish: Arc<Wish>, queue: Queue) -> Self {
        Arc::make_mut(&mut wish).learn = learn_rank;
        let entry = wish.entry.clone();
        let listener = Listener::new(&wish.engine, format!("{}:{}", entry.line.keys.channel, entry.field).into());
        let place = entry.line.crowd.lock().join(&entry.field, wish);
        entry.waiting.lock().insert(place.clone());
        Self { refresh: queue.refresh, place, listener, asks: false, won: false }
    }

    /// Says for all waiters of this process that they still wait, those that did not lately, if this one asks for all.
    async fn refresh(&self) {
        let (script, line) = (self.refresh, &self.place.wish.entry.line);
        let batches = line.crowd.lock().due(&self.place);
        let calls = batches.into_iter().map(|owners| async move {
            let args: Vec<&str> = owners.iter().map(|owner| &**owner).collect();
            // One copy: it is said again.
            let keys = line.keys.of(script.keys);
            let query = Query::new(script, &keys, &args);
            let (answer, _) = self.place.wish.engine.wire.copy(&query).await;
            if let Ok(answer) = answer {
                let gone = |at: &usize| answer.status == Status::Done && answer.int(*at) == Some(0);
                for owner in (0..owners.len()).filter(gone).filter_map(|at| owners.get(at)) {
                    line.crowd.lock().missing(owner);
                }
            }
        });
        join_all(calls).await;
    }
}

/// What a busy answer says of a waiter's place: its score, and whether it came just now.
fn learn_rank(Wish { entry, .. }: &Wish, answer: &Answer) {
    if let Some(score) = answer.int(1).filter(|_| answer.status == Status::Busy) {
        entry.line.crowd.lock().rank(&entry.field, (answer.time, score), answer.int(2) == Some(1));
    }
}

impl Contest for Queuer {
    type Prize = Ticket;
    type Error = LockError;

    async fn turn(&mut self, pause: Option<Duration>) -> Result<Option<Ticket>, LockError> {
        let (began, entry) = (Instant::now(), self.place.wish.entry.clone());
        loop {
            match self.place.take_mail() {
                Mail::Won(ticket) => {
                    self.won = true;
                    return Ok(Some(ticket));
                }
                Mail::Closed => return Err(QueryError::Closed.into()),
                // Its owner's place on the server is gone: it was lost, or another one of this owner's was served, or
                // what this one was given was not taken in time.
                Mail::Try | Mail::Lapsed => return Ok(None),
                Mail::Nothing | Mail::Gone => {}
            }
            let Some(pause) = pause.filter(|pause| !pause.is_zero()) else { return Ok(None) };
            if entry.is_enterable() {
                // The same owner got it elsewhere.
                return Ok(None);
            }
            // One of a process asks for all; the others wait for their message, and see that it does.
            let deaf = (!self.listener.is_confirmed()).then_some(began);
            let (since, silent_at) = {
                let crowd = entry.line.crowd.lock();
                (crowd.asked(&self.place).or(deaf), crowd.silent_at(&self.place))
            };
            let look_at = since.map_or(silent_at, |since| since.max(began) + pause);
            tokio::select! {
                biased;
                () = self.place.bell.notified() => {}
                () = self.listener.wakes() => {
                    self.place.wish.doubt_holders();
                    return Ok(None);
                }
                () = tokio::time::sleep_until(look_at) => {
                    if since.is_some() || entry.line.crowd.lock().stands_in(&self.place) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Tried<Ticket>, LockError> {
        self.listener.asks();
        self.place.wish.entry.line.crowd.lock().asks();
        self.asks = true;
        let tried = self.place.wish.attempt(Some(self.place.clone())).await;
        self.asks = false;
        self.place.wish.entry.line.crowd.lock().answered();
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
        let engine = &self.place.wish.engine;
        engine.wire.jittered(engine.settings.wait_cap.min(CAP))
    }
}

impl Drop for Queuer {
    fn drop(&mut self) {
        let entry = &self.place.wish.entry;
        entry.waiting.lock().remove(&self.place);
        let left = {
            let mut crowd = entry.line.crowd.lock();
            if self.asks {
                crowd.answered();
            }
            crowd.leave(&entry.field, &self.place)
        };
        // Outside of that lock: what was handed over gives itself back.
        drop(left);
        if self.listener.attempts() > 0 && !self.won {
            leave_server(&self.place.wish);
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::EmbeddedServer;

    const MS: Duration = Duration::from_millis(1);
    const SEC: Duration = Duration::from_secs(1);

    /// The locks of those who sleep are looked for together: not each by an attempt of its own.
    #[tokio::test(start_paused = true)]
    async fn many_who_wait_cost_as_much_as_one() {
        const LOCKS: usize = 50;
        let server = EmbeddedServer::new();
        let (holder, locks) = (server.connect(), server.connect());
        let mut waiting = Vec::new();
        for at in 0..LOCKS {
            let name = format!("lock-{at}");
            holder.lock(&name).lock().await.unwrap();
            let lock = locks.lock(&name);
            waiting.push(tokio::spawn(async move { lock.guard().await }));
        }
        tokio::time::sleep(SEC * 2).await;
        let before = server.calls();
        tokio::time::sleep(SEC * 10).await;
        let asked = server.calls() - before;
        assert!((5..30).contains(&asked), "{asked} scripts in 10 s for {LOCKS} locks");
        waiting.iter().for_each(|waiting| waiting.abort());
    }

    /// Their owner has one place in the server's queue, and loses it as the first of them is served: the other asks at
    /// once, although what the first had is on its way back by then.
    #[tokio::test(start_paused = true)]
    async fn two_who_wait_as_one_owner_are_served_one_after_the_other() {
        let server = EmbeddedServer::new();
        let (holder, locks) = (server.connect(), server.connect());
        let guard = holder.fair_lock("queue").guard().await.unwrap();
        let lock = locks.fair_lock("queue");
        let take = || async { drop(lock.guard().await.unwrap()) };
        let release = async {
            tokio::time::sleep(MS * 100).await;
            guard.unlock().await.unwrap();
            Instant::now()
        };
        let ((), (), released) = tokio::join!(take(), take(), release);
        assert!(released.elapsed() < MS * 20, "{:?}", released.elapsed());
    }

    /// Behind a run of its own a process stands aside where another one listens: for 50 ms, if nobody comes.
    #[tokio::test(start_paused = true)]
    async fn another_process_goes_first() {
        let locks = EmbeddedServer::new().connect();
        let (lock, began) = (locks.lock("turns"), Instant::now());
        let line = lock.line().unwrap();
        line.turns.lock().others.begin(locks.engine().now(), false, Some(1));
        lock.lock().await.unwrap();
        let took = began.elapsed();
        assert!((MS * 50..MS * 55).contains(&took), "{took:?}");
    }
}
