//! Votes that a red lock's hold lost, or never had, and takes again; and when it must not (PROTOCOL rule 21).

use lockson::Reply;
use support::fleet::{acquaint, connected, red, votes, Fleet};
use support::prelude::*;
use tokio::time::Instant;

/// Both longest and rest, by default.
const LONGEST: Duration = secs(60);

/// One server after the other loses its data; there are never fewer than four.
#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_rolling_restart() {
    let fleet = Fleet::start();
    let (clients, theirs) = (fleet.clients(), red(&fleet.clients()));
    let guard = red(&clients).guard().await.unwrap();
    for round in 0..3 {
        for (at, server) in fleet.servers.iter().enumerate() {
            server.stop();
            server.wipe();
            sleep(secs(5 + 20 * round)).await;
            server.start();
            let mut without = "11111".to_owned();
            without.replace_range(at..=at, "0");
            // It does not vote for a minute, and then it does.
            sleep(secs(40)).await;
            assert_eq!(fleet.held(), without, "round {round}");
            sleep(secs(60)).await;
            assert_eq!((guard.state(), &*fleet.held()), (HoldState::Held, "11111"), "round {round}");
            assert_eq!(theirs.try_lock().await, Ok(Busy));
        }
    }
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(fleet.held(), "00000");
    assert!(clients.iter().all(|locks| locks.health().holds == 0));
    theirs.guard().await.unwrap().unlock().await.unwrap();
}

/// Votes that it never had are taken too; in a hold within a hold each takes its own.
#[tokio::test(start_paused = true)]
async fn a_vote_that_was_never_won_is_asked_for() {
    let fleet = Fleet::start();
    let lock = red(&fleet.clients());
    acquaint(&[&lock]).await;
    sleep(secs(60)).await;
    fleet.servers[3..].iter().for_each(|server| server.stop());
    let outer = lock.guard().await.unwrap();
    let inner = lock.guard().await.unwrap();
    assert_eq!(fleet.held(), "11100");
    fleet.servers[3..].iter().for_each(|server| server.start());
    sleep(secs(25)).await;
    assert_eq!(fleet.held(), "11111");
    outer.set_lease(secs(40)).await.unwrap();
    outer.unlock().await.unwrap();
    // The inner one has all five of its own.
    fleet.servers[..2].iter().for_each(|server| server.stop());
    sleep(secs(50)).await;
    assert_eq!(inner.state(), HoldState::Held);
    inner.unlock().await.unwrap();
    fleet.servers[..2].iter().for_each(|server| server.start());
    sleep(secs(40)).await;
    assert_eq!(fleet.held(), "00000");
}

/// Whoever has the guard alone has the clients of all servers, of those too that were away when it was taken.
#[tokio::test(start_paused = true)]
async fn a_guard_keeps_the_clients_of_servers_that_were_away() {
    let fleet = Fleet::start();
    let lock = red(&fleet.clients());
    acquaint(&[&lock]).await;
    sleep(secs(60)).await;
    fleet.servers[3..].iter().for_each(|server| server.stop());
    let guard = lock.guard().await.unwrap();
    drop(lock);
    sleep(secs(5)).await;
    fleet.servers[3..].iter().for_each(|server| server.start());
    sleep(secs(25)).await;
    assert_eq!(fleet.held(), "11111");
    guard.unlock().await.unwrap();
}

/// That the servers were said to be fresh when the lock was taken says nothing of one that is seen later: it rests.
#[tokio::test(start_paused = true)]
async fn a_vote_of_a_server_that_is_first_seen_later_does_not_count_at_once() {
    let fleet = Fleet::start();
    let lock = red(&fleet.clients());
    let guard = with_three_votes(&fleet, &lock).await;
    fleet.servers[3..].iter().for_each(|server| server.start());
    sleep(secs(40)).await;
    assert_eq!(fleet.held(), "11100");
    sleep(LONGEST).await;
    assert_eq!(fleet.held(), "11111");
    guard.unlock().await.unwrap();
}

/// What is taken again ends with the hold: by its limit, by its guard, and not before somebody relies on it.
#[tokio::test(start_paused = true)]
async fn what_is_taken_again_ends_with_the_hold() {
    let fleet = Fleet::start();
    let lock = red(&fleet.clients());
    let limited = lock.acquire().max_hold(secs(150)).guard().await.unwrap().unwrap();
    fleet.servers[0].wipe();
    sleep(secs(100)).await;
    assert_eq!(fleet.held(), "11111");
    sleep(secs(50) + secs(31)).await;
    assert_eq!((limited.state(), &*fleet.held()), (HoldState::Lost, "00000"));
    drop(limited);
    for by_drop in [false, true] {
        let guard = lock.guard().await.unwrap();
        fleet.servers[1].wipe();
        sleep(secs(100)).await;
        assert_eq!(fleet.held(), "11111");
        match by_drop {
            true => drop(guard),
            false => guard.unlock().await.unwrap(),
        }
        sleep(ms(100)).await;
        assert_eq!(fleet.held(), "00000");
    }
    // A lease of its own is not renewed. A bare hold is kept by its clients.
    let fixed = lock.acquire().lease(secs(60)).guard().await.unwrap().unwrap();
    let bare = red(&fleet.clients());
    fleet.servers[2].wipe();
    sleep(secs(58)).await;
    assert_eq!(fleet.held(), "11011");
    drop(fixed);
    sleep(secs(10)).await;
    bare.lock().await.unwrap();
    fleet.servers[2].wipe();
    sleep(secs(100)).await;
    assert_eq!(fleet.held(), "11111");
    bare.unlock().await.unwrap();
    assert_eq!(fleet.held(), "00000");
}

/// Never over another's.
#[tokio::test(start_paused = true)]
async fn anothers_key_stays_anothers() {
    let fleet = Fleet::start();
    let guard = red(&fleet.clients()).guard().await.unwrap();
    let stranger = fleet.clients();
    fleet.servers[4].wipe();
    let theirs = stranger[4].lock("red").guard().await.unwrap();
    sleep(secs(300)).await;
    theirs.verify().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    theirs.unlock().await.unwrap();
    sleep(secs(20)).await;
    assert!(!stranger[4].lock("red").try_lock().await.unwrap().is_acquired());
    guard.unlock().await.unwrap();
    assert_eq!(fleet.held(), "00000");
}

/// Locks that wait so long for each server's answer. All servers have voted for them, and may by now vote again.
async fn patient_locks<const N: usize>(timeouts: [Duration; N]) -> (Fleet, [RedLock<Reentrant>; N]) {
    let fleet = Fleet::start();
    let builder = || Builder::default().outage_limit(secs(60));
    let locks = timeouts.map(|timeout| red(&fleet.clients_of(builder())).server_timeout(timeout));
    acquaint(&locks.each_ref()).await;
    sleep(secs(60)).await;
    (fleet, locks)
}

/// Taken from 1, 2 and 3, while 4 and 5 are stopped.
async fn with_three_votes(fleet: &Fleet, lock: &RedLock<Reentrant>) -> Guard {
    fleet.servers[3..].iter().for_each(|server| server.stop());
    let lock = lock.clone();
    // By an owner of its own.
    tokio::spawn(async move { lock.guard().await.unwrap() }).await.unwrap()
}

/// The reason why a server that lost its data must not vote again too early. The second one asks all: 4 and 5 vote for
/// it, 1 and 2 are busy, 3 is away. Then 4 forgets its vote. If the first one took that, it would have 1, 2 and 4; and
/// the second one 3, when it is back and the first one's lease there is over, 5, and 4, as far as it knows.
#[tokio::test(start_paused = true)]
async fn a_vote_taken_again_too_early_would_give_two_holders() {
    let (fleet, [ours, theirs]) = patient_locks([ms(50), secs(35)]).await;
    let first = with_three_votes(&fleet, &ours).await;
    let began = Instant::now();
    fleet.servers[2].stop();
    fleet.servers[3..].iter().for_each(|server| server.start());
    let second = tokio::spawn(async move { theirs.acquire().wait(secs(50)).lease(secs(60)).guard().await });
    // Before the first one's first renewal.
    sleep(secs(5)).await;
    assert_eq!(&fleet.held()[3..], "11", "two vote for the second one");
    fleet.servers[3].wipe();
    sleep(secs(24)).await;
    assert!(first.is_valid());
    // The first one's lease there ends.
    sleep(secs(2)).await;
    fleet.servers[2].start();
    let second = second.await.unwrap().unwrap().expect("3, 5 and, as it believes, 4");
    assert!(second.is_valid());
    assert!(!first.is_valid(), "two holders");
    assert!(began.elapsed() < secs(32), "in its first round");
}

/// Without a majority of its own it is lost, even if nobody looked: no vote that was asked for before revives it.
#[tokio::test(start_paused = true)]
async fn a_vote_that_comes_too_late_revives_nothing() {
    let (fleet, [ours]) = patient_locks([secs(25)]).await;
    // Taken after 25 s, renewed after 20 and then each 10.
    let first = with_three_votes(&fleet, &ours).await;
    fleet.servers[2].stop();
    sleep(secs(26)).await;
    // 4 and 5 were asked 11 s ago.
    fleet.servers[3..].iter().for_each(|server| server.start());
    sleep(secs(3)).await;
    assert!(!first.is_valid());
    assert_eq!(&fleet.held()[3..], "00");
}

/// Nor one that would be asked for after that: another has had the lock in between.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_asks_for_nothing() {
    let (fleet, [ours, theirs]) = patient_locks([ms(50), ms(50)]).await;
    let first = with_three_votes(&fleet, &ours).await;
    fleet.servers[2].stop();
    sleep(secs(31)).await;
    fleet.servers[2..].iter().for_each(|server| server.start());
    theirs.guard().await.unwrap().unlock().await.unwrap();
    sleep(secs(5)).await;
    let calls = || fleet.servers[2..].iter().map(|server| server.calls()).collect::<Vec<_>>();
    let before = calls();
    sleep(secs(30)).await;
    assert!(!first.is_valid());
    assert_eq!(calls(), before);
    assert_eq!(fleet.held(), "00000", "what is left is given back, although its guard lives");
}

/// Guards that are only kept, that are polled, and bare holds; with a minority that goes on answering.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_gives_the_rest_back_at_once() {
    for bare in [false, true] {
        for lease in [None, Some(secs(20))] {
            let (fleet, [ours, theirs]) = patient_locks([ms(300), ms(300)]).await;
            let request = || lease.map_or(ours.acquire(), |lease| ours.acquire().lease(lease));
            let kept = match bare {
                true => request().await.map(|held| held.is_acquired().then_some(None)),
                false => request().guard().await.map(|guard| guard.map(Some)),
            };
            let kept = kept.unwrap().expect("nobody has it");
            // Three forget it, and are asked again before they may vote: their server says that it is gone.
            fleet.servers[..3].iter().for_each(|server| server.wipe());
            let over = secs(31);
            sleep(over).await;
            assert_eq!(fleet.held(), "00000", "bare: {bare}, lease: {lease:?}");
            assert_eq!(ours.is_held().await, Ok(false));
            // Another has it as soon as three may vote; nothing is in its way.
            let next = theirs.acquire().wait(LONGEST + secs(1)).guard().await.unwrap().expect("three may vote by then");
            assert!(kept.is_none_or(|guard| !guard.is_valid()));
            assert!(matches!(ours.unlock().await, Err(UnlockError::NotHeld { .. })));
            next.verify().await.unwrap();
        }
    }
}

/// What a lost outer hold held is gone: its owner is told once when it would enter again, as with every lock.
#[tokio::test(start_paused = true)]
async fn who_would_enter_a_lost_hold_is_told() {
    let (fleet, [ours]) = patient_locks([ms(300)]).await;
    let outer = ours.guard().await.unwrap();
    fleet.servers[..3].iter().for_each(|server| drop(server.command(&["DEL", "red"])));
    assert!(outer.verify().await.is_err());
    sleep(secs(1)).await;
    assert_eq!(fleet.held(), "00000");
    assert!(matches!(ours.try_lock().await, Err(LockError::Lost { .. })));
    let next = ours.guard().await.unwrap();
    assert!(matches!(outer.unlock().await, Err(UnlockError::NotHeld { .. })));
    next.verify().await.unwrap();
    drop(next);
    sleep(secs(1)).await;
    assert_eq!(fleet.held(), "00000");
}

/// Bare holds within each other, each with votes of its own.
#[tokio::test(start_paused = true)]
async fn bare_holds_are_given_back_one_by_one() {
    let fleet = Fleet::start();
    let clients = fleet.clients();
    let ours = red(&clients);
    ours.lock().await.unwrap();
    let inner = ours.guard().await.unwrap();
    ours.lock().await.unwrap();
    let count = || fleet.servers[0].command(&["HVALS", "red"]).unwrap();
    assert_eq!(count(), Reply::List(vec![Reply::Text("3".to_owned())]));
    for left in ["2", "1"] {
        ours.unlock().await.unwrap();
        assert_eq!(count(), Reply::List(vec![Reply::Text(left.to_owned())]));
    }
    assert!(matches!(ours.unlock().await, Err(UnlockError::NotHeld { .. })));
    inner.verify().await.unwrap();
    inner.unlock().await.unwrap();
    assert_eq!(fleet.held(), "00000");
    // The clients are not kept open by what nobody gives back.
    ours.lock().await.unwrap();
    drop((ours, clients));
    sleep(secs(31)).await;
    assert_eq!(fleet.held(), "00000");
}

/// Given back while a vote is asked for: nothing is asked any more.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_given_back_asks_for_nothing() {
    let (fleet, [ours]) = patient_locks([secs(25)]).await;
    for by_drop in [false, true] {
        let lock = ours.clone();
        let guard = tokio::spawn(async move { lock.guard().await.unwrap() }).await.unwrap();
        fleet.servers[4].wipe();
        // It may vote again from 80 s on, and is asked then.
        sleep(secs(75)).await;
        fleet.servers[4].stop();
        sleep(secs(10)).await;
        assert_eq!(fleet.held(), "11110");
        match by_drop {
            true => drop(guard),
            false => guard.unlock().await.unwrap(),
        }
        sleep(secs(1)).await;
        // What is asked now would stay until it is answered.
        fleet.servers[4].lose_replies(4);
        fleet.servers[4].start();
        for _ in 0..5000 {
            sleep(ms(1)).await;
            assert_eq!(fleet.held(), "00000");
        }
        let calls = || fleet.servers.iter().map(|server| server.calls()).collect::<Vec<_>>();
        let before = calls();
        sleep(secs(60)).await;
        assert_eq!(calls(), before);
    }
}

/// Asked for twice, as the first call has no answer yet: it is one vote, taken once.
#[tokio::test(start_paused = true)]
async fn a_vote_counts_once() {
    let (fleet, [ours]) = patient_locks([secs(25)]).await;
    let guard = with_three_votes(&fleet, &ours).await;
    sleep(secs(27)).await;
    fleet.servers[3].start();
    sleep(secs(1)).await;
    assert_eq!(fleet.held(), "11110");
    let fields = fleet.servers[3].command(&["HGETALL", "red"]).unwrap();
    assert!(matches!(&fields, Reply::List(of) if of[1..] == [Reply::Text("1".to_owned())]), "{fields:?}");
    fleet.servers[1..3].iter().for_each(|server| server.stop());
    sleep(secs(31)).await;
    assert!(!guard.is_valid(), "two servers are not most of five");
}

const LEASE: Duration = secs(4);

async fn all_vote(servers: &[Server], clients: &[Locks], guard: &Guard) {
    let all = || async {
        assert!(guard.is_valid());
        votes(servers, clients).await == servers.len()
    };
    eventually(secs(60), "all five vote", all).await;
}

/// The same on real servers: all of them are restarted, empty, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_outlives_a_rolling_restart_of_real_servers() {
    let servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
    let builder = || Locks::builder().command_timeout(ms(800)).watchdog_lease(LEASE).outage_limit(secs(30));
    let terms = |clients: &[Locks]| red(clients).max_lease(LEASE).server_timeout(secs(1));
    let (clients, rivals) = (connected(&servers, builder()).await, connected(&servers, builder()).await);
    let (ours, theirs) = (terms(&clients), terms(&rivals));
    patient("it is free", theirs.guard()).await.unwrap().unlock().await.unwrap();
    let guard = patient("it is held", ours.guard()).await.unwrap();
    all_vote(&servers, &clients, &guard).await;
    for server in &servers {
        tokio::task::block_in_place(|| server.restart());
        all_vote(&servers, &clients, &guard).await;
        assert_matches!(patient("an answer", theirs.try_lock()).await, Ok(Busy) | Err(LockError::NoMajority { .. }));
    }
    patient("most still have it", guard.verify()).await.unwrap();
    patient("it is given back", guard.unlock()).await.unwrap();
    patient("the next", theirs.guard()).await.unwrap().unlock().await.unwrap();
    eventually(secs(20), "nothing is left", || async { votes(&servers, &clients).await == 0 }).await;
}
