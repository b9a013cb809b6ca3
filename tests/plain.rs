//! The plain lock when answers are lost and calls come late. Rules 5, 6 and 23.

use lockson::PlainLock;
use support::prelude::*;

const LIMIT: Duration = secs(20);
const COMMAND_TIMEOUT: Duration = ms(500);

/// A lock behind a proxy.
struct Site {
    proxy: Proxy,
    lock: PlainLock,
    name: String,
}

impl Site {
    async fn new() -> Self {
        let proxy = Proxy::start(Server::shared().port());
        let locks = Locks::builder().command_timeout(COMMAND_TIMEOUT).connect(&proxy.url()).await.unwrap();
        let name = unique("plain-faults");
        let lock = locks.plain_lock(&name).owned_by(&Owner::named("one").unwrap());
        // The scripts are known from here on, and the server's clock.
        let guard = lock.guard().await.unwrap();
        let (_, heir) = hand_over(&lock, guard).await;
        heir.unwrap().unlock().await.unwrap();
        lock.guard().await.unwrap().unlock().await.unwrap();
        Self { proxy, lock, name }
    }

    fn calls(&self, verb: &str) -> Filter {
        Filter::script_of(&support::files::sent(&format!("plain/{verb}"))).with(&self.name)
    }

    async fn value(&self) -> Option<String> {
        Server::shared().raw().await.get(&self.name).await
    }

    async fn eventually_free(&self) {
        eventually(LIMIT, "given back", async || self.value().await.is_none()).await;
    }
}

/// Gives a guard back while another owner of the client waits.
async fn hand_over(lock: &PlainLock, guard: Guard) -> (Result<(), UnlockError>, Result<Guard, LockError>) {
    let heir = lock.owned_by(&Owner::named("heir").unwrap());
    let mut waiting = Box::pin(heir.guard());
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    patient("the hand-over", async { tokio::join!(guard.unlock(), waiting) }).await
}

#[tokio::test]
async fn lost_answers_are_asked_for_again() {
    let site = Site::new().await;
    for round in 0..3 {
        let fault = site.proxy.cut_after(1 + round, site.calls("acquire"));
        let guard = site.lock.guard().await.unwrap();
        fault.done().await;
        let first = site.value().await.unwrap();
        let fault = site.proxy.cut_after(1 + round, site.calls("hand_over"));
        let (given, heir) = hand_over(&site.lock, guard).await;
        assert_eq!(given, Ok(()));
        let heir = heir.unwrap();
        // After 20 ms, or in doubt, it is a release: then the next acquisition took it.
        site.proxy.heal();
        drop(fault);
        heir.verify().await.unwrap();
        assert_ne!(site.value().await.unwrap(), first);
        heir.unlock().await.unwrap();
        // Another owner: copies of an acquire of that one may still come, so that its release is a settle.
        let guard = site.lock.owned_by(&Owner::unique()).guard().await.unwrap();
        let fault = site.proxy.cut_after(1 + round, site.calls("release"));
        // That the key is gone does not show who did it.
        assert!(matches!(guard.unlock().await, Err(UnlockError::Unconfirmed { .. })));
        fault.done().await;
        assert_eq!(site.value().await, None);
    }
}

/// An unlock that comes late finds another token, were it the next instant and the same owner.
#[tokio::test]
async fn a_late_unlock_changes_nothing() {
    let site = Site::new().await;
    let guard = site.lock.guard().await.unwrap();
    let held = site.proxy.hold_back(1, site.calls("release"));
    guard.unlock().await.unwrap();
    let direct = Server::shared().locks().await.plain_lock(&site.name);
    let next = direct.guard().await.unwrap();
    let (token, answers) = (site.value().await, held.release().await);
    assert_eq!(answers.len(), 1);
    assert_eq!(site.value().await, token);
    next.verify().await.unwrap();
    next.unlock().await.unwrap();
}

/// An acquire that comes late, of a hold that is over or of a call that was dropped, is given back.
#[tokio::test]
async fn a_late_acquire_is_given_back() {
    let site = Site::new().await;
    let held = site.proxy.hold_back(1, site.calls("acquire"));
    site.lock.guard().await.unwrap().unlock().await.unwrap();
    held.release().await;
    site.eventually_free().await;

    let held = site.proxy.hold_back(1, site.calls("acquire"));
    let mut dropped = Box::pin(site.lock.guard());
    tokio::select! {
        _ = dropped.as_mut() => panic!("it was held back"),
        () = held.wait_for(1) => {}
    }
    drop(dropped);
    held.release().await;
    // While that may still be there, the owner's next hold is another one, and stays.
    let guard = patient("the next hold", site.lock.guard()).await.unwrap();
    sleep(2 * COMMAND_TIMEOUT).await;
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    site.eventually_free().await;
}

/// A hand-over that may or may not have happened ends in a hold that one of the two has, or nobody.
#[tokio::test]
async fn a_late_hand_over_is_given_back() {
    let site = Site::new().await;
    let guard = site.lock.guard().await.unwrap();
    let held = site.proxy.hold_back(1, site.calls("hand_over"));
    let (given, heir) = hand_over(&site.lock, guard).await;
    assert_eq!(given, Ok(()));
    let heir = heir.unwrap();
    heir.unlock().await.unwrap();
    held.release().await;
    site.eventually_free().await;
    patient("the next", site.lock.guard()).await.unwrap().unlock().await.unwrap();
}
