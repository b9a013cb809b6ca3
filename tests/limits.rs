//! What bounds a wait besides its own limit: the cap, and the outage limit (PROTOCOL rules 6, 15 and 18).

use support::prelude::*;
use support::sites::Place;

/// Its subscriptions get lost at the first one, unnoticed for longer than anybody here is patient.
async fn deaf() -> Place {
    let builder = Locks::builder().command_timeout(secs(60)).watchdog_lease(secs(180)).wait_cap(ms(200));
    let place = Place::start(builder, &[]).await;
    place.proxy.deafen(1, Filter::Subscribe);
    place
}

/// The subscriber's connection is a black hole: a waiter looks at its cap, not after the command timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_looks_whatever_its_subscription_does() {
    join_all(KINDS.iter().filter(|kind| kind.channel("x", "y").is_some()).map(async |kind| {
        let Place { server: _server, proxy, ours, theirs, name } = deaf().await;
        let held = (kind.rival().make)(&theirs, &name).guard().await.unwrap();
        let waiter = spawn_with((kind.make)(&ours, &name), |lock| async move { lock.guard().await });
        let asks = proxy.wait_requests(4, kind.script("acquire").with(&name));
        patient(&format!("a {} that looks again", kind.name), asks).await;
        held.unlock().await.unwrap();
        let guard = patient(&format!("a {} that finds it free", kind.name), waiter).await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }))
    .await;
}

/// The same of permits and latches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taker_looks_whatever_its_subscription_does() {
    let site = deaf().await;
    let names: [String; 3] = std::array::from_fn(|number| format!("{}-{number}", site.name));
    let (pool, leased, latch) =
        (site.theirs.semaphore(&names[0]), site.theirs.permit_semaphore(&names[1]), site.theirs.latch(&names[2]));
    assert!(pool.try_set_permits(1).await.unwrap() && leased.try_set_permits(1).await.unwrap());
    assert!(latch.try_set_count(1).await.unwrap());
    let held = (pool.guard(1).await.unwrap(), leased.guard(1).await.unwrap());
    let (ours, [first, second, third]) = (site.ours.clone(), names.clone());
    let waiters = tokio::spawn(async move {
        let (pool, leased, latch) = (ours.semaphore(&first), ours.permit_semaphore(&second), ours.latch(&third));
        let (plain, with_ids, opened) = tokio::join!(pool.guard(1), leased.guard(1), latch.wait());
        (plain.map(drop), with_ids.map(drop), opened.map(drop))
    });
    for name in &names {
        patient("one that looks again", site.proxy.wait_requests(4, Filter::Script.with(name.as_str()))).await;
    }
    drop(held);
    assert_eq!(latch.count_down().await.unwrap(), Some(0));
    assert_eq!(patient("all find it free", waiters).await.unwrap(), (Ok(()), Ok(()), Ok(())));
}

/// The release of a write hold was cut: its owner's next acquire waits while a copy of that may run.
async fn in_debt(timeout: Duration, limit: Duration) -> (EmbeddedServer, Locks, Owner) {
    let server = EmbeddedServer::new();
    let builder = Locks::builder().command_timeout(timeout).watchdog_lease(timeout * 3).outage_limit(limit);
    let locks = server.connect_with(builder).unwrap();
    let owner = Owner::named("debtor").unwrap();
    let config = locks.read_write_lock("config");
    config.write().owned_by(&owner).lock().await.unwrap();
    config.read().owned_by(&owner).lock().await.unwrap();
    server.lose_replies(1);
    assert_matches!(config.write().owned_by(&owner).unlock().await, Err(UnlockError::Unconfirmed { .. }));
    (server, locks, owner)
}

/// What an earlier call owes is waited for until the outage limit, no longer.
#[tokio::test(start_paused = true)]
async fn an_earlier_call_is_waited_for_until_the_outage_limit() {
    let (_server, locks, owner) = in_debt(secs(60), ms(5000)).await;
    let config = locks.read_write_lock("config");
    config.read().owned_by(&owner).unlock().await.unwrap();
    let began = tokio::time::Instant::now();
    let locked = config.write().owned_by(&owner).lock().await;
    assert!(matches!(locked, Err(LockError::Query(QueryError::Unreachable { .. }))), "{locked:?}");
    assert!(began.elapsed() >= ms(5000) && began.elapsed() <= ms(5001), "{:?}", began.elapsed());
}

/// The owner gives its read hold back while its write attempt waits: no upgrade any more.
#[tokio::test(start_paused = true)]
async fn an_upgrade_is_judged_behind_what_is_owed() {
    let (_server, locks, owner) = in_debt(ms(4000), ms(30_000)).await;
    let config = locks.read_write_lock("config");
    let (read, write) = (config.read().owned_by(&owner), config.write().owned_by(&owner));
    let (locked, unlocked) = tokio::join!(write.try_lock(), async {
        sleep(ms(500)).await;
        read.unlock().await
    });
    assert_eq!((locked, unlocked), (Ok(Acquired), Ok(())));
}
