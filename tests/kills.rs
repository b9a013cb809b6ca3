//! Processes that are killed while they wait and hold: the order of the fair lock, and who is inside a read/write lock.

use support::prelude::*;
use support::process::{epoch, orders, Process};
use support::sites::*;
use tokio::sync::Mutex;

pub async fn play(part: &str, args: &[String]) {
    match part {
        "queue" => queue(args).await,
        "readers and writers" => readers_and_writers(args).await,
        other => panic!("no part {other}"),
    }
}

/// Ends with its lease after 1.5 s when it is killed.
async fn connect(port: &str) -> Locks {
    let builder: Builder = Locks::builder().command_timeout(ms(400)).watchdog_lease(ms(1500));
    builder.connect(&format!("redis://127.0.0.1:{port}")).await.unwrap()
}

/// Tasks that wait for a fair lock in one process.
const WAITERS: usize = 4;

/// Waits for the lock again and again, now and then only for a moment; holds it until it is told to give it back.
async fn queue(args: &[String]) {
    let (locks, orders) = (connect(&args[0]).await, Arc::new(Mutex::new(orders())));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..WAITERS as u64 {
        let (locks, name, orders) = (locks.clone(), args[1].clone(), orders.clone());
        let mut rng = Rng::with_seed(args[2].parse::<u64>().unwrap() ^ number);
        tasks.spawn(async move {
            loop {
                let owner = Owner::unique();
                let lock = locks.fair_lock(&name).owned_by(&owner);
                let limit = if rng.f64() < 0.3 { ms(rng.u64(..60)) } else { ms(60_000) };
                let guard = tokio::time::timeout(limit, lock.guard()).await;
                if let Ok(guard) = guard {
                    let guard = guard.unwrap();
                    println!("{}:{owner}", locks.client_id());
                    orders.lock().await.recv().await;
                    guard.unlock().await.unwrap();
                }
            }
        });
    }
    tasks.join_next().await;
}

/// The queue as the server has it.
async fn waiting(raw: &mut Raw, name: &str) -> Vec<String> {
    raw.must(&["LRANGE", &format!("redisson_lock_queue:{{{name}}}"), "0", "-1"]).await.texts()
}

/// The process whose waiter has got the lock, and its field.
async fn next_holder(processes: &[Process]) -> (usize, String) {
    let mut found = None;
    let holds = async || {
        found = processes.iter().enumerate().find_map(|(at, process)| Some((at, process.try_line()?)));
        found.is_some()
    };
    eventually(ms(30_000), "somebody gets the lock", holds).await;
    found.unwrap()
}

/// 1,000 hand-overs over 3 processes that are killed, and whose waiters are cancelled, come in queue order (rule 17).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_is_the_queues_whoever_is_killed() {
    let _turn = half_turn().await;
    let (server, rounds, seed) = (Server::start(), soak_part(1000, 20), seed());
    let (name, port, mut rng) = (unique("order"), server.port().to_string(), Rng::with_seed(seed));
    let start =
        move |name: &str, rng: &mut Rng| Process::start("kills", "queue", &[&port, name, &rng.u64(..).to_string()]);
    let mut processes: Vec<Process> = (0..3).map(|_| start(&name, &mut rng)).collect();
    let mut raw = server.raw().await;
    let (mut before, mut failures, mut ordered, mut kills) = (Vec::<String>::new(), 0, 0, 0);
    let mut done = 0;
    let first = rng.usize(..20);
    while done < rounds {
        let (at, field) = next_holder(&processes).await;
        let now = waiting(&mut raw, &name).await;
        let place = before.iter().position(|other| *other == field);
        let ahead = &before[..place.unwrap_or(before.len())];
        let passed: Vec<&String> = ahead.iter().filter(|other| now.contains(other)).collect();
        if !passed.is_empty() || now.contains(&field) {
            failures += 1;
            println!("{field} passed {passed:?}");
        }
        ordered += usize::from(place.is_some());
        if done % 25 == first {
            let victim = (at + 1 + rng.usize(..2)) % 3;
            processes[victim] = start(&name, &mut rng);
            kills += 1;
        }
        // Some more may come.
        sleep(ms(rng.u64(..5))).await;
        before = waiting(&mut raw, &name).await;
        processes[at].say("go on");
        done += 1;
    }
    println!("{kills} processes of {WAITERS} waiters killed, {ordered} of {rounds} had been seen in the queue before");
    assert!(kills > 0 && ordered * 2 > rounds, "seed {seed}");
    report("fair hand-overs among kills", done, rounds, failures, seed);
}

/// Processes of the read/write test.
const PROCESSES: usize = 4;
/// How long one stays inside.
const TURN: Duration = ms(4);

/// Who is inside, on the server: field -> its side and its end. The script of who comes counts the other side's.
const ENTER: &str = "local breach = 0 \
    for _, side in ipairs(ARGV[3] == 'w' and {'r', 'w'} or {'w'}) do \
      breach = breach + redis.call('ZCOUNT', KEYS[1] .. side, '(' .. ARGV[1], '+inf') \
    end \
    redis.call('ZADD', KEYS[1] .. ARGV[3], ARGV[2], ARGV[4]) \
    redis.call('HINCRBY', KEYS[2], ARGV[5], 1) \
    return breach";

/// A writer or reader of one process, by the number that it has over all kills.
struct Visitor {
    name: String,
    number: String,
    side: &'static str,
    raw: Mutex<Raw>,
}

impl Visitor {
    /// One turn: what the guard protects is said to be valid at the same instant as nothing that it excludes.
    async fn turn(&self, guard: Guard) {
        let (inside, turns) = (format!("{}-inside:", self.name), format!("{}-turns", self.name));
        let (now, field) = (epoch(), guard.owner().to_string());
        let end = now + guard.remaining().as_millis() as u64;
        let (now, end) = (now.to_string(), end.to_string());
        let mut raw = self.raw.lock().await;
        let call = ["EVAL", ENTER, "2", &inside, &turns, &now, &end, self.side, &field, &self.number];
        let breach = raw.must(&call).await.int();
        // Lost meanwhile, it excludes nobody.
        if breach > 0 && guard.is_valid() {
            raw.must(&["HINCRBY", &turns, "breaches", "1"]).await;
        }
        sleep(TURN).await;
        raw.must(&["ZREM", &format!("{inside}{}", self.side), &field]).await;
        drop(raw);
        let _ = guard.unlock().await;
    }
}

/// Readers and writers of one process, until it is killed.
async fn readers_and_writers(args: &[String]) {
    let [proxy, server, name, writers, readers] = args else { panic!("five arguments") };
    let locks = connect(proxy).await;
    // It ends with its stdin.
    let mut orders = orders();
    for (side, numbers) in [("w", writers), ("r", readers)] {
        for number in numbers.split_whitespace() {
            let raw = Mutex::new(Raw::connect(server.parse().unwrap()).await);
            let visitor = Visitor { name: name.clone(), number: number.to_owned(), side, raw };
            let lock = locks.read_write_lock(name);
            tokio::spawn(async move {
                loop {
                    let guard = if side == "w" { lock.write().guard().await } else { lock.read().guard().await };
                    match guard {
                        Ok(guard) => visitor.turn(guard).await,
                        Err(error) => eprintln!("{number}: {error}", number = visitor.number),
                    }
                    sleep(ms(1)).await;
                }
            });
        }
    }
    println!("ready");
    orders.recv().await;
}

/// 100 readers and 10 writers in 4 processes for 60 s (short: 12 s), while calls are cut, waiters cancelled and
/// processes killed: no reader with a writer, no two writers, and each writer has a turn a second at least, in the
/// short run one in four (rule 18).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_whoever_is_killed() {
    let _turn = turn().await;
    let (seconds, seed) = (soak(60).max(12), seed());
    let (readers, writers) = (100, 10);
    let (server, mut rng, name) = (Server::start(), Rng::with_seed(seed), unique("soak"));
    let proxies: Vec<Proxy> = (0..PROCESSES).map(|_| Proxy::start(server.port())).collect();
    let numbers = |side: &str, count: usize, at: usize| -> String {
        (at..count).step_by(PROCESSES).map(|number| format!("{side}{number} ")).collect()
    };
    let start = |at: usize| {
        let [proxy, direct] = [proxies[at].port(), server.port()].map(|port| port.to_string());
        let (w, r) = (numbers("w", writers, at), numbers("r", readers, at));
        Process::start("kills", "readers and writers", &[&proxy, &direct, &name, &w, &r])
    };
    let mut processes: Vec<Process> = (0..PROCESSES).map(start).collect();
    processes.iter().for_each(|process| process.expect("ready"));
    let began = Instant::now();
    let end = began + secs(seconds as u64);
    let locks = connect(&server.port().to_string()).await;
    let (mut cuts, mut kills, mut next_kill) = (0, 0, Instant::now() + ms(500));
    while Instant::now() < end {
        let at = rng.usize(..PROCESSES);
        let filter = Filter::Script.with(&name);
        let _ = if rng.f64() < 0.5 { proxies[at].cut_after(1, filter) } else { proxies[at].cut_before(1, filter) };
        cuts += 1;
        if Instant::now() > next_kill {
            processes[at] = start(at);
            next_kill = Instant::now() + ms(2000 + rng.u64(..1000));
            kills += 1;
        }
        let write = locks.read_write_lock(&name).write().owned_by(&Owner::unique());
        let _ = tokio::time::timeout(ms(rng.u64(..30)), write.guard()).await;
        sleep(ms(100)).await;
    }
    drop(processes);
    let ran = began.elapsed().as_secs() as usize;
    let mut raw = server.raw().await;
    let turns = raw.hgetall(&format!("{name}-turns")).await;
    let of = |number: &str| {
        let found = turns.iter().find(|(field, _)| field == number);
        found.map_or(0, |(_, count)| count.parse::<usize>().unwrap())
    };
    let sum = |side: &str, count: usize| (0..count).map(|number| of(&format!("{side}{number}"))).sum::<usize>();
    let fewest = (0..writers).map(|number| of(&format!("w{number}"))).min().unwrap();
    println!(
        "{seconds} s, {readers} readers, {writers} writers, {cuts} cuts, {kills} processes killed: {} reads, {} \
         writes, fewest turns of a writer {fewest}",
        sum("r", readers),
        sum("w", writers)
    );
    // Beside other tests they are slower.
    let least = seconds / if is_full_run() { 1 } else { 4 };
    assert!(kills > 0 && fewest >= least, "a writer had {fewest} turns in {seconds} s, seed {seed}");
    assert!(sum("r", readers) > least * readers, "readers had too few turns, seed {seed}");
    // Whoever was killed inside is out with its lease.
    patient("the lock after all were killed", locks.read_write_lock(&name).write().lock()).await.unwrap();
    report("read/write soak, seconds", ran.min(seconds), seconds, of("breaches"), seed);
}
