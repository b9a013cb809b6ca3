//! Red locks on five servers: what they keep while a minority fails, and refuse without a majority (PROTOCOL rule 21).

use lockson::kind::NonReentrant;
use support::fleet::{connected, red, votes, Fleet};
use support::prelude::*;
use support::sites::dropped_at_each_point;

/// Rule 21: the lease, less 1 % and the drift, as most of the servers have it.
#[tokio::test(start_paused = true)]
async fn the_majoritys_validity_counts() {
    let fleet = Fleet::start();
    let lock = red(&fleet.clients());
    for drift in [2, 500] {
        let guard = lock.clone().drift(ms(drift)).acquire().lease(secs(30)).guard().await.unwrap().unwrap();
        assert_eq!(guard.remaining(), ms(29_700 - drift));
        guard.unlock().await.unwrap();
    }
    let guard = lock.acquire().lease(secs(20)).guard().await.unwrap().unwrap();
    // The longer lease reaches three of five: that is enough. Two are not.
    fleet.servers[..2].iter().for_each(|server| server.stop());
    guard.set_lease(secs(40)).await.unwrap();
    assert_eq!(guard.remaining(), ms(39_598));
    sleep(secs(10)).await;
    fleet.servers[2].stop();
    guard.set_lease(secs(50)).await.unwrap_err();
    guard.verify().await.unwrap_err();
    let left = guard.remaining();
    assert!(left > secs(15) && left <= ms(29_598), "the third longest is the old one: {left:?}");
    sleep(left - ms(1)).await;
    assert!(guard.is_valid());
    sleep(ms(2)).await;
    assert_eq!((guard.state(), guard.remaining()), (HoldState::Lost, Duration::ZERO));
    fleet.servers.iter().for_each(|server| server.start());
    drop(guard);
    sleep(secs(60)).await;
    assert_eq!(fleet.held(), "00000");
}

/// Renewed by each server's own client; two of five may be lost, the third ends it at once.
#[tokio::test(start_paused = true)]
async fn a_hold_outlives_two_and_not_three() {
    let fleet = Fleet::start();
    let guard = red(&fleet.clients()).guard().await.unwrap();
    assert_eq!(fleet.held(), "11111");
    let lost = tokio::spawn(guard.lost());
    for server in &fleet.servers[..2] {
        server.wipe();
        sleep(secs(20)).await;
        assert_eq!(guard.state(), HoldState::Held);
        guard.verify().await.unwrap();
    }
    assert_eq!(fleet.held(), "00111");
    fleet.servers[2].stop();
    sleep(secs(20)).await;
    assert_eq!(guard.state(), HoldState::Uncertain);
    assert!(!lost.is_finished());
    sleep(secs(11)).await;
    assert_eq!(guard.state(), HoldState::Lost);
    patient("it is told", lost).await.unwrap();
    fleet.servers[2].start();
    assert_matches!(guard.unlock().await.unwrap_err(), UnlockError::NotHeld { .. });
    // What is left of it is given back all the same.
    sleep(secs(3)).await;
    assert_eq!(fleet.held(), "00000");
}

#[tokio::test(start_paused = true)]
async fn busy_is_not_unreachable() {
    let fleet = Fleet::start();
    let (ours, theirs) = (red(&fleet.clients()), red(&fleet.clients()));
    let guard = theirs.guard().await.unwrap();
    // Most say that it is busy, whatever two others say.
    fleet.servers[3..].iter().for_each(|server| server.stop());
    assert_eq!(ours.try_lock().await, Ok(Busy));
    assert!(ours.acquire().wait(secs(1)).guard().await.unwrap().is_none());
    assert_eq!(ours.is_held().await, Ok(false));
    assert_eq!(theirs.is_held().await, Ok(true));
    // Most say nothing.
    fleet.servers[2].stop();
    for failed in [ours.try_lock().await, ours.acquire().wait(secs(1)).await, ours.lock().await.map(|()| Acquired)] {
        assert_matches!(failed, Err(error @ LockError::NoMajority { votes: 0, needed: 3, .. }) if error.may_hold());
    }
    assert!(ours.is_held().await.is_err());
    // Who waits behind another of its process asks nobody itself.
    let first = spawn_with(ours.clone(), |ours| async move { ours.guard().await.map(drop) });
    sleep(ms(100)).await;
    assert_matches!(ours.acquire().wait(secs(1)).await, Err(LockError::NoMajority { votes: 0, needed: 3, .. }));
    first.abort();
    fleet.servers.iter().for_each(|server| server.start());
    drop(guard);
    patient("all vote again", ours.guard()).await.unwrap().unlock().await.unwrap();
}

/// Two of each may win votes: then nobody has the lock, and nobody keeps what he won.
#[tokio::test(start_paused = true)]
async fn losers_give_their_votes_back() {
    let fleet = Fleet::start();
    let ours = red(&fleet.clients());
    let theirs = fleet.clients();
    let rivals = join_all(theirs[..3].iter().map(|locks| async { locks.lock("red").guard().await })).await;
    assert!(rivals.iter().all(Result::is_ok));
    let before = fleet.held();
    assert_eq!(before, "11100");
    for verb in 0..2 {
        match verb {
            0 => assert_eq!(ours.try_lock().await, Ok(Busy)),
            _ => assert_eq!(ours.acquire().wait(ms(700)).await, Ok(Busy)),
        }
        sleep(ms(100)).await;
        assert_eq!(fleet.held(), before);
    }
    // Where no answer came, too.
    fleet.servers[3].lose_replies(1);
    assert_eq!(ours.try_lock().await, Ok(Busy));
    fleet.servers[4].stop();
    assert_eq!(ours.try_lock().await, Ok(Busy));
    fleet.servers[4].start();
    sleep(secs(3)).await;
    assert_eq!(fleet.held(), before);
}

/// Rule 7, at any poll point, with nobody and with a rival in the way.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_point_it_leaves_nothing() {
    let fleet = Fleet::start();
    let (clients, theirs) = (fleet.clients(), fleet.clients());
    let left = || fleet.held().replace("00000", "");
    let mut points = 0;
    for many in [0, 2, 3] {
        let rivals = || join_all(theirs[..many].iter().map(async |locks| locks.lock("red").guard().await.unwrap()));
        points += dropped_at_each_point(|| red(&clients), rivals, many < 3, left, &format!("{many} rivals")).await;
    }
    assert!(points > 15, "only {points} points");
}

/// Rule 21: what a server may have forgotten it does not vote on.
#[tokio::test(start_paused = true)]
async fn a_server_that_lost_its_data_does_not_vote_for_a_lease() {
    let (fleet, ours, theirs) = Fleet::acquainted().await;
    let guard = ours.acquire().lease(secs(60)).guard().await.unwrap().unwrap();
    fleet.servers[..3].iter().for_each(|server| server.wipe());
    // The hold is on two only, and does not know; nobody else may get three.
    let refused = theirs.try_lock().await;
    assert_matches!(refused, Err(LockError::NoMajority { votes: 0, detail, .. }) if detail.contains("3 not voting"));
    assert!(guard.is_valid());
    let next = theirs.acquire().wait(secs(90)).guard().await.unwrap().expect("the lease ends first");
    assert!(!guard.is_valid());
    next.unlock().await.unwrap();
    drop(guard);
    // A client that sees the servers for the first time has nothing but their age.
    fleet.servers.iter().for_each(|server| server.wipe());
    let strict = RedLock::new(fleet.clients().iter().map(|locks| locks.lock("red")));
    assert!(matches!(strict.try_lock().await, Err(LockError::NoMajority { .. })));
    sleep(secs(58)).await;
    assert!(matches!(strict.try_lock().await, Err(LockError::NoMajority { .. })));
    sleep(secs(2)).await;
    assert_eq!(strict.try_lock().await, Ok(Acquired));
    strict.unlock().await.unwrap();
    // Servers that lose nothing vote at once.
    fleet.servers.iter().for_each(|server| server.wipe());
    assert_eq!(strict.durable().try_lock().await, Ok(Acquired));
}

/// One server's clock is set ahead while two are away: two holders, both sure of it, up to the first's next renewal.
#[tokio::test(start_paused = true)]
async fn a_clock_set_ahead_gives_two_holders() {
    for watched in [false, true] {
        let (fleet, ours, theirs) = Fleet::acquainted().await;
        fleet.servers[3..].iter().for_each(|server| server.stop());
        let request = ours.acquire().wait(secs(20));
        let first = if watched { request } else { request.lease(secs(30)) }.guard().await.unwrap().unwrap();
        fleet.servers[3..].iter().for_each(|server| server.start());
        assert_eq!(theirs.try_lock().await, Ok(Busy));
        fleet.servers[2].set_clock_ahead(secs(40));
        let second = theirs.acquire().wait(secs(2)).guard().await.unwrap().expect("three of five vote for it");
        assert!(first.is_valid() && second.is_valid(), "this is what is lost");
        sleep(secs(15)).await;
        assert_eq!(first.is_valid(), !watched);
        assert!(second.is_valid());
    }
}

/// Over non-reentrant locks too: what is held already is said at once.
#[tokio::test(start_paused = true)]
async fn a_red_mutex_is_not_entered_again() {
    let fleet = Fleet::start();
    let lock: RedLock<NonReentrant> = RedLock::new(fleet.clients().iter().map(|locks| locks.mutex("red"))).fresh();
    let guard = lock.guard().await.unwrap();
    for again in [lock.try_lock().await, lock.lock().await.map(|()| Acquired)] {
        assert!(matches!(again, Err(LockError::AlreadyHeld { .. })), "{again:?}");
    }
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(fleet.held(), "00000");
}

/// Over plain locks: the value on each server is a token of that vote, and Redlock in other languages can vote too.
#[tokio::test(start_paused = true)]
async fn plain_locks_vote_too() {
    let fleet = Fleet::start();
    let of = |clients: Vec<Locks>| RedLock::new(clients.iter().map(|locks| locks.plain_lock("red"))).fresh();
    let (ours, theirs) = (of(fleet.clients()), of(fleet.clients()));
    let guard = ours.guard().await.unwrap();
    assert!(matches!(ours.try_lock().await, Err(LockError::AlreadyHeld { .. })));
    assert_eq!(theirs.try_lock().await, Ok(Busy));
    fleet.servers[..2].iter().for_each(|server| server.wipe());
    sleep(secs(45)).await;
    guard.verify().await.unwrap();
    assert_eq!(fleet.held(), "00111");
    // When they may vote again, by tokens of their own.
    sleep(secs(45)).await;
    assert_eq!(fleet.held(), "11111");
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(fleet.held(), "00000");
    fleet.servers.iter().for_each(|server| drop(server.command(&["SET", "red", "a stranger's", "PX", "5000"])));
    assert_eq!(ours.try_lock().await, Ok(Busy));
    sleep(secs(61)).await;
    ours.lock().await.unwrap();
    assert_eq!(ours.is_held().await, Ok(true));
    ours.unlock().await.unwrap();
}

/// One after the other, of many clients.
#[tokio::test(start_paused = true)]
async fn candidates_take_turns() {
    let fleet = Fleet::start();
    let clients = [fleet.clients(), fleet.clients(), fleet.clients()];
    let inside = Arc::new(AtomicU32::new(0));
    let tasks = spawn_each(0..9, |task| {
        let (lock, inside) = (red(&clients[task % 3]), inside.clone());
        async move {
            for _ in 0..10 {
                let guard = lock.guard().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                sleep(ms(1)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        }
    });
    patient_all("everybody gets his turns", tasks).await;
    assert_eq!(fleet.held(), "00000");
}

/// How servers fail, and how that ends.
type Failure = (&'static str, fn(&Server), fn(&Server));
const FAILURES: [Failure; 3] = [
    ("killed", Server::kill, Server::restart),
    ("frozen", Server::freeze, Server::thaw),
    (EMPTIED, Server::restart, |_| {}),
];
const EMPTIED: &str = "emptied";

const LEASE: Duration = secs(3);

async fn valid_for(guard: &Guard, span: Duration, what: &str) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        assert!(guard.is_valid(), "{what}: {:?}", guard.state());
        sleep(ms(20)).await;
    }
}

fn builder() -> Builder {
    Locks::builder().command_timeout(ms(800)).watchdog_lease(LEASE).outage_limit(secs(30))
}

/// One case: two fail, it is held and renewed; a third one does, and it is lost and refused.
async fn two_and_then_three(
    (servers, clients): (&[Server], &[Locks]),
    ours: &RedLock<Reentrant>,
    theirs: &RedLock<Reentrant>,
    (fails, happens_to, ends_at): Failure,
    rng: &mut Rng,
) {
    let mut order = [0, 1, 2, 3, 4];
    for at in (1..5).rev() {
        order.swap(at, rng.u64(..at as u64 + 1) as usize);
    }
    let what = format!("{fails} {:?}, then {}", &order[..2], order[2]);
    // The rival too has seen the servers before.
    patient("it is free", theirs.guard()).await.unwrap().unlock().await.unwrap();
    let all = || async {
        let guard = ours.guard().await.unwrap();
        // It may have no more than three votes: the rival's release was on its way to the others, or they rest. The
        // votes of these are given back behind it: seen once they may be on their way, seen twice they stay.
        let mut stay = true;
        for _ in 0..2 {
            sleep(ms(150)).await;
            stay &= votes(servers, clients).await == servers.len();
        }
        (guard, stay)
    };
    // A server that was slow to vote must not be one that is counted on.
    let guard = patient("all five vote", async {
        loop {
            match all().await {
                (guard, true) => return guard,
                (guard, false) => guard.unlock().await.unwrap(),
            }
        }
    })
    .await;
    order[..2].iter().for_each(|at| happens_to(&servers[*at]));
    valid_for(&guard, LEASE + ms(1000), &what).await;
    patient("most still have it", guard.verify()).await.unwrap();
    assert_eq!(patient("they say so", theirs.acquire().wait(secs(2)).into_future()).await, Ok(Busy), "{what}");
    patient("most give it back", guard.unlock()).await.unwrap();
    let guard = patient("three vote", theirs.guard()).await.unwrap();
    // Those that were emptied may have voted again.
    let from = if fails == EMPTIED { 0 } else { 2 };
    order[from..3].iter().for_each(|at| happens_to(&servers[*at]));
    patient("two are not enough", guard.lost()).await;
    let refused = patient("nobody gets it", ours.acquire().wait(secs(1)).guard()).await;
    assert!(matches!(refused, Err(LockError::NoMajority { .. })), "{what}: {refused:?}");
    drop(guard);
    order[..3].iter().for_each(|at| ends_at(&servers[*at]));
}

/// "held and renewed while any 2 are killed, stopped or restarted empty; refused when 3 are"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_while_any_two_fail_and_refused_when_three_do() {
    let servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let new = |clients: &[Locks]| red(clients).max_lease(LEASE).server_timeout(secs(1));
    let clients = connected(&servers, builder()).await;
    let (ours, theirs) = (new(&clients), new(&connected(&servers, builder()).await));
    let asked = soak(30);
    for done in 0..asked {
        two_and_then_three((&servers, &clients), &ours, &theirs, FAILURES[done % 3], &mut rng).await;
    }
    report("two and then three of five servers fail", asked, asked, 0, seed);
}
