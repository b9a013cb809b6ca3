//! One lock on three servers: Redisson's red lock and lockson's vote on the same members.

use crate::composite::{count, expires, is_inherited, renews, verbs};
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
        let java = join_all(servers.iter().map(async |server| jvm.client(&server.url(), &settings).await)).await;
        let rust = join_all(servers.iter().map(async |server| connect(brief(watched), &server.url()).await)).await;
        Fleet { servers, java, rust, name: unique("red") }
    }

    fn side(&self, is_java: bool, who: &str) -> Side {
        if !is_java {
            return Side::Rust(Arc::new(red(&self.rust, &self.name, who)));
        }
        let members: Vec<String> = self.java.iter().map(|java| java.member("lock", &self.name)).collect();
        let (java, who) = (self.java[0].clone(), format!("{who}-{}", self.name));
        Side::Java { java, who, object: "red", name: members.join(",") }
    }

    /// How often it is held on each.
    async fn counts(&self) -> Vec<String> {
        join_all(self.servers.iter().map(async |server| count(&mut server.raw().await, &self.name).await)).await
    }

    async fn until_free(&self) {
        eventually(secs(20), "it is free on all", async || self.counts().await.iter().all(String::is_empty)).await;
    }
}

pub fn red(locks: &[Locks], name: &str, who: &str) -> RedLock<lockson::kind::Reentrant> {
    let members = locks.iter().map(|locks| locks.lock(name));
    // The servers have granted nothing before; and a busy machine is slow.
    RedLock::new(members).fresh().server_timeout(secs(1)).owned_by(&Owner::named(who).unwrap())
}

pub async fn red_locks_keep_each_other_out(world: Arc<World>) {
    tokio::join!(keeps_out(&world, true, "J>R"), keeps_out(&world, false, "R>J"));
}

async fn keeps_out(world: &World, is_java: bool, direction: &'static str) {
    let (fleet, cell) = (Fleet::start(&world.jvms[1], secs(30)).await, world.cell(ROW, direction));
    let (mine, theirs) = (fleet.side(is_java, "mine"), fleet.side(!is_java, "theirs"));
    let counts = async || fleet.counts().await;
    verbs(cell, [&mine, &theirs], ms(900), (counts, ["1", "1", "1"]), sleep(secs(1))).await;
    fleet.until_free().await;
    // Redisson's late unlock says nothing.
    expires(cell, [&mine, &theirs], ms(2000), !is_java).await;
    fleet.until_free().await;
    majority(&fleet, is_java, direction).await;
    let watched = Fleet::start(&world.jvms[1], world.short).await;
    renews(world, cell, [&watched.side(is_java, "mine"), &watched.side(!is_java, "theirs")]).await;
}

/// One of three taken by the other side is a minority; two are not.
async fn majority(fleet: &Fleet, is_java: bool, direction: &str) {
    let mine = fleet.side(is_java, "mine");
    let field = |at: usize| format!("somebody:{at}");
    for at in 0..2 {
        let mut raw = fleet.servers[at].raw().await;
        raw.must(&["HSET", &fleet.name, &field(at), "1"]).await;
        raw.must(&["PEXPIRE", &fleet.name, "60000"]).await;
        assert_eq!(mine.take(secs(3), Some(LONG)).await, at == 0, "{direction}: {} of 3 taken", at + 1);
        if at == 0 {
            mine.unlock().await.result.unwrap();
        }
    }
}

/// A red lock of a process that is killed is the other side's.
pub async fn red_locks_of_the_dead_are_free(world: Arc<World>) {
    let jvm = Jvm::start(&world.class_path);
    let doomed = Fleet::start(&jvm, world.short).await;
    assert!(doomed.side(true, "victim").take(LONG, None).await);
    is_inherited(&world, world.cell(ROW, "J>R"), &doomed.side(false, "heir"), || jvm.kill()).await;
    let fleet = Fleet::start(&world.jvms[1], world.short).await;
    let short = world.short.as_millis().to_string();
    let urls: Vec<String> = fleet.servers.iter().map(Server::url).collect();
    let mut process = holder("red", &[&urls[0], &short, &fleet.name, &urls[1], &urls[2]]).await;
    is_inherited(&world, world.cell(ROW, "R>J"), &fleet.side(true, "heir"), || process.kill()).await;
}

/// The process that is killed.
pub async fn hold(url: &str, args: &[String]) {
    let short = ms(args[0].parse().unwrap());
    let urls = std::iter::once(url).chain(args[2..].iter().map(String::as_str));
    let locks = join_all(urls.map(|url| connect(brief(short), url))).await;
    red(&locks, &args[1], "victim").lock().await.unwrap();
    say_held().await
}
