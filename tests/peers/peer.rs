//! Locks of other libraries: themselves, or where that needs another language, their commands by hand.

use std::io::Write;
use std::process::Stdio;

use async_trait::async_trait;
use support::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// One user of another library's lock, who has at most one hold.
#[async_trait]
pub trait Peer: Send {
    /// One attempt.
    async fn take(&mut self, name: &str, lease: Duration) -> bool;

    /// Waits as its library does.
    async fn wait(&mut self, name: &str, lease: Duration) {
        while !self.take(name, lease).await {
            sleep(ms(50)).await;
        }
    }

    /// Sets the lease of its hold. `false`: it has none any more.
    async fn extend(&mut self, lease: Duration) -> bool;

    async fn give_back(&mut self);
}

pub struct Rslock {
    patient: rslock::LockManager,
    once: rslock::LockManager,
    lock: Option<rslock::Lock>,
}

impl Rslock {
    pub async fn start(server: &Server) -> Option<Box<dyn Peer>> {
        let patient = rslock::LockManager::new(vec![server.url()]);
        let mut once = patient.clone();
        once.set_retry(1, ms(1));
        Some(Box::new(Self { patient, once, lock: None }))
    }
}

#[async_trait]
impl Peer for Rslock {
    async fn take(&mut self, name: &str, lease: Duration) -> bool {
        match self.once.lock(name.as_bytes(), lease).await {
            Ok(lock) => self.lock = Some(lock),
            Err(rslock::LockError::Unavailable) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    async fn wait(&mut self, name: &str, lease: Duration) {
        self.lock = Some(self.patient.acquire_no_guard(name.as_bytes(), lease).await.unwrap());
    }

    async fn extend(&mut self, lease: Duration) -> bool {
        self.once.extend(self.lock.as_ref().unwrap(), lease).await.is_ok()
    }

    async fn give_back(&mut self) {
        self.lock.take().unwrap().release().await;
    }
}

/// The commands of a library, with `NAME`, `VALUE` and `MS` to be filled in.
pub struct Wire {
    take: &'static [&'static str],
    taken: &'static str,
    extend: &'static [&'static str],
    release: &'static [&'static str],
}

const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";
const EXTEND: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
const SET_ANEW: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";

/// redsync 4 on one pool: its value is base64, its extension a PEXPIRE.
pub const REDSYNC: Wire = Wire {
    take: &["SET", "NAME", "VALUE==", "PX", "MS", "NX"],
    taken: "OK",
    extend: &["EVAL", EXTEND, "1", "NAME", "VALUE==", "MS"],
    release: &["EVAL", RELEASE, "1", "NAME", "VALUE=="],
};

/// node-redlock 5 on one client: it takes by a script, and its extension is a SET.
pub const NODE_REDLOCK: Wire = Wire {
    take: &["EVAL", TAKE, "1", "NAME", "VALUE", "MS"],
    taken: "1",
    extend: &["EVAL", SET_ANEW, "1", "NAME", "VALUE", "MS"],
    release: &["EVAL", RELEASE, "1", "NAME", "VALUE"],
};

/// A library's commands, sent by hand.
pub struct ByHand {
    raw: Raw,
    wire: Wire,
    name: String,
    value: String,
}

impl ByHand {
    pub async fn start(server: &Server, wire: Wire) -> Option<Box<dyn Peer>> {
        Some(Box::new(Self { raw: server.raw().await, wire, name: String::new(), value: String::new() }))
    }

    async fn send(&mut self, words: &[&str], lease: Duration) -> String {
        let ms = lease.as_millis().to_string();
        let fill = |word: &&str| match *word {
            "NAME" => self.name.clone(),
            "MS" => ms.clone(),
            word => word.replace("VALUE", &self.value),
        };
        let words: Vec<String> = words.iter().map(fill).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.raw.must(&words).await.optional().unwrap_or_default()
    }
}

#[async_trait]
impl Peer for ByHand {
    async fn take(&mut self, name: &str, lease: Duration) -> bool {
        let before = (std::mem::replace(&mut self.name, name.to_owned()), self.value.clone());
        self.value = support::unique("value");
        let taken = self.send(self.wire.take, lease).await == self.wire.taken;
        if !taken {
            (self.name, self.value) = before;
        }
        taken
    }

    async fn extend(&mut self, lease: Duration) -> bool {
        self.send(self.wire.extend, lease).await == "1"
    }

    async fn give_back(&mut self) {
        self.send(self.wire.release, Duration::ZERO).await;
    }
}

/// redis-py, in a process of its own.
pub struct RedisPy {
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl RedisPy {
    /// `None`: there is no interpreter that has it, which is an error where all has to be tested.
    pub async fn start(port: u16) -> Option<Box<dyn Peer>> {
        let Ok(python) = std::env::var("LOCKSON_PYTHON") else {
            let is_ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
            assert!(!is_ci, "LOCKSON_PYTHON is not set: run the tests by scripts/test, which gets redis-py");
            let what =
                "left out: redis-py. Run the tests by scripts/test, or name a python that has it: LOCKSON_PYTHON\n";
            // Not by a macro: those are captured.
            static ONCE: std::sync::Once = std::sync::Once::new();
            ONCE.call_once(|| std::io::stderr().write_all(what.as_bytes()).unwrap());
            return None;
        };
        let mut child = Command::new(python)
            .args([concat!(env!("CARGO_MANIFEST_DIR"), "/peers/redis_py.py"), &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        Some(Box::new(Self { stdin, stdout, _child: child }))
    }

    async fn tell(&mut self, line: String) -> bool {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        match self.stdout.next_line().await.unwrap().as_deref() {
            Some("yes") => true,
            Some("no") => false,
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[async_trait]
impl Peer for RedisPy {
    async fn take(&mut self, name: &str, lease: Duration) -> bool {
        self.tell(format!("take {name} {}", lease.as_millis())).await
    }

    async fn wait(&mut self, name: &str, lease: Duration) {
        assert!(self.tell(format!("wait {name} {}", lease.as_millis())).await);
    }

    async fn extend(&mut self, lease: Duration) -> bool {
        self.tell(format!("extend {}", lease.as_millis())).await
    }

    async fn give_back(&mut self) {
        self.tell("give_back".to_owned()).await;
    }
}
