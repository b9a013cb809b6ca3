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

/// From one hold to the next in this process in one script, with nothing said. Behind 20 ms it is a release, by rule: a
/// machine that stood still is asked again.
pub async fn a_hand_over_is_one_write(case: Case) {
    let locks = case.client().await;
    let lock = locks.plain_lock(&case.name);
    let heard = case.listen(&[&format!("lockson:plain:{{{}}}", case.name)]).await;
    let count = || heard.as_ref().map_or(0, Listener::count);
    let (second, before, said) = loop {
        let (said, began) = (count(), Instant::now());
        let first = lock.guard().await.unwrap();
        let before = value(&case).await;
        let other = lock.owned_by(&Owner::unique());
        let mut waiter = std::pin::pin!(other.acquire().lease(secs(5)).guard());
        assert!(futures::poll!(waiter.as_mut()).is_pending());
        first.unlock().await.unwrap();
        let is_late = began.elapsed() >= ms(20);
        let second = patient("the hand-over", waiter).await.unwrap().unwrap();
        if count() == said {
            break (second, before, said);
        }
        assert!(is_late, "it was a release");
        second.unlock().await.unwrap();
        if let Some(heard) = &heard {
            heard.wait_for(said + 2).await;
        }
    };
    let after = value(&case).await;
    assert!(after.len() == 32 && after != before, "{before} {after}");
    assert!((1..=5_000).contains(&case.pttl().await));
    second.verify().await.unwrap();
    second.unlock().await.unwrap();
    assert!(case.is_free().await);
    if let Some(heard) = heard {
        assert_eq!(heard.wait_for(said + 1).await.len(), said + 1);
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

/// Nor does who waits here get anything of it.
pub async fn a_hold_that_expired_and_went_to_another_is_not_held(case: Case) {
    // By scripts: in a run the next one finds out some milliseconds later.
    let locks = case.client_with(Locks::builder().wait_cap(ms(100)).local_turns(false)).await;
    let lock = locks.plain_lock(&case.name);
    for round in 0..4 {
        let guard = lock.guard().await.unwrap();
        let heir = lock.owned_by(&Owner::unique());
        let mut waiting = std::pin::pin!(heir.guard());
        assert!(round < 3 || futures::poll!(waiting.as_mut()).is_pending());
        case.ask(&["DEL", &case.name]).await;
        take_as_another_library(&case, "5000").await;
        match round {
            0 | 3 => assert!(matches!(guard.unlock().await, Err(UnlockError::NotHeld { .. }))),
            1 => assert!(guard.verify().await.is_err() && guard.set_lease(secs(600)).await.is_err()),
            _ => drop(guard),
        }
        // What a dropped guard sends has come by when the same owner's next call has.
        assert!(!matches!(lock.try_lock().await, Ok(Acquired)));
        assert_eq!(value(&case).await, "theirs", "round {round}");
        assert!(case.pttl().await <= 5_000);
        case.ask(&["DEL", &case.name]).await;
        if round == 3 {
            patient("within the cap", waiting).await.unwrap().unlock().await.unwrap();
        }
    }
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
    assert!(matches!(plain.try_lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
    assert!(matches!(plain.lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
    assert!(plain.is_locked().await.is_err() && plain.force_unlock().await.is_err());
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, before);
    guard.unlock().await.unwrap();
    let guard = plain.guard().await.unwrap();
    let before = value(&case).await;
    assert!(matches!(hash.try_lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
    assert!(matches!(read.try_lock().await, Err(LockError::Query(QueryError::WrongType { .. }))));
    assert!(hash.is_locked().await.is_err() && hash.force_unlock().await.is_err());
    assert_eq!(value(&case).await, before);
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
}

const ACQUIRE: &str = support::lua!("plain/acquire");
const RELEASE: &str = support::lua!("announce", "plain/release");
const SETTLE: &str = support::lua!("announce", "plain/settle");
const HAND_OVER: &str = support::lua!("plain/hand_over");
const RENEW: &str = support::lua!("plain/renew");

/// Rule 6, script by script: past its `not_after` a copy answers late and writes nothing.
pub async fn late_copies_write_nothing(case: Case) {
    assert_eq!(case.copy(ACQUIRE, LATE, &[&case.name], &["late", "1000"]).await, "2");
    assert!(case.is_free().await);
    case.ask(&["SET", &case.name, "t", "PX", "9000"]).await;
    let calls: [(&str, &[&str]); 6] = [
        (RELEASE, &["t", "PUBLISH", "c"]),
        (SETTLE, &["t", "0", "PUBLISH", "c"]),
        (HAND_OVER, &["t", "u", "60000"]),
        (support::lua!("plain/extend"), &["t", "60000"]),
        (RENEW, &["t", "60000"]),
        (support::lua!("announce", "plain/force"), &["PUBLISH", "c"]),
    ];
    for (text, args) in calls {
        assert_eq!(case.copy(text, LATE, &[&case.name], args).await, "2", "{text}");
        assert_eq!((value(&case).await.as_str(), case.pttl().await <= 9_000), ("t", true), "{text}");
    }
}

/// Rule 5: what is there before, a call, its status, and what is there then, with a lease of so many seconds at most.
pub async fn copies_apply_once(case: Case) {
    let [busy, fresh] = ["u 9000", "t 9000"];
    let calls: [([&str; 5], i64); 21] = [
        (["", ACQUIRE, "t 5000", "1", "t"], 5),
        (["", ACQUIRE, "t 5000", "1", "t"], 5),
        (["", ACQUIRE, "t 9000", "1", "t"], 9),
        (["", ACQUIRE, "t 1000", "1", "t"], 9),
        (["", ACQUIRE, "u 60000", "0", "t"], 9),
        ([fresh, RELEASE, "t 0 PUBLISH c", "1", "nil"], 0),
        (["", RELEASE, "t 0 PUBLISH c", "3", "nil"], 0),
        // The next hold is not theirs, whoever's it is.
        ([busy, RELEASE, "t 0 PUBLISH c", "3", "u"], 9),
        ([fresh, SETTLE, "t 0 PUBLISH c", "1", "nil"], 0),
        (["", SETTLE, "t 0 PUBLISH c", "3", "nil"], 0),
        ([busy, SETTLE, "t 0 PUBLISH c", "3", "u"], 9),
        // What the registry has is not settled away.
        (["", SETTLE, "u 1 PUBLISH c", "0", "u"], 9),
        (["t 60000", HAND_OVER, "t u 5000", "1", "u"], 5),
        (["", HAND_OVER, "t u 5000", "1", "u"], 5),
        (["", HAND_OVER, "t u 9000", "1", "u"], 9),
        (["", HAND_OVER, "t u 1000", "1", "u"], 9),
        (["", HAND_OVER, "t v 5000", "3", "u"], 9),
        ([fresh, RELEASE, "t 0 PUBLISH c", "1", "nil"], 0),
        (["", HAND_OVER, "t u 5000", "3", "nil"], 0),
        ([busy, HAND_OVER, "t u 5000", "1", "u"], 9),
        ([busy, ACQUIRE, "t 5000", "0", "u"], 9),
    ];
    for (at, ([before, text, args, status, token], secs)) in calls.into_iter().enumerate() {
        if let Some((token, lease)) = before.split_once(' ') {
            case.ask(&["SET", &case.name, token, "PX", lease]).await;
        }
        let answer = case.copy(text, SOON, &[&case.name], &args.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(answer.split(' ').next(), Some(status), "{at}: {answer}");
        let least = (secs - 2) * 1000;
        if status == "0" && text == ACQUIRE {
            let left: i64 = answer.rsplit(' ').next().unwrap().parse().unwrap();
            assert!((least..=secs * 1000).contains(&left), "{at}: {answer}");
        }
        let left = case.pttl().await;
        assert_eq!(value(&case).await, token, "{at}");
        assert!(token == "nil" || (least..=secs * 1000).contains(&left), "{at}: {left}");
    }
}

pub async fn a_renewal_renews_only_its_own(case: Case) {
    let names: Vec<String> = (0..5).map(|at| case.beside(&at.to_string())).collect();
    case.ask(&["SET", &names[0], "t", "PX", "1000"]).await;
    case.ask(&["SET", &names[1], "u", "PX", "1000"]).await;
    case.ask(&["RPUSH", &names[2], "t"]).await;
    case.ask(&["SET", &names[4], "t", "PX", "90000"]).await;
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(case.copy(RENEW, SOON, &keys, &["t", "30000"].repeat(5)).await, "1 1 0 0 0 1");
    let ttls = join_all(names.iter().map(|name| case.pttl_of(name))).await;
    assert!((29_000..=30_000).contains(&ttls[0]) && ttls[1] <= 1_000, "{ttls:?}");
    assert!(ttls[2..4] == [-1, -2] && ttls[4] > 30_000, "{ttls:?}");
}
