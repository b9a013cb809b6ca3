//! What the fenced lock adds: tokens. Rule 19.

use std::time::Duration;

use lockson::{LockError, Lost, LostBy, Owner, QueryError, Reply, RunError, State};

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

/// A key in the slot of the lock under test.
fn beside(case: &Case, name: &str) -> String {
    format!("{{{}}}:{name}", case.name)
}

pub async fn a_script_runs_while_the_lock_is_held(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).fenced_guard().await.unwrap();
    let (state, count) = (beside(&case, "state"), beside(&case, "count"));
    let script = "redis.call('SET', KEYS[1], ARGV[2] .. token)
        return {redis.call('INCR', KEYS[2]), ARGV[1], #KEYS, #ARGV, false, {'a', {}}, redis.call('SET', KEYS[2], 7)}";
    let reply = guard.run_if_held(script, &[&state, &count], &["é", "by "]).await.unwrap();
    let nested = Reply::List(vec![Reply::Text("a".to_owned()), Reply::List(vec![])]);
    let [e, ok] = ["é", "OK"].map(|text| Reply::Text(text.to_owned()));
    assert_eq!(reply, Reply::List(vec![Reply::Int(1), e, Reply::Int(2), Reply::Int(2), Reply::Nil, nested, ok]));
    assert_eq!(case.ask(&["GET", &state]).await, format!("by {}", guard.token()));
    // All that stands alone, with its last line a comment; nothing of the script around it is seen.
    let values = [
        ("", Reply::Nil),
        ("return -- nothing", Reply::Nil),
        ("return 3.9", Reply::Int(3)),
        ("return true", Reply::Int(1)),
        ("return redis.status_reply('FINE')", Reply::Text("FINE".to_owned())),
        ("return {'list', 'error', nil, 'x'}", Reply::List(["list", "error"].map(|t| Reply::Text(t.into())).into())),
        ("return tostring(pcall(function() return nonce, owner end))", Reply::Text("false".to_owned())),
    ];
    for (script, value) in values {
        assert_eq!(guard.run_if_held(script, &[], &[]).await, Ok(value), "{script}");
    }
    assert_eq!(guard.run_if_held("return ARGV[1] .. '\\255'", &[], &["x"]).await, Ok(Reply::Text("x\u{fffd}".into())));
    guard.unlock().await.unwrap();
}

pub async fn a_script_of_a_lost_hold_does_not_run(case: Case) {
    let lock = case.client().await.fenced_lock(&case.name);
    let (guard, state) = (lock.fenced_guard().await.unwrap(), beside(&case, "state"));
    case.ask(&["DEL", &case.name]).await;
    let rival = case.client().await.fenced_lock(&case.name).fenced_guard().await.unwrap();
    let set = "return redis.call('SET', KEYS[1], token)";
    let lost = Err(RunError::Lost(Lost { why: LostBy::Server }));
    assert!(guard.is_valid(), "it knows nothing of it");
    assert_eq!(guard.run_if_held(set, &[&state], &[]).await, lost);
    assert_eq!(guard.state(), State::Lost);
    patient("the guard is told", guard.lost()).await;
    rival.run_if_held(set, &[&state], &[]).await.unwrap();
    // It is known now: whatever the server has, nothing is asked any more.
    rival.unlock().await.unwrap();
    case.ask(&["DEL", &case.name]).await;
    case.ask(&["SET", &case.name, "no lock"]).await;
    assert_eq!(guard.run_if_held(set, &[&state], &[]).await, lost);
    case.ask(&["DEL", &case.name]).await;
    assert!(matches!(lock.fenced_guard().await, Err(LockError::Lost { .. })), "said once");
    let again = lock.fenced_guard().await.unwrap();
    assert_eq!(guard.run_if_held(set, &[&state], &[]).await, lost, "its owner's next hold is another one");
    assert_ne!(case.ask(&["GET", &state]).await, guard.token().to_string());
    again.unlock().await.unwrap();
}

pub async fn a_script_gets_no_key_of_another_slot(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).fenced_guard().await.unwrap();
    let near = beside(&case, "near");
    let refused = guard.run_if_held("redis.call('SET', KEYS[1], 1)", &[&near, "far"], &[]).await;
    assert_eq!(refused, Err(RunError::Slot { key: "far".to_owned(), tag: case.name.clone() }));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains(&format!("{{{}}}:far", case.name)), "{text}");
    assert_eq!(case.ask(&["EXISTS", &near]).await, "0");
    // The lock's own key is in it, and a name with a tag has that one's slot.
    guard.run_if_held("return KEYS[1]", &[&case.name], &[]).await.unwrap();
    guard.unlock().await.unwrap();
    let tagged = format!("{{{}}}x", case.name);
    let guard = case.client().await.fenced_lock(&tagged).fenced_guard().await.unwrap();
    guard.run_if_held("return KEYS[1]", &[&near, &tagged], &[]).await.unwrap();
    assert!(matches!(guard.run_if_held("", &["far"], &[]).await, Err(RunError::Slot { tag, .. }) if tag == case.name));
    guard.unlock().await.unwrap();
}

pub async fn a_scripts_own_error_is_said(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).fenced_guard().await.unwrap();
    let state = beside(&case, "state");
    let half = "redis.call('SET', KEYS[1], 'half') redis.call('LPUSH', KEYS[1], 'x')";
    let failures = [
        (half, "WRONGTYPE"),
        ("return redis.error_reply('OOM not so')", "OOM not so"),
        ("error('stop')", "script:1: stop"),
        ("return {1, {err = 'inside'}}", "inside"),
        ("return nobody", "nonexistent global variable 'nobody'"),
    ];
    for (script, words) in failures {
        match guard.run_if_held(script, &[&state], &[]).await {
            Err(RunError::Script(text)) => assert!(text.contains(words), "{script}: {text}"),
            other => panic!("{script}: {other:?}"),
        }
    }
    assert_eq!(case.ask(&["GET", &state]).await, "half", "what a script wrote stays");
    assert_eq!(guard.state(), State::Held);
    guard.unlock().await.unwrap();
}

pub async fn a_script_that_does_not_compile_runs_nothing(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).fenced_guard().await.unwrap();
    let state = beside(&case, "state");
    for script in ["redis.call('SET', KEYS[1], 1)\nreturn =", "redis.call('SET', KEYS[1], 1) end"] {
        match guard.run_if_held(script, &[&state], &[]).await {
            Err(RunError::Query(QueryError::Refused { why, .. })) => {
                assert!(why.to_string().contains("script:"), "{why}")
            }
            other => panic!("{script}: {other:?}"),
        }
    }
    assert_eq!(case.ask(&["EXISTS", &state]).await, "0");
    guard.unlock().await.unwrap();
}

const RUN: &str = concat!(include_str!("../../lua/begin.lua"), include_str!("../../lua/fenced/run.lua"));

pub async fn a_late_script_does_not_run(case: Case) {
    let now = case.time().await;
    let state = beside(&case, "state");
    let count = async |not_after: i64| {
        let args = ["n", &not_after.to_string(), "o", "1", "return redis.call('INCR', KEYS[1])"];
        case.eval(RUN, &[&case.name, &state], &args).await
    };
    case.ask(&["HSET", &case.name, "o", "1"]).await;
    assert!(count(now - 1).await.starts_with("2 n "));
    assert_eq!(case.ask(&["EXISTS", &state]).await, "0");
    assert!(count(now + 60_000).await.ends_with(" int 1"));
    // And not under another type, or another's hold.
    case.ask(&["HDEL", &case.name, "o"]).await;
    assert!(count(now + 60_000).await.starts_with("3 n "));
    case.ask(&["SET", &case.name, "x"]).await;
    assert!(count(now + 60_000).await.starts_with("4 n "));
    assert_eq!(case.ask(&["GET", &state]).await, "1");
}
