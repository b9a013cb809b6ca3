//! The primary that sentinels name: all of them are asked and listened to, and what they name must say that it is one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::member::{gather, in_words, keep_looking, refused, signals, unreachable, Access, Member};
use super::slots::place;
use crate::backend::fred_config::{Dial, Login};
use crate::backend::node::{Node, NodeHealth, Role, Topology};
use crate::backend::url::HostPort;
use crate::backend::{Backend, Changes, Fate, Signal, ALL_SLOTS};
use crate::base::fault::ConnectError;
use crate::base::janitor::say;
use crate::connections::connection::{Connection, Told};
use crate::connections::resp::Reply;

/// How often the sentinels are asked when nothing seems wrong.
const CALM: Duration = Duration::from_secs(5);

/// What a sentinel says when it names another primary: as it hears of it, and before, as it has replaced one itself.
const SWITCHES: [&str; 2] = ["+switch-master", "+promoted-slave"];

/// A deployment with sentinels, as one client sees it.
pub(crate) struct Sentinel {
    watch: Arc<Watch>,
    task: AbortHandle,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What looks after the primary.
struct Watch {
    name: String,
    seeds: Vec<HostPort>,
    /// How sentinels are reached; `access` is for the servers.
    dial: Dial,
    access: Access,
    signals: UnboundedSender<Signal>,
    /// A sentinel told of another primary.
    switched: Arc<Notify>,
    sentinels: Mutex<BTreeMap<HostPort, Arc<Connection>>>,
    primary: Mutex<Result<Arc<Member>, String>>,
    /// Of the agreement that was followed last.
    epoch: AtomicI64,
}

/// Whom sentinels name by one of their agreements: its epoch, the address, and how many replicas they know.
type Named = (i64, HostPort, u32);

/// The newest of what these sentinels say, and of that what most say, so many times each. An agreement that is older
/// than the one that was followed counts only where more than half of all that are known say so, as where all of them
/// were made anew: one that was cut off, or comes back, does not know yet what the others agreed on.
fn newest(said: HashMap<(i64, HostPort), (usize, u32)>, known: usize, followed: i64) -> Option<Named> {
    let newest = said.into_iter().max_by_key(|((epoch, _), (times, _))| (*epoch, *times))?;
    let ((epoch, named), (times, replicas)) = newest;
    (epoch >= followed || times * 2 > known).then_some((epoch, named, replicas))
}

/// Connects to the primary of this name. `login`: to the sentinels.
pub(crate) async fn connect(
    sentinels: Vec<HostPort>,
    name: String,
    access: Access,
    login: Login,
) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError> {
    let (signals, mut received) = unbounded_channel();
    let dial = Dial { login, ..access.dial.clone() };
    let primary = Mutex::new(Err("no sentinel named it yet".to_owned()));
    let watch = Arc::new(Watch {
        name,
        seeds: sentinels,
        dial,
        access,
        signals,
        switched: Arc::default(),
        sentinels: Mutex::default(),
        primary,
        epoch: AtomicI64::new(i64::MIN),
    });
    watch.look().await?;
    // Nobody had anything to miss yet.
    while received.try_recv().is_ok() {}
    let calm = watch.access.calm.unwrap_or(CALM);
    let task = tokio::spawn(Watch::keep(Arc::downgrade(&watch), watch.access.look.clone(), calm)).abort_handle();
    Ok((Arc::new(Sentinel { watch, task }), received))
}

impl Watch {
    async fn keep(watch: Weak<Self>, wanted: Arc<Notify>, calm: Duration) {
        let look = || async {
            let looked = watch.upgrade()?.look().await;
            if let Err(why) = &looked {
                say(|| tracing::debug!(target: "lockson", %why, "the sentinels' primary is not there"));
            }
            Some(looked.is_ok())
        };
        keep_looking(wanted, calm, look).await;
    }

    /// Makes what the sentinels name the primary, if it says that it is one.
    async fn look(self: &Arc<Self>) -> Result<(), ConnectError> {
        // What was told up to here is asked for now.
        let _ = self.switched.notified().now_or_never();
        let (epoch, named, replicas) = self.named().await?;
        let known = self.primary.lock().clone().ok().filter(|member| member.at == named);
        let member = match &known {
            Some(member) => member.clone(),
            None => {
                // Whoever was it before grants nothing more, even if this one is not there yet.
                self.leave(&format!("the sentinels name {named}, which is not a primary yet"));
                self.start(&named)
            }
        };
        let role = tokio::select! {
            role = member.ears.ask(&["ROLE"]) => role,
            // It may be frozen: another one is not kept waiting for its answer.
            () = self.switched.notified() => {
                self.access.look.notify_one();
                Err("another primary was named meanwhile".to_owned())
            }
        };
        let role = role.map_err(|why| {
            // Who calls is told that it has no such user, say.
            if known.is_none() {
                *self.primary.lock() = Err(why.clone());
            }
            unreachable(&HashMap::from([(named.clone(), why)]))
        })?;
        if role.items().first().and_then(Reply::text) != Some("master") {
            return Err(ConnectError::NoPrimary { name: self.name.clone(), found: named.to_string() });
        }
        self.epoch.store(epoch, Ordering::Relaxed);
        if known.is_none() {
            member.node(&self.access)?;
            say(|| tracing::info!(target: "lockson", name = self.name, primary = %named, "this is the primary"));
            *self.primary.lock() = Ok(member.clone());
            for signal in [Signal::Over(vec![ALL_SLOTS]), Signal::Gap, Signal::Whole] {
                let _ = self.signals.send(signal);
            }
            self.access.changes.send_replace(());
        }
        if let Some(node) = member.seated() {
            node.lists(Some(replicas));
        }
        Ok(())
    }

    fn leave(&self, why: &str) {
        let Ok(member) = self.primary.lock().clone() else { return };
        *self.primary.lock() = Err(why.to_owned());
        member.leave();
        say(|| tracing::warn!(target: "lockson", name = self.name, was = %member.at, why, "the primary is left"));
    }

    fn start(self: &Arc<Self>, at: &HostPort) -> Arc<Member> {
        let (watch, from) = (Arc::downgrade(self), at.clone());
        Member::start(&self.access, at.clone(), move |told| {
            let Some(watch) = watch.upgrade() else { return };
            watch.hear(&from, told);
        })
    }

    /// What the primary's connection tells.
    fn hear(&self, from: &HostPort, told: Told) {
        if !self.primary.lock().as_ref().is_ok_and(|member| member.at == *from) {
            return;
        }
        if matches!(told, Told::Met(_)) {
            return;
        }
        for signal in signals(&told) {
            let _ = self.signals.send(signal);
        }
        if matches!(told, Told::Up) {
            self.access.changes.send_replace(());
        }
        if !matches!(told, Told::Push(_)) {
            self.access.look.notify_one();
        }
    }

    /// Whom the sentinels name, by the [`newest`] of their agreements. Replicas that are down are among those that they
    /// know.
    async fn named(self: &Arc<Self>) -> Result<Named, ConnectError> {
        let sentinels: Vec<_> = self.all().into_iter().collect();
        let known = sentinels.len();
        let asked = sentinels.into_iter().map(|(at, sentinel)| {
            let name = &self.name;
            let answer = async move {
                let master = sentinel.ask(&["SENTINEL", "MASTER", name]).await?;
                // The one that replaces the primary has the new epoch there at once, and the new address only here.
                let address = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).await?;
                let others = sentinel.ask(&["SENTINEL", "SENTINELS", name]).await.unwrap_or(Reply::Nil);
                Ok((master, address, others))
            };
            (at, answer)
        });
        let (answers, mut failures) = gather(asked, usize::MAX).await;
        let addresses = self.access.addresses.as_ref();
        let mut said: HashMap<(i64, HostPort), (usize, u32)> = HashMap::new();
        let mut others: Vec<HostPort> = Vec::new();
        for (at, (master, address, sentinels)) in &answers {
            let found = |host: Option<&Reply>, port: Option<&Reply>| {
                place(host?.text()?, u16::try_from(port?.int()?).ok()?, at, addresses)
            };
            let epoch = master.get("config-epoch").and_then(Reply::int).unwrap_or_default();
            if let Some(named) = found(address.items().first(), address.items().get(1)) {
                let replicas = master.get("num-slaves").and_then(Reply::int).unwrap_or_default();
                let (times, most) = said.entry((epoch, named)).or_default();
                (*times, *most) = (*times + 1, (*most).max(u32::try_from(replicas).unwrap_or_default()));
            }
            others.extend(sentinels.items().iter().filter_map(|other| found(other.get("ip"), other.get("port"))));
        }
        let newest = newest(said, known, self.epoch.load(Ordering::Relaxed));
        if !answers.is_empty() {
            self.learn(others);
        }
        match newest {
            Some(newest) => Ok(newest),
            None if failures.values().any(|why| why.contains("No such master")) => {
                Err(ConnectError::UnknownPrimary { name: self.name.clone(), sentinels: in_words(&failures) })
            }
            None if failures.values().any(|why| why.starts_with("ERR unknown command 'SENTINEL'")) => {
                Err(ConnectError::NoSentinel(in_words(&failures)))
            }
            None => {
                let why = || "it names nobody by an agreement as new as the one that was followed".to_owned();
                failures.extend(answers.into_iter().map(|(at, _)| (at, why())));
                Err(unreachable(&failures))
            }
        }
    }

    /// The sentinels that are known; those of the URL always are.
    fn all(self: &Arc<Self>) -> BTreeMap<HostPort, Arc<Connection>> {
        let mut sentinels = self.sentinels.lock();
        for seed in &self.seeds {
            self.add(&mut sentinels, seed.clone());
        }
        sentinels.clone()
    }

    /// These are all but those of the URL.
    fn learn(self: &Arc<Self>, others: Vec<HostPort>) {
        let mut sentinels = self.sentinels.lock();
        sentinels.retain(|at, sentinel| self.seeds.contains(at) || others.contains(at) || sentinel.state().is_ok());
        for other in others {
            self.add(&mut sentinels, other);
        }
    }

    fn add(&self, sentinels: &mut BTreeMap<HostPort, Arc<Connection>>, at: HostPort) {
        // It outlives the runtime of whoever asked.
        let _entered = self.access.runtime.enter();
        sentinels.entry(at.clone()).or_insert_with(|| {
            let (look, switched, name) = (self.access.look.clone(), self.switched.clone(), format!("{} ", self.name));
            let tell = move |told| match told {
                Told::Up => look.notify_one(),
                Told::Push(items) => {
                    // `name old new`, or `slave .. @ name old`.
                    let text = items.last().and_then(Reply::text).unwrap_or_default();
                    if text.rsplit("@ ").next().is_some_and(|text| text.starts_with(&name)) {
                        switched.notify_one();
                        look.notify_one();
                    }
                }
                Told::Met(_) | Told::Another | Told::Down(_) => {}
            };
            Arc::new(Connection::start(self.dial.clone(), at, &SWITCHES, tell))
        });
    }

    fn subscription(&self, verb: &'static str, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let member = match &*self.primary.lock() {
            Ok(member) => member.clone(),
            Err(why) => return std::future::ready(Err(why.clone())).boxed(),
        };
        async move { member.subscription(verb, channels).await }.boxed()
    }
}

impl Backend for Sentinel {
    fn node(&self, _key: &str) -> Result<Arc<Node>, Fate> {
        let primary = self.watch.primary.lock().clone();
        let primary = primary.map_err(|why| refused(&why).map_or(Fate::NotSent(why), Fate::Refused))?;
        primary.node(&self.watch.access).map_err(|why| Fate::NotSent(why.to_string()))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.node("").into_iter().collect()
    }

    fn topology(&self) -> Topology {
        Topology::Sentinel
    }

    fn seen(&self) -> Vec<NodeHealth> {
        let primary = self.watch.primary.lock().clone().ok();
        let primary = primary.map(|member| member.seen(Role::Primary));
        let sentinels = self.watch.sentinels.lock();
        let sentinels = sentinels.iter().map(|(at, sentinel)| NodeHealth {
            address: at.to_string(),
            role: Role::Sentinel,
            away: sentinel.away(),
        });
        primary.into_iter().chain(sentinels).collect()
    }

    fn fails_over(&self) -> bool {
        true
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.watch.access.changes.subscribe())
    }

    fn demoted(&self, _by: &Node) -> bool {
        self.watch.access.look.notify_one();
        true
    }

    fn replicas(&self, of: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        let (watch, address) = (self.watch.clone(), of.address.clone());
        async move {
            match watch.named().await {
                Ok((_, named, replicas)) if named.to_string() == address => Ok(replicas),
                Ok((_, named, _)) => Err(Fate::NotSent(format!("the sentinels name {named}"))),
                Err(why) => Err(Fate::NotSent(why.to_string())),
            }
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        self.watch.subscription("SUBSCRIBE", channels)
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        self.watch.subscription("UNSUBSCRIBE", channels).map(drop).boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.task.abort();
        self.watch.sentinels.lock().clear();
        self.watch.leave("the client is closed");
        std::future::ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that was cut off during a failover, or is started again, names the primary of before.
    #[test]
    fn an_older_agreement_counts_only_where_most_say_so() {
        let at = |port| HostPort { host: "h".to_owned(), port };
        let said = |times: &[(i64, u16, usize)]| {
            times.iter().map(|(epoch, port, times)| ((*epoch, at(*port)), (*times, 0))).collect::<HashMap<_, _>>()
        };
        let port = |times: &[(i64, u16, usize)], followed| newest(said(times), 3, followed).map(|(_, at, _)| at.port);
        assert_eq!(port(&[(1, 1, 1)], i64::MIN), Some(1), "nothing was followed before");
        assert_eq!(port(&[(1, 1, 2), (2, 2, 1)], 1), Some(2), "one that knows more is believed");
        assert_eq!(port(&[(2, 2, 1), (2, 3, 2)], 2), Some(3));
        assert_eq!(port(&[(1, 1, 1)], 2), None, "the others do not answer");
        assert_eq!(port(&[(0, 1, 2)], 2), Some(1), "they were made anew");
        assert_eq!(port(&[], 2), None);
    }
}
