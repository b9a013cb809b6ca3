//! A client that begins before its servers are there: its calls wait for them as in an outage.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{ready, BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::backend::node::{Away, Node, NodeHealth, Role, Topology};
use crate::backend::{Backend, Changes, Fate, Signal};
use crate::base::clock::Clock;
use crate::base::config::Settings;
use crate::base::fault::{ConnectError, Refused};
use crate::base::host::{Host, Work};
use crate::base::janitor::say;
use crate::client::builder::Builder;
use crate::client::connect::Target;
use crate::client::factory::Locks;
use crate::client::parts::Parts;
use crate::client::preflight::look_over;
use crate::engine::Engine;
use crate::error::in_runtime;
use crate::topology::slots::slot;
use crate::wire::script::Wire;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The servers, once they are there and were looked over.
struct Late {
    there: OnceLock<Arc<dyn Backend>>,
    topology: Topology,
    addresses: Vec<String>,
    away: Away,
    /// What calls are told until then.
    why: Mutex<Fate>,
    changes: watch::Sender<()>,
    closed: watch::Sender<bool>,
}

impl Builder {
    /// As [`connect`](Builder::connect), but it does not wait for the server: for programs that start before it does.
    ///
    /// It connects in the background, as often as it takes. Until then calls wait for it as in an outage, for the
    /// [`outage_limit`](Builder::outage_limit) at most; where it refuses what `connect` would have told, they tell it:
    /// [`QueryError::Refused`](crate::QueryError::Refused). It is looked over before the first lock all the same.
    /// [`Locks::health`] says whether it is there.
    ///
    /// # Errors
    /// [`ConnectError`], of the URL and the settings alone.
    pub fn connect_lazy(self, url: &str) -> Result<Locks, ConnectError> {
        in_runtime().map_err(|_| ConnectError::NoRuntime)?;
        let target = self.target(self.config(url)?)?;
        Ok(begin(self.settings, target))
    }
}

/// Begins a client, and connects it in the background.
fn begin(settings: Settings, target: Target) -> Locks {
    let (signals, received) = unbounded_channel();
    let (topology, addresses) = (target.topology(), target.addresses());
    let why = Mutex::new(Fate::NotSent("it is not connected yet".to_owned()));
    let (there, away, changes, closed) = Default::default();
    let late = Arc::new(Late { there, topology, addresses, away, why, changes, closed });
    late.away.begin(false);
    let host = Host::from(Clock::System);
    let spawn = host.spawn.clone();
    let parts = Parts::start(settings, late.clone(), received, host);
    let (engine, mut closed) = (parts.engine.clone(), late.closed.subscribe());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => {}
            () = late.connect(&engine, &target, spawn, signals) => {}
        }
    });
    Locks::of(parts)
}

impl Late {
    /// Tries until it is there, then passes on what is heard.
    async fn connect(
        &self,
        engine: &Engine,
        target: &Target,
        spawn: Arc<dyn Fn(Work) + Send + Sync>,
        signals: UnboundedSender<Signal>,
    ) {
        let mut pause = FIRST_PAUSE;
        let (backend, mut heard) = loop {
            match self.open(engine, target, spawn.clone()).await {
                Ok(opened) => break opened,
                Err(error) => self.is_refused(&error),
            }
            sleep(engine.wire.jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        if self.there.set(backend).is_ok() {
            self.changes.send_replace(());
        }
        for signal in [Signal::Gap, Signal::Whole] {
            let _ = signals.send(signal);
        }
        while let Some(signal) = heard.recv().await {
            let _ = signals.send(signal);
        }
    }

    async fn open(
        &self,
        engine: &Engine,
        target: &Target,
        spawn: Arc<dyn Fn(Work) + Send + Sync>,
    ) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError> {
        let (backend, heard) = target.open(&engine.client_id, None).await?;
        let wire = Wire::new(backend.clone(), engine.wire.clock, engine.wire.command_timeout, None, spawn);
        let looked = look_over(engine, &wire).await;
        if looked.is_err() {
            backend.close().await;
        }
        looked.map(|()| (backend, heard))
    }

    /// What it says from now on; a line, where that is new.
    fn is_refused(&self, error: &ConnectError) {
        let fate = match error {
            ConnectError::Refused(why) => Fate::Refused(why.clone()),
            ConnectError::Evicts(_) | ConnectError::TooOld { .. } | ConnectError::Resp2(_) => {
                Fate::Refused(Refused::Other(error.to_string()))
            }
            _ => Fate::NotSent(error.to_string()),
        };
        let before = std::mem::replace(&mut *self.why.lock(), fate.clone());
        if before != fate {
            say(|| tracing::warn!(target: "lockson", %error, "not connected yet"));
        }
    }

    fn there(&self) -> Result<&Arc<dyn Backend>, Fate> {
        self.there.get().ok_or_else(|| self.why.lock().clone())
    }
}

impl Backend for Late {
    fn node(&self, key: &str) -> Result<Arc<Node>, Fate> {
        self.there()?.node(key)
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.there.get().map(|there| there.nodes()).unwrap_or_default()
    }

    fn topology(&self) -> Topology {
        self.topology
    }

    fn seen(&self) -> Vec<NodeHealth> {
        let role = match self.topology {
            Topology::Sentinel => Role::Sentinel,
            Topology::Cluster => Role::Other,
            Topology::Embedded | Topology::Single => Role::Primary,
        };
        let missed = |address: &String| NodeHealth { address: address.clone(), role, away: self.away.so_far() };
        self.there.get().map_or_else(|| self.addresses.iter().map(missed).collect(), |there| there.seen())
    }

    fn slot(&self, key: &str) -> u16 {
        if self.topology == Topology::Cluster {
            slot(key)
        } else {
            0
        }
    }

    fn marker(&self, name: &str, key: &str) -> String {
        self.there.get().map_or_else(|| name.to_owned(), |there| there.marker(name, key))
    }

    fn fails_over(&self) -> bool {
        matches!(self.topology, Topology::Sentinel | Topology::Cluster)
    }

    fn changes(&self) -> Option<Changes> {
        self.there.get().map_or_else(|| Some(self.changes.subscribe()), |there| there.changes())
    }

    fn moved(&self, key: &str, address: &str, by: &Node) -> Result<Arc<Node>, Fate> {
        self.there()?.moved(key, address, by)
    }

    fn asked(&self, address: &str, by: &Node) -> Result<Arc<Node>, Fate> {
        self.there()?.asked(address, by)
    }

    fn demoted(&self, by: &Node) -> bool {
        self.there.get().is_some_and(|there| there.demoted(by))
    }

    fn replicas(&self, of: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        self.there().map_or_else(|fate| ready(Err(fate)).boxed(), |there| there.replicas(of))
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let away = || ready(Err("it is not connected yet".to_owned())).boxed();
        self.there.get().map_or_else(away, |there| there.subscribe(channels))
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        self.there.get().map_or_else(|| ready(()).boxed(), |there| there.unsubscribe(channels))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.closed.send_replace(true);
        self.there.get().map_or_else(|| ready(()).boxed(), |there| there.close())
    }
}
