//! What all connections of a proxy share.

use super::fault::Rule;
use super::link::Link;
use super::request::Request;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// From the clients to the server.
    Requests,
    /// From the server to the clients.
    Replies,
}

/// How the proxy treats one way.
#[derive(Clone, Default)]
pub(super) struct Mode {
    /// Bytes get lost.
    pub black: bool,
    /// Bytes wait.
    pub stall: bool,
    /// Bytes take this long.
    pub delay: Duration,
}

/// How the proxy treats everything.
#[derive(Clone, Default)]
pub(super) struct Modes {
    pub target: u16,
    pub requests: Mode,
    pub replies: Mode,
    /// New connections are closed at once.
    pub refuse: bool,
    /// Messages of channels get lost.
    pub swallow: bool,
    /// Bytes of replies, and what they become.
    pub replace: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Modes {
    pub fn way(&self, way: Way) -> &Mode {
        match way {
            Way::Requests => &self.requests,
            Way::Replies => &self.replies,
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub rules: Vec<Rule>,
    pub links: BTreeMap<u64, Arc<Link>>,
    pub log: Vec<Request>,
}

/// What all connections of a proxy share.
pub(super) struct Hub {
    pub modes: watch::Sender<Modes>,
    /// How many requests clients sent, whatever became of them.
    pub requests: watch::Sender<usize>,
    pub state: Mutex<State>,
}

impl Hub {
    pub fn new(target: u16) -> Hub {
        let modes = Modes { target, ..Modes::default() };
        Hub { modes: watch::channel(modes).0, requests: watch::channel(0).0, state: Mutex::default() }
    }

    pub fn target(&self) -> u16 {
        self.modes.borrow().target
    }

    pub async fn until(&self, so: impl FnMut(&Modes) -> bool) {
        let mut modes = self.modes.subscribe();
        let _ = modes.wait_for(so).await;
    }

    /// Awaits that a way loses nothing.
    pub async fn until_clear(&self, way: Way) {
        self.until(|modes| !modes.way(way).black).await;
    }

    pub fn note(&self, request: &Request) {
        self.state.lock().unwrap().log.push(request.clone());
        self.requests.send_modify(|requests| *requests += 1);
    }

    pub fn links(&self) -> Vec<Arc<Link>> {
        self.state.lock().unwrap().links.values().cloned().collect()
    }
}
