//! What the channels name of the backend: the seam behind which a play has its server.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_itself::sync::watch;

pub(crate) type Slots = Vec<RangeInclusive<u16>>;
pub(crate) type Changes = watch::Receiver<()>;

#[derive(Debug)]
pub(crate) enum Signal {
    Message { channel: String, zero: bool },
    Gap,
    Lost(Vec<String>),
    Missed,
    Whole,
    Over(Slots),
}

pub(crate) struct Node {
    pub(crate) address: String,
}

pub(crate) struct Unknown;

pub(crate) trait Backend: Send + Sync + 'static {
    fn node(&self, key: &str) -> Result<Arc<Node>, Unknown>;

    fn changes(&self) -> Option<Changes>;

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>>;

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()>;
}
