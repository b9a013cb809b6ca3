//! What a client counts and times, for the `metrics` facade. Without the feature nothing is.
#![cfg_attr(not(feature = "metrics"), allow(unused_variables))]

#[cfg(feature = "metrics")]
use std::cell::RefCell;
#[cfg(feature = "metrics")]
use std::collections::{BTreeSet, HashMap};
use std::fmt;
#[cfg(feature = "metrics")]
use std::hash::{BuildHasherDefault, Hash, Hasher};
#[cfg(feature = "metrics")]
use std::ptr;
#[cfg(feature = "metrics")]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "metrics")]
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[cfg(feature = "metrics")]
use metrics::{
    counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram, Counter, Gauge, Histogram, Label,
    SharedString, Unit,
};
#[cfg(feature = "metrics")]
use parking_lot::Mutex;
#[cfg(feature = "metrics")]
use tokio::time::Instant;

/// So many classes of names at most: each is a time series of its own.
#[cfg(feature = "metrics")]
const MOST_CLASSES: usize = 100;

/// What the names of locks are called in metrics, if they are called anything.
#[derive(Clone, Default)]
pub(crate) struct Classes(#[cfg(feature = "metrics")] Option<Arc<Known>>);

#[cfg(feature = "metrics")]
struct Known {
    class: Box<dyn Fn(&str) -> String + Send + Sync>,
    seen: Mutex<BTreeSet<Arc<str>>>,
}

#[cfg(feature = "metrics")]
impl Known {
    fn of(&self, name: &str) -> Arc<str> {
        let class: Arc<str> = (self.class)(name).into();
        let mut seen = self.seen.lock();
        match seen.get(&class) {
            Some(seen) => seen.clone(),
            None if seen.len() >= MOST_CLASSES => {
                let other = seen.get("other").cloned().unwrap_or_else(|| "other".into());
                seen.insert(other.clone());
                other
            }
            None => {
                seen.insert(class.clone());
                class
            }
        }
    }
}

/// The class of one name, and the holds of it, which are found once.
#[derive(Default)]
pub(crate) struct Class(
    #[cfg(feature = "metrics")] Option<Arc<str>>,
    #[cfg(feature = "metrics")] OnceLock<Arc<UnderWay>>,
);

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "metrics")]
        return write!(f, "Class({:?})", self.0);
        #[cfg(not(feature = "metrics"))]
        f.write_str("Class")
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classes")
    }
}

impl Classes {
    #[cfg(feature = "metrics")]
    pub(crate) fn new(class: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Known { class: Box::new(class), seen: Mutex::default() })))
    }

    /// Those that come when there are very many are all `other`.
    pub(crate) fn of(&self, name: &str) -> Class {
        #[cfg(feature = "metrics")]
        return Class(self.0.as_ref().map(|known| known.of(name)), OnceLock::new());
        #[cfg(not(feature = "metrics"))]
        Class()
    }
}

/// A metric: its name, and those of its labels.
#[cfg(feature = "metrics")]
struct Metric(&'static str, [&'static str; 2]);

/// In place of a label, and of what it says.
#[cfg(feature = "metrics")]
const NONE: &str = "";

#[cfg(feature = "metrics")]
static ACQUIRE: Metric = Metric("lockson_acquire_seconds", ["kind", "outcome"]);
#[cfg(feature = "metrics")]
static HOLD: Metric = Metric("lockson_hold_seconds", ["ended", NONE]);
#[cfg(feature = "metrics")]
static SCRIPT: Metric = Metric("lockson_script_seconds", ["script", "outcome"]);
#[cfg(feature = "metrics")]
static RENEWAL: Metric = Metric("lockson_renewal_seconds", [NONE; 2]);
#[cfg(feature = "metrics")]
static RENEWALS: Metric = Metric("lockson_renewals_total", ["outcome", NONE]);
#[cfg(feature = "metrics")]
static EVENTS: Metric = Metric("lockson_events_total", ["event", "why"]);
#[cfg(feature = "metrics")]
static HAND_OVERS: Metric = Metric("lockson_hand_overs_total", [NONE; 2]);
#[cfg(feature = "metrics")]
static WAITING: Metric = Metric("lockson_waiting", ["kind", NONE]);
#[cfg(feature = "metrics")]
static HOLDS: Metric = Metric("lockson_holds", [NONE; 2]);

#[cfg(feature = "metrics")]
impl Metric {
    fn of<'a>(&'static self, said: [&'static str; 2], class: &'a Class) -> Series<'a> {
        Series { metric: self, said, class: class.0.as_ref() }
    }

    /// Without classes.
    fn series(&'static self, said: [&'static str; 2]) -> Series<'static> {
        Series { metric: self, said, class: None }
    }
}

/// One time series of a metric: what its labels say.
#[cfg(feature = "metrics")]
#[derive(Clone, Copy)]
struct Series<'a> {
    metric: &'static Metric,
    said: [&'static str; 2],
    class: Option<&'a Arc<str>>,
}

#[cfg(feature = "metrics")]
impl Series<'_> {
    /// Where its texts are, which stay there: no two series that are told apart share that.
    fn place(&self) -> Place {
        let metric: *const Metric = self.metric;
        let class = self.class.map_or(0, |class| class.as_ptr().addr());
        Place([metric.addr(), self.said[0].as_ptr().addr(), self.said[1].as_ptr().addr(), class])
    }

    fn labels(&self) -> Vec<Label> {
        let fixed = self.metric.1.into_iter().zip(self.said).filter(|(name, _)| !name.is_empty());
        let fixed = fixed.map(|(name, value)| Label::from_static_parts(name, value));
        let class = self.class.cloned().map(|class| Label::new("class", SharedString::from(class)));
        fixed.chain(class).collect()
    }

    fn count(self, by: u64) {
        Handles::with(
            |handles| &mut handles.counters,
            self,
            |series| counter!(series.metric.0, series.labels()),
            |counter| counter.increment(by),
        );
    }

    fn times(&self) -> Histogram {
        histogram!(self.metric.0, self.labels())
    }

    fn took(self, time: Duration) {
        Handles::with(|handles| &mut handles.histograms, self, |series| series.times(), |times| times.record(time));
    }
}

#[cfg(feature = "metrics")]
#[derive(PartialEq, Eq)]
struct Place([usize; 4]);

#[cfg(feature = "metrics")]
impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [metric, first, second, class] = self.0;
        state.write_usize(metric ^ first.rotate_left(16) ^ second.rotate_left(32) ^ class.rotate_left(48));
    }
}

/// By their places; each with its class, whose text so stays where it is.
#[cfg(feature = "metrics")]
type Found<T> = HashMap<Place, (Option<Arc<str>>, T), BuildHasherDefault<Mixed>>;

/// Of places, which nobody chooses: the hash that std has takes as long as all else.
#[cfg(feature = "metrics")]
#[derive(Default)]
struct Mixed(u64);

#[cfg(feature = "metrics")]
impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        // Fibonacci's multiplier; what its high bits have got is wanted at both ends.
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a thread looked up: that takes a recorder ten times as long as to record.
#[cfg(feature = "metrics")]
#[derive(Default)]
struct Handles {
    clients: u64,
    under_way: Found<Arc<UnderWay>>,
    counters: Found<Counter>,
    histograms: Found<Histogram>,
}

#[cfg(feature = "metrics")]
thread_local! {
    static HANDLES: RefCell<Handles> = RefCell::default();
}

/// How many clients began: with each there may be another recorder.
#[cfg(feature = "metrics")]
static CLIENTS: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "metrics")]
impl Handles {
    /// `None` at the end of a thread, and for a recorder that is a client's user itself.
    fn use_own<R>(of: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let used = HANDLES.try_with(|handles| {
            let mut handles = handles.try_borrow_mut().ok()?;
            let clients = CLIENTS.load(Ordering::Relaxed);
            if handles.clients != clients {
                *handles = Self { clients, ..Self::default() };
            }
            Some(of(&mut handles))
        });
        used.ok().flatten()
    }

    fn with<T, R>(
        of: impl Fn(&mut Self) -> &mut Found<T>,
        series: Series<'_>,
        look_up: impl Fn(&Series<'_>) -> T,
        record: impl Fn(&T) -> R,
    ) -> R {
        let known = Self::use_own(|own| of(own).get(&series.place()).map(|(_, handle)| record(handle)));
        known.flatten().unwrap_or_else(|| Self::first(of, series, look_up, record))
    }

    #[cold]
    fn first<T, R>(
        of: impl Fn(&mut Self) -> &mut Found<T>,
        series: Series<'_>,
        look_up: impl Fn(&Series<'_>) -> T,
        record: impl Fn(&T) -> R,
    ) -> R {
        let handle = look_up(&series);
        let done = record(&handle);
        Self::use_own(|own| of(own).insert(series.place(), (series.class.cloned(), handle)));
        done
    }
}

/// What is counted while it goes on, and timed at its end: the time of the usual end is found with the count, at the
/// beginning, as to find things takes longer than to record them.
#[cfg(feature = "metrics")]
struct UnderWay {
    count: Gauge,
    usual: (&'static str, Histogram),
}

#[cfg(feature = "metrics")]
impl UnderWay {
    fn of(count: Series<'_>, usual: &'static str, times: Series<'_>) -> Arc<Self> {
        let look_up = |times: &Series<'_>| {
            Arc::new(Self { count: gauge!(count.metric.0, count.labels()), usual: (usual, times.times()) })
        };
        Handles::with(|handles| &mut handles.under_way, times, look_up, Arc::clone)
    }

    /// One more.
    fn begin(self: Arc<Self>) -> Arc<Self> {
        self.count.increment(1.0);
        self
    }

    fn took<'a>(&self, time: Duration, end: &'static str, times: impl FnOnce() -> Series<'a>) {
        match &self.usual {
            // This very text: one that only reads the same is looked up.
            (usual, times) if ptr::eq(*usual, end) => times.record(time),
            _ => times().took(time),
        }
    }
}

/// An acquisition under way.
pub(crate) struct Acquiring(#[cfg(feature = "metrics")] Instant, #[cfg(feature = "metrics")] Arc<UnderWay>);

impl Acquiring {
    pub(crate) fn begin(kind: &'static str, class: &Class, usual: &'static str) -> Self {
        Self(
            #[cfg(feature = "metrics")]
            Instant::now(),
            #[cfg(feature = "metrics")]
            UnderWay::of(WAITING.of([kind, NONE], class), usual, ACQUIRE.of([kind, usual], class)).begin(),
        )
    }

    pub(crate) fn end(&self, kind: &'static str, class: &Class, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        self.1.took(self.0.elapsed(), outcome, || ACQUIRE.of([kind, outcome], class));
    }
}

#[cfg(feature = "metrics")]
impl Drop for Acquiring {
    fn drop(&mut self) {
        self.1.count.decrement(1.0);
    }
}

/// Something that is held, until its end.
pub(crate) struct Held(#[cfg(feature = "metrics")] Option<(Instant, Arc<UnderWay>)>);

impl Held {
    pub(crate) fn begin(class: &Class, usual: &'static str) -> Self {
        #[cfg(feature = "metrics")]
        let holds = || UnderWay::of(HOLDS.series([NONE; 2]), usual, HOLD.of([usual, NONE], class));
        Self(
            #[cfg(feature = "metrics")]
            Some((Instant::now(), class.1.get_or_init(holds).clone().begin())),
        )
    }

    /// What ends, the first time.
    pub(crate) fn take(&mut self) -> Self {
        Self(
            #[cfg(feature = "metrics")]
            self.0.take(),
        )
    }

    #[cfg_attr(not(feature = "metrics"), allow(unused_mut))]
    pub(crate) fn end(mut self, class: &Class, how: &'static str) {
        #[cfg(feature = "metrics")]
        if let Some((began, one)) = self.0.take() {
            one.count.decrement(1.0);
            one.took(began.elapsed(), how, || HOLD.of([how, NONE], class));
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Held {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.take().end(&Class::default(), "dropped");
        }
    }
}

/// Something that takes time on the server.
pub(crate) struct Asking {
    #[cfg(feature = "metrics")]
    began: Instant,
}

impl Asking {
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            began: Instant::now(),
        }
    }

    #[cfg(feature = "metrics")]
    fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// A batch of renewals.
    pub(crate) fn renewals(&self, holds: usize, failed: usize) {
        #[cfg(feature = "metrics")]
        {
            let renewals = |outcome| RENEWALS.series([outcome, NONE]);
            RENEWAL.series([NONE; 2]).took(self.took());
            renewals("answered").count((holds - failed) as u64);
            renewals("failed").count(failed as u64);
        }
    }
}

/// One copy of a script, which took so long.
pub(crate) fn asked(script: &'static str, outcome: &'static str, took: impl FnOnce() -> Duration) {
    #[cfg(feature = "metrics")]
    SCRIPT.series([script, outcome]).took(took());
}

/// What [`Event`](crate::Event) is about, and why.
pub(crate) fn happened(event: &'static str, why: &'static str) {
    #[cfg(feature = "metrics")]
    EVENTS.series([event, why]).count(1);
}

/// A lock went from one task to the next without a script.
pub(crate) fn handed_over() {
    #[cfg(feature = "metrics")]
    HAND_OVERS.series([NONE; 2]).count(1);
}

/// A client begins: says what they are to whoever collects them from now on.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
        CLIENTS.fetch_add(1, Ordering::Relaxed);
        let seconds = Unit::Seconds;
        describe_histogram!(ACQUIRE.0, seconds, "from the wish for a lock to its outcome");
        describe_histogram!(HOLD.0, seconds, "from the grant of a lock or permits to their end");
        describe_histogram!(SCRIPT.0, seconds, "from the sending of a script to its answer, or the lack of it");
        describe_histogram!(RENEWAL.0, seconds, "one batch of renewals");
        describe_counter!(RENEWALS.0, "holds that a batch was about");
        describe_counter!(EVENTS.0, "what Locks::events tells");
        describe_counter!(HAND_OVERS.0, "turns inside a process, without a script");
        describe_gauge!(WAITING.0, "acquisitions under way: the queue of this process");
        describe_gauge!(HOLDS.0, "locks and permits that are held");
    }
}
