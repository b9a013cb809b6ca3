//! Our own URL parser, with a closed list of schemes: what it does not know it refuses.

use std::fmt;

use crate::base::fault::ConnectError;

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
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(ConnectError::Url("it has no scheme: write redis://host:port".to_owned()));
        };
        match scheme {
            "redis" | "valkey" => Self::tcp(rest, false),
            "rediss" | "valkeys" if cfg!(feature = "tls") => Self::tcp(rest, true),
            "rediss" | "valkeys" => Err(ConnectError::NeedsTls),
            "redis+unix" | "valkey+unix" => Self::unix(rest),
            "redis-sentinel" | "redis-cluster" | "valkey-sentinel" | "valkey-cluster" | "rediss-sentinel"
            | "rediss-cluster" => Err(ConnectError::NotYet(scheme.to_owned())),
            // Not the text before "://" itself: somebody may have put a password there.
            _ => Err(ConnectError::Scheme),
        }
    }

    fn tcp(rest: &str, tls: bool) -> Result<Self, ConnectError> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if rest.contains(['?', '#']) {
            return Err(bad("it takes no ?query and no #fragment"));
        }
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority),
        };
        let (username, password) = credentials.map_or(Ok((None, None)), credentials_of)?;
        let (host, port) = host_and_port(place)?;
        let database = if path.is_empty() { 0 } else { database(path)? };
        Ok(Self { address: Address::Tcp { host, port }, tls, username, password, database })
    }

    fn unix(rest: &str) -> Result<Self, ConnectError> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, path) = match place.split_once('@') {
            Some((credentials, path)) if !credentials.contains('/') => (Some(credentials), path),
            _ => (None, place),
        };
        if !path.starts_with('/') {
            return Err(bad("a socket needs an absolute path: redis+unix:///run/redis.sock"));
        }
        let (username, password) = credentials.map_or(Ok((None, None)), credentials_of)?;
        let database = match query.strip_prefix("db=") {
            Some(number) => database(number)?,
            None if query.is_empty() => 0,
            None => return Err(bad("the only setting after ? is db=number")),
        };
        Ok(Self { address: Address::Unix { path: decoded(path)? }, tls: false, username, password, database })
    }
}

fn bad(why: &str) -> ConnectError {
    ConnectError::Url(why.to_owned())
}

type Credentials = (Option<String>, Option<String>);

fn credentials_of(text: &str) -> Result<Credentials, ConnectError> {
    let some = |text: &str| decoded(text).map(|text| Some(text).filter(|text| !text.is_empty()));
    match text.split_once(':') {
        Some((user, password)) => Ok((some(user)?, some(password)?)),
        None => Ok((some(text)?, None)),
    }
}

fn host_and_port(place: &str) -> Result<(String, u16), ConnectError> {
    let (host, port) = match place.strip_prefix('[') {
        Some(v6) => {
            let (host, port) = v6.split_once(']').ok_or_else(|| bad("an IPv6 address ends with ]"))?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("6379")))
        }
        None if place.matches(':').count() > 1 => return Err(bad("an IPv6 address stands in brackets: [::1]:6379")),
        None => place.split_once(':').map_or((place, Some("6379")), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(bad("it has no host"));
    }
    let port = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    Ok((decoded(host)?, port.ok_or_else(|| bad("its port is not a number from 1 to 65535"))?))
}

fn database(text: &str) -> Result<u8, ConnectError> {
    text.parse().map_err(|_| bad("its database is not a number from 0 to 255"))
}

fn decoded(text: &str) -> Result<String, ConnectError> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (digit(bytes.next()), digit(bytes.next())) {
            (Some(high), Some(low)) => plain.push(u8::try_from(high * 16 + low).unwrap_or_default()),
            _ => return Err(bad("a % is followed by two hexadecimal digits")),
        }
    }
    String::from_utf8(plain).map_err(|_| bad("a decoded part is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Endpoint {
        Endpoint::parse(url).unwrap()
    }

    #[test]
    fn good_urls() {
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
        let socket = parse("redis+unix:///run/redis.sock?db=3");
        assert_eq!((socket.address, socket.database), (Address::Unix { path: "/run/redis.sock".into() }, 3));
    }

    #[test]
    fn bad_urls_are_refused_by_type() {
        for url in [
            "localhost:6379",
            "redis://",
            "redis://h:0",
            "redis://h:x",
            "redis://h/x",
            "redis://h/300",
            "redis://::1",
            "redis://h?db=1",
            "redis://%zz@h",
            "redis+unix://rel/path",
            "redis+unix:///p?x=1",
            "redis://[::1",
        ] {
            assert!(matches!(Endpoint::parse(url), Err(ConnectError::Url(_))), "{url}");
        }
        for url in ["http://h", "memcached://h", "REDIS://h", "redis-socket:///p"] {
            assert!(matches!(Endpoint::parse(url), Err(ConnectError::Scheme)), "{url}");
        }
        for url in ["redis-sentinel://h/0?sentinelServiceName=m", "redis-cluster://h"] {
            assert!(matches!(Endpoint::parse(url), Err(ConnectError::NotYet(_))), "{url}");
        }
        if !cfg!(feature = "tls") {
            assert!(matches!(Endpoint::parse("rediss://h"), Err(ConnectError::NeedsTls)));
        }
    }

    #[test]
    fn no_password_in_debug_or_errors() {
        let shown = format!("{:?}", parse("redis://u:hunter2@h"));
        assert!(!shown.contains("hunter2"), "{shown}");
        for url in
            ["hunter2://u:hunter2@h", "redis://u:hunter2@", "redis://u:hunter2@h:x", "redis://u:hunter2@h/hunter2"]
        {
            let error = Endpoint::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
}
