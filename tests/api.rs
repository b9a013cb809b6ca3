//! What types promise to their users: they can be sent, shared and kept, and `RLock` can be a trait object.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use lockson::kind::Reentrant;
use lockson::*;
use support::prelude::{ms, Arc};

/// A function of no arguments for each of these types: it compiles if they are what it asks for.
macro_rules! all {
    ($($of:ty),+ $(,)? => $($is:tt)+) => {{
        fn each<T: $($is)+>() {}
        $(each::<$of>();)+
    }};
}

fn future<T: std::future::Future + Send>(_: impl FnOnce(Locks) -> T) {}

#[test]
fn types_are_what_users_count_on() {
    all!(Locks, Builder, EmbeddedServer, Owner, Holder, Health, NodeHealth, Role, Topology, HoldState, Request, Reply,
        WaitOutcome, PermitId, MapEntry => Send + Sync + Unpin + Debug + 'static);
    all!(ReentrantLock, Mutex, PlainLock, ReadWriteLock, ReadLock, WriteLock, FencedLock, Arc<dyn RLock>, MultiLock,
        OncePer, MultiLock<FencedGuards>, RedLock<Reentrant>, Semaphore, PermitSemaphore, Latch
        => Send + Sync + Unpin + Debug + 'static);
    all!(blocking::Locks, blocking::AnyLock, blocking::Guard => Send + Sync + Unpin + Debug + 'static);
    all!(Guard, FencedGuard, FencedGuards, FencedHold<'static>, SemaphorePermit, PermitGuard
        => Send + Sync + Unpin + Debug + 'static);
    all!(Acquire<'static>, Acquire<'static, FencedGuard>, Acquire<'static, FencedGuards>, AcquirePermits<'static>,
        AcquirePermits<'static, kind::Expirable> => Send + Sync + Unpin + Debug + 'static);
    all!(Owner, Request, Holder, Health, NodeHealth, Role, Topology, HoldState, LostReason, PermitId, WaitOutcome,
        Replicas => Clone + PartialEq);
    all!(Owner => FromStr<Err = InvalidOwner>);
    all!(LockError, UnlockError, QueryError, HoldError, OnceError, RunError, SyncError, Lost, InvalidLease,
        ConnectError, NameError, Refused, Leftover, InvalidOwner, InvalidPermitId
        => std::error::Error + Display + Clone + PartialEq + Send + Sync + 'static);
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
        causes::<QueryError>(&[&RunError::Query(any.clone())]);
        causes::<LockError>(&[&OnceError::Lock(any.into())]);
    }
    let lease = InvalidLease { lease: ms(0), min: ms(0), max: ms(0) };
    causes::<InvalidLease>(&[&LockError::Lease(lease), &SyncError::Lease(lease), &HoldError::Lease(lease)]);
}

#[test]
fn every_future_can_be_spawned() {
    future(|locks| async move {
        let lock = locks.lock("x");
        lock.lock().await.unwrap();
        assert!(lock.try_lock().await.unwrap().is_acquired());
        assert!(lock.acquire().wait(ms(0)).await.unwrap().is_acquired());
        lock.unlock().await.unwrap();
        lock.holder().await.unwrap();
        lock.force_unlock().await.unwrap();
        let guard = lock.guard().await.unwrap();
        guard.run(async {}).await.unwrap();
        guard.lost().await;
        guard.verify().await.unwrap();
        guard.set_lease(ms(0)).await.unwrap();
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
        assert!(semaphore.acquire(1).wait(ms(0)).await.unwrap().is_acquired());
        semaphore.guard(1).await.unwrap().release().await.unwrap();
        semaphore.drain_permits().await.unwrap();
        let permits = locks.permit_semaphore("p");
        let guard = permits.acquire(1).guard().await.unwrap().unwrap();
        guard.run(async {}).await.unwrap();
        guard.set_lease(ms(0)).await.unwrap();
        permits.release(&guard.ids()).await.unwrap();
        guard.release().await.unwrap();
        let latch = locks.latch("l");
        latch.count_down().await.unwrap();
        assert_eq!(latch.wait().await.unwrap(), WaitOutcome::Opened);
        locks.shutdown(ms(0)).await.unwrap();
        let any: Vec<Arc<dyn RLock>> = vec![Arc::new(locks.lock("a")), Arc::new(locks.mutex("b"))];
        let multi = MultiLock::new(any.clone());
        multi.acquire().wait(ms(0)).guard().await.unwrap();
        multi.owned_by(&Owner::unique()).lock().await.unwrap();
        multi.unlock().await.unwrap();
        let red = RedLock::new(vec![locks.lock("c")]).fresh();
        assert!(red.acquire().lease(ms(0)).await.unwrap().is_acquired());
        assert!(red.try_lock().await.unwrap().is_acquired());
        red.unlock().await.unwrap();
        for lock in &any {
            lock.lock().await.unwrap();
            lock.owned_by(&Owner::unique()).guard().await.unwrap().unlock().await.unwrap();
        }
    });
}
