//! What the spin lock adds, and leaves out.

use lockson::Backoff;

use crate::contract::world::*;

/// No SUBSCRIBE and no PUBLISH, contended or not.
pub async fn it_says_nothing(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let channel = format!("redisson_lock__channel:{{{}}}", case.name);
    let heard = case.listen(&[&channel]).await;
    let tasks = spawn_each([&a, &b, &a, &b].map(|client| case.lock(client)), |lock| async move {
        for _ in 0..20 {
            lock.guard().await.unwrap().unlock().await.unwrap();
        }
    });
    patient_all("all turns", tasks).await;
    assert!(b.spin_lock(&case.name, Backoff::default()).try_lock().await.unwrap().is_acquired());
    assert!(a.spin_lock(&case.name, Backoff::default()).force_unlock().await.unwrap());
    assert_eq!((a.health().subscriptions, b.health().subscriptions), (0, 0));
    if let Some(heard) = heard {
        // What was published before this is heard before it.
        case.ask(&[case.publish(), &channel, "end"]).await;
        assert_eq!(heard.wait_for(1).await.len(), 1);
    }
}

/// Redisson oversleeps by up to its longest pause (6.C.4a).
pub async fn the_wait_limit_is_kept(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    case.lock(&a).lock().await.unwrap();
    let lock = b.spin_lock(&case.name, Backoff::constant(secs(100)));
    let began = Instant::now();
    assert!(!lock.acquire().wait(ms(150)).await.unwrap().is_acquired());
    assert!(began.elapsed() >= ms(150) && began.elapsed() < secs(20), "{:?}", began.elapsed());
    // By one of its own, which is asked each time, too.
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let own = move |attempts| {
        count.fetch_max(attempts, Ordering::SeqCst);
        ms(5)
    };
    assert!(!b.spin_lock(&case.name, Backoff::own(own)).acquire().wait(ms(300)).await.unwrap().is_acquired());
    assert!(asked.load(Ordering::SeqCst) > 3);
}

/// The same lock on the server as the reentrant one, whose waiters find a silent release within the cap.
pub async fn it_excludes_the_other_kinds(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let spin = a.spin_lock(&case.name, Backoff::default());
    spin.lock().await.unwrap();
    assert!(!b.lock(&case.name).try_lock().await.unwrap().is_acquired());
    let waiter = spawn_with(b.lock(&case.name), |lock| async move { lock.guard().await });
    eventually(secs(20), "it listens", async || b.health().subscriptions > 0).await;
    spin.unlock().await.unwrap();
    patient("within the cap", waiter).await.unwrap().unwrap().unlock().await.unwrap();
    let spinner = spawn_with(spin.clone(), |spin| async move { spin.guard().await });
    patient("the spinner", spinner).await.unwrap().unwrap().unlock().await.unwrap();
}

/// On paused time: pauses from half to all of 1 s, doubled up to 4 s.
pub async fn an_exponential_back_off_grows(case: Case) {
    let World::Embedded(server) = &case.world else { return };
    let (a, b) = (case.client().await, case.sleepy_client().await);
    assert!(case.lock(&a).acquire_with(Request::default().lease(secs(600))).await.unwrap().is_acquired());
    let lock = b.spin_lock(&case.name, Backoff::exponential(secs(1), secs(4)));
    let before = server.calls();
    let attempts = || server.calls() - before;
    let waiter = tokio::spawn(async move { lock.lock().await });
    sleep(ms(450)).await;
    assert_eq!(attempts(), 1);
    sleep(ms(600)).await;
    assert_eq!(attempts(), 2);
    sleep(secs(60)).await;
    // A minute of pauses of 2 to 4 s; of 1 s it would be 60 to 120.
    assert!((15..=34).contains(&attempts()), "{} attempts", attempts());
    waiter.abort();
}
