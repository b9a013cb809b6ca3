//! The users of docs/lockson.acl, on a server that was started with it.

use lockson::What;
use support::prelude::*;

use super::fair::fair_work;
use super::permits::permits_work;
use super::*;

const FILE: &str = "docs/lockson.acl";

/// Beside the passwords that are to be changed, each user has one that the tests know.
fn server() -> Server {
    let server = Server::with(&[("aclfile", support::root().join(FILE).to_str().unwrap())]);
    for user in ["locker", "locks-only", "viewer"] {
        server.control(&["ACL", "SETUSER", user, ">password"]);
    }
    server
}

/// What the docs have for a client's user, of whatever kind and topology.
#[test]
fn the_first_user_has_each_right_of_the_docs() {
    let (docs, file) = (support::files::read("docs/GUARANTEES.md"), support::files::read(FILE));
    let section = docs.split("## Rights on the server").nth(1).unwrap();
    let blocks = section.split("```").skip(1).step_by(2).filter(|block| !block.contains("+sentinel"));
    let named = blocks.flat_map(str::split_whitespace).filter(|word| word.starts_with(['+', '~', '&']));
    let has: Vec<&str> = file.lines().find(|line| line.starts_with("user locker ")).unwrap().split(' ').collect();
    let is_among = |word: &str, right: &str| {
        word == right || word.strip_suffix('*').is_some_and(|start| word.len() > 2 && right.starts_with(start))
    };
    let named: BTreeSet<&str> = named.collect();
    let missing: Vec<_> = named.iter().filter(|right| !has.iter().any(|word| is_among(word, right))).collect();
    assert!(named.len() > 50 && missing.is_empty(), "{} named, {FILE} lacks {missing:?}", named.len());
}

/// And no more than these: outside of its prefix it is refused.
#[tokio::test]
async fn the_first_user_may_use_every_kind() {
    let server = server();
    let url = server.url();
    server.control(&["ACL", "LOG", "RESET"]);
    work(&url).await.unwrap();
    work_on(&url, |locks| locks.plain_lock("acl")).await.unwrap();
    work_on(&url, |locks| locks.fenced_lock("acl")).await.unwrap();
    fair_work(&url).await.unwrap();
    read_and_write(&server).await.unwrap();
    for kind in ["semaphore", "permit_semaphore", "latch"] {
        permits_work(&server, kind).await.unwrap();
        server.control(&["FLUSHALL"]);
    }
    let (one, other) =
        (settings().presence(true).connect(&url).await.unwrap(), settings().connect(&url).await.unwrap());
    come_and_go(MultiLock::new([one.lock("acl"), other.lock("acl")])).await.unwrap();
    come_and_go(RedLock::new(vec![one.lock("acl")]).fresh()).await.unwrap();
    let said = async || one.admin().client(one.client_id()).await.unwrap().is_some();
    eventually(secs(5), "it says who it is", said).await;
    nothing_was_refused(&server).await;
    let error = settings().key_prefix("other:").connect(&url).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::Refused(Refused::NoPermission(_))), "{error}");
}

#[tokio::test]
async fn the_second_user_may_use_locks_only() {
    let server = server();
    let locks = settings().username("locks-only").connect(&server.url()).await.unwrap();
    come_and_go(locks.lock("acl")).await.unwrap();
    come_and_go(locks.mutex("acl")).await.unwrap();
    come_and_go(locks.spin_lock("acl", lockson::Backoff::default())).await.unwrap();
    nothing_was_refused(&server).await;
    for refused in
        [locks.fenced_lock("acl").try_lock().await.map(drop), locks.fair_lock("acl").try_lock().await.map(drop)]
    {
        let is_told =
            matches!(refused, Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })));
        assert!(is_told, "{refused:?}");
    }
}

/// For `lockson ls`, `show`, `watch`, `top` and `doctor`, with a prefix or without.
#[tokio::test]
async fn the_third_user_sees_and_changes_nothing() {
    let server = server();
    let locks = settings().connect(&server.url()).await.unwrap();
    let guard = locks.lock("acl").guard().await.unwrap();
    let _reads = locks.read_write_lock("read").read().guard().await.unwrap();
    let _fair = locks.fair_lock("fair").guard().await.unwrap();
    let _waits =
        spawn_with(locks.fair_lock("fair").owned_by(&Owner::unique()), |fair| async move { fair.guard().await });
    locks.permit_semaphore("permits").try_set_permits(2).await.unwrap();
    let _permit = locks.permit_semaphore("permits").guard(1).await.unwrap();
    server.control(&["ACL", "LOG", "RESET"]);
    for prefix in ["", "app:"] {
        let viewer = settings().username("viewer").key_prefix(prefix).connect(&server.url()).await.unwrap();
        let name = |name: &str| format!("{}{name}", if prefix.is_empty() { "app:" } else { "" });
        let admin = viewer.admin();
        let queued = async || admin.describe(&name("fair")).await.unwrap().waiting == 1;
        eventually(secs(5), "the fair lock's waiter", queued).await;
        let (mut listing, mut seen) = (admin.list("*"), BTreeSet::new());
        while let Some(page) = listing.next().await.unwrap() {
            seen.extend(page.into_iter().map(|listed| (listed.name, listed.what)));
        }
        let expected =
            [("acl", What::Lock), ("fair", What::Fair), ("permits", What::PermitSemaphore), ("read", What::Read)];
        assert_eq!((seen, listing.hidden()), (expected.map(|(it, what)| (name(it), what)).into(), 0));
        assert_eq!(admin.describe(&name("read")).await.unwrap().holders.len(), 1);
        assert_eq!(admin.describe(&name("permits")).await.unwrap().permits.len(), 1);
        assert!(!admin.servers().await.unwrap()[0].info.is_empty());
        assert_eq!(admin.client(locks.client_id()).await.unwrap(), None, "it was made without `presence`");
        nothing_was_refused(&server).await;
        let holder = admin.describe(&name("acl")).await.unwrap().holders[0].field().to_owned();
        let forced = admin.force(&name("acl"), &holder).await;
        assert!(matches!(forced, Err(QueryError::Refused { why: Refused::NoPermission(_), .. })), "{forced:?}");
        server.control(&["ACL", "LOG", "RESET"]);
        let taken = viewer.lock(&name("other")).try_lock().await;
        assert!(taken.is_err(), "{taken:?}");
        server.control(&["ACL", "LOG", "RESET"]);
    }
    guard.verify().await.unwrap();
}
