//! `top` on a terminal: what is on the screen, what keys do, and that it ends with its terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process, Pid, Signal};
use rustix::termios::{tcgetattr, LocalModes};
use support::prelude::*;
use support::soak;

use super::pty::started;

const ROWS: usize = 24;
const COLUMNS: usize = 200;

/// The program on a terminal of its own, and what it shows.
struct Terminal {
    /// `None`: somebody has closed it.
    master: Option<File>,
    slave: File,
    child: Child,
    cells: Vec<[char; COLUMNS]>,
    cursor: (usize, usize),
    /// What has come of something that has no end yet.
    pending: String,
}

impl Terminal {
    /// `is_lead`: the terminal is the one that the program's session is led by, which tells it of its end by SIGHUP.
    fn start(url: &str, words: &[&str], is_lead: bool) -> Terminal {
        let (master, slave, child) = started(url, words, (ROWS as u16, COLUMNS as u16), is_lead);
        let cells = vec![[' '; COLUMNS]; ROWS];
        Terminal { master: Some(master), slave, child, cells, cursor: (0, 0), pending: String::new() }
    }

    /// Types this.
    fn press(&mut self, keys: &str) {
        self.master.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until the screen is like this.
    #[track_caller]
    fn until(&mut self, what: &str, is: impl Fn(&str) -> bool) {
        let limit = Instant::now() + secs(30);
        while !is(&self.text()) {
            assert!(Instant::now() < limit, "not seen: {what}: {}", self.text());
            let master = self.master.as_mut().unwrap();
            let mut fds = [PollFd::new(master, PollFlags::IN)];
            if poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap() == 0 {
                continue;
            }
            let mut bytes = [0; 4096];
            let count = master.read(&mut bytes).unwrap();
            self.pending += &String::from_utf8_lossy(&bytes[..count]);
            self.show();
        }
    }

    fn text(&self) -> String {
        let lines = self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n");
        lines.collect::<String>()
    }

    /// As much of a terminal as `top` needs: moves of the cursor, the clearing of the screen, and characters.
    fn show(&mut self) {
        let text = std::mem::take(&mut self.pending);
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            if c != '\x1b' {
                self.put(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
            let Some(end) = rest.char_indices().skip(2).find(|(_, c)| c.is_ascii_alphabetic()) else { break };
            let (parameters, verb) = (&rest[2..end.0], end.1);
            match verb {
                'H' => {
                    let mut numbers = parameters.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
                    self.cursor = (numbers.next().unwrap_or(1) - 1, numbers.next().unwrap_or(1) - 1);
                }
                'J' => self.cells = vec![[' '; COLUMNS]; ROWS],
                _ => {}
            }
            rest = &rest[end.0 + 1..];
        }
        self.pending = rest.to_owned();
    }

    fn put(&mut self, c: char) {
        let (row, column) = self.cursor;
        if let Some(cell) = self.cells.get_mut(row).and_then(|cells| cells.get_mut(column)) {
            *cell = c;
        }
        self.cursor.1 += 1;
    }

    /// Waits for its end.
    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let limit = Instant::now() + secs(20);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            // A terminal whose buffer is full keeps who writes to it.
            if let Some(master) = &mut self.master {
                let mut fds = [PollFd::new(master, PollFlags::IN)];
                if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 })).unwrap() > 0 {
                    let _ = master.read(&mut [0; 4096]);
                }
            } else {
                std::thread::sleep(ms(5));
            }
            assert!(Instant::now() < limit, "it does not end");
        }
    }

    /// Whether the terminal is as a shell wants it: lines are read as such, and what is typed is seen.
    fn is_restored(&self) -> bool {
        tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three locks: one is held for longest, one changes hands most often.
async fn scene(server: &Server) -> (Locks, Guard) {
    let locks = server.locks().await;
    let held = locks.lock("alone").guard().await.unwrap();
    for name in ["busy", "calm"] {
        locks.lock(name).owned_by(&Owner::named("first").unwrap()).lock().await.unwrap();
    }
    (locks, held)
}

/// Whether these stand one below the other.
fn are_in_order(screen: &str, names: &[&str]) -> bool {
    let at = names.iter().map(|name| screen.find(&format!("\n{name} "))).collect::<Vec<_>>();
    at.iter().all(Option::is_some) && at.is_sorted()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_what_comes_first_and_end_it() {
    let server = Server::start();
    let (locks, _held) = scene(&server).await;
    let mut top = Terminal::start(&server.url(), &["top", "--interval", "50ms"], false);
    let heads = "the longest queues first   w queues";
    top.until("all of it", |screen| screen.contains(heads) && are_in_order(screen, &["alone", "busy", "calm"]));
    assert!(!top.is_restored(), "keys come one by one");
    // Seen with another holder than before.
    locks.lock("busy").force_unlock().await.unwrap();
    locks.lock("busy").owned_by(&Owner::named("second").unwrap()).lock().await.unwrap();
    top.until("the other holder", |screen| screen.contains("named-second"));
    top.press("b");
    let is_busy = |screen: &str| screen.contains("the busiest first") && are_in_order(screen, &["busy", "alone"]);
    top.until("the busiest first", is_busy);
    top.press("h");
    let is_held = |screen: &str| screen.contains("the longest holds first") && are_in_order(screen, &["alone", "busy"]);
    top.until("the longest holds first", is_held);
    let waits = locks.fair_lock("calm").owned_by(&Owner::named("waits").unwrap());
    let waiter = spawn_with(waits, |lock| async move { lock.guard().await });
    top.press("w");
    let is_queued = |screen: &str| screen.contains(heads) && are_in_order(screen, &["calm", "alone", "busy"]);
    top.until("the longest queue first", is_queued);
    // Redis goes away: it says so, keeps what it has seen, and can be quit.
    server.freeze();
    top.until("that it is away", |screen| screen.contains("UNREACHABLE") && screen.contains("\nalone "));
    top.press("q");
    assert_eq!(top.ended().code(), Some(0));
    assert!(top.is_restored());
    server.thaw();
    waiter.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_terminal() {
    let server = Server::start();
    let (_locks, _held) = scene(&server).await;
    // Whatever it is about: it looks, paints, and waits for keys.
    for moment in 0..soak(80) {
        let is_lead = moment % 2 == 0;
        let mut top = Terminal::start(&server.url(), &["top", "--interval", "50ms"], is_lead);
        top.until("all of it", |screen| are_in_order(screen, &["alone", "busy", "calm"]));
        std::thread::sleep(ms((moment * 35 % 250) as u64));
        // A terminal window is closed.
        drop(top.master.take());
        assert_eq!(top.ended().code(), Some(0), "led by it: {is_lead}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let server = Server::start();
    for signal in [Signal::TERM, Signal::INT] {
        let mut top = Terminal::start(&server.url(), &["top", "--interval", "50ms"], false);
        top.until("that there is nothing", |screen| screen.contains("0 objects, 0 held"));
        kill_process(Pid::from_child(&top.child), signal).unwrap();
        assert_eq!(top.ended().code(), Some(0));
        assert!(top.is_restored());
    }
}
