//! A process that dies frees what it held for the other side, when its lease ends.

use crate::*;

fn names() -> Vec<(&'static Pair, String)> {
    PAIRS.iter().map(|pair| (pair, unique(&format!("crash-{}", pair.row.replace(':', "-"))))).collect()
}

/// Waits for each lock; then lets the holder die. Everybody gets in.
async fn survive(world: &World, heir: Peer, held: &[(&'static Pair, String)], kill: impl FnOnce(), direction: &str) {
    let mut raw = world.server.raw().await;
    for (_, name) in held {
        assert!(raw.exists(name).await, "{name} is held");
    }
    let heirs = held.iter().map(|(pair, name)| (pair, heir.lock(pair.rival, name, &format!("heir-{name}"))));
    let waiting: Vec<_> = heirs.map(|(pair, lock)| (pair, lock.lock(Some(LONG)), lock)).collect();
    // Longer than a lease: they are renewed while their process lives.
    sleep(world.short + secs(1)).await;
    for (pair, waiter, _) in &waiting {
        assert!(!waiter.is_finished(), "{}: got what was held", pair.row);
    }
    kill();
    for (pair, waiter, lock) in waiting {
        patient(pair.row, waiter).await.unwrap().result.unwrap();
        lock.unlock().await.result.unwrap();
        shown(pair.row, &["crash"], direction);
    }
    for (_, name) in held {
        leaves_nothing(world, name).await;
    }
}

pub async fn a_killed_jvm_frees_what_it_held(world: Arc<World>) {
    let jvm = Jvm::start(&world.class_path);
    let java = jvm.client(world.server.port(), &format!("watchdog={}", world.short.as_millis())).await;
    let (held, heir) = (names(), Peer::Rust(world.rust(brief(secs(30))).await));
    for (pair, name) in &held {
        Peer::Java(java.clone()).lock(pair.kind, name, name).must_lock(None).await;
    }
    survive(&world, heir, &held, || jvm.kill(), "J>R").await;
}

pub async fn a_killed_rust_process_frees_what_it_held(world: Arc<World>) {
    let (held, port) = (names(), world.server.port().to_string());
    let short = world.short.as_millis().to_string();
    let locks: Vec<String> = held.iter().map(|(pair, name)| format!("{}/{name}", pair.kind.name())).collect();
    let args: Vec<&str> = [port.as_str(), &short].into_iter().chain(locks.iter().map(String::as_str)).collect();
    let mut process = holder("hold", &args).await;
    let heir = Peer::Java(world.java("").await);
    survive(&world, heir, &held, move || process.kill(), "R>J").await;
}

/// The process that is killed.
pub async fn hold(url: &str, args: &[String]) {
    let short = ms(args[0].parse().unwrap());
    let rust = Peer::Rust(connect(brief(short), url).await);
    for lock in &args[1..] {
        let (kind, name) = lock.split_once('/').unwrap();
        rust.lock(Kind::named(kind), name, "victim").must_lock(None).await;
    }
    say_held().await
}
