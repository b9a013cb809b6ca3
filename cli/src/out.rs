//! What is printed: text with colours on a terminal, or JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde_json::{json, Value};

use crate::args::Color;
use crate::{End, Failure};

pub struct Out {
    pub json: bool,
    color: bool,
}

/// The colours that are used.
#[derive(Debug, Clone, Copy)]
pub enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Out {
    pub fn new(json: bool, color: Color) -> Self {
        let asked = || std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        let color = match color {
            Color::Auto => asked(),
            Color::Always => true,
            Color::Never => false,
        };
        Self { json, color: color && !json }
    }

    pub fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Bold => 1,
            Paint::Dim => 2,
            Paint::Red => 31,
            Paint::Green => 32,
            Paint::Yellow => 33,
        };
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// One line. That nobody reads any more is no failure: the command is done.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure(End::Done, "nobody reads what is printed".to_owned()),
            _ => Failure::unreachable(format!("the output can't be written: {error}")),
        })
    }

    pub fn value(&self, value: &Value) -> Result<(), Failure> {
        self.line(&value.to_string())
    }
}

/// A line for whoever runs this. If nobody can be told, as the terminal is gone, that is no reason to leave undone what
/// comes next.
pub fn tell(line: &str) {
    put(&format!("{line}\n"));
}

/// The same without an end of the line.
pub fn put(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // At once, so that nothing of others comes between.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Tells what went wrong, and the exit code that this has.
pub fn failed(json: bool, words: &str, code: u8) {
    if json {
        tell(&json!({ "error": words, "code": code }).to_string());
    } else {
        tell(&format!("lockson: {}", clean(words)));
    }
}

/// Text of a server that does no harm on a terminal: no control characters, nothing that turns the line round.
pub fn clean(text: &str) -> String {
    const TURNS: [std::ops::RangeInclusive<char>; 3] =
        ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let is_harmful = |c: char| c.is_control() || TURNS.iter().any(|turns| turns.contains(&c));
    text.chars().flat_map(|c| if is_harmful(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// In at most three digits or so: `250ms`, `29.5s`, `12m`, `3h`.
pub fn brief(time: Duration) -> String {
    match time.as_millis() {
        ms @ 0..1000 => format!("{ms}ms"),
        ms @ 1000..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        ms @ 60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
        ms => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// Rows in columns that are as wide as they need to be; the last one is not padded.
pub fn table(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_does_nothing_to_a_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc\u{202e}d\u{9b}"), "a\\u{1b}[31mb\\nc\\u{202e}d\\u{9b}");
        assert_eq!(clean("größe {eu}:x"), "größe {eu}:x");
    }

    #[test]
    fn times_are_brief() {
        let times = [0, 999, 1000, 29_550, 60_000, 3_599_999, 3_600_000, 90_000_000];
        let texts = ["0ms", "999ms", "1.0s", "29.5s", "1m00s", "59m59s", "1h00m", "25h00m"];
        assert_eq!(times.map(|ms| brief(Duration::from_millis(ms))), texts);
    }

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [["a", "ä", "x"], ["bbb", "c", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), ["a    ä  x", "bbb  c"]);
    }
}
