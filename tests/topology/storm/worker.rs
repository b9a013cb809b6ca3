//! One process of a fault run: tasks that contend for locks, and holds that are kept. It says what it had, and until
//! when it was sure to have it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use lockson::Replicas;
use support::prelude::*;
use support::process::{clock, orders};
use tokio::sync::{watch, RwLock};

/// Tasks of a process.
pub const TASKS: usize = 8;
/// Of what clients keep: long enough for a failover, and what nobody gave back goes with it.
pub const LEASE: Duration = secs(6);
/// The user of clients, and its password.
pub const LOGIN: (&str, &str) = ("app", "right");
/// Longer than a failover takes.
const LONG: Duration = secs(4);
/// What is not valid for so long any more changes nothing.
const MARGIN: Duration = ms(300);

/// How clients go about a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A lock counts when all replicas have it.
    Confirmed,
    /// A lock may be lost with its primary, and whoever held it is told.
    Told,
    /// They believe in their leases, whatever they are told.
    Deaf,
}

/// Locks of one kind and name that tasks of all processes contend for.
pub const CONTENDED: [&str; 6] = ["lock", "fair_lock", "write", "fenced_lock", "plain_lock", "mutex"];

/// What a process is started with.
#[derive(Debug, Clone)]
pub struct Orders {
    pub url: String,
    pub mode: Mode,
    /// A file for each name.
    pub counters: String,
    pub names: Vec<String>,
    pub kept: Vec<String>,
    /// Where servers are reached: their port, and another one.
    pub ports: Vec<(u16, u16)>,
    pub seed: u64,
}

impl Orders {
    pub fn words(&self) -> Vec<String> {
        let ports: Vec<String> = self.ports.iter().map(|(port, by)| format!("{port}:{by}")).collect();
        let mode = format!("{:?}", self.mode);
        let lists = [self.names.join(" "), self.kept.join(" "), ports.join(" ")];
        [vec![self.url.clone(), mode, self.counters.clone()], lists.to_vec(), vec![self.seed.to_string()]].concat()
    }

    fn of(words: &[String]) -> Self {
        let [url, mode, counters, names, kept, ports, seed] = words else { panic!("seven words: {words:?}") };
        let list = |words: &String| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let port = |pair: &String| {
            let (port, by) = pair.split_once(':').unwrap();
            (port.parse().unwrap(), by.parse().unwrap())
        };
        let mode =
            [Mode::Confirmed, Mode::Told, Mode::Deaf].into_iter().find(|each| format!("{each:?}") == *mode).unwrap();
        let (url, counters, seed) = (url.clone(), counters.clone(), seed.parse().unwrap());
        let ports = list(ports).iter().map(port).collect();
        Self { url, mode, counters, names: list(names), kept: list(kept), ports, seed }
    }
}

/// The client of a fault run.
pub fn builder(mode: Mode) -> Builder {
    let builder = Locks::builder().username(LOGIN.0).password(LOGIN.1).watchdog_lease(LEASE).command_timeout(ms(500));
    match mode {
        Mode::Confirmed => builder.confirm(Replicas::All, ms(300)),
        Mode::Told | Mode::Deaf => builder,
    }
}

/// What all tasks of a process share.
struct Crew {
    locks: Locks,
    mode: Mode,
    /// Each turn has it for reading; a pause has it alone.
    work: RwLock<()>,
    paused: watch::Sender<bool>,
}

/// Rests until it is told to `go`, and goes until it is told to `pause`. It ends with whoever tells it.
pub async fn play(words: &[String]) {
    let Orders { url, mode, counters, names, kept, ports, seed } = Orders::of(words);
    let mut orders = orders();
    let by = move |host: &str, port: u16| {
        let found = ports.iter().find(|(at, _)| *at == port);
        found.map(|(_, by)| (host.to_owned(), *by))
    };
    let locks = builder(mode).address_map(by).connect(&url).await.unwrap();
    let crew = Arc::new(Crew { locks, mode, work: RwLock::default(), paused: watch::Sender::new(true) });
    let mut rest = crew.work.write().await;
    for task in 0..TASKS {
        let at = task % names.len();
        let kind = KINDS.iter().find(|kind| kind.name == CONTENDED[at % CONTENDED.len()]).unwrap();
        let lock = (kind.make)(&crew.locks, &names[at]);
        let (counter, rng) = (Counter::open(&counters, at), Rng::with_seed(seed ^ task as u64));
        let (task, is_long) = (format!("{seed}-{task}"), mode == Mode::Deaf && task < names.len());
        let worker = Worker { crew: crew.clone(), lock, counter, name: at, task, rng, is_long };
        tokio::spawn(worker.work());
    }
    for name in kept {
        tokio::spawn(keep(crew.clone(), name));
    }
    loop {
        println!("paused");
        assert_eq!(orders.recv().await.unwrap(), "go");
        crew.paused.send_replace(false);
        drop(rest);
        assert_eq!(orders.recv().await.unwrap(), "pause");
        crew.paused.send_replace(true);
        rest = crew.work.write().await;
    }
}

/// A number in a file. Whoever has the lock reads it, waits, and writes the next one.
struct Counter(File);

impl Counter {
    fn open(folder: &str, number: usize) -> Self {
        let path = std::path::Path::new(folder).join(number.to_string());
        Self(OpenOptions::new().read(true).write(true).open(path).unwrap())
    }

    fn read(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn write(&self, number: u64) {
        self.0.write_all_at(&number.to_le_bytes(), 0).unwrap();
    }
}

struct Worker {
    crew: Arc<Crew>,
    lock: Arc<dyn RLock>,
    counter: Counter,
    name: usize,
    task: String,
    rng: Rng,
    /// Its next turn lasts until somebody else has the lock too.
    is_long: bool,
}

impl Worker {
    async fn work(mut self) {
        let crew = self.crew.clone();
        loop {
            let rest = crew.work.read().await;
            let done = self.turn().await;
            drop(rest);
            if let Err(why) = done {
                println!("failed {why}");
                sleep(ms(20)).await;
            }
            sleep(ms(self.rng.u64(5..30))).await;
        }
    }

    async fn turn(&mut self) -> Result<(), String> {
        let lock = self.lock.owned_by(&Owner::unique());
        let guard = lock.guard().await.map_err(|error| variant("acquire", &error))?;
        let deaf = self.crew.mode == Mode::Deaf;
        let (begin, number) = (clock(), self.counter.read());
        let is_long = std::mem::replace(&mut self.is_long, false);
        sleep(if is_long { LONG } else { ms(self.rng.u64(1..5)) }).await;
        let writes = deaf || guard.remaining() > MARGIN;
        if writes {
            self.counter.write(number + 1);
        }
        let now = clock();
        // It had the lock at `now` if it has it still.
        let end = if deaf || guard.is_valid() { now } else { begin };
        println!("held {} {} {begin} {end} {}", self.name, self.task, u8::from(writes));
        guard.unlock().await.map_err(|error| variant("unlock", &error))
    }
}

/// `unlock NotHeld Server`, `acquire Query ReadOnly`.
fn variant(verb: &str, error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    let word = |from: &str| from.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>();
    let why = ["lost: Some(", "why: ", "Query("].iter().find_map(|before| Some(word(text.split_once(before)?.1)));
    format!("{verb} {} {}", word(&text), why.unwrap_or_default()).trim().to_owned()
}

/// Holds a lock until it is lost, or a pause.
async fn keep(crew: Arc<Crew>, name: String) {
    loop {
        let rest = crew.work.read().await;
        let mut pauses = crew.paused.subscribe();
        match crew.locks.lock(&name).owned_by(&Owner::unique()).guard().await {
            Ok(guard) => {
                println!("kept {name} {}:{}", crew.locks.client_id(), guard.owner());
                let lost = tokio::select! {
                    lost = guard.lost() => Some(lost),
                    _ = pauses.wait_for(|paused| *paused) => None,
                };
                match lost {
                    Some(lost) => {
                        println!("told {}:{} {} {:?}", crew.locks.client_id(), guard.owner(), clock(), lost.why)
                    }
                    None => {
                        println!("left {name}");
                        let _ = guard.unlock().await;
                    }
                }
            }
            Err(error) => println!("failed {}", variant("keep", &error)),
        }
        drop(rest);
        sleep(ms(20)).await;
    }
}
