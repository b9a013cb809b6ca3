//! Red locks under seeded schedules of kills, pauses, restarts and cut replies: never do two say that they hold it.
//! Each schedule is a lock of its own and three rivals with their own clients; several share one row of faults.

use std::sync::Mutex;

use support::prelude::*;

const SERVERS: usize = 5;
const RIVALS: usize = 3;

/// Those who say that they hold the lock of one schedule.
#[derive(Default)]
struct Inside {
    guards: Mutex<Vec<Arc<Guard>>>,
    turns: AtomicUsize,
    breaches: AtomicUsize,
}

impl Inside {
    fn look(&self) {
        let guards = self.guards.lock().unwrap();
        // The first is asked once more after the last: no more than one may be valid at that instant.
        let valid: Vec<_> = guards.iter().filter(|guard| guard.is_valid()).collect();
        if valid.len() > 1 && valid.iter().filter(|guard| guard.is_valid()).count() > 1 {
            self.breaches.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One turn, in which a renewal or two may happen.
    async fn turn(&self, guard: Guard, rng: &mut Rng, longest: u64) {
        let guard = Arc::new(guard);
        self.guards.lock().unwrap().push(guard.clone());
        self.turns.fetch_add(1, Ordering::SeqCst);
        for _ in 0..1 + rng.u64(..4) {
            self.look();
            sleep(ms(rng.u64(..longest / 4))).await;
        }
        self.look();
        self.guards.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &guard));
        let guard = Arc::into_inner(guard).unwrap();
        if rng.f64() < 0.5 {
            // Nobody waits for a server that is away.
            let _ = tokio::time::timeout(ms(50), guard.unlock()).await;
        }
    }
}

/// Wants the lock again and again, by all kinds of requests.
async fn rival(lock: RedLock<Reentrant>, inside: Arc<Inside>, over: Arc<AtomicBool>, mut rng: Rng, longest: u64) {
    while !over.load(Ordering::SeqCst) {
        let request = lock.acquire().wait(ms(rng.u64(..longest)));
        let request = if rng.f64() < 0.5 { request.lease(ms(100 + rng.u64(..longest - 100))) } else { request };
        // Votes that rest are not counted, those that are silent neither: what is wrong would be two that hold it.
        match tokio::time::timeout(ms(longest), request.guard()).await {
            Ok(Ok(Some(guard))) => inside.turn(guard, &mut rng, longest).await,
            _ => sleep(ms(1 + rng.u64(..30))).await,
        }
    }
}

/// Runs `count` schedules under one row of faults; how many breaches and turns there were.
async fn schedules(
    count: usize,
    rivals: &[Vec<Locks>],
    rng: &mut Rng,
    (longest, terms): (u64, impl Fn(RedLock<Reentrant>) -> RedLock<Reentrant>),
    faults: impl Future<Output = ()>,
) -> (usize, usize) {
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    let insides: Vec<Arc<Inside>> = (0..count).map(|_| Arc::default()).collect();
    for inside in &insides {
        let name = unique("schedule");
        for clients in rivals {
            let lock = terms(RedLock::new(clients.iter().map(|locks| locks.lock(&name))));
            tasks.push(tokio::spawn(rival(lock, inside.clone(), over.clone(), rng.fork(), longest)));
        }
    }
    faults.await;
    over.store(true, Ordering::SeqCst);
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    let sum = |of: fn(&Inside) -> &AtomicUsize| insides.iter().map(|inside| of(inside).load(Ordering::SeqCst)).sum();
    (sum(|inside| &inside.breaches), sum(|inside| &inside.turns))
}

/// Until the servers vote, and no rival need be told that they are fresh: from when they were asked first.
async fn be_old_enough(clients: &[Locks], longest: u64) {
    let first = RedLock::new(clients.iter().map(|locks| locks.lock("first")));
    first.try_lock().await.expect_err("they have not voted before");
    sleep(ms(longest + 1000)).await;
}

/// The longest lease, and how long a restarted server does not vote, in milliseconds.
const LONGEST: u64 = 3000;

async fn embedded_faults(servers: &[EmbeddedServer], mut rng: Rng) {
    for _ in 0..6 + rng.u64(..10) {
        let server = &servers[rng.usize(..SERVERS)];
        match rng.u64(..6) {
            0 => server.stop(),
            1 => server.wipe(),
            2 => server.lose_replies(1 + rng.u64(..4)),
            3 => {
                server.stop();
                server.wipe();
            }
            _ => server.start(),
        }
        sleep(ms(rng.u64(..700))).await;
    }
    servers.iter().for_each(|server| server.start());
    sleep(ms(rng.u64(..1000))).await;
}

/// Runs so many schedules on paused time; how many breaches, turns and scripts there were.
async fn on_embedded_servers(asked: usize, mut rng: Rng) -> [usize; 3] {
    const ROW: usize = 5;
    let (mut done, mut breaches, mut turns, mut scripts) = (0, 0, 0, 0);
    let builder = || {
        let builder = Builder::default().command_timeout(ms(300)).watchdog_lease(ms(1500));
        builder.outage_limit(ms(1000))
    };
    while done < asked {
        let servers: Vec<EmbeddedServer> = (0..SERVERS).map(|_| EmbeddedServer::new()).collect();
        let connect = |_| servers.iter().map(|server| server.connect_with(builder()).unwrap()).collect();
        let rivals: Vec<Vec<Locks>> = (0..RIVALS).map(connect).collect();
        be_old_enough(&rivals[0], LONGEST).await;
        for _ in 0..(asked - done).div_ceil(ROW).min(10) {
            let faults = embedded_faults(&servers, rng.fork());
            let terms = |lock: RedLock<Reentrant>| lock.max_lease(ms(LONGEST));
            let found = schedules(ROW.min(asked - done), &rivals, &mut rng, (LONGEST, terms), faults).await;
            done += ROW.min(asked - done);
            (breaches, turns) = (breaches + found.0, turns + found.1);
        }
        scripts += servers.iter().map(|server| server.calls() as usize).sum::<usize>();
    }
    [breaches, turns, scripts]
}

/// On two threads, each with a clock of its own.
#[test]
fn no_two_holders_on_embedded_servers() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    // Half of a tenth, of a test that is nothing but work.
    let asked = soak_part(9500, 20);
    let threads = [asked / 2, asked - asked / 2].map(|share| {
        let rng = rng.fork();
        std::thread::spawn(move || {
            let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            paused.block_on(on_embedded_servers(share, rng))
        })
    });
    let [mut breaches, mut turns, mut scripts] = [0; 3];
    for thread in threads {
        let found = thread.join().unwrap();
        (breaches, turns, scripts) = (breaches + found[0], turns + found[1], scripts + found[2]);
    }
    println!("no two holders on embedded servers: {turns} turns, {scripts} scripts");
    assert!(turns > asked, "only {turns} turns");
    report("no two holders on embedded servers", asked, asked, breaches, seed);
}

/// Blocks its thread where it kills and starts processes.
async fn real_faults(servers: &[Server], proxies: &[Proxy], mut rng: Rng) {
    for _ in 0..10 {
        let at = rng.usize(..SERVERS);
        match rng.u64(..7) {
            0 => tokio::task::block_in_place(|| servers[at].kill()),
            1 => tokio::task::block_in_place(|| servers[at].restart()),
            2 if servers[at].pid().is_some() => tokio::task::block_in_place(|| servers[at].freeze()),
            3 => drop(proxies[at].cut_after(1 + rng.usize(..3), Filter::Script)),
            4 => drop(proxies[at].cut_all()),
            _ if servers[at].pid().is_some() => tokio::task::block_in_place(|| servers[at].thaw()),
            _ => tokio::task::block_in_place(|| servers[at].restart()),
        }
        sleep(ms(rng.u64(..400))).await;
    }
    tokio::task::block_in_place(|| {
        for server in servers {
            match server.pid() {
                Some(_) => server.thaw(),
                None => server.restart(),
            }
        }
    });
    proxies.iter().for_each(Proxy::heal);
    sleep(ms(rng.u64(..1000))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_holders_on_real_servers() {
    const ROW: usize = 10;
    /// As above.
    const LONGEST: u64 = 1500;
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let servers: Vec<Server> = (0..SERVERS).map(|_| Server::start()).collect();
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let builder = || Builder::default().command_timeout(ms(400)).watchdog_lease(ms(1200)).outage_limit(ms(1000));
    let connect = |proxy: &Proxy| {
        let url = proxy.url();
        async move { builder().connect(&url).await.unwrap() }
    };
    let mut rivals: Vec<Vec<Locks>> = Vec::new();
    for _ in 0..RIVALS {
        rivals.push(join_all(proxies.iter().map(connect)).await);
    }
    be_old_enough(&rivals[0], LONGEST).await;
    let (asked, mut done, mut breaches, mut turns) = (soak(500), 0, 0, 0);
    while done < asked {
        let faults = real_faults(&servers, &proxies, rng.fork());
        let terms = |lock: RedLock<Reentrant>| lock.max_lease(ms(LONGEST)).server_timeout(ms(250));
        let found = schedules(ROW.min(asked - done), &rivals, &mut rng, (LONGEST, terms), faults).await;
        done += ROW.min(asked - done);
        (breaches, turns) = (breaches + found.0, turns + found.1);
        proxies.iter().for_each(Proxy::forget_requests);
    }
    println!("no two holders on real servers: {turns} turns");
    assert!(turns > 0);
    report("no two holders on real servers", done, asked, breaches, seed);
}
