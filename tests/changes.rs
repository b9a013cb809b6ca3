//! Leases that are set exactly, and hand-overs, while copies of earlier calls are still on their way (PROTOCOL rules 6,
//! 9 and 10): what a hold says of itself is never more than what the server has.

use support::prelude::*;
use support::sites::{every_kind, load_scripts, Own, Site};

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

    /// That the guard promises no more than the server keeps, which is asked before and, as a renewal may come between,
    /// after.
    async fn is_honest(&self, guard: &Guard) {
        let before = self.site.pttl(&self.own).await;
        let promised = i64::try_from(guard.remaining().as_millis()).unwrap();
        let kept = before.max(self.site.pttl(&self.own).await);
        assert!(promised <= kept.max(0), "{}: says {promised} ms, the server {kept}", self.own.kind.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_undoes_no_later_one() {
    let server = Server::start();
    load_scripts(&server).await;
    every_kind(async |kind| {
        let late = Late::of(kind, &server).await;
        late.guard.set_lease(ms(60_000)).await.unwrap();
        late.copy.release().await;
        late.is_honest(&late.guard).await;
        assert!(late.guard.remaining() > ms(50_000), "{}", kind.name);
        patient("the unlock", late.guard.unlock()).await.unwrap();
    })
    .await;
}

/// The watchdog knows nothing of the change: what it confirms counts no longer than the late copy would leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_change_undoes_a_renewal() {
    let server = Server::start();
    load_scripts(&server).await;
    every_kind(async |kind| {
        let late = Late::of(kind, &server).await;
        let renewals = late.site.proxy.requests(kind.script("renew"));
        patient("a renewal", late.site.proxy.wait_requests(renewals + 1, kind.script("renew"))).await;
        // The server has 30 s again, until the copy comes. Its answer comes behind the renewal's.
        patient("a look", late.guard.verify()).await.unwrap();
        late.copy.release().await;
        late.is_honest(&late.guard).await;
        // No copy can come any more: renewals count in full, and the hold was never lost.
        patient("a renewal that counts", async {
            while late.guard.remaining() < ms(10_000) {
                assert!(late.guard.is_valid(), "{}", kind.name);
                late.is_honest(&late.guard).await;
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
    let server = Server::start();
    load_scripts(&server).await;
    every_kind(async |kind| {
        let Late { site, own, guard, copy } = Late::of(kind, &server).await;
        guard.unlock().await.unwrap();
        let again = patient("the next hold", own.lock.guard()).await.unwrap();
        copy.release().await;
        let kept = site.pttl(&own).await;
        let promised = i64::try_from(again.remaining().as_millis()).unwrap();
        assert!(promised <= kept, "{}: says {promised} ms, the server {kept}", kind.name);
        again.unlock().await.unwrap();
    })
    .await;
}

/// An owner waits for its next turn while a copy of its last release is on its way: it does not get the lock by a
/// hand-over, which that copy would end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_ends_no_hold_that_was_handed_over() {
    let server = Server::start();
    load_scripts(&server).await;
    every_kind(async |kind| {
        let site = Site::start(&server, kind, Locks::builder().command_timeout(COMMAND_TIMEOUT)).await;
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
