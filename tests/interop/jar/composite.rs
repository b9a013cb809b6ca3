//! 6.C.2: multi-locks and red locks.

use super::*;

/// Two members, and a multi-lock of them, by the names of its objects.
struct Members {
    jar: Jar,
    names: [String; 2],
    multi: Jar,
}

fn of(jar: Jar) -> Members {
    let names = ["a", "b"].map(|part| format!("{}-{part}", jar.name));
    let all = names.each_ref().map(|name| jar.java.member("lock", name)).join(",");
    let multi = Jar { world: jar.world.clone(), java: jar.java.clone(), name: all };
    Members { jar, names, multi }
}

impl Members {
    async fn is_locked(&self, at: usize) -> bool {
        self.jar.raw().await.exists(&self.names[at]).await
    }

    async fn until_locked(&self, at: usize) {
        eventually(secs(20), "the member is taken", async || self.is_locked(at).await).await;
    }

    /// Another thread has the member, or gives it back.
    async fn rival(&self, at: usize, verb: &str) {
        self.jar.java.must(&self.jar.thread("rival"), "lock", &self.names[at], verb).await;
    }

    async fn lose(&self, at: usize) {
        self.jar.raw().await.must(&["DEL", &self.names[at]]).await;
    }
}

/// `lock(4 s)` that has to try again has a lease of more than an hour.
pub async fn id_6_c_2a(jar: Jar) {
    let members = of(jar);
    members.rival(1, "lock 60000").await;
    let waiter = members.multi.begin("a", "multi", "lock_seconds 4");
    members.until_locked(0).await;
    // The first try ends within its lease.
    sleep(secs(5)).await;
    members.rival(1, "unlock").await;
    waiter.await.unwrap().unwrap();
    let ttl = members.jar.raw().await.pttl(&members.names[0]).await;
    assert!(ttl > 3_600_000, "{ttl} ms for a lease of 4 s");
}

/// `lockInterruptibly()` swallows the interrupt and waits on.
pub async fn id_6_c_2b(jar: Jar) {
    let members = of(jar);
    members.rival(1, "lock 60000").await;
    let waiter = members.multi.begin("a", "multi", "lock_interruptibly");
    members.until_locked(0).await;
    // Past the calls about the second: now it sleeps.
    members.jar.until_waiting(members.jar.world.place.server()).await;
    members.multi.must("a", "multi", "interrupt").await;
    asleep(&waiter, secs(3)).await;
    members.rival(1, "unlock").await;
    waiter.await.unwrap().unwrap();
}

/// `tryLock` says true with a member lost.
pub async fn id_6_c_2d(jar: Jar) {
    let members = of(jar);
    members.rival(1, "lock 60000").await;
    let waiter = members.multi.begin("a", "multi", "try_lock 20000 -1");
    members.until_locked(0).await;
    members.jar.until_waiting(members.jar.world.place.server()).await;
    members.lose(0).await;
    members.rival(1, "unlock").await;
    assert_eq!(waiter.await.unwrap().unwrap(), "true");
    assert!(!members.is_locked(0).await, "nobody has the first");
}

/// `unlock` stops at the first lost member: the second stays locked, and is renewed.
pub async fn id_6_c_2e(jar: Jar) {
    let members = of(jar.with(super::WATCHED).await);
    members.multi.must("a", "multi", "lock").await;
    members.lose(0).await;
    members.multi.call("a", "multi", "unlock").await.expect_err("a member is lost");
    sleep(secs(7)).await;
    assert!(members.is_locked(1).await, "given back, or not renewed");
}

/// In opposite orders each has what the other waits for, until one of them gives up.
pub async fn id_6_c_2f(jar: Jar) {
    let (proxy, here) = jar.cut_off("").await;
    let (here, there) = (of(here), of(jar.with("").await));
    let [a, b] = there.names.each_ref().map(|name| there.jar.java.member("lock", name));
    let opposite = Jar { name: format!("{b},{a}"), ..there.jar.with("").await };
    proxy.delay_replies(ms(700));
    let one = here.multi.begin("one", "multi", "lock");
    here.until_locked(0).await;
    let other = opposite.begin("other", "multi", "lock");
    there.until_locked(1).await;
    // Nobody else wants them.
    sleep(ms(1500)).await;
    assert!(here.is_locked(0).await && here.is_locked(1).await && !one.is_finished() && !other.is_finished());
    drop((one, other));
}

/// Three servers with a proxy, and a red lock over them.
async fn fleet(jar: &Jar, settings: &str) -> (Vec<Server>, Vec<Proxy>, Jar) {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let mut members = Vec::new();
    for proxy in &proxies {
        members.push(jar.at(proxy.port(), settings).await.java.member("lock", &jar.name));
    }
    let red = Jar { name: members.join(","), ..jar.at(servers[0].port(), "").await };
    (servers, proxies, red)
}

/// A red lock is true though two of its three leases have ended.
pub async fn id_6_c_2g(jar: Jar) {
    let (servers, proxies, red) = fleet(&jar, "").await;
    proxies[2].delay_replies(ms(2500));
    let tried = red.begin("a", "red", "try_lock -1 600");
    let answer = tried.await.unwrap();
    assert_eq!(answer.as_deref(), Ok("true"));
    for server in &servers[..2] {
        assert!(!server.raw().await.exists(&jar.name).await, "its lease has ended");
    }
}

/// A red lock asks one server after the other, and waits at each.
pub async fn id_6_c_2h(jar: Jar) {
    let (servers, proxies, red) = fleet(&jar, "").await;
    for server in &servers {
        taken(&mut server.raw().await, &jar.name, "60000").await;
    }
    let tried = red.begin("a", "red", "try_lock 6000 60000");
    proxies[0].wait_requests(1, about(&jar.name)).await;
    sleep(ms(500)).await;
    assert_eq!(proxies[1].requests(about(&jar.name)), 0, "the second is asked");
    assert_eq!(tried.await.unwrap().as_deref(), Ok("false"));
}

/// An interrupt while a member is asked makes attempts without a pause and without end, each of which takes it.
pub async fn id_6_c_2i(jar: Jar) {
    let proxy = Proxy::start(jar.world.place.server().port());
    let jvm = Jvm::start(&jar.world.class_path);
    let java = jvm.client(&proxy.url(), "").await;
    let members = of(Jar { world: jar.world.clone(), java, name: jar.name.clone() });
    proxy.delay_replies(ms(1500));
    let waiter = members.multi.begin("a", "multi", "lock");
    members.until_locked(0).await;
    members.multi.must("a", "multi", "interrupt").await;
    sleep(ms(500)).await;
    proxy.delay_replies(ms(0));
    eventually(secs(20), "a hundred attempts, each of which took it", async || {
        let holds = jar.raw().await.hgetall(&members.names[0]).await;
        holds.iter().any(|(_, count)| count.parse::<u64>().unwrap() > 100)
    })
    .await;
    assert!(!waiter.is_finished());
    jvm.kill();
}
