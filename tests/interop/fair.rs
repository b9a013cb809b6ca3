//! The fair lock: one queue for waiters of both sides.

use lockson::FairLock;

use crate::*;

/// How long Java believes in a waiter: the default is five minutes, and the hold below outlives it.
const FAIR_WAIT: &str = "fair_wait=4000";
const HOLD: Duration = secs(12);
/// As many of each side.
const WAITERS: usize = 20;

pub fn queue_of(name: &str) -> String {
    format!("redisson_lock_queue:{{{name}}}")
}

pub fn timeouts_of(name: &str) -> String {
    format!("redisson_lock_timeout:{{{name}}}")
}

pub async fn queued(server: &Server, name: &str) -> Vec<String> {
    server.raw().await.must(&["LRANGE", &queue_of(name), "0", "-1"]).await.texts()
}

pub async fn until_queued(server: &Server, name: &str, count: usize) {
    eventually(secs(20), "the next one is queued", async || queued(server, name).await.len() >= count).await;
}

/// Who has had the lock, in order.
type Served = Arc<std::sync::Mutex<Vec<usize>>>;

/// Waits for a lock as number `at`, and gives it back at once. Begins now.
fn turn(lock: Side, at: usize, served: &Served) -> JoinHandle<()> {
    let (waiter, served) = (lock.lock(None), served.clone());
    tokio::spawn(async move {
        waiter.await.unwrap().result.unwrap();
        served.lock().unwrap().push(at);
        lock.unlock().await.result.unwrap();
    })
}

async fn all_end(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        tokio::time::timeout(secs(60), task).await.expect("served").unwrap();
    }
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

struct Stage {
    name: String,
    java: Java,
    rust: Locks,
    dying_java: Java,
    dying_rust: Vec<Process>,
    url: String,
    served: Served,
    /// Those of the waiters that are served.
    tasks: Vec<JoinHandle<()>>,
    /// Those of the waiters that give up: whether they had it.
    gave_up: Vec<JoinHandle<Result<bool, String>>>,
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

    fn begin(&mut self, at: usize, fate: Fate) {
        let (is_java, who) = (at.is_multiple_of(2), format!("waiter-{at}"));
        let peer = if is_java { Peer::Java(self.java.clone()) } else { Peer::Rust(self.rust.clone()) };
        let lock = peer.lock(Kind::Fair, &self.name, &who);
        match fate {
            Fate::Served => self.tasks.push(turn(lock, at, &self.served)),
            Fate::GivesUp => self.gave_up.push(tokio::spawn(async move { lock.try_lock(secs(5), None).await })),
            Fate::Killed if is_java => drop(self.dying_java.call(&who, "fair_lock", &self.name, "lock")),
            Fate::Killed => {
                self.dying_rust.push(Process::start("interop", "queue", &[&self.url, &self.name, &who]));
            }
        }
    }
}

/// 20 of each side, interleaved. Some give up, some are killed; who lives is served in the order of the queue.
pub async fn waiters_of_both_are_served_in_the_order_of_the_queue(world: Arc<World>) {
    let (seed, name) = (seed(), unique("queue"));
    let dying = Jvm::start(&world.class_path);
    let mut stage = Stage {
        name: name.clone(),
        java: world.java(FAIR_WAIT).await,
        rust: world.rust(Locks::builder()).await,
        dying_java: dying.client(&world.place.url(), FAIR_WAIT).await,
        dying_rust: Vec::new(),
        url: world.place.url(),
        served: Arc::default(),
        tasks: Vec::new(),
        gave_up: Vec::new(),
    };
    let mut rng = Rng::with_seed(seed);
    let mut fates: Vec<Fate> = (0..2 * WAITERS).map(|_| Fate::Served).collect();
    // Three of each side give up, two are killed. The last one is lockson's: Java alone keeps its dead for long.
    for (fate, count) in [(Fate::GivesUp, 6), (Fate::Killed, 4)] {
        for turn in 0..count {
            let free = |at: &usize| at % 2 == turn % 2 && (2..2 * WAITERS - 1).contains(at);
            let at = (0..).map(|_| rng.usize(..2 * WAITERS)).find(|at| free(at) && fates[*at] == Fate::Served);
            fates[at.unwrap()] = fate;
        }
    }
    let holder = fair(&stage.rust, &name, "holder");
    holder.lock().await.unwrap();
    let held = Instant::now();
    for (at, fate) in fates.iter().enumerate() {
        let mark = stage.mark(at, *fate).await;
        stage.begin(at, *fate);
        let queued_now =
            async || queued(world.place.server_of(&name), &name).await.iter().any(|field| field.ends_with(&mark));
        eventually(secs(30), "the next one is queued", queued_now).await;
    }
    for waiter in stage.gave_up {
        assert!(!waiter.await.unwrap().unwrap(), "it had the lock while it was held");
    }
    dying.kill();
    drop(stage.dying_rust);
    let expected: Vec<usize> = (0..fates.len()).filter(|at| fates[*at] == Fate::Served).collect();
    let order = queued(world.place.server_of(&name), &name).await;
    assert_eq!(order.len(), expected.len() + 4, "the dead are still queued, and nobody alive was dropped: {order:?}");
    sleep(HOLD.saturating_sub(held.elapsed())).await;
    assert_eq!(queued(world.place.server_of(&name), &name).await, order, "dropped or moved during the hold");
    holder.unlock().await.unwrap();
    all_end(stage.tasks).await;
    assert_eq!(*stage.served.lock().unwrap(), expected);
    assert!(queued(world.place.server_of(&name), &name).await.is_empty(), "the queue is empty, seed {seed}");
    println!("fair queue of 40: in order, seed {seed}");
}

/// Twelve of both sides, each served for a moment. Java takes 300 s off all scores each time: nobody is dropped for it.
pub async fn acquisitions_of_both_drop_nobody(world: Arc<World>) {
    let [java, rust] = world.both().await;
    for round in 0..soak(50) {
        let (name, served) = (unique("moments"), Served::default());
        let holder = java.lock(Kind::Fair, &name, &format!("holder-{name}"));
        holder.must_lock(None).await;
        let mut tasks = Vec::new();
        for at in 0..12 {
            let peer = if (at + round) % 2 == 0 { &java } else { &rust };
            tasks.push(turn(peer.lock(Kind::Fair, &name, &format!("moment-{at}-{name}")), at, &served));
            until_queued(world.place.server_of(&name), &name, at + 1).await;
        }
        holder.unlock().await.result.unwrap();
        all_end(tasks).await;
        assert_eq!(*served.lock().unwrap(), (0..12).collect::<Vec<_>>(), "round {round}");
    }
}

/// A process that is silent while the lock is held keeps its place, though Java's clients drop who seems dead.
pub async fn a_silent_waiter_keeps_its_place(world: Arc<World>) {
    let (name, proxy) = (unique("silent"), Proxy::start(world.place.server().port()));
    // A short lease: what is left of it is what Java gives the first waiter beside his own wait.
    let (holder, java) = (world.java("watchdog=3000").await, world.java("").await);
    let silent = Peer::Rust(connect(Locks::builder(), &proxy.url()).await);
    let (served, mut tasks) = (Served::default(), Vec::new());
    holder.must("holder", "fair_lock", &name, "lock").await;
    for (at, (peer, who)) in [(&silent, "silent"), (&Peer::Java(java.clone()), "second")].into_iter().enumerate() {
        tasks.push(turn(peer.lock(Kind::Fair, &name, who), at, &served));
        until_queued(world.place.server_of(&name), &name, at + 1).await;
    }
    let order = queued(world.place.server_of(&name), &name).await;
    proxy.stall_requests(true);
    let until = Instant::now() + secs(8);
    while Instant::now() < until {
        assert!(!java.get::<bool>("passer", "fair_lock", &name, "try_lock").await, "it is held");
        assert_eq!(queued(world.place.server_of(&name), &name).await, order, "a waiter that lives was dropped");
        sleep(ms(200)).await;
    }
    proxy.heal();
    holder.must("holder", "fair_lock", &name, "unlock").await;
    all_end(tasks).await;
    assert_eq!(*served.lock().unwrap(), [0, 1]);
}

/// Eight of both sides with a lease of a second each, who never unlock: they are served in the order of the queue.
pub async fn leases_end_in_the_order_of_the_queue(world: Arc<World>) {
    let (name, order) = (unique("leases"), Served::default());
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
            queued(world.place.server_of(&name), &name).await.len() + had > at
        })
        .await;
    }
    all_end(tasks).await;
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

/// The Rust process that is killed while it waits.
pub async fn queue(url: &str, args: &[String]) {
    let lock = fair(&connect(Locks::builder(), url).await, &args[0], &args[1]);
    lock.lock().await.unwrap();
    panic!("a waiter that was to be killed was served");
}

/// How far the scores are from 300 s for each place: never further than 300 s for each of the longest queue.
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
    let (mut raw, mut furthest, mut looks) = (world.raw(&name).await, i64::MIN, 0);
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
    all_end(tasks).await;
    println!("fair scores: {} acquisitions, {looks} looks, drift up to {furthest} ms", each * 8);
    assert!(looks > 0, "a queue was seen");
    assert!(!raw.exists(&queue_of(&name)).await && !raw.exists(&timeouts_of(&name)).await);
}
