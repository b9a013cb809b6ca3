//! The helper process of `run`: it runs the command in a group of its own, and ends that group before the hold's
//! deadline unless it is told of a later one. So the deadline is kept if `lockson` itself is killed, or stopped.

use std::ffi::OsString;
use std::io::Result as IoResult;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{getpid, kill_process_group, set_child_subreaper, test_kill_process_group};
use rustix::process::{wait, Pid, Signal, WaitOptions, WaitStatus};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{signal, SignalKind};
use tokio::time::sleep;

use super::line::{boot_nanos, forwarded, how, is_json, Order, Report};
use super::{stdin, EXEC, SELF};
use crate::out::failed;

/// It looks at the clock so often, as timers stand still while a machine is suspended; and while a group is ended.
const LOOK: Duration = Duration::from_millis(250);
const SOON: Duration = Duration::from_millis(10);
/// The command of a hold that is lost gets no more than this: others may have the lock.
const LOST_GRACE: u64 = 1_000_000_000;

/// The words are how failures are told, the grace and the margin, the deadline (nanoseconds), and the command.
pub fn keep(words: Vec<OsString>) -> u8 {
    let mut words = words.into_iter();
    let json = is_json(words.next());
    let mut number = || words.next().and_then(|word| word.to_str()?.parse::<u64>().ok()).unwrap_or_default();
    let (grace, margin, deadline) = (number(), number(), number());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let kept = runtime.and_then(|runtime| runtime.block_on(run(json, words.collect(), [grace, margin, deadline])));
    match kept {
        Ok(()) => 0,
        Err(error) => {
            failed(json, &error.to_string(), 1);
            1
        }
    }
}

async fn run(json: bool, command: Vec<OsString>, [grace, margin, deadline]: [u64; 3]) -> IoResult<()> {
    // What the command leaves behind becomes this process's, which has to reap it to know that it is gone.
    set_child_subreaper(Some(getpid()))?;
    let (of_command, way) = stdin::take()?;
    way.set_nonblocking(true)?;
    let (ours, theirs) = StdStream::pair()?;
    let (mut signals, mut children) = (forwarded()?, signal(SignalKind::child())?);
    let pid = getpid().as_raw_nonzero().to_string();
    let mut child = Command::new(SELF);
    child.arg(EXEC).arg(how(json)).arg(pid).args(command).process_group(0).stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = child.spawn()?;
    let group = Pid::from_child(&child);
    let (orders, mut reports) = UnixStream::from_std(way)?.into_split();
    let mut orders = BufReader::new(orders).lines();
    let started = format!("{}\n", Report::Started(group.as_raw_nonzero().get()));
    // If nobody hears it, that is seen where the orders end.
    let _ = reports.write_all(started.as_bytes()).await;
    // Behind that the command begins: who kills this process leaves nothing in a group that nobody knows. If it is
    // gone by now, it is reaped.
    let _ = stdin::give(&ours, of_command);
    drop(ours);
    let mut kept = Group { group, grace, margin, deadline, code: None, kill_at: None, is_lost: false };
    let mut is_told = true;
    loop {
        if kept.step()? {
            break;
        }
        tokio::select! {
            line = orders.next_line(), if is_told => match line.ok().flatten() {
                Some(line) => kept.obey(Order::read(&line)),
                None => {
                    // Whoever renews the hold is gone.
                    is_told = false;
                    kept.end(grace);
                }
            },
            Some(signal) = signals.recv() => kept.hand_on(signal),
            _ = children.recv() => {}
            () = sleep(kept.pause()) => {}
        }
    }
    let ended = Report::Ended { code: kept.code.unwrap_or_default(), is_lost: kept.is_lost };
    let _ = reports.write_all(format!("{ended}\n").as_bytes()).await;
    Ok(())
}

/// The command's process group. Times are nanoseconds of [`boot_nanos`].
struct Group {
    group: Pid,
    /// Between SIGTERM and SIGKILL.
    grace: u64,
    /// Between SIGKILL and the deadline.
    margin: u64,
    /// When the hold is valid no more.
    deadline: u64,
    /// How the command ended, once it has.
    code: Option<u8>,
    /// When SIGKILL comes, once SIGTERM has.
    kill_at: Option<u64>,
    /// Whether it is ended as the hold could not be kept.
    is_lost: bool,
}

impl Group {
    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Until(deadline)) => self.deadline = self.deadline.max(deadline),
            Some(Order::Signal(signal)) => self.hand_on(signal),
            Some(Order::Lost) => {
                self.is_lost = true;
                self.end(self.grace.min(LOST_GRACE));
            }
            None => {}
        }
    }

    /// Reaps who has ended, and ends who has to. Whether nobody is left.
    fn step(&mut self) -> IoResult<bool> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.group {
                self.code = Some(code_of(status));
            }
        }
        if self.code.is_some() {
            if test_kill_process_group(self.group).is_err() {
                return Ok(true);
            }
            // What the command has left in its group.
            self.end(self.grace);
        }
        let now = boot_nanos();
        let last = self.deadline.saturating_sub(self.margin);
        if now >= last.saturating_sub(self.grace) && self.code.is_none() {
            self.is_lost = true;
            self.end(self.grace);
        }
        if self.kill_at.is_some_and(|at| now >= at.min(last)) {
            self.signal(Signal::KILL);
        }
        Ok(false)
    }

    /// What is meant for the command. One that is stopped, as it read from the terminal, hears what is to end it only
    /// if it goes on.
    fn hand_on(&self, signal: Signal) {
        self.signal(signal);
        if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal) {
            self.signal(Signal::CONT);
        }
    }

    /// SIGTERM now, and SIGKILL after this time, in any case before the deadline.
    fn end(&mut self, grace: u64) {
        let kill_at = boot_nanos().saturating_add(grace);
        if self.kill_at.is_none() {
            self.signal(Signal::TERM);
            // One that is stopped hears it when it goes on.
            self.signal(Signal::CONT);
        }
        self.kill_at = Some(self.kill_at.map_or(kill_at, |before| before.min(kill_at)));
    }

    /// Its number is no other group's as long as anybody is in it.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    fn pause(&self) -> Duration {
        if self.kill_at.is_some() {
            return SOON;
        }
        let term_at = self.deadline.saturating_sub(self.margin).saturating_sub(self.grace);
        Duration::from_nanos(term_at.saturating_sub(boot_nanos())).min(LOOK)
    }
}

/// As shells have it.
fn code_of(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
