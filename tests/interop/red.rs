//! One lock on three servers: Redisson's red lock and lockson's vote on the same members.

use crate::composite::Hand;
use crate::*;

pub const ROW: &str = "red";

pub const ABSENT: Absent =
    &[(ROW, "forces", "a red lock is not forced, its members are: see their rows; Redisson's throws")];

/// Three servers with a client of each side.
struct Fleet {
    servers: Vec<Server>,
    java: Vec<Java>,
    rust: Vec<Locks>,
    name: String,
}

impl Fleet {
    async fn start(jvm: &Arc<Jvm>, watched: Duration) -> Fleet {
        let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
        let settings = format!("watchdog={}", watched.as_millis());
        let java = join_all(servers.iter().map(|server| jvm.client(server.port(), &settings))).await;
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let rust = join_all(urls.iter().map(|url| connect(brief(watched), url))).await;
        Fleet { servers, java, rust, name: unique("red") }
    }

    fn hand(&self, is_java: bool, who: &str) -> Hand {
        if !is_java {
            return Hand::Rust(Arc::new(red(&self.rust, &self.name, who)));
        }
        let members: Vec<String> = self.java.iter().map(|java| java.member("lock", &self.name)).collect();
        let (java, who) = (self.java[0].clone(), format!("{who}-{}", self.name));
        Hand::Java { java, who, object: "red", members: members.join(",") }
    }

    /// How often it is held on each.
    async fn counts(&self) -> Vec<String> {
        let all = self.servers.iter().map(async |server| {
            let holders = server.raw().await.hgetall(&self.name).await;
            holders.into_iter().map(|(_, count)| count).collect::<Vec<_>>().join("+")
        });
        join_all(all).await
    }

    async fn until_free(&self) {
        eventually(secs(20), "it is free on all", async || self.counts().await.iter().all(String::is_empty)).await;
    }
}

fn red(locks: &[Locks], name: &str, who: &str) -> RedLock<lockson::kind::Reentrant> {
    let members = locks.iter().map(|locks| locks.lock(name));
    // The servers have granted nothing before; and a busy machine is slow.
    RedLock::new(members).fresh().server_timeout(secs(1)).owned_by(&Owner::named(who).unwrap())
}

pub async fn red_locks_keep_each_other_out(world: Arc<World>) {
    tokio::join!(keeps_out(&world, true, "J>R"), keeps_out(&world, false, "R>J"));
}

async fn keeps_out(world: &World, is_java: bool, direction: &str) {
    let fleet = Fleet::start(&world.jvms[1], secs(30)).await;
    verbs(&fleet, is_java, direction).await;
    majority(&fleet, is_java, direction).await;
    let watched = Fleet::start(&world.jvms[1], world.short).await;
    let (mine, theirs) = (watched.hand(is_java, "mine"), watched.hand(!is_java, "theirs"));
    assert!(mine.take(secs(5), None).await);
    let until = Instant::now() + world.short * 3;
    while Instant::now() < until {
        assert!(!theirs.take(ms(0), None).await, "{direction}: not renewed");
        sleep(ms(200)).await;
    }
    mine.give().await.unwrap();
    shown(ROW, "renews", direction);
}

async fn verbs(fleet: &Fleet, is_java: bool, direction: &str) {
    let (mine, theirs) = (fleet.hand(is_java, "mine"), fleet.hand(!is_java, "theirs"));
    assert!(mine.take(LONG, Some(LONG)).await && mine.is_held().await && !theirs.is_held().await);
    assert_eq!(fleet.counts().await, ["1", "1", "1"]);
    shown(ROW, "state", direction);
    assert!(!theirs.take(ms(0), None).await);
    shown(ROW, "excludes", direction);
    let began = Instant::now();
    assert!(!theirs.take(secs(1), None).await);
    assert!(began.elapsed() >= ms(900), "{:?}", began.elapsed());
    shown(ROW, "times out", direction);
    assert!(mine.take(LONG, Some(LONG)).await);
    assert_eq!(fleet.counts().await, ["2", "2", "2"]);
    mine.give().await.unwrap();
    assert_eq!(fleet.counts().await, ["1", "1", "1"]);
    shown(ROW, "re-enters", direction);
    let waiter = theirs.begin(Some(LONG));
    sleep(secs(1)).await;
    assert!(!waiter.is_finished());
    mine.give().await.unwrap();
    assert!(patient("in long before the lease ends", waiter).await.unwrap());
    shown(ROW, "wakes", direction);
    theirs.give().await.unwrap();
    fleet.until_free().await;
    assert!(mine.take(LONG, Some(ms(2000))).await);
    assert!(patient("the leases end", theirs.begin(Some(LONG))).await.unwrap());
    // Redisson's says nothing.
    assert_eq!(mine.give().await.is_ok(), is_java, "a late unlock");
    assert!(theirs.is_held().await, "the late unlock took the next one's");
    theirs.give().await.unwrap();
    fleet.until_free().await;
    shown(ROW, "expires", direction);
}

/// One of three taken by the other side is a minority; two are not.
async fn majority(fleet: &Fleet, is_java: bool, direction: &str) {
    let mine = fleet.hand(is_java, "mine");
    let field = |at: usize| format!("somebody:{at}");
    for at in 0..2 {
        let mut raw = fleet.servers[at].raw().await;
        raw.must(&["HSET", &fleet.name, &field(at), "1"]).await;
        raw.must(&["PEXPIRE", &fleet.name, "60000"]).await;
        assert_eq!(mine.take(secs(3), Some(LONG)).await, at == 0, "{direction}: {} of 3 taken", at + 1);
        if at == 0 {
            mine.give().await.unwrap();
        }
    }
}

/// A red lock of a process that is killed is the other side's.
pub async fn red_locks_of_the_dead_are_free(world: Arc<World>) {
    let jvm = Jvm::start(&world.class_path);
    let doomed = Fleet::start(&jvm, world.short).await;
    assert!(doomed.hand(true, "victim").take(LONG, None).await);
    let heir = doomed.hand(false, "heir");
    let waiter = heir.begin(None);
    sleep(world.short + secs(1)).await;
    assert!(!waiter.is_finished(), "it is renewed while its process lives");
    jvm.kill();
    assert!(patient("Java's votes", waiter).await.unwrap());
    heir.give().await.unwrap();
    shown(ROW, "crash", "J>R");
    let fleet = Fleet::start(&world.jvms[1], world.short).await;
    let short = world.short.as_millis().to_string();
    let ports: Vec<String> = fleet.servers.iter().map(|server| server.port().to_string()).collect();
    let mut process = Process::start("interop", "red", &[&ports[0], &short, &fleet.name, &ports[1], &ports[2]]);
    assert_eq!(process.line_within(secs(20)).await, "held");
    let heir = fleet.hand(true, "heir");
    let waiter = heir.begin(None);
    sleep(world.short + secs(1)).await;
    assert!(!waiter.is_finished(), "it is renewed while its process lives");
    process.kill();
    assert!(patient("our votes", waiter).await.unwrap());
    heir.give().await.unwrap();
    shown(ROW, "crash", "R>J");
}

/// The process that is killed.
pub async fn hold(url: &str, args: &[String]) {
    let short = ms(args[0].parse().unwrap());
    let more = args[2..].iter().map(|port| format!("redis://127.0.0.1:{port}"));
    let urls: Vec<String> = std::iter::once(url.to_owned()).chain(more).collect();
    let locks = join_all(urls.iter().map(|url| connect(brief(short), url))).await;
    red(&locks, &args[1], "victim").lock().await.unwrap();
    println!("held");
    std::future::pending().await
}
