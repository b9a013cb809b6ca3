//! Multi-locks over several clients and servers, while calls are given up, answers lost and servers killed (rule 20).

use support::prelude::*;
use support::sites::{dropped_at_each_point, give_up_after};

/// Longer than a give-back takes, shorter than any lease.
const GIVE_BACK: Duration = ms(100);

/// One lock a client, in the order given.
fn over(clients: &[&Locks], names: &[&str]) -> MultiLock {
    MultiLock::new(clients.iter().zip(names).map(|(client, name)| Arc::new(client.lock(name)) as Arc<dyn RLock>))
}

fn embedded_keys(server: &EmbeddedServer) -> Vec<String> {
    let found =
        ["a", "b", "c"].into_iter().filter(|key| server.command(&["EXISTS", key]) == Ok(lockson::Reply::Int(1)));
    found.map(str::to_owned).collect()
}

/// Rule 7: at any poll point, while nothing and while each of its members is held by another.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_point_it_leaves_nothing() {
    let servers = [EmbeddedServer::new(), EmbeddedServer::new()];
    let clients = servers.each_ref().map(EmbeddedServer::connect);
    let both = || over(&[&clients[0], &clients[1], &clients[0]], &["c", "b", "a"]);
    let left = || servers.each_ref().map(embedded_keys).concat().concat();
    let mut points = 0;
    for busy in [None, Some("a"), Some("b"), Some("c")] {
        let place = &servers[usize::from(busy == Some("b"))];
        let rivals = || join_all(busy.map(async |name| place.connect().lock(name).guard().await.unwrap()));
        points += dropped_at_each_point(both, rivals, busy.is_none(), left, &format!("busy {busy:?}")).await;
    }
    assert!(points > 40, "only {points} points");
}

/// Once polled, all are given back.
#[tokio::test(start_paused = true)]
async fn a_dropped_unlock_is_carried_out_for_every_member() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let all = over(&[&locks; 3], &["a", "b", "c"]);
    for polls in 1..20 {
        all.lock().await.unwrap();
        let done = give_up_after(polls, all.unlock()).await;
        sleep(GIVE_BACK).await;
        assert_eq!(embedded_keys(&server), [""; 0], "a bare hold, after {polls} polls");
        let guard = all.guard().await.unwrap();
        let _ = give_up_after(polls, guard.unlock()).await;
        sleep(GIVE_BACK).await;
        assert_eq!(embedded_keys(&server), [""; 0], "a guard's, after {polls} polls");
        if done.is_some() {
            return;
        }
    }
    panic!("an unlock of three took more than 20 polls");
}

/// Rules 4 to 6, for each script of a cycle: asked again, counted once, nothing left.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_takes_nothing_twice() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let all = over(&[&locks; 3], &["c", "a", "b"]);
    for lease in [None, Some(secs(8))] {
        for lost_at in 0..12 {
            for lost in 1..3 {
                let request = lease.map_or(Request::default(), |lease| Request::default().lease(lease));
                let calls = server.calls();
                let mut cycle = std::pin::pin!(async {
                    let guard = all.guard_with(request).await.unwrap().unwrap();
                    guard.verify().await.unwrap();
                    guard.unlock().await
                });
                let mut armed = false;
                let ended = std::future::poll_fn(|context| {
                    if !armed && server.calls() >= calls + lost_at {
                        armed = true;
                        server.lose_replies(lost);
                    }
                    cycle.as_mut().poll(context)
                })
                .await;
                server.lose_replies(0);
                match ended {
                    Ok(()) | Err(UnlockError::Unconfirmed { .. }) => {}
                    Err(UnlockError::Several(errors))
                        if errors.iter().all(|error| matches!(error, UnlockError::Unconfirmed { .. })) => {}
                    Err(error) => panic!("{error:?}"),
                }
                sleep(secs(2)).await;
                assert_eq!(embedded_keys(&server), [""; 0], "{lease:?}, {lost} replies from call {lost_at} on");
            }
        }
    }
}

/// Locks of one client and one slot: all by one script, or none, and back by one; each waiter hears of its own.
#[tokio::test(flavor = "multi_thread")]
async fn one_script_takes_all_and_one_gives_them_back() {
    let server = Server::start();
    let (locks, rival) = (server.locks().await, server.locks().await);
    let all = over(&[&locks; 3], &["b", "c", "a"]);
    let keys = || async { server.raw().await.keys("*").await };
    let leases = [None, Some(secs(9))];
    for lease in leases {
        let request = lease.map_or(Request::default(), |lease| Request::default().lease(lease));
        // The server knows the scripts behind that, and the client has done with what was dropped.
        all.guard().await.unwrap().unlock().await.unwrap();
        server.reset_stats();
        let guard = all.guard_with(request.clone()).await.unwrap().unwrap();
        assert_eq!((server.calls("evalsha"), keys().await.len()), (1, 3), "{lease:?}");
        for name in ["a", "b", "c"] {
            let left = server.raw().await.must(&["PTTL", name]).await.int();
            let longest = lease.unwrap_or(secs(30)).as_millis() as i64;
            assert!((longest - 5000..=longest).contains(&left), "{lease:?}: {left}");
        }
        assert_eq!(guard.state(), HoldState::Held);
        guard.unlock().await.unwrap();
        assert_eq!((server.calls("evalsha"), keys().await.len()), (2, 0), "{lease:?}");
        // A bare hold, and one that is dropped.
        assert!(all.acquire_with(request.clone()).await.unwrap().is_acquired());
        all.unlock().await.unwrap();
        assert_eq!((server.calls("evalsha"), keys().await.len()), (4, 0), "{lease:?}");
        drop(all.guard_with(request).await.unwrap());
        eventually(secs(5), "it is given back", || async { keys().await.is_empty() }).await;
        assert_eq!(server.calls("evalsha"), 6, "{lease:?}");
    }
    // One of them is busy: one script says so, and takes none of the others.
    let theirs = rival.lock("b").guard().await.unwrap();
    server.reset_stats();
    assert!(!all.try_lock().await.unwrap().is_acquired());
    assert_eq!((server.calls("evalsha"), keys().await.len()), (1, 1));
    theirs.unlock().await.unwrap();
    // What one owner holds already is entered once more, lock by lock.
    let outer = locks.lock("a").guard().await.unwrap();
    let guard = all.guard().await.unwrap();
    assert_eq!(server.raw().await.hgetall("a").await.len(), 1);
    guard.unlock().await.unwrap();
    assert_eq!(keys().await, ["a"]);
    outer.unlock().await.unwrap();
    // Whoever waits for one of them hears of it.
    let patient_rival = Builder::default().wait_cap(secs(60)).connect(&server.url()).await.unwrap();
    for name in ["a", "b", "c"] {
        let guard = all.guard().await.unwrap();
        let lock = patient_rival.lock(name);
        let waiter = tokio::spawn(async move { lock.guard().await });
        eventually(secs(10), "it listens", || async {
            server.raw().await.must(&["PUBSUB", "NUMSUB", &format!("redisson_lock__channel:{{{name}}}")]).await.list()
                [1]
            .int()
                == 1
        })
        .await;
        guard.unlock().await.unwrap();
        patient(name, waiter).await.unwrap().unwrap().unlock().await.unwrap();
    }
}

/// Two clients of one server: their locks of one name are the same lock, and no owner waits for itself.
#[tokio::test(flavor = "multi_thread")]
async fn one_name_of_two_clients_of_one_server_is_one_lock() {
    let server = Server::start();
    let connect = || async { server.locks().await };
    let (a, b, c) = (connect().await, connect().await, connect().await);
    let both = over(&[&a, &b, &a], &["x", "x", "y"]);
    let again = over(&[&b, &a], &["x", "x"]);
    for lock in [&both, &again] {
        let limit = Request::default().wait(secs(20));
        let guard = lock.guard_with(limit.clone()).await.unwrap().expect("it does not wait for itself");
        assert_eq!(server.raw().await.hgetall("x").await.len(), 1);
        assert!(!c.lock("x").try_lock().await.unwrap().is_acquired());
        guard.verify().await.unwrap();
        guard.unlock().await.unwrap();
        // Bare holds too are given back by the client that took them.
        assert!(lock.acquire_with(limit).await.unwrap().is_acquired());
        assert!(lock.is_held().await.unwrap());
        lock.unlock().await.unwrap();
        assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
        assert!(!lock.is_held().await.unwrap());
        assert!(!server.raw().await.exists("x").await);
    }
    // The id is the server's, with a lease of its own; and only such locks ask for one.
    let mut raw = server.raw().await;
    assert_eq!(raw.keys("lockson:server_id:*").await, ["lockson:server_id:{x}"]);
    let ttl = raw.pttl("lockson:server_id:{x}").await;
    assert!((86_000_000..=86_400_000).contains(&ttl), "{ttl}");
    // Of two owners, or as reader and writer, they can't be.
    let other = b.lock("x").owned_by(&Owner::unique());
    let sides = MultiLock::new([
        Arc::new(a.read_write_lock("x").write()) as Arc<dyn RLock>,
        Arc::new(b.read_write_lock("x").read()),
    ]);
    for refused in [MultiLock::new([Arc::new(a.lock("x")) as Arc<dyn RLock>, Arc::new(other)]), sides] {
        assert!(matches!(refused.try_lock().await, Err(LockError::Members(_))), "{refused:?}");
    }
    raw.must(&["DEL", "lockson:server_id:{x}"]).await;
    raw.must(&["HSET", "lockson:server_id:{x}", "not", "an id"]).await;
    assert!(matches!(both.lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
}

/// One name on several servers: taken in the order of the servers' ids, by everybody.
#[tokio::test(flavor = "multi_thread")]
async fn one_name_on_two_servers_is_taken_in_one_order() {
    let servers = [Server::start(), Server::start()];
    let clients = join_all(servers.iter().chain(&servers).map(Server::locks)).await;
    let [a, b, c, d] = &clients[..] else { unreachable!() };
    let (one, other) = (over(&[a, b], &["x", "x"]), over(&[d, c], &["x", "x"]));
    let guard = patient("both are free", one.guard()).await.unwrap();
    assert!(!other.try_lock().await.unwrap().is_acquired());
    guard.unlock().await.unwrap();
    let id = async |server: &Server| server.raw().await.get("lockson:server_id:{x}").await;
    let ids = [id(&servers[0]).await, id(&servers[1]).await];
    assert!(ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1]);
    // While the second is busy, both hold or wait for the first.
    let (first, second) = if ids[0] < ids[1] { (0, 1) } else { (1, 0) };
    for lock in [&one, &other] {
        let rival = clients[second].lock("x").owned_by(&Owner::unique()).guard().await.unwrap();
        let waiter = spawn_with(lock.clone(), |lock| async move { lock.guard().await });
        let taken = || async { servers[first].raw().await.exists("x").await };
        eventually(secs(20), "the first server's is taken", taken).await;
        assert!(!waiter.is_finished());
        rival.unlock().await.unwrap();
        patient("the second is free", waiter).await.unwrap().unwrap().unlock().await.unwrap();
    }
    // And they take turns for as long as they like.
    let turns = |lock: MultiLock| async move {
        for _ in 0..100 {
            lock.guard().await.unwrap().unlock().await.unwrap();
        }
    };
    let both = async { tokio::join!(tokio::spawn(turns(one)), tokio::spawn(turns(other))) };
    let (one, other) = tokio::time::timeout(secs(60), both).await.expect("nobody waits for ever");
    one.and(other).unwrap();
}

/// "a killed server leaves nothing held elsewhere"
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_nothing_held_elsewhere() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let builder = Builder::default().command_timeout(ms(300)).watchdog_lease(secs(20)).outage_limit(secs(2));
    let connect = async |server: &Server| builder.clone().connect(&server.url()).await.unwrap();
    let clients = join_all(servers.iter().map(connect)).await;
    let all = over(&[&clients[0], &clients[1], &clients[2]], &["a", "b", "c"]);
    let nothing_held = async |but: usize| {
        for (at, server) in servers.iter().enumerate().filter(|(at, _)| *at != but) {
            let free = || async { server.raw().await.keys("*").await.is_empty() };
            // Long before the lease ends.
            eventually(secs(8), &format!("server {at} has no key, without {but}"), free).await;
        }
    };
    for (dead, victim) in servers.iter().enumerate() {
        // While it is held: the others are given back, and each error is told.
        let guard = all.guard().await.unwrap();
        victim.kill();
        let error = patient("the unlock ends", guard.unlock()).await.unwrap_err();
        assert!(matches!(error, UnlockError::Query(QueryError::Unreachable { .. })), "{error:?}");
        nothing_held(dead).await;
        // While it is waited for.
        let error = patient("the outage limit comes", all.lock()).await.unwrap_err();
        assert!(matches!(error, LockError::Query(QueryError::Unreachable { .. })), "{error:?}");
        nothing_held(dead).await;
        let busy = patient("it says so", all.acquire_with(Request::default().wait(ms(700)))).await;
        assert_matches!(busy, Err(LockError::Query(QueryError::Unreachable { .. })), "it is never busy");
        nothing_held(dead).await;
        victim.restart();
        patient("all are there again", async { while all.guard().await.is_err() {} }).await;
    }
}
