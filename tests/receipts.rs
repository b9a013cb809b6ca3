//! Permits and counts under lost answers, late copies, lost messages and cut connections (PROTOCOL rules 15 and 22).

use support::permits::Kind;
use support::prelude::*;
use support::sites::Place;
use support::Reply;

/// Longer than a test takes: `not_after` alone keeps no late copy out.
const COMMAND_TIMEOUT: Duration = secs(10);

/// The scripts of a kind: acquire, give back, cancel.
fn scripts(kind: &str) -> [&'static str; 3] {
    match kind {
        "counted" => ["semaphore/acquire", "semaphore/change", "cancel"],
        _ => ["permit_semaphore/acquire", "permit_semaphore/release", "permit_semaphore/cancel"],
    }
}

/// A semaphore with ten permits, of both clients of a place.
struct Site {
    at: Place,
    ours: Kind,
    theirs: Kind,
}

impl Site {
    async fn start(kind: &str, builder: Builder) -> Self {
        let at = Place::start(builder, &scripts(kind)).await;
        let [ours, theirs] = [&at.ours, &at.theirs].map(|locks| Kind::of(kind, locks, &at.name));
        assert!(theirs.set(10).await);
        Self { at, ours, theirs }
    }

    async fn until_free(&self, permits: i64) {
        eventually(ms(20_000), "the permits", async || self.theirs.available().await == permits).await;
    }
}

async fn cut_calls_are_done_once(kind: &str) {
    let site = Site::start(kind, Locks::builder().command_timeout(ms(500))).await;
    let [acquire, give_back, _] = scripts(kind);
    for cuts in 1..4 {
        for answers in [false, true] {
            let cut = |text| match answers {
                true => site.at.proxy.cut_after(cuts, Filter::of(text)),
                false => site.at.proxy.cut_before(cuts, Filter::of(text)),
            };
            let fault = cut(acquire);
            let guard = patient("permits", site.ours.guard(3, ms(19_000))).await.unwrap().unwrap();
            fault.done().await;
            assert_eq!(site.theirs.available().await, 7, "{cuts} cuts, answers {answers}");
            let fault = cut(give_back);
            patient("the release", guard.release()).await.unwrap();
            fault.done().await;
            assert_eq!(site.theirs.available().await, 10, "{cuts} cuts, answers {answers}");
        }
    }
}

/// A taker goes away while its calls are kept back: they are cancelled, and take nothing when they come.
async fn late_copies_take_nothing(kind: &'static str) {
    let site = Site::start(kind, Locks::builder().command_timeout(COMMAND_TIMEOUT)).await;
    let [acquire, _, cancel] = scripts(kind);
    for _ in 0..3 {
        let held = site.at.proxy.hold_back(1000, Filter::of(acquire));
        let taker = spawn_with(site.ours.clone(), |ours| async move { ours.guard(3, ms(60_000)).await.map(drop) });
        held.wait_for(1).await;
        let before = site.at.proxy.requests(Filter::of(cancel));
        taker.abort();
        site.at.proxy.wait_requests(before + 1, Filter::of(cancel)).await;
        // Its answer is there when that of a later call is.
        site.until_free(10).await;
        assert_eq!(site.ours.available().await, 10);
        site.at.proxy.heal();
        let answers = held.release().await;
        assert!(!answers.is_empty());
        for answer in answers {
            // Busy: not late, not taken.
            assert!(matches!(&answer, Reply::List(items) if items[0].int() == 0), "{answer:?}");
        }
        assert_eq!(site.theirs.available().await, 10);
    }
    let guard = patient("permits", site.ours.guard(10, ms(19_000))).await.unwrap();
    assert!(guard.is_some());
}

/// A call in doubt is answered busy; its cancellation comes behind a later call of the taker, and leaves that alone.
async fn a_late_cancellation_is_of_its_own_call(kind: &'static str) {
    let site = Site::start(kind, Locks::builder().command_timeout(COMMAND_TIMEOUT)).await;
    let [acquire, _, cancel] = scripts(kind);
    let all = site.theirs.guard(10, ms(0)).await.unwrap().unwrap();
    let lost = site.at.proxy.hold_back(1, Filter::of(acquire));
    let held = site.at.proxy.hold_back(1, Filter::of(cancel));
    let taker = spawn_with(site.ours.clone(), |ours| async move { ours.guard(3, ms(60_000)).await.unwrap().unwrap() });
    held.wait_for(1).await;
    all.release().await.unwrap();
    let guard = patient("the permits", taker).await.unwrap();
    assert_eq!(site.theirs.available().await, 7);
    held.release().await;
    lost.release().await;
    assert_eq!(site.theirs.available().await, 7);
    guard.release().await.unwrap();
    assert_eq!(site.theirs.available().await, 10);
}

/// Nobody hears of the release, or of anything: a waiter looks within the cap.
async fn lost_messages_cost_the_cap(kind: &str) {
    let site = Site::start(kind, Locks::builder()).await;
    site.at.proxy.swallow_messages(true);
    let all = site.theirs.guard(10, ms(0)).await.unwrap().unwrap();
    let waiting = site.ours.guard(1, ms(60_000));
    let [acquire, ..] = scripts(kind);
    let (guard, ()) = tokio::join!(patient("the permit", waiting), async {
        // Before it subscribed, and after: answered when a call behind them is.
        site.at.proxy.wait_requests(2, Filter::of(acquire)).await;
        site.ours.available().await;
        all.release().await.unwrap();
    });
    assert!(guard.unwrap().is_some());
}

/// The same by a paused clock: right behind a look of the waiter, so that it waits as long as it ever does.
#[tokio::test(start_paused = true)]
async fn lost_messages_cost_no_more_than_the_cap() {
    for kind in ["counted", "leased"] {
        let server = EmbeddedServer::new();
        let (locks, other) = (server.connect(), server.connect());
        let [ours, theirs] = [&locks, &other].map(|locks| Kind::of(kind, locks, "permits"));
        assert!(theirs.set(10).await);
        server.lose_messages(true);
        // A pause is half of the cap to all of it, by chance.
        for _ in 0..20 {
            let all = theirs.guard(10, ms(0)).await.unwrap().unwrap();
            let waiter = spawn_with(ours.clone(), |ours| async move { ours.guard(1, ms(60_000)).await });
            sleep(ms(10)).await;
            assert!(locks.health().subscriptions > 0 && !waiter.is_finished());
            all.release().await.unwrap();
            let began = tokio::time::Instant::now();
            let guard = waiter.await.unwrap().unwrap();
            let took = began.elapsed();
            // Sooner, and it was told.
            assert!(took >= ms(450) && took <= ms(1100), "{kind}: {took:?}");
            guard.unwrap().release().await.unwrap();
        }
    }
}

/// The connections are cut while a waiter waits and nothing polls: it looks again when they are back.
async fn a_gap_makes_waiters_look(kind: &str) {
    let site = Site::start(kind, Locks::builder().wait_cap(ms(60_000))).await;
    let all = site.theirs.guard(10, ms(0)).await.unwrap().unwrap();
    let waiting = site.ours.guard(1, ms(60_000));
    let (guard, ()) = tokio::join!(patient("the permit", waiting), async {
        eventually(ms(20_000), "it waits", async || site.at.ours.health().subscriptions > 0).await;
        site.at.proxy.wait_requests(1, Filter::Subscribe).await;
        site.at.proxy.refuse(true);
        all.release().await.unwrap();
        site.at.proxy.refuse(false);
    });
    assert!(guard.unwrap().is_some());
}

/// Silent for longer than the outage limit: an error, never "too few"; and nothing stays taken.
async fn silence_is_an_error(kind: &str) {
    let site = Site::start(kind, Locks::builder().command_timeout(ms(200)).outage_limit(ms(600))).await;
    site.at.proxy.black_hole_requests(true);
    for wait in [ms(0), ms(300), ms(60_000)] {
        let error = patient("the error", site.ours.guard(1, wait)).await.map(drop).unwrap_err();
        assert!(matches!(error, SyncError::Query(QueryError::Unreachable { .. })), "{error}");
    }
    site.at.proxy.heal();
    site.until_free(10).await;
    assert!(site.at.server.raw().await.exists(&site.at.name).await);
}

/// A server without memory gives no permits, and takes them back.
async fn a_full_server_takes_back(kind: &str) {
    let site = Site::start(kind, Locks::builder()).await;
    let guard = site.ours.guard(3, ms(0)).await.unwrap().unwrap();
    let mut raw = site.at.server.raw().await;
    raw.must(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = site.ours.guard(1, ms(0)).await.map(drop).unwrap_err();
    assert!(matches!(&error, SyncError::Query(QueryError::Refused { why: Refused::OutOfMemory, .. })), "{error}");
    assert_eq!(site.ours.available().await, 7);
    guard.release().await.unwrap();
    assert_eq!(site.ours.available().await, 10);
    raw.must(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert!(site.ours.guard(10, ms(0)).await.unwrap().is_some());
}

macro_rules! both {
    ($($case:ident),*) => { $(mod $case {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn counted() {
            super::$case("counted").await;
        }
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn leased() {
            super::$case("leased").await;
        }
    })* };
}

both!(
    cut_calls_are_done_once,
    late_copies_take_nothing,
    a_late_cancellation_is_of_its_own_call,
    lost_messages_cost_the_cap,
    a_gap_makes_waiters_look,
    silence_is_an_error,
    a_full_server_takes_back
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_counts_once_whatever_is_cut() {
    let scripts = ["latch/set", "latch/count_down", "latch/delete", "latch/inspect"];
    let [set, count_down, delete, inspect] = scripts;
    let Place { server: _server, proxy, ours, name, .. } =
        Place::start(Locks::builder().command_timeout(ms(500)), &scripts).await;
    let latch = ours.latch(&name);
    for cuts in 1..4 {
        let fault = proxy.cut_after(cuts, Filter::of(set));
        assert!(latch.try_set_count(3).await.unwrap());
        fault.done().await;
        for left in [2, 1] {
            let fault = proxy.cut_after(cuts, Filter::of(count_down));
            assert_eq!(latch.count_down().await.unwrap(), Some(left));
            fault.done().await;
        }
        let looks = proxy.requests(Filter::of(inspect));
        let waiter = spawn_with(latch.clone(), |latch| async move { latch.wait().await.unwrap() });
        proxy.wait_requests(looks + 1, Filter::of(inspect)).await;
        // One way or the other, by a call whose answer is lost, on connections that were cut.
        let (last, expected) =
            if cuts == 2 { (delete, WaitOutcome::Deleted) } else { (count_down, WaitOutcome::Opened) };
        let fault = proxy.cut_after(cuts, Filter::of(last));
        match expected {
            WaitOutcome::Deleted => assert!(latch.delete().await.unwrap()),
            _ => assert_eq!(latch.count_down().await.unwrap(), Some(0)),
        }
        fault.done().await;
        assert_eq!(patient("the latch", waiter).await.unwrap(), expected);
    }
}

/// Its caller hears that there is no latch: a copy of the call that comes later does not count down the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_count_down_is_not_of_the_next_latch() {
    let count_down = "latch/count_down";
    let builder = Locks::builder().command_timeout(COMMAND_TIMEOUT);
    let Place { server: _server, proxy, ours, name, .. } = Place::start(builder, &[count_down]).await;
    let latch = ours.latch(&name);
    let held = proxy.hold_back(1, Filter::of(count_down));
    let undo = proxy.hold_back(1000, Filter::of("latch/cancel"));
    let mut counted = spawn_with(latch.clone(), |latch| async move { latch.count_down().await.unwrap() });
    undo.wait_for(1).await;
    // It is told so when the copy can't count any more.
    assert!(tokio::time::timeout(ms(50), &mut counted).await.is_err());
    proxy.heal();
    assert_eq!(patient("the answer", counted).await.unwrap(), None);
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(held.release().await.len(), 1);
    assert_eq!(latch.count().await.unwrap(), 2);
}

/// Its answer is lost, and others give and take before its next copy comes: that sets nothing again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_set_once() {
    let site = Site::start("leased", Locks::builder().command_timeout(COMMAND_TIMEOUT)).await;
    let set = "permit_semaphore/set";
    site.at.server.raw().await.must(&["SCRIPT", "LOAD", &support::files::sent(set)]).await;
    let [ours, theirs] = [&site.at.ours, &site.at.theirs].map(|locks| locks.permit_semaphore(&site.at.name));
    // A client's first call is late, and does nothing.
    assert_eq!(ours.available_permits().await.unwrap(), 10);
    let before = site.at.proxy.requests(Filter::of(set));
    let cut = site.at.proxy.cut_after(1, Filter::of(set));
    let next = site.at.proxy.hold_back(1, Filter::of(set));
    let call = tokio::spawn(async move { ours.set_permits(20).await });
    cut.done().await;
    theirs.add_permits(5).await.unwrap();
    next.wait_for(1).await;
    next.release().await;
    patient("the call", call).await.unwrap().unwrap();
    assert!(site.at.proxy.requests(Filter::of(set)) >= before + 2);
    assert_eq!(theirs.available_permits().await.unwrap(), 25);
}
