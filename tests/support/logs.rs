//! What the crate says through `tracing`, as lines of text.

use super::patient;
use std::fmt::{Debug, Write};
use std::sync::OnceLock;
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

/// One thing that was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// How loud.
    pub level: Level,
    /// `target: message name=value ... in span{name=value ...}` for an event,
    /// and `target: new|record|close span{name=value ...}` for a span.
    pub text: String,
}

/// Gathers the events and spans of a process, or of one thread.
///
/// A line is one of
///
/// ```text
/// target: message name=value name=value in outer{a=1} > inner{b="x"}
/// target: new span{a=1} in outer{...}
/// target: record span{a=1 b=2}
/// target: close span{a=1 b=2}
/// ```
#[derive(Clone)]
pub struct Logs {
    lines: watch::Sender<Vec<Line>>,
}

impl Logs {
    fn new() -> Logs {
        Logs { lines: watch::channel(Vec::new()).0 }
    }

    /// Gathers what the whole process says from now on, from INFO up, and
    /// what other crates say through `log`; a second call gives the same logs.
    pub fn install() -> Logs {
        static INSTALLED: OnceLock<Logs> = OnceLock::new();
        let logs = INSTALLED.get_or_init(|| {
            let logs = Logs::new();
            let all = Registry::default().with(LevelFilter::INFO).with(Recorder { logs: logs.clone() });
            all.try_init().expect("no other subscriber in this process");
            logs
        });
        logs.clone()
    }

    /// Gathers what this thread says while the guard lives: that is all of a test on a current-thread runtime.
    pub fn scoped() -> (Logs, DefaultGuard) {
        let logs = Logs::new();
        let guard = tracing::subscriber::set_default(logs.subscriber());
        (logs, guard)
    }

    fn subscriber(&self) -> impl Subscriber + Send + Sync {
        Registry::default().with(Recorder { logs: self.clone() })
    }

    /// All lines so far, each as `LEVEL text`.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.borrow();
        let told = |line: &Line| format!("{} {}", line.level, line.text);
        lines.iter().map(told).collect()
    }

    /// The lines of a level with a fragment in them.
    pub fn find(&self, level: Level, fragment: &str) -> Vec<String> {
        let lines = self.lines.borrow();
        let fits = |line: &&Line| line.level == level && line.text.contains(fragment);
        lines.iter().filter(fits).map(|line| line.text.clone()).collect()
    }

    /// How many lines of a level have a fragment in them.
    pub fn count(&self, level: Level, fragment: &str) -> usize {
        self.find(level, fragment).len()
    }

    /// Whether a line of a level has a fragment in it.
    pub fn contains(&self, level: Level, fragment: &str) -> bool {
        self.count(level, fragment) > 0
    }

    /// Awaits a line with a fragment in it, of any level, and returns the first; lines from before the call count.
    pub async fn wait_for(&self, fragment: &str) -> Line {
        let mut lines = self.lines.subscribe();
        let fits = |line: &Line| line.text.contains(fragment);
        let said = async {
            let lines = lines.wait_for(|lines| lines.iter().any(fits)).await;
            let lines = lines.unwrap();
            lines.iter().find(|line| fits(line)).unwrap().clone()
        };
        patient(&format!("a line with {fragment:?}"), said).await
    }

    /// Forgets all lines so far.
    pub fn clear(&self) {
        self.lines.send_modify(Vec::clear);
    }

    fn add(&self, level: Level, text: String) {
        self.lines.send_modify(|lines| lines.push(Line { level, text }));
    }
}

/// The fields of a span or an event, as text.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn push(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.into();
            return;
        }
        if !self.rest.is_empty() {
            self.rest.push(' ');
        }
        write!(self.rest, "{}={value}", field.name()).unwrap();
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value);
    }
}

/// The layer that hands everything to the logs.
struct Recorder {
    logs: Logs,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
        let outer = span.parent().map(|parent| path(&parent));
        let inside = outer.map_or(String::new(), |outer| format!(" in {outer}"));
        self.tell(&span, "new", &inside);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
        self.tell(&span, "record", "");
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let inside = context.event_span(event).map(|span| path(&span));
        let parts = [fields.message, fields.rest, inside.map_or(String::new(), |inside| format!("in {inside}"))];
        let said: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let metadata = event.metadata();
        let text = format!("{}: {}", metadata.target(), said.join(" "));
        self.logs.add(*metadata.level(), text);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.tell(&context.span(&id).unwrap(), "close", "");
    }
}

impl Recorder {
    /// Notes what befell a span.
    fn tell<'a, R: LookupSpan<'a>>(&self, span: &Ref<'a, R>, what: &str, more: &str) {
        let metadata = span.metadata();
        let text = format!("{}: {what} {}{more}", metadata.target(), shown(span));
        self.logs.add(*metadata.level(), text);
    }
}

type Ref<'a, R> = tracing_subscriber::registry::SpanRef<'a, R>;

/// A span with its fields.
fn shown<'a, R: LookupSpan<'a>>(span: &Ref<'a, R>) -> String {
    let extensions = span.extensions();
    let fields = extensions.get::<Fields>();
    format!("{}{{{}}}", span.name(), fields.map_or("", |fields| fields.rest.as_str()))
}

/// A span and all around it, from the outside.
fn path<'a, R: LookupSpan<'a>>(span: &Ref<'a, R>) -> String {
    let spans: Vec<String> = span.scope().from_root().map(|span| shown(&span)).collect();
    spans.join(" > ")
}
