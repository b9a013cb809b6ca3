//! What a group's values add: a hash and a channel that they share.

use lockson::MultiLock;

use crate::contract::world::*;

/// Of the value `other`, as [`VALUE`].
const OTHER: &str = "st2KjBdGyV9nSwxhtS2GNg";

/// Key by key, and the message.
pub async fn the_layout_is_redissons(case: Case) {
    let locks = case.client().await;
    let channel = format!("redisson_lock__channel:{{{}}}", case.name);
    let heard = case.listen(&[&channel]).await;
    let lock = case.lock(&locks).owned_by(&Owner::named("me").unwrap());
    lock.lock().await.unwrap();
    lock.lock().await.unwrap();
    let owner = format!("{}:named-me", locks.client_id());
    let field = async |field: &str| case.ask(&["HGET", &case.name, field]).await;
    assert_eq!(field(VALUE).await, owner);
    assert_eq!(field(&format!("{VALUE}:{owner}:lock_count")).await, "2");
    let until: i64 = field(&format!("{VALUE}:{owner}:expire_time")).await.parse().unwrap();
    let (left, ttl) = (until - case.time().await, case.pttl().await);
    assert!((28_000..=30_000).contains(&left) && (28_000..=30_000).contains(&ttl), "{left} {ttl}");
    assert_eq!(case.ask(&["HLEN", &case.name]).await, "3");
    lock.unlock().await.unwrap();
    assert_eq!(field(&format!("{VALUE}:{owner}:lock_count")).await, "1");
    lock.unlock().await.unwrap();
    assert!(case.is_free().await);
    if let Some(heard) = heard {
        assert_eq!(heard.wait_for(1).await.len(), 1);
    }
}

/// Of two values of one group two may be held, one is renewed and given back without the other, and force ends one.
pub async fn each_value_is_a_lock_of_its_own(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let [one, other] = ["value", "other"].map(|value| a.group_lock(&case.name, value));
    let theirs = b.group_lock(&case.name, "other");
    let guard = one.guard().await.unwrap();
    assert!(theirs.try_lock().await.unwrap().is_acquired());
    assert!(!other.try_lock().await.unwrap().is_acquired());
    assert_eq!(other.holder().await.unwrap().unwrap().client, b.client_id());
    assert_eq!(one.holder().await.unwrap().unwrap().client, a.client_id());
    guard.unlock().await.unwrap();
    assert!(!one.is_locked().await.unwrap() && theirs.is_held().await.unwrap());
    assert!(one.try_lock().await.unwrap().is_acquired());
    assert!(other.force_unlock().await.unwrap());
    assert!(one.is_held().await.unwrap() && !other.is_locked().await.unwrap());
    assert_eq!(case.ask(&["HGET", &case.name, OTHER]).await, "nil");
    one.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// All values of a group have one channel: who waits for this one is woken, although others of its client, who came
/// before it, hear the same message. No poll saves it.
pub async fn a_release_wakes_who_waits_for_that_value(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    let values = ["a", "b", "c", "d"];
    let guards = join_all(values.map(|value| {
        let lock = a.group_lock(&case.name, value);
        async move { lock.guard().await.unwrap() }
    }));
    let guards = guards.await;
    let wait = |value: &str| {
        let lock = b.group_lock(&case.name, value);
        async move { lock.guard().await.unwrap() }
    };
    let waiters = values.map(|value| tokio::spawn(wait(value)));
    case.until_waiting(&b).await;
    // The last first, so that each has somebody before it.
    for (guard, waiter) in guards.into_iter().zip(waiters).rev() {
        guard.unlock().await.unwrap();
        let woken = patient("it is woken", waiter).await.unwrap();
        woken.unlock().await.unwrap();
    }
    assert!(case.is_free().await);
}

/// A multi-lock of values is Redisson's `getMultiLock(group, values)`: each way is one script.
pub async fn values_are_taken_and_given_back_by_one_script(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let all = |locks: &Locks| MultiLock::new(["value", "other", "third"].map(|it| locks.group_lock(&case.name, it)));
    let before = case.calls();
    let guard = all(&a).guard().await.unwrap();
    let taken = case.calls_since(before);
    assert_eq!(case.ask(&["HLEN", &case.name]).await, "9");
    assert!(!b.group_lock(&case.name, "other").try_lock().await.unwrap().is_acquired());
    assert!(!all(&b).try_lock().await.unwrap().is_acquired());
    let asked = case.calls();
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
    if let (Some(taken), Some(given_back)) = (taken, case.calls_since(asked)) {
        assert_eq!((taken, given_back), (1, 1));
    }
    // What is not held keeps no other from being given back, and is said.
    a.group_lock(&case.name, "third").lock().await.unwrap();
    assert!(matches!(all(&a).unlock().await, Err(UnlockError::NotHeld { .. }) | Err(UnlockError::Several(_))));
    assert!(case.is_free().await);
    // Those that are taken by somebody are waited for one by one, and none is kept meanwhile that was not had.
    let third = b.group_lock(&case.name, "third").guard().await.unwrap();
    assert!(!all(&a).try_lock().await.unwrap().is_acquired());
    assert_eq!(case.ask(&["HLEN", &case.name]).await, "3");
    third.unlock().await.unwrap();
    patient("all", all(&a).guard()).await.unwrap().unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// Who waits for another value of the group is not let go first: what is free is taken at once, many by one script.
pub async fn nobody_goes_first_who_waits_for_another_value(case: Case) {
    let (a, b) = (case.client().await, case.sleepy_client().await);
    let theirs = a.group_lock(&case.name, "theirs").guard().await.unwrap();
    let waiter = b.group_lock(&case.name, "theirs");
    let waiter = tokio::spawn(async move { waiter.guard().await.unwrap() });
    case.until_waiting(&b).await;
    let value = a.group_lock(&case.name, "value");
    let all = MultiLock::new(["value", "other"].map(|it| a.group_lock(&case.name, it)));
    for _ in 0..3 {
        let guard = value.guard().await.unwrap();
        // Longer than a run of its own process.
        sleep(ms(25)).await;
        guard.unlock().await.unwrap();
        let soon = case.bound(ms(5));
        let taken = value.acquire().wait(soon).guard().await.unwrap();
        taken.expect("it is free").unlock().await.unwrap();
        // Who waits has looked, too.
        sleep(ms(25)).await;
        let before = case.calls();
        let guard = all.guard().await.unwrap();
        if let Some(calls) = case.calls_since(before) {
            assert_eq!(calls, 1);
        }
        guard.unlock().await.unwrap();
    }
    theirs.unlock().await.unwrap();
    patient("it is woken", waiter).await.unwrap().unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// The group lives on by another value; what nobody renews is free by the server's clock all the same.
pub async fn who_is_dead_keeps_a_value_no_longer_than_its_lease(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let _alive = a.group_lock(&case.name, "other").guard().await.unwrap();
    let lock = a.group_lock(&case.name, "value");
    assert!(lock.acquire().lease(ms(300)).await.unwrap().is_acquired());
    let began = Instant::now();
    let next = patient("the next", b.group_lock(&case.name, "value").guard()).await.unwrap();
    assert!(began.elapsed() >= ms(250), "{:?}", began.elapsed());
    assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert_eq!(case.ask(&["HLEN", &case.name]).await, "6");
    assert!(next.is_valid());
    next.unlock().await.unwrap();
}

/// Rule 6, script by script: past its `not_after` a copy answers late and writes nothing.
pub async fn late_copies_write_nothing(case: Case) {
    let name = [case.name.as_str()];
    let (begin, many) = (["v", "o", "1000", "0"], ["v", "o", "1000"]);
    assert_eq!(
        case.copy(support::lua!("grouped/hold", "grouped/begin", "grouped/acquire"), LATE, &name, &begin).await,
        "2"
    );
    assert_eq!(case.copy(support::lua!("grouped/hold", "grouped/acquire_all"), LATE, &name, &many).await, "2");
    assert!(case.is_free().await);
    let locks = case.client().await;
    let _guard = case.lock(&locks).owned_by(&Owner::named("o").unwrap()).guard().await.unwrap();
    let (field, stored) = (case.field(&locks, "named-o"), case.stored(&locks).await);
    let [own, told] = [[VALUE, &field, "90000", "1"], ["PUBLISH", "c", "", ""]];
    let calls: [(&str, usize, bool); 6] = [
        (support::lua!("announce", "grouped/hold", "grouped/begin", "grouped/release"), 4, true),
        (support::lua!("announce", "grouped/hold", "grouped/begin", "grouped/settle"), 3, true),
        (support::lua!("announce", "grouped/hold", "grouped/begin", "grouped/force"), 2, true),
        (support::lua!("announce", "grouped/hold", "grouped/release_all"), 3, true),
        (support::lua!("grouped/hold", "grouped/begin", "grouped/extend"), 3, false),
        (support::lua!("grouped/hold", "grouped/renew"), 3, false),
    ];
    for (text, words, announces) in calls {
        let args = [&own[..words], if announces { &told[..2] } else { &[] }].concat();
        assert_eq!(case.copy(text, LATE, &name, &args).await, "2", "{text}");
        assert_eq!(case.stored(&locks).await, stored, "{text}");
    }
}
