//! A machine that slept: leases ran on, and whoever waits for the end of one hears of it at once (PROTOCOL rule 9).

use std::task::{Context, Wake};

use futures::FutureExt;
use lockson::{Faults, Reply};
use support::prelude::*;
use tokio::time::Instant;

/// What waits for a moment looks at least this often.
const TICK: Duration = ms(500);

/// One lock of each kind, of names of their own.
fn every_kind(locks: &Locks) -> Vec<Arc<dyn RLock>> {
    let both = vec![Arc::new(locks.lock("one")) as Arc<dyn RLock>, Arc::new(locks.mutex("two"))];
    let made: [Arc<dyn RLock>; 2] =
        [Arc::new(MultiLock::new(both)), Arc::new(RedLock::new(vec![locks.lock("voted")]).fresh())];
    KINDS.iter().map(|kind| (kind.make)(locks, kind.name)).chain(made).collect()
}

/// With a lease of its own and with the watchdog's: `lost()` and `run()` end within a tick of the timers.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ended_in_a_sleep_is_lost_at_once() {
    let server = EmbeddedServer::new();
    for request in [Request::default(), Request::default().lease(secs(60))] {
        let locks = server.connect();
        for lock in every_kind(&locks) {
            let guard = lock.guard_with(request.clone()).await.unwrap().unwrap();
            let told = tokio::spawn(guard.lost());
            let work = tokio::spawn(async move { guard.run(std::future::pending::<()>()).await });
            sleep(secs(1)).await;
            server.suspend(secs(61));
            let woke = Instant::now();
            let (told, work) = tokio::join!(told, work);
            assert!(woke.elapsed() <= TICK, "{}: {:?}", lock.name(), woke.elapsed());
            assert_eq!(told.unwrap().why, LostReason::Deadline, "{}", lock.name());
            assert_eq!(work.unwrap().unwrap_err().why, LostReason::Deadline, "{}", lock.name());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permits_that_ended_in_a_sleep_are_lost_at_once() {
    let server = EmbeddedServer::new();
    let semaphore = server.connect().permit_semaphore("permits");
    semaphore.set_permits(2).await.unwrap();
    let guard = semaphore.guard(2).await.unwrap();
    let told = tokio::spawn(guard.lost());
    sleep(secs(1)).await;
    server.suspend(secs(61));
    let woke = Instant::now();
    assert!(guard.run(std::future::pending::<()>()).await.is_err());
    assert_eq!(told.await.unwrap().why, LostReason::Deadline);
    assert!(woke.elapsed() <= TICK, "{:?}", woke.elapsed());
}

/// Nobody asks for it, and the process's own waiters come in.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ended_in_a_sleep_keeps_nobody_waiting() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let _guard = locks.lock("mine").guard().await.unwrap();
    let waiting = spawn_with(locks.lock("mine").owned_by(&Owner::unique()), |next| async move { next.lock().await });
    sleep(secs(1)).await;
    server.suspend(secs(61));
    let woke = Instant::now();
    waiting.await.unwrap().unwrap();
    assert!(woke.elapsed() <= TICK + ms(10), "{:?}", woke.elapsed());
}

/// A sleep that ends before the lease does takes its time off what is left.
#[tokio::test(start_paused = true)]
async fn a_sleep_counts_although_the_hold_outlives_it() {
    let server = EmbeddedServer::new();
    let locks = server.connect();
    for lock in every_kind(&locks) {
        let guard = lock.guard_with(Request::default().lease(secs(60))).await.unwrap().unwrap();
        let (told, taken) = (tokio::spawn(guard.lost()), Instant::now());
        sleep(secs(1)).await;
        server.suspend(secs(49));
        assert!(guard.is_valid());
        told.await.unwrap();
        assert!(taken.elapsed() <= secs(11), "{}: {:?}", lock.name(), taken.elapsed());
    }
}

/// A nap that ends before the lease does loses nothing: it is renewed.
#[tokio::test(start_paused = true)]
async fn a_short_sleep_loses_nothing() {
    let server = EmbeddedServer::new();
    let guard = server.connect().lock("kept").guard().await.unwrap();
    for _ in 0..10 {
        server.suspend(secs(20));
        assert!(guard.is_valid());
        sleep(TICK + ms(10)).await;
        assert!(guard.remaining() > secs(25), "{:?}", guard.remaining());
    }
    guard.unlock().await.unwrap();
}

/// The answer to a re-entry comes behind the end of its hold: that stays lost, and all of it is given back.
#[tokio::test(start_paused = true)]
async fn a_re_entry_that_is_answered_late_revives_nothing() {
    let server = EmbeddedServer::new();
    let lock = server.connect().lock("late");
    let outer = lock.acquire().lease(secs(10)).guard().await.unwrap().unwrap();
    server.inject(Faults::seeded(7).delay(ms(40)));
    let before = server.calls();
    let mut entering = Box::pin(lock.acquire().lease(secs(600)).guard());
    while server.calls() == before {
        let on_its_way = tokio::time::timeout(ms(1), &mut entering).await;
        assert!(on_its_way.is_err(), "the answer takes longer than that");
    }
    server.suspend(secs(10));
    assert_matches!(entering.await, Err(error @ LockError::Lost { .. }) if !error.may_hold());
    assert!(!outer.is_valid());
    sleep(secs(1)).await;
    assert_eq!(server.command(&["EXISTS", "late"]), Ok(Reply::Int(0)));
    assert!(matches!(outer.unlock().await, Err(UnlockError::NotHeld { .. })));
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// It is the client that looks, once for all: who waits for a loss sleeps.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_loss_is_not_woken_in_vain() {
    let server = EmbeddedServer::new();
    let wakes = Arc::new(Wakes::default());
    let guard = server.connect().lock("idle").acquire().lease(secs(3600)).guard().await.unwrap().unwrap();
    let mut lost = guard.lost().boxed();
    let mut is_pending = || lost.poll_unpin(&mut Context::from_waker(&wakes.clone().into())).is_pending();
    // Twice: what it is made of asks to be polled again once it has begun.
    assert!(is_pending() && is_pending());
    let begun = wakes.0.load(Ordering::SeqCst);
    sleep(secs(600)).await;
    assert_eq!(wakes.0.load(Ordering::SeqCst), begun);
}
