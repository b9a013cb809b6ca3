//! What a URL or a configuration of fred's comes to: which servers, as whom, and how a connection behaves.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::futures::future::{BoxFuture, FutureExt};
use async_trait::async_trait;
#[cfg(feature = "fred")]
pub(crate) use fred::prelude::ClientLike;
use fred::prelude::*;
pub(crate) use fred::prelude::{Client, Config};
use fred::types::config::CredentialProvider;
#[cfg(feature = "tls")]
use fred::types::config::TlsHostMapping;
use fred::types::RespVersion;
use parking_lot::Mutex;
use tokio::time::{timeout, Instant};

use super::url::{Address, Endpoint, HostPort};
use super::Fate;
use crate::base::fault::{ConnectError, Refused};
use crate::base::janitor::say;

/// Commands that may wait for a connection.
const BUFFER: usize = 1 << 17;
/// Messages that may wait for us before fred drops some, and says so. It makes room for them at once, and for as many
/// events of seven other sorts: about 700 bytes each.
pub(super) const MESSAGES: usize = 1 << 8;
/// The same where no messages come.
pub(super) const FEW: usize = 2;

/// Which servers a configuration names.
#[derive(Clone)]
pub(crate) enum Servers {
    One,
    /// `login` is for the sentinels.
    Sentinel {
        sentinels: Vec<HostPort>,
        name: String,
        login: Login,
    },
    Cluster {
        seeds: Vec<HostPort>,
    },
}

/// What can't be kept of a configuration is refused, not left out.
pub(crate) fn servers(config: &Config) -> Result<Servers, ConnectError> {
    let refused = |setting, problem: &str| ConnectError::Setting { setting, problem: problem.to_owned() };
    let places = |servers: &[Server]| match servers {
        [] => Err(refused("ServerConfig", "names no server")),
        #[cfg(feature = "tls")]
        _ if servers.iter().any(|server| server.tls_server_name.is_some()) => Err(refused(
            "tls_server_name",
            "is of one server alone: give the sentinels or seeds by names of certificates",
        )),
        _ => Ok(servers.iter().map(|server| HostPort { host: server.host.to_string(), port: server.port }).collect()),
    };
    let is_one = matches!(config.server, ServerConfig::Centralized { .. } | ServerConfig::Unix { .. });
    if !is_one && config.uses_tls() && !cfg!(feature = "tls") {
        return Err(ConnectError::NeedsTls);
    }
    match &config.server {
        #[cfg(feature = "fred")]
        ServerConfig::Sentinel { hosts, service_name, username, password } => {
            // Who is asked for the servers' is asked for theirs too, in fred.
            let (username, password) = (username.clone(), password.clone());
            let login = Login { username, password, provider: config.credential_provider.clone() };
            Ok(Servers::Sentinel { sentinels: places(hosts)?, name: service_name.clone(), login })
        }
        #[cfg(not(feature = "fred"))]
        ServerConfig::Sentinel { hosts, service_name, .. } => {
            Ok(Servers::Sentinel { sentinels: places(hosts)?, name: service_name.clone(), login: Login::default() })
        }
        ServerConfig::Clustered { .. } if config.database.is_some_and(|database| database != 0) => {
            Err(refused("database", "must be 0: a cluster has no other"))
        }
        #[cfg(feature = "tls")]
        ServerConfig::Clustered { .. }
            if config.tls.as_ref().is_some_and(|tls| tls.hostnames != TlsHostMapping::None) =>
        {
            Err(refused(
                "TlsConfig::hostnames",
                "is not used: `Builder::address_map` says the host name of each server",
            ))
        }
        ServerConfig::Clustered { hosts, .. } => Ok(Servers::Cluster { seeds: places(hosts)? }),
        ServerConfig::Centralized { .. } | ServerConfig::Unix { .. } => Ok(Servers::One),
    }
}

/// A client that a program lends, once scripts may go by it. What makes it unsafe is refused by its name.
pub(crate) async fn usable(client: &Client, times: Times) -> Result<Client, ConnectError> {
    let attempts = client.connection_config().max_command_attempts;
    if attempts != 1 {
        let problem = format!("is {attempts}, must be 1: fred would send a call again that may have run");
        return Err(ConnectError::Setting { setting: "ConnectionConfig::max_command_attempts", problem });
    }
    if client.connection_config().reconnect_on_auth_error {
        let problem = "is set, must not be: fred would tell it to calls that may have run, as if they were refused";
        let setting = "ConnectionConfig::reconnect_on_auth_error";
        return Err(ConnectError::Setting { setting, problem: problem.to_owned() });
    }
    // What a program adds to the answers that fred breaks connections on; the setting is there only with a feature.
    if format!("{:?}", client.connection_config()).contains("Custom(") {
        let problem = "has an answer of your own, must not: fred would tell it to calls that may have run".to_owned();
        return Err(ConnectError::Setting { setting: "ConnectionConfig::reconnect_errors", problem });
    }
    let policy = client.client_reconnect_policy();
    let Some(
        ReconnectPolicy::Constant { max_attempts, .. }
        | ReconnectPolicy::Linear { max_attempts, .. }
        | ReconnectPolicy::Exponential { max_attempts, .. },
    ) = policy
    else {
        let problem = "there is none: a connection that breaks would never be made again".to_owned();
        return Err(ConnectError::Setting { setting: "ReconnectPolicy", problem });
    };
    if max_attempts != 0 {
        let problem = format!("ends after {max_attempts} attempts, must have no limit (0): locks outlast an outage");
        return Err(ConnectError::Setting { setting: "ReconnectPolicy::max_attempts", problem });
    }
    match timeout(times.connect(), client.wait_for_connect()).await {
        Ok(Ok(())) => Ok(client.clone()),
        Ok(Err(error)) => Err(connect_error(&error)),
        Err(_) => {
            Err(ConnectError::Unreachable("the client that is lent is not connected: is `init` called?".to_owned()))
        }
    }
}

/// Before the words of whoever has no credentials for us.
pub(crate) const CREDENTIALS: &str = "credentials: ";
/// Whoever is asked for credentials has one command timeout, but at least so long.
const SHORTEST_ASK: Duration = Duration::from_secs(1);

fn longest_ask(command_timeout: Duration) -> Duration {
    command_timeout.max(SHORTEST_ASK)
}

/// As whom to talk to a server.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// Asked for each connection, in place of these.
    pub(crate) provider: Option<Arc<dyn CredentialProvider>>,
}

impl Login {
    /// User and password for a connection that is being made.
    pub(crate) async fn ask(&self, to: &HostPort) -> Result<(Option<String>, Option<String>), String> {
        match &self.provider {
            Some(provider) => {
                let to = Server::new(to.host.clone(), to.port);
                // One that an application gave to fred may do what ours is kept from.
                let asked = AssertUnwindSafe(provider.fetch(Some(&to))).catch_unwind().await;
                let asked = asked.map_err(|_| format!("{CREDENTIALS}the provider panicked"))?;
                asked.map_err(|error| error.details().to_owned())
            }
            None => Ok((self.username.clone(), self.password.clone())),
        }
    }
}

/// User and password, or why there are none.
type Had = Result<(String, String), String>;

/// What asks for them. Builders that are clones of one another share it.
#[derive(Clone)]
pub(crate) struct Credentials(Arc<Provider>);

struct Provider {
    ask: Box<dyn Fn() -> BoxFuture<'static, Had> + Send + Sync>,
    told: Mutex<Told>,
}

/// What was said of it.
#[derive(Default)]
struct Told {
    is_failing: bool,
    /// When it had some last.
    had: Option<Instant>,
}

impl fmt::Debug for Credentials {
    /// Nobody is asked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl Credentials {
    pub(crate) fn new<F, E>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(String, String), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let ask = move || ask().map(|asked| asked.map_err(|error| error.into().to_string())).boxed();
        Self(Arc::new(Provider { ask: Box::new(ask), told: Mutex::default() }))
    }

    /// Asks once, for a connection that is being made; why there are none is said once, until there are again.
    pub(crate) async fn ask(&self, limit: Duration) -> Had {
        let (Provider { ask, told }, began) = (&*self.0, Instant::now());
        let asked = timeout(limit, AssertUnwindSafe(async { ask().await }).catch_unwind()).await;
        let asked = match asked {
            Ok(Ok(asked)) => asked,
            Ok(Err(_)) => Err("the provider panicked".to_owned()),
            Err(_) => Err(format!("the provider said nothing within {limit:?}")),
        };
        let mut told = told.lock();
        // One that was late is no news where others have had some meanwhile.
        let is_news = told.had.is_none_or(|had| had < began);
        match &asked {
            Ok(_) => {
                told.had = Some(Instant::now());
                if std::mem::replace(&mut told.is_failing, false) {
                    say(|| tracing::info!(target: "lockson", "credentials: there are some again"));
                }
            }
            Err(why) if is_news && !std::mem::replace(&mut told.is_failing, true) => {
                say(|| tracing::warn!(target: "lockson", why, "credentials: none, so no connection can be made"));
            }
            Err(_) => {}
        }
        drop(told);
        asked
    }
}

/// The same in fred's words.
#[derive(Debug)]
struct Asked {
    credentials: Credentials,
    limit: Duration,
}

#[async_trait]
impl CredentialProvider for Asked {
    async fn fetch(&self, _: Option<&Server>) -> FredResult<(Option<String>, Option<String>)> {
        match self.credentials.ask(self.limit).await {
            Ok((username, password)) => Ok((Some(username), Some(password))),
            Err(why) => Err(Error::new(ErrorKind::IO, format!("{CREDENTIALS}{why}"))),
        }
    }
}

/// The same for fred.
pub(crate) fn provider(credentials: Credentials, command_timeout: Duration) -> Arc<dyn CredentialProvider> {
    Arc::new(Asked { credentials, limit: longest_ask(command_timeout) })
}

/// How long one answer may take, and the making of a connection, if that was set.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) command: Duration,
    pub(crate) connect: Option<Duration>,
}

impl Times {
    pub(super) fn connect(self) -> Duration {
        self.connect.unwrap_or(Duration::from_secs(2)).max(self.command)
    }
}

/// How servers are reached, and as whom.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) login: Login,
    /// As `CLIENT LIST` has it.
    pub(crate) name: Arc<str>,
    /// Until a connection is there.
    pub(crate) connect: Duration,
    /// The limit of each answer; a server that says nothing for twice as long is taken for dead.
    pub(crate) limit: Duration,
    /// Where it listens, if not at an address.
    pub(crate) socket: Option<PathBuf>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tokio_rustls::TlsConnector>,
}

#[cfg(feature = "lean")]
impl Dial {
    pub(crate) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// The same for connections of our own.
pub(crate) fn dial(
    config: &Config,
    limit: Duration,
    connect: Option<Duration>,
    name: &Arc<str>,
) -> Result<Dial, ConnectError> {
    Ok(Dial {
        name: name.clone(),
        connect: connect.unwrap_or(limit).max(limit),
        login: Login {
            username: config.username.clone(),
            password: config.password.clone(),
            provider: config.credential_provider.clone(),
        },
        limit,
        socket: match &config.server {
            ServerConfig::Unix { path } => Some(path.clone()),
            _ => None,
        },
        #[cfg(feature = "tls")]
        tls: match config.tls.as_ref().map(|tls| &tls.connector) {
            None => None,
            Some(fred::types::config::TlsConnector::Rustls(connector)) => Some(connector.clone()),
            #[allow(unreachable_patterns)]
            Some(_) => return Err(ConnectError::Tls("only rustls is used with sentinels and clusters".to_owned())),
        },
    })
}

/// What a URL says, and what the builder adds to it.
pub(crate) fn config(
    endpoint: Endpoint,
    #[cfg(feature = "tls")] pem: &super::tls::Pem,
) -> Result<Config, ConnectError> {
    let server = match endpoint.address {
        Address::Tcp(HostPort { host, port }) => ServerConfig::new_centralized(host, port),
        Address::Unix { path } => ServerConfig::Unix { path: path.into() },
        Address::Sentinel { sentinels, name } => {
            ServerConfig::new_sentinel(sentinels.into_iter().map(|at| (at.host, at.port)).collect(), name)
        }
        Address::Cluster { seeds } => {
            ServerConfig::new_clustered(seeds.into_iter().map(|at| (at.host, at.port)).collect())
        }
    };
    #[allow(unused_mut)]
    let mut config = Config {
        server,
        username: endpoint.username,
        password: endpoint.password,
        database: (endpoint.database != 0).then_some(endpoint.database),
        ..Config::default()
    };
    #[cfg(feature = "tls")]
    if endpoint.tls {
        let trusted: fred::types::config::TlsConnector = super::tls::config(pem)?.into();
        config.tls = Some(trusted.into());
    }
    Ok(config)
}

/// A connection as a lock needs it, whatever else the configuration says. It is made anew after `longest_pause` at
/// most, in milliseconds, and also where an answer takes longer than `dead_after`. It has `room` for so many messages.
pub(super) fn client(
    mut config: Config,
    times: Times,
    longest_pause: u32,
    dead_after: Option<Duration>,
    room: usize,
) -> Result<Client, ConnectError> {
    let command_timeout = times.command;
    config.version = RespVersion::RESP3;
    // As its first answers have this limit, credentials that are asked for before them included.
    let credentials = config.credential_provider.as_ref().map_or(Duration::ZERO, |_| longest_ask(command_timeout));
    let mut policy = ReconnectPolicy::new_exponential(0, 20, longest_pause, 2);
    policy.set_jitter(20);
    let mut builder = fred::types::Builder::from_config(config);
    builder
        .with_connection_config(|connection| {
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.connection_timeout = times.connect();
            connection.internal_command_timeout = times.connect() + credentials;
            connection.max_command_buffer_len = BUFFER;
            connection.unresponsive.max_timeout = dead_after;
            connection.unresponsive.interval = Duration::from_millis(200);
            connection.tcp.nodelay = Some(true);
            // The kernel counts keepalive in whole seconds.
            let interval = command_timeout.max(Duration::from_secs(1));
            connection.tcp.keepalive =
                Some(socket2::TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(interval));
            #[cfg(target_os = "linux")]
            {
                connection.tcp.user_timeout = Some(command_timeout);
            }
        })
        .with_performance_config(|performance| {
            performance.default_command_timeout = command_timeout;
            performance.broadcast_channel_capacity = room;
        })
        .set_policy(policy);
    builder.build().map_err(|error| ConnectError::Url(error.details().to_owned()))
}

/// Alerts of TLS by which a server says that it wants another certificate of its client, or one at all.
const ALERTS: [&str; 10] = [
    "CertificateRequired",
    "NoCertificate",
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateRevoked",
    "CertificateExpired",
    "CertificateUnknown",
    "UnknownCA",
    "AccessDenied",
    "DecryptError",
];

/// Whether these are rustls' words, or fred's for them, for such an alert.
pub(crate) fn wants_certificate(why: &str) -> bool {
    let alert = ["received fatal alert: ", "AlertReceived("].iter().find_map(|words| why.split_once(words));
    alert.is_some_and(|(_, alert)| ALERTS.iter().any(|name| alert.starts_with(name)))
}

/// Whether a server does not speak RESP3, by what it said to HELLO.
pub(crate) fn is_resp2(why: &str) -> bool {
    why.starts_with("NOPROTO") || why.starts_with("ERR unknown command") && why.contains("HELLO")
}

/// The server's words without those of ours that it repeats: of HELLO, a password is among them.
pub(crate) fn without_ours(why: &str) -> String {
    why.split(", with args beginning with").next().unwrap_or_default().to_owned()
}

/// Why there is no connection.
pub(super) fn connect_error(error: &Error) -> ConnectError {
    let details = &*without_ours(error.details());
    if let Some(why) = details.strip_prefix(CREDENTIALS) {
        return ConnectError::Credentials(why.to_owned());
    }
    match Fate::of_error(details) {
        Some(Fate::Refused(why @ (Refused::NoPermission(_) | Refused::NotAuthenticated(_)))) => why.into(),
        _ if is_resp2(details) => ConnectError::Resp2(details.to_owned()),
        _ if wants_certificate(details) => ConnectError::ClientCertificate(details.to_owned()),
        _ if *error.kind() == ErrorKind::Auth => Refused::NotAuthenticated(details.to_owned()).into(),
        #[cfg(feature = "tls")]
        _ if *error.kind() == ErrorKind::Tls => ConnectError::Tls(details.to_owned()),
        _ => ConnectError::Unreachable(without_ours(&error.to_string())),
    }
}
