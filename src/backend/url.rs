//! Reads the URL of a connection: what lockson does not know in it is refused.

use std::borrow::Cow;
use std::fmt;

use url::{Host, Url};

use crate::base::fault::ConnectError;

/// Stands for the host where a URL names a socket.
const SOCKET: &str = "socket";

/// Where servers are, and as whom to talk to them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    pub(crate) tls: bool,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(HostPort),
    Unix {
        path: String,
    },
    /// The primary that these sentinels name so.
    Sentinel {
        sentinels: Vec<HostPort>,
        name: String,
    },
    /// The cluster that these servers are of.
    Cluster {
        seeds: Vec<HostPort>,
    },
}

/// Where one server listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl HostPort {
    /// `host:port`, as a cluster writes it: the host may be empty.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self { host: host.trim_matches(['[', ']']).to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What a scheme says of the way to its servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Tcp,
    Unix,
    Sentinel,
    Cluster,
}

impl fmt::Debug for Endpoint {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .field("tls", &self.tls)
            .field("username", &self.username)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// `redis://[user[:password]@]host[:port][/database]`, `rediss://..` (feature `tls`), `redis+unix:///path[?db=n]`,
    /// `redis-sentinel://[user[:password]@]host[:port],../name[/database]`, `redis-cluster://[..@]host[:port],..`,
    /// these with `rediss`, and the same with `valkey`.
    pub(crate) fn parse(text: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("it has no scheme: write redis://host:port"))?;
        let (tls, way) = way(scheme)?;
        if tls && !cfg!(feature = "tls") {
            return Err(ConnectError::NeedsTls);
        }
        let (user, hosts, path) = parts(rest);
        let urls: Vec<Url> = match way {
            // A URL with a user has a host.
            Way::Unix => vec![whole(user, &format!("{hosts}{SOCKET}"), path)?],
            Way::Tcp => vec![whole(user, hosts, path)?],
            Way::Sentinel | Way::Cluster => {
                hosts.split(',').map(|host| whole(user, host, path)).collect::<Result<_, _>>()?
            }
        };
        let url = urls.first().ok_or_else(|| bad("it has no host"))?;
        let servers = |port| urls.iter().map(|url| host(url, port)).collect::<Result<Vec<_>, _>>();
        let (address, number) = match way {
            Way::Tcp => (Address::Tcp(host(url, 6379)?), after_slash(url)),
            Way::Unix => socket(url)?,
            Way::Sentinel => {
                let path = after_slash(url).ok_or_else(|| bad("it names no primary: write ..://host:26379/name"))?;
                let (name, number) = path.split_once('/').map_or((path, None), |(name, number)| (name, Some(number)));
                (Address::Sentinel { sentinels: servers(26379)?, name: decoded(name)? }, number)
            }
            Way::Cluster if after_slash(url).is_some() => return Err(bad("a cluster has no databases by number")),
            Way::Cluster => (Address::Cluster { seeds: servers(6379)? }, None),
        };
        let database = number.map_or(Ok(0), str::parse);
        let word = |word: Option<&str>| word.filter(|word| !word.is_empty()).map(decoded).transpose();
        Ok(Self {
            address,
            tls,
            username: word(Some(url.username()))?,
            password: word(url.password())?,
            database: database.map_err(|_| bad("its database is not a number from 0 to 255"))?,
        })
    }
}

/// Whether TLS is asked for, and the way.
fn way(scheme: &str) -> Result<(bool, Way), ConnectError> {
    let (store, way) = match scheme.split_once(['-', '+']) {
        None => (scheme, Way::Tcp),
        Some((store, "unix")) if scheme.contains('+') => (store, Way::Unix),
        Some((store, "sentinel")) if scheme.contains('-') => (store, Way::Sentinel),
        Some((store, "cluster")) if scheme.contains('-') => (store, Way::Cluster),
        // Not the text before "://" itself: somebody may have put a password there.
        Some(_) => return Err(ConnectError::Scheme),
    };
    match store {
        "redis" | "valkey" => Ok((false, way)),
        "rediss" | "valkeys" if way != Way::Unix => Ok((true, way)),
        _ => Err(ConnectError::Scheme),
    }
}

/// The user with its `@`, the hosts, and what follows them.
fn parts(rest: &str) -> (&str, &str, &str) {
    let (place, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
    (user, hosts, path)
}

fn whole(user: &str, host: &str, path: &str) -> Result<Url, ConnectError> {
    Url::parse(&format!("redis://{user}{host}{path}")).map_err(|why| bad(&why.to_string()))
}

/// The host and the port.
fn host(url: &Url, port: u16) -> Result<HostPort, ConnectError> {
    if url.query().or(url.fragment()).is_some() {
        return Err(bad("it takes no ?query and no #fragment"));
    }
    let host = match url.host() {
        Some(Host::Domain(host)) => decoded(host)?,
        Some(host) => host.to_string().trim_matches(['[', ']']).to_owned(),
        None => return Err(bad("it has no host")),
    };
    let port = url.port().unwrap_or(port);
    if port == 0 {
        return Err(bad("its port is not a number from 1 to 65535"));
    }
    Ok(HostPort { host, port })
}

fn after_slash(url: &Url) -> Option<&str> {
    url.path().strip_prefix('/').filter(|path| !path.is_empty())
}

/// The path, and the number of the database.
fn socket(url: &Url) -> Result<(Address, Option<&str>), ConnectError> {
    if url.host_str() != Some(SOCKET) {
        return Err(bad("a socket needs an absolute path: redis+unix:///run/redis.sock"));
    }
    let number = match url.query() {
        Some(query) => Some(query.strip_prefix("db=").ok_or_else(|| bad("the only setting after ? is db=number"))?),
        None => None,
    };
    Ok((Address::Unix { path: decoded(url.path())? }, number))
}

fn bad(why: &str) -> ConnectError {
    ConnectError::Url(why.to_owned())
}

fn decoded(text: &str) -> Result<String, ConnectError> {
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(is_escape) {
        return Err(bad("a % is followed by two hexadecimal digits"));
    }
    urlencoding::decode(text).map(Cow::into_owned).map_err(|_| bad("a decoded part is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read_or_refused(
            text in ".{0,30}|(redis|valkeys?)([+-](unix|sentinel|cluster))?://[a%@:,/?#\\[\\]0-9]{0,16}",
        ) {
            match Endpoint::parse(&text) {
                Ok(endpoint) => drop(format!("{endpoint:?}")),
                Err(error) => prop_assert_ne!(error.to_string(), ""),
            }
        }

        #[test]
        fn any_url_says_what_was_put_into_it(
            user in "[ -~]{0,6}",
            password in ".{1,6}",
            hosts in prop::collection::vec(("[a-z]{1,5}", 1u16..), 1..4),
            name in "[a-z/ %]{1,5}",
            database in 0u8..,
        ) {
            let login = format!("{}:{}", urlencoding::encode(&user), urlencoding::encode(&password));
            let places: Vec<String> = hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
            let [name_there, servers] = [urlencoding::encode(&name).into_owned(), places.join(",")];
            let url = format!("redis-sentinel://{login}@{servers}/{name_there}/{database}");
            let sentinel = Endpoint::parse(&url).unwrap();
            let hosts: Vec<HostPort> = hosts.iter().map(|(host, port)| place(host, *port)).collect();
            prop_assert_eq!(&sentinel.address, &Address::Sentinel { sentinels: hosts.clone(), name });
            prop_assert_eq!((sentinel.username.unwrap_or_default(), sentinel.password), (user, Some(password)));
            prop_assert_eq!((sentinel.database, sentinel.tls), (database, false));
            let cluster = Endpoint::parse(&format!("valkey-cluster://{servers}")).unwrap();
            prop_assert_eq!(cluster.address, Address::Cluster { seeds: hosts.clone() });
            for host in hosts {
                prop_assert_eq!(HostPort::parse(&host.to_string()), Some(host));
            }
        }

        #[test]
        fn any_password_is_told_to_nobody(
            rest in "[a%@:,/?#0-9]{0,12}",
            scheme in "redis|redis-sentinel|redis\\+unix|x",
        ) {
            let told = match Endpoint::parse(&format!("{scheme}://u:hunter2@{rest}")) {
                Ok(endpoint) => format!("{endpoint:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!told.contains("hunter2"), "{told}");
        }
    }

    fn parse(url: &str) -> Endpoint {
        Endpoint::parse(url).unwrap()
    }

    fn place(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp(place(host, port))
    }

    #[test]
    fn urls() {
        let plain = parse("redis://localhost");
        assert_eq!(plain.address, at("localhost", 6379));
        assert_eq!((plain.database, plain.tls, plain.username, plain.password), (0, false, None, None));
        let full = parse("valkey://us%65r:p%40ss%3A@10.0.0.1:6380/7");
        assert_eq!(full.address, at("10.0.0.1", 6380));
        assert_eq!(
            (full.username.as_deref(), full.password.as_deref(), full.database),
            (Some("user"), Some("p@ss:"), 7)
        );
        assert_eq!(parse("redis://:secret@h").password.as_deref(), Some("secret"));
        assert_eq!(parse("redis://[::1]:7000").address, at("::1", 7000));
        if !cfg!(feature = "tls") {
            assert!(matches!(Endpoint::parse("rediss://h"), Err(ConnectError::NeedsTls)));
        }
        let socket = parse("redis+unix:///run/redis.sock?db=3");
        assert_eq!((socket.address, socket.database), (Address::Unix { path: "/run/redis.sock".into() }, 3));
    }

    #[test]
    fn urls_of_many_servers() {
        let servers = |servers: &[(&str, u16)]| servers.iter().map(|(host, port)| place(host, *port)).collect();
        let sentinel = parse("redis-sentinel://u:p%40@s1,s2:7000,[::1]:1/my%2Fmaster/3");
        let sentinels = servers(&[("s1", 26379), ("s2", 7000), ("::1", 1)]);
        assert_eq!(sentinel.address, Address::Sentinel { sentinels, name: "my/master".into() });
        assert_eq!((sentinel.username.as_deref(), sentinel.password.as_deref()), (Some("u"), Some("p@")));
        assert_eq!((sentinel.database, sentinel.tls), (3, false));
        let cluster = parse("valkey-cluster://10.0.0.1,10.0.0.2:6380/");
        let seeds = servers(&[("10.0.0.1", 6379), ("10.0.0.2", 6380)]);
        assert_eq!((cluster.address, cluster.database), (Address::Cluster { seeds }, 0));
        for refused in [
            "redis-sentinel://h:26379",
            "redis-sentinel://h,/name",
            "redis-sentinel://h/name/x",
            "redis-cluster://h/1",
            "redis-cluster://h,h:0",
            "redis-cluster://h?a=b",
        ] {
            assert!(matches!(Endpoint::parse(refused), Err(ConnectError::Url(_))), "{refused}");
        }
        for unknown in ["redis+cluster://h", "redis-unix:///s", "rediss+unix:///s", "redis-x://h"] {
            assert_eq!(Endpoint::parse(unknown), Err(ConnectError::Scheme), "{unknown}");
        }
        for scheme in ["rediss-cluster", "valkeys-cluster"] {
            let parsed = Endpoint::parse(&format!("{scheme}://h"));
            assert_eq!(parsed.map(|endpoint| endpoint.tls).ok(), cfg!(feature = "tls").then_some(true), "{scheme}");
        }
    }

    #[test]
    fn no_password_in_debug() {
        let shown = format!("{:?}", parse("redis://u:hunter2@h"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
