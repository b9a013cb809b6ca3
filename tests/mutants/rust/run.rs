//! One run of a test program, with one mutant or none switched on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often it is looked whether a run is over.
pub const TICK: Duration = Duration::from_millis(100);
/// What a run may take beyond what it takes without a mutant, and how many times that.
const SPARE: Duration = Duration::from_secs(20);
const TIMES: u32 = 10;

/// What takes longer is endless, where it takes this without a mutant.
pub fn limit(usual: Duration) -> Duration {
    SPARE + usual * TIMES
}

pub struct Run<'a> {
    pub program: &'a Path,
    pub tests: &'a [&'a str],
    /// 0 for none.
    pub mutant: usize,
    /// Where it writes which mutants it comes by.
    pub reached: Option<&'a Path>,
    /// What it takes without a mutant.
    pub usual: Duration,
    /// Whether it may start servers.
    pub servers: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Passed,
    /// At this test.
    Failed(String),
    /// It computes or waits far longer than without the mutant.
    Endless,
}

impl Run<'_> {
    fn command(&self) -> Command {
        let cpu = limit(self.usual).as_secs();
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("ulimit -c 0; ulimit -t {cpu}; exec \"$0\" \"$@\"")])
            .arg(self.program)
            .args(["--test-threads", "1", "--exact"])
            .args(self.tests)
            .env("LOCKSON_SEED", "7")
            .env("LOCKSON_MUTANT", self.mutant.to_string())
            .envs(self.reached.map(|path| ("LOCKSON_MUTANTS_REACHED", path)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if !self.servers {
            command.envs(["LOCKSON_REDIS_SERVER", "LOCKSON_OTHER_SERVER"].map(|name| (name, "/none")));
        }
        command
    }

    /// Runs the tests until the first that fails.
    pub fn run(&self) -> End {
        let mut child = self.command().spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        // A machine that is stopped, or busy elsewhere, is not the fault of a test: a tick is one however long it is.
        let (mut waited, mut passed) = (Duration::ZERO, 0);
        let end = loop {
            let began = Instant::now();
            match told.recv_timeout(TICK) {
                Ok(line) => match line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
                    Some((_, "ok")) => passed += 1,
                    Some((name, "FAILED")) => break End::Failed(name.to_owned()),
                    _ => {}
                },
                Err(RecvTimeoutError::Disconnected) if passed == self.tests.len() => break End::Passed,
                Err(RecvTimeoutError::Disconnected) => break End::Endless,
                Err(RecvTimeoutError::Timeout) => {}
            }
            waited += began.elapsed().min(TICK);
            if waited > limit(self.usual) {
                break End::Endless;
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        end
    }
}
