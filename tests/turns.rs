//! A writer's turn among readers that never leave the lock free, and among other writers: a bound (PROTOCOL rule 18).

use lockson::Faults;
use support::prelude::*;
use tokio::time::{sleep, Instant};

/// No read takes longer, and no write.
const LONGEST: u64 = 100;
/// The readers' turn, and the longest that a process stands aside for others.
const TURN: Duration = ms(150);
/// A message and the calls that it leads to, with delays of up to 2 ms each way.
const ROUND_TRIPS: Duration = ms(30);

fn some_millis(rng: &mut Rng, most: u64) -> Duration {
    ms(rng.u64(..most + 1))
}

async fn read_on(locks: Locks, mut rng: Rng, stop: Arc<AtomicBool>) {
    let read = locks.read_write_lock("l").read();
    while !stop.load(Ordering::SeqCst) {
        let guard = read.guard().await.unwrap();
        sleep(some_millis(&mut rng, LONGEST)).await;
        guard.unlock().await.unwrap();
    }
}

/// The longest of its waits.
async fn write_now_and_then(locks: Locks, mut rng: Rng, turns: usize) -> Duration {
    let write = locks.read_write_lock("l").write();
    let mut longest = Duration::ZERO;
    for _ in 0..turns {
        sleep(some_millis(&mut rng, 300)).await;
        let began = Instant::now();
        let guard = write.guard().await.unwrap();
        longest = longest.max(began.elapsed());
        sleep(some_millis(&mut rng, LONGEST)).await;
        guard.unlock().await.unwrap();
    }
    longest
}

/// Eight readers of two clients without end; writers of so many clients, so many each.
async fn longest_wait(clients: u64, each: u64, faults: Option<Faults>, turns: usize, seed: u64) -> Duration {
    let server = EmbeddedServer::new();
    if let Some(faults) = faults {
        server.inject(faults);
    }
    let (reading, stop) = ([server.connect(), server.connect()], Arc::<AtomicBool>::default());
    let readers = spawn_each(0..8, |number: usize| {
        read_on(reading[number % 2].clone(), Rng::with_seed(seed ^ (number as u64) << 32), stop.clone())
    });
    // The first of them writes where others read.
    let writing = (0..clients).map(|number| if number == 0 { reading[0].clone() } else { server.connect() });
    let writers = writing.enumerate().flat_map(|(client, locks)| {
        let rngs = (0..each).map(move |number| Rng::with_seed(seed ^ (1 << 48 | (client as u64 * 16 + number) << 32)));
        rngs.map(|rng| tokio::spawn(write_now_and_then(locks.clone(), rng, turns))).collect::<Vec<_>>()
    });
    let waits = join_all(writers.collect::<Vec<_>>()).await;
    stop.store(true, Ordering::SeqCst);
    join_all(readers).await.into_iter().for_each(Result::unwrap);
    waits.into_iter().map(Result::unwrap).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_writer_is_served_within_the_bound() {
    let (seed, turns) = (seed(), soak(200));
    for (clients, each) in [(1, 1), (1, 4), (3, 1), (4, 2), (8, 1)] {
        for faults in [None, Some(Faults::seeded(seed).delay(ms(2)))] {
            let longest = longest_wait(clients, each, faults, turns, seed).await;
            let before = u32::try_from(clients * each - 1).unwrap();
            let millis = ms(LONGEST);
            let bound = (millis + TURN + ROUND_TRIPS) * (before + 1) + millis * before;
            println!("{clients} clients with {each} writers each: {longest:?}, the bound is {bound:?}");
            assert!(
                longest <= bound,
                "{clients} clients with {each} writers each: {longest:?} > {bound:?}, seed {seed}"
            );
        }
    }
}
