//! A red lock's servers that are far away, slow, or silent: all are asked at once, for as long as they are given.

use std::time::Instant;

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

    /// Awaits that each proxy has passed on one more script, while none of them lets an answer through.
    async fn all_asked(&self, what: &str, asked: &[usize]) {
        for (proxy, asked) in self.proxies.iter().zip(asked) {
            patient(what, proxy.wait_requests(asked + 1, Filter::Script)).await;
        }
    }

    fn asked(&self) -> Vec<usize> {
        self.proxies.iter().map(|proxy| proxy.requests(Filter::Script)).collect()
    }

    fn stall(&self, on: bool) {
        self.proxies.iter().for_each(|proxy| proxy.stall_replies(on));
    }
}

/// "five servers 30 to 50 ms away cost one delay, not the sum": all are asked before any has answered.
#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_asked_at_once() {
    let far = Far::new().await;
    let lock = red(&far.clients).server_timeout(secs(20));
    let asked = far.asked();
    far.stall(true);
    let taking = spawn_with(lock.clone(), |lock| async move { lock.guard().await });
    far.all_asked("no server waits for another's vote", &asked).await;
    assert!(!taking.is_finished());
    far.stall(false);
    let guard = patient("all vote", taking).await.unwrap().unwrap();
    let asked = far.asked();
    far.stall(true);
    let verifying = tokio::spawn(async move {
        guard.verify().await.unwrap();
        guard
    });
    far.all_asked("nor to verify", &asked).await;
    far.stall(false);
    let guard = patient("all verify", verifying).await.unwrap();
    let asked = far.asked();
    far.stall(true);
    let releasing = tokio::spawn(guard.unlock());
    far.all_asked("nor to be given back", &asked).await;
    far.stall(false);
    patient("all are released", releasing).await.unwrap().unwrap();
}

/// By the defaults, 30 to 50 ms away: held on all five, in less time than the sum of the delays. A machine that is busy
/// may need a few tries; one server after the other would never do.
#[tokio::test(flavor = "multi_thread")]
async fn five_servers_far_away_cost_one_delay() {
    let far = Far::new().await;
    let lock = red(&far.clients);
    let delay = |at: usize| ms(30 + 5 * at as u64);
    for (at, proxy) in far.proxies.iter().enumerate() {
        proxy.delay_replies(delay(at));
    }
    let sum: Duration = (0..5).map(delay).sum();
    let held_by_all = || async {
        let began = Instant::now();
        let guard = lock.guard().await.unwrap();
        let took = began.elapsed();
        let votes = votes(&far.servers, &far.clients).await;
        guard.unlock().await.unwrap();
        votes == 5 && took < sum
    };
    patient("one delay, not the sum", async { while !held_by_all().await {} }).await;
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
    let tried = picky.acquire().wait(Duration::ZERO).lease(ms(2300)).await;
    assert!(matches!(tried, Err(LockError::NoMajority { .. })), "{tried:?}");
    eventually(secs(20), "all is given back", &nothing_held).await;
    far.proxies.iter().for_each(|proxy| proxy.delay_replies(Duration::ZERO));
}
