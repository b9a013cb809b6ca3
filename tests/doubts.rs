//! Calls about permits and counts that stay in doubt; what is undone touches nothing else (rules 6, 9, 13, 22). And
//! calls that are under way at a shutdown.

use std::pin::pin;

use lockson::PermitGuard;
use support::prelude::*;
use support::sites::Place;

const ACQUIRE: &str = "permit_semaphore/acquire";
const EXTEND: &str = "permit_semaphore/extend";
const CHANGE: &str = "semaphore/change";
const COUNT_DOWN: &str = "latch/count_down";
const INSPECT: &str = "latch/inspect";

async fn start(builder: Builder) -> Place {
    Place::start(builder, &[ACQUIRE, EXTEND, CHANGE, COUNT_DOWN, INSPECT]).await
}

/// A call whose answer is lost, and then its client's way to the server.
async fn in_doubt<T>(site: &Place, script: &str, call: impl Future<Output = T>) -> T {
    let fault = site.proxy.cut_after(1, Filter::of(script));
    let cut_off = async {
        fault.done().await;
        site.proxy.refuse(true);
    };
    tokio::join!(call, cut_off).0
}

/// What is left of a permit's lease on the server.
async fn kept(site: &Place, guard: &PermitGuard) -> Duration {
    let semaphore = site.theirs.permit_semaphore(&site.name);
    let [id] = &guard.ids()[..] else { panic!("one permit") };
    semaphore.remaining_lease(id).await.unwrap().unwrap_or_default()
}

/// The first copy took the permits, and its answer is lost for a while: the lease counts from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_counts_from_the_first_copy() {
    let site = start(Locks::builder().command_timeout(ms(500))).await;
    let semaphore = site.ours.permit_semaphore(&site.name);
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let fault = site.proxy.cut_after(1, Filter::of(ACQUIRE));
    let (guard, ()) = tokio::join!(semaphore.acquire(1).lease(ms(20_000)).guard(), async {
        fault.done().await;
        site.proxy.refuse(true);
        // As long as it takes for the server to have less left than the promise may be short by.
        sleep(ms(1000)).await;
        site.proxy.refuse(false);
    });
    let guard = patient("the permit", async { guard }).await.unwrap().unwrap();
    let left = kept(&site, &guard).await;
    assert!(guard.remaining() <= left, "says {:?}, the server {left:?}", guard.remaining());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_of_permits_undoes_no_later_one() {
    let site = start(Locks::builder().command_timeout(ms(2000))).await;
    let semaphore = site.ours.permit_semaphore(&site.name);
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let guard = semaphore.guard(1).await.unwrap();
    let copy = site.proxy.hold_back(1, Filter::of(EXTEND));
    guard.set_lease(ms(3000)).await.unwrap();
    guard.set_lease(ms(60_000)).await.unwrap();
    assert_eq!(copy.release().await.len(), 1);
    let left = kept(&site, &guard).await;
    assert!(guard.remaining() <= left && left > ms(50_000), "says {:?}, the server {left:?}", guard.remaining());
    // The same by ids.
    let copy = site.proxy.hold_back(1, Filter::of(EXTEND));
    semaphore.set_lease(&guard.ids(), ms(3000)).await.unwrap();
    semaphore.set_lease(&guard.ids(), ms(60_000)).await.unwrap();
    assert_eq!(copy.release().await.len(), 1);
    assert!(kept(&site, &guard).await > ms(50_000));
}

/// Where the first call had more to tidy up than one may: what undoes it, if a copy of it is in doubt, undoes nothing
/// of the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_again_names_other_permits() {
    let site = start(Locks::builder()).await;
    let fill = "redis.call('SET', KEYS[1], '0') \
        for i = 1, 2000 do redis.call('ZADD', KEYS[2], 1, string.format('%016d', i)) end";
    let expiries = format!("{{{}}}:timeout", site.name);
    site.server.raw().await.must(&["EVAL", fill, "2", &site.name, &expiries]).await;
    let guard = site.ours.permit_semaphore(&site.name).guard(500).await.unwrap();
    let ids = |call: support::Request| call.0.into_iter().max_by_key(String::len);
    let named: Vec<_> = site.proxy.seen(Filter::of(ACQUIRE)).into_iter().map(ids).collect();
    assert!(named.len() > 1 && named.windows(2).all(|pair| pair[0] != pair[1]), "{} calls", named.len());
    guard.release().await.unwrap();
}

/// Its answer is lost, and it is an error: who asks again, or waits for permits, finds a semaphore that can be set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_in_doubt_can_be_set_again() {
    let site = start(Locks::builder().command_timeout(ms(200)).outage_limit(ms(3000))).await;
    let semaphore = site.ours.semaphore(&site.name);
    let set = in_doubt(&site, CHANGE, semaphore.try_set_permits(10)).await;
    assert!(matches!(set, Err(SyncError::Query(QueryError::Unreachable { .. }))), "{set:?}");
    let cancel = Filter::of("cancel");
    let cancels = site.proxy.requests(cancel.clone());
    site.proxy.refuse(false);
    patient("the cancellation", site.proxy.wait_requests(cancels + 1, cancel)).await;
    eventually(ms(20_000), "the client is back", async || semaphore.try_set_permits(10).await.is_ok()).await;
    assert_eq!(site.theirs.semaphore(&site.name).available_permits().await.unwrap(), 10);
}

/// The count is undone in its own latch; another one of that name, since, is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undone_count_is_of_its_own_latch() {
    join_all([false, true].map(async |is_next| {
        let site = start(Locks::builder().command_timeout(ms(200)).outage_limit(ms(3000))).await;
        let (ours, theirs) = (site.ours.latch(&site.name), site.theirs.latch(&site.name));
        assert!(theirs.try_set_count(2).await.unwrap());
        let counted = in_doubt(&site, COUNT_DOWN, ours.count_down()).await;
        assert!(matches!(counted, Err(SyncError::Query(QueryError::Unreachable { .. }))), "{counted:?}");
        let mut expected = 2;
        if is_next {
            assert_eq!(theirs.count_down().await.unwrap(), Some(0));
            assert!(theirs.try_set_count(5).await.unwrap());
            expected = 5;
        }
        let receipts = site.server.calls("set");
        site.proxy.refuse(false);
        // That of the call is written anew.
        eventually(ms(20_000), "the cancellation", async || site.server.calls("set") > receipts).await;
        assert_eq!(theirs.count().await.unwrap(), expected, "the next latch: {is_next}");
    }))
    .await;
}

/// All hear of an outage at its limit, not each a limit after the one before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_a_latch_hear_of_an_outage_together() {
    let site = start(Locks::builder().command_timeout(ms(200)).outage_limit(ms(1000))).await;
    assert!(site.theirs.latch(&site.name).try_set_count(1).await.unwrap());
    let latches = [(); 50].map(|()| site.ours.latch(&site.name));
    let waits = spawn_each(latches, |latch| async move { latch.wait().await });
    // Each has looked once.
    site.proxy.wait_requests(50, Filter::of(INSPECT)).await;
    eventually(ms(20_000), "they wait", async || site.ours.health().subscriptions > 0).await;
    site.proxy.black_hole_requests(true);
    for waited in patient("fifty errors, of which one comes after a second", join_all(waits)).await {
        assert!(matches!(waited.unwrap(), Err(SyncError::Query(QueryError::Unreachable { .. }))));
    }
}

/// A server without memory takes renewals and changes of leases, as of locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_renews() {
    let site = start(Locks::builder().command_timeout(ms(500)).watchdog_lease(ms(6000))).await;
    let renew = Filter::of("permit_semaphore/renew");
    let semaphore = site.ours.permit_semaphore(&site.name);
    assert!(semaphore.try_set_permits(2).await.unwrap());
    let guard = semaphore.guard(1).await.unwrap();
    site.server.raw().await.must(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let before = guard.remaining();
    patient("a renewal", site.proxy.wait_requests(1, renew)).await;
    eventually(ms(20_000), "the renewal counts", async || {
        assert!(guard.is_valid());
        guard.remaining() > before - ms(500)
    })
    .await;
    guard.set_lease(ms(60_000)).await.unwrap();
    assert!(kept(&site, &guard).await > ms(50_000));
}

/// The machine stood still with a call in doubt, and the server has forgotten it since: it is not done again.
#[tokio::test(start_paused = true)]
async fn a_call_that_the_server_forgot_is_not_done_again() {
    use lockson::{EmbeddedServer, Faults};
    let server = EmbeddedServer::new();
    let locks = server.connect_with(Locks::builder().command_timeout(ms(200))).unwrap();
    let semaphore = locks.semaphore("pool");
    assert!(semaphore.try_set_permits(10).await.unwrap());
    server.inject(Faults::seeded(7).lose_replies(1000));
    let release = spawn_with(semaphore.clone(), |semaphore| async move { semaphore.release(1).await });
    sleep(ms(100)).await;
    server.set_clock_ahead(secs(3600));
    server.heal();
    assert!(matches!(release.await.unwrap(), Err(SyncError::Query(QueryError::Unreachable { .. }))));
    assert!(matches!(semaphore.available_permits().await.unwrap(), 10 | 11));
}

/// Whoever is under way when the client is shut down hears just that, and keeps nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_takers_and_waiters() {
    let site = start(Locks::builder().command_timeout(ms(2000))).await;
    let (pool, latch) = (site.theirs.semaphore(&site.name), format!("{}-latch", site.name));
    assert!(pool.try_set_permits(1).await.unwrap());
    assert!(site.theirs.latch(&latch).try_set_count(1).await.unwrap());
    site.proxy.delay_replies(ms(500));
    let taker = spawn_with(site.ours.semaphore(&site.name), |pool| async move { pool.guard(1).await.map(drop) });
    let waiter = spawn_with(site.ours.latch(&latch), |latch| async move { latch.wait().await });
    site.proxy.wait_requests(1, Filter::of("semaphore/acquire")).await;
    site.proxy.wait_requests(1, Filter::of(INSPECT)).await;
    site.ours.shutdown(secs(5)).await.unwrap();
    assert_eq!(patient("the taker", taker).await.unwrap(), Err(SyncError::Query(QueryError::Closed)));
    assert_matches!(patient("the waiter", waiter).await.unwrap(), Err(SyncError::Query(QueryError::Closed)));
    eventually(ms(20_000), "the permit is back", async || pool.available_permits().await.unwrap() == 1).await;
}

/// Who is asking as its client is shut down has left the server's queue when that is over, and keeps no reader out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_the_places_of_those_who_wait() {
    type Make = fn(&Locks, &str) -> Arc<dyn RLock>;
    let fair: Make = |locks, name| Arc::new(locks.fair_lock(name));
    let write: Make = |locks, name| Arc::new(locks.read_write_lock(name).write());
    for (place, lock) in [("redisson_lock_queue", fair), ("lockson:writers", write)].into_iter().cycle().take(10) {
        let site = Place::start(Locks::builder(), &["fair/acquire", "write/acquire"]).await;
        let (name, mut raw) = (&site.name, site.server.raw().await);
        let mut places = async || raw.must(&["EXISTS", &format!("{place}:{{{name}}}")]).await.int();
        let _held = lock(&site.theirs, name).guard().await.unwrap();
        site.proxy.stall_replies(true);
        let waiter = spawn_with(lock(&site.ours, name), |lock| async move { lock.lock().await });
        while places().await == 0 {
            tokio::task::yield_now().await;
        }
        let mut shutdown = pin!(site.ours.shutdown(secs(5)));
        assert!(futures::poll!(&mut shutdown).is_pending());
        site.proxy.stall_replies(false);
        shutdown.await.unwrap();
        assert_eq!(places().await, 0, "{place}");
        assert_eq!(patient("the waiter", waiter).await.unwrap(), Err(LockError::Query(QueryError::Closed)));
    }
}

/// Who asks for the end once more waits for the one that is under way, for as long as it likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_shutdown_waits_for_the_first() {
    let site = start(Locks::builder()).await;
    let (ours, theirs) = (site.ours.semaphore(&site.name), site.theirs.semaphore(&site.name));
    assert!(theirs.try_set_permits(1).await.unwrap());
    let _guard = ours.guard(1).await.unwrap();
    site.proxy.stall_replies(true);
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(site.ours.shutdown(secs(5))));
    assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
    assert_eq!(site.ours.shutdown(ms(20)).await.unwrap_err().names.join(" "), site.name);
    site.proxy.stall_replies(false);
    assert_eq!(join(first, second).await, (Ok(()), Ok(())));
    assert_eq!(theirs.available_permits().await, Ok(1));
    assert_eq!(site.ours.shutdown(secs(5)).await, Ok(()), "it says the same again");
}

/// A taker who does not know yet that another one of its process got it permits does not get them behind a shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_were_given_back_are_nobodys() {
    for _ in 0..5 {
        let site = start(Locks::builder()).await;
        let (ours, theirs) = (site.ours.semaphore(&site.name), site.theirs.semaphore(&site.name));
        assert!(theirs.try_set_permits(1).await.unwrap() && theirs.acquire(1).await.unwrap().is_acquired());
        let [mut first, mut second] = [(); 2].map(|()| Box::pin(ours.guard(1)));
        let asks = site.proxy.wait_requests(2, Filter::of("semaphore/acquire"));
        // Each asks once, and then the first for both.
        let _ = futures::future::select(Box::pin(asks), join(&mut first, &mut second)).await;
        theirs.release(2).await.unwrap();
        let guard = patient("the first one's", &mut first).await.unwrap();
        site.ours.shutdown(secs(5)).await.unwrap();
        assert_eq!(patient("the other's", second).await.map(drop), Err(SyncError::Query(QueryError::Closed)));
        assert_eq!(theirs.available_permits().await, Ok(2));
        drop(guard);
    }
}
