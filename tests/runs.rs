//! Runs: turns inside a process without a script each, on a real server (PROTOCOL rule 27).

use support::prelude::*;

/// No run takes as long as this lease, nor does a test: what is renewed is not in the way.
const LEASE: Duration = secs(30);

type Make = fn(&Locks, &str) -> Arc<dyn RLock>;
const KINDS_THAT_RUN: [Make; 3] = [
    |locks, name| Arc::new(locks.lock(name)),
    |locks, name| Arc::new(locks.mutex(name)),
    |locks, name| Arc::new(locks.plain_lock(name)),
];

fn scripts(server: &Server) -> u64 {
    server.calls("evalsha") + server.calls("eval")
}

async fn client(server: &Server) -> Locks {
    Locks::builder().watchdog_lease(LEASE).connect(&server.url()).await.unwrap()
}

/// Tasks that each have so many turns, one after the other; who is inside is alone.
async fn turns(tasks: usize, each: usize, lock: impl Fn() -> Arc<dyn RLock>) {
    let (inside, all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let (lock, inside, all) = (lock(), inside.clone(), all.clone());
            tokio::spawn(async move {
                for turn in 0..each {
                    let guard = lock.guard().await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                    assert!(guard.is_valid());
                    tokio::task::yield_now().await;
                    assert!(inside.swap(false, Ordering::SeqCst));
                    all.fetch_add(1, Ordering::Relaxed);
                    match (task + turn) % 2 {
                        0 => drop(guard),
                        _ => guard.unlock().await.unwrap(),
                    }
                }
            })
        })
        .collect();
    let wanted = tasks.len() * each;
    for task in tasks {
        patient("a task", task).await.unwrap();
    }
    assert_eq!(all.load(Ordering::Relaxed), wanted);
}

/// Scripts that 1,000 turns of 20 tasks took.
async fn scripts_of(server: &Server, lock: impl Fn() -> Arc<dyn RLock>) -> u64 {
    server.reset_stats();
    turns(20, 50, lock).await;
    scripts(server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_lock_takes_few_scripts() {
    let server = Server::start();
    let locks = client(&server).await;
    let name = unique("hot");
    let off = Locks::builder().local_turns(false).connect(&server.url()).await.unwrap();
    for make in KINDS_THAT_RUN {
        let on = scripts_of(&server, || make(&locks, &name)).await;
        println!("scripts of 1,000 turns: {on}");
        assert!(on < 500, "{on}");
        let each = scripts_of(&server, || make(&off, &name)).await;
        assert!(each >= 1_000, "{each}");
        let mut raw = server.raw().await;
        eventually(secs(5), "the last is given back", async || !raw.exists(&name).await).await;
    }
}

/// A task that waits in line, and returns what it was given.
async fn stand(lock: Arc<dyn RLock>) -> JoinHandle<Guard> {
    let (polled, is_polled) = tokio::sync::oneshot::channel();
    let waiter = tokio::spawn(async move {
        let mut guard = lock.guard();
        assert!(futures::poll!(guard.as_mut()).is_pending());
        polled.send(()).unwrap();
        guard.await.unwrap()
    });
    is_polled.await.unwrap();
    waiter
}

fn other(lock: &dyn RLock) -> Arc<dyn RLock> {
    lock.owned_by(&Owner::unique())
}

/// `me` has it as the second of a run, and one more waits behind it.
async fn inside(lock: &dyn RLock, me: Arc<dyn RLock>) -> (Guard, JoinHandle<Guard>) {
    let first = other(lock).guard().await.unwrap();
    let [second, third, fourth] = [stand(other(lock)).await, stand(me).await, stand(other(lock)).await];
    first.unlock().await.unwrap();
    drop(patient("the first of a run", second).await.unwrap());
    (patient("the second", third).await.unwrap(), fourth)
}

#[tokio::test]
async fn turns_come_in_the_order_of_arrival() {
    let server = Server::start();
    let locks = client(&server).await;
    for make in KINDS_THAT_RUN {
        let lock = make(&locks, &unique("order"));
        let first = other(&*lock).guard().await.unwrap();
        let mut waiters = Vec::new();
        for _ in 0..50 {
            waiters.push(stand(other(&*lock)).await);
        }
        first.unlock().await.unwrap();
        for waiter in waiters {
            patient("its turn", waiter).await.unwrap().unlock().await.unwrap();
        }
    }
}

/// Those who stand in line go away at once, the one that was given it among them: it is passed on, and nobody's stack
/// grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_that_are_dropped_are_passed_on() {
    let server = Server::start();
    let lock = client(&server).await.lock(&unique("dropped"));
    let first = lock.owned_by(&Owner::unique()).guard().await.unwrap();
    let mut waiters: Vec<_> = (0..soak(100_000))
        .map(|_| {
            let lock = lock.owned_by(&Owner::unique());
            Box::pin(async move { lock.guard().await })
        })
        .collect();
    for waiter in &mut waiters {
        assert!(futures::poll!(waiter.as_mut()).is_pending());
    }
    drop(first);
    waiters.into_iter().for_each(drop);
    patient("the next", lock.guard()).await.unwrap().unlock().await.unwrap();
}

/// Who enters again, asks, or sets a lease is on the server by its own name from then on.
#[tokio::test]
async fn who_stays_is_named() {
    let server = Server::start();
    let (locks, rival) = (client(&server).await, client(&server).await);
    let mut raw = server.raw().await;
    for ask in 0..8 {
        let name = unique("named");
        let lock = locks.lock(&name).owned_by(&Owner::named("me").unwrap());
        let (guard, next) = inside(&lock, Arc::new(lock.clone())).await;
        match ask {
            0 => guard.verify().await.unwrap(),
            1 => guard.set_lease(LEASE * 2).await.unwrap(),
            2 => assert!(lock.is_held().await.unwrap()),
            3 => assert_eq!(lock.hold_count().await.unwrap(), 1),
            4 => assert_eq!(lock.holder().await.unwrap().unwrap().owner.as_str(), "named-me"),
            5 => assert_eq!(lock.holders().await.unwrap().len(), 1),
            6 => {
                lock.lock().await.unwrap();
                assert_eq!(lock.hold_count().await.unwrap(), 2);
                lock.unlock().await.unwrap();
            }
            // Nobody asks: it has it for longer than a run lasts.
            _ => eventually(secs(5), "it is named", async || raw.hget(&name, &field(&locks)).await.is_some()).await,
        }
        assert_eq!(raw.hgetall(&name).await, [(field(&locks), "1".to_owned())], "{ask}");
        let seen = rival.lock(&name).holder().await.unwrap().unwrap();
        assert_eq!((seen.client.as_str(), seen.count), (locks.client_id(), 1));
        assert!(guard.is_valid());
        guard.unlock().await.unwrap();
        patient("the next", next).await.unwrap().unlock().await.unwrap();
        assert!(!raw.exists(&name).await);
    }
}

fn field(locks: &Locks) -> String {
    format!("{}:named-me", locks.client_id())
}

/// What others see meanwhile has a client, and no owner that anybody could act for.
#[tokio::test]
async fn a_run_of_another_client_is_read() {
    let server = Server::start();
    let lock = client(&server).await.lock(&unique("read"));
    server.raw().await.must(&["HSET", lock.name(), "client:run-17", "1"]).await;
    let holder = lock.holder().await.unwrap().unwrap();
    assert_eq!((holder.client.as_str(), holder.owner.as_str(), holder.count), ("client", "run-17", 1));
    assert!("run-17".parse::<Owner>().is_err());
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    assert!(lock.force_unlock_if(holder.field()).await.unwrap());
}

/// A grant that its own client hears of behind its own force. `false`: it heard of it before.
async fn is_forced_unheard(server: &Server, lock: &lockson::ReentrantLock) -> bool {
    let (mut taking, mut raw) = (Box::pin(lock.guard()), server.raw().await);
    while !raw.exists(lock.name()).await {
        if futures::poll!(&mut taking).is_ready() {
            return false;
        }
    }
    assert!(lock.force_unlock().await.unwrap());
    let guard = taking.await.unwrap();
    patient("its loss", guard.lost()).await;
    true
}

/// It is asked for, long before it is renewed.
#[tokio::test]
async fn a_grant_that_is_heard_of_behind_a_force_is_lost() {
    let server = Server::start();
    let locks = Locks::builder().watchdog_lease(LEASE * 20).connect(&server.url()).await.unwrap();
    while !is_forced_unheard(&server, &locks.lock(&unique("behind"))).await {}
}

/// What the key was taken away from is told so: by its own client at once, by others as it is named.
#[tokio::test]
async fn a_run_that_is_ended_is_lost() {
    let server = Server::start();
    let locks = client(&server).await;
    for make in KINDS_THAT_RUN {
        for by_force in [true, false] {
            let name = unique("ended");
            let lock = make(&locks, &name);
            let (guard, next) = inside(&*lock, other(&*lock)).await;
            if by_force {
                // (A plain lock is not of the reentrant kind.)
                let plain = locks.plain_lock(&name).force_unlock().await;
                let ended = if plain.is_err() { locks.lock(&name).force_unlock().await } else { plain };
                assert!(ended.unwrap());
                assert!(!guard.is_valid());
                assert_eq!(guard.lost().await.why, LostReason::Forced);
            } else {
                server.raw().await.must(&["DEL", &name]).await;
                assert_eq!(patient("it is told", guard.lost()).await.why, LostReason::Server);
            }
            assert_matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. }));
            patient("the next", next).await.unwrap().unlock().await.unwrap();
        }
    }
}

/// Its own limit counts from its own turn, and the next one has one of its own.
#[tokio::test]
async fn max_hold_counts_from_the_turn() {
    let server = Server::start();
    let locks = Locks::builder().watchdog_lease(secs(3)).max_hold(secs(4)).connect(&server.url()).await.unwrap();
    let lock = locks.lock(&unique("limit"));
    let (guard, next) = inside(&lock, other(&lock)).await;
    let began = Instant::now();
    assert_eq!(patient("its end", guard.lost()).await.why, LostReason::Deadline);
    // Renewed until the limit, and valid for what is left of a lease.
    assert!(began.elapsed() > ms(3_500), "{:?}", began.elapsed());
    patient("the next", next).await.unwrap().unlock().await.unwrap();
}

/// Readers of the code that are other processes.
pub async fn play(part: &str, args: &[String]) {
    assert_eq!(part, "hot");
    let (port, name) = (&args[0], &args[1]);
    let url = format!("redis://127.0.0.1:{port}");
    let locks = Locks::builder().watchdog_lease(secs(3)).connect(&url).await.unwrap();
    println!("ready");
    turns(16, usize::MAX / 16, || Arc::new(locks.lock(name))).await;
}

/// What dies in the middle of a run leaves the lock to its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_in_a_run() {
    let server = Server::start();
    let (name, port) = (unique("killed"), server.port().to_string());
    let process = support::process::Process::start("runs", "hot", &[&port, &name]);
    process.expect("ready");
    let mut raw = server.raw().await;
    let in_a_run = async || raw.hgetall(&name).await.iter().any(|(field, _)| field.contains(":run-"));
    eventually(secs(10), "a run", in_a_run).await;
    drop(process);
    let ttl = raw.pttl(&name).await;
    assert!(ttl <= 3_000, "{ttl}");
    let lock = client(&server).await.lock(&name);
    patient("the lease's end", lock.guard()).await.unwrap().unlock().await.unwrap();
}
