//! Redisson in processes of its own: finds a JDK and Maven, builds the classes once, sends commands to src/Peer.java.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::Mutex;

use futures::future::{BoxFuture, FutureExt};
use support::prelude::*;
use support::sha1;
use tokio::sync::oneshot;

/// How long an answer may take, waits included.
const PATIENCE: Duration = secs(240);

/// What is missing to run Redisson, in words that say how to get it.
pub fn missing() -> Option<String> {
    let is_there = |program: &str| Command::new(program).arg("-version").output().is_ok();
    let how =
        "Debian: apt-get install openjdk-17-jdk-headless maven. Fedora: dnf install java-17-openjdk-devel maven. \
        macOS: brew install openjdk@17 maven";
    let missing: Vec<&str> = ["javac", "mvn"].into_iter().filter(|program| !is_there(program)).collect();
    (!missing.is_empty()).then(|| format!("there is no {}. {how}", missing.join(" and no ")))
}

/// The class path of the built project. Maven runs only when a source has changed since the last time.
pub fn build() -> String {
    let project = support::root().join("tests/interop");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
    let folder = std::fs::read_dir(project.join("src")).unwrap();
    let mut sources: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    sources.push(project.join("pom.xml"));
    sources.sort();
    let text: String = sources.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let stamp = sha1(&text);
    let (file, stamped) = (out.join("classpath"), out.join("stamp"));
    let whole = |jars: &str| jars.split(':').all(|jar| Path::new(jar).is_file());
    let jars = std::fs::read_to_string(&file).unwrap_or_default();
    if std::fs::read_to_string(&stamped).is_ok_and(|old| old == stamp) && whole(jars.trim()) {
        return class_path(&out, &jars);
    }
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(project.join("pom.xml")).arg(format!("-Dout={}", out.display()));
    maven.args(["compile", "dependency:build-classpath"]).arg(format!("-Dmdep.outputFile={}", file.display()));
    let output = maven.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "mvn: {}", String::from_utf8_lossy(&output.stdout));
    std::fs::write(stamped, stamp).unwrap();
    class_path(&out, &std::fs::read_to_string(file).unwrap())
}

fn class_path(out: &Path, jars: &str) -> String {
    format!("{}:{}", out.join("classes").display(), jars.trim())
}

/// What one command came to, and when, in microseconds of the epoch.
#[derive(Debug)]
pub struct Answer {
    pub begin: u64,
    pub end: u64,
    pub result: Result<String, String>,
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// One JVM; killed when it is dropped.
pub struct Jvm {
    child: Mutex<Child>,
    stdin: Mutex<ChildStdin>,
    waiting: Waiting,
    count: AtomicU64,
}

impl Jvm {
    pub fn start(class_path: &str) -> Arc<Self> {
        let mut command = Command::new("java");
        // A peer lives for a minute: what it may spare is its start.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path, "Peer"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let waiting = Waiting::default();
        let of = waiting.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let (id, answer) = parsed(&line).unwrap_or_else(|| panic!("the JVM said {line:?}"));
                if let Some(sender) = of.lock().unwrap().remove(&id) {
                    let _ = sender.send(answer);
                }
            }
            of.lock().unwrap().clear();
        });
        let count = AtomicU64::new(0);
        Arc::new(Self { child: Mutex::new(child), stdin: Mutex::new(stdin), waiting, count })
    }

    /// A client of its own, with settings as Peer.java knows them.
    pub async fn client(self: &Arc<Self>, url: &str, settings: &str) -> Java {
        let client = format!("client-{}", self.count.fetch_add(1, Ordering::Relaxed));
        let java = Java { jvm: self.clone(), client };
        java.must("opener", "client", "-", &format!("open url={url} {settings}")).await;
        java
    }

    /// Ends the process as power loss does.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Sends a line now; the future is its answer.
    fn send(&self, words: &str) -> oneshot::Receiver<Answer> {
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, sender);
        // A process that is gone answers by the end of its output.
        let _ = writeln!(self.stdin.lock().unwrap(), "{id} {}", words.trim_end());
        receiver
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        self.kill();
    }
}

fn parsed(line: &str) -> Option<(u64, Answer)> {
    let mut words = line.splitn(5, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (id, begin, end) = (number()?, number()?, number()?);
    let (verdict, text) = (words.next()?, words.next().unwrap_or_default().to_owned());
    let result = if verdict == "ok" { Ok(text) } else { Err(text) };
    Some((id, Answer { begin, end, result }))
}

/// One client of Redisson.
#[derive(Clone)]
pub struct Java {
    pub jvm: Arc<Jvm>,
    client: String,
}

impl Java {
    /// By which commands name it.
    pub fn name(&self) -> &str {
        &self.client
    }

    /// A name of an object for the multi-locks of this JVM.
    pub fn member(&self, object: &str, name: &str) -> String {
        format!("{}/{object}/{name}", self.client)
    }

    /// Sends a command of a thread now; the future is its answer.
    #[track_caller]
    pub fn timed(&self, who: &str, object: &str, name: &str, verb: &str) -> BoxFuture<'static, Answer> {
        let line = format!("{} {who} {object} {name} {verb}", self.client);
        let answer = self.jvm.send(&line);
        let caller = std::panic::Location::caller();
        Box::pin(async move {
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            let answer = answer.unwrap_or_else(|_| panic!("no answer to {line:?} (at {caller})"));
            let gone = Answer { begin: 0, end: 0, result: Err("the JVM is gone".to_owned()) };
            answer.unwrap_or(gone)
        })
    }

    /// The same, without the times.
    #[track_caller]
    pub fn call(&self, who: &str, object: &str, name: &str, verb: &str) -> BoxFuture<'static, Result<String, String>> {
        self.timed(who, object, name, verb).map(|answer| answer.result).boxed()
    }

    /// A command that must succeed.
    #[track_caller]
    pub fn must(&self, who: &str, object: &str, name: &str, verb: &str) -> BoxFuture<'static, String> {
        let (line, caller) = (format!("{who} {object} {name} {verb}"), std::panic::Location::caller());
        let must = move |answer: Answer| answer.result.unwrap_or_else(|error| panic!("{line} (at {caller}): {error}"));
        self.timed(who, object, name, verb).map(must).boxed()
    }

    /// A command that must succeed, and whose answer is a number, a truth or the like.
    #[track_caller]
    pub fn get<T: FromStr>(&self, who: &str, object: &str, name: &str, verb: &str) -> BoxFuture<'static, T> {
        let read = |answer: String| answer.parse().unwrap_or_else(|_| panic!("a value of another type: {answer}"));
        self.must(who, object, name, verb).map(read).boxed()
    }
}
