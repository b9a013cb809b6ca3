//! Processes that stop, die, hang and crowd: this program is the processes too.

use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::Signal;
use support::prelude::*;
use support::process::{epoch, Process};
use support::sites::*;

/// Ten times what a lone task waits beside others at most.
const SOON: Duration = ms(250);

/// The shortest watchdog lease.
fn short() -> Builder {
    Locks::builder().watchdog_lease(ms(1000)).command_timeout(ms(300))
}

/// What the other processes do.
pub async fn play(part: &str, args: &[String]) {
    let url = format!("redis://127.0.0.1:{}", args[0]);
    match part {
        "stopped" => stopped(&url, &args[1]).await,
        "crowd" => crowd(&url, args).await,
        other => panic!("no part {other}"),
    }
}

/// Holds a lock by a guard that runs work, and another bare. When it is stopped and goes on, it says what it sees.
async fn stopped(url: &str, name: &str) {
    let locks = short().connect(url).await.unwrap();
    let bare = locks.lock(&format!("{name}-bare"));
    bare.lock().await.unwrap();
    let guard = Arc::new(locks.lock(name).guard().await.unwrap());
    let (sender, resumed) = tokio::sync::oneshot::channel();
    let seen = guard.clone();
    let mut last = Instant::now();
    std::thread::spawn(move || {
        let mut last = last;
        while last.elapsed() < ms(600) {
            last = Instant::now();
            std::thread::sleep(ms(1));
        }
        let valid = seen.is_valid();
        drop(seen);
        let _ = sender.send(valid);
    });
    println!("held");
    let mut worked_late = false;
    let run = guard.run(async {
        loop {
            worked_late |= last.elapsed() >= ms(600);
            last = Instant::now();
            sleep(ms(1)).await;
        }
    });
    let run: Result<(), _> = run.await;
    println!("valid {}", resumed.await.unwrap());
    println!("run {:?}, worked late {worked_late}", run.unwrap_err().why);
    // Two periods of the watchdog.
    sleep(ms(700)).await;
    let guard = Arc::try_unwrap(guard).unwrap();
    let refused = |result| matches!(result, Err(UnlockError::NotHeld { .. }));
    println!("refused {} {}", refused(guard.unlock().await), refused(bare.unlock().await));
}

/// Stopped past its lease, a process sees first that its hold is lost: no work, no renewal and no unlock follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_holder_finds_out() {
    let _turn = half_turn().await;
    let server = Server::start();
    let locks = server.locks().await;
    for round in 0..soak(20) {
        let name = unique("stopped");
        let process = Process::start("processes", "stopped", &[&server.port().to_string(), &name]);
        process.expect("held");
        // At any point between two renewals.
        sleep(ms(40 * (round as u64 % 10))).await;
        process.signal(Signal::STOP);
        let bare = locks.lock(&format!("{name}-bare"));
        patient("the bare lock", bare.lock()).await.unwrap();
        let guard = patient("the lock", locks.lock(&name).guard()).await.unwrap();
        sleep(ms(300)).await;
        process.signal(Signal::CONT);
        process.expect("valid false");
        process.expect(&format!("run {:?}, worked late false", LostReason::Deadline));
        process.expect("refused true true");
        let mut raw = server.raw().await;
        for name in [name.clone(), format!("{name}-bare")] {
            let holds = raw.hgetall(&name).await;
            assert!(holds.len() == 1 && holds[0].0.starts_with(locks.client_id()) && holds[0].1 == "1", "{holds:?}");
        }
        guard.verify().await.unwrap();
        guard.unlock().await.unwrap();
        bare.unlock().await.unwrap();
    }
}

/// Has a task take what it takes, and then end by a panic or an abort.
async fn end_badly<T: Send>(by_panic: bool, take: impl Future<Output = T> + Send + 'static) {
    let (sender, taken) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let _taken = take.await;
        sender.send(()).unwrap();
        if by_panic {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        std::future::pending::<()>().await
    });
    taken.await.unwrap();
    if !by_panic {
        task.abort();
    }
    assert_eq!(task.await.unwrap_err().is_panic(), by_panic);
}

/// A bare hold does not see its task end: it is renewed for ever, or until `max_hold` and a lease are over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_ends_without_unlock() {
    let _turn = half_turn().await;
    let server = Server::start();
    let locks = short().connect(&server.url()).await.unwrap();
    for by_panic in [true, false] {
        let (kept, ended) = (unique("kept"), unique("ended"));
        let (lock, limited, taken) = (locks.lock(&kept), locks.lock(&ended), Instant::now());
        end_badly(by_panic, async move {
            lock.lock().await.unwrap();
            assert!(limited.acquire().max_hold(ms(1500)).await.unwrap().is_acquired());
        })
        .await;
        let mut raw = server.raw().await;
        // Renewed past its first lease.
        sleep(ms(1300)).await;
        assert!(raw.exists(&kept).await && raw.exists(&ended).await);
        let next = patient("the lock", locks.lock(&ended).guard()).await.unwrap();
        println!("max_hold 1.5 s, lease 1 s: free after {:?}", taken.elapsed());
        next.unlock().await.unwrap();
        assert!(raw.pttl(&kept).await > 500, "renewed without end");
        assert!(locks.lock(&kept).force_unlock().await.unwrap());
    }
}

/// A guard is given back when its task ends, by a panic or an abort, and not with its lease (30 s).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_guard_of_a_task_that_ends() {
    let _turn = half_turn().await;
    let server = Server::start();
    let locks = server.locks().await;
    for round in 0..soak(200) {
        let name = unique("guarded");
        let lock = locks.lock(&name);
        end_badly(round % 2 == 0, async move { lock.guard().await.unwrap() }).await;
        let mut raw = server.raw().await;
        patient("it is given back", async { while raw.exists(&name).await {} }).await;
    }
}

/// Moves the number in a file, by reading and writing it.
async fn step(file: &std::fs::File) {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    // Long enough for another to come between, if the lock lets one.
    tokio::task::yield_now().await;
    file.write_all_at(&(u64::from_le_bytes(bytes) + 1).to_le_bytes(), 0).unwrap();
}

fn number_in(file: &Path) -> u64 {
    u64::from_le_bytes(std::fs::read(file).unwrap().try_into().unwrap())
}

/// Tasks of one process that all want one lock until a given time.
async fn crowd(url: &str, args: &[String]) {
    let (name, tasks) = (&args[1], args[2].parse().unwrap());
    let locks = Locks::connect(url).await.unwrap();
    let counter = Arc::new(std::fs::File::options().read(true).write(true).open(&args[3]).unwrap());
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let [from, to] = [0, 1].map(|at| line.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap());
    let (turns, counted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let tasks = spawn_each(0..tasks, |_: u32| {
        let (lock, counter, turns, counted) = (locks.lock(name), counter.clone(), turns.clone(), counted.clone());
        async move {
            while epoch() < to {
                lock.lock().await.unwrap();
                let now = epoch();
                step(&counter).await;
                turns.fetch_add(1, Ordering::Relaxed);
                counted.fetch_add(u64::from((from..to).contains(&now)), Ordering::Relaxed);
                lock.unlock().await.unwrap();
            }
        }
    });
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    println!("{} {}", turns.load(Ordering::Relaxed), counted.load(Ordering::Relaxed));
}

/// 200 tasks in 4 processes on one lock: an exact counter, and the busiest has at most 1.5 times the idlest's turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_share_fairly() {
    let _turn = turn().await;
    let server = Server::start();
    let (name, port) = (unique("fair"), server.port().to_string());
    let file = server.dir().join("counter");
    std::fs::write(&file, [0; 8]).unwrap();
    let part = [port.as_str(), &name, "50", file.to_str().unwrap()];
    let mut processes: Vec<_> = (0..4).map(|_| Process::start("processes", "crowd", &part)).collect();
    processes.iter().for_each(|process| process.expect("ready"));
    let from = epoch() + 500;
    let to = from + soak(30_000) as u64;
    processes.iter_mut().for_each(|process| process.say(&format!("{from} {to}")));
    let (mut all, mut counted) = (0, Vec::new());
    for process in &processes {
        let line = process.line();
        let (turns, inside) = line.split_once(' ').unwrap();
        all += turns.parse::<usize>().unwrap();
        counted.push(inside.parse::<usize>().unwrap());
    }
    let counter = number_in(&file) as usize;
    let (most, least) = (counted.iter().max().unwrap(), counted.iter().min().unwrap());
    println!("turns of 4 x 50 tasks: {counted:?}, busiest to idlest {:.2}", *most as f64 / *least as f64);
    report("a counter of 200 tasks in 4 processes", counter, all, 0, None);
    assert!(most * 2 <= least * 3, "{counted:?}");
    assert!(!server.raw().await.exists(&name).await);
}

/// A lone task beside a process with 64 that never rest is served within 100 turns of theirs or, as a newcomer is not
/// seen before the end of a run and turns take microseconds, soon. (25 ms, on a machine that has nothing else to do.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_task_is_served() {
    serves_a_lone_task(1).await;
}

/// Beside several, which hear of each other, it waits for the runs of all: 2 ms and a way each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_task_beside_several_is_served() {
    serves_a_lone_task(3).await;
}

async fn serves_a_lone_task(crowds: usize) {
    let _turn = turn().await;
    let server = Server::start();
    let (name, tries, seed) = (unique("lone"), soak(1000), seed());
    let mut rng = Rng::with_seed(seed);
    let (file, port) = (server.dir().join("counter"), server.port().to_string());
    std::fs::write(&file, [0; 8]).unwrap();
    let arguments = [&port, &name, "64", file.to_str().unwrap()];
    let mut processes: Vec<_> = (0..crowds).map(|_| Process::start("processes", "crowd", &arguments)).collect();
    for process in &mut processes {
        process.expect("ready");
        // It goes on until it is killed.
        process.say(&format!("0 {}", u64::MAX));
    }
    eventually(ms(5000), "the crowd", async || number_in(&file) > 0).await;
    let locks = server.locks().await;
    let lock = locks.lock(&name);
    let mut waits = Vec::new();
    for _ in 0..tries {
        let (before, began) = (number_in(&file), Instant::now());
        patient("the lock", lock.lock()).await.unwrap();
        waits.push((number_in(&file) - before, began.elapsed()));
        lock.unlock().await.unwrap();
        // Now at once, now after a while.
        sleep(Duration::from_micros(rng.u64(..20_000) * rng.u64(..2))).await;
    }
    drop(processes);
    waits.sort_unstable();
    let late = waits.iter().filter(|(turns, took)| *turns > 100 && *took > SOON).count();
    let [median, worst] = [waits[waits.len() / 2], waits[waits.len() - 1]];
    println!("a lone task beside {crowds} x 64: median {median:?}, most turns of others {worst:?} of {tries}");
    report(&format!("a lone task beside {crowds} x 64 within 100 turns, or soon"), waits.len(), tries, late, seed);
}
