//! The rights of the fair lock.

use support::prelude::*;

use super::*;

/// The commands that the scripts of this folder call.
fn called(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(support::root().join("lua").join(folder)).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for call in ["redis.call('", "redis.pcall('"] {
            let commands = text.split(call).skip(1).map(|rest| rest.split('\'').next().unwrap().to_lowercase());
            found.extend(commands.map(|command| format!("+{command}")));
        }
    }
    found
}

/// Every script of the fair lock but its refresh, which comes after 20 s.
pub(super) async fn fair_work(url: &str) -> Outcome {
    let (one, other) = (settings().connect(url).await?, settings().connect(url).await?);
    let lock = |locks: &Locks, name: &str| locks.fair_lock("acl").owned_by(&Owner::named(name).unwrap());
    let guard = lock(&one, "a").guard().await?;
    guard.set_lease(secs(1)).await?;
    let wait = |lock: FairLock| tokio::spawn(async move { Outcome::Ok(lock.guard().await?.unlock().await?) });
    let mut tasks = vec![];
    for (place, (locks, name)) in [(&one, "b"), (&other, "c"), (&one, "d"), (&other, "e")].into_iter().enumerate() {
        tasks.push(wait(lock(locks, name)));
        while lock(locks, name).queue_position().await? != Some(place as u64) {
            sleep(ms(2)).await;
        }
    }
    // One leaves from within the queue.
    tasks.remove(2).abort();
    while lock(&other, "a").queue_len().await? != 3 {
        sleep(ms(2)).await;
    }
    sleep(ms(500)).await;
    assert!(guard.is_valid(), "it was not renewed");
    guard.unlock().await?;
    for task in tasks {
        task.await??;
    }
    lock(&one, "a").lock().await?;
    assert!(lock(&other, "a").force_unlock().await?);
    other.shutdown(secs(5)).await?;
    Ok(one.shutdown(secs(5)).await?)
}

#[tokio::test]
async fn a_fair_lock_needs_its_own_rights() {
    let (rule, fair) = (rule(), rights(FAIR));
    let commands = |words: &[&str]| -> BTreeSet<String> {
        words.iter().filter(|word| word.starts_with('+')).map(|word| (*word).to_owned()).collect()
    };
    let own = &called("fair") - &commands(&rule);
    assert_eq!(own, commands(&fair), "what the scripts call, and what the docs grant");

    let server = Server::start();
    let mut raw = server.raw().await;
    grant(&server, &[&rule[..], &fair].concat()).await;
    raw.must(&["ACL", "LOG", "RESET"]).await;
    fair_work(&server.url()).await.unwrap();
    nothing_was_refused(&server).await;
    assert_eq!(raw.must(&["DBSIZE"]).await.int(), 0);
    let (keys, commands): (Vec<_>, Vec<_>) = fair.iter().partition(|word| word.starts_with('~'));
    let take = async |one: &Locks, _: &Locks| come_and_go(one.fair_lock("acl")).await;
    is_refused_without(&[rule, commands].concat(), &keys, take).await;
}

/// A dead waiter stands before a live one, and may not be dropped: whoever asks is told, and the server goes on.
#[tokio::test]
async fn a_fair_right_missing_behind_a_dead_head_ends_in_an_error() {
    let server = Server::start();
    let mut raw = server.raw().await;
    let key = |which: &str| format!("{which}:{{app:acl}}");
    let (queue, timeouts) = (key("redisson_lock_queue"), key("redisson_lock_timeout"));
    let (seen, state) = (key("lockson:fair_seen"), key("lockson:fair_state"));
    let needed = ["hmget", "lindex", "lpop", "lrange", "zadd", "zrem", "zscore", "hset", "llen", "zcard", "pexpire"];
    let named: BTreeSet<&str> = rights(FAIR).iter().filter_map(|word| word.strip_prefix('+')).chain(needed).collect();
    for right in named {
        raw.must(&["FLUSHALL"]).await;
        grant(&server, &[&rule()[..], &rights(FAIR)].concat()).await;
        let locks = settings().connect(&server.url()).await.unwrap();
        let lock = locks.fair_lock("acl");
        let time = raw.must(&["TIME"]).await.texts()[0].parse::<i64>().unwrap() * 1000;
        let [past, ahead] = [time - 10_000, time + 300_000].map(|at| at.to_string());
        let told = (time - 1_000).to_string();
        raw.must(&["RPUSH", &queue, "dead:1", "java:1"]).await;
        raw.must(&["ZADD", &timeouts, &ahead, "dead:1", &ahead, "java:1"]).await;
        raw.must(&["ZADD", &seen, &past, "dead:1", &past, "dead"]).await;
        raw.must(&["HSET", &state, "head", "dead:1", "score", &ahead, "since", &past]).await;
        raw.must(&["HSET", &state, "look", &told, "free", &past, "deaf", "0"]).await;
        raw.must(&["ACL", "SETUSER", "locker", &format!("-{right}")]).await;
        let tried = tokio::time::timeout(secs(5), lock.try_lock()).await;
        let tried = tried.unwrap_or_else(|_| panic!("without {right}: no answer"));
        let answers = tokio::time::timeout(secs(5), raw.must(&["PING"])).await;
        assert!(answers.is_ok(), "without {right}: the server does not answer");
        match (needed.contains(&right), &tried) {
            (true, Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })))
            | (false, Ok(Busy)) => {}
            other => panic!("without {right}: {other:?}"),
        }
        raw.must(&["ACL", "SETUSER", "locker", &format!("+{right}")]).await;
        assert_eq!(lock.try_lock().await, Ok(Busy), "behind java:1, without {right} before");
        assert_eq!(raw.must(&["LRANGE", &queue, "0", "-1"]).await.texts(), ["java:1"], "without {right}");
        assert!(!raw.exists("app:acl").await, "without {right}");
    }
}

/// A right that is taken away later: who comes to wait is told, and half a place is not left behind.
#[tokio::test]
async fn a_fair_right_lost_later_leaves_no_half_place() {
    let server = Server::start();
    let mut raw = server.raw().await;
    for right in ["zadd", "rpush", "zscore", "lindex", "pexpire"] {
        grant(&server, &[&rule()[..], &rights(FAIR)].concat()).await;
        let locks = settings().connect(&server.url()).await.unwrap();
        let lock = |name: &str| locks.fair_lock("acl").owned_by(&Owner::named(name).unwrap());
        assert!(lock("a").acquire().lease(secs(60)).await.unwrap().is_acquired());
        raw.must(&["ACL", "SETUSER", "locker", &format!("-{right}")]).await;
        let came = lock("b").acquire().wait(ms(200)).await;
        assert!(matches!(came, Err(LockError::Query(QueryError::Refused { .. }))), "without {right}: {came:?}");
        raw.must(&["ACL", "SETUSER", "locker", &format!("+{right}")]).await;
        let only_the_lock = async || raw.must(&["KEYS", "*"]).await.texts() == ["app:acl"];
        eventually(secs(20), &format!("no place, without {right}"), only_the_lock).await;
        lock("a").unlock().await.unwrap();
        assert_eq!(raw.must(&["DBSIZE"]).await.int(), 0, "without {right}");
    }
}
