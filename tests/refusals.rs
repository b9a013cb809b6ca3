//! What the server or the user may not do, said by type before anything is written.

use support::prelude::*;
use tracing::Level;

/// The least that a user of locks needs, in the words of `ACL SETUSER`; the suite `acl` shows that all of it is needed.
const LEAST: &str =
    "~* &redisson_lock__channel:* +evalsha +eval +ping +subscribe +unsubscribe +publish +time +exists +hget \
                     +hset +hdel +hexists +hincrby +hscan +pexpire +pttl +del +unlink";
/// What a managed server may refuse: without it one warning.
const TOLD: &str = "+info";

/// A user of the shared server with these rights and no others.
struct User(String);

impl User {
    fn with(rules: &str) -> Self {
        let user = Self(unique("user"));
        user.set(&format!("reset on >hunter2 {rules}"));
        user
    }

    fn set(&self, rules: &str) {
        let words: Vec<&str> = ["ACL", "SETUSER", &self.0].into_iter().chain(rules.split_whitespace()).collect();
        Server::shared().control(&words);
    }

    async fn connect(&self) -> Result<Locks, ConnectError> {
        Locks::connect(&format!("redis://{}:hunter2@127.0.0.1:{}", self.0, Server::shared().port())).await
    }
}

async fn is_there(server: &Server, name: &str) -> bool {
    server.raw().await.exists(name).await
}

/// A wrong password, an unknown user and a missing password are one error; the password is in no text and no log.
#[tokio::test]
async fn refused_credentials_are_named_and_not_shown() {
    let (logs, _scope) = Logs::scoped();
    let server = Server::with(&[("requirepass", "opensesame")]);
    let place = format!("127.0.0.1:{}", server.port());
    let builder = Locks::builder;
    for (what, connected) in [
        ("none", builder().connect(&server.url()).await),
        ("wrong", builder().connect(&format!("redis://:hunter2@{place}")).await),
        ("wrong, with a user", builder().connect(&format!("redis://default:hunter2@{place}")).await),
        ("unknown user", builder().connect(&format!("redis://nobody:hunter2@{place}")).await),
        ("wrong, in the builder", builder().password("hunter2").connect(&server.url()).await),
    ] {
        let shown = format!("{connected:?} {}", connected.as_ref().map_err(ToString::to_string).unwrap_err());
        assert!(!shown.contains("hunter2"), "{what}: {shown}");
        assert_matches!(connected, Err(ConnectError::Refused(Refused::NotAuthenticated(_))), what);
    }
    let locks = builder().password("opensesame").connect(&format!("redis://:hunter2@{place}")).await.unwrap();
    assert!(locks.lock("a").try_lock().await.unwrap().is_acquired());
    let shown = format!("{locks:?} {:?} {:?}", Locks::builder().password("hunter2"), logs.lines());
    assert!(!shown.contains("hunter2") && !shown.contains("opensesame"), "{shown}");
}

/// A right that is taken away later: taking the lock names it where the server does, and leaves no key and no count.
#[tokio::test]
async fn a_right_lost_later_leaves_no_key() {
    for right in ["pexpire", "pttl", "hincrby", "hget", "time", "evalsha"] {
        let user = User::with(&format!("{LEAST} {TOLD}"));
        let (locks, name, held) = (user.connect().await.unwrap(), unique("lost"), unique("lost-inner"));
        let lock = locks.lock(&name);
        assert!(lock.try_lock().await.unwrap().is_acquired());
        lock.unlock().await.unwrap();
        let inner = locks.lock(&held);
        assert!(inner.acquire().lease(ms(5000)).await.unwrap().is_acquired());
        user.set(&format!("-{right}"));
        // Only a lock that is held is looked into.
        let refused = if right == "hget" { inner.try_lock().await } else { lock.try_lock().await };
        if ["pexpire", "hincrby", "evalsha"].contains(&right) {
            assert_matches!(
                refused,
                Err(LockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })),
                right
            );
        }
        assert_matches!(refused, Err(error @ LockError::Query(QueryError::Refused { .. })) if !error.may_hold(), right);
        assert!(!is_there(Server::shared(), &name).await, "-{right} left a key");
        let again = inner.acquire().lease(ms(60_000)).await;
        let mut raw = Server::shared().raw().await;
        let expected = if again.is_ok() { "2" } else { "1" };
        assert_eq!(raw.must(&["HVALS", &held]).await.texts().concat(), expected, "-{right}");
        assert!(raw.pttl(&held).await > 0, "-{right}");
        user.set(LEAST);
        while inner.unlock().await.is_ok() {}
        assert!(!raw.exists(&held).await, "-{right}: the count is not what the client says");
    }
}

/// Without the right to publish, or to the channel, an unlock still gives the lock back; a waiter finds out by itself.
#[tokio::test]
async fn an_unlock_needs_no_right_to_publish() {
    for rule in ["-publish", "resetchannels", "-publish -subscribe -pexpire"] {
        let user = User::with(&format!("{LEAST} {TOLD}"));
        let (locks, name) = (user.connect().await.unwrap(), unique("mute"));
        let guard = locks.lock(&name).guard().await.unwrap();
        let other = Server::shared().locks().await;
        let waiter = spawn_with(other.lock(&name), |lock| async move { lock.guard().await.unwrap() });
        eventually(ms(5000), "the waiter listens", || async { other.health().subscriptions == 1 }).await;
        user.set(rule);
        guard.unlock().await.unwrap_or_else(|error| panic!("{rule}: {error}"));
        patient("the lock", waiter).await.unwrap().unlock().await.unwrap();
        assert!(!is_there(Server::shared(), &name).await);
    }
}

/// Who may not hear of a semaphore hears of the locks that are waited for at once.
#[tokio::test]
async fn one_refused_channel_refuses_no_other() {
    let user = User::with("~* +@all &redisson_lock__channel:*");
    let (locks, other) = (user.connect().await.unwrap(), Server::shared().locks().await);
    let (names, unheard): (Vec<String>, _) = ((0..8).map(|_| unique("heard")).collect(), unique("unheard"));
    let mut guards = Vec::new();
    for name in &names {
        guards.push(other.lock(name).guard().await.unwrap());
    }
    assert!(other.semaphore(&unheard).try_set_permits(1).await.unwrap());
    assert!(other.semaphore(&unheard).acquire(1).await.unwrap().is_acquired());
    let stand = |name: &String| spawn_with(locks.lock(name), |lock| async move { lock.guard().await.unwrap() });
    let mut waiters: Vec<_> = names.iter().take(4).map(stand).collect();
    let taker = spawn_with(locks.semaphore(&unheard), |permits| async move { permits.acquire(1).await });
    waiters.extend(names.iter().skip(4).map(stand));
    eventually(ms(5000), "all that may be heard is listened to", || async {
        let heard = Server::shared().control(&["PUBSUB", "CHANNELS", "redisson_lock__channel:{heard*"]).texts();
        names.iter().all(|name| heard.contains(&format!("redisson_lock__channel:{{{name}}}")))
    })
    .await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    for waiter in waiters {
        patient("the lock", waiter).await.unwrap().unlock().await.unwrap();
    }
    other.semaphore(&unheard).release(1).await.unwrap();
    assert!(patient("the permit", taker).await.unwrap().unwrap().is_acquired());
}

/// A hand-over inside the process that the user has no right to any more is a release: nothing is lost, no key is left.
#[tokio::test]
async fn a_refused_hand_over_is_a_release() {
    for right in ["hset", "pexpire"] {
        let user = User::with(&format!("{LEAST} {TOLD}"));
        let (locks, name) = (user.connect().await.unwrap(), unique("heir"));
        let guard = locks.lock(&name).guard().await.unwrap();
        let waiter = spawn_with(locks.lock(&name), |lock| async move { lock.guard().await });
        // One poll puts it into the line.
        tokio::task::yield_now().await;
        user.set(&format!("-{right}"));
        guard.unlock().await.unwrap_or_else(|error| panic!("-{right}: {error}"));
        match (right, patient("an answer", waiter).await.unwrap()) {
            // Taking it anew needs no HSET.
            ("hset", Ok(guard)) => guard.unlock().await.unwrap(),
            ("pexpire", Err(LockError::Query(QueryError::Refused { .. }))) => {}
            other => panic!("{other:?}"),
        }
        assert!(!is_there(Server::shared(), &name).await, "-{right} left a key");
    }
}

/// Without the right to call scripts an unlock is an error that says what may be left.
#[tokio::test]
async fn an_unlock_without_scripts_says_so() {
    let user = User::with(&format!("{LEAST} {TOLD}"));
    let (locks, name) = (user.connect().await.unwrap(), unique("no-scripts"));
    let guard = locks.lock(&name).guard().await.unwrap();
    user.set("-evalsha -eval");
    let refused = guard.unlock().await.unwrap_err();
    assert!(refused.may_hold());
    assert_matches!(refused, UnlockError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. }));
    let mut raw = Server::shared().raw().await;
    assert!(raw.pttl(&name).await > 0, "it ends with its lease");
    raw.must(&["DEL", &name]).await;
}

/// A server that won't say INFO is used, with one warning.
#[tokio::test]
async fn a_server_without_info_is_one_warning() {
    let (logs, _scope) = Logs::scoped();
    let locks = User::with(LEAST).connect().await.unwrap();
    let lock = locks.lock(&unique("no-info"));
    assert!(lock.try_lock().await.unwrap().is_acquired());
    lock.unlock().await.unwrap();
    assert_eq!((logs.count(Level::WARN, ""), logs.count(Level::WARN, "does not say")), (1, 1), "{:?}", logs.lines());
}

/// A replica is refused at connect.
#[tokio::test]
async fn a_replica_is_refused() {
    let server = Server::with(&[("replicaof", "127.0.0.1 1")]);
    assert_eq!(Locks::connect(&server.url()).await.err(), Some(ConnectError::Refused(Refused::ReadOnly)));
}

/// A demoted primary: verbs are errors by type; a hold turns Uncertain, and is Held again with a primary in time.
#[tokio::test]
async fn a_demoted_primary_loses_nothing() {
    /// Renewed after 4 s; then 8 s are left, for a busy machine.
    const LEASE: Duration = secs(12);
    let server = Server::start();
    let builder = Locks::builder().watchdog_lease(LEASE).command_timeout(ms(500));
    let locks = builder.connect(&server.url()).await.unwrap();
    let guard = locks.lock("kept").guard().await.unwrap();
    locks.lock("given").lock().await.unwrap();
    server.control(&["REPLICAOF", "127.0.0.1", "1"]);
    let (taken, given) = (locks.lock("new").try_lock().await, locks.lock("given").unlock().await);
    assert_matches!(taken, Err(LockError::Query(QueryError::Refused { why: Refused::ReadOnly, .. })));
    assert_matches!(&given, Err(error) if error.may_hold());
    assert_matches!(given, Err(UnlockError::Query(QueryError::Refused { why: Refused::ReadOnly, .. })));
    eventually(LEASE, "a refused renewal", || async { guard.state() == HoldState::Uncertain }).await;
    server.control(&["REPLICAOF", "NO", "ONE"]);
    eventually(LEASE, "a renewal", || async { guard.state() == HoldState::Held }).await;
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert!(locks.lock("new").try_lock().await.unwrap().is_acquired());
    assert!(!is_there(&server, "kept").await);
}

/// Every policy that may drop a lock is refused, unless it is allowed; then it is one warning.
#[tokio::test]
async fn eviction_is_refused() {
    let (logs, _scope) = Logs::scoped();
    let server = Server::start();
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        server.control(&["CONFIG", "SET", "maxmemory-policy", policy]);
        assert_eq!(Locks::connect(&server.url()).await.err(), Some(ConnectError::Evicts(policy.to_owned())));
        logs.clear();
        let locks = Locks::builder().allow_eviction().connect(&server.url()).await.unwrap();
        assert!(locks.lock(policy).try_lock().await.unwrap().is_acquired());
        assert_eq!(logs.count(Level::WARN, policy), 1, "{:?}", logs.lines());
    }
}

/// A server that says an older version is refused.
#[tokio::test]
async fn an_old_server_is_refused() {
    let server = Server::shared();
    let info = server.control(&["INFO", "server"]).text();
    let line = info.lines().find(|line| line.starts_with("redis_version:")).unwrap();
    for old in ["6", "5"] {
        let proxy = Proxy::start(server.port());
        let (_, rest) = line.split_once('.').unwrap();
        proxy.replace(line, format!("redis_version:{old}.{rest}"));
        let refused = Locks::connect(&proxy.url()).await;
        assert_matches!(refused, Err(ConnectError::TooOld { found }) if found.starts_with(old));
    }
}

/// Servers before 7.0 have no `redis.acl_check_cmd`: the preflight must run there to find their version.
#[tokio::test]
async fn the_preflight_runs_on_an_old_server() {
    let text = concat!(
        "local redis = {call = redis.call, pcall = redis.pcall}\n",
        include_str!("../lua/begin.lua"),
        include_str!("../lua/now.lua"),
        include_str!("../lua/announce.lua"),
        include_str!("../lua/preflight.lua")
    );
    let mut raw = Server::shared().raw().await;
    let args = ["EVAL", text, "1", "lockson:preflight", "n", "9999999999999", "PUBLISH", "channel"];
    let reply = raw.command(&args).await.unwrap().list();
    assert!(reply[4].text().contains("redis_version"), "{reply:?}");
}

/// What a URL says wrong, before any connection is made; and no password is in the error.
#[tokio::test]
async fn bad_urls_are_refused() {
    for url in [
        "localhost:6379",
        "redis://",
        "redis://h:0",
        "redis://h:x",
        "redis://h/x",
        "redis://h/300",
        "redis://::1",
        "redis://h?db=1",
        "redis://%zz@h",
        "redis+unix://rel/path",
        "redis+unix:///p?x=1",
        "redis://[::1",
        "redis://u:hunter2@",
        "redis://u:hunter2@h:x",
        "redis://u:hunter2@h/hunter2",
    ] {
        let is_discreet = |error: &ConnectError| !format!("{error} {error:?}").contains("hunter2");
        assert_matches!(Locks::connect(url).await, Err(error @ ConnectError::Url(_)) if is_discreet(&error), url);
    }
    for url in ["memcached://h", "redis-socket:///p", "hunter2://u:hunter2@h"] {
        assert_eq!(Locks::connect(url).await.err(), Some(ConnectError::Scheme), "{url}");
    }
}

/// Each setting that is out of its range is named, and nothing is connected.
#[tokio::test]
async fn bad_settings_are_refused_by_name() {
    type Change = fn(Builder) -> Builder;
    let year = secs(366 * 24 * 60 * 60);
    let refused = |builder: Builder| match EmbeddedServer::new().connect_with(builder) {
        Err(ConnectError::Setting { setting, .. }) => Some(setting),
        other => other.map(|_| None).unwrap(),
    };
    let bad: [(&str, Change); 12] = [
        ("command_timeout", |builder| builder.command_timeout(ms(9))),
        ("watchdog_lease", |builder| builder.watchdog_lease(ms(2999))),
        ("watchdog_lease", |builder| builder.watchdog_lease(ms(900)).command_timeout(ms(50))),
        ("wait_cap", |builder| builder.wait_cap(ms(0))),
        ("connect_timeout", |builder| builder.connect_timeout(ms(9))),
        ("refresh_interval", |builder| builder.refresh_interval(ms(99))),
        ("max_hold", |builder| builder.max_hold(ms(99))),
        ("max_lease", |builder| builder.max_lease(ms(29_999))),
        ("max_holds", |builder| builder.max_holds(0)),
        ("max_name_len", |builder| builder.max_name_len(0)),
        ("label", |builder| builder.label("")),
        ("key_prefix", |builder| builder.key_prefix("x".repeat(512))),
    ];
    for (setting, change) in bad {
        assert_eq!(refused(change(Locks::builder())), Some(setting));
    }
    assert_eq!(refused(Locks::builder().outage_limit(year * 10)), Some("outage_limit"));
    for label in ["a:b", "a\nb", &"x".repeat(129)] {
        assert_eq!(refused(Locks::builder().label(label)), Some("label"), "{label:?}");
    }
    for prefix in ["a\nb:", "a}b{", "lockson:"] {
        assert_eq!(refused(Locks::builder().key_prefix(prefix)), Some("key_prefix"), "{prefix:?}");
    }
    for good in [Locks::builder(), Locks::builder().max_lease(ms(30_000)), Locks::builder().key_prefix("{app}:")] {
        assert_eq!(refused(good), None);
    }
}

/// Schemes that are unknown are refused by type, before any connection is made.
#[tokio::test]
async fn schemes_are_refused() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = nobody.local_addr().unwrap();
    for scheme in ["http", "redis+tls", "REDIS", "redis-x", "redis+cluster"] {
        assert_eq!(Locks::connect(&format!("{scheme}://{place}")).await.err(), Some(ConnectError::Scheme));
    }
    nobody.set_nonblocking(true).unwrap();
    assert!(nobody.accept().is_err(), "there was a connection");
}

/// A port where nobody listens, and a socket that is not there.
#[tokio::test]
async fn nobody_there_is_unreachable() {
    // Nobody listens at port 1.
    for url in ["redis://127.0.0.1:1", "redis+unix:///nowhere/redis.sock"] {
        let refused = patient("an error", Locks::connect(url)).await;
        assert_matches!(refused, Err(ConnectError::Unreachable(why)) if !why.is_empty(), url);
    }
}

/// A unix socket, and databases by number, in every form.
#[tokio::test]
async fn sockets_and_databases_work() {
    let server = Server::unix();
    let socket = format!("redis+unix://{}", server.socket().display());
    for (database, url, builder) in [
        ("0", socket.clone(), Locks::builder()),
        ("3", format!("{socket}?db=3"), Locks::builder()),
        ("5", format!("{}/5", server.url()), Locks::builder()),
        ("7", format!("{}/5", server.url()), Locks::builder().database(7)),
    ] {
        let locks = builder.connect(&url).await.unwrap();
        let lock = locks.lock("placed");
        assert!(lock.try_lock().await.unwrap().is_acquired());
        let mut raw = server.raw().await;
        for other in ["0", "3", "5", "7"] {
            raw.must(&["SELECT", other]).await;
            assert_eq!(raw.exists("placed").await, other == database, "{url}: database {other}");
        }
        lock.unlock().await.unwrap();
    }
}
