//! A primary with two replicas, real servers, and three sentinels that watch them.

use super::server::{self, Server};
use std::time::{Duration, Instant};

/// What the sentinels call the primary.
pub const SERVICE: &str = "mymaster";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;
/// How often they are started.
const ATTEMPTS: usize = 3;
/// How long sentinels may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kill, freeze, thaw and restart each process by what [`Server`] has. All methods block.
pub struct Sentinels {
    /// The first begins as the primary.
    pub servers: Vec<Server>,
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// `down_after` is how long a server is silent before a sentinel takes it for dead; two of them have to. Ready: the
    /// sentinels know each other and the replicas, and these are in step.
    pub fn start(down_after: Duration) -> Sentinels {
        Sentinels::of(&server::program(), down_after, &[])
    }

    /// The same by another program, with more settings of the servers. Where a busy machine made them replace the
    /// primary meanwhile, or they did not meet, others are started.
    pub fn of(program: &str, down_after: Duration, settings: &[(&str, &str)]) -> Sentinels {
        let attempts = std::iter::repeat_with(|| Sentinels::launched(program, down_after, settings)).take(ATTEMPTS);
        attempts.into_iter().find(Sentinels::meet).expect("sentinels that know all")
    }

    fn launched(program: &str, down_after: Duration, settings: &[(&str, &str)]) -> Sentinels {
        let own = [("repl-diskless-sync-delay", "0"), ("repl-ping-replica-period", "1")];
        let settings = [&own[..], settings].concat();
        let primary = Server::of(program, &settings);
        let follows = format!("127.0.0.1 {}", primary.peer_port());
        let settings = [&settings[..], &[("replicaof", &follows)]].concat();
        let replicas = (0..REPLICAS).map(|_| Server::of(program, &settings));
        let servers: Vec<Server> = std::iter::once(primary).chain(replicas).collect();
        let [monitor, down, limit] = [
            ("monitor", format!("{follows} 2")),
            ("down-after-milliseconds", down_after.as_millis().to_string()),
            ("failover-timeout", (down_after * 6).as_millis().to_string()),
        ]
        .map(|(name, value)| (format!("sentinel {name} {SERVICE}"), value));
        let own = [&monitor, &down, &limit].map(|(name, value)| (name.as_str(), value.as_str()));
        // TLS is for all of them.
        let tls = settings.iter().filter(|(name, _)| name.starts_with("tls-"));
        let settings: Vec<_> = own.iter().chain(tls).copied().collect();
        let sentinels = (0..SENTINELS).map(|_| Server::sentinel_of(program, &settings)).collect();
        Sentinels { servers, sentinels }
    }

    /// Waits until each sentinel knows all, and the primary is the first one still.
    fn meet(&self) -> bool {
        let limit = Instant::now() + PATIENCE / 3;
        while !(self.has_all(0) && self.sentinels.iter().all(Sentinels::knows_all)) {
            if Instant::now() > limit || !self.is_primary(0) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// What a client connects to: two of the sentinels.
    pub fn url(&self) -> String {
        let [one, other, ..] = &self.sentinels[..] else { panic!("three sentinels") };
        format!("redis-sentinel://127.0.0.1:{},127.0.0.1:{}/{SERVICE}", one.port(), other.port())
    }

    fn knows_all(sentinel: &Server) -> bool {
        let Ok(words) = sentinel.try_control(&["SENTINEL", "MASTER", SERVICE]).map(|reply| reply.texts()) else {
            return false;
        };
        let is = |name: &str, value: &str| words.chunks(2).any(|pair| pair[0] == name && pair[1] == value);
        is("num-slaves", "2") && is("num-other-sentinels", "2")
    }

    #[track_caller]
    fn until(&self, what: &str, mut check: impl FnMut() -> bool) {
        let limit = Instant::now() + PATIENCE;
        while !check() {
            assert!(Instant::now() < limit, "not within {PATIENCE:?}: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Which server this sentinel says is the primary.
    pub fn named_by(&self, sentinel: usize) -> Option<usize> {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let address = self.sentinels[sentinel].try_control(&ask).ok()?.texts();
        self.servers.iter().position(|server| address.get(1) == Some(&server.peer_port().to_string()))
    }

    /// Waits until all sentinels that run name the same server, another one than `old`, and it says so itself: which.
    #[track_caller]
    pub fn switched(&self, old: usize) -> usize {
        let mut found = None;
        self.until("sentinels name another primary", || {
            let running = (0..SENTINELS).filter(|sentinel| self.sentinels[*sentinel].runs());
            let mut named: Vec<_> = running.map(|sentinel| self.named_by(sentinel)).collect();
            named.dedup();
            found = match named[..] {
                [Some(server)] if server != old && self.is_primary(server) => Some(server),
                _ => None,
            };
            found.is_some()
        });
        found.unwrap()
    }

    /// The server that takes itself for the primary, and that all sentinels which run name.
    pub fn primary(&self) -> Option<usize> {
        let mut named = (0..SENTINELS).filter(|at| self.sentinels[*at].runs()).map(|at| self.named_by(at));
        let first = named.next()??;
        (named.all(|other| other == Some(first)) && self.is_primary(first)).then_some(first)
    }

    /// Waits until all sentinels name one primary, and all other servers are its replicas and in step.
    #[track_caller]
    pub fn settle(&self) -> usize {
        let mut found = None;
        self.until("one primary and its replicas", || {
            found = self.primary().filter(|at| self.has_all(*at));
            found.is_some()
        });
        found.unwrap()
    }

    fn has_all(&self, primary: usize) -> bool {
        let follows = format!("master_port:{}", self.servers[primary].peer_port());
        let mut others = self.servers.iter().enumerate().filter(|(at, _)| *at != primary);
        others.all(|(_, server)| {
            let info = server.try_control(&["INFO", "replication"]).map(|info| info.text()).unwrap_or_default();
            info.contains(&follows) && info.contains("master_link_status:up")
        })
    }

    /// Makes a server that was started anew a replica of this one, as the sentinels do after some seconds.
    pub fn follow(&self, server: usize, primary: usize) {
        let port = self.servers[primary].port().to_string();
        self.servers[server].control(&["REPLICAOF", "127.0.0.1", &port]);
    }

    /// Whether it takes itself for the primary.
    pub fn is_primary(&self, server: usize) -> bool {
        self.servers[server].try_control(&["ROLE"]).is_ok_and(|role| role.list()[0].text() == "master")
    }

    /// Waits until this one knows that it is the primary no more.
    #[track_caller]
    pub fn demoted(&self, server: usize) {
        self.until("the old primary follows the new one", || !self.is_primary(server));
    }

    /// Tells a sentinel to make a replica the primary, though the one that is there lives.
    pub fn fail_over(&self) {
        let (_, sentinel) = self.sentinels.iter().enumerate().find(|(_, sentinel)| sentinel.runs()).unwrap();
        sentinel.control(&["SENTINEL", "FAILOVER", SERVICE]);
    }
}
