//! What the crate says through `tracing`: a span for each acquisition, warnings for operators, and never a secret.

use support::prelude::*;
use tracing::Level;

fn warned(logs: &Logs, fragment: &str) -> bool {
    logs.find(Level::WARN, fragment).iter().any(|line| line.contains("lockson: "))
}

/// Kind, name, owner, attempts, waited, outcome.
#[tokio::test(start_paused = true)]
async fn a_span_tells_an_acquisition() {
    let (logs, _guard) = Logs::scoped();
    let locks = EmbeddedServer::new().connect();
    let lock = locks.lock("spanned");
    lock.lock().await.unwrap();
    let held = logs.wait_for("lockson: close").await;
    for part in ["kind=\"lock\"", "name=\"spanned\"", "owner=", "attempts=1", "waited=", "outcome=\"held\""] {
        assert!(held.contains(part), "{part} in {held}");
    }
    assert!(held.contains(locks.client_id()));
    logs.clear();
    let stranger = locks.mutex("spanned").owned_by(&lockson::Owner::unique());
    assert!(!stranger.acquire().wait(ms(100)).await.unwrap().is_acquired());
    let busy = logs.wait_for("lockson: close").await;
    assert!(busy.contains("outcome=\"busy\"") && busy.contains("kind=\"mutex\""), "{busy}");
    logs.clear();
    assert!(lock.acquire().lease(ms(1)).await.is_err());
    let failed = logs.wait_for("lockson: close").await;
    assert!(failed.contains("outcome=") && failed.contains("outside"), "{failed}");
}

/// In the words of OpenTelemetry: what a call is, and by which word it failed; around the work that a hold covers, and
/// of permits too.
#[tokio::test(start_paused = true)]
async fn spans_tell_of_work_releases_and_permits() {
    let (logs, _guard) = Logs::scoped();
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let closed = |parts: &[&str]| {
        let lines = logs.lines();
        let found = lines.iter().any(|line| line.contains("lockson: close") && parts.iter().all(|p| line.contains(p)));
        assert!(found, "{parts:?} in {lines:#?}");
        logs.clear();
    };
    let call = ["otel.kind=\"client\"", "db.system.name=\"redis\""];
    let guard = locks.lock("spanned").guard().await.unwrap();
    closed(&[&call[..], &["acquire{", "db.operation.name=\"acquire\""]].concat());
    guard.run(async { tracing::info!(target: "lockson", "at work") }).await.unwrap();
    assert!(logs.find(Level::INFO, "at work").iter().any(|line| line.contains("hold{name=\"spanned\"")));
    closed(&["hold{", "owner=", "outcome=\"done\""]);
    guard.unlock().await.unwrap();
    closed(&[&call[..], &["release{", "name=\"spanned\"", "db.operation.name=\"release\"", "\"released\""]].concat());
    let guard = locks.lock("spanned").guard().await.unwrap();
    server.wipe();
    assert!(guard.run(std::future::pending::<()>()).await.is_err());
    closed(&["hold{", "error.type=\"lost\""]);
    assert!(guard.unlock().await.is_err());
    closed(&["release{", "error.type=\"not_released\""]);
    let permits = locks.permit_semaphore("permits");
    assert!(permits.try_set_permits(1).await.unwrap());
    let permit = permits.guard(1).await.unwrap();
    closed(&["acquire{", "kind=\"permit_semaphore\"", "name=\"permits\"", "attempts=1", "outcome=\"held\""]);
    permit.release().await.unwrap();
    closed(&["release{", "name=\"permits\"", "outcome=\"released\""]);
    server.stop();
    assert!(permits.acquire(1).wait(secs(1)).guard().await.is_err());
    closed(&["acquire{", "error.type=\"unreachable\""]);
}

/// Of a lock that is made of others too: one span of its own, around its members'.
#[tokio::test(start_paused = true)]
async fn a_span_tells_an_acquisition_of_several() {
    let (logs, _guard) = Logs::scoped();
    let servers = [EmbeddedServer::new(), EmbeddedServer::new(), EmbeddedServer::new()];
    let clients = servers.each_ref().map(EmbeddedServer::connect);
    let red = || RedLock::new(clients.iter().map(|locks| locks.lock("voted"))).fresh();
    let both = MultiLock::new(vec![Arc::new(red()) as Arc<dyn RLock>, Arc::new(clients[0].lock("other"))]);
    let told = |line: &str, parts: &[&str]| {
        // Its own part, without that of the span around it.
        let (_, own) = line.rsplit_once("acquire{").unwrap();
        ["owner=", "waited=", clients[0].client_id()].iter().chain(parts).all(|part| own.contains(part))
    };
    let guard = red().guard().await.unwrap();
    let held = logs.wait_for("lockson: close").await;
    assert!(told(&held, &["kind=\"red\"", "name=\"voted\"", "attempts=1", "outcome=\"held\""]), "{held}");
    logs.clear();
    let stranger = red().owned_by(&Owner::unique());
    assert!(!stranger.acquire().wait(ms(500)).await.unwrap().is_acquired());
    let busy = logs.wait_for("lockson: close").await;
    assert!(told(&busy, &["kind=\"red\"", "outcome=\"busy\""]) && !busy.contains("attempts=1 "), "{busy}");
    logs.clear();
    assert!(red().acquire().lease(secs(61)).await.is_err());
    let failed = logs.wait_for("lockson: close").await;
    assert!(told(&failed, &["kind=\"red\"", "outcome=", "outside"]), "{failed}");
    guard.unlock().await.unwrap();
    logs.clear();
    both.guard().await.unwrap().unlock().await.unwrap();
    let closed = |parts: &[&str]| logs.lines().iter().any(|line| line.contains("lockson: close") && told(line, parts));
    let multi = ["kind=\"multi\"", "name=\"voted + other\"", "attempts=1", "outcome=\"held\""];
    assert!(closed(&multi) && closed(&["kind=\"lock\"", "name=\"other\""]), "{:?}", logs.lines());
}

/// A vote that is lost says whether the lock is.
#[tokio::test(start_paused = true)]
async fn a_lost_vote_says_what_it_means() {
    const VOTE: &str = "a vote was lost: most servers still vote for this owner";
    const LOST: &str = "lost: somebody else may have this lock now";
    let (logs, _guard) = Logs::scoped();
    let servers = [EmbeddedServer::new(), EmbeddedServer::new(), EmbeddedServer::new()];
    let clients = servers.each_ref().map(EmbeddedServer::connect);
    let lock = RedLock::new(clients.iter().map(|locks| locks.lock("voted"))).fresh();
    let guard = lock.guard().await.unwrap();
    servers[0].wipe();
    sleep(secs(20)).await;
    assert!(guard.is_valid());
    assert_eq!((logs.find(Level::WARN, VOTE).len(), logs.find(Level::WARN, LOST).len()), (1, 0));
    servers[1].wipe();
    sleep(secs(20)).await;
    assert!(!guard.is_valid());
    assert_eq!((logs.find(Level::WARN, VOTE).len(), logs.find(Level::WARN, LOST).len()), (1, 1));
}

/// Uncertain, the failed batch, the gap, and at the deadline Lost.
#[tokio::test(start_paused = true)]
async fn an_outage_is_told_step_by_step() {
    let (logs, _guard) = Logs::scoped();
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let guard = locks.lock("cut-off").guard().await.unwrap();
    let waiter = server.connect();
    let waiting = tokio::spawn(async move { waiter.lock("cut-off").acquire().wait(secs(120)).await });
    sleep(ms(100)).await;
    server.stop();
    patient_virtual(guard.lost()).await;
    assert!(warned(&logs, "a renewal batch failed"));
    assert!(warned(&logs, "uncertain: a renewal failed"));
    logs.wait_for("lost: somebody else may have this lock").await;
    assert!(logs.find(Level::WARN, "lost: ").iter().all(|line| line.contains("name=\"cut-off\"")));
    server.start();
    assert!(waiting.await.unwrap().unwrap().is_acquired());
    assert!(warned(&logs, "gap: messages may be missing"));
    logs.wait_for("gap ended: messages come again").await;
    // One line for each thing that happened; the gap is one for each client.
    for (event, times) in [("a renewal batch failed", 1), ("uncertain: ", 1), ("lost: ", 1), ("gap: ", 2)] {
        assert_eq!(logs.count(Level::WARN, event), times, "{event} {:?}", logs.find(Level::WARN, ""));
    }
    assert_eq!(logs.count(Level::INFO, "gap ended"), 2);
}

/// Under paused time: an hour at most.
async fn patient_virtual<F: std::future::Future>(future: F) -> F::Output {
    tokio::time::timeout(secs(3600), future).await.expect("within an hour of paused time")
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_is_told() {
    let (logs, _guard) = Logs::scoped();
    let locks = EmbeddedServer::new().connect();
    let lock = locks.lock("forced");
    assert!(!lock.force_unlock().await.unwrap());
    assert!(!warned(&logs, "ended by force"));
    lock.lock().await.unwrap();
    assert!(lock.force_unlock().await.unwrap());
    let told = logs.find(Level::WARN, "ended by force");
    let owner = format!("owner=\"{}:{}\"", locks.client_id(), Owner::current());
    assert!(told.len() == 1 && told[0].contains(&owner), "{told:?}");
    // Each side of a read/write lock, and of the others each kind whose owner the server knows.
    let (one, two) = (Owner::named("one").unwrap(), Owner::named("two").unwrap());
    let both = locks.read_write_lock("forced both");
    for owner in [&one, &two] {
        both.read().owned_by(owner).lock().await.unwrap();
    }
    let last = async || logs.wait_for("ended by force").await;
    logs.clear();
    assert!(both.read().force_unlock().await.unwrap());
    let readers = last().await;
    assert!(readers.contains("named-one") && readers.contains("named-two") && readers.contains("holds=2"), "{readers}");
    logs.clear();
    both.write().owned_by(&Owner::named("three").unwrap()).lock().await.unwrap();
    assert!(both.write().force_unlock().await.unwrap());
    assert!(last().await.contains("named-three:write"));
    logs.clear();
    locks.fair_lock("forced fair").owned_by(&two).lock().await.unwrap();
    assert!(locks.fair_lock("forced fair").force_unlock().await.unwrap());
    assert!(last().await.contains("named-two"));
    logs.clear();
    locks.plain_lock("forced plain").lock().await.unwrap();
    assert!(locks.plain_lock("forced plain").force_unlock().await.unwrap());
    assert!(!last().await.contains("owner="));
}

/// Once, with the reason that came first: whoever asks first, the clock, the server or the guard that is given back.
#[tokio::test(start_paused = true)]
async fn a_loss_is_told_once() {
    let (logs, _guard) = Logs::scoped();
    let server = EmbeddedServer::new();
    let locks = server.connect();
    let lost = || logs.find(Level::WARN, "lost: ");
    // A stop: the deadline first, then a renewal that is refused, and an unlock.
    let guard = locks.lock("stopped").guard().await.unwrap();
    server.suspend(secs(31));
    sleep(secs(1)).await;
    let error = guard.unlock().await.unwrap_err();
    assert!(error.to_string().contains("had lost lock \"stopped\" before this unlock (its lease ran out"), "{error}");
    assert!(lost().len() == 1 && lost()[0].contains("its lease ran out"), "{:?}", lost());
    logs.clear();
    // The same, found by its owner.
    let guard = locks.lock("stopped").guard().await.unwrap();
    server.suspend(secs(31));
    assert!(!guard.is_valid());
    let error = guard.unlock().await.unwrap_err();
    assert!(error.to_string().contains("its lease ran out"), "{error}");
    sleep(secs(1)).await;
    assert!(lost().len() == 1 && lost()[0].contains("its lease ran out"), "{:?}", lost());
    logs.clear();
    // Told by the server.
    let guard = locks.lock("gone").guard().await.unwrap();
    server.command(&["DEL", "gone"]).unwrap();
    patient_virtual(guard.lost()).await;
    assert!(lost().len() == 1 && warned(&logs, "the server no longer has it"), "{:?}", lost());
    logs.clear();
    // Found by who enters again.
    let lock = locks.lock("deleted");
    let guard = lock.guard().await.unwrap();
    server.command(&["DEL", "deleted"]).unwrap();
    assert!(lock.lock().await.is_err());
    let error = guard.unlock().await.unwrap_err();
    assert!(error.to_string().contains("the server no longer has it"), "{error}");
    assert!(lost().len() == 1 && lost()[0].contains("the server no longer has it"), "{:?}", lost());
    let error = lock.unlock().await.unwrap_err();
    assert!(error.to_string().contains("has no bare hold of lock \"deleted\""), "{error}");
    logs.clear();
    // Given back in time: nothing is lost.
    lock.guard().await.unwrap().unlock().await.unwrap();
    drop(lock.guard().await.unwrap());
    sleep(secs(60)).await;
    assert_eq!(lost(), Vec::<String>::new());
}

/// Rule 8: from ten minutes on, once; a guard is never named. All else is quiet.
#[tokio::test(start_paused = true)]
async fn a_bare_hold_of_ten_minutes_is_told_once() {
    let (logs, _guard) = Logs::scoped();
    let locks = EmbeddedServer::new().connect();
    locks.lock("forgotten").lock().await.unwrap();
    let guard = locks.lock("guarded").guard().await.unwrap();
    sleep(secs(590)).await;
    assert!(!warned(&logs, "held for ten minutes"));
    sleep(secs(1800)).await;
    // Renewals are no news.
    let told = logs.find(Level::WARN, "");
    assert_eq!(told.len(), 1, "{told:?}");
    for part in ["held for ten minutes", "name=\"forgotten\"", locks.client_id()] {
        assert!(told[0].contains(part), "{told:?}");
    }
    guard.unlock().await.unwrap();
    assert_eq!(logs.find(Level::WARN, ""), told);
}

/// In no Debug, Display, event or span: by URL and by builder, right and wrong, over reconnects.
#[tokio::test]
async fn a_planted_password_appears_nowhere() {
    const SECRET: &str = "pl4nted-pa55word";
    let (logs, _guard) = Logs::scoped();
    let server = Server::with(&[("requirepass", SECRET)]);
    let mut shown = String::new();
    let url = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    let locks = Locks::connect(&url).await.unwrap();
    let builder = Locks::builder().username("default").password(SECRET);
    shown += &format!("{builder:?}");
    let other = builder.clone().connect(&server.url()).await.unwrap();
    let lock = locks.lock(&unique("secret"));
    let guard = lock.guard().await.unwrap();
    shown += &format!("{locks:?} {other:?} {lock:?} {guard:?} {:?} {:?}", locks.health(), lock.acquire());
    for bad in [
        format!("redis://:{SECRET}x@127.0.0.1:{}", server.port()),
        format!("redis://{SECRET}@127.0.0.1:{}", server.port()),
        format!("redis://:{SECRET}@127.0.0.1:1"),
        format!("redis://:{SECRET}@127.0.0.1:port"),
        format!("{SECRET}://h"),
        format!("redis+unix:///{SECRET}:/nowhere/at/all?{SECRET}"),
    ] {
        let error = Locks::connect(&bad).await.unwrap_err();
        shown += &format!("{error} {error:?}");
    }
    let gaps = locks.health().gaps;
    server.raw().await.must(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    server.raw().await.must(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    let back = async || lock.is_locked().await.is_ok() && locks.health().gaps > gaps;
    eventually(secs(10), "the client is back", back).await;
    patient("the unlock", guard.unlock()).await.unwrap();
    shown += &logs.lines().join("\n");
    assert!(shown.contains("acquire{"), "the spans were captured");
    assert!(!shown.contains(SECRET), "{shown}");
}
