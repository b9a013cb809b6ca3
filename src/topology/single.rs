//! One server by the connections of our own: a lean one for scripts, and one that listens.

use std::collections::HashMap;
use std::sync::Arc;

use ::futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};

use super::member::{signals, unreachable, Access, Member};
use crate::backend::node::{connected, Node, NodeHealth, Role, Topology};
use crate::backend::url::HostPort;
use crate::backend::{Backend, Changes, Fate, Signal};
use crate::base::fault::ConnectError;
use crate::connections::connection::Told;

struct Single {
    access: Access,
    /// Until it is closed.
    member: Mutex<Option<Arc<Member>>>,
}

/// Connects to it.
pub(crate) async fn connect(
    at: HostPort,
    access: Access,
) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError> {
    let (sender, mut received) = unbounded_channel();
    let changes = access.changes.clone();
    let member = Member::start(&access, at.clone(), move |told| {
        for signal in signals(&told) {
            let _ = sender.send(signal);
        }
        if matches!(told, Told::Up) {
            changes.send_replace(());
        }
    });
    let asked = member.ears.ask(&["PING"]).await;
    // Who may not say PING is connected all the same.
    if let (Err(why), Err(_)) = (asked, member.ears.state()) {
        return Err(unreachable(&HashMap::from([(at, why)])));
    }
    member.node(&access)?;
    // Nobody had anything to miss yet.
    while received.try_recv().is_ok() {}
    Ok((Arc::new(Single { access, member: Mutex::new(Some(member)) }), received))
}

impl Single {
    fn member(&self) -> Result<Arc<Member>, String> {
        self.member.lock().clone().ok_or_else(|| "the client is closed".to_owned())
    }

    fn subscription(&self, verb: &'static str, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let member = self.member();
        async move { member?.subscription(verb, channels).await }.boxed()
    }
}

impl Backend for Single {
    fn node(&self, _key: &str) -> Result<Arc<Node>, Fate> {
        let member = self.member().map_err(Fate::NotSent)?;
        member.node(&self.access).map_err(|why| Fate::NotSent(why.to_string()))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.node("").into_iter().collect()
    }

    fn topology(&self) -> Topology {
        Topology::Single
    }

    fn seen(&self) -> Vec<NodeHealth> {
        self.member().iter().map(|member| member.seen(Role::Primary)).collect()
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.access.changes.subscribe())
    }

    /// The best there is: those that are connected at this moment.
    fn replicas(&self, _of: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        let member = self.member();
        async move {
            let info = member.map_err(Fate::NotSent)?.ears.ask(&["INFO", "replication"]).await;
            let info = info.map_err(|why| Fate::of_error(&why).unwrap_or(Fate::NotSent(why)))?;
            Ok(info.text().map_or(0, connected))
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        self.subscription("SUBSCRIBE", channels)
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        self.subscription("UNSUBSCRIBE", channels).map(drop).boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        if let Some(member) = self.member.lock().take() {
            member.leave();
        }
        std::future::ready(()).boxed()
    }
}
