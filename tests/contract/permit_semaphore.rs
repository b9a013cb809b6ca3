//! The expirable semaphore: permits with ids and leases, which come back by themselves.

use std::collections::BTreeSet;
use std::slice::from_ref;

use futures::future::FutureExt;
use lockson::{InvalidLease, PermitGuard, PermitId, PermitSemaphore};

use crate::contract::world::*;

async fn with_permits(case: &Case, locks: &Locks, permits: u32) -> PermitSemaphore {
    let semaphore = locks.permit_semaphore(&case.name);
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// The shortest watchdog lease.
async fn short(case: &Case) -> Locks {
    case.client_with(Locks::builder().watchdog_lease(secs(1)).command_timeout(ms(300))).await
}

/// Free and taken.
async fn counts(semaphore: &PermitSemaphore) -> (i64, u64) {
    (semaphore.available_permits().await.unwrap(), semaphore.acquired_permits().await.unwrap())
}

async fn until(semaphore: &PermitSemaphore, expected: (i64, u64)) {
    eventually(secs(20), "the permits", async || counts(semaphore).await == expected).await;
}

pub async fn permits_have_ids(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let semaphore = a.permit_semaphore(&case.name);
    assert_eq!(counts(&semaphore).await, (0, 0));
    assert!(semaphore.acquire(1).wait(ms(0)).ids(secs(60)).await.unwrap().is_none() && case.is_free().await);
    let semaphore = with_permits(&case, &a, 10).await;
    assert!(!semaphore.try_set_permits(5).await.unwrap());
    let ids = semaphore.acquire(3).ids(secs(60)).await.unwrap().unwrap();
    let guard = b.permit_semaphore(&case.name).guard(2).await.unwrap();
    assert_eq!((ids.len(), guard.count(), guard.ids().len()), (3, 2, 2));
    assert_eq!(ids.iter().chain(&guard.ids()).collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(counts(&semaphore).await, (5, 5));
    assert!(semaphore.acquire(6).wait(ms(50)).ids(secs(60)).await.unwrap().is_none());
    // Any client may give them back: all, or none of them.
    let other = b.permit_semaphore(&case.name);
    let stranger: PermitId = "0123456789abcdef0123456789ABCDEF".parse().unwrap();
    assert_eq!(stranger.to_string(), "0123456789abcdef0123456789abcdef");
    let not_held = Err(SyncError::NotHeld { name: case.name.clone() });
    assert_eq!(other.release(&[ids[0].clone(), stranger]).await, not_held);
    assert_eq!(counts(&semaphore).await, (5, 5));
    other.release(&ids[..2]).await.unwrap();
    assert_eq!(other.release(&ids).await, not_held);
    other.release(&[ids[2].clone(), ids[2].clone()]).await.unwrap();
    assert_eq!(counts(&semaphore).await, (8, 2));
    guard.release().await.unwrap();
    // A semaphore that is gone is not made again by what is given back.
    let ids = semaphore.acquire(1).ids(secs(60)).await.unwrap().unwrap();
    case.ask(&["DEL", &case.name]).await;
    semaphore.release(&ids).await.unwrap();
    assert!(case.is_free().await);
    assert!(semaphore.try_set_permits(10).await.unwrap());
    semaphore.add_permits(2).await.unwrap();
    semaphore.reduce_permits(7).await.unwrap();
    assert_eq!(counts(&semaphore).await, (5, 0));
    // In all, whether free or taken; a waiter hears of more.
    let taken = semaphore.acquire(4).ids(secs(60)).await.unwrap().unwrap();
    other.set_permits(3).await.unwrap();
    assert_eq!(counts(&semaphore).await, (-1, 4));
    let (semaphore_of_b, waits) = (other.clone(), patient("permits that were set", other.guard(3)));
    let set = async { semaphore_of_b.set_permits(7).await.unwrap() };
    let (guard, ()) = futures::join!(waits, set);
    assert_eq!((guard.unwrap().count(), counts(&semaphore).await.1), (3, 7));
    other.release(&taken).await.unwrap();
    assert!("0123".parse::<PermitId>().is_err() && "x123456789abcdef0123456789abcdef".parse::<PermitId>().is_err());
}

/// The number, the zset with 16 raw bytes for each permit, and nothing else of Redisson's.
pub async fn the_layout_of_permits_is_redissons(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 4).await;
    let ids = semaphore.acquire(2).ids(secs(60)).await.unwrap().unwrap();
    let expiries = format!("{{{}}}:timeout", case.name);
    assert_eq!(case.ask(&["GET", &case.name]).await, "2");
    assert_eq!(case.ask(&["ZCARD", &expiries]).await, "2");
    for id in &ids {
        // The bytes, as Java sends them.
        let ask = "local raw = {} for two in string.gmatch(ARGV[1], '..') do \
                   raw[#raw + 1] = string.char(tonumber(two, 16)) end \
                   local id = table.concat(raw) return {#id, redis.call('ZSCORE', KEYS[1], id)}";
        let answer = case.eval(ask, &[&expiries], &[&id.to_string()]).await;
        let (length, expiry) = answer.split_once(' ').unwrap();
        let left = expiry.parse::<i64>().unwrap() - case.time().await;
        assert!(length == "16" && left > 50_000 && left <= 60_000, "{answer}");
    }
    assert_eq!(case.pttl().await, -1);
    semaphore.release(&ids).await.unwrap();
    assert_eq!(case.ask(&["EXISTS", &expiries]).await, "0");
}

/// Permits that Java took: found, given back by their ids; those that have expired are freed.
pub async fn javas_permits_are_known(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 1).await;
    let expiries = format!("{{{}}}:timeout", case.name);
    let (expired, later) = ((case.time().await - 1).to_string(), (case.time().await + 60_000).to_string());
    let forever = "922337203685477";
    for (letter, expiry) in [("a", expired.as_str()), ("b", &later), ("c", forever)] {
        case.ask(&["ZADD", &expiries, expiry, &letter.repeat(16)]).await;
    }
    assert_eq!(counts(&semaphore).await, (2, 2));
    let taken = semaphore.acquire(2).ids(secs(60)).await.unwrap().unwrap();
    assert_eq!(counts(&semaphore).await, (0, 4));
    let [b, c] = ["62", "63"].map(|byte| byte.repeat(16).parse::<PermitId>().unwrap());
    assert!(semaphore.remaining_lease(&c).await.unwrap().unwrap() > secs(1_000_000));
    semaphore.release(&[b, c]).await.unwrap();
    semaphore.release(&taken).await.unwrap();
    assert_eq!(counts(&semaphore).await, (4, 0));
}

pub async fn a_guard_is_renewed_and_gives_back(case: Case) {
    let (a, b) = (short(&case).await, case.client().await);
    let semaphore = with_permits(&case, &b, 3).await;
    let own = a.permit_semaphore(&case.name);
    let (one, two) = (own.guard(1).await.unwrap(), own.guard(2).await.unwrap());
    assert_eq!((a.health().holds, a.health().uncertain), (2, 0));
    sleep(ms(2500)).await;
    assert_eq!((one.state(), two.state()), (HoldState::Held, HoldState::Held));
    assert!(one.is_valid() && two.remaining() > ms(300));
    assert_eq!(counts(&semaphore).await, (0, 3));
    drop(two);
    until(&semaphore, (2, 1)).await;
    one.release().await.unwrap();
    assert_eq!(counts(&semaphore).await, (3, 0));
    assert_eq!(a.health().holds, 0);
}

/// A waiter has it by the end of the earliest lease: nobody releases, nobody sends a message.
pub async fn expired_permits_return(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    let semaphore = with_permits(&case, &a, 2).await;
    let ids = semaphore.acquire(1).ids(ms(300)).await.unwrap().unwrap();
    let guard = semaphore.acquire(1).lease(ms(400)).guard().await.unwrap().unwrap();
    let waiter = b.permit_semaphore(&case.name);
    let both = patient("two permits", waiter.guard(2)).await.unwrap();
    assert!(!guard.is_valid());
    assert_eq!(semaphore.release(&ids).await, Err(SyncError::NotHeld { name: case.name.clone() }));
    assert_eq!(semaphore.remaining_lease(&ids[0]).await.unwrap(), None);
    // A guard of a lost lease gives back nothing that is another's.
    assert_eq!(guard.release().await, Err(SyncError::NotHeld { name: case.name.clone() }));
    assert_eq!(counts(&semaphore).await, (0, 2));
    both.release().await.unwrap();
    let lease = semaphore.acquire(2).ids(ms(100)).await.unwrap().unwrap();
    assert_eq!(lease.len(), 2);
    sleep(ms(150)).await;
    // Counted as free although nobody has asked for them since.
    assert_eq!(counts(&semaphore).await, (2, 0));
}

/// They are freed a part at a time, and whoever needs more asks again at once.
pub async fn very_many_expired_permits_keep_nobody_waiting(case: Case) {
    let semaphore = case.client().await.permit_semaphore(&case.name);
    let fill = "redis.call('SET', KEYS[1], '0') \
        for i = 1, 2000 do redis.call('ZADD', KEYS[2], 1, string.format('%016d', i)) end return {1}";
    case.eval(fill, &[&case.name, &format!("{{{}}}:timeout", case.name)], &[]).await;
    assert_eq!(counts(&semaphore).await, (2000, 0));
    let most = semaphore.acquire(500).wait(ms(0)).guard().await.unwrap().expect("enough have expired");
    assert!(semaphore.acquire(1).wait(ms(0)).guard().await.unwrap().is_some());
    most.set_lease(secs(60)).await.unwrap();
    most.release().await.unwrap();
    assert_eq!(counts(&semaphore).await.0, 2000);
}

pub async fn leases_are_set_exactly(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 3).await;
    let ids = semaphore.acquire(2).ids(secs(60)).await.unwrap().unwrap();
    semaphore.set_lease(&ids[..1], secs(10)).await.unwrap();
    let left = [semaphore.remaining_lease(&ids[0]).await, semaphore.remaining_lease(&ids[1]).await];
    let [first, second] = left.map(|left| left.unwrap().unwrap());
    assert!(first <= secs(10) && second > secs(20) && second <= secs(60), "{first:?} {second:?}");
    // Of several permits the script says the shortest lease.
    let (expiries, both) = (format!("{{{}}}:timeout", case.name), format!("{}{}", ids[0], ids[1]));
    let extend = support::lua!("ids", "permit_semaphore/extend");
    let answer = case.copy(extend, SOON, &[&expiries], &[&both, "0"]).await;
    let left = answer.strip_prefix("1 ").expect(&answer).parse::<u64>().unwrap();
    assert!(left <= 10_000, "{left}");
    let guard = semaphore.guard(1).await.unwrap();
    guard.set_lease(secs(100)).await.unwrap();
    assert!(guard.remaining() > secs(70));
    guard.set_lease(ms(200)).await.unwrap();
    assert!(guard.remaining() <= ms(200));
    let stranger: PermitId = "00".repeat(16).parse().unwrap();
    let not_held = Err(SyncError::NotHeld { name: case.name.clone() });
    assert_eq!(semaphore.set_lease(&[ids[0].clone(), stranger], secs(60)).await, not_held);
    assert!(semaphore.remaining_lease(&ids[0]).await.unwrap().unwrap() <= secs(10));
    drop(guard);
}

/// Somebody else gives a guard's permits back: the renewal says so, and work under them stops.
pub async fn losing_permits_is_told(case: Case) {
    let (a, b) = (short(&case).await, case.client().await);
    let semaphore = with_permits(&case, &b, 1).await;
    let guard = a.permit_semaphore(&case.name).guard(1).await.unwrap();
    let lost = guard.lost();
    semaphore.release(&guard.ids()).await.unwrap();
    patient("the loss", guard.run(std::future::pending::<()>())).await.unwrap_err();
    patient("the loss", lost).await;
    assert_eq!((guard.state(), guard.remaining()), (HoldState::Lost, ms(0)));
    assert_eq!(guard.set_lease(secs(1)).await, Err(SyncError::NotHeld { name: case.name.clone() }));
    drop(guard);
    let guard = a.permit_semaphore(&case.name).guard(1).await.unwrap();
    semaphore.release(&guard.ids()).await.unwrap();
    assert_eq!(guard.set_lease(secs(1)).await, Err(SyncError::NotHeld { name: case.name.clone() }));
    assert!(!guard.is_valid());
    drop(guard);
    assert_eq!(a.health().holds, 0);
}

/// Somebody else gave some of a guard's permits back: it gives the others back, and says that they were not all.
pub async fn a_guard_without_all_of_its_permits_says_so(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 3).await;
    let guard = semaphore.guard(2).await.unwrap();
    semaphore.release(&guard.ids()[..1]).await.unwrap();
    assert_eq!(guard.release().await, Err(SyncError::NotHeld { name: case.name.clone() }));
    assert_eq!(counts(&semaphore).await, (3, 0));
}

/// `max_hold` ends the renewal, so a task that hangs has its permits for so long.
pub async fn max_hold_ends_the_renewal_of_permits(case: Case) {
    let (a, b) = (short(&case).await, case.client().await);
    let semaphore = with_permits(&case, &b, 1).await;
    let guard = a.permit_semaphore(&case.name).acquire(1).max_hold(ms(1200)).guard().await.unwrap().unwrap();
    let next: PermitGuard = patient("the permit", semaphore.guard(1)).await.unwrap();
    assert!(!guard.is_valid() && next.is_valid());
}

/// Large requests are served in their turn, and those that fit together.
pub async fn takers_of_permits_stand_in_line(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    let semaphore = with_permits(&case, &a, 3).await;
    let all = semaphore.acquire(3).ids(secs(60)).await.unwrap().unwrap();
    // One that gave up eats no message of the others (6.A.4d).
    let first = b.permit_semaphore(&case.name);
    let gives_up = begun(async move { first.acquire(1).wait(ms(300)).guard().await.unwrap().is_none() }).await;
    let mut waiters = Vec::new();
    for permits in [2, 1, 3] {
        let semaphore = b.permit_semaphore(&case.name);
        waiters.push(begun(async move { semaphore.guard(permits).await.unwrap() }).await);
    }
    case.until_waiting(&b).await;
    assert!(gives_up.await.unwrap());
    semaphore.release(&all[..1]).await.unwrap();
    assert!(b.permit_semaphore(&case.name).acquire(1).wait(ms(0)).guard().await.unwrap().is_none());
    semaphore.release(&all[1..]).await.unwrap();
    let last = waiters.pop().unwrap();
    let guards = patient_all("two together", waiters).await;
    assert_eq!(counts(&semaphore).await, (0, 3));
    drop(guards);
    assert_eq!(patient("three", last).await.unwrap().count(), 3);
}

pub async fn a_dropped_wait_for_permits_leaves_nothing(case: Case) {
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 3).await;
    for polls in 0..6 {
        for permits in [2, 4] {
            drop(poll_times(polls, semaphore.guard(permits).boxed()).await);
            until(&semaphore, (3, 0)).await;
        }
    }
    assert_eq!(locks.health().holds, 0);
}

pub async fn bad_input_about_permits_is_refused(case: Case) {
    let locks = case.client().await;
    let semaphore = locks.permit_semaphore(&case.name);
    let id: PermitId = "00".repeat(16).parse().unwrap();
    for asked in [0, 501] {
        let error = SyncError::Count { asked: asked.into(), max: 500 };
        assert_eq!(semaphore.guard(asked).await.map(drop), Err(error.clone()));
        assert_eq!(semaphore.acquire(asked).ids(secs(1)).await, Err(error));
    }
    assert_eq!(semaphore.release(&[]).await, Err(SyncError::Count { asked: 0, max: 500 }));
    let lease = |lease| SyncError::Lease(InvalidLease { lease, min: ms(100), max: secs(24 * 60 * 60) });
    assert_eq!(semaphore.acquire(1).ids(ms(99)).await, Err(lease(ms(99))));
    assert_eq!(semaphore.set_lease(from_ref(&id), secs(90_000)).await, Err(lease(secs(90_000))));
    let unnamed = locks.permit_semaphore("");
    assert_eq!(unnamed.guard(1).await.map(drop), Err(SyncError::Query(QueryError::Name(NameError::Empty))));
    assert!(case.is_free().await);
    let expiries = format!("{{{}}}:timeout", case.name);
    for key in [case.name.as_str(), &expiries] {
        case.ask(&["SET", &case.name, "5"]).await;
        case.ask(&["DEL", key]).await;
        case.ask(&["HSET", key, "f", "v"]).await;
        for error in [
            semaphore.guard(1).await.map(drop),
            semaphore.release(from_ref(&id)).await,
            semaphore.available_permits().await.map(drop),
        ] {
            assert!(matches!(error, Err(SyncError::Query(QueryError::WrongType { .. }))), "{key}: {error:?}");
        }
        case.ask(&["DEL", key]).await;
    }
    assert_eq!(locks.permit_semaphore(&unique("none")).remaining_lease(&id).await, Ok(None));
}

/// Copies of one call: they do their work once, and after a cancellation there is none.
pub async fn copies_about_permits_do_it_once(case: Case) {
    let acquire = support::lua!("announce", "once", "ids", "permit_semaphore/acquire");
    let release = support::lua!("announce", "once", "ids", "permit_semaphore/release");
    let cancel = support::lua!("announce", "once", "ids", "permit_semaphore/cancel");
    let (name, receipt) = (case.name.as_str(), format!("lockson:receipt:{{{}}}:test", case.name));
    let expiries = format!("{{{name}}}:timeout");
    let locks = case.client().await;
    let semaphore = with_permits(&case, &locks, 5).await;
    let ask = async |script: &str, args: &[&str]| {
        let args = [args, &["PUBLISH", "test-channel"]].concat();
        case.copy(script, SOON, &[name, &expiries, &receipt], &args).await
    };
    let [a, b, c] = ["aa", "bb", "cc"].map(|byte| byte.repeat(16));
    let (one, two, three) = (format!("60000 {a}"), format!("60000 {b}{c}"), format!("60000 {}", "dd".repeat(48)));
    for _ in 0..3 {
        assert_eq!(ask(acquire, &["1", "60000", &one, &two, &three]).await, "1 2");
        assert_eq!(counts(&semaphore).await, (2, 3));
    }
    for _ in 0..3 {
        assert_eq!(ask(release, &["2", "60000", &a, "1"]).await, "1 1");
        assert_eq!(counts(&semaphore).await, (3, 2));
    }
    // A late copy of the acquire, on another lane, would find its own receipt; here its lane went on.
    let all = format!("{a}{b}{c}");
    for answer in ["1", "0", "0"] {
        assert_eq!(ask(cancel, &["3", "60000", &all]).await, answer);
        assert_eq!(counts(&semaphore).await, (5, 0));
    }
    assert_eq!(ask(acquire, &["3", "60000", &one]).await, "0 -1");
    assert_eq!(counts(&semaphore).await, (5, 0));
}
