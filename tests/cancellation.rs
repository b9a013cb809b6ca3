//! Futures that are dropped half-way leave nothing behind, of any kind of lock (PROTOCOL rule 7).

use support::prelude::*;
use support::sites::*;
use tokio::sync::Mutex;

/// The short run repeats each poll so many times less.
const SHORT: usize = 20;
/// What is promised, besides two round trips.
const PROMISED: Duration = ms(100);
/// What a machine with two busy cores may add; on the embedded server it is nothing.
const NOISE: Duration = secs(2);
/// What the crate keeps a subscription for after its last user.
const LINGER: Duration = secs(5);

/// Nobody is saved by polling: the cap is longer than any test. And what a busy machine is late with is not sent again:
/// an unlock whose first copy was not answered in time can't tell who gave the lock back.
fn builder() -> Builder {
    Locks::builder().wait_cap(secs(60)).command_timeout(secs(5))
}

/// A server of either kind, as the tests look at it.
enum Sight {
    Real(Mutex<Raw>),
    Embedded(lockson::EmbeddedServer),
}

impl Sight {
    /// Whether anything is left of any of these.
    async fn exist(&self, owns: &[&Own]) -> bool {
        match self {
            Sight::Real(raw) => exist(&mut *raw.lock().await, owns).await,
            Sight::Embedded(server) => {
                let keys = keys(owns);
                let command: Vec<&str> = std::iter::once("EXISTS").chain(keys.iter().map(String::as_str)).collect();
                server.command(&command) != Ok(lockson::Reply::Int(0))
            }
        }
    }
}

/// Two clients of one server, for one kind of lock.
struct Pair {
    kind: &'static Kind,
    a: Locks,
    b: Locks,
    sight: Sight,
    worst: Cell<Duration>,
}

impl Pair {
    async fn real(server: &Server, kind: &'static Kind) -> Pair {
        let url = server.url();
        let (a, b) = (builder().connect(&url).await.unwrap(), builder().connect(&url).await.unwrap());
        Pair { kind, a, b, sight: Sight::Real(Mutex::new(server.raw().await)), worst: Cell::default() }
    }

    fn embedded(kind: &'static Kind) -> Pair {
        let server = lockson::EmbeddedServer::new();
        let connect = || server.connect_with(builder()).unwrap();
        Pair { kind, a: connect(), b: connect(), sight: Sight::Embedded(server), worst: Cell::default() }
    }

    fn own(&self) -> Own {
        Own::fresh(self.kind, &self.a)
    }

    /// A round trip of client a at this moment.
    async fn round_trip(&self) -> Duration {
        let began = Instant::now();
        self.a.lock("probe").is_locked().await.unwrap();
        began.elapsed()
    }

    /// Nothing is left in time. On the embedded server, where time is the test's, that is to the millisecond.
    async fn gone(&self, owns: &[&Own], round_trip: Duration) -> Result<(), String> {
        if !matches!(self.sight, Sight::Real(_)) {
            sleep(PROMISED).await;
            return expect("a key is there", self.sight.exist(owns).await, false);
        }
        let limit = PROMISED + 2 * round_trip + NOISE;
        let gone = time_until(limit, || async { !self.sight.exist(owns).await }).await;
        let took = gone.ok_or_else(|| format!("a key is there after {limit:?}: {:?}", keys(owns)))?;
        self.worst.set(self.worst.get().max(took));
        Ok(())
    }

    fn subscriptions(&self) -> usize {
        self.a.health().subscriptions + self.b.health().subscriptions
    }
}

/// Runs a test for every kind on one real server, with eight pairs each. After the linger no subscription is left.
async fn every_kinds_pairs(test: impl AsyncFn(&'static Kind, &[Pair])) {
    let all = Mutex::new(Vec::new());
    let server = every_kind_at_a_server(async |server, kind| {
        let pairs = join_all((0..8).map(|_| Pair::real(server, kind))).await;
        test(kind, &pairs).await;
        all.lock().await.extend(pairs);
    })
    .await;
    let mut raw = server.raw().await;
    // Two seconds for a busy machine.
    eventually(LINGER + secs(2), "no subscription is left", async || {
        all.lock().await.iter().all(|pair| pair.subscriptions() == 0)
            && raw.must(&["PUBSUB", "CHANNELS"]).await.list().is_empty()
    })
    .await;
}

/// Drops a future at a random point: after some polls, or after some time.
async fn give_up<F: Future>(rng: &mut Rng, future: F) -> Option<F::Output> {
    if rng.f64() < 0.7 {
        return give_up_after(rng.usize(..8), future).await;
    }
    let delay = Duration::from_micros(rng.u64(..4000));
    tokio::time::timeout(delay, future).await.ok()
}

/// One acquisition by a random verb that is given up at random. `true`: it was given up; otherwise it was given back.
async fn acquire_in_vain(own: &Own, rng: &mut Rng) -> Result<bool, String> {
    let wrong = |error| format!("{}: {error:?}", own.name);
    let limit = secs(20);
    let held = match rng.u64(..4) {
        0 => give_up(rng, own.lock.lock()).await.map(|taken| taken.map(|()| Acquired)),
        1 => give_up(rng, own.lock.try_lock()).await,
        2 => {
            let guard = give_up(rng, own.lock.guard()).await;
            return guard.transpose().map_err(wrong).map(|guard| guard.is_none());
        }
        _ => {
            let request = Request::default().wait(limit).lease(limit);
            give_up(rng, own.lock.acquire_with(request)).await
        }
    };
    match held.transpose().map_err(wrong)? {
        Some(Acquired) => own.unlock_times(1).await.map(|()| false),
        Some(Busy) => Ok(false),
        None => Ok(true),
    }
}

/// A burst of acquisitions of locks that nobody holds.
async fn burst(pair: &Pair, rng: &mut Rng) -> Result<usize, String> {
    let round_trip = pair.round_trip().await;
    let owns: Vec<Own> = (0..25).map(|_| pair.own()).collect();
    let tries = owns.iter().map(|own| {
        let mut rng = rng.fork();
        async move { acquire_in_vain(own, &mut rng).await }
    });
    let given_up = join_all(tries).await.into_iter().collect::<Result<Vec<bool>, String>>()?;
    pair.gone(&owns.iter().collect::<Vec<_>>(), round_trip).await?;
    Ok(given_up.iter().filter(|given_up| **given_up).count())
}

/// Six waiters of two clients for a lock that is given back: some are given up, the others all get it.
async fn crowd(pair: &Pair, rng: &mut Rng) -> Result<usize, String> {
    let round_trip = pair.round_trip().await;
    let (name, client) = (fresh_name(), |first| if first { &pair.a } else { &pair.b });
    let holder = Own::new(pair.kind.rival(), client(rng.f64() < 0.5), &name);
    holder.lock_times(1).await;
    let delay = ms(rng.u64(..4));
    let owns: Vec<Own> = (0..6).map(|number| Own::new(pair.kind, client(number % 2 == 0), &name)).collect();
    let waiters = owns.iter().enumerate().map(|(number, own)| {
        let mut rng = rng.fork();
        async move {
            if number < 3 {
                patient("a waiter among those that leave", own.lock.lock()).await.unwrap();
                return own.unlock_times(1).await.map(|()| false);
            }
            acquire_in_vain(own, &mut rng).await
        }
    });
    let release = async {
        sleep(delay).await;
        holder.unlock_times(1).await
    };
    let (waited, released) = join(join_all(waiters), release).await;
    released?;
    let given_up = waited.into_iter().collect::<Result<Vec<bool>, String>>()?;
    let all: Vec<&Own> = owns.iter().chain([&holder]).collect();
    pair.gone(&all, round_trip).await?;
    Ok(given_up.iter().filter(|given_up| **given_up).count())
}

/// 5,000 acquisitions of each kind, given up at random points, alone and among waiters who stay: within two round trips
/// and 100 ms nothing is there, who stays gets the lock, and no subscription outlives the linger (rules 7 and 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_at_random_leaves_nothing() {
    let _turn = turn().await;
    let case = async |pair: &Pair, number: usize, rng: &mut Rng| match number % 8 {
        0 => burst(pair, rng).await,
        _ => crowd(pair, rng).await,
    };
    every_kinds_pairs(async |kind, pairs| {
        let label = format!("{}: acquisitions given up at random", kind.name);
        drive(&label, soak(5000), seed(), pairs, case).await;
        let worst = pairs.iter().map(|pair| pair.worst.get()).max();
        println!("{label}: worst time until nothing was left {worst:?}");
    })
    .await;
}

/// What is dropped, and where it stands at that time. Each says whether the future was ready before it was dropped.
const SITUATIONS: [&str; 7] = [
    "lock, free",
    "try_lock, free",
    "lock, held elsewhere",
    "try_lock, held elsewhere",
    "lock, handed over",
    "unlock",
    "unlock that hands over",
];

async fn situation(pair: &Pair, which: usize, polls: usize) -> Result<bool, String> {
    let (own, round_trip) = (pair.own(), pair.round_trip().await);
    let ready = match which {
        0 | 1 => {
            let taken = attempt(&own, polls, which == 1).await?;
            expect("a free lock is busy", taken == Some(Busy), false)?;
            taken.is_some()
        }
        2 | 3 => held_elsewhere(pair, &own, polls, which == 3).await?,
        4 => handed_over(pair, &own, polls).await?,
        5 => unlock(pair, &own, polls).await?,
        _ => unlock_with_heir(pair, &own, polls).await?,
    };
    pair.gone(&[&own], round_trip).await?;
    Ok(ready)
}

/// What is taken is given back. `None`: it was given up.
async fn attempt(own: &Own, polls: usize, once: bool) -> Result<Option<AcquireOutcome>, String> {
    let taken = match once {
        true => give_up_after(polls, own.lock.try_lock()).await,
        false => give_up_after(polls, own.lock.lock()).await.map(|taken| taken.map(|()| Acquired)),
    };
    let taken = taken.transpose().map_err(|error| format!("{error:?}"))?;
    if taken == Some(Acquired) {
        own.unlock_times(1).await?;
    }
    Ok(taken)
}

/// Another waiter of the same client stands behind the one that is given up.
async fn held_elsewhere(pair: &Pair, own: &Own, polls: usize, once: bool) -> Result<bool, String> {
    let (holder, next) = (own.rival(&pair.b), Own::new(pair.kind, &pair.a, &own.name));
    holder.lock_times(1).await;
    let release = async {
        // Not at once, so that both find it held.
        pair.round_trip().await;
        pair.round_trip().await;
        holder.unlock_times(1).await
    };
    let second = async {
        patient("the waiter behind", next.lock.lock()).await.unwrap();
        next.unlock_times(1).await
    };
    let (ready, released, served) = tokio::join!(attempt(own, polls, once), release, second);
    released?;
    served?;
    Ok(ready?.is_some())
}

/// The waiter is given up while the lock is on its way to it inside the process.
async fn handed_over(pair: &Pair, own: &Own, polls: usize) -> Result<bool, String> {
    let holder = own.rival(&pair.a);
    holder.lock_times(1).await;
    let (ready, released) = tokio::join!(attempt(own, polls, false), holder.unlock_times(1));
    released?;
    Ok(ready?.is_some())
}

/// Once polled, an unlock is carried out; never polled, it is not.
async fn unlock(pair: &Pair, own: &Own, polls: usize) -> Result<bool, String> {
    own.lock_times(1).await;
    let answer = give_up_after(polls, own.lock.unlock()).await;
    if polls == 0 {
        sleep(ms(20)).await;
        expect("a key is there", pair.sight.exist(&[own]).await, true)?;
        own.unlock_times(1).await?;
    }
    Ok(answer.is_some())
}

async fn unlock_with_heir(pair: &Pair, own: &Own, polls: usize) -> Result<bool, String> {
    let heir = own.rival(&pair.a);
    own.lock_times(1).await;
    let mut waiting = Box::pin(heir.lock.lock());
    expect("it waits", begin(&mut waiting).await, true)?;
    let answer = give_up_after(polls, own.lock.unlock()).await;
    if polls == 0 {
        own.unlock_times(1).await?;
    }
    patient("the heir", waiting).await.unwrap();
    heir.unlock_times(1).await?;
    Ok(answer.is_some())
}

/// Every number of polls from 0 to the one at which the future is ready, in every situation.
async fn sweep(label: &str, pairs: &[Pair], repeats: usize) {
    let (done, failures, most) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let one = async |pair: &Pair, which: usize| {
        for polls in 0..100 {
            let mut ready = 0;
            for _ in 0..repeats {
                match situation(pair, which, polls).await {
                    Ok(was_ready) => ready += usize::from(was_ready),
                    Err(error) => {
                        println!("{label}: {} dropped after {polls} polls: {error}", SITUATIONS[which]);
                        failures.set(failures.get() + 1);
                    }
                }
                done.set(done.get() + 1);
            }
            most.set(most.get().max(polls));
            if ready == repeats || failures.get() > 20 {
                return;
            }
        }
        panic!("{label}: {} is not ready after 100 polls", SITUATIONS[which]);
    };
    join_all((0..SITUATIONS.len()).map(|which| one(&pairs[which % pairs.len()], which))).await;
    println!("{label}: at most {} polls", most.get());
    println!("{label}: {} futures dropped, {} failures, no chance involved", done.get(), failures.get());
    assert_eq!(failures.get(), 0, "{label}");
}

/// Dropped after any number of polls `lock` and `try_lock` leave nothing, and `unlock` is carried out (rule 7).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_at_any_poll_leaves_nothing() {
    let _turn = turn().await;
    every_kinds_pairs(async |kind, pairs| {
        sweep(&format!("{}: dropped at every poll", kind.name), pairs, soak_part(200, SHORT)).await;
    })
    .await;
}

/// The same on the embedded server, where 100 ms are 100 ms.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_at_any_poll_leaves_nothing_embedded() {
    every_kind(async |kind| {
        let pairs = [Pair::embedded(kind)];
        sweep(&format!("{}: dropped at every poll, embedded", kind.name), &pairs, soak_part(200, SHORT)).await;
        sleep(LINGER + ms(100)).await;
        assert_eq!(pairs[0].subscriptions(), 0, "{}", kind.name);
    })
    .await;
}

/// An acquisition whose caller goes away as its call is held back: that call.
async fn give_up_held_back(site: &Site, own: &Own) -> Held {
    let held = site.proxy.hold_back(1, own.kind.script("acquire").with(own.name.as_str()));
    let mut dropped = own.lock.lock();
    tokio::select! {
        taken = &mut dropped => panic!("{}: it was held back: {taken:?}", own.kind.name),
        () = held.wait_for(1) => {}
    }
    held
}

/// What a late copy of a dropped acquisition takes is given back; the owner's next hold is another one, and stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_of_what_was_given_up_is_given_back() {
    const COMMAND_TIMEOUT: Duration = ms(500);
    every_kind_at_a_server(async |server, kind| {
        let site = Site::start(server, kind, builder().command_timeout(COMMAND_TIMEOUT)).await;
        let own = site.own();
        let held = give_up_held_back(&site, &own).await;
        held.release().await;
        let guard = patient("the next hold", own.lock.guard()).await.unwrap();
        sleep(2 * COMMAND_TIMEOUT).await;
        guard.verify().await.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        guard.unlock().await.unwrap();
        eventually(secs(20), "nothing is left", async || !site.exists(&own).await).await;
    })
    .await;
}

/// A holder gave up to enter once more, and a copy of that comes late: it goes with the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_of_a_re_entry_that_was_given_up_goes_with_the_hold() {
    let entered = Cell::new(0);
    let server = every_kind_at_a_server(async |server, kind| {
        if kind.deepest == 1 {
            return;
        }
        let site = Site::start(server, kind, builder().command_timeout(secs(4))).await;
        let own = site.own();
        own.lock_times(1).await;
        let held = give_up_held_back(&site, &own).await;
        // What it may have taken is given back before the copy comes; both go by one connection.
        let settled = site.proxy.wait_requests(1, kind.script("settle").with(own.name.as_str()));
        patient("what was given up is given back", settled).await;
        assert_eq!(own.lock.is_held().await, Ok(true), "{}", kind.name);
        held.release().await;
        let count = site.count(&own).await;
        entered.set(entered.get() + usize::from(count == 2));
        own.unlock_times(1).await.unwrap_or_else(|error| panic!("{}: {error}, behind {count}", kind.name));
        eventually(secs(20), "nothing is left", async || !site.exists(&own).await).await;
    })
    .await;
    drop(server);
    assert!(entered.get() > 0, "no copy came in time");
}

/// The first copy of an acquisition comes after a later one was answered that the lock is busy: what it takes is given
/// back, as soon as no other can come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_of_what_was_busy_is_given_back() {
    let taken = Cell::new(0);
    let server = every_kind_at_a_server(async |server, kind| {
        let site = Site::start(server, kind, builder().command_timeout(secs(2))).await;
        let own = site.own();
        let others = server.locks().await;
        let holder = own.rival(&others);
        holder.lock_times(1).await;
        let held = site.proxy.hold_back(1, kind.script("acquire").with(own.name.as_str()));
        assert_eq!(own.lock.try_lock().await, Ok(Busy), "{}", kind.name);
        assert_eq!(held.count(), 1, "{}", kind.name);
        holder.unlock_times(1).await.unwrap();
        held.release().await;
        taken.set(taken.get() + usize::from(site.exists(&own).await));
        // Long before its lease ends.
        eventually(secs(20), "it is given back", async || !site.exists(&own).await).await;
    })
    .await;
    drop(server);
    assert!(taken.get() > 0, "no copy came in time");
}

/// An acquisition whose limit came before its answer is no hold: its owner's next one comes after its release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_no_hold_of_its_owner() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (locks, owner) = (proxy.locks().await, Owner::unique());
    for round in 0..5 {
        let locks: [Arc<dyn RLock>; 2] =
            [Arc::new(locks.mutex(&fresh_name())), Arc::new(locks.fair_mutex(&fresh_name()))];
        for lock in locks.map(|lock| lock.owned_by(&owner)) {
            proxy.stall_replies(true);
            lock.acquire_with(Request::default().wait(ms(10))).await.expect_err("the limit comes first");
            let answer = async { proxy.stall_replies(false) };
            let (next, ()) = join(patient("the next one", lock.lock()), answer).await;
            next.unwrap_or_else(|error| panic!("round {round}: {error}"));
            lock.unlock().await.unwrap();
        }
    }
}
