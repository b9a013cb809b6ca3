//! What `Locks::admin` lists, describes and ends by force: every kind, lockson's and Redisson's, on each topology.

use std::collections::BTreeMap;

use lockson::{Description, Forced, Listed, Waiter, What};
use support::prelude::*;
use support::server::program;
use support::{Deployment, Topology};

/// A holder's field as Redisson writes it.
const JAVA: &str = "8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:71";

/// Everything under names like this.
async fn all(locks: &Locks, pattern: &str) -> BTreeMap<String, Listed> {
    let (mut listing, mut found) = (locks.admin().list(pattern), BTreeMap::new());
    while let Some(page) = listing.next().await.unwrap() {
        found.extend(page.into_iter().map(|listed| (listed.name.clone(), listed)));
    }
    found
}

/// Their names behind the first part, with what each is.
async fn kinds(locks: &Locks, of: &str) -> Vec<(String, String)> {
    let found = all(locks, &format!("{of}:*")).await;
    found.into_values().map(|listed| (listed.name[of.len() + 1..].to_owned(), listed.what.to_string())).collect()
}

async fn describe(locks: &Locks, name: &str) -> Description {
    locks.admin().describe(name).await.unwrap()
}

/// Holds one of each kind, of this name.
async fn one_of_each(locks: &Locks, name: impl Fn(&str) -> String) -> Vec<Box<dyn Send>> {
    let mut held: Vec<Box<dyn Send>> = vec![
        Box::new(locks.lock(&name("lock")).guard().await.unwrap()),
        Box::new(locks.lock(&name("lock")).guard().await.unwrap()),
        Box::new(locks.fair_lock(&name("fair")).guard().await.unwrap()),
        Box::new(locks.read_write_lock(&name("read")).read().guard().await.unwrap()),
        Box::new(locks.read_write_lock(&name("write")).write().guard().await.unwrap()),
        Box::new(locks.plain_lock(&name("plain")).guard().await.unwrap()),
    ];
    locks.semaphore(&name("semaphore")).try_set_permits(3).await.unwrap();
    held.push(Box::new(locks.semaphore(&name("semaphore")).guard(1).await.unwrap()));
    locks.permit_semaphore(&name("permits")).try_set_permits(3).await.unwrap();
    held.push(Box::new(locks.permit_semaphore(&name("permits")).guard(2).await.unwrap()));
    locks.latch(&name("latch")).try_set_count(2).await.unwrap();
    held
}

/// Holds one of each kind, has somebody wait for some of them, and looks at it by another client.
async fn look_at_all(locks: Locks, other: Locks, listens: bool) {
    let of = unique("admin");
    let name = |kind: &str| format!("{of}:{kind}");
    let owner = Owner::named("boss").unwrap();
    let held = owner.clone().scope(one_of_each(&locks, name)).await;
    let fenced = locks.fenced_lock(&name("fenced")).guard().await.unwrap();
    let waiters = vec![
        spawn_with(other.fair_lock(&name("fair")), |lock| async move { drop(lock.guard().await) }),
        spawn_with(other.read_write_lock(&name("read")).write(), |lock| async move { drop(lock.guard().await) }),
        spawn_with(other.latch(&name("latch")), |latch| async move { drop(latch.wait().await) }),
    ];
    for kind in ["fair", "read"] {
        eventually(secs(20), kind, async || describe(&other, &name(kind)).await.waiting == 1).await;
    }
    let expected = [
        ("fair", "fair"),
        ("fenced", "lock"),
        ("latch", "number"),
        ("lock", "lock"),
        ("permits", "permits"),
        ("plain", "plain"),
        ("read", "read"),
        ("semaphore", "semaphore"),
        ("write", "write"),
    ];
    let expected = expected.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    assert_eq!(kinds(&other, &of).await, expected);
    let listed = &all(&other, &name("lock")).await[&name("lock")];
    let holder = listed.holder.clone().unwrap();
    assert_eq!((holder.client.as_str(), &holder.owner, holder.count), (locks.client_id(), &owner, 2));
    assert!(listed.ttl.is_some_and(|ttl| ttl <= secs(30) && ttl > secs(10)));

    for kind in ["lock", "fair", "read", "write"] {
        let found = describe(&other, &name(kind)).await;
        let [holder] = &found.holders[..] else { panic!("{found:?}") };
        let count = if kind == "lock" { 2 } else { 1 };
        assert_eq!((&holder.owner, holder.count, found.held), (&owner, count, 1), "{kind}");
        assert!(holder.ttl.is_some_and(|ttl| ttl <= secs(30) && ttl > secs(10)), "{kind}: {found:?}");
        let waiters: Vec<&Waiter> = found.waiters.iter().filter(|at| at.field.starts_with(other.client_id())).collect();
        assert_eq!(waiters.len(), usize::from(kind == "fair" || kind == "read"), "{kind}: {found:?}");
    }
    let found = describe(&other, &name("fenced")).await;
    assert_eq!((found.what, found.token), (What::Lock, Some(fenced.token())));
    let found = describe(&other, &name("permits")).await;
    assert_eq!(
        (found.what, found.number, found.taken, found.permits.len()),
        (What::PermitSemaphore, Some(1), Some(2), 2)
    );
    let found = describe(&other, &name("semaphore")).await;
    assert_eq!((found.what, found.number, found.taken), (What::Semaphore, Some(2), None));
    let found = describe(&other, &name("plain")).await;
    assert_eq!((found.what, found.token_of_hold.map(|token| token.len())), (What::Plain, Some(32)));
    // Only who listens tells that it is a latch.
    let latch = describe(&other, &name("latch")).await;
    let expected = if listens { (What::Latch, Some(1)) } else { (What::Number, None) };
    assert_eq!((latch.what, latch.listening, latch.number), (expected.0, expected.1, Some(2)));
    assert_eq!(describe(&other, &name("nothing")).await.what, What::Free);

    drop((held, fenced));
    locks.latch(&name("latch")).delete().await.unwrap();
    patient_all("the waiters", waiters).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_seen_on_each_topology() {
    for topology in [Topology::Single, Topology::Sentinel, Topology::Cluster] {
        let url = Deployment::shared(topology, &program()).url();
        look_at_all(Locks::connect(&url).await.unwrap(), Locks::connect(&url).await.unwrap(), true).await;
    }
    let server = EmbeddedServer::new();
    look_at_all(server.connect(), server.connect(), false).await;
}

/// What Redisson writes, as measured; tests/interop runs the jar.
#[tokio::test]
async fn redissons_are_seen() {
    let (server, of) = (Server::shared(), unique("redisson"));
    let (mut raw, locks) = (server.raw().await, server.locks().await);
    let lock = format!("{of}:lock");
    raw.must(&["HSET", &lock, JAVA, "2"]).await;
    raw.must(&["PEXPIRE", &lock, "30000"]).await;
    let fair = format!("{of}:fair");
    raw.must(&["HSET", &fair, JAVA, "1"]).await;
    raw.must(&["PEXPIRE", &fair, "30000"]).await;
    let waiter = JAVA.replace(":71", ":72");
    raw.must(&["RPUSH", &format!("redisson_lock_queue:{{{fair}}}"), &waiter]).await;
    let write = format!("{of}:write");
    raw.must(&["HSET", &write, "mode", "write", &format!("{JAVA}:write"), "1", JAVA, "1"]).await;
    raw.must(&["PEXPIRE", &write, "30000"]).await;
    raw.must(&["SET", &format!("{{{write}}}:{JAVA}:rwlock_timeout:1"), "1", "PX", "20000"]).await;
    raw.must(&["SET", &format!("{of}:semaphore"), "-4"]).await;
    let permits = format!("{of}:permits");
    raw.must(&["SET", &permits, "1"]).await;
    raw.must(&["ZADD", &format!("{{{permits}}}:timeout"), "922337203685477", "0123456789abcdef"]).await;
    let expected =
        [("fair", "fair"), ("lock", "lock"), ("permits", "permits"), ("semaphore", "number"), ("write", "write")];
    assert_eq!(kinds(&locks, &of).await, expected.map(|(name, kind)| (name.to_owned(), kind.to_owned())));

    let found = describe(&locks, &lock).await;
    assert_eq!((found.holders[0].field(), found.holders[0].count), (JAVA, 2));
    let found = describe(&locks, &fair).await;
    assert_eq!(found.waiters.iter().map(|at| (&*at.field, at.silent)).collect::<Vec<_>>(), [(&*waiter, None)]);
    let found = describe(&locks, &write).await;
    let mut leases: Vec<_> = found.holders.iter().map(|holder| (holder.field().len(), holder.ttl.unwrap())).collect();
    leases.sort();
    assert!(leases.len() == 2 && leases[0].1 <= secs(20) && leases[1].1 > secs(20), "{leases:?}");
    assert_eq!(describe(&locks, &format!("{of}:semaphore")).await.number, Some(-4));
    let found = describe(&locks, &permits).await;
    assert_eq!(found.permits[0].id.to_string(), "30313233343536373839616263646566");

    // The writer's hold ends, its nested read does not.
    let writer = format!("{JAVA}:write");
    assert_eq!(locks.admin().force(&write, &writer).await, Ok(Forced::Ended));
    let mut left: Vec<String> = raw.hgetall(&write).await.into_iter().map(|(field, _)| field).collect();
    left.sort();
    assert_eq!(left, [JAVA, "mode"]);
    assert_eq!(locks.admin().force(&fair, JAVA).await, Ok(Forced::Ended));
    // Nobody has the fair lock, and somebody waits.
    let listed = &all(&locks, &fair).await[&fair];
    assert_eq!((listed.what, listed.waiting, &listed.holder), (What::Fair, 1, &None));
}

#[tokio::test]
async fn what_is_not_ours_is_said_and_not_touched() {
    let (server, of) = (Server::with(&[("enable-debug-command", "yes")]), "foreign");
    let (mut raw, locks) = (server.raw().await, server.locks().await);
    let big = "x".repeat(100_000);
    let foreign: [&[&str]; 10] = [
        &["HSET", "foreign:hash", "user:1", "5"],
        &["HSET", "foreign:mode", "mode", "write", "file", "a"],
        &["HSET", "foreign:two", JAVA, "1", "more", "2"],
        &["HSET", "foreign:value", JAVA, &big],
        &["SET", "foreign:text", &big],
        &["SET", "foreign:cached", "17", "PX", "60000"],
        &["SET", "foreign:token", "tokenless", "PX", "60000"],
        &["RPUSH", "foreign:list", "a"],
        &["ZADD", "foreign:zset", "1", "a"],
        &["RPUSH", "redisson_lock_queue:{foreign:queue}", "nobody"],
    ];
    for command in foreign {
        raw.must(command).await;
    }
    assert_eq!(kinds(&locks, of).await, []);
    let types = ["hash", "hash", "hash", "hash", "string", "string", "string", "list", "zset"];
    let before = raw.must(&["DEBUG", "DIGEST"]).await;
    for (command, kind) in foreign.iter().zip(types) {
        let found = describe(&locks, command[1]).await;
        match found.what {
            What::Foreign => assert_eq!(found.foreign.as_deref(), Some(kind), "{}", command[1]),
            // A number, which the list leaves out for its lease.
            what => assert_eq!((what, command[1]), (What::Number, "foreign:cached")),
        }
        assert_matches!(locks.admin().force(command[1], JAVA).await, Err(QueryError::WrongType { .. }));
    }
    assert_eq!(raw.must(&["DEBUG", "DIGEST"]).await, before);
    assert_matches!(locks.admin().describe("lockson:x").await, Err(QueryError::Name(NameError::Reserved(_))));
}

#[tokio::test]
async fn a_hold_that_changed_hands_is_not_ended() {
    let server = Server::shared();
    let (ours, theirs, admin) = (server.locks().await, server.locks().await, server.locks().await.admin());
    for plain in [false, true] {
        let name = unique("hands");
        let lock = |locks: &Locks| -> Arc<dyn RLock> {
            if plain {
                locks.plain_lock(&name).into()
            } else {
                locks.lock(&name).into()
            }
        };
        let seen = async || {
            let found = admin.describe(&name).await.unwrap();
            let of_lock = found.holders.first().map(|holder| holder.field().to_owned());
            of_lock.or(found.token_of_hold)
        };
        let first = lock(&ours).guard().await.unwrap();
        let old = seen().await.unwrap();
        first.unlock().await.unwrap();
        assert_eq!(admin.force(&name, &old).await, Ok(Forced::Changed), "it is free");
        let second = lock(&theirs).guard().await.unwrap();
        assert_eq!(admin.force(&name, &old).await, Ok(Forced::Changed));
        assert_eq!(admin.force(&name, "").await, Ok(Forced::Changed), "nobody is no holder");
        second.verify().await.unwrap();
        let waiter = spawn_with(lock(&ours), |lock| async move { lock.guard().await.unwrap() });
        eventually(secs(20), "a waiter", async || admin.describe(&name).await.unwrap().listening > Some(0)).await;
        assert_eq!(admin.force(&name, &seen().await.unwrap()).await, Ok(Forced::Ended));
        let third = patient("the waiter is told", waiter).await.unwrap();
        assert!(second.verify().await.is_err(), "its holder learns of it");
        third.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn a_permit_is_ended_by_its_id() {
    let (locks, name) = (Server::shared().locks().await, unique("permit"));
    let semaphore = locks.permit_semaphore(&name);
    semaphore.try_set_permits(2).await.unwrap();
    let guard = semaphore.guard(2).await.unwrap();
    let found = describe(&locks, &name).await;
    let id = found.permits[0].id.to_string();
    assert_eq!(locks.admin().force(&name, &id).await, Ok(Forced::Ended));
    assert_eq!(locks.admin().force(&name, &id).await, Ok(Forced::Changed));
    assert_eq!(locks.admin().force(&name, "nobody").await, Ok(Forced::Changed));
    assert_eq!(semaphore.available_permits().await, Ok(1));
    drop(guard);
}

#[tokio::test]
async fn names_are_without_the_prefix_and_like_the_pattern() {
    let server = Server::start();
    let prefixed = Locks::builder().key_prefix("app[1]*:").connect(&server.url()).await.unwrap();
    let names = ["orders:1", "orders:2", "other", "xorders:1x", "{eu}:orders:1", "or*ers:1", "größe"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(prefixed.lock(name).guard().await.unwrap());
        guards.push(server.locks().await.lock(name).guard().await.unwrap());
    }
    for (pattern, expected) in [
        ("*", &["größe", "or*ers:1", "orders:1", "orders:2", "other", "xorders:1x", "{eu}:orders:1"][..]),
        ("orders:*", &["orders:1", "orders:2"]),
        ("orders:[^1]", &["orders:2"]),
        ("or\\*ers:?", &["or*ers:1"]),
        ("gr??e", &["größe"]),
        ("{eu}*", &["{eu}:orders:1"]),
        ("orders:[1", &[]),
        ("orders:\\", &[]),
    ] {
        let found: Vec<String> = all(&prefixed, pattern).await.into_keys().collect();
        assert_eq!(found, expected, "{pattern}");
    }
    assert_eq!(describe(&prefixed, "orders:1").await.holders[0].client, prefixed.client_id());
    drop(guards);
}

/// As with SCAN, however many there are: each that is there all the time is seen.
#[tokio::test]
async fn many_keys_come_in_pages() {
    let (server, embedded) = (Server::start(), EmbeddedServer::new());
    for locks in [server.locks().await, embedded.connect()] {
        let mut guards = Vec::new();
        for number in 0..1000 {
            guards.push(locks.mutex(&format!("many:{number}")).owned_by(&Owner::unique()).guard().await.unwrap());
        }
        let (mut listing, mut names, mut pages) = (locks.admin().list("many:*"), Vec::new(), 0);
        while let Some(page) = listing.next().await.unwrap() {
            assert!(page.len() < 200, "{}", page.len());
            pages += 1;
            names.extend(page.into_iter().map(|listed| listed.name));
        }
        assert!(pages >= 5 && listing.scanned() >= 1000 && listing.hidden() == 0, "{listing:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
        assert_eq!(listing.next().await.unwrap(), None, "it stays at its end");
    }
}

/// The answer and the work are bounded.
#[tokio::test]
async fn many_readers_and_waiters_are_counted_and_some_are_shown() {
    let (server, name) = (Server::start(), "crowd");
    let (mut raw, locks) = (server.raw().await, server.locks().await);
    raw.must(&["HSET", name, "mode", "read"]).await;
    raw.must(&[
        "EVAL",
        "for i = 1, 100000 do local field = string.format('%s%06d', ARGV[1], i)
        redis.call('HSET', KEYS[1], field, '1')
        redis.call('SET', '{crowd}:' .. field .. ':rwlock_timeout:1', '1', 'PX', 60000) end
        redis.call('PEXPIRE', KEYS[1], 60000)
        for i = 1, 100000 do redis.call('RPUSH', 'redisson_lock_queue:{fair}', ARGV[1] .. i) end",
        "1",
        name,
        JAVA,
    ])
    .await;
    let found = describe(&locks, name).await;
    assert_eq!((found.what, found.held), (What::Read, 100_000));
    assert!((50..=200).contains(&found.holders.len()), "{}", found.holders.len());
    let found = describe(&locks, "fair").await;
    assert_eq!((found.what, found.waiting, found.waiters.len()), (What::Fair, 100_000, 100));
    let listed = all(&locks, "*").await;
    assert_eq!((listed[name].holders, listed["fair"].waiting), (100_000, 100_000));
}

/// A user that may read some keys only.
#[tokio::test]
async fn what_may_not_be_read_is_counted() {
    let server = Server::start();
    let locks = server.locks().await;
    let _guards = (locks.lock("mine:1").guard().await.unwrap(), locks.lock("other:1").guard().await.unwrap());
    let rights = "ACL SETUSER viewer on >pw ~mine:* ~{mine:* ~lockson:* ~redisson_* &* +@all";
    server.control(&rights.split(' ').collect::<Vec<_>>());
    let viewer = Locks::builder().username("viewer").password("pw").connect(&server.url()).await.unwrap();
    let (mut listing, mut names) = (viewer.admin().list("*"), Vec::new());
    while let Some(page) = listing.next().await.unwrap() {
        names.extend(page.into_iter().map(|listed| listed.name));
    }
    assert_eq!((names, listing.hidden()), (vec!["mine:1".to_owned()], 1));
}

/// What each kind calls, as `ServerReport::lacks` names the kinds.
const CALLS: [(&str, &str); 9] = [
    ("lock", "HGET HSET HINCRBY HDEL HEXISTS HSCAN EXISTS PTTL PEXPIRE DEL UNLINK"),
    ("fenced", "GET SET"),
    ("read/write", "HLEN HGETALL SET ZADD ZREM ZCOUNT ZRANGE ZSCORE"),
    ("fair", "HMGET LINDEX LLEN LPOP LPOS LRANGE LREM RPUSH ZADD ZCARD ZINCRBY ZRANGE ZREM ZSCORE"),
    ("plain", "GET SET"),
    ("semaphore", "DECRBY GET INCRBY SET"),
    ("permits", "DECRBY GET INCRBY SET ZADD ZCARD ZCOUNT ZMSCORE ZRANGE ZREM ZREMRANGEBYRANK"),
    ("latch", "DECRBY GET SET"),
    ("admin", "SCAN TYPE STRLEN HSTRLEN HRANDFIELD HLEN ZRANGEBYSCORE"),
];

/// Of all kinds, of some, and where it may not even say what it is.
#[tokio::test]
async fn a_server_says_what_it_is_and_which_rights_are_missing() {
    let server = Server::start();
    let may = |rights: &[String]| {
        let user = "ACL SETUSER clerk on >pw ~* &* +@all".split(' ').map(str::to_owned);
        let words: Vec<String> = user.chain(rights.iter().map(|right| format!("-{right}"))).collect();
        server.control(&words.iter().map(String::as_str).collect::<Vec<_>>());
    };
    may(&[]);
    let clerk = Locks::builder().username("clerk").password("pw").connect(&server.url()).await.unwrap();
    let report = async || clerk.admin().servers().await.unwrap().pop().unwrap();
    let (well, raw) = (report().await, server.raw().await.must(&["INFO"]).await.text());
    assert_eq!((well.address, well.lacks), (format!("127.0.0.1:{}", server.port()), BTreeMap::new()));
    assert!(well.clock_ahead.abs() < 5_000, "{}", well.clock_ahead);
    let setting = |name: &str| well.settings.get(name).map(String::as_str);
    assert_eq!((setting("appendfsync"), setting("timeout")), (Some("everysec"), Some("0")), "{:?}", well.settings);
    for (key, section) in ["run_id", "maxclients", "maxmemory_policy", "aof_enabled", "evicted_keys", "role"]
        .iter()
        .zip(["server", "clients", "memory", "persistence", "stats", "replication"])
    {
        let line = well.info.get(*key).map(|value| format!("{key}:{value}"));
        assert!(line.is_some_and(|line| raw.contains(&line)), "{key} of {section}");
    }
    let words = |commands: &str| commands.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let all: BTreeMap<String, Vec<String>> =
        CALLS.map(|(kind, commands)| (kind.to_owned(), words(commands))).into_iter().collect();
    may(&all.values().flatten().cloned().collect::<Vec<_>>());
    assert_eq!(report().await.lacks, all);
    may(&["GET", "INFO", "CONFIG"].map(str::to_owned));
    let without = report().await;
    let lacks = ["fenced", "latch", "permits", "plain", "semaphore"].map(|kind| (kind.to_owned(), words("GET")));
    assert_eq!((without.info, without.lacks), (BTreeMap::new(), lacks.into()));
    assert_eq!(without.settings, BTreeMap::new(), "who may not ask");
}

/// Also behind a connection that was cut; and who may not say so may lock all the same.
#[tokio::test]
async fn connections_say_whose_they_are() {
    let server = Server::start();
    let locks = Locks::builder().label("tills 4ü").connect(&server.url()).await.unwrap();
    let (_, uuid) = locks.client_id().split_at("tills 4ü-".len());
    let name = format!("name=lockson:tills-4--{uuid}");
    let named = || {
        let list = server.control(&["CLIENT", "LIST"]).text();
        list.lines().filter(|client| client.split(' ').any(|word| word == name)).count()
    };
    eventually(secs(20), "two are named", async || named() == 2).await;
    for kind in ["normal", "pubsub"] {
        server.control(&["CLIENT", "KILL", "TYPE", kind]);
    }
    eventually(secs(20), "they are named anew", async || named() == 2).await;
    let infos = server.control(&["CLIENT", "LIST"]).text();
    assert!(!infos.contains("lib-name=") || infos.contains("lib-name=lockson "), "{infos}");
    server.control(&["ACL", "SETUSER", "mute", "on", ">pw", "~*", "&*", "+@all", "-client"]);
    let mute = Locks::builder().username("mute").password("pw").connect(&server.url()).await.unwrap();
    mute.lock("muted").guard().await.unwrap().unlock().await.unwrap();
}
