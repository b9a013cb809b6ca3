//! What a client listens to: its channels by name, and how far the subscription of each has come. Nobody looks through
//! all of them for those that are to be subscribed to or left.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, Notify, Semaphore};
use tokio::time::Instant;

use crate::base::janitor::contain;
use crate::base::registry::shrink;

/// A failed subscription is tried again after this.
pub(super) const RETRY: Duration = Duration::from_millis(250);
/// Channels in one SUBSCRIBE.
const CHUNK: usize = 500;
/// More wake-ups than anyone can use.
const MOST_WAKES: usize = 1 << 16;

/// What goes one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Leave,
    /// Subscriptions at the server with this address; empty where none is known.
    Home(String),
    /// The same of those that it refuses: in a batch with others they would have all of it refused.
    Apart(String),
    /// Those that it has, once more: its answer comes behind all messages of before.
    Again(String),
}

/// Whoever is told how often `0` was heard.
pub(super) type Asker = oneshot::Sender<u64>;
/// Those who ask, by channel.
pub(super) type Asked = Vec<(Arc<str>, Vec<Asker>)>;

/// What the users of one channel share.
#[derive(Debug)]
pub(super) struct Ear {
    /// One permit for each message, more after a gap.
    pub(super) wakes: Semaphore,
    /// How often there were any.
    pub(super) rings: AtomicU64,
    /// Messages `0`.
    pub(super) zeros: AtomicU64,
    /// Whether the server has the subscription, as far as is known.
    confirmed: AtomicBool,
    /// How often the server was asked for it.
    pub(super) tries: AtomicU32,
    /// Rung after each try, when there will be none any more, and by each message.
    pub(super) told: Notify,
}

impl Default for Ear {
    fn default() -> Self {
        let (rings, zeros, confirmed, tries, told) = Default::default();
        Self { wakes: Semaphore::new(0), rings, zeros, confirmed, tries, told }
    }
}

impl Ear {
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
    }

    /// The server was asked for it, or is not any more.
    pub(super) fn tell(&self) {
        self.tries.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// Wakers are anybody's code.
    fn ring(&self) {
        contain(|| self.told.notify_waiters());
    }

    /// Waits for what is told, or rings, until this is so.
    pub(super) async fn hears(&self, is_so: impl Fn() -> bool) {
        loop {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if is_so() {
                return;
            }
            told.await;
        }
    }

    /// Forgets the messages that nobody took yet. Whether it is confirmed.
    pub(super) fn drain(&self) -> bool {
        self.wakes.forget_permits(usize::MAX);
        self.is_confirmed()
    }

    pub(super) fn wake(&self, times: usize) {
        let room = MOST_WAKES.saturating_sub(self.wakes.available_permits());
        contain(|| self.wakes.add_permits(times.min(room)));
        self.rings.fetch_add(1, Ordering::Release);
        self.ring();
    }
}

/// How far a subscription has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No server has confirmed it, and none is being asked for it.
    Missing,
    /// One is, by the try of this number.
    Asked(u64),
    Confirmed,
}

/// One channel, and who uses it.
pub(super) struct Channel {
    pub(super) ear: Arc<Ear>,
    pub(super) stage: Stage,
    pub(super) users: usize,
    /// Without users: when it ends.
    pub(super) ends: Option<Instant>,
    /// Messages since it has none.
    pub(super) unheeded: u32,
    /// Its server said that this user may not listen to it.
    pub(super) is_refused: bool,
    /// Who asks what was heard, and of whom its server is not being asked yet.
    askers: Vec<Asker>,
    /// Its server is being asked for it once more.
    is_again: bool,
}

impl Channel {
    /// A new one.
    pub(super) fn missing() -> Self {
        let (ear, askers) = Default::default();
        let (users, ends, unheeded, is_refused, is_again) = (0, None, 0, false, false);
        Self { ear, stage: Stage::Missing, users, ends, unheeded, is_refused, askers, is_again }
    }
}

/// The channels by name; and those that are to be subscribed to or left, so that nobody looks through all for them.
#[derive(Default)]
pub(super) struct Map {
    pub(super) all: HashMap<Arc<str>, Channel>,
    /// Those without users, by when they end.
    pub(super) idle: BTreeSet<(Instant, Arc<str>)>,
    /// Those that are missing, by the server that had them when that was looked up; and those of which it was not yet.
    pub(super) missing: BTreeMap<Lane, BTreeSet<Arc<str>>>,
    pub(super) fresh: BTreeSet<Arc<str>>,
    /// How many are not confirmed.
    pub(super) open: usize,
    /// Those that are being left.
    pub(super) leaving: HashSet<Arc<str>>,
    /// Since when messages may be missing, if they may.
    pub(super) gap_since: Option<Instant>,
}

impl Map {
    /// When a channel ends, unless it is used again.
    pub(super) fn end_at(&mut self, name: &Arc<str>, ends: Option<Instant>) {
        let Some(channel) = self.all.get_mut(name) else { return };
        if let Some(before) = std::mem::replace(&mut channel.ends, ends) {
            self.idle.remove(&(before, name.clone()));
        }
        self.idle.extend(ends.map(|ends| (ends, name.clone())));
    }

    /// How it is asked for, of the server at this address.
    pub(super) fn lane(&self, name: &str, at: String) -> Lane {
        match self.all.get(name) {
            Some(channel) if channel.stage == Stage::Confirmed => Lane::Again(at),
            Some(channel) if channel.is_refused => Lane::Apart(at),
            _ => Lane::Home(at),
        }
    }

    /// It has come this far. `false`: it had before, or there is no such channel.
    pub(super) fn put(&mut self, name: &str, stage: Stage) -> bool {
        let Some(channel) = self.all.get_mut(name) else { return false };
        let before = std::mem::replace(&mut channel.stage, stage);
        channel.is_refused &= stage != Stage::Confirmed;
        self.open -= usize::from(before != Stage::Confirmed);
        self.open += usize::from(stage != Stage::Confirmed);
        channel.ear.confirmed.store(stage == Stage::Confirmed, Ordering::Release);
        before != stage
    }

    /// Takes out what is at its end, as much as goes into one call.
    pub(super) fn take_idle(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut taken = Vec::new();
        while taken.len() < CHUNK && self.idle.first().is_some_and(|(ends, _)| *ends <= now) {
            let Some((_, name)) = self.idle.pop_first() else { break };
            let is_asked = |channel: &Channel| channel.is_again || matches!(channel.stage, Stage::Asked(_));
            if self.all.get(&name).is_some_and(is_asked) {
                self.end_at(&name, Some(now + RETRY));
                continue;
            }
            let gone = self.all.remove(&name);
            self.open -= usize::from(gone.is_some_and(|channel| channel.stage == Stage::Missing));
            self.fresh.remove(&name);
            self.missing.values_mut().for_each(|names| {
                names.remove(&name);
            });
            taken.push(name);
        }
        shrink(&mut self.all);
        taken
    }

    /// Takes some of a lane, as many as go into one call, which has this number: those that are not being left, and
    /// that no other server has by now.
    pub(super) fn take_missing(&mut self, lane: &Lane, number: u64, home: impl Fn(&str) -> String) -> Vec<Arc<str>> {
        let (mut taken, mut left) = (Vec::new(), BTreeSet::new());
        let mut names = self.missing.remove(lane).unwrap_or_default();
        while taken.len() < CHUNK {
            let Some(name) = names.pop_first() else { break };
            if self.leaving.contains(&name) {
                left.insert(name);
            } else if self.lane(&name, home(&name)) != *lane {
                self.fresh.insert(name);
            } else {
                if !matches!(lane, Lane::Again(_)) {
                    self.put(&name, Stage::Asked(number));
                }
                taken.push(name);
            }
        }
        names.append(&mut left);
        if !names.is_empty() {
            self.missing.insert(lane.clone(), names);
        }
        taken
    }

    /// Whether its server refuses it, by what is known.
    pub(super) fn refuse(&mut self, name: &str, yes: bool) {
        if let Some(channel) = self.all.get_mut(name) {
            channel.is_refused = yes;
        }
    }

    /// No subscription is left, or none of these: how many there were. Their users are not told yet: they hear of the
    /// next try.
    pub(super) fn lose(&mut self, only: Option<&[String]>) -> usize {
        let known = |name: &String| self.all.get_key_value(name.as_str()).map(|(name, _)| name.clone());
        let lost: Vec<Arc<str>> = match only {
            None => self.all.keys().cloned().collect(),
            Some(names) => names.iter().filter_map(known).collect(),
        };
        let before = self.open;
        for name in lost {
            self.refuse(&name, false);
            if self.put(&name, Stage::Missing) {
                self.fresh.insert(name);
            }
        }
        self.open - before
    }

    /// The server was asked for them, by the try of this number. After a gap their users look: something may have been
    /// missed.
    pub(super) fn asked(&mut self, names: &[Arc<str>], number: u64, ok: bool) {
        for name in names {
            let asked = |channel: &&Channel| channel.stage == Stage::Asked(number);
            // Else a gap came meanwhile, and it is asked for anew.
            let Some(channel) = self.all.get(name).filter(asked) else { continue };
            let (ear, users, is_asked_about) = (channel.ear.clone(), channel.users, !channel.askers.is_empty());
            self.put(name, if ok { Stage::Confirmed } else { Stage::Missing });
            if !ok || is_asked_about {
                self.fresh.insert(name.clone());
            }
            ear.tell();
            ear.wake(users);
        }
    }

    /// They ask what was heard by this channel: its server is asked once it has confirmed it.
    pub(super) fn asks(&mut self, name: &Arc<str>, askers: impl IntoIterator<Item = Asker>) {
        let Some(channel) = self.all.get_mut(name) else { return };
        // Some have left: each of them is forgotten before there is more room.
        if channel.askers.len() == channel.askers.capacity() {
            channel.askers.retain(|asker| !asker.is_closed());
        }
        channel.askers.extend(askers);
        channel.is_again = false;
        if channel.stage == Stage::Confirmed {
            self.fresh.insert(name.clone());
        }
    }

    /// Takes out who asks of these and has not left, as their servers are asked now.
    pub(super) fn take_askers(&mut self, names: Vec<Arc<str>>) -> Asked {
        let of = |name: Arc<str>| {
            let channel = self.all.get_mut(&name)?;
            let mut askers = std::mem::take(&mut channel.askers);
            askers.retain(|asker| !asker.is_closed());
            channel.is_again = !askers.is_empty();
            channel.is_again.then_some((name, askers))
        };
        names.into_iter().filter_map(of).collect()
    }

    /// What they are told, as all was passed on that came before they asked. Who can't be told asks again.
    pub(super) fn heard(&mut self, asked: Asked) -> Vec<(Asker, u64)> {
        let mut told = Vec::new();
        for (name, askers) in asked {
            match self.all.get_mut(&name) {
                Some(channel) if channel.stage == Stage::Confirmed => {
                    channel.is_again = false;
                    let zeros = channel.ear.zeros.load(Ordering::Acquire);
                    told.extend(askers.into_iter().map(|asker| (asker, zeros)));
                }
                _ => self.asks(&name, askers),
            }
        }
        told
    }

    /// Messages may be missing. `true`: since now.
    pub(super) fn begin_gap(&mut self) -> bool {
        let begins = self.gap_since.is_none();
        self.gap_since.get_or_insert_with(Instant::now);
        begins
    }
}
