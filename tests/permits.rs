//! Permits and latches of many processes, on connections that fail: this program is the processes too.

use futures::future::{select, Either};
use support::permits::Kind;
use support::prelude::*;
use support::process::{epoch, Process};

const PERMITS: u32 = 10;
/// Long for what the faults do, short for what the killed leave.
const LEASE: Duration = secs(5);

fn settings() -> Builder {
    Locks::builder().watchdog_lease(LEASE).command_timeout(ms(500))
}

pub async fn play(part: &str, args: &[String]) {
    match part {
        "takers" => takers(args).await,
        "waiters" => waiters(args).await,
        other => panic!("no part {other}"),
    }
}

/// How many permits are in use, as their users say past proxy and semaphore: a field for each process that lives.
struct Used {
    raw: tokio::sync::Mutex<Raw>,
    key: String,
    process: String,
}

const COUNT: &str = "
    redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
    local sum, all = 0, redis.call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
      if redis.call('SISMEMBER', KEYS[2], all[i]) == 0 then sum = sum + all[i + 1] end
    end
    return sum";

impl Used {
    async fn change(&self, by: i64) -> i64 {
        let (by, dead) = (by.to_string(), format!("{}-dead", self.key));
        let mut raw = self.raw.lock().await;
        raw.must(&["EVAL", COUNT, "2", &self.key, &dead, &self.process, &by]).await.int()
    }
}

/// What a process of takers saw.
#[derive(Default)]
struct Seen {
    turns: AtomicU64,
    given_up: AtomicU64,
    /// More in use than there are.
    too_many: AtomicU64,
    errors: AtomicU64,
}

/// One wish: given up, or served and then given back by a drop or by a call.
async fn turn(kind: &Kind, used: &Used, seen: &Seen, rng: &mut Rng) {
    let permits = if rng.f64() < 0.7 { 1 } else { 1 + rng.u32(..4) };
    let wait = if rng.f64() < 0.2 { ms(0) } else { ms(rng.u64(..2000)) };
    let wish = Box::pin(kind.guard(permits, wait));
    let patience = if rng.f64() < 0.3 { Duration::from_micros(rng.u64(..20_000)) } else { secs(60) };
    let guard = match select(wish, Box::pin(sleep(patience))).await {
        Either::Left((Ok(Some(guard)), _)) => guard,
        Either::Left((Ok(None), _)) | Either::Right(_) => {
            seen.given_up.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Either::Left((Err(SyncError::Query(QueryError::Unreachable { .. })), _)) => {
            seen.errors.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Either::Left((Err(error), _)) => panic!("{error}"),
    };
    let in_use = used.change(permits.into()).await;
    if in_use > PERMITS.into() && guard.is_valid() {
        seen.too_many.fetch_add(1, Ordering::Relaxed);
    }
    sleep(Duration::from_micros(rng.u64(..5000))).await;
    used.change(-i64::from(permits)).await;
    seen.turns.fetch_add(1, Ordering::Relaxed);
    if rng.f64() < 0.5 {
        drop(guard);
    } else if guard.release().await.is_err() {
        seen.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Loses requests and answers, and delivers some late: before or after they may still run.
async fn faults(proxy: &Proxy, mut rng: Rng, to: u64) -> usize {
    let mut made = 0;
    while epoch() < to {
        sleep(ms(20 + rng.u64(..100))).await;
        made += 1;
        match rng.u64(..3) {
            0 => drop(proxy.cut_before(1, Filter::Script)),
            1 => drop(proxy.cut_after(1, Filter::Script)),
            _ => {
                let held = proxy.hold_back(1, Filter::Script);
                sleep(ms(rng.u64(..800))).await;
                if held.count() > 0 {
                    held.release().await;
                }
            }
        }
    }
    proxy.heal();
    made
}

/// A process with 25 tasks that want permits, behind a proxy that fails.
async fn takers(args: &[String]) {
    let [port, kind, name, process, seed, to] = args else { panic!("{args:?}") };
    let (port, to): (u16, u64) = (port.parse().unwrap(), to.parse().unwrap());
    let mut rng = Rng::with_seed(seed.parse().unwrap());
    let proxy = Proxy::start(port);
    let locks = settings().connect(&proxy.url()).await.unwrap();
    let raw = tokio::sync::Mutex::new(Raw::connect(port).await);
    let used = Arc::new(Used { raw, key: format!("{name}-used"), process: process.clone() });
    let seen = Arc::new(Seen::default());
    let tasks = spawn_each(0..25, |_| {
        let (kind, used, seen, mut rng) = (Kind::of(kind, &locks, name), used.clone(), seen.clone(), rng.fork());
        async move {
            while epoch() < to {
                turn(&kind, &used, &seen, &mut rng).await;
            }
        }
    });
    let made = faults(&proxy, rng.fork(), to).await;
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Seen { turns, given_up, too_many, errors } = &*seen;
    println!("{} {} {} {} {made}", read(turns), read(given_up), read(too_many), read(errors));
    // What is in doubt is settled in the background: alive until somebody kills it.
    std::future::pending().await
}

/// 100 tasks in 4 processes, whose calls are cut, delayed and given up: never too many in use, all free at the end.
async fn crowd(kind: &str, kills: bool) {
    let server = Server::start();
    let (name, seed) = (unique(kind), seed());
    let mut rng = Rng::with_seed(seed);
    let locks = settings().connect(&server.url()).await.unwrap();
    let permits = Kind::of(kind, &locks, &name);
    assert!(permits.set(PERMITS).await);
    let to = epoch() + soak(60_000) as u64;
    let port = server.port().to_string();
    let mut started = 0;
    let mut start = |rng: &mut Rng| {
        started += 1;
        let (number, seed) = (started.to_string(), rng.u64(..).to_string());
        (Process::start("permits", "takers", &[&port, kind, &name, &number, &seed, &to.to_string()]), number)
    };
    let mut processes: Vec<_> = (0..4).map(|_| start(&mut rng)).collect();
    let (mut raw, mut killed) = (server.raw().await, 0);
    while kills && epoch() + 1500 < to {
        sleep(ms(500 + rng.u64(..1000))).await;
        let (process, number) = processes.remove(rng.usize(..4));
        drop(process);
        raw.must(&["SADD", &format!("{name}-used-dead"), &number]).await;
        killed += 1;
        processes.push(start(&mut rng));
    }
    sleep(ms(to.saturating_sub(epoch()))).await;
    let mut sums = [0_usize; 5];
    for (process, _) in &processes {
        let line = process.line();
        for (sum, word) in sums.iter_mut().zip(line.split(' ')) {
            *sum += word.parse::<usize>().unwrap();
        }
    }
    let [turns, given_up, too_many, errors, made] = sums;
    println!("{kind}: {turns} turns, {given_up} given up, {made} faults, {errors} errors, {killed} killed");
    assert!(turns > 20 && given_up > 5 && made > 3, "too little happened");
    let free = async || permits.available().await == i64::from(PERMITS);
    eventually(secs(30), "all permits are free", free).await;
    // And they stay free: no late copy takes or gives one.
    sleep(ms(1000)).await;
    assert_eq!(permits.available().await, i64::from(PERMITS));
    println!("{kind}: at most {PERMITS} in use: {turns} turns, {too_many} failures, seed {seed}");
    assert_eq!(too_many, 0, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_permits_for_a_hundred_tasks() {
    let _turn = support::sites::half_turn().await;
    crowd("counted", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_permits_with_leases_for_a_hundred_tasks() {
    let _turn = support::sites::half_turn().await;
    crowd("leased", true).await;
}

/// A process with 250 waiters that never hear a message.
async fn waiters(args: &[String]) {
    let [port, name] = args else { panic!("{args:?}") };
    let proxy = Proxy::start(port.parse().unwrap());
    proxy.swallow_messages(true);
    let locks = proxy.locks().await;
    let tasks = spawn_each([(); 250].map(|()| locks.latch(name)), |latch| async move { latch.wait().await.unwrap() });
    // The two at connect, one look of each, and one of the first when it has subscribed: all answered before this call.
    proxy.wait_requests(253, Filter::Script).await;
    assert_eq!(locks.latch(name).count().await.unwrap(), 2);
    println!("ready");
    let ended = join_all(tasks).await.into_iter().map(Result::unwrap);
    let opened = ended.filter(|outcome| *outcome == WaitOutcome::Opened).count();
    println!("{opened} {}", epoch());
    std::future::pending().await
}

/// The message that the latch is open reaches nobody: all 1000 are let go, though this machine may be too busy for the
/// cap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_of_a_latch() {
    let _turn = support::sites::turn().await;
    let server = Server::start();
    let (name, port) = (unique("latch"), server.port().to_string());
    let locks = server.locks().await;
    let latch = locks.latch(&name);
    assert!(latch.try_set_count(2).await.unwrap());
    let processes: Vec<_> = (0..4).map(|_| Process::start("permits", "waiters", &[&port, &name])).collect();
    processes.iter().for_each(|process| process.expect("ready"));
    assert_eq!(latch.count_down().await.unwrap(), Some(1));
    assert_eq!(patient("the last", latch.count_down()).await.unwrap(), Some(0));
    let (began, mut opened, mut latest) = (epoch(), 0, 0);
    let clock = Instant::now();
    for process in &processes {
        let line = process.line();
        let (count, at) = line.split_once(' ').unwrap();
        opened += count.parse::<usize>().unwrap();
        latest = latest.max(at.parse::<u64>().unwrap().saturating_sub(began));
    }
    println!("1000 waiters without a message: let go after {latest} ms, the cap is 1000 ms");
    report("waiters of an opened latch", opened, 1000, 0, None);
    assert!(clock.elapsed() < secs(20), "the cap, and far more than a busy machine adds");
}

/// The same by a paused clock, of four clients: within the cap.
#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_of_a_latch_look_within_the_cap() {
    let server = EmbeddedServer::new();
    let latch = server.connect().latch("latch");
    let clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    server.lose_messages(true);
    for _ in 0..3 {
        assert!(latch.try_set_count(2).await.unwrap());
        let latches = clients.iter().flat_map(|locks| [(); 250].map(|()| locks.latch("latch")));
        let waiters = spawn_each(latches, |latch| async move {
            let outcome = latch.wait().await.unwrap();
            (outcome, tokio::time::Instant::now())
        });
        sleep(ms(10)).await;
        assert_eq!(latch.count_down().await.unwrap(), Some(1));
        assert_eq!(latch.count_down().await.unwrap(), Some(0));
        let began = tokio::time::Instant::now();
        for (outcome, at) in patient_all("it is let go", waiters).await {
            assert_eq!(outcome, WaitOutcome::Opened);
            // Sooner, and it was told.
            assert!(at - began >= ms(450) && at - began <= ms(1100), "{:?}", at - began);
        }
    }
}
