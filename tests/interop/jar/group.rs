//! 6.C.3: locks of several values of a group.

use super::*;

/// A group with these values, and one with others, by the names of its objects.
fn of<const N: usize>(jar: &Jar, values: [&str; N]) -> Jar {
    let name = format!("{}/{}", jar.name, values.join("/"));
    Jar { name, ..jar.clone() }
}

/// `lockInterruptibly()` swallows the first interrupt, and waits on.
pub async fn id_6_c_3a(jar: Jar) {
    let (mine, theirs) = (of(&jar, ["a"]), of(&jar, ["a", "b"]));
    mine.must("a", "group", "lock 60000").await;
    let waiter = theirs.begin("b", "group", "lock_interruptibly");
    jar.until_waiting(jar.world.place.server()).await;
    theirs.must("b", "group", "interrupt").await;
    asleep(&waiter, secs(3)).await;
    theirs.must("b", "group", "interrupt").await;
    waiter.await.unwrap().expect_err("the second one counts");
}

/// `lockAsync()` throws, in place of a future that fails.
pub async fn id_6_c_3b(jar: Jar) {
    let error = of(&jar, ["a", "b"]).call("a", "group", "lock_async it").await.expect_err("it is no lock");
    assert!(error.contains("NullPointerException"), "{error}");
}

/// `tryLockAsync` that had to wait says true, and nobody holds anything.
pub async fn id_6_c_3c(jar: Jar) {
    let (mine, theirs) = (of(&jar, ["a"]), of(&jar, ["a", "b"]));
    mine.must("a", "group", "lock 60000").await;
    theirs.must("b", "group", "try_lock_async it 20000 -1").await;
    jar.until_waiting(jar.world.place.server()).await;
    mine.must("a", "group", "unlock").await;
    assert_eq!(theirs.must("b", "group", "result it 20000").await, "true");
    assert!(!jar.raw().await.exists(&jar.name).await, "it is there");
}

/// Who asks whether it holds a value is told so, as somebody has another value of the group.
pub async fn id_6_c_3d(jar: Jar) {
    let (one, other) = (of(&jar, ["b"]), of(&jar, ["a"]));
    one.must("a", "group", "lock 60000").await;
    assert_eq!(other.must("b", "group", "held").await, "true");
    assert_eq!(other.must("c", "group", "try_lock").await, "true", "nobody has it");
}
