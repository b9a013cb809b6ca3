//! What can be set, and what each setting costs.

#[cfg(feature = "redis")]
use std::error::Error;
use std::fmt;
#[cfg(feature = "redis")]
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "redis")]
use crate::backend::fred_config::Credentials;
#[cfg(feature = "tls")]
use crate::backend::tls::Pem;
use crate::base::config::{Confirm, Replicas, Settings, SHORTEST_LEASE};
use crate::base::fault::ConnectError;
use crate::base::keys::{Keys, Naming};
use crate::client::factory::Locks;
use crate::metrics::Classes;

/// Makes a client. Every setting says its default, its unit, and what raising or lowering it costs.
///
/// ```no_run
/// # #[cfg(feature = "redis")]
/// # async fn f() -> Result<(), lockson::ConnectError> {
/// use std::time::Duration;
/// let locks = lockson::Locks::builder()
///     .label("billing-7")
///     .watchdog_lease(Duration::from_secs(15))
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until `connect`"]
pub struct Builder {
    pub(crate) settings: Settings,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<u8>,
    pub(crate) sentinel_username: Option<String>,
    pub(crate) sentinel_password: Option<String>,
    #[cfg(feature = "tls")]
    pub(crate) pem: Pem,
    #[cfg(feature = "redis")]
    pub(crate) addresses: Option<crate::topology::slots::AddressMap>,
    #[cfg(feature = "redis")]
    pub(crate) credentials: Option<Credentials>,
    #[cfg(feature = "redis")]
    pub(crate) sentinel_credentials: Option<Credentials>,
    #[cfg(feature = "lean")]
    pub(crate) is_lean: bool,
}

impl fmt::Debug for Builder {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .field("username", &self.username)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The user to authenticate as. Default: the URL's, or the server's default user. It wins over the URL's.
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self
    }

    /// The password. Default: the URL's. It wins over the URL's, and is in no Debug output, error or log.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// The user to authenticate as at sentinels. Default: their default user. The URL's is for the servers alone.
    pub fn sentinel_username(mut self, username: impl Into<String>) -> Self {
        self.sentinel_username = Some(username.into());
        self
    }

    /// The password for sentinels. Default: none. The URL's is for the servers alone.
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Asks for user and password whenever a connection is made, in place of fixed ones: for passwords that are
    /// rotated, and tokens that expire. The user of those who have none is `default`. Default: none is asked. It wins
    /// over all others.
    ///
    /// It is asked for each connection, so for several at once, and again and again while it fails: it should have at
    /// hand what it answers. It is given one [`command_timeout`](Builder::command_timeout), at least 1 s. That it
    /// failed is [`ConnectError::Credentials`], later one WARN, with the error's text, which must hold no secret. If it
    /// panics, it has failed.
    ///
    /// # Cancel safety
    /// The future may be dropped at any point.
    ///
    /// ```
    /// use std::io::Error;
    ///
    /// let builder = lockson::Locks::builder().credentials(|| async {
    ///     let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///     Ok::<_, Error>(("locker".to_owned(), password.trim().to_owned()))
    /// });
    /// # drop(builder);
    /// ```
    #[cfg(feature = "redis")]
    pub fn credentials<F, E>(mut self, provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(String, String), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.credentials = Some(Credentials::new(provider));
        self
    }

    /// The same as [`credentials`](Builder::credentials) for sentinels. Default: none is asked.
    #[cfg(feature = "redis")]
    pub fn sentinel_credentials<F, E>(mut self, provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(String, String), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.sentinel_credentials = Some(Credentials::new(provider));
        self
    }

    /// Where this client reaches the server that a cluster or a sentinel says is at this host and port, where that is
    /// another address from here (containers, NAT). `None`: there. Default: always there. Not for the addresses in the
    /// URL.
    #[cfg(feature = "redis")]
    pub fn address_map(mut self, map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static) -> Self {
        self.addresses = Some(Arc::new(map));
        self
    }

    /// The database by number. Default: the URL's, or 0. Channels are not parted by database: locks of one name in two
    /// databases wake each other's waiters for nothing.
    pub fn database(mut self, database: u8) -> Self {
        self.database = Some(database);
        self
    }

    /// Stands before every name, in keys and channels. Default: none. Every client that shares the locks needs the
    /// same; Java sets it by a NameMapper. It counts for [`max_name_len`](Builder::max_name_len). Where names are
    /// changed in another way: [`name_mapper`](Builder::name_mapper).
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.naming.prefix = prefix.into();
        self
    }

    /// Makes the key of a name, as Redisson's `NameMapper.map`; every client that shares the locks needs the same.
    /// Default: the name itself. All other keys and channels are made of what it returns, with
    /// [`key_prefix`](Builder::key_prefix) before it; `name()`, errors and logs say the name as it was given.
    ///
    /// It is called where a handle is made, on that thread, so it must be quick and not panic; by `Admin`; and for
    /// names of lockson's own, which begin with `lockson:` (at connect in a cluster for many). It must always say the
    /// same. What it returns is checked as a name is. Two names that it maps to one are one lock, of which errors and
    /// logs say either.
    ///
    /// ```
    /// let builder = lockson::Locks::builder().name_mapper(|name| format!("{{billing}}:{name}:v2"));
    /// # drop(builder);
    /// ```
    pub fn name_mapper(mut self, map: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.settings.naming.mapper = Some(Arc::new(map));
        self
    }

    /// Stands before the client id, so that operators see who holds a lock: `label-uuid`; 1 to 128 bytes without `:`
    /// and control characters. Default: none, the id is a
    /// uuid as Redisson's. The uuid is always fresh: two processes with one label are two clients.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// The lease of holds that the watchdog renews, each third of it. Default: 30 s, as Redisson; at least 1 s and
    /// three command timeouts. Longer: what a crashed process held stays locked longer. Shorter: more renewals, and a
    /// shorter outage loses holds.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.settings.watchdog_lease = lease;
        self
    }

    /// How long one call waits for its answer before it is sent again. Default: 1 s; at least 10 ms. Longer: after a
    /// lost answer the owner's next acquire waits longer. Shorter: a slow server gets more repeated calls.
    ///
    /// Three of it (3 s) are the limit of every verb that looks once and was given none: `try_lock`, a wait of zero,
    /// `try_acquire` and `drain_permits`, `verify` and `set_lease`, every question (`is_held`, `holder`, `count`, ..)
    /// and `force_unlock`. What is under way then is left to the client, as of a future that is dropped.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.settings.command_timeout = timeout;
        self
    }

    /// The longest that a waiter sleeps without looking again, should a wake-up be lost. Default: 1 s; at least 10 ms.
    /// Longer: a lost wake-up costs more. Shorter: each process that waits asks more often (half the cap to the cap).
    pub fn wait_cap(mut self, cap: Duration) -> Self {
        self.settings.wait_cap = cap;
        self
    }

    /// Ends the renewal that an acquisition asks for this long after it. Default: none; at least 100 ms. With it, a
    /// hold that its task forgot ends; but work that takes longer loses its lock (and is told).
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.settings.max_hold = Some(limit);
        self
    }

    /// Adds the label `class` to the metrics of acquisitions and holds: what this makes of the lock's name, once for
    /// each new handle. Default: no such label. Of a client's classes the first hundred are told apart, all others are
    /// `other`, as each is a time series of its own: `orders:4711` should be `orders`.
    #[cfg(feature = "metrics")]
    pub fn metrics_class(mut self, class: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.settings.naming.classes = Classes::new(class);
        self
    }

    /// How long calls that wait without a limit, give back or count try to reach a server that does not answer.
    /// Default: 30 s; at least 10 ms. Longer: calls hang longer before they fail. Shorter: a short outage fails them.
    /// What looks once has a limit of its own: [`command_timeout`](Builder::command_timeout).
    pub fn outage_limit(mut self, limit: Duration) -> Self {
        self.settings.outage_limit = limit;
        self
    }

    /// How long the making of one connection to one server may take, with TLS and the first answers. Default: 2 s, 1 s
    /// to sentinels and to the servers that they or a cluster name, but never less than the
    /// [`command_timeout`](Builder::command_timeout); at least 10 ms. Longer: for networks where a connection takes
    /// long; a server that is away without a word is given up later.
    #[cfg(feature = "redis")]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = Some(timeout);
        self
    }

    /// How often sentinels and the servers of a cluster are asked who the primaries are, when nothing seems wrong; else
    /// they are asked at once. Default: 5 s behind sentinels, 10 s in a cluster; at least 100 ms. Longer: what no
    /// server, message or redirection tells is found later. Shorter: each client asks each of them more often.
    #[cfg(feature = "redis")]
    pub fn refresh_interval(mut self, interval: Duration) -> Self {
        self.settings.refresh_interval = Some(interval);
        self
    }

    /// Whether `lock`, `mutex` and `plain_lock` go from one task to the next of this client without a script each: for
    /// at most 20 ms from the script that took them. Default: on. Off, each hand-over is a script: a hot lock is some
    /// twenty times slower, and the server shows at every moment whose it is.
    pub fn local_turns(mut self, on: bool) -> Self {
        self.settings.local_turns = on;
        self
    }

    /// Whether scripts go by a lean connection of lockson's own in place of fred's: whoever calls writes, and what
    /// comes together while answers are awaited is one write. Default: off. On, a call costs the client about half as
    /// much, and who calls in an outage is told at once, and tries again by itself; all promises are the same. Calls
    /// that wait for replicas ([`confirm`](Builder::confirm)) go by fred still, as do those of one server whose client
    /// is lent.
    #[cfg(feature = "lean")]
    pub fn lean_connections(mut self, on: bool) -> Self {
        self.is_lean = on;
        self
    }

    /// Whether the client says on the server who it is: its machine, process and version, and what it has held for how
    /// long (the hundred longest holds), for [`Admin::client`](crate::Admin::client) and `lockson show`. It is one key,
    /// `lockson:client:` and its id behind the prefix, which the client writes every third of the watchdog's lease and
    /// which ends with that lease. Default: off, as it needs a right to `SET` that key.
    pub fn presence(mut self, on: bool) -> Self {
        self.settings.presence = on;
        self
    }

    /// The longest lease that a request may have. Default: 24 h; at least the watchdog's, at most ten years, as every
    /// time here. A longer lease keeps a lock longer after a crash.
    pub fn max_lease(mut self, limit: Duration) -> Self {
        self.settings.max_lease = limit;
        self
    }

    /// Grants nothing for [`max_lease`](Builder::max_lease) after a server took another's place, or was started anew:
    /// what the one before it granted last may be lost, and whoever holds it knows by then that it does not any more.
    /// Default: off. For those who do not have grants [confirmed](Builder::confirm) by all replicas.
    ///
    /// Meanwhile those who wait go on waiting, for locks and permits; one attempt is
    /// [`Refused::Quarantine`](crate::Refused::Quarantine). Holds that the new server has are entered again, renewed,
    /// handed over and given back.
    ///
    /// `max_lease` has to be the same in all clients, and no shorter than any lease that others take, Java's
    /// `leaseTime` and `lockWatchdogTimeout` too: nobody believes in a hold for longer than its lease, from the last
    /// renewal that the old server answered. Its default of 24 h is far too long for this: with the watchdog's leases
    /// alone, set it to [`watchdog_lease`](Builder::watchdog_lease).
    ///
    /// Each process knows it, however late it starts: a key (`lockson:quarantine`, in a cluster one for each node) has
    /// the run of the server that it was written on, so a replica in its place finds another's. A planned
    /// `CLUSTER FAILOVER` can't be told from one that loses writes, and counts too. Without the key the age of the
    /// server's process counts: so a new server rests as well. Not covered is a failover before the first such client
    /// came, what an operator deletes, and an old primary that some clients go on reaching, cut off from the others:
    /// there they renew their holds for as long as it takes writes. [`confirm`](Builder::confirm) has no such gap.
    pub fn quarantine(mut self, on: bool) -> Self {
        self.settings.quarantine = on;
        self
    }

    /// How many times one owner may hold one lock. Default: 2^31 - 1. A lower limit finds recursion without end.
    pub fn max_holds(mut self, limit: u32) -> Self {
        self.settings.max_holds = limit;
        self
    }

    /// The longest name in bytes, mapped and with the prefix. Default: 512. Names are sent with every call.
    pub fn max_name_len(mut self, limit: usize) -> Self {
        self.settings.naming.limit = limit;
        self
    }

    /// What is granted counts only when so many replicas of its shard have it, and they are waited for `within` this
    /// time, 1 ms to 10 s (what looks once still ends after three command timeouts). So a failover does not lose it.
    /// Default: replicas are not asked, as in most uses of Redis: what a primary granted right before it died may be
    /// granted again. A request may ask for more, less, or none: [`Acquire::confirm`](crate::Acquire::confirm).
    ///
    /// Too few in time: it is given back at once, and the error is
    /// [`LockError::NotConfirmed`](crate::LockError::NotConfirmed). A renewal that is not confirmed leaves its hold
    /// [`Uncertain`](crate::HoldState::Uncertain), with its deadline where it was, and is tried again. Releases are not
    /// confirmed: a lock may come back with a failover, until its lease ends.
    ///
    /// It counts for every kind of lock (acquisition, re-entry, hand-over, renewal, change of the lease), for each
    /// member of a multi-lock and each vote of a red lock, and for permits that are taken. Not for what sets, adds or
    /// counts (`try_set_permits`, a latch), nor for what [`run_if_held`](crate::FencedGuard::run_if_held) writes.
    ///
    /// Only [`Replicas::All`] protects a hold whichever replica is promoted: then one that is silent keeps every lock
    /// of its shard from being taken, until it is back or off the list (`SENTINEL RESET`, `CLUSTER FORGET`). Of a
    /// single server those count that are connected. Each grant costs a `WAIT`, about the way to the replicas and back;
    /// a shorter `within` fails where a replica is only slow.
    ///
    /// ```no_run
    /// # #[cfg(feature = "redis")]
    /// # async fn f() -> Result<(), lockson::ConnectError> {
    /// use std::time::Duration;
    /// let locks = lockson::Locks::builder()
    ///     .confirm(lockson::Replicas::All, Duration::from_millis(500))
    ///     .connect("redis-sentinel://s1:26379,s2:26379,s3:26379/mymaster")
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Refused::Replicas`](crate::Refused::Replicas), at `connect`, where a shard has fewer.
    pub fn confirm(mut self, replicas: Replicas, within: Duration) -> Self {
        self.settings.confirm = Confirm::new(replicas, within).if_any();
        self
    }

    /// Connects although the server's `maxmemory-policy` may drop locks to make room. Default: refused. A dropped lock
    /// is found at its next renewal; until then two owners may think that they hold it.
    pub fn allow_eviction(mut self) -> Self {
        self.settings.allow_eviction = true;
        self
    }

    /// A root certificate to trust (PEM, one or more), in place of the system's, for `rediss://` and the like: for
    /// servers and for sentinels.
    #[cfg(feature = "tls")]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.pem.ca = Some(pem.into());
        self
    }

    /// The certificate of this client, with those between it and the root behind it, and its key (PEM), for servers
    /// and sentinels with `tls-auth-clients yes`. Default: none. What can't be read, and a key of another certificate,
    /// is [`ConnectError::Tls`]; what the server refuses is [`ConnectError::ClientCertificate`].
    #[cfg(feature = "tls")]
    pub fn client_pem(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.pem.client = Some((certificates.into(), key.into()));
        self
    }

    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let settings = &self.settings;
        let wrong = |setting, problem: String| Err(ConnectError::Setting { setting, problem });
        let at_least = |setting, value: Duration, least: Duration| {
            if value >= least && value <= Duration::from_secs(10 * 365 * 24 * 60 * 60) {
                return Ok(());
            }
            wrong(setting, format!("is {value:?}: it must be {least:?} to ten years"))
        };
        let ms = Duration::from_millis;
        at_least("command_timeout", settings.command_timeout, ms(10))?;
        at_least("watchdog_lease", settings.watchdog_lease, (settings.command_timeout * 3).max(ms(1000)))?;
        at_least("wait_cap", settings.wait_cap, ms(10))?;
        at_least("outage_limit", settings.outage_limit, ms(10))?;
        at_least("connect_timeout", settings.connect_timeout.unwrap_or(ms(10)), ms(10))?;
        at_least("refresh_interval", settings.refresh_interval.unwrap_or(ms(100)), ms(100))?;
        at_least("max_lease", settings.max_lease, settings.watchdog_lease)?;
        at_least("max_hold", settings.max_hold.unwrap_or(SHORTEST_LEASE), SHORTEST_LEASE)?;
        let label = settings.label.as_deref().unwrap_or("x");
        if label.is_empty() || label.len() > 128 || label.contains(|c: char| c == ':' || c.is_control()) {
            return wrong("label", "must be 1 to 128 bytes without ':' and control characters".to_owned());
        }
        if settings.max_holds == 0 {
            return wrong("max_holds", "must not be 0".to_owned());
        }
        // With the shortest name, so that no prefix makes every name a bad one. What a mapper does to other names is
        // not known.
        let naming = Naming { mapper: None, classes: Classes::default(), ..settings.naming.clone() };
        Keys::new(&naming, "x").map(drop).or_else(|error| {
            let setting = if naming.prefix.is_empty() { "max_name_len" } else { "key_prefix" };
            wrong(setting, format!("refuses every name: {error}"))
        })
    }
}

impl Locks {
    /// Begins a client with settings of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
