//! A network that fails when the test wants it to.

use super::fault::{Fault, Harm, Held, Rule};
use super::hub::{Hub, Modes};
use super::link::Link;
use super::patient;
use super::request::{Filter, Request};
use lockson::Locks;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Stands between clients and a server, and knows their commands.
///
/// It runs on a thread of its own, so a test may block its runtime. A method is in force when it returns: it holds for
/// every request and reply the proxy takes up from then on.
///
/// A request that meets a fault is the last its connection carries: what the client pipelined before it is still
/// answered, what came after it is dropped, and then the connection is cut.
pub struct Proxy {
    port: u16,
    hub: Arc<Hub>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub fn start(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hub = Arc::new(Hub::new(target));
        let (stop, stopped) = oneshot::channel();
        let shared = hub.clone();
        let thread =
            std::thread::Builder::new().name("proxy".into()).spawn(move || run(listener, shared, stopped)).unwrap();
        Proxy { port, hub, stop: Some(stop), thread: Some(thread) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A client that goes by it, with nothing but defaults.
    pub async fn locks(&self) -> Locks {
        Locks::connect(&self.url()).await.unwrap()
    }

    /// Cuts all connections now and says how many there were.
    pub fn cut_all(&self) -> usize {
        let links = self.hub.links();
        links.iter().for_each(|link| link.cut());
        links.len()
    }

    /// Closes new connections at once and cuts the old ones.
    pub fn refuse(&self, on: bool) {
        self.hub.modes.send_modify(|modes| modes.refuse = on);
        if on {
            self.cut_all();
        }
    }

    /// The next `count` matching requests never reach the server.
    pub fn cut_before(&self, count: usize, filter: Filter) -> Fault {
        self.add(count, filter, Harm::Before)
    }

    /// The connections of the next `count` matching requests go deaf: these and all after them get lost ("cut").
    pub fn deafen(&self, count: usize, filter: Filter) -> Fault {
        self.add(count, filter, Harm::Deafen)
    }

    /// The next `count` matching requests are executed, their answers lost; done when those have come.
    pub fn cut_after(&self, count: usize, filter: Filter) -> Fault {
        self.add(count, filter, Harm::After)
    }

    /// The next `count` matching requests are kept until the test has them delivered late.
    pub fn hold_back(&self, count: usize, filter: Filter) -> Held {
        let held = Held { hub: self.hub.clone(), kept: Arc::default(), count: watch::channel(0).0 };
        self.add(count, filter, Harm::Hold(held.clone()));
        held
    }

    fn add(&self, asked: usize, filter: Filter, harm: Harm) -> Fault {
        let (sender, hits) = watch::channel(0);
        self.hub.state.lock().unwrap().rules.push(Rule { left: asked, filter, harm, hits: sender });
        Fault { asked, hits }
    }

    /// Loses all requests on open and new connections. Those that lost something are cut at the end of it.
    pub fn black_hole_requests(&self, on: bool) {
        self.black_hole(|modes| modes.requests.black = on);
    }

    /// The same for answers and messages.
    pub fn black_hole_replies(&self, on: bool) {
        self.black_hole(|modes| modes.replies.black = on);
    }

    fn black_hole(&self, change: impl FnOnce(&mut Modes)) {
        self.hub.modes.send_modify(change);
        let modes = self.hub.modes.borrow().clone();
        if !modes.requests.black && !modes.replies.black {
            self.hub.links().iter().for_each(|link| link.cut_if_lossy());
        }
    }

    /// Makes requests wait, without loss, until this is switched off.
    pub fn stall_requests(&self, on: bool) {
        self.hub.modes.send_modify(|modes| modes.requests.stall = on);
    }

    /// The same for answers and messages.
    pub fn stall_replies(&self, on: bool) {
        self.hub.modes.send_modify(|modes| modes.replies.stall = on);
    }

    /// Makes both ways take this much longer.
    pub fn delay(&self, delay: Duration) {
        self.hub.modes.send_modify(|modes| modes.requests.delay = delay);
        self.delay_replies(delay);
    }

    /// Makes answers and messages take this much longer.
    pub fn delay_replies(&self, delay: Duration) {
        self.hub.modes.send_modify(|modes| modes.replies.delay = delay);
    }

    /// Loses the messages of channels, and nothing else.
    pub fn swallow_messages(&self, on: bool) {
        self.hub.modes.send_modify(|modes| modes.swallow = on);
    }

    /// Puts `to` for every `from` of the same length in what clients get.
    pub fn replace(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) {
        let (from, to) = (from.as_ref().to_vec(), to.as_ref().to_vec());
        assert_eq!(from.len(), to.len(), "replace: not of one length");
        assert!(!from.is_empty(), "replace: nothing to look for");
        self.hub.modes.send_modify(|modes| modes.replace.push((from, to)));
    }

    /// Ends all modes and forgets faults that are not done yet.
    pub fn heal(&self) {
        self.hub.state.lock().unwrap().rules.clear();
        self.black_hole(|modes| *modes = Modes { target: modes.target, ..Modes::default() });
    }

    /// How many requests a filter is for came from clients so far.
    pub fn requests(&self, filter: Filter) -> usize {
        self.seen(filter).len()
    }

    /// Those requests, in the order they came.
    pub fn seen(&self, filter: Filter) -> Vec<Request> {
        let state = self.hub.state.lock().unwrap();
        state.log.iter().filter(|request| filter.picks(request)).cloned().collect()
    }

    pub fn forget_requests(&self) {
        self.hub.state.lock().unwrap().log.clear();
    }

    /// Awaits that so many requests came that a filter is for.
    pub async fn wait_requests(&self, count: usize, filter: Filter) {
        let what = format!("{count} requests of {filter:?}");
        let mut requests = self.hub.requests.subscribe();
        let enough = requests.wait_for(|_| self.requests(filter.clone()) >= count);
        patient(&what, enough).await.expect("the proxy is there");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.cut_all();
    }
}

fn run(listener: TcpListener, hub: Arc<Hub>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::select! {
            () = accept(listener, hub) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: tokio::net::TcpListener, hub: Arc<Hub>) {
    for id in 1.. {
        let (client, _) = listener.accept().await.unwrap();
        if hub.modes.borrow().refuse {
            continue;
        }
        tokio::spawn(Link::serve(hub.clone(), id, client));
    }
}
