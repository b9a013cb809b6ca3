//! One script call with all its copies: sent, sent again while nobody knows whether it ran, and its answer read.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, OptionFuture};

use crate::backend::node::Node;
pub(crate) use crate::backend::Fate;
use crate::backend::{Backend, Changes, Script};
use crate::base::clock::{millis, Clock, Moment};
pub(crate) use crate::base::fault::Fault;
use crate::base::fault::Refused;
use crate::base::host::Work;
use crate::wire::confirm::wanted;
pub(crate) use crate::wire::doubt::Query;
use crate::wire::doubt::{Copies, Doubt, Sent};
use crate::wire::group::{Groups, Said, Way};
use crate::wire::reply::Answer;

/// The first pause between two copies, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// The longest while a node says that its cluster is down: nobody tells when it is up again, and to ask costs little.
const LONGEST_PAUSE_DOWN: Duration = Duration::from_millis(50);

/// Nodes that one copy is sent on to, one after the other.
const REDIRECTIONS: usize = 5;

/// A call that was given all the copies that its patience allowed.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) result: Result<Answer, Fault>,
    /// Its copies without an answer.
    pub(crate) doubt: Doubt,
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

/// The way to the servers: their nodes, and this client's clock.
pub(crate) struct Wire {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) command_timeout: Duration,
    pub(super) quarantine: Option<Duration>,
    groups: Arc<Groups>,
    closed: AtomicBool,
    /// Whether nothing is to be taken any more.
    refuses: AtomicBool,
}

impl Wire {
    /// `quarantine`: for how long a node in another's place grants nothing. `spawn` begins tasks of the client's.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        clock: Clock,
        command_timeout: Duration,
        quarantine: Option<Duration>,
        spawn: Arc<dyn Fn(Work) + Send + Sync>,
    ) -> Self {
        let groups = Groups::new(Copies::new(clock, command_timeout), spawn);
        let (closed, refuses) = Default::default();
        Self { backend, clock, command_timeout, quarantine, groups, closed, refuses }
    }

    pub(super) fn copies(&self) -> &Copies {
        &self.groups.copies
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

    /// Ends every call that would take something, as soon as it is not answered.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::Release);
    }

    fn is_over(&self, query: &Query<'_>, patience: &Patience, began: Moment, sent: Option<&Sent>) -> bool {
        let silent_since = sent.and_then(|sent| sent.node.silent_since());
        self.closed.load(Ordering::Acquire)
            || query.takes && self.refuses.load(Ordering::Acquire)
            || patience.is_over(self.clock.now(), silent_since, began)
    }

    /// The slot of a key.
    pub(crate) fn slot(&self, key: &str) -> u16 {
        self.backend.slot(key)
    }

    /// Whether the node with this key answered anything after `moment`.
    pub(crate) fn heard_since(&self, key: &str, moment: Moment) -> bool {
        self.backend.node(key).is_ok_and(|node| node.heard_since(moment))
    }

    /// Whether the node with this key has been silent for longer than a slow answer takes, or there is none.
    pub(crate) fn is_silent(&self, key: &str) -> bool {
        self.is_silent_for(key, self.slow())
    }

    /// Whether it has been silent for this long, or there is none.
    pub(crate) fn is_silent_for(&self, key: &str, span: Duration) -> bool {
        self.backend.node(key).map_or(true, |node| node.is_silent(span))
    }

    /// Whether no node is silent.
    pub(crate) fn is_reachable(&self) -> bool {
        let nodes = self.backend.nodes();
        !nodes.is_empty() && nodes.iter().all(|node| !node.is_silent(self.slow()))
    }

    /// What no answer takes that is not slow.
    pub(crate) fn slow(&self) -> Duration {
        self.copies().slow()
    }

    /// Copies of a call for this key that were sent up to now, and whose answers were not heard.
    pub(crate) fn doubt(&self, key: &str) -> Doubt {
        let node = self.backend.node(key).ok();
        node.map_or_else(Doubt::default, |node| {
            let latest = self.copies().latest(&node, self.clock.now());
            Doubt::new(node, latest)
        })
    }

    /// Sends a call until it is answered or patience ends.
    pub(crate) fn call<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [&'a str],
        args: &'a [&'a str],
        patience: &'a Patience,
    ) -> impl Future<Output = Called> + Send + 'a {
        let query = Query::new(script, keys, args);
        async move { self.grant(&query, patience).await }
    }

    /// The same, of what may have to be confirmed. Only here is anything sent again. (No `async fn`, here and below:
    /// each would have room for what it is given twice. Inlined, or it would be moved to where it is awaited.)
    #[inline]
    pub(crate) fn grant<'a>(
        &'a self,
        query: &'a Query<'a>,
        patience: &'a Patience,
    ) -> impl Future<Output = Called> + Send + 'a {
        let began = self.clock.now();
        async move {
            let (mut doubt, mut first_doubt) = (Doubt::default(), Doubt::default());
            let (mut pause, mut changes) = (FIRST_PAUSE, None);
            let mut late: Option<Arc<Node>> = None;
            // What was granted, as far as it went, and was asked for once more.
            let mut granted = None;
            let mut called = loop {
                // What may have run in a group goes alone from here on: it may be what the group met with.
                let (answer, sent) = self.send(query, doubt.is_empty().then_some(patience)).await;
                let is_down = answer.as_ref().is_err_and(Fate::is_down);
                let longest = if is_down { LONGEST_PAUSE_DOWN } else { LONGEST_PAUSE };
                let why = match (answer, &sent) {
                    // There are more replicas than was known, so too few of them were waited for: once.
                    (Ok(answer), Some(Sent { confirm: Some((_, asked)), .. }))
                        if granted.is_none()
                            && answer.is_short_of(*asked)
                            && !self.is_over(query, patience, began, sent.as_ref()) =>
                    {
                        granted = sent.as_ref().map(Sent::doubt);
                        continue;
                    }
                    (Ok(answer), _) => break Called { result: Ok(answer), doubt },
                    (Err(Fate::Refused(why)), _) => break Called { result: Err(Fault::Refused(why)), doubt },
                    // It wrote nothing, and now that node's clock is known: once, that costs no patience.
                    (Err(Fate::Late), Some(Sent { node, .. }))
                        if !late.as_ref().is_some_and(|late| Arc::ptr_eq(late, node))
                            && !overslept(patience, began, &first_doubt) =>
                    {
                        late = Some(node.clone());
                        continue;
                    }
                    (Err(Fate::Late), _) => "this client's idea of the server's clock was behind".to_owned(),
                    (Err(Fate::UnknownScript), _) => {
                        let why = Refused::Other("the server does not keep scripts".to_owned());
                        break Called { result: Err(Fault::Refused(why)), doubt };
                    }
                    (Err(Fate::NotSent(why) | Fate::TryAgain(why)), _) => why,
                    (Err(Fate::Moved(why) | Fate::Ask(why)), _) => why,
                    (Err(Fate::Doubtful(why)), sent) => {
                        doubt.merge(&sent.as_ref().map(Sent::doubt).unwrap_or_default());
                        if patience.one_copy {
                            break Called { result: Err(Fault::Unreachable(why)), doubt };
                        }
                        why
                    }
                };
                if first_doubt.is_empty() {
                    first_doubt.merge(&doubt);
                }
                if self.is_over(query, patience, began, sent.as_ref()) || overslept(patience, began, &first_doubt) {
                    break Called { result: Err(Fault::Unreachable(why)), doubt };
                }
                let changes = changes.get_or_insert_with(|| self.backend.changes());
                pause = self.pause(pause.min(longest), changes).await;
                if self.is_over(query, patience, began, sent.as_ref()) {
                    break Called { result: Err(Fault::Unreachable(why)), doubt };
                }
            };
            if let (Some(granted), Err(_)) = (granted, &called.result) {
                called.doubt.merge(&granted);
            }
            called
        }
    }

    /// Pauses, at most until more is known of the servers. The next pause.
    async fn pause(&self, pause: Duration, changes: &mut Option<Changes>) -> Duration {
        tokio::select! {
            biased;
            () = tokio::time::sleep(self.jittered(pause)) => (pause * 2).min(LONGEST_PAUSE),
            Some(Ok(())) = OptionFuture::from(changes.as_mut().map(Changes::changed)) => FIRST_PAUSE,
        }
    }

    /// Sends one copy. Returns its answer, and the copy itself if it may run yet.
    pub(crate) async fn copy(&self, query: &Query<'_>) -> (Result<Answer, Fate>, Doubt) {
        let (answer, sent) = self.send(query, None).await;
        let in_doubt = sent.filter(|_| matches!(answer, Err(Fate::Doubtful(_))));
        (answer, in_doubt.as_ref().map(Sent::doubt).unwrap_or_default())
    }

    /// The same of what is tried again anyway, whatever became of it. One that was late did nothing, and that node's
    /// clock is known now: once more.
    pub(crate) async fn copy_in_time(&self, query: &Query<'_>) -> Result<Answer, Fate> {
        match self.copy(query).await.0 {
            Err(Fate::Late) => self.copy(query).await.0,
            answer => answer,
        }
    }

    /// Sends one copy to this node, whichever keys it has: for what is its own. A second one if it was late, as its
    /// clock is known then.
    pub(crate) async fn call_at(
        &self,
        node: &Arc<Node>,
        script: &'static Script,
        names: &[&str],
        args: &[&str],
    ) -> Result<Answer, Fate> {
        let mut is_late = false;
        loop {
            let sent = self.copies().begin(node, None);
            match self.copies().ask(&sent, script, names, args, false).await {
                Err(Fate::Late) if !is_late => is_late = true,
                answer => return answer,
            }
        }
    }

    /// Sends one copy to the node that has its first key: with others, if there is a patience that it goes by. One that
    /// was sent elsewhere did not run, so that sending it on is no second one.
    async fn send(&self, query: &Query<'_>, together: Option<&Patience>) -> Said {
        let node = match self.backend.node(query.key()) {
            Ok(node) => node,
            Err(fate) => return (Err(fate), None),
        };
        let sent_on = match self.send_to(&node, query, false, together).await {
            // It is rare, so it takes no room in every call.
            (Err(fate @ (Fate::Moved(_) | Fate::Ask(_) | Fate::Refused(Refused::ReadOnly))), sent) => {
                self.send_on(query, together, node, (Err(fate), sent)).boxed()
            }
            said => return said,
        };
        sent_on.await
    }

    /// Sends on what this node said that it has not.
    async fn send_on(
        &self,
        query: &Query<'_>,
        together: Option<&Patience>,
        mut node: Arc<Node>,
        (mut answer, mut last): Said,
    ) -> Said {
        for left in (0..=REDIRECTIONS).rev() {
            let (to, asking) = match answer {
                Err(Fate::Moved(address)) => (self.backend.moved(query.key(), &address, &node), false),
                Err(Fate::Ask(address)) => (self.backend.asked(&address, &node), true),
                Err(Fate::Refused(Refused::ReadOnly)) if self.backend.demoted(&node) => {
                    let why = format!("{} is a read-only replica", node.address);
                    return (Err(Fate::NotSent(why)), last);
                }
                answer => return (answer, last),
            };
            node = match to {
                Ok(node) if left > 0 => node,
                Ok(_) => break,
                Err(fate) => return (Err(fate), last),
            };
            let said = self.send_to(&node, query, asking, together).await;
            (answer, last) = (said.0, said.1.or(last));
        }
        (Err(Fate::NotSent("it was sent on too often: the cluster is changing".to_owned())), last)
    }

    /// The same, to this node.
    #[inline]
    fn send_to<'a>(
        &'a self,
        node: &'a Arc<Node>,
        query: &'a Query<'a>,
        asking: bool,
        together: Option<&'a Patience>,
    ) -> impl Future<Output = Said> + Send + 'a {
        let may_join = query.script.body.is_some() && query.confirm.is_none() && !asking;
        let together = together.filter(|_| may_join);
        async move {
            if let Err(fate) = self.may_take(query.takes, node, query.key()).await {
                return (Err(fate), None);
            }
            let _turn;
            if let Some(patience) = together {
                match self.groups.join(node, self.slot(query.key()), query, patience.abandoned.as_ref()) {
                    Way::Alone(turn) => _turn = turn,
                    Way::Together(answer) => {
                        if let Ok(said) = answer.await {
                            return said;
                        }
                    }
                }
            }
            let wanted = OptionFuture::from(query.confirm.map(|confirm| wanted(&*self.backend, node, confirm)));
            let confirm = match wanted.await.transpose() {
                Ok(wanted) => query.confirm.zip(wanted),
                Err(fate) => return (Err(fate), None),
            };
            let sent = self.copies().begin(node, confirm);
            let answer = self.copies().ask(&sent, query.script, query.keys, query.args, asking).await;
            (answer, Some(sent))
        }
    }

    /// Between a half and the whole of a pause, so that clients drift apart. By chance that a simulation can replay.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        let seed = self.copies().numbers(1) ^ self.clock.now().nanos();
        pause * fastrand::Rng::with_seed(seed).u32(512..1024) / 1024
    }
}

/// Whether the server's clock is past the end of patience, though the local one is not: it may have stood still. By
/// then the server may have forgotten what the first copy in doubt did.
fn overslept(patience: &Patience, began: Moment, first_doubt: &Doubt) -> bool {
    patience.end.is_some_and(|end| first_doubt.is_past_by(millis(end.since(began))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Item;
    use crate::base::config::{Confirm, Replicas};
    use crate::base::keys::Key::Channel;
    use crate::wire::confirm::Short;
    use crate::wire::reply::Status;
    use crate::wire::stub::{Stub, TIMEOUT};

    static SCRIPT: Script = Script::new("test/call", "", &[]);

    fn not_sent() -> Fate {
        Fate::NotSent("nobody is there".to_owned())
    }

    fn patience() -> Patience {
        Patience::new(Clock::System.now(), TIMEOUT)
    }

    async fn called(stub: &Arc<Stub>, patience: &Patience) -> Called {
        stub.wire().call(&SCRIPT, &["key"], &[], patience).await
    }

    #[tokio::test]
    async fn a_call_is_sent_again_until_its_caller_has_left() {
        let stub = Stub::new();
        stub.tell([Err(not_sent()), Err(not_sent())]);
        assert!(called(&stub, &patience()).await.result.is_ok());
        assert_eq!(stub.asked().len(), 3);
        let flag = Arc::new(AtomicBool::new(true));
        for ended in [patience().unless(flag), patience().until(Clock::System.now())] {
            let stub = Stub::new();
            stub.tell([Err(not_sent()), Err(not_sent())]);
            assert!(matches!(called(&stub, &ended).await.result, Err(Fault::Unreachable(_))));
            assert_eq!(stub.asked().len(), 1, "{ended:?}");
        }
    }

    /// The answer that says so has told the time: a second copy is in time. What goes to one node gets no third one.
    #[tokio::test]
    async fn what_came_too_late_is_sent_once_more() {
        let stub = Stub::new();
        stub.tell([Err(Fate::Late), Ok((1, Vec::new()))]);
        assert!(stub.wire().call_at(&stub.node, &SCRIPT, &[], &[]).await.is_ok());
        stub.tell([Err(Fate::Late), Err(Fate::Late)]);
        assert_eq!(stub.wire().call_at(&stub.node, &SCRIPT, &[], &[]).await.err(), Some(Fate::Late));
        assert_eq!(stub.asked().len(), 4);
    }

    /// Once a node, as then its clock is known; it costs no patience. A second time it does.
    #[tokio::test]
    async fn to_be_late_costs_no_patience_once() {
        let over = || patience().until(Clock::System.now());
        for (fates, is_answered) in [(vec![Fate::Late], true), (vec![Fate::Late, Fate::Late], false)] {
            let (stub, copies) = (Stub::new(), 2);
            stub.tell(fates.into_iter().map(Err));
            assert_eq!(called(&stub, &over()).await.result.is_ok(), is_answered);
            assert_eq!(stub.asked().len(), copies);
        }
    }

    /// Fewer replicas were known than there are: all that there are have to have it, which is asked for once.
    #[tokio::test]
    async fn replicas_that_came_are_waited_for() {
        let confirm = Some(Confirm::new(Replicas::All, Duration::from_secs(1)));
        let answer = |acked, online| Ok((1, vec![Item::Int(acked), Item::Int(online)]));
        let stub = Stub::new();
        stub.list([Ok(1), Ok(2)]);
        stub.tell([answer(1, 2), answer(1, 2)]);
        let (wire, patience) = (stub.wire(), patience());
        let grant = async || {
            let query = &Query { confirm, ..Query::new(&SCRIPT, &["key"], &[]) };
            wire.grant(query, &patience).await.result.unwrap().status
        };
        assert_eq!(grant().await, Status::NotConfirmed(Short { acked: 1, wanted: 2 }));
        let wanted = || stub.asked().iter().map(|asked| asked.wanted).collect::<Vec<_>>();
        assert_eq!(wanted(), [Some(1), Some(2)]);
        assert_eq!(stub.node.replicas(), None, "they are counted anew, as two were known and one has it");
        stub.tell([answer(2, 2)]);
        assert_eq!(grant().await, Status::Done);
        assert_eq!(wanted(), [Some(1), Some(2), Some(2)]);
    }

    #[tokio::test]
    async fn what_a_node_is_asked_for_in_passing_goes_alone() {
        let stub = Stub::new();
        stub.tell([Err(Fate::Ask("elsewhere".to_owned()))]);
        assert!(called(&stub, &patience()).await.result.is_ok());
        assert_eq!(stub.asked().iter().map(|asked| asked.asking).collect::<Vec<_>>(), [false, true]);
    }

    #[tokio::test]
    async fn what_is_known_of_a_node_is_known_of_its_keys() {
        let (stub, before) = (Stub::new(), Clock::System.now());
        let wire = stub.wire();
        assert_eq!((wire.slot("key"), wire.slot("")), (3, 0));
        assert!(!wire.heard_since("key", before));
        assert!(called(&stub, &patience()).await.result.is_ok());
        assert!(wire.heard_since("key", before) && !wire.heard_since("key", Clock::System.now()));
        assert!(!wire.doubt("key").is_empty() && !wire.doubt("key").is_past());
    }

    static TOGETHER: &Script = crate::wire::table::script!(quick "reentrant/release" as 2, [Channel]);

    /// What may go with others does, but for what replicas confirm.
    #[tokio::test]
    async fn what_is_due_at_once_goes_together() {
        let stub = Stub::new();
        let (wire, patience) = (stub.wire(), patience());
        let alone = Some(Confirm::new(Replicas::AtLeast(1), Duration::from_secs(1)));
        let queries = [None, None, alone, None]
            .map(|confirm| Query { confirm, ..Query::new(TOGETHER, &["key", "channel"], &["owner", "1"]) });
        let calls = queries.each_ref().map(|query| wire.grant(query, &patience));
        stub.tell([Ok((1, Vec::new())), Ok((1, vec![Item::Int(1), Item::Int(1)]))]);
        stub.close();
        let opens = async {
            // What goes alone is there first.
            while stub.asked().len() < 2 {
                tokio::task::yield_now().await;
            }
            stub.open(usize::from(u16::MAX));
        };
        let (called, ()) = futures::future::join(futures::future::join_all(calls), opens).await;
        assert!(called.iter().all(|called| called.result.is_ok()));
        let asked: Vec<_> = stub.asked().iter().map(|asked| (asked.script, asked.wanted)).collect();
        assert_eq!(asked, [("reentrant/release", None), ("reentrant/release", Some(1)), ("group", None)]);
    }
}
