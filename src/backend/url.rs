//! Reads the URL of a connection: what lockson does not know in it is refused.

use std::borrow::Cow;
use std::fmt;

use url::{Host, Url};

use crate::base::fault::ConnectError;

/// Stands for the host where a URL names a socket.
const SOCKET: &str = "socket";

/// Where a server is, and as whom to talk to it.
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
    Tcp { host: String, port: u16 },
    Unix { path: String },
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
    /// and the same with `valkey`.
    pub(crate) fn parse(text: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("it has no scheme: write redis://host:port"))?;
        let (tls, unix) = match scheme {
            "redis" | "valkey" => (false, false),
            "rediss" | "valkeys" if cfg!(feature = "tls") => (true, false),
            "rediss" | "valkeys" => return Err(ConnectError::NeedsTls),
            "redis+unix" | "valkey+unix" => (false, true),
            "redis-sentinel" | "redis-cluster" | "valkey-sentinel" | "valkey-cluster" | "rediss-sentinel"
            | "rediss-cluster" => return Err(ConnectError::NotYet(scheme.to_owned())),
            // Not the text before "://" itself: somebody may have put a password there.
            _ => return Err(ConnectError::Scheme),
        };
        let place = match rest.split_once('/').filter(|_| unix) {
            // A URL with a user has a host.
            Some((user, path)) => format!("{user}{SOCKET}/{path}"),
            None => rest.to_owned(),
        };
        let url = Url::parse(&format!("redis://{place}")).map_err(|why| bad(&why.to_string()))?;
        let (address, number) = if unix { socket(&url)? } else { host(&url)? };
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

/// The host and the port, and the number of the database.
fn host(url: &Url) -> Result<(Address, Option<&str>), ConnectError> {
    if url.query().or(url.fragment()).is_some() {
        return Err(bad("it takes no ?query and no #fragment"));
    }
    let host = match url.host() {
        Some(Host::Domain(host)) => decoded(host)?,
        Some(host) => host.to_string().trim_matches(['[', ']']).to_owned(),
        None => return Err(bad("it has no host")),
    };
    let port = url.port().unwrap_or(6379);
    if port == 0 {
        return Err(bad("its port is not a number from 1 to 65535"));
    }
    Ok((Address::Tcp { host, port }, url.path().strip_prefix('/').filter(|path| !path.is_empty())))
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
    use super::*;

    fn parse(url: &str) -> Endpoint {
        Endpoint::parse(url).unwrap()
    }

    #[test]
    fn urls() {
        let plain = parse("redis://localhost");
        assert_eq!(plain.address, Address::Tcp { host: "localhost".into(), port: 6379 });
        assert_eq!((plain.database, plain.tls, plain.username, plain.password), (0, false, None, None));
        let full = parse("valkey://us%65r:p%40ss%3A@10.0.0.1:6380/7");
        assert_eq!(full.address, Address::Tcp { host: "10.0.0.1".into(), port: 6380 });
        assert_eq!(
            (full.username.as_deref(), full.password.as_deref(), full.database),
            (Some("user"), Some("p@ss:"), 7)
        );
        assert_eq!(parse("redis://:secret@h").password.as_deref(), Some("secret"));
        assert_eq!(parse("redis://[::1]:7000").address, Address::Tcp { host: "::1".into(), port: 7000 });
        if !cfg!(feature = "tls") {
            assert!(matches!(Endpoint::parse("rediss://h"), Err(ConnectError::NeedsTls)));
        }
        let socket = parse("redis+unix:///run/redis.sock?db=3");
        assert_eq!((socket.address, socket.database), (Address::Unix { path: "/run/redis.sock".into() }, 3));
    }

    #[test]
    fn no_password_in_debug() {
        let shown = format!("{:?}", parse("redis://u:hunter2@h"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
