//! Tests of several processes: a program that runs its tests, and runs itself again as the processes in them.

use rustix::process::{kill_process, Pid, Signal};
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

/// A test, as it is called.
pub type Test = fn() -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! tests {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), || Box::pin($name()))),*] };
}
pub(crate) use tests;

/// Runs what fits the filter, as the test harness does; or plays a part in one of the tests.
pub fn run<Play: Future<Output = ()>>(tests: &[(&str, Test)], play: impl Fn(String, Vec<String>) -> Play) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, part, rest @ ..] = &args[..] {
        if flag == "--part" {
            return runtime().block_on(play(part.clone(), rest.to_vec()));
        }
    }
    if args.iter().any(|arg| arg == "--list") {
        return tests.iter().for_each(|(name, _)| println!("{name}: test"));
    }
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, Vec::new());
    let begin = Instant::now();
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let runtime = runtime();
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(test())));
        runtime.shutdown_timeout(Duration::from_secs(1));
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        match outcome {
            Ok(()) => passed += 1,
            Err(_) => failed.push(name),
        }
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {} failed; {:.2?}", failed.len(), begin.elapsed());
    if !failed.is_empty() {
        println!("failures: {failed:?}");
        std::process::exit(1);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Milliseconds of the clock that all processes share.
pub fn epoch() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The lines that come by stdin; the process ends when nobody holds it any more.
pub fn orders() -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (sender, orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        std::process::exit(0);
    });
    orders
}

/// This program as another process; killed when it is dropped.
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Process {
    pub fn start(part: &str, args: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--part", part]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, stdin, lines }
    }

    /// The next line that it prints.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line of another process")
    }

    /// The next line that it prints, if there is one by now.
    pub fn try_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Writes a line to its stdin.
    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    #[track_caller]
    pub fn expect(&self, line: &str) {
        assert_eq!(self.line(), line);
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
