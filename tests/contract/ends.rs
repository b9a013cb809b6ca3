//! What is on its way back, or was given to somebody who does not come for it.

use std::pin::Pin;

use lockson::Leftover;

use crate::contract::world::*;

fn quick() -> Builder {
    Locks::builder().command_timeout(ms(200)).outage_limit(ms(400))
}

fn an_hour() -> Request {
    Request::default().lease(secs(3600))
}

/// Rule 7: a give-back is tried until it is answered, however long the outage is.
pub async fn a_give_back_outlives_an_outage(case: Case) {
    let way = Way::new(&case);
    let (locks, look) = (way.client(&case, quick()).await, case.client().await);
    let lock = case.lock(&locks);
    let guard = lock.guard_with(an_hour()).await.unwrap().unwrap();
    let permits = locks.permit_semaphore(&format!("{}-permits", case.name));
    permits.try_set_permits(2).await.unwrap();
    let lot = || permits.acquire(1).lease(secs(3600)).guard();
    let (dropped, released) = (lot().await.unwrap().unwrap(), lot().await.unwrap().unwrap());
    way.open(&case, false);
    drop(guard);
    drop(dropped);
    assert!(released.release().await.is_err());
    // Ten outage limits.
    sleep(secs(4)).await;
    way.open(&case, true);
    let began = Instant::now();
    eventually(secs(20), "the hold of an hour is given back", || async { case.is_free().await }).await;
    let seen = look.permit_semaphore(permits.name());
    let free = || async { seen.available_permits().await.unwrap() == 2 };
    eventually(secs(20), "and the permits", free).await;
    assert!(began.elapsed() <= case.bound(secs(5)), "{:?}", began.elapsed());
    locks.shutdown(secs(5)).await.unwrap();
}

/// Many of them meet the server one after the other, and those of leases that have ended not at all.
pub async fn give_backs_are_no_flood(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    let way = Way::new(&case);
    let locks = way.client(&case, quick()).await;
    let mut guards = Vec::new();
    for at in 0..2000 {
        let lease = if at % 2 == 0 { secs(3600) } else { secs(30) };
        let lock = (case.kind.lock)(&locks, &format!("{}-{at}", case.name));
        guards.push(lock.guard_with(Request::default().lease(lease)).await.unwrap().unwrap());
    }
    way.open(&case, false);
    drop(guards);
    sleep(secs(60)).await;
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), lockson::Reply::Int(1000));
    let before = server.calls();
    way.open(&case, true);
    let gone = || async { case.ask(&["DBSIZE"]).await == "0" };
    eventually(secs(20), "all are given back", gone).await;
    let calls = server.calls() - before;
    // One each, and one more behind what was in doubt.
    assert!(calls <= 2100, "{calls} calls for a thousand holds");
    locks.shutdown(secs(5)).await.unwrap();
}

/// A call that was given up may take the lock yet: the shutdown waits until it can't, or says so.
pub async fn shutdown_waits_for_copies_in_doubt(case: Case) {
    // It waits by the server's clock: this client's idea of a real one's lags by as much as an answer was late.
    let lag = if matches!(case.world, World::Embedded(_)) { ms(0) } else { ms(200) };
    for limit in [secs(5), ms(20)] {
        let way = Way::new(&case);
        let locks = way.client(&case, Locks::builder().command_timeout(ms(1000))).await;
        let lock = case.lock(&locks);
        let began = Instant::now();
        if let World::Embedded(server) = &case.world {
            server.lose_replies(1);
        }
        way.proxies().for_each(|proxy| proxy.black_hole_requests(true));
        let mut tried = lock.try_lock();
        assert!(futures::poll!(&mut tried).is_pending());
        drop(tried);
        if way.0.is_some() {
            sleep(ms(100)).await;
        }
        // Each cuts what has lost something.
        way.proxies().for_each(Proxy::heal);
        match locks.shutdown(limit).await {
            Ok(()) => assert!(limit == secs(5) && began.elapsed() >= ms(1000) - lag, "{:?}", began.elapsed()),
            Err(Leftover { names, .. }) => assert!(limit == ms(20) && names == [case.name.clone()], "{names:?}"),
        }
        eventually(secs(20), "nothing is left", || async { case.is_free().await }).await;
    }
}

/// Whom the lock is handed over to has to be polled, or it goes to the next.
pub async fn a_hand_over_to_nobody_goes_on(case: Case) {
    let client = case.client_with(Locks::builder().command_timeout(ms(300))).await;
    let lock = |owner: &str| case.lock(&client).owned_by(&Owner::named(owner).unwrap());
    loop {
        let holder = lock("holder").guard().await.unwrap();
        let (first, next) = (lock("first"), lock("next"));
        let mut unpolled: Pin<Box<_>> = Box::pin(first.guard());
        assert!(futures::poll!(unpolled.as_mut()).is_pending());
        // It stands in line by that.
        let waiter = begun(async move { next.guard().await }).await;
        let began = Instant::now();
        holder.unlock().await.unwrap();
        if case.is_free().await {
            // The machine stood still: it was a release, or the hand-over has lapsed by now. Either may be the first.
            let asks = async { drop(patient("the one that asks", unpolled).await.unwrap()) };
            let waits = async { drop(patient("the next", waiter).await.unwrap().unwrap()) };
            tokio::join!(asks, waits);
            continue;
        }
        let guard = patient("the next", waiter).await.unwrap().unwrap();
        assert!(began.elapsed() <= case.bound(ms(1000)), "{:?}", began.elapsed());
        // It is in line all the same, and gets it in its turn.
        assert!(futures::poll!(unpolled.as_mut()).is_pending());
        guard.unlock().await.unwrap();
        return drop(patient("the one that is polled again", unpolled).await.unwrap());
    }
}

/// The same of permits.
pub async fn permits_of_nobody_go_on(case: Case) {
    let client = case.client_with(Locks::builder().command_timeout(ms(300))).await;
    let plain = client.semaphore(&format!("{}-plain", case.name));
    plain.try_set_permits(1).await.unwrap();
    let held = plain.guard(1).await.unwrap();
    let mut unpolled = Box::pin(plain.guard(1));
    let mut seen = 0;
    while seen < 50 {
        assert!(futures::poll!(unpolled.as_mut()).is_pending());
        sleep(ms(1)).await;
        seen += usize::from(client.health().subscriptions > 0);
    }
    let next = plain.clone();
    let waiter = begun(async move { next.guard(1).await }).await;
    held.release().await.unwrap();
    // Asks in the name of all that wait, and of the unpolled one first.
    assert!(!plain.try_acquire(1).await.unwrap().is_acquired());
    drop(patient("the next", waiter).await.unwrap().unwrap());
    drop(patient("the one that is polled again", unpolled).await.unwrap());
}
