//! Waiters are woken, not polling; and when a message is lost they still come (issue 3, "It must show" 5; PROTOCOL
//! rules 15 and 16).

mod sites;
mod support;

use std::cell::Cell;
use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::join_all;
use lockson::{Builder, Locks};
use sites::{begin, drive, expect, fresh_name, give_up_after, load_scripts, turn, Own, Site};
use support::{eventually, patient, seed, soak, Raw, Rng, Server};

/// Lease and cap where nothing but a message may wake a waiter in time.
const LONG: Duration = Duration::from_secs(60);
/// "Long before one cap": a twelfth of it, for a busy machine. It takes milliseconds.
const SOON: Duration = Duration::from_secs(5);
/// The cap where messages are lost.
const CAP: Duration = Duration::from_millis(200);
/// What a machine with two busy cores may add to a cap and a round trip.
const NOISE: Duration = Duration::from_millis(400);

fn sleepy() -> Builder {
    Locks::builder().watchdog_lease(LONG).wait_cap(LONG)
}

fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// How long a future takes.
async fn timed<F: Future>(future: F) -> (F::Output, Duration) {
    let began = Instant::now();
    let output = future.await;
    (output, began.elapsed())
}

/// A lock that goes to and fro between two clients.
struct Shuttle {
    owns: [Own; 2],
    holder: Cell<usize>,
    worst: Cell<Duration>,
}

impl Shuttle {
    fn new(a: &Locks, b: &Locks) -> Shuttle {
        let name = fresh_name();
        let owns = [Own::new(a, &name), Own::new(b, &name)];
        Shuttle { owns, holder: Cell::new(0), worst: Cell::default() }
    }

    /// The one gives back what the other waits for.
    async fn hand_over(&self, rng: &mut Rng) -> Result<usize, String> {
        let (from, to) = (&self.owns[self.holder.get()], &self.owns[1 - self.holder.get()]);
        let delay = Duration::from_millis(rng.below(4));
        let release = async {
            tokio::time::sleep(delay).await;
            (from.lock.unlock().await, Instant::now())
        };
        let take = async { (patient("a hand-over", to.lock.lock()).await, Instant::now()) };
        let ((given, given_at), (taken, taken_at)) = tokio::join!(release, take);
        expect("unlock", given, Ok(()))?;
        expect("lock", taken, Ok(()))?;
        self.holder.set(1 - self.holder.get());
        let took = taken_at.saturating_duration_since(given_at);
        self.worst.set(self.worst.get().max(took));
        expect(&format!("{took:?} is soon"), took < SOON, true)?;
        Ok(1)
    }
}

fn scripts(server: &Server) -> u64 {
    server.calls("evalsha") + server.calls("eval")
}

/// 1,000 hand-overs between two clients with lease and cap at 60 s: each takes far less than a cap, with one script of
/// the one that unlocks and at most three of the one that waits (item 5; rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_woken() {
    let _turn = turn().await;
    let (server, asked) = (Server::start(), soak(1000));
    load_scripts(&server).await;
    let url = server.url();
    let (a, b) = (sleepy().connect(&url).await.unwrap(), sleepy().connect(&url).await.unwrap());
    let shuttles: Vec<Shuttle> = (0..10).map(|_| Shuttle::new(&a, &b)).collect();
    for shuttle in &shuttles {
        shuttle.owns[0].lock_times(1).await;
    }
    server.reset_stats();
    let handed_over = Cell::new(0);
    let case = async |shuttle: &Shuttle, _: usize, rng: &mut Rng| {
        handed_over.set(handed_over.get() + 1);
        shuttle.hand_over(rng).await
    };
    drive("hand-overs between clients", asked, seed(), &shuttles, case).await;
    let (count, calls) = (handed_over.get(), scripts(&server));
    let worst = shuttles.iter().map(|shuttle| shuttle.worst.get()).max();
    println!("hand-overs between clients: {calls} scripts for {count}, worst {worst:?}");
    assert!(calls <= count + 3 * count, "{calls} scripts for {count} hand-overs");
}

/// The same, one at a time, so that the scripts of each single waiter are counted (item 5; rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_waiter_sends_more_than_three_scripts() {
    let _turn = turn().await;
    let server = Server::start();
    load_scripts(&server).await;
    let url = server.url();
    let (a, b) = (sleepy().connect(&url).await.unwrap(), sleepy().connect(&url).await.unwrap());
    let shuttle = Shuttle::new(&a, &b);
    shuttle.owns[0].lock_times(1).await;
    let (most, total) = (Cell::new(0), Cell::new(0));
    let case = async |shuttle: &Shuttle, _: usize, rng: &mut Rng| {
        server.reset_stats();
        let done = shuttle.hand_over(rng).await?;
        // One of them is the unlock.
        let calls = scripts(&server) - 1;
        most.set(most.get().max(calls));
        total.set(total.get() + calls);
        expect("at most 3 scripts", calls.max(3), 3)?;
        Ok(done)
    };
    drive("single hand-overs", soak(1000), seed(), &[shuttle], case).await;
    println!("single hand-overs: {} scripts of waiters in all, at most {}", total.get(), most.get());
}

/// A waiter whose message is lost comes by itself.
async fn unheard(site: &Site, direct: &Locks, worst: &Cell<Duration>) -> Result<usize, String> {
    let mine: Vec<(Own, Own)> = (0..20)
        .map(|_| {
            let waiter = Own::fresh(&site.locks);
            (Own::new(direct, &waiter.name), waiter)
        })
        .collect();
    let (_, round_trip) = timed(site.locks.lock("probe").is_locked()).await;
    let cases = mine.iter().map(|(holder, waiter)| async move {
        holder.lock_times(1).await;
        let release = async {
            let listens = || site.listens(waiter);
            eventually(Duration::from_secs(20), "the waiter listens", listens).await;
            let answer = holder.lock.unlock().await;
            (answer, Instant::now())
        };
        let take = async { (patient("a waiter without its message", waiter.lock.lock()).await, Instant::now()) };
        let ((given, given_at), (taken, taken_at)) = tokio::join!(release, take);
        expect("unlock", given, Ok(()))?;
        expect("lock", taken, Ok(()))?;
        let took = taken_at.saturating_duration_since(given_at);
        worst.set(worst.get().max(took));
        let limit = CAP + round_trip + NOISE;
        expect(&format!("{took:?} is within {limit:?}"), took <= limit, true)?;
        waiter.unlock_times(1).await?;
        Ok::<_, String>(1)
    });
    Ok(join_all(cases).await.into_iter().collect::<Result<Vec<_>, _>>()?.len())
}

impl Site {
    async fn listens(&self, own: &Own) -> bool {
        self.subscribers(&channel(&own.name)).await > 0
    }
}

/// 1,000 of 1,000 waiters whose message is lost get the lock within the cap (200 ms) and a round trip (item 5; rule
/// 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_costs_one_cap() {
    let _turn = turn().await;
    let (server, asked) = (Server::start(), soak(1000));
    load_scripts(&server).await;
    let direct = Locks::connect(&server.url()).await.unwrap();
    let sites = Site::many(&server, 5, Locks::builder().wait_cap(CAP)).await;
    sites.iter().for_each(|site| site.proxy.swallow_messages(true));
    let worst = Cell::default();
    let case = async |site: &Site, _: usize, _: &mut Rng| unheard(site, &direct, &worst).await;
    drive("messages lost", asked, seed(), &sites, case).await;
    let swallowed: usize = sites.iter().map(|site| site.proxy.counts().swallowed).sum();
    println!("messages lost: {swallowed} swallowed, worst {:?}, cap {CAP:?}", worst.get());
    assert!(swallowed >= asked, "only {swallowed} messages were lost");
}

/// Two waiters of one client and one of another; the head of the first is woken by the release and goes away at one of
/// its next polls, or does not. The others get the lock long before a cap.
async fn woken_in_vain(pair: &(Locks, Locks, Locks), rng: &mut Rng) -> Result<usize, String> {
    let (a, b, c) = pair;
    let name = fresh_name();
    let (holder, first) = (Own::new(a, &name), Own::new(b, &name));
    let others = [Own::new(b, &name), Own::new(c, &name), Own::new(b, &name)];
    holder.lock_times(1).await;
    let mut head = Box::pin(first.lock.lock());
    expect("it waits", begin(&mut head).await, true)?;
    // Time enough to be asleep, mostly; the other orders are welcome too.
    let (early, late) = (Duration::from_millis(rng.below(6)), rng.below(4) as usize);
    let leaves = async {
        if tokio::time::timeout(early, &mut head).await.is_err() {
            let _ = patient("the head", give_up_after(late, head)).await;
        }
        // Had it got the lock, it gives it back.
        let _ = first.lock.unlock().await;
    };
    let release = async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        holder.unlock_times(1).await
    };
    let served = others.iter().map(|own| async move {
        let (taken, took) = timed(patient("a waiter behind", own.lock.lock())).await;
        expect("lock", taken, Ok(()))?;
        own.unlock_times(1).await?;
        expect(&format!("{took:?} is soon"), took < SOON, true)
    });
    let ((), released, served) = tokio::join!(leaves, release, join_all(served));
    released?;
    served.into_iter().collect::<Result<Vec<()>, String>>()?;
    Ok(1)
}

/// A woken waiter that gives up passes the wake-up on: with a cap of 60 s, 1,000 times (item 5; rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_is_passed_on() {
    let _turn = turn().await;
    let server = Server::start();
    load_scripts(&server).await;
    let mut trios = Vec::new();
    for _ in 0..4 {
        let url = server.url();
        let connect = || sleepy().connect(&url);
        trios.push((connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap()));
    }
    let case = async |trio: &(Locks, Locks, Locks), _: usize, rng: &mut Rng| woken_in_vain(trio, rng).await;
    drive("woken waiters that leave", soak(1000), seed(), &trios, case).await;
}

/// How the subscriptions of a client break while locks are given back.
#[derive(Clone, Copy)]
enum Break {
    /// The server ends the connection of every subscriber.
    Kill,
    /// All connections of the client end, and it gets no new one until the locks are given back.
    Refuse,
}

/// Waiters at one site whose messages fall into a gap.
async fn gap(site: &Site, direct: &Locks, raw: &mut Raw, how: Break) -> Result<usize, String> {
    let names: Vec<String> = (0..25).map(|_| fresh_name()).collect();
    let holders: Vec<Own> = names.iter().map(|name| Own::new(direct, name)).collect();
    join_all(holders.iter().map(|own| own.lock_times(1))).await;
    let waiters: Vec<Own> =
        names.iter().flat_map(|name| [name, name]).map(|name| Own::new(&site.locks, name)).collect();
    let waiting = waiters.iter().map(|own| async move {
        expect("lock", patient("a waiter after the gap", own.lock.lock()).await, Ok(()))?;
        let at = Instant::now();
        own.unlock_times(1).await?;
        Ok::<_, String>(at)
    });
    let release = async {
        for own in &holders {
            let listens = || site.listens(own);
            eventually(Duration::from_secs(20), "the waiters listen", listens).await;
        }
        let began = Instant::now();
        match how {
            Break::Kill => drop(raw.must(&["CLIENT", "KILL", "TYPE", "pubsub"]).await),
            Break::Refuse => site.proxy.refuse(true),
        }
        let given = join_all(holders.iter().map(|own| own.unlock_times(1))).await;
        site.proxy.refuse(false);
        given.into_iter().collect::<Result<Vec<()>, String>>().map(|_| began)
    };
    let (waited, began) = tokio::join!(join_all(waiting), release);
    let began = began?;
    for at in waited {
        let took = at?.saturating_duration_since(began);
        expect(&format!("{took:?} is soon"), took < SOON, true)?;
    }
    Ok(waiters.len())
}

/// A gap in the subscriptions wakes every waiter long before the cap of 60 s (item 5; rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_wakes_every_waiter() {
    let _turn = turn().await;
    let server = Server::start();
    load_scripts(&server).await;
    let direct = Locks::connect(&server.url()).await.unwrap();
    for (how, label) in [(Break::Kill, "gap by CLIENT KILL"), (Break::Refuse, "gap by lost connections")] {
        let sites = Site::many(&server, 2, sleepy()).await;
        let case = async |site: &Site, _: usize, _: &mut Rng| {
            let mut raw = server.raw().await;
            gap(site, &direct, &mut raw, how).await
        };
        drive(label, soak(1000), seed(), &sites, case).await;
    }
}
