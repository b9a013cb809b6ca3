//! 6.B and 3.3: holds that nobody owns, that are not renewed, or that are lost in silence.

use crate::weaknesses::*;

/// Several leases later: what an orphan or a forgotten renewal would need to show.
async fn leases_pass(count: u32) {
    sleep(ms(1200) * count).await;
}

/// Redisson #7272: after an interrupted acquire a later lease was renewed though it should end.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_2e_a_late_answer_starts_no_renewal() {
    let (proxy, locks, name) = behind_a_proxy(short()).await;
    let lock = locks.lock(&name).owned_by(&"one".parse().unwrap());
    proxy.stall_replies(true);
    let interrupted = spawn_with(lock.clone(), |lock| async move { lock.lock().await });
    eventually(secs(5), "the server has it", || async { raw().await.exists(&name).await }).await;
    interrupted.abort();
    proxy.stall_replies(false);
    assert!(lock.acquire().wait(secs(5)).lease(ms(1000)).await.unwrap().is_acquired());
    leases_pass(2).await;
    assert!(!raw().await.exists(&name).await, "a fixed lease of 1 s ended");
}

/// Two holds that were lost and not unlocked starved the renewal of the next holder there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_5_stale_holds_delay_no_renewal() {
    let locks = connect(short()).await;
    let name = unique("6b5");
    for stale in ["s1", "s2", "s3"] {
        let lock = locks.lock(&name).owned_by(&stale.parse().unwrap());
        lock.lock().await.unwrap();
        raw().await.must(&["DEL", &name]).await;
    }
    let holder = locks.lock(&name).owned_by(&"holder".parse().unwrap());
    let guard = holder.guard().await.unwrap();
    leases_pass(3).await;
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.unwrap();
}

/// One key of ten turned into a string: the five that came after it expired there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_7_one_bad_key_spoils_no_other() {
    let locks = connect(short()).await;
    let names: Vec<String> = (0..10).map(|_| unique("6b7")).collect();
    let guards = join_all(names.iter().map(async |name| locks.lock(name).guard().await.unwrap())).await;
    raw().await.must(&["SET", &names[4], "a string"]).await;
    leases_pass(3).await;
    for (at, guard) in guards.iter().enumerate() {
        assert_eq!(guard.is_valid(), at != 4, "{at}");
        assert!(raw().await.exists(&names[at]).await);
    }
    assert_eq!(raw().await.get(&names[4]).await.as_deref(), Some("a string"));
    raw().await.must(&["DEL", &names[4]]).await;
}

/// A registration raced with the renewal and was lost there, of a lock or of a reader: 1 of 14,152.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_8_every_hold_is_registered() {
    let locks = connect(Locks::builder().watchdog_lease(secs(6))).await;
    let shared = unique("6b8r");
    let take = |lock: Arc<dyn RLock>| async move {
        for _ in 0..5 {
            lock.guard().await.unwrap().unlock().await.unwrap();
        }
        lock.guard().await.unwrap()
    };
    let tasks = (0..300).map(|number| match number % 3 {
        0 => tokio::spawn(take(Arc::new(locks.read_write_lock(&shared).read()))),
        _ => tokio::spawn(take(Arc::new(locks.lock(&unique("6b8"))))),
    });
    let tasks: Vec<_> = tasks.collect();
    let guards: Vec<Guard> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(locks.health().holds, 300);
    sleep(secs(9)).await;
    assert!(guards.iter().all(Guard::is_valid));
}

/// forceUnlock() stopped the renewal before it knew what it did: its request was lost, and so the lock.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_11_a_lost_force_unlock_stops_no_renewal() {
    let (proxy, locks, name) = behind_a_proxy(short().outage_limit(ms(100))).await;
    let guard = locks.lock(&name).guard().await.unwrap();
    const FORCE: &str = support::lua!("announce", "reentrant/force");
    let lost = proxy.cut_before(1000, Filter::script_of(FORCE));
    assert!(locks.lock(&name).force_unlock().await.is_err());
    assert!(lost.hits() > 0);
    leases_pass(3).await;
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.unwrap();
}

/// A late "not held" of a renewal dropped a hold that had been taken again meanwhile there.
#[tokio::test(flavor = "multi_thread")]
async fn id_3_3_a_a_late_refusal_is_about_its_own_hold() {
    let (proxy, locks, name) = behind_a_proxy(short().command_timeout(ms(400))).await;
    let lock = locks.lock(&name).owned_by(&"one".parse().unwrap());
    let first = lock.guard().await.unwrap();
    raw().await.must(&["DEL", &name]).await;
    const RENEW: &str = support::lua!("reentrant/renew");
    proxy.forget_requests();
    proxy.delay_replies(ms(150));
    proxy.wait_requests(1, Filter::script_of(RENEW)).await;
    // The refusal is on its way; the hold is found lost first by its owner, who takes the lock again.
    assert!(matches!(lock.lock().await, Err(LockError::Lost { .. })));
    let second = lock.guard().await.unwrap();
    proxy.delay_replies(ms(0));
    leases_pass(3).await;
    assert_eq!((first.state(), second.state()), (HoldState::Lost, HoldState::Held));
    second.unlock().await.unwrap();
    assert!(patient("the first stays lost", first.unlock()).await.is_err());
}
