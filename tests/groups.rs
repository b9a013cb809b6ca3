//! Calls that are due at once go as one script, and each is as if it were alone (PROTOCOL rule 26).

use std::collections::BTreeSet;

use lockson::ReentrantLock;
use support::prelude::*;
use support::sites::{begin, load_scripts, Place};

/// Locks of names that nobody else uses, each for an owner of its own.
fn many(locks: &Locks, count: usize) -> Vec<ReentrantLock> {
    (0..count).map(|_| locks.lock(&unique("group")).owned_by(&Owner::unique())).collect()
}

async fn try_all(all: &[ReentrantLock]) -> Vec<Result<AcquireOutcome, LockError>> {
    join_all(all.iter().map(|lock| lock.try_lock())).await
}

async fn unlock_all(all: &[ReentrantLock]) -> Vec<Result<(), UnlockError>> {
    join_all(all.iter().map(|lock| lock.unlock())).await
}

/// How many scripts some work came to.
async fn scripts<T>(server: &Server, work: impl Future<Output = T>) -> (T, u64) {
    server.reset_stats();
    let done = work.await;
    (done, server.calls("evalsha") + server.calls("eval"))
}

#[tokio::test]
async fn calls_at_once_are_few_scripts() {
    let server = Server::start();
    load_scripts(&server).await;
    let locks = server.locks().await;
    let all = many(&locks, 400);
    // Each once, then each once more, then back.
    for _ in 0..2 {
        let (taken, count) = scripts(&server, try_all(&all)).await;
        assert!(taken.iter().all(|taken| *taken == Ok(Acquired)), "{taken:?}");
        assert!(count <= 50, "{count} scripts");
    }
    let mut raw = server.raw().await;
    for lock in &all {
        assert_eq!(raw.hgetall(lock.name()).await[0].1, "2");
    }
    for _ in 0..2 {
        let (given, count) = scripts(&server, unlock_all(&all)).await;
        assert!(given.iter().all(Result::is_ok), "{given:?}");
        assert!(count <= 50, "{count} scripts");
    }
    assert_eq!(raw.must(&["DBSIZE"]).await.int(), 0);
}

/// Nothing waits for company: one call after the other is a script each, as it was.
#[tokio::test]
async fn a_call_alone_goes_alone() {
    let server = Server::start();
    load_scripts(&server).await;
    let locks = server.locks().await;
    let (lock, proxy) = (locks.lock("alone"), Proxy::start(server.port()));
    for _ in 0..3 {
        lock.lock().await.unwrap();
        lock.unlock().await.unwrap();
    }
    let behind = proxy.locks().await;
    behind.lock("alone").lock().await.unwrap();
    assert_eq!(proxy.requests(Filter::of("group")), 0);
    assert_eq!(proxy.requests(Filter::of("reentrant/acquire")), 1);
}

/// Reentrant and plain, takes and gives, free and busy: each has its own answer.
#[tokio::test]
async fn each_of_a_group_has_its_own_answer() {
    let server = Server::start();
    let (locks, rival) = (server.locks().await, server.locks().await);
    let (mine, busy, free) = (many(&locks, 20), many(&locks, 20), many(&locks, 20));
    let plain: Vec<_> = (0..20).map(|_| locks.plain_lock(&unique("plain")).owned_by(&Owner::unique())).collect();
    let held: Vec<_> = (0..20).map(|_| locks.plain_lock(&unique("plain")).owned_by(&Owner::unique())).collect();
    assert!(try_all(&mine).await.iter().all(|taken| *taken == Ok(Acquired)));
    let rivals: Vec<_> = busy.iter().map(|lock| rival.lock(lock.name())).collect();
    assert!(try_all(&rivals).await.iter().all(|taken| *taken == Ok(Acquired)));
    join_all(held.iter().map(|lock| lock.lock())).await;
    let (given, refused, taken, plain_taken, plain_given) = tokio::join!(
        unlock_all(&mine),
        try_all(&busy),
        try_all(&free),
        join_all(plain.iter().map(|lock| lock.try_lock())),
        join_all(held.iter().map(|lock| lock.unlock())),
    );
    assert!(given.iter().all(Result::is_ok), "{given:?}");
    assert!(refused.iter().all(|taken| *taken == Ok(Busy)), "{refused:?}");
    assert!(taken.iter().chain(&plain_taken).all(|taken| *taken == Ok(Acquired)), "{taken:?} {plain_taken:?}");
    assert!(plain_given.iter().all(Result::is_ok), "{plain_given:?}");
    let left: BTreeSet<String> = server.raw().await.keys("*").await.into_iter().collect();
    let names = busy.iter().chain(&free).map(|lock| lock.name()).chain(plain.iter().map(|lock| lock.name()));
    assert_eq!(left, names.map(str::to_owned).collect());
}

/// Each release of a group tells those who wait for its own lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_release_of_a_group_wakes_its_own_waiters() {
    let server = Server::start();
    let locks = server.locks().await;
    let others = Locks::builder().wait_cap(secs(100)).connect(&server.url()).await.unwrap();
    let all = many(&locks, 30);
    assert!(try_all(&all).await.iter().all(|taken| *taken == Ok(Acquired)));
    let waiters = spawn_each(all.iter().map(|lock| others.lock(lock.name())), |lock| async move { lock.lock().await });
    let mut raw = server.raw().await;
    for lock in &all {
        let channel = format!("redisson_lock__channel:{{{}}}", lock.name());
        eventually(secs(20), "a waiter that listens", async || raw.subscribers(&channel).await == 1).await;
    }
    assert!(unlock_all(&all).await.iter().all(Result::is_ok));
    for told in patient_all("waiters that are told", waiters).await {
        told.unwrap();
    }
}

/// Whatever is at one key, the others of its group have theirs.
#[tokio::test]
async fn a_key_of_another_type_is_the_error_of_its_own_call() {
    let server = Server::start();
    let locks = server.locks().await;
    let all = many(&locks, 100);
    let mut raw = server.raw().await;
    let (wrong, broken) = (&all[40], &all[60]);
    raw.must(&["SET", wrong.name(), "x"]).await;
    raw.must(&["HSET", broken.name(), "stranger", "many"]).await;
    let taken = try_all(&all).await;
    for (lock, taken) in all.iter().zip(taken) {
        match lock.name() {
            name if name == wrong.name() => {
                assert_matches!(taken, Err(LockError::Query(QueryError::WrongType { .. })));
            }
            name if name == broken.name() => assert_eq!(taken, Ok(Busy)),
            _ => assert_eq!(taken, Ok(Acquired)),
        }
    }
}

/// The server refuses a whole script for one key that its user may not touch: the others go without it.
#[tokio::test]
async fn a_right_that_is_missing_for_one_key_refuses_no_other() {
    let server = Server::start();
    let rights = ["ACL", "SETUSER", "locker", "on", ">password", "+@all", "&*", "~lockson:*", "~group-*"];
    server.control(&rights);
    let builder = Locks::builder().username("locker").password("password");
    let locks = builder.connect(&server.url()).await.unwrap();
    let mut all = many(&locks, 100);
    all[50] = locks.lock("forbidden");
    let taken = try_all(&all).await;
    for (lock, taken) in all.iter().zip(taken) {
        match lock.name() {
            "forbidden" => {
                let why = |error| matches!(error, QueryError::Refused { why: Refused::NoPermission(_), .. });
                assert_matches!(taken, Err(LockError::Query(error)) if why(error.clone()));
            }
            _ => assert_eq!(taken, Ok(Acquired)),
        }
    }
    all.remove(50);
    assert!(unlock_all(&all).await.iter().all(Result::is_ok));
    assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0);
}

/// A command that its user may not run is raised in the midst of one call: nothing of the others is undone or left out.
#[tokio::test]
async fn an_error_that_one_call_raises_stops_no_other() {
    let server = Server::start();
    let rights = ["ACL", "SETUSER", "locker", "on", ">password", "+@all", "&*", "~*"];
    server.control(&rights);
    let builder = Locks::builder().username("locker").password("password");
    let locks = builder.connect(&server.url()).await.unwrap();
    let all = many(&locks, 40);
    let plain: Vec<_> = (0..40).map(|_| locks.plain_lock(&unique("plain")).owned_by(&Owner::unique())).collect();
    server.control(&["ACL", "SETUSER", "locker", "-set"]);
    let (taken, refused) = tokio::join!(try_all(&all), join_all(plain.iter().map(|lock| lock.try_lock())));
    assert!(taken.iter().all(|taken| *taken == Ok(Acquired)), "{taken:?}");
    for refused in refused {
        let Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })) = refused else {
            panic!("{refused:?}");
        };
    }
    assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 40);
}

/// What is refused for want of memory is each call's own: who gives back is let through, and nothing is left.
#[tokio::test]
async fn a_server_without_memory_refuses_who_takes() {
    let server = Server::start();
    let locks = server.locks().await;
    let (all, held) = (many(&locks, 40), many(&locks, 40));
    assert!(try_all(&held).await.iter().all(|taken| *taken == Ok(Acquired)));
    server.control(&["CONFIG", "SET", "maxmemory", "1"]);
    for taken in try_all(&all).await {
        let Err(LockError::Query(QueryError::Refused { why: Refused::OutOfMemory, .. })) = taken else {
            panic!("{taken:?}");
        };
    }
    assert!(unlock_all(&held).await.iter().all(Result::is_ok));
    assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0);
}

/// The answer of a group is lost, or the group itself: each call counts once, whatever became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_without_an_answer_counts_once() {
    let Place { server, proxy, ours, .. } = Place::start(Locks::builder().command_timeout(secs(2)), &["group"]).await;
    load_scripts(&server).await;
    let mut raw = server.raw().await;
    for (number, cut) in [Proxy::cut_after, Proxy::cut_before].into_iter().cycle().take(6).enumerate() {
        let all = many(&ours, 40);
        let lost = cut(&proxy, 1, Filter::of("group"));
        let taken = patient("taken in spite of that", try_all(&all)).await;
        assert!(taken.iter().all(|taken| *taken == Ok(Acquired)), "{number}: {taken:?}");
        lost.done().await;
        for lock in &all {
            assert_eq!(raw.hgetall(lock.name()).await[0].1, "1", "{number}");
        }
        assert!(unlock_all(&all).await.iter().all(Result::is_ok));
        assert_eq!(raw.must(&["DBSIZE"]).await.int(), 0, "{number}");
        let all = many(&ours, 40);
        assert!(try_all(&all).await.iter().all(|taken| *taken == Ok(Acquired)));
        let lost = cut(&proxy, 1, Filter::of("group"));
        for given in patient("given back in spite of that", unlock_all(&all)).await {
            // Where the release ran and nobody heard of it, the next copy finds nothing.
            assert_matches!(given, Ok(()) | Err(UnlockError::Unconfirmed { .. }));
        }
        lost.done().await;
        assert_eq!(raw.must(&["DBSIZE"]).await.int(), 0, "{number}");
    }
}

/// A late copy of a group does nothing: its locks were given up, taken by others, or given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_of_a_group_changes_nothing() {
    let builder = Locks::builder().command_timeout(ms(300));
    let Place { server, proxy, ours, theirs, .. } = Place::start(builder, &["group"]).await;
    load_scripts(&server).await;
    let all = many(&ours, 30);
    let late = proxy.hold_back(1, Filter::of("group"));
    assert!(patient("taken by other copies", try_all(&all)).await.iter().all(|taken| *taken == Ok(Acquired)));
    assert_eq!(late.count(), 1);
    assert!(unlock_all(&all).await.iter().all(Result::is_ok));
    let rivals: Vec<_> = all.iter().map(|lock| theirs.lock(lock.name())).collect();
    assert!(try_all(&rivals).await.iter().all(|taken| *taken == Ok(Acquired)));
    late.release().await;
    let mut raw = server.raw().await;
    for lock in &rivals {
        let fields = raw.hgetall(lock.name()).await;
        assert_eq!(fields.len(), 1, "{fields:?}");
        assert!(fields[0].0.starts_with(theirs.client_id()) && fields[0].1 == "1", "{fields:?}");
    }
}

/// A call that is under way, and that nobody polls, holds up no other.
#[tokio::test]
async fn who_does_not_look_holds_up_nobody() {
    let server = Server::start();
    let locks = server.locks().await;
    let (idle, all) = (locks.lock("idle"), many(&locks, 10));
    let mut taken = Box::pin(idle.try_lock());
    assert!(begin(&mut taken).await);
    for _ in 0..3 {
        let others = patient("the others", try_all(&all)).await;
        assert!(others.iter().all(|taken| *taken == Ok(Acquired)), "{others:?}");
        assert!(unlock_all(&all).await.iter().all(Result::is_ok));
    }
    assert_eq!(taken.await, Ok(Acquired));
}

/// Who goes away before its group is made is not in it.
#[tokio::test]
async fn who_gives_up_before_it_is_sent_is_left_out() {
    let Place { server: _server, proxy, ours, .. } = Place::start(Locks::builder(), &["reentrant/acquire"]).await;
    ours.lock("clock").lock().await.unwrap();
    let [first, second] = [unique("first"), unique("second")];
    let locks = [&first, &second].map(|name| ours.lock(name));
    let (mut alone, mut waits) = (Box::pin(locks[0].try_lock()), Box::pin(locks[1].try_lock()));
    assert!(begin(&mut alone).await && begin(&mut waits).await);
    drop(waits);
    assert_eq!(alone.await, Ok(Acquired));
    assert_eq!(proxy.requests(Filter::of("reentrant/acquire").with(first.as_str())), 1);
    // Nor is there anything to look after: all that is to be done is done by that.
    ours.shutdown(secs(5)).await.unwrap();
    assert_eq!(proxy.requests(Filter::Any.with(second.as_str())), 0);
}

/// A group whose answer is lost holds up nobody for longer than a slow answer takes, a quarter of the command timeout.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_holds_up_no_other() {
    let server = EmbeddedServer::new();
    let builder = Locks::builder().command_timeout(secs(4)).watchdog_lease(secs(60));
    let locks = server.connect_with(builder).unwrap();
    locks.lock("clock").lock().await.unwrap();
    let [lost, waiting, next] = [10, 20, 20].map(|count| many(&locks, count));
    // Of the one that goes alone, and of the others' group.
    server.inject(lockson::Faults::seeded(7).lose_replies(1000));
    let began = tokio::time::Instant::now();
    let (taken, ()) = tokio::join!(try_all(&lost), async {
        sleep(ms(100)).await;
        server.heal();
        for (others, limit) in [(&waiting, ms(1100)), (&next, ms(1200))] {
            let taken = try_all(others).await;
            assert!(taken.iter().all(|taken| *taken == Ok(Acquired)), "{taken:?}");
            assert!(began.elapsed() <= limit, "{:?}", began.elapsed());
        }
    });
    assert!(taken.iter().all(|taken| *taken == Ok(Acquired)), "{taken:?}");
    assert!(began.elapsed() >= secs(4));
}

/// However many wait behind a lost answer: all of them are sent as soon as it is slow, though none has an answer yet.
#[tokio::test(start_paused = true)]
async fn a_silent_server_gathers_nobody() {
    let server = EmbeddedServer::new();
    let builder = Locks::builder().command_timeout(secs(4)).watchdog_lease(secs(60));
    let locks = server.connect_with(builder).unwrap();
    locks.lock("clock").lock().await.unwrap();
    let [lost, waiting] = [10, 300].map(|count| many(&locks, count));
    server.inject(lockson::Faults::seeded(7).lose_replies(1000));
    let (first, others, sent) = tokio::join!(
        try_all(&lost),
        async {
            sleep(ms(100)).await;
            try_all(&waiting).await
        },
        async {
            sleep(ms(1100)).await;
            let sent = server.command(&["DBSIZE"]);
            server.heal();
            sent
        }
    );
    assert_eq!(sent, Ok(lockson::Reply::Int(311)), "the locks that the server was asked for");
    assert!(first.iter().chain(&others).all(|taken| *taken == Ok(Acquired)));
}
