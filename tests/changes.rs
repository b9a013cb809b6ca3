//! Exact leases and hand-overs while copies are on their way: no hold says more than the server (rules 6, 9 and 10).

use support::prelude::*;
use support::sites::*;

/// Copies of a call may run for so long.
const COMMAND_TIMEOUT: Duration = secs(2);

/// A hold whose lease was set to 3 s by a call, a copy of which is kept back.
struct Late {
    site: Site,
    own: Own,
    guard: Guard,
    copy: Held,
}

impl Late {
    async fn of(kind: &'static Kind, server: &Server) -> Self {
        let site = Site::start(server, kind, Locks::builder().command_timeout(COMMAND_TIMEOUT)).await;
        let own = site.own();
        let guard = own.lock.guard().await.unwrap();
        // From here on the server knows the script.
        guard.set_lease(ms(30_000)).await.unwrap();
        let copy = site.proxy.hold_back(1, kind.script("extend"));
        guard.set_lease(ms(3000)).await.unwrap();
        assert_eq!(copy.count(), 1);
        Self { site, own, guard, copy }
    }

    async fn is_honest(&self) {
        is_honest(&self.site, &self.own, &self.guard).await;
    }
}

/// A guard promises no more than the server keeps, which is asked before and, as a renewal may come between, after.
async fn is_honest(site: &Site, own: &Own, guard: &Guard) {
    let before = site.pttl(own).await;
    let promised = i64::try_from(guard.remaining().as_millis()).unwrap();
    let kept = before.max(site.pttl(own).await);
    assert!(promised <= kept.max(0), "{}: says {promised} ms, the server {kept}", own.kind.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_undoes_no_later_one() {
    every_kind_at_a_server(async |server, kind| {
        let late = Late::of(kind, server).await;
        late.guard.set_lease(ms(60_000)).await.unwrap();
        late.copy.release().await;
        late.is_honest().await;
        assert!(late.guard.remaining() > ms(50_000), "{}", kind.name);
        patient("the unlock", late.guard.unlock()).await.unwrap();
    })
    .await;
}

/// The watchdog knows nothing of the change: what it confirms counts no longer than the late copy would leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_undoes_a_renewal() {
    every_kind_at_a_server(async |server, kind| {
        let late = Late::of(kind, server).await;
        let renewals = late.site.proxy.requests(kind.script("renew"));
        patient("a renewal", late.site.proxy.wait_requests(renewals + 1, kind.script("renew"))).await;
        // The server has 30 s again, until the copy comes. Its answer comes behind the renewal's.
        patient("a look", late.guard.verify()).await.unwrap();
        late.copy.release().await;
        late.is_honest().await;
        // No copy can come any more: renewals count in full, and the hold was never lost.
        patient("a renewal that counts", async {
            while late.guard.remaining() < ms(10_000) {
                assert!(late.guard.is_valid(), "{}", kind.name);
                late.is_honest().await;
                sleep(ms(20)).await;
            }
        })
        .await;
        patient("the unlock", late.guard.unlock()).await.unwrap();
    })
    .await;
}

/// The same owner has given it back and taken it again: the new hold waits until the copy can't come any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_is_of_its_own_hold() {
    every_kind_at_a_server(async |server, kind| {
        let Late { site, own, guard, copy } = Late::of(kind, server).await;
        guard.unlock().await.unwrap();
        let again = patient("the next hold", own.lock.guard()).await.unwrap();
        copy.release().await;
        is_honest(&site, &own, &again).await;
        again.unlock().await.unwrap();
    })
    .await;
}

/// An owner that waits behind its last release does not get the lock by a hand-over, which a copy of that would end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_ends_no_hold_that_was_handed_over() {
    every_kind_at_a_server(async |server, kind| {
        let site = Site::start(server, kind, Locks::builder().command_timeout(COMMAND_TIMEOUT)).await;
        let own = site.own();
        let other = own.rival(&site.locks);
        let guard = own.lock.guard().await.unwrap();
        let copy = site.proxy.hold_back(1, kind.script("release"));
        guard.unlock().await.unwrap();
        assert_eq!(copy.count(), 1);
        let other = patient("the other's hold", other.lock.guard()).await.unwrap();
        // It is in the line of the process, behind a third, once it has been polled.
        let waits = |lock: Arc<dyn RLock>| tokio::spawn(async move { lock.guard().await.unwrap() });
        let mut third = waits(own.rival(&site.locks).lock);
        assert!(tokio::time::timeout(ms(20), &mut third).await.is_err(), "{}: it waits", kind.name);
        let mut waiting = waits(own.lock.clone());
        assert!(tokio::time::timeout(ms(20), &mut waiting).await.is_err(), "{}: it waits", kind.name);
        other.unlock().await.unwrap();
        patient("the third's hold", third).await.unwrap().unlock().await.unwrap();
        copy.release().await;
        let again = patient("the next hold", waiting).await.unwrap();
        again.verify().await.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        again.unlock().await.unwrap();
    })
    .await;
}
