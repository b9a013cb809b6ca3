//! A door of the test kit, with a server inside this process behind it: Redisson and lockson knock on it.

use lockson_testkit::TestServer;

use crate::*;

/// Each holds, keeps the other out, and wakes it.
pub async fn both_knock_on_a_door(world: Arc<World>) {
    let server = TestServer::new();
    let door = server.door().unwrap();
    let java = Peer::Java(world.jvms[0].client(door.url(), "").await);
    let rust = Peer::Rust(connect(client().wait_cap(LONG), door.url()).await);
    let inside = Peer::Rust(server.connect_with(client().wait_cap(LONG)).unwrap());
    for (holder, waiter) in [(&java, &rust), (&rust, &java), (&inside, &java), (&java, &inside)] {
        for pair in PAIRS {
            let name = unique("door");
            let (mine, theirs) = (holder.lock(pair.kind, &name, "1"), waiter.lock(pair.rival, &name, "2"));
            mine.must_lock(None).await;
            assert!(!theirs.take(secs(0), None).await, "{name} has two holders");
            let before = server.calls();
            let waits = theirs.begin(None);
            eventually(SOON, "it asks twice: the second time it listens", async || server.calls() > before + 1).await;
            mine.unlock().await.result.unwrap();
            assert!(support::patient("woken", waits).await.unwrap());
            theirs.unlock().await.result.unwrap();
        }
    }
}
