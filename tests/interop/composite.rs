//! Several locks as one: Redisson's multi-lock and lockson's over the same members. And what red locks do as well.

use crate::*;

pub const ROW: &str = "multi";

pub const ABSENT: Absent =
    &[("multi", "forces", "a multi-lock is not forced, its members are: see their rows; Redisson's throws")];

/// The members: two plain locks and a fair one.
pub fn names() -> [String; 3] {
    ["a", "b", "c"].map(|part| unique(&format!("multi-{part}")))
}

/// One side's multi-lock over some names, for one owner.
pub fn side(peer: &Peer, names: &[String], who: &str) -> Side {
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
    cell: Cell,
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
    cell.shows(&["state", "excludes", "times out", "re-enters", "wakes"]);
}

/// A lease that ends gives it to the other side. `is_told`: whether a late unlock hears of that.
pub async fn expires(cell: Cell, [mine, theirs]: [&Side; 2], lease: Duration, is_told: bool) {
    assert!(mine.take(LONG, Some(lease)).await);
    assert!(patient("the leases end", theirs.begin(Some(LONG))).await.unwrap());
    assert_eq!(mine.unlock().await.result.is_err(), is_told, "a late unlock");
    assert!(theirs.is_held().await, "the late unlock took the next one's");
    theirs.unlock().await.result.unwrap();
    cell.shows(&["expires"]);
}

/// Both have short leases: who holds it keeps it for longer.
pub async fn renews(world: &World, cell: Cell, [mine, theirs]: [&Side; 2]) {
    assert!(mine.take(secs(5), None).await);
    let until = Instant::now() + world.short * 3;
    while Instant::now() < until {
        assert!(!theirs.take(ms(0), None).await, "{}: not renewed", cell.direction);
        sleep(ms(200)).await;
    }
    mine.unlock().await.result.unwrap();
    cell.shows(&["renews"]);
}

/// A process holds what somebody waits for: the waiter gets it when the process is killed, and not before.
pub async fn outlives<T>(world: &World, waiter: JoinHandle<T>, kill: impl FnOnce()) -> T {
    sleep(world.short + secs(1)).await;
    assert!(!waiter.is_finished(), "it is renewed while its process lives");
    kill();
    patient("what the process held", waiter).await.unwrap()
}

/// The same of a lock that is the other side's then.
pub async fn is_inherited(world: &World, cell: Cell, heir: &Side, kill: impl FnOnce()) {
    assert!(outlives(world, heir.begin(None), kill).await);
    heir.unlock().await.result.unwrap();
    cell.shows(&["crash"]);
}

pub async fn multi_locks_keep_each_other_out(world: Arc<World>) {
    let [java, rust] = world.both().await;
    let short = world.both_short().await;
    tokio::join!(keeps_out(&world, &java, &rust, &short[0]), keeps_out(&world, &rust, &java, &short[1]));
}

async fn keeps_out(world: &World, holder: &Peer, other: &Peer, renewed: &Peer) {
    let (cell, all) = (world.cell(ROW, holder.towards(other)), names());
    // They overlap in one member.
    let (mine, theirs) = (side(holder, &all[..2], "mine"), side(other, &all[1..], "theirs"));
    let counts = async || {
        let count = async |name: &String| count(&mut world.raw(name).await, name).await;
        vec![count(&all[0]).await, count(&all[1]).await, count(&all[2]).await]
    };
    assert!(mine.take(LONG, Some(LONG)).await);
    for name in &all[..2] {
        let ttl = world.raw(name).await.pttl(name).await;
        assert!(ttl > 20_000 && ttl <= 60_000, "{ttl}");
    }
    mine.unlock().await.result.unwrap();
    let until_waiting = until_listening(world.place.server_of(&all[1]), &all[1]);
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
