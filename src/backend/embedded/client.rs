//! One client of the server: the seam over it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::faults::{Faults, Trip};
use super::server::{Sent, Shared};
use crate::backend::{Backend, Call, Fate, Outcome, Signal};

const STOPPED: &str = "the embedded server is stopped";

/// A connection to the server, which ends with this.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    id: u64,
    command_timeout: Duration,
}

impl Client {
    pub(super) fn connect(shared: Arc<Shared>, command_timeout: Duration) -> (Self, UnboundedReceiver<Signal>) {
        let (sender, signals) = tokio::sync::mpsc::unbounded_channel();
        let id = shared.with(|server| server.hub(|hub| hub.connect(sender)));
        (Self { shared, id, command_timeout }, signals)
    }
}

/// The way to the server. Also when its future is dropped on the way, the call arrives.
struct Hop<'a>(&'a Shared);

impl Drop for Hop<'_> {
    fn drop(&mut self) {
        self.0.with(|server| server.drain());
    }
}

/// A call with faults on its way: it goes on when nobody waits for its answer any more.
fn travel(shared: Arc<Shared>, id: u64, call: Sent, trip: Trip) -> oneshot::Receiver<Outcome> {
    let (reply, answer) = oneshot::channel();
    tokio::spawn(async move {
        let [there, back] = trip.delays;
        tokio::time::sleep(there).await;
        if !trip.arrives {
            return;
        }
        let answer = shared.with(|server| server.arrive(id, call));
        shared.with(|server| server.drain());
        tokio::time::sleep(back).await;
        if let Some(outcome) = answer.await.ok().filter(|_| trip.is_answered) {
            // Its client waits no longer.
            let _ = reply.send(outcome);
        }
    });
    answer
}

impl Backend for Client {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        let (shared, id, timeout) = (Arc::clone(&self.shared), self.id, self.command_timeout);
        let call = Sent::from(call);
        Box::pin(async move {
            let begun = Instant::now();
            if let Some(trip) = shared.with(|server| server.hub(|hub| hub.faults.as_mut().map(Faults::trip))) {
                let answer = travel(shared, id, call, trip);
                if let Ok(Ok(outcome)) = tokio::time::timeout_at(begun + timeout, answer).await {
                    return outcome;
                }
                tokio::time::sleep_until(begun + timeout).await;
                return Err(Fate::Doubtful("there was no answer in time".to_owned()));
            }
            let answer = match shared.with(|server| server.accept(id, call)) {
                Ok(answer) => answer,
                Err(fate) => return Err(fate),
            };
            let hop = Hop(&shared);
            tokio::task::yield_now().await;
            drop(hop);
            if let Ok(outcome) = answer.await {
                return outcome;
            }
            tokio::time::sleep(timeout.saturating_sub(begun.elapsed())).await;
            Err(Fate::Doubtful(STOPPED.to_owned()))
        })
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let (shared, id, timeout) = (Arc::clone(&self.shared), self.id, self.command_timeout);
        Box::pin(async move {
            tokio::task::yield_now().await;
            let subscribed = shared.with(|server| {
                if !server.hub(|hub| hub.is_connected(id)) {
                    return Some(Err("the client is closed".to_owned()));
                }
                if server.is_stopped() {
                    return None;
                }
                server.hub(|hub| hub.subscribe(id, channels));
                Some(Ok(()))
            });
            if let Some(result) = subscribed {
                return result;
            }
            tokio::time::sleep(timeout).await;
            Err(STOPPED.to_owned())
        })
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()> {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Box::pin(async move {
            tokio::task::yield_now().await;
            shared.with(|server| server.hub(|hub| hub.unsubscribe(id, &channels)));
        })
    }

    fn reset(&self) {
        self.shared.with(|server| server.reset(self.id));
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Box::pin(async move { shared.with(|server| server.hub(|hub| hub.disconnect(id))) })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.with(|server| server.hub(|hub| hub.disconnect(self.id)));
    }
}
