//! The fair lock: one queue for waiters of both sides.

use lockson::FairLock;

use crate::*;

/// How long Java believes in a waiter: the default is five minutes, and the hold below outlives it.
const FAIR_WAIT: &str = "fair_wait=4000";
const HOLD: Duration = secs(12);
/// As many of each side.
const WAITERS: usize = 20;

fn queue_of(name: &str) -> String {
    format!("redisson_lock_queue:{{{name}}}")
}

fn timeouts_of(name: &str) -> String {
    format!("redisson_lock_timeout:{{{name}}}")
}

async fn queue_len(raw: &mut Raw, name: &str) -> usize {
    raw.must(&["LLEN", &queue_of(name)]).await.int() as usize
}

/// How far each score is ahead of the server's time, in the order of the queue.
const AHEAD: &str = "local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ahead = {}
for place, owner in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  ahead[place] = string.format('%.0f', (redis.call('ZSCORE', KEYS[2], owner) or now) - now)
end
return ahead";

fn fair(locks: &Locks, name: &str, owner: &str) -> FairLock {
    locks.fair_lock(name).owned_by(&Owner::named(owner).unwrap())
}

/// What becomes of a waiter.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Served,
    /// It gives up before its turn.
    GivesUp,
    /// Its process is killed before its turn.
    Killed,
}

/// One waiter in the order of the queue; its task gives the lock back when it has it, and says whether it had.
struct Waiter {
    fate: Fate,
    task: JoinHandle<bool>,
}

struct Stage {
    name: String,
    java: Java,
    rust: Locks,
    dying_java: Java,
    dying_rust: Vec<Process>,
    port: String,
    served: Arc<std::sync::Mutex<Vec<usize>>>,
}

impl Stage {
    /// The end of its field in the queue.
    async fn mark(&self, at: usize, fate: Fate) -> String {
        let who = format!("waiter-{at}");
        if !at.is_multiple_of(2) {
            return format!(":named-{who}");
        }
        let java = if fate == Fate::Killed { &self.dying_java } else { &self.java };
        let [id, thread] = ["id", "thread"].map(|verb| java.must(&who, "client", "-", verb));
        format!("{}:{}", id.await, thread.await)
    }

    async fn waiter(&mut self, at: usize, fate: Fate) -> Waiter {
        let (is_java, who, served) = (at.is_multiple_of(2), format!("waiter-{at}"), self.served.clone());
        let name = self.name.clone();
        let task = match (is_java, fate) {
            (true, Fate::Served) => {
                let (java, had) = (self.java.clone(), self.java.must(&who, "fair_lock", &name, "lock"));
                tokio::spawn(async move {
                    had.await;
                    served.lock().unwrap().push(at);
                    java.must(&who, "fair_lock", &name, "unlock").await;
                    true
                })
            }
            (true, Fate::GivesUp) => {
                let had = self.java.get::<bool>(&who, "fair_lock", &name, "try_lock 5000 -1");
                tokio::spawn(had)
            }
            (true, Fate::Killed) => {
                let had = self.dying_java.call(&who, "fair_lock", &name, "lock");
                tokio::spawn(async move { had.await.is_ok() })
            }
            (false, Fate::Served) => {
                let lock = fair(&self.rust, &name, &who);
                tokio::spawn(async move {
                    lock.lock().await.unwrap();
                    served.lock().unwrap().push(at);
                    lock.unlock().await.unwrap();
                    true
                })
            }
            (false, Fate::GivesUp) => {
                let lock = fair(&self.rust, &name, &who);
                tokio::spawn(async move { lock.acquire().wait(secs(5)).await.unwrap().is_acquired() })
            }
            (false, Fate::Killed) => {
                self.dying_rust.push(Process::start("interop", "queue", &[&self.port, &name, &who]));
                tokio::spawn(std::future::pending())
            }
        };
        Waiter { fate, task }
    }
}

/// 20 of each side, interleaved. Some give up, some are killed; the hold outlives what Java believes of its waiters,
/// and those that live are served in the order of the queue.
pub async fn waiters_of_both_are_served_in_the_order_of_the_queue(world: Arc<World>) {
    let (seed, name, mut raw) = (seed(), unique("queue"), world.server.raw().await);
    let dying = Jvm::start(&world.class_path);
    let mut stage = Stage {
        name: name.clone(),
        java: world.java(FAIR_WAIT).await,
        rust: world.rust(Locks::builder()).await,
        dying_java: dying.client(world.server.port(), FAIR_WAIT).await,
        dying_rust: Vec::new(),
        port: world.server.port().to_string(),
        served: Arc::default(),
    };
    let mut rng = Rng::new(seed);
    let mut fates: Vec<Fate> = (0..2 * WAITERS).map(|_| Fate::Served).collect();
    // Three of each side give up, two of each are killed. The last is one of lockson that lives: a queue that only Java
    // waits in has its dead for as long as Java's clocks say.
    for (fate, count) in [(Fate::GivesUp, 6), (Fate::Killed, 4)] {
        for turn in 0..count {
            let free = |at: &usize| at % 2 == turn % 2 && (2..2 * WAITERS - 1).contains(at);
            let at =
                (0..).map(|_| rng.below(2 * WAITERS as u64) as usize).find(|at| free(at) && fates[*at] == Fate::Served);
            fates[at.unwrap()] = fate;
        }
    }
    let holder = fair(&stage.rust, &name, "holder");
    holder.lock().await.unwrap();
    let held = Instant::now();
    let mut waiters = Vec::new();
    for (at, fate) in fates.iter().enumerate() {
        let mark = stage.mark(at, *fate).await;
        waiters.push(stage.waiter(at, *fate).await);
        eventually(secs(30), "the next one is queued", async || {
            let queued = world.server.raw().await.must(&["LRANGE", &queue_of(&name), "0", "-1"]).await.texts();
            queued.iter().any(|field| field.ends_with(&mark))
        })
        .await;
    }
    serve(&world, stage, waiters, dying, holder, held).await;
    let served_all = queue_len(&mut raw, &name).await == 0;
    assert!(served_all, "the queue is empty, seed {seed}");
    println!("fair queue of 40: in order, seed {seed}");
}

async fn serve(
    world: &World,
    mut stage: Stage,
    waiters: Vec<Waiter>,
    dying: Arc<Jvm>,
    holder: FairLock,
    held: Instant,
) {
    let mut raw = world.server.raw().await;
    let (mut expected, mut tasks) = (Vec::new(), Vec::new());
    for (at, waiter) in waiters.into_iter().enumerate() {
        match waiter.fate {
            Fate::Served => {
                expected.push(at);
                tasks.push(waiter.task);
            }
            Fate::GivesUp => assert!(!waiter.task.await.unwrap(), "{at} had the lock while it was held"),
            Fate::Killed => waiter.task.abort(),
        }
    }
    dying.kill();
    stage.dying_rust.clear();
    let order = raw.must(&["LRANGE", &queue_of(&stage.name), "0", "-1"]).await.texts();
    assert_eq!(order.len(), expected.len() + 4, "the dead are still queued, and nobody alive was dropped: {order:?}");
    sleep(HOLD.saturating_sub(held.elapsed())).await;
    let still = raw.must(&["LRANGE", &queue_of(&stage.name), "0", "-1"]).await.texts();
    assert_eq!(still, order, "dropped or moved during the hold");
    holder.unlock().await.unwrap();
    for task in tasks {
        tokio::time::timeout(secs(60), task).await.expect("served").unwrap();
    }
    assert_eq!(*stage.served.lock().unwrap(), expected);
}

/// Twelve of both sides, each served for a moment. Java takes 300 s off all scores at each acquisition, and whoever is
/// the next with a score that has passed is dropped at the next release: nobody is.
pub async fn acquisitions_of_both_drop_nobody(world: Arc<World>) {
    let [java, rust] = world.both().await;
    for round in 0..soak(50) {
        let (name, served) = (unique("moments"), Arc::new(std::sync::Mutex::new(Vec::new())));
        let holder = java.lock(Kind::Fair, &name, &format!("holder-{name}"));
        holder.must_lock(None).await;
        let mut tasks = Vec::new();
        for at in 0..12 {
            let peer = if (at + round) % 2 == 0 { &java } else { &rust };
            let (lock, served) = (peer.lock(Kind::Fair, &name, &format!("moment-{at}-{name}")), served.clone());
            let waiter = lock.lock(None);
            tasks.push(tokio::spawn(async move {
                waiter.await.unwrap().result.unwrap();
                served.lock().unwrap().push(at);
                lock.unlock().await.result.unwrap();
            }));
            eventually(secs(20), "it is queued", async || queue_len(&mut world.server.raw().await, &name).await > at)
                .await;
        }
        holder.unlock().await.result.unwrap();
        for task in tasks {
            tokio::time::timeout(secs(60), task).await.expect("served").unwrap();
        }
        assert_eq!(*served.lock().unwrap(), (0..12).collect::<Vec<_>>(), "round {round}");
    }
}

/// A process that is silent for some seconds while the lock is held, as one that is paused or cut off, keeps its place
/// though Java's clients look at the queue meanwhile and drop whoever they take for dead.
pub async fn a_silent_waiter_keeps_its_place(world: Arc<World>) {
    let (name, proxy) = (unique("silent"), Proxy::start(world.server.port()));
    // A short lease: what is left of it is what Java gives the first waiter beside his own wait.
    let (holder, java) = (world.java("watchdog=3000").await, world.java("").await);
    let silent = connect(Locks::builder(), &proxy.url()).await;
    let served = Arc::new(std::sync::Mutex::new(Vec::new()));
    holder.must("holder", "fair_lock", &name, "lock").await;
    let (first, had) = (fair(&silent, &name, "silent"), served.clone());
    let first = tokio::spawn(async move {
        first.lock().await.unwrap();
        had.lock().unwrap().push("silent");
        first.unlock().await.unwrap();
    });
    eventually(secs(20), "it is queued", async || queue_len(&mut world.server.raw().await, &name).await == 1).await;
    let (second, had, name_of) = (java.clone(), served.clone(), name.clone());
    let second = tokio::spawn(async move {
        second.must("second", "fair_lock", &name_of, "lock").await;
        had.lock().unwrap().push("second");
        second.must("second", "fair_lock", &name_of, "unlock").await;
    });
    eventually(secs(20), "so is Java's", async || queue_len(&mut world.server.raw().await, &name).await == 2).await;
    let mut raw = world.server.raw().await;
    let order = raw.must(&["LRANGE", &queue_of(&name), "0", "-1"]).await.texts();
    proxy.stall_requests(true);
    let until = Instant::now() + secs(8);
    while Instant::now() < until {
        assert!(!java.get::<bool>("passer", "fair_lock", &name, "try_lock").await, "it is held");
        let now = raw.must(&["LRANGE", &queue_of(&name), "0", "-1"]).await.texts();
        assert_eq!(now, order, "a waiter that lives was dropped");
        sleep(ms(200)).await;
    }
    proxy.heal();
    holder.must("holder", "fair_lock", &name, "unlock").await;
    for task in [first, second] {
        tokio::time::timeout(secs(60), task).await.expect("served").unwrap();
    }
    assert_eq!(*served.lock().unwrap(), ["silent", "second"]);
}

/// Eight of both sides with a lease of a second each, who never unlock: the next one gets in when a lease ends, in the
/// order of the queue.
pub async fn leases_end_in_the_order_of_the_queue(world: Arc<World>) {
    let (name, order) = (unique("leases"), Arc::new(std::sync::Mutex::new(Vec::new())));
    let [java, rust] = [Peer::Java(world.java("").await), Peer::Rust(world.rust(Locks::builder()).await)];
    let mut tasks = Vec::new();
    for at in 0..8 {
        let peer = if at % 2 == 0 { &java } else { &rust };
        let (waiter, had) = (peer.lock(Kind::Fair, &name, &format!("lease-{at}")).lock(Some(secs(1))), order.clone());
        tasks.push(tokio::spawn(async move {
            waiter.await.unwrap().result.unwrap();
            had.lock().unwrap().push(at);
        }));
        eventually(secs(20), "the next one is there", async || {
            // Some of those before have had it by then.
            let had = order.lock().unwrap().len();
            queue_len(&mut world.server.raw().await, &name).await + had > at
        })
        .await;
    }
    for task in tasks {
        tokio::time::timeout(secs(60), task).await.expect("a lease ends").unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

/// The Rust process that is killed while it waits.
pub async fn queue(url: &str, args: &[String]) {
    let lock = fair(&connect(Locks::builder(), url).await, &args[0], &args[1]);
    lock.lock().await.unwrap();
    panic!("a waiter that was to be killed was served");
}

/// How far the scores are from where they would be with nothing left over, 300 s for each place: never further than
/// 300 s for each of the longest queue. Without an end it would be 300 s for each acquisition.
pub async fn scores_do_not_drift(world: Arc<World>) {
    let (seed, name, asked) = (seed(), unique("drift"), soak(2000));
    let (java, rust) = (world.java("").await, world.rust(Locks::builder()).await);
    let (mut tasks, each) = (Vec::new(), asked.div_ceil(8));
    for at in 0..4 {
        let lock = fair(&rust, &name, &format!("drift-{at}"));
        let (who, name, java) = (format!("drift-{at}"), name.clone(), java.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..each {
                java.must(&who, "fair_lock", &name, "lock").await;
                java.must(&who, "fair_lock", &name, "unlock").await;
            }
        }));
        tasks.push(tokio::spawn(async move {
            for _ in 0..each {
                lock.lock().await.unwrap();
                lock.unlock().await.unwrap();
            }
        }));
    }
    let (mut raw, mut furthest, mut looks) = (world.server.raw().await, i64::MIN, 0);
    while tasks.iter().any(|task| !task.is_finished()) {
        let scores = raw.must(&["EVAL", AHEAD, "2", &queue_of(&name), &timeouts_of(&name)]).await.texts();
        for (place, ahead) in (1..).zip(&scores) {
            // Java's first waiter adds what is left of the lease.
            let drift = ahead.parse::<i64>().unwrap() - place * 300_000 - 30_000;
            assert!(drift <= 8 * 300_000, "place {place} of {}: {drift} ms too far, seed {seed}", scores.len());
            furthest = furthest.max(drift);
            looks += 1;
        }
        sleep(ms(2)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    println!("fair scores: {} acquisitions, {looks} looks, drift up to {furthest} ms", each * 8);
    assert!(looks > 0, "a queue was seen");
    assert!(!raw.exists(&queue_of(&name)).await && !raw.exists(&timeouts_of(&name)).await);
}
