//! What a waiter listens to: a bell in the place of a channel.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Listener(pub(crate) Arc<Notify>);

impl Listener {
    pub(crate) async fn wakes(&self) {
        self.0.notified().await;
    }
}

/// Nobody waits for a time here: what is not told is lost, and found as a deadlock.
pub(crate) async fn sleep_until(_: Option<Instant>) {
    std::future::pending::<()>().await;
}
