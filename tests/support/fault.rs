//! What the proxy does to single requests, and how a test learns of it.

use super::hub::Hub;
use super::patient;
use super::reply::Reply;
use super::request::Filter;
use super::Raw;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// What befalls a request.
#[derive(Clone)]
pub(super) enum Harm {
    /// Dropped before the server sees it.
    Before,
    /// Executed, and its answer thrown away.
    After,
    /// Dropped, and all that comes after it on its connection, which stays open.
    Deafen,
    /// Kept for later.
    Hold(Held),
}

/// A harm waiting for its requests.
pub(super) struct Rule {
    /// How many requests it still is for.
    pub left: usize,
    pub filter: Filter,
    pub harm: Harm,
    /// Where it says that it is done to one.
    pub hits: watch::Sender<usize>,
}

/// A fault that was asked for; it stays in force when this is dropped.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) asked: usize,
    pub(super) hits: watch::Receiver<usize>,
}

impl Fault {
    /// How many connections it has cut.
    pub fn hits(&self) -> usize {
        *self.hits.borrow()
    }

    /// Awaits that it has cut `count` connections.
    pub async fn wait_for(&self, count: usize) {
        let mut hits = self.hits.clone();
        let enough = hits.wait_for(|hits| *hits >= count);
        patient(&format!("{count} cuts by a fault"), enough).await.expect("the fault was cleared");
    }

    /// Awaits that it has hit all the requests it was asked for.
    pub async fn done(&self) {
        self.wait_for(self.asked).await;
    }
}

/// A kept request.
pub(super) struct Kept {
    /// The commands that set up its connection.
    pub prelude: Vec<Vec<u8>>,
    pub bytes: Vec<u8>,
}

/// Requests that the proxy kept back.
#[derive(Clone)]
pub struct Held {
    pub(super) hub: Arc<Hub>,
    pub(super) kept: Arc<Mutex<Vec<Kept>>>,
    pub(super) count: watch::Sender<usize>,
}

impl Held {
    pub(super) fn keep(&self, kept: Kept) {
        self.kept.lock().unwrap().push(kept);
        self.count.send_modify(|count| *count += 1);
    }

    /// How many requests were kept in all, released or not.
    pub fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Awaits that `count` requests were kept in all.
    pub async fn wait_for(&self, count: usize) {
        let mut counts = self.count.subscribe();
        let enough = counts.wait_for(|found| *found >= count);
        patient(&format!("{count} requests held back"), enough).await.unwrap();
    }

    /// Sends what it kept in order, each over a new connection; the answers. A lost connection is a [`Reply::Error`].
    pub async fn release(&self) -> Vec<Reply> {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        let mut replies = Vec::new();
        for kept in kept {
            let delivery = deliver(self.hub.target(), &kept);
            replies.push(delivery.await.unwrap_or_else(Reply::Error));
        }
        replies
    }
}

async fn deliver(port: u16, kept: &Kept) -> Result<Reply, String> {
    let mut raw = Raw::try_connect(port).await?;
    for command in &kept.prelude {
        raw.send_bytes(command).await?;
        raw.receive().await?;
    }
    raw.send_bytes(&kept.bytes).await?;
    patient("the answer to a late request", raw.receive()).await
}
