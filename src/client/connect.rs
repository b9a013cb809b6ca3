//! Connecting to real servers.

use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::sync::mpsc::UnboundedReceiver;

#[cfg(feature = "lean")]
use crate::backend::fred::place;
use crate::backend::fred::{address, connect};
#[cfg(feature = "fred")]
use crate::backend::fred_config::ClientLike;
use crate::backend::fred_config::{
    config, provider, servers, usable, Client, Config, Credentials, Login, Servers, Times,
};
use crate::backend::node::Topology;
use crate::backend::url::Endpoint;
use crate::backend::{Backend, Signal};
use crate::base::clock::Clock;
use crate::base::fault::ConnectError;
use crate::base::host::Host;
use crate::client::builder::Builder;
use crate::client::factory::Locks;
use crate::client::preflight::begin;
use crate::error::in_runtime;
use crate::topology::member::Access;
#[cfg(feature = "lean")]
use crate::topology::single;
use crate::topology::slots::AddressMap;
use crate::topology::{cluster, sentinel};

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
        let config = self.config(url)?;
        self.over(config, None).await
    }

    /// What a URL and the builder say, both looked over.
    pub(super) fn config(&self, url: &str) -> Result<Config, ConnectError> {
        let mut endpoint = Endpoint::parse(url)?;
        endpoint.username = self.username.clone().or(endpoint.username);
        endpoint.password = self.password.clone().or(endpoint.password);
        endpoint.database = self.database.unwrap_or(endpoint.database);
        self.check()?;
        config(
            endpoint,
            #[cfg(feature = "tls")]
            &self.pem,
        )
    }

    /// Shares a client of fred's that the program has, or a member of its pool (`pool.next()`).
    ///
    /// The scripts of one server go by its connection: it has to be initialized, and it stays as it is when this ends.
    /// Only after three calls in a row without an answer is it made anew, as fred's own `unresponsive` does, and the
    /// program's calls on it fail too; a blocking command on it (BLPOP) holds up all locks. Messages come by a
    /// connection of lockson's own, with the same configuration, as calls do that wait for replicas.
    ///
    /// A client of sentinels or a cluster lends only its configuration, and need not be connected: its hosts and name,
    /// the users and passwords (fixed or asked for), the database and TLS by rustls. lockson finds the servers by
    /// itself. What the builder has of these wins, but `username`, `password`, `database`, `ca_pem` and `client_pem`,
    /// which are for URLs. This is the only place where a type of fred is seen.
    ///
    /// ```no_run
    /// use fred::prelude::*;
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = fred::types::Builder::from_config(Config::from_url("redis://127.0.0.1:6379")?)
    ///     .with_connection_config(|connection| connection.max_command_attempts = 1)
    ///     .set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2))
    ///     .build()?;
    /// client.init().await?;
    /// let locks = lockson::Locks::builder().over_fred(&client).await?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`connect`](Builder::connect)'s. [`ConnectError::Setting`] names what would make a lock unsafe or can't be
    /// kept: of one server `max_command_attempts` other than 1 (a call that may have run would be sent again),
    /// `reconnect_on_auth_error` and a `Custom` in `reconnect_errors` (calls that may have run would count as
    /// refused), and a `ReconnectPolicy` that is missing or gives up (`max_attempts` other than 0); of others no host
    /// at all, a database of a cluster, and host names for TLS that fred would map (`Builder::address_map` does that).
    ///
    /// # Cancel safety
    /// As [`connect`](Builder::connect)'s.
    #[cfg(feature = "fred")]
    pub async fn over_fred(self, client: &Client) -> Result<Locks, ConnectError> {
        self.check()?;
        self.over(client.client_config(), Some(client)).await
    }

    /// Connects, and looks the servers over before they are used.
    async fn over(self, config: Config, lent: Option<&Client>) -> Result<Locks, ConnectError> {
        in_runtime().map_err(|_| ConnectError::NoRuntime)?;
        let (target, host) = (self.target(config)?, Host::from(Clock::System));
        let (backend, signals) = target.open(&self.settings.client_id(host.id), lent).await?;
        begin(self.settings, backend, signals, host).await
    }

    pub(super) fn target(&self, mut config: Config) -> Result<Target, ConnectError> {
        let mut servers = servers(&config)?;
        let times = Times { command: self.settings.command_timeout, connect: self.settings.connect_timeout };
        let asked = |credentials: &Credentials| provider(credentials.clone(), times.command);
        config.credential_provider = self.credentials.as_ref().map(asked).or(config.credential_provider);
        if let Servers::Sentinel { login, .. } = &mut servers {
            let provider = self.sentinel_credentials.as_ref().map(asked);
            let (username, password) = (self.sentinel_username.clone(), self.sentinel_password.clone());
            if provider.is_some() || username.is_some() || password.is_some() {
                *login = Login { username, password, provider };
            }
        }
        let (addresses, calm) = (self.addresses.clone(), self.settings.refresh_interval);
        Ok(Target {
            servers,
            config,
            times,
            addresses,
            calm,
            #[cfg(feature = "lean")]
            is_lean: self.is_lean,
        })
    }
}

/// Servers, and all that it takes to connect to them, as often as is needed.
pub(crate) struct Target {
    servers: Servers,
    config: Config,
    times: Times,
    addresses: Option<AddressMap>,
    calm: Option<Duration>,
    #[cfg(feature = "lean")]
    is_lean: bool,
}

impl Target {
    pub(crate) fn topology(&self) -> Topology {
        match self.servers {
            Servers::One => Topology::Single,
            Servers::Sentinel { .. } => Topology::Sentinel,
            Servers::Cluster { .. } => Topology::Cluster,
        }
    }

    /// `host:port` of those that are asked first.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match &self.servers {
            Servers::One => vec![address(&self.config)],
            Servers::Sentinel { sentinels: places, .. } | Servers::Cluster { seeds: places } => {
                places.iter().map(ToString::to_string).collect()
            }
        }
    }

    pub(crate) async fn open(
        &self,
        client_id: &str,
        lent: Option<&Client>,
    ) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError> {
        let Self { servers, config, times, addresses, calm, .. } = self;
        let name = connection_name(client_id);
        let access = || {
            let access = Access::new(config.clone(), *times, &name, addresses.clone(), *calm);
            #[cfg(feature = "lean")]
            let access = access.map(|access| access.lean(self.is_lean));
            access
        };
        match servers.clone() {
            #[cfg(feature = "lean")]
            Servers::One if self.is_lean && lent.is_none() => single::connect(place(config), access()?).await,
            Servers::One => {
                let lent = OptionFuture::from(lent.map(|client| usable(client, *times))).await.transpose()?;
                connect(config.clone(), *times, &name, lent).await
            }
            Servers::Sentinel { sentinels, name, login } => sentinel::connect(sentinels, name, access()?, login).await,
            Servers::Cluster { seeds } => cluster::connect(seeds, access()?).await,
        }
    }
}

/// By which `CLIENT LIST` has the connections of a client, as far as its label has characters that may stand in it.
fn connection_name(client_id: &str) -> Arc<str> {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '-' };
    format!("lockson:{}", client_id.chars().map(plain).collect::<String>()).into()
}
