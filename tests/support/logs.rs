//! What is said through `tracing`, as lines of text.

use super::patient;
use std::io;
use std::sync::OnceLock;
use tokio::sync::watch;
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Subscriber};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Gathers the events of a process, or of one thread, and the ends of spans with all their fields:
///
/// ```text
/// WARN outer{a=1}:inner{b="x"}: target: message name=value name=value
/// INFO outer{a=1}:inner{b="x" c=2}: target: close time.busy=1ms time.idle=1ms
/// ```
#[derive(Clone)]
pub struct Logs {
    lines: watch::Sender<Vec<String>>,
}

impl Logs {
    fn new() -> Logs {
        Logs { lines: watch::channel(Vec::new()).0 }
    }

    /// Gathers what the whole process says from now on, also through `log`, from INFO up. Once: later calls share it.
    pub fn install() -> Logs {
        static INSTALLED: OnceLock<Logs> = OnceLock::new();
        let logs = INSTALLED.get_or_init(|| {
            let logs = Logs::new();
            logs.subscriber(Level::INFO).try_init().expect("no other subscriber in this process");
            logs
        });
        logs.clone()
    }

    /// Gathers what this thread says while the guard lives: that is all of a test on a current-thread runtime.
    pub fn scoped() -> (Logs, DefaultGuard) {
        let logs = Logs::new();
        let guard = tracing::subscriber::set_default(logs.subscriber(Level::TRACE));
        (logs, guard)
    }

    fn subscriber(&self, most: Level) -> impl Subscriber + Send + Sync {
        let logs = self.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || logs.clone()).with_ansi(false).without_time();
        lines.with_span_events(FmtSpan::CLOSE).with_max_level(most).finish()
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// The lines of a level with a fragment in them.
    pub fn find(&self, level: Level, fragment: &str) -> Vec<String> {
        let fits = |line: &String| line.starts_with(level.as_str()) && line.contains(fragment);
        self.lines().into_iter().filter(fits).collect()
    }

    pub fn count(&self, level: Level, fragment: &str) -> usize {
        self.find(level, fragment).len()
    }

    /// Awaits a line with a fragment in it, of any level, and returns the first; lines from before the call count.
    pub async fn wait_for(&self, fragment: &str) -> String {
        let mut lines = self.lines.subscribe();
        let fits = |line: &&String| line.contains(fragment);
        let said = async {
            let lines = lines.wait_for(|lines| lines.iter().any(|line| fits(&line))).await.unwrap();
            lines.iter().find(fits).unwrap().clone()
        };
        patient(&format!("a line with {fragment:?}"), said).await
    }

    pub fn clear(&self) {
        self.lines.send_modify(Vec::clear);
    }
}

impl io::Write for Logs {
    /// A line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        self.lines.send_modify(|lines| lines.push(text));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
