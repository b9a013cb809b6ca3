//! The ACL rules of docs/GUARANTEES.md are enough for all that locks do, and no right in them is too much.

mod fair;
mod permits;

use std::collections::BTreeSet;

use futures::future::{BoxFuture, FutureExt};
use lockson::kind::{Fenceable, Fenced, Kind};
use lockson::{FairLock, FencedGuard, Lock, Reply};
use support::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The right that a lock works without: `connect` warns, and goes on.
const OPTIONAL: &str = "+info";

/// The words of the line in the docs that begins so.
fn rights(beginning: &'static str) -> Vec<&'static str> {
    let docs = include_str!("../docs/GUARANTEES.md");
    let line = docs.lines().find(|line| line.starts_with(beginning)).expect("the rule stands in the docs");
    line.split_whitespace().collect()
}

/// The rule for every lock, from the user's name on.
fn rule() -> Vec<&'static str> {
    rights("ACL SETUSER ").split_off(2)
}

/// What a lock needs besides by the docs: the beginnings of lines there. Without those that are called optional it
/// works too, and is not woken.
const FENCED: &str = "+get ";
const PLAIN: &str = "+set ";
const PLAIN_OPTIONAL: &str = "&lockson:plain:*";
const READ_WRITE: &str = "+hlen ";
/// Without them writers don't go first.
const READ_WRITE_OPTIONAL: &str = "+zadd ";
const FAIR: &str = "+hmget ";
/// A multi-lock over one name of two clients.
const MULTI: &str = "+get +set ~lockson:server_id:*";
const RED: &str = "~lockson:boot";

/// Gives the user these rights, and only these, on a server that knows no script.
async fn grant(server: &Server, words: &[&str]) {
    let mut raw = server.raw().await;
    let mut command = vec!["ACL", "SETUSER", words[0], "reset"];
    command.extend(&words[1..]);
    raw.must(&command).await;
    raw.must(&["SCRIPT", "FLUSH"]).await;
}

fn settings() -> Builder {
    Locks::builder()
        .username("locker")
        .password("password")
        .key_prefix("app:")
        .command_timeout(ms(300))
        .watchdog_lease(secs(1))
}

/// Every script of a lock at least once: with a waiter here, to be handed it, and one in another client, who is told
/// by a message.
async fn work_on<K: Kind>(url: &str, make: impl Fn(&Locks) -> Lock<K>) -> Outcome {
    let (one, other) = (settings().connect(url).await?, settings().connect(url).await?);
    let (lock, rival) = (make(&one), make(&other));
    let guard = RLock::guard(&lock).await?;
    guard.verify().await?;
    guard.set_lease(secs(1)).await?;
    let waiters = [lock.owned_by(&Owner::unique()), rival.clone()]
        .map(|lock| tokio::spawn(async move { Outcome::Ok(RLock::guard(&lock).await?.unlock().await?) }));
    sleep(ms(1200)).await;
    assert!(guard.is_valid(), "it was not renewed");
    guard.unlock().await?;
    for waiter in waiters {
        waiter.await??;
    }
    lock.lock().await?;
    assert!(rival.force_unlock().await?);
    rival.lock().await?;
    other.shutdown(secs(5)).await?;
    assert!(!lock.is_locked().await?);
    Ok(one.shutdown(secs(5)).await?)
}

async fn work(url: &str) -> Outcome {
    let locks = settings().connect(url).await?;
    let lock = locks.lock("acl");
    lock.lock().await?;
    lock.lock().await?;
    lock.unlock().await?;
    assert_eq!(lock.holder().await?.map(|holder| holder.owner), Some(Owner::current()));
    lock.unlock().await?;
    locks.shutdown(secs(5)).await?;
    work_on(url, |locks| locks.lock("acl")).await
}

#[tokio::test]
async fn the_documented_rule_is_enough() {
    let server = Server::start();
    grant(&server, &rule()).await;
    work(&server.url()).await.unwrap();
    assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0);
}

#[tokio::test]
async fn each_right_of_it_is_needed_and_missed_at_once() {
    let server = Server::start();
    let rule = rule();
    let rights: Vec<&str> = rule.iter().copied().filter(|word| word.starts_with(['+', '~', '&'])).collect();
    assert!(rights.len() > 15, "{rights:?}");
    for right in rights {
        let rest: Vec<&str> = rule.iter().copied().filter(|word| *word != right).collect();
        grant(&server, &rest).await;
        let connected = settings().connect(&server.url()).await.map(drop);
        match (connected, right) {
            (Ok(()), OPTIONAL) => work(&server.url()).await.unwrap(),
            // Every script begins with TIME, and Redis does not say which command of a script it refused.
            (Err(ConnectError::Refused(why)), "+time") => assert!(matches!(why, Refused::NoPermission(_)), "{why}"),
            (Err(ConnectError::Refused(Refused::NoPermission(what))), _) => {
                let named = match right.split_at(1) {
                    ("+", command) => command.to_uppercase(),
                    ("~", _) => "KEY".to_owned(),
                    _ => "PUBLISH".to_owned(),
                };
                assert!(what.to_uppercase().contains(&named), "without {right}: {what}");
            }
            (other, _) => panic!("without {right}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_multi_lock_of_one_name_needs_its_own_rights() {
    let server = Server::start();
    let (rule, multi) = (rule(), rights(MULTI));
    assert_eq!(multi.join(" "), MULTI, "the line has no more");
    for left_out in [None].into_iter().chain(multi.iter().map(Some)) {
        let own = multi.iter().filter(|right| Some(*right) != left_out);
        grant(&server, &rule.iter().chain(own).copied().collect::<Vec<_>>()).await;
        server.raw().await.must(&["FLUSHALL"]).await;
        let (one, other) =
            (settings().connect(&server.url()).await.unwrap(), settings().connect(&server.url()).await.unwrap());
        let members: Vec<Arc<dyn RLock>> = vec![Arc::new(one.lock("acl")), Arc::new(other.lock("acl"))];
        match (MultiLock::new(members).guard().await, left_out) {
            (Ok(guard), None) => guard.unlock().await.unwrap(),
            (Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })), Some(_)) => {}
            (other, _) => panic!("without {left_out:?}: {other:?}"),
        }
        assert!(!server.raw().await.exists("app:acl").await, "without {left_out:?}");
    }
}

/// A vote that can't tell since when its server has lost nothing takes nothing.
#[tokio::test]
async fn a_red_lock_needs_its_own_rights() {
    let server = Server::start();
    let own = rights(RED);
    let all: Vec<&str> = rule().into_iter().chain(own.clone()).collect();
    for left_out in [None, Some(OPTIONAL)].into_iter().chain(own.into_iter().map(Some)) {
        let rights: Vec<&str> = all.iter().copied().filter(|word| Some(*word) != left_out).collect();
        server.raw().await.must(&["DEL", "lockson:boot"]).await;
        grant(&server, &rights).await;
        let locks = settings().connect(&server.url()).await.unwrap();
        match (RedLock::new(vec![locks.lock("acl")]).fresh().guard().await, left_out) {
            (Ok(guard), None) => guard.unlock().await.unwrap(),
            (Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })), Some(_)) => {}
            (other, _) => panic!("without {left_out:?}: {other:?}"),
        }
        assert!(!server.raw().await.exists("app:acl").await, "without {left_out:?}");
    }
}

/// Without one of them nothing is written, by any of the kinds.
#[tokio::test]
async fn tokens_need_their_own_rights() {
    let server = Server::start();
    let tokens = rights(FENCED);
    let every = [rule(), rights(READ_WRITE), rights(READ_WRITE_OPTIONAL), rights(FAIR), vec!["+incr"]].concat();
    for left_out in [None].into_iter().chain(tokens.iter().map(Some)) {
        // What a right of another line gives too is taken away by name.
        let without = left_out.map(|right| right.replace('+', "-"));
        let named = without.as_deref().filter(|word| word.starts_with('-'));
        let own = tokens.iter().filter(|right| Some(*right) != left_out);
        grant(&server, &every.iter().chain(own).copied().chain(named).collect::<Vec<_>>()).await;
        let locks = settings().connect(&server.url()).await.unwrap();
        server.raw().await.must(&["FLUSHALL"]).await;
        let kinds = [
            guarded(locks.fenced_lock("acl")),
            guarded(locks.mutex("acl").fenced()),
            guarded(locks.spin_lock("acl", lockson::Backoff::default()).fenced()),
            guarded(locks.fair_lock("acl").fenced()),
            guarded(locks.fair_mutex("acl").fenced()),
            guarded(locks.read_write_lock("acl").write().fenced()),
        ];
        for (at, taken) in kinds.into_iter().enumerate() {
            match (taken.await, left_out) {
                (Ok(guard), None) => {
                    a_callers_script_has_the_users_rights(&guard, at as i64 + 1).await;
                    guard.unlock().await.unwrap();
                }
                (Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })), Some(_)) => {
                    assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0, "kind {at} without {left_out:?}");
                }
                (other, _) => panic!("kind {at} without {left_out:?}: {other:?}"),
            }
        }
    }
}

fn guarded<K: Fenceable>(lock: Lock<Fenced<K>>) -> BoxFuture<'static, Result<FencedGuard, LockError>> {
    async move { lock.guard().await }.boxed()
}

/// In the words of Redis 7.0, or of 7.2 and Valkey.
fn is_about_rights(text: &str) -> bool {
    text.contains("can't run") || text.contains("permission")
}

async fn a_callers_script_has_the_users_rights(guard: &FencedGuard, time: i64) {
    let (incr, push) = ("return redis.call('INCR', KEYS[1])", "redis.call('LPUSH', KEYS[1], 'x')");
    assert_eq!(guard.run_if_held(incr, &["app:{app:acl}"], &[]).await, Ok(Reply::Int(time)));
    let refused = guard.run_if_held(push, &["app:{app:acl}"], &[]).await;
    assert!(matches!(&refused, Err(RunError::Script(text)) if is_about_rights(text)), "{refused:?}");
    let refused = guard.run_if_held(incr, &["other:{app:acl}"], &[]).await;
    let Err(RunError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })) = refused else {
        panic!("a key outside the rule: {refused:?}");
    };
}

/// Every script of both sides, with a writer that waits for readers, and a reader that waits for it.
async fn read_and_write(url: &str) -> Outcome {
    let (one, other) = (settings().connect(url).await?, settings().connect(url).await?);
    let (lock, rival) = (one.read_write_lock("acl"), other.read_write_lock("acl"));
    let guard = lock.read().guard().await?;
    lock.read().lock().await?;
    guard.verify().await?;
    guard.set_lease(secs(1)).await?;
    assert_eq!(rival.read().holders().await?.len(), 1);
    let writer = spawn_with(rival.write(), |write| async move { write.guard().await });
    sleep(ms(1200)).await;
    assert!(guard.is_valid(), "it was not renewed");
    lock.read().unlock().await?;
    guard.unlock().await?;
    let writer = writer.await??;
    writer.set_lease(secs(1)).await?;
    // Two, who come in together.
    let readers = [Owner::unique(), Owner::unique()].map(|owner| {
        let read = lock.read().owned_by(&owner);
        tokio::spawn(async move { read.guard().await })
    });
    sleep(ms(300)).await;
    writer.unlock().await?;
    for reader in readers {
        reader.await??.unlock().await?;
    }
    lock.write().lock().await?;
    assert!(rival.write().is_locked().await?);
    assert!(rival.write().force_unlock().await?);
    rival.read().lock().await?;
    assert!(lock.read().force_unlock().await?);
    one.shutdown(secs(5)).await?;
    Ok(other.shutdown(secs(5)).await?)
}

#[tokio::test]
async fn a_read_write_lock_needs_its_own_rights() {
    let server = Server::start();
    let (rule, needed, optional) = (rule(), rights(READ_WRITE), rights(READ_WRITE_OPTIONAL));
    let with = |more: &[&'static str]| rule.iter().chain(more).copied().collect::<Vec<_>>();
    grant(&server, &with(&[&needed[..], &optional[..]].concat())).await;
    read_and_write(&server.url()).await.unwrap();
    grant(&server, &with(&needed)).await;
    read_and_write(&server.url()).await.unwrap();
    for left_out in &needed {
        let own: Vec<_> = needed.iter().chain(&optional).copied().filter(|right| right != left_out).collect();
        grant(&server, &with(&own)).await;
        let outcome = tokio::time::timeout(secs(10), read_and_write(&server.url())).await;
        assert!(!matches!(outcome, Ok(Ok(()))), "it does without {left_out}");
        server.raw().await.must(&["FLUSHALL"]).await;
    }
}

#[tokio::test]
async fn a_plain_lock_needs_its_own_rights() {
    let server = Server::start();
    let (rule, needed, optional) = (rule(), rights(PLAIN), rights(PLAIN_OPTIONAL));
    for more in [[&needed[..], &optional[..]].concat(), needed.clone()] {
        grant(&server, &[&rule[..], &more].concat()).await;
        work_on(&server.url(), |locks| locks.plain_lock("acl")).await.unwrap();
        assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0);
    }
    for left_out in &needed {
        let own = needed.iter().chain(&optional).filter(|right| *right != left_out);
        grant(&server, &rule.iter().chain(own).copied().collect::<Vec<_>>()).await;
        let locks = settings().connect(&server.url()).await.unwrap();
        let outcome = async { Outcome::Ok(locks.plain_lock("acl").guard().await?.unlock().await?) }.await;
        assert!(outcome.is_err(), "it does without {left_out}");
        server.raw().await.must(&["FLUSHALL"]).await;
    }
}

#[tokio::test]
async fn a_prefix_outside_the_rule_is_refused() {
    let server = Server::start();
    grant(&server, &rule()).await;
    let error = settings().key_prefix("other:").connect(&server.url()).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::Refused(Refused::NoPermission(_))), "{error}");
}
