//! Users and passwords that are asked for at each connection: they rotate, and whoever is asked may have none.

use std::sync::Mutex;

use futures::future::BoxFuture;
use futures::FutureExt;
use support::prelude::*;
use support::{Cluster, Sentinels};
use tracing::Level;

/// The user of clients. Servers and sentinels talk to each other as another.
const USER: &str = "locker";
const SECRETS: [&str; 3] = ["f1rst-pa55word", "s3cond-pa55word", "th1rd-pa55word"];

/// What the provider does when it is asked.
#[derive(Debug, Clone, Copy)]
enum Does {
    Says(&'static str),
    Fails,
    Panics,
    Hangs,
}

#[derive(Clone)]
struct Provider(Arc<Mutex<(Does, usize)>>);

impl Provider {
    fn new(does: Does) -> Self {
        Self(Arc::new(Mutex::new((does, 0))))
    }

    fn does(&self, does: Does) {
        self.0.lock().unwrap().0 = does;
    }

    /// How often it was asked.
    fn asked(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn ask(&self) -> impl Fn() -> BoxFuture<'static, Result<(String, String), String>> + Send + Sync + 'static {
        let state = self.0.clone();
        move || {
            let does = {
                let mut state = state.lock().unwrap();
                state.1 += 1;
                state.0
            };
            match does {
                Does::Says(password) => std::future::ready(Ok((USER.to_owned(), password.to_owned()))).boxed(),
                Does::Fails => std::future::ready(Err("the vault is sealed".to_owned())).boxed(),
                Does::Panics => panic!("a bug in the provider"),
                Does::Hangs => std::future::pending().boxed(),
            }
        }
    }
}

/// The user has this password from now on, and no other.
fn set_password(servers: &[&Server], password: &str) {
    for server in servers {
        server.control(&["ACL", "SETUSER", USER, "reset", "on", &format!(">{password}"), "~*", "&*", "+@all"]);
    }
}

/// Cuts all connections of the user.
fn cut(servers: &[&Server]) {
    for server in servers {
        server.control(&["CLIENT", "KILL", "USER", USER]);
    }
}

/// Takes a lock and gives it back: whether that went well.
async fn works(locks: &Locks) -> bool {
    let lock = locks.lock(&unique("credentials"));
    matches!(lock.try_lock().await, Ok(Acquired)) && lock.unlock().await.is_ok()
}

async fn passwords_rotate(servers: &[&Server], sentinels: &[&Server], url: &str) {
    let [first, second, theirs] = SECRETS;
    set_password(servers, first);
    set_password(sentinels, theirs);
    let (provider, theirs) = (Provider::new(Does::Says(first)), Provider::new(Does::Says(theirs)));
    let builder = Locks::builder().credentials(provider.ask()).sentinel_credentials(theirs.ask());
    let locks = builder.connect(url).await.unwrap();
    let guard = locks.lock(&unique("kept")).guard().await.unwrap();
    set_password(servers, second);
    assert!(works(&locks).await, "connections stay as whom they are");
    provider.does(Does::Says(second));
    let before = provider.asked();
    cut(servers);
    eventually(secs(20), "the client is back", async || works(&locks).await).await;
    assert!(provider.asked() > before, "{} {before}", provider.asked());
    eventually(secs(20), "the hold is there", async || guard.verify().await.is_ok()).await;
    guard.unlock().await.unwrap();
    // The sentinels' own.
    set_password(sentinels, second);
    theirs.does(Does::Says(second));
    cut(sentinels);
    let listens = async |sentinel: &Server| {
        let clients = sentinel.raw().await.must(&["CLIENT", "LIST"]).await.text();
        clients.lines().any(|client| !client.contains(" sub=0 ") && client.contains(" user=locker "))
    };
    for sentinel in sentinels {
        eventually(secs(20), "the sentinel is heard again", async || listens(sentinel).await).await;
    }
    locks.shutdown(secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_rotate_on_one_server() {
    let server = Server::start();
    passwords_rotate(&[&server], &[], &server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_rotate_behind_sentinels() {
    let all = Sentinels::start(secs(5));
    let sentinels: Vec<&Server> = all.sentinels.iter().collect();
    passwords_rotate(&all.servers.iter().collect::<Vec<_>>(), &sentinels, &all.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_rotate_in_a_cluster() {
    let cluster = Cluster::start(0, ms(2_000));
    passwords_rotate(&cluster.nodes.iter().collect::<Vec<_>>(), &[], &cluster.url()).await;
}

/// A provider that fails, panics or says nothing: an error that says so, one warning, and another try until it has
/// some. Its password is said nowhere.
async fn none_are_had(servers: &[&Server], url: &str) {
    let (logs, _scope) = Logs::scoped();
    let [secret, ..] = SECRETS;
    set_password(servers, secret);
    let mut shown = String::new();
    for (does, why) in [(Does::Fails, "the vault is sealed"), (Does::Panics, "panicked"), (Does::Hangs, "said nothing")]
    {
        let provider = Provider::new(does);
        let builder = Locks::builder().credentials(provider.ask()).command_timeout(ms(200)).watchdog_lease(secs(60));
        let refused = patient("an error", builder.clone().connect(url)).await;
        assert_matches!(&refused, Err(ConnectError::Credentials(said)) if said.contains(why), (does, url));
        provider.does(Does::Says(secret));
        let locks = builder.clone().connect(url).await.unwrap();
        let guard = locks.lock(&unique("kept")).guard().await.unwrap();
        logs.clear();
        provider.does(does);
        cut(servers);
        logs.wait_for("credentials: none").await;
        let lock = locks.lock(&unique("credentials"));
        let failed = lock.try_lock().await;
        assert_matches!(&failed, Err(LockError::Query(QueryError::Unreachable { .. })), (does, url));
        shown += &format!("{refused:?} {failed:?} {builder:?} {locks:?} {:?}", locks.health());
        let asked = provider.asked();
        eventually(secs(20), "it is asked again", async || provider.asked() > asked).await;
        provider.does(Does::Says(secret));
        eventually(secs(20), "the client is back", async || works(&locks).await).await;
        eventually(secs(20), "the hold is there", async || guard.verify().await.is_ok()).await;
        logs.wait_for("credentials: there are some again").await;
        let told = logs.find(Level::WARN, "credentials: none");
        assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
        shown += &logs.lines().join("\n");
    }
    assert!(!shown.contains(secret), "{shown}");
    let wrong = Provider::new(Does::Says("wr0ng"));
    let refused = Locks::builder().credentials(wrong.ask()).connect(url).await;
    assert_matches!(refused, Err(ConnectError::Refused(Refused::NotAuthenticated(why))) if !why.contains("wr0ng"));
}

#[tokio::test]
async fn no_credentials_are_had_for_one_server() {
    let server = Server::start();
    none_are_had(&[&server], &server.url()).await;
}

#[tokio::test]
async fn no_credentials_are_had_for_a_cluster() {
    let cluster = Cluster::start(0, ms(2_000));
    none_are_had(&cluster.nodes.iter().collect::<Vec<_>>(), &cluster.url()).await;
}

/// The sentinels' provider is another one, and the servers' is not asked for them.
#[tokio::test]
async fn no_credentials_are_had_for_sentinels() {
    let all = Sentinels::start(secs(5));
    let (servers, sentinels) = (Provider::new(Does::Says(SECRETS[0])), Provider::new(Does::Fails));
    let builder = Locks::builder().credentials(servers.ask()).sentinel_credentials(sentinels.ask());
    let refused = patient("an error", builder.connect(&all.url())).await;
    assert_matches!(refused, Err(ConnectError::Credentials(why)) if why.contains("sealed"));
    assert_eq!(servers.asked(), 0);
}
