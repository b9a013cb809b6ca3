//! A server that does not answer: what each verb says and when, and what is left when the client goes.

mod paused;

use support::prelude::*;
use support::sites::Outage;

/// What a noisy machine may add to a promised bound; what would come without it comes much later. The bounds themselves
/// are for [`paused`], where no machine is noisy.
const SLACK: Duration = secs(10);
/// The same where the linger of a subscription (5 s) would come next.
const LESS_SLACK: Duration = secs(3);
/// An outage limit that no test waits for.
const NO_LIMIT: Duration = secs(600);

fn quick() -> Builder {
    Locks::builder().command_timeout(ms(300)).outage_limit(ms(1000))
}

/// The server does not answer, or nobody gets to it.
#[derive(Debug, Clone, Copy)]
enum Ill {
    Frozen,
    By(Outage),
}

const OUTAGES: [Ill; 4] =
    [Ill::Frozen, Ill::By(Outage::Refused), Ill::By(Outage::BlackHole), Ill::By(Outage::LostReplies)];

struct World {
    server: Server,
    proxy: Proxy,
}

impl World {
    fn new() -> Self {
        let server = Server::start();
        Self { proxy: Proxy::start(server.port()), server }
    }

    async fn client(&self) -> Locks {
        quick().connect(&self.proxy.url()).await.unwrap()
    }

    fn set(&self, ill: Ill, on: bool) {
        match (ill, on) {
            (Ill::Frozen, true) => self.server.freeze(),
            (Ill::Frozen, false) => self.server.thaw(),
            (Ill::By(outage), on) => outage.set(&self.proxy, on),
        }
    }
}

async fn timed<F: IntoFuture>(future: F) -> (Duration, F::Output) {
    let start = tokio::time::Instant::now();
    let output = patient("an answer", future.into_future()).await;
    (start.elapsed(), output)
}

/// Asks for each verb in an outage that begins when something is held. How long each took to say so: those that ask
/// until the outage limit, and those that look once.
async fn every_verb(locks: &Locks, outage: impl std::fmt::Debug, befall: impl FnOnce()) -> [[Duration; 3]; 2] {
    let (held, free, tried) = (locks.lock("held"), locks.lock("free"), locks.lock("tried"));
    held.lock().await.unwrap();
    let guard = locks.lock("guarded").guard().await.unwrap();
    befall();
    let (lock, try_lock, unlock, is_locked, holder, given_back) = tokio::join!(
        timed(free.lock()),
        timed(tried.try_lock()),
        timed(held.unlock()),
        timed(free.is_locked()),
        timed(tried.holder()),
        timed(guard.unlock()),
    );
    for taken in [lock.1, try_lock.1.map(drop)] {
        assert_matches!(taken, Err(LockError::Query(QueryError::Unreachable { .. })), outage);
    }
    for unlocked in [unlock.1, given_back.1] {
        assert_matches!(unlocked, Err(UnlockError::Query(QueryError::Unreachable { .. })), outage);
    }
    assert_matches!(is_locked.1, Err(QueryError::Unreachable { .. }), outage);
    assert_matches!(holder.1, Err(QueryError::Unreachable { .. }), outage);
    [[lock.0, unlock.0, given_back.0], [try_lock.0, is_locked.0, holder.0]]
}

/// With a wait limit: an error by its own type at that limit and never later, whenever the lock was asked for.
#[tokio::test]
async fn a_wait_limit_holds_in_an_outage() {
    for outage in OUTAGES {
        let (world, asked) = (World::new(), soak(50));
        let locks = quick().outage_limit(NO_LIMIT).connect(&world.proxy.url()).await.unwrap();
        let other = world.server.locks().await;
        other.lock("busy").lock().await.unwrap();
        let during = spawn_with(locks.lock("busy"), |busy| async move { timed(busy.acquire().wait(ms(900))).await });
        sleep(ms(100)).await;
        world.set(outage, true);
        let mut worst = Duration::ZERO;
        for _ in 0..asked {
            let (took, tried) = timed(locks.lock(&unique("limit")).acquire().wait(ms(300))).await;
            assert_matches!(tried, Err(LockError::Query(QueryError::Unreachable { .. })), outage);
            worst = worst.max(took);
        }
        println!("{outage:?}: limit 300 ms, worst {worst:?}");
        assert!(worst >= ms(300) && worst <= ms(300) + SLACK, "{outage:?}: {worst:?}");
        let in_time = |took| took <= ms(900) + SLACK;
        let (took, during) = during.await.unwrap();
        assert!(in_time(took), "{outage:?}: {took:?}");
        assert_matches!(during, Err(LockError::Query(QueryError::Unreachable { .. })), outage);
        assert!(!locks.health().reachable);
        world.set(outage, false);
        let lock = locks.lock("after");
        // The connection may take longer to come back than one attempt waits.
        assert!(lock.acquire().wait(ms(20_000)).await.unwrap().is_acquired());
        assert!(locks.health().reachable);
        report(&format!("wait limits, {outage:?}"), asked, asked, 0, None);
    }
}

/// Without one each verb says so at the outage limit, what looks once after three command timeouts, and one attempt.
#[tokio::test]
async fn the_outage_limit_holds_for_every_verb() {
    for outage in OUTAGES {
        let world = World::new();
        let locks = world.client().await;
        let [asked, looked] = every_verb(&locks, outage, || world.set(outage, true)).await;
        println!("{outage:?}: limit 1 s, {asked:?} {looked:?}");
        assert!(asked.iter().all(|took| *took >= ms(990) && *took <= ms(1300) + SLACK), "{outage:?}: {asked:?}");
        assert!(looked.iter().all(|took| *took >= ms(890) && *took <= ms(900) + SLACK), "{outage:?}: {looked:?}");
        world.set(outage, false);
    }
}

/// A waiter outlasts an outage that is shorter than the outage limit, however long it waited; a longer one ends it.
#[tokio::test]
async fn an_outage_is_not_measured_from_the_call() {
    let world = World::new();
    let (locks, other) = (world.client().await, world.server.locks().await);
    let held = other.lock("long").guard().await.unwrap();
    let waiting = spawn_with(locks.lock("long"), |lock| async move { lock.guard().await });
    sleep(ms(1300)).await;
    world.proxy.refuse(true);
    sleep(ms(500)).await;
    assert!(!waiting.is_finished());
    world.proxy.refuse(false);
    held.unlock().await.unwrap();
    patient("the lock", waiting).await.unwrap().unwrap().unlock().await.unwrap();
    let held = other.lock("long").guard().await.unwrap();
    let waiting = spawn_with(locks.lock("long"), |lock| async move { lock.lock().await });
    sleep(ms(200)).await;
    world.proxy.refuse(true);
    let ended = patient("an error", waiting).await.unwrap();
    assert_matches!(ended, Err(LockError::Query(QueryError::Unreachable { .. })));
    held.unlock().await.unwrap();
}

/// While the server answers, busy is `false`, never an error: also on a slow link, and with many waiters that give up.
#[tokio::test]
async fn busy_stays_busy_while_reachable() {
    let world = World::new();
    let (locks, other) = (world.client().await, world.server.locks().await);
    other.lock("busy").lock().await.unwrap();
    for delay in [ms(0), ms(10), ms(25)] {
        world.proxy.delay(delay);
        assert!(!locks.lock("busy").try_lock().await.unwrap().is_acquired());
        let tries = (0..soak(200) as u64).map(|n| {
            spawn_with(locks.lock("busy"), move |lock| async move { lock.acquire().wait(ms(300 + 7 * (n % 50))).await })
        });
        for tried in tries.collect::<Vec<_>>() {
            assert!(matches!(patient("an answer", tried).await.unwrap(), Ok(Busy)), "delay {delay:?}");
        }
    }
}

/// Futures that are dropped in an outage leave no key after it, whether the server wakes up soon, late, or was there.
#[tokio::test]
async fn a_drop_in_an_outage_leaves_no_key() {
    for outage in OUTAGES {
        let (world, rounds) = (World::new(), soak(20));
        let (locks, mut raw) = (world.client().await, world.server.raw().await);
        // From here on the server knows the script: one call is one copy.
        drop(locks.lock("first").guard().await.unwrap());
        for done in 0..rounds {
            let names: Vec<String> = (0..10).map(|_| unique("dropped")).collect();
            world.set(outage, true);
            let wanted = |name| spawn_with(locks.lock(name), |lock| async move { lock.lock().await });
            let calls: Vec<_> = names.iter().map(|name: &String| wanted(name)).collect();
            // Dropped before anything is sent again, or after some copies were.
            sleep(if done % 2 == 0 { ms(20) } else { ms(500) }).await;
            calls.iter().for_each(|call| call.abort());
            sleep(if done % 4 < 2 { ms(50) } else { ms(700) }).await;
            world.set(outage, false);
            // Connected again, and past the `not_after` of the last copy.
            sleep(ms(350)).await;
            eventually(ms(2000), "no key", || async { world.server.control(&["KEYS", "dropped-*"]).list().is_empty() })
                .await;
            sleep(ms(350)).await;
            let left = raw.keys("dropped-*").await;
            assert!(left.is_empty(), "{outage:?}, round {done}: {left:?}");
            for name in &names {
                assert!(patient("the lock", locks.lock(name).try_lock()).await.unwrap().is_acquired());
                locks.lock(name).unlock().await.unwrap();
            }
        }
        report(&format!("drops in an outage, {outage:?}"), rounds, rounds, 0, None);
    }
}

/// A shutdown that can't reach the server ends at its limit, and names the holds that it could not give back.
#[tokio::test]
async fn a_shutdown_names_the_leftovers() {
    let early = (Ill::By(Outage::Refused), ms(300), ms(3000));
    for (outage, outage_limit, limit) in OUTAGES.map(|outage| (outage, ms(1000), ms(400))).into_iter().chain([early]) {
        let world = World::new();
        let locks = quick().outage_limit(outage_limit).connect(&world.proxy.url()).await.unwrap();
        let dropped = locks.lock("c").guard().await.unwrap();
        let guard = locks.lock("b").guard().await.unwrap();
        locks.lock("a").lock().await.unwrap();
        locks.lock("given back").lock().await.unwrap();
        locks.lock("given back").unlock().await.unwrap();
        world.set(outage, true);
        drop(dropped);
        // Under way when the shutdown begins, or not.
        sleep(limit / 60).await;
        let (took, left) = timed(locks.shutdown(limit)).await;
        let mut names = left.unwrap_err().names;
        names.sort();
        assert_eq!(names, ["a", "b", "c"], "{outage:?}");
        assert!(took <= limit + SLACK, "{outage:?}: {took:?}");
        assert!(!guard.is_valid());
        assert_eq!(locks.lock("d").try_lock().await, Err(LockError::Query(QueryError::Closed)));
        world.set(outage, false);
    }
}

/// A shutdown waits for the attempt under way, free or busy; its waiter hears `Closed`, and nothing is left.
#[tokio::test]
async fn a_shutdown_settles_the_attempt_under_way() {
    for is_busy in [false, true] {
        let world = World::new();
        let rival = quick().connect(&world.server.url()).await.unwrap();
        let rivals = if is_busy { Some(rival.lock("x").guard().await.unwrap()) } else { None };
        let locks = Locks::builder().connect(&world.proxy.url()).await.unwrap();
        world.proxy.forget_requests();
        world.proxy.stall_replies(true);
        let waiter = spawn_with(locks.lock("x"), |lock| async move { lock.lock().await });
        patient("the attempt", world.proxy.wait_requests(1, Filter::Script)).await;
        let probe = locks.lock("other");
        let shutdown = spawn_with(locks.clone(), |locks| async move { locks.shutdown(secs(10)).await });
        tokio::task::yield_now().await;
        assert_eq!(probe.try_lock().await, Err(LockError::Query(QueryError::Closed)));
        world.proxy.stall_replies(false);
        let ended = patient("the wait to end", waiter).await.unwrap();
        assert_eq!(ended, Err(LockError::Query(QueryError::Closed)), "busy: {is_busy}");
        patient("the shutdown", shutdown).await.unwrap().unwrap();
        assert_eq!(rival.lock("x").is_locked().await.unwrap(), is_busy);
        drop(rivals);
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// How many connections the server has, without the one that asks.
fn sockets(server: &Server) -> usize {
    server.control(&["CLIENT", "LIST"]).text().lines().count() - 1
}

/// No task and no socket outlives the last handle by a command timeout: after use, a subscription, a shutdown.
#[tokio::test]
async fn nothing_is_left_of_a_client() {
    let server = Server::start();
    let (before, limit) = (tasks(), ms(300) + LESS_SLACK);
    assert_eq!(sockets(&server), 0);
    for with_shutdown in [false, true] {
        let locks = quick().connect(&server.url()).await.unwrap();
        let (lock, waiter) = (locks.lock("busy"), quick().connect(&server.url()).await.unwrap());
        let guard = lock.guard().await.unwrap();
        assert!(!waiter.lock("busy").acquire().wait(ms(50)).await.unwrap().is_acquired());
        assert!(tasks() > before && sockets(&server) == 4 && waiter.health().subscriptions == 1);
        if with_shutdown {
            waiter.shutdown(ms(1000)).await.unwrap();
        }
        drop((locks, waiter));
        eventually(limit, "the waiter's sockets are gone", async || sockets(&server) <= 2).await;
        // A guard, and a handle, keep the other one.
        sleep(ms(400)).await;
        assert!(guard.is_valid() && sockets(&server) == 2);
        drop(guard);
        drop(lock);
        eventually(limit, "no socket and no task", || async { sockets(&server) == 0 && tasks() == before }).await;
        assert!(!server.raw().await.exists("busy").await);
    }
}

/// The same while the server does not answer, with calls under way: one command timeout to drain, one to part.
#[tokio::test]
async fn nothing_is_left_of_a_client_in_an_outage() {
    for outage in OUTAGES {
        let world = World::new();
        let before = tasks();
        let locks = world.client().await;
        locks.lock("held").lock().await.unwrap();
        world.set(outage, true);
        for _ in 0..2 {
            let (lock, question) = (locks.lock("wanted"), locks.lock("wanted"));
            let call = tokio::spawn(async move { tokio::join!(lock.lock(), question.is_locked()) });
            sleep(ms(50)).await;
            call.abort();
        }
        drop(locks);
        let gone = Instant::now();
        eventually(ms(600) + SLACK, "no task", || async { tasks() == before }).await;
        println!("{outage:?}: no task after {:?}", gone.elapsed());
        world.set(outage, false);
        eventually(SLACK, "no socket", || async { sockets(&world.server) == 0 }).await;
    }
}

/// A connect that fails, or is dropped half-way, leaves nothing either.
#[tokio::test]
async fn nothing_is_left_of_a_failed_connect() {
    let world = World::new();
    let before = tasks();
    world.server.control(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert!(matches!(quick().connect(&world.proxy.url()).await, Err(ConnectError::Evicts(_))));
    // Nobody listens at port 1.
    assert!(quick().connect("redis://127.0.0.1:1").await.is_err());
    let wrong = format!("redis://:wrong@127.0.0.1:{}", world.server.port());
    assert!(matches!(quick().username("x").connect(&wrong).await, Err(ConnectError::Refused(_))));
    let nothing = async || sockets(&world.server) == 0 && tasks() == before;
    eventually(ms(300) + SLACK, "nothing of the refused ones", nothing).await;
    world.proxy.stall_replies(true);
    for limit in [0, 1, 5, 50] {
        assert!(tokio::time::timeout(ms(limit), quick().connect(&world.proxy.url())).await.is_err());
    }
    world.proxy.wait_requests(1, Filter::Any).await;
    eventually(ms(600) + SLACK, "nothing of the dropped ones", || async { tasks() == before }).await;
    world.proxy.heal();
    eventually(SLACK, "no socket", || async { sockets(&world.server) == 0 }).await;
}
