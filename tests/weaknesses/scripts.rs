//! 6.C: what unlocking and errors get wrong.

use crate::weaknesses::*;

/// The release was done there, and an error came of its PUBLISH.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_6u_an_unlock_without_the_channel_right_succeeds() {
    let server = Server::start();
    let mut raw = server.raw().await;
    raw.must(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"]).await;
    let locks = Locks::connect(&format!("redis://app:pw@127.0.0.1:{}", server.port())).await.unwrap();
    let name = unique("6c6u");
    let lock = locks.lock(&name);
    lock.lock().await.unwrap();
    // Not `resetchannels`: that would cut the connection.
    raw.must(&["ACL", "SETUSER", "app", "-publish"]).await;
    lock.unlock().await.unwrap();
    assert!(!raw.exists(&name).await);
}

/// The error named a thread of netty there, not the caller's.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_c_9_the_error_of_a_mutex_names_its_owner() {
    let locks = connect(short()).await;
    let name = unique("6c9");
    let owner = Owner::named("request-17").unwrap();
    let mutex = locks.mutex(&name).owned_by(&owner);
    mutex.lock().await.unwrap();
    let error = mutex.lock().await.unwrap_err();
    assert!(matches!(&error, LockError::AlreadyHeld { owner: named, .. } if *named == owner));
    assert!(error.to_string().contains("request-17") && error.to_string().contains(&name));
    mutex.unlock().await.unwrap();
}
