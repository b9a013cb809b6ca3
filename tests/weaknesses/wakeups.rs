//! 6.A: wake-ups that are lost or wasted; 2.0 and 3.1: channels.

use tokio::time::Instant;

use crate::weaknesses::*;

async fn waits_on_the_server(name: &str, clients: i64) {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    eventually(secs(10), "the waiters subscribe", || async {
        Server::shared().raw().await.subscribers(&channel).await == clients
    })
    .await;
}

/// A cancelled waiter swallowed the message there: 4.4 s in place of 57 ms.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_2a_a_cancelled_waiter_passes_the_message_on() {
    let name = unique("6a2a");
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    let guard = a.lock(&name).guard().await.unwrap();
    let spawn = || {
        let lock = b.lock(&name);
        tokio::spawn(async move { lock.guard().await.unwrap().unlock().await.unwrap() })
    };
    let (first, second) = (spawn(), spawn());
    waits_on_the_server(&name, 1).await;
    first.abort();
    guard.unlock().await.unwrap();
    patient("the second waiter", second).await.unwrap();
}

/// 29 of 252 give-ups around the unlock left the next waiter asleep there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_2b_a_waiter_at_its_limit_passes_the_message_on() {
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    for round in 0..40_u64 {
        let name = unique("6a2b");
        let guard = a.lock(&name).guard().await.unwrap();
        let (impatient, lasting) = (b.lock(&name), b.lock(&name));
        let first = tokio::spawn(async move {
            if let Some(guard) = impatient.acquire().wait(ms(60)).guard().await.unwrap() {
                guard.unlock().await.unwrap();
            }
        });
        waits_on_the_server(&name, 1).await;
        let second = tokio::spawn(async move { lasting.guard().await.unwrap().unlock().await.unwrap() });
        // Swept around the limit.
        sleep(ms(40 + round % 30)).await;
        guard.unlock().await.unwrap();
        first.await.unwrap();
        patient("the lasting waiter", second).await.unwrap();
    }
}

/// A waiter slept 8 s after such a key had gone there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_6_a_key_without_ttl_is_looked_at_again() {
    let name = unique("6a6");
    let locks = connect(short().wait_cap(ms(200))).await;
    let mut raw = Server::shared().raw().await;
    raw.must(&["HSET", &name, "gone-java:1", "1"]).await;
    let waiter = spawn_with(locks.lock(&name), |lock| async move { lock.guard().await });
    waits_on_the_server(&name, 1).await;
    raw.must(&["DEL", &name]).await;
    patient("the waiter", waiter).await.unwrap().unwrap().unlock().await.unwrap();
}

/// What was published while the subscriber was away was lost there: 5.5 s of a 6 s lease.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_7a_a_reconnect_wakes_every_waiter() {
    let proxy = Proxy::start(Server::shared().port());
    let (a, b) = (connect(deaf_but_for_messages()).await, deaf_but_for_messages().connect(&proxy.url()).await.unwrap());
    let name = unique("6a7a");
    let guard = a.lock(&name).guard().await.unwrap();
    let waiter = spawn_with(b.lock(&name), |lock| async move { lock.guard().await });
    waits_on_the_server(&name, 1).await;
    proxy.refuse(true);
    waits_on_the_server(&name, 0).await;
    guard.unlock().await.unwrap();
    let healed = Instant::now();
    proxy.refuse(false);
    patient("the waiter", waiter).await.unwrap().unwrap().unlock().await.unwrap();
    assert!(healed.elapsed() < secs(15), "long before the cap of 60 s");
}

/// A release that publishes nothing (Java's spin lock) left waiters to the lease there: 3.5 s of 4 s.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_a_8_a_silent_release_is_found_within_the_cap() {
    let name = unique("6a8");
    let locks = connect(short().wait_cap(ms(300))).await;
    let mut raw = Server::shared().raw().await;
    raw.must(&["HSET", &name, "java:1", "1"]).await;
    raw.must(&["PEXPIRE", &name, "600000"]).await;
    let waiter = spawn_with(locks.lock(&name), |lock| async move { lock.guard().await });
    waits_on_the_server(&name, 1).await;
    raw.must(&["DEL", &name]).await;
    patient("the waiter", waiter).await.unwrap().unwrap().unlock().await.unwrap();
}

/// `tryLock(4 s)` said false there when the subscription was refused, and `lock()` failed after 7.5 s.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_6_a_refused_subscription_is_said_at_connect() {
    let server = Server::start();
    let mut raw = server.raw().await;
    raw.must(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "&none:*", "+@all"]).await;
    let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
    let error = lockson::Locks::connect(&url).await.unwrap_err().to_string();
    assert!(error.contains("SUBSCRIBE") && error.contains("PUBLISH"), "{error}");
}

/// 260 waited-on names: exactly 10 failed there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_8_three_hundred_names_can_be_waited_on() {
    let (a, b) = (connect(deaf_but_for_messages()).await, connect(deaf_but_for_messages()).await);
    let names: Vec<String> = (0..300).map(|_| unique("6c8")).collect();
    let mut guards = Vec::new();
    let mut waiters = Vec::new();
    for name in &names {
        guards.push(a.lock(name).guard().await.unwrap());
        let lock = b.lock(name);
        waiters.push(tokio::spawn(async move { lock.guard().await.unwrap().unlock().await.unwrap() }));
    }
    eventually(secs(20), "all subscribe", || async { b.health().subscriptions == 300 }).await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    for waiter in waiters {
        patient("every waiter", waiter).await.unwrap();
    }
}

/// Names that shared a stripe waited for each other's round trips there: 2.06 s in place of 0.45 s for five names.
#[tokio::test(flavor = "multi_thread")]
async fn id_3_1_a_names_share_one_subscribe() {
    let proxy = Proxy::start(Server::shared().port());
    let (a, b) = (connect(deaf_but_for_messages()).await, deaf_but_for_messages().connect(&proxy.url()).await.unwrap());
    let names: Vec<String> = (0..40).map(|_| unique("31a")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(a.lock(name).guard().await.unwrap());
    }
    proxy.delay(ms(50));
    let waiters: Vec<_> = names
        .iter()
        .map(|name| {
            let lock = b.lock(name);
            tokio::spawn(async move { lock.guard().await.unwrap().unlock().await.unwrap() })
        })
        .collect();
    eventually(secs(20), "all subscribe", || async { b.health().subscriptions == 40 }).await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    for waiter in waiters {
        patient("every waiter", waiter).await.unwrap();
    }
    let subscribes = proxy.requests(Filter::Subscribe);
    assert!(subscribes < 10, "{subscribes} round trips for 40 names");
}

/// `a{b` could be locked there and never unlocked (CROSSSLOT).
#[tokio::test(flavor = "multi_thread")]
async fn id_2_0_c_a_stray_brace_is_refused_before_the_lock() {
    let locks = connect(short()).await;
    for name in ["a{b", "a}b", "{}x"] {
        assert!(matches!(locks.lock(name).lock().await, Err(LockError::Name(_))), "{name}");
    }
    let tagged = unique("{eu}:x");
    locks.lock(&tagged).owned_by(&Owner::unique()).guard().await.unwrap().unlock().await.unwrap();
}
