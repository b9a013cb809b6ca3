//! Wake-ups cross both ways: leases and caps are a minute, each hand-over is a message.

use crate::*;

/// The rows with all rounds in a short run too, on one server.
const FULL: [&str; 3] = ["lock", "fair_lock", "write:write"];

/// Microseconds from the begin of the unlock to the end of the lock, in one direction.
async fn times(world: &World, pair: &Pair, from: &Peer, to: &Peer, rounds: usize, rng: &mut Rng) -> Vec<u64> {
    let name = unique("hand-over");
    let (giver, taker) = (from.lock(pair.kind, &name, "giver"), to.lock(pair.rival, &name, "taker"));
    let (mut raw, mut times) = (world.raw(&name).await, Vec::new());
    for _ in 0..rounds {
        giver.must_lock(Some(LONG)).await;
        let waiter = taker.lock(Some(LONG));
        while !is_heard(&mut raw, &name).await {
            assert!(!waiter.is_finished(), "{}: it has what is held", pair.row);
        }
        // A subscription of an earlier round may linger: now it attempts, now it sleeps.
        sleep(std::time::Duration::from_micros(rng.u64(..4000))).await;
        let given = giver.unlock().await;
        given.result.unwrap();
        let taken = waiter.await.unwrap();
        taken.result.unwrap();
        times.push(taken.end - given.begin.max(taken.begin));
        taker.unlock().await.result.unwrap();
    }
    leaves_nothing(world, &name).await;
    times.sort_unstable();
    times
}

/// The lock is given back as a waiter of Redisson goes to sleep, which misses its message (6.A.3a); it gets another.
pub async fn who_is_about_to_sleep_is_woken(world: Arc<World>) {
    let proxy = Proxy::start(world.place.server().port());
    let java = Peer::Java(world.jvms[0].client(&proxy.url(), "").await);
    let rust = Peer::Rust(world.rust(client()).await);
    for pair in PAIRS.iter().filter(|pair| pair.kind != Kind::Spin) {
        let name = unique("about-to-sleep");
        let (giver, taker) = (rust.lock(pair.kind, &name, "giver"), java.lock(pair.rival, &name, &name));
        giver.must_lock(Some(LONG)).await;
        proxy.delay_replies(ms(700));
        let waiter = taker.lock(Some(LONG));
        late_answer(&proxy, 2, Filter::Script.with(name.as_str())).await;
        let began = Instant::now();
        giver.unlock().await.result.unwrap();
        waiter.await.unwrap().result.unwrap();
        assert!(began.elapsed() < SOON, "{}: woken by the TTL", pair.row);
        taker.unlock().await.result.unwrap();
        leaves_nothing(&world, &name).await;
    }
}

/// 200 in each direction for the plain lock, the fair one and the writers', as many of the other kinds in a full run.
pub async fn messages_come_both_ways(world: Arc<World>) {
    let (seed, [java, rust]) = (seed(), world.both().await);
    let mut rng = Rng::with_seed(seed);
    let place = world.place.name();
    println!("hand-overs, {place}, seed {seed}: microseconds from unlock to lock");
    for pair in PAIRS.iter().filter(|pair| pair.kind != Kind::Spin) {
        let in_full = FULL.contains(&pair.row) && matches!(world.place, Place::Single(_));
        let rounds = if in_full { 200 } else { soak(200) };
        for (from, to) in [(&java, &rust), (&rust, &java)] {
            let times = times(&world, pair, from, to, rounds, &mut rng).await;
            let at = |percent: usize| times[times.len() * percent / 100];
            let (direction, worst) = (from.towards(to), times[times.len() - 1]);
            println!(
                "  {place:8} {:12} {direction} {rounds:4}: p50 {:6} p99 {:6} worst {worst:6}",
                pair.row,
                at(50),
                at(99)
            );
            assert!(u128::from(worst) < SOON.as_micros(), "{} {direction}: by the TTL", pair.row);
        }
    }
}
