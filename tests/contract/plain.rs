//! What the plain lock adds: the layout of other libraries, a token for every hold. Rule 23.

use lockson::PlainLock;

use crate::contract::world::*;

async fn plain(case: &Case) -> PlainLock {
    case.client().await.plain_lock(&case.name)
}

async fn value(case: &Case) -> String {
    case.ask(&["GET", &case.name]).await
}

/// As redis-py and the others take it.
async fn take_as_another_library(case: &Case, ttl: &str) {
    assert_eq!(case.ask(&["SET", &case.name, "theirs", "NX", "PX", ttl]).await, "OK");
}

pub async fn the_layout_is_the_common_one(case: Case) {
    let lock = plain(&case).await;
    lock.lock().await.unwrap();
    assert_eq!(case.ask(&["TYPE", &case.name]).await, "string");
    let token = value(&case).await;
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let ttl = case.pttl().await;
    assert!((29_000..=30_000).contains(&ttl), "{ttl}");
    // Nobody else's SET NX gets in, and it asks for no other key.
    assert_eq!(case.ask(&["SET", &case.name, "theirs", "NX", "PX", "1000"]).await, "nil");
    assert_eq!(case.ask(&["KEYS", &format!("*{}*", case.name)]).await, case.name);
    lock.unlock().await.unwrap();
    assert!(case.is_free().await);
}

pub async fn every_hold_has_a_token_of_its_own(case: Case) {
    let lock = plain(&case).await.owned_by(&Owner::named("one").unwrap());
    let mut tokens = std::collections::HashSet::new();
    for round in 0..10 {
        let guard = lock.guard().await.unwrap();
        assert!(tokens.insert(value(&case).await), "hold {round} has an earlier one's");
        // Dropped or given back: the next acquisition is behind the release, and another hold.
        match round % 2 {
            0 => drop(guard),
            _ => guard.unlock().await.unwrap(),
        }
    }
    lock.lock().await.unwrap();
    assert!(tokens.insert(value(&case).await));
}

/// From one hold to the next in this process in one script, with nothing said.
pub async fn a_hand_over_is_one_write(case: Case) {
    let locks = case.client().await;
    let lock = locks.plain_lock(&case.name);
    let heard: Option<Listener> = match &case.world {
        World::Real(server) => Some(server.raw().await.subscribe(&format!("lockson:plain:{{{}}}", case.name)).await),
        World::Embedded(_) => None,
    };
    let first = lock.guard().await.unwrap();
    let before = value(&case).await;
    let other = lock.owned_by(&Owner::unique());
    let mut waiter = std::pin::pin!(other.acquire().lease(secs(5)).guard());
    assert!(futures::poll!(waiter.as_mut()).is_pending());
    first.unlock().await.unwrap();
    let second = patient("the hand-over", waiter).await.unwrap().unwrap();
    assert_eq!(heard.as_ref().map_or(0, Listener::count), 0, "it was a release");
    let after = value(&case).await;
    assert!(after.len() == 32 && after != before, "{before} {after}");
    assert!((1..=5_000).contains(&case.pttl().await));
    second.verify().await.unwrap();
    second.unlock().await.unwrap();
    assert!(case.is_free().await);
    if let Some(heard) = heard {
        assert_eq!(heard.wait_for(1).await.len(), 1);
    }
}

pub async fn what_another_library_took_is_left_alone(case: Case) {
    let locks = case.client_with(Locks::builder().wait_cap(ms(100))).await;
    let lock = locks.plain_lock(&case.name);
    take_as_another_library(&case, "60000").await;
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    assert!(!lock.acquire().wait(ms(300)).lease(secs(600)).await.unwrap().is_acquired());
    assert!(matches!(lock.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert!(!lock.is_held().await.unwrap() && lock.is_locked().await.unwrap());
    assert_eq!(value(&case).await, "theirs");
    assert!(case.pttl().await <= 60_000, "its lease was touched");
    // It is deleted without a word, as they do.
    let waiter = tokio::spawn(async move { lock.guard().await });
    case.until_waiting(&locks).await;
    case.ask(&["DEL", &case.name]).await;
    patient("within the cap", waiter).await.unwrap().unwrap().unlock().await.unwrap();
}

pub async fn a_hold_that_expired_and_went_to_another_is_not_held(case: Case) {
    let lock = plain(&case).await;
    for round in 0..3 {
        let guard = lock.guard().await.unwrap();
        case.ask(&["DEL", &case.name]).await;
        take_as_another_library(&case, "5000").await;
        match round {
            0 => assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. }))),
            1 => assert!(guard.verify().await.is_err() && guard.set_lease(secs(600)).await.is_err()),
            _ => drop(guard),
        }
        // What a dropped guard sends has come by when the same owner's next call has.
        assert!(!matches!(lock.try_lock().await, Ok(Acquired)));
        assert_eq!(value(&case).await, "theirs", "round {round}");
        assert!(case.pttl().await <= 5_000);
        case.ask(&["DEL", &case.name]).await;
    }
}

/// Who waits here gets nothing of a hold that is somebody else's by now.
pub async fn an_expired_hold_is_not_handed_over(case: Case) {
    let locks = case.client_with(Locks::builder().wait_cap(ms(100))).await;
    let lock = locks.plain_lock(&case.name);
    let guard = lock.guard().await.unwrap();
    let heir = lock.owned_by(&Owner::unique());
    let mut waiting = std::pin::pin!(heir.guard());
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    case.ask(&["DEL", &case.name]).await;
    take_as_another_library(&case, "60000").await;
    assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. })));
    assert_eq!(value(&case).await, "theirs");
    case.ask(&["DEL", &case.name]).await;
    patient("within the cap", waiting).await.unwrap().unlock().await.unwrap();
}

/// Beyond its first lease, by the watchdog.
pub async fn it_is_renewed_and_keeps_others_out(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let guard = locks.plain_lock(&case.name).guard().await.unwrap();
    let token = value(&case).await;
    sleep(ms(2500)).await;
    assert!(guard.is_valid());
    assert_eq!(case.ask(&["SET", &case.name, "theirs", "NX", "PX", "1000"]).await, "nil");
    assert_eq!(value(&case).await, token);
    // Taken by another: the renewal says so, and touches nothing.
    case.ask(&["SET", &case.name, "theirs", "PX", "60000"]).await;
    patient("the renewal is refused", guard.lost()).await;
    assert!(value(&case).await == "theirs" && (50_000..=60_000).contains(&case.pttl().await));
}

pub async fn questions_and_force(case: Case) {
    let (a, b) = (plain(&case).await, plain(&case).await);
    assert!(!b.is_locked().await.unwrap() && !b.force_unlock().await.unwrap());
    assert_eq!(b.remaining_ttl().await.unwrap(), None);
    let guard = a.guard().await.unwrap();
    assert!(a.is_held().await.unwrap() && !b.is_held().await.unwrap());
    assert!(!a.owned_by(&Owner::unique()).is_held().await.unwrap());
    assert!(b.is_locked().await.unwrap() && b.remaining_ttl().await.unwrap().unwrap() > secs(25));
    assert!(b.force_unlock().await.unwrap() && case.is_free().await);
    assert!(guard.verify().await.is_err());
    case.ask(&["SET", &case.name, "theirs"]).await;
    assert!(b.is_locked().await.unwrap());
    assert_eq!(b.remaining_ttl().await.unwrap(), None);
    assert!(b.force_unlock().await.unwrap() && case.is_free().await);
}

/// rslock's tokens are 20 random bytes.
pub async fn a_value_that_is_no_text(case: Case) {
    let lock = plain(&case).await;
    let set = "return redis.call('SET', KEYS[1], '\\255\\0\\254', 'PX', 600)";
    case.eval(set, &[&case.name], &[]).await;
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    assert!(lock.is_locked().await.unwrap() && !lock.is_held().await.unwrap());
    assert!(patient("its lease ends", lock.guard()).await.is_ok());
    case.eval(set, &[&case.name], &[]).await;
    assert!(lock.force_unlock().await.unwrap());
}

pub async fn a_lock_of_another_kind_is_another_type(case: Case) {
    let locks = case.client().await;
    let (plain, hash, read) =
        (locks.plain_lock(&case.name), locks.lock(&case.name), locks.read_write_lock(&case.name).read());
    let guard = hash.guard().await.unwrap();
    let before = case.ask(&["HGETALL", &case.name]).await;
    assert!(matches!(plain.try_lock().await, Err(LockError::WrongType { .. })));
    assert!(matches!(plain.lock().await, Err(LockError::WrongType { .. })));
    assert!(plain.is_locked().await.is_err() && plain.force_unlock().await.is_err());
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, before);
    guard.unlock().await.unwrap();
    let guard = plain.guard().await.unwrap();
    let before = value(&case).await;
    assert!(matches!(hash.try_lock().await, Err(LockError::WrongType { .. })));
    assert!(matches!(read.try_lock().await, Err(LockError::WrongType { .. })));
    assert!(hash.is_locked().await.is_err() && hash.force_unlock().await.is_err());
    assert_eq!(value(&case).await, before);
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// Rule 6, script by script: past its `not_after` a copy answers late and writes nothing.
pub async fn late_copies_write_nothing(case: Case) {
    let past = (case.time().await - 1).to_string();
    let keys = [case.name.as_str()];
    let answer = case.eval(support::lua!("plain/acquire"), &keys, &["n", &past, "late", "1000"]).await;
    assert!(answer.starts_with("2 n ") && case.is_free().await, "{answer}");
    case.ask(&["SET", &case.name, "t", "PX", "9000"]).await;
    let calls: [(&str, &[&str]); 6] = [
        (support::lua!("announce", "plain/release"), &["t", "PUBLISH", "c"]),
        (support::lua!("announce", "plain/settle"), &["t", "0", "PUBLISH", "c"]),
        (support::lua!("plain/hand_over"), &["t", "u", "60000"]),
        (support::lua!("plain/extend"), &["t", "60000"]),
        (support::lua!("plain/renew"), &["t", "60000"]),
        (support::lua!("announce", "plain/force"), &["PUBLISH", "c"]),
    ];
    for (text, args) in calls {
        let args: Vec<&str> = ["n", &past].into_iter().chain(args.iter().copied()).collect();
        let answer = case.eval(text, &keys, &args).await;
        assert!(answer.starts_with("2 n "), "{answer}: {text}");
        assert_eq!((value(&case).await.as_str(), case.pttl().await <= 9_000), ("t", true), "{text}");
    }
}

async fn run(case: &Case, text: &str, args: &[&str]) -> String {
    let soon = (case.time().await + 60_000).to_string();
    let args: Vec<&str> = ["n", &soon].into_iter().chain(args.iter().copied()).collect();
    case.eval(text, &[&case.name], &args).await
}

async fn assert_stored(case: &Case, token: &str, ttl: std::ops::RangeInclusive<i64>) {
    assert_eq!(value(case).await, token);
    let found = case.pttl().await;
    assert!(ttl.contains(&found), "{found}");
}

pub async fn copies_of_an_acquire(case: Case) {
    for lease in ["5000", "5000", "9000", "1000"] {
        let answer = run(&case, support::lua!("plain/acquire"), &["t", lease]).await;
        assert!(answer.starts_with("1 n "), "{answer}");
    }
    assert_stored(&case, "t", 7_000..=9_000).await;
    let answer = run(&case, support::lua!("plain/acquire"), &["u", "60000"]).await;
    assert!(answer.starts_with("0 n "), "{answer}");
    let ttl: i64 = answer.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1..=9_000).contains(&ttl), "{answer}");
    assert_stored(&case, "t", 1..=9_000).await;
}

pub async fn copies_of_a_release_and_a_settle(case: Case) {
    for text in [support::lua!("announce", "plain/release"), support::lua!("announce", "plain/settle")] {
        case.ask(&["SET", &case.name, "t", "PX", "9000"]).await;
        assert!(run(&case, text, &["t", "0", "PUBLISH", "c"]).await.starts_with("1 n "));
        assert!(run(&case, text, &["t", "0", "PUBLISH", "c"]).await.starts_with("3 n "));
        // The next hold is not theirs, whoever's it is.
        case.ask(&["SET", &case.name, "u", "PX", "9000"]).await;
        assert!(run(&case, text, &["t", "0", "PUBLISH", "c"]).await.starts_with("3 n "));
        assert_stored(&case, "u", 1..=9_000).await;
    }
    // What the registry has is not settled away.
    assert!(run(&case, support::lua!("announce", "plain/settle"), &["u", "1", "PUBLISH", "c"])
        .await
        .starts_with("0 n "));
    assert_stored(&case, "u", 1..=9_000).await;
}

pub async fn copies_of_a_hand_over(case: Case) {
    case.ask(&["SET", &case.name, "t", "PX", "60000"]).await;
    for lease in ["5000", "5000", "9000", "1000"] {
        let answer = run(&case, support::lua!("plain/hand_over"), &["t", "u", lease]).await;
        assert!(answer.starts_with("1 n "), "{answer}");
    }
    assert_stored(&case, "u", 7_000..=9_000).await;
    let answer = run(&case, support::lua!("plain/hand_over"), &["t", "v", "5000"]).await;
    assert!(answer.starts_with("3 n "), "{answer}");
    assert_stored(&case, "u", 1..=9_000).await;
    case.ask(&["DEL", &case.name]).await;
    assert!(run(&case, support::lua!("plain/hand_over"), &["t", "u", "5000"]).await.starts_with("3 n "));
    assert!(case.is_free().await);
}

pub async fn a_renewal_renews_only_its_own(case: Case) {
    let name = |at: usize| format!("{}:{at}", case.name);
    let names: Vec<String> = (0..5).map(name).collect();
    case.ask(&["SET", &names[0], "t", "PX", "1000"]).await;
    case.ask(&["SET", &names[1], "u", "PX", "1000"]).await;
    case.ask(&["RPUSH", &names[2], "t"]).await;
    case.ask(&["SET", &names[4], "t", "PX", "90000"]).await;
    let soon = (case.time().await + 60_000).to_string();
    let mut args = vec!["n", &soon];
    args.extend(["t", "30000"].repeat(5));
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let answer = case.eval(support::lua!("plain/renew"), &keys, &args).await;
    assert!(answer.starts_with("1 n ") && answer.ends_with(" 1 0 0 0 1"), "{answer}");
    let mut ttls = Vec::new();
    for name in &names {
        ttls.push(case.pttl_of(name).await);
    }
    assert!((29_000..=30_000).contains(&ttls[0]) && ttls[1] <= 1_000, "{ttls:?}");
    assert!(ttls[2..4] == [-1, -2] && ttls[4] > 30_000, "{ttls:?}");
}
