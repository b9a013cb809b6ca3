//! Copies of calls: how one is sent and its answer read; and those without an answer, until when they may run. Rules 6
//! and 24 of docs/PROTOCOL.md.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::node::Node;
use crate::backend::{Call, Fate, Item, Outcome, Script};
use crate::base::clock::{millis, Clock, Moment, ServerTime};
use crate::base::config::Confirm;
use crate::base::janitor::{contain, say};
use crate::metrics::asked;
use crate::wire::confirm::short;
use crate::wire::reply::{refused_in_words, take_text, wrong_type, Answer, Status};

/// A copy on its way, or one that was sent: where to, when, until when it may run by the clock of that node, and how
/// many replicas have to have what it wrote.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) node: Arc<Node>,
    pub(super) at: Moment,
    pub(super) nonce: u64,
    pub(super) not_after: ServerTime,
    pub(super) confirm: Option<(Confirm, u32)>,
}

impl Sent {
    /// It may run yet.
    pub(super) fn doubt(&self) -> Doubt {
        Doubt::new(self.node.clone(), self.not_after)
    }
}

/// A script with its KEYS and ARGV, and by whom what it grants has to be confirmed.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
    pub(crate) confirm: Option<Confirm>,
    /// Whether it takes what nobody holds, as far as its node knows.
    pub(crate) takes: bool,
}

impl<'a> Query<'a> {
    /// One that takes nothing, and that no replica has to confirm.
    pub(crate) fn new(script: &'static Script, keys: &'a [&'a str], args: &'a [&'a str]) -> Self {
        Self { script, keys, args, confirm: None, takes: false }
    }

    /// Where it goes.
    pub(crate) fn key(&self) -> &'a str {
        self.keys.first().copied().unwrap_or_default()
    }
}

/// What numbers copies, and says until when each may run.
pub(super) struct Copies {
    pub(super) clock: Clock,
    pub(super) command_timeout: Duration,
    nonce: AtomicU64,
}

impl Copies {
    pub(super) fn new(clock: Clock, command_timeout: Duration) -> Self {
        Self { clock, command_timeout, nonce: AtomicU64::new(1) }
    }

    /// A copy that is about to be sent.
    pub(super) fn begin(&self, node: &Arc<Node>, confirm: Option<(Confirm, u32)>) -> Sent {
        let at = self.clock.now();
        let (nonce, not_after) = (self.numbers(1), self.latest(node, at));
        Sent { node: node.clone(), at, nonce, not_after, confirm }
    }

    /// The first of so many numbers that nothing else has.
    pub(super) fn numbers(&self, count: usize) -> u64 {
        self.nonce.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// What no answer takes that is not slow.
    pub(super) fn slow(&self) -> Duration {
        self.command_timeout / 4
    }

    /// Until when copies that were sent to this node before `moment` may run.
    pub(super) fn latest(&self, node: &Node, moment: Moment) -> ServerTime {
        node.time_at(moment).saturating_add(millis(self.command_timeout))
    }

    /// Sends a copy, and reads its answer. (No `async fn`: that would have room for what it is given twice.)
    pub(super) fn ask<'a>(
        &'a self,
        sent: &'a Sent,
        script: &'static Script,
        names: &'a [&'a str],
        args: &'a [&'a str],
        asking: bool,
    ) -> impl Future<Output = Result<Answer, Fate>> + Send + 'a {
        let call = move |in_full: bool| {
            let &Sent { ref node, nonce, not_after, confirm, .. } = sent;
            let confirm = confirm.map(|(confirm, wanted)| (wanted, millis(confirm.within)));
            node.link.call(Call { script, names, nonce, not_after, args, in_full, asking, confirm })
        };
        async move {
            let outcome = call(false);
            // One that waits for replicas says nothing of a server that is slow.
            if sent.confirm.is_none() {
                sent.node.asked(sent.at);
            }
            let outcome = match outcome.await {
                // It proves that nothing ran.
                Err(Fate::UnknownScript) => call(true).await,
                outcome => outcome,
            };
            self.heard(script.name, sent, outcome)
        }
    }

    /// Reads what came of a copy.
    fn heard(&self, script: &'static str, sent: &Sent, outcome: Outcome) -> Result<Answer, Fate> {
        let &Sent { ref node, at, .. } = sent;
        if matches!(outcome, Err(Fate::Refused(_) | Fate::UnknownScript | Fate::Moved(_) | Fate::Ask(_))) {
            node.spoke();
        }
        // Unless it has answered others meanwhile.
        if matches!(outcome, Err(Fate::Doubtful(_))) && !node.heard_since(at) {
            node.asked(at);
        }
        let read = outcome.and_then(|items| self.read(script, items, sent));
        let heard = || if read.is_ok() { node.heard() } else { self.clock.now() };
        // A recorder is anybody's code.
        contain(|| asked(script, read.as_ref().map_or_else(Fate::label, |_| "answered"), || heard().since(at)));
        read
    }

    fn read(&self, script: &'static str, mut items: Vec<Item>, sent: &Sent) -> Result<Answer, Fate> {
        let short = sent.confirm.and_then(|(confirm, wanted)| short(&mut items, confirm, wanted));
        let mut items = items.into_iter();
        let (Some(Item::Int(status)), Some(Item::Text(echo)), Some(time)) =
            (items.next(), items.next(), items.next().as_ref().and_then(read_time))
        else {
            return poisoned(&sent.node, script, "the reply has not the shape of a lockson script's");
        };
        if echo.parse() != Ok(sent.nonce) {
            return poisoned(&sent.node, script, "the reply belongs to another call");
        }
        sent.node.answered(time, self.clock.now());
        if sent.node.is_over() {
            // Its writes may be lost with it. The next copy asks the node in its place.
            return Err(Fate::Doubtful(format!("{} is not what it was when this was sent", sent.node.address)));
        }
        let mut rest: Vec<Item> = items.collect();
        let status = match status_of(status, &mut rest) {
            Some(Ok(Status::Done)) => short.map_or(Status::Done, |short| {
                // They are counted anew before the next, unless they have just been seen to be more.
                let asked = sent.confirm.map_or(0, |(_, asked)| asked);
                sent.node.lists((short.wanted > asked).then_some(short.wanted));
                Status::NotConfirmed(short)
            }),
            Some(status) => status?,
            None => return poisoned(&sent.node, script, &format!("the reply has the unknown status {status}")),
        };
        Ok(Answer { status, time, rest, sent: sent.at })
    }
}

/// The server's time, in either of the ways that lua/begin.lua has.
fn read_time(item: &Item) -> Option<ServerTime> {
    match item {
        Item::Int(ms) => Some(*ms),
        Item::Text(text) => {
            let (secs, micros) = text.split_once(':')?;
            let secs = secs.parse::<ServerTime>().ok()?.checked_mul(1000)?;
            secs.checked_add(micros.parse::<ServerTime>().ok()? / 1000)
        }
        Item::Nil => None,
    }
}

/// What the number means that a script answers first, and what follows it.
pub(super) fn status_of(number: i64, rest: &mut Vec<Item>) -> Option<Result<Status, Fate>> {
    Some(Ok(match number {
        0 => Status::Busy,
        1 => Status::Done,
        2 => return Some(Err(Fate::Late)),
        3 => Status::NotHeld,
        4 => wrong_type(take_text(rest)),
        5 => Status::Tampered(take_text(rest)),
        6 => Status::Refused(refused_in_words(take_text(rest))),
        _ => return None,
    }))
}

/// Answers and questions no longer match on this connection: whatever was answered can't be believed.
pub(super) fn poisoned<T>(node: &Node, script: &'static str, why: &str) -> Result<T, Fate> {
    say(|| tracing::warn!(target: "lockson", script, why, "the connection is replaced: its answers do not fit"));
    node.link.reset();
    Err(Fate::Doubtful(why.to_owned()))
}

/// Copies without an answer: each may run until a moment of the clock of the node that it was sent to. Mostly there are
/// none, which takes no memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubt(Box<[(Arc<Node>, ServerTime)]>);

impl Doubt {
    pub(crate) fn new(node: Arc<Node>, not_after: ServerTime) -> Self {
        Self(Box::new([(node, not_after)]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These copies and those.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (node, time) in &other.0 {
            match self.0.iter_mut().find(|(own, _)| Arc::ptr_eq(own, node)) {
                Some((_, own)) => *own = (*own).max(*time),
                None => {
                    let mut copies = std::mem::take(&mut self.0).into_vec();
                    copies.push((node.clone(), *time));
                    self.0 = copies.into();
                }
            }
        }
    }

    /// The same without copies that run no later than those.
    pub(crate) fn forget(&mut self, other: &Self) {
        let mut copies = std::mem::take(&mut self.0).into_vec();
        copies.retain(|(node, time)| !other.0.iter().any(|(its, until)| Arc::ptr_eq(its, node) && time <= until));
        self.0 = copies.into();
    }

    /// Takes them out, if there are any.
    pub(crate) fn take(&mut self) -> Option<Self> {
        Some(std::mem::take(self)).filter(|taken| !taken.is_empty())
    }

    /// Whether none of them can run any more.
    pub(crate) fn is_past(&self) -> bool {
        self.0.iter().all(|(node, time)| node.is_past(*time))
    }

    /// When none of them can run any more. `None`: there are none.
    pub(crate) fn passes(&self) -> Option<Moment> {
        self.0.iter().map(|(node, time)| node.passes(*time)).max()
    }

    /// Waits until none of them can run any more.
    pub(crate) async fn pass(&self) {
        for (node, time) in &self.0 {
            node.pass(*time).await;
        }
    }

    /// Whether a node that got one of them is so many milliseconds further by its clock than that copy may run.
    pub(crate) fn is_past_by(&self, millis: i64) -> bool {
        self.0.iter().any(|(node, time)| node.is_past(time.saturating_add(millis)))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::wire::stub::{Stub, TIMEOUT};

    static SCRIPT: Script = Script::new("test/copy", "", &[]);

    #[test]
    fn doubts_are_taken_once_and_forgotten_with_those_that_run_no_earlier() {
        let nodes = [(); 2].map(|()| Stub::new().node.clone());
        let doubt = |at: usize, time| Doubt::new(nodes.get(at).unwrap().clone(), time);
        for (other, is_left) in [(doubt(0, 6), true), (doubt(0, 7), false), (doubt(0, 8), false), (doubt(1, 8), true)] {
            let mut own = doubt(0, 7);
            own.forget(&other);
            assert_eq!(!own.is_empty(), is_left, "{other:?}");
        }
        let mut own = doubt(0, 7);
        assert!(own.take().is_some_and(|taken| !taken.is_empty()));
        assert!(own.is_empty() && own.take().is_none());
    }

    /// A copy without an answer shows a silent node: not, where that has answered others meanwhile.
    #[tokio::test]
    async fn a_node_is_silent_since_the_first_copy_without_an_answer() {
        let (stub, copies) = (Stub::new(), Copies::new(Clock::System, TIMEOUT));
        for answers_others in [false, true] {
            stub.close();
            stub.tell([Err(Fate::Doubtful("lost".to_owned()))]);
            let sent = copies.begin(&stub.node, None);
            let mut copy = pin!(copies.ask(&sent, &SCRIPT, &[], &[], false));
            assert!(futures::poll!(&mut copy).is_pending());
            if answers_others {
                stub.node.answered(1, Clock::System.now());
            }
            stub.open(1);
            assert!(matches!(copy.await, Err(Fate::Doubtful(_))));
            assert_eq!(stub.node.silent_since().is_none(), answers_others);
        }
    }

    #[test]
    fn no_two_copies_have_one_number() {
        let (stub, copies) = (Stub::new(), Copies::new(Clock::System, TIMEOUT));
        let first = copies.numbers(3);
        assert_eq!((copies.numbers(1), copies.begin(&stub.node, None).nonce), (first + 3, first + 4));
    }
}
