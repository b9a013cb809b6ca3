//! Sharing a connection of redis-rs.

use redis::aio::ConnectionLike;
use redis::PushInfo;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::base::clock::Clock;
use crate::base::fault::ConnectError;
use crate::client::builder::Builder;
use crate::client::factory::Locks;
use crate::client::preflight::begin;
use crate::error::in_runtime;
use crate::redis_rs::connect;

impl Builder {
    /// Shares a connection of redis-rs that the program has: a `ConnectionManager`, which is made anew when it breaks,
    /// or a `MultiplexedConnection`, which is not: then all calls fail from there on, and holds are lost with their
    /// leases. It stays as it is when this ends. A blocking command on it (BLPOP) holds up all locks.
    ///
    /// `pushes` is the other end of its `push_sender`, for connections that speak RESP3: by it who waits is told of a
    /// release. A program that wants the messages of its own subscriptions too gives `set_push_sender` a closure that
    /// sends to both. With `None`, as in RESP2, nobody is told anything: who waits looks once a
    /// [`wait_cap`](Builder::wait_cap), a second, so that is what a wake-up may cost; nothing else is different.
    ///
    /// For one server. For sentinels, a cluster and [`confirm`](Builder::confirm) there is `Builder::connect` (feature
    /// `redis`).
    ///
    /// ```no_run
    /// use redis::aio::{ConnectionManager, ConnectionManagerConfig};
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
    /// let client = redis::Client::open("redis://127.0.0.1:6379?protocol=resp3")?;
    /// let config = ConnectionManagerConfig::new().set_push_sender(sender);
    /// let connection = ConnectionManager::new_with_config(client, config).await?;
    /// let locks = lockson::Locks::builder().over_redis_rs(connection.clone(), Some(pushes)).await?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ConnectError`] says what to do. Nothing was written. [`ConnectError::Setting`]: `pushes` of a connection in
    /// RESP2, where a subscription would keep all else from it; `confirm`, which needs connections that wait for
    /// replicas.
    ///
    /// # Cancel safety
    /// Dropped half-way, nothing is left but the program's connection.
    pub async fn over_redis_rs<C>(
        self,
        connection: C,
        pushes: Option<UnboundedReceiver<PushInfo>>,
    ) -> Result<Locks, ConnectError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.check()?;
        in_runtime().map_err(|_| ConnectError::NoRuntime)?;
        if self.settings.confirm.is_some() {
            let problem = "needs connections that wait for replicas, and this one is shared: use `connect`";
            return Err(ConnectError::Setting { setting: "confirm", problem: problem.to_owned() });
        }
        let (backend, signals) = connect(connection, pushes, self.settings.command_timeout).await?;
        begin(self.settings, backend, signals, Clock::System.into()).await
    }
}
