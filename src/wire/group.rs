//! Calls that are due at once go as one script: who finds another one under way waits for those that come now, and goes
//! with them. Rule 26 of docs/PROTOCOL.md.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::backend::node::Node;
use crate::backend::{Fate, Item, Script};
use crate::base::fault::Refused;
use crate::base::host::Work;
use crate::base::janitor::contain;
use crate::base::keys::Key::Channel;
use crate::wire::doubt::{poisoned, status_of, Copies, Query, Sent};
use crate::wire::reply::{take_text, Answer};
use crate::wire::table::script;

/// Calls in one script (rule 12).
const MOST: usize = 128;
/// So many that wait are worth a group of their own.
const FEW: usize = 32;
/// Groups under way at once: while the server works on one, the next is made.
const AT_ONCE: usize = 4;
/// Arguments of a call, at most.
const ARGS: usize = 3;
/// Room for the body, and for the new lines.
const LINES: usize = 8;
/// What one says that is done.
const DONE: i64 = 1;
/// What a call has to say of an error that its script raised.
const RAISED: i64 = 7;

static GROUP: &Script = script!(
    quick "group" of ("reentrant/acquire", "reentrant/release", "plain/acquire", "plain/release") after "announce",
    [Channel]
);

/// What became of a copy, and the copy itself if it was sent and has no answer.
pub(super) type Said = (Result<Answer, Fate>, Option<Sent>);

/// How a copy goes.
pub(super) enum Way {
    /// At once, by its caller. Those who come before this is dropped go together.
    Alone(Turn),
    /// With others. Ended without a word, it did not run, and its caller sends it alone.
    Together(oneshot::Receiver<Said>),
}

/// A node, and a slot of it: one script has keys of one slot.
type Place = (usize, u16);

/// What is under way to one place, and who waits there.
#[derive(Default)]
struct Lane {
    alone: usize,
    groups: usize,
    waiting: VecDeque<Waiting>,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.alone == 0 && self.groups == 0
    }
}

/// The calls of one client that may go together.
pub(super) struct Groups {
    pub(super) copies: Copies,
    lanes: Mutex<BTreeMap<Place, Lane>>,
    /// Begins a task of the client's own: what a caller polls, or does not poll, holds up nobody else.
    spawn: Arc<dyn Fn(Work) + Send + Sync>,
}

/// One of those that are under way, until it is dropped.
pub(super) struct Turn {
    groups: Arc<Groups>,
    place: Place,
    under_way: fn(&mut Lane) -> &mut usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lanes = self.groups.lanes.lock();
        let Some(lane) = lanes.get_mut(&self.place) else { return };
        *(self.under_way)(lane) -= 1;
        // Who came after the last look goes alone.
        let left = if lane.groups == 0 { std::mem::take(&mut lane.waiting) } else { VecDeque::new() };
        // Most clients have one, which stays.
        if lane.is_idle() && lanes.len() > 1 {
            lanes.remove(&self.place);
        }
        drop(lanes);
        let_go(left);
    }
}

/// Without a word. Wakers are anybody's code: one that panics keeps none of the others.
fn let_go(calls: impl IntoIterator<Item = Waiting>) {
    for call in calls {
        contain(|| drop(call));
    }
}

/// A copy that waits for its group.
struct Waiting {
    script: &'static Script,
    /// The body, the channel and the arguments, each in a line, as lua/group.lua reads them; and behind them its key.
    /// None has a new line in it, as names, labels and owners have no control characters.
    text: String,
    /// Where the key begins.
    key: usize,
    args: usize,
    /// Whether it has a channel.
    announces: bool,
    abandoned: Option<Arc<AtomicBool>>,
    said: oneshot::Sender<Said>,
}

impl Waiting {
    fn new(query: &Query<'_>, abandoned: Option<&Arc<AtomicBool>>, said: oneshot::Sender<Said>) -> Self {
        let mut names = query.keys.iter().copied();
        let (key, channel) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        let lengths = query.args.iter().map(|arg| arg.len()).sum::<usize>() + channel.len() + key.len();
        let mut text = String::with_capacity(lengths + LINES);
        text.push_str(query.script.body.unwrap_or_default());
        text.push('\n');
        text.push_str(channel);
        for at in 0..ARGS {
            text.push('\n');
            text.push_str(query.args.get(at).copied().unwrap_or_default());
        }
        let begins = text.len();
        text.push_str(key);
        let (args, announces) = (query.args.len(), !channel.is_empty());
        Self { script: query.script, text, key: begins, args, announces, abandoned: abandoned.cloned(), said }
    }

    /// What is of it in ARGV, and its key.
    fn words(&self) -> (&str, &str) {
        self.text.split_at_checked(self.key).unwrap_or_default()
    }

    fn args(&self) -> impl Iterator<Item = &str> {
        self.words().0.split('\n').skip(2).take(self.args)
    }

    fn channel(&self) -> Option<&str> {
        self.words().0.split('\n').nth(1).filter(|_| self.announces)
    }

    /// Nobody waits for it any more.
    fn is_over(&self) -> bool {
        self.said.is_closed() || self.abandoned.as_ref().is_some_and(|flag| flag.load(Ordering::Acquire))
    }
}

/// Copies on their way together. Dropped half-way, each is in doubt.
struct Flight {
    calls: Vec<Waiting>,
    sent: Sent,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.calls.is_empty() {
            self.end(&Fate::Doubtful("the task that waits for the answer has ended".to_owned()));
        }
    }
}

impl Flight {
    /// None of them has an answer.
    fn end(&mut self, fate: &Fate) {
        self.calls.reverse();
        while let Some(call) = self.calls.pop() {
            call.tell(Err(fate.clone()), &self.sent);
        }
    }
}

impl Groups {
    pub(super) fn new(copies: Copies, spawn: Arc<dyn Fn(Work) + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { copies, lanes: Mutex::default(), spawn })
    }

    /// How a copy to this node goes, which may go with others.
    pub(super) fn join(
        self: &Arc<Self>,
        node: &Arc<Node>,
        slot: u16,
        query: &Query<'_>,
        abandoned: Option<&Arc<AtomicBool>>,
    ) -> Way {
        let place = (Arc::as_ptr(node).addr(), slot);
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(place).or_default();
        if lane.is_idle() || node.is_silent(self.copies.slow()) {
            lane.alone += 1;
            return Way::Alone(Turn { groups: self.clone(), place, under_way: |lane| &mut lane.alone });
        }
        let (said, answer) = oneshot::channel();
        lane.waiting.push_back(Waiting::new(query, abandoned, said));
        if lane.groups == 0 || lane.groups < AT_ONCE && lane.waiting.len() >= FEW {
            lane.groups += 1;
            drop(lanes);
            self.begin(node, place);
        }
        Way::Together(answer)
    }

    /// Begins a task, which is counted already.
    fn begin(self: &Arc<Self>, node: &Arc<Node>, place: Place) {
        let turn = Turn { groups: self.clone(), place, under_way: |lane| &mut lane.groups };
        (self.spawn)(Box::pin(turn.carry(node.clone())));
    }

    /// Takes the next group: of many a half, so that the server has one to work on while the next is written. Who gives
    /// back comes first: what is freed may be needed by who takes.
    fn take(&self, place: Place) -> Vec<Waiting> {
        let mut taken: Vec<Waiting> = Vec::new();
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.get_mut(&place) {
            let waiting = lane.waiting.len();
            let count = waiting.div_ceil(2).clamp(FEW, MOST).min(waiting);
            taken.extend(lane.waiting.drain(..count));
        }
        drop(lanes);
        taken.sort_by_key(|call| !call.announces);
        taken
    }

    /// Has all who wait sent now.
    fn relieve(self: &Arc<Self>, node: &Arc<Node>, place: Place) {
        let mut lanes = self.lanes.lock();
        let Some(lane) = lanes.get_mut(&place) else { return };
        // None takes fewer, but the last.
        let groups = lane.waiting.len().div_ceil(FEW);
        lane.groups += groups;
        drop(lanes);
        (0..groups).for_each(|_| self.begin(node, place));
    }

    async fn fly(&self, node: &Arc<Node>, calls: Vec<Waiting>) {
        let mut flight = Flight { calls, sent: self.copies.begin(node, None) };
        match &*flight.calls {
            [] => {}
            [call] => {
                let names: Vec<&str> = iter::once(call.words().1).chain(call.channel()).collect();
                let args: Vec<&str> = call.args().collect();
                let answer = self.copies.ask(&flight.sent, call.script, &names, &args, false).await;
                flight.tell(answer);
            }
            calls => {
                // Where the scripts of one call have their channel, this one has none.
                let names: Vec<&str> = iter::once("").chain(calls.iter().map(|call| call.words().1)).collect();
                let args: Vec<&str> = calls.iter().map(|call| call.words().0).collect();
                let answer = self.copies.ask(&flight.sent, GROUP, &names, &args, false).await;
                flight.land(answer);
            }
        }
    }
}

impl Waiting {
    /// Who went away knows what it may have left.
    fn tell(self, answer: Result<Answer, Fate>, sent: &Sent) {
        let sent = answer.is_err().then(|| sent.clone());
        contain(|| drop(self.said.send((answer, sent))));
    }
}

impl Flight {
    /// The answer of the only one.
    fn tell(&mut self, answer: Result<Answer, Fate>) {
        if let Some(call) = self.calls.pop() {
            call.tell(answer, &self.sent);
        }
    }

    /// Tells each what became of it.
    fn land(&mut self, answer: Result<Answer, Fate>) {
        let answer = match answer {
            // One of them is what the server refuses, or has not: none of them ran.
            Err(Fate::Refused(why)) if !matches!(why, Refused::Other(_)) => return let_go(self.calls.drain(..)),
            Err(Fate::TryAgain(_)) => return let_go(self.calls.drain(..)),
            // What it ran before that is not known.
            Err(Fate::Refused(why)) => return self.end(&Fate::Doubtful(why.to_string())),
            Err(fate) => return self.end(&fate),
            Ok(answer) => answer,
        };
        let lines = answer.text(0).into_iter().flat_map(|lines| lines.split('\n')).map(Line::of);
        let lines = lines.collect::<Option<Vec<_>>>().filter(|lines| lines.len() == self.calls.len());
        let Some(lines) = lines else {
            let poisoned = poisoned(&self.sent.node, GROUP.name, "the reply has not the shape of a group's");
            return poisoned.unwrap_or_else(|fate| self.end(&fate));
        };
        self.calls.reverse();
        for line in lines {
            let Some(call) = self.calls.pop() else { return };
            call.tell(self.read(&line, &answer), &self.sent);
        }
    }

    fn read(&self, line: &Line<'_>, group: &Answer) -> Result<Answer, Fate> {
        // What is done has a number, if anything.
        let item = |value: &str| match (line.status, value.parse()) {
            (DONE, Ok(number)) => Item::Int(number),
            _ => Item::Text(value.to_owned()),
        };
        let mut rest: Vec<Item> = line.value.map(item).into_iter().collect();
        if line.status == RAISED {
            let text = take_text(&mut rest);
            return Err(Fate::of_error(&text).unwrap_or(Fate::Doubtful(text)));
        }
        let status = status_of(line.status, &mut rest)
            .unwrap_or_else(|| poisoned(&self.sent.node, GROUP.name, "the reply has an unknown status"))?;
        Ok(Answer { status, time: group.time, rest, sent: group.sent })
    }
}

/// What one of them answered: its status, and a value if it has one, which may have blanks. Between them stand the
/// blanks around a nonce and a time, which the whole group has.
struct Line<'a> {
    status: i64,
    value: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (status, rest) = line.split_at_checked(1)?;
        let rest = rest.strip_prefix("  ")?;
        let value = rest.strip_prefix(' ');
        (value.is_some() || rest.is_empty()).then_some(Self { status: status.parse().ok()?, value })
    }
}

impl Turn {
    /// Sends one group after the other, until nobody waits.
    async fn carry(self, node: Arc<Node>) {
        let groups = self.groups.clone();
        loop {
            // Who is due comes first: all of them go together.
            yield_now().await;
            let calls = groups.take(self.place);
            if calls.is_empty() {
                return;
            }
            let (over, calls) = calls.into_iter().partition(Waiting::is_over);
            Self::leave_out(over);
            let mut flight = pin!(groups.fly(&node, calls));
            tokio::select! {
                biased;
                () = &mut flight => continue,
                () = tokio::time::sleep(groups.copies.slow()) => {}
            }
            // The server is silent, or this answer is lost: from here on nobody waits for it but who is in it.
            groups.relieve(&node, self.place);
            drop(self);
            return flight.await;
        }
    }

    fn leave_out(calls: Vec<Waiting>) {
        for call in calls {
            let over = Fate::NotSent("nobody waits for it any more".to_owned());
            contain(|| drop(call.said.send((Err(over), None))));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake, Waker};

    use futures::future::{join_all, FutureExt};

    use super::*;
    use crate::base::clock::Clock;
    use crate::wire::stub::{Stub, TIMEOUT};

    static SCRIPT: &Script = script!(quick "reentrant/release" as 2, [Channel]);

    /// The calls of a client, and how many tasks they began.
    fn groups() -> (Arc<Groups>, Arc<AtomicUsize>) {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let spawn = move |work| {
            count.fetch_add(1, Ordering::Relaxed);
            drop(tokio::spawn(work));
        };
        (Groups::new(Copies::new(Clock::System, TIMEOUT), Arc::new(spawn)), begun)
    }

    /// So many calls that come while one is under way.
    fn joined(groups: &Arc<Groups>, stub: &Stub, count: usize) -> Vec<oneshot::Receiver<Said>> {
        let ways = (0..count).map(|_| groups.join(&stub.node, 7, &Query::new(SCRIPT, &["key"], &["word"]), None));
        let receivers = ways.map(|way| match way {
            Way::Together(receiver) => receiver,
            Way::Alone(_) => panic!("one is under way"),
        });
        receivers.collect()
    }

    fn alone(groups: &Arc<Groups>, stub: &Stub) -> Turn {
        match groups.join(&stub.node, 7, &Query::new(SCRIPT, &["key"], &["word"]), None) {
            Way::Alone(turn) => turn,
            Way::Together(_) => panic!("nothing is under way"),
        }
    }

    async fn until_asked(stub: &Stub, count: usize) {
        while stub.asked().len() < count {
            yield_now().await;
        }
    }

    async fn until_idle(groups: &Groups) {
        while !groups.lanes.lock().values().all(Lane::is_idle) {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_comes_while_one_is_under_way_goes_together() {
        let (stub, (groups, begun)) = (Stub::new(), groups());
        let first = alone(&groups, &stub);
        let others = joined(&groups, &stub, 3);
        // Whoever ends first: those that wait are its group's.
        drop(first);
        for said in join_all(others).await {
            let (Ok(answer), None) = said.unwrap() else { panic!("it has an answer") };
            assert_eq!(answer.status, crate::wire::reply::Status::Done);
        }
        let asked: Vec<_> = stub.asked().iter().map(|asked| (asked.script, asked.args.len())).collect();
        assert_eq!((asked, begun.load(Ordering::Relaxed)), (vec![("group", 3)], 1));
        until_idle(&groups).await;
        drop(alone(&groups, &stub));
    }

    /// While a group is under way another one begins where many wait, up to four.
    #[tokio::test]
    async fn many_that_wait_are_groups_of_their_own() {
        let (stub, (groups, begun)) = (Stub::new(), groups());
        stub.close();
        let first = alone(&groups, &stub);
        let one = joined(&groups, &stub, 1);
        until_asked(&stub, 1).await;
        let few = joined(&groups, &stub, FEW - 1);
        assert_eq!(begun.load(Ordering::Relaxed), 1, "they wait for the next");
        let more = joined(&groups, &stub, 1);
        until_asked(&stub, 2).await;
        assert_eq!(stub.asked().iter().map(|asked| asked.args.len()).collect::<Vec<_>>(), [1, FEW]);
        stub.open(usize::from(u16::MAX));
        for said in join_all(one.into_iter().chain(few).chain(more)).await {
            assert!(said.unwrap().0.is_ok());
        }
        drop(first);
    }

    /// What is not the answer of so many calls is nobody's: each of them is in doubt, and none is sent again.
    #[tokio::test]
    async fn an_answer_of_another_shape_leaves_each_in_doubt() {
        for lines in ["1  ", "1  \n1  \n1  ", "1  \n1 9 0", "1  \nwhat", "1  \n1  0", "1  \n"] {
            let (stub, (groups, _)) = (Stub::new(), groups());
            let first = alone(&groups, &stub);
            stub.tell([Ok((1, vec![Item::Text(lines.to_owned())]))]);
            for said in join_all(joined(&groups, &stub, 2)).await {
                assert!(matches!(said.unwrap(), (Err(Fate::Doubtful(_)), Some(_))));
            }
            drop(first);
        }
    }

    /// What the server refuses, or has not, ran nowhere: each is sent alone. Else what ran before that is not known.
    #[tokio::test]
    async fn only_what_surely_did_not_run_is_sent_alone() {
        for (fate, is_in_doubt) in [
            (Fate::Refused(Refused::OutOfMemory), false),
            (Fate::TryAgain("elsewhere".to_owned()), false),
            (Fate::Refused(Refused::Other("what".to_owned())), true),
            (Fate::Doubtful("lost".to_owned()), true),
        ] {
            let (stub, (groups, _)) = (Stub::new(), groups());
            let first = alone(&groups, &stub);
            stub.tell([Err(fate.clone())]);
            for said in join_all(joined(&groups, &stub, 2)).await {
                match said {
                    Ok((Err(Fate::Doubtful(_)), Some(_))) => assert!(is_in_doubt, "{fate:?}"),
                    Ok(_) => panic!("{fate:?}: another answer"),
                    Err(_) => assert!(!is_in_doubt, "{fate:?}"),
                }
            }
            drop(first);
        }
    }

    /// A task that is dropped half-way leaves each of its calls in doubt, and one that has told all leaves none.
    #[tokio::test]
    async fn a_flight_that_is_dropped_leaves_each_in_doubt() {
        let (stub, (groups, _)) = (Stub::new(), groups());
        stub.close();
        let said = || oneshot::channel();
        let ((first, first_said), (second, second_said)) = (said(), said());
        let query = Query::new(SCRIPT, &["key"], &["word"]);
        let calls = [first, second].map(|said| Waiting::new(&query, None, said));
        let mut flight = Box::pin(groups.fly(&stub.node, calls.into()));
        assert!(futures::poll!(&mut flight).is_pending());
        drop(flight);
        for said in [first_said, second_said] {
            assert!(matches!(said.await, Ok((Err(Fate::Doubtful(_)), Some(_)))));
        }
    }

    /// Behind a server that is slow to answer nobody waits: those that came go together, now.
    #[tokio::test(start_paused = true)]
    async fn who_waits_behind_a_slow_answer_is_sent() {
        let (stub, (groups, begun)) = (Stub::new(), groups());
        stub.close();
        let first = alone(&groups, &stub);
        let one = joined(&groups, &stub, 1);
        until_asked(&stub, 1).await;
        let others = joined(&groups, &stub, 10);
        tokio::time::sleep(groups.copies.slow() * 3 / 2).await;
        assert_eq!(stub.asked().iter().map(|asked| asked.args.len()).collect::<Vec<_>>(), [1, 10]);
        let under_way: usize = groups.lanes.lock().values().map(|lane| lane.groups).sum();
        assert_eq!((begun.load(Ordering::Relaxed), under_way), (2, 1), "the one that is late has left its place");
        stub.open(usize::from(u16::MAX));
        for said in join_all(one.into_iter().chain(others)).await {
            assert!(said.unwrap().0.is_ok());
        }
        drop(first);
        until_idle(&groups).await;
    }

    /// A group for each half of those that wait, and no more than four at once.
    #[tokio::test]
    async fn no_more_than_four_groups_are_under_way() {
        let (stub, (groups, begun)) = (Stub::new(), groups());
        stub.close();
        let first = alone(&groups, &stub);
        let mut said = joined(&groups, &stub, 1);
        until_asked(&stub, 1).await;
        for count in 1..=AT_ONCE + 2 {
            said.extend(joined(&groups, &stub, FEW));
            let expected = (1 + count).min(AT_ONCE);
            until_asked(&stub, expected).await;
            assert_eq!((begun.load(Ordering::Relaxed), stub.asked().len()), (expected, expected));
        }
        stub.open(usize::from(u16::MAX));
        for said in join_all(said).await {
            assert!(said.unwrap().0.is_ok());
        }
        drop(first);
    }

    /// Whoever is alone goes alone however many do, and who comes behind them waits for all of them.
    #[tokio::test]
    async fn an_empty_place_is_left_but_the_last() {
        let (stub, (groups, _)) = (Stub::new(), groups());
        let there = |slot| groups.join(&stub.node, slot, &Query::new(SCRIPT, &["key"], &["word"]), None);
        let places = || groups.lanes.lock().len();
        let [one, other] = [there(1), there(2)];
        assert!(matches!((&one, &other), (Way::Alone(_), Way::Alone(_))));
        let third = there(2);
        assert!(matches!(third, Way::Together(_)));
        drop(other);
        assert_eq!(places(), 2, "somebody waits there");
        let Way::Together(said) = third else { panic!("one was under way") };
        assert!(matches!(said.await, Ok((Ok(_), None))));
        while groups.lanes.lock().len() == 2 {
            yield_now().await;
        }
        drop(one);
        until_idle(&groups).await;
        assert_eq!(places(), 1);
        drop(there(2));
        assert_eq!(places(), 1, "the only one stays");
    }

    /// One that is alone in its group goes as it would by itself, with its channel.
    #[tokio::test]
    async fn a_group_of_one_is_a_call() {
        let (stub, (groups, _)) = (Stub::new(), groups());
        for names in [&["key"][..], &["key", "channel"]] {
            let first = alone(&groups, &stub);
            let query = Query::new(SCRIPT, names, &["owner", "ms"]);
            let Way::Together(said) = groups.join(&stub.node, 7, &query, None) else { panic!("one is under way") };
            assert!(matches!(said.await, Ok((Ok(_), None))));
            let asked = stub.asked().pop().unwrap();
            assert_eq!(
                (asked.script, asked.names),
                ("reentrant/release", names.iter().map(|n| n.to_string()).collect())
            );
            assert_eq!(asked.args, ["owner", "ms"]);
            drop(first);
            until_idle(&groups).await;
        }
    }

    /// Who gives back, and so has a channel, comes first.
    #[tokio::test]
    async fn who_gives_back_comes_first() {
        let (stub, (groups, _)) = (Stub::new(), groups());
        let first = alone(&groups, &stub);
        let calls = [&["takes"][..], &["gives", "channel"], &["takes too"]]
            .map(|names| groups.join(&stub.node, 7, &Query::new(SCRIPT, names, &["word"]), None));
        until_asked(&stub, 1).await;
        let asked = stub.asked();
        assert!(matches!(&asked[..], [group] if group.names == ["", "gives", "takes", "takes too"]));
        drop((first, calls));
    }

    /// Nobody waits for it, or its caller went away: it is not sent.
    #[tokio::test]
    async fn what_nobody_waits_for_is_left_out() {
        let (stub, (groups, _)) = (Stub::new(), groups());
        let first = alone(&groups, &stub);
        let gone = Arc::new(AtomicBool::new(true));
        let here = Arc::new(AtomicBool::new(false));
        let mut said = Vec::new();
        for (key, flag) in [("none", None), ("gone", Some(&gone)), ("here", Some(&here)), ("closed", Some(&here))] {
            match groups.join(&stub.node, 7, &Query::new(SCRIPT, &[key], &["word"]), flag) {
                Way::Together(answer) => said.push(answer),
                Way::Alone(_) => panic!("one is under way"),
            }
        }
        drop(said.pop());
        let said: Vec<_> = join_all(said).await.into_iter().map(Result::unwrap).collect();
        assert!(matches!(&said[..], [(Ok(_), None), (Err(Fate::NotSent(_)), None), (Ok(_), None)]));
        let asked = stub.asked();
        assert!(matches!(&asked[..], [group] if group.names == ["", "none", "here"]));
        drop(first);
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that does");
        }
    }

    /// Whether they are answered, or go alone; also where two of them do.
    #[tokio::test]
    async fn wakers_that_panic_spoil_none_of_the_others() {
        for outcome in [None, Some(Err(Fate::TryAgain("some of its keys are elsewhere".to_owned())))] {
            let (stub, (groups, _)) = (Stub::new(), groups());
            let (first, is_answered) = (alone(&groups, &stub), outcome.is_none());
            stub.tell(outcome);
            let mut rude = joined(&groups, &stub, 5);
            let others = rude.split_off(2);
            let waker = Waker::from(Arc::new(Panics));
            for said in &mut rude {
                assert!(said.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
            }
            for said in join_all(others).await {
                assert_eq!(matches!(said, Ok((Ok(_), None))), is_answered);
            }
            drop((first, rude));
        }
    }

    /// Each has the status, the value and the error of its own line.
    #[tokio::test]
    async fn each_has_an_answer_of_its_own() {
        let (stub, (groups, _)) = (Stub::new(), groups());
        let first = alone(&groups, &stub);
        let lines = ["1   a value", "3  ", "7   NOPERM no right", "7   what else", "9  "].join("\n");
        stub.tell([Ok((1, vec![Item::Text(lines)]))]);
        let said = join_all(joined(&groups, &stub, 5)).await;
        let mut said = said.into_iter().map(|said| said.unwrap().0);
        let done = said.next().unwrap().unwrap();
        assert_eq!((done.status.clone(), done.text(0)), (crate::wire::reply::Status::Done, Some("a value")));
        assert_eq!(said.next().unwrap().unwrap().status, crate::wire::reply::Status::NotHeld);
        assert!(matches!(said.next().unwrap(), Err(Fate::Refused(Refused::NoPermission(_)))));
        assert!(matches!(said.next().unwrap(), Err(Fate::Doubtful(_))));
        assert!(matches!(said.next().unwrap(), Err(Fate::Doubtful(_))));
        drop(first);
    }
}
