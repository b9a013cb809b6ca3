//! The verbs of locks, each both ways round: one side holds, the other is kept out, woken, told.

use crate::*;

/// What is held, and what it keeps out.
pub struct Pair {
    pub row: &'static str,
    pub kind: Kind,
    pub rival: Kind,
}

pub const PAIRS: [Pair; 9] = [
    Pair { row: "lock", kind: Kind::Lock, rival: Kind::Lock },
    Pair { row: "mutex", kind: Kind::Mutex, rival: Kind::Mutex },
    Pair { row: "fair_lock", kind: Kind::Fair, rival: Kind::Fair },
    Pair { row: "fair_mutex", kind: Kind::FairMutex, rival: Kind::FairMutex },
    Pair { row: "spin_lock", kind: Kind::Spin, rival: Kind::Spin },
    Pair { row: "fenced_lock", kind: Kind::Fenced, rival: Kind::Fenced },
    Pair { row: "read:write", kind: Kind::Read, rival: Kind::Write },
    Pair { row: "write:write", kind: Kind::Write, rival: Kind::Write },
    Pair { row: "write:read", kind: Kind::Write, rival: Kind::Read },
];

/// Long enough that nothing but a message comes in time.
pub const LONG: Duration = secs(60);
/// "By the message, not by the TTL", for a busy machine.
pub const SOON: Duration = secs(20);

struct Case<'a> {
    world: &'a World,
    pair: &'a Pair,
    holder: Peer,
    other: Peer,
    name: String,
}

impl Case<'_> {
    fn mine(&self) -> Side {
        self.holder.lock(self.pair.kind, &self.name, &format!("holder-{}", self.name))
    }

    fn theirs(&self) -> Side {
        self.other.lock(self.pair.rival, &self.name, &format!("rival-{}", self.name))
    }

    async fn raw(&self) -> Raw {
        self.world.raw(&self.name).await
    }

    fn passed(&self, verbs: &[&'static str]) {
        self.world.cell(self.pair.row, self.holder.towards(&self.other)).shows(verbs);
    }

    fn renamed(&self, verb: &str) -> Self {
        let name = unique(&format!("{}-{verb}", self.pair.row.replace(':', "-")));
        Self { world: self.world, pair: self.pair, holder: self.holder.clone(), other: self.other.clone(), name }
    }

    async fn leaves_nothing(&self) {
        leaves_nothing(self.world, &self.name).await;
    }

    /// A waiter of the other side is about to sleep.
    async fn until_waiting(&self) {
        match self.pair.kind {
            Kind::Spin => sleep(ms(50)).await,
            _ => until_listening(self.world.place.server_of(&self.name), &self.name).await,
        }
    }
}

/// No key is left of a lock but the counter of its tokens, for a minute what lockson keeps beside a queue that Java
/// emptied, and receipts until they end; of a semaphore that Java deletes, which life it was in.
pub async fn leaves_nothing(world: &World, name: &str) {
    let begin = Instant::now();
    loop {
        let mut left = Vec::new();
        for server in world.place.primaries() {
            left.extend(left_of(&mut server.raw().await, name).await);
        }
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < SOON, "{name} leaves {left:?}");
        sleep(ms(20)).await;
    }
}

/// Each with the milliseconds that it still has.
async fn left_of(raw: &mut Raw, name: &str) -> Vec<(String, i64)> {
    let mut left = Vec::new();
    for key in raw.keys(&format!("*{name}*")).await {
        let ttl = raw.pttl(&key).await;
        let ends = key.starts_with("lockson:fair_") && (1..=60_000).contains(&ttl);
        let ends = ends || key.starts_with("lockson:receipt:") && ttl > 0;
        let stays = ["redisson_lock_token:", "lockson:semaphore_life:"].iter().any(|key_of| key.starts_with(key_of));
        // -2: it has gone since.
        if !ends && ttl != -2 && !stays {
            left.push((key, ttl));
        }
    }
    left
}

/// All verbs of one kind in one direction, one after another.
pub async fn verbs(world: &World, pair: &Pair, holder: Peer, other: Peer) {
    let case = Case { world, pair, holder, other, name: String::new() };
    holds(&case.renamed("holds")).await;
    wakes(&case.renamed("wakes")).await;
    expires(&case.renamed("expires")).await;
    forces(&case.renamed("forces")).await;
}

async fn holds(case: &Case<'_>) {
    let (mine, theirs) = (case.mine(), case.theirs());
    // The same side of a read/write lock, seen by the other client.
    let seen = case.other.lock(case.pair.kind, &case.name, &format!("seer-{}", case.name));
    let free = crate::peer::State { locked: false, held: false, count: 0, ttl: None };
    assert_eq!(seen.state().await, free, "{}", case.name);
    mine.must_lock(Some(LONG)).await;
    let (own, others) = (mine.state().await, seen.state().await);
    assert!(own.locked && own.held && own.count == 1, "{}: {own:?}", case.name);
    assert!(others.locked && !others.held && others.count == 0, "{}: {others:?}", case.name);
    let (a, b) = (own.ttl.unwrap(), others.ttl.unwrap());
    let wire = case.raw().await.pttl(&case.name).await as u64;
    assert!(b <= a && wire <= b && a - wire < SOON.as_millis() as u64, "{}: {a} {b} {wire}", case.name);
    assert!(a <= 60_000, "{}: {a}", case.name);
    let kept_out = async || assert_eq!(theirs.try_lock(ms(0), None).await, Ok(false), "{}", case.name);
    kept_out().await;
    let began = Instant::now();
    assert_eq!(theirs.try_lock(secs(1), None).await, Ok(false), "{}", case.name);
    assert!(began.elapsed() >= ms(999), "{}: gave up after {:?}", case.name, began.elapsed());
    if case.pair.kind.is_reentrant() {
        assert_eq!(mine.try_lock(ms(0), None).await, Ok(true), "{}", case.name);
        assert_eq!(mine.state().await.count, 2, "{}", case.name);
        let counts = case.raw().await.hgetall(&case.name).await;
        assert!(counts.iter().any(|(_, count)| count == "2"), "{}: {counts:?}", case.name);
        mine.unlock().await.result.unwrap();
    } else {
        mine.try_lock(ms(0), None).await.expect_err("a second acquisition by the owner");
    }
    assert_eq!(mine.state().await.count, 1, "{}", case.name);
    kept_out().await;
    mine.unlock().await.result.unwrap();
    assert_eq!(seen.state().await, free, "{}", case.name);
    assert!(!theirs.state().await.locked, "{}", case.name);
    assert_eq!(theirs.try_lock(ms(0), None).await, Ok(true), "{}", case.name);
    assert_eq!(mine.try_lock(ms(0), None).await, Ok(false), "{}", case.name);
    theirs.unlock().await.result.unwrap();
    case.leaves_nothing().await;
    case.passed(&["excludes", "times out", "re-enters", "state"]);
}

async fn wakes(case: &Case<'_>) {
    let (mine, theirs) = (case.mine(), case.theirs());
    mine.must_lock(Some(LONG)).await;
    let waiter = theirs.lock(Some(LONG));
    case.until_waiting().await;
    let began = Instant::now();
    mine.unlock().await.result.unwrap();
    let answer = waiter.await.unwrap();
    answer.result.unwrap();
    assert!(began.elapsed() < SOON, "{}: woken by the TTL", case.name);
    theirs.unlock().await.result.unwrap();
    case.leaves_nothing().await;
    case.passed(&["wakes"]);
}

async fn expires(case: &Case<'_>) {
    let (mine, theirs) = (case.mine(), case.theirs());
    let began = Instant::now();
    mine.must_lock(Some(ms(1500))).await;
    let waiter = theirs.lock(Some(LONG));
    support::patient("the lease ends", waiter).await.unwrap().result.unwrap();
    assert!(began.elapsed() >= ms(1500), "{}: before the lease ended", case.name);
    assert!(!mine.state().await.held, "{}", case.name);
    mine.unlock().await.result.expect_err("an unlock of what has ended");
    assert!(theirs.state().await.held, "{}: the late unlock took the next one's", case.name);
    theirs.unlock().await.result.unwrap();
    case.passed(&["expires"]);
}

async fn forces(case: &Case<'_>) {
    let (mine, theirs) = (case.mine(), case.theirs());
    // The reader's side ends readers, the writer's the writer.
    let breaker = case.other.lock(case.pair.kind, &case.name, &format!("breaker-{}", case.name));
    mine.must_lock(Some(LONG)).await;
    let waiter = theirs.lock(Some(LONG));
    case.until_waiting().await;
    let began = Instant::now();
    assert!(breaker.force_unlock().await, "{}", case.name);
    waiter.await.unwrap().result.unwrap();
    // Redisson may miss its own message (seen once in a cluster: it came by the TTL). No word of lockson's is in that.
    let is_ours = matches!(case.other, Peer::Rust(_));
    assert!(!is_ours || began.elapsed() < SOON, "{}: woken by the TTL", case.name);
    mine.unlock().await.result.expect_err("an unlock of what was forced");
    assert!(theirs.state().await.held, "{}", case.name);
    theirs.unlock().await.result.unwrap();
    assert!(!breaker.force_unlock().await, "{}: nothing to force", case.name);
    case.passed(&["forces"]);
}

/// Holds of every kind, renewed for four watchdog leases: nobody gets in, the TTL never ends.
pub async fn renews(world: &World, holder: Peer, other: Peer) {
    let cases: Vec<Case> = PAIRS
        .iter()
        .map(|pair| Case { world, pair, holder: holder.clone(), other: other.clone(), name: String::new() })
        .map(|case| case.renamed("renews"))
        .collect();
    for case in &cases {
        case.mine().must_lock(None).await;
    }
    let until = Instant::now() + world.short * 4;
    while Instant::now() < until {
        for case in &cases {
            assert_eq!(case.theirs().try_lock(ms(0), None).await, Ok(false), "{}", case.name);
            assert!(case.raw().await.pttl(&case.name).await > 0, "{}", case.name);
        }
        sleep(ms(200)).await;
    }
    for case in &cases {
        case.mine().unlock().await.result.unwrap();
        assert_eq!(case.theirs().try_lock(ms(0), None).await, Ok(true), "{}", case.name);
        case.theirs().unlock().await.result.unwrap();
        case.passed(&["renews"]);
    }
}

/// Every kind in both directions, at the same time.
pub async fn all_verbs(world: Arc<World>) {
    let [java, rust] = world.both().await;
    let mut running = tokio::task::JoinSet::new();
    for pair in &PAIRS {
        for (holder, other) in [(&java, &rust), (&rust, &java)] {
            let (world, holder, other) = (world.clone(), holder.clone(), other.clone());
            // Threads of their own: a Java thread that waits is busy.
            running.spawn_local(async move { verbs(&world, pair, holder, other).await });
        }
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
}

pub async fn all_renew(world: Arc<World>) {
    let [java, rust] = world.both_short().await;
    tokio::join!(renews(&world, java.clone(), rust.clone()), renews(&world, rust, java));
}
