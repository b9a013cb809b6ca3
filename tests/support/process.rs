//! Tests of several processes: the program that runs the tests runs itself again as the processes in them.

pub use rustix::process::Signal;
use rustix::process::{kill_process, Pid};
use rustix::time::{clock_gettime, ClockId};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// Says which part a process plays, and its arguments: `suite`, `part`, and the others.
const PART: &str = "LOCKSON_PART";
/// Parts the words in it.
const COMMA: char = '\u{1f}';
/// What a process says before all else; before it speaks the test harness.
const BEGIN: &str = "the part begins";
/// How a line of the test harness begins, which says after a minute that the part still runs.
const HARNESS: &str = "test part ";

/// Plays the part of the process that this is, if another one started it for that.
pub fn part(play: impl AsyncFn(&str, &str, &[String])) -> bool {
    let Ok(words) = std::env::var(PART) else { return false };
    let words: Vec<String> = words.split(COMMA).map(str::to_owned).collect();
    println!("\n{BEGIN}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(play(&words[0], &words[1], &words[2..]));
    true
}

/// Whether this process runs nothing but this test. If not, one that does is run first, and has to pass.
pub fn alone(test: &str) -> bool {
    const ALONE: &str = "LOCKSON_ALONE";
    if std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(ALONE, test).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}, in a process of its own");
    false
}

/// Milliseconds of the clock that all processes share.
pub fn epoch() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Nanoseconds of a clock that all processes share and nobody sets.
pub fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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

/// What a process prints.
type Lines = Box<dyn Iterator<Item = String>>;

/// This program as another process, or another program; killed when it is dropped.
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Process {
    pub fn start(suite: &str, part: &str, args: &[&str]) -> Self {
        let words = [&[suite, part], args].concat().join(&COMMA.to_string());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "part", "--nocapture"]).env(PART, words);
        Self::launch(command, |lines| {
            Box::new(lines.skip_while(|line| line != BEGIN).skip(1).filter(|line| !line.starts_with(HARNESS)))
        })
    }

    /// Another program.
    pub fn of(command: Command) -> Self {
        Self::launch(command, |lines| lines)
    }

    fn launch(mut command: Command, said: impl FnOnce(Lines) -> Lines + Send + 'static) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in said(Box::new(BufReader::new(stdout).lines().map_while(Result::ok))) {
                let _ = sender.send(line);
            }
        });
        Self { child, stdin, lines }
    }

    pub fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line of another process")
    }

    /// The next line that it prints, if there is one by now.
    pub fn try_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// All that it printed until its end, which this waits for.
    pub fn last_lines(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.iter()
    }

    /// The next line that it prints, where the thread has other work until then.
    pub async fn line_within(&self, limit: Duration) -> String {
        let mut line = None;
        crate::eventually(limit, "a line of another process", async || {
            line = line.take().or_else(|| self.try_line());
            line.is_some()
        })
        .await;
        line.unwrap()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    #[track_caller]
    pub fn expect(&self, line: &str) {
        assert_eq!(self.line(), line);
    }

    /// Awaits that it ends by itself. Whether it says that all went well.
    pub async fn ends_within(&mut self, limit: Duration) -> bool {
        let mut status = None;
        crate::eventually(limit, "the end of another process", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().success()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
