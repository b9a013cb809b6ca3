//! What the fault tests share: clients behind a proxy of their own, scripts by name, futures that are given up.
#![allow(dead_code)]

use std::cell::Cell;
use std::fmt::Debug;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::future::join_all;
use lockson::{Builder, Locks, Owner, ReentrantLock};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::sha1::sha1;
use crate::support::{report, unique, Filter, Proxy, Raw, Rng, Server};

macro_rules! script {
    ($verb:literal) => {
        (
            $verb,
            concat!(include_str!("../../lua/begin.lua"), include_str!(concat!("../../lua/reentrant/", $verb, ".lua"))),
        )
    };
}

const SCRIPTS: [(&str, &str); 5] =
    [script!("acquire"), script!("release"), script!("hand_over"), script!("renew"), script!("settle")];

/// Calls of one script of the reentrant lock.
pub fn script(verb: &str) -> Filter {
    let (_, text) = SCRIPTS.iter().find(|(name, _)| *name == verb).expect("a script of the reentrant lock");
    Filter::script(sha1(text.as_bytes()))
}

/// Held by each test of a file, so that none counts against another's time: two cores are little.
pub async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// Loads the scripts, so that no cut hits a call that only learns that its script is unknown.
pub async fn load_scripts(server: &Server) {
    let mut raw = server.raw().await;
    for (_, text) in SCRIPTS {
        raw.must(&["SCRIPT", "LOAD", text]).await;
    }
}

/// A client, the proxy that only it uses, and a connection past the proxy.
pub struct Site {
    pub proxy: Proxy,
    pub locks: Locks,
    raw: Mutex<Raw>,
}

impl Site {
    pub async fn start(server: &Server, builder: Builder) -> Site {
        let proxy = Proxy::start(server.port());
        let locks = builder.connect(&proxy.url()).await.unwrap();
        Site { proxy, locks, raw: Mutex::new(server.raw().await) }
    }

    pub async fn many(server: &Server, count: usize, builder: Builder) -> Vec<Site> {
        let mut sites = Vec::new();
        for _ in 0..count {
            sites.push(Site::start(server, builder.clone()).await);
        }
        sites
    }

    /// The count of an owner of this client, by the server.
    pub async fn count(&self, key: &str, owner: &Owner) -> u64 {
        let field = format!("{}:{owner}", self.locks.client_id());
        let found = self.raw.lock().await.hget(key, &field).await;
        found.map_or(0, |count| count.parse().unwrap())
    }

    pub async fn pttl(&self, key: &str) -> i64 {
        self.raw.lock().await.pttl(key).await
    }

    pub async fn subscribers(&self, channel: &str) -> i64 {
        self.raw.lock().await.subscribers(channel).await
    }

    pub async fn exists(&self, key: &str) -> bool {
        self.raw.lock().await.exists(key).await
    }
}

/// A lock nobody else uses, for one owner.
pub struct Own {
    pub name: String,
    pub owner: Owner,
    pub lock: ReentrantLock,
}

impl Own {
    pub fn new(locks: &Locks, name: &str) -> Own {
        let owner = Owner::unique();
        Own { name: name.to_owned(), lock: locks.lock(name).owned_by(&owner), owner }
    }

    /// A name that is no part of another.
    pub fn fresh(locks: &Locks) -> Own {
        Own::new(locks, &fresh_name())
    }

    pub async fn lock_times(&self, times: u64) {
        for _ in 0..times {
            self.lock.lock().await.unwrap();
        }
    }

    pub async fn unlock_times(&self, times: u64) -> Result<(), String> {
        for left in (0..times).rev() {
            self.lock.unlock().await.map_err(|error| format!("{} of {times} unlocks left: {error:?}", left + 1))?;
        }
        Ok(())
    }
}

pub fn fresh_name() -> String {
    format!("{}.", unique("fault"))
}

/// `Err` with what was found, unless it is what was expected.
pub fn expect<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, expected {expected:?}"))
}

/// Runs cases until `asked` are done, one at a time per worker, and reports. A case says how many it was worth (0: what
/// was to be shown did not come about), or what went wrong.
pub async fn drive<W>(
    name: &str,
    asked: usize,
    seed: u64,
    workers: &[W],
    case: impl AsyncFn(&W, usize, &mut Rng) -> Result<usize, String>,
) {
    let (tries, done, failures) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let runs = workers.iter().map(async |worker| {
        while done.get() < asked && tries.get() < asked * 20 && failures.get() < 20 {
            let number = tries.get();
            tries.set(number + 1);
            let mut rng = Rng::new(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            match case(worker, number, &mut rng).await {
                Ok(worth) => done.set(done.get() + worth),
                Err(error) => {
                    println!("{name}: case {number}: {error}");
                    failures.set(failures.get() + 1);
                }
            }
        }
    });
    join_all(runs).await;
    println!("{name}: {} tries", tries.get());
    report(name, done.get().min(asked), asked, failures.get(), seed);
}

/// Polls a future at most `polls` times, each time when it was woken, and drops it. `None`: it was not ready by then.
pub async fn give_up_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Polls a future once, which is too early for it.
pub async fn begin<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// How long it takes until nothing is left of what is asked for; `None` when it takes longer than `limit`.
pub async fn time_until<T: Future<Output = bool>>(limit: Duration, mut check: impl FnMut() -> T) -> Option<Duration> {
    let began = Instant::now();
    while !check().await {
        if began.elapsed() > limit {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Some(began.elapsed())
}
