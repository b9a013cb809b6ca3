//! What happens to a client that somebody should know of: a line of `tracing`, and a stream for alarms of one's own.

use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::stream::{once, unfold, BoxStream, StreamExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{channel, Sender};

use crate::base::janitor::say;
use crate::error::LostReason;
use crate::metrics::happened;

/// A listener that is behind by more than so many misses the oldest.
const KEPT: usize = 256;

/// What happened to a client, of [`Locks::events`](crate::Locks::events). But for `Closed` and `Missed` each is a line
/// of `tracing` too; what to do about it stands in `docs/OPERATIONS.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A hold of this client, or permits with a lease, ended without being given back: somebody else may have the lock.
    /// Said once a hold, before its lease is over on the server; not of one that was ended by force.
    Lost {
        /// Of the lock or semaphore.
        name: String,
        /// Who held it, as [`Holder::field`](crate::Holder); of permits their ids, 32 digits each, one behind the
        /// other.
        owner: String,
        /// Why it is over.
        why: LostReason,
    },
    /// One server's vote for a red lock was lost; most servers still vote for its owner.
    VoteLost {
        /// Of the lock that votes.
        name: String,
        /// Who has the red lock.
        owner: String,
        /// Why the vote is over.
        why: LostReason,
    },
    /// This client ended somebody's hold: `force_unlock`, or [`Admin::force`](crate::Admin::force).
    Forced {
        /// Of the lock.
        name: String,
        /// Whose holds ended, where the server knows that: the first of them.
        owners: Vec<String>,
        /// How many holds.
        holds: usize,
    },
    /// Messages may be missing from here on: waiters look for themselves, at the pace of the wait cap.
    GapBegan {
        /// So many channels are subscribed to again.
        channels: usize,
        /// What the server said, if it refused a subscription.
        why: Option<String>,
    },
    /// Messages come again.
    GapEnded {
        /// So many channels are subscribed to.
        channels: usize,
        /// How long none could be relied on.
        after: Duration,
    },
    /// A server was replaced, or has lost what it knew: all that it granted is uncertain until it is confirmed or lost.
    Switched {
        /// So many hash slots are concerned; all 16,384 where there is no cluster.
        slots: usize,
    },
    /// The client is closed, by [`Locks::shutdown`](crate::Locks::shutdown). Nothing follows.
    Closed {
        /// Names of locks and semaphores of which something ends with its lease only.
        left: Vec<String>,
    },
    /// The runtime of the client has ended, and the client with it: what it held ends with its leases. Nothing follows.
    RuntimeEnded,
    /// The stream was not read for so long that so many events were left out of it.
    Missed(u64),
}

impl Event {
    fn is_last(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::RuntimeEnded)
    }

    fn count(&self) {
        let (event, why) = match self {
            Self::Lost { why, .. } => ("lost", why.label()),
            Self::VoteLost { why, .. } => ("vote_lost", why.label()),
            Self::Forced { .. } => ("forced", ""),
            Self::GapBegan { .. } => ("gap_began", ""),
            Self::GapEnded { .. } => ("gap_ended", ""),
            Self::Switched { .. } => ("switched", ""),
            Self::Closed { .. } => ("closed", ""),
            Self::RuntimeEnded => ("runtime_ended", ""),
            Self::Missed(_) => ("missed", ""),
        };
        happened(event, why);
    }

    fn trace(&self) {
        match self {
            Self::Lost { name, owner, why } => {
                tracing::warn!(target: "lockson", name, owner, %why, "lost: somebody else may have this lock now");
            }
            Self::VoteLost { name, owner, why } => {
                let text = "a vote was lost: most servers still vote for this owner";
                tracing::warn!(target: "lockson", name, owner, %why, "{text}");
            }
            Self::Forced { name, owners, holds } => {
                let owner = (!owners.is_empty()).then(|| owners.join(", "));
                tracing::warn!(target: "lockson", name, owner, holds, "a hold was ended by force");
            }
            Self::GapBegan { channels, why } => {
                tracing::warn!(target: "lockson", channels, why, "gap: messages may be missing, subscribing again");
            }
            Self::GapEnded { channels, after } => {
                tracing::info!(target: "lockson", channels, ?after, "gap ended: messages come again");
            }
            Self::RuntimeEnded => {
                tracing::error!(target: "lockson", "the runtime of this client has ended: it is closed");
            }
            // Who finds the switch says which server it is; the others are answers to the program.
            Self::Switched { .. } | Self::Closed { .. } | Self::Missed(_) => {}
        }
    }
}

/// Tells what happens to those who listen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Herald {
    /// Made by the first who listens.
    listeners: Arc<OnceLock<Sender<Event>>>,
    /// The client's end.
    last: Arc<OnceLock<Event>>,
}

impl Herald {
    pub(crate) fn tell(&self, event: Event) {
        say(|| event.trace());
        say(|| event.count());
        if event.is_last() {
            let _ = self.last.set(event.clone());
        }
        if let Some(listeners) = self.listeners.get() {
            // It fails where nobody listens any more.
            let _ = listeners.send(event);
        }
    }

    /// All that happens from here on. It does not keep the client open, and ends with it.
    pub(crate) fn listen(&self) -> BoxStream<'static, Event> {
        let received = self.listeners.get_or_init(|| channel(KEPT).0).subscribe();
        if let Some(last) = self.last.get() {
            return once(ready(last.clone())).boxed();
        }
        let next = |received: Option<tokio::sync::broadcast::Receiver<Event>>| async move {
            let mut received = received?;
            let event = match received.recv().await {
                Ok(event) => event,
                Err(RecvError::Lagged(missed)) => Event::Missed(missed),
                Err(RecvError::Closed) => return None,
            };
            let rest = (!event.is_last()).then_some(received);
            Some((event, rest))
        };
        unfold(Some(received), next).boxed()
    }
}
