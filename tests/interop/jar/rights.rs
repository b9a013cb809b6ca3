//! 6.C: rights that are missing, and errors.

use super::*;

/// A user who may do all but hear and send messages.
async fn deaf(jar: &Jar) -> (Server, Jar) {
    let server = Server::start();
    server.control(&["ACL", "SETUSER", "deaf", "on", ">secret", "+@all", "~*", "resetchannels"]);
    let deaf = jar.at(server.port(), "user=deaf password=secret").await;
    deaf.must("a", "lock", "lock 60000").await;
    (server, deaf)
}

/// A refused subscription looks like a lock that is busy.
pub async fn id_6_c_6(jar: Jar) {
    let (_server, deaf) = deaf(&jar).await;
    assert_eq!(deaf.must("b", "lock", "try_lock 1500 -1").await, "false");
}

/// Without the channel right an unlock is done, and throws.
pub async fn id_6_c_6u(jar: Jar) {
    let (server, deaf) = deaf(&jar).await;
    deaf.call("a", "lock", "unlock").await.expect_err("no right to publish");
    assert!(!server.raw().await.exists(&jar.name).await, "it was done");
}

/// The error of a non-reentrant lock names another thread than the caller's.
pub async fn id_6_c_9(jar: Jar) {
    jar.must("a", "mutex", "lock").await;
    let thread = jar.must("a", "client", "thread").await;
    let error = jar.call("a", "mutex", "lock").await.expect_err("not reentrant");
    assert!(error.contains("already held by thread") && !error.ends_with(&format!("thread {thread}")), "{error}");
    let waiter = jar.begin("b", "mutex", "lock");
    asleep(&waiter, secs(1)).await;
    jar.must("a", "mutex", "unlock").await;
    waiter.await.unwrap().unwrap();
}
