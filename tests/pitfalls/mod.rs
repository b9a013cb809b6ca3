//! What goes wrong with locks that are written by hand, command by command (docs/PITFALLS.md), and not with lockson's.

mod outliving;
mod releasing;
mod taking;

use support::prelude::*;

/// A lease that ends before the work does. Whoever uses it awaits its end.
const SHORT: &str = "50";
/// One that does not end within a test.
const LONG: &str = "60000";

async fn connect(server: &Server) -> Locks {
    server.locks().await
}

/// `SETNX`: whether it took the lock.
async fn setnx(raw: &mut Raw, key: &str, value: &str) -> bool {
    raw.must(&["SETNX", key, value]).await.int() == 1
}

/// `SET NX PX`, as it should be done: whether it took the lock.
async fn take(raw: &mut Raw, key: &str, value: &str, lease: &str) -> bool {
    raw.must(&["SET", key, value, "NX", "PX", lease]).await.optional().is_some()
}

/// Awaits that the lease ends.
async fn expired(raw: &mut Raw, key: &str) {
    eventually(secs(20), "the lease ends", async || !raw.exists(key).await).await;
}

/// The same interleaving with lockson: the first one's lease ends, the second takes it, the first gives it back.
async fn lockson_leaves_the_next_alone(server: &Server) {
    let (first, second) = (connect(server).await, connect(server).await);
    let name = unique("pitfall");
    assert!(first.lock(&name).acquire().lease(ms(100)).await.unwrap().is_acquired());
    let guard = patient("the second", second.lock(&name).guard()).await.unwrap();
    assert!(first.lock(&name).unlock().await.is_err(), "it is told");
    guard.verify().await.unwrap();
    assert_eq!(second.lock(&name).holder().await.unwrap().map(|holder| holder.owner), Some(guard.owner()));
    guard.unlock().await.unwrap();
}
