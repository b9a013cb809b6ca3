//! Grants that replicas have to confirm: what becomes of each when they do, and when they are silent.

use lockson::Replicas;
use support::prelude::*;
use support::{Cluster, Sentinels};

use super::moving::run;

/// A client whose grants have to be on all replicas.
fn confirming(within: Duration) -> Builder {
    Locks::builder().confirm(Replicas::All, within).command_timeout(ms(600)).wait_cap(secs(60))
}

fn exists(server: &Server, key: &str) -> bool {
    server.control(&["EXISTS", key]).int() == 1
}

/// Every kind: what is granted is on all replicas as its owner hears of it; what is not is given back at once, and goes
/// again when the replica is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_granted_by_all_replicas_or_not_at_all() {
    let all = Sentinels::start(secs(60));
    let (primary, replicas) = (&all.servers[0], &all.servers[1..]);
    let locks = confirming(ms(200)).connect(&all.url()).await.unwrap();
    for kind in &KINDS {
        let name = unique("granted");
        let lock = (kind.make)(&locks, &name);
        let guard = lock.guard().await.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        assert!(replicas.iter().all(|replica| exists(replica, &name)), "{}", kind.name);
        guard.unlock().await.unwrap();
    }
    let (name, clients) =
        (format!(" name=lockson:{} ", locks.client_id()), primary.control(&["CLIENT", "LIST"]).text());
    let named = clients.lines().filter(|client| client.contains(&name)).count();
    assert!(named >= 3, "for scripts, for messages, and what waits for replicas: {clients}");
    replicas[0].freeze();
    for kind in &KINDS {
        let name = unique("refused");
        let lock = (kind.make)(&locks, &name);
        let expected = LockError::NotConfirmed { name: name.clone(), acked: 1, wanted: 2, given_back: true };
        assert_eq!(lock.try_lock().await, Err(expected), "{}", kind.name);
        assert!(!exists(primary, &name), "{}", kind.name);
        let one = Request::default().confirm(Replicas::AtLeast(1), secs(5));
        lock.guard_with(one).await.unwrap().unwrap().unlock().await.unwrap();
        let none = Request::default().confirm(Replicas::AtLeast(0), secs(5));
        lock.guard_with(none).await.unwrap().unwrap().unlock().await.unwrap();
    }
    no_permits(&locks).await;
    replicas[0].thaw();
    let lock = locks.lock(&unique("again"));
    let granted = async || lock.try_lock().await.is_ok_and(|outcome| outcome.is_acquired());
    eventually(secs(5), "a grant when the replica is back", granted).await;
    lock.unlock().await.unwrap();
}

/// Permits too are given back at once.
async fn no_permits(locks: &Locks) {
    let (counted, leased) = (locks.semaphore(&unique("counted")), locks.permit_semaphore(&unique("leased")));
    assert!(counted.try_set_permits(2).await.unwrap() && leased.try_set_permits(2).await.unwrap());
    let (one, other) = (counted.acquire(1).guard().await, leased.acquire(1).guard().await);
    let not_confirmed =
        |name: &str| SyncError::NotConfirmed { name: name.to_owned(), acked: 1, wanted: 2, given_back: true };
    assert_eq!((one.err(), other.err()), (Some(not_confirmed(counted.name())), Some(not_confirmed(leased.name()))));
    assert_eq!((counted.available_permits().await, leased.available_permits().await), (Ok(2), Ok(2)));
    let guard = leased.acquire(1).confirm(Replicas::AtLeast(1), secs(5)).guard().await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// What is inside a hold that all replicas have: a re-entry, another lease, renewals, and who comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_moved_by_all_replicas_or_stays_as_it_was() {
    let all = Sentinels::start(secs(60));
    let (primary, replica) = (&all.servers[0], &all.servers[2]);
    let locks = confirming(ms(100)).watchdog_lease(secs(2)).connect(&all.url()).await.unwrap();
    re_entry_and_lease(&locks, primary, replica).await;
    renewal(&locks, replica).await;
    hand_over(&locks, primary, replica).await;
}

async fn re_entry_and_lease(locks: &Locks, primary: &Server, replica: &Server) {
    let name = unique("inside");
    let lock = locks.lock(&name);
    let outer = lock.acquire().lease(secs(20)).guard().await.unwrap().unwrap();
    replica.freeze();
    assert_matches!(lock.try_lock().await, Err(LockError::NotConfirmed { acked: 1, wanted: 2, given_back: true, .. }));
    assert_eq!((lock.hold_count().await, outer.state()), (Ok(1), HoldState::Held));
    // Nobody who is less strict moves it either.
    let less = lock.acquire().confirm(Replicas::AtLeast(1), secs(1)).guard().await;
    assert_matches!(less, Err(LockError::NotConfirmed { wanted: 2, .. }));
    let not_confirmed = HoldError::NotConfirmed { acked: 1, wanted: 2 };
    assert_eq!(outer.set_lease(secs(60)).await, Err(not_confirmed.clone()));
    assert!(outer.remaining() < secs(20), "the old one is the shorter");
    assert_eq!(outer.set_lease(secs(10)).await, Err(not_confirmed));
    assert!(outer.remaining() < secs(10), "the new one is the shorter");
    replica.thaw();
    outer.set_lease(secs(30)).await.unwrap();
    assert!(outer.remaining() > secs(20));
    outer.unlock().await.unwrap();
    assert!(!exists(primary, &name));
}

async fn renewal(locks: &Locks, replica: &Server) {
    let (kept, lost) = (locks.lock(&unique("kept")), locks.fair_lock(&unique("lost")));
    let kept = kept.guard().await.unwrap();
    replica.freeze();
    let doubted = async |guard: &Guard| guard.state() == HoldState::Uncertain;
    eventually(secs(2), "a renewal that is not confirmed", async || doubted(&kept).await).await;
    assert!(kept.remaining() < ms(1_400), "the deadline did not move: {:?}", kept.remaining());
    replica.thaw();
    eventually(ms(1_300), "held again", async || kept.state() == HoldState::Held).await;
    let lost = lost.guard().await.unwrap();
    replica.freeze();
    eventually(secs(2), "a renewal that is not confirmed", async || doubted(&lost).await).await;
    assert_eq!(patient("the deadline", lost.lost()).await.why, LostReason::Deadline);
    replica.thaw();
}

async fn hand_over(locks: &Locks, primary: &Server, replica: &Server) {
    let name = unique("handed");
    let lock = locks.lock(&name);
    let giver = lock.owned_by(&Owner::unique()).guard().await.unwrap();
    let heir = spawn_with(lock.owned_by(&Owner::unique()), async move |lock| lock.lock().await);
    sleep(ms(100)).await;
    replica.freeze();
    assert_eq!(giver.unlock().await, Ok(()));
    assert_matches!(patient("the heir", heir).await.unwrap(), Err(LockError::NotConfirmed { given_back: true, .. }));
    assert!(!exists(primary, &name));
    replica.thaw();
    // One that goes away meanwhile leaves nothing either.
    let giver = lock.owned_by(&Owner::unique()).guard().await.unwrap();
    let heir = spawn_with(lock.owned_by(&Owner::unique()), async move |lock| {
        lock.acquire().lease(secs(60)).confirm(Replicas::All, secs(2)).guard().await
    });
    sleep(ms(100)).await;
    replica.freeze();
    let before = primary.control(&["HKEYS", &name]).texts();
    let unlock = tokio::spawn(giver.unlock());
    eventually(secs(2), "it is handed over", async || primary.control(&["HKEYS", &name]).texts() != before).await;
    heir.abort();
    assert_eq!(patient("an unlock", unlock).await.unwrap(), Ok(()));
    eventually(secs(5), "the heir's hold is given back", async || !exists(primary, &name)).await;
    replica.thaw();
}

/// A connection that breaks between a grant and its confirmation confirms nothing: the next copy waits as well, though
/// it finds the work done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_confirms_nothing() {
    let all = Sentinels::start(secs(60));
    let (primary, replica) = (&all.servers[0], &all.servers[1]);
    let locks = confirming(secs(8)).command_timeout(secs(1)).connect(&all.url()).await.unwrap();
    let name = unique("broken");
    replica.freeze();
    let waiting = spawn_with(locks.lock(&name), async move |lock| lock.lock().await);
    for _ in 0..2 {
        eventually(secs(5), "it waits for the replica", async || waits(primary) == 1).await;
        primary.control(&["CLIENT", "KILL", "TYPE", "normal"]);
        eventually(secs(5), "that connection is gone", async || waits(primary) == 0).await;
    }
    eventually(secs(5), "it waits for the replica again", async || waits(primary) == 1).await;
    if waiting.is_finished() {
        panic!("nothing confirmed it: {:?}", waiting.await.unwrap());
    }
    assert!(exists(primary, &name));
    replica.thaw();
    patient("a grant", waiting).await.unwrap().unwrap();
    assert!(exists(replica, &name));
}

/// Wherever connections break, nothing is granted that a silent replica does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_all_the_time_confirm_nothing() {
    let all = Sentinels::start(secs(60));
    let locks = confirming(ms(20)).connect(&all.url()).await.unwrap();
    all.servers[1].freeze();
    let end = Instant::now() + secs(2);
    let tasks = (0..4).map(|task| {
        spawn_with(locks.lock(&unique("breaks")), async move |lock| {
            let mut refused = 0;
            while Instant::now() < end {
                match patient("an answer", lock.try_lock()).await {
                    Err(LockError::NotConfirmed { .. }) => refused += 1,
                    Err(error) if error.is_unreachable() => {}
                    other => panic!("task {task}: {other:?}"),
                }
            }
            refused
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut kills = 0;
    while Instant::now() < end {
        all.servers[0].control(&["CLIENT", "KILL", "TYPE", "normal"]);
        kills += 1;
        sleep(ms(fastrand::u64(1..30))).await;
    }
    let refused: usize = patient_all("a task", tasks).await.into_iter().sum();
    println!("{kills} times all connections were cut: {refused} grants not confirmed, none confirmed");
    assert!(refused > 0);
}

/// Clients that wait for replicas.
fn waits(server: &Server) -> usize {
    let clients = server.control(&["CLIENT", "LIST"]).text();
    clients.lines().filter(|line| line.contains("cmd=wait") && line.contains("flags=b")).count()
}

/// The hold of a primary that is killed as it was confirmed is at its successor, and is held on when that one has its
/// replica back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_confirmed_outlives_the_primary() {
    let cluster = Cluster::start(1, ms(500));
    let locks = confirming(secs(5)).watchdog_lease(secs(30)).connect(&cluster.url()).await.unwrap();
    let name = cluster.name_on(0, "confirmed");
    let slot = cluster.slot_of(&name);
    for _ in 0..soak_part(20, 20) {
        let primary = cluster.primary_of(slot);
        let [replica] = cluster.replicas_of(primary)[..] else { panic!("one replica") };
        cluster.nodes[replica].freeze();
        let lock = locks.lock(&name);
        let grant = spawn_with(lock, async move |lock| lock.guard().await);
        eventually(secs(5), "it is granted by the primary", async || exists(&cluster.nodes[primary], &name)).await;
        assert!(!grant.is_finished(), "the replica has nothing yet");
        cluster.nodes[replica].thaw();
        let guard = patient("a grant", grant).await.unwrap().unwrap();
        cluster.nodes[primary].kill();
        let heir = tokio::task::block_in_place(|| cluster.elected(slot, primary));
        assert_eq!(heir, replica);
        // It answers a moment later.
        let has = async || cluster.nodes[heir].try_control(&["EXISTS", &name]).is_ok_and(|answer| answer.int() == 1);
        eventually(secs(5), "the heir has what was confirmed", has).await;
        eventually(secs(5), "the switch is known", async || guard.state() == HoldState::Uncertain).await;
        let refused = locks.lock(&cluster.name_on(heir, "new")).try_lock().await;
        let asked_one = |why: &Refused| *why == Refused::Replicas { asked: 1, listed: 0 };
        assert_matches!(refused, Err(LockError::Query(QueryError::Refused { why, .. })) if asked_one(&why));
        tokio::task::block_in_place(|| {
            cluster.nodes[primary].restart();
            cluster.settle();
        });
        eventually(secs(10), "its replica is back", async || guard.state() == HoldState::Held).await;
        guard.unlock().await.unwrap();
    }
}

/// Calls that nobody polls on keep nobody from the few connections that wait for replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_poll_keeps_no_connection() {
    let all = Sentinels::start(secs(60));
    let locks = confirming(secs(5)).connect(&all.url()).await.unwrap();
    let asked: Vec<_> = (0..20).map(|at| locks.lock(&format!("unpolled-{at}"))).collect();
    let mut unpolled = Vec::new();
    for lock in &asked {
        let mut future = Box::pin(lock.lock());
        // As far as the script; then it is left alone.
        while !exists(&all.servers[0], lock.name()) {
            assert!(futures::poll!(future.as_mut()).is_pending());
            sleep(ms(1)).await;
        }
        unpolled.push(future);
    }
    let other = locks.lock(&unique("polled")).guard().await.unwrap();
    other.unlock().await.unwrap();
    assert!(futures::future::join_all(unpolled).await.iter().all(Result::is_ok));
}

/// A replica that the cluster has given up counts as one that is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_replica_counts() {
    let cluster = Cluster::start(1, ms(500));
    let locks = confirming(ms(100)).connect(&cluster.url()).await.unwrap();
    let name = cluster.name_on(1, "failed");
    let [replica] = cluster.replicas_of(1)[..] else { panic!("one replica") };
    cluster.nodes[replica].kill();
    let nodes = async || cluster.nodes[1].control(&["CLUSTER", "NODES"]).text();
    eventually(secs(10), "it is given up", async || nodes().await.contains("slave,fail ")).await;
    for lock in [locks.lock(&name), locks.lock(&cluster.name_on(1, "failed"))] {
        assert_matches!(lock.try_lock().await, Err(LockError::NotConfirmed { acked: 0, wanted: 1, .. }));
    }
    assert!(locks.lock(&cluster.name_on(0, "well")).try_lock().await.unwrap().is_acquired());
}

/// More replicas than there are: said before anything is written. A primary that needs none of them is warned of, once.
#[tokio::test]
async fn what_servers_are_asked_for_is_looked_at() {
    let (logs, _guard) = Logs::scoped();
    let all = Sentinels::start(secs(60));
    let warned = || logs.find(tracing::Level::WARN, "min-replicas-to-write").len();
    Locks::connect(&all.url()).await.unwrap();
    assert_eq!(warned(), 1);
    confirming(ms(200)).connect(&all.url()).await.unwrap();
    all.servers[0].control(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    Locks::connect(&all.url()).await.unwrap();
    assert_eq!(warned(), 1);
    let wanted = |replicas: Replicas| Locks::builder().confirm(replicas, ms(100));
    let refused = |asked: u32, listed: u32| Refused::Replicas { asked, listed };
    let told = wanted(Replicas::AtLeast(3)).connect(&all.url()).await.unwrap_err();
    assert_eq!(told, ConnectError::Refused(refused(3, 2)));
    let alone = wanted(Replicas::All).connect(&Server::shared().url()).await.unwrap_err();
    assert_eq!(alone, ConnectError::Refused(refused(1, 0)));
    let inside = EmbeddedServer::new().connect_with(wanted(Replicas::All)).unwrap_err();
    assert_eq!(inside, ConnectError::Refused(refused(1, 0)));
    let embedded = Locks::embedded();
    for (locks, asked, listed) in
        [(Locks::connect(&all.url()).await.unwrap(), 3, 2), (Server::shared().locks().await, 1, 0), (embedded, 1, 0)]
    {
        let lock = locks.lock(&unique("asks"));
        let name = lock.name().to_owned();
        let told = lock.acquire().confirm(Replicas::AtLeast(asked), ms(100)).guard().await.unwrap_err();
        assert_eq!(told, QueryError::Refused { name, why: refused(asked, listed) }.into());
        assert_eq!(lock.is_locked().await, Ok(false));
    }
}

/// WAIT answers for what its connection wrote last: so what says that something is held has written, also where it
/// finds its work done.
#[test]
fn whatever_says_held_has_written() {
    let server = Server::start();
    let changes = || {
        let info = server.control(&["INFO", "persistence"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).unwrap();
        line.parse::<u64>().unwrap()
    };
    for semaphore in ["k6", "k7"] {
        server.control(&["SET", semaphore, "5"]);
    }
    let id = "0123456789abcdef0123456789abcdef";
    let calls: [(&str, &[&str], &str); 19] = [
        ("reentrant/acquire", &["k1"], "o|LEASE|0"),
        ("reentrant/renew", &["k1"], "o|LEASE"),
        ("reentrant/hand_over", &["k1"], "o|p|LEASE"),
        ("reentrant/move", &["k1"], "p|q|LEASE"),
        ("plain/acquire", &["k2"], "o|LEASE"),
        ("plain/renew", &["k2"], "o|LEASE"),
        ("plain/hand_over", &["k2"], "o|p|LEASE"),
        ("grouped/acquire", &["k8"], "v|o|LEASE|0"),
        ("grouped/renew", &["k8"], "v|o|LEASE"),
        ("fair/acquire", &["k3", "k3q", "k3t", "k3s", "k3z"], "o|LEASE|0|1"),
        ("fair/renew", &["k3", "k3q", "k3t"], "o|LEASE"),
        ("write/acquire", &["k4", "k4w", "k4a"], "o:write|LEASE|0|0"),
        ("write/renew", &["k4"], "o:write|LEASE"),
        ("read/acquire", &["k5", "k5w", "k5t", "k5a"], "o|LEASE|0|o:write"),
        ("read/admit", &["k5", "k5w", "k5t", "k5a"], "o|LEASE"),
        ("read/renew", &["k5", "{k5}:o:rwlock_timeout:1"], "o|LEASE"),
        ("semaphore/acquire", &["k6", "k6m", "k6r"], "1|60000|1"),
        ("permit_semaphore/acquire", &["k7", "k7e", "k7r"], "1|60000|LEASE ID"),
        ("permit_semaphore/renew", &["k7e"], "ID|LEASE"),
    ];
    for (script, keys, args) in calls {
        for lease in ["60000", "1000"] {
            let args = args.replace("LEASE", lease).replace("ID", id);
            let before = changes();
            assert_eq!(run(&server, script, keys, &args.split('|').collect::<Vec<_>>()), "1", "{script}");
            assert!(changes() > before, "{script} {lease}");
        }
    }
}
