//! 6.A.4, 6.A.5, 6.A.7b and 6.B.1p: semaphores and latches.

use super::*;

/// `release(3)` runs one of three waiters.
pub async fn id_6_a_4a(jar: Jar) {
    jar.must("a", "semaphore", "try_set_permits 3").await;
    jar.must("a", "semaphore", "acquire 3").await;
    for waiter in ["one", "two", "three"] {
        jar.must("b", "semaphore", &format!("begin_async {waiter}")).await;
    }
    jar.until_waiting(jar.world.place.server()).await;
    jar.must("a", "semaphore", "release 3").await;
    sleep(secs(2)).await;
    assert_eq!(jar.must("a", "semaphore", "available").await, "2", "idle, with two waiters");
}

/// What is taken away below zero is told to the waiters.
pub async fn id_6_a_4c(jar: Jar) {
    let heard = jar.raw().await.subscribe(&format!("redisson_sc:{{{}}}", jar.name)).await;
    jar.must("a", "semaphore", "try_set_permits 1").await;
    jar.must("a", "semaphore", "add -3").await;
    let texts: Vec<String> = heard.wait_for(2).await.into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["1", "-2"]);
}

/// The listener of a waiter that has what it wanted stays, and eats the next message.
pub async fn id_6_a_4d(jar: Jar) {
    jar.must("a", "permits", "try_set_permits 1").await;
    jar.must("a", "permits", "acquire 2000").await;
    // Both wait for the end of that lease; one has the permit then, and its listener stays.
    jar.must("b", "permits", "begin_async one").await;
    jar.must("b", "permits", "begin_async other").await;
    let (id, waiter) = match jar.call("b", "permits", "await_async one 5000").await {
        Ok(id) => (id, "other"),
        Err(_) => (jar.must("b", "permits", "await_async other 5000").await, "one"),
    };
    jar.must("b", "permits", &format!("release {id}")).await;
    jar.call("b", "permits", &format!("await_async {waiter} 3000")).await.expect_err("woken");
    assert_eq!(jar.must("a", "permits", "available").await, "1", "free, with a waiter");
}

/// `delete()` of a latch leaves its waiters asleep.
pub async fn id_6_a_5a(jar: Jar) {
    jar.must("a", "latch", "try_set_count 1").await;
    let waiter = jar.begin("b", "latch", "await 60000");
    jar.until_waiting(jar.world.place.server()).await;
    assert_eq!(jar.must("a", "latch", "delete").await, "true");
    asleep(&waiter, secs(2)).await;
    assert_eq!(jar.must("a", "latch", "count").await, "0");
}

/// A latch that opens between the look of `awaitAsync()` and its listening is missed.
pub async fn id_6_a_5b(jar: Jar) {
    let (proxy, slow) = jar.cut_off("").await;
    jar.must("a", "latch", "try_set_count 1").await;
    proxy.delay_replies(ms(1500));
    slow.must("b", "latch", "begin_async one").await;
    // The second look is after the subscription.
    late_answer(&proxy, 2, Filter::Command("GET").with(jar.name.as_str())).await;
    jar.must("a", "latch", "count_down").await;
    slow.call("b", "latch", "await_async one 4000").await.expect_err("woken");
    assert_eq!(jar.must("a", "latch", "count").await, "0");
}

/// What is released while it connects again is lost: nothing ends that sleep.
pub async fn id_6_a_7b(jar: Jar) {
    jar.must("a", "semaphore", "try_set_permits 1").await;
    jar.is_away_meanwhile("semaphore", "acquire 1", "release 1").await;
    assert_eq!(jar.must("a", "semaphore", "available").await, "1");
}

/// Where there is a replica, a lost answer is asked for again: one acquisition takes two permits, one release adds two.
pub async fn id_6_b_1p(jar: Jar) {
    let (server, replica, proxy) = replicated().await;
    let slow = jar.at(proxy.port(), &format!("timeout=1000 attempts=3 replica={}", replica.port())).await;
    slow.must("a", "semaphore", "try_set_permits 5").await;
    slow.must("a", "semaphore", "acquire 1").await;
    slow.must("a", "semaphore", "release 1").await;
    for (verb, left) in [("acquire 1", "3"), ("release 1", "5")] {
        let fault = proxy.cut_after(1, about(&jar.name));
        slow.must("a", "semaphore", verb).await;
        assert_eq!(fault.hits(), 1);
        assert_eq!(server.raw().await.get(&jar.name).await.as_deref(), Some(left), "two for one: {verb}");
    }
}
