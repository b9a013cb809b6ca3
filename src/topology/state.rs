//! What a client knows of a cluster: its servers, who has which slot, and where each channel is subscribed to.

use std::collections::HashMap;
use std::sync::Arc;

use ::futures::future::FutureExt;

use super::member::Member;
use super::slots::{by_slot, commands, slot, BySlot, Range};
use crate::backend::url::HostPort;

#[derive(Default)]
pub(super) struct State {
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
    /// The servers that have the slots of these channels, with the channels by slot: they are subscribed to there from
    /// here on, and nowhere else. Before it is sent: it may be lost as soon as it is there.
    pub(super) fn place(&mut self, channels: &[String]) -> Result<Vec<(Arc<Member>, BySlot)>, String> {
        let mut sorted: HashMap<HostPort, (Arc<Member>, BySlot)> = HashMap::new();
        for channel in channels {
            let slot = slot(channel);
            let owner = self.owners.get(usize::from(slot)).cloned().flatten();
            let owner = owner.ok_or_else(|| format!("no server is known to have slot {slot}"))?;
            let (_, by_slot) = sorted.entry(owner.at.clone()).or_insert_with(|| (owner, BySlot::new()));
            by_slot.entry(slot).or_default().push(channel.clone());
        }
        let mut left = HashMap::<HostPort, Vec<String>>::new();
        for (at, (_, by_slot)) in &sorted {
            for name in by_slot.values().flatten() {
                let before = self.channels.insert(name.clone(), at.clone()).filter(|before| before != at);
                before.into_iter().for_each(|before| left.entry(before).or_default().push(name.clone()));
            }
        }
        self.leave(&left);
        Ok(sorted.into_values().collect())
    }

    /// Ends subscriptions where they were, without waiting for it.
    pub(super) fn leave(&self, left: &HashMap<HostPort, Vec<String>>) {
        for (at, names) in left {
            let Some(member) = self.members.get(at) else { continue };
            let _ = member.ears.subscribe(commands("SUNSUBSCRIBE", by_slot(names))).now_or_never();
        }
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
