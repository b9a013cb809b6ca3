//! One process of a history: tasks that contend for locks, permits and a latch, and holds that are kept. It says what
//! it asked for and had, and until when it was sure to have it.

use crate::prelude::*;
use crate::process::{clock, orders};
use lockson::Replicas;
use lockson_simulator::history::{Said, What, PROCESS};
use lockson_simulator::judge::Seen;
use lockson_simulator::plan::{End, Kind, Turn};
use lockson_simulator::take::{name_of, take, Held};
use serde::{Deserialize, Serialize};
use tokio::sync::{watch, RwLock};

/// Tasks of a process, beside the one that counts latches down.
pub const TASKS: usize = 10;
/// So often each process counts a latch down.
pub const COUNTS: usize = 2;
/// Of what clients keep: long enough for a failover, and what nobody gave back goes with it.
pub const LEASE: Duration = secs(6);
/// The user of clients, and its password.
pub const LOGIN: (&str, &str) = ("app", "right");
/// The settings of servers that know this user.
pub const SETTINGS: [(&str, &str); 1] = [("user", "app on >right ~* &* +@all")];
/// Longer than a failover takes.
const LONG: Duration = secs(4);
/// How long a task waits for what it wants.
const WAIT: Duration = secs(20);

/// How clients go about a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// A lock counts when all replicas have it.
    Confirmed,
    /// A lock may be lost with its primary, and whoever held it is told.
    Told,
    /// They believe in their leases, whatever they are told.
    Deaf,
}

/// The number of a name, and what is taken of it.
pub type Wanted = (usize, Vec<Kind>);

/// What a process is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    pub url: String,
    pub mode: Mode,
    /// The number of the process, which those of its tasks begin with.
    pub process: usize,
    pub wanted: Vec<Wanted>,
    pub latch: usize,
    pub kept: Vec<String>,
    /// Where servers are reached: their port, and another one.
    pub ports: Vec<(u16, u16)>,
    pub seed: u64,
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

/// Says it at once: a process that is killed has said all that it did.
fn say(task: usize, what: What) {
    say_at(clock(), task, what);
}

fn say_at(at: u64, task: usize, what: What) {
    println!("{}", serde_json::to_string(&Said { at, task, what }).unwrap());
}

/// Rests until it is told to `go`, and goes until it is told to `pause`. It ends with whoever tells it.
pub async fn play(orders_text: &str) {
    let orders_of: Orders = serde_json::from_str(orders_text).unwrap();
    let Orders { url, mode, process, wanted, latch, kept, ports, seed } = orders_of;
    let mut orders = orders();
    let by = move |host: &str, port: u16| {
        let found = ports.iter().find(|(at, _)| *at == port);
        found.map(|(_, by)| (host.to_owned(), *by))
    };
    let locks = builder(mode).address_map(by).connect(&url).await.unwrap();
    let crew = Arc::new(Crew { locks, mode, work: RwLock::default(), paused: watch::Sender::new(true) });
    let mut rest = crew.work.write().await;
    for task in 0..TASKS {
        let is_long = mode == Mode::Deaf && task < wanted.len();
        let (wanted, rng) = (wanted[task % wanted.len()].clone(), Rng::with_seed(seed ^ task as u64));
        let worker = Worker { crew: crew.clone(), wanted, task: process * PROCESS + task, rng, is_long };
        tokio::spawn(worker.work());
    }
    tokio::spawn(count(crew.clone(), latch, process * PROCESS + TASKS));
    for name in kept {
        tokio::spawn(keep(crew.clone(), name));
    }
    let beat = move || async move {
        loop {
            say(process * PROCESS, What::Beats);
            sleep(ms(250)).await;
        }
    };
    let mut beats = None;
    loop {
        // The first line that it prints.
        println!("paused");
        assert_eq!(orders.recv().await.unwrap(), "go");
        beats.get_or_insert_with(|| tokio::spawn(beat()));
        crew.paused.send_replace(false);
        drop(rest);
        assert_eq!(orders.recv().await.unwrap(), "pause");
        crew.paused.send_replace(true);
        rest = crew.work.write().await;
    }
}

struct Worker {
    crew: Arc<Crew>,
    wanted: Wanted,
    task: usize,
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
            say(self.task, What::Leaves);
            drop(rest);
            if let Err(why) = done {
                println!("failed {why}");
                sleep(ms(20)).await;
            }
            sleep(ms(self.rng.u64(5..30))).await;
        }
    }

    /// One thing that it takes and gives back.
    async fn turn(&mut self) -> Result<(), String> {
        let (name, kinds) = &self.wanted;
        let kind = kinds[self.rng.usize(..kinds.len())];
        // Now and then long enough for a fault to befall it.
        let work = if self.rng.u8(..16) == 0 { self.rng.u64(..300) } else { self.rng.u64(1..5) };
        let turn = Turn {
            task: self.task,
            name: *name,
            kind,
            wait: WAIT.as_millis() as u64,
            patience: None,
            limited: None,
            lease: None,
            work,
            entries: 0,
            entry_patience: 0,
            end: End::Unlock,
        };
        say(self.task, What::Asks { kind, name: *name });
        let taken = Owner::unique().scope(self.take(&turn)).await;
        let Some(held) = taken.map_err(|error| variant("acquire", &error))? else {
            return Err(format!("acquire {kind:?} in time"));
        };
        let (permits, token) = (held.permits(), held.token());
        self.while_held(&held, What::Has { permits, token });
        let is_long = std::mem::replace(&mut self.is_long, false);
        sleep(if is_long { LONG } else { ms(work) }).await;
        self.while_held(&held, What::Sure);
        match held.give_back().await.as_str() {
            "Ok(())" => Ok(()),
            error => Err(variant("release", error)),
        }
    }

    /// Says this with the moment before it was seen to be so: what is valid behind it was so then.
    fn while_held(&self, held: &Held, what: What) {
        let at = clock();
        if self.crew.mode == Mode::Deaf || held.is_valid() {
            say_at(at, self.task, what);
        }
    }

    /// Who waits for a fair lock looks for its place meanwhile.
    async fn take(&self, turn: &Turn) -> Result<Option<Held>, String> {
        let stands = async {
            let lock = self.crew.locks.fair_lock(&name_of((turn.name, 0)));
            while !matches!(lock.queue_position().await, Ok(Some(_))) {
                sleep(ms(10)).await;
            }
            say(self.task, What::Stands);
            std::future::pending().await
        };
        let locks = std::slice::from_ref(&self.crew.locks);
        tokio::select! {
            biased;
            taken = take(turn, locks) => taken,
            () = stands, if turn.kind == Kind::Fair => unreachable!(),
        }
    }
}

/// `release NotHeld Server`, `acquire Query ReadOnly`.
fn variant(verb: &str, text: &str) -> String {
    let text = text.strip_prefix("Err(").unwrap_or(text);
    let word = |from: &str| from.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>();
    let why = ["lost: Some(", "why: ", "Query("].iter().find_map(|before| Some(word(text.split_once(before)?.1)));
    format!("{verb} {} {}", word(text), why.unwrap_or_default()).trim().to_owned()
}

/// Counts the latch of each round down, and waits until it is open.
async fn count(crew: Arc<Crew>, name: usize, task: usize) {
    let latch = crew.locks.latch(&name_of((name, 0)));
    let mut pauses = crew.paused.subscribe();
    loop {
        pauses.wait_for(|paused| !*paused).await.unwrap();
        let rest = crew.work.read().await;
        for _ in 0..COUNTS {
            say(task, What::Counts { name });
            match latch.count_down().await {
                Ok(left) => say(task, What::Counted { name, left }),
                Err(error) => println!("failed {}", variant("count", &format!("{error:?}"))),
            }
        }
        tokio::select! {
            waited = latch.wait() => match waited {
                Ok(WaitOutcome::Opened) => say(task, What::Opened { name }),
                other => println!("failed {}", variant("latch", &format!("{other:?}"))),
            },
            _ = pauses.wait_for(|paused| *paused) => println!("failed latch closed"),
        }
        drop(rest);
        pauses.wait_for(|paused| *paused).await.unwrap();
    }
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
            Err(error) => println!("failed {}", variant("keep", &format!("{error:?}"))),
        }
        drop(rest);
        sleep(ms(20)).await;
    }
}
