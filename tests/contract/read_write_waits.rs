//! How readers and writers wait for each other. Rules 15, 16 and 18.

use crate::contract::read_write::{named, reader};
use crate::contract::world::*;

/// Awaits that a writer of the name waits, and that readers know.
pub async fn until_a_writer_waits(case: &Case) {
    let key = format!("lockson:writers:{{{}}}", case.name);
    eventually(secs(20), "a writer waits", async || case.ask(&["ZCARD", &key]).await != "0").await;
}

/// Joined futures of one owner, both waiting: the write hold comes first and lets the read hold in.
pub async fn both_sides_wait_in_one_task(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let (read, write) = (reader(&lock, "o"), lock.write().owned_by(&named("o")));
    let other = reader(&lock, "other").guard().await.unwrap();
    let (wrote, read_too, gave_back) = patient("no deadlock", async {
        tokio::join!(write.lock(), read.lock(), async {
            sleep(ms(100)).await;
            other.unlock().await
        })
    })
    .await;
    assert_eq!((wrote, read_too, gave_back), (Ok(()), Ok(()), Ok(())));
    write.unlock().await.unwrap();
    read.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// 6.A.1, also while another writer waits.
pub async fn a_downgrade_wakes_readers_at_once(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let (mine, others) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    let (read, write) = (reader(&mine, "o"), mine.write().owned_by(&named("o")));
    write.lock().await.unwrap();
    read.lock().await.unwrap();
    let reads = [&mine, &others].map(|lock| lock.read().owned_by(&Owner::unique()));
    let waiters = spawn_each(reads, |read| async move { read.guard().await.unwrap() });
    case.until_waiting(&b).await;
    sleep(ms(100)).await;
    let began = Instant::now();
    write.unlock().await.unwrap();
    let guards = patient_all("a reader", waiters).await;
    assert!(began.elapsed() < case.bound(ms(500)), "{:?}", began.elapsed());
    assert_eq!(mine.read().holders().await.unwrap().len(), 3);
    unlock_all(guards).await;
    assert!(read.is_held().await.unwrap() && !others.write().try_lock().await.unwrap().is_acquired());
    read.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// Its process died. Its read hold has a lease of its own, and keeps other writers out.
pub async fn a_write_hold_ends_before_a_longer_read_hold_in_it(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (mine, others) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    let (read, write) = (reader(&mine, "o"), mine.write().owned_by(&named("o")));
    let in_transaction = (read.in_transaction("t1").unwrap(), write.in_transaction("t1").unwrap());
    for (read, write) in [(read, write), in_transaction] {
        let began = Instant::now();
        assert!(write.acquire().lease(secs(1)).await.unwrap().is_acquired());
        let nested = read.acquire().lease(secs(20)).guard().await.unwrap().unwrap();
        assert!(!others.read().try_lock().await.unwrap().is_acquired());
        assert!(others.write().remaining_ttl().await.unwrap().unwrap() <= ms(1001));
        let second = others.read().guard().await.unwrap();
        assert!(began.elapsed() >= secs(1) && began.elapsed() < case.bound(secs(2)), "{:?}", began.elapsed());
        nested.verify().await.unwrap();
        let is_readers_only = case.ask(&["HLEN", &case.name]).await == "3";
        assert!(is_readers_only, "{}", case.ask(&["HGETALL", &case.name]).await);
        assert!(write.unlock().await.is_err() && !others.write().is_locked().await.unwrap());
        second.unlock().await.unwrap();
        let rival = others.write().owned_by(&Owner::unique());
        assert!(!rival.try_lock().await.unwrap().is_acquired());
        nested.unlock().await.unwrap();
        assert!(rival.try_lock().await.unwrap().is_acquired());
        rival.unlock().await.unwrap();
        assert!(case.is_free().await);
    }
}

/// Whatever lengthens its lease: a renewal, a re-entry, the release of one, and what sets it exactly.
pub async fn a_write_hold_lives_on_beside_a_longer_read_hold_in_it(case: Case) {
    let a = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let (mine, others) = (a.read_write_lock(&case.name), case.client().await.read_write_lock(&case.name));
    let (read, write) = (reader(&mine, "o"), mine.write().owned_by(&named("o")));
    let is_in = async || others.read().try_lock().await.unwrap();
    let watched = write.guard().await.unwrap();
    let nested = read.acquire().lease(secs(60)).guard().await.unwrap().unwrap();
    sleep(ms(2500)).await;
    watched.verify().await.unwrap();
    assert!(!is_in().await.is_acquired(), "it was renewed");
    watched.unlock().await.unwrap();
    assert!(is_in().await.is_acquired(), "it was given back");
    others.read().unlock().await.unwrap();
    nested.unlock().await.unwrap();

    let outer = write.acquire().lease(ms(400)).guard().await.unwrap().unwrap();
    let nested = read.acquire().lease(secs(60)).guard().await.unwrap().unwrap();
    let inner = write.acquire().lease(secs(30)).guard().await.unwrap().unwrap();
    sleep(ms(500)).await;
    assert!(!is_in().await.is_acquired(), "it was entered once more");
    inner.unlock().await.unwrap();
    outer.set_lease(secs(30)).await.unwrap();
    sleep(ms(500)).await;
    assert!(!is_in().await.is_acquired(), "it was extended");
    outer.set_lease(ms(300)).await.unwrap();
    sleep(ms(400)).await;
    assert!(is_in().await.is_acquired(), "it was extended to less");
    nested.verify().await.unwrap();
    others.read().unlock().await.unwrap();
    nested.unlock().await.unwrap();
    assert!(outer.unlock().await.is_err() && case.is_free().await);
}

/// 6.E.1, under streams of readers of two clients that never leave the lock free by themselves.
pub async fn a_writer_passes_a_stream_of_readers(case: Case) {
    let clients = [case.client().await, case.client().await];
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let streams = spawn_each(0..8, |number| {
        let read = clients[number % 2].read_write_lock(&case.name).read();
        let (stop, reads) = (stop.clone(), reads.clone());
        async move {
            while !stop.load(Ordering::SeqCst) {
                let guard = read.guard().await.unwrap();
                reads.fetch_add(1, Ordering::SeqCst);
                sleep(ms(100)).await;
                guard.unlock().await.unwrap();
            }
        }
    });
    let third = case.client().await;
    for round in 0..6 {
        // A stranger, and a process that reads itself.
        let client = if round % 2 == 0 { &third } else { &clients[0] };
        let write = client.read_write_lock(&case.name).write();
        sleep(ms(300)).await;
        let (before, began) = (reads.load(Ordering::SeqCst), Instant::now());
        let guard = patient("the writer", write.guard()).await.unwrap();
        // The reads that were open at its arrival, and a second.
        assert!(began.elapsed() < case.bound(ms(1100)), "round {round}: {:?}", began.elapsed());
        guard.unlock().await.unwrap();
        assert!(before > 0);
    }
    let before = reads.load(Ordering::SeqCst);
    sleep(ms(500)).await;
    assert!(reads.load(Ordering::SeqCst) > before, "readers go on");
    stop.store(true, Ordering::SeqCst);
    patient_all("a stream", streams).await;
    assert!(case.is_free().await);
}

/// Rule 18: in the order of their first attempts, whatever order the server tells them in.
pub async fn writers_of_processes_take_turns(case: Case) {
    let clients = [case.sleepy_client().await, case.sleepy_client().await, case.sleepy_client().await];
    let lock = |at: usize| clients[at].read_write_lock(&case.name);
    let waiting = async |count: &str| {
        let key = format!("lockson:writers:{{{}}}", case.name);
        while case.ask(&["ZCOUNT", &key, "0", "+inf"]).await != count {
            sleep(ms(2)).await;
        }
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let first = lock(0).read().guard().await.unwrap();
        let (served, mut writers) = (Arc::new(std::sync::Mutex::new(Vec::new())), Vec::new());
        for (count, at) in ["1", "2", "3"].into_iter().zip(order) {
            let (write, served) = (lock(at).write().owned_by(&Owner::unique()), served.clone());
            writers.push(tokio::spawn(async move {
                let guard = write.guard().await.unwrap();
                served.lock().unwrap().push(at);
                sleep(ms(20)).await;
                guard.unlock().await.unwrap();
            }));
            patient("it waits", waiting(count)).await;
        }
        assert!(!lock(1).write().owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
        first.unlock().await.unwrap();
        patient_all("each is served", writers).await;
        assert_eq!(*served.lock().unwrap(), order);
    }
    // One that died waiting is waited for until its time is over.
    let key = format!("lockson:writers:{{{}}}", case.name);
    let now = case.time().await;
    let (until, came) = ((now + 500).to_string(), (now * 1000 - 10_000_000_001_000_000).to_string());
    case.ask(&["ZADD", &key, &until, "dead", &came, "#dead"]).await;
    assert!(case.is_free().await && !lock(1).write().try_lock().await.unwrap().is_acquired());
    let began = Instant::now();
    let guard = patient("then it is the next one's", lock(2).write().guard()).await.unwrap();
    assert!(began.elapsed() <= case.bound(ms(1100)), "{:?}", began.elapsed());
    guard.unlock().await.unwrap();
    assert_eq!(case.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await, "");
}

pub async fn a_writer_that_gives_up_lets_readers_in(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let (lock, other) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    let guard = reader(&lock, "first").guard().await.unwrap();
    let writer = spawn_with(lock.write().owned_by(&named("w")), |write| async move { write.guard().await });
    until_a_writer_waits(&case).await;
    assert!(!other.read().try_lock().await.unwrap().is_acquired(), "a writer goes first");
    assert!(reader(&lock, "first").try_lock().await.unwrap().is_acquired(), "but not before those inside");
    let waiter = spawn_with(other.read(), |read| async move { read.guard().await });
    case.until_waiting(&b).await;
    sleep(ms(100)).await;
    let began = Instant::now();
    writer.abort();
    let late = patient("the reader", waiter).await.unwrap().unwrap();
    assert!(began.elapsed() < case.bound(ms(1500)), "{:?}", began.elapsed());
    assert_eq!(case.ask(&["EXISTS", &format!("lockson:writers:{{{}}}", case.name)]).await, "0");
    late.unlock().await.unwrap();
    // One that dies without giving up is waited for until its time is over.
    case.ask(&["ZADD", &format!("lockson:writers:{{{}}}", case.name), &(case.time().await + 500).to_string(), "x"])
        .await;
    assert!(!other.read().try_lock().await.unwrap().is_acquired());
    sleep(ms(600)).await;
    assert!(other.read().try_lock().await.unwrap().is_acquired());
    drop(guard);
}

/// More readers than one script looks at: 1,000 of whom each died, or lives.
async fn many_readers(case: &Case, alive: bool) {
    let fill = "redis.call('HSET', KEYS[1], 'mode', 'read') redis.call('PEXPIRE', KEYS[1], 600000) \
        for i = 1, 1000 do local owner = 'java:' .. i redis.call('HSET', KEYS[1], owner, 1) \
          if ARGV[1] == '1' then \
            redis.call('SET', '{' .. KEYS[1] .. '}:' .. owner .. ':rwlock_timeout:1', 1, 'PX', 600000) end end \
        return {1}";
    case.eval(fill, &[&case.name], &[if alive { "1" } else { "0" }]).await;
}

/// The dead are dropped a part at a time: nobody is told that it is busy for that, and nobody sleeps on.
pub async fn very_many_dead_readers_keep_nobody_out(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    let (lock, other) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    many_readers(&case, false).await;
    assert!(!lock.read().is_locked().await.unwrap());
    assert_eq!(lock.read().holders().await.unwrap(), []);
    assert!(lock.write().try_lock().await.unwrap().is_acquired());
    lock.write().unlock().await.unwrap();
    assert!(case.is_free().await);
    let alive = reader(&lock, "alive").guard().await.unwrap();
    many_readers(&case, false).await;
    let writer = tokio::spawn(async move { other.write().owned_by(&named("w")).guard().await });
    case.until_waiting(&b).await;
    alive.unlock().await.unwrap();
    patient("the writer", writer).await.unwrap().unwrap().unlock().await.unwrap();
    assert!(case.is_free().await);
}

pub async fn very_many_readers_are_listed_and_ended(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let own = lock.read().owned_by(&named("own")).guard().await.unwrap();
    many_readers(&case, true).await;
    assert!(!lock.write().owned_by(&named("w")).try_lock().await.unwrap().is_acquired());
    assert!(lock.read().is_locked().await.unwrap());
    // Those of Java have other owners' names.
    assert!(lock.read().holder().await.is_ok());
    assert_eq!(lock.read().holders().await.unwrap().len(), 1001);
    own.unlock().await.unwrap();
    assert!(lock.read().force_unlock().await.unwrap());
    assert!(case.is_free().await);
    assert!(!lock.read().force_unlock().await.unwrap());
}

/// Redisson woke all waiters of all clients: 20 waiters, 20 scripts, one winner (6.E.2).
pub async fn a_write_release_wakes_no_herd(case: Case) {
    let (a, b) = (case.sleepy_client().await, case.sleepy_client().await);
    let guard = a.read_write_lock(&case.name).write().guard().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..20 {
        let write = b.read_write_lock(&case.name).write().owned_by(&Owner::unique());
        waiters.push(begun(async move { write.guard().await.unwrap() }).await);
    }
    case.until_waiting(&b).await;
    sleep(ms(200)).await;
    let before = case.calls();
    guard.unlock().await.unwrap();
    let mut waiters = waiters.into_iter();
    let winner = patient("one winner", waiters.next().unwrap()).await.unwrap();
    sleep(ms(20)).await;
    assert!(waiters.all(|waiter| !waiter.is_finished()));
    if let Some(calls) = case.calls_since(before) {
        assert!(calls <= 3, "{calls} scripts");
    }
    drop(winner);
}
