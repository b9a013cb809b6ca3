//! 6.C.8 and 3.1: channels.

use crate::weaknesses::*;

/// Waiters of one client, each for a name of its own that another client holds: all get theirs.
async fn wait_for_many(a: &Locks, b: &Locks, count: usize) {
    let names: Vec<String> = (0..count).map(|_| unique("many")).collect();
    let guards = join_all(names.iter().map(|name| async { a.lock(name).guard().await.unwrap() })).await;
    let wait = |lock: lockson::ReentrantLock| async move { lock.guard().await.unwrap().unlock().await.unwrap() };
    let waiters: Vec<_> = names.iter().map(|name| spawn_with(b.lock(name), wait)).collect();
    eventually(secs(20), "all subscribe", || async { b.health().subscriptions == count }).await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    patient_all("every waiter", waiters).await;
}

/// Of 260 waited-on names exactly 10 failed there, and those of one stripe waited for each other's round trips.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_8_three_hundred_names_share_few_subscribes() {
    let proxy = Proxy::start(Server::shared().port());
    let (a, b) = (connect(deaf_but_for_messages()).await, deaf_but_for_messages().connect(&proxy.url()).await.unwrap());
    proxy.delay(ms(50));
    wait_for_many(&a, &b, 300).await;
    let subscribes = proxy.requests(Filter::Subscribe);
    assert!(subscribes < 10, "{subscribes} round trips for 300 names");
}
