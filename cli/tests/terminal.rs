//! On a terminal: what is asked there, and what becomes of a run whose terminal goes away.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use support::prelude::*;

use super::program::{is_ignored, lives, lockson, pttl, until, Running};
use super::pty::started;

/// A terminal of one's own, with `lockson` as the first process on it. Killed when it is dropped.
struct Terminal {
    /// Where a person would sit. `None`: it is gone.
    seat: Option<File>,
    shown: String,
    child: Child,
}

impl Terminal {
    fn start(url: &str, words: &[&str]) -> Terminal {
        let (seat, _, child) = started(url, words, (24, 80), true);
        Terminal { seat: Some(seat), shown: String::new(), child }
    }

    /// Reads until this is shown, and says what stands before it.
    fn until(&mut self, what: &str) -> String {
        loop {
            if let Some((before, after)) = self.shown.split_once(what) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.shown = after;
                return before;
            }
            assert!(self.read(), "it has ended without {what:?}: {:?}", self.shown);
        }
    }

    /// `false`: nobody writes to it any more.
    fn read(&mut self) -> bool {
        let (mut bytes, seat) = ([0; 1024], self.seat.as_mut().unwrap());
        let limit = Timespec::try_from(secs(20)).unwrap();
        let ready = poll(&mut [PollFd::new(seat, PollFlags::IN)], Some(&limit)).unwrap();
        assert!(ready > 0, "it says nothing and does not end: {:?}", self.shown);
        // An error: nobody has its other end any more.
        let read = seat.read(&mut bytes).unwrap_or_default();
        self.shown += std::str::from_utf8(&bytes[..read]).unwrap();
        read > 0
    }

    /// The next line, which is the number of a process.
    fn pid(&mut self) -> Pid {
        let line = self.until("\r\n");
        Pid::from_raw(line.parse().unwrap_or_else(|_| panic!("{line:?} is no pid"))).unwrap()
    }

    fn types(&mut self, text: &str) {
        self.seat.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Somebody closes the window.
    fn hang_up(&mut self) {
        self.seat = None;
    }

    /// Waits for its end: the exit code, and what was shown last.
    fn end(mut self) -> (Option<i32>, String) {
        while self.seat.is_some() && self.read() {}
        let mut code = None;
        until(secs(20), "it ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        (code.unwrap().code(), std::mem::take(&mut self.shown))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_whose_terminal_is_gone_ends_its_command_when_its_hold_is_lost() {
    let server = Server::start();
    let script = "trap '' HUP; echo $$; exec sleep 1000";
    for kind in ["lock", "semaphore:1"] {
        let name = format!("gone:{kind}");
        let words = ["run", &name, "--kind", kind, "--lease", "10s", "--grace", "300ms", "--", "sh", "-c", script];
        let mut terminal = Terminal::start(&server.url(), &words);
        let group = terminal.pid();
        terminal.hang_up();
        lockson(&server.url(), &["force", &name, "--yes"]).expect(0);
        let (code, _) = terminal.end();
        assert_eq!(code, Some(74), "{kind}: what it had to say nobody heard");
        assert!(!lives(group));
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_command_and_gives_the_lock_back() {
    if is_ignored(Signal::HUP) {
        println!("this test was started by nohup: what it starts does not end either");
        return;
    }
    let server = Server::start();
    let mut terminal = Terminal::start(&server.url(), &["run", "hung", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let group = terminal.pid();
    assert!(pttl(&server, "hung") > 0);
    terminal.hang_up();
    let (code, _) = terminal.end();
    assert_eq!(code, Some(128 + 1), "the command had SIGHUP");
    assert!(!lives(group));
    assert_eq!(pttl(&server, "hung"), -2, "the lock was given back");
}

/// As documented; and it can be ended, though what is stopped heeds no signal until it goes on.
#[test]
fn a_command_that_reads_the_terminal_is_stopped_and_can_be_ended() {
    let server = Server::start();
    for (key, signal) in [("\x03", Signal::INT), ("\x1c", Signal::QUIT)] {
        if is_ignored(signal) {
            continue;
        }
        let script = "echo $$; exec cat";
        let mut terminal = Terminal::start(&server.url(), &["run", "reads", "--", "sh", "-c", script]);
        let group = terminal.pid();
        let stat = format!("/proc/{}/stat", group.as_raw_nonzero());
        until(secs(20), "it is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
        terminal.types(key);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(128 + signal.as_raw()), "{shown}");
        assert!(!lives(group) && pttl(&server, "reads") == -2);
    }
}

#[test]
fn who_is_to_be_forced_out_is_asked_for() {
    let server = Server::start();
    let holder = ["run", "asked", "--", "sh", "-c", "echo $$; exec sleep 1000"];
    let mut first = Running::start(&server.url(), &holder);
    first.pid();
    let owner = |name: &str| lockson(&server.url(), &["show", name, "--json"]).values()[0]["holders"][0].clone();
    let before = owner("asked")["owner"].as_str().unwrap().to_owned();
    let ask = || {
        let mut terminal = Terminal::start(&server.url(), &["force", "asked"]);
        let shown = terminal.until("? Its holder goes on until it notices. [y/N] ");
        (terminal, shown)
    };
    for answer in ["n\n", "\n", "yes please\n", "\x04"] {
        let (mut terminal, shown) = ask();
        assert!(shown.starts_with("asked  lock ") && shown.ends_with(&format!("End the hold of {before}")), "{shown}");
        terminal.types(answer);
        let (code, shown) = terminal.end();
        assert!(code == Some(1) && shown.ends_with("lockson: left as it is\r\n"), "{answer:?}: {code:?} {shown}");
        assert_eq!(owner("asked")["owner"], before, "nothing was changed");
    }
    // It changes hands between the question and the answer.
    let (mut terminal, _) = ask();
    first.signal(Signal::TERM);
    first.end().expect(128 + 15);
    let mut second = Running::start(&server.url(), &holder);
    let group = second.pid();
    let now = owner("asked");
    assert!(now["owner"] != before && now["owner"].is_string());
    terminal.types("y\n");
    let (code, shown) = terminal.end();
    let refused = format!("lockson: {before} does not hold it any more: nothing was changed\r\n");
    assert!(code == Some(1) && shown.ends_with(&refused), "{code:?} {shown}");
    assert_eq!(owner("asked")["owner"], now["owner"]);
    // And it stays where it is.
    let (mut terminal, _) = ask();
    terminal.types("y\n");
    let (code, shown) = terminal.end();
    assert!(code == Some(0) && shown.contains("ended: asked by "), "{code:?} {shown}");
    second.end().expect(74);
    assert!(!lives(group));
}
