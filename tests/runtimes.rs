//! Clients and runtimes: a verb outside of one, a client whose runtime has ended, code that panics in a client's tasks.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::OnceLock;

use lockson::Backoff;
use support::prelude::*;
use support::sites::Place;
use tokio::runtime::{Builder, Runtime};

const LIMIT: Duration = secs(20);
const CLOSED: LockError = LockError::Query(QueryError::Closed);
/// Less than any limit of a client: what comes in this time was not waited for.
const AT_ONCE: Duration = ms(900);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A client of each kind of server.
async fn clients() -> [Locks; 2] {
    let real = Server::shared().locks().await;
    [real, EmbeddedServer::new().connect()]
}

fn outside<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

macro_rules! are_refused {
    ($($verb:expr),*) => { $(assert_eq!(outside($verb).map(drop), Err(QueryError::NoRuntime.into()));)* };
}

#[test]
fn a_verb_outside_of_a_runtime_is_an_error() {
    let url = Server::shared().url();
    assert!(matches!(outside(Locks::connect(&url)), Err(ConnectError::NoRuntime)));
    let runtime = threads();
    for locks in runtime.block_on(clients()) {
        let (name, owner) = (unique("outside"), Owner::unique());
        let lock = locks.lock(&name).owned_by(&owner);
        let (fair, red) = (locks.fair_lock(&name).owned_by(&owner), RedLock::new(vec![lock.clone()]).fresh());
        let limit = Request::default().wait(secs(1));
        are_refused!(lock.lock(), lock.try_lock(), lock.acquire().wait(secs(1)).guard(), red.try_lock());
        are_refused!(RLock::acquire_with(&fair, limit), lock.is_locked(), lock.force_unlock(), red.is_held());
        are_refused!(red.unlock(), red.unlock_within(secs(1)), lock.unlock_within(secs(1)));
        let (semaphore, permits, latch) = (locks.semaphore(&name), locks.permit_semaphore(&name), locks.latch(&name));
        are_refused!(semaphore.try_set_permits(1), semaphore.try_acquire(1), semaphore.drain_permits());
        are_refused!(permits.guard(1), permits.available_permits(), latch.wait_for(secs(1)));

        // What is held stays held, or goes in the background; the client works on.
        runtime.block_on(lock.lock()).unwrap();
        assert_eq!(outside(lock.unlock()), Err(UnlockError::Query(QueryError::NoRuntime)));
        assert!(UnlockError::Query(QueryError::NoRuntime).may_hold() && runtime.block_on(lock.is_held()).unwrap());
        runtime.block_on(lock.unlock()).unwrap();
        let guard = runtime.block_on(lock.guard()).unwrap();
        assert!(matches!(outside(guard.verify()), Err(HoldError::Query(QueryError::NoRuntime))));
        assert!(matches!(outside(guard.unlock()), Err(UnlockError::Query(QueryError::NoRuntime))));
        runtime.block_on(async { patient("the guard's release", lock.lock()).await.unwrap() });
        runtime.block_on(lock.unlock()).unwrap();
        drop(runtime.block_on(lock.guard()).unwrap());
        let free = || async { !lock.is_locked().await.unwrap() };
        runtime.block_on(async { eventually(LIMIT, "the dropped guard is given back", free).await });

        runtime.block_on(lock.lock()).unwrap();
        assert_eq!(outside(locks.shutdown(secs(5))).unwrap_err().names.join(" "), name);
        assert_eq!(outside(lock.lock()), Err(CLOSED));
        runtime.block_on(async {
            let raw = async || Server::shared().raw().await.exists(&name).await;
            eventually(LIMIT, "the shutdown goes on by itself", || async { !raw().await }).await;
        });
    }
}

/// An unlock that panics half-way ends alone: the waiter that it took out of the line is served, and later ones.
#[test]
fn an_unlock_that_panics_half_way_loses_no_waiter() {
    let runtime = threads();
    let server = EmbeddedServer::new();
    let builder = Locks::builder().command_timeout(ms(200)).outage_limit(secs(5));
    let locks = runtime.block_on(async { server.connect_with(builder).unwrap() });
    let name = unique("panics");
    let lock = |owner: &str| locks.lock(&name).owned_by(&Owner::named(owner).unwrap());
    runtime.block_on(lock("a").lock()).unwrap();
    let heir = lock("heir");
    let heir = runtime.spawn(async move { heir.acquire().lease(secs(300)).guard().await });
    // It stands in line.
    runtime.block_on(async { sleep(ms(100)).await });
    let holder = lock("a");
    let mut unlock: Pin<Box<dyn Future<Output = _>>> = Box::pin(holder.unlock());
    server.lose_replies(1);
    runtime.block_on(async { assert!(futures::poll!(unlock.as_mut()).is_pending()) });
    let unlocked = catch_unwind(AssertUnwindSafe(|| outside(&mut unlock)));
    assert!(unlocked.is_err(), "it was to panic: {unlocked:?}");
    drop(unlock);
    runtime.block_on(async {
        drop(patient("the waiter", heir).await.unwrap().unwrap().unwrap());
        patient("the next", lock("next").lock()).await.unwrap();
        locks.shutdown(secs(5)).await.unwrap();
    });
}

/// Waiters, verbs and guards of a client whose runtime has ended, seen from another runtime.
fn orphaned(locks: &Locks, home: Runtime) {
    let name = unique("orphan");
    let lock = |owner: &str| locks.lock(&name).owned_by(&Owner::named(owner).unwrap());
    let here = one_thread();
    here.block_on(async {
        let (semaphore, latch) = (locks.semaphore(&unique("orphan")), locks.latch(&unique("orphan")));
        semaphore.try_set_permits(1).await.unwrap();
        let permit = semaphore.guard(1).await.unwrap();
        latch.try_set_count(1).await.unwrap();
        let guard = locks.lock(&unique("orphan-guard")).guard().await.unwrap();
        lock("a").lock().await.unwrap();
        let (first, second, fair) = (lock("b"), lock("c"), locks.fair_lock(guard.name()).owned_by(&Owner::unique()));
        let (taker, opened) = (semaphore.clone(), latch.clone());
        let waiters = [
            tokio::spawn(async move { first.lock().await == Err(CLOSED) }),
            tokio::spawn(async move { second.acquire().wait(secs(600)).await == Err(CLOSED) }),
            tokio::spawn(async move { fair.lock().await == Err(CLOSED) }),
            tokio::spawn(async move { taker.guard(1).await.unwrap_err() == SyncError::Query(QueryError::Closed) }),
            tokio::spawn(async move { opened.wait().await == Err(SyncError::Query(QueryError::Closed)) }),
        ];
        let lost = tokio::spawn(guard.lost());
        eventually(LIMIT, "they wait", || async { locks.health().subscriptions >= 3 }).await;
        sleep(ms(100)).await;
        // A runtime is not dropped inside another.
        tokio::task::spawn_blocking(move || drop(home)).await.unwrap();
        let began = Instant::now();
        for waiter in waiters {
            assert!(patient("the waiter is told", waiter).await.unwrap());
        }
        assert_eq!(patient("the holder is told", lost).await.unwrap().why, LostReason::Ended);
        assert_eq!(lock("d").lock().await, Err(CLOSED));
        assert_eq!(lock("d").try_lock().await, Err(CLOSED));
        assert_eq!(lock("a").unlock().await, Err(UnlockError::Query(QueryError::Closed)));
        assert_eq!(lock("a").is_locked().await, Err(QueryError::Closed));
        assert!(matches!(guard.verify().await, Err(HoldError::Lost(_))) && !guard.is_valid());
        assert_eq!(guard.unlock().await, Err(UnlockError::Query(QueryError::Closed)));
        assert_eq!(semaphore.available_permits().await, Err(SyncError::Query(QueryError::Closed)));
        assert_eq!(permit.release().await, Err(SyncError::Query(QueryError::Closed)));
        assert_eq!(latch.count().await, Err(SyncError::Query(QueryError::Closed)));
        assert!(!locks.health().reachable && locks.health().holds == 0);
        let _ = locks.shutdown(secs(60)).await;
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    });
}

#[test]
fn a_client_whose_runtime_has_ended_is_closed() {
    static SHARED: OnceLock<Locks> = OnceLock::new();
    let home = one_thread();
    let locks = home.block_on(Locks::connect(&Server::shared().url())).unwrap();
    let locks = SHARED.get_or_init(|| locks);
    let at_home = threads();
    let driven = at_home.block_on(Locks::connect(&Server::shared().url())).unwrap();
    orphaned(&driven, at_home);
    let at_home = threads();
    let embedded = at_home.block_on(async { EmbeddedServer::new().connect() });
    orphaned(&embedded, at_home);
    // One that nobody drives any more, and then ends: as a static across tests.
    drop(home);
    let began = Instant::now();
    one_thread().block_on(async {
        assert_eq!(patient("an answer", locks.lock("orphan").lock()).await, Err(CLOSED));
        assert_eq!(patient("an answer", locks.lock("orphan").try_lock()).await, Err(CLOSED));
    });
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

/// Renewals, clean-ups and subscriptions go on whatever the subscriber does.
#[tokio::test(start_paused = true)]
async fn a_subscriber_that_panics_ends_nothing() {
    let panics = || -> std::io::Sink { panic!("a subscriber that panics") };
    let _panics = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(panics).finish());
    let server = EmbeddedServer::new();
    let builder = || Locks::builder().watchdog_lease(secs(3)).outage_limit(secs(1));
    let (locks, other) = (server.connect_with(builder()).unwrap(), server.connect_with(builder()).unwrap());
    let kept = locks.lock("kept").guard().await.unwrap();
    let lost = locks.lock("lost").guard().await.unwrap();
    server.command(&["DEL", "lost"]).unwrap();
    // The renewal says so, and panics; then an outage that says more.
    assert_eq!(patient("the loss", lost.lost()).await.why, LostReason::Server);
    server.stop();
    assert!(other.lock("dropped").lock().await.is_err());
    sleep(secs(1)).await;
    server.start();
    sleep(secs(60)).await;
    assert!(kept.is_valid());
    // Messages come, and what is dropped is given back.
    let waiter = spawn_with(other.lock("kept"), |waiter| async move { waiter.guard().await });
    sleep(secs(1)).await;
    drop((kept, lost));
    drop(patient("the waiter", waiter).await.unwrap().unwrap());
    let free = || async { !other.lock("kept").is_locked().await.unwrap() };
    eventually(LIMIT, "it is given back", free).await;
}

/// A back-off of the caller's own runs in the caller's future: it alone ends.
#[tokio::test(start_paused = true)]
async fn a_back_off_that_panics_ends_its_caller_only() {
    let server = EmbeddedServer::new();
    let (locks, other) = (server.connect(), server.connect());
    let spin = |backoff| locks.spin_lock("spin", backoff).owned_by(&Owner::unique());
    let guard = other.spin_lock("spin", Backoff::default()).guard().await.unwrap();
    let bad = spin(Backoff::own(|_| panic!("a back-off that panics")));
    assert!(tokio::spawn(async move { bad.lock().await }).await.unwrap_err().is_panic());
    let next = spawn_with(spin(Backoff::default()), |next| async move { next.guard().await });
    sleep(secs(1)).await;
    drop(guard);
    drop(patient("the next", next).await.unwrap().unwrap());
}

/// What a task had asked for whose runtime ended goes back, by the client's own.
#[test]
fn a_runtime_that_ends_takes_nothing_with_it() {
    let (home, other) = (threads(), threads());
    let site = home.block_on(Place::start(Locks::builder(), &["reentrant/acquire", "semaphore/acquire"]));
    let (pool, lock) = (site.theirs.semaphore(&site.name), site.theirs.lock("asked"));
    assert!(home.block_on(pool.try_set_permits(1)).unwrap());
    site.proxy.stall_replies(true);
    let (asked, taken) = (site.ours.lock("asked"), site.ours.semaphore(&site.name));
    other.spawn(async move { asked.lock().await });
    other.spawn(async move { taken.guard(1).await.map(drop) });
    home.block_on(async {
        site.proxy.wait_requests(1, Filter::of("reentrant/acquire")).await;
        site.proxy.wait_requests(1, Filter::of("semaphore/acquire")).await;
    });
    drop(other);
    site.proxy.stall_replies(false);
    home.block_on(async {
        let are_free = async || !lock.is_locked().await.unwrap() && pool.available_permits().await == Ok(1);
        eventually(LIMIT, "they are given back", are_free).await;
    });
}
