//! Five servers in this process, on paused time, and a red lock on them.

use crate::{secs, Server};
use futures::future::join_all;
use lockson::kind::Reentrant;
use lockson::{Builder, EmbeddedServer, Locks, RedLock, Reply};

pub fn red(clients: &[Locks]) -> RedLock<Reentrant> {
    RedLock::new(clients.iter().map(|locks| locks.lock("red"))).fresh()
}

pub struct Fleet {
    pub servers: Vec<EmbeddedServer>,
}

impl Fleet {
    pub fn start() -> Fleet {
        Fleet { servers: (0..5).map(|_| EmbeddedServer::new()).collect() }
    }

    /// And two locks on them, which have seen them.
    pub async fn acquainted() -> (Fleet, RedLock<Reentrant>, RedLock<Reentrant>) {
        let fleet = Fleet::start();
        let (ours, theirs) = (red(&fleet.clients()), red(&fleet.clients()));
        acquaint(&[&ours, &theirs]).await;
        (fleet, ours, theirs)
    }

    pub fn clients(&self) -> Vec<Locks> {
        self.clients_of(Builder::default().outage_limit(secs(3)))
    }

    pub fn clients_of(&self, builder: Builder) -> Vec<Locks> {
        self.servers.iter().map(|server| server.connect_with(builder.clone()).unwrap()).collect()
    }

    /// Which servers have the key: `10110`.
    pub fn held(&self) -> String {
        let has = |server: &EmbeddedServer| server.command(&["EXISTS", "red"]) == Ok(Reply::Int(1));
        self.servers.iter().map(|server| if has(server) { '1' } else { '0' }).collect()
    }
}

/// A client of each of these real servers.
pub async fn connected(servers: &[Server], builder: Builder) -> Vec<Locks> {
    join_all(servers.iter().map(async |server| builder.clone().connect(&server.url()).await.unwrap())).await
}

/// On how many of them one of these clients has the lock.
pub async fn votes(servers: &[Server], clients: &[Locks]) -> usize {
    let fields = join_all(servers.iter().map(async |server| server.raw().await.hgetall("red").await)).await;
    let is_theirs = |(field, _): &(String, String)| clients.iter().any(|client| field.starts_with(client.client_id()));
    fields.iter().filter(|fields| fields.iter().any(is_theirs)).count()
}

/// Each has the lock once, so that it has seen the servers.
pub async fn acquaint(locks: &[&RedLock<Reentrant>]) {
    for lock in locks {
        lock.guard().await.unwrap().unlock().await.unwrap();
    }
}
