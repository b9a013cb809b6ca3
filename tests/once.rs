//! Work on a schedule: of many clients one does it, nobody again within `at_least`, and nobody waits longer than
//! `at_most` for one that died.

use futures::FutureExt;
use lockson::{Faults, OnceError, OncePer};
use lockson_embedded::{Network, Trip};
use support::prelude::*;
use support::process::{orders, Process};
use tokio::time::{timeout, Instant};

const LEAST: Duration = secs(5);
const MOST: Duration = secs(60);
/// What the server rounds, and a call takes on paused time.
const SLACK: Duration = ms(5);

pub async fn play(part: &str, args: &[String]) {
    assert_eq!(part, "worker");
    let locks = Locks::connect(&format!("redis://127.0.0.1:{}", args[0])).await.unwrap();
    let mut orders = orders();
    let work = async {
        println!("working");
        orders.recv().await
    };
    locks.once_per(&args[1], ms(100), secs(4)).run(work).await.unwrap();
}

/// Two clients of one server, and the same tick of both.
fn two(server: &EmbeddedServer) -> [OncePer; 2] {
    [server.connect(), server.connect()].map(|locks| locks.once_per("tick", LEAST, MOST))
}

async fn begins(tick: &OncePer) -> bool {
    tick.run(async {}).await.unwrap().is_some()
}

/// From now on nobody begins for so long, and then somebody does.
#[track_caller]
fn opens_after(tick: &OncePer, span: Duration) -> impl Future<Output = ()> + '_ {
    let place = std::panic::Location::caller();
    async move {
        sleep(span - SLACK).await;
        assert!(!begins(tick).await, "{place}: too early");
        sleep(SLACK * 2).await;
        assert!(begins(tick).await, "{place}: too late");
    }
}

fn ttl(server: &EmbeddedServer) -> i64 {
    match server.command(&["PTTL", "tick"]).unwrap() {
        lockson::Reply::Int(left) => left,
        other => panic!("{other:?}"),
    }
}

/// Clocks that differ by less than the least, and work that takes up to half a period: no tick is done twice, or left
/// out.
#[tokio::test(start_paused = true)]
async fn each_tick_is_done_once() {
    const TICKS: usize = 200;
    let (server, seed, period) = (EmbeddedServer::new(), seed(), secs(20));
    let began = Instant::now();
    let done = Arc::new([const { AtomicUsize::new(0) }; TICKS]);
    let clients = (0..5).map(|number| (number, server.connect(), done.clone()));
    let tasks = spawn_each(clients, move |(number, locks, done)| async move {
        let (tick, mut rng) = (locks.once_per("tick", LEAST, secs(19)), Rng::with_seed(seed ^ number));
        for (at, count) in done.iter().enumerate() {
            let late = ms(rng.u64(..4_900));
            tokio::time::sleep_until(began + period * at as u32 + late).await;
            let takes = ms(rng.u64(..10_000));
            let work = async {
                count.fetch_add(1, Ordering::Relaxed);
                sleep(takes).await;
            };
            tick.run(work).await.unwrap();
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    let counts: Vec<usize> = done.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    assert_eq!(counts, [1; TICKS], "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn a_late_clock_finds_that_it_was_done() {
    let server = EmbeddedServer::new();
    let [one, other] = two(&server);
    assert!(begins(&one).await);
    assert!((4_990..=5_002).contains(&ttl(&server)), "{}", ttl(&server));
    opens_after(&other, LEAST).await;
    // Of the client that did it too.
    assert!(!begins(&other).await && !begins(&one).await);
    // Nobody here has it any more, and nobody was told that it was lost.
    assert_eq!(server.connect().health().holds, 0);
}

#[tokio::test(start_paused = true)]
async fn work_beyond_the_least_gives_it_back_as_it_ends() {
    let server = EmbeddedServer::new();
    let [one, other] = two(&server);
    let work = async {
        sleep(LEAST * 2).await;
        assert!(!begins(&other).await, "both at once");
        assert!(!begins(&one).await, "twice in one task");
        17
    };
    assert_eq!(one.run(work).await.unwrap(), Some(17));
    assert!(begins(&other).await);
}

#[tokio::test(start_paused = true)]
async fn work_beyond_the_most_is_stopped_before_another_begins() {
    let server = EmbeddedServer::new();
    let [one, other] = two(&server);
    let (began, alive) = (Instant::now(), Arc::new(()));
    let inside = alive.clone();
    let work = async move {
        let _inside = inside;
        std::future::pending::<()>().await
    };
    let watching = async {
        // What a hold is judged shorter than its lease.
        let margin = MOST / 100;
        sleep(MOST - margin - SLACK).await;
        assert!(!begins(&other).await, "the lease is not over");
        assert_eq!(Arc::strong_count(&alive), 2, "the work goes on");
        sleep(margin).await;
        assert_eq!(Arc::strong_count(&alive), 1, "the work goes on");
        sleep(SLACK * 2).await;
        assert!(begins(&other).await);
    };
    let (ran, ()) = tokio::join!(async { (one.run(work).await, began.elapsed()) }, watching);
    let (error, after) = ran;
    assert!(matches!(error, Err(OnceError::Lost(Lost { why: LostReason::Deadline, .. }))), "{error:?}");
    assert!(after < MOST, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_half_way_it_stays_for_the_least() {
    let server = EmbeddedServer::new();
    let [one, other] = two(&server);
    timeout(secs(1), one.run(sleep(MOST))).await.unwrap_err();
    opens_after(&other, LEAST - secs(1)).await;

    // Where the server is away, until it is told.
    for away in [secs(2), secs(20)] {
        sleep(MOST).await;
        timeout(secs(1), one.run(sleep(MOST))).await.unwrap_err();
        server.stop();
        sleep(away).await;
        server.start();
        match LEAST.checked_sub(secs(1) + away) {
            Some(rest) => opens_after(&other, rest).await,
            None => eventually(secs(3), "it is told", async || begins(&other).await).await,
        }
    }

    // A panic of the work.
    sleep(MOST).await;
    let work = std::panic::AssertUnwindSafe(one.run(async { panic!("meant to be") }));
    assert!(work.catch_unwind().await.is_err());
    opens_after(&other, LEAST).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_before_the_work_began_it_leaves_nothing() {
    let server = EmbeddedServer::new();
    let [one, other] = two(&server);
    let began = AtomicBool::new(false);
    server.inject(Faults::seeded(7).lose_replies(1000));
    let work = async { began.store(true, Ordering::Relaxed) };
    timeout(ms(100), one.run(work)).await.unwrap_err();
    assert!(!began.load(Ordering::Relaxed) && ttl(&server) > 0);
    server.heal();
    sleep(secs(3)).await;
    assert!(!began.load(Ordering::Relaxed) && begins(&other).await);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_shut_down_keeps_it_for_the_least() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let [tick, other] = [&locks, &server.connect()].map(|locks| locks.once_per("tick", LEAST, MOST));
    let ending = async {
        sleep(secs(1)).await;
        locks.shutdown(secs(5)).await
    };
    let (ran, ended) = tokio::join!(tick.run(std::future::pending::<()>()), ending);
    assert!(matches!(ran, Err(OnceError::Lost(Lost { why: LostReason::Released, .. }))), "{ran:?}");
    assert_eq!(ended, Ok(()));
    opens_after(&other, LEAST - secs(1)).await;
    assert!(matches!(tick.run(async {}).await, Err(OnceError::Lock(LockError::Query(QueryError::Closed)))));
}

/// A bad network: some begin nothing, but nobody begins within the least of another.
#[tokio::test(start_paused = true)]
async fn on_a_bad_network_nobody_begins_too_early() {
    const RUNS: usize = 400;
    let (server, seed) = (EmbeddedServer::new(), seed());
    server.inject(Faults::seeded(seed).lose_calls(100).lose_replies(100).delay(ms(400)));
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    let clients = (0..4).map(|number| (number, server.connect(), begun.clone()));
    let tasks = spawn_each(clients, move |(number, locks, begun)| async move {
        let (tick, mut rng) = (locks.once_per("tick", LEAST, secs(20)), Rng::with_seed(seed ^ number));
        for _ in 0..RUNS {
            let work = async {
                let at = Instant::now();
                begun.lock().unwrap().push(at);
                sleep(ms(rng.u64(..4_000))).await;
            };
            // Dropped half-way now and then.
            let limit = if number == 0 { secs(2) } else { MOST };
            match timeout(limit, tick.run(work)).await {
                Ok(Err(OnceError::Lost(lost))) => panic!("{lost}, seed {seed}"),
                Ok(Err(OnceError::Lock(error))) => assert!(error.is_unreachable(), "{error}, seed {seed}"),
                _ => {}
            }
            sleep(ms(rng.u64(..2_000))).await;
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    let begun = std::mem::take(&mut *begun.lock().unwrap());
    let spans: Vec<Duration> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(spans.len() > RUNS / 10, "{} began, seed {seed}", begun.len());
    assert!(spans.iter().all(|span| *span >= LEAST - SLACK), "{:?}, seed {seed}", spans.iter().min());
}

/// The first call comes once more, later.
struct Repeated {
    calls: u32,
}

impl Network for Repeated {
    fn call(&mut self, _: u64) -> Trip {
        self.calls += 1;
        match self.calls {
            1 => Trip { again: Some(ms(900)), ..Trip::GOOD },
            _ => Trip::GOOD,
        }
    }

    fn message(&mut self, _: u64) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

/// A late copy of what took it does not take it anew, for nobody.
#[tokio::test(start_paused = true)]
async fn a_late_copy_does_not_take_it_again() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let [warm, one, other] = ["warm", "tick", "tick"].map(|name| locks.once_per(name, ms(100), MOST));
    // The scripts are loaded, and the server's clock is known.
    assert!(begins(&warm).await);
    server.inject(Repeated { calls: 0 });
    server.lose_replies(1);
    assert!(begins(&one).await);
    sleep(secs(3)).await;
    assert!(begins(&other).await);
}

/// Whichever answers are lost, and although what was not answered is asked again.
#[tokio::test(start_paused = true)]
async fn lost_answers_change_nothing() {
    for lost in 1..=3 {
        let server = EmbeddedServer::new();
        let [one, other] = two(&server);
        server.lose_replies(lost);
        let work = async {
            // Those that the acquire left are of the release.
            server.lose_replies(lost);
            Instant::now()
        };
        let began = one.run(work).await.unwrap().expect("nobody else had it");
        sleep((began + LEAST - SLACK).duration_since(Instant::now())).await;
        assert!(!begins(&other).await, "{lost} lost: too early");
        // A copy of the release may have come a moment later.
        sleep(secs(4)).await;
        assert!(begins(&other).await, "{lost} lost: too late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_answered_takes_nothing_from_the_work() {
    let server = EmbeddedServer::new();
    let [one, other] = two(&server);
    let began = Instant::now();
    let work = async {
        server.stop();
        "done"
    };
    assert_eq!(one.run(work).await.unwrap(), Some("done"));
    assert!(began.elapsed() < secs(4), "{:?}", began.elapsed());
    // It is gone on with, until the outage limit.
    sleep(secs(10)).await;
    server.start();
    // A copy of it may have come just now.
    sleep(secs(2) + LEAST).await;
    assert!(begins(&other).await);
}

#[tokio::test(start_paused = true)]
async fn ended_by_force_the_work_is_stopped() {
    let locks = Locks::embedded();
    let tick = locks.once_per("tick", LEAST, MOST);
    let forcing = async {
        sleep(secs(1)).await;
        locks.plain_lock("tick").force_unlock().await.unwrap()
    };
    let (ran, forced) = tokio::join!(tick.run(std::future::pending::<()>()), forcing);
    assert!(matches!(ran, Err(OnceError::Lost(Lost { why: LostReason::Forced, .. }))), "{ran:?}");
    // That gives it to whoever comes, before the least is over.
    assert!(forced && begins(&tick).await);
}

#[tokio::test(start_paused = true)]
async fn spans_are_checked_before_anything_is_sent() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    for (least, most) in [(secs(0), MOST), (MOST + ms(1), MOST), (secs(0), secs(0))] {
        let ran = locks.once_per("tick", least, most).run(async { panic!("it ran") }).await;
        assert_eq!(ran, Err::<Option<()>, _>(OnceError::Spans { at_least: least, at_most: most }));
    }
    for most in [ms(99), secs(24 * 60 * 60) + ms(1)] {
        let ran = locks.once_per("tick", ms(1), most).run(async { panic!("it ran") }).await;
        assert!(matches!(ran, Err::<Option<()>, _>(OnceError::Lock(LockError::Lease(_)))), "{ran:?}");
    }
    let ran = locks.once_per("", LEAST, MOST).run(async {}).await;
    assert!(matches!(ran, Err(OnceError::Lock(LockError::Query(QueryError::Name(NameError::Empty))))), "{ran:?}");
    assert_eq!(server.calls(), 0);
}

/// On a real server, whose clients strike all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_clients_that_strike_at_once_one_begins() {
    let server = Server::shared();
    let clients = join_all((0..8).map(|_| server.locks())).await;
    let done = AtomicUsize::new(0);
    for round in 0..20 {
        let name = unique("tick");
        // Work that is over at once, and work that others find.
        let takes = ms(round % 2 * 20);
        let ticks: Vec<_> = clients.iter().map(|locks| locks.once_per(&name, secs(30), secs(60))).collect();
        let runs = ticks.iter().map(|tick| {
            tick.run(async {
                done.fetch_add(1, Ordering::Relaxed);
                sleep(takes).await;
            })
        });
        let ran = patient("a tick", join_all(runs)).await;
        let ran = ran.into_iter().filter(|ran| ran.as_ref().unwrap().is_some()).count();
        assert_eq!((ran, done.swap(0, Ordering::Relaxed)), (1, 1), "round {round}");
        let left = server.raw().await.pttl(&name).await;
        assert!((20_000..=30_002).contains(&left), "{left}");
    }
}

/// A process that is killed keeps the others out for its lease, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_it_for_the_most() {
    let (server, name) = (Server::shared(), unique("tick"));
    let (locks, mut raw) = (server.locks().await, server.raw().await);
    let tick = locks.once_per(&name, ms(100), secs(4));
    let mut process = Process::start("once", "worker", &[&server.port().to_string(), &name]);
    process.expect("working");
    process.kill();
    let (killed, left) = (Instant::now(), raw.pttl(&name).await);
    assert!((1..=4_000).contains(&left), "{left}");
    eventually(secs(30), "another begins", async || begins(&tick).await).await;
    let after = killed.elapsed() + ms(5);
    assert!(after >= ms(left as u64), "{after:?}, but {left} ms were left");
}

/// A server that forgets it ends the work, not at the end of its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_it_stops_the_work() {
    let server = Server::start();
    let tick = server.locks().await.once_per("tick", secs(60), secs(600));
    let work = async {
        server.kill();
        server.restart();
        std::future::pending::<()>().await
    };
    let ran = patient("the loss", tick.run(work)).await;
    assert!(matches!(ran, Err(OnceError::Lost(Lost { why: LostReason::Server, .. }))), "{ran:?}");
}
