//! Takers who wait in a row for the permits of a server, and owners who take turns with a lock: some go away. At the
//! end nothing is lost, and nobody was forgotten: who waits in vain is a deadlock, which shuttle finds.

use std::sync::Arc;

use parking_lot::Mutex;
use shuttle::future::{block_on, spawn, yield_now};
use tokio::sync::Notify;

use crate::base::clock::Moment;
use crate::waiting::row::Row;
use crate::waiting::turns::Turns;
use crate::waiting::wait::Listener;
use crate::waiting::waiters::{Mail, Waiter};
use crate::wire::table::Role;

/// What is free on a server, and who is told when there is more.
struct Server {
    free: Mutex<u32>,
    told: Arc<Notify>,
}

/// Something of it. Dropped, it goes back.
struct Permit(Arc<Server>);

impl Server {
    fn new(free: u32) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(free), told: Arc::default() })
    }

    fn take(self: &Arc<Self>) -> Option<Permit> {
        let mut free = self.free.lock();
        *free = free.checked_sub(1)?;
        Some(Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.told.notify_one();
    }
}

type Takers = Row<u32, Permit>;

/// As `Pool::ask` does: for the first of the row, and for as many more as there is something for.
fn ask(row: &Takers, server: &Arc<Server>) {
    let served = row.first(100).into_iter().map_while(|waiter| Some((waiter, server.take()?)));
    row.serve(served.collect());
}

/// Waits for a permit, and gives it back.
async fn takes(row: Arc<Takers>, server: Arc<Server>, asking: Arc<tokio::sync::Mutex<()>>) {
    let listener = Listener(server.told.clone());
    let mut waiter = row.join(1);
    loop {
        if let Some(permit) = row.turn(&mut waiter, &listener, None).await.expect("nobody closes it") {
            row.leave(&waiter);
            yield_now().await;
            return drop(permit);
        }
        let turn = asking.lock().await;
        if waiter.take_prize().is_some() {
            return row.leave(&waiter);
        }
        ask(&row, &server);
        drop(turn);
    }
}

/// Comes, and goes away without a look.
async fn leaves(row: Arc<Takers>) {
    let waiter = row.join(1);
    yield_now().await;
    row.leave(&waiter);
}

/// Is given something and does not look in time: it loses that, and stands behind all others.
async fn lapses(row: Arc<Takers>) {
    for waiter in row.first(3) {
        yield_now().await;
        waiter.lapse();
    }
}

/// # Panics
/// Where a permit was lost, or somebody is in the row yet.
pub fn row() {
    let (row, server) = (Arc::new(Takers::default()), Server::new(1));
    let asking = Arc::<tokio::sync::Mutex<()>>::default();
    let mut all = vec![spawn(leaves(row.clone()))];
    all.extend((0..3).map(|_| spawn(takes(row.clone(), server.clone(), asking.clone()))));
    all.push(spawn(lapses(row.clone())));
    block_on(async {
        for one in all {
            one.await.expect("nobody panics");
        }
    });
    assert_eq!((*server.free.lock(), row.first(9).len()), (1, 0));
}

/// A lock in this process: who waits for it is given it.
type Line = Mutex<Turns<(), Role, Permit>>;
type Place = Arc<Waiter<Role, Permit>>;

/// Gives it to the next in line, or back.
fn hand_on(line: &Line, hold: (Permit, u64)) {
    let (permit, id) = hold;
    let (heir, _) = line.lock().next(Moment::from_nanos(0), true);
    match heir {
        // Not every hand-over is done.
        Some(heir) if id % 3 == 0 => {
            drop(permit);
            line.lock().put_back(heir);
        }
        Some(heir) => {
            heir.post(Mail::Won(permit));
        }
        None => drop(permit),
    }
    line.lock().ended(id);
}

/// Waits for its turn, has the lock, and hands it on; or goes away first.
async fn contends(line: Arc<Line>, server: Arc<Server>, id: u64, goes: bool) {
    let place: Place = line.lock().join(Role::Exclusive);
    let permit = loop {
        match place.take_mail() {
            Mail::Won(permit) => break Some(permit),
            _ if goes => break None,
            Mail::Try => {
                if let Some(permit) = server.take() {
                    break Some(permit);
                }
            }
            _ => {}
        }
        let (bell, told) = (place.bell.notified(), server.told.notified());
        let is_head = line.lock().is_head(&place);
        tokio::select! {
            () = bell => {}
            // The head looks at the cap, too.
            () = told, if is_head => {
                if let Some(permit) = server.take() {
                    break Some(permit);
                }
            }
        }
    };
    let hold = Arc::new(());
    if permit.is_some() {
        line.lock().took(&hold, Role::Exclusive, id, Moment::from_nanos(0));
    }
    let left = line.lock().leave(&place);
    drop(left);
    if let Some(permit) = permit {
        yield_now().await;
        hand_on(&line, (permit, id));
    }
}

/// # Panics
/// Where the lock was lost.
pub fn turns() {
    let (line, server) = (Arc::new(Mutex::new(Turns::new(|role: &Role| *role))), Server::new(1));
    let contenders = (1..5).map(|id| spawn(contends(line.clone(), server.clone(), id, id == 2)));
    let all: Vec<_> = contenders.collect();
    block_on(async {
        for one in all {
            one.await.expect("nobody panics");
        }
    });
    assert_eq!(*server.free.lock(), 1);
    assert!(line.lock().holds().is_empty());
}
