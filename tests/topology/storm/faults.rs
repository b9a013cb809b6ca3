//! The bad days of a deployment: what is done to a cluster, or to a primary and its sentinels, and mended.

use std::thread::sleep;

use support::cluster::PRIMARIES;
use support::prelude::{is_full_run, ms, Duration, Proxy, Rng, Server};
use support::process::clock;
use support::sentinels::SERVICE;
use support::server::program;
use support::worker::{LOGIN, SETTINGS};
use support::{Cluster, Sentinels};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    KillPrimary,
    /// Its replicas have not all that it granted.
    KillAhead,
    KillReplica,
    KillSentinel,
    FreezePrimary,
    FreezeReplica,
    FreezeSentinel,
    /// A replica takes over: in agreement, with FORCE, or with TAKEOVER; or the sentinels are told to see to it.
    FailOver(&'static str),
    /// A slot moves key by key.
    MoveSlot,
    /// A slot moves by the server's own command.
    MoveAtOnce,
    /// A node comes, has a slot, and goes.
    ComeAndGo,
    RestartAll,
    /// One process of clients does not reach half of the servers.
    Partition,
    /// Some of its calls are not answered, or do not arrive.
    LoseAnswers,
    /// A process of clients stands still for longer than its leases.
    StopProcess,
    /// A process of clients ends by SIGKILL, and another one comes.
    KillProcess,
    FlushScripts,
    /// The promoted server has another password.
    WrongPassword,
}

use Fault::*;

impl Fault {
    /// Whether a server takes over that may not have all.
    pub fn fails_over(self) -> bool {
        matches!(self, KillPrimary | KillAhead | FreezePrimary | FailOver(_) | RestartAll | WrongPassword)
    }
}

/// What befalls servers, however many they are and whoever looks after them.
const OF_SERVERS: [Fault; 8] =
    [KillPrimary, KillAhead, KillReplica, FreezePrimary, FreezeReplica, RestartAll, FlushScripts, WrongPassword];
/// What befalls clients.
pub const OF_CLIENTS: [Fault; 4] = [Partition, LoseAnswers, StopProcess, KillProcess];

/// When the first server or sentinel told of another primary, where there is one.
pub type Switch = Option<u64>;

/// What faults are done to. All methods block.
pub trait Deployment {
    fn url(&self) -> String;
    /// Those that have keys.
    fn servers(&self) -> Vec<&Server>;
    /// All faults that it knows.
    fn deck(&self) -> Vec<Fault>;
    /// How many servers have names of their own.
    fn primaries(&self) -> usize {
        1
    }
    /// Which server has the key.
    fn primary(&self, key: &str) -> usize;
    /// A name in the given third of all names.
    fn name(&self, third: usize, beginning: &str) -> String;
    fn replicas(&self, primary: usize) -> Vec<usize>;
    /// Channels that are subscribed to where nobody publishes.
    fn strays(&self) -> Vec<String>;
    /// Does a fault to what has this key, and mends it.
    fn strike(&mut self, fault: Fault, key: &str, rng: &mut Rng) -> Switch;

    /// From here on the replicas of this one get nothing; until they are thawed.
    fn cut_off(&self, primary: usize) {
        let replicas = self.replicas(primary);
        replicas.iter().for_each(|replica| self.servers()[*replica].freeze());
        self.servers()[primary].control(&["CLIENT", "KILL", "TYPE", "replica"]);
    }

    /// Ends the primary that was cut off; its replicas are there again.
    fn kill_ahead(&self, primary: usize) {
        let replicas = self.replicas(primary);
        self.servers()[primary].kill();
        replicas.iter().for_each(|replica| self.servers()[*replica].thaw());
    }

    /// All servers end, and write what they have.
    fn shut_down(&self) {
        std::thread::scope(|scope| {
            for server in self.servers() {
                scope.spawn(|| server.try_control(&["SHUTDOWN", "SAVE"]));
            }
        });
    }
}

/// What clients of a server need to be let in.
pub fn password(server: &Server, word: &str) {
    let word = format!(">{word}");
    server.control(&["ACL", "SETUSER", LOGIN.0, "on", "resetpass", &word, "~*", "&*", "+@all"]);
}

fn subscribed(server: &Server, how: &str) -> Vec<String> {
    server.try_control(&["PUBSUB", how]).map(|names| names.texts()).unwrap_or_default()
}

/// Between 0 and so many milliseconds.
fn up_to(rng: &mut Rng, most: u64) -> Duration {
    ms(rng.u64(..most))
}

/// Cuts off the clients behind these proxies for a while.
pub fn part(proxies: &[&Proxy], rng: &mut Rng) {
    let deaf = |on: bool| {
        for proxy in proxies {
            proxy.black_hole_requests(on);
            proxy.black_hole_replies(on);
        }
    };
    deaf(true);
    sleep(ms(500) + up_to(rng, 1_500));
    deaf(false);
}

impl Deployment for Cluster {
    fn url(&self) -> String {
        Cluster::url(self)
    }

    fn servers(&self) -> Vec<&Server> {
        self.nodes.iter().collect()
    }

    fn deck(&self) -> Vec<Fault> {
        let own = [FailOver(""), FailOver("FORCE"), FailOver("TAKEOVER"), MoveSlot, ComeAndGo];
        let mut deck = [&own[..], &OF_SERVERS, &OF_CLIENTS].concat();
        let help = self.nodes[0].control(&["CLUSTER", "HELP"]).texts();
        deck.extend(help.iter().any(|line| line.starts_with("MIGRATESLOTS")).then_some(MoveAtOnce));
        deck
    }

    fn primaries(&self) -> usize {
        PRIMARIES
    }

    fn primary(&self, key: &str) -> usize {
        self.primary_of(self.slot_of(key))
    }

    fn name(&self, third: usize, beginning: &str) -> String {
        self.name_on(third, beginning)
    }

    fn replicas(&self, primary: usize) -> Vec<usize> {
        self.replicas_of(primary)
    }

    fn strays(&self) -> Vec<String> {
        let mut strays = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let channels = subscribed(node, "SHARDCHANNELS");
            let strays_here = channels.into_iter().filter(|channel| self.primary(channel) != at);
            strays.extend(strays_here.map(|channel| format!("{channel} at {at}")));
        }
        strays
    }

    fn strike(&mut self, fault: Fault, key: &str, rng: &mut Rng) -> Switch {
        let (slot, old) = (self.slot_of(key), self.primary(key));
        let replica = self.replicas(old)[0];
        let elected = |cluster: &Cluster| {
            cluster.elected(slot, old);
            Some(clock())
        };
        let mut switch = None;
        match fault {
            KillPrimary => {
                self.nodes[old].kill();
                switch = elected(self);
                self.nodes[old].restart();
            }
            KillAhead => {
                self.kill_ahead(old);
                switch = elected(self);
                self.nodes[old].restart();
            }
            KillReplica => {
                self.nodes[replica].kill();
                sleep(up_to(rng, 1_000));
                self.nodes[replica].restart();
            }
            FreezePrimary => {
                self.nodes[old].freeze();
                switch = elected(self);
                sleep(up_to(rng, 500));
                self.nodes[old].thaw();
            }
            FreezeReplica => {
                self.nodes[replica].freeze();
                sleep(up_to(rng, 1_000));
                self.nodes[replica].thaw();
            }
            FailOver(how) => {
                self.fail_over_at_last(slot, replica, Some(how).filter(|how| !how.is_empty()));
                switch = Some(clock());
            }
            MoveSlot => move_slot(self, slot, rng),
            MoveAtOnce => move_at_once(self, slot, old),
            ComeAndGo => come_and_go(self, slot, rng),
            RestartAll => {
                self.shut_down();
                self.nodes.iter().for_each(|node| node.restart());
                self.settle();
                switch = Some(clock());
            }
            FlushScripts => {
                self.nodes[old].control(&["SCRIPT", "FLUSH"]);
            }
            WrongPassword => {
                password(&self.nodes[replica], "wrong");
                self.nodes[replica].control(&["CLIENT", "KILL", "USER", LOGIN.0]);
                self.fail_over_at_last(slot, replica, None);
                sleep(up_to(rng, 500));
                password(&self.nodes[replica], LOGIN.1);
                switch = Some(clock());
            }
            KillSentinel | FreezeSentinel | Partition | LoseAnswers | StopProcess | KillProcess => unreachable!(),
        }
        self.settle();
        switch
    }
}

/// Any primary but this.
fn other_primary(cluster: &Cluster, slot: u16, not: usize) -> usize {
    let others = (1..PRIMARIES as u16).map(|third| cluster.primary_of((slot + third * 5_461) % 16_384));
    others.into_iter().find(|other| *other != not).unwrap()
}

fn move_slot(cluster: &Cluster, slot: u16, rng: &mut Rng) {
    let moving = cluster.move_slot(slot, other_primary(cluster, slot, cluster.primary_of(slot)));
    for _ in 0..rng.usize(1..20) {
        sleep(up_to(rng, 40));
        for key in moving.left() {
            moving.take(&key);
            sleep(up_to(rng, 5));
        }
    }
    moving.finish();
}

fn move_at_once(cluster: &Cluster, slot: u16, old: usize) {
    let to = other_primary(cluster, slot, old);
    let (slot_word, id) = (slot.to_string(), cluster.nodes[to].control(&["CLUSTER", "MYID"]).text());
    cluster.nodes[old].control(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot_word, &slot_word, "NODE", &id]);
    assert_eq!(cluster.elected(slot, old), to);
}

fn come_and_go(cluster: &mut Cluster, slot: u16, rng: &mut Rng) {
    let old = cluster.primary_of(slot);
    let new = cluster.add(&program(), &[&CLUSTER_SETTINGS[..], &SETTINGS].concat());
    cluster.move_slot(slot, new).finish();
    sleep(up_to(rng, 500));
    cluster.move_slot(slot, old).finish();
    cluster.remove();
}

/// How long a node of a cluster is silent before it is taken for dead.
pub const NODE_TIMEOUT: Duration = ms(500);
const CLUSTER_SETTINGS: [(&str, &str); 2] = [("cluster-node-timeout", "500"), ("repl-diskless-sync-delay", "0")];

impl Deployment for Sentinels {
    fn url(&self) -> String {
        Sentinels::url(self)
    }

    fn servers(&self) -> Vec<&Server> {
        self.servers.iter().collect()
    }

    fn deck(&self) -> Vec<Fault> {
        let own = [KillSentinel, FreezeSentinel, FailOver("")];
        [&own[..], &OF_SERVERS, &OF_CLIENTS].concat()
    }

    fn primary(&self, _key: &str) -> usize {
        loop {
            match Sentinels::primary(self) {
                Some(primary) => return primary,
                None => sleep(ms(10)),
            }
        }
    }

    fn name(&self, _third: usize, beginning: &str) -> String {
        support::unique(beginning)
    }

    fn replicas(&self, primary: usize) -> Vec<usize> {
        (0..self.servers.len()).filter(|at| *at != primary).collect()
    }

    fn strays(&self) -> Vec<String> {
        let primary = Sentinels::primary(self);
        let others = self.servers.iter().enumerate().filter(|(at, _)| Some(*at) != primary);
        let channels = others.flat_map(|(_, server)| subscribed(server, "CHANNELS"));
        channels.filter(|channel| !channel.starts_with("__sentinel__")).collect()
    }

    fn strike(&mut self, fault: Fault, key: &str, rng: &mut Rng) -> Switch {
        let old = Deployment::primary(self, key);
        let replica = self.replicas(old)[rng.usize(..2)];
        let sentinel = &self.sentinels[rng.usize(..self.sentinels.len())];
        let (server, mut switch) = (&self.servers[old], None);
        match fault {
            KillPrimary => {
                server.kill();
                switch = Some(self.heard(old));
                self.back(old);
            }
            KillAhead => {
                self.kill_ahead(old);
                switch = Some(self.heard(old));
                self.back(old);
            }
            KillReplica => {
                self.servers[replica].kill();
                sleep(up_to(rng, 1_000));
                self.servers[replica].restart();
                self.follow(replica, old);
            }
            FreezePrimary => {
                server.freeze();
                switch = Some(self.heard(old));
                sleep(up_to(rng, 500));
                server.thaw();
                self.step_down(old);
            }
            FreezeReplica => {
                self.servers[replica].freeze();
                sleep(up_to(rng, 1_000));
                self.servers[replica].thaw();
            }
            KillSentinel => {
                sentinel.kill();
                sleep(up_to(rng, 500));
                sentinel.restart();
            }
            FreezeSentinel => {
                sentinel.freeze();
                sleep(up_to(rng, 1_500));
                sentinel.thaw();
            }
            FailOver(_) => {
                switch = Some(self.replaced(old));
                self.step_down(old);
            }
            RestartAll => {
                self.shut_down();
                switch = Some(self.begin_anew(old));
            }
            FlushScripts => {
                server.control(&["SCRIPT", "FLUSH"]);
            }
            WrongPassword => {
                self.refuse_heirs(old, rng);
                switch = Some(clock());
            }
            MoveSlot | MoveAtOnce | ComeAndGo | Partition | LoseAnswers | StopProcess | KillProcess => unreachable!(),
        }
        Sentinels::settle(self);
        switch
    }
}

/// What only sentinels need.
trait Watched {
    /// When a sentinel named another server first; waits until all do.
    fn heard(&self, old: usize) -> u64;
    /// The same where the sentinels are told to replace it. They give up what takes them too long.
    fn replaced(&self, old: usize) -> u64;
    /// A killed primary comes back as a replica.
    fn back(&self, old: usize);
    /// All that were shut down run again, this one as the primary: when it does.
    fn begin_anew(&self, primary: usize) -> u64;
    /// Its replicas have another password when one of them takes its place, and the right one a while later.
    fn refuse_heirs(&self, old: usize, rng: &mut Rng);
    /// The old primary follows the new one: in a full run when the sentinels tell it to, which takes them ten seconds.
    fn step_down(&self, old: usize);
}

impl Watched for Sentinels {
    fn heard(&self, old: usize) -> u64 {
        first_named(self, old, || ())
    }

    fn replaced(&self, old: usize) -> u64 {
        first_named(self, old, || {
            let _ = self.sentinels[0].try_control(&["SENTINEL", "FAILOVER", SERVICE]);
        })
    }

    fn back(&self, old: usize) {
        let primary = self.switched(old);
        self.servers[old].restart();
        self.follow(old, primary);
    }

    fn begin_anew(&self, primary: usize) -> u64 {
        self.servers[primary].restart();
        self.servers[primary].control(&["REPLICAOF", "NO", "ONE"]);
        let back = clock();
        for replica in self.replicas(primary) {
            self.servers[replica].restart();
            self.follow(replica, primary);
        }
        back
    }

    fn refuse_heirs(&self, old: usize, rng: &mut Rng) {
        let replicas = self.replicas(old);
        replicas.iter().for_each(|replica| password(&self.servers[*replica], "wrong"));
        self.replaced(old);
        sleep(up_to(rng, 500));
        replicas.iter().for_each(|replica| password(&self.servers[*replica], LOGIN.1));
    }

    fn step_down(&self, old: usize) {
        if !is_full_run() {
            self.follow(old, self.switched(old));
        }
        self.demoted(old);
    }
}

/// When a sentinel named another primary first, while this is done every other second. All do then.
fn first_named(all: &Sentinels, old: usize, again: impl Fn()) -> u64 {
    for look in 0.. {
        if look % 400 == 0 {
            again();
        }
        if (0..all.sentinels.len()).any(|at| all.named_by(at).is_some_and(|named| named != old)) {
            break;
        }
        sleep(ms(5));
    }
    let first = clock();
    all.switched(old);
    first
}

/// So that one switch may come soon behind another.
pub fn hurry(all: &Sentinels) {
    for sentinel in &all.sentinels {
        sentinel.control(&["SENTINEL", "SET", SERVICE, "failover-timeout", "1000"]);
    }
}
