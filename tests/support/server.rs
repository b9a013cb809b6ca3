//! A real redis-server for the tests, or a sentinel: one process.

use super::raw::Raw;
use super::reply::{encode, Reply};
use super::spawner;
use lockson::Locks;
use rustix::process::{kill_process, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a start, or a control command, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Those of the servers that are there, killed or not.
static PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// As what a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    /// What it knows is in a file that it writes itself.
    Sentinel,
}

/// The program that servers are started by where a test names none.
pub fn program() -> String {
    std::env::var("LOCKSON_REDIS_SERVER").unwrap_or_else(|_| "redis-server".into())
}

/// Another program that the contract runs on besides, if there is one.
pub fn other_program() -> Option<String> {
    std::env::var("LOCKSON_OTHER_SERVER").ok().filter(|program| !program.is_empty())
}

/// The directory of this process. It goes when the process ends, however that ends: a shell waits for it.
fn home() -> &'static Path {
    static HOME: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let (home, _) = HOME.get_or_init(|| {
        let home = TempDir::with_prefix("lockson-").unwrap().keep();
        // By then its servers are killed too.
        let watch = ["-c", "read -r end; sleep 1; rm -rf \"$1\"", "sh"];
        let shell = Command::new("sh").args(watch).arg(&home).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        (home, shell.unwrap())
    });
    home
}

/// The process of one server and all it needs.
///
/// It stops with the value and with the test process. All methods but [`Server::raw`] block for some milliseconds.
pub struct Server {
    program: String,
    role: Role,
    port: u16,
    tls_port: Option<u16>,
    settings: Vec<(String, String)>,
    dir: TempDir,
    child: Mutex<Option<Child>>,
    frozen: AtomicBool,
}

/// What clients send; all else is called by scripts. (Every 20 ms a busy client listens, to let others go first.)
const SENT: [&str; 10] = [
    "evalsha",
    "eval",
    "ping",
    "hello",
    "client|setinfo",
    "info",
    "config|resetstat",
    "auth",
    "subscribe",
    "unsubscribe",
];

impl Server {
    /// A fresh, empty server on a free port.
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// With more settings, as in redis.conf. `{dir}` is its directory, blanks part words, a `tls-port` is chosen here.
    pub fn with(settings: &[(&str, &str)]) -> Server {
        Server::of(&program(), settings)
    }

    /// The same by another program.
    pub fn of(program: &str, settings: &[(&str, &str)]) -> Server {
        Server::launched(program, Role::Server, settings)
    }

    /// A sentinel.
    pub fn sentinel_of(program: &str, settings: &[(&str, &str)]) -> Server {
        Server::launched(program, Role::Sentinel, settings)
    }

    fn launched(program: &str, role: Role, settings: &[(&str, &str)]) -> Server {
        let mut attempts = (0..20).filter_map(|_| Server::attempt(program, role, settings));
        attempts.next().unwrap_or_else(|| panic!("no free port for {program} in 20 attempts"))
    }

    /// A server that also listens at [`Server::socket`].
    pub fn unix() -> Server {
        Server::with(&[("unixsocket", "{dir}/redis.sock")])
    }

    /// The server that harmless tests share: not to be killed, frozen or flushed. Names are from [`super::unique`].
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Server::start)
    }

    /// One try; `None` when the port was taken by somebody else.
    fn attempt(program: &str, role: Role, settings: &[(&str, &str)]) -> Option<Server> {
        let dir = TempDir::with_prefix_in("redis-", home()).unwrap();
        let place = dir.path().to_str().unwrap();
        let mut settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| (name.to_string(), value.replace("{dir}", place))).collect();
        let mut tls_port = None;
        for (name, value) in &mut settings {
            if name == "tls-port" {
                let port = free_port();
                *value = port.to_string();
                tls_port = Some(port);
            }
        }
        let server = Server {
            program: program.to_owned(),
            role,
            port: free_port(),
            tls_port,
            settings,
            dir,
            child: Mutex::new(None),
            frozen: AtomicBool::new(false),
        };
        server.launch().then_some(server)
    }

    /// Starts the process and waits until it answers. False: its port was taken; any other end is a panic with its log.
    fn launch(&self) -> bool {
        let log = self.dir.path().join("redis.log");
        let errors = File::create(&log).unwrap();
        let child = spawner::spawn(self.words(&log), errors);
        *self.child.lock().unwrap() = Some(child);
        let limit = Instant::now() + PATIENCE;
        loop {
            if self.is_mine() {
                return true;
            }
            let ended = self.child.lock().unwrap().as_mut().unwrap().try_wait().unwrap();
            let text = || std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = ended {
                *self.child.lock().unwrap() = None;
                let text = text();
                assert!(text.contains("already in use"), "{} {status}: {text}", self.program);
                return false;
            }
            assert!(Instant::now() < limit, "{} does not answer: {}", self.program, text());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The command line.
    fn words(&self, log: &Path) -> Vec<String> {
        let (dir, log) = (self.dir.path().to_str().unwrap(), log.to_str().unwrap());
        let fixed = format!("port {}\nbind 127.0.0.1\ndir {dir}\nlogfile {log}\n", self.port);
        if self.role == Role::Sentinel {
            let file = self.dir.path().join("sentinel.conf");
            // What it learned before it was killed, it knows still.
            if !file.exists() {
                let lines = self.settings.iter().map(|(name, value)| format!("{name} {value}\n"));
                std::fs::write(&file, fixed + &lines.collect::<String>()).unwrap();
            }
            return vec![self.program.clone(), file.to_str().unwrap().into(), "--sentinel".into()];
        }
        let fixed = fixed + "appendonly no";
        let fixed = fixed.lines().flat_map(|line| format!("--{line}").split(' ').map(String::from).collect::<Vec<_>>());
        let mut words: Vec<String> =
            [self.program.clone()].into_iter().chain(fixed).chain(["--save".into(), String::new()]).collect();
        for (name, value) in &self.settings {
            words.push(format!("--{name}"));
            words.extend(value.split_whitespace().map(String::from));
        }
        words
    }

    /// Whether the process that answers at the port is this one, and has loaded what it kept: it says who it is before.
    fn is_mine(&self) -> bool {
        let Ok(Reply::Text(info)) = self.try_control(&["INFO"]) else {
            return false;
        };
        let line = format!("process_id:{}", self.pid().unwrap_or(0));
        info.lines().any(|found| found == line) && !info.lines().any(|found| found == "loading:1")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for clients, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port that speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("a server with TLS")
    }

    /// Where other servers and sentinels find it: by TLS where it has that.
    pub fn peer_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// The socket of a [`Server::unix`].
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// The directory of the server, with its log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.child.lock().unwrap().as_ref().map(Child::id)
    }

    /// Whether the process is there and answers.
    pub fn runs(&self) -> bool {
        self.pid().is_some() && !self.frozen.load(Ordering::SeqCst)
    }

    /// The password of the settings, if any.
    fn password(&self) -> Option<&str> {
        let found = self.settings.iter().find(|(name, _)| name == "requirepass");
        found.map(|(_, value)| value.as_str())
    }

    pub async fn locks(&self) -> Locks {
        Locks::connect(&self.url()).await.unwrap()
    }

    /// A new connection, signed in where the server asks for a password.
    pub async fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self.port).await;
        if let Some(password) = self.password() {
            raw.must(&["AUTH", password]).await;
        }
        raw
    }

    /// Sends one command over a connection of its own and blocks for the answer, which must not be an error.
    #[track_caller]
    pub fn control(&self, args: &[&str]) -> Reply {
        match self.try_control(args) {
            Ok(reply) => reply,
            Err(error) => panic!("{args:?}: {error}"),
        }
    }

    /// The same, where a failure is expected.
    pub fn try_control(&self, args: &[&str]) -> Result<Reply, String> {
        let told = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(told)?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if let Some(password) = self.password() {
            stream.write_all(&encode(&["AUTH", password])).map_err(told)?;
            read_reply(&mut stream)?;
        }
        stream.write_all(&encode(args)).map_err(told)?;
        read_reply(&mut stream)
    }

    /// Ends the process with SIGKILL and reaps it.
    pub fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.frozen.store(false, Ordering::SeqCst);
    }

    /// A new process at the same port, without data; but a node of a cluster and a sentinel know who they are. One that
    /// runs is killed.
    pub fn restart(&self) {
        self.kill();
        let limit = Instant::now() + PATIENCE;
        while !self.launch() {
            assert!(Instant::now() < limit, "port {} was taken", self.port);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the process in its tracks: it keeps its connections and answers nothing. When this returns, it stands.
    pub fn freeze(&self) {
        if !self.frozen.swap(true, Ordering::SeqCst) {
            self.signal(Signal::STOP, WaitIdOptions::STOPPED);
        }
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        if self.frozen.swap(false, Ordering::SeqCst) {
            self.signal(Signal::CONT, WaitIdOptions::CONTINUED);
        }
    }

    fn signal(&self, signal: Signal, until: WaitIdOptions) {
        let child = self.child.lock().unwrap();
        let child = child.as_ref().expect("a running server");
        let pid = Pid::from_child(child);
        kill_process(pid, signal).unwrap();
        waitid(WaitId::Pid(pid), until).unwrap();
    }

    /// How often each command ran and its microseconds in all, by its lower-case name; those of scripts count too.
    pub fn stats(&self) -> BTreeMap<String, (u64, u64)> {
        let info = self.control(&["INFO", "commandstats"]).text();
        info.lines().filter_map(stat).collect()
    }

    /// How many commands scripts ran.
    pub fn commands_in_scripts(&self) -> u64 {
        self.stats().iter().filter(|(command, _)| !SENT.contains(&command.as_str())).map(|(_, (calls, _))| calls).sum()
    }

    pub fn calls(&self, name: &str) -> u64 {
        self.stats().get(name).map_or(0, |(calls, _)| *calls)
    }

    /// Sets [`Server::stats`] back to nothing.
    pub fn reset_stats(&self) {
        self.control(&["CONFIG", "RESETSTAT"]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        PORTS.lock().unwrap().retain(|port| *port != self.port && Some(*port) != self.tls_port);
    }
}

fn stat(line: &str) -> Option<(String, (u64, u64))> {
    let (name, values) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let field = |wanted: &str| -> Option<u64> {
        let mut pairs = values.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some((name.to_string(), (field("calls")?, field("usec")?)))
}

fn read_reply(stream: &mut TcpStream) -> Result<Reply, String> {
    let mut buffer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some((reply, _)) = Reply::read(&buffer) {
            return reply.result();
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err("the connection was closed".into()),
            Ok(len) => buffer.extend(&chunk[..len]),
            // A child of a test has ended: with a time limit, reading does not go on by itself.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("read: {error}")),
        }
    }
}

/// A port nobody listens at, below those that the system hands out, so that a restarted server finds it free; and so is
/// the port 10,000 above, which is the other one of a node of a cluster. It is nobody else's until its server is
/// dropped: clients of one that was killed would find another test's there.
fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let port = fastrand::u16(12_000..22_000);
        if is_free(port) && is_free(port + 10_000) && PORTS.lock().unwrap().insert(port) {
            return port;
        }
    }
}
