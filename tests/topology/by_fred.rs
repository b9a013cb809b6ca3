//! Configurations of fred for sentinels and clusters: what they say counts, what can't be kept is refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use fred::clients::Client;
use fred::types::config::{Config, CredentialProvider, Server as Place, ServerConfig, TlsConfig, TlsHostMapping};
use support::prelude::*;
use support::{Cluster, Sentinels};

const USER: &str = "locker";

fn set_password(servers: &[Server], password: &str) {
    for server in servers {
        server.control(&["ACL", "SETUSER", USER, "on", &format!(">{password}"), "~*", "&*", "+@all"]);
    }
}

/// Takes a lock, and looks as whom.
async fn works(locks: &Locks, servers: &[Server]) {
    locks.lock(&unique("by fred")).guard().await.unwrap().unlock().await.unwrap();
    let clients: Vec<String> = servers
        .iter()
        .filter(|server| server.runs())
        .map(|server| server.control(&["CLIENT", "LIST"]).text())
        .collect();
    let is_ours = |clients: &&String| clients.contains(" user=locker ");
    assert!(clients.iter().any(|clients| is_ours(&clients)), "{clients:?}");
    let name = format!(" name=lockson:{} ", locks.client_id());
    let named = clients.iter().flat_map(|clients| clients.lines()).filter(|client| client.contains(&name));
    assert!(named.count() >= 2, "for scripts and for messages: {clients:?}");
}

fn places(servers: &[Server]) -> Vec<Place> {
    servers.iter().map(|server| Place::new("127.0.0.1", server.port())).collect()
}

fn of(server: ServerConfig, password: &str) -> Config {
    let (username, password) = (Some(USER.to_owned()), Some(password.to_owned()));
    Config { server, username, password, ..Config::default() }
}

/// It lends its configuration alone, so nothing is connected.
fn lends(config: Config) -> Client {
    Client::new(config, None, None, None)
}

#[derive(Debug, Default)]
struct Asked(AtomicUsize);

#[async_trait]
impl CredentialProvider for Asked {
    async fn fetch(&self, server: Option<&Place>) -> Result<(Option<String>, Option<String>), fred::error::Error> {
        assert!(server.is_some(), "it is told who wants them");
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok((Some(USER.to_owned()), Some("both".to_owned())))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn freds_sentinels_are_ours() {
    let all = Sentinels::start(secs(5));
    set_password(&all.servers, "theirs");
    set_password(&all.sentinels, "the sentinels'");
    let sentinel = |password: &str| ServerConfig::Sentinel {
        hosts: places(&all.sentinels[..1]),
        service_name: "mymaster".to_owned(),
        username: Some(USER.to_owned()),
        password: Some(password.to_owned()),
    };
    let locks = Locks::builder().over_fred(&lends(of(sentinel("the sentinels'"), "theirs"))).await.unwrap();
    works(&locks, &all.servers).await;
    works(&locks, &all.sentinels).await;
    let refused = Locks::builder().over_fred(&lends(of(sentinel("wrong"), "theirs"))).await;
    assert_matches!(refused, Err(ConnectError::Refused(Refused::NotAuthenticated(_))));
    let builder = Locks::builder().sentinel_username(USER).sentinel_password("the sentinels'");
    works(&builder.over_fred(&lends(of(sentinel("wrong"), "theirs"))).await.unwrap(), &all.servers).await;
    let nobody = ServerConfig::Sentinel {
        hosts: places(&all.sentinels),
        service_name: "nobody".to_owned(),
        username: None,
        password: None,
    };
    assert_matches!(
        Locks::builder().over_fred(&lends(of(nobody, "theirs"))).await,
        Err(ConnectError::UnknownPrimary { .. })
    );
    // Who is asked for the servers' is asked for the sentinels' too, as by fred.
    set_password(&all.servers, "both");
    set_password(&all.sentinels, "both");
    let asked = Arc::new(Asked::default());
    let server = ServerConfig::new_sentinel(vec![("127.0.0.1", all.sentinels[0].port())], "mymaster");
    let config = Config { server, credential_provider: Some(asked.clone()), ..Config::default() };
    let locks = Locks::builder().over_fred(&lends(config)).await.unwrap();
    works(&locks, &all.servers).await;
    assert!(asked.0.load(Ordering::Relaxed) >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn freds_cluster_is_ours() {
    let cluster = Cluster::start(0, ms(2_000));
    set_password(&cluster.nodes, "theirs");
    let seeds = || ServerConfig::new_clustered(vec![("127.0.0.1", cluster.nodes[1].port())]);
    let locks = Locks::builder().over_fred(&lends(of(seeds(), "theirs"))).await.unwrap();
    works(&locks, &cluster.nodes).await;
    let refused = Locks::builder().over_fred(&lends(of(seeds(), "wrong"))).await;
    assert_matches!(refused, Err(ConnectError::Refused(Refused::NotAuthenticated(_))));
}

/// Before any connection is made.
#[tokio::test]
async fn what_can_not_be_kept_of_a_configuration_is_refused() {
    let cluster = |hosts: Vec<(&str, u16)>| Config { server: ServerConfig::new_clustered(hosts), ..Config::default() };
    let one = || vec![("127.0.0.1", 1)];
    let mut mapped = TlsConfig::from(fred::types::config::TlsConnector::default_rustls().unwrap());
    mapped.hostnames = TlsHostMapping::DefaultHost;
    for (config, named) in [
        (cluster(vec![]), "ServerConfig"),
        (
            Config { server: ServerConfig::new_sentinel(Vec::<(&str, u16)>::new(), "x"), ..Config::default() },
            "ServerConfig",
        ),
        (Config { database: Some(3), ..cluster(one()) }, "database"),
        (Config { tls: Some(mapped), ..cluster(one()) }, "TlsConfig::hostnames"),
    ] {
        let refused = Locks::builder().over_fred(&lends(config)).await;
        assert_matches!(refused, Err(ConnectError::Setting { setting, .. }) if setting == named, named);
    }
    let refused = Locks::builder().database(3).connect("redis-cluster://127.0.0.1:1").await;
    assert_matches!(refused, Err(ConnectError::Setting { setting: "database", .. }));
}
