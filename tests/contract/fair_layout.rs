//! What the fair lock has on the server, and what its scripts do to it.

use crate::contract::fair::*;
use crate::contract::world::*;

const DAY: i64 = 24 * 60 * 60 * 1000;
pub const ACQUIRE: &str = support::lua!("announce", "fair/begin", "fair/wait", "fair/acquire");
const SETTLE: &str = support::lua!("announce", "fair/begin", "fair/settle");

/// Redisson subtracts at every acquisition; whoever does not is 69 days ahead after 20,000.
pub async fn scores_do_not_drift(case: Case) {
    let clients = [case.client().await, case.client().await];
    let case = Arc::new(case);
    let tasks = spawn_each(0..4, |task| {
        let (lock, case) = (fair(&case, &clients[task % 2], &format!("t{task}")), case.clone());
        async move {
            let mut most = 0;
            for round in 0..500 {
                let guard = lock.guard().await.unwrap();
                let tail = if round % 10 == 0 { waiting(&case).await.pop() } else { None };
                if let Some(tail) = tail {
                    most = most.max(score(&case, &tail).await - case.time().await);
                }
                guard.unlock().await.unwrap();
            }
            most
        }
    });
    let most = join_all(tasks).await.into_iter().map(Result::unwrap).max().unwrap();
    // Four waiters, a debt of at most four more, and what is under way.
    assert!(most > 0 && most <= 10 * 300_000, "{most} ms ahead");
}

pub async fn the_layout_key_by_key(case: Case) {
    let (a, b, guard) = held(&case).await;
    let holder = format!("{}:named-holder", a.client_id());
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("{holder} 1"));
    assert_eq!(case.ask(&["EXISTS", &queue(&case), &timeouts(&case), &seen(&case), &state(&case)]).await, "0");
    let before = case.time().await;
    let tasks = queue_up(&case, &[(&b, "first"), (&a, "second")], &Arc::default()).await;
    let (one, two) = (format!("{}:named-first", b.client_id()), format!("{}:named-second", a.client_id()));
    assert_eq!(waiting(&case).await, [one.clone(), two.clone()]);
    assert_eq!(case.ask(&["ZRANGE", &timeouts(&case), "0", "-1"]).await, format!("{one} {two}"));
    let (low, high) = (score(&case, &one).await, score(&case, &two).await);
    let now = case.time().await;
    // The second's coming raises the head's, and the head's next look adds the time since its last.
    let most = now + 300_000 + (now - before);
    assert!((before + 300_000..=most).contains(&low), "{low}");
    assert!((high - low - 300_000).abs() <= 2 * (now - before), "{}", high - low);
    for owner in [&one, &two] {
        let at: i64 = case.ask(&["ZSCORE", &seen(&case), owner]).await.parse().unwrap();
        // The head has looked once more since, where this takes long.
        assert!((before..=case.time().await).contains(&at));
    }
    let own = |owner: &str| format!("{}:{owner}", channel(&case));
    if let World::Real(deployment) = &case.world {
        eventually(secs(20), "it listens", async || deployment.subscribers(&own(&one)).await == 1).await;
        assert_eq!(deployment.subscribers(&channel(&case)).await, 0);
    }
    let heard = case.listen(&[&own(&one), &own(&two), &own(&holder), &channel(&case), &own("end")]).await;
    guard.unlock().await.unwrap();
    patient_all("both", tasks).await;
    if let Some(heard) = heard {
        // One message each, to the head only; nobody was left to tell after the second.
        case.ask(&[case.publish(), &own("end"), "end"]).await;
        let messages: Vec<(String, String)> =
            heard.wait_for(3).await.into_iter().map(|message| (message.channel, message.text)).collect();
        let told = |owner: &str, payload: &str| (own(owner), payload.to_owned());
        assert_eq!(messages, [told(&one, "0"), told(&two, "0"), told("end", "end")]);
    }
}

pub async fn queue_keys_have_a_ttl(case: Case) {
    let (locks, _, guard) = held(&case).await;
    let waiter = spawn_with(fair(&case, &locks, "w"), |lock| async move { lock.guard().await });
    until_queued(&case, 1).await;
    sleep(ms(50)).await;
    for (key, least, most) in [
        (queue(&case), DAY, DAY + 310_000),
        (timeouts(&case), DAY, DAY + 310_000),
        (seen(&case), 1, 60_000),
        (state(&case), 1, 60_000),
    ] {
        let ttl = case.pttl_of(&key).await;
        let there = case.ask(&["EXISTS", &key]).await == "1";
        assert!(!there || (least..=most).contains(&ttl), "{key}: {ttl}");
    }
    guard.unlock().await.unwrap();
    let last = patient("the waiter", waiter).await.unwrap().unwrap();
    // What a release notes beside a queue that only Java has written.
    enqueue_by_hand(&case, "java:1", case.time().await + 300_000).await;
    last.unlock().await.unwrap();
    let ttl = case.pttl_of(&state(&case)).await;
    assert!((1..=60_000).contains(&ttl), "{ttl}");
}

/// A copy of one of its scripts.
pub async fn run(case: &Case, text: &str, when: i64, args: &[&str]) -> String {
    let keys = [case.name.clone(), queue(case), timeouts(case), seen(case), state(case)];
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let channel = channel(case);
    case.copy(text, when, &keys, &[args, &["PUBLISH", &channel]].concat()).await
}

pub async fn copies_of_an_enqueue_make_one_entry(case: Case) {
    let (_, _, guard) = held(&case).await;
    assert_eq!(run(&case, ACQUIRE, LATE, &["c:late", "1000", "0", "1"]).await, "2");
    assert_eq!(waiting(&case).await.len(), 0);
    for _ in 0..3 {
        let answer = run(&case, ACQUIRE, SOON, &["c:o", "1000", "0", "1"]).await;
        assert!(answer.starts_with('0'), "{answer}");
        assert_eq!(waiting(&case).await, ["c:o"]);
    }
    guard.unlock().await.unwrap();
    for _ in 0..3 {
        assert!(run(&case, ACQUIRE, SOON, &["c:o", "1000", "0", "1"]).await.starts_with('1'));
        assert_eq!((waiting(&case).await.len(), case.ask(&["HGET", &case.name, "c:o"]).await), (0, "1".to_owned()));
    }
}

/// What the janitor sends for an owner that went away while a copy of its attempt was under way.
pub async fn a_settled_owner_is_not_in_the_queue(case: Case) {
    let (_, _, guard) = held(&case).await;
    for owner in ["c:gone", "c:head", "c:there"] {
        run(&case, ACQUIRE, SOON, &[owner, "1000", "0", "1"]).await;
    }
    assert!(run(&case, SETTLE, SOON, &["c:there", "0", "1"]).await.starts_with('3'));
    assert!(run(&case, SETTLE, SOON, &["c:gone", "0", "0"]).await.starts_with('3'));
    assert_eq!(waiting(&case).await, ["c:head", "c:there"]);
    guard.unlock().await.unwrap();
    // The head of the free lock goes: the next one is told, and watched.
    assert!(run(&case, SETTLE, SOON, &["c:head", "0", "0"]).await.starts_with('3'));
    assert_eq!(case.ask(&["HGET", &state(&case), "head"]).await, "c:there");
    // A late copy that takes it is undone by the same script.
    run(&case, ACQUIRE, SOON, &["c:there", "1000", "0", "1"]).await;
    assert!(!case.is_free().await);
    assert!(run(&case, SETTLE, SOON, &["c:there", "0", "0"]).await.starts_with('1'));
    assert!(case.is_free().await && waiting(&case).await.is_empty());
}
