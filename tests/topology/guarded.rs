//! lockson's clients of a primary that sentinels watch: every kind, wake-ups, and a primary that dies or has to go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use support::prelude::*;
use support::Sentinels;

use super::{contend, every_kind_works};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_works_behind_sentinels() {
    let all = Sentinels::start(ms(1_000));
    every_kind_works(&all.url()).await;
}

/// How the primary ends.
#[derive(Clone, Copy)]
enum End {
    Killed,
    Frozen,
    /// The sentinels are told to replace it, though it lives.
    Replaced,
}

/// All tasks go on at the successor, and nobody stays at the old primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_replaced() {
    for end in [End::Killed, End::Frozen, End::Replaced] {
        replaced(end).await;
    }
}

async fn replaced(how: End) {
    let all = Sentinels::start(ms(500));
    let locks = Locks::builder().connect(&all.url()).await.unwrap();
    let names: Vec<String> = (0..3).map(|_| unique("replaced")).collect();
    let guard = locks.lock(&unique("kept")).guard().await.unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let tasks = contend(&locks, &names, &end);
    sleep(ms(300)).await;
    match how {
        End::Killed => all.servers[0].kill(),
        End::Frozen => all.servers[0].freeze(),
        End::Replaced => all.fail_over(),
    }
    tokio::task::block_in_place(|| all.switched(0));
    let switched = Instant::now();
    locks.lock(&names[0]).guard().await.unwrap().unlock().await.unwrap();
    println!("taken {:?} after all sentinels agree", switched.elapsed());
    all.servers[0].thaw();
    sleep(ms(1_500)).await;
    end.store(true, Ordering::Relaxed);
    for turns in patient_all("a task", tasks).await {
        println!("{} turns, {:?} the longest gap, {:?}", turns.done, turns.gap, turns.failed);
        assert!(turns.done > 5 && turns.failed.len() <= 2, "{turns:?}");
    }
    assert_ne!(guard.state(), HoldState::Uncertain);
    let late = locks.lock("late").guard().await.unwrap();
    // On a busy machine the sentinels may have replaced the successor too.
    let primary = loop {
        match tokio::task::block_in_place(|| all.primary()) {
            Some(primary) => break primary,
            None => sleep(ms(10)).await,
        }
    };
    assert_eq!(all.servers[primary].control(&["EXISTS", "late"]).int(), 1, "at {primary}");
    late.unlock().await.unwrap();
    let _ = guard.unlock().await;
}
