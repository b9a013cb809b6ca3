//! Leader election: who has the lock leads. Three candidates wait for it; the leader works until it resigns, or until
//! it is cut off from the server, and then stops before the server may give the lock to another.
//!
//! ```sh
//! cargo run -p services --bin leader                                   # on a server inside this process, stopped once
//! cargo run -p services --bin leader -- --url redis://127.0.0.1:6379   # on a real one: nobody is cut off
//! cargo run -p services --bin leader -- --url redis://127.0.0.1:6379 --stand dora   # a candidate, until it is ended
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lockson::{Builder, EmbeddedServer, LockError, Locks, Lost, QueryError};
use tokio::sync::{watch, Notify};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// How long a leader that is cut off goes on at most. The default of 30 s makes fewer elections and longer gaps.
const LEASE: Duration = Duration::from_secs(3);

/// What everybody can see of the elections.
#[derive(Debug, Default, Clone)]
struct Office {
    leader: Option<String>,
    elections: u32,
    /// The leaders that were cut off.
    deposed: u32,
    two_at_once: bool,
}

#[derive(Clone)]
struct Candidate {
    name: String,
    locks: Locks,
    office: watch::Sender<Office>,
    resign: Arc<Notify>,
}

impl Candidate {
    /// Stands for election again and again, until its client is shut down.
    async fn stand(self, seat: String) -> Result<()> {
        let lock = self.locks.mutex(&seat);
        println!("{} stands for election", self.name);
        loop {
            let guard = match lock.guard().await {
                Ok(guard) => guard,
                Err(LockError::Query(QueryError::Closed)) => return Ok(()),
                // The server was silent for long. Whether it is for this candidate alone can't be known.
                Err(error) if error.is_unreachable() => continue,
                Err(error) => return Err(error.into()),
            };
            self.begins();
            let lost = tokio::select! {
                // First, so that no step is made that the lock no longer covers.
                biased;
                lost = guard.lost() => Some(lost),
                () = self.resign.notified() => None,
                never = self.lead() => match never {},
            };
            self.ends(lost);
            if let Err(error) = guard.unlock().await {
                println!("{}: {error}", self.name);
            }
            // The others first.
            tokio::time::sleep(LEASE / 10).await;
        }
    }

    /// The work. It is dropped where it awaits: what must not be cut in half is written with a fencing token.
    async fn lead(&self) -> Infallible {
        loop {
            tokio::time::sleep(LEASE / 20).await;
        }
    }

    fn begins(&self) {
        println!("{} leads", self.name);
        self.office.send_modify(|office| {
            office.two_at_once |= office.leader.is_some();
            office.leader = Some(self.name.clone());
            office.elections += 1;
        });
    }

    fn ends(&self, lost: Option<Lost>) {
        match lost {
            Some(lost) => println!("{} steps down: {lost}", self.name),
            None => println!("{} resigns", self.name),
        }
        self.office.send_modify(|office| {
            office.leader = None;
            office.deposed += u32::from(lost.is_some());
        });
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--url", url] => Some(url.to_owned()),
        ["--url", url, "--stand", name] => {
            let (locks, office) = (settings().connect(url).await?, watch::Sender::default());
            let candidate = Candidate { name: name.to_owned(), locks, office, resign: Arc::default() };
            return candidate.stand("leader".to_owned()).await;
        }
        _ => return Err("the arguments are: nothing, or --url redis://host:port, or besides --stand and a name".into()),
    };
    let server = Server::new(url)?;
    let (office, mut seen) = watch::channel(Office::default());
    let resign = Arc::new(Notify::new());
    let seat = format!("leader:{}", std::process::id());
    let mut candidates = Vec::new();
    for name in ["anna", "ben", "cleo"] {
        let locks = server.connect().await?;
        let candidate = Candidate { name: name.into(), locks, office: office.clone(), resign: resign.clone() };
        candidates.push((candidate.locks.clone(), tokio::spawn(candidate.stand(seat.clone()))));
    }

    tokio::time::timeout(LEASE * 20, elections(&server, &mut seen, &resign)).await??;
    // A candidate that is ended says nothing any more: what follows is no election.
    let office = seen.borrow().clone();
    for (locks, candidate) in candidates {
        candidate.abort();
        match candidate.await {
            Err(ended) if ended.is_cancelled() => {}
            ended => ended??,
        }
        // A guard that was dropped is given back before the client ends.
        locks.shutdown(Duration::from_secs(5)).await?;
    }
    assert!(!office.two_at_once);
    println!("{} elections, one leader at a time", office.elections);
    Ok(())
}

/// One leader resigns, the next is cut off.
async fn elections(server: &Server, office: &mut watch::Receiver<Office>, resign: &Notify) -> Result<()> {
    let first = office.wait_for(|now| now.leader.is_some()).await?.leader.clone();
    resign.notify_one();
    let second = office.wait_for(|now| now.leader.is_some() && now.leader != first).await?.clone();
    if server.stop() {
        println!("(the server is gone)");
        let then = office.wait_for(|now| now.deposed > second.deposed).await?.clone();
        assert_eq!((then.leader, then.elections), (None, second.elections), "it stepped down before another leads");
        server.start();
        println!("(the server is back)");
        office.wait_for(|now| now.elections > second.elections).await?;
    }
    Ok(())
}

fn settings() -> Builder {
    Locks::builder().watchdog_lease(LEASE).command_timeout(LEASE / 5)
}

/// What the candidates connect to.
enum Server {
    Real(String),
    Embedded(EmbeddedServer),
}

impl Server {
    fn new(url: Option<String>) -> Result<Self> {
        match url {
            Some(url) => Ok(Self::Real(url)),
            None => Ok(Self::Embedded(EmbeddedServer::new())),
        }
    }

    async fn connect(&self) -> Result<Locks> {
        Ok(match self {
            Self::Real(url) => settings().connect(url).await?,
            Self::Embedded(server) => server.connect_with(settings())?,
        })
    }

    /// `false`: it is not ours to stop.
    fn stop(&self) -> bool {
        match self {
            Self::Real(_) => false,
            Self::Embedded(server) => {
                server.stop();
                true
            }
        }
    }

    fn start(&self) {
        if let Self::Embedded(server) = self {
            server.start();
        }
    }
}

#[cfg(test)]
mod tests {
    use lockson_testkit::TestServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_cut_off_steps_down_before_another_leads() {
        let server = TestServer::new();
        let (office, mut seen) = watch::channel(Office::default());
        for name in ["anna", "ben"] {
            let locks = server.connect_with(settings()).unwrap();
            let candidate = Candidate { name: name.into(), locks, office: office.clone(), resign: Arc::default() };
            tokio::spawn(candidate.stand("leader".to_owned()));
        }
        seen.wait_for(|now| now.leader.is_some()).await.unwrap();
        server.outage(LEASE * 2).await.unwrap();
        assert_eq!((seen.borrow().deposed, seen.borrow().leader.clone()), (1, None));
        let then = seen.wait_for(|now| now.elections == 2).await.unwrap().clone();
        assert!(then.leader.is_some() && !then.two_at_once, "{then:?}");
    }
}
