//! Who is connected, who listens to which channel, and what is to be told to whom.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::mpsc::UnboundedSender;

use super::faults::Faults;
use crate::backend::Signal;

#[derive(Debug)]
struct Client {
    signals: UnboundedSender<Signal>,
    channels: BTreeSet<String>,
}

/// Signals with their receivers, to be sent when no lock is held: sending wakes tasks, and what a waker does is not
/// ours.
#[derive(Debug, Default)]
pub(super) struct Outbox(Vec<(UnboundedSender<Signal>, Signal)>);

impl Outbox {
    pub(super) fn send(self) {
        for (signals, signal) in self.0 {
            // A client that does not listen any more misses nothing.
            let _ = signals.send(signal);
        }
    }
}

/// The connections of the server.
#[derive(Debug, Default)]
pub(super) struct Hub {
    clients: BTreeMap<u64, Client>,
    next: u64,
    outbox: Outbox,
    /// Messages are counted but not delivered.
    pub(super) mute: bool,
    /// What calls and messages meet.
    pub(super) faults: Option<Faults>,
}

impl Hub {
    /// Connects a client and returns its number.
    pub(super) fn connect(&mut self, signals: UnboundedSender<Signal>) -> u64 {
        self.next += 1;
        self.clients.insert(self.next, Client { signals, channels: BTreeSet::new() });
        self.next
    }

    pub(super) fn disconnect(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    pub(super) fn is_connected(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    pub(super) fn subscribe(&mut self, client: u64, channels: Vec<String>) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.channels.extend(channels);
        }
    }

    pub(super) fn unsubscribe(&mut self, client: u64, channels: &[String]) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.channels.retain(|channel| !channels.contains(channel));
        }
    }

    /// Sends a message and returns the number of its receivers.
    pub(super) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let Ok(channel) = std::str::from_utf8(channel) else { return 0 };
        let mut receivers = 0;
        for client in self.clients.values().filter(|client| client.channels.contains(channel)) {
            receivers += 1;
            if !self.mute && !self.faults.as_mut().is_some_and(Faults::loses_message) {
                self.outbox.0.push((
                    client.signals.clone(),
                    Signal::Message { channel: channel.to_owned(), zero: text == b"0" },
                ));
            }
        }
        receivers
    }

    /// Ends the subscriptions of one client, as a lost connection does, and tells it.
    pub(super) fn cut(&mut self, client: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.channels.clear();
            self.outbox.0.push((client.signals.clone(), Signal::Gap));
        }
    }

    /// The same for all clients.
    pub(super) fn cut_all(&mut self) {
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            self.cut(client);
        }
    }

    /// Ends all subscriptions without a word: nobody can be told yet.
    pub(super) fn forget_subscriptions(&mut self) {
        for client in self.clients.values_mut() {
            client.channels.clear();
        }
    }

    /// What is to be sent; the caller sends it when it holds no lock.
    pub(super) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }
}
