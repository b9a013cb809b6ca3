//! What a client counts and times, for the `metrics` facade. Without the feature nothing is.
#![cfg_attr(not(feature = "metrics"), allow(unused_variables))]

#[cfg(feature = "metrics")]
use std::cell::RefCell;
#[cfg(feature = "metrics")]
use std::collections::{BTreeSet, HashMap};
use std::fmt;
#[cfg(feature = "metrics")]
use std::hash::{BuildHasherDefault, Hasher};
#[cfg(feature = "metrics")]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "metrics")]
use std::sync::Arc;
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

/// The class of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Class(#[cfg(feature = "metrics")] Option<Arc<str>>);

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
        return Class(self.0.as_ref().map(|known| {
            let class: Arc<str> = (known.class)(name).into();
            let mut seen = known.seen.lock();
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
        }));
        #[cfg(not(feature = "metrics"))]
        Class()
    }
}

/// A time series: its name, and what its labels say.
#[cfg(feature = "metrics")]
#[derive(Clone, Copy)]
struct Series<'a> {
    name: &'static str,
    /// Label and value; one without a name is none.
    labels: [(&'static str, &'static str); 2],
    class: Option<&'a Arc<str>>,
}

#[cfg(feature = "metrics")]
impl Series<'_> {
    fn of(self, class: &Class) -> Series<'_> {
        Series { name: self.name, labels: self.labels, class: class.0.as_ref() }
    }

    /// Where its texts are, which stay there: no two series that are told apart share that.
    fn place(&self) -> Place {
        let [(_, first), (_, second)] = self.labels;
        let class = self.class.map_or(0, |class| class.as_ptr().addr());
        (self.name.as_ptr().addr(), first.as_ptr().addr(), second.as_ptr().addr(), class)
    }

    fn labels(&self) -> Vec<Label> {
        let fixed = self.labels.into_iter().filter(|(name, _)| !name.is_empty());
        let fixed = fixed.map(|(name, value)| Label::from_static_parts(name, value));
        let class = self.class.cloned().map(|class| Label::new("class", SharedString::from(class)));
        fixed.chain(class).collect()
    }

    fn count(self, by: u64) {
        Handles::with(
            |handles| &mut handles.counters,
            self,
            |series| counter!(series.name, series.labels()),
            |counter| counter.increment(by),
        );
    }

    /// One more: until it is fewer again, by what this returns.
    fn more(self) -> Gauge {
        let more = |gauge: &Gauge| {
            gauge.increment(1.0);
            gauge.clone()
        };
        Handles::with(|handles| &mut handles.gauges, self, |series| gauge!(series.name, series.labels()), more)
    }

    fn took(self, time: Duration) {
        Handles::with(
            |handles| &mut handles.histograms,
            self,
            |series| histogram!(series.name, series.labels()),
            |times| times.record(time),
        );
    }
}

/// A series without classes.
#[cfg(feature = "metrics")]
const fn series(name: &'static str, labels: [(&'static str, &'static str); 2]) -> Series<'static> {
    Series { name, labels, class: None }
}

/// In place of a label.
#[cfg(feature = "metrics")]
const NONE: (&str, &str) = ("", "");

#[cfg(feature = "metrics")]
type Place = (usize, usize, usize, usize);

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
        // Fibonacci's multiplier.
        self.0 = (self.0.rotate_left(5) ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
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
    gauges: Found<Gauge>,
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
        let place = series.place();
        let known = Self::use_own(|own| of(own).get(&place).map(|(_, handle)| record(handle)));
        known.flatten().unwrap_or_else(|| {
            let handle = look_up(&series);
            let done = record(&handle);
            Self::use_own(|own| of(own).insert(place, (series.class.cloned(), handle)));
            done
        })
    }
}

/// An acquisition under way.
pub(crate) struct Acquiring(Asking, #[cfg(feature = "metrics")] Gauge);

impl Acquiring {
    pub(crate) fn begin(kind: &'static str, class: &Class) -> Self {
        Self(
            Asking::begin(),
            #[cfg(feature = "metrics")]
            series("lockson_waiting", [("kind", kind), NONE]).of(class).more(),
        )
    }

    pub(crate) fn end(&self, kind: &'static str, class: &Class, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        series("lockson_acquire_seconds", [("kind", kind), ("outcome", outcome)]).of(class).took(self.0.took());
    }
}

#[cfg(feature = "metrics")]
impl Drop for Acquiring {
    fn drop(&mut self) {
        self.1.decrement(1.0);
    }
}

/// Something that is held, until its end.
pub(crate) struct Held(#[cfg(feature = "metrics")] Mutex<Option<(Instant, Gauge)>>);

impl Held {
    pub(crate) fn begin() -> Self {
        Self(
            #[cfg(feature = "metrics")]
            Mutex::new(Some((Instant::now(), series("lockson_holds", [NONE; 2]).more()))),
        )
    }

    /// The first time counts.
    pub(crate) fn end(&self, class: &Class, how: &'static str) {
        #[cfg(feature = "metrics")]
        if let Some((began, held)) = self.0.lock().take() {
            held.decrement(1.0);
            series("lockson_hold_seconds", [("ended", how), NONE]).of(class).took(began.elapsed());
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Held {
    fn drop(&mut self) {
        self.end(&Class::default(), "dropped");
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
            let renewals = |outcome| series("lockson_renewals_total", [("outcome", outcome), NONE]);
            series("lockson_renewal_seconds", [NONE; 2]).took(self.took());
            renewals("answered").count((holds - failed) as u64);
            renewals("failed").count(failed as u64);
        }
    }
}

/// One copy of a script, which took so long.
pub(crate) fn asked(script: &'static str, outcome: &'static str, took: impl FnOnce() -> Duration) {
    #[cfg(feature = "metrics")]
    series("lockson_script_seconds", [("script", script), ("outcome", outcome)]).took(took());
}

/// What [`Event`](crate::Event) is about, and why.
pub(crate) fn happened(event: &'static str, why: &'static str) {
    #[cfg(feature = "metrics")]
    series("lockson_events_total", [("event", event), ("why", why)]).count(1);
}

/// A lock went from one task to the next without a script.
pub(crate) fn handed_over() {
    #[cfg(feature = "metrics")]
    series("lockson_hand_overs_total", [NONE; 2]).count(1);
}

/// A client begins: says what they are to whoever collects them from now on.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
        CLIENTS.fetch_add(1, Ordering::Relaxed);
        let seconds = Unit::Seconds;
        describe_histogram!("lockson_acquire_seconds", seconds, "from the wish for a lock to its outcome");
        describe_histogram!("lockson_hold_seconds", seconds, "from the grant of a lock or permits to their end");
        describe_histogram!(
            "lockson_script_seconds",
            seconds,
            "from the sending of a script to its answer, or the lack of it"
        );
        describe_histogram!("lockson_renewal_seconds", seconds, "one batch of renewals");
        describe_counter!("lockson_renewals_total", "holds that a batch was about");
        describe_counter!("lockson_events_total", "what Locks::events tells");
        describe_counter!("lockson_hand_overs_total", "turns inside a process, without a script");
        describe_gauge!("lockson_waiting", "acquisitions under way: the queue of this process");
        describe_gauge!("lockson_holds", "locks and permits that are held");
    }
}
