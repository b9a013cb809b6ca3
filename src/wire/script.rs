//! One script call with all its copies: sent, sent again while nobody knows whether it ran, and its answer read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::backend::Fate;
use crate::backend::{Backend, Call, Item, Script};
use crate::base::clock::{millis, Clock, Moment, ServerClock, ServerTime, TICK};
pub(crate) use crate::base::fault::Fault;
use crate::base::fault::Refused;
use crate::base::janitor::say;
use crate::error::QueryError;

/// The first pause between two copies, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// In place of the milliseconds until more may be known; less than any that PTTL has.
const AGAIN: i64 = -3;

/// What a script says first. The headers in `lua/` say when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    Busy,
    NotHeld,
    WrongType(String),
    Tampered(String),
    Refused(Refused),
}

/// A script's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// The server's, as the script ran.
    pub(crate) time: ServerTime,
    /// What follows status, nonce and time.
    rest: Vec<Item>,
    /// When the copy that answered was sent: leases count from here.
    pub(crate) sent: Moment,
}

impl Answer {
    /// One that says what became of the call; anything else is an error. `closed`: the client was being closed.
    pub(crate) fn of(result: Result<Self, Fault>, name: &str, closed: bool) -> Result<Self, QueryError> {
        let mut answer = result.map_err(|fault| QueryError::of_fault(name, fault, closed))?;
        let name = name.to_owned();
        match std::mem::replace(&mut answer.status, Status::Done) {
            Status::WrongType(detail) | Status::Tampered(detail) => Err(QueryError::WrongType { name, detail }),
            Status::Refused(why) => Err(QueryError::Refused { name, why }),
            status => Ok(Self { status, ..answer }),
        }
    }

    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        match self.rest.get(at)? {
            Item::Int(value) => Some(*value),
            Item::Text(text) => text.parse().ok(),
            Item::Nil => None,
        }
    }

    /// A number that counts something: 0 where there is none, or it is below zero.
    pub(crate) fn count<T: TryFrom<i64> + Default>(&self, at: usize) -> T {
        self.int(at).and_then(|count| T::try_from(count).ok()).unwrap_or_default()
    }

    /// A number of milliseconds; below zero they are not known.
    pub(crate) fn millis(&self, at: usize) -> Option<Duration> {
        self.int(at).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis)
    }

    /// The server's run, since when it has lost nothing, and how long that is: where an answer ends with that.
    pub(crate) fn run(&self) -> Option<(&str, ServerTime, Duration)> {
        match self.rest.as_slice() {
            [.., Item::Text(run), Item::Int(since)] => {
                let age = u64::try_from(self.time.saturating_sub(*since)).unwrap_or_default();
                Some((run, *since, Duration::from_millis(age)))
            }
            _ => None,
        }
    }

    /// Whether the script stopped half-way, as one call may touch only so many elements (rule 12): to be called again.
    pub(crate) fn goes_on(&self) -> bool {
        self.status == Status::Busy && self.int(0) == Some(AGAIN)
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.rest
    }

    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        match self.rest.get(at)? {
            Item::Text(text) => Some(text),
            Item::Int(_) | Item::Nil => None,
        }
    }
}

/// A call that was given all the copies that its patience allowed.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) result: Result<Answer, Fault>,
    /// Copies without an answer may run until this moment of the server's clock (rule 6 of docs/PROTOCOL.md).
    pub(crate) doubt: Option<ServerTime>,
}

impl Called {
    /// Whether it was answered by a script that stopped half-way.
    pub(crate) fn goes_on(&self) -> bool {
        self.result.as_ref().is_ok_and(Answer::goes_on)
    }
}

/// How long a call is sent again.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    started: Moment,
    outage: Duration,
    abandoned: Option<Arc<AtomicBool>>,
    one_copy: bool,
    end: Option<Moment>,
}

impl Patience {
    pub(crate) fn new(started: Moment, outage: Duration) -> Self {
        Self { started, outage, abandoned: None, one_copy: false, end: None }
    }

    /// Ends as soon as the flag is set: the caller went away.
    pub(crate) fn unless(mut self, abandoned: Arc<AtomicBool>) -> Self {
        self.abandoned = Some(abandoned);
        self
    }

    /// Ends at the first copy that may have run: a second one would do it twice.
    pub(crate) fn one_copy(mut self) -> Self {
        self.one_copy = true;
        self
    }

    /// Ends at this moment, whoever else is answered.
    pub(crate) fn until(mut self, end: Moment) -> Self {
        self.end = Some(end);
        self
    }

    /// Whether the caller went away.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.as_ref().is_some_and(|flag| flag.load(Ordering::Acquire))
    }

    /// By a silence since `silent_since`, or, while others are answered, by none to a call that began at `began`.
    fn is_over(&self, now: Moment, silent_since: Option<Moment>, began: Moment) -> bool {
        if self.end.is_some_and(|end| now >= end) || self.is_abandoned() {
            return true;
        }
        let outage_began = silent_since.map_or(began.max(self.started), |since| since.max(self.started));
        now.since(outage_began) >= self.outage
    }
}

/// The way to the server: the backend, the clocks, and whether the server answers.
pub(crate) struct Wire {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) command_timeout: Duration,
    pub(crate) server: ServerClock,
    nonce: AtomicU64,
    /// Nanoseconds of the first copy that is without any answer since; 0 when the server answers.
    silent_since: AtomicU64,
    /// Nanoseconds of the last answer.
    heard_at: AtomicU64,
    closed: AtomicBool,
}

impl Wire {
    pub(crate) fn new(backend: Arc<dyn Backend>, clock: Clock, command_timeout: Duration) -> Self {
        Self {
            backend,
            clock,
            command_timeout,
            server: ServerClock::default(),
            nonce: AtomicU64::new(1),
            silent_since: AtomicU64::new(0),
            heard_at: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Ends every call that is under way, and the connections.
    pub(crate) async fn close(&self) {
        self.end();
        self.backend.close().await;
    }

    /// Ends every call that is under way.
    pub(crate) fn end(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn is_over(&self, patience: &Patience, began: Moment) -> bool {
        self.closed.load(Ordering::Acquire) || patience.is_over(self.clock.now(), self.silent_since(), began)
    }

    /// Whether the server's clock is past the end of patience, though the local one is not: it may have stood still. By
    /// then the server may have forgotten what the first copy in doubt did.
    fn overslept(&self, patience: &Patience, began: Moment, first_doubt: Option<ServerTime>) -> bool {
        patience.end.zip(first_doubt).is_some_and(|(end, first)| {
            self.server.at(self.clock.now()) > first.saturating_add(millis(end.since(began)))
        })
    }

    /// Since when nothing has been answered, if something is waiting for an answer.
    pub(crate) fn silent_since(&self) -> Option<Moment> {
        Some(self.silent_since.load(Ordering::Relaxed)).filter(|&nanos| nanos != 0).map(Moment::from_nanos)
    }

    /// Whether anything was answered after `moment`.
    pub(crate) fn heard_since(&self, moment: Moment) -> bool {
        self.heard_at.load(Ordering::Relaxed) > moment.nanos()
    }

    /// Whether the server has been silent for longer than a slow answer takes.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_since().is_some_and(|since| self.clock.now().since(since) >= self.command_timeout / 4)
    }

    /// Waits until copies that may run until `doubt` can no longer.
    pub(crate) async fn pass(&self, doubt: ServerTime) {
        loop {
            let now = self.server.at(self.clock.now());
            let Ok(left) = u64::try_from(doubt.saturating_sub(now)) else { return };
            tokio::time::sleep(Duration::from_millis(left.saturating_add(1)).min(TICK)).await;
        }
    }

    /// Until when copies that were sent before `moment` may run.
    pub(crate) fn latest(&self, moment: Moment) -> ServerTime {
        self.server.at(moment).saturating_add(millis(self.command_timeout))
    }

    /// Whether copies that may run until `doubt` can no longer.
    pub(crate) fn is_past(&self, doubt: ServerTime) -> bool {
        self.server.at(self.clock.now()) > doubt
    }

    /// From when on copies that may run until `doubt` can no longer.
    pub(crate) fn passes(&self, doubt: ServerTime) -> Moment {
        let now = self.clock.now();
        let left = u64::try_from(doubt.saturating_sub(self.server.at(now))).unwrap_or_default();
        now.after(Duration::from_millis(left.saturating_add(1)))
    }

    /// Sends a call until it is answered or patience ends. Only here is anything sent again.
    pub(crate) async fn call(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
        patience: &Patience,
    ) -> Called {
        let began = self.clock.now();
        let (mut doubt, mut first_doubt): (Option<ServerTime>, Option<ServerTime>) = (None, None);
        let mut pause = FIRST_PAUSE;
        let mut was_late = false;
        loop {
            let (answer, not_after) = self.copy(script, keys, args).await;
            let why = match answer {
                Ok(answer) => return Called { result: Ok(answer), doubt },
                Err(Fate::Refused(why)) => return Called { result: Err(Fault::Refused(why)), doubt },
                // It wrote nothing, and now the clock is known: once, that costs no patience.
                Err(Fate::Late) if !was_late && !self.overslept(patience, began, first_doubt) => {
                    was_late = true;
                    continue;
                }
                Err(Fate::Late) => "this client's idea of the server's clock was behind".to_owned(),
                Err(Fate::UnknownScript) => {
                    let why = Refused::Other("the server does not keep scripts".to_owned());
                    return Called { result: Err(Fault::Refused(why)), doubt };
                }
                Err(Fate::NotSent(why)) => why,
                Err(Fate::Doubtful(why)) => {
                    doubt = doubt.max(Some(not_after));
                    if patience.one_copy {
                        return Called { result: Err(Fault::Unreachable(why)), doubt };
                    }
                    why
                }
            };
            first_doubt = first_doubt.or(doubt);
            if self.is_over(patience, began) || self.overslept(patience, began, first_doubt) {
                return Called { result: Err(Fault::Unreachable(why)), doubt };
            }
            tokio::time::sleep(self.jittered(pause)).await;
            if self.is_over(patience, began) {
                return Called { result: Err(Fault::Unreachable(why)), doubt };
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends one copy. Returns its answer, and until when it may run without one.
    pub(crate) async fn copy(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
    ) -> (Result<Answer, Fate>, ServerTime) {
        let sent = self.clock.now();
        let not_after = self.latest(sent);
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        let call = Call { script, names: keys, nonce, not_after, args, in_full: false };
        let answer = self.backend.call(call);
        // Moments are never 0 once a client is connected, but the embedded clock starts there.
        let _ = self.silent_since.compare_exchange(0, sent.nanos().max(1), Ordering::Relaxed, Ordering::Relaxed);
        let answer = match answer.await {
            // It proves that nothing ran.
            Err(Fate::UnknownScript) => self.backend.call(Call { in_full: true, ..call }).await,
            answer => answer,
        };
        if matches!(answer, Err(Fate::Refused(_) | Fate::UnknownScript)) {
            self.silent_since.store(0, Ordering::Relaxed);
        }
        (answer.and_then(|items| self.read(script.name, items, nonce, sent)), not_after)
    }

    fn read(&self, script: &'static str, items: Vec<Item>, nonce: u64, sent: Moment) -> Result<Answer, Fate> {
        let mut items = items.into_iter();
        let (Some(Item::Int(status)), Some(Item::Text(echo)), Some(Item::Int(time))) =
            (items.next(), items.next(), items.next())
        else {
            return self.poisoned(script, "the reply has not the shape of a lockson script's");
        };
        if echo.parse() != Ok(nonce) {
            return self.poisoned(script, "the reply belongs to another call");
        }
        let now = self.clock.now();
        self.server.learn(time, now);
        self.heard_at.store(now.nanos(), Ordering::Relaxed);
        self.silent_since.store(0, Ordering::Relaxed);
        let mut rest: Vec<Item> = items.collect();
        let status = match status {
            0 => Status::Busy,
            1 => Status::Done,
            2 => return Err(Fate::Late),
            3 => Status::NotHeld,
            4 => wrong_type(take_text(&mut rest)),
            5 => Status::Tampered(take_text(&mut rest)),
            6 => Status::Refused(refused_in_words(take_text(&mut rest))),
            other => return self.poisoned(script, &format!("the reply has the unknown status {other}")),
        };
        Ok(Answer { status, time, rest, sent })
    }

    /// Answers and questions no longer match on this connection: whatever was answered can't be believed.
    fn poisoned(&self, script: &'static str, why: &str) -> Result<Answer, Fate> {
        say(|| tracing::warn!(target: "lockson", script, why, "gap: the connection is replaced"));
        self.backend.reset();
        Err(Fate::Doubtful(why.to_owned()))
    }

    /// Between a half and the whole of a pause, so that clients drift apart. By chance that a simulation can replay.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        let seed = self.nonce.fetch_add(1, Ordering::Relaxed) ^ self.clock.now().nanos();
        pause * fastrand::Rng::with_seed(seed).u32(512..1024) / 1024
    }
}

fn take_text(rest: &mut Vec<Item>) -> String {
    match rest.pop() {
        Some(Item::Text(text)) => text,
        Some(Item::Int(value)) => value.to_string(),
        Some(Item::Nil) | None => String::new(),
    }
}

/// The command that would tell the type may be the one that is not allowed.
fn wrong_type(text: String) -> Status {
    match Fate::of_error(&text) {
        Some(Fate::Refused(why)) => Status::Refused(why),
        Some(_) => Status::Refused(Refused::Other(text)),
        None => Status::WrongType(text),
    }
}

fn refused_in_words(text: String) -> Refused {
    match Fate::of_error(&text) {
        Some(Fate::Refused(why)) => why,
        _ => Refused::Other(text),
    }
}
