//! Semaphores, expirable semaphores and latches: permits, counts and leases read the same from both sides.

use lockson::{Latch, PermitId, PermitSemaphore, Semaphore};

use crate::*;

pub const ROWS: [&str; 3] = ["semaphore", "permits", "latch"];

pub const ABSENT: Absent = &[
    ("semaphore", "re-enters", "permits have no owner"),
    ("semaphore", "renews", "permits have no lease"),
    ("semaphore", "expires", "permits have no lease"),
    ("semaphore", "forces", "permits have no owner"),
    ("semaphore", "crash", "the permits of a process that dies are lost, on both sides"),
    ("permits", "re-enters", "each acquisition has ids of its own"),
    ("permits", "forces", "permits have no owner"),
    ("latch", "re-enters", "a latch has no owner"),
    ("latch", "renews", "a latch has no lease"),
    ("latch", "expires", "a latch has no lease"),
    ("latch", "crash", "a latch has no owner"),
];

/// The thread of Java that waits for this; others go by the name, so that no case keeps another one's.
fn waits(name: &str) -> String {
    format!("waits-{name}")
}

/// Somebody listens for the name, and has looked once more.
async fn until_waiting(world: &World, name: &str) {
    until_listening(world.place.server_of(name), name).await;
    sleep(ms(300)).await;
}

async fn semaphore(world: &World) -> (Java, Semaphore, String) {
    let (java, name) = (world.java("").await, unique("semaphore"));
    let rust = world.rust(client().wait_cap(secs(60))).await.semaphore(&name);
    assert!(java.get::<bool>(&name, "semaphore", &name, "try_set_permits 3").await);
    assert!(!rust.try_set_permits(5).await.unwrap(), "Java has set it");
    (java, rust, name)
}

pub async fn semaphores_count_for_both(world: Arc<World>) {
    let (java, rust, name) = semaphore(&world).await;
    let free = async |expected: i64| {
        assert_eq!(rust.available_permits().await.unwrap(), expected);
        assert_eq!(java.get::<i64>(&name, "semaphore", &name, "available").await, expected);
    };
    free(3).await;
    // Java has two of three.
    java.must(&name, "semaphore", &name, "acquire 2").await;
    assert!(!rust.try_acquire(2).await.unwrap().is_acquired());
    free(1).await;
    assert!(!rust.acquire(2).wait(secs(1)).await.unwrap().is_acquired());
    free(1).await;
    let waiter = spawn_with(rust.clone(), |rust| async move { rust.acquire(3).await });
    until_waiting(&world, &name).await;
    java.must(&name, "semaphore", &name, "release 2").await;
    assert!(patient("Java's release wakes", waiter).await.unwrap().unwrap().is_acquired());
    // Rust has all three.
    free(0).await;
    assert!(!java.get::<bool>(&name, "semaphore", &name, "try_acquire 1 0").await);
    let began = Instant::now();
    assert!(!java.get::<bool>(&name, "semaphore", &name, "try_acquire 1 1000").await);
    assert!(began.elapsed() >= ms(999));
    let waiter = spawn_local(java.must(&name, "semaphore", &name, "acquire 2"));
    until_waiting(&world, &name).await;
    rust.release(3).await.unwrap();
    patient("our release wakes", waiter).await.unwrap();
    free(1).await;
    // What is taken away and added counts for both.
    rust.reduce_permits(2).await.unwrap();
    free(-1).await;
    java.must(&name, "semaphore", &name, "add 4").await;
    free(3).await;
    assert_eq!(rust.drain_permits().await.unwrap(), 3);
    free(0).await;
    world.shows("semaphore", &["state", "excludes", "times out", "wakes"]);
}

struct Permits {
    java: Java,
    rust: PermitSemaphore,
    name: String,
}

impl Permits {
    async fn of(world: &World, count: u32) -> Permits {
        let (java, name) = (world.java("").await, unique("permits"));
        let rust = world.rust(client().wait_cap(secs(60))).await.permit_semaphore(&name);
        assert!(rust.try_set_permits(count).await.unwrap());
        assert!(!java.get::<bool>(&name, "permits", &name, "try_set_permits 9").await);
        Permits { java, rust, name }
    }

    async fn java<T: std::str::FromStr>(&self, verb: &str) -> T {
        self.java.get(&self.name, "permits", &self.name, verb).await
    }

    async fn counts(&self, free: i64, taken: u64) {
        assert_eq!(self.rust.available_permits().await.unwrap(), free);
        assert_eq!(self.rust.acquired_permits().await.unwrap(), taken);
        assert_eq!((self.java::<i64>("available").await, self.java::<u64>("acquired").await), (free, taken));
    }

    async fn take(&self, verb: &str) -> Vec<PermitId> {
        let ids: String = self.java(verb).await;
        ids.split(',').filter(|id| !id.is_empty()).map(|id| id.parse().unwrap()).collect()
    }
}

/// One side takes, the other sees it, gives it back, sets its lease.
pub async fn permits_are_the_same_for_both(world: Arc<World>) {
    let both = Permits::of(&world, 3).await;
    let (rust, name) = (&both.rust, &both.name);
    let ids = both.take("try_acquire 2 0 60000").await;
    both.counts(1, 2).await;
    let left = rust.remaining_lease(&ids[0]).await.unwrap().unwrap();
    assert!(left <= secs(60) && left > secs(60) - SOON, "{left:?}");
    assert!(rust.acquire(2).wait(ms(0)).ids(secs(60)).await.unwrap().is_none());
    assert!(rust.acquire(2).wait(secs(1)).ids(secs(60)).await.unwrap().is_none());
    let waiter = spawn_with(rust.clone(), |rust| async move { rust.acquire(3).ids(secs(60)).await });
    until_waiting(&world, name).await;
    let released: Vec<String> = ids.iter().map(ToString::to_string).collect();
    both.java::<String>(&format!("release {}", released.join(","))).await;
    let ids = patient("Java's release wakes", waiter).await.unwrap().unwrap().unwrap();
    both.counts(0, 3).await;
    let left: u64 = both.java(&format!("lease_time {}", ids[0])).await;
    assert!(left <= 60_000 && left > 40_000, "{left}");
    assert!(both.java::<bool>(&format!("update_lease_time {} 90000", ids[0])).await);
    assert!(rust.remaining_lease(&ids[0]).await.unwrap().unwrap() > secs(65));
    assert!(both.take("try_acquire 1 0 60000").await.is_empty());
    assert!(both.take("try_acquire 1 1000 60000").await.is_empty());
    let waiter = spawn_local(both.java.must(&waits(name), "permits", name, "try_acquire 2 60000 60000"));
    until_waiting(&world, name).await;
    rust.release(&ids[1..]).await.unwrap();
    assert!(patient("our release wakes", waiter).await.unwrap().contains(','));
    // Java gives back what Rust took.
    assert!(both.java::<bool>(&format!("try_release {}", ids[0])).await);
    assert!(matches!(rust.release(&ids[..1]).await, Err(SyncError::NotHeld { .. })));
    both.counts(1, 2).await;
    // What one sets, the other counts with: in all, free and taken.
    both.java::<String>("set_permits 5").await;
    both.counts(3, 2).await;
    rust.set_permits(1).await.unwrap();
    both.counts(-1, 2).await;
    world.shows("permits", &["state", "excludes", "times out", "wakes"]);
}

/// A lease that ends gives its permits to the other side.
pub async fn permits_expire_for_both(world: Arc<World>) {
    let both = Permits::of(&world, 1).await;
    let ids = both.take("try_acquire 1 0 2000").await;
    let waiter = both.rust.acquire(1).ids(ms(2000));
    let mine = patient("Java's lease ends", waiter).await.unwrap().unwrap();
    assert!(matches!(both.rust.release(&ids).await, Err(SyncError::NotHeld { .. })));
    let waiter = both.java.must(&waits(&both.name), "permits", &both.name, "try_acquire 1 60000 1000");
    assert!(!patient("our lease ends", waiter).await.is_empty());
    assert!(matches!(both.rust.release(&mine).await, Err(SyncError::NotHeld { .. })));
    world.shows("permits", &["expires"]);
}

/// For three leases and more: Java's by hand, with `updateLeaseTime`; lockson's by its watchdog.
pub async fn permits_are_renewed_for_both(world: Arc<World>) {
    let (by_java, by_rust, lease) =
        (Permits::of(&world, 1).await, Permits::of(&world, 1).await, world.short.as_millis());
    let id = by_java.take(&format!("try_acquire 1 0 {lease}")).await.remove(0);
    let renewed = world.rust(brief(world.short)).await.permit_semaphore(&by_rust.name);
    let guard = patient("a permit", renewed.guard(1)).await.unwrap();
    let until = Instant::now() + world.short * 3;
    while Instant::now() < until {
        assert!(by_java.java::<bool>(&format!("update_lease_time {id} {lease}")).await, "it has not ended");
        assert!(by_java.rust.acquire(1).wait(ms(0)).ids(secs(60)).await.unwrap().is_none(), "we have what is renewed");
        assert!(by_rust.take("try_acquire 1 0 60000").await.is_empty(), "Java has what is renewed");
        sleep(ms(200)).await;
    }
    assert!(by_java.java::<bool>(&format!("try_release {id}")).await);
    guard.release().await.unwrap();
    by_rust.counts(1, 0).await;
    world.shows("permits", &["renews"]);
}

/// Waits for a permit.
pub async fn permit_of(peer: Peer, name: String) {
    match peer {
        Peer::Java(java) => {
            let ids = java.must(&waits(&name), "permits", &name, "try_acquire 1 60000 60000").await;
            assert!(!ids.is_empty());
        }
        Peer::Rust(locks) => assert!(locks.permit_semaphore(&name).acquire(1).ids(secs(60)).await.unwrap().is_some()),
    }
}

async fn latch(world: &World, count: u32) -> (Java, Latch, String) {
    let (java, name) = (world.java("").await, unique("latch"));
    let rust = world.rust(client().wait_cap(secs(60))).await.latch(&name);
    assert!(rust.try_set_count(count).await.unwrap());
    assert!(!java.get::<bool>(&name, "latch", &name, "try_set_count 9").await);
    assert_eq!(java.get::<u64>(&name, "latch", &name, "count").await, u64::from(count));
    (java, rust, name)
}

pub async fn latches_open_for_both(world: Arc<World>) {
    let (java, rust, name) = latch(&world, 2).await;
    assert_eq!(rust.wait_for(secs(1)).await.unwrap(), WaitOutcome::TimedOut);
    assert!(!java.get::<bool>(&waits(&name), "latch", &name, "await 300").await);
    let rust_waits = || spawn_with(rust.clone(), |rust| async move { rust.wait().await.unwrap() });
    let java_waits = || spawn_local(java.get::<bool>(&waits(&name), "latch", &name, "await 60000"));
    let set_by_java = async || assert!(java.get::<bool>(&name, "latch", &name, "try_set_count 1").await);
    let (ours, theirs) = (rust_waits(), java_waits());
    until_waiting(&world, &name).await;
    java.must(&name, "latch", &name, "count_down").await;
    assert_eq!(rust.count().await.unwrap(), 1);
    sleep(ms(300)).await;
    assert!(!ours.is_finished() && !theirs.is_finished(), "one is left");
    assert_eq!(rust.count_down().await.unwrap(), Some(0));
    assert!(patient("our count wakes Java", theirs).await.unwrap());
    assert_eq!(patient("and us", ours).await.unwrap(), WaitOutcome::Opened);
    assert_eq!(java.get::<u64>(&name, "latch", &name, "count").await, 0);
    // Java's last count wakes a Rust waiter; so does Java's delete, which leaves no trace by which it could be told.
    for (at, verb) in ["count_down", "delete"].into_iter().enumerate() {
        set_by_java().await;
        if at == 0 {
            assert_eq!(rust.wait_for(ms(300)).await.unwrap(), WaitOutcome::TimedOut);
        }
        let waiter = rust_waits();
        sleep(ms(500)).await;
        assert!(!waiter.is_finished());
        let told = java.must(&name, "latch", &name, verb).await;
        assert!(verb != "delete" || told == "true", "{told}");
        assert_eq!(patient("Java wakes us", waiter).await.unwrap(), WaitOutcome::Opened, "{verb}");
    }
    // And our delete wakes Java's, whose own would not.
    set_by_java().await;
    let waiter = java_waits();
    until_waiting(&world, &name).await;
    assert!(rust.delete().await.unwrap());
    assert!(patient("our delete wakes Java", waiter).await.unwrap());
    world.shows("latch", &["excludes", "times out", "wakes", "state", "forces"]);
}
