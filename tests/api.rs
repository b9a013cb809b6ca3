//! What types promise to their users: they can be sent, shared and kept, and `RLock` can be a trait object.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use lockson::{Acquire, Health, Holder, InvalidLease, InvalidOwner, Leftover, Mutex, ReentrantLock, Reply, Request};
use support::prelude::*;

fn value<T: Send + Sync + Unpin + Debug + 'static>() {}
fn plain<T: Clone + PartialEq>() {}
fn error<T: std::error::Error + Display + Clone + PartialEq + Send + Sync + 'static>() {}
fn future<T: std::future::Future + Send>(_: impl FnOnce(Locks) -> T) {}

#[test]
fn values_are_send_sync_unpin_debug_and_static() {
    value::<Locks>();
    value::<Builder>();
    value::<Guard>();
    value::<lockson::FencedGuard>();
    value::<lockson::FencedGuards>();
    value::<lockson::FencedHold<'static>>();
    value::<lockson::FencedLock>();
    value::<lockson::MultiLock<lockson::FencedGuards>>();
    value::<Reply>();
    value::<ReentrantLock>();
    value::<Mutex>();
    value::<lockson::PlainLock>();
    value::<lockson::ReadWriteLock>();
    value::<lockson::ReadLock>();
    value::<lockson::WriteLock>();
    value::<Arc<dyn RLock>>();
    value::<lockson::MultiLock>();
    value::<lockson::RedLock<lockson::kind::Reentrant>>();
    value::<Acquire<'static>>();
    value::<Acquire<'static, lockson::FencedGuard>>();
    value::<Acquire<'static, lockson::FencedGuards>>();
    value::<Request>();
    value::<Owner>();
    value::<Holder>();
    value::<Health>();
    value::<HoldState>();
    value::<lockson::Semaphore>();
    value::<lockson::SemaphorePermit>();
    value::<lockson::AcquirePermits<'static>>();
    value::<lockson::PermitSemaphore>();
    value::<lockson::PermitGuard>();
    value::<lockson::PermitId>();
    value::<lockson::AcquirePermits<'static, lockson::kind::Expirable>>();
    value::<lockson::Latch>();
    value::<lockson::WaitOutcome>();
    value::<lockson::EmbeddedServer>();
}

#[test]
fn plain_values_compare() {
    plain::<Owner>();
    plain::<Request>();
    plain::<Holder>();
    plain::<Health>();
    plain::<HoldState>();
    plain::<LostReason>();
    plain::<lockson::PermitId>();
    plain::<lockson::WaitOutcome>();
    fn parses<T: FromStr<Err = InvalidOwner>>() {}
    parses::<Owner>();
}

#[test]
fn errors_are_errors() {
    error::<LockError>();
    error::<UnlockError>();
    error::<QueryError>();
    error::<HoldError>();
    error::<RunError>();
    error::<Lost>();
    error::<InvalidLease>();
    error::<ConnectError>();
    error::<NameError>();
    error::<Refused>();
    error::<Leftover>();
    error::<InvalidOwner>();
    error::<lockson::SyncError>();
    error::<lockson::InvalidPermitId>();
}

#[test]
fn an_error_tells_its_cause() {
    fn causes<C: std::error::Error + 'static>(errors: &[&dyn std::error::Error]) {
        for error in errors {
            let source = error.source().unwrap_or_else(|| panic!("{error:?} has no source"));
            assert!(source.is::<C>(), "{error:?}");
            assert!(error.to_string().contains(&source.to_string()), "{error}: programs log this alone");
        }
    }
    let refused = || QueryError::Refused { name: String::new(), why: Refused::ReadOnly };
    causes::<NameError>(&[&QueryError::Name(NameError::Empty)]);
    causes::<Refused>(&[&refused(), &ConnectError::Refused(Refused::ReadOnly)]);
    for any in [refused(), QueryError::Closed, QueryError::Name(NameError::Empty)] {
        causes::<QueryError>(&[&LockError::Query(any.clone()), &UnlockError::Query(any.clone())]);
        causes::<QueryError>(&[&SyncError::Query(any.clone()), &HoldError::Query(any.clone())]);
        causes::<QueryError>(&[&RunError::Query(any)]);
    }
    let lease = InvalidLease { lease: Duration::ZERO, min: Duration::ZERO, max: Duration::ZERO };
    causes::<InvalidLease>(&[&LockError::Lease(lease), &SyncError::Lease(lease), &HoldError::Lease(lease)]);
}

#[test]
fn every_future_can_be_spawned() {
    future(|locks| async move {
        let lock = locks.lock("x");
        lock.lock().await.unwrap();
        assert!(lock.try_lock().await.unwrap().is_acquired());
        assert!(lock.acquire().wait(Duration::ZERO).await.unwrap().is_acquired());
        lock.unlock().await.unwrap();
        lock.holder().await.unwrap();
        lock.force_unlock().await.unwrap();
        let guard = lock.guard().await.unwrap();
        guard.run(async {}).await.unwrap();
        guard.lost().await;
        guard.verify().await.unwrap();
        guard.set_lease(Duration::ZERO).await.unwrap();
        guard.unlock().await.unwrap();
        let shared = locks.read_write_lock("y");
        shared.read().guard().await.unwrap().unlock().await.unwrap();
        shared.write().lock().await.unwrap();
        shared.read().holders().await.unwrap();
        let fenced = locks.fenced_lock("z").guard().await.unwrap();
        fenced.run_if_held("", &["{z}"], &["1"]).await.unwrap();
        let plain = locks.plain_lock("z");
        plain.guard().await.unwrap().unlock().await.unwrap();
        plain.remaining_ttl().await.unwrap();
        plain.force_unlock().await.unwrap();
        let semaphore = locks.semaphore("s");
        assert!(semaphore.acquire(1).wait(Duration::ZERO).await.unwrap().is_acquired());
        semaphore.guard(1).await.unwrap().release().await.unwrap();
        semaphore.drain_permits().await.unwrap();
        let permits = locks.permit_semaphore("p");
        let guard = permits.acquire(1).guard().await.unwrap().unwrap();
        guard.run(async {}).await.unwrap();
        guard.set_lease(Duration::ZERO).await.unwrap();
        permits.release(&guard.ids()).await.unwrap();
        guard.release().await.unwrap();
        let latch = locks.latch("l");
        latch.count_down().await.unwrap();
        assert_eq!(latch.wait().await.unwrap(), lockson::WaitOutcome::Opened);
        locks.shutdown(Duration::ZERO).await.unwrap();
        let any: Vec<Arc<dyn RLock>> = vec![Arc::new(locks.lock("a")), Arc::new(locks.mutex("b"))];
        let multi = lockson::MultiLock::new(any.clone());
        multi.acquire().wait(Duration::ZERO).guard().await.unwrap();
        multi.owned_by(&Owner::unique()).lock().await.unwrap();
        multi.unlock().await.unwrap();
        let red = lockson::RedLock::new(vec![locks.lock("c")]).fresh();
        assert!(red.acquire().lease(Duration::ZERO).await.unwrap().is_acquired());
        assert!(red.try_lock().await.unwrap().is_acquired());
        red.unlock().await.unwrap();
        for lock in &any {
            lock.lock().await.unwrap();
            lock.owned_by(&Owner::unique()).guard().await.unwrap().unlock().await.unwrap();
        }
    });
}
