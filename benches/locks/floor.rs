//! The floor: lockson's own scripts, raw on fred, with lockson's connection settings and nothing else.

use std::time::Duration;

use fred::prelude::*;
use fred::types::config::Server as Address;
use fred::types::{Key, RespVersion, Value};

use support::files::sent;
use support::Server;

const FAR: &str = "9999999999999";
/// A lease as the watchdog's.
pub const LEASE: &str = "30000";

/// A connection as lockson makes them.
pub async fn client(server: &Server) -> Client {
    let config = Config {
        server: ServerConfig::Centralized { server: Address::new("127.0.0.1", server.port()) },
        version: RespVersion::RESP3,
        ..Config::default()
    };
    let client = fred::types::Builder::from_config(config)
        .with_connection_config(|connection| {
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.unresponsive.max_timeout = Some(Duration::from_secs(2));
            connection.unresponsive.interval = Duration::from_millis(200);
            connection.tcp.nodelay = Some(true);
        })
        .with_performance_config(|performance| {
            performance.default_command_timeout = Duration::from_secs(1);
            performance.broadcast_channel_capacity = 1 << 14;
        })
        .set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2))
        .build()
        .expect("a client");
    client.init().await.expect("a connection");
    client
}

/// A script with its keys and arguments, ready to be sent as often as wanted.
#[derive(Clone)]
pub struct Ready {
    sha: String,
    keys: Vec<Key>,
    args: Vec<Value>,
}

impl Ready {
    /// A script of lua/, such as `read/acquire`, as lockson sends it.
    pub fn new(server: &Server, script: &str, keys: &[&str], args: &[&str]) -> Self {
        let all = ["1", FAR].iter().chain(args);
        Self {
            sha: server.control(&["SCRIPT", "LOAD", &sent(script)]).text(),
            keys: keys.iter().map(|key| Key::from(*key)).collect(),
            args: all.map(|arg| Value::from(*arg)).collect(),
        }
    }

    /// Takes a free lock.
    pub fn acquire(server: &Server, lock: &str, owner: &str) -> Self {
        Self::new(server, "reentrant/acquire", &[lock], &[owner, LEASE, "0"])
    }

    /// The same of another lock, for another owner, without loading the script again.
    pub fn of(&self, lock: &str, owner: &str) -> Self {
        let mut again = Self { keys: vec![Key::from(lock)], ..self.by(owner) };
        // An acquire ends with its count.
        if again.args.len() > 5 {
            again.args[6] = Value::from(channel(lock));
        }
        again
    }

    /// The same for another owner; or, of permits, which have none, as another call.
    pub fn by(&self, who: &str) -> Self {
        let mut again = self.clone();
        again.args[2] = Value::from(who);
        again
    }

    /// The same for redis-rs.
    pub fn command(&self) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key.as_bytes());
        }
        for arg in &self.args {
            command.arg(arg.as_bytes().expect("a text"));
        }
        command
    }

    /// Gives it back.
    pub fn release(server: &Server, lock: &str, owner: &str) -> Self {
        Self::release_by(server, lock, owner, "PUBLISH")
    }

    /// The same where messages are sent by this command.
    pub fn release_by(server: &Server, lock: &str, owner: &str, publish: &str) -> Self {
        Self::new(server, "reentrant/release", &[lock], &[owner, LEASE, "1", publish, &channel(lock)])
    }

    /// From one owner to another.
    pub fn hand_over(server: &Server, lock: &str, from: &str, to: &str) -> Self {
        Self::new(server, "reentrant/hand_over", &[lock], &[from, to, LEASE])
    }

    /// Sends it once; it must succeed.
    pub async fn send(&self, client: &Client) {
        let sent: FredResult<Value> = client.evalsha(self.sha.as_str(), self.keys.clone(), self.args.clone()).await;
        match sent {
            Ok(Value::Array(items)) if items.first() == Some(&Value::Integer(1)) => {}
            Ok(Value::String(text)) if text.starts_with("1 ") => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The channel of a lock.
pub fn channel(lock: &str) -> String {
    format!("redisson_lock__channel:{{{lock}}}")
}

/// A field as long as lockson's.
pub fn owner(task: u32) -> String {
    format!("00000000-0000-4000-8000-000000000000:{task}")
}
