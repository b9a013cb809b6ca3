//! Locks made of locks of a cluster, of servers behind sentinels, and of a single server.

use std::time::Instant;

use support::prelude::*;
use support::{Cluster, Sentinels};
use tokio::runtime::Runtime;

const LONGEST: Duration = secs(10);

/// One deployment of each topology.
struct Mixed {
    cluster: Cluster,
    sentinels: Sentinels,
    single: Server,
    /// Of a lock, whose slot is the first node's.
    name: String,
}

impl Mixed {
    fn start() -> Mixed {
        let (cluster, sentinels, single) = (Cluster::start(1, ms(500)), Sentinels::start(ms(500)), Server::start());
        let name = cluster.name_on(0, "mixed");
        Mixed { cluster, sentinels, single, name }
    }

    async fn clients(&self) -> Vec<Locks> {
        let urls = [self.cluster.url(), self.sentinels.url(), self.single.url()];
        join_all(urls.iter().map(async |url| Locks::connect(url).await.unwrap())).await
    }

    async fn red(&self) -> RedLock<Reentrant> {
        let clients = self.clients().await;
        RedLock::new(clients.iter().map(|locks| locks.lock(&self.name))).max_lease(LONGEST).server_timeout(ms(500))
    }

    /// The server of the lock: of the cluster, behind the sentinels, or the single one.
    fn server(&self, member: usize) -> &Server {
        match member {
            0 => &self.cluster.nodes[self.cluster.primary_of(self.cluster.slot_of(&self.name))],
            1 => &self.sentinels.servers[self.sentinels.named_by(1).unwrap()],
            _ => &self.single,
        }
    }

    /// The servers have been there for an hour.
    fn age(&self) {
        for member in 0..3 {
            let server = self.server(member);
            let [marker] = &server.control(&["KEYS", "lockson:boot*"]).texts()[..] else { panic!("one marker") };
            let text = server.control(&["GET", marker]).text();
            let (since, run) = text.split_once(' ').unwrap();
            let since = since.parse::<u64>().unwrap() - 3_600_000;
            server.control(&["SET", marker, &format!("{since} {run}")]);
        }
    }

    /// Kills the server of the lock and waits for its successor, which has not got what it granted.
    fn lose(&self, member: usize) {
        self.server(member).kill();
        match member {
            0 => drop(self.cluster.elected(self.cluster.slot_of(&self.name), 0)),
            _ => drop(self.sentinels.switched(0)),
        }
        let limit = Instant::now() + secs(10);
        while self.server(member).try_control(&["DEL", &self.name]).is_err() {
            assert!(Instant::now() < limit, "the successor takes no writes");
        }
    }
}

/// A has two votes, and stands still. One of the two is lost with its server: whoever asks the successor, and the third
/// member, has two votes only when A's lease is over.
fn no_second_majority(lost: usize, other: usize) {
    let (all, rival) = (Mixed::start(), Runtime::new().unwrap());
    // Its tasks stand still while nothing is awaited there.
    let held = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rival.block_on(async {
        let guard = all.red().await.fresh().acquire().lease(LONGEST).wait(secs(5)).guard().await;
        guard.unwrap().expect("all vote").unlock().await.unwrap();
    });
    all.age();
    all.server(other).control(&["HSET", &all.name, "stranger", "1"]);
    let first = held.block_on(async {
        let wanted = all.red().await.acquire().lease(LONGEST).wait(secs(5)).guard().await;
        wanted.unwrap().expect("two of three votes")
    });
    all.server(other).control(&["DEL", &all.name]);
    all.lose(lost);
    rival.block_on(async {
        let second = all.red().await;
        let began = Instant::now();
        let guard = loop {
            match second.acquire().lease(LONGEST).wait(Duration::ZERO).guard().await {
                Ok(Some(guard)) => break guard,
                Ok(None) | Err(LockError::NoMajority { .. }) => sleep(ms(20)).await,
                Err(error) => panic!("{error}"),
            }
            assert!(began.elapsed() < LONGEST * 2, "nobody is elected any more");
        };
        assert!(!(first.is_valid() && guard.is_valid()), "two holders: {:?} are left", first.remaining());
        println!("member {lost} lost: a second majority {:?} after the failover", began.elapsed());
        guard.unlock().await.unwrap();
    });
}

#[test]
fn no_second_majority_after_a_failover_of_a_cluster() {
    no_second_majority(0, 1);
}

#[test]
fn no_second_majority_after_a_failover_behind_sentinels() {
    no_second_majority(1, 0);
}

/// A hold that lives goes on with the votes that are left, and takes the third again when its server may vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_red_hold_outlives_a_failover() {
    let all = tokio::task::block_in_place(Mixed::start);
    let clients = join_all([all.cluster.url(), all.sentinels.url(), all.single.url()].iter().map(async |url| {
        let settings = Locks::builder().watchdog_lease(secs(3));
        settings.connect(url).await.unwrap()
    }))
    .await;
    let red = RedLock::new(clients.iter().map(|locks| locks.lock(&all.name))).max_lease(secs(4)).fresh();
    let guard = red.guard().await.unwrap();
    for member in [0, 1] {
        tokio::task::block_in_place(|| all.lose(member));
        let lost = Instant::now();
        // The first key that is seen may be a copy of the lost vote, which ends while its server rests.
        for rest in [5, 1] {
            eventually(secs(15), "the vote is taken again", async || {
                assert!(guard.is_valid(), "{:?}", guard.state());
                all.server(member).try_control(&["EXISTS", &all.name]).is_ok_and(|found| found.int() == 1)
            })
            .await;
            println!("member {member} has a key {:?} after its failover", lost.elapsed());
            sleep(secs(rest)).await;
        }
    }
    guard.unlock().await.unwrap();
}

/// Two multi-locks over the same locks, given in two orders, exclude each other, also while a server is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_over_all_topologies() {
    let all = tokio::task::block_in_place(Mixed::start);
    let far = all.cluster.name_on(1, "mixed");
    let inside = Arc::new(AtomicU32::new(0));
    let multis = join_all([false, true].map(async |turned| {
        let clients = all.clients().await;
        let mut locks: Vec<_> = clients.iter().map(|locks| locks.lock(&all.name)).collect();
        locks.push(clients[0].lock(&far));
        if turned {
            locks.reverse();
        }
        MultiLock::new(locks)
    }))
    .await;
    let use_it = |lock: MultiLock| {
        let inside = inside.clone();
        tokio::spawn(async move {
            let mut done = 0;
            while done < 40 {
                let Ok(guard) = lock.guard().await else { continue };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "both are inside");
                sleep(ms(10)).await;
                // What lost its hold meanwhile is not inside.
                inside.fetch_sub(1, Ordering::SeqCst);
                let _ = guard.unlock().await;
                done += 1;
            }
        })
    };
    let tasks: Vec<_> = multis.into_iter().map(use_it).collect();
    sleep(ms(200)).await;
    tokio::task::block_in_place(|| {
        let slot = all.cluster.slot_of(&far);
        let [replica] = all.cluster.replicas_of(1)[..] else { panic!("one replica") };
        all.cluster.fail_over(replica, None);
        all.cluster.elected(slot, 1);
    });
    for task in tasks {
        tokio::time::timeout(secs(60), task).await.expect("they go on").unwrap();
    }
}
