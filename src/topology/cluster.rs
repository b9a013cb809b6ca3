//! A cluster: which of its primaries has which slot, and a connection to each. Redirections and lost servers make it
//! ask the others again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::futures::future::{join_all, BoxFuture, FutureExt};
use parking_lot::RwLock;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::member::{gather, in_words, keep_looking, unreachable, Access, Member};
use super::slots::{best, completed, is_no_cluster, newcomers, ranges, redirected, slot, tag, uncovered, Range, SLOTS};
use super::state::{Placed, State};
use crate::backend::node::{Node, NodeHealth, Role, Topology};
use crate::backend::url::HostPort;
use crate::backend::{Backend, Changes, Fate, Signal};
use crate::base::fault::ConnectError;
use crate::base::janitor::say;
use crate::connections::connection::Told;

/// How often the servers are asked when nothing seems wrong.
const CALM: Duration = Duration::from_secs(10);
/// How long a server without slots is kept that was redirected to: some may be on their way.
const KEPT: Duration = Duration::from_secs(30);
/// Redirections of one subscription.
const TRIES: usize = 5;

/// A cluster, as one client sees it.
pub(crate) struct Cluster {
    map: Arc<Map>,
    task: AbortHandle,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of the servers.
struct Map {
    seeds: Vec<HostPort>,
    access: Access,
    signals: UnboundedSender<Signal>,
    state: RwLock<State>,
}

/// Connects to the cluster that these servers are of.
pub(crate) async fn connect(
    seeds: Vec<HostPort>,
    access: Access,
) -> Result<(Arc<dyn Backend>, UnboundedReceiver<Signal>), ConnectError> {
    let (signals, mut received) = unbounded_channel();
    let map = Arc::new(Map { seeds, access, signals, state: RwLock::default() });
    for seed in &map.seeds {
        map.member(seed);
    }
    map.look().await?;
    // The primaries are asked too: so all of them are connected.
    map.look().await?;
    if let Some(slot) = uncovered(&map.state.read().ranges) {
        return Err(ConnectError::Uncovered { slot });
    }
    // Nobody had anything to miss yet.
    while received.try_recv().is_ok() {}
    let calm = map.access.calm.unwrap_or(CALM);
    let task = tokio::spawn(Map::keep(Arc::downgrade(&map), map.access.look.clone(), calm)).abort_handle();
    Ok((Arc::new(Cluster { map, task }), received))
}

impl Map {
    async fn keep(map: Weak<Self>, wanted: Arc<Notify>, calm: Duration) {
        let look = || async {
            let map = map.upgrade()?;
            let looked = map.look().await;
            if let Err(why) = &looked {
                say(|| tracing::debug!(target: "lockson", %why, "no server says who has which slot"));
            }
            Some(looked.is_ok() && map.is_up())
        };
        keep_looking(wanted, calm, look).await;
    }

    /// Whether all primaries answer.
    fn is_up(&self) -> bool {
        let state = self.state.read();
        let is_up = |range: &Range| state.members.get(&range.primary).is_some_and(|member| member.ears.state().is_ok());
        state.ranges.iter().all(is_up)
    }

    /// The server at this address, which is connected to if it was not.
    fn member(self: &Arc<Self>, at: &HostPort) -> Arc<Member> {
        let start = || {
            let (map, from) = (Arc::downgrade(self), at.clone());
            Member::start(&self.access, at.clone(), move |told| {
                let Some(map) = map.upgrade() else { return };
                map.hear(&from, told);
            })
        };
        let mut state = self.state.write();
        if state.is_closed {
            return start();
        }
        state.members.entry(at.clone()).or_insert_with(start).clone()
    }

    /// Asks all servers who has which slot, and goes by it.
    async fn look(self: &Arc<Self>) -> Result<(), ConnectError> {
        let members: Vec<Arc<Member>> = self.state.read().members.values().cloned().collect();
        let enough = members.len() / 2;
        let asked = members
            .into_iter()
            .map(|member| (member.at.clone(), async move { member.ears.ask(&["CLUSTER", "SLOTS"]).await }));
        let (answers, failures) = gather(asked, enough).await;
        let addresses = self.access.addresses.as_ref();
        let answers: Vec<_> = answers.iter().map(|(at, answer)| ranges(answer, at, addresses)).collect();
        match best(&answers) {
            Some(best) => {
                let known = completed(best, &self.state.read().ranges);
                self.apply(&known)?;
                self.recount().await;
                Ok(())
            }
            None if failures.values().any(|why| is_no_cluster(why)) => {
                Err(ConnectError::NoCluster(in_words(&failures)))
            }
            None => Err(unreachable(&failures)),
        }
    }

    /// Goes by what the servers said.
    fn apply(self: &Arc<Self>, ranges: &[Range]) -> Result<(), ConnectError> {
        let mut owners = vec![None; usize::from(SLOTS)];
        for range in ranges {
            let member = self.member(&range.primary);
            member.node(&self.access)?;
            let first = usize::from(range.first);
            owners.iter_mut().skip(first).take(usize::from(range.last) + 1 - first).for_each(|owner| {
                *owner = Some(member.clone());
            });
        }
        let mut state = self.state.write();
        if state.is_closed {
            return Ok(());
        }
        state.owners = owners;
        let before = std::mem::replace(&mut state.ranges, ranges.to_vec());
        for server in newcomers(&before, ranges) {
            say(|| tracing::info!(target: "lockson", %server, "the server has slots now"));
        }
        let primaries: HashSet<&HostPort> = ranges.iter().map(|range| &range.primary).collect();
        let has_slots = |at: &HostPort| primaries.contains(at);
        let mut over = Vec::new();
        state.members.retain(|at, member| {
            let had: Vec<_> = before.iter().filter(|range| range.primary == *at).collect();
            if has_slots(at) || (had.is_empty() && member.was_needed(KEPT)) {
                return true;
            }
            member.leave();
            if !had.is_empty() {
                over.extend(had.iter().map(|range| range.first..=range.last));
                say(|| tracing::warn!(target: "lockson", server = %at, "the server has no slots any more"));
            }
            self.seeds.contains(at)
        });
        let mut lost = state.lost();
        // One that is no primary any more takes subscriptions, too, and tells what its primary is told: nobody may hear
        // by both. It may have refused to end those that were moved away before.
        for at in before.iter().map(|range| &range.primary).filter(|at| !has_slots(at)) {
            lost.entry(at.clone()).or_default();
        }
        drop(state.leave(&lost));
        drop(state);
        if !over.is_empty() {
            let _ = self.signals.send(Signal::Over(over));
        }
        self.lose(lost.into_values().flatten().collect());
        if before != ranges {
            self.access.changes.send_replace(());
        }
        Ok(())
    }

    /// A primary is not what it was.
    fn another(&self, at: &HostPort) {
        let state = self.state.read();
        let its = state.ranges.iter().filter(|range| range.primary == *at);
        let _ = self.signals.send(Signal::Over(its.map(|range| range.first..=range.last).collect()));
    }

    /// Counts the replicas of the primaries anew. Who does not answer in time keeps its number.
    async fn recount(&self) {
        let members: Vec<Arc<Member>> = self.state.read().members.values().cloned().collect();
        gather(members.iter().map(|member| (member.at.clone(), member.recount())), usize::MAX).await;
    }

    /// Tells of subscriptions that are gone.
    fn lose(&self, channels: Vec<String>) {
        if !channels.is_empty() {
            let _ = self.signals.send(Signal::Lost(channels));
        }
    }

    /// What a server's connection tells.
    fn hear(&self, from: &HostPort, told: Told) {
        let items = match told {
            Told::Push(items) => items,
            Told::Met(_) => return,
            Told::Another => return self.another(from),
            Told::Up => {
                self.access.changes.send_replace(());
                return self.access.look.notify_one();
            }
            Told::Down(_) => {
                let lost = self.state.write().take(|_, at| at == from);
                self.lose(lost);
                return self.access.look.notify_one();
            }
        };
        let [kind, channel, rest] = items.as_slice() else { return };
        let channel = channel.text().unwrap_or_default();
        match kind.text() {
            Some("smessage") => {
                let state = self.state.read();
                if state.channels.get(channel) == Some(from) {
                    let zero = rest.text() == Some("0");
                    let _ = self.signals.send(Signal::Message { channel: channel.to_owned(), zero });
                } else {
                    drop(state.leave(&HashMap::from([(from.clone(), vec![channel.to_owned()])])));
                }
            }
            // Unasked, if it is still ours: its slot is elsewhere. It stays noted, to be left where it may be again.
            Some("sunsubscribe") if self.state.read().channels.get(channel) == Some(from) => {
                self.lose(vec![channel.to_owned()]);
                self.access.look.notify_one();
            }
            _ => {}
        }
    }

    /// A server said that this one has the slot.
    fn moved(self: &Arc<Self>, slot: u16, address: &str, by: &HostPort) -> Option<Arc<Member>> {
        self.access.look.notify_one();
        let member = self.asked(address, by)?;
        let mut state = self.state.write();
        if state.is_closed {
            return None;
        }
        // It may have been dropped meanwhile.
        let member = state.members.entry(member.at.clone()).or_insert(member).clone();
        if let Some(owner) = state.owners.get_mut(usize::from(slot)) {
            *owner = Some(member.clone());
        }
        Some(member)
    }

    /// The server that a redirection names. It is kept for a while, though no slot is known to be there.
    fn asked(self: &Arc<Self>, address: &str, by: &HostPort) -> Option<Arc<Member>> {
        let at = redirected(address, by, self.access.addresses.as_ref())?;
        let member = self.member(&at);
        member.is_needed();
        Some(member)
    }

    /// The tag of the first slot of the server that has this one.
    fn tag(&self, slot: u16) -> Arc<str> {
        let owner = self.owner(slot);
        let mut state = self.state.write();
        let its = state.ranges.iter().find(|range| owner.as_ref().is_some_and(|owner| owner.at == range.primary));
        // One that is known by a redirection alone.
        let first = its.map_or(slot, |range| range.first);
        state.tags.entry(first).or_insert_with(|| tag(first).into()).clone()
    }

    fn owner(&self, slot: u16) -> Option<Arc<Member>> {
        self.state.read().owners.get(usize::from(slot))?.clone()
    }

    /// Waits until these are subscribed to, and follows their slots a few times.
    async fn follow(self: Arc<Self>, mut placed: Vec<Placed>) -> Result<(), String> {
        for _ in 0..TRIES {
            let (mut failed, mut refused) = (None, Vec::new());
            let subscribed =
                placed.into_iter().map(|Placed { at, names, subscribed }| subscribed.map(|is| (is, at, names)));
            // What was refused or not answered may be there yet, and is left there when it goes elsewhere.
            for (subscribed, at, names) in join_all(subscribed).await {
                match subscribed {
                    Ok(()) => {}
                    Err(why) if self.follows(&why, &at) => refused.extend(names.into_iter().map(|it| (it, at.clone()))),
                    Err(why) => failed = Some(why),
                }
            }
            if let Some(why) = failed {
                return Err(why);
            }
            if refused.is_empty() {
                return Ok(());
            }
            placed = self.state.write().place_again(refused)?;
        }
        Err("the slots of these channels are on their way".to_owned())
    }

    /// This server, by this error, said where a slot is.
    fn follows(self: &Arc<Self>, why: &str, by: &HostPort) -> bool {
        let mut words = why.strip_prefix("MOVED ").unwrap_or_default().split(' ');
        let slot = words.next().and_then(|slot| slot.parse().ok());
        slot.zip(words.next()).is_some_and(|(slot, address)| self.moved(slot, address, by).is_some())
    }

    /// Unsubscribes where it is subscribed.
    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        let mut left: HashMap<HostPort, Vec<String>> = HashMap::new();
        let mut state = self.state.write();
        for channel in channels {
            let Some(at) = state.channels.remove(&channel) else { continue };
            left.entry(at).or_default().push(channel);
        }
        state.leave(&left)
    }
}

impl Backend for Cluster {
    fn node(&self, key: &str) -> Result<Arc<Node>, Fate> {
        let slot = slot(key);
        match self.map.owner(slot) {
            Some(owner) => self.map.node(&owner),
            None => {
                self.map.access.look.notify_one();
                Err(Fate::NotSent(format!("no server is known to have slot {slot}")))
            }
        }
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        let primaries: Vec<Arc<Member>> = {
            let state = self.map.state.read();
            state.ranges.iter().filter_map(|range| state.members.get(&range.primary).cloned()).collect()
        };
        let mut nodes: Vec<Arc<Node>> = primaries.iter().filter_map(|member| self.map.node(member).ok()).collect();
        nodes.sort_by(|one, other| one.address.cmp(&other.address));
        nodes.dedup_by(|one, other| one.address == other.address);
        nodes
    }

    fn topology(&self) -> Topology {
        Topology::Cluster
    }

    fn seen(&self) -> Vec<NodeHealth> {
        let state = self.map.state.read();
        let is_primary = |at: &HostPort| state.ranges.iter().any(|range| range.primary == *at);
        let role = |at| if is_primary(at) { Role::Primary } else { Role::Other };
        state.members.values().map(|member| member.seen(role(&member.at))).collect()
    }

    fn slot(&self, key: &str) -> u16 {
        slot(key)
    }

    /// In the first slot of its node.
    fn marker(&self, name: &str, key: &str) -> String {
        format!("{name}:{{{}}}", self.map.tag(slot(key)))
    }

    fn fails_over(&self) -> bool {
        true
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.map.access.changes.subscribe())
    }

    fn moved(&self, key: &str, address: &str, by: &Node) -> Result<Arc<Node>, Fate> {
        let from = HostPort::parse(&by.address).unwrap_or_default();
        match self.map.moved(slot(key), address, &from) {
            Some(member) => self.map.node(&member),
            None => Err(Fate::NotSent(format!("{from} does not say where the key went"))),
        }
    }

    fn asked(&self, address: &str, by: &Node) -> Result<Arc<Node>, Fate> {
        let from = HostPort::parse(&by.address).unwrap_or_default();
        match self.map.asked(address, &from) {
            Some(member) => self.map.node(&member),
            None => Err(Fate::NotSent(format!("{from} does not say where the key goes"))),
        }
    }

    fn demoted(&self, _by: &Node) -> bool {
        self.map.access.look.notify_one();
        true
    }

    fn replicas(&self, of: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        let member = HostPort::parse(&of.address).and_then(|at| self.map.state.read().members.get(&at).cloned());
        async move {
            let member = member.ok_or_else(|| Fate::NotSent("the server is no primary any more".to_owned()))?;
            member.replicas().await.map_err(|why| Fate::of_error(&why).unwrap_or(Fate::NotSent(why)))
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let placed = self.map.state.write().place(&channels);
        let map = self.map.clone();
        async move { map.follow(placed?).await }.boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        self.map.unsubscribe(channels)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.task.abort();
        let state = std::mem::replace(&mut *self.map.state.write(), State { is_closed: true, ..State::default() });
        for member in state.members.values() {
            member.leave();
        }
        std::future::ready(()).boxed()
    }
}

impl Map {
    fn node(&self, member: &Member) -> Result<Arc<Node>, Fate> {
        member.node(&self.access).map_err(|why| Fate::NotSent(why.to_string()))
    }
}
