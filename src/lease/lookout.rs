//! Looks for the locks of those who sleep, many in one script, in place of an attempt each. Rule 15 of
//! docs/PROTOCOL.md: that is for messages that were lost, and for locks that end without one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::OptionFuture;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::Script;
use crate::base::clock::{millis, Moment};
use crate::base::janitor::contain;
use crate::base::keys::Keys;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Fate, Query, Wire};
use crate::wire::table::script;

/// Locks in one script (rule 12).
const BATCH: usize = 500;
/// Scripts under way at once.
const AT_ONCE: usize = 16;
/// The next script begins so much later for each lock in this one: no more than 80,000 locks, in 160 scripts, a second.
const EACH: Duration = Duration::from_nanos(12_500);

static LOOK: &Script = script!("look", []);

/// Who sleeps until its lock is worth an attempt.
pub(crate) trait Sleeper: Send + Sync {
    fn keys(&self) -> &Arc<Keys>;

    /// It is.
    fn wake(self: Arc<Self>);
}

struct Asleep {
    who: Weak<dyn Sleeper>,
    /// When somebody looked for its lock last.
    since: Moment,
}

/// By slot, as keys of two slots are in no script together; then by number.
type Place = (u16, u64);

/// The loop that looks.
pub(crate) struct Lookout {
    wire: Arc<Wire>,
    /// No sleeper's lock is looked for later than this after it fell asleep, or after the last look.
    cap: Duration,
    asleep: Mutex<BTreeMap<Place, Asleep>>,
    next: AtomicU64,
    /// Rung for the first that falls asleep.
    bell: Notify,
    end: Notify,
}

/// One that sleeps.
pub(crate) struct Watch {
    lookout: Arc<Lookout>,
    place: Place,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let gone = self.lookout.asleep.lock().remove(&self.place);
        drop(gone);
    }
}

impl Lookout {
    pub(crate) fn new(wire: Arc<Wire>, cap: Duration) -> Arc<Self> {
        let (asleep, next, bell, end) = Default::default();
        Arc::new(Self { wire, cap, asleep, next, bell, end })
    }

    /// Looks for its lock, which nobody did since then, until what is returned is dropped.
    pub(crate) fn watch<S: Sleeper + 'static>(self: &Arc<Self>, who: &Arc<S>, since: Moment) -> Watch {
        let place = (self.wire.slot(&who.keys().lock), self.next.fetch_add(1, Ordering::Relaxed));
        let who: Weak<S> = Arc::downgrade(who);
        let mut asleep = self.asleep.lock();
        asleep.insert(place, Asleep { who, since });
        if asleep.len() == 1 {
            self.bell.notify_one();
        }
        Watch { lookout: self.clone(), place }
    }

    pub(crate) fn close(&self) {
        self.end.notify_one();
    }

    pub(crate) async fn run(self: Arc<Self>) {
        tokio::select! {
            biased;
            () = self.end.notified() => {}
            () = self.look_on() => {}
        }
    }

    async fn look_on(&self) {
        loop {
            while self.asleep.lock().is_empty() {
                self.bell.notified().await;
            }
            // Twice a cap, a little more often, so that clients drift apart: each time for those of half a cap ago.
            tokio::time::sleep(self.cap * 3 / 8 + self.wire.jittered(self.cap / 8)).await;
            let mut start = Instant::now();
            let paced = self.due(self.wire.clock.now()).into_iter().map(|batch| {
                let begins = start;
                start += EACH * u32::try_from(batch.len()).unwrap_or_default();
                (begins, batch)
            });
            let looks = stream::iter(paced).for_each_concurrent(AT_ONCE, |(begins, batch)| async move {
                tokio::time::sleep_until(begins).await;
                self.look(batch).await;
            });
            looks.await;
        }
    }

    /// Those whose locks nobody looked for in half a cap, parted: each part is of one slot.
    fn due(&self, now: Moment) -> Vec<Vec<Weak<dyn Sleeper>>> {
        let (mut parts, mut last) = (Vec::new(), None);
        for ((slot, _), asleep) in self.asleep.lock().iter_mut() {
            if now.since(asleep.since) < self.cap / 2 {
                continue;
            }
            asleep.since = now;
            let is_next = last != Some(*slot) || parts.last().is_none_or(|part: &Vec<_>| part.len() == BATCH);
            if is_next {
                parts.push(Vec::new());
            }
            last = Some(*slot);
            if let Some(part) = parts.last_mut() {
                part.push(asleep.who.clone());
            }
        }
        parts
    }

    async fn look(&self, sleepers: Vec<Weak<dyn Sleeper>>) {
        let sleepers: Vec<_> = sleepers.iter().filter_map(Weak::upgrade).collect();
        if sleepers.is_empty() {
            return;
        }
        let keys: Vec<&str> = sleepers.iter().map(|sleeper| &*sleeper.keys().lock).collect();
        // What would not be answered in time is not waited for: the looks behind this one are for other nodes, too.
        let is_silent = keys.first().is_some_and(|key| self.wire.is_silent_for(key, self.wire.command_timeout));
        let asked = OptionFuture::from((!is_silent).then(|| self.ask(&keys))).await;
        let answer = asked.and_then(Result::ok).filter(|answer| answer.status == Status::Done);
        let found: Option<BTreeSet<usize>> =
            answer.map(|answer| (0..answer.items().len()).map(|at| answer.count(at)).collect());
        for (place, sleeper) in (1..).zip(&sleepers) {
            // Without an answer each asks for itself, and is told what there is to be told.
            if found.as_ref().is_none_or(|found| found.contains(&place)) {
                contain(|| sleeper.clone().wake());
            }
        }
    }

    /// One copy: it is asked again anyway. But what is late did nothing, and now that node's clock is known.
    async fn ask(&self, keys: &[&str]) -> Result<Answer, Fate> {
        let soon = millis(self.cap).to_string();
        let args = [soon.as_str()];
        let query = Query::new(LOOK, keys, &args);
        self.wire.copy_in_time(&query).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::base::keys::Naming;
    use crate::wire::stub::Stub;
    #[cfg(feature = "embedded")]
    use crate::wire::stub::TIMEOUT;

    /// Who sleeps, and how often it was woken.
    struct Someone(Arc<Keys>, AtomicU64);

    fn someone(name: &str) -> Arc<Someone> {
        Arc::new(Someone(Arc::new(Keys::new(&Naming::default(), name).unwrap()), AtomicU64::new(0)))
    }

    impl Sleeper for Someone {
        fn keys(&self) -> &Arc<Keys> {
            &self.0
        }

        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The free ones, by their places; without an answer all of them, as each asks for itself then.
    #[tokio::test]
    async fn whose_lock_is_free_is_woken() {
        let stub = Stub::new();
        let lookout = Lookout::new(Arc::new(stub.wire()), Duration::from_secs(1));
        let sleepers = ["a", "b", "c"].map(someone);
        let look = async || {
            let weak: Vec<Weak<dyn Sleeper>> = sleepers
                .iter()
                .map(|sleeper| {
                    let weak: Weak<Someone> = Arc::downgrade(sleeper);
                    weak as _
                })
                .collect();
            lookout.look(weak).await;
            sleepers.each_ref().map(|sleeper| sleeper.1.swap(0, Ordering::Relaxed))
        };
        stub.tell([Ok((1, vec![crate::backend::Item::Int(2)]))]);
        assert_eq!(look().await, [0, 1, 0]);
        stub.tell([Ok((1, Vec::new()))]);
        assert_eq!(look().await, [0, 0, 0]);
        stub.tell([Err(Fate::Doubtful("lost".to_owned()))]);
        assert_eq!(look().await, [1, 1, 1]);
        stub.tell([Ok((4, vec![crate::backend::Item::Text("WRONGTYPE".to_owned())]))]);
        assert_eq!(look().await, [1, 1, 1], "what it answers is no list");
        let args: Vec<_> = stub.asked().into_iter().map(|asked| asked.args).collect();
        assert_eq!(args, vec![vec!["1000"]; 4]);
    }

    /// One script for each slot: those of a node that is away would keep the looks at all others for a time limit each.
    #[tokio::test]
    async fn a_silent_node_is_not_waited_for() {
        let (stub, limit) = (Stub::new(), Duration::from_millis(4));
        let wire = Wire::new(stub.clone(), Clock::System, limit, None, Arc::new(|work| drop(tokio::spawn(work))));
        let lookout = Lookout::new(Arc::new(wire), Duration::from_secs(1));
        let sleeper = someone("a");
        let look = async || {
            let weak: Weak<Someone> = Arc::downgrade(&sleeper);
            lookout.look(vec![weak]).await;
            (sleeper.1.swap(0, Ordering::Relaxed), stub.asked().len())
        };
        assert_eq!(look().await, (0, 1));
        // It was asked long ago.
        stub.node.asked(Moment::from_nanos(1));
        assert_eq!(look().await, (1, 1), "nothing is sent");
        stub.node.spoke();
        assert_eq!(look().await, (0, 2));
    }

    /// One script has keys of one slot, and no more than so many.
    #[tokio::test]
    async fn those_who_sleep_are_looked_for_slot_by_slot() {
        let lookout = Lookout::new(Arc::new(Stub::new().wire()), Duration::from_secs(1));
        let now = lookout.wire.clock.now();
        // The slot is the length of the name here.
        let many = (0..BATCH).map(|at| format!("{at:05}"));
        let names = ["aa", "b", "cc", "d"].map(str::to_owned).into_iter().chain(many);
        let sleepers = names.map(|name| someone(&name));
        let sleepers: Vec<_> = sleepers.collect();
        let watched: Vec<_> = sleepers.iter().map(|sleeper| lookout.watch(sleeper, now)).collect();
        let due = |now| lookout.due(now).iter().map(Vec::len).collect::<Vec<_>>();
        assert!(due(now.after(lookout.cap / 4)).is_empty(), "somebody looked a moment ago");
        let later = now.after(lookout.cap / 2);
        let more = someone("12345");
        let one_more = lookout.watch(&more, now);
        assert_eq!(due(later), [2, 2, BATCH, 1]);
        assert!(due(later).is_empty(), "they were looked for");
        drop((watched, one_more));
        assert!(lookout.asleep.lock().is_empty());
    }

    /// No later than a cap after the last look, and not much earlier: what looks are for is to ask seldom.
    #[cfg(feature = "embedded")]
    #[tokio::test(start_paused = true)]
    async fn a_lock_is_looked_for_about_once_a_cap() {
        const CAPS: u32 = 100;
        let (stub, cap) = (Stub::new(), Duration::from_secs(1));
        let clock = Clock::Tokio(Instant::now(), Box::leak(Box::default()));
        let wire = Wire::new(stub.clone(), clock, TIMEOUT, None, Arc::new(|work| drop(tokio::spawn(work))));
        let lookout = Lookout::new(Arc::new(wire), cap);
        let looks = tokio::spawn(lookout.clone().run());
        let sleeper = someone("a");
        let _watch = lookout.watch(&sleeper, clock.now());
        tokio::time::sleep(cap * CAPS).await;
        let asked = stub.asked().len();
        assert!((100..=115).contains(&asked), "{asked} looks in {CAPS} caps");
        lookout.close();
        looks.await.unwrap();
    }
}
