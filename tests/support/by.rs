//! By which library a client of one real server connects.

use fred::prelude::{ClientLike, ReconnectPolicy};
use fred::types::Builder as FredBuilder;
use lockson::{Builder, Locks};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::PushInfo;
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// lockson's own connections.
    Url,
    /// A client of fred's that the program has.
    Fred,
    /// A connection of redis-rs that the program has.
    RedisRs,
    /// Lean ones of lockson's own.
    Lean,
}

impl By {
    pub async fn connect(self, builder: Builder, url: &str) -> Locks {
        match self {
            By::Url => builder.connect(url).await,
            By::Lean => builder.lean_connections(true).connect(url).await,
            By::Fred => builder.over_fred(&fred_client(url).await).await,
            By::RedisRs => {
                let (connection, pushes) = redis_connection(url).await;
                builder.over_redis_rs(connection, Some(pushes)).await
            }
        }
        .unwrap()
    }
}

/// A program's client, as a lock needs it.
pub async fn fred_client(url: &str) -> fred::clients::Client {
    let client = lending(url).build().unwrap();
    client.init().await.unwrap();
    client
}

/// What it is made by.
pub fn lending(url: &str) -> FredBuilder {
    let mut builder = FredBuilder::from_config(fred::types::config::Config::from_url(url).unwrap());
    builder
        .with_connection_config(|connection| connection.max_command_attempts = 1)
        .set_policy(ReconnectPolicy::new_exponential(0, 20, 500, 2));
    builder
}

/// A program's connection, and what is pushed to it.
async fn redis_connection(url: &str) -> (ConnectionManager, UnboundedReceiver<PushInfo>) {
    let (sender, pushes) = unbounded_channel();
    let client = redis::Client::open(format!("{url}?protocol=resp3")).unwrap();
    let config = ConnectionManagerConfig::new().set_push_sender(sender).set_max_delay(Duration::from_millis(500));
    (ConnectionManager::new_with_config(client, config).await.unwrap(), pushes)
}
