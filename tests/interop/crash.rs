//! A process that dies frees what it held for the other side, when its leases end.

use crate::*;

/// All that one process holds: locks of every kind, a multi-lock, and the only permit of a semaphore.
struct Estate {
    locks: Vec<(&'static Pair, String)>,
    members: [String; 3],
    group: String,
    permits: String,
}

impl Estate {
    async fn new(locks: &Locks) -> Estate {
        let permits = unique("crash-permits");
        assert!(locks.permit_semaphore(&permits).try_set_permits(1).await.unwrap());
        let name = |pair: &Pair| unique(&format!("crash-{}", pair.row.replace(':', "-")));
        let locks = PAIRS.iter().map(|pair| (pair, name(pair))).collect();
        Estate { locks, members: composite::names(), group: unique("crash-group"), permits }
    }

    /// Who has it waits for all of it; then its process is killed. The other side gets all of it.
    async fn inherited_by(self, world: &World, heir: &Peer, kill: impl FnOnce(), direction: &'static str) {
        let Estate { locks, members, group, permits } = self;
        let names: Vec<&String> = locks.iter().map(|(_, name)| name).chain(&members).chain([&group]).collect();
        for name in &names {
            assert!(world.raw(name).await.exists(name).await, "{name} is held");
        }
        let heirs = locks.iter().map(|(pair, name)| (pair.row, heir.lock(pair.rival, name, &format!("heir-{name}"))));
        let heirs = heirs.chain([(composite::ROW, composite::side(heir, &members, "heir"))]);
        let heirs = heirs.chain([(group::ROW, group::side(heir, (&group, &group::TWO), "heir"))]);
        let waiting: Vec<_> = heirs.map(|(row, lock)| (row, lock.lock(Some(LONG)), lock)).collect();
        let permit = spawn_local(synchronizers::permit_of(heir.clone(), permits));
        // Longer than a lease: they are renewed while their process lives.
        sleep(world.short + secs(1)).await;
        for (row, waiter, _) in &waiting {
            assert!(!waiter.is_finished(), "{row}: got what was held");
        }
        // Redisson's are not renewed.
        assert!(!permit.is_finished() || direction == "J>R", "got the permit that was held");
        kill();
        for (row, waiter, lock) in waiting {
            patient(row, waiter).await.unwrap().result.unwrap();
            lock.unlock().await.result.unwrap();
            world.cell(row, direction).shows(&["crash"]);
        }
        patient("the permit", permit).await.unwrap();
        world.cell("permits", direction).shows(&["crash"]);
        for name in names {
            leaves_nothing(world, name).await;
        }
    }
}

pub async fn a_killed_jvm_frees_what_it_held(world: Arc<World>) {
    let jvm = Jvm::start(&world.class_path);
    let java = jvm.client(&world.place.url(), &format!("watchdog={}", world.short.as_millis())).await;
    let heir = world.rust(brief(secs(30))).await;
    let estate = Estate::new(&heir).await;
    let peer = Peer::Java(java.clone());
    for (pair, name) in &estate.locks {
        peer.lock(pair.kind, name, name).must_lock(None).await;
    }
    composite::side(&peer, &estate.members, "victim").must_lock(None).await;
    group::side(&peer, (&estate.group, &group::TWO), "victim").must_lock(None).await;
    java.must("t", "permits", &estate.permits, "acquire 6000").await;
    estate.inherited_by(&world, &Peer::Rust(heir), || jvm.kill(), "J>R").await;
}

pub async fn a_killed_rust_process_frees_what_it_held(world: Arc<World>) {
    let estate = Estate::new(&world.rust(client()).await).await;
    let mut args =
        vec![world.place.url(), world.short.as_millis().to_string(), estate.permits.clone(), estate.group.clone()];
    args.extend(estate.members.clone());
    args.extend(estate.locks.iter().map(|(pair, name)| format!("{}/{name}", pair.kind.name())));
    let mut process = holder("hold", &args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let heir = Peer::Java(world.java("").await);
    estate.inherited_by(&world, &heir, move || process.kill(), "R>J").await;
}

/// The process that is killed.
pub async fn hold(url: &str, args: &[String]) {
    let [short, permits, group, rest @ ..] = args else { panic!("{args:?}") };
    let (members, locks) = rest.split_at(composite::names().len());
    let rust = connect(brief(ms(short.parse().unwrap())), url).await;
    let _permit = rust.permit_semaphore(permits).guard(1).await.unwrap();
    let peer = Peer::Rust(rust);
    composite::side(&peer, members, "victim").must_lock(None).await;
    group::side(&peer, (group, &group::TWO), "victim").must_lock(None).await;
    for lock in locks {
        let (kind, name) = lock.split_once('/').unwrap();
        peer.lock(Kind::named(kind), name, "victim").must_lock(None).await;
    }
    say_held().await
}
