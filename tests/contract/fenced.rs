//! What the fenced lock adds: tokens. Rule 19.

use std::time::Duration;

use lockson::{LockError, Owner};

use crate::support::patient;
use crate::world::{ms, Case};

fn token_key(case: &Case) -> String {
    format!("redisson_lock_token:{{{}}}", case.name)
}

pub async fn tokens_rise(case: Case) {
    let (a, b) = (case.client().await.fenced_lock(&case.name), case.client().await.fenced_lock(&case.name));
    let mut last = 0;
    for round in 0..10 {
        let lock = if round % 2 == 0 { &a } else { &b };
        let guard = lock.fenced_guard().await.unwrap();
        assert!(guard.token() > last);
        last = guard.token();
        assert_eq!(case.ask(&["GET", &token_key(&case)]).await, last.to_string());
        guard.unlock().await.unwrap();
    }
    assert!(a.lock_and_get_token().await.unwrap() > last);
    assert!(b.try_fenced_guard().await.unwrap().is_none());
    assert!(b.acquire().wait(ms(50)).fenced_guard().await.unwrap().is_none());
    a.unlock().await.unwrap();
    assert_eq!(case.ask(&["PTTL", &token_key(&case)]).await, "-1");
}

pub async fn a_re_entry_keeps_the_token(case: Case) {
    let locks = case.client().await;
    let lock = locks.fenced_lock(&case.name);
    let outer = lock.fenced_guard().await.unwrap();
    let inner = lock.fenced_guard().await.unwrap();
    assert_eq!(outer.token(), inner.token());
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
    // A hold that another kind began has none yet.
    let plain = locks.lock(&case.name).guard().await.unwrap();
    let first = lock.fenced_guard().await.unwrap();
    let stored = case.ask(&["GET", &token_key(&case)]).await;
    assert_eq!(first.token().to_string(), stored);
    first.unlock().await.unwrap();
    plain.unlock().await.unwrap();
}

pub async fn a_hand_over_raises_the_token(case: Case) {
    let locks = case.client().await;
    let lock = locks.fenced_lock(&case.name);
    let first = lock.fenced_guard().await.unwrap();
    let other = lock.owned_by(&Owner::unique());
    let mut waiter = std::pin::pin!(other.fenced_guard());
    assert!(futures::poll!(waiter.as_mut()).is_pending());
    let before = first.token();
    first.unlock().await.unwrap();
    let second = patient("the hand-over", waiter).await.unwrap();
    assert!(second.token() > before);
    second.unlock().await.unwrap();
}

pub async fn a_token_rises_over_data_loss(case: Case) {
    let (a, b) = (case.client().await.fenced_lock(&case.name), case.client().await.fenced_lock(&case.name));
    let before = a.lock_and_get_token().await.unwrap();
    case.ask(&["DEL", &case.name, &token_key(&case)]).await;
    tokio::time::sleep(ms(2)).await;
    assert!(b.lock_and_get_token().await.unwrap() > before);
}

/// Lua's numbers repeat from there on: 992, 992, 994, 996, 996.
pub async fn a_token_is_exact_beyond_2_53(case: Case) {
    let lock = case.client().await.fenced_lock(&case.name);
    let start = (1_u64 << 53) - 2;
    case.ask(&["SET", &token_key(&case), &start.to_string()]).await;
    for expected in start + 1..start + 8 {
        assert_eq!(lock.lock_and_get_token().await.unwrap(), expected);
        lock.unlock().await.unwrap();
    }
    let top = i64::MAX.to_string();
    case.ask(&["SET", &token_key(&case), &top]).await;
    assert!(matches!(lock.lock().await, Err(LockError::Refused { .. })));
    assert!(case.is_free().await && case.ask(&["GET", &token_key(&case)]).await == top);
}

pub async fn javas_counter_is_continued(case: Case) {
    let lock = case.client().await.fenced_lock(&case.name);
    case.ask(&["SET", &token_key(&case), "9000000000000000000"]).await;
    assert_eq!(lock.lock_and_get_token().await.unwrap(), 9_000_000_000_000_000_001);
    assert_eq!(case.ask(&["INCR", &token_key(&case)]).await, "9000000000000000002");
}

const ACQUIRE: &str = concat!(include_str!("../../lua/begin.lua"), include_str!("../../lua/fenced/acquire.lua"));

pub async fn a_retry_keeps_the_token(case: Case) {
    let soon = (case.time().await + 60_000).to_string();
    let key = token_key(&case);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let args = ["n", &soon, "o", "5000", "0", "0", "1"];
        let answer = case.eval(ACQUIRE, &[&case.name, &key], &args).await;
        answers.push(answer.split(' ').next_back().unwrap().to_owned());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(answers.iter().all(|token| *token == answers[0]), "{answers:?}");
    assert_eq!(case.ask(&["HGET", &case.name, "o"]).await, "1");
}

pub async fn a_token_key_of_another_type_is_refused(case: Case) {
    let lock = case.client().await.fenced_lock(&case.name);
    case.ask(&["LPUSH", &token_key(&case), "x"]).await;
    assert!(matches!(lock.lock().await, Err(LockError::WrongType { .. })));
    assert!(case.is_free().await);
}
