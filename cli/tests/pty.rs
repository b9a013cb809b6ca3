//! The program on a terminal of its own.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use rustix::pty::{grantpt, ioctl_tiocgptpeer, openpt, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};

use super::program::command;

/// Where a person would sit, the program's end, and the program. `is_lead`: it is its session's terminal, of whose end
/// the program is told by SIGHUP.
pub fn started(url: &str, words: &[&str], (rows, columns): (u16, u16), is_lead: bool) -> (File, File, Child) {
    // It is to be no terminal of this process's.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let seat = openpt(flags).unwrap();
    grantpt(&seat).unwrap();
    unlockpt(&seat).unwrap();
    tcsetwinsize(&seat, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let line = ioctl_tiocgptpeer(&seat, flags).unwrap();
    let plain = command(url, words);
    let mut command = Command::new("setsid");
    command.args(is_lead.then_some("--ctty")).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let [stdin, stdout, stderr] = [(); 3].map(|()| Stdio::from(line.try_clone().unwrap()));
    let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
    (seat.into(), line.into(), child)
}
