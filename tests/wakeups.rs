//! Waiters are woken, not polling; and when a message is lost they still come (PROTOCOL rules 15 to 18).

use support::prelude::*;
use support::sites::*;
use tokio::time::Instant;

/// Lease and cap where nothing but a message may wake a waiter in time.
const LONG: Duration = secs(60);
/// "Long before one cap": a twelfth of it, for a busy machine. It takes milliseconds.
const SOON: Duration = secs(5);
/// The same where a waiter asks each second, whatever the cap is (less up to a quarter).
const SOONER: Duration = ms(700);
/// The cap where messages are lost.
const CAP: Duration = ms(200);

fn sleepy() -> Builder {
    Locks::builder().watchdog_lease(LONG).wait_cap(LONG)
}

async fn clients<const N: usize>(server: &Server) -> [Locks; N] {
    let clients = join_all((0..N).map(async |_| sleepy().connect(&server.url()).await.unwrap())).await;
    clients.try_into().expect("so many")
}

/// Runs a test for every kind whose waiters hear messages.
async fn every_kind_that_hears(test: impl AsyncFn(&'static Kind)) {
    every_kind(async |kind| {
        if kind.channel("", "").is_some() {
            test(kind).await;
        }
    })
    .await;
}

/// How long waiters took, and whether that was by a message.
#[derive(Default)]
struct Times {
    worst: Cell<Duration>,
    all: Cell<usize>,
    slow: Cell<usize>,
}

impl Times {
    fn note(&self, took: Duration) -> Result<(), String> {
        self.worst.set(self.worst.get().max(took));
        self.all.set(self.all.get() + 1);
        self.slow.set(self.slow.get() + usize::from(took >= SOONER));
        expect(&format!("{took:?} is soon"), took < SOON, true)
    }

    /// Where a waiter asks each second anyway, messages show in that most are faster than that.
    fn judge(&self, kind: &Kind) {
        let (slow, all) = (self.slow.get(), self.all.get());
        println!("{}: {slow} of {all} took {SOONER:?}, the worst {:?}", kind.name, self.worst.get());
        assert!(slow * 10 <= all, "{}: {slow} of {all} waited for their own next look", kind.name);
    }
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
    times: Times,
}

impl Shuttle {
    async fn new(kind: &'static Kind, a: &Locks, b: &Locks) -> Shuttle {
        let own = Own::fresh(kind, b);
        let owns = [own.rival(a), own];
        owns[0].lock_times(1).await;
        Shuttle { owns, holder: Cell::new(0), times: Times::default() }
    }

    fn waiter(&self) -> &Own {
        &self.owns[1 - self.holder.get()]
    }

    /// The one gives back what the other waits for.
    async fn hand_over(&self, rng: &mut Rng) -> Result<usize, String> {
        let (from, to) = (&self.owns[self.holder.get()], self.waiter());
        let delay = ms(rng.u64(..4));
        let release = async {
            sleep(delay).await;
            (from.lock.unlock().await, Instant::now())
        };
        let take = async { (patient("a hand-over", to.lock.lock()).await, Instant::now()) };
        let ((given, given_at), (taken, taken_at)) = join(release, take).await;
        expect("unlock", given, Ok(()))?;
        expect("lock", taken, Ok(()))?;
        self.holder.set(1 - self.holder.get());
        self.times.note(taken_at.saturating_duration_since(given_at))?;
        Ok(1)
    }
}

fn scripts(server: &Server) -> u64 {
    server.calls("evalsha") + server.calls("eval")
}

/// 1,000 hand-overs of each kind, lease and cap 60 s: one script of who unlocks, at most three of who waits (rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_woken() {
    let _turn = turn().await;
    every_kind_that_hears(async |kind| {
        // A server of its own: scripts are counted by server.
        let server = Server::start();
        load_scripts(&server).await;
        let [a, b] = clients(&server).await;
        let shuttles = [Shuttle::new(kind, &a, &b).await];
        let case = async |shuttle: &Shuttle, _: usize, rng: &mut Rng| {
            server.reset_stats();
            let before = shuttle.times.slow.get();
            // A writer does, of whom a reader's lock is waited for too.
            let asks = u64::from(shuttle.waiter().kind.asks_each_second);
            let done = shuttle.hand_over(rng).await?;
            // One of them is the unlock; one that took a second on a busy machine looked for itself.
            let looked = (shuttle.times.slow.get() - before) as u64 * asks;
            // Who asks each second may come to ask just before the message.
            let most = 3 + asks + 6 * looked;
            expect(&format!("at most {most} scripts"), (scripts(&server) - 1).max(most), most)?;
            Ok(done)
        };
        drive(&format!("{}: hand-overs", kind.name), soak(1000), seed(), &shuttles, case).await;
        shuttles[0].times.judge(kind);
    })
    .await;
}

/// The same on the embedded server, where the time is the test's: nobody waits for a look of its own.
#[tokio::test(start_paused = true)]
async fn waiters_are_woken_embedded() {
    every_kind_that_hears(async |kind| {
        let server = lockson::EmbeddedServer::new();
        let connect = || server.connect_with(sleepy()).unwrap();
        let shuttles = [Shuttle::new(kind, &connect(), &connect()).await];
        let case = async |shuttle: &Shuttle, _: usize, rng: &mut Rng| shuttle.hand_over(rng).await;
        drive(&format!("{}: hand-overs, embedded", kind.name), soak(1000), seed(), &shuttles, case).await;
        assert_eq!(shuttles[0].times.slow.get(), 0, "{}", kind.name);
    })
    .await;
}

/// On the embedded server, where a message takes no time and the sleep between two looks is known: without its message
/// each waiter comes at its next look, not before and not later (rule 15). On a real server that can't be told from the
/// message's way on a busy machine, nor, for the kinds that ask each second, from a longer cap.
#[tokio::test(start_paused = true)]
async fn a_lost_message_costs_one_cap_embedded() {
    every_kind_that_hears(async |kind| {
        let server = lockson::EmbeddedServer::new();
        let connect = || server.connect_with(Locks::builder().wait_cap(CAP)).unwrap();
        let (a, b) = (connect(), connect());
        for lost in [true, false] {
            server.lose_messages(lost);
            let waiter = Own::fresh(kind, &b);
            let holder = waiter.rival(&a);
            holder.lock_times(1).await;
            let release = async {
                let listens = async || b.health().subscriptions > 0;
                eventually(SOON, "the waiter listens", listens).await;
                // Between two looks.
                sleep(CAP / 10).await;
                holder.unlock_times(1).await.map(|()| Instant::now())
            };
            let take = async { (waiter.lock.lock().await, Instant::now()) };
            let (given_at, (taken, taken_at)) = join(release, take).await;
            taken.unwrap();
            let took = taken_at.saturating_duration_since(given_at.unwrap());
            // Jitter takes up to a quarter of the cap.
            let right = if lost { CAP / 2 <= took && took <= CAP } else { took < CAP / 10 };
            assert!(right, "{}, message lost: {lost}: {took:?}", kind.name);
            waiter.unlock_times(1).await.unwrap();
        }
    })
    .await;
}

/// Messages that nobody waits for end a subscription before its linger does: whoever publishes them may stand aside for
/// who listens. Those that came while somebody waited do not count.
#[tokio::test(start_paused = true)]
async fn a_subscription_ends_behind_messages_that_nobody_heeds() {
    let server = lockson::EmbeddedServer::new();
    let connect = || server.connect_with(sleepy()).unwrap();
    let (a, b) = (connect(), connect());
    let (lock, rival) = (a.lock("messages"), b.lock("messages"));
    lock.lock().await.unwrap();
    let message = async || {
        server.command(&["PUBLISH", "redisson_lock__channel:{messages}", "0"]).unwrap();
        sleep(ms(1)).await;
    };
    for _ in 0..2 {
        let heeded = async {
            sleep(ms(10)).await;
            for _ in 0..8 {
                message().await;
            }
        };
        let (busy, ()) = join(rival.acquire_with(Request::default().wait(ms(50))), heeded).await;
        assert!(!busy.unwrap().is_acquired());
        for heard in 1..=4 {
            assert_eq!(b.health().subscriptions, 1, "before message {heard}");
            message().await;
        }
        assert_eq!(b.health().subscriptions, 0);
    }
}

/// As a lost message of locks, of permits and latches.
#[tokio::test(start_paused = true)]
async fn a_lost_message_of_permits_costs_one_cap_embedded() {
    for what in ["semaphore", "permit_semaphore", "latch"] {
        let server = lockson::EmbeddedServer::new();
        let connect = || server.connect_with(Locks::builder().wait_cap(CAP)).unwrap();
        let (a, b) = (connect(), connect());
        for lost in [true, false] {
            server.lose_messages(lost);
            let name = unique(what);
            let take = async |locks: &Locks| match what {
                "semaphore" => drop(locks.semaphore(&name).acquire(1).await.unwrap()),
                "permit_semaphore" => std::mem::forget(locks.permit_semaphore(&name).guard(1).await.unwrap()),
                _ => drop(locks.latch(&name).wait().await.unwrap()),
            };
            match what {
                "semaphore" => assert!(a.semaphore(&name).try_set_permits(1).await.unwrap()),
                "permit_semaphore" => a.permit_semaphore(&name).set_permits(1).await.unwrap(),
                _ => assert!(a.latch(&name).try_set_count(1).await.unwrap()),
            }
            if what != "latch" {
                take(&a).await;
            }
            let give = async {
                let listens = async || b.health().subscriptions > 0;
                eventually(SOON, "the waiter listens", listens).await;
                // Between two looks.
                sleep(CAP / 10).await;
                match what {
                    "semaphore" => a.semaphore(&name).release(1).await.unwrap(),
                    "permit_semaphore" => a.permit_semaphore(&name).set_permits(2).await.unwrap(),
                    _ => assert_eq!(a.latch(&name).count_down().await.unwrap(), Some(0)),
                }
                Instant::now()
            };
            let (given_at, taken_at) = join(give, async { (take(&b).await, Instant::now()).1 }).await;
            let took = taken_at.saturating_duration_since(given_at);
            let right = if lost { CAP / 2 <= took && took <= CAP } else { took < CAP / 10 };
            assert!(right, "{what}, message lost: {lost}: {took:?}");
        }
    }
}

/// The connection breaks as they begin to listen: they hear all the same that Java opened their latch and set another.
#[tokio::test]
async fn an_opening_by_java_is_heard_behind_a_broken_subscription() {
    let (server, name) = (Server::start(), unique("latch"));
    let proxy = Proxy::start(server.port());
    let locks = proxy.locks().await;
    let latch = locks.latch(&name);
    let subscribes = || Filter::Subscribe.with(&name);
    assert!(latch.try_set_count(1).await.unwrap());
    let cut = proxy.cut_before(1, subscribes());
    let waiters = spawn_each([(); 20].map(|()| latch.clone()), |latch| async move { latch.wait().await.unwrap() });
    cut.done().await;
    // That one and the next, and one more for all who wait.
    proxy.wait_requests(3, subscribes()).await;
    // Each is behind the answer of it.
    sleep(ms(300)).await;
    assert!(proxy.requests(subscribes()) < 10, "{}", proxy.requests(subscribes()));
    let opened_and_set = "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0') \
        redis.call('SET', KEYS[1], '3') redis.call('PUBLISH', ARGV[1], '1') return 1";
    let channel = format!("redisson_countdownlatch__channel__{{{name}}}");
    assert_eq!(server.control(&["EVAL", opened_and_set, "1", &name, &channel]).int(), 1);
    let ended = patient_all("the opening", waiters).await;
    assert!(ended.iter().all(|outcome| *outcome == WaitOutcome::Opened), "{ended:?}");
}

/// Three clients of one server, for one kind of lock.
struct Trio {
    kind: &'static Kind,
    clients: [Locks; 3],
    times: Times,
}

/// The head of two waiters is woken and goes away at a later poll, or does not: the others are served before a cap.
async fn woken_in_vain(trio: &Trio, rng: &mut Rng) -> Result<usize, String> {
    let ([a, b, c], kind) = (&trio.clients, trio.kind);
    let first = Own::fresh(kind, b);
    let holder = first.rival(a);
    let others = [b, c, b].map(|client| Own::new(kind, client, &first.name));
    holder.lock_times(1).await;
    let mut head = first.lock.lock();
    expect("it waits", begin(&mut head).await, true)?;
    // Time enough to be asleep, mostly; the other orders are welcome too.
    let (early, late) = (ms(rng.u64(..6)), rng.usize(..4));
    let leaves = async {
        if tokio::time::timeout(early, &mut head).await.is_err() {
            let _ = patient("the head", give_up_after(late, head)).await;
        }
        // Had it got the lock, it gives it back.
        let _ = first.lock.unlock().await;
    };
    let release = async {
        sleep(ms(3)).await;
        holder.unlock_times(1).await
    };
    let served = others.iter().map(|own| async move {
        let (taken, took) = timed(patient("a waiter behind", own.lock.lock())).await;
        expect("lock", taken, Ok(()))?;
        own.unlock_times(1).await?;
        trio.times.note(took)
    });
    let ((), released, served) = tokio::join!(leaves, release, join_all(served));
    released?;
    served.into_iter().collect::<Result<Vec<()>, String>>()?;
    Ok(1)
}

/// A woken waiter that gives up passes the wake-up on: with a cap of 60 s, 1,000 times for each kind (rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_is_passed_on() {
    let _turn = turn().await;
    let server = Server::start();
    load_scripts(&server).await;
    every_kind_that_hears(async |kind| {
        let mut trios = Vec::new();
        for _ in 0..2 {
            trios.push(Trio { kind, clients: clients(&server).await, times: Times::default() });
        }
        let case = async |trio: &Trio, _: usize, rng: &mut Rng| woken_in_vain(trio, rng).await;
        drive(&format!("{}: woken waiters that leave", kind.name), soak(1000), seed(), &trios, case).await;
        trios.iter().for_each(|trio| trio.times.judge(kind));
    })
    .await;
}

/// The same on the embedded server, where nobody may wait for a look of its own.
#[tokio::test(start_paused = true)]
async fn a_wake_up_is_passed_on_embedded() {
    every_kind_that_hears(async |kind| {
        let server = lockson::EmbeddedServer::new();
        let clients = [0, 1, 2].map(|_| server.connect_with(sleepy()).unwrap());
        let trios = [Trio { kind, clients, times: Times::default() }];
        let case = async |trio: &Trio, _: usize, rng: &mut Rng| woken_in_vain(trio, rng).await;
        let label = format!("{}: woken waiters that leave, embedded", kind.name);
        drive(&label, soak(1000), seed(), &trios, case).await;
        assert_eq!(trios[0].times.slow.get(), 0, "{}", kind.name);
    })
    .await;
}

/// Waiters whose messages fall into a gap: an outage of their network, or ended and cut subscriptions.
async fn gap(site: &Site, direct: &Locks, raw: &mut Raw, how: Option<Outage>) -> Result<usize, String> {
    let names: Vec<String> = (0..25).map(|_| fresh_name()).collect();
    let own = |name| Own::new(site.kind, &site.locks, name);
    let waiters: Vec<Own> = names.iter().flat_map(|name| [own(name), own(name)]).collect();
    let holders: Vec<Own> = waiters.iter().step_by(2).map(|own| own.rival(direct)).collect();
    join_all(holders.iter().map(|own| own.lock_times(1))).await;
    let waiting = waiters.iter().map(|own| async move {
        expect("lock", patient("a waiter after the gap", own.lock.lock()).await, Ok(()))?;
        let at = Instant::now();
        own.unlock_times(1).await?;
        Ok::<_, String>(at)
    });
    let release = async {
        for own in waiters.iter().step_by(2) {
            let listens = || site.listens(own);
            eventually(secs(20), "the waiters listen", listens).await;
        }
        let began = Instant::now();
        match how {
            None => {
                let deaf = site.proxy.cut_before(2, Filter::Subscribe);
                raw.must(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
                deaf.wait_for(1).await;
            }
            Some(outage) => outage.set(&site.proxy, true),
        }
        let given = join_all(holders.iter().map(|own| own.unlock_times(1))).await;
        site.proxy.heal();
        given.into_iter().collect::<Result<Vec<()>, String>>().map(|_| began)
    };
    let (waited, began) = join(join_all(waiting), release).await;
    let began = began?;
    for at in waited {
        let took = at?.saturating_duration_since(began);
        expect(&format!("{took:?} is soon"), took < SOON, true)?;
    }
    Ok(waiters.len())
}

/// A gap in the subscriptions wakes every waiter of each kind long before the cap of 60 s (rule 15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_wakes_every_waiter() {
    let _turn = turn().await;
    let server = Server::start();
    load_scripts(&server).await;
    let direct = server.locks().await;
    for how in [None, Some(Outage::Refused), Some(Outage::BlackHole)] {
        every_kind_that_hears(async |kind| {
            let sites = Site::many(&server, kind, 2, sleepy()).await;
            let case = async |site: &Site, _: usize, _: &mut Rng| {
                let mut raw = server.raw().await;
                gap(site, &direct, &mut raw, how).await
            };
            drive(&format!("{}: gap by {how:?}", kind.name), soak(1000), seed(), &sites, case).await;
        })
        .await;
    }
}
