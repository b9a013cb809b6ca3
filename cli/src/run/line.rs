//! What the two processes of `run` tell each other, a line each; and the signals and the clock that both go by.

use std::ffi::OsString;
use std::fmt;
use std::io::Result as IoResult;

use rustix::process::Signal;
use rustix::time::{clock_gettime, ClockId};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::mpsc::{channel, Receiver};

/// How the processes tell people of failures: a word that each hands to the next.
pub fn how(json: bool) -> &'static str {
    if json {
        "json"
    } else {
        "text"
    }
}

pub fn is_json(word: Option<OsString>) -> bool {
    word.is_some_and(|word| word == how(true))
}

/// What the keeper is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The hold is valid until then, by [`boot_nanos`].
    Until(u64),
    /// The group is to get this signal.
    Signal(Signal),
    /// The hold is lost.
    Lost,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(nanos) => write!(f, "until {nanos}"),
            Self::Signal(signal) => write!(f, "signal {}", signal.as_raw()),
            Self::Lost => f.write_str("lost"),
        }
    }
}

impl Order {
    pub fn read(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "until" => number.parse().ok().map(Self::Until),
            "signal" => Signal::from_named_raw(number.parse().ok()?).map(Self::Signal),
            "lost" => Some(Self::Lost),
            _ => None,
        }
    }
}

/// What the keeper tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The command runs, in the group of this number.
    Started(i32),
    /// The command and its group have ended, with this code; or were ended, as the hold could not be kept.
    Ended { code: u8, is_lost: bool },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(group) => write!(f, "started {group}"),
            Self::Ended { code, is_lost: false } => write!(f, "ended {code}"),
            Self::Ended { code, is_lost: true } => write!(f, "lost {code}"),
        }
    }
}

impl Report {
    pub fn read(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ')?;
        match word {
            "started" => number.parse().ok().map(Self::Started),
            "ended" | "lost" => Some(Self::Ended { code: number.parse().ok()?, is_lost: word == "lost" }),
            _ => None,
        }
    }
}

/// Nanoseconds of the clock that nobody sets and that a suspend does not stop.
pub fn boot_nanos() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub type Signals = Receiver<Signal>;

/// The signals that are meant for the command, as they come; those that were ignored as this process was started
/// (nohup) stay ignored.
pub fn forwarded() -> IoResult<Signals> {
    let (sender, signals) = channel(16);
    let ignored = ignored();
    for one in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        if ignored & 1 << (one.as_raw() - 1) != 0 {
            continue;
        }
        let (mut stream, sender) = (signal(SignalKind::from_raw(one.as_raw()))?, sender.clone());
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                let _ = sender.send(one).await;
            }
        });
    }
    Ok(signals)
}

/// The signals that this process ignores, a bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        for order in [Order::Until(7), Order::Signal(Signal::TERM), Order::Lost] {
            assert_eq!(Order::read(&order.to_string()), Some(order));
        }
        for is_lost in [false, true] {
            let report = Report::Ended { code: 3, is_lost };
            assert_eq!(Report::read(&report.to_string()), Some(report));
        }
        assert_eq!(Report::read("started 12"), Some(Report::Started(12)));
        assert_eq!((Order::read("signal 99"), Order::read(""), Report::read("ended")), (None, None, None));
    }
}
