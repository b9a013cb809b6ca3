//! A server for the unit tests of this room: one node, which answers what a test tells it to, and writes down what it
//! is asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{ready, BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::backend::node::{Link, Node, NodeHealth, Topology};
use crate::backend::{Backend, Call, Fate, Item, Outcome};
use crate::base::clock::Clock;
use crate::wire::script::Wire;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// What a copy was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) script: &'static str,
    pub(crate) names: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) asking: bool,
    /// How many replicas have to have it.
    pub(crate) wanted: Option<u32>,
}

/// What the next copies come to: what a script answers behind its number and its time, or a fate.
type Answers = Mutex<VecDeque<Result<(i64, Vec<Item>), Fate>>>;

pub(crate) struct Stub {
    pub(crate) node: Arc<Node>,
    way: Arc<Way>,
    replicas: Mutex<VecDeque<Result<u32, Fate>>>,
}

struct Way {
    answers: Answers,
    asked: Mutex<Vec<Asked>>,
    /// How many more may be answered.
    open: Arc<Semaphore>,
}

impl Link for Way {
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome> {
        let (script, nonce) = (call.script.name, call.nonce);
        let [names, args] = [call.names, call.args].map(|words| words.iter().map(|word| word.to_string()).collect());
        let wanted = call.confirm.map(|(wanted, _)| wanted);
        self.asked.lock().push(Asked { script, names, args, asking: call.asking, wanted });
        // A group answers a line for each of its calls; all is done where nothing else was told.
        let lines = vec!["1  "; call.args.len()].join("\n");
        let lines = (script == "group").then_some(Item::Text(lines));
        let told = self.answers.lock().pop_front().unwrap_or_else(|| Ok((1, lines.into_iter().collect())));
        let open = self.open.clone();
        async move {
            open.acquire().await.unwrap().forget();
            let (status, rest) = told?;
            Ok([Item::Int(status), Item::Text(nonce.to_string()), Item::Int(1)].into_iter().chain(rest).collect())
        }
        .boxed()
    }

    fn reset(&self) {}
}

impl Stub {
    pub(crate) fn new() -> Arc<Self> {
        let open = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let way = Arc::new(Way { answers: Mutex::default(), asked: Mutex::default(), open });
        let node = Node::new("stub", way.clone(), Clock::System);
        Arc::new(Self { node, way, replicas: Mutex::default() })
    }

    /// A client's way to it, whose tasks are tokio's.
    pub(crate) fn wire(self: &Arc<Self>) -> Wire {
        let spawn = |work| drop(tokio::spawn(work));
        Wire::new(self.clone(), Clock::System, TIMEOUT, None, Arc::new(spawn))
    }

    /// The next copies come to this.
    pub(crate) fn tell(&self, answers: impl IntoIterator<Item = Result<(i64, Vec<Item>), Fate>>) {
        self.way.answers.lock().extend(answers);
    }

    /// So many replicas are listed, each time it is asked.
    pub(crate) fn list(&self, replicas: impl IntoIterator<Item = Result<u32, Fate>>) {
        self.replicas.lock().extend(replicas);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.way.asked.lock().clone()
    }

    /// From here on nothing is answered ..
    pub(crate) fn close(&self) {
        self.way.open.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// .. until so many may be.
    pub(crate) fn open(&self, count: usize) {
        self.way.open.add_permits(count);
    }
}

impl Backend for Stub {
    fn node(&self, _: &str) -> Result<Arc<Node>, Fate> {
        Ok(self.node.clone())
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![self.node.clone()]
    }

    fn topology(&self) -> Topology {
        Topology::Cluster
    }

    fn seen(&self) -> Vec<NodeHealth> {
        Vec::new()
    }

    fn slot(&self, key: &str) -> u16 {
        u16::try_from(key.len()).unwrap()
    }

    fn asked(&self, _: &str, _: &Node) -> Result<Arc<Node>, Fate> {
        Ok(self.node.clone())
    }

    fn replicas(&self, _: &Node) -> BoxFuture<'static, Result<u32, Fate>> {
        ready(self.replicas.lock().pop_front().unwrap()).boxed()
    }

    fn subscribe(&self, _: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        ready(Ok(())).boxed()
    }

    fn unsubscribe(&self, _: Vec<String>) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}
