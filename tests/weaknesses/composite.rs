//! 6.C.2: multi-locks and red locks that wait in circles, stay locked, or are held by two.

use lockson::Request;

use crate::weaknesses::*;

async fn raw() -> Raw {
    Server::shared().raw().await
}

fn over(locks: &Locks, names: &[String]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| locks.lock(name)))
}

fn two() -> [String; 2] {
    [unique("62c-a"), unique("62c-b")]
}

/// lock(4 s) that had to try again had a lease of 3,999,996 ms there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2a_the_lease_is_that_of_the_request() {
    let (locks, rival, names) = (connect(short()).await, connect(short()).await, two());
    let held = rival.lock(&names[1]).guard().await.unwrap();
    let waiter = spawn_with(over(&locks, &names), |multi| async move { multi.acquire().lease(secs(4)).guard().await });
    eventually(secs(20), "the first is taken", || async { raw().await.exists(&names[0]).await }).await;
    sleep(ms(1500)).await;
    held.unlock().await.unwrap();
    let guard = patient("both are free", waiter).await.unwrap().unwrap().unwrap();
    for name in &names {
        let ttl = raw().await.pttl(name).await;
        assert!((1..=4000).contains(&ttl), "{name}: {ttl}");
    }
    guard.unlock().await.unwrap();
}

/// The interrupt was swallowed there, and it waited on.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2b_a_wait_that_is_given_up_is_over() {
    let (locks, rival, names) = (connect(short()).await, connect(short()).await, two());
    let held = rival.lock(&names[1]).guard().await.unwrap();
    let waiter = spawn_with(over(&locks, &names), |multi| async move { multi.lock().await });
    eventually(secs(20), "the first is taken", || async { raw().await.exists(&names[0]).await }).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    eventually(secs(20), "the first is given back", || async { !raw().await.exists(&names[0]).await }).await;
    held.unlock().await.unwrap();
    assert_eq!(locks.health().holds, 0);
}

/// 10,000 attempts a second without end there, each of which took the first member.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2i_a_given_up_call_under_way_makes_no_attempts() {
    let proxy = Proxy::start(Server::shared().port());
    let (locks, names) = (short().connect(&proxy.url()).await.unwrap(), two());
    proxy.stall_replies(true);
    let waiter = spawn_with(over(&locks, &names), |multi| async move { multi.lock().await });
    eventually(secs(20), "the first is taken", || async { raw().await.exists(&names[0]).await }).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    proxy.stall_replies(false);
    eventually(secs(20), "it is given back", || async { !raw().await.exists(&names[0]).await }).await;
    sleep(secs(2)).await;
    let scripts = proxy.requests(Filter::Script.with(&names[0]));
    assert!(scripts <= 20, "{scripts} scripts for one attempt and its release");
    assert_eq!(proxy.requests(Filter::Script.with(&names[1])), 0);
}

/// True with the first member free there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2d_a_lost_member_is_taken_again() {
    let (locks, rival, names) = (connect(short()).await, connect(short()).await, two());
    let held = rival.lock(&names[1]).guard().await.unwrap();
    let waiter =
        spawn_with(
            over(&locks, &names),
            |multi| async move { multi.guard_with(Request::default().wait(secs(20))).await },
        );
    eventually(secs(20), "the first is taken", || async { raw().await.exists(&names[0]).await }).await;
    raw().await.must(&["DEL", &names[0]]).await;
    // Its renewal says so: it begins anew.
    eventually(secs(20), "the first is taken again", || async { raw().await.exists(&names[0]).await }).await;
    held.unlock().await.unwrap();
    let guard = patient("both are free", waiter).await.unwrap().unwrap().unwrap();
    guard.verify().await.unwrap();
    for name in &names {
        assert!(raw().await.exists(name).await, "{name}");
    }
    guard.unlock().await.unwrap();
}

/// The second was locked, and renewed, four leases later there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2e_a_lost_member_keeps_no_other_locked() {
    let (locks, names) = (connect(short()).await, two());
    let multi = over(&locks, &names);
    for lost in &names {
        multi.lock().await.unwrap();
        raw().await.must(&["DEL", lost]).await;
        assert!(matches!(multi.unlock().await, Err(UnlockError::NotHeld { name, .. }) if name == *lost));
        for name in &names {
            assert!(!raw().await.exists(name).await, "{name}, with {lost} lost");
        }
    }
    assert_eq!(locks.health().holds, 0);
}

/// 30 rounds took 145 s there, in which both waited for the other to give up.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2f_opposite_orders_are_one_order() {
    let names = two();
    let [a, b] = names.clone();
    let rounds = |locks: Locks, names: [String; 2]| async move {
        let multi = over(&locks, &names);
        for _ in 0..30 {
            let guard = multi.guard().await.unwrap();
            tokio::task::yield_now().await;
            guard.unlock().await.unwrap();
        }
    };
    let (one, other) = (connect(short()).await, connect(short()).await);
    let (one, other) = (tokio::spawn(rounds(one, [a.clone(), b.clone()])), tokio::spawn(rounds(other, [b, a])));
    // Where both wait for each other, no time is enough: neither has a wait limit.
    tokio::time::timeout(secs(60), join_all([one, other])).await.expect("nobody waits in a circle");
}

async fn three() -> (Vec<Server>, Vec<Proxy>, RedLock<lockson::kind::Reentrant>) {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let clients = join_all(proxies.iter().map(|proxy| async { proxy.locks().await })).await;
    let red = RedLock::new(clients.iter().map(|locks| locks.lock("red"))).fresh();
    (servers, proxies, red.server_timeout(secs(20)))
}

/// Lease 600 ms, third member slow: true there, with the others gone, while a rival held all.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2g_a_lease_that_is_over_is_not_held() {
    let (servers, proxies, red) = three().await;
    proxies[1..].iter().for_each(|proxy| proxy.delay_replies(ms(900)));
    let tried = red.acquire().wait(Duration::ZERO).lease(ms(600)).await;
    assert!(matches!(tried, Err(LockError::NoMajority { .. })), "{tried:?}");
    proxies[1..].iter().for_each(|proxy| proxy.delay_replies(Duration::ZERO));
    for server in &servers {
        eventually(secs(20), "all votes are given back", || async { !server.raw().await.exists("red").await }).await;
    }
}

/// 1 s a busy member there, and 3 s for tryLock(3 s).
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2h_all_members_are_asked_at_once() {
    let (_servers, proxies, red) = three().await;
    proxies.iter().for_each(|proxy| proxy.stall_replies(true));
    let taking = tokio::spawn(async move { red.guard().await });
    for proxy in &proxies {
        // Nobody has answered yet: who asks one after the other never comes to the second.
        patient("each is asked", proxy.wait_requests(1, Filter::Script.with("red"))).await;
    }
    assert!(!taking.is_finished());
    proxies.iter().for_each(|proxy| proxy.stall_replies(false));
    patient("all vote", taking).await.unwrap().unwrap().unlock().await.unwrap();
}
