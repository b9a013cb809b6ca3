//! Servers inside the process, by the crate `lockson-embedded`: its connections as the seam.

use std::sync::Arc;
use std::time::Duration;

use ::futures::future::{ready, BoxFuture, FutureExt};
use lockson_embedded::{CallError, Connection, Server, Value};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};

use super::call::grants;
use super::node::{Link, Node, NodeHealth, Role, Topology};
use super::{Backend, Call, Fate, Item, Outcome, Signal};
use crate::base::clock::Clock;

/// A new client of this server and what it is told. It ends when it is closed or dropped.
pub(crate) fn connect(
    server: &Server,
    timeout: Duration,
    clock: Clock,
) -> (Arc<dyn Backend>, UnboundedReceiver<Signal>) {
    let (sender, signals) = unbounded_channel();
    let connection = server.connect(timeout, move |told| {
        let (signal, then) = match told {
            lockson_embedded::Signal::Message { channel, text, .. } => {
                (Signal::Message { channel, zero: text == b"0" }, None)
            }
            lockson_embedded::Signal::Cut => (Signal::Gap, Some(Signal::Whole)),
        };
        // A client that does not listen any more misses nothing.
        for signal in [Some(signal), then].into_iter().flatten() {
            let _ = sender.send(signal);
        }
    });
    let connection = Arc::new(connection);
    let node = Node::new("embedded", connection.clone(), clock);
    node.answered(server.now_ms(), clock.now());
    (Arc::new(Client { connection, node }), signals)
}

struct Client {
    connection: Arc<Connection>,
    node: Arc<Node>,
}

impl Link for Connection {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        let mut args = vec![call.nonce.to_string(), call.not_after.to_string()];
        args.extend(call.argv().chain(call.announces("PUBLISH")).map(str::to_owned));
        let keys = call.keys().map(str::to_owned).collect();
        let (script, confirm) = (call.script, call.confirm);
        let wait = confirm.map(|(replicas, ms)| self.wait(replicas, Duration::from_millis(ms.unsigned_abs())));
        let (sha, text) = (script.sha().into(), script.text.into());
        let answer = self.call(lockson_embedded::Call { sha, text, keys, args });
        Box::pin(async move {
            let mut items = outcome(answer.await)?;
            if let Some(wait) = wait {
                let counts = if grants(&items) { wait.await.map_err(fate)? } else { [0, 0] };
                items.extend(counts.map(|count| Item::Int(count.into())));
            }
            Ok(items)
        })
    }

    fn reset(&self) {
        self.reset();
    }
}

impl Backend for Client {
    fn node(&self, _key: &str) -> Result<Arc<Node>, Fate> {
        Ok(self.node.clone())
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![self.node.clone()]
    }

    fn topology(&self) -> Topology {
        Topology::Embedded
    }

    fn seen(&self) -> Vec<NodeHealth> {
        vec![NodeHealth { address: self.node.address.clone(), role: Role::Primary, away: None }]
    }

    fn replicas(&self, _: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        ready(Ok(self.connection.replicas())).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let subscribed = self.connection.subscribe(channels);
        Box::pin(async move { subscribed.await.map_err(|error| error.to_string()) })
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        Box::pin(self.connection.unsubscribe(channels))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.connection.close())
    }
}

/// What a script's end is at the seam.
fn outcome(result: Result<Value, CallError>) -> Outcome {
    let items = match result {
        Ok(Value::List(items)) => items.into_iter().map(item).collect(),
        Ok(Value::Bulk(text)) => Some(Item::of_text(&lossy(&text))),
        Ok(value) => item(value).map(|item| vec![item]),
        Err(error) => return Err(fate(error)),
    };
    items.ok_or_else(|| Fate::refused("the script's reply is not a flat array"))
}

fn fate(error: CallError) -> Fate {
    match error {
        CallError::Reply(text) => Fate::of_reply(&text),
        CallError::Closed => Fate::NotSent(error.to_string()),
        CallError::Unanswered(_) => Fate::Doubtful(error.to_string()),
    }
}

fn item(value: Value) -> Option<Item> {
    match value {
        Value::Nil => Some(Item::Nil),
        Value::Int(value) => Some(Item::Int(value)),
        Value::Bulk(text) | Value::Status(text) => Some(Item::Text(lossy(&text))),
        Value::Error(_) | Value::List(_) => None,
    }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::Refused;

    #[test]
    fn errors_that_escape_a_script_are_refusals() {
        let run = |text: &'static str| {
            let value = Server::new().eval(text, &["n"], &[]);
            outcome(value.map_err(CallError::Reply))
        };
        let wrong = "redis.call('SET', KEYS[1], '1') return redis.call('HGET', KEYS[1], 'f')";
        let Err(Fate::Refused(Refused::Other(wrong))) = run(wrong) else { panic!("not refused") };
        assert!(wrong.starts_with("WRONGTYPE ") && wrong.ends_with(", on @user_script:1."), "{wrong}");
        let half = "redis.call('SET', KEYS[1], 'x') return redis.call('INCR', KEYS[1])";
        assert!(matches!(run(half), Err(Fate::Doubtful(_))));
        assert!(matches!(run("return ("), Err(Fate::Refused(_))));
        let oom = "return redis.error_reply('OOM no room')";
        assert_eq!(run(oom), Err(Fate::Refused(Refused::OutOfMemory)));
        let nested = Fate::refused("the script's reply is not a flat array");
        assert_eq!(run("return {1, {2}}"), Err(nested.clone()));
        assert_eq!(run("return {1, redis.pcall('NONE')}"), Err(nested));
        let items = vec![Item::Text("PONG".to_owned()), Item::Nil, Item::Text("x".to_owned()), Item::Int(2)];
        assert_eq!(run("return {redis.call('PING'), false, 'x', 2.9}"), Ok(items));
        assert_eq!(run("return 1"), Ok(vec![Item::Int(1)]));
    }

    #[test]
    fn what_is_not_known_is_told_from_what_never_ran() {
        assert!(matches!(outcome(Err(CallError::Closed)), Err(Fate::NotSent(_))));
        assert!(matches!(outcome(Err(CallError::Unanswered("cut"))), Err(Fate::Doubtful(_))));
    }

    #[tokio::test]
    async fn a_cut_is_a_gap_and_its_end() {
        let server = Server::new();
        let (client, mut signals) = connect(&server, Duration::from_secs(1), Clock::System);
        assert_eq!(client.subscribe(vec!["channel".to_owned()]).await, Ok(()));
        for text in ["0", "1"] {
            assert_eq!(server.command(&["PUBLISH", "channel", text]), Ok(Value::Int(1)));
        }
        client.node("").unwrap().link.reset();
        client.close().await;
        assert_eq!(client.subscribe(Vec::new()).await, Err("the client is closed".to_owned()));
        let message = |zero| Signal::Message { channel: "channel".to_owned(), zero };
        for signal in [message(true), message(false), Signal::Gap, Signal::Whole] {
            assert_eq!(signals.recv().await, Some(signal));
        }
        assert_eq!(signals.recv().await, None);
    }
}
