//! `run`: holds a lock while a command runs. Three processes: this one holds the lock; [`keeper`] runs the command, and
//! ends its group before the lease does, whatever becomes of this one; [`exec`] is the command's, until it is the
//! command.

mod exec;
mod hold;
mod keeper;
mod line;
mod stdin;

use std::ffi::OsString;
use std::io::Result as IoResult;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{kill_process_group, Pid, Signal};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::UnixStream;
use tokio::time::{interval, timeout, MissedTickBehavior};

use crate::args::{Run, Server, NOT_EXECUTABLE, NOT_FOUND};
use crate::out::{clean, tell, Out};
use crate::{connect, End, Failure, Outcome};
use hold::Hold;
use line::{boot_nanos, forwarded, how, Order, Report};

/// This program, also when its file has been replaced.
const SELF: &str = "/proc/self/exe";
const KEEP: &str = "__keep";
const EXEC: &str = "__exec";

/// What is left for SIGKILL to end the group, by the local deadline: a busy machine is late.
fn margin(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(100), Duration::from_secs(2))
}

/// The part of a process that this program starts itself for. `None`: somebody typed something else.
pub fn helper(first: &str, words: Vec<OsString>) -> Option<u8> {
    match first {
        KEEP => Some(keeper::keep(words)),
        EXEC => Some(exec::exec(words)),
        _ => None,
    }
}

/// What it came to.
struct Ran {
    end: End,
    /// In a word, for programs.
    outcome: &'static str,
    token: Option<u64>,
    /// What there is to say beside that.
    words: Option<String>,
}

impl Ran {
    fn new(end: End, outcome: &'static str, words: Option<String>) -> Self {
        Self { end, outcome, token: None, words }
    }
}

impl From<Failure> for Ran {
    fn from(Failure(end, words): Failure) -> Self {
        let outcome = match end {
            End::Unreachable => "unreachable",
            End::Lost => "lost",
            End::Of(NOT_FOUND | NOT_EXECUTABLE) => "not_started",
            _ => "refused",
        };
        Self::new(end, outcome, Some(words))
    }
}

pub async fn run(server: &Server, out: &Out, args: Run) -> Outcome {
    let ran = under_lock(server, out.json, &args).await.unwrap_or_else(Ran::from);
    if out.json {
        let mut told = json!({ "name": args.name, "outcome": ran.outcome, "code": ran.end.code() });
        if let Some(token) = ran.token {
            told["token"] = token.into();
        }
        if let Some(words) = ran.words {
            told["error"] = words.into();
        }
        tell(&told.to_string());
    } else if let Some(words) = ran.words {
        tell(&format!("lockson: {}", clean(&words)));
    }
    Ok(ran.end)
}

async fn under_lock(server: &Server, json: bool, args: &Run) -> Result<Ran, Failure> {
    exec::find(args.command.first())?;
    let locks = connect(server, Some(args.lease)).await?;
    // From here on, so that none ends this process while it holds the lock.
    let mut signals = forwarded().map_err(Failure::unreachable)?;
    let taken = tokio::select! {
        taken = Hold::take(&locks, args) => taken?,
        Some(signal) = signals.recv() => {
            let _ = locks.shutdown(Duration::from_secs(1)).await;
            return Ok(Ran::new(End::Of(128 + signal.as_raw() as u8), "interrupted", None));
        }
    };
    let Some(hold) = taken else {
        let _ = locks.shutdown(Duration::from_secs(1)).await;
        return Ok(Ran::new(End::Busy(args.busy_code), "busy", Some(format!("{} is busy", args.name))));
    };
    let ended = match Kept::start(args, json, &hold) {
        Ok(kept) => kept.watch(&hold, &mut signals, args.lease).await,
        Err(error) => Err(Failure(End::Of(126), format!("the helper can't be started: {error}"))),
    };
    let token = hold.token();
    let released = hold.release().await;
    let _ = locks.shutdown(Duration::from_secs(1)).await;
    let ran = match ended {
        Ok(End::Lost) => Ran::new(End::Lost, "lost", None),
        Ok(end) => Ran::new(end, "ended", released.err()),
        Err(failure) => failure.into(),
    };
    Ok(Ran { token, ..ran })
}

/// The keeper, and the way to it.
struct Kept {
    child: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    /// Whether what it comes to is told at its end, as an object.
    json: bool,
    /// The group of the command.
    group: Option<Pid>,
}

impl Kept {
    fn start(args: &Run, json: bool, hold: &Hold) -> IoResult<Self> {
        let (ours, theirs) = StdStream::pair()?;
        let grace = args.grace.min(args.lease / 4);
        let numbers = [grace, margin(args.lease)].map(|time| time.as_nanos().to_string());
        let mut command = Command::new(SELF);
        command.arg(KEEP).arg(how(json)).args(numbers).arg(deadline(hold).to_string()).args(&args.command);
        command.env("LOCKSON_NAME", &args.name);
        if let Some(token) = hold.token() {
            command.env("LOCKSON_TOKEN", token.to_string());
        }
        // A group of its own, so that nothing that is meant for this one's ends it.
        let child = command.process_group(0).stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        // The command's stdin is this process's; the keeper's is the way to here.
        stdin::give(&ours, std::io::stdin())?;
        ours.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        Ok(Self { child, reports: BufReader::new(reports).lines(), orders, json, group: None })
    }

    /// Until the command and its group have ended.
    async fn watch(mut self, hold: &Hold, signals: &mut line::Signals, lease: Duration) -> Outcome {
        let mut tick = interval((lease / 20).clamp(Duration::from_millis(20), Duration::from_millis(500)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut until, mut lost, mut is_lost) = (deadline(hold), hold.lost(), false);
        loop {
            tokio::select! {
                line = self.reports.next_line() => match line.ok().flatten().as_deref().map(Report::read) {
                    Some(Some(Report::Started(group))) => self.group = Pid::from_raw(group),
                    Some(Some(Report::Ended { code, is_lost: by_keeper })) => {
                        let _ = self.child.wait();
                        if !is_lost && (by_keeper || !hold.is_valid()) {
                            is_lost = true;
                            self.say_lost();
                        }
                        return Ok(if is_lost { End::Lost } else { End::Of(code) });
                    }
                    Some(None) => {}
                    None => return Err(self.abandoned()),
                },
                () = &mut lost, if !is_lost => {
                    is_lost = true;
                    // First what matters: to say it may take as long as its terminal likes.
                    self.order(&Order::Lost).await;
                    self.say_lost();
                }
                Some(signal) = signals.recv() => self.order(&Order::Signal(signal)).await,
                _ = tick.tick() => {
                    let now = deadline(hold);
                    if !is_lost && now > until {
                        until = now;
                        self.order(&Order::Until(until)).await;
                    }
                }
            }
        }
    }

    /// If nobody hears it the keeper is gone, which is seen where its reports end.
    async fn order(&mut self, order: &Order) {
        let text = format!("{order}\n");
        let _ = timeout(Duration::from_secs(1), self.orders.write_all(text.as_bytes())).await;
    }

    fn say_lost(&self) {
        if !self.json {
            tell("lockson: the hold is lost: the command is ended");
        }
    }

    /// The keeper was killed, and with it the command's first process, as the kernel is told. There are others in the
    /// group only where its number is known.
    fn abandoned(mut self) -> Failure {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        Failure(End::Lost, "the helper was killed: the command is ended".to_owned())
    }
}

/// When the hold is valid no more, by the clock that also counts the time that a machine is suspended. A little early:
/// the clock is read first.
fn deadline(hold: &Hold) -> u64 {
    let now = boot_nanos();
    now.saturating_add(u64::try_from(hold.remaining().as_nanos()).unwrap_or(u64::MAX))
}
