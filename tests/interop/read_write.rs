//! Readers of both sides on one lock.

use crate::*;

/// One side's readers come and go in all ways; the other side's hold stays, and no writer gets in. Both ways round.
pub async fn readers_of_both_keep_each_other(world: Arc<World>) {
    let (seed, name, rounds) = (seed(), unique("readers"), soak(1000));
    let rust = world.rust(client()).await;
    let [java, rust] = [Peer::Java(world.java("").await), Peer::Rust(rust)];
    for (stays, churns) in [(&rust, &java), (&java, &rust)] {
        let [reader, writer] = [Kind::Read, Kind::Write].map(|kind| stays.lock(kind, &name, "stays"));
        let stranger = stays.lock(Kind::Write, &name, "stranger");
        reader.must_lock(None).await;
        let mut done = 0;
        churn(churns, &name, rounds, seed, async || {
            assert!(reader.state().await.held, "another's unlock took a reader's hold");
            assert_eq!(stranger.try_lock(ms(0), None).await, Ok(false), "a writer beside a reader");
            done += 1;
        })
        .await;
        assert!(done >= rounds);
        reader.unlock().await.result.unwrap();
        assert_eq!(reader.state().await.count, 0);
        // What was forgotten ends with its leases.
        assert!(writer.take(SOON, None).await, "the forgotten readers end");
        writer.unlock().await.result.unwrap();
        report(&format!("readers keep each other, {}", stays.towards(churns)), rounds, rounds, 0, seed);
    }
    leaves_nothing(&world, &name).await;
}

/// Readers of one side: one that is stepped, and three that never rest beside it. `check` runs after each unlock.
async fn churn(peer: &Peer, name: &str, rounds: usize, seed: u64, mut check: impl AsyncFnMut()) {
    let (mut rng, over) = (Rng::with_seed(seed), Arc::new(AtomicBool::new(false)));
    let reader = |who: String| peer.lock(Kind::Read, name, &who);
    let busy = (0..3).map(|at| {
        let (reader, over) = (reader(format!("busy-{at}")), over.clone());
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                reader.must_lock(Some(secs(5))).await;
                reader.unlock().await.result.unwrap();
            }
        })
    });
    let busy: Vec<_> = busy.collect();
    for round in 0..rounds {
        let stepped = reader(format!("reader-{}", rng.u64(..3)));
        match rng.u64(..4) {
            // Nobody unlocks it.
            0 => reader(format!("forgetful-{round}")).must_lock(Some(ms(300))).await,
            1 => {
                stepped.must_lock(Some(secs(60))).await;
                stepped.must_lock(Some(ms(200))).await;
                stepped.unlock().await.result.unwrap();
                check().await;
                stepped.unlock().await.result.unwrap();
            }
            _ => {
                stepped.must_lock(None).await;
                stepped.unlock().await.result.unwrap();
            }
        }
        check().await;
    }
    over.store(true, Ordering::Relaxed);
    join_all(busy).await.into_iter().for_each(Result::unwrap);
}
