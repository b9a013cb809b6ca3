//! The blocking verbs: threads without tokio, each an owner, and what they say in a runtime.

use std::thread;

use lockson::blocking;
use support::prelude::*;

/// Three clients: two of one embedded server, one of a real one.
fn clients() -> [blocking::Locks; 3] {
    let server = Arc::new(EmbeddedServer::new());
    let embedded = || {
        let server = server.clone();
        blocking::Locks::new(move || async move { Ok(server.connect()) }).unwrap()
    };
    [embedded(), embedded(), blocking::Locks::connect(&Server::shared().url()).unwrap()]
}

/// Takes it in another thread, as that thread.
fn elsewhere<T: Send + 'static>(
    lock: &blocking::AnyLock,
    verb: impl FnOnce(&blocking::AnyLock) -> T + Send + 'static,
) -> T {
    let lock = lock.clone();
    thread::spawn(move || verb(&lock)).join().unwrap()
}

#[test]
fn the_thread_is_the_owner() {
    for locks in clients() {
        let lock = locks.lock(&unique("blocking"));
        lock.lock().unwrap();
        assert_eq!(lock.try_lock(), Ok(Acquired), "it enters again");
        assert_eq!(elsewhere(&lock, blocking::AnyLock::try_lock), Ok(Busy));
        assert_matches!(elsewhere(&lock, blocking::AnyLock::unlock), Err(UnlockError::NotHeld { .. }));
        let holder = locks.run(locks.client().lock(lock.name()).holder()).unwrap().unwrap().unwrap();
        assert_eq!(holder.owner, Owner::current());
        assert!(holder.owner.as_str().starts_with("thread-"));
        lock.unlock().unwrap();
        assert_eq!(lock.is_held(), Ok(true));
        lock.unlock().unwrap();
        assert_eq!((lock.is_held(), elsewhere(&lock, blocking::AnyLock::try_lock)), (Ok(false), Ok(Acquired)));
        // An owner of a name is of any thread.
        let named = locks.lock(&unique("named")).owned_by(&Owner::named("job").unwrap());
        named.lock().unwrap();
        assert_eq!(elsewhere(&named, blocking::AnyLock::unlock), Ok(()));
    }
}

#[test]
fn threads_keep_each_other_out() {
    for locks in clients() {
        let (lock, inside, sum) = (locks.lock(&unique("sum")), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let guard = lock.guard().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        sum.fetch_add(1, Ordering::Relaxed);
                        assert!(guard.is_valid());
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.unlock().unwrap();
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 100);
    }
}

#[test]
fn limits_end_what_waits() {
    for locks in clients() {
        let lock = locks.of(locks.client().fair_lock(&unique("limit")));
        let guard = lock.guard().unwrap();
        let wait = Request::default().wait(ms(200));
        let began = Instant::now();
        let request = wait.clone();
        assert_eq!(elsewhere(&lock, move |lock| lock.acquire(request)), Ok(Busy));
        assert!(elsewhere(&lock, move |lock| lock.guard_with(wait)).unwrap().is_none());
        assert!(began.elapsed() >= ms(400));
        guard.verify().unwrap();
        guard.set_lease(secs(20)).unwrap();
        assert!(guard.remaining() > secs(10));
        guard.unlock_within(secs(20)).unwrap();
        // A dropped one is given back in the background.
        drop(lock.guard_with(Request::default()).unwrap().unwrap());
        let next = elsewhere(&lock, |lock| lock.acquire(Request::default().wait(secs(10))));
        assert_eq!(next, Ok(Acquired));
    }
}

/// While the thread that has it computes.
#[test]
fn a_hold_is_renewed_by_the_clients_thread() {
    let server = Server::shared();
    let url = server.url();
    let settings = || Locks::builder().watchdog_lease(ms(1000)).command_timeout(ms(300));
    let locks = blocking::Locks::new(move || async move { settings().connect(&url).await }).unwrap();
    let guard = locks.lock(&unique("long")).guard().unwrap();
    let began = Instant::now();
    while began.elapsed() < ms(2500) {
        std::hint::spin_loop();
    }
    assert!(guard.is_valid());
    guard.verify().unwrap();
}

#[test]
fn the_last_that_goes_gives_all_back() {
    let [locks, other, _] = clients();
    let [bare, guarded] = ["bare", "guarded"].map(|name| locks.lock(name));
    bare.lock().unwrap();
    let guard = guarded.guard().unwrap();
    drop((locks, bare, guarded));
    let is_free = |name| {
        let lock = other.lock(name);
        elsewhere(&lock, |lock| lock.acquire(Request::default().wait(ms(300))))
    };
    assert_eq!((is_free("bare"), is_free("guarded")), (Ok(Busy), Ok(Busy)), "a guard keeps the client");
    drop(guard);
    let next = Request::default().wait(secs(10));
    assert_eq!(
        (other.lock("bare").acquire(next.clone()), other.lock("guarded").acquire(next)),
        (Ok(Acquired), Ok(Acquired))
    );
}

#[test]
fn shutdown_gives_back_and_ends_it() {
    for locks in clients() {
        let lock = locks.lock(&unique("shut"));
        lock.lock().unwrap();
        assert_eq!(locks.shutdown(secs(5)), Ok(()));
        assert_eq!(lock.lock(), Err(LockError::Query(QueryError::Closed)));
    }
}

/// It names all that is held, and the client's own thread gives it back; who asks again waits for that.
#[test]
fn a_shutdown_in_a_runtime_goes_on_without_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for locks in clients() {
        let name = unique("shut");
        locks.lock(&name).lock().unwrap();
        let left = runtime.block_on(async { locks.shutdown(secs(5)) });
        assert_eq!(left.unwrap_err().names.join(" "), name);
        assert_eq!(locks.shutdown(secs(5)), Ok(()));
    }
}

/// Nothing panics, also where clients and guards are dropped.
#[test]
fn in_a_runtime_every_verb_is_an_error() {
    for locks in clients() {
        let lock = locks.lock(&unique("inside"));
        lock.lock().unwrap();
        let guard = locks.lock(&unique("guarded")).guard().unwrap();
        let inside = QueryError::InRuntime;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert_eq!(lock.lock(), Err(inside.clone().into()));
            assert_eq!(lock.try_lock(), Err(inside.clone().into()));
            assert_eq!(lock.unlock(), Err(inside.clone().into()));
            assert_eq!(lock.is_held(), Err(inside.clone()));
            assert_eq!(locks.run(async {}), Err(inside.clone()));
            assert_eq!(guard.verify(), Err(inside.clone().into()));
            assert_matches!(blocking::Locks::connect("redis://127.0.0.1:1"), Err(ConnectError::InRuntime));
            let blocked = lock.clone();
            let blocked = tokio::task::spawn_blocking(move || blocked.is_held()).await.unwrap();
            assert_eq!(blocked, Err(inside.clone()));
            assert_eq!(guard.unlock(), Err(inside.clone().into()));
        });
        // It stayed held, and the client works on.
        assert_eq!(lock.is_held(), Ok(true));
        runtime.block_on(async { drop((locks, lock)) });
    }
}

#[test]
fn a_client_that_is_not_made_says_why() {
    assert_matches!(blocking::Locks::connect("redis://127.0.0.1:1"), Err(ConnectError::Unreachable(_)));
    let made = blocking::Locks::new(|| async { panic!("meant to be") });
    assert_matches!(made, Err(ConnectError::Thread(_)));
}
