//! What a URL or a configuration of fred's comes to: which servers, as whom, and how a connection behaves.

use std::time::Duration;

pub(crate) use fred::prelude::Config;
use fred::prelude::*;
use fred::types::RespVersion;

use super::url::{Address, Endpoint, HostPort};
use super::Fate;
use crate::base::fault::{ConnectError, Refused};

/// Commands that may wait for a connection.
const BUFFER: usize = 1 << 17;
/// Messages that may wait for us before fred drops some, and says so. It makes room for them at once: 1.6 MB a client.
const MESSAGES: usize = 1 << 10;

/// Which servers a configuration names.
pub(crate) enum Servers {
    One,
    Sentinel { sentinels: Vec<HostPort>, name: String },
    Cluster { seeds: Vec<HostPort> },
}

pub(crate) fn servers(config: &Config) -> Servers {
    let places = |servers: &[Server]| {
        servers.iter().map(|server| HostPort { host: server.host.to_string(), port: server.port }).collect()
    };
    match &config.server {
        ServerConfig::Sentinel { hosts, service_name, .. } => {
            Servers::Sentinel { sentinels: places(hosts), name: service_name.clone() }
        }
        ServerConfig::Clustered { hosts, .. } => Servers::Cluster { seeds: places(hosts) },
        ServerConfig::Centralized { .. } | ServerConfig::Unix { .. } => Servers::One,
    }
}

/// How servers are reached, and as whom.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// The limit of each answer; a server that says nothing for twice as long is taken for dead.
    pub(crate) limit: Duration,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tokio_rustls::TlsConnector>,
}

/// The same for connections of our own.
pub(crate) fn dial(config: &Config, limit: Duration) -> Result<Dial, ConnectError> {
    Ok(Dial {
        username: config.username.clone(),
        password: config.password.clone(),
        limit,
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
pub(crate) fn config(endpoint: Endpoint, ca_pem: Option<&[u8]>) -> Result<Config, ConnectError> {
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
        let trusted: fred::types::config::TlsConnector = super::tls::config(ca_pem)?.into();
        config.tls = Some(trusted.into());
    }
    #[cfg(not(feature = "tls"))]
    let _ = ca_pem;
    Ok(config)
}

/// A connection as a lock needs it, whatever else the configuration says. It is made anew after `longest_pause` at
/// most, in milliseconds, and also where an answer takes longer than `dead_after`.
pub(super) fn client(
    mut config: Config,
    command_timeout: Duration,
    longest_pause: u32,
    dead_after: Option<Duration>,
) -> Result<Client, ConnectError> {
    config.version = RespVersion::RESP3;
    let mut policy = ReconnectPolicy::new_exponential(0, 20, longest_pause, 2);
    policy.set_jitter(20);
    let mut builder = fred::types::Builder::from_config(config);
    builder
        .with_connection_config(|connection| {
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.connection_timeout = command_timeout.max(Duration::from_secs(2));
            connection.internal_command_timeout = command_timeout.max(Duration::from_secs(2));
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
            performance.broadcast_channel_capacity = MESSAGES;
        })
        .set_policy(policy);
    builder.build().map_err(|error| ConnectError::Url(error.details().to_owned()))
}

/// Whether a server does not speak RESP3, by what it said to HELLO.
pub(crate) fn is_resp2(why: &str) -> bool {
    why.starts_with("NOPROTO") || why.starts_with("ERR unknown command") && why.contains("HELLO")
}

/// Why there is no connection.
pub(super) fn connect_error(error: &Error) -> ConnectError {
    match Fate::of_error(error.details()) {
        Some(Fate::Refused(why @ (Refused::NoPermission(_) | Refused::NotAuthenticated(_)))) => why.into(),
        _ if is_resp2(error.details()) => ConnectError::Resp2(error.details().to_owned()),
        _ if *error.kind() == ErrorKind::Auth => Refused::NotAuthenticated(error.details().to_owned()).into(),
        #[cfg(feature = "tls")]
        _ if *error.kind() == ErrorKind::Tls => ConnectError::Tls(error.details().to_owned()),
        _ => ConnectError::Unreachable(error.to_string()),
    }
}
