//! Readers of both sides on one lock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::*;

/// Java's readers come and go, with short leases and long ones, nested and forgotten; the hold of a Rust reader is
/// there after each of their unlocks, and no writer gets in beside it. Then the same the other way round.
pub async fn readers_of_both_keep_each_other(world: Arc<World>) {
    let (seed, name, rounds) = (seed(), unique("readers"), soak(1000));
    let (java, rust) = (world.java("").await, world.rust(Locks::builder()).await);
    let side = rust.read_write_lock(&name);
    let field = {
        let guard = side.read().guard().await.unwrap();
        churn_of_java(&world, &name, rounds, seed, async || {
            guard.verify().await.expect("Java's unlock took a Rust reader's hold");
            assert!(
                !side.write().owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired(),
                "a writer beside a reader"
            );
        })
        .await;
        guard.unlock().await.unwrap();
        format!("{}:", rust.client_id())
    };
    let left = world.server.raw().await.hgetall(&name).await;
    assert!(left.iter().all(|(owner, _)| !owner.starts_with(&field)), "{left:?}");
    // What Java forgot ends with its leases.
    tokio::time::timeout(secs(20), side.write().lock()).await.expect("the forgotten readers end").unwrap();
    side.write().unlock().await.unwrap();
    java.must("stays", "read", &name, "lock").await;
    let done = AtomicUsize::new(0);
    churn_of_rust(&rust, &name, rounds, seed, async || {
        assert_eq!(java.must("stays", "read", &name, "held").await, "true", "our unlock took a Java reader's hold");
        assert_eq!(java.must("writer", "write", &name, "try_lock").await, "false", "a writer beside a reader");
        done.fetch_add(1, Ordering::Relaxed);
    })
    .await;
    java.must("stays", "read", &name, "unlock").await;
    report("readers of both keep each other", done.into_inner(), rounds, 0, seed);
    tokio::time::timeout(secs(20), side.write().lock()).await.expect("nobody reads").unwrap();
    side.write().unlock().await.unwrap();
    leaves_nothing(&world, &name).await;
}

/// Four threads; `check` runs after each unlock.
async fn churn_of_java(world: &World, name: &str, rounds: usize, seed: u64, check: impl AsyncFn()) {
    let (java, mut rng, over) = (world.java("").await, Rng::new(seed), Arc::new(AtomicBool::new(false)));
    // Three that never rest beside the one that is stepped.
    let busy: Vec<_> = (0..3)
        .map(|at| {
            let (java, name, over, who) = (java.clone(), name.to_owned(), over.clone(), format!("busy-{at}"));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    java.must(&who, "read", &name, "lock 5000").await;
                    java.must(&who, "read", &name, "unlock").await;
                }
            })
        })
        .collect();
    for round in 0..rounds {
        let who = format!("reader-{}", rng.below(3));
        match rng.below(4) {
            // Forgotten: nobody unlocks it.
            0 => drop(java.must(&format!("forgetful-{round}"), "read", name, "lock 300").await),
            1 => {
                java.must(&who, "read", name, "lock 60000").await;
                java.must(&who, "read", name, "lock 200").await;
                java.must(&who, "read", name, "unlock").await;
                check().await;
                java.must(&who, "read", name, "unlock").await;
            }
            _ => {
                java.must(&who, "read", name, "lock").await;
                java.must(&who, "read", name, "unlock").await;
            }
        }
        check().await;
    }
    over.store(true, Ordering::Relaxed);
    for task in busy {
        task.await.unwrap();
    }
}

/// The same, of Rust.
async fn churn_of_rust(rust: &Locks, name: &str, rounds: usize, seed: u64, check: impl AsyncFn()) {
    let mut rng = Rng::new(seed);
    for _ in 0..rounds {
        let lock = rust.read_write_lock(name).read().owned_by(&Owner::named(format!("r{}", rng.below(3))).unwrap());
        match rng.below(4) {
            0 => drop(
                rust.read_write_lock(name).read().owned_by(&Owner::unique()).acquire().lease(ms(300)).await.unwrap(),
            ),
            1 => {
                assert!(lock.acquire().lease(secs(60)).await.unwrap().is_acquired());
                assert!(lock.acquire().lease(ms(200)).await.unwrap().is_acquired());
                lock.unlock().await.unwrap();
                lock.unlock().await.unwrap();
            }
            _ => {
                lock.lock().await.unwrap();
                lock.unlock().await.unwrap();
            }
        }
        check().await;
    }
}
