//! What a client knows of a cluster: its servers, who has which slot, and where each channel is subscribed to.

use std::collections::HashMap;
use std::sync::Arc;

use ::futures::future::{join_all, BoxFuture, FutureExt};

use super::member::Member;
use super::slots::{by_slot, commands, slot, BySlot, Range};
use crate::backend::url::HostPort;

const END: &str = "SUNSUBSCRIBE";

/// Channels that a server was asked for.
pub(super) struct Placed {
    pub(super) at: HostPort,
    pub(super) names: Vec<String>,
    pub(super) subscribed: BoxFuture<'static, Result<(), String>>,
}

#[derive(Default)]
pub(super) struct State {
    /// Nothing is added any more.
    pub(super) is_closed: bool,
    /// The primaries and the seeds.
    pub(super) members: HashMap<HostPort, Arc<Member>>,
    /// The primary of each slot, where one is known.
    pub(super) owners: Vec<Option<Arc<Member>>>,
    /// What the servers said last.
    pub(super) ranges: Vec<Range>,
    /// Which server has a subscription.
    pub(super) channels: HashMap<String, HostPort>,
    /// A tag for each slot that one was needed for.
    pub(super) tags: HashMap<u16, Arc<str>>,
}

impl State {
    /// Subscribes to these channels at the servers that have their slots: they are subscribed to there from here on,
    /// and nowhere else. What is known here and what each server is sent change in one order, as the caller writes to
    /// this: of two that place or leave a channel, the server hears both as they were.
    pub(super) fn place(&mut self, channels: &[String]) -> Result<Vec<Placed>, String> {
        let mut sorted: HashMap<HostPort, (Arc<Member>, BySlot)> = HashMap::new();
        for channel in channels {
            let slot = slot(channel);
            let owner = self.owners.get(usize::from(slot)).cloned().flatten();
            let owner = owner.ok_or_else(|| format!("no server is known to have slot {slot}"))?;
            let (_, by_slot) = sorted.entry(owner.at.clone()).or_insert_with(|| (owner, BySlot::new()));
            by_slot.entry(slot).or_default().push(channel.clone());
        }
        let mut left = HashMap::<HostPort, Vec<String>>::new();
        let mut placed = Vec::new();
        for (at, (member, by_slot)) in sorted {
            let names: Vec<String> = by_slot.values().flatten().cloned().collect();
            for name in &names {
                let before = self.channels.insert(name.clone(), at.clone()).filter(|before| *before != at);
                before.into_iter().for_each(|before| left.entry(before).or_default().push(name.clone()));
            }
            let subscribed = member.ears.subscribe(commands("SSUBSCRIBE", by_slot)).boxed();
            placed.push(Placed { at, names, subscribed });
        }
        drop(self.leave(&left));
        Ok(placed)
    }

    /// Places those anew that the server to which they were refused still counts for: whoever placed or left one since
    /// then has told of it.
    pub(super) fn place_again(&mut self, refused: Vec<(String, HostPort)>) -> Result<Vec<Placed>, String> {
        let is_as_it_was = |(name, at): &(String, HostPort)| self.channels.get(name) == Some(at);
        let channels: Vec<String> = refused.into_iter().filter(is_as_it_was).map(|(name, _)| name).collect();
        self.place(&channels)
    }

    /// Ends subscriptions where they were; what this returns ends when all are. Where it fails the connection is gone,
    /// and the subscriptions with it, or the slot is elsewhere. What a server refuses for a while (Redis 8.0, as long
    /// as its cluster is down) is left again when a message comes by it.
    pub(super) fn leave(&self, left: &HashMap<HostPort, Vec<String>>) -> BoxFuture<'static, ()> {
        let left = left.iter().filter_map(|(at, names)| {
            let member = self.members.get(at)?;
            let commands =
                if self.is_needless(at) { vec![vec![END.to_owned()]] } else { commands(END, by_slot(names)) };
            Some(member.ears.subscribe(commands))
        });
        join_all(left).map(drop).boxed()
    }

    /// Whether a server has nothing to tell: no slot, and no channel. A replica of Redis 8.0 takes a subscription, but
    /// refuses to end one by its name; it ends all of them.
    fn is_needless(&self, at: &HostPort) -> bool {
        self.ranges.iter().all(|range| range.primary != *at) && self.channels.values().all(|other| other != at)
    }

    /// Takes out subscriptions.
    pub(super) fn take(&mut self, is: impl Fn(&String, &HostPort) -> bool) -> Vec<String> {
        let mut taken = Vec::new();
        self.channels.retain(|name, at| {
            let goes = is(name, at);
            taken.extend(goes.then(|| name.clone()));
            !goes
        });
        taken
    }

    /// Takes out subscriptions that are where their slots are not: where they are.
    pub(super) fn lost(&mut self) -> HashMap<HostPort, Vec<String>> {
        let mut lost = HashMap::<HostPort, Vec<String>>::new();
        let Self { owners, channels, .. } = self;
        channels.retain(|name, at| {
            let owner = owners.get(usize::from(slot(name))).and_then(Option::as_ref);
            let stays = owner.is_some_and(|owner| owner.at == *at);
            if !stays {
                lost.entry(at.clone()).or_default().push(name.clone());
            }
            stays
        });
        lost
    }
}
