//! Redisson among processes of lockson, one of which stands still and one of which is killed, or whose primary is: the
//! simulator's oracle judges what all of them had.

use std::sync::atomic::{AtomicBool, Ordering};

use lockson_simulator::history::{History, Said, What, PROCESS};
use lockson_simulator::plan::Kind as Wish;
use lockson_simulator::take::name_of;
use support::process::{clock, Signal};
use support::worker::{Mode, Orders, Wanted, LEASE, SETTINGS};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

use crate::*;

/// The last stays taken when its process is killed, so that process takes none.
const WANTED: [&[Wish]; 6] = [
    &[Wish::Lock],
    &[Wish::Fair],
    &[Wish::Read, Wish::Write],
    &[Wish::Fenced],
    &[Wish::PermitSemaphore],
    &[Wish::Semaphore],
];
const PERMITS: u32 = 2;
/// The numbers of Redisson's tasks begin with this: higher than any process of lockson comes to.
const JAVA: usize = 1_000;
/// Of Redisson's permits, which nobody renews: longer than any is had.
const PERMIT_LEASE: Duration = secs(10);

/// One thread of Redisson, which has each of these things in turn.
struct Thread {
    java: Java,
    task: usize,
    wanted: Vec<Wanted>,
    lines: UnboundedSender<Said>,
    /// How often it was answered by an error: another owner goes on, as this one may have what it does not know of.
    failed: usize,
}

impl Thread {
    async fn work(mut self, is_over: Arc<AtomicBool>) -> usize {
        let mut rng = Rng::with_seed(self.task as u64);
        while !is_over.load(Ordering::Relaxed) {
            let (name, kinds) = &self.wanted[rng.usize(..self.wanted.len())];
            let (name, kind) = (*name, kinds[rng.usize(..kinds.len())]);
            self.say(What::Asks { kind, name });
            let done = self.turn(kind, &name_of((name, 0)), ms(rng.u64(1..20))).await;
            self.say(What::Leaves);
            if let Err(why) = done {
                println!("thread {} of Redisson: {why}", self.task);
                self.failed += 1;
            }
        }
        self.failed
    }

    fn say(&self, what: What) {
        self.lines.send(Said { at: clock(), task: self.task, what }).unwrap();
    }

    /// What it is told that it has, it has until it says that it gives it back.
    async fn turn(&self, kind: Wish, name: &str, work: Duration) -> Result<(), String> {
        // A thread of its own: one that waits for another run's lock would not give back this one's.
        let who = format!("{}-{}-{}", self.java.name(), self.task, self.failed);
        let call = |object: &str, verb: &str| self.java.call(&who, object, name, verb);
        let (object, verb) = match kind {
            Wish::Fair => ("fair_lock", "lock"),
            Wish::Read => ("read", "lock"),
            Wish::Write => ("write", "lock"),
            Wish::Fenced => ("fenced_lock", "lock_and_get_token"),
            // Its waiters for permits miss messages.
            Wish::Semaphore => ("semaphore", "try_acquire 1 1000"),
            Wish::PermitSemaphore => ("permits", &*format!("try_acquire 1 1000 {}", PERMIT_LEASE.as_millis())),
            _ => ("lock", "lock"),
        };
        let given = call(object, verb).await?;
        let permits = usize::from(matches!(object, "semaphore" | "permits"));
        if permits == 1 && matches!(given.as_str(), "" | "false" | "null") {
            return Ok(());
        }
        self.say(What::Has { permits, token: given.parse().ok() });
        sleep(work).await;
        self.say(What::Sure);
        let given = match kind {
            Wish::Semaphore => call(object, "release 1").await,
            Wish::PermitSemaphore => call(object, &format!("release {given}")).await,
            _ => call(object, "unlock").await,
        };
        given.map(drop)
    }
}

/// What all said.
struct Book {
    history: History,
    by_java: usize,
    /// What lockson and Java were given behind this moment.
    since: u64,
    given: [usize; 2],
}

impl Book {
    fn note(&mut self, said: Said) {
        if matches!(said.what, What::Has { .. }) {
            let is_java = usize::from(said.task >= JAVA * PROCESS);
            self.by_java += is_java;
            self.given[is_java] += usize::from(said.at > self.since);
        }
        self.history.note(said);
    }

    /// Takes down what a process said. Whether it rests.
    fn listen(&mut self, process: &Process) -> bool {
        let mut rests = false;
        while let Some(line) = process.try_line() {
            rests |= line == "paused";
            self.hear(&line);
        }
        rests
    }

    fn hear(&mut self, line: &str) {
        if line.starts_with('{') {
            self.note(serde_json::from_str(line).unwrap());
        }
    }
}

/// All that take part.
struct Run {
    processes: Vec<Process>,
    /// What the first process was started with.
    first: Orders,
    threads: Vec<JoinHandle<usize>>,
    said: UnboundedReceiver<Said>,
    book: Book,
    until: Instant,
    is_over: Arc<AtomicBool>,
}

impl Run {
    /// They begin, and go on for a minute and a half; in a short run for a tenth, but for one round of what befalls
    /// them at least. `settings` are Redisson's.
    async fn start(world: &World, url: &str, settings: &str, names: usize) -> Self {
        let locks = connect(client(), url).await;
        let (mut history, seed) = (History::new(30_000), seed());
        let wanted: Vec<Wanted> = (0..).zip(WANTED.map(<[_]>::to_vec)).take(names).collect();
        assert!(locks.permit_semaphore(&name_of((4, 0))).try_set_permits(PERMITS).await.unwrap());
        assert!(locks.semaphore(&name_of((5, 0))).try_set_permits(PERMITS).await.unwrap());
        [4, 5].into_iter().for_each(|name| history.set_permits(name, PERMITS as usize));
        let (url, latch, kept, ports) = (url.to_owned(), 6, Vec::new(), Vec::new());
        let few = wanted.iter().map(|want| if want.0 == 5 { &wanted[0] } else { want }).cloned().collect();
        let first = Orders { url, mode: Mode::Told, process: 0, wanted: few, latch, kept, ports, seed };
        let second = Orders { process: 1, wanted: wanted.clone(), ..first.clone() };
        let mut processes = vec![start(&first), start(&second)];
        for process in &mut processes {
            assert_eq!(process.line_within(SOON).await, "paused");
            process.say("go");
        }
        let (lines, said) = unbounded_channel();
        let until = Instant::now() + ms(soak(90_000) as u64).max(LEASE + secs(3));
        let (mut threads, is_over) = (Vec::new(), Arc::new(AtomicBool::new(false)));
        for (at, jvm) in world.jvms.iter().enumerate() {
            let java = jvm.client(&first.url, settings).await;
            for thread in 0..4 {
                let task = (JAVA + at) * PROCESS + thread;
                let (java, wanted, lines) = (java.clone(), wanted.clone(), lines.clone());
                let thread = Thread { java, task, wanted, lines, failed: 0 };
                threads.push(spawn_local(thread.work(is_over.clone())));
            }
        }
        let book = Book { history, by_java: 0, since: u64::MAX, given: [0, 0] };
        Self { processes, first, threads, said, book, until, is_over }
    }

    /// Two processes of lockson: the first is killed, and another comes; the second stands still beyond its leases.
    async fn disturb(&mut self) {
        while Instant::now() + LEASE + secs(1) < self.until {
            sleep(secs(1)).await;
            self.processes[0].kill();
            self.processes[0].last_lines().for_each(|line| self.book.hear(&line));
            self.first.process += 2;
            let next = start(&self.first);
            assert_eq!(next.line_within(SOON).await, "paused");
            self.processes[1].signal(Signal::STOP);
            sleep(LEASE + ms(300)).await;
            self.processes[1].signal(Signal::CONT);
            self.processes[0] = next;
            self.processes[0].say("go");
        }
    }

    /// Both sides are given things behind this moment.
    async fn go_on(&mut self, since: u64) {
        self.book.since = since;
        eventually(SOON, "all go on", async || {
            self.hear();
            self.book.given.iter().all(|given| *given > 20)
        })
        .await;
    }

    fn hear(&mut self) {
        for process in &self.processes {
            self.book.listen(process);
        }
        while let Ok(said) = self.said.try_recv() {
            self.book.note(said);
        }
    }

    /// All end in time, and what they had was right. How many of Redisson's calls failed.
    async fn end(mut self) -> usize {
        sleep(self.until.saturating_duration_since(Instant::now())).await;
        self.hear();
        self.is_over.store(true, Ordering::Relaxed);
        let mut failed = 0;
        for thread in std::mem::take(&mut self.threads) {
            failed += thread.await.unwrap();
        }
        for process in &mut self.processes {
            process.say("pause");
            eventually(SOON, "all rest", async || self.book.listen(process)).await;
        }
        self.hear();
        let (wrong, seed, java) = (self.book.history.judge(), self.first.seed, self.book.by_java);
        let taken = self.book.history.taken;
        println!("history, seed {seed}: {taken} things were had, {java} by Java, wrong {wrong:?}");
        assert!(wrong.is_empty() && java > soak(100) && taken > 100 + java, "seed {seed}");
        failed
    }
}

fn start(orders: &Orders) -> Process {
    Process::start("interop", "history", &["-", &serde_json::to_string(orders).unwrap()])
}

/// Nothing is in the way of Redisson.
pub async fn what_all_had_is_right(world: Arc<World>) {
    let server = Server::with(&SETTINGS);
    let mut run = Run::start(&world, &server.url(), "", WANTED.len()).await;
    run.disturb().await;
    assert_eq!(run.end().await, 0, "calls of Redisson's that failed");
}

/// A primary is killed, and takes with it what its replica had not heard of; without permits that would stay taken.
pub async fn a_failover_takes_no_more_than_it_may(world: Arc<World>) {
    let place = tokio::task::spawn_blocking(|| Arc::new(Place::sentinels(&SETTINGS))).await.unwrap();
    let mut run = Run::start(&world, &place.url(), "watchdog=4000", WANTED.len() - 1).await;
    sleep(secs(2)).await;
    let (doomed, from) = (place.clone(), clock());
    tokio::task::spawn_blocking(move || doomed.fail_over()).await.unwrap();
    let over = clock();
    run.book.history.fault((from, over), true);
    run.go_on(over).await;
    println!("history: {} calls of Redisson's failed", run.end().await);
}
