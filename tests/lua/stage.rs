//! Where a story is told: an embedded server or a real one, and who listens there.

use std::sync::{Arc, Mutex};

use lockson_embedded::{Connection, Server as Embedded, Signal, Value};
use support::prelude::*;
use support::Reply;

pub enum Stage {
    Embedded { server: Embedded, ear: Connection, heard: Arc<Mutex<Vec<String>>> },
    Real { raw: Raw, port: u16, ears: Vec<Listener> },
}

impl Stage {
    pub async fn embedded() -> Stage {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (server, told) = (Embedded::new(), heard.clone());
        let ear = server.connect(secs(1), move |signal| {
            if let Signal::Message { channel, text, .. } = signal {
                told.lock().unwrap().push(format!("{channel}={}", String::from_utf8_lossy(&text)));
            }
        });
        tokio::time::advance(ms(123)).await;
        Stage::Embedded { server, ear, heard }
    }

    /// Without data.
    pub async fn real(server: &Server) -> Stage {
        let mut raw = server.raw().await;
        raw.must(&["FLUSHALL"]).await;
        Stage::Real { raw, port: server.port(), ears: Vec::new() }
    }

    pub async fn command(&mut self, words: &[&str]) -> Result<Reply, String> {
        match self {
            Stage::Embedded { server, .. } => server.command(words).map(reply),
            Stage::Real { raw, .. } => raw.command(words).await,
        }
    }

    pub async fn eval(&mut self, text: &str, keys: &[&str], args: &[&str]) -> Result<Reply, String> {
        match self {
            Stage::Embedded { server, .. } => server.eval(text, keys, args).map(reply),
            Stage::Real { raw, .. } => {
                let count = keys.len().to_string();
                raw.command(&[&["EVAL", text, &count], keys, args].concat()).await
            }
        }
    }

    pub async fn hear(&mut self, channels: &str) {
        match self {
            Stage::Embedded { ear, .. } => {
                ear.subscribe(channels.split(' ').map(str::to_owned).collect()).await.unwrap();
            }
            Stage::Real { port, ears, .. } => {
                for channel in channels.split(' ') {
                    ears.push(Raw::connect(*port).await.subscribe(channel).await);
                }
            }
        }
    }

    /// What was heard since this was asked last; only the embedded server tells.
    pub fn heard(&mut self) -> String {
        match self {
            Stage::Embedded { heard, .. } => std::mem::take(&mut *heard.lock().unwrap()).join(" "),
            Stage::Real { .. } => String::new(),
        }
    }

    /// Fails unless a script's time is the server's.
    pub fn is_now(&self, time: &str, now: i64) {
        let (secs, micros) = time.split_once(':').unwrap_or(("0", time));
        let [secs, rest] = [secs, micros].map(|number| number.parse::<i64>().unwrap());
        let time = if time.contains(':') { secs * 1000 + rest / 1000 } else { rest };
        match self {
            Stage::Embedded { .. } => assert_eq!(time, now, "the server's time"),
            Stage::Real { .. } => assert!(time - now < 60_000, "the server's time"),
        }
    }

    /// Scripts may not call this command; `None`: they may call any again.
    pub fn deny(&self, command: Option<&str>) {
        let Stage::Embedded { server, .. } = self else { panic!("a real server has users") };
        server.deny(command);
    }

    /// Whether it has no memory left.
    pub fn fill(&self, is_full: bool) {
        let Stage::Embedded { server, .. } = self else { panic!("a real server has a limit") };
        server.set_full(is_full);
    }

    /// How much memory it may use; `0` for any.
    pub async fn limit(&mut self, bytes: &str) {
        let Stage::Real { raw, .. } = self else { panic!("the embedded server has no limit") };
        raw.must(&["CONFIG", "SET", "maxmemory", bytes]).await;
    }
}

fn reply(value: Value) -> Reply {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(value) => Reply::Int(value),
        Value::Bulk(bytes) | Value::Status(bytes) => Reply::Text(text(bytes)),
        Value::Error(bytes) => Reply::Error(text(bytes)),
        Value::List(items) => Reply::List(items.into_iter().map(reply).collect()),
    }
}
