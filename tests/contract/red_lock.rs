//! What a red lock promises beside what every lock does, as far as one server shows it: rule 21. tests/red.rs has five.

use crate::contract::world::*;

fn red(locks: &Locks, name: &str) -> RedLock<Reentrant> {
    RedLock::new(vec![locks.lock(name)])
}

/// Of one server, as young as it is; with leases as long as those of the other locks.
pub fn make(locks: &Locks, name: &str) -> RedLock<Reentrant> {
    red(locks, name).fresh().max_lease(secs(3600))
}

async fn until_free(case: &Case) {
    eventually(secs(20), "what was taken is given back", async || case.is_free().await).await;
}

pub async fn a_young_server_does_not_vote(case: Case) {
    let locks = case.client().await;
    let strict = red(&locks, &case.name).max_lease(secs(3600));
    let is_told = |error: &LockError| error.to_string().contains("not voting");
    let refused = strict.try_lock().await;
    assert_matches!(refused, Err(error @ LockError::NoMajority { votes: 0, needed: 1, .. }) if is_told(&error));
    until_free(&case).await;
    let limit = Request::default().wait(ms(300));
    assert!(matches!(RLock::acquire_with(&strict, limit).await, Err(LockError::NoMajority { .. })));
    until_free(&case).await;
    // Where another server may take the place of one, none loses nothing.
    let durable = strict.clone().durable();
    let may_vote = if case.fails_over() { None } else { Some(durable.clone()) };
    assert!(may_vote.is_some() || matches!(durable.try_lock().await, Err(LockError::NoMajority { .. })));
    for willing in [Some(strict.clone().fresh()), may_vote].into_iter().flatten() {
        assert!(willing.try_lock().await.unwrap().is_acquired());
        willing.unlock().await.unwrap();
    }
    // Old enough by now, or soon: it is waited for.
    let soon = red(&locks, &case.name).max_lease(secs(2));
    let guard = patient("a server of two seconds votes", soon.acquire().lease(secs(2)).guard()).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
}

pub async fn leases_above_the_limit_are_refused(case: Case) {
    let locks = case.client().await;
    let lock = red(&locks, &case.name).fresh();
    let too_long = |lease, max| Err(LockError::Lease(InvalidLease { lease, min: ms(100), max }));
    assert_eq!(lock.acquire().lease(secs(61)).await, too_long(secs(61), secs(60)));
    // The watchdog's lease counts too.
    assert_eq!(lock.clone().max_lease(secs(29)).try_lock().await, too_long(secs(30), secs(29)));
    assert!(case.is_free().await);
    let guard = lock.acquire().lease(secs(60)).guard().await.unwrap().unwrap();
    assert_matches!(guard.set_lease(secs(61)).await, Err(HoldError::Lease(found)) if found.max == secs(60));
    guard.set_lease(secs(20)).await.unwrap();
    assert!(guard.remaining() <= ms(19_798), "1 % and the drift: {:?}", guard.remaining());
    guard.unlock().await.unwrap();
}

/// Two clients of one server would be two votes of one.
pub async fn one_server_is_one_member(case: Case) {
    let (a, b, c) = (case.client().await, case.client().await, case.client().await);
    let of = |clients: [&Locks; 3]| RedLock::new(clients.map(|locks| locks.lock(&case.name)).to_vec()).fresh();
    let names = RedLock::new(vec![a.lock(&case.name), b.lock("another")]);
    assert!(matches!(names.try_lock().await, Err(LockError::Members(why)) if why.contains("another")));
    for twice in [of([&a, &a, &b]), of([&a, &b, &c])] {
        for _ in 0..2 {
            assert!(matches!(twice.try_lock().await, Err(LockError::Members(_))), "{twice:?}");
        }
        assert!(matches!(twice.lock().await, Err(LockError::Members(_))), "{twice:?}");
        until_free(&case).await;
    }
}

/// The same key: a lock of that name and the red lock keep each other out.
pub async fn it_is_the_lock_of_its_server(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (red, lock) = (case.lock(&a), b.lock(&case.name));
    let guard = red.guard().await.unwrap();
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    assert_eq!(lock.holder().await.unwrap().unwrap().owner, guard.owner());
    guard.unlock().await.unwrap();
    lock.lock().await.unwrap();
    assert!(!red.try_lock().await.unwrap().is_acquired());
    lock.unlock().await.unwrap();
}

/// As one of several, which all have their lease in the end.
pub async fn a_member_of_a_multi_lock(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let other = format!("{}:other", case.name);
    let multi = MultiLock::new(vec![Arc::new(a.lock(&other)) as Arc<dyn RLock>, case.lock(&a)]);
    let guard = multi.acquire().lease(secs(9)).guard().await.unwrap().unwrap();
    assert!((1..=9000).contains(&case.pttl().await) && guard.remaining() <= secs(9));
    assert_eq!((b.lock(&other).try_lock().await, case.lock(&b).try_lock().await), (Ok(Busy), Ok(Busy)));
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
    multi.lock().await.unwrap();
    assert!(multi.is_held().await.unwrap());
    multi.unlock().await.unwrap();
    let rival = case.lock(&b).guard().await.unwrap();
    assert!(!multi.try_lock().await.unwrap().is_acquired());
    rival.unlock().await.unwrap();
    assert!(multi.acquire().wait(secs(20)).await.unwrap().is_acquired());
    multi.unlock().await.unwrap();
}
