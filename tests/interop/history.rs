//! Redisson among processes of lockson, one of which stands still and one of which is killed: the simulator's oracle
//! judges what all of them had.

use lockson_simulator::history::{History, Said, What, PROCESS};
use lockson_simulator::plan::Kind as Wish;
use lockson_simulator::take::name_of;
use support::process::{clock, Signal};
use support::worker::{Mode, Orders, Wanted, LEASE, SETTINGS};
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};

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
const PERMIT_LEASE: Duration = secs(300);

/// One thread of Redisson, which has each of these things in turn.
struct Thread {
    java: Java,
    task: usize,
    wanted: Vec<Wanted>,
    lines: UnboundedSender<Said>,
}

impl Thread {
    async fn work(self, until: Instant) {
        let mut rng = Rng::with_seed(self.task as u64);
        while Instant::now() < until {
            let (name, kinds) = &self.wanted[rng.usize(..self.wanted.len())];
            let kind = kinds[rng.usize(..kinds.len())];
            self.say(What::Asks { kind, name: *name });
            self.turn(kind, &name_of((*name, 0)), ms(rng.u64(1..20))).await;
            self.say(What::Leaves);
        }
    }

    fn say(&self, what: What) {
        self.lines.send(Said { at: clock(), task: self.task, what }).unwrap();
    }

    /// What it is told that it has, it has until it says that it gives it back: nothing is in the way of Redisson.
    async fn turn(&self, kind: Wish, name: &str, work: Duration) {
        let who = format!("history-{}", self.task);
        let call = |object: &str, verb: &str| self.java.must(&who, object, name, verb);
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
        let given = call(object, verb).await;
        let permits = usize::from(matches!(object, "semaphore" | "permits"));
        if permits == 1 && matches!(given.as_str(), "" | "false" | "null") {
            return;
        }
        self.say(What::Has { permits, token: given.parse().ok() });
        sleep(work).await;
        self.say(What::Sure);
        match kind {
            Wish::Semaphore => call(object, "release 1").await,
            Wish::PermitSemaphore => call(object, &format!("release {given}")).await,
            _ => call(object, "unlock").await,
        };
    }
}

/// Two processes of lockson: the first is killed, and another comes; the second stands still beyond its leases.
async fn disturb(processes: &mut [Process], mut orders: Orders, until: Instant, history: &mut History) {
    while Instant::now() + LEASE + secs(1) < until {
        sleep(secs(1)).await;
        processes[0].kill();
        // Behind its last line nobody says more.
        sleep(ms(100)).await;
        listen(&processes[0], history);
        orders.process += 2;
        let next = start(&orders);
        assert_eq!(next.line_within(SOON).await, "paused");
        processes[1].signal(Signal::STOP);
        sleep(LEASE + ms(300)).await;
        processes[1].signal(Signal::CONT);
        processes[0] = next;
        processes[0].say("go");
    }
    sleep(until.saturating_duration_since(Instant::now())).await;
}

/// Takes down what a process said. Whether it rests.
fn listen(process: &Process, history: &mut History) -> bool {
    let mut rests = false;
    while let Some(line) = process.try_line() {
        rests |= line == "paused";
        if line.starts_with('{') {
            history.note(serde_json::from_str(&line).unwrap());
        }
    }
    rests
}

fn start(orders: &Orders) -> Process {
    Process::start("interop", "history", &["-", &serde_json::to_string(orders).unwrap()])
}

/// A minute and a half; in a short run a tenth, but one round of what befalls them at least.
pub async fn what_all_had_is_right(world: Arc<World>) {
    let server = Server::with(&SETTINGS);
    let (locks, mut history, seed) = (server.locks().await, History::new(30_000), seed());
    let wanted: Vec<Wanted> = WANTED.iter().enumerate().map(|(name, kinds)| (name, kinds.to_vec())).collect();
    assert!(locks.permit_semaphore(&name_of((4, 0))).try_set_permits(PERMITS).await.unwrap());
    assert!(locks.semaphore(&name_of((5, 0))).try_set_permits(PERMITS).await.unwrap());
    [4, 5].into_iter().for_each(|name| history.set_permits(name, PERMITS as usize));
    let (url, latch, kept, ports) = (server.url(), 6, Vec::new(), Vec::new());
    let mut few = wanted.clone();
    few[5] = few[0].clone();
    let first = Orders { url, mode: Mode::Told, process: 0, wanted: few, latch, kept, ports, seed };
    let second = Orders { process: 1, wanted: wanted.clone(), ..first.clone() };
    let mut processes = vec![start(&first), start(&second)];
    for process in &mut processes {
        assert_eq!(process.line_within(SOON).await, "paused");
        process.say("go");
    }
    let (lines, mut said) = unbounded_channel();
    let until = Instant::now() + ms(soak(90_000) as u64).max(LEASE + secs(3));
    let mut threads = Vec::new();
    for (at, jvm) in world.jvms.iter().enumerate() {
        let java = jvm.client(&server.url(), "").await;
        for thread in 0..4 {
            let task = (JAVA + at) * PROCESS + thread;
            let thread = Thread { java: java.clone(), task, wanted: wanted.clone(), lines: lines.clone() };
            threads.push(spawn_local(thread.work(until)));
        }
    }
    disturb(&mut processes, first, until, &mut history).await;
    for thread in threads {
        thread.await.unwrap();
    }
    for process in &mut processes {
        process.say("pause");
        eventually(SOON, "all rest", async || listen(process, &mut history)).await;
    }
    let mut by_java = 0;
    while let Ok(said) = said.try_recv() {
        by_java += usize::from(matches!(said.what, What::Has { .. }));
        history.note(said);
    }
    let wrong = history.judge();
    println!("history, seed {seed}: {} things were had, {by_java} by Java, wrong {wrong:?}", history.taken);
    assert!(wrong.is_empty() && by_java > soak(100) && history.taken > 100 + by_java, "seed {seed}");
}
