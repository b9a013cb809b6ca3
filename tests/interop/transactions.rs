//! A Java transaction locks its buckets under `<bucket>:transaction_lock`; lockson's `in_transaction` is the same lock.

use lockson::ReentrantLock;

use crate::*;

pub const ROW: &str = "transaction";

pub const ABSENT: Absent = &[
    (
        ROW,
        "times out",
        "Java waits for a bucket without a limit, whatever its time-out; lockson's limit is kept: J>R is run",
    ),
    (ROW, "re-enters", "Java locks a bucket once in a transaction"),
    (ROW, "renews", "Java's have the transaction's time-out for a lease, and are not renewed"),
    (ROW, "failover", "its lock is the plain one's: see there"),
    (ROW, "crash", "as no watchdog renews Java's, a crash ends as `expires`; lockson's is the lock's"),
];

struct Bucket {
    java: Java,
    rust: Locks,
    name: String,
}

impl Bucket {
    async fn new(world: &World) -> Bucket {
        let rust = world.rust(client().wait_cap(secs(60))).await;
        // With a tag: in a cluster Redisson's EXEC is of the bucket and its lock, where one node has both.
        Bucket { java: world.java("").await, rust, name: format!("{{{}}}", unique("bucket")) }
    }

    fn lock(&self, owner: &Owner, id: &str) -> ReentrantLock {
        let name = format!("{}:transaction_lock", self.name);
        self.rust.lock(&name).owned_by(owner).in_transaction(id).unwrap()
    }

    async fn java(&self, verb: &str) -> Result<String, String> {
        self.java.call(&format!("t-{}", self.name), "transaction", &self.name, verb).await
    }
}

pub async fn transactions_exclude(world: Arc<World>) {
    let bucket = Bucket::new(&world).await;
    let owner = Owner::unique();
    let lock = bucket.lock(&owner, "t-1");
    bucket.java("begin 60000").await.unwrap();
    bucket.java("set from-java").await.unwrap();
    assert!(!lock.try_lock().await.unwrap().is_acquired(), "a transaction of Java holds the bucket");
    assert!(!lock.acquire().wait(secs(1)).await.unwrap().is_acquired());
    let holder = lock.holder().await.unwrap().unwrap();
    let thread = bucket.java.must(&format!("t-{}", bucket.name), "client", "-", "thread").await;
    assert!(holder.field().contains(&format!(":{thread}:")) && holder.count == 1, "{holder:?}");
    assert!(holder.ttl.unwrap() > secs(30) && holder.ttl.unwrap() <= secs(60), "{holder:?}");
    let waiter = spawn_with(lock.clone(), |lock| async move { lock.acquire().lease(secs(60)).await });
    sleep(ms(500)).await;
    assert!(!waiter.is_finished());
    bucket.java("commit").await.unwrap();
    assert!(patient("the commit wakes", waiter).await.unwrap().unwrap().is_acquired());
    // lockson holds it: Java's transaction waits at its first write.
    let name = format!("{}:transaction_lock", bucket.name);
    let state = bucket.java.must("seer", "lock", &name, "state").await;
    assert!(state.starts_with("true false 0 "), "{state}");
    // Its time-out is the lease of what it locks, and no limit of its waits.
    bucket.java("begin 1000").await.unwrap();
    let write = bucket.java.call(&format!("t-{}", bucket.name), "transaction", &bucket.name, "set again");
    let write = spawn_local(write);
    sleep(secs(3)).await;
    assert!(!write.is_finished(), "Java wrote what lockson had locked");
    lock.unlock().await.unwrap();
    patient("woken", write).await.unwrap().unwrap();
    let _ = bucket.java("rollback").await;
    assert_eq!(world.raw(&bucket.name).await.get(&bucket.name).await.as_deref(), Some("from-java"));
    assert!(lock.try_lock().await.unwrap().is_acquired());
    assert!(!bucket.lock(&owner, "t-2").try_lock().await.unwrap().is_acquired(), "two transactions of one owner");
    lock.unlock().await.unwrap();
    world.shows(ROW, &["excludes", "state", "wakes"]);
}

/// Leases that end, and holds that are ended by force.
pub async fn transactions_end(world: Arc<World>) {
    let (bucket, owner) = (Bucket::new(&world).await, Owner::unique());
    let lock = bucket.lock(&owner, "t-1");
    bucket.java("begin 2000").await.unwrap();
    bucket.java("set forgotten").await.unwrap();
    let request = Request::default().lease(secs(3));
    assert!(patient("the transaction's lease ends", RLock::acquire_with(&lock, request)).await.unwrap().is_acquired());
    let _ = bucket.java("rollback").await;
    bucket.java("begin 60000").await.unwrap();
    patient("our lease ends", bucket.java("set late")).await.unwrap();
    lock.unlock().await.expect_err("it has ended");
    assert!(lock.force_unlock().await.unwrap());
    assert!(lock.acquire().lease(secs(60)).await.unwrap().is_acquired());
    let _ = bucket.java("rollback").await;
    let name = format!("{}:transaction_lock", bucket.name);
    assert!(bucket.java.get::<bool>("breaker", "lock", &name, "force_unlock").await);
    lock.unlock().await.expect_err("it was forced");
    world.shows(ROW, &["expires", "forces"]);
}
