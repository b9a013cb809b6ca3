//! A trap: futures that are joined in one task are one owner, so a reentrant lock lets both in. And its remedies.
//!
//! ```sh
//! cargo run --example joined_futures --features embedded
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lockson::{LockError, Locks, Owner, ReentrantLock};

/// How many are in the room, and the most that ever were.
#[derive(Default)]
struct Room {
    inside: AtomicU32,
    most: AtomicU32,
}

impl Room {
    async fn stay(&self) {
        let now = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn report(&self, how: &str) -> u32 {
        let most = self.most.swap(0, Ordering::SeqCst);
        println!("{how}: at most {most} at a time");
        most
    }
}

async fn visit(lock: ReentrantLock, room: Arc<Room>) -> Result<(), LockError> {
    let _guard = lock.guard().await?;
    room.stay().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::embedded();
    let (lock, room) = (locks.lock("room"), Arc::new(Room::default()));
    let visit_of = |lock: &ReentrantLock| visit(lock.clone(), room.clone());

    // The trap: one task, so one owner. The second future enters the lock again. That they hold guards does not help.
    tokio::try_join!(visit_of(&lock), visit_of(&lock))?;
    assert_eq!(room.report("joined"), 2);

    // Remedy 1: a scope gives all that runs in it an owner of its own. The one for requests of a server.
    let (a, b) = (Owner::unique().scope(visit_of(&lock)), Owner::unique().scope(visit_of(&lock)));
    tokio::try_join!(a, b)?;
    assert_eq!(room.report("in scopes of their own"), 1);

    // Remedy 2: a handle with an owner of its own.
    let (first, second) = (lock.owned_by(&Owner::unique()), lock.owned_by(&Owner::unique()));
    tokio::try_join!(visit_of(&first), visit_of(&second))?;
    assert_eq!(room.report("by handles with owners of their own"), 1);

    // Remedy 3: tasks of their own.
    let (a, b) = (tokio::spawn(visit_of(&lock)), tokio::spawn(visit_of(&lock)));
    let (a, b) = tokio::try_join!(a, b)?;
    a.and(b)?;
    assert_eq!(room.report("in tasks of their own"), 1);

    // Where nobody means to enter twice, the non-reentrant lock makes the trap an error.
    let mutex = locks.mutex("room");
    let held = mutex.guard().await?;
    if let Err(refused) = mutex.guard().await {
        println!("by a mutex: {refused}");
    }
    held.unlock().await?;
    Ok(())
}
