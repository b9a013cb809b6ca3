//! What a client counts and times, for the `metrics` facade. Without the feature nothing is.
#![cfg_attr(not(feature = "metrics"), allow(unused_variables))]

#[cfg(feature = "metrics")]
use std::collections::BTreeSet;
use std::fmt;
#[cfg(feature = "metrics")]
use std::sync::Arc;
#[cfg(feature = "metrics")]
use std::time::Duration;

#[cfg(feature = "metrics")]
use metrics::{
    counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram, Label, SharedString, Unit,
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
                None if seen.len() >= MOST_CLASSES => "other".into(),
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

impl Class {
    #[cfg(feature = "metrics")]
    fn labels<const N: usize>(&self, fixed: [(&'static str, &'static str); N]) -> Vec<Label> {
        let class = self.0.clone().map(|class| Label::new("class", SharedString::from(class)));
        fixed.into_iter().map(|(name, value)| Label::from_static_parts(name, value)).chain(class).collect()
    }
}

/// An acquisition under way.
pub(crate) struct Acquiring(Asking);

impl Acquiring {
    pub(crate) fn begin() -> Self {
        #[cfg(feature = "metrics")]
        gauge!("lockson_waiting").increment(1.0);
        Self(Asking::begin())
    }

    pub(crate) fn end(&self, kind: &'static str, class: &Class, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        histogram!("lockson_acquire_seconds", class.labels([("kind", kind), ("outcome", outcome)]))
            .record(self.0.took());
    }
}

#[cfg(feature = "metrics")]
impl Drop for Acquiring {
    fn drop(&mut self) {
        gauge!("lockson_waiting").decrement(1.0);
    }
}

/// Something that is held, until its end.
pub(crate) struct Held(#[cfg(feature = "metrics")] Mutex<Option<Instant>>);

impl Held {
    pub(crate) fn begin() -> Self {
        #[cfg(feature = "metrics")]
        gauge!("lockson_holds").increment(1.0);
        Self(
            #[cfg(feature = "metrics")]
            Mutex::new(Some(Instant::now())),
        )
    }

    /// The first time counts.
    pub(crate) fn end(&self, class: &Class, how: &'static str) {
        #[cfg(feature = "metrics")]
        if let Some(began) = self.0.lock().take() {
            gauge!("lockson_holds").decrement(1.0);
            histogram!("lockson_hold_seconds", class.labels([("ended", how)])).record(began.elapsed());
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

    /// One copy of a script.
    pub(crate) fn script(&self, script: &'static str, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        histogram!("lockson_script_seconds", "script" => script, "outcome" => outcome).record(self.took());
    }

    /// A batch of renewals.
    pub(crate) fn renewals(&self, holds: usize, failed: usize) {
        #[cfg(feature = "metrics")]
        {
            histogram!("lockson_renewal_seconds").record(self.took());
            counter!("lockson_renewals_total", "outcome" => "answered").increment((holds - failed) as u64);
            counter!("lockson_renewals_total", "outcome" => "failed").increment(failed as u64);
        }
    }
}

/// What [`Event`](crate::Event) is about, and why.
pub(crate) fn happened(event: &'static str, why: &'static str) {
    #[cfg(feature = "metrics")]
    counter!("lockson_events_total", "event" => event, "why" => why).increment(1);
}

/// A lock went from one task to the next without a script.
pub(crate) fn handed_over() {
    #[cfg(feature = "metrics")]
    counter!("lockson_hand_overs_total").increment(1);
}

/// Says what they are to whoever collects them.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
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
        describe_gauge!("lockson_waiting", "acquisitions under way");
        describe_gauge!("lockson_holds", "locks and permits that are held");
    }
}
