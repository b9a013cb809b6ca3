//! Who is connected, who listens to which channel, and what is to be told to whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::commands::matches;
use crate::faults::Network;

/// What a connection subscribes to. A text is a channel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// What is published on this channel.
    Channel(String),
    /// What is published on channels whose names match this pattern, with `*`, `?`, `[a-c]`, `[^a]` and `\\`.
    Pattern(String),
    /// What is published on this shard channel, which has nothing to do with the channel of its name.
    Shard(String),
}

impl From<String> for Topic {
    fn from(channel: String) -> Self {
        Self::Channel(channel)
    }
}

impl Topic {
    /// Whether a message that was published there is for who subscribed to this.
    fn takes(&self, channel: &str, is_shard: bool) -> bool {
        match self {
            Self::Channel(own) => !is_shard && own == channel,
            Self::Pattern(pattern) => !is_shard && matches(pattern.as_bytes(), channel.as_bytes()),
            Self::Shard(own) => is_shard && own == channel,
        }
    }
}

/// What a connection is told without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// A message came.
    Message {
        /// What it is subscribed to.
        topic: Topic,
        /// The channel that it was published on.
        channel: String,
        /// What was published.
        text: Vec<u8>,
    },
    /// The connection was cut and is there again. Messages may have been missed, and no subscription is left.
    Cut,
}

/// Whom a connection's signals go to.
pub(crate) type Told = Arc<dyn Fn(Signal) + Send + Sync>;

pub(crate) struct Client {
    told: Told,
    topics: BTreeSet<Topic>,
}

/// Signals with their receivers, to be sent when no lock is held: what a receiver does is not ours.
#[derive(Default)]
pub(crate) struct Outbox(Vec<(Told, Signal, Duration)>);

impl Outbox {
    pub(crate) fn send(self) {
        for (told, signal, late) in self.0 {
            if late.is_zero() {
                told(signal);
                continue;
            }
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                told(signal);
            });
        }
    }
}

/// The connections of the server.
#[derive(Default)]
pub(crate) struct Hub {
    clients: BTreeMap<u64, Client>,
    next: u64,
    outbox: Outbox,
    /// Messages are counted but not delivered.
    pub(crate) mute: bool,
    /// What calls and messages meet.
    pub(crate) network: Option<Box<dyn Network>>,
}

impl Hub {
    /// Connects a client and returns its number.
    pub(crate) fn connect(&mut self, told: Told) -> u64 {
        self.next += 1;
        self.clients.insert(self.next, Client { told, topics: BTreeSet::new() });
        self.next
    }

    /// Returns what is left of the client, to be dropped when no lock is held.
    pub(crate) fn disconnect(&mut self, client: u64) -> Option<Client> {
        self.clients.remove(&client)
    }

    pub(crate) fn is_connected(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    pub(crate) fn subscribe(&mut self, client: u64, topics: Vec<Topic>) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.topics.extend(topics);
        }
    }

    pub(crate) fn unsubscribe(&mut self, client: u64, topics: &[Topic]) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.topics.retain(|topic| !topics.contains(topic));
        }
    }

    /// Sends a message and returns the number of its receivers.
    pub(crate) fn publish(&mut self, channel: &[u8], text: &[u8], is_shard: bool) -> usize {
        let Ok(channel) = std::str::from_utf8(channel) else { return 0 };
        let mut receivers = 0;
        for (id, client) in &self.clients {
            for topic in client.topics.iter().filter(|topic| topic.takes(channel, is_shard)) {
                receivers += 1;
                let late = self.network.as_mut().map_or(Some(Duration::ZERO), |network| network.message(*id));
                if let Some(late) = late.filter(|_| !self.mute) {
                    let (topic, channel) = (topic.clone(), channel.to_owned());
                    let message = Signal::Message { topic, channel, text: text.to_vec() };
                    self.outbox.0.push((client.told.clone(), message, late));
                }
            }
        }
        receivers
    }

    /// Ends the subscriptions of one client, as a lost connection does, and tells it.
    pub(crate) fn cut(&mut self, client: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.topics.clear();
            self.outbox.0.push((client.told.clone(), Signal::Cut, Duration::ZERO));
        }
    }

    /// The same for all clients.
    pub(crate) fn cut_all(&mut self) {
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            self.cut(client);
        }
    }

    /// Ends all subscriptions without a word: nobody can be told yet.
    pub(crate) fn forget_subscriptions(&mut self) {
        for client in self.clients.values_mut() {
            client.topics.clear();
        }
    }

    /// What is to be sent; the caller sends it when it holds no lock.
    pub(crate) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }
}
