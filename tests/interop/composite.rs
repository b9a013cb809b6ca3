//! Several locks as one: Redisson's multi-lock and lockson's over the same members.

use crate::*;

pub const ROW: &str = "multi";

pub const ABSENT: Absent =
    &[("multi", "forces", "a multi-lock is not forced, its members are: see their rows; Redisson's throws")];

/// The members: two plain locks and a fair one.
fn names() -> [String; 3] {
    ["a", "b", "c"].map(|part| unique(&format!("multi-{part}")))
}

/// One side's multi-lock over some names, for one owner.
#[derive(Clone)]
pub enum Hand {
    Java { java: Java, who: String, object: &'static str, members: String },
    Rust(Arc<dyn RLock>),
}

impl Hand {
    fn of(peer: &Peer, names: &[String], who: &str) -> Hand {
        match peer {
            Peer::Java(java) => {
                let members: Vec<String> = names.iter().map(|name| java.member("lock", name)).collect();
                let who = format!("{who}-{}", names[0]);
                Hand::Java { java: java.clone(), who, object: "multi", members: members.join(",") }
            }
            Peer::Rust(locks) => Hand::Rust(multi(locks, names, who)),
        }
    }

    /// Waits for all of them. Begins now.
    pub fn begin(&self, lease: Option<Duration>) -> JoinHandle<bool> {
        let hand = self.clone();
        spawn_local(async move { hand.take(LONG, lease).await })
    }

    pub async fn take(&self, wait: Duration, lease: Option<Duration>) -> bool {
        match self {
            Hand::Java { java, who, object, members } => {
                let lease = lease.map_or(-1, |lease| lease.as_millis() as i64);
                java.get(who, object, members, &format!("try_lock {} {lease}", wait.as_millis())).await
            }
            Hand::Rust(lock) => {
                let request = Request::default().wait(wait);
                let request = lease.map_or(request.clone(), |lease| request.lease(lease));
                loop {
                    match lock.acquire_with(request.clone()).await {
                        // A busy machine: nothing is known, so it is asked again.
                        Err(LockError::Unreachable { .. }) => {}
                        known => return known.unwrap().is_acquired(),
                    }
                }
            }
        }
    }

    pub async fn give(&self) -> Result<(), String> {
        match self {
            Hand::Java { java, who, object, members } => java.call(who, object, members, "unlock").await.map(drop),
            Hand::Rust(lock) => lock.unlock().await.map_err(|error| error.to_string()),
        }
    }

    pub async fn is_held(&self) -> bool {
        match self {
            Hand::Java { java, who, object, members } => java.get(who, object, members, "held").await,
            Hand::Rust(lock) => lock.is_held().await.unwrap(),
        }
    }
}

fn multi(locks: &Locks, names: &[String], who: &str) -> Arc<dyn RLock> {
    let members = names.iter().map(|name| locks.lock(name));
    Arc::new(MultiLock::new(members).owned_by(&Owner::named(who).unwrap()))
}

/// How often each is held, by its one holder.
async fn counts(raw: &mut Raw, names: &[String]) -> Vec<String> {
    let mut counts = Vec::new();
    for name in names {
        counts.push(raw.hgetall(name).await.into_iter().map(|(_, count)| count).collect::<Vec<_>>().join("+"));
    }
    counts
}

async fn until_waiting(world: &World, name: &str) {
    let pattern = format!("*{name}*");
    eventually(SOON, "the waiter subscribes", async || {
        !world.server.raw().await.must(&["PUBSUB", "CHANNELS", &pattern]).await.list().is_empty()
    })
    .await;
}

pub async fn multi_locks_keep_each_other_out(world: Arc<World>) {
    let [java, rust] = world.both().await;
    let short = world.both_short().await;
    tokio::join!(keeps_out(&world, &java, &rust, &short[0]), keeps_out(&world, &rust, &java, &short[1]));
}

async fn keeps_out(world: &World, holder: &Peer, other: &Peer, renewed: &Peer) {
    let direction = holder.towards(other);
    verbs(world, holder, other, direction).await;
    expires(world, holder, other, direction).await;
    let names = names();
    let (mine, theirs) = (Hand::of(renewed, &names[..2], "mine"), Hand::of(other, &names[1..], "theirs"));
    assert!(mine.take(secs(5), None).await);
    let until = Instant::now() + world.short * 3;
    while Instant::now() < until {
        assert!(!theirs.take(ms(0), None).await, "{direction}: not renewed");
        sleep(ms(200)).await;
    }
    mine.give().await.unwrap();
    shown("multi", "renews", direction);
}

async fn verbs(world: &World, holder: &Peer, other: &Peer, direction: &str) {
    let (names, mut raw) = (names(), world.server.raw().await);
    // They overlap in one member.
    let (mine, theirs) = (Hand::of(holder, &names[..2], "mine"), Hand::of(other, &names[1..], "theirs"));
    assert!(mine.take(LONG, Some(LONG)).await && mine.is_held().await);
    assert!(!theirs.is_held().await);
    assert_eq!(counts(&mut raw, &names).await, ["1", "1", ""]);
    for name in &names[..2] {
        let ttl = raw.pttl(name).await;
        assert!(ttl > 20_000 && ttl <= 60_000, "{ttl}");
    }
    shown("multi", "state", direction);
    let began = Instant::now();
    assert!(!theirs.take(secs(1), None).await);
    assert!(began.elapsed() >= ms(999));
    eventually(SOON, "what was taken in vain is given back", async || {
        !world.server.raw().await.exists(&names[2]).await
    })
    .await;
    shown("multi", "excludes", direction);
    shown("multi", "times out", direction);
    assert!(mine.take(LONG, Some(LONG)).await);
    assert_eq!(counts(&mut raw, &names).await, ["2", "2", ""]);
    mine.give().await.unwrap();
    assert_eq!(counts(&mut raw, &names).await, ["1", "1", ""]);
    shown("multi", "re-enters", direction);
    let waiter = theirs.begin(None);
    until_waiting(world, &names[1]).await;
    mine.give().await.unwrap();
    assert!(patient("woken by the message", waiter).await.unwrap());
    shown("multi", "wakes", direction);
    theirs.give().await.unwrap();
    for name in &names {
        leaves_nothing(world, name).await;
    }
}

async fn expires(world: &World, holder: &Peer, other: &Peer, direction: &str) {
    let names = names();
    let (mine, theirs) = (Hand::of(holder, &names, "mine"), Hand::of(other, &names, "theirs"));
    assert!(mine.take(LONG, Some(ms(1500))).await);
    assert!(patient("the leases end", theirs.begin(None)).await.unwrap());
    mine.give().await.expect_err("it has ended");
    assert!(theirs.is_held().await, "the late unlock took the next one's");
    theirs.give().await.unwrap();
    shown("multi", "expires", direction);
    for name in &names {
        leaves_nothing(world, name).await;
    }
}

/// A multi-lock of a process that is killed is the other side's.
pub async fn multi_locks_of_the_dead_are_free(world: Arc<World>) {
    let [java, rust] = world.both_short().await;
    let all = names();
    let jvm = Jvm::start(&world.class_path);
    let victim = jvm.client(world.server.port(), "watchdog=3000").await;
    assert!(Hand::of(&Peer::Java(victim), &all, "victim").take(LONG, None).await);
    let heir = Hand::of(&rust, &all, "heir");
    let waiter = heir.begin(None);
    sleep(world.short + secs(1)).await;
    assert!(!waiter.is_finished(), "it is renewed while its process lives");
    jvm.kill();
    assert!(patient("Java's members", waiter).await.unwrap());
    heir.give().await.unwrap();
    shown("multi", "crash", "J>R");
    let (port, short) = (world.server.port().to_string(), world.short.as_millis().to_string());
    let mut process = Process::start("interop", "multi", &[&port, &short, &all[0], &all[1], &all[2]]);
    assert_eq!(process.line_within(secs(20)).await, "held");
    let heir = Hand::of(&java, &all, "heir");
    let waiter = heir.begin(None);
    sleep(world.short + secs(1)).await;
    assert!(!waiter.is_finished(), "it is renewed while its process lives");
    process.kill();
    assert!(patient("our members", waiter).await.unwrap());
    heir.give().await.unwrap();
    shown("multi", "crash", "R>J");
}

/// The process that is killed.
pub async fn hold(url: &str, args: &[String]) {
    let locks = connect(brief(ms(args[0].parse().unwrap())), url).await;
    multi(&locks, &args[1..], "victim").lock().await.unwrap();
    println!("held");
    std::future::pending().await
}
