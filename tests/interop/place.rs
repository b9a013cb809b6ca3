//! Where both sides meet: one server, the primary behind sentinels, or a cluster. The cases are the same at each.

use support::cluster::PRIMARIES;
use support::prelude::*;
use support::{Cluster, Sentinels};

/// How long a server is silent before the others take it for dead: a busy machine is not that slow.
const SILENCE: Duration = secs(2);

pub enum Place {
    Single(Server),
    Sentinel(Sentinels),
    /// Each of its primaries has a replica.
    Cluster(Cluster),
}

impl Place {
    pub const NAMES: [&str; 3] = ["single", "Sentinel", "Cluster"];

    /// One of these names.
    pub fn start(name: &str) -> Place {
        match name {
            "single" => Place::Single(Server::start()),
            "Sentinel" => Place::sentinels(&[]),
            _ => Place::Cluster(Cluster::start(1, SILENCE)),
        }
    }

    /// A primary and replicas of these settings, and those who watch them.
    pub fn sentinels(settings: &[(&str, &str)]) -> Place {
        Place::Sentinel(Sentinels::of(&support::server::program(), SILENCE, settings))
    }

    pub fn name(&self) -> &'static str {
        Place::NAMES[match self {
            Place::Single(_) => 0,
            Place::Sentinel(_) => 1,
            Place::Cluster(_) => 2,
        }]
    }

    /// What lockson connects to, and Peer.java.
    pub fn url(&self) -> String {
        match self {
            Place::Single(server) => server.url(),
            Place::Sentinel(sentinels) => sentinels.url(),
            Place::Cluster(cluster) => cluster.url(),
        }
    }

    /// The one that there is, for cases that do something to it.
    pub fn server(&self) -> &Server {
        match self {
            Place::Single(server) => server,
            _ => panic!("a case for one server"),
        }
    }

    /// The server that has this key now.
    pub fn server_of(&self, key: &str) -> &Server {
        match self {
            Place::Single(server) => server,
            Place::Sentinel(sentinels) => &sentinels.servers[sentinels.named_by(0).unwrap()],
            Place::Cluster(cluster) => &cluster.nodes[cluster.primary_of(cluster.slot_of(key))],
        }
    }

    /// All that have keys now.
    pub fn primaries(&self) -> Vec<&Server> {
        match self {
            Place::Cluster(cluster) => {
                let slot_of = |node: usize| (16_384 * node / PRIMARIES + 1) as u16;
                (0..PRIMARIES).map(|node| &cluster.nodes[cluster.primary_of(slot_of(node))]).collect()
            }
            _ => vec![self.server_of("")],
        }
    }

    /// A name whose server is killed by [`Place::fail_over`].
    pub fn doomed_name(&self, beginning: &str) -> String {
        match self {
            Place::Cluster(cluster) => cluster.name_on(0, beginning),
            _ => unique(beginning),
        }
    }

    /// Kills a primary whose replicas have all that it has, and waits for its successor. Once only.
    pub fn fail_over(&self) {
        match self {
            Place::Single(_) => panic!("nobody follows one server"),
            Place::Sentinel(sentinels) => {
                kill_in_step(&sentinels.servers[0]);
                sentinels.switched(0);
            }
            Place::Cluster(cluster) => {
                kill_in_step(&cluster.nodes[0]);
                cluster.elected(0, 0);
                cluster.settle();
            }
        }
    }
}

/// Kills it as soon as its replicas have what it had when this was called.
fn kill_in_step(primary: &Server) {
    let (limit, mut had) = (Instant::now() + secs(20), None);
    loop {
        let info = primary.control(&["INFO", "replication"]).text();
        // `master_repl_offset:7`, and a replica's `slave0:ip=..,offset=7,lag=0`.
        let offsets = |key: &str| -> Vec<u64> {
            info.split(['\r', '\n', ',']).filter_map(|part| part.strip_prefix(key)?.parse().ok()).collect()
        };
        let had = *had.get_or_insert(offsets("master_repl_offset:")[0]);
        let replicas = offsets("offset=");
        if !replicas.is_empty() && replicas.iter().all(|offset| *offset >= had) {
            return primary.kill();
        }
        assert!(Instant::now() < limit, "replicas are not in step: {info}");
        std::thread::sleep(ms(20));
    }
}
