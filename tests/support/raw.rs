//! A plain client, so that tests look at the server without the crate's eyes.

use super::reply::{encode, Reply};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One connection to a server, speaking RESP2.
pub struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    pub async fn connect(port: u16) -> Raw {
        Raw::try_connect(port).await.unwrap()
    }

    /// The same, where a refusal is expected.
    pub async fn try_connect(port: u16) -> Result<Raw, String> {
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port)))
            .await
            .map_err(|error| format!("connect to port {port}: {error}"))?;
        stream.set_nodelay(true).unwrap();
        Ok(Raw { stream, buffer: Vec::new() })
    }

    /// Sends a command and awaits its answer; an error of the server, or of the connection, is the `Err` side.
    pub async fn command(&mut self, args: &[&str]) -> Result<Reply, String> {
        self.send(args).await?;
        self.receive().await?.result()
    }

    /// Sends a command and does not await its answer.
    pub async fn send(&mut self, args: &[&str]) -> Result<(), String> {
        self.send_bytes(&encode(args)).await
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).await.map_err(|error| format!("write: {error}"))
    }

    /// Awaits the next answer or message, whatever it is.
    pub async fn receive(&mut self) -> Result<Reply, String> {
        loop {
            if let Some((reply, len)) = Reply::read(&self.buffer) {
                self.buffer.drain(..len);
                return Ok(reply);
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Err("the connection was closed".into()),
                Ok(_) => {}
                Err(error) => return Err(format!("read: {error}")),
            }
        }
    }

    #[track_caller]
    pub fn must<'a>(&'a mut self, args: &'a [&'a str]) -> impl std::future::Future<Output = Reply> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            match self.command(args).await {
                Ok(reply) => reply,
                Err(error) => panic!("{args:?} at {caller}: {error}"),
            }
        }
    }

    /// The names that match, sorted.
    pub async fn keys(&mut self, pattern: &str) -> Vec<String> {
        let mut keys = self.must(&["KEYS", pattern]).await.texts();
        keys.sort();
        keys
    }

    pub async fn get(&mut self, key: &str) -> Option<String> {
        self.must(&["GET", key]).await.optional()
    }

    pub async fn hget(&mut self, key: &str, field: &str) -> Option<String> {
        self.must(&["HGET", key, field]).await.optional()
    }

    /// All fields and values of a hash, sorted.
    pub async fn hgetall(&mut self, key: &str) -> Vec<(String, String)> {
        let flat = self.must(&["HGETALL", key]).await.texts();
        let mut pairs: Vec<_> = flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        pairs.sort();
        pairs
    }

    /// The time to live in milliseconds; -1 without one, -2 without the key.
    pub async fn pttl(&mut self, key: &str) -> i64 {
        self.must(&["PTTL", key]).await.int()
    }

    pub async fn exists(&mut self, key: &str) -> bool {
        self.must(&["EXISTS", key]).await.int() == 1
    }

    pub async fn subscribers(&mut self, channel: &str) -> i64 {
        self.must(&["PUBSUB", "NUMSUB", channel]).await.list()[1].int()
    }

    /// Turns the connection into a listener of one channel; when this returns, the server has it subscribed.
    pub async fn subscribe(self, channel: &str) -> Listener {
        Listener::start(self, "SUBSCRIBE", &[channel]).await
    }

    /// The same for all channels of a pattern.
    pub async fn psubscribe(self, pattern: &str) -> Listener {
        Listener::start(self, "PSUBSCRIBE", &[pattern]).await
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub channel: String,
    pub text: String,
}

/// Gathers the messages of a channel until it is dropped.
pub struct Listener {
    heard: watch::Receiver<Vec<Message>>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) async fn start(mut raw: Raw, command: &str, channels: &[&str]) -> Listener {
        for channel in channels {
            raw.must(&[command, channel]).await;
        }
        let (sender, heard) = watch::channel(Vec::new());
        let task = tokio::spawn(async move {
            while let Ok(reply) = raw.receive().await {
                let mut texts = reply.texts();
                let (text, channel) = (texts.pop().unwrap(), texts.pop().unwrap());
                sender.send_modify(|heard| heard.push(Message { channel, text }));
            }
        });
        Listener { heard, task }
    }

    pub fn count(&self) -> usize {
        self.heard.borrow().len()
    }

    /// Awaits that `count` messages came in all, and returns them.
    pub async fn wait_for(&self, count: usize) -> Vec<Message> {
        let mut heard = self.heard.clone();
        let waiting = async {
            let enough = heard.wait_for(|heard| heard.len() >= count).await;
            enough.map(|heard| heard.clone())
        };
        super::patient(&format!("{count} messages"), waiting)
            .await
            .unwrap_or_else(|_| panic!("connection lost at {} of {count}", self.count()))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
