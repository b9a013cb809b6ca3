//! Names, prefixes, tokens and hold counts: both read the same.

use lockson::MapEntry;

use crate::*;

/// One key prefix on both sides, names with hash tags, and the client id as it stands on the server.
pub async fn prefixes_braces_and_tokens(world: Arc<World>) {
    let java = world.java("prefix=app:").await;
    let rust = world.rust(client().key_prefix("app:")).await;
    let [j, r] = [Peer::Java(java.clone()), Peer::Rust(rust.clone())];
    for name in [unique("plain"), format!("{{{}}}:tagged", unique("tag")), unique("with:colons:and-dashes")] {
        for kind in Kind::ALL {
            for (holder, other) in [(&j, &r), (&r, &j)] {
                let (mine, theirs) = (holder.lock(kind, &name, "mine"), other.lock(rival(kind), &name, "theirs"));
                mine.must_lock(None).await;
                assert_eq!(theirs.try_lock(ms(0), None).await, Ok(false), "{kind:?} {name}");
                mine.unlock().await.result.unwrap();
            }
        }
        let keys = world.raw(&format!("app:{name}")).await.keys(&format!("*{name}*")).await;
        assert!(keys.iter().all(|key| key.contains("app:")), "{keys:?}");
    }
    let (name, owner) = (unique("identity"), Owner::named("request-17").unwrap());
    let id = java.must("t", "client", "-", "id").await;
    let thread = java.must("t", "client", "-", "thread").await;
    java.must("t", "lock", &name, "lock").await;
    let holder = rust.lock(&name).holder().await.unwrap().unwrap();
    assert_eq!((holder.client.as_str(), holder.field()), (id.as_str(), &*format!("{id}:{thread}")));
    assert!(rust.lock(&name).force_unlock_if(holder.field()).await.unwrap());
    rust.lock(&name).owned_by(&owner).lock().await.unwrap();
    let fields = world.raw(&format!("app:{name}")).await.hgetall(&format!("app:{name}")).await;
    assert_eq!(fields, [(format!("{}:named-request-17", rust.client_id()), "1".to_owned())]);
    rust.lock(&name).owned_by(&owner).unlock().await.unwrap();
    tokens(&world).await;
}

/// One name mapper on both sides, which puts all names of a group into one slot: whoever holds one keeps the other out,
/// and both say the name that they were given.
pub async fn mapped_names(world: Arc<World>) {
    let group = unique("group");
    let java = world.java(&format!("prefix={{{group}}}: suffix=:v2")).await;
    let of = group.clone();
    let rust = world.rust(client().name_mapper(move |name| format!("{{{of}}}:{name}:v2"))).await;
    let [j, r] = [Peer::Java(java.clone()), Peer::Rust(rust.clone())];
    for kind in Kind::ALL {
        for (holder, other) in [(&j, &r), (&r, &j)] {
            let (mine, theirs) = (holder.lock(kind, "mapped", "mine"), other.lock(rival(kind), "mapped", "theirs"));
            mine.must_lock(None).await;
            assert_eq!(theirs.try_lock(ms(0), None).await, Ok(false), "{kind:?}");
            let key = format!("{{{group}}}:mapped:v2");
            let keys = world.raw(&key).await.keys(&format!("*{group}*")).await;
            let is_ours = |found: &String| found.contains(&key);
            assert!(!keys.is_empty() && keys.iter().all(is_ours), "{kind:?} {keys:?}");
            mine.unlock().await.result.unwrap();
        }
    }
    assert_eq!(rust.lock("mapped").name(), "mapped");
    assert_eq!(java.must("t", "lock", "mapped", "name").await, "mapped");
    assert!(rust.semaphore("counted").try_set_permits(3).await.unwrap());
    assert_eq!(java.get::<u32>("t", "semaphore", "counted", "available").await, 3);
}

/// The locks of a map's entries: their names by the jar, and one lock of both sides.
pub async fn entries_of_a_map(world: Arc<World>) {
    let (java, rust, map) = (world.java("").await, world.rust(client()).await, unique("map"));
    let keys = (1..=65).map(|length| "k".repeat(length)).chain(["Schlüssel-ß".to_owned()]);
    for (map, key) in keys.map(|key| (map.clone(), key)).chain([(format!("{{{map}}}:of"), "42".to_owned())]) {
        let entry = MapEntry::new(&map, &key);
        let (lock, fair, both) = (entry.lock(), entry.fair_lock(), entry.read_write_lock());
        let names = [lock, fair, both, entry.semaphore(), entry.permit_semaphore(), entry.latch()];
        assert_eq!(java.must("t", "client", "-", &format!("entry {map} {key}")).await, names.join(" "));
    }
    let object = format!("{map}/42");
    // Redisson maps the map's name, and then the lock's.
    let (mapped, prefixed) = (world.java("prefix=app:").await, world.rust(client().key_prefix("app:")).await);
    let lock = prefixed.lock(&MapEntry::new(&format!("app:{map}"), "42").lock());
    mapped.must("t", "entry", &object, "lock").await;
    assert!(lock.is_locked().await.unwrap());
    mapped.must("t", "entry", &object, "unlock").await;
    assert!(!lock.is_locked().await.unwrap());
    let name = MapEntry::new(&map, "42").lock();
    let lock = rust.lock(&name).owned_by(&Owner::unique());
    java.must("t", "entry", &object, "lock").await;
    assert!(!lock.try_lock().await.unwrap().is_acquired());
    let waiter = spawn_with(lock.clone(), |lock| async move { lock.lock().await });
    sleep(ms(300)).await;
    java.must("t", "entry", &object, "unlock").await;
    patient("its turn", waiter).await.unwrap().unwrap();
    let state = java.must("t", "entry", &object, "state").await;
    assert!(state.starts_with("true false "), "{state}");
    lock.unlock().await.unwrap();
    leaves_nothing(&world, &name).await;
}

fn rival(kind: Kind) -> Kind {
    if kind == Kind::Read {
        Kind::Write
    } else {
        kind
    }
}

/// Tokens rise over both sides, and both read the last one.
async fn tokens(world: &World) {
    let (java, rust, name) = (world.java("").await, world.rust(client()).await, unique("tokens"));
    let lock = rust.fenced_lock(&name).owned_by(&Owner::unique());
    let mut last = 0;
    for round in 0..10 {
        let token = if round % 2 == 0 {
            let token = java.get::<u64>("t", "fenced_lock", &name, "lock_and_get_token").await;
            java.must("t", "fenced_lock", &name, "unlock").await;
            token
        } else {
            let token = lock.lock_and_get_token().await.unwrap();
            lock.unlock().await.unwrap();
            token
        };
        assert!(token > last, "{token} after {last}");
        assert_eq!(java.get::<u64>("t", "fenced_lock", &name, "token").await, token);
        last = token;
    }
    let guard = lock.guard().await.unwrap();
    assert_eq!(java.must("t", "fenced_lock", &name, "try_lock_and_get_token 50 1000").await, "null");
    guard.unlock().await.unwrap();
}

/// Readers of both with several holds each: counts, holders and what is left agree at each step.
pub async fn hold_counts_of_many_owners(world: Arc<World>) {
    let (java, rust, name) = (world.java("").await, world.rust(client()).await, unique("counts"));
    let side = rust.read_write_lock(&name);
    let owners: Vec<Owner> = (0..3).map(|at| Owner::named(format!("reader-{at}")).unwrap()).collect();
    for (at, owner) in owners.iter().enumerate() {
        for _ in 0..=at {
            side.read().owned_by(owner).lock().await.unwrap();
            java.must(&format!("t{at}"), "read", &name, "lock").await;
        }
    }
    for (at, owner) in owners.iter().enumerate() {
        assert_eq!(side.read().owned_by(owner).hold_count().await.unwrap(), at as u64 + 1);
        let state = java.must(&format!("t{at}"), "read", &name, "state").await;
        assert!(state.starts_with(&format!("true true {} ", at + 1)), "{state}");
    }
    let holders = side.read().holders().await.unwrap();
    let counts: u64 = holders.iter().map(|holder| holder.count).sum();
    assert_eq!((holders.len(), counts), (6, 12));
    for (at, owner) in owners.iter().enumerate() {
        for _ in 0..=at {
            assert!(!side.write().owned_by(&Owner::unique()).try_lock().await.unwrap().is_acquired());
            java.must(&format!("t{at}"), "read", &name, "unlock").await;
            side.read().owned_by(owner).unlock().await.unwrap();
        }
    }
    leaves_nothing(&world, &name).await;
}
