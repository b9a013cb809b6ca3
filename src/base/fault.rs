//! Why a server did not do what it was asked: it refused, or it was not reached.

use std::time::Duration;

/// Why the server did not do what it was asked. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The user of this connection lacks a right; the server's text names it. docs/GUARANTEES.md lists what locks need.
    #[error("a right is missing (ACL), grant it to this user: {0}")]
    NoPermission(String),
    /// The server wants a password, or another one.
    #[error("the server refused the credentials, set others by the URL or the builder: {0}")]
    NotAuthenticated(String),
    /// The server is a replica: connect to its primary.
    #[error("the server is a read-only replica: connect to its primary")]
    ReadOnly,
    /// The server is part of a cluster, and was connected to as a single one.
    #[error("the server is part of a cluster: connect by redis-cluster://")]
    Cluster,
    /// The server reached `maxmemory`: free memory or raise the limit. Releasing still works.
    #[error("the server is out of memory: free some or raise `maxmemory`; releasing still works")]
    OutOfMemory,
    /// More replicas are to confirm a grant ([`Builder::confirm`](crate::Builder::confirm), or a request's) than the
    /// shard has: add replicas, or ask for fewer.
    #[error(
        "{asked} replicas have to confirm a grant, and the topology lists {listed} here: add some, or ask for fewer"
    )]
    Replicas {
        /// How many there have to be; of [`Replicas::All`](crate::Replicas::All) one at least.
        asked: u32,
        /// How many there are, also those that are silent.
        listed: u32,
    },
    /// The server took another's place, or was started anew: nothing is granted for so long, as it may have lost what
    /// others hold (`Builder::quarantine`). Those who wait do so meanwhile.
    #[error(
        "the server took another's place, or was started anew: it grants nothing for {0:?} (`Builder::quarantine`)"
    )]
    Quarantine(Duration),
    /// Any other refusal, in the server's words.
    #[error("the server answered: {0}")]
    Other(String),
}

impl Refused {
    /// Whoever may not now, or not there, may later.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::NotAuthenticated(_) | Self::NoPermission(_))
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    Unreachable(String),
    Refused(Refused),
}

/// Why a client could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL can't be read. (The URL itself is not shown: it may hold a password.)
    #[error("the URL can't be used: {0}")]
    Url(String),
    /// The scheme is none of those that lockson knows.
    #[error(
        "the URL's scheme is not redis or valkey, with an s for TLS, and with -sentinel, -cluster or +unix if it is one"
    )]
    Scheme,
    /// Called outside of a tokio runtime: the client's tasks live on the one that it is made on.
    #[error("this is not in a tokio runtime: call it from a task, or in `Runtime::block_on`")]
    NoRuntime,
    /// A client of [`blocking`](crate::blocking) was to be made in a tokio runtime.
    #[error("this would block a thread of a tokio runtime: make a `lockson::Locks` there")]
    InRuntime,
    /// There is no thread for a client of [`blocking`](crate::blocking), or it ended at once.
    #[error("there is no thread for the client: {0}")]
    Thread(String),
    /// `rediss` and `valkeys`, and TLS in a configuration of sentinels or a cluster, need the cargo feature `tls`.
    #[error("TLS (rediss, valkeys) needs the cargo feature `tls` of lockson")]
    NeedsTls,
    /// A certificate or key is not readable as PEM, no root certificate was found, or the server's is not trusted.
    #[error("TLS, look at the certificate, the name in the URL and `Builder::ca_pem`: {0}")]
    Tls(String),
    /// The server wants another certificate of this client, or one at all.
    #[error("the server refused this client's certificate, or its lack of one, look at `Builder::client_pem`: {0}")]
    ClientCertificate(String),
    /// Whoever was asked by [`Builder::credentials`](crate::Builder::credentials) had none: it failed, panicked or
    /// said nothing.
    #[error("there are no credentials, look at what `Builder::credentials` asks: {0}")]
    Credentials(String),
    /// A setting of the builder is out of its range.
    #[error("{setting} {problem}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// No connection, or no answer.
    #[error("the server can't be reached, look at the address and whether it runs: {0}")]
    Unreachable(String),
    /// The server, or a proxy before it, does not speak RESP3, in its words: it refuses HELLO.
    #[error("the server does not speak RESP3, connect to one that does (Redis or Valkey, without a proxy): {0}")]
    Resp2(String),
    /// Sentinels were asked for, and these servers are none.
    #[error("no sentinels are there, connect by redis:// if it is a server: {0}")]
    NoSentinel(String),
    /// A cluster was asked for, and these servers are not part of one.
    #[error("no cluster is there, connect by redis:// if it is one server: {0}")]
    NoCluster(String),
    /// No primary of the cluster has this slot, and maybe others: what is locked there could not be reached.
    #[error("no primary of the cluster has slot {slot}: look at `CLUSTER SLOTS`")]
    Uncovered {
        /// The first such slot.
        slot: u16,
    },
    /// The sentinels that answered know no primary of this name.
    #[error("the sentinels know no primary {name:?}: {sentinels}")]
    UnknownPrimary {
        /// The name in the URL.
        name: String,
        /// What each of them said.
        sentinels: String,
    },
    /// The server that the sentinels name does not say that it is a primary: a failover may be under way.
    #[error("the sentinels name {found} as the primary {name:?}, and it is none: try again when they have agreed")]
    NoPrimary {
        /// The name in the URL.
        name: String,
        /// The server's address.
        found: String,
    },
    /// The server refused: the password, a right that [`Refused::NoPermission`] names, ..
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The server is older than what lockson is tested on.
    #[error("the server says version {found}; lockson needs Redis 7.0 or Valkey 7.2 at least")]
    TooOld {
        /// What it says.
        found: String,
    },
    /// The server may drop locks to make room.
    #[error(
        "the server's maxmemory-policy is {0}, which may drop locks: set it to noeviction, or call `allow_eviction`"
    )]
    Evicts(String),
}
