//! A cluster of real servers: three primaries and their replicas, whose slots move and whose primaries fail.

use super::reply::Reply;
use super::server::{self, Server};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// How many primaries there are at first.
pub const PRIMARIES: usize = 3;
/// How many slots a cluster has.
const SLOTS: u16 = 16_384;
/// How long the nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);
/// And how long without help.
const UNHELPED: Duration = Duration::from_secs(10);
/// How long a replica tries to take its primary's place.
const GIVES_UP: Duration = Duration::from_secs(6);

/// The nodes: first the three that begin as primaries, then their replicas by turns. Kill, freeze, thaw and restart
/// each by what [`Server`] has. All methods block.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

/// One node as another, or itself, sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its place in [`Cluster::nodes`].
    pub node: usize,
    pub id: String,
    /// The id of the one that it follows; none of a primary.
    pub follows: Option<String>,
    /// Taken for dead by all.
    pub failed: bool,
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Cluster {
    /// Each primary with so many replicas; `node_timeout` is how long a node is silent before it is taken for dead.
    /// Ready: every node says that all is well, and every replica is in step.
    pub fn start(replicas: usize, node_timeout: Duration) -> Cluster {
        Cluster::of(&server::program(), replicas, node_timeout, &[])
    }

    /// The same by another program, with more settings.
    pub fn of(program: &str, replicas: usize, node_timeout: Duration, settings: &[(&str, &str)]) -> Cluster {
        let timeout = node_timeout.as_millis().to_string();
        let own = [
            ("cluster-enabled", "yes"),
            ("cluster-node-timeout", &timeout),
            ("repl-diskless-sync-delay", "0"),
            ("repl-ping-replica-period", "1"),
        ];
        let settings = [&own[..], settings].concat();
        let start = |_| Server::of(program, &settings);
        let cluster = Cluster { nodes: (0..PRIMARIES * (1 + replicas)).map(start).collect() };
        cluster.form();
        cluster
    }

    /// What a client connects to: two of the nodes.
    pub fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", self.nodes[1].port(), self.nodes[PRIMARIES - 1].port())
    }

    fn form(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            node.control(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            if at < PRIMARIES {
                let first = |at: usize| SLOTS as usize * at / PRIMARIES;
                let range = [first(at), first(at + 1) - 1].map(|slot| slot.to_string());
                node.control(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            }
            for other in &self.nodes[..at] {
                node.control(&["CLUSTER", "MEET", "127.0.0.1", &other.peer_port().to_string()]);
            }
        }
        self.know_each_other();
        for (at, replica) in self.nodes.iter().enumerate().skip(PRIMARIES) {
            let primary = self.nodes[at % PRIMARIES].control(&["CLUSTER", "MYID"]).text();
            replica.control(&["CLUSTER", "REPLICATE", &primary]);
        }
        self.settle();
    }

    /// Waits until they do. Who knows nobody asks the first, and again where that was not answered in time.
    fn know_each_other(&self) {
        self.until("all nodes know each other", || {
            let views = self.views();
            for ((_, node), _) in self.running().zip(&views).skip(1).filter(|(_, view)| view.len() == 1) {
                node.control(&["CLUSTER", "MEET", "127.0.0.1", &self.nodes[0].peer_port().to_string()]);
            }
            views.iter().all(|view| view.len() == self.nodes.len())
        });
    }

    /// Waits until all nodes that run agree on who has which slots, none is missing, and every replica is in step.
    #[track_caller]
    pub fn settle(&self) {
        let helped = Instant::now() + UNHELPED;
        self.until("all nodes agree", || {
            let mut views: Vec<_> = self.views().into_iter().map(places).collect();
            views.dedup();
            let is_settled = views.len() == 1 && self.running().all(|(_, node)| is_well(node));
            if !is_settled && Instant::now() > helped {
                self.give_lost_slots_back();
            }
            is_settled
        });
    }

    /// A replica that took the place of its primary before it heard of a slot that had come there does not have it,
    /// while others say so, and that stays. An operator's part, as `redis-cli --cluster fix` plays it.
    fn give_lost_slots_back(&self) {
        for (at, node) in self.running() {
            let own = self.seen_by(node);
            let views = self.views().into_iter().flatten();
            let its = views.filter(|seen| seen.node == at).flat_map(|seen| seen.slots).flatten();
            let lost: BTreeSet<u16> = its.filter(|slot| !own.iter().any(|seen| has(seen, *slot))).collect();
            for slot in lost {
                // Else it is tried again.
                let _ = node.try_control(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
            }
        }
    }

    #[track_caller]
    fn until(&self, what: &str, mut check: impl FnMut() -> bool) {
        let limit = Instant::now() + PATIENCE;
        while !check() {
            assert!(Instant::now() < limit, "not within {PATIENCE:?}: {what}: {:?}", self.views());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Server)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.runs())
    }

    fn views(&self) -> Vec<Vec<Seen>> {
        self.running().map(|(_, node)| self.seen_by(node)).collect()
    }

    /// All nodes that this one knows.
    pub fn seen_by(&self, node: &Server) -> Vec<Seen> {
        let Ok(Reply::Text(text)) = node.try_control(&["CLUSTER", "NODES"]) else { return Vec::new() };
        text.lines().filter_map(|line| self.seen(line)).collect()
    }

    /// `id host:port@bus flags primary ping pong epoch link slots..`; one that is only being met counts for none.
    fn seen(&self, line: &str) -> Option<Seen> {
        let words: Vec<&str> = line.split(' ').collect();
        let port = words[1].rsplit_once('@')?.0.rsplit_once(':')?.1;
        let flags: Vec<&str> = words[2].split(',').collect();
        if flags.contains(&"handshake") {
            return None;
        }
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        Some(Seen {
            node: self.nodes.iter().position(|node| node.port().to_string() == port)?,
            id: words[0].to_owned(),
            follows: (words[3] != "-").then(|| words[3].to_owned()),
            failed: flags.contains(&"fail"),
            slots: words[8..].iter().filter_map(range).collect(),
        })
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> u16 {
        let (_, node) = self.running().next().expect("a node that runs");
        node.control(&["CLUSTER", "KEYSLOT", key]).int().try_into().unwrap()
    }

    /// The node that has this slot, as the first sees it that runs and answers.
    pub fn primary_of(&self, slot: u16) -> usize {
        let mut views = self.running().map(|(_, node)| self.seen_by(node));
        let view = views.find(|view| !view.is_empty()).expect("a node that runs and answers");
        let owner = view.into_iter().find(|seen| has(seen, slot));
        owner.expect("somebody has the slot").node
    }

    /// The nodes that follow this one, as it sees them.
    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let primary = &self.nodes[primary];
        let id = primary.control(&["CLUSTER", "MYID"]).text();
        let lines = primary.control(&["CLUSTER", "REPLICAS", &id]).texts();
        lines.iter().filter_map(|line| self.seen(line)).map(|seen| seen.node).collect()
    }

    /// A name of this beginning whose key is in a slot of that node.
    pub fn name_on(&self, node: usize, beginning: &str) -> String {
        let mut names = std::iter::repeat_with(|| super::unique(beginning));
        names.find(|name| self.primary_of(self.slot_of(name)) == node).unwrap()
    }

    /// Waits until another node than `old` says that it is the primary of the slot: which.
    #[track_caller]
    pub fn elected(&self, slot: u16, old: usize) -> usize {
        let mut found = None;
        self.until("another primary is elected", || {
            found = self.successor(slot, old);
            found.is_some()
        });
        found.unwrap()
    }

    fn successor(&self, slot: u16, old: usize) -> Option<usize> {
        self.running().map(|(at, _)| at).find(|at| {
            let own = self.seen_by(&self.nodes[*at]).into_iter().find(|seen| seen.node == *at);
            *at != old && own.is_some_and(|own| has(&own, slot))
        })
    }

    /// Tells a replica to take its primary's place: in agreement with it, or with `FORCE` or `TAKEOVER`.
    pub fn fail_over(&self, replica: usize, how: Option<&str>) {
        self.nodes[replica].control(&order(how));
    }

    /// The same until it has: one that was refused the votes, so soon behind another election, gives up.
    #[track_caller]
    pub fn fail_over_at_last(&self, slot: u16, replica: usize, how: Option<&str>) {
        let (old, mut next) = (self.primary_of(slot), Instant::now());
        self.until("a replica takes the place that it is told to", || {
            let is_over = self.successor(slot, old).is_some();
            if !is_over && Instant::now() >= next {
                let _ = self.nodes[replica].try_control(&order(how));
                next += GIVES_UP;
            }
            is_over
        });
    }

    /// Nobody has this slot any more. Its primary forgets it first: who heard of it from there before says so again.
    #[track_caller]
    pub fn unassign(&self, slot: u16) {
        let word = slot.to_string();
        let forget = |node: &Server| drop(node.try_control(&["CLUSTER", "DELSLOTS", &word]));
        forget(&self.nodes[self.primary_of(slot)]);
        self.until("nobody has the slot", || {
            self.nodes.iter().for_each(forget);
            std::thread::sleep(Duration::from_millis(300));
            !self.views().iter().flatten().flat_map(|seen| &seen.slots).any(|slots| slots.contains(&slot))
        });
    }

    /// A slot begins to move to that node, as by hand: its keys are to be moved one by one.
    pub fn move_slot(&self, slot: u16, to: usize) -> Moving<'_> {
        let from = self.primary_of(slot);
        let id = |node: usize| self.nodes[node].control(&["CLUSTER", "MYID"]).text();
        let moving = Moving { cluster: self, slot, from, to };
        moving.set(to, &["IMPORTING", &id(from)]);
        moving.set(from, &["MIGRATING", &id(to)]);
        moving
    }
}

/// Nodes that come and go.
impl Cluster {
    /// One more primary, without slots: its place.
    pub fn add(&mut self, program: &str, settings: &[(&str, &str)]) -> usize {
        self.nodes.push(Server::of(program, &[&[("cluster-enabled", "yes")], settings].concat()));
        self.know_each_other();
        self.settle();
        self.nodes.len() - 1
    }

    /// The last one goes, which has no slots.
    pub fn remove(&mut self) {
        let node = self.nodes.pop().unwrap();
        let id = node.control(&["CLUSTER", "MYID"]).text();
        node.kill();
        for other in &self.nodes {
            other.control(&["CLUSTER", "FORGET", &id]);
        }
        self.settle();
    }
}

/// A slot that is on its way.
pub struct Moving<'a> {
    cluster: &'a Cluster,
    slot: u16,
    pub from: usize,
    pub to: usize,
}

impl Moving<'_> {
    fn set(&self, node: usize, what: &[&str]) {
        let slot = self.slot.to_string();
        self.cluster.nodes[node].control(&[&["CLUSTER", "SETSLOT", &slot], what].concat());
    }

    /// Keys that have not moved yet, 100 at most.
    pub fn left(&self) -> Vec<String> {
        let slot = self.slot.to_string();
        self.cluster.nodes[self.from].control(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).texts()
    }

    /// Moves one key; `false`: it is not there.
    pub fn take(&self, key: &str) -> bool {
        let port = self.cluster.nodes[self.to].port().to_string();
        let moved = self.cluster.nodes[self.from].control(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        moved.text() == "OK"
    }

    /// Moves what is left, and gives the slot to its new node.
    pub fn finish(self) {
        self.finish_at();
    }

    /// The same; when the old node knew of it.
    pub fn finish_at(self) -> Instant {
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            for key in &left {
                self.take(key);
            }
        }
        let to = self.cluster.nodes[self.to].control(&["CLUSTER", "MYID"]).text();
        self.set(self.to, &["NODE", &to]);
        let (slot, from) = (self.slot.to_string(), &self.cluster.nodes[self.from]);
        // One that has no slots any more is a replica by now, and knows it all.
        if let Err(why) = from.try_control(&["CLUSTER", "SETSLOT", &slot, "NODE", &to]) {
            assert!(why.contains("only with masters"), "{why}");
        }
        let at = Instant::now();
        self.cluster.settle();
        at
    }
}

fn has(seen: &Seen, slot: u16) -> bool {
    seen.slots.iter().any(|range| range.contains(&slot))
}

/// Who has which slots, and who follows whom.
fn places(mut view: Vec<Seen>) -> Vec<Seen> {
    view.sort_by_key(|seen| seen.node);
    view.iter_mut().for_each(|seen| seen.failed = false);
    view
}

/// How a replica is told to take its primary's place.
fn order(how: Option<&str>) -> Vec<&str> {
    ["CLUSTER", "FAILOVER"].into_iter().chain(how).collect()
}

/// All slots are served; a replica has its primary's data, and a primary knows its replicas to have theirs.
fn is_well(node: &Server) -> bool {
    let ask = |words: &[&str]| node.try_control(words).map(|reply| reply.text()).unwrap_or_default();
    let replication = ask(&["INFO", "replication"]);
    let in_step = replication.lines().all(|line| match line.split_once(':') {
        Some(("master_link_status", status)) => status == "up",
        Some((name, state)) if is_replica(name) => state.contains("state=online"),
        _ => true,
    });
    in_step && ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
}

/// `slave0` and so on, of `INFO replication`.
fn is_replica(name: &str) -> bool {
    name.strip_prefix("slave").is_some_and(|number| number.parse::<u8>().is_ok())
}
