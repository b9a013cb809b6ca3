//! What the fault tests share: every kind in turn, clients behind a proxy of their own, futures that are given up.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::future::{poll_fn, Future};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::future::{join_all, FutureExt};
use futures::stream::{self, StreamExt};
use lockson::{AcquireOutcome, Builder, Guard, Locks, Owner, RLock, Request};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::files::sent;
use crate::kinds::texts;
use crate::{ms, patient, report, secs, seed, unique, Kind, Proxy, Raw, Rng, Server, KINDS};

/// The machine, for tests that count on time: two cores are little.
static HALVES: Semaphore = Semaphore::const_new(2);

/// Held by each test that fills the machine, so that none counts against another's time.
pub async fn turn() -> SemaphorePermit<'static> {
    HALVES.acquire_many(2).await.unwrap()
}

/// Held by a test that waits far more than it works: another one like it may run beside it.
pub async fn half_turn() -> SemaphorePermit<'static> {
    HALVES.acquire().await.unwrap()
}

/// Loads the scripts, so that no cut hits a call that only learns that its script is unknown.
pub async fn load_scripts(server: &Server) {
    let mut raw = server.raw().await;
    for text in texts() {
        raw.must(&["SCRIPT", "LOAD", &text]).await;
    }
}

/// Kinds that are tested at once: more would time out for want of a processor.
const AT_ONCE: usize = 4;

/// Runs a test for every kind, and says for which it failed.
pub async fn every_kind(test: impl AsyncFn(&'static Kind)) {
    kinds_at_once(AT_ONCE, test).await;
}

/// The same of a test that waits far more than it works.
pub async fn kinds_at_once(at_once: usize, test: impl AsyncFn(&'static Kind)) {
    let runs = stream::iter(&KINDS).map(async |kind| {
        let panic = AssertUnwindSafe(test(kind)).catch_unwind().await.err()?;
        Some((kind.name, panic.downcast::<String>().map_or_else(|_| "no text".to_owned(), |text| *text)))
    });
    let failed: Vec<_> = runs.buffer_unordered(at_once).filter_map(std::future::ready).collect().await;
    assert!(failed.is_empty(), "failed for {failed:?}");
}

/// The same on one real server, which knows the scripts.
pub async fn every_kind_at_a_server(test: impl AsyncFn(&Server, &'static Kind)) -> Server {
    let server = Server::start();
    load_scripts(&server).await;
    every_kind(async |kind| test(&server, kind).await).await;
    server
}

/// Drives cases for every kind, `asked` for each, at so many sites of its own on one real server.
pub async fn drive_every_kind(
    label: &str,
    asked: usize,
    (sites, builder): (usize, Builder),
    case: impl AsyncFn(&Site, usize, &mut Rng) -> Result<usize, String>,
) {
    every_kind_at_a_server(async |server, kind| {
        let sites = Site::many(server, kind, sites, builder.clone()).await;
        drive(&format!("{}: {label}", kind.name), asked, seed(), &sites, &case).await;
    })
    .await;
}

/// A busy machine may need longer than a short command timeout allows.
async fn connect(builder: Builder, url: &str) -> Locks {
    let connected = async {
        loop {
            if let Ok(locks) = builder.clone().connect(url).await {
                return locks;
            }
        }
    };
    patient("a connection", connected).await
}

/// A client of one kind's locks, the proxy that only it uses, and a connection past the proxy.
pub struct Site {
    pub kind: &'static Kind,
    pub proxy: Proxy,
    pub locks: Locks,
    raw: Mutex<Raw>,
}

impl Site {
    pub async fn start(server: &Server, kind: &'static Kind, builder: Builder) -> Site {
        let proxy = Proxy::start(server.port());
        let locks = connect(builder, &proxy.url()).await;
        Site { kind, proxy, locks, raw: Mutex::new(server.raw().await) }
    }

    pub async fn many(server: &Server, kind: &'static Kind, count: usize, builder: Builder) -> Vec<Site> {
        let mut sites = Vec::new();
        for _ in 0..count {
            sites.push(Site::start(server, kind, builder.clone()).await);
        }
        sites
    }

    /// A lock that nobody else uses.
    pub fn own(&self) -> Own {
        Own::fresh(self.kind, &self.locks)
    }

    /// The count of an owner, by the server.
    pub async fn count(&self, own: &Own) -> u64 {
        if own.kind.anonymous {
            return u64::from(own.lock.is_held().await == Ok(true));
        }
        let found = self.raw.lock().await.hget(&own.name, &own.kind.count_field(&own.field)).await;
        found.map_or(0, |count| count.parse().unwrap())
    }

    pub async fn pttl(&self, own: &Own) -> i64 {
        self.raw.lock().await.pttl(&own.name).await
    }

    /// Whether a waiter would hear of a release.
    pub async fn listens(&self, own: &Own) -> bool {
        let Some(channel) = own.kind.channel(&own.name, &own.field) else { return false };
        self.raw.lock().await.subscribers(&channel).await > 0
    }

    /// Whether anything is left of an owner's lock.
    pub async fn exists(&self, own: &Own) -> bool {
        exist(&mut *self.raw.lock().await, &[own]).await
    }
}

/// A client behind a proxy of its own, and one that is not, on a server of their own; and a name.
pub struct Place {
    pub server: Server,
    pub proxy: Proxy,
    pub ours: Locks,
    pub theirs: Locks,
    pub name: String,
}

impl Place {
    /// The server knows these scripts of lua/, as that of [`load_scripts`] does all.
    pub async fn start(builder: Builder, scripts: &[&str]) -> Place {
        let server = Server::start();
        for script in scripts {
            server.control(&["SCRIPT", "LOAD", &sent(script)]);
        }
        let proxy = Proxy::start(server.port());
        let (ours, theirs) = (connect(builder, &proxy.url()).await, server.locks().await);
        Place { server, proxy, ours, theirs, name: unique("place") }
    }
}

/// What a network does to a client.
#[derive(Debug, Clone, Copy)]
pub enum Outage {
    BlackHole,
    LostRequests,
    /// The server does what it is asked, and nobody hears of it.
    LostReplies,
    StalledRequests,
    StalledReplies,
    Refused,
}

impl Outage {
    pub const ALL: [Outage; 6] = [
        Outage::BlackHole,
        Outage::LostRequests,
        Outage::LostReplies,
        Outage::StalledRequests,
        Outage::StalledReplies,
        Outage::Refused,
    ];

    pub fn set(self, proxy: &Proxy, on: bool) {
        match self {
            Outage::BlackHole => {
                proxy.black_hole_requests(on);
                proxy.black_hole_replies(on);
            }
            Outage::LostRequests => proxy.black_hole_requests(on),
            Outage::LostReplies => proxy.black_hole_replies(on),
            Outage::StalledRequests => proxy.stall_requests(on),
            Outage::StalledReplies => proxy.stall_replies(on),
            Outage::Refused => proxy.refuse(on),
        }
    }
}

/// Whether anything is left of any of these.
pub async fn exist(raw: &mut Raw, owns: &[&Own]) -> bool {
    let keys = keys(owns);
    let command: Vec<&str> = std::iter::once("EXISTS").chain(keys.iter().map(String::as_str)).collect();
    raw.must(&command).await.int() > 0
}

/// All that they may have on the server.
pub fn keys(owns: &[&Own]) -> Vec<String> {
    owns.iter().flat_map(|own| own.kind.keys(&own.name, &own.field)).collect()
}

/// A lock for one owner.
pub struct Own {
    pub kind: &'static Kind,
    pub name: String,
    pub field: String,
    pub lock: Arc<dyn RLock>,
}

impl Own {
    pub fn new(kind: &'static Kind, locks: &Locks, name: &str) -> Own {
        let owner = Owner::unique();
        let (field, lock) = (kind.field(locks, &owner), (kind.make)(locks, name).owned_by(&owner));
        Own { kind, name: name.to_owned(), field, lock }
    }

    /// A name that is no part of another.
    pub fn fresh(kind: &'static Kind, locks: &Locks) -> Own {
        Own::new(kind, locks, &fresh_name())
    }

    /// Another owner, by any client, that this one keeps out.
    pub fn rival(&self, locks: &Locks) -> Own {
        Own::new(self.kind.rival(), locks, &self.name)
    }

    /// By `try_lock`, or by `lock`.
    pub async fn take(&self, once: bool) -> Result<(), String> {
        match once {
            true => expect("try_lock", self.lock.try_lock().await, Ok(AcquireOutcome::Acquired)),
            false => expect("lock", self.lock.lock().await, Ok(())),
        }
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

/// Runs cases until `asked` are done, one at a time per worker. A case says how many it was worth, or what went wrong.
pub async fn drive<W>(
    name: &str,
    asked: usize,
    seed: u64,
    workers: &[W],
    case: impl AsyncFn(&W, usize, &mut Rng) -> Result<usize, String>,
) {
    let (tries, done, failures) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
    let runs = workers.iter().map(async |worker| {
        while done.get() < asked && tries.get() < asked * 20 && failures.borrow().len() < 20 {
            let number = tries.get();
            tries.set(number + 1);
            let mut rng = Rng::with_seed(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            match case(worker, number, &mut rng).await {
                Ok(worth) => done.set(done.get() + worth),
                Err(error) => {
                    println!("{name}: case {number}: {error}");
                    failures.borrow_mut().push(error);
                }
            }
        }
    });
    join_all(runs).await;
    println!("{name}: {} tries", tries.get());
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{name}: {} failures, seed {seed}, the first: {:?}", failures.len(), failures.first());
    report(name, done.get().min(asked), asked, 0, seed);
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

/// Takes a lock of several members beside rivals' holds and gives that up at each poll point: nothing may be left.
/// Says how many points there were.
pub async fn dropped_at_each_point<L: RLock, H: Future<Output = Vec<Guard>>>(
    new: impl Fn() -> L,
    rivals: impl Fn() -> H,
    may_have_it: bool,
    left: impl Fn() -> String,
    what: &str,
) -> usize {
    let (mut points, request) = (0, Request::default().wait(ms(300)));
    for verb in 0..4 {
        for polls in 1..200 {
            let (held, lock, request) = (rivals().await, new(), request.clone());
            let taken = async {
                match verb {
                    0 => lock.acquire_with(request).await.unwrap().is_acquired(),
                    1 => lock.try_lock().await.unwrap().is_acquired(),
                    2 => lock.acquire_with(request.lease(secs(9))).await.unwrap().is_acquired(),
                    _ => lock.guard_with(request).await.unwrap().is_some(),
                }
            };
            let done = give_up_after(polls, taken).await;
            assert!(may_have_it || done != Some(true), "{what}: taken by verb {verb}");
            if done == Some(true) && verb != 3 {
                lock.unlock().await.unwrap();
            }
            drop(held);
            // Longer than a give-back takes, shorter than any lease.
            tokio::time::sleep(ms(100)).await;
            assert_eq!(left(), "", "{what}, verb {verb}, after {polls} polls");
            if done.is_some() {
                break;
            }
            points += 1;
        }
    }
    points
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
