//! Readers of one process who wait together come in together. Rules 16 and 18.

use std::task::Poll;

use lockson::ReadWriteLock;
use support::kinds::text;

use crate::contract::read_write::{named, reader};
use crate::contract::read_write_waits::until_a_writer_waits;
use crate::contract::world::*;

const READERS: usize = 50;

/// A client whose scripts are counted.
struct Counted {
    client: Locks,
    way: Way,
}

impl Counted {
    async fn new(case: &Case) -> Counted {
        // Nobody looks before it is told.
        let slow = Locks::builder().wait_cap(secs(60));
        let way = Way::new(case);
        if way.0.is_some() {
            for verb in ["acquire", "admit"] {
                case.ask(&["SCRIPT", "LOAD", &text("read", verb)]).await;
            }
        }
        Counted { client: way.client(case, slow).await, way }
    }

    /// Scripts that take read holds, of this client; on the embedded server all scripts.
    fn asked(&self, case: &Case) -> usize {
        if let Some(calls) = case.calls() {
            return calls as usize;
        }
        let read = KINDS.iter().find(|kind| kind.name == "read").unwrap();
        let of =
            |verb| self.way.proxies().map(|proxy| proxy.requests(read.script(verb).with(&case.name))).sum::<usize>();
        of("acquire") + of("admit")
    }
}

/// Readers with owners of their own, `r0` and so on, of whom each stands in the line.
async fn waiting(lock: &ReadWriteLock, count: usize) -> Vec<JoinHandle<Guard>> {
    let mut readers = Vec::new();
    for number in 0..count {
        let read = reader(lock, &format!("r{number}"));
        readers.push(begun(async move { read.guard_with(lease_of(number)).await.unwrap().unwrap() }).await);
    }
    readers
}

/// The watchdog's for the first, then leases of 60 s and more.
fn lease_of(number: usize) -> Request {
    match number {
        0 => Request::default(),
        _ => Request::default().lease(secs(span(number))),
    }
}

/// In seconds; of the first ten each has another.
fn span(number: usize) -> u64 {
    30 + 30 * (number as u64 % 10)
}

async fn give_back(case: &Case, guards: Vec<Guard>) {
    unlock_all(guards).await;
    assert!(case.is_free().await);
}

/// One of them asks while they wait, none behind a writer of their own client; once in, its script takes others along.
pub async fn readers_that_wait_together_come_in_together(case: Case) {
    for (readers, is_own, most) in [(READERS, false, (3, 4)), (250, false, (3, 6)), (READERS, true, (0, 4))] {
        let (counted, other) = (Counted::new(&case).await, case.client().await);
        let lock = counted.client.read_write_lock(&case.name);
        let write = if is_own { lock.write() } else { other.read_write_lock(&case.name).write() };
        let writer = write.owned_by(&named("w")).guard().await.unwrap();
        let before = counted.asked(&case);
        let tasks = waiting(&lock, readers).await;
        if !is_own {
            case.until_waiting(&counted.client).await;
        }
        sleep(ms(300)).await;
        let waiting = counted.asked(&case) - before;
        writer.unlock().await.unwrap();
        let guards = patient_all("a reader", tasks).await;
        let asked = counted.asked(&case) - before - waiting;
        println!("{readers} readers: {waiting} scripts while they waited, {asked} to come in");
        assert!(waiting <= most.0, "{waiting} scripts while {readers} waited");
        assert!(asked <= most.1, "{asked} scripts to come in");
        assert_eq!(lock.read().holders().await.unwrap().len(), readers);
        give_back(&case, guards).await;
    }
}

/// The writer goes on reading as it lets them in.
pub async fn readers_behind_a_downgrade(case: Case) {
    let counted = Counted::new(&case).await;
    for client in [case.client().await, counted.client.clone()] {
        let lock = client.read_write_lock(&case.name);
        let write = lock.write().owned_by(&named("w")).guard().await.unwrap();
        let read = reader(&lock, "w").guard().await.unwrap();
        let before = counted.asked(&case);
        let tasks = waiting(&counted.client.read_write_lock(&case.name), READERS).await;
        sleep(ms(300)).await;
        write.unlock().await.unwrap();
        let guards = patient_all("a reader", tasks).await;
        let asked = counted.asked(&case) - before;
        assert!(asked <= 6, "{asked} scripts to wait and to come in");
        read.verify().await.unwrap();
        unlock_all(guards).await;
        give_back(&case, vec![read]).await;
    }
}

/// A writer of another process that waits goes before all of them.
pub async fn readers_behind_a_writer_that_goes_first(case: Case) {
    let counted = Counted::new(&case).await;
    let lock = counted.client.read_write_lock(&case.name);
    let inside = reader(&lock, "inside").guard().await.unwrap();
    let write = case.client().await.read_write_lock(&case.name).write();
    let writer = begun(async move { write.guard().await.unwrap() }).await;
    until_a_writer_waits(&case).await;
    let tasks = waiting(&lock, READERS).await;
    case.until_waiting(&counted.client).await;
    sleep(ms(300)).await;
    inside.unlock().await.unwrap();
    let writer = patient("the writer", writer).await.unwrap();
    assert_eq!(lock.read().holders().await.unwrap().len(), 0);
    let before = counted.asked(&case);
    writer.unlock().await.unwrap();
    let guards = patient_all("a reader", tasks).await;
    let asked = counted.asked(&case) - before;
    assert!(asked <= 4, "{asked} scripts to come in");
    give_back(&case, guards).await;
}

/// All that is on the server for a name, without the name, and whether each lease is the one of its reader.
async fn stored(case: &Case, name: &str, readers: usize, client: &Locks) -> Vec<String> {
    let mut all: Vec<String> = case.ask(&["HGETALL", name]).await.split(' ').map(str::to_owned).collect();
    all.sort();
    for number in 0..readers {
        for hold in 1..=2 {
            let key = format!("{{{name}}}:{}:named-r{number}:rwlock_timeout:{hold}", client.client_id());
            let left = case.pttl_of(&key).await;
            let lease = span(number) as i64 * 1000;
            let whole = (lease - 15_000..=lease).contains(&left);
            all.push(format!("r{number} {hold}: {}, whole {whole}", case.ask(&["GET", &key]).await));
        }
    }
    let (longest, left) = (span(readers - 1) as i64 * 1000, case.ask(&["PTTL", name]).await);
    all.push(format!("hash: whole {}", (longest - 15_000..=longest).contains(&left.parse().unwrap())));
    all
}

/// Redisson's fields and keys, each with its own lease; each is given back by itself, and may be entered again.
pub async fn each_of_them_holds_as_if_it_came_alone(case: Case) {
    const FEW: usize = 8;
    let (client, other) = (case.client().await, case.client().await);
    let alone = client.read_write_lock(&format!("{}-alone", case.name));
    let mut singles = Vec::new();
    for number in 0..FEW {
        let read = reader(&alone, &format!("r{number}"));
        singles.push(read.guard_with(lease_of(number)).await.unwrap().unwrap());
    }
    let writer = other.read_write_lock(&case.name).write().guard().await.unwrap();
    let lock = client.read_write_lock(&case.name);
    let tasks = waiting(&lock, FEW).await;
    case.until_waiting(&client).await;
    writer.unlock().await.unwrap();
    let mut guards = patient_all("a reader", tasks).await;
    let expected = stored(&case, alone.name(), FEW, &client).await;
    assert_eq!(stored(&case, &case.name, FEW, &client).await, expected);
    assert_eq!(expected.iter().filter(|line| line.contains("1: 1, whole true")).count(), FEW, "{expected:?}");
    for (number, guard) in guards.iter().enumerate() {
        let lease = span(number);
        assert!(guard.remaining() <= secs(lease) && guard.remaining() > secs(lease - 15), "{number}");
        guard.verify().await.unwrap();
    }
    let again = reader(&lock, "r5");
    again.lock().await.unwrap();
    assert_eq!(again.hold_count().await.unwrap(), 2);
    again.unlock().await.unwrap();
    for left in (0..FEW).rev() {
        guards.remove(left / 2).unlock().await.unwrap();
        assert_eq!(lock.read().holders().await.unwrap().len(), left);
    }
    give_back(&case, singles).await;
    let keys = (0..FEW).map(|n| format!("{{{}}}:{}:named-r{n}:rwlock_timeout:1", case.name, client.client_id()));
    let keys: Vec<String> = keys.collect();
    let exist: Vec<&str> = std::iter::once("EXISTS").chain(keys.iter().map(String::as_str)).collect();
    assert_eq!(case.ask(&exist).await, "0");
}

/// They are dropped when the server has let them in, and before they know.
pub async fn those_that_go_away_meanwhile_leave_nothing(case: Case) {
    const FEW: usize = 10;
    let counted = Counted::new(&case).await;
    let writer = case.client().await.read_write_lock(&case.name).write().guard().await.unwrap();
    let mut tasks = waiting(&counted.client.read_write_lock(&case.name), FEW).await;
    case.until_waiting(&counted.client).await;
    match &case.world {
        World::Embedded(server) => server.inject(lockson::Faults::seeded(7).delay(ms(200))),
        World::Real(_) => counted.way.proxies().for_each(|proxy| proxy.delay_replies(ms(200))),
    }
    writer.unlock().await.unwrap();
    eventually(secs(20), "they are let in", async || case.ask(&["HLEN", &case.name]).await == (FEW + 1).to_string())
        .await;
    for task in tasks.split_off(FEW / 2) {
        task.abort();
        // One that ended before gives its guard back here.
        drop(task.await);
    }
    let guards = patient_all("a reader", tasks).await;
    eventually(secs(20), "what the others had is given back", async || {
        case.ask(&["HLEN", &case.name]).await == (FEW / 2 + 1).to_string()
    })
    .await;
    for guard in &guards {
        guard.verify().await.unwrap();
    }
    give_back(&case, guards).await;
}

/// A future that is not polled is let in too, and when its lease has ended the line goes on without it.
pub async fn one_that_does_not_look_stands_in_nobodys_way(case: Case) {
    let (client, other) = (case.client().await, case.client().await);
    let lock = client.read_write_lock(&case.name);
    let writer = other.read_write_lock(&case.name).write().guard().await.unwrap();
    let first = waiting(&lock, 1).await;
    case.until_waiting(&client).await;
    let unpolled = reader(&lock, "unpolled");
    let mut unpolled = Box::pin(unpolled.guard_with(Request::default().lease(ms(500))));
    assert!(futures::poll!(&mut unpolled).is_pending());
    let write = lock.write().owned_by(&named("w"));
    let behind = begun(async move { write.guard().await.unwrap() }).await;
    writer.unlock().await.unwrap();
    let guards = patient_all("a reader", first).await;
    eventually(secs(20), "it is let in", async || lock.read().holders().await.unwrap().len() >= 2).await;
    drop(guards);
    let writer = patient("the writer behind it", behind).await.unwrap();
    give_back(&case, vec![writer]).await;
    drop(unpolled);
}

/// While readers are inside, nobody waits for one that began to ask and is not polled.
pub async fn one_that_does_not_ask_on_keeps_no_reader_out(case: Case) {
    let lock = case.client().await.read_write_lock(&case.name);
    let inside = reader(&lock, "inside").guard().await.unwrap();
    let unpolled = reader(&lock, "unpolled");
    let mut unpolled = Box::pin(unpolled.guard());
    let early = futures::poll!(&mut unpolled);
    let late = patient("one who comes behind it", reader(&lock, "late").guard()).await.unwrap();
    let unpolled = match early {
        Poll::Ready(guard) => guard.unwrap(),
        Poll::Pending => patient("it goes on", unpolled).await.unwrap(),
    };
    give_back(&case, vec![inside, late, unpolled]).await;
}

/// A future whose owner got in elsewhere is one hold more, not a part of what others are given.
pub async fn an_owner_that_is_in_already_enters_once_more(case: Case) {
    let client = case.sleepy_client().await;
    let lock = client.read_write_lock(&case.name);
    let writer = case.client().await.read_write_lock(&case.name).write().guard().await.unwrap();
    let (one, two) = (reader(&lock, "one"), reader(&lock, "two"));
    let mut waits = Box::pin(one.guard());
    // It asks, listens, asks again, and then sleeps.
    assert!(tokio::time::timeout(secs(2), &mut waits).await.is_err());
    writer.unlock().await.unwrap();
    assert!(one.try_lock().await.unwrap().is_acquired() && two.try_lock().await.unwrap().is_acquired());
    // Time for what the second would take along.
    sleep(ms(50)).await;
    let guard = patient("the re-entry", waits).await.unwrap();
    let field = format!("{}:named-one", client.client_id());
    assert_eq!(case.ask(&["HGET", &case.name, &field]).await, "2");
    one.unlock().await.unwrap();
    two.unlock().await.unwrap();
    give_back(&case, vec![guard]).await;
}

/// The line is kept: who stands behind a writer of the process comes after it.
pub async fn a_writer_between_readers_parts_them(case: Case) {
    let (client, other) = (case.client().await, case.client().await);
    let lock = client.read_write_lock(&case.name);
    let holder = other.read_write_lock(&case.name).write().guard().await.unwrap();
    let front = waiting(&lock, 5).await;
    let write = lock.write().owned_by(&named("w"));
    let write = begun(async move { write.guard().await.unwrap() }).await;
    let behind: Vec<_> = (0..5).map(|_| lock.read().owned_by(&Owner::unique())).collect();
    let mut waits: Vec<_> = behind.iter().map(|read| Box::pin(read.guard())).collect();
    for wait in &mut waits {
        assert!(futures::poll!(wait).is_pending());
    }
    case.until_waiting(&client).await;
    holder.unlock().await.unwrap();
    let front = patient_all("a reader", front).await;
    sleep(ms(50)).await;
    assert_eq!(lock.read().holders().await.unwrap().len(), 5, "those before the writer, and no more");
    unlock_all(front).await;
    let writer = patient("the writer", write).await.unwrap();
    assert_eq!(lock.read().holders().await.unwrap().len(), 0);
    writer.unlock().await.unwrap();
    let guards = patient("those behind it", futures::future::join_all(waits)).await;
    give_back(&case, guards.into_iter().map(Result::unwrap).collect()).await;
}

const ADMIT: &str = support::lua!("read_write", "read/admit");

/// One copy for these owners: what it says of each, or its status.
async fn admit(case: &Case, when: i64, owners: &[&str]) -> String {
    let [writers, turn] = ["writers", "readers_turn"].map(|key| format!("lockson:{key}:{{{}}}", case.name));
    let args: Vec<&str> = owners.iter().flat_map(|owner| [*owner, "5000"]).collect();
    let answer = case.copy(ADMIT, when, &[&case.name, &writers, &turn, &case.beside("absent")], &args).await;
    match answer.split_once(' ') {
        Some(("1", rest)) => rest.to_owned(),
        _ => format!("status {}", answer.split(' ').next().unwrap()),
    }
}

/// What keeps one reader out keeps all out, but for those who are in by an earlier copy.
pub async fn whom_one_script_lets_in(case: Case) {
    let writers = format!("lockson:writers:{{{}}}", case.name);
    assert_eq!(admit(&case, SOON, &["a", "b", "c"]).await, "1 1 1");
    case.ask(&["ZADD", &writers, &(case.time().await + 600_000).to_string(), "w"]).await;
    assert_eq!(admit(&case, SOON, &["a", "d", "b"]).await, "1 0 1", "a writer goes first");
    case.ask(&["SET", &format!("lockson:readers_turn:{{{}}}", case.name), "1", "PX", "60000"]).await;
    assert_eq!(admit(&case, SOON, &["a", "d"]).await, "1 1", "readers have their turn");
    case.ask(&["DEL", &writers]).await;
    case.ask(&["HSET", &case.name, "a", "7"]).await;
    assert_eq!(admit(&case, SOON, &["a", "e"]).await, "0 1", "one bad count is one's own");
    // Leases that ended: the field counts no more.
    case.ask(&["HSET", &case.name, "dead", "1"]).await;
    assert_eq!(admit(&case, SOON, &["dead"]).await, "1");
    assert_eq!(case.ask(&["EXISTS", &format!("{{{}}}:dead:rwlock_timeout:1", case.name)]).await, "1");
    for other in [["mode", "write", "x:write", "1"], ["java:1", "1", "java:2", "1"]] {
        case.ask(&["DEL", &case.name]).await;
        case.ask(&[&["HSET", &case.name], &other[..]].concat()).await;
        assert_eq!(admit(&case, SOON, &["f", "g"]).await, "0 0");
        assert_eq!(case.ask(&["HLEN", &case.name]).await, (other.len() / 2).to_string());
    }
    case.ask(&["DEL", &case.name]).await;
    case.ask(&["SET", &case.name, "text"]).await;
    assert_eq!(admit(&case, SOON, &["a"]).await, "status 4");
}

/// Rules 5 and 6, at script level.
pub async fn copies_of_an_admission(case: Case) {
    assert_eq!(admit(&case, LATE, &["a", "b"]).await, "status 2");
    assert!(case.is_free().await);
    for _ in 0..3 {
        assert_eq!(admit(&case, SOON, &["a", "b"]).await, "1 1");
        assert_eq!(case.ask(&["HGETALL", &case.name]).await, "mode read a 1 b 1");
    }
    let key = format!("{{{}}}:a:rwlock_timeout:1", case.name);
    case.ask(&["PEXPIRE", &key, "60000"]).await;
    case.ask(&["PEXPIRE", &case.name, "60000"]).await;
    assert_eq!(admit(&case, SOON, &["a", "b"]).await, "1 1");
    let left = |text: String| text.parse::<i64>().unwrap();
    let least = secs(30).as_millis() as i64;
    assert!(left(case.ask(&["PTTL", &key]).await) > least && case.pttl().await > least, "leases only grow");
}
