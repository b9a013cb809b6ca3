//! 6.D, 3.4.c and 6.C.7: the fair lock.

use lockson::FairLock;
use tokio::time::Instant;

use crate::weaknesses::*;

fn queue(name: &str) -> String {
    format!("redisson_lock_queue:{{{name}}}")
}

fn timeouts(name: &str) -> String {
    format!("redisson_lock_timeout:{{{name}}}")
}

async fn waiting(raw: &mut Raw, name: &str) -> Vec<String> {
    raw.must(&["LRANGE", &queue(name), "0", "-1"]).await.texts()
}

async fn until_queued(name: &str, count: usize) {
    let mut raw = raw().await;
    eventually(secs(20), "the waiters are in the queue", async || waiting(&mut raw, name).await.len() == count).await;
}

async fn now(raw: &mut Raw) -> i64 {
    let time = raw.must(&["TIME"]).await.texts();
    time[0].parse::<i64>().unwrap() * 1000 + time[1].parse::<i64>().unwrap() / 1000
}

async fn score(raw: &mut Raw, name: &str, owner: &str) -> i64 {
    raw.must(&["ZSCORE", &timeouts(name), owner]).await.text().parse().unwrap()
}

async fn enqueue_by_hand(raw: &mut Raw, name: &str, owner: &str, score: i64) {
    raw.must(&["ZADD", &timeouts(name), &score.to_string(), owner]).await;
    raw.must(&["RPUSH", &queue(name), owner]).await;
}

fn fair(locks: &Locks, name: &str, owner: &str) -> FairLock {
    locks.fair_lock(name).owned_by(&Owner::named(owner).unwrap())
}

/// One waiter behind a dead head sent 14,147 scripts a second there, until the head's score had passed.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_d_1_a_dead_head_is_not_spun_on() {
    let server = Server::start();
    let locks = server.locks().await;
    let (name, mut raw) = (unique("6d1"), server.raw().await);
    let dead = now(&mut raw).await + 900_000;
    // It hears its messages, and does nothing.
    let _listener = server.raw().await.subscribe(&format!("redisson_lock__channel:{{{name}}}:java:1")).await;
    enqueue_by_hand(&mut raw, &name, "java:1", dead).await;
    server.reset_stats();
    let began = Instant::now();
    let guard = patient("the head is dropped", fair(&locks, &name, "w").guard()).await.unwrap();
    let (took, scripts) = (began.elapsed(), server.calls("evalsha"));
    println!("{scripts} scripts in {took:?}");
    assert!(scripts <= 200, "{scripts} scripts in {took:?}");
    guard.unlock().await.unwrap();
}

/// Java takes its own wait off every score at its acquisition: a score of now + 60 s became now - 240 s there.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_d_8_a_java_acquisition_prunes_nobody() {
    let locks = connect(short()).await;
    let (name, mut raw) = (unique("6d8"), raw().await);
    let guard = fair(&locks, &name, "holder").guard().await.unwrap();
    let start = now(&mut raw).await;
    enqueue_by_hand(&mut raw, &name, "java:1", start + 300_000).await;
    let mut tasks = Vec::new();
    for number in 0..3 {
        let lock = fair(&locks, &name, &format!("w{number}"));
        tasks.push(tokio::spawn(async move { lock.guard().await.unwrap().unlock().await.unwrap() }));
        until_queued(&name, number + 2).await;
    }
    // The holder goes and java:1 takes it, in one step: what its script does.
    let java = "redis.call('DEL', KEYS[1]) redis.call('LPOP', KEYS[2]) redis.call('ZREM', KEYS[3], 'java:1') \
                for _, m in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do \
                redis.call('ZINCRBY', KEYS[3], -300000, m) end \
                redis.call('HSET', KEYS[1], 'java:1', 1) return redis.call('PEXPIRE', KEYS[1], 30000)";
    raw.must(&["EVAL", java, "3", &name, &queue(&name), &timeouts(&name)]).await;
    let owners = waiting(&mut raw, &name).await;
    assert_eq!(owners.len(), 3);
    for (place, owner) in owners.iter().enumerate() {
        let ahead = score(&mut raw, &name, owner).await - start;
        assert!(ahead >= 300_000 * (place as i64 + 1) - 1_000, "{place}: {ahead}");
    }
    assert!(guard.unlock().await.is_err());
    raw.must(&["DEL", &name]).await;
    patient_all("served", tasks).await;
}

/// The same while its attempt is under way: the copy reaches the server when its waiter has gone.
#[tokio::test(flavor = "multi_thread")]
async fn id_3_4_c_a_held_back_enqueue_leaves_no_entry() {
    let proxy = Proxy::start(Server::shared().port());
    let a = connect(Locks::builder()).await;
    let b = Locks::builder().command_timeout(ms(1500)).connect(&proxy.url()).await.unwrap();
    let (name, mut raw) = (unique("34cheld"), raw().await);
    let guard = fair(&a, &name, "holder").guard().await.unwrap();
    let held = proxy.hold_back(1, Filter::Script.with(&name));
    let task = spawn_with(fair(&b, &name, "gone"), |gone| async move { gone.lock().await });
    held.wait_for(1).await;
    task.abort();
    held.release().await;
    until_queued(&name, 1).await;
    eventually(secs(10), "the entry is swept", async || waiting(&mut raw, &name).await.is_empty()).await;
    guard.unlock().await.unwrap();
    assert!(fair(&a, &name, "next").try_lock().await.unwrap().is_acquired());
}

/// Redisson subtracts from all at each acquisition and reads all at each give-up.
#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_script_does_not_grow_with_the_queue() {
    let server = Server::start();
    let locks = server.locks().await;
    let mut raw = server.raw().await;
    let mut table = Vec::new();
    for length in [10_u64, 1_000, 10_000] {
        let name = unique("load");
        let start = now(&mut raw).await;
        let fill = "for i = 1, ARGV[1] do local o = 'java:' .. i redis.call('RPUSH', KEYS[1], o) \
                    redis.call('ZADD', KEYS[2], ARGV[2] + i * 300000, o) end return 1";
        raw.must(&["EVAL", fill, "2", &queue(&name), &timeouts(&name), &length.to_string(), &start.to_string()]).await;
        let rounds = 50_u64;
        let mut calls = 0;
        let mut spent = 0;
        for _ in 0..rounds {
            // Its own entry is put in front, so that it is the next.
            let field = format!("{}:named-me", locks.client_id());
            raw.must(&["LPUSH", &queue(&name), &field]).await;
            raw.must(&["ZADD", &timeouts(&name), &(start + 300_000).to_string(), &field]).await;
            server.reset_stats();
            let lock = fair(&locks, &name, "me");
            lock.lock().await.unwrap();
            lock.unlock().await.unwrap();
            let stats = server.stats();
            spent += stats.get("evalsha").map_or(0, |stat| stat.1);
            calls += stats.iter().filter(|(name, _)| !name.contains("config")).map(|(_, stat)| stat.0).sum::<u64>();
        }
        println!("{length} waiters: {} us and {} calls an acquire and release", spent / rounds, calls / rounds);
        table.push((calls / rounds, spent / rounds));
    }
    let (few, many) = (table[0].0, table[2].0);
    // At 10 there is a pass of 10 each 10 acquisitions; at 10,000 one each 10,000.
    assert!(many <= few * 2 && many < 60, "{table:?}");
}

/// All that a crowd of one process asks of the server, and what it costs to go away from the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_asks_little_and_leaves() {
    let server = Server::start();
    let (a, b) = (server.locks().await, server.locks().await);
    let (name, mut raw, count) = (unique("crowd"), server.raw().await, soak(10_000));
    let guard = fair(&a, &name, "holder").guard().await.unwrap();
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let lock = fair(&b, &name, &number.to_string());
            tokio::spawn(async move { lock.guard().await.unwrap().unlock().await.unwrap() })
        })
        .collect();
    let queued = async |raw: &mut Raw| raw.must(&["LLEN", &queue(&name)]).await.int();
    eventually(secs(60), "all are queued", async || queued(&mut raw).await == count as i64).await;
    eventually(secs(60), "all subscribe", async || b.health().subscriptions == count).await;
    // Until the last of them has looked behind its subscription.
    let settled = async || {
        server.reset_stats();
        sleep(secs(1)).await;
        server.calls("evalsha") <= 20
    };
    eventually(secs(60), "they are at rest", settled).await;
    server.reset_stats();
    let span = soak(400) as u64 / 10;
    sleep(secs(span)).await;
    let scripts = server.calls("evalsha");
    println!("{count} wait: {scripts} scripts in {span} s");
    assert!(scripts <= 20 * span, "{scripts}");
    server.reset_stats();
    for task in &tasks {
        task.abort();
    }
    eventually(secs(60), "all leave", async || queued(&mut raw).await == 0).await;
    let stats = server.stats();
    let (calls, spent) = stats.get("evalsha").copied().unwrap_or_default();
    println!("{calls} scripts to leave, {} us each", spent / calls.max(1));
    assert!(calls <= count as u64 + 10);
    guard.unlock().await.unwrap();
}
