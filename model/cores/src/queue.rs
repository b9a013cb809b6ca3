//! Owners who wait in a server's queue for a lock: the first of this process asks for it, in the name of all. Whoever
//! has become the first and is not told waits in vain: that is a deadlock, which shuttle finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use shuttle::future::{block_on, spawn, yield_now, JoinHandle};
use tokio::sync::Notify;
use tokio::time::{sleep, Instant};

use crate::waiting::crowd::Crowd;
use crate::waiting::waiters::{Mail, Waiter};

/// As `crowd.rs` has them.
const REFRESH: Duration = Duration::from_secs(20);
const BATCH: usize = 100;

type Place = Arc<Waiter<u32, ()>>;

/// Those of this process, and when the server last heard of each that has a rank.
#[derive(Default)]
struct Here {
    crowd: Crowd<u32, ()>,
    told: BTreeMap<Arc<str>, Instant>,
}

impl Here {
    fn rank(&mut self, field: &Arc<str>, came: i64) {
        // Before: the bell that it rings is a point where time may pass.
        let now = Instant::now();
        self.crowd.rank(field, (came, 0), true);
        if self.crowd.has(field) {
            self.told.insert(field.clone(), now);
        }
    }
}

/// A lock.
struct Line {
    here: Mutex<Here>,
    is_free: Mutex<bool>,
    /// Rung when it is free.
    told: Notify,
    queue: Mutex<Served>,
}

/// The server's queue.
#[derive(Default)]
struct Served {
    came: i64,
    has: BTreeSet<Arc<str>>,
}

impl Line {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            here: Mutex::default(),
            is_free: Mutex::new(true),
            told: Notify::new(),
            queue: Mutex::default(),
        })
    }

    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock()
    }

    fn join(&self, field: &Arc<str>) -> Place {
        let mut here = self.here();
        let place = here.crowd.join(field, 0);
        assert!(here.crowd.has(field), "it has just joined");
        place
    }

    /// The server says where it stands in its queue: who asked first is first.
    async fn ask(&self, field: &Arc<str>) {
        let came = {
            let mut queue = self.queue.lock();
            queue.came += 1;
            queue.has.insert(field.clone());
            queue.came
        };
        yield_now().await;
        self.here().rank(field, came);
    }

    /// Whoever has no place gets nothing.
    fn take(&self, field: &str) -> bool {
        self.queue.lock().has.contains(field) && std::mem::replace(&mut *self.is_free.lock(), false)
    }

    fn give(&self) {
        *self.is_free.lock() = true;
        self.told.notify_one();
    }

    fn leave(&self, field: &Arc<str>, place: &Place) {
        let mut here = self.here();
        here.crowd.leave(field, place);
        if !here.crowd.has(field) {
            here.told.remove(field);
        }
        assert!(here.crowd.asked(place).is_none(), "it has left");
    }
}

fn fields<const N: usize>(names: [&str; N]) -> [Arc<str>; N] {
    names.map(Arc::from)
}

async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.expect("nobody panics"));
    }
    done
}

/// Waits until it is the first and the lock is free; has it, and gives it back. Or goes away before.
async fn queues(line: Arc<Line>, field: Arc<str>, goes: bool) {
    let place = line.join(&field);
    line.ask(&field).await;
    let won = loop {
        match place.take_mail() {
            // Its place on the server was gone.
            Mail::Try => line.ask(&field).await,
            _ if goes => break false,
            _ => {}
        }
        let is_first = line.here().crowd.asked(&place).is_some();
        if is_first && line.take(&field) {
            break true;
        }
        tokio::select! {
            biased;
            () = place.bell.notified() => {}
            () = line.told.notified(), if is_first => {}
        }
    };
    line.leave(&field, &place);
    yield_now().await;
    if won {
        line.give();
    }
}

/// The server lost some of its queue.
async fn loses(line: Arc<Line>, fields: [Arc<str>; 2]) {
    for field in fields {
        yield_now().await;
        line.queue.lock().has.remove(&field);
        line.here().crowd.missing(&field);
    }
}

/// # Panics
/// Where somebody is in the crowd yet, or the lock was lost.
pub fn crowd() {
    let (line, [a, b, c]) = (Line::new(), fields(["a", "b", "c"]));
    let queuers = [(&a, false), (&b, false), (&a, false), (&c, true), (&b, true)];
    let mut tasks: Vec<_> =
        queuers.map(|(field, goes)| spawn(queues(line.clone(), field.clone(), goes))).into_iter().collect();
    tasks.push(spawn(loses(line.clone(), [a.clone(), b.clone()])));
    block_on(all(tasks));
    let mut here = line.here();
    assert!(*line.is_free.lock() && here.crowd.close().is_empty());
    assert!([a, b, c].iter().all(|field| !here.crowd.has(field)));
}

/// Says of all that they wait, if it is the first, and checks whom it says it of.
fn refresh(line: &Line, place: &Place) {
    let mut here = line.here();
    let is_first = here.crowd.asked(place).is_some();
    let now = Instant::now();
    let is_due = |told: &Instant| now.duration_since(*told) >= REFRESH;
    let told = here.told.iter().filter(|(_, told)| is_first && is_due(told));
    let due: BTreeSet<_> = told.map(|(field, _)| field.clone()).collect();
    let batches = here.crowd.due(place);
    assert!(batches.iter().all(|batch| (1..=BATCH).contains(&batch.len())));
    let said: Vec<_> = batches.concat();
    assert_eq!(said.len(), due.len(), "each once");
    assert_eq!(BTreeSet::from_iter(said), due);
    here.told.extend(due.into_iter().map(|field| (field, now)));
}

async fn refreshes(line: Arc<Line>, field: Arc<str>) {
    let place = line.join(&field);
    line.ask(&field).await;
    for _ in 0..3 {
        refresh(&line, &place);
        sleep(REFRESH / 2).await;
    }
    line.leave(&field, &place);
}

/// Owners who are due come and go.
///
/// # Panics
/// Where the server hears of one twice, not at all, or behind its leaving.
pub fn batches() {
    crate::time::begin();
    let line = Line::new();
    let crowd: Vec<_> = (0..BATCH + 5).map(|number| Arc::<str>::from(number.to_string())).collect();
    let mut here = line.here();
    let mut places: Vec<_> = crowd.iter().map(|field| (field.clone(), here.crowd.join(field, 0))).collect();
    for field in &crowd {
        here.rank(field, i64::MAX - 1);
    }
    drop(here);
    let mut tasks: Vec<_> = fields(["a", "b", "a"]).map(|field| spawn(refreshes(line.clone(), field))).into();
    let (leaving, left) = (line.clone(), places.split_off(BATCH + 2));
    tasks.push(spawn(async move {
        for (field, place) in left {
            yield_now().await;
            leaving.leave(&field, &place);
        }
    }));
    block_on(all(tasks));
    places.iter().for_each(|(field, place)| line.leave(field, place));
    assert!(line.here().crowd.close().is_empty() && line.here().told.is_empty());
}

/// Waits until it is told of the end; then goes away.
async fn ends(line: Arc<Line>, field: Arc<str>) -> u64 {
    let place = line.join(&field);
    while !matches!(place.take_mail(), Mail::Closed) {
        place.bell.notified().await;
    }
    yield_now().await;
    line.leave(&field, &place);
    place.number
}

/// The wait of all is ended while some come; it is again and again, until all are there.
///
/// # Panics
/// Where one is ended twice, or is taken for one of the same owner that came behind the end.
pub fn closing() {
    let (line, [a, b]) = (Line::new(), fields(["a", "b"]));
    let tasks: Vec<_> = [&a, &b, &a].map(|field| spawn(ends(line.clone(), field.clone()))).into();
    block_on(async {
        let mut ended = Vec::new();
        while ended.len() < 3 {
            yield_now().await;
            ended.extend(line.here().crowd.close().iter().map(|place| place.number));
        }
        let late = line.join(&a);
        let mut left = all(tasks).await;
        assert!(line.here().crowd.asked(&late).is_some());
        line.leave(&a, &late);
        assert!(!line.here().crowd.has(&a));
        ended.sort_unstable();
        left.sort_unstable();
        assert_eq!(ended, left);
    });
}
