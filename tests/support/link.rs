//! One connection through the proxy.

use super::fault::{Harm, Kept};
use super::hub::{Hub, Way};
use super::reply::Reply;
use super::request::Request;
use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

type Chunk = (Instant, Vec<u8>);

/// What is to happen when the server's next answer comes.
enum Pending {
    /// The client gets it.
    Answer,
    /// The client gets it; it confirms so many subscriptions.
    Confirm(usize),
    /// It is thrown away, and the connection cut.
    Lose(watch::Sender<usize>),
    /// No answer is due: the connection is cut as soon as all before is done.
    Cut(watch::Sender<usize>),
}

/// What a frame from the server is.
#[derive(PartialEq)]
enum Kind {
    /// The answer to a request.
    Answer,
    /// It confirms that a subscription began or ended.
    Confirmation,
    /// It came by a channel.
    Message,
    /// Another push.
    Other,
}

/// What the two ways of a connection share.
#[derive(Default)]
struct Talk {
    pending: VecDeque<Pending>,
    prelude: Vec<Vec<u8>>,
    resp3: bool,
    subscribed: bool,
    closed: bool,
    /// Bytes of it got lost, so it can never be whole again.
    lossy: bool,
}

/// One connection of a client and the one to the server that goes with it.
pub(super) struct Link {
    id: u64,
    hub: Arc<Hub>,
    client: std::net::TcpStream,
    server: std::net::TcpStream,
    talk: Mutex<Talk>,
}

impl Link {
    /// Serves a client until either side ends.
    pub async fn serve(hub: Arc<Hub>, id: u64, client: TcpStream) {
        let target = hub.target();
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
            return hub.until_clear(Way::Requests).await;
        };
        let (client, client_twin) = twin(client);
        let (server, server_twin) = twin(server);
        let link =
            Arc::new(Link { id, hub: hub.clone(), client: client_twin, server: server_twin, talk: Mutex::default() });
        let _closing = Closing(link.clone());
        hub.state.lock().unwrap().links.insert(id, link.clone());
        if hub.modes.borrow().refuse {
            link.cut();
        }
        let (client_reads, client_writes) = client.into_split();
        let (server_reads, server_writes) = server.into_split();
        tokio::select! {
            () = link.carry_requests(reader(client_reads), server_writes) => {}
            () = link.carry_replies(reader(server_reads), client_writes) => {}
        }
    }

    pub fn cut(&self) {
        if std::mem::replace(&mut self.talk.lock().unwrap().closed, true) {
            return;
        }
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
        self.hub.state.lock().unwrap().links.remove(&self.id);
    }

    /// Cuts it if bytes of it got lost.
    pub fn cut_if_lossy(&self) {
        if self.talk.lock().unwrap().lossy {
            self.cut();
        }
    }

    /// The next bytes of a way, when their delay is over and nothing stalls.
    async fn next(&self, chunks: &mut mpsc::UnboundedReceiver<Chunk>, way: Way) -> Option<Vec<u8>> {
        let (came, bytes) = chunks.recv().await?;
        let delay = self.hub.modes.borrow().way(way).delay;
        if !delay.is_zero() {
            tokio::time::sleep_until(came + delay).await;
        }
        self.hub.until(|modes| !modes.way(way).stall).await;
        Some(bytes)
    }

    async fn carry_requests(&self, mut chunks: mpsc::UnboundedReceiver<Chunk>, mut server: OwnedWriteHalf) {
        let mut buffer = Vec::new();
        let mut deaf = false;
        while let Some(bytes) = self.next(&mut chunks, Way::Requests).await {
            buffer.extend(bytes);
            while let Some((request, len)) = Request::read(&buffer) {
                let bytes: Vec<u8> = buffer.drain(..len).collect();
                if deaf {
                    continue;
                }
                let (forward, now_deaf) = self.judge(&request, &bytes);
                deaf = now_deaf;
                if forward && server.write_all(&bytes).await.is_err() {
                    return self.hub.until_clear(Way::Replies).await;
                }
            }
        }
        self.hub.until_clear(Way::Requests).await;
        if self.loses() {
            // The client is gone, but its request is still to be answered.
            std::future::pending().await
        }
    }

    async fn carry_replies(&self, mut chunks: mpsc::UnboundedReceiver<Chunk>, mut client: OwnedWriteHalf) {
        let mut buffer = Vec::new();
        while let Some(bytes) = self.next(&mut chunks, Way::Replies).await {
            buffer.extend(bytes);
            while let Some((reply, len)) = Reply::read(&buffer) {
                let mut frame: Vec<u8> = buffer.drain(..len).collect();
                if self.admit(&frame, &reply) {
                    self.alter(&mut frame);
                    if client.write_all(&frame).await.is_err() && !self.loses() {
                        return self.hub.until_clear(Way::Requests).await;
                    }
                }
                self.settle();
            }
        }
        self.hub.until_clear(Way::Replies).await;
    }

    /// Whether an answer is due that is to be thrown away.
    fn loses(&self) -> bool {
        let talk = self.talk.lock().unwrap();
        let mut pending = talk.pending.iter();
        !talk.closed && pending.any(|pending| matches!(pending, Pending::Lose(_)))
    }

    /// Whether a request goes on to the server, and whether nothing behind it does; notes what its answer means.
    fn judge(&self, request: &Request, bytes: &[u8]) -> (bool, bool) {
        self.hub.note(request);
        let mut talk = self.talk.lock().unwrap();
        if talk.closed {
            return (false, true);
        }
        if self.hub.modes.borrow().requests.black {
            talk.lossy = true;
            return (false, false);
        }
        if let Some((harm, hits)) = self.harm(request) {
            if matches!(harm, Harm::Deafen) {
                talk.lossy = true;
                hit(&hits);
                return (false, true);
            }
            let forward = matches!(harm, Harm::After);
            if let Harm::Hold(held) = harm {
                held.keep(Kept { prelude: talk.prelude.clone(), bytes: bytes.to_vec() });
            }
            talk.pending.push_back(if forward { Pending::Lose(hits) } else { Pending::Cut(hits) });
            drop(talk);
            self.settle();
            return (forward, true);
        }
        if request.is_prelude() {
            talk.resp3 |= request.name() == "HELLO" && request.arg(1) == "3";
            talk.prelude.push(bytes.to_vec());
        }
        talk.subscribed |= request.is_subscribe();
        let pending = match request.is_subscribe() || request.is_unsubscribe() {
            true => Pending::Confirm((request.0.len() - 1).max(1)),
            false => Pending::Answer,
        };
        talk.pending.push_back(pending);
        (true, false)
    }

    /// The first rule for a request; it is used up by one.
    fn harm(&self, request: &Request) -> Option<(Harm, watch::Sender<usize>)> {
        let mut state = self.hub.state.lock().unwrap();
        let mut rules = state.rules.iter_mut();
        let rule = rules.find(|rule| rule.left > 0 && rule.filter.picks(request))?;
        rule.left -= 1;
        let found = (rule.harm.clone(), rule.hits.clone());
        state.rules.retain(|rule| rule.left > 0);
        Some(found)
    }

    /// Cuts the connection when that is what comes next.
    fn settle(&self) {
        let mut talk = self.talk.lock().unwrap();
        if let Some(Pending::Cut(hits)) = talk.pending.front() {
            let hits = hits.clone();
            talk.pending.pop_front();
            drop(talk);
            self.cut();
            hit(&hits);
        }
    }

    /// Decides whether the client gets a frame of the server.
    fn admit(&self, frame: &[u8], reply: &Reply) -> bool {
        let mut talk = self.talk.lock().unwrap();
        if talk.closed {
            return false;
        }
        let kind = talk.kind(frame, reply);
        if matches!(kind, Kind::Answer | Kind::Confirmation) {
            if let Some(hits) = talk.answered(&kind, reply) {
                drop(talk);
                self.cut();
                hit(&hits);
                return false;
            }
        }
        let modes = self.hub.modes.borrow();
        if modes.replies.black {
            talk.lossy = true;
            return false;
        }
        !(modes.swallow && kind == Kind::Message)
    }

    /// Replaces what is to be replaced in a frame.
    fn alter(&self, frame: &mut [u8]) {
        for (from, to) in &self.hub.modes.borrow().replace {
            for at in 0..frame.len().saturating_sub(from.len() - 1) {
                if frame[at..].starts_with(from) {
                    frame[at..at + from.len()].copy_from_slice(to);
                }
            }
        }
    }
}

/// Closes a connection when its task ends, in whatever way.
struct Closing(Arc<Link>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.cut();
    }
}

impl Talk {
    fn kind(&self, frame: &[u8], reply: &Reply) -> Kind {
        let push = frame.starts_with(b">");
        let like_push = frame.starts_with(b"*") && self.subscribed && !self.resp3;
        let Reply::List(items) = reply else { return Kind::Answer };
        let head = match items.first() {
            Some(Reply::Text(head)) if push || like_push => head.as_str(),
            _ => "",
        };
        match head {
            "message" | "pmessage" | "smessage" => Kind::Message,
            _ if head.ends_with("subscribe") => Kind::Confirmation,
            _ if push => Kind::Other,
            _ => Kind::Answer,
        }
    }

    /// Takes an answer off what is due; returns the fault it completes.
    fn answered(&mut self, kind: &Kind, reply: &Reply) -> Option<watch::Sender<usize>> {
        let confirms = *kind == Kind::Confirmation;
        if let (false, Some(Pending::Confirm(_))) = (confirms, self.pending.front()) {
            self.pending.pop_front();
            if matches!(reply, Reply::Error(_)) {
                return None;
            }
        }
        match self.pending.front_mut()? {
            Pending::Confirm(left) if *left > 1 => *left -= 1,
            Pending::Answer if confirms => {}
            Pending::Cut(_) => {}
            _ => {
                if let Some(Pending::Lose(hits)) = self.pending.pop_front() {
                    return Some(hits);
                }
            }
        }
        None
    }
}

/// A fault has done what it was asked for, once more.
fn hit(hits: &watch::Sender<usize>) {
    hits.send_modify(|hits| *hits += 1);
}

/// A stream and a second handle to its socket.
fn twin(stream: TcpStream) -> (TcpStream, std::net::TcpStream) {
    let stream = stream.into_std().unwrap();
    stream.set_nodelay(true).unwrap();
    let twin = stream.try_clone().unwrap();
    (TcpStream::from_std(stream).unwrap(), twin)
}

/// Reads all that comes, with the time at which it came, until the end.
fn reader(mut stream: OwnedReadHalf) -> mpsc::UnboundedReceiver<Chunk> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let mut bytes = Vec::with_capacity(16 * 1024);
            match stream.read_buf(&mut bytes).await {
                Ok(len) if len > 0 && sender.send((Instant::now(), bytes)).is_ok() => {}
                _ => break,
            }
        }
    });
    receiver
}
