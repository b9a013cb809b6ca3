//! What Redisson 4.7.0 gets wrong, asserted on the jar, for docs/WEAKNESSES.md. Who fails here has become better.

use futures::future::BoxFuture;

use crate::*;

mod composite;
mod fair;
mod group;
mod holds;
mod kinds;
mod permits;
mod rights;
mod wakeups;

/// The watchdog's lease where holds are to end, or not to.
const WATCHED: &str = "watchdog=3000";

/// One weakness on the jar: its names, and a client with its defaults.
#[derive(Clone)]
struct Jar {
    world: Arc<World>,
    java: Java,
    name: String,
}

impl Jar {
    fn call(&self, who: &str, object: &str, verb: &str) -> BoxFuture<'static, Result<String, String>> {
        self.java.call(&self.thread(who), object, &self.name, verb)
    }

    #[track_caller]
    fn must(&self, who: &str, object: &str, verb: &str) -> BoxFuture<'static, String> {
        self.java.must(&self.thread(who), object, &self.name, verb)
    }

    /// Begins what will take a while.
    fn begin(&self, who: &str, object: &str, verb: &str) -> JoinHandle<Result<String, String>> {
        spawn_local(self.call(who, object, verb))
    }

    /// A thread of this case alone.
    fn thread(&self, who: &str) -> String {
        format!("{who}-{}", self.name)
    }

    async fn with(&self, settings: &str) -> Jar {
        Jar { world: self.world.clone(), java: own(&self.world, settings).await, name: self.name.clone() }
    }

    /// The same JVM with a server of its own, for what counts its calls.
    async fn at(&self, port: u16, settings: &str) -> Jar {
        let java = self.world.jvms[1].client(&format!("redis://127.0.0.1:{port}"), settings).await;
        Jar { world: self.world.clone(), java, name: self.name.clone() }
    }

    /// The same behind a proxy of its own.
    async fn cut_off(&self, settings: &str) -> (Proxy, Jar) {
        let proxy = Proxy::start(self.world.place.server().port());
        let jar = self.at(proxy.port(), settings).await;
        (proxy, jar)
    }

    async fn raw(&self) -> Raw {
        self.world.place.server().raw().await
    }

    /// Some waiter of the name has subscribed, and has asked once more, as Redisson's do.
    async fn until_waiting(&self, server: &Server) {
        until_listening(server, &self.name).await;
        sleep(secs(1)).await;
    }

    /// A waiter connects anew while what it waits for is given back: it sleeps on.
    async fn is_away_meanwhile(&self, object: &str, take: &str, give: &str) {
        let (proxy, cut) = self.cut_off("").await;
        self.must("a", object, take).await;
        let waiter = cut.begin("b", object, take);
        self.until_waiting(self.world.place.server()).await;
        proxy.refuse(true);
        self.must("a", object, give).await;
        proxy.refuse(false);
        self.until_waiting(self.world.place.server()).await;
        asleep(&waiter, secs(2)).await;
    }

    /// A waiter sleeps on, though nobody has the lock.
    async fn sleeps_though_free<T>(&self, waiter: &JoinHandle<T>, long: Duration) {
        asleep(waiter, long).await;
        assert!(!self.raw().await.exists(&self.name).await, "nobody has it");
    }

    /// Gives up at a limit as the lock is given back, swept around the message, until the waiter behind it sleeps on.
    async fn gives_up_as_it_is_told(&self, object: &str, limit: u64, behind: u64, release: std::ops::Range<u64>) {
        for round in 0..200 {
            let jar = Jar { name: format!("{}-{round}", self.name), ..self.clone() };
            jar.must("a", object, "lock 60000").await;
            let impatient = jar.begin("b", object, &format!("try_lock {limit} -1"));
            sleep(ms(behind)).await;
            let lasting = jar.begin("c", object, "lock 60000");
            sleep(ms(release.start + round % (release.end - release.start))).await;
            jar.must("a", object, "unlock").await;
            if impatient.await.unwrap().unwrap() == "true" {
                jar.must("b", object, "unlock").await;
            }
            sleep(ms(5 * behind)).await;
            if !lasting.is_finished() && !jar.raw().await.exists(&jar.name).await {
                return asleep(&lasting, secs(2)).await;
            }
            lasting.await.unwrap().unwrap();
        }
        panic!("no give-up left the next asleep");
    }

    /// The answer to a command is lost, when its script is known: that is an exception. How long it took.
    async fn loses_an_answer(&self, settings: &str, object: &str, verb: &str) -> Duration {
        let (proxy, other) = self.cut_off(settings).await;
        let warm = Jar { name: format!("{}-warm", self.name), ..other.clone() };
        warm.must("a", object, verb).await;
        let (fault, began) = (proxy.cut_after(1, about(&self.name)), Instant::now());
        other.call("a", object, verb).await.expect_err("the answer is lost");
        let took = began.elapsed();
        assert_eq!(fault.hits(), 1);
        assert!(self.raw().await.pttl(&self.name).await > 0, "the server has it");
        took
    }

    async fn until_gone(&self) {
        let what = format!("{} ends", self.name);
        eventually(secs(15), &what, async || !self.raw().await.exists(&self.name).await).await;
    }

    /// Still held after more than two leases of a watchdog.
    async fn still_held(&self) {
        sleep(secs(7)).await;
        assert!(self.raw().await.exists(&self.name).await, "{} was not renewed", self.name);
    }
}

/// Somebody has it for so long.
async fn taken(raw: &mut Raw, name: &str, millis: &str) {
    raw.must(&["HSET", name, "somebody:1", "1"]).await;
    raw.must(&["PEXPIRE", name, millis]).await;
}

/// What names the lock: all scripts about it.
fn about(name: &str) -> Filter {
    Filter::Script.with(name)
}

/// A server with a replica, and a proxy before it.
async fn replicated() -> (Server, Server, Proxy) {
    let (server, replica) = (Server::start(), Server::start());
    replica.control(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    let online = async || server.raw().await.must(&["INFO", "replication"]).await.text().contains("state=online");
    eventually(secs(20), "the replica is there", online).await;
    let proxy = Proxy::start(server.port());
    (server, replica, proxy)
}

/// It sleeps on, though nothing keeps it out.
async fn asleep<T>(waiter: &JoinHandle<T>, long: Duration) {
    sleep(long).await;
    assert!(!waiter.is_finished(), "it was woken");
}

type Case = (&'static str, fn(Jar) -> Pin<Box<dyn Future<Output = ()>>>);

macro_rules! cases {
    ($($module:ident: $($name:ident)*;)*) => { [$($((stringify!($name), |jar| Box::pin($module::$name(jar))),)*)*] };
}

const CASES: &[Case] = &cases! {
    wakeups:
        id_6_a_1 id_6_a_2a id_6_a_2b id_6_a_3a id_6_a_6 id_6_a_7a id_6_a_8 id_6_c_8 id_3_1_a id_6_e_1 id_6_e_2;
    holds:
        id_6_b_1s id_6_b_2a id_3_3_a id_3_5b id_6_b_2b id_6_b_2e id_6_b_3a id_6_b_3b id_6_b_5 id_6_b_6 id_6_b_7
        id_6_b_10a id_6_b_10b id_6_b_11 id_6_e_3;
    rights:
        id_6_c_6 id_6_c_6u id_6_c_9;
    fair:
        id_6_d_1 id_6_d_2 id_6_d_3 id_6_d_5 id_6_d_8 id_6_d_9 id_3_4_c id_6_c_7;
    permits:
        id_6_a_4a id_6_a_4c id_6_a_4d id_6_a_5a id_6_a_5b id_6_a_7b id_6_b_1p;
    kinds:
        id_2_0_c id_6_c_1a id_6_c_1b id_6_c_1c id_6_c_1d id_6_c_4a id_6_c_4b;
    composite:
        id_6_c_2a id_6_c_2b id_6_c_2d id_6_c_2e id_6_c_2f id_6_c_2g id_6_c_2h id_6_c_2i;
    group:
        id_6_c_3a id_6_c_3b id_6_c_3c id_6_c_3d;
};

/// What `the_weaknesses_are_the_jars` runs.
pub fn names() -> impl Iterator<Item = String> {
    CASES.iter().map(|(id, _)| format!("jar::{id}"))
}

/// A client of its own.
async fn own(world: &World, settings: &str) -> Java {
    world.jvms[0].client(&world.place.url(), settings).await
}

/// All of them at the same time: they wait for leases more than they work.
pub async fn the_weaknesses_are_the_jars(world: Arc<World>) {
    let mut running = JoinSet::new();
    for (id, case) in CASES {
        let world = world.clone();
        running.spawn_local(async move {
            // A busy machine may undo the order that a weakness needs.
            for _ in 0..5 {
                let jar = Jar { world: world.clone(), java: own(&world, "").await, name: unique(id) };
                if spawn_local(case(jar)).await.is_ok() {
                    return None;
                }
            }
            Some(id)
        });
        // So many clients at once would be a test of the machine.
        sleep(ms(50)).await;
    }
    let failed: Vec<_> = running.join_all().await.into_iter().flatten().collect();
    println!("the jar: {} of {} weaknesses seen", CASES.len() - failed.len(), CASES.len());
    assert!(failed.is_empty(), "not seen: {failed:?}");
}
