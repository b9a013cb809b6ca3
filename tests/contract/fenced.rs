//! What tokens add, to every kind that can have them. Rule 19.

use lockson::Reply;
use support::kinds::text;

use crate::contract::world::*;

fn token_key(case: &Case) -> String {
    format!("redisson_lock_token:{{{}}}", case.name)
}

async fn stored(case: &Case) -> String {
    case.ask(&["GET", &token_key(case)]).await
}

pub async fn tokens_rise(case: Case) {
    let (a, b) = (case.fenced().await, case.fenced().await);
    let mut last = 0;
    for round in 0..10 {
        let lock = if round % 2 == 0 { &a } else { &b };
        let guard = lock.guard().await.unwrap();
        assert!(guard.token() > last);
        last = guard.token();
        assert_eq!(stored(&case).await, last.to_string());
        guard.unlock().await.unwrap();
    }
    assert!(a.lock_and_get_token().await.unwrap() > last);
    a.verbs().unlock().await.unwrap();
    assert_eq!(case.ask(&["PTTL", &token_key(&case)]).await, "-1");
}

pub async fn who_finds_it_busy_leaves_the_token_alone(case: Case) {
    let (a, b) = (case.fenced().await, case.fenced().await);
    let guard = a.guard().await.unwrap();
    for limit in [ms(0), ms(50)] {
        assert!(b.verbs().guard_with(Request::default().wait(limit)).await.unwrap().is_none());
    }
    assert_eq!(stored(&case).await, guard.token().to_string());
    guard.unlock().await.unwrap();
}

pub async fn a_re_entry_keeps_the_token(case: Case) {
    let lock = case.fenced().await;
    let outer = lock.guard().await.unwrap();
    let inner = lock.guard().await.unwrap();
    assert_eq!(outer.token(), inner.token());
    assert_eq!(stored(&case).await, outer.token().to_string());
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
}

pub async fn a_hold_without_a_token_gets_one(case: Case) {
    let locks = case.client().await;
    let (lock, unfenced) = (case.fenced_of(&locks), case.unfenced_of(&locks));
    let before = lock.guard().await.unwrap();
    let last = before.token();
    before.unlock().await.unwrap();
    let outer = unfenced.guard().await.unwrap();
    assert_eq!(stored(&case).await, last.to_string(), "the other kind gives none");
    let inner = lock.guard().await.unwrap();
    assert!(inner.token() > last);
    assert_eq!(stored(&case).await, inner.token().to_string());
    let innermost = lock.guard().await.unwrap();
    assert_eq!(innermost.token(), inner.token());
    for guard in [innermost, inner] {
        guard.unlock().await.unwrap();
    }
    outer.unlock().await.unwrap();
}

/// In this process or in another one; as long as it waits it has none.
pub async fn who_comes_next_has_a_higher_token(case: Case) {
    let (locks, other) = (case.client().await, case.client().await);
    for client in [&locks, &other] {
        let first = case.fenced_of(&locks).guard().await.unwrap();
        let next = case.fenced_of(client).of(&Owner::unique());
        let waiter = begun(async move { next.guard().await }).await;
        sleep(ms(50)).await;
        let before = first.token();
        assert_eq!(stored(&case).await, before.to_string());
        first.unlock().await.unwrap();
        let second = patient("the next", waiter).await.unwrap().unwrap();
        assert!(second.token() > before);
        assert_eq!(stored(&case).await, second.token().to_string());
        second.unlock().await.unwrap();
    }
}

pub async fn a_token_rises_over_data_loss(case: Case) {
    let (a, b) = (case.fenced().await, case.fenced().await);
    let before = a.lock_and_get_token().await.unwrap();
    case.ask(&["DEL", &case.name, &token_key(&case)]).await;
    sleep(ms(2)).await;
    assert!(b.lock_and_get_token().await.unwrap() > before);
}

/// Lua's numbers repeat from 2^53 on: 992, 992, 994, 996, 996. Java's counter is continued, and goes on.
pub async fn a_token_is_exact_beyond_2_53(case: Case) {
    let lock = case.fenced().await;
    for start in [(1_u64 << 53) - 2, 9_999_999_999_999_995, 9_000_000_000_000_000_000] {
        case.ask(&["SET", &token_key(&case), &start.to_string()]).await;
        for expected in start + 1..start + 8 {
            assert_eq!(lock.lock_and_get_token().await.unwrap(), expected);
            lock.verbs().unlock().await.unwrap();
        }
        assert_eq!(case.ask(&["INCR", &token_key(&case)]).await, (start + 8).to_string());
    }
}

/// The acquire script of the kind with tokens, its keys and its arguments for `o`, which holds nothing yet.
fn acquire_of(case: &Case, locks: &Locks) -> (String, Vec<String>, Vec<&'static str>) {
    let tagged = |key: &str| format!("{key}:{{{}}}", case.name);
    let queue = ["redisson_lock_queue", "redisson_lock_timeout", "lockson:fair_seen", "lockson:fair_state"];
    let kinds = ["fenced_write", "fenced_fair", "fenced_fair_mutex"].map(|kind| case.is_kind(locks, kind));
    let (folder, more, arg, announces) = match kinds {
        [true, ..] => ("fenced write", ["lockson:writers", "lockson:absent"].map(tagged).to_vec(), &["0"][..], &[][..]),
        [false, false, false] => ("fenced reentrant", vec![], &[][..], &[][..]),
        _ => ("fenced fair", queue.map(tagged).to_vec(), &["1"][..], &["PUBLISH", "channel"][..]),
    };
    let keys = [case.name.clone()].into_iter().chain(more).chain([token_key(case)]).collect();
    let args = [&["o", "5000", "0"], arg, &["0", "1"], announces].concat();
    (text(folder, "acquire"), keys, args)
}

/// Whose work it finds is not known: it may be a hold of before, that came back with older data.
pub async fn a_retry_has_a_higher_token(case: Case) {
    let (script, keys, args) = acquire_of(&case, &case.client().await);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = case.copy(&script, SOON, &keys, &args).await;
        assert!(answer.starts_with("1 "), "{answer}");
        answers.push(answer.split(' ').next_back().unwrap().to_owned());
        sleep(ms(2)).await;
    }
    assert!(answers.is_sorted_by(|one, next| one < next), "{answers:?}");
    assert_eq!(answers[2], stored(&case).await);
    assert_eq!(case.ask(&["HGET", &case.name, "o"]).await, "1");
}

/// What is refused has written nothing, no place in a queue either.
pub async fn what_is_no_token_is_refused(case: Case) {
    let lock = case.fenced().await;
    let top = i64::MAX.to_string();
    for command in [["LPUSH", "x"], ["SET", "x"], ["SET", ""], ["SET", "-5"], ["SET", "007"], ["SET", &top]] {
        case.ask(&[command[0], &token_key(&case), command[1]]).await;
        match lock.lock_and_get_token().await {
            Err(LockError::Query(QueryError::WrongType { .. })) => assert_eq!(command[0], "LPUSH"),
            Err(LockError::Query(QueryError::Refused { .. })) => assert_eq!(stored(&case).await, command[1]),
            other => panic!("{command:?}: {other:?}"),
        }
        assert_eq!(case.ask(&["KEYS", &format!("*{}*", case.name)]).await, token_key(&case));
        case.ask(&["DEL", &token_key(&case)]).await;
    }
}

pub async fn readers_have_no_token_and_leave_it_alone(case: Case) {
    let (locks, rival) = (case.client().await, case.fenced().await);
    let both = locks.read_write_lock(&case.name);
    let write = both.write().fenced();
    let guard = write.guard().await.unwrap();
    let token = guard.token();
    let reading = both.read().guard().await.unwrap();
    guard.run_if_held("return token", &[], &[]).await.unwrap();
    guard.unlock().await.unwrap();
    // It goes on reading: neither it nor another writer has a token of that.
    assert!(matches!(write.guard().await, Err(LockError::Upgrade { .. })));
    assert!(!rival.verbs().try_lock().await.unwrap().is_acquired());
    assert_eq!(stored(&case).await, token.to_string());
    reading.unlock().await.unwrap();
    let next = patient("the next writer", rival.guard()).await.unwrap();
    assert!(next.token() > token);
    next.unlock().await.unwrap();
}

pub async fn a_script_runs_while_the_lock_is_held(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).guard().await.unwrap();
    let (state, count) = (case.beside("state"), case.beside("count"));
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
    // A list in a list in a list: as many as Lua nests would be more than the stack of a thread here.
    let nest = "local value = {} for _ = 2, tonumber(ARGV[1]) do value = {value} end return value";
    assert_matches!(guard.run_if_held(nest, &[], &["128"]).await, Ok(Reply::List(lists)) if lists.len() == 1);
    assert_matches!(guard.run_if_held(nest, &[], &["15000"]).await, Err(RunError::Unknown { .. }));
    guard.unlock().await.unwrap();
}

pub async fn a_script_of_a_lost_hold_does_not_run(case: Case) {
    let lock = case.fenced().await;
    let (guard, state) = (lock.guard().await.unwrap(), case.beside("state"));
    guard.run_if_held("return redis.call('SET', KEYS[1], token)", &[&state], &[]).await.unwrap();
    assert_eq!(case.ask(&["GET", &state]).await, guard.token().to_string());
    case.ask(&["DEL", &case.name]).await;
    let rival = case.fenced().await.guard().await.unwrap();
    let set = "return redis.call('SET', KEYS[1], token)";
    let is_lost = |ran| matches!(ran, Err(RunError::Lost(Lost { why: LostReason::Server, .. })));
    assert!(guard.is_valid(), "it knows nothing of it");
    assert!(is_lost(guard.run_if_held(set, &[&state], &[]).await));
    assert_eq!(guard.state(), HoldState::Lost);
    patient("the guard is told", guard.lost()).await;
    rival.run_if_held(set, &[&state], &[]).await.unwrap();
    // It is known now: whatever the server has, nothing is asked any more.
    rival.unlock().await.unwrap();
    case.ask(&["DEL", &case.name]).await;
    case.ask(&["SET", &case.name, "no lock"]).await;
    assert!(is_lost(guard.run_if_held(set, &[&state], &[]).await));
    case.ask(&["DEL", &case.name]).await;
    assert!(matches!(lock.guard().await, Err(LockError::Lost { .. })), "said once");
    let again = lock.guard().await.unwrap();
    assert!(is_lost(guard.run_if_held(set, &[&state], &[]).await), "its owner's next hold is another one");
    assert_ne!(case.ask(&["GET", &state]).await, guard.token().to_string());
    again.unlock().await.unwrap();
}

pub async fn a_script_gets_no_key_of_another_slot(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).guard().await.unwrap();
    let near = case.beside("near");
    let refused = guard.run_if_held("redis.call('SET', KEYS[1], 1)", &[&near, "far"], &[]).await;
    assert_eq!(refused, Err(RunError::CrossSlot { key: "far".to_owned(), tag: case.name.clone() }));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains(&format!("{{{}}}:far", case.name)), "{text}");
    assert_eq!(case.ask(&["EXISTS", &near]).await, "0");
    // The lock's own key is in it, and a name with a tag has that one's slot.
    guard.run_if_held("return KEYS[1]", &[&case.name], &[]).await.unwrap();
    guard.unlock().await.unwrap();
    let tagged = format!("{{{}}}x", case.name);
    let guard = case.client().await.fenced_lock(&tagged).guard().await.unwrap();
    guard.run_if_held("return KEYS[1]", &[&near, &tagged], &[]).await.unwrap();
    let refused = guard.run_if_held("", &["far"], &[]).await;
    assert_matches!(refused, Err(RunError::CrossSlot { tag, .. }) if tag == case.name);
    guard.unlock().await.unwrap();
}

pub async fn a_scripts_own_error_is_said(case: Case) {
    let guard = case.client().await.fenced_lock(&case.name).guard().await.unwrap();
    let state = case.beside("state");
    let half = "redis.call('SET', KEYS[1], 'half') redis.call('LPUSH', KEYS[1], 'x')";
    let failures = [
        (half, "WRONGTYPE"),
        ("return redis.error_reply('OOM not so')", "OOM not so"),
        ("error('stop')", "script:1: stop"),
        ("return {1, {err = 'inside'}}", "inside"),
        ("return nobody", "nonexistent global variable 'nobody'"),
    ];
    for (script, words) in failures {
        let failed = guard.run_if_held(script, &[&state], &[]).await;
        assert_matches!(failed, Err(RunError::Script(text)) if text.contains(words), script);
    }
    assert_eq!(case.ask(&["GET", &state]).await, "half", "what a script wrote stays");
    // What does not compile runs nothing of it.
    for script in ["redis.call('SET', KEYS[1], 1)\nreturn =", "redis.call('SET', KEYS[1], 1) end"] {
        let failed = guard.run_if_held(script, &[&state], &[]).await;
        let is_named = |why: &Refused| why.to_string().contains("script:");
        assert_matches!(failed, Err(RunError::Query(QueryError::Refused { why, .. })) if is_named(&why), script);
    }
    assert_eq!(case.ask(&["GET", &state]).await, "half");
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.unwrap();
}

const RUN: &str = support::lua!("fenced/run");

pub async fn a_late_script_does_not_run(case: Case) {
    let state = case.beside("state");
    let args = ["o", "1", "return redis.call('INCR', KEYS[1])"];
    let count = async |when: i64| case.copy(RUN, when, &[&case.name, &state], &args).await;
    case.ask(&["HSET", &case.name, "o", "1"]).await;
    assert!(count(LATE).await.starts_with('2'));
    assert_eq!(case.ask(&["EXISTS", &state]).await, "0");
    assert!(count(SOON).await.ends_with(" int 1"));
    // And not under another type, or another's hold.
    case.ask(&["HDEL", &case.name, "o"]).await;
    assert!(count(SOON).await.starts_with('3'));
    case.ask(&["SET", &case.name, "x"]).await;
    assert!(count(SOON).await.starts_with('4'));
    assert_eq!(case.ask(&["GET", &state]).await, "1");
}
