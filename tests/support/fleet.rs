//! Five servers in this process, on paused time, and a red lock on them.

use crate::secs;
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
