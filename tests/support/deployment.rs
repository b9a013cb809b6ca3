//! Where clients connect: one server, a primary behind sentinels, or a cluster, seen through the same few questions.

use super::raw::{Listener, Raw};
use super::server::{self, Server};
use super::{secs, By, Cluster, Proxy, Reply, Sentinels};
use lockson::{Builder, Locks};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// How long a node of one that is shared is silent before others take it for dead: longer than a busy machine makes it.
const PATIENT: Duration = secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topology {
    Single,
    Sentinel,
    Cluster,
}

pub enum Deployment {
    Single(&'static Server),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    fn start(topology: Topology, program: &str) -> Deployment {
        match topology {
            Topology::Single if program == server::program() => Deployment::Single(Server::shared()),
            Topology::Single => Deployment::Single(Box::leak(Box::new(Server::of(program, &[])))),
            Topology::Sentinel => Deployment::Sentinel(Sentinels::of(program, PATIENT, &[])),
            Topology::Cluster => Deployment::Cluster(Cluster::of(program, 0, PATIENT, &[])),
        }
    }

    /// The one of this program that harmless tests share, as [`Server::shared`]. It lasts as long as the test process.
    pub fn shared(topology: Topology, program: &str) -> &'static Deployment {
        type Shared = HashMap<(Topology, String), &'static OnceLock<Deployment>>;
        static SHARED: Mutex<Option<Shared>> = Mutex::new(None);
        let place = *SHARED
            .lock()
            .unwrap()
            .get_or_insert_default()
            .entry((topology, program.to_owned()))
            .or_insert_with(|| Box::leak(Box::default()));
        place.get_or_init(|| Deployment::start(topology, program))
    }

    /// Those that may have keys.
    fn servers(&self) -> Vec<&Server> {
        match self {
            Deployment::Single(server) => vec![server],
            Deployment::Sentinel(all) => all.servers.iter().collect(),
            Deployment::Cluster(cluster) => cluster.nodes.iter().collect(),
        }
    }

    fn sentinels(&self) -> &[Server] {
        match self {
            Deployment::Sentinel(all) => &all.sentinels,
            _ => &[],
        }
    }

    pub fn url(&self) -> String {
        match self {
            Deployment::Single(server) => server.url(),
            Deployment::Sentinel(all) => all.url(),
            Deployment::Cluster(cluster) => cluster.url(),
        }
    }

    /// What its servers say that they are, such as `valkey 9.1.2`.
    pub fn version(&self) -> String {
        let info = self.servers()[0].control(&["INFO", "server"]).text();
        let of = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        match of("valkey_version:") {
            Some(version) => format!("valkey {version}"),
            None => format!("redis {}", of("redis_version:").unwrap()),
        }
    }

    /// A connection to the server that has this key, or this channel.
    pub async fn raw(&self, key: &str) -> Raw {
        let mut first = self.servers()[0].raw().await;
        match first.command(&["EXISTS", key]).await {
            Err(moved) if moved.starts_with("MOVED ") => {
                let port = moved.rsplit(':').next().and_then(|port| port.parse().ok());
                Raw::connect(port.unwrap_or_else(|| panic!("{moved}"))).await
            }
            _ => first,
        }
    }

    /// The answer of the server that has the key of this command, or of one without a key that has `key`. What is no
    /// matter of keys is asked of all servers.
    pub async fn command(&self, args: &[&str], key: &str) -> Result<Reply, String> {
        let key = match args {
            ["KEYS" | "SCRIPT", ..] => return self.of_all(args).await,
            ["EVAL", _, "0", ..] | [_] => key,
            ["EVAL", _, _, key, ..] | [_, key, ..] => key,
            [] => panic!("no command"),
        };
        self.raw(key).await.command(args).await
    }

    async fn of_all(&self, args: &[&str]) -> Result<Reply, String> {
        let mut found = Vec::new();
        let primaries = if let Deployment::Cluster(_) = self { usize::MAX } else { 1 };
        for server in self.servers().into_iter().take(primaries) {
            match server.raw().await.command(args).await? {
                Reply::List(items) => found.extend(items),
                other => found.push(other),
            }
        }
        Ok(Reply::List(found))
    }

    /// The command by which clients tell each other something.
    pub fn publish(&self) -> &'static str {
        match self {
            Deployment::Cluster(_) => "SPUBLISH",
            _ => "PUBLISH",
        }
    }

    /// Hears what clients tell each other on these channels, which are in one slot.
    pub async fn listen(&self, channels: &[&str]) -> Listener {
        let verb = match self {
            Deployment::Cluster(_) => "SSUBSCRIBE",
            _ => "SUBSCRIBE",
        };
        Listener::start(self.raw(channels[0]).await, verb, channels).await
    }

    /// How many listen to it.
    pub async fn subscribers(&self, channel: &str) -> i64 {
        let verb = match self {
            Deployment::Cluster(_) => "SHARDNUMSUB",
            _ => "NUMSUB",
        };
        self.raw(channel).await.must(&["PUBSUB", verb, channel]).await.list()[1].int()
    }

    /// A way to it that may be closed.
    pub fn way(&self) -> Way {
        let servers = self.servers().into_iter().chain(self.sentinels());
        let proxies = servers.map(|server| (server.port(), Proxy::start(server.port()))).collect();
        Way { proxies, url: self.url() }
    }
}

/// A proxy before each server, and each sentinel: clients that go by it meet nobody else.
pub struct Way {
    /// By the port of what they stand before.
    proxies: HashMap<u16, Proxy>,
    url: String,
}

impl Way {
    pub async fn connect(&self, builder: Builder, by: By) -> Locks {
        let (builder, url) = self.led(builder);
        by.connect(builder, &url).await
    }

    /// Whether or not it is open.
    pub fn connect_lazy(&self, builder: Builder) -> Locks {
        let (builder, url) = self.led(builder);
        builder.connect_lazy(&url).unwrap()
    }

    fn led(&self, builder: Builder) -> (Builder, String) {
        let ports: HashMap<u16, u16> = self.proxies.iter().map(|(port, proxy)| (*port, proxy.port())).collect();
        let url = ports.iter().fold(self.url.clone(), |url, (port, proxy)| {
            url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{proxy}"))
        });
        let mapped = move |host: &str, port: u16| Some((host.to_owned(), *ports.get(&port)?));
        (builder.address_map(mapped), url)
    }

    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.proxies.values()
    }

    /// Whether all connections are cut, and new ones refused.
    pub fn close(&self, yes: bool) {
        self.proxies().for_each(|proxy| proxy.refuse(yes));
    }
}
