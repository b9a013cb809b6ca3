//! One hot lock: tasks that all loop lock, count, unlock on one name.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join_all, FutureExt};
use rslock::LockManager;
use rustix::time::ClockId;

use crate::floor::{self, Ready};
use crate::plot::Chart;
use crate::table::{interleave_rounds, median, time, Cell, Goal, Ratio, Row};
use lockson::{Locks, ReentrantLock};
use support::{unique, Server};

/// A slice is long enough for each of 1,000 tasks to have several turns.
const ROUNDS: u32 = 5;
/// The time before the measured window.
const WARM: Duration = Duration::from_millis(100);
/// rslock's tries and its longest pause between two of them: its defaults. Of pauses from 1 ms to 1 s, shorter ones
/// gave fewer acquisitions (at 1,000 tasks 200/s to 5,000/s), and a longer one left some tasks without any.
const RSLOCK_RETRY: (u32, Duration) = (3, Duration::from_millis(200));
/// The lease that rslock's holds are given.
const RSLOCK_TTL: Duration = Duration::from_secs(30);

/// rslock with one connection.
pub fn rslock_manager(url: &str) -> LockManager {
    let mut manager = LockManager::new(vec![url]);
    manager.set_retry(RSLOCK_RETRY.0, RSLOCK_RETRY.1);
    manager
}

/// A lock of one of the crates.
#[derive(Clone)]
pub enum Contender {
    Lockson(ReentrantLock),
    Rslock(LockManager, String),
    /// Of this process alone.
    Tokio(Arc<tokio::sync::Mutex<()>>),
}

impl Contender {
    /// The lock of this name of lockson, rslock or tokio.
    pub async fn connect(which: &str, url: &str, name: &str) -> Self {
        match which {
            "lockson" => Self::Lockson(Locks::connect(url).await.expect("a client").lock(name)),
            "tokio" => Self::Tokio(Arc::default()),
            _ => Self::Rslock(rslock_manager(url), name.to_owned()),
        }
    }

    async fn turn(&self, counter: &Counter) {
        match self {
            Self::Lockson(lock) => {
                lock.lock().await.expect("held");
                counter.bump();
                lock.unlock().await.expect("given back");
            }
            Self::Rslock(manager, name) => {
                let lock = manager.acquire_no_guard(name.as_str(), RSLOCK_TTL).await.expect("held");
                counter.bump();
                manager.unlock(&lock).await;
            }
            Self::Tokio(lock) => {
                let _guard = lock.lock().await;
                counter.bump();
            }
        }
    }
}

/// A counter that is only right if nobody else is at it: it is read, and then written.
pub enum Counter {
    Memory(AtomicU64),
    /// For several processes.
    File(File),
}

impl Counter {
    fn bump(&self) {
        match self {
            Self::Memory(count) => {
                let before = count.load(Ordering::Relaxed);
                std::hint::spin_loop();
                count.store(before + 1, Ordering::Relaxed);
            }
            Self::File(file) => {
                let before = self.value();
                file.write_all_at(&(before + 1).to_le_bytes(), 0).expect("a counter file");
            }
        }
    }

    /// How often it was counted.
    pub fn value(&self) -> u64 {
        match self {
            Self::Memory(count) => count.load(Ordering::Relaxed),
            Self::File(file) => {
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, 0).expect("a counter file");
                u64::from_le_bytes(bytes)
            }
        }
    }
}

/// What a run came to.
pub struct Run {
    /// Acquisitions a second within the window.
    pub rate: f64,
    /// Microseconds of this process's CPU for each of them.
    pub cpu: f64,
    /// Acquisitions within the window, by task.
    pub turns: Vec<u64>,
    /// All acquisitions, those before and after the window too.
    pub all: u64,
}

impl Run {
    /// Fewest and most turns of a task.
    pub fn range(&self) -> (u64, u64) {
        let turns = self.turns.iter().copied();
        (turns.clone().min().unwrap_or_default(), turns.max().unwrap_or_default())
    }
}

/// Lets `tasks` tasks loop for a while and looks at a window of it.
pub async fn contend(contender: &Contender, tasks: usize, window: Duration, counter: Arc<Counter>) -> Run {
    let turns: Arc<Vec<AtomicU64>> = Arc::new((0..tasks).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let looping: Vec<_> = (0..tasks)
        .map(|task| {
            let (contender, counter) = (contender.clone(), counter.clone());
            let (turns, stop) = (turns.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    contender.turn(&counter).await;
                    turns[task].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let seen = || -> Vec<u64> { turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect() };
    tokio::time::sleep(WARM).await;
    let (began, cpu_before, before) = (Instant::now(), time(ClockId::ProcessCPUTime), seen());
    tokio::time::sleep(window).await;
    let (lasted, cpu, after) = (began.elapsed(), time(ClockId::ProcessCPUTime) - cpu_before, seen());
    stop.store(true, Ordering::Relaxed);
    for ended in join_all(looping).await {
        ended.expect("no task fails");
    }
    let turns: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let count = turns.iter().sum::<u64>() as f64;
    let (rate, cpu) = (count / lasted.as_secs_f64(), cpu.as_secs_f64() * 1e6 / count);
    Run { rate, cpu, turns, all: seen().iter().sum() }
}

/// A run in this process, whose counter must be exact.
pub async fn contend_here(contender: &Contender, tasks: usize, window: Duration) -> Run {
    let counter = Arc::new(Counter::Memory(AtomicU64::new(0)));
    let run = contend(contender, tasks, window, counter.clone()).await;
    assert_eq!(counter.value(), run.all, "two tasks were in at once");
    run
}

/// What of a run a cell is about.
pub type Figure = fn(&Run) -> f64;

/// What a contender comes to.
pub async fn cell(which: &str, server: &Server, tasks: usize, figure: Figure) -> Cell {
    let contender = Contender::connect(which, &server.url(), &unique(which)).await;
    Box::new(move |slice| {
        let contender = contender.clone();
        async move { figure(&contend_here(&contender, tasks, slice).await) }.boxed()
    })
}

/// The limit: one task sends the hand-over script, each as soon as the one before is answered.
async fn limit(server: &Server, figure: Figure) -> Cell {
    let name = unique("limit");
    let client = floor::client(server).await;
    let owners = [floor::owner(1), floor::owner(2)];
    Ready::acquire(server, &name, &owners[0]).send(&client).await;
    let there = Ready::hand_over(server, &name, &owners[0], &owners[1]);
    let scripts = Arc::new((there, Ready::hand_over(server, &name, &owners[1], &owners[0])));
    Box::new(move |slice| {
        let (client, scripts) = (client.clone(), scripts.clone());
        async move {
            let (began, cpu_before, mut sent) = (Instant::now(), time(ClockId::ProcessCPUTime), 0_u64);
            while began.elapsed() < slice {
                scripts.0.send(&client).await;
                scripts.1.send(&client).await;
                sent += 2;
            }
            let (lasted, cpu) = (began.elapsed(), time(ClockId::ProcessCPUTime) - cpu_before);
            let (rate, cpu) = (sent as f64 / lasted.as_secs_f64(), cpu.as_secs_f64() * 1e6 / sent as f64);
            figure(&Run { rate, cpu, turns: vec![sent], all: sent })
        }
        .boxed()
    })
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let (mut rows, mut chart) = (Vec::new(), Chart::new(&["lockson", "rslock", "the hand-over script in a loop"]));
    for (tasks, goal) in [(8, None), (64, Some(20.0)), (1000, Some(20.0))] {
        let rate: Figure = |run| run.rate;
        let ours = cell("lockson", &server, tasks, rate).await;
        let cells = [ours, cell("rslock", &server, tasks, rate).await, limit(&server, rate).await];
        let figures = interleave_rounds(ROUNDS, seconds, &cells).await;
        chart.add(tasks, &figures);
        let said = |cell: usize| format!("{:.0}/s", median(&figures[cell]));
        let what = format!("hot lock, {tasks} tasks: acquisitions");
        let beside =
            Row::new(what, said(0)).beside(format!("rslock: {}", said(1))).ratio(Ratio::of(&figures[0], &figures[1]));
        rows.push(match goal {
            Some(least) => beside.goal(Goal::AtLeast(least)),
            None => beside,
        });
        rows.push(
            Row::new(format!("the same, {tasks} tasks"), said(0))
                .beside(format!("hand-over script in a loop: {}", said(2)))
                .ratio(Ratio::of(&figures[0], &figures[2]))
                .goal(Goal::AtLeast(0.8)),
        );
        rows.push(cpu(&server, tasks, seconds).await);
        // So long that a turn more or less is little.
        let turns = Duration::from_secs_f64(40.0 * tasks as f64 / median(&figures[0]));
        rows.push(fairness(&server, tasks, seconds.max(turns)).await);
    }
    chart.write("hot", "Acquisitions a second: all tasks want one lock");
    rows
}

/// What an acquisition costs this process: of all figures here the one that other jobs move least.
async fn cpu(server: &Server, tasks: usize, seconds: Duration) -> Row {
    let cells = [cell("lockson", server, tasks, |run| run.cpu).await, limit(server, |run| run.cpu).await];
    let figures = interleave_rounds(ROUNDS, seconds, &cells).await;
    let said = |cell: usize| format!("{:.1} us", median(&figures[cell]));
    Row::new(format!("CPU of this process per acquisition, {tasks} tasks"), said(0))
        .beside(format!("hand-over script in a loop: {}", said(1)))
        .ratio(Ratio::of(&figures[0], &figures[1]))
}

/// Fewest and most turns, in one window without a break.
async fn fairness(server: &Server, tasks: usize, window: Duration) -> Row {
    let ours = Contender::connect("lockson", &server.url(), &unique("fair")).await;
    let theirs = Contender::connect("rslock", &server.url(), &unique("fair-rslock")).await;
    let (low, high) = contend_here(&ours, tasks, window).await.range();
    let (their_low, their_high) = contend_here(&theirs, tasks, window).await.range();
    Row::new(format!("fewest..most turns, {tasks} tasks"), format!("{low}..{high}"))
        .beside(format!("rslock: {their_low}..{their_high}"))
        .ratio(Ratio::single(high as f64 / low as f64))
        .goal(Goal::AtMost(1.1))
}
