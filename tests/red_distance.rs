//! A red lock's servers that are far away, slow, or silent: all are asked at once, for as long as they are given.

use support::fleet::{red, votes};
use support::prelude::*;

/// Five real servers and a proxy before each.
struct Far {
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    clients: Vec<Locks>,
}

impl Far {
    async fn new() -> Far {
        let servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
        let clients = join_all(proxies.iter().map(|proxy| async { proxy.locks().await })).await;
        Far { servers, proxies, clients }
    }

    /// Begins a call while no answer gets through: every server is asked before any has answered.
    async fn all_at_once<T: Send + 'static>(&self, what: &str, call: impl Future<Output = T> + Send + 'static) -> T {
        let stall = |on| self.proxies.iter().for_each(|proxy| proxy.stall_replies(on));
        let asked: Vec<usize> = self.proxies.iter().map(|proxy| proxy.requests(Filter::Script)).collect();
        stall(true);
        let call = tokio::spawn(call);
        for (proxy, asked) in self.proxies.iter().zip(asked) {
            patient(what, proxy.wait_requests(asked + 1, Filter::Script)).await;
        }
        assert!(!call.is_finished());
        stall(false);
        patient(what, call).await.unwrap()
    }
}

/// "five servers 30 to 50 ms away cost one delay, not the sum".
#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_asked_at_once() {
    let far = Far::new().await;
    let lock = red(&far.clients).server_timeout(secs(20));
    let guard = far.all_at_once("no server waits for another's vote", async move { lock.guard().await.unwrap() }).await;
    assert_eq!(votes(&far.servers, &far.clients).await, 5);
    let verifying = async move { guard.verify().await.map(|()| guard).unwrap() };
    let guard = far.all_at_once("nor to verify", verifying).await;
    far.all_at_once("nor to be given back", guard.unlock()).await.unwrap();
}

/// A vote that comes late is none, and is given back; so is one that leaves too little of the lease.
#[tokio::test(flavor = "multi_thread")]
async fn slow_votes_are_none() {
    let far = Far::new().await;
    let nothing_held = async || votes(&far.servers, &far.clients).await == 0;
    far.proxies[..3].iter().for_each(|proxy| proxy.delay_replies(ms(400)));
    let hasty = red(&far.clients).server_timeout(ms(150));
    assert_matches!(hasty.try_lock().await, Err(LockError::NoMajority { votes: 0..=2, needed: 3, .. }));
    eventually(secs(20), "late votes are given back", &nothing_held).await;
    let picky = red(&far.clients).server_timeout(secs(20)).min_validity(secs(2));
    assert_matches!(picky.acquire().wait(Duration::ZERO).lease(ms(2300)).await, Err(LockError::NoMajority { .. }));
    eventually(secs(20), "all is given back", &nothing_held).await;
    far.proxies.iter().for_each(|proxy| proxy.delay_replies(Duration::ZERO));
}
