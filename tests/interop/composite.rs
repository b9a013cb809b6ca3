//! Several locks as one: Redisson's multi-lock and lockson's over the same members. And what red locks do as well.

use crate::*;

pub const ROW: &str = "multi";

pub const ABSENT: Absent =
    &[("multi", "forces", "a multi-lock is not forced, its members are: see their rows; Redisson's throws")];

/// The members: two plain locks and a fair one.
fn names() -> [String; 3] {
    ["a", "b", "c"].map(|part| unique(&format!("multi-{part}")))
}

/// One side's multi-lock over some names, for one owner.
fn side(peer: &Peer, names: &[String], who: &str) -> Side {
    match peer {
        Peer::Java(java) => {
            let members: Vec<String> = names.iter().map(|name| java.member("lock", name)).collect();
            let who = format!("{who}-{}", names[0]);
            Side::Java { java: java.clone(), who, object: "multi", name: members.join(",") }
        }
        Peer::Rust(locks) => Side::Rust(Arc::new(multi(locks, names, who))),
    }
}

pub fn multi(locks: &Locks, names: &[String], who: &str) -> MultiLock {
    MultiLock::new(names.iter().map(|name| locks.lock(name))).owned_by(&Owner::named(who).unwrap())
}

/// How often a lock is held, by its one holder.
pub async fn count(raw: &mut Raw, name: &str) -> String {
    raw.hgetall(name).await.into_iter().map(|(_, count)| count).collect::<Vec<_>>().join("+")
}

/// What two sides do with such a lock. A wait of a second takes `at_least`; `counts` is how often each member is held.
pub async fn verbs(
    (row, direction): (&str, &str),
    [mine, theirs]: [&Side; 2],
    at_least: Duration,
    (counts, once): (impl AsyncFn() -> Vec<String>, [&str; 3]),
    until_waiting: impl Future<Output = ()>,
) {
    assert!(mine.take(LONG, Some(LONG)).await && mine.is_held().await && !theirs.is_held().await);
    assert_eq!(counts().await, once);
    assert!(!theirs.take(ms(0), None).await);
    let began = Instant::now();
    assert!(!theirs.take(secs(1), None).await);
    assert!(began.elapsed() >= at_least, "{:?}", began.elapsed());
    eventually(SOON, "what was taken in vain is given back", async || counts().await == once).await;
    assert!(mine.take(LONG, Some(LONG)).await);
    assert_eq!(counts().await, once.map(|count| count.replace('1', "2")));
    mine.unlock().await.result.unwrap();
    assert_eq!(counts().await, once);
    let waiter = theirs.begin(Some(LONG));
    until_waiting.await;
    assert!(!waiter.is_finished());
    mine.unlock().await.result.unwrap();
    assert!(patient("woken by the message", waiter).await.unwrap());
    theirs.unlock().await.result.unwrap();
    shown(row, &["state", "excludes", "times out", "re-enters", "wakes"], direction);
}

/// A lease that ends gives it to the other side. `is_told`: whether a late unlock hears of that.
pub async fn expires((row, direction): (&str, &str), [mine, theirs]: [&Side; 2], lease: Duration, is_told: bool) {
    assert!(mine.take(LONG, Some(lease)).await);
    assert!(patient("the leases end", theirs.begin(Some(LONG))).await.unwrap());
    assert_eq!(mine.unlock().await.result.is_err(), is_told, "a late unlock");
    assert!(theirs.is_held().await, "the late unlock took the next one's");
    theirs.unlock().await.result.unwrap();
    shown(row, &["expires"], direction);
}

/// Both have short leases: who holds it keeps it for longer.
pub async fn renews(world: &World, (row, direction): (&str, &str), [mine, theirs]: [&Side; 2]) {
    assert!(mine.take(secs(5), None).await);
    let until = Instant::now() + world.short * 3;
    while Instant::now() < until {
        assert!(!theirs.take(ms(0), None).await, "{direction}: not renewed");
        sleep(ms(200)).await;
    }
    mine.unlock().await.result.unwrap();
    shown(row, &["renews"], direction);
}

/// A process holds what somebody waits for: the waiter gets it when the process is killed, and not before.
pub async fn outlives<T>(world: &World, waiter: JoinHandle<T>, kill: impl FnOnce()) -> T {
    sleep(world.short + secs(1)).await;
    assert!(!waiter.is_finished(), "it is renewed while its process lives");
    kill();
    patient("what the process held", waiter).await.unwrap()
}

/// The same of a lock that is the other side's then.
pub async fn is_inherited(world: &World, (row, direction): (&str, &str), heir: &Side, kill: impl FnOnce()) {
    assert!(outlives(world, heir.begin(None), kill).await);
    heir.unlock().await.result.unwrap();
    shown(row, &["crash"], direction);
}

pub async fn multi_locks_keep_each_other_out(world: Arc<World>) {
    let [java, rust] = world.both().await;
    let short = world.both_short().await;
    tokio::join!(keeps_out(&world, &java, &rust, &short[0]), keeps_out(&world, &rust, &java, &short[1]));
}

async fn keeps_out(world: &World, holder: &Peer, other: &Peer, renewed: &Peer) {
    let (cell, all) = ((ROW, holder.towards(other)), names());
    // They overlap in one member.
    let (mine, theirs) = (side(holder, &all[..2], "mine"), side(other, &all[1..], "theirs"));
    let counts = async || {
        let mut raw = world.server.raw().await;
        vec![count(&mut raw, &all[0]).await, count(&mut raw, &all[1]).await, count(&mut raw, &all[2]).await]
    };
    assert!(mine.take(LONG, Some(LONG)).await);
    for name in &all[..2] {
        let ttl = world.server.raw().await.pttl(name).await;
        assert!(ttl > 20_000 && ttl <= 60_000, "{ttl}");
    }
    mine.unlock().await.result.unwrap();
    let until_waiting = until_listening(&world.server, &all[1]);
    verbs(cell, [&mine, &theirs], ms(999), (counts, ["1", "1", ""]), until_waiting).await;
    let others = names();
    let (mine, theirs) = (side(holder, &others, "mine"), side(other, &others, "theirs"));
    expires(cell, [&mine, &theirs], ms(1500), true).await;
    for name in all.iter().chain(&others) {
        leaves_nothing(world, name).await;
    }
    let names = names();
    renews(world, cell, [&side(renewed, &names[..2], "mine"), &side(other, &names[1..], "theirs")]).await;
}

/// A multi-lock of a process that is killed is the other side's.
pub async fn multi_locks_of_the_dead_are_free(world: Arc<World>) {
    let ([java, rust], all) = (world.both_short().await, names());
    let jvm = Jvm::start(&world.class_path);
    let victim = jvm.client(world.server.port(), "watchdog=3000").await;
    assert!(side(&Peer::Java(victim), &all, "victim").take(LONG, None).await);
    is_inherited(&world, (ROW, "J>R"), &side(&rust, &all, "heir"), || jvm.kill()).await;
    let (port, short) = (world.server.port().to_string(), world.short.as_millis().to_string());
    let mut process = holder("multi", &[&port, &short, &all[0], &all[1], &all[2]]).await;
    is_inherited(&world, (ROW, "R>J"), &side(&java, &all, "heir"), || process.kill()).await;
}

/// The process that is killed.
pub async fn hold(url: &str, args: &[String]) {
    let locks = connect(brief(ms(args[0].parse().unwrap())), url).await;
    multi(&locks, &args[1..], "victim").lock().await.unwrap();
    say_held().await
}
