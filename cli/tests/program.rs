//! The program under test: started, spoken to, and ended with its test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, test_kill_process_group, Pid, Signal};
use serde_json::Value;
use support::Server;

/// `lockson` with these words, for the server at this URL. Nothing of this process's environment decides anything.
pub fn command(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockson"));
    for variable in ["LOCKSON_URL", "LOCKSON_USER", "LOCKSON_PASSWORD", "LOCKSON_PREFIX", "LOCKSON_CA"] {
        command.env_remove(variable);
    }
    command.env("LOCKSON_URL", url).args(words).stdin(Stdio::null());
    command
}

/// What a run of it came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Ran { code: output.status.code(), out, err }
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Its lines, as JSON.
    pub fn values(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub fn lockson(url: &str, words: &[&str]) -> Ran {
    Ran::of(command(url, words).output().unwrap())
}

/// One that runs, and prints lines. Killed when it is dropped.
pub struct Running {
    child: Option<Child>,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub fn start(url: &str, words: &[&str]) -> Running {
        Running::of(command(url, words))
    }

    pub fn of(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child: Some(child), lines }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        assert!(read > 0, "it has ended: {:?}", self.errors());
        line.trim_end().to_owned()
    }

    /// Its next line, which is the number of a process.
    pub fn pid(&mut self) -> Pid {
        let line = self.line();
        Pid::from_raw(line.parse().unwrap_or_else(|_| panic!("{line:?} is no pid: {:?}", self.errors()))).unwrap()
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        let child = self.child.as_mut().unwrap();
        let _ = child.kill();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ran {
        let (mut child, mut out, mut err) = (self.child.take().unwrap(), String::new(), String::new());
        self.lines.read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Ran { code: child.wait().unwrap().code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether this process, and so what it starts, ignores a signal.
pub fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
}

/// Whether anybody is in the group.
pub fn lives(group: Pid) -> bool {
    test_kill_process_group(group).is_ok()
}

#[track_caller]
pub fn until(limit: Duration, what: &str, mut check: impl FnMut() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What is left of a key's lease in milliseconds; -2 without the key.
pub fn pttl(server: &Server, key: &str) -> i64 {
    server.control(&["PTTL", key]).int()
}
