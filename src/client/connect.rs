//! Connecting to a real server, and what is looked at before the first lock.

use std::sync::Arc;

use crate::backend::fred::connect;
use crate::backend::fred_config::{config, provider, servers, Config, Credentials, Login, Servers, Times};
use crate::backend::node::{entry, generation, online, Node};
use crate::backend::url::Endpoint;
use crate::backend::Script;
use crate::base::clock::Clock;
use crate::base::fault::{ConnectError, Fault, Refused};
use crate::base::host::Host;
use crate::base::keys::Key::{Channel, Lock};
use crate::base::keys::Naming;
use crate::client::builder::Builder;
use crate::client::factory::{Health, Locks};
use crate::client::parts::Parts;
use crate::engine::Engine;
use crate::error::in_runtime;
use crate::topology::member::Access;
use crate::topology::{cluster, sentinel};
use crate::wire::confirm::check;
use crate::wire::reply::{Answer, Status};
use crate::wire::script::Patience;
use crate::wire::table::script;

/// Tries to find a name on a node.
const MOST_NAMES: u32 = 20_000;

/// The oldest server that the tests run on.
const LOWEST_VERSION: u32 = 7;

static PREFLIGHT: &Script = script!("preflight" after "announce", [Lock, Channel]);

impl Locks {
    /// Connects with the default settings. See [`Builder::connect`] for the URLs, errors and cancel safety.
    ///
    /// ```
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = lockson::Locks::connect("redis://127.0.0.1:6379").await?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ConnectError`] says what to do. Nothing was written.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }
}

impl Builder {
    /// Connects to, or the same with `valkey`:
    /// - `redis://[user[:password]@]host[:port][/database]`, or `redis+unix:///path[?db=n]`: one server;
    /// - `redis-sentinel://[user[:password]@]host[:port],../name[/database]`: the primary of this name that the
    ///   sentinels at these hosts know (port 26379); the user is the servers', see
    ///   [`sentinel_password`](Builder::sentinel_password) for theirs;
    /// - `redis-cluster://[user[:password]@]host[:port],..`: the cluster that these servers are of; some are enough;
    /// - `rediss..`: the same by TLS (feature `tls`).
    ///
    /// Looks each server over before the first lock. What a managed server won't answer is one warning.
    ///
    /// # Errors
    /// [`ConnectError`] says what to do. Nothing was written.
    ///
    /// # Cancel safety
    /// Dropped half-way, the connection is closed.
    pub async fn connect(self, url: &str) -> Result<Locks, ConnectError> {
        let mut endpoint = Endpoint::parse(url)?;
        endpoint.username = self.username.clone().or(endpoint.username);
        endpoint.password = self.password.clone().or(endpoint.password);
        endpoint.database = self.database.unwrap_or(endpoint.database);
        self.check()?;
        let config = config(
            endpoint,
            #[cfg(feature = "tls")]
            &self.pem,
        )?;
        self.over(config).await
    }

    /// Connects by a configuration of fred's, for what a URL can't say.
    ///
    /// Overridden are its protocol version (RESP3) and `fail_fast`; all of fred's connection, performance and reconnect
    /// settings are lockson's own (no re-sends, no redirections, a command timeout, reconnects without end), as a lock
    /// is not safe with others. A configuration of sentinels or a cluster gives their hosts and name, the users and
    /// passwords (fixed or asked for), the database and TLS by rustls; lockson finds the servers by itself, so its
    /// discovery policy is not used. What the builder has of these wins, but `username`, `password`, `database`,
    /// `ca_pem` and `client_pem`, which are for URLs. This is the only place where a type of fred is seen.
    ///
    /// # Errors
    /// As [`connect`](Builder::connect)'s. [`ConnectError::Setting`] names what can't be kept: no host at all, a
    /// database of a cluster, and host names for TLS that fred would map (`Builder::address_map` does that).
    ///
    /// # Cancel safety
    /// As [`connect`](Builder::connect)'s.
    #[cfg(feature = "fred")]
    pub async fn connect_fred(self, config: Config) -> Result<Locks, ConnectError> {
        self.check()?;
        self.over(config).await
    }

    /// Connects, and looks the servers over before they are used.
    async fn over(self, mut config: Config) -> Result<Locks, ConnectError> {
        in_runtime().map_err(|_| ConnectError::NoRuntime)?;
        let servers = servers(&config)?;
        let is_one = matches!(servers, Servers::One);
        let times = Times { command: self.settings.command_timeout, connect: self.settings.connect_timeout };
        let asked = |credentials: Credentials| provider(credentials, times.command);
        config.credential_provider = self.credentials.map(asked).or(config.credential_provider);
        let host = Host::from(Clock::System);
        let name = connection_name(&self.settings.client_id(host.id));
        let access = |config| Access::new(config, times, &name, self.addresses, self.settings.refresh_interval);
        let (backend, signals) = match servers {
            Servers::One => connect(config, times, &name).await?,
            Servers::Sentinel { sentinels, name, login } => {
                let login = match (self.sentinel_credentials.map(asked), self.sentinel_username, self.sentinel_password)
                {
                    (None, None, None) => login,
                    (provider, username, password) => Login { username, password, provider },
                };
                sentinel::connect(sentinels, name, access(config)?, login).await?
            }
            Servers::Cluster { seeds } => cluster::connect(seeds, access(config)?).await?,
        };
        let locks = Locks::of(Parts::start(self.settings, backend, signals, host));
        let engine = locks.engine();
        let mut goes_on_alone = false;
        for name in scratch_names(engine) {
            goes_on_alone |= preflight(engine, &name, is_one).await?;
            check(&*engine.wire.backend, &name, engine.settings.confirm).await?;
        }
        if goes_on_alone && !is_one && engine.settings.confirm.is_none() {
            let text = "a primary that is cut off goes on granting what its successor grants too: set \
                min-replicas-to-write 1 and min-replicas-max-lag 1, or use Builder::confirm";
            tracing::warn!(target: "lockson", "{text}");
        }
        let Health { topology, nodes, .. } = locks.health();
        let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        tracing::info!(target: "lockson", client = locks.client_id(), %topology, ?nodes, "connected");
        Ok(locks)
    }
}

/// By which `CLIENT LIST` has the connections of a client, as far as its label has characters that may stand in it.
fn connection_name(client_id: &str) -> Arc<str> {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '-' };
    format!("lockson:{}", client_id.chars().map(plain).collect::<String>()).into()
}

/// A name on each node that nobody uses.
fn scratch_names(engine: &Engine) -> Vec<String> {
    let backend = &engine.wire.backend;
    let on = |node: Arc<Node>| {
        let mut names = (0..MOST_NAMES).map(|number| match number {
            0 => engine.settings.naming.key("lockson:preflight"),
            _ => engine.settings.naming.key(&format!("lockson:preflight:{number}")),
        });
        names.find(|name| backend.node(name).is_ok_and(|its| Arc::ptr_eq(&its, &node)))
    };
    // None is found where the prefix or the mapper says which node all names are on.
    backend.nodes().into_iter().filter_map(on).collect()
}

/// Looks a server over. Whether it would go on without its replicas.
async fn preflight(engine: &Engine, scratch: &str, is_one: bool) -> Result<bool, ConnectError> {
    let channel = format!("redisson_lock__channel:{{{scratch}}}");
    // Users are each server's own.
    let place = match engine.wire.backend.node(scratch) {
        Ok(node) if !is_one => format!(", at {}", node.address),
        _ => String::new(),
    };
    let patience = Patience::new(engine.now(), engine.wire.command_timeout * 2);
    let also: &[&str] = if engine.settings.confirm.is_some() { &["WAIT"] } else { &[] };
    let called = engine.wire.call(PREFLIGHT, &[scratch, &channel], also, &patience).await;
    let answer = called.result.map_err(|fault| match fault {
        Fault::Unreachable(why) => ConnectError::Unreachable(why),
        // The scripts' TIME comes before anything that could name what is missing.
        Fault::Refused(Refused::NoPermission(text)) => {
            let hint = "locks need +eval, +evalsha, +time and their keys and channels: docs/GUARANTEES.md has the rule";
            Refused::NoPermission(format!("{text} ({hint}){place}")).into()
        }
        Fault::Refused(Refused::NotAuthenticated(text)) => Refused::NotAuthenticated(text + &place).into(),
        Fault::Refused(why) => ConnectError::Refused(why),
    })?;
    if answer.status != Status::Done {
        return Err(ConnectError::Unreachable("the server's answer can't be read".to_owned()));
    }
    let generation = answer.text(1).zip(answer.text(2)).and_then(|(run, role)| generation(&format!("{run}\n{role}")));
    if let (Some(generation), Ok(node)) = (generation, engine.wire.backend.node(scratch)) {
        node.is_of(&generation);
    }
    inspect(engine, engine.wire.slot(scratch), &answer, is_one, &place)?;
    Ok(answer.text(2).is_some_and(goes_on_alone))
}

/// Whether a primary with these replicas needs none of them to write: else its INFO says how many it counts on.
fn goes_on_alone(replication: &str) -> bool {
    online(replication) > 0 && entry(replication, "min_slaves_good_slaves").is_none()
}

fn inspect(engine: &Engine, slot: u16, answer: &Answer, is_one: bool, place: &str) -> Result<(), ConnectError> {
    let section = |at: usize| answer.text(at).unwrap_or_default();
    let (server, replication, memory) = (section(1), section(2), section(3));
    let version = entry(server, "redis_version");
    let (role, policy) = (entry(replication, "role"), entry(memory, "maxmemory_policy"));
    let missing = section(0);
    if !missing.is_empty() {
        let keys = match &engine.settings.naming {
            Naming { mapper: None, prefix, .. } => format!("{prefix}*"),
            Naming { mapper: Some(_), .. } => "of the mapped names".to_owned(),
        };
        let needed = format!("{missing} on keys {keys}, and on the channels redisson_lock__channel:*{place}");
        return Err(Refused::NoPermission(needed).into());
    }
    if let Some(found) = version.filter(|version| is_too_old(version)) {
        return Err(ConnectError::TooOld { found: found.to_owned() });
    }
    if is_one && entry(server, "redis_mode") == Some("cluster") {
        return Err(Refused::Cluster.into());
    }
    if let Some(run) = entry(server, "run_id") {
        engine.life.met(slot, run);
    }
    if role == Some("slave") {
        return Err(Refused::ReadOnly.into());
    }
    match policy {
        Some("noeviction") | None => {}
        Some(policy) if engine.settings.allow_eviction => {
            tracing::warn!(target: "lockson", policy, "the server may drop locks to make room");
        }
        Some(policy) => return Err(ConnectError::Evicts(policy.to_owned())),
    }
    let asked = [(version, "its version"), (role, "its role"), (policy, "its maxmemory-policy")];
    let unknown: Vec<&str> = asked.iter().filter(|(found, _)| found.is_none()).map(|(_, what)| *what).collect();
    if !unknown.is_empty() {
        tracing::warn!(target: "lockson", ?unknown, "the server does not say what a lock's safety depends on");
    }
    Ok(())
}

fn is_too_old(version: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse().ok());
    major.unwrap_or(0) < LOWEST_VERSION
}
