//! `run`: holds a lock while a command runs. Three processes: this one holds the lock; [`keeper`] runs the command, and
//! ends its group before the lease does, whatever becomes of this one; [`exec`] is the command's, until it is the
//! command.

mod exec;
mod hold;
mod keeper;
mod line;

use std::ffi::OsString;
use std::io::{IoSlice, Result as IoResult};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{kill_process_group, Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::UnixStream;
use tokio::time::{interval, timeout, MissedTickBehavior};

use crate::args::{Run, Server};
use crate::out::{clean, Out};
use crate::{connect, End, Failure, Outcome};
use hold::Hold;
use line::{boot_nanos, forwarded, Order, Report};

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

pub async fn run(server: &Server, out: &Out, args: Run) -> Outcome {
    exec::find(args.command.first())?;
    let locks = connect(server, Some(args.lease)).await?;
    // From here on, so that none ends this process while it holds the lock.
    let mut signals = forwarded().map_err(Failure::unreachable)?;
    let taken = tokio::select! {
        taken = Hold::take(&locks, &args) => taken?,
        Some(signal) = signals.recv() => {
            let _ = locks.shutdown(Duration::from_secs(1)).await;
            return Ok(End::Of(128 + signal.as_raw() as u8));
        }
    };
    let Some(hold) = taken else {
        let _ = locks.shutdown(Duration::from_secs(1)).await;
        if !out.json {
            eprintln!("lockson: {} is busy", clean(&args.name));
        }
        return Ok(End::Busy(args.busy_code));
    };
    let ended = match Kept::start(&args, &hold) {
        Ok(kept) => kept.watch(&hold, &mut signals, args.lease).await,
        Err(error) => Err(Failure(End::Of(126), format!("the helper can't be started: {error}"))),
    };
    let released = hold.release().await;
    let _ = locks.shutdown(Duration::from_secs(1)).await;
    let ended = ended?;
    if let (Err(error), true) = (&released, ended != End::Lost) {
        eprintln!("lockson: {}", clean(error));
    }
    Ok(ended)
}

/// The keeper, and the way to it.
struct Kept {
    child: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    /// The group of the command.
    group: Option<Pid>,
}

impl Kept {
    fn start(args: &Run, hold: &Hold) -> IoResult<Self> {
        let (ours, theirs) = StdStream::pair()?;
        let grace = args.grace.min(args.lease / 4);
        let numbers = [grace, margin(args.lease)].map(|time| time.as_nanos().to_string());
        let mut command = Command::new(SELF);
        command.arg(KEEP).args(numbers).arg(deadline(hold).to_string()).args(&args.command);
        command.env("LOCKSON_NAME", &args.name);
        if let Some(token) = hold.token() {
            command.env("LOCKSON_TOKEN", token.to_string());
        }
        // A group of its own, so that nothing that is meant for this one's ends it.
        let child = command.process_group(0).stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        hand_over_stdin(&ours)?;
        ours.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        Ok(Self { child, reports: BufReader::new(reports).lines(), orders, group: None })
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
                        return Ok(self.judged(code, is_lost || by_keeper || !hold.is_valid()));
                    }
                    Some(None) => {}
                    None => return Err(self.abandoned()),
                },
                () = &mut lost, if !is_lost => {
                    is_lost = true;
                    eprintln!("lockson: the hold is lost: the command is ended");
                    self.order(&Order::Lost).await;
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

    fn judged(&self, code: u8, is_lost: bool) -> End {
        if is_lost {
            End::Lost
        } else {
            End::Of(code)
        }
    }

    /// The keeper was killed, and with it the command's first process, as the kernel is told.
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

/// The command's stdin is this process's; the keeper's is the way to here.
fn hand_over_stdin(to: &StdStream) -> IoResult<()> {
    let stdin = std::io::stdin();
    let files = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(to, &[IoSlice::new(b"i")], &mut control, SendFlags::empty())?;
    Ok(())
}
