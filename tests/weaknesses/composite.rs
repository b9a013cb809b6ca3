//! 6.C.2: multi-locks and red locks that wait in circles, stay locked, or are held by two.

use crate::weaknesses::*;

fn over(locks: &Locks, names: &[String]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| locks.lock(name)))
}

fn two() -> [String; 2] {
    [unique("62c-a"), unique("62c-b")]
}

/// 10,000 attempts a second without end there, each of which took the first member.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_2i_a_given_up_call_under_way_makes_no_attempts() {
    let proxy = Proxy::start(Server::shared().port());
    let (locks, names) = (short().connect(&proxy.url()).await.unwrap(), two());
    // The server knows the script from here on.
    over(&locks, &two()).guard().await.unwrap().unlock().await.unwrap();
    proxy.stall_replies(true);
    let waiter = spawn_with(over(&locks, &names), |multi| async move { multi.lock().await });
    eventually(secs(20), "the first is taken", || async { raw().await.exists(&names[0]).await }).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    proxy.stall_replies(false);
    eventually(secs(20), "it is given back", || async { !raw().await.exists(&names[0]).await }).await;
    sleep(secs(2)).await;
    // One script for both and one that gives them back, each sent again where its answer took too long.
    for name in &names {
        let scripts = proxy.requests(Filter::Script.with(name));
        assert!(scripts <= 20, "{scripts} scripts for one attempt and its release");
    }
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
