//! A shard whose primary was replaced grants nothing until every lease from before it is over.

use std::time::Instant;

use support::cluster::PRIMARIES;
use support::prelude::*;
use support::{Cluster, Sentinels};

const LONGEST: Duration = secs(8);

async fn client(url: &str) -> Locks {
    let settings = Locks::builder().watchdog_lease(secs(3)).max_lease(LONGEST).quarantine(true);
    settings.connect(url).await.unwrap()
}

/// For how long nothing is granted, if it is not.
fn left(tried: Result<AcquireOutcome, LockError>) -> Option<Duration> {
    match tried {
        Ok(Acquired) => None,
        Err(LockError::Query(QueryError::Refused { why: Refused::Quarantine(left), .. })) => Some(left),
        other => panic!("{other:?}"),
    }
}

/// `replace` has another server take the place of that with these names, and says when it began.
async fn rests(url: String, [kept, other, third]: [String; 3], replace: impl FnOnce() -> Instant) {
    let before = client(&url).await;
    // The servers are younger than any lease.
    eventually(LONGEST * 2, "a new server grants", async || {
        let tried = before.lock(&third).try_lock().await;
        left(tried).is_none_or(|left| {
            assert!(left <= LONGEST);
            false
        })
    })
    .await;
    before.lock(&third).unlock().await.unwrap();
    let semaphore = before.semaphore(&format!("{{{other}}}:permits"));
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let guard = before.lock(&kept).guard().await.unwrap();
    let waiting = spawn_with(before.lock(&other), async move |lock| {
        // It begins once the other server is there.
        sleep(ms(100)).await;
        lock
    });
    let began = tokio::task::block_in_place(replace);
    let lock = waiting.await.unwrap();
    let waiter = tokio::spawn(async move {
        let guard = lock.guard().await.unwrap();
        let at = Instant::now();
        guard.unlock().await.unwrap();
        at
    });
    // One that knew nothing of the server before.
    let after = client(&url).await;
    for locks in [&before, &after] {
        let rest = left(locks.lock(&third).try_lock().await).expect("it rests");
        assert!(rest > secs(1) && rest <= LONGEST, "{rest:?}");
    }
    let permits = before.semaphore(&format!("{{{other}}}:permits")).try_acquire(1).await;
    let is_quarantine = |why: &Refused| matches!(why, Refused::Quarantine(_));
    assert_matches!(permits, Err(SyncError::Query(QueryError::Refused { why, .. })) if is_quarantine(&why));
    // What is held is entered again, renewed and given back.
    eventually(secs(5), "the hold is confirmed", async || guard.state() == HoldState::Held).await;
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    let waited = tokio::time::timeout(LONGEST * 2, waiter).await.expect("it is granted").unwrap() - began;
    println!("granted {waited:?} after the switch began");
    assert!(waited >= LONGEST - ms(50), "{waited:?}");
    // The other client began to count a little later, or earlier.
    eventually(secs(1), "another client grants too", async || {
        after.lock(&third).try_lock().await.is_ok_and(AcquireOutcome::is_acquired)
    })
    .await;
    after.lock(&third).unlock().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_rests_after_a_failover() {
    let cluster = tokio::task::block_in_place(|| Cluster::start(1, ms(500)));
    let name = || cluster.name_on(0, "rests");
    let names = [name(), name(), name()];
    let slot = cluster.slot_of(&names[0]);
    rests(cluster.url(), names, || {
        assert!(cluster.nodes[0].control(&["WAIT", "1", "1000"]).int() <= 1);
        std::thread::sleep(ms(200));
        cluster.nodes[0].kill();
        let began = Instant::now();
        assert_eq!(cluster.elected(slot, 0), PRIMARIES);
        began
    })
    .await;
    // The other shards do not.
    let locks = client(&cluster.url()).await;
    assert_eq!(left(locks.lock(&cluster.name_on(1, "rests")).try_lock().await), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_rests_that_sentinels_promoted() {
    let all = tokio::task::block_in_place(|| Sentinels::start(ms(500)));
    rests(all.url(), [unique("rests"), unique("rests"), unique("rests")], || {
        std::thread::sleep(ms(200));
        all.servers[0].kill();
        let began = Instant::now();
        all.switched(0);
        began
    })
    .await;
}

/// Nobody rests who did not ask for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_off_by_default() {
    let server = Server::start();
    let (locks, careful) = (server.locks().await, client(&server.url()).await);
    assert_eq!(locks.lock("rests").try_lock().await, Ok(Acquired));
    assert!(left(careful.lock("other").try_lock().await).is_some());
    assert_eq!(locks.lock("other").try_lock().await, Ok(Acquired));
}
