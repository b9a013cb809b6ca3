//! What the read/write lock adds. Rule 18.

use lockson::kind::Read;
use lockson::ReadWriteLock;

use crate::contract::world::*;

/// A reader's read lock.
pub type ReadSide = lockson::Lock<Read>;

pub fn named(name: &str) -> Owner {
    Owner::named(name).unwrap()
}

/// The lock under test as another owner of this client sees it.
pub fn reader(lock: &ReadWriteLock, name: &str) -> ReadSide {
    lock.read().owned_by(&named(name))
}

fn hold_key(case: &Case, locks: &Locks, owner: &str, number: u32) -> String {
    format!("{{{}}}:{}:named-{owner}:rwlock_timeout:{number}", case.name, locks.client_id())
}

pub async fn many_readers_or_one_writer(case: Case) {
    let (a, b) = (case.client().await.read_write_lock(&case.name), case.client().await.read_write_lock(&case.name));
    let read = async |lock: &lockson::ReadWriteLock| lock.read().owned_by(&Owner::unique()).guard().await.unwrap();
    let readers = join_all([&a, &b, &a, &b].map(read)).await;
    assert_eq!(a.read().holders().await.unwrap().len(), 4);
    for lock in [&a, &b] {
        assert!(!lock.write().owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
    }
    unlock_all(readers).await;
    assert!(case.is_free().await);
    let writer = a.write().owned_by(&named("w")).guard().await.unwrap();
    for lock in [&a, &b] {
        assert!(!lock.read().owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
        assert!(!lock.write().owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
    }
    writer.unlock().await.unwrap();
    assert!(case.is_free().await);
}

pub async fn both_sides_nest(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let (read, write) = (lock.read().owned_by(&named("o")), lock.write().owned_by(&named("o")));
    for depth in 1..=3 {
        write.lock().await.unwrap();
        read.lock().await.unwrap();
        assert!(case.pttl().await <= 30_000, "a re-entry adds no lease");
        assert_eq!((write.hold_count().await.unwrap(), read.hold_count().await.unwrap()), (depth, depth));
    }
    for depth in (0..3).rev() {
        read.unlock().await.unwrap();
        write.unlock().await.unwrap();
        assert_eq!((write.hold_count().await.unwrap(), read.hold_count().await.unwrap()), (depth, depth));
    }
    assert!(case.is_free().await);
    for depth in 1..=3 {
        read.lock().await.unwrap();
        assert_eq!(read.hold_count().await.unwrap(), depth);
    }
    for _ in 0..3 {
        read.unlock().await.unwrap();
    }
    assert!(case.is_free().await && read.unlock().await.is_err());
}

/// Key by key what the jar writes (redisson-measured.md 1.2).
pub async fn the_layout_of_readers_and_writers_is_redissons(case: Case) {
    let locks = case.client().await;
    let lock = locks.read_write_lock(&case.name);
    let (id, read, write) = (locks.client_id(), reader(&lock, "o"), lock.write().owned_by(&named("o")));
    let key = |number| hold_key(&case, &locks, "o", number);
    read.lock().await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("mode read {id}:named-o 1"));
    assert_eq!(case.ask(&["GET", &key(1)]).await, "1");
    read.lock().await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("mode read {id}:named-o 2"));
    assert_eq!(case.ask(&["GET", &key(2)]).await, "1");
    for key in [key(1), key(2), case.name.clone()] {
        let ttl = case.pttl_of(&key).await;
        assert!((29_000..=30_000).contains(&ttl), "{key}: {ttl}");
    }
    read.unlock().await.unwrap();
    assert_eq!(case.ask(&["EXISTS", &key(1), &key(2)]).await, "1");
    read.unlock().await.unwrap();
    assert_eq!(case.ask(&["EXISTS", &case.name, &key(1), &key(2)]).await, "0");
    write.lock().await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("mode write {id}:named-o:write 1"));
    read.lock().await.unwrap();
    // Behind it the end of the write lease, which is lockson's own, as soon as the read lease ends later.
    let (all, redissons) =
        (case.ask(&["HGETALL", &case.name]).await, format!("mode write {id}:named-o:write 1 {id}:named-o 1"));
    assert_eq!(all.split(" write_end @").next(), Some(&*redissons));
    write.unlock().await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, format!("mode read {id}:named-o 1"));
    read.unlock().await.unwrap();
    assert_eq!(case.ask(&["EXISTS", &case.name, &key(1)]).await, "0");
    // A name with a brace stays as it is.
    let name = format!("{{eu}}:{}", case.name);
    let tagged = reader(&locks.read_write_lock(&name), "o");
    tagged.lock().await.unwrap();
    assert_eq!(case.ask(&["GET", &format!("{name}:{id}:named-o:rwlock_timeout:1")]).await, "1");
    tagged.unlock().await.unwrap();
    // Java's readers and ours, each counted by its keys.
    case.ask(&["HSET", &case.name, "mode", "read", "java:1", "2"]).await;
    case.ask(&["SET", &format!("{{{}}}:java:1:rwlock_timeout:2", case.name), "1", "PX", "60000"]).await;
    case.ask(&["PEXPIRE", &case.name, "60000"]).await;
    read.lock().await.unwrap();
    assert!(!write.owned_by(&named("w")).try_lock().await.unwrap().is_acquired());
    read.unlock().await.unwrap();
    assert_eq!(case.ask(&["HGETALL", &case.name]).await, "mode read java:1 2");
}

const READ_ACQUIRE: &str = support::lua!("read_write", "read/acquire");
const READ_RELEASE: &str = support::lua!("announce", "read_write", "read/release");
const WRITE_ACQUIRE: &str = support::lua!("read_write", "write/acquire");
const WRITE_RELEASE: &str = support::lua!("announce", "read_write", "write/release");

/// Rules 5 and 6, at script level: what each copy answers, and what its owner then has.
pub async fn late_and_repeated_copies_of_both_sides(case: Case) {
    let beside = ["w", "t", "absent"].map(|key| case.beside(key));
    let keys = [&case.name, &beside[0], &beside[1], &beside[2]].map(String::as_str);
    for (copies, text, when, args, status, count) in [
        (1, READ_ACQUIRE, LATE, "o 5000 0 o:write", "2", "nil"),
        (1, WRITE_ACQUIRE, LATE, "o:write 5000 0 2000", "2", "nil"),
        (3, READ_ACQUIRE, SOON, "o 5000 0 o:write", "1", "1"),
        (3, READ_ACQUIRE, SOON, "o 5000 1 o:write", "1", "2"),
        (1, READ_ACQUIRE, SOON, "o 5000 5 o:write", "5", "2"),
        (1, READ_RELEASE, LATE, "o 5000 2 PUBLISH c", "2", "2"),
        (3, READ_RELEASE, SOON, "o 5000 2 PUBLISH c", "1", "1"),
        (1, READ_RELEASE, SOON, "o 5000 1 PUBLISH c", "1", "nil"),
        (1, READ_RELEASE, SOON, "o 5000 1 PUBLISH c", "3", "nil"),
        (3, WRITE_ACQUIRE, SOON, "o:write 5000 0 0", "1", "1"),
        (3, WRITE_ACQUIRE, SOON, "o:write 5000 1 0", "1", "2"),
        (1, WRITE_RELEASE, LATE, "o:write 5000 2 PUBLISH c", "2", "2"),
        (3, WRITE_RELEASE, SOON, "o:write 5000 2 PUBLISH c", "1", "1"),
        (1, WRITE_RELEASE, SOON, "o:write 5000 1 PUBLISH c", "1", "nil"),
        (1, WRITE_RELEASE, SOON, "o:write 5000 1 PUBLISH c", "3", "nil"),
        (1, WRITE_ACQUIRE, SOON, "o:write 5000 1 0", "3", "nil"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        for _ in 0..copies {
            let answer = case.copy(text, when, &keys, &args).await;
            assert_eq!(answer.split(' ').next(), Some(status), "{args:?}");
            assert_eq!(case.ask(&["HGET", &case.name, args[0]]).await, count, "{args:?}");
            assert_eq!(case.is_free().await, count == "nil", "{args:?}");
        }
    }
}

pub async fn an_upgrade_is_refused_at_once(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let (read, write) = (reader(&lock, "o"), lock.write().owned_by(&named("o")));
    read.lock().await.unwrap();
    for _ in 0..2 {
        let names = |error: &LockError| error.may_hold() && error.to_string().contains("named-o");
        let refused = patient("no deadlock", write.lock()).await;
        assert_matches!(refused, Err(error @ LockError::Upgrade { .. }) if names(&error));
        assert!(matches!(write.try_lock().await, Err(LockError::Upgrade { .. })));
    }
    assert_eq!(read.hold_count().await.unwrap(), 1);
    read.unlock().await.unwrap();
    write.lock().await.unwrap();
    read.lock().await.unwrap();
    write.lock().await.unwrap();
    write.unlock().await.unwrap();
    write.unlock().await.unwrap();
    assert!(matches!(write.try_lock().await, Err(LockError::Upgrade { .. })));
    read.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// Its release comes before its owner's next acquisition, on the other side too.
pub async fn a_dropped_guard_is_no_upgrade(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let (read, write) = (reader(&lock, "o"), lock.write().owned_by(&named("o")));
    for _ in 0..20 {
        drop(read.guard().await.unwrap());
        let guard = write.acquire().wait(ms(0)).guard().await.unwrap().expect("its own read guard is gone");
        drop(guard);
        assert!(read.try_lock().await.unwrap().is_acquired());
        read.unlock().await.unwrap();
    }
    assert!(case.is_free().await);
}

pub async fn a_reader_whose_lease_ended_stops_counting(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (lock, other) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    let dead = reader(&lock, "dead").acquire().lease(ms(300)).guard().await.unwrap().unwrap();
    let alive = reader(&lock, "alive").acquire().lease(secs(60)).guard().await.unwrap().unwrap();
    sleep(ms(400)).await;
    assert_eq!(dead.state(), HoldState::Lost);
    assert_eq!(other.read().holders().await.unwrap().len(), 1);
    assert!(dead.unlock().await.is_err());
    alive.unlock().await.unwrap();
    assert!(case.is_free().await, "{}", case.ask(&["HGETALL", &case.name]).await);
    // The hash lives for the longest lease, its readers do not.
    case.ask(&["HSET", &case.name, "mode", "read", "java:1", "1", "java:2", "3"]).await;
    case.ask(&["PEXPIRE", &case.name, "600000"]).await;
    assert!(!other.read().is_locked().await.unwrap());
    assert!(!other.read().force_unlock().await.unwrap());
    assert!(!other.read().force_unlock_if("java:1").await.unwrap());
    assert!(other.write().try_lock().await.unwrap().is_acquired());
    let (field, ttl) = (format!("{}:", b.client_id()), case.pttl().await);
    assert!(case.ask(&["HGETALL", &case.name]).await.starts_with(&format!("mode write {field}")) && ttl <= 30_000);
    other.write().unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// The watchdog renews the keys of each hold, or Java would take the reader for dead.
pub async fn a_reader_is_renewed_with_its_keys(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let lock = locks.read_write_lock(&case.name);
    let read = reader(&lock, "o");
    read.lock().await.unwrap();
    let guard = read.guard().await.unwrap();
    sleep(ms(2500)).await;
    assert_eq!(guard.state(), HoldState::Held);
    for key in [hold_key(&case, &locks, "o", 1), hold_key(&case, &locks, "o", 2), case.name.clone()] {
        assert!(case.pttl_of(&key).await > 300, "{key}");
    }
    // Its keys gone, the reader is gone, though others keep the hash.
    case.ask(&["DEL", &hold_key(&case, &locks, "o", 1), &hold_key(&case, &locks, "o", 2)]).await;
    patient("the renewal is refused", guard.lost()).await;
}

/// 6.E.3.
pub async fn an_inner_read_release_never_shortens_the_write_lease(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let (read, write) = (reader(&lock, "o"), lock.write().owned_by(&named("o")));
    assert!(write.acquire().lease(secs(600)).await.unwrap().is_acquired());
    read.lock().await.unwrap();
    read.lock().await.unwrap();
    read.unlock().await.unwrap();
    assert!(case.pttl().await > 590_000);
    read.unlock().await.unwrap();
    assert!(case.pttl().await > 590_000);
    assert!(read.acquire().lease(secs(900)).await.unwrap().is_acquired());
    assert!(case.pttl().await > 890_000);
    write.unlock().await.unwrap();
    assert!(case.pttl().await > 890_000);
    read.unlock().await.unwrap();
    assert!(case.is_free().await);
}

/// The keys of one reader and the leases of its holds: the first one lasts as long as any.
pub async fn mixed_leases_of_a_reader(case: Case) {
    let locks = case.client().await;
    let lock = locks.read_write_lock(&case.name);
    let pttl = async |number| case.pttl_of(&hold_key(&case, &locks, "o", number)).await;
    let read = reader(&lock, "o");
    let short = read.acquire().lease(secs(5)).guard().await.unwrap().unwrap();
    let long = read.acquire().lease(secs(600)).guard().await.unwrap().unwrap();
    assert!(pttl(1).await > 590_000 && pttl(2).await > 590_000);
    long.unlock().await.unwrap();
    assert!(pttl(1).await > 590_000 && pttl(2).await == -2 && short.remaining() > secs(500));
    let shorter = read.acquire().lease(secs(2)).guard().await.unwrap().unwrap();
    assert!(pttl(1).await > 590_000 && pttl(2).await <= 2_000);
    shorter.set_lease(secs(3)).await.unwrap();
    assert!(pttl(1).await <= 3_000 && case.pttl().await <= 3_000);
    let other = reader(&lock, "other").acquire().lease(secs(100)).guard().await.unwrap().unwrap();
    short.set_lease(secs(4)).await.unwrap();
    assert!(pttl(1).await <= 4_000 && case.pttl().await > 90_000);
    unlock_all([shorter, short, other]).await;
    assert!(case.is_free().await);
}

pub async fn who_reads_and_who_writes(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (mine, other) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    assert!(other.read().holder().await.unwrap().is_none() && other.write().holder().await.unwrap().is_none());
    let write = mine.write().owned_by(&named("w"));
    write.lock().await.unwrap();
    let holder = other.write().holder().await.unwrap().unwrap();
    assert_eq!((holder.client.as_str(), &holder.owner, holder.count), (a.client_id(), &named("w"), 1));
    assert_eq!(holder.field(), format!("{}:named-w:write", a.client_id()));
    assert!(other.write().is_locked().await.unwrap() && !other.read().is_locked().await.unwrap());
    assert!(other.write().remaining_ttl().await.unwrap().unwrap() > secs(25));
    write.unlock().await.unwrap();
    for name in ["r1", "r2", "r3"] {
        reader(&mine, name).lock().await.unwrap();
    }
    let readers = other.read().holders().await.unwrap();
    let mut names: Vec<String> = readers.iter().map(|reader| reader.owner.to_string()).collect();
    names.sort();
    assert_eq!(names, ["named-r1", "named-r2", "named-r3"]);
    assert_eq!(reader(&mine, "r2").hold_count().await.unwrap(), 1);
    assert!(reader(&mine, "r2").is_held().await.unwrap() && !reader(&other, "r2").is_held().await.unwrap());
    assert!(!other.write().is_locked().await.unwrap());
    assert_eq!(mine.name(), case.name);
    for name in ["r1", "r2", "r3"] {
        reader(&mine, name).unlock().await.unwrap();
    }
}

/// 6.B.3b: `readLock().forceUnlock()` said false there, and ended the renewal of the write hold.
pub async fn force_unlock_is_for_its_side(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (mine, other) = (a.read_write_lock(&case.name), b.read_write_lock(&case.name));
    let writer = mine.write().owned_by(&named("w"));
    let guard = writer.guard().await.unwrap();
    let nested = reader(&mine, "w").guard().await.unwrap();
    assert!(!other.read().force_unlock().await.unwrap());
    guard.verify().await.unwrap();
    nested.verify().await.unwrap();
    let field = other.write().holder().await.unwrap().unwrap().field().to_owned();
    assert!(!other.write().force_unlock_if("somebody:else").await.unwrap());
    assert!(other.write().force_unlock_if(&field).await.unwrap());
    assert!(guard.verify().await.is_err());
    nested.verify().await.unwrap();
    let second = reader(&mine, "second").guard().await.unwrap();
    assert!(!other.write().force_unlock().await.unwrap());
    let field = format!("{}:named-w", a.client_id());
    assert!(other.read().force_unlock_if(&field).await.unwrap());
    assert!(nested.verify().await.is_err());
    second.verify().await.unwrap();
    assert!(other.read().force_unlock().await.unwrap());
    assert!(second.verify().await.is_err());
    assert!(case.is_free().await && case.ask(&["EXISTS", &hold_key(&case, &a, "second", 1)]).await == "0");
}

/// Redisson looks for the wrong field there, so a transaction waits for its own write hold.
pub async fn transactions_read_what_they_write(case: Case) {
    let locks = case.client().await;
    let lock = locks.read_write_lock(&case.name);
    let task = named("task");
    let side = |id: &str| {
        let (read, write) = (lock.read().owned_by(&task), lock.write().owned_by(&task));
        (read.in_transaction(id).unwrap(), write.in_transaction(id).unwrap())
    };
    let ((read, write), (other_read, other_write)) = (side("a1"), side("b2"));
    write.lock().await.unwrap();
    let client = locks.client_id();
    assert_eq!(case.ask(&["HKEYS", &case.name]).await, format!("mode {client}:named-task:write:a1"));
    assert!(patient("its own write hold", read.try_lock()).await.unwrap().is_acquired());
    assert_eq!((other_read.try_lock().await, other_write.try_lock().await), (Ok(Busy), Ok(Busy)));
    assert_eq!(write.holder().await.unwrap().unwrap().owner.as_str(), "named-task:a1");
    write.unlock().await.unwrap();
    assert!(other_read.try_lock().await.unwrap().is_acquired());
    read.unlock().await.unwrap();
    other_read.unlock().await.unwrap();
    assert!(case.is_free().await);
}

pub async fn another_kinds_lock_keeps_both_out(case: Case) {
    let locks = case.client().await;
    let lock = locks.read_write_lock(&case.name);
    let plain = locks.lock(&case.name).guard().await.unwrap();
    assert_eq!((lock.read().try_lock().await, lock.write().try_lock().await), (Ok(Busy), Ok(Busy)));
    plain.unlock().await.unwrap();
    assert!(lock.read().try_lock().await.unwrap().is_acquired());
    assert!(!locks.lock(&case.name).owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
    lock.read().unlock().await.unwrap();
}
