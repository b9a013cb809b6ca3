//! The ACL rules of docs/GUARANTEES.md are enough for all that locks do, and no right in them is too much.

mod fair;
mod file;
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
pub fn rights(beginning: &'static str) -> Vec<&'static str> {
    let docs = include_str!("../docs/GUARANTEES.md");
    let line = docs.lines().find(|line| line.starts_with(beginning)).expect("the rule stands in the docs");
    line.split_whitespace().collect()
}

/// The rule for every lock, from the user's name on.
pub fn rule() -> Vec<&'static str> {
    rights("ACL SETUSER ").split_off(2)
}

/// What a lock needs besides by the docs: the beginnings of lines there. The optional only have it woken.
pub const FENCED: &str = "+get ";
pub const PLAIN: &str = "+set ";
pub const PLAIN_OPTIONAL: &str = "&lockson:plain:*";
pub const READ_WRITE: &str = "+hlen ";
/// Without them writers don't go first.
pub const READ_WRITE_OPTIONAL: &str = "+zadd ";
pub const FAIR: &str = "+hmget ";
/// A multi-lock over one name of two clients.
const MULTI: &str = "+get +set ~lockson:server_id:*";
const RED: &str = "~lockson:boot";

/// Gives the user these rights, and only these, on a server that knows no script.
pub async fn grant(server: &Server, words: &[&str]) {
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

/// Every script of a lock at least once: with a waiter here, who is handed it, and one elsewhere, who is told.
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

/// And all of them are enough.
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
            (Ok(()), OPTIONAL) => {
                work(&server.url()).await.unwrap();
                assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0);
            }
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

/// A group's values have the rights of any lock.
#[tokio::test]
async fn a_group_needs_no_rights_of_its_own() {
    let server = Server::start();
    grant(&server, &rule()).await;
    work_on(&server.url(), |locks| locks.group_lock("acl", "value")).await.unwrap();
}

/// With all of these rights it is taken and given back; without one of its own nothing is, and that is told.
async fn is_refused_without(
    shared: &[&'static str],
    own: &[&'static str],
    take: impl AsyncFn(&Locks, &Locks) -> Result<(), LockError>,
) {
    let server = Server::start();
    for left_out in [None].into_iter().chain(own.iter().copied().map(Some)) {
        let kept = shared.iter().chain(own).copied().filter(|right| Some(*right) != left_out);
        // What a right of another line gives too is taken away by name.
        let taken_away = left_out.and_then(|right| right.strip_prefix('+')).map(|command| format!("-{command}"));
        server.raw().await.must(&["FLUSHALL"]).await;
        grant(&server, &kept.chain(taken_away.as_deref()).collect::<Vec<_>>()).await;
        let connect = async || settings().connect(&server.url()).await.unwrap();
        match (take(&connect().await, &connect().await).await, left_out) {
            (Ok(()), None)
            | (Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })), Some(_)) => {}
            (other, _) => panic!("without {left_out:?}: {other:?}"),
        }
        let left = server.raw().await.keys("*acl*").await;
        assert!(left_out.is_none() || left.is_empty(), "without {left_out:?}: {left:?}");
        assert!(!left.contains(&"app:acl".to_owned()), "{left:?}");
    }
}

async fn come_and_go(lock: impl RLock) -> Result<(), LockError> {
    lock.guard().await?.unlock().await.unwrap();
    Ok(())
}

#[tokio::test]
async fn a_multi_lock_of_one_name_needs_its_own_rights() {
    let multi = rights(MULTI);
    assert_eq!(multi.join(" "), MULTI, "the line has no more");
    let take =
        async |one: &Locks, other: &Locks| come_and_go(MultiLock::new([one.lock("acl"), other.lock("acl")])).await;
    is_refused_without(&rule(), &multi, take).await;
}

/// A vote that can't tell since when its server has lost nothing takes nothing.
#[tokio::test]
async fn a_red_lock_needs_its_own_rights() {
    let shared: Vec<_> = rule().into_iter().filter(|right| *right != OPTIONAL).collect();
    let take = async |one: &Locks, _: &Locks| come_and_go(RedLock::new(vec![one.lock("acl")]).fresh()).await;
    is_refused_without(&shared, &[rights(RED), vec![OPTIONAL]].concat(), take).await;
}

/// Without one of them nothing is written, by any of the kinds.
#[tokio::test]
async fn tokens_need_their_own_rights() {
    let every = [rule(), rights(READ_WRITE), rights(READ_WRITE_OPTIONAL), rights(FAIR), vec!["+incr"]].concat();
    let kinds: [fn(&Locks) -> Taken; 6] = [
        |locks| guarded(locks.fenced_lock("acl")),
        |locks| guarded(locks.mutex("acl").fenced()),
        |locks| guarded(locks.spin_lock("acl", lockson::Backoff::default()).fenced()),
        |locks| guarded(locks.fair_lock("acl").fenced()),
        |locks| guarded(locks.fair_mutex("acl").fenced()),
        |locks| guarded(locks.read_write_lock("acl").write().fenced()),
    ];
    for kind in kinds {
        let take = async |one: &Locks, _: &Locks| {
            let guard = kind(one).await?;
            a_callers_script_has_the_users_rights(&guard).await;
            guard.unlock().await.unwrap();
            Ok(())
        };
        is_refused_without(&every, &rights(FENCED), take).await;
    }
}

type Taken = BoxFuture<'static, Result<FencedGuard, LockError>>;

fn guarded<K: Fenceable>(lock: Lock<Fenced<K>>) -> Taken {
    async move { lock.guard().await }.boxed()
}

/// In the words of Redis 7.0, or of 7.2 and Valkey.
fn is_about_rights(text: &str) -> bool {
    text.contains("can't run") || text.contains("permission")
}

async fn a_callers_script_has_the_users_rights(guard: &FencedGuard) {
    let (incr, push) = ("return redis.call('INCR', KEYS[1])", "redis.call('LPUSH', KEYS[1], 'x')");
    assert_eq!(guard.run_if_held(incr, &["app:{app:acl}"], &[]).await, Ok(Reply::Int(1)));
    let refused = guard.run_if_held(push, &["app:{app:acl}"], &[]).await;
    assert!(matches!(&refused, Err(RunError::Script(text)) if is_about_rights(text)), "{refused:?}");
    let refused = guard.run_if_held(incr, &["other:{app:acl}"], &[]).await;
    let Err(RunError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })) = refused else {
        panic!("a key outside the rule: {refused:?}");
    };
}

/// Every script of both sides, with a writer that waits for readers, and a reader that waits for it.
async fn read_and_write(server: &Server) -> Outcome {
    let (one, other) = (settings().connect(&server.url()).await?, settings().connect(&server.url()).await?);
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

/// The work needs each of these rights beside the rule, and does without those that are optional.
async fn each_is_needed(needed: &[&'static str], optional: &[&'static str], work: impl AsyncFn(&Server) -> Outcome) {
    let (server, rule, all) = (Server::start(), rule(), [needed, optional].concat());
    for more in [needed, &all] {
        grant(&server, &[&rule, more].concat()).await;
        server.raw().await.must(&["ACL", "LOG", "RESET"]).await;
        work(&server).await.unwrap();
        server.raw().await.must(&["FLUSHALL"]).await;
    }
    nothing_was_refused(&server).await;
    for left_out in needed {
        let own: Vec<_> = all.iter().copied().filter(|right| right != left_out).collect();
        grant(&server, &[rule.clone(), own].concat()).await;
        let outcome = tokio::time::timeout(secs(10), work(&server)).await;
        assert!(!matches!(outcome, Ok(Ok(()))), "it does without {left_out}");
        server.raw().await.must(&["FLUSHALL"]).await;
    }
}

/// Some calls of scripts stand under pcall, and would be missed in silence. (The transport's own calls do not count.)
async fn nothing_was_refused(server: &Server) {
    let log = server.raw().await.must(&["ACL", "LOG"]).await.list();
    let refused: Vec<_> = log.iter().filter(|entry| entry.texts().contains(&"lua".to_owned())).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn a_read_write_lock_needs_its_own_rights() {
    each_is_needed(&rights(READ_WRITE), &rights(READ_WRITE_OPTIONAL), read_and_write).await;
}

#[tokio::test]
async fn a_plain_lock_needs_its_own_rights() {
    let work = async |server: &Server| {
        work_on(&server.url(), |locks| locks.plain_lock("acl")).await?;
        assert_eq!(server.raw().await.must(&["DBSIZE"]).await.int(), 0);
        Ok(())
    };
    each_is_needed(&rights(PLAIN), &rights(PLAIN_OPTIONAL), work).await;
}

#[tokio::test]
async fn a_prefix_outside_the_rule_is_refused() {
    let server = Server::start();
    grant(&server, &rule()).await;
    let error = settings().key_prefix("other:").connect(&server.url()).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::Refused(Refused::NoPermission(_))), "{error}");
}
