//! What a client says on the server of itself, and who reads it.

use support::prelude::*;
use support::server::program;
use support::{Deployment, Topology};

/// Whose a hold is, and for how long: on each topology, and nothing of a client that was not asked to say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_says_who_it_is() {
    for topology in [Topology::Single, Topology::Sentinel, Topology::Cluster] {
        let deployment = Deployment::shared(topology, &program());
        let connect = |builder: Builder| async move { builder.connect(&deployment.url()).await.unwrap() };
        let known = connect(Locks::builder().presence(true).label("billing").watchdog_lease(secs(3))).await;
        let (quiet, name) = (connect(Locks::builder()).await, unique("whose"));
        let guard = known.lock(&name).guard().await.unwrap();
        let began = Instant::now();
        let admin = quiet.admin();
        let holder = admin.describe(&name).await.unwrap().holders.remove(0);
        assert!(admin.client(quiet.client_id()).await.unwrap().is_none());
        let (mut presence, mut held) = (None, None);
        eventually(secs(20), "it says so", async || {
            presence = admin.client(&holder.client).await.unwrap();
            held = presence.as_ref().and_then(|presence| presence.held(&name, &holder));
            held.is_some()
        })
        .await;
        let presence = presence.unwrap();
        assert_eq!((presence.pid, &*presence.version), (std::process::id(), "0.1.0"));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(presence.host, host.trim());
        assert!(held.unwrap() <= began.elapsed() + ms(50), "{held:?}");
        assert!(presence.running >= held.unwrap(), "{presence:?}");
        assert_eq!(presence.holds.len(), 1);
        drop(guard);
        known.shutdown(secs(5)).await.unwrap();
        let is_gone = async || admin.client(&holder.client).await.unwrap().is_none();
        eventually(secs(20), "it ends with its lease", is_gone).await;
    }
}

/// Not allowed, it is said once in the log, and all else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_say_it_locks_all_the_same() {
    let server = Server::start();
    server.control(&["ACL", "SETUSER", "few", "on", ">pw", "~orders:*", "~lockson:preflight", "&*", "+@all"]);
    let url = server.url().replace("redis://", "redis://few:pw@");
    let locks = Locks::builder().presence(true).watchdog_lease(secs(3)).connect(&url).await.unwrap();
    let guard = locks.lock("orders:1").guard().await.unwrap();
    eventually(secs(20), "it is refused", async || !server.control(&["ACL", "LOG"]).list().is_empty()).await;
    guard.unlock().await.unwrap();
    assert_matches!(locks.admin().client(locks.client_id()).await, Err(QueryError::Refused { .. }));
}

/// Of very many holds the longest are named, and of permits one id.
#[tokio::test(start_paused = true)]
async fn the_longest_holds_are_named() {
    let server = EmbeddedServer::new();
    let locks = server.connect_with(Locks::builder().presence(true)).unwrap();
    let first = locks.lock("first").guard().await.unwrap();
    locks.permit_semaphore("permits").try_set_permits(600).await.unwrap();
    let permits = locks.permit_semaphore("permits").guard(500).await.unwrap();
    sleep(ms(1100)).await;
    let names = (0..300).map(|number| locks.lock(&format!("rest-{number}")));
    let rest = join_all(names.map(|lock| async move { lock.guard().await.unwrap() })).await;
    tokio::time::advance(secs(10)).await;
    let admin = locks.admin();
    let mut said = admin.client(locks.client_id()).await.unwrap().unwrap();
    while said.holds.is_empty() {
        sleep(secs(1)).await;
        said = admin.client(locks.client_id()).await.unwrap().unwrap();
    }
    assert_eq!(said.holds.len(), 100);
    let longest: Vec<_> = said.holds[..2].iter().map(|hold| (&*hold.name, hold.owner.len())).collect();
    assert!(longest.contains(&("permits", 32)) && longest.iter().any(|(name, _)| *name == "first"), "{longest:?}");
    assert!(said.holds.windows(2).all(|pair| pair[0].held >= pair[1].held));
    drop((first, permits, rest));
}
