//! Many tasks lock random pairs and triples of a few locks: none waits for ever, and nothing is left.

use support::prelude::*;
use support::sites::give_up_after;

/// Who is inside of each of the six, and what fifty tasks came to.
#[derive(Default)]
struct Six {
    inside: [AtomicBool; 6],
    turns: AtomicU64,
    breaches: AtomicU64,
    given_up: AtomicU64,
}

impl Six {
    async fn turn(&self, picked: &[usize]) {
        let breaches = picked.iter().filter(|&&at| self.inside[at].swap(true, Ordering::SeqCst)).count();
        self.breaches.fetch_add(breaches as u64, Ordering::SeqCst);
        tokio::task::yield_now().await;
        picked.iter().for_each(|&at| self.inside[at].store(false, Ordering::SeqCst));
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

/// Random pairs and triples, in random order, by random verbs; some are given up.
async fn locks_at_random(clients: &[Locks], six: &Six, names: &[String], mut rng: Rng, end: Instant) {
    while Instant::now() < end {
        let mut picked: Vec<usize> = Vec::new();
        let size = 2 + rng.usize(..2);
        while picked.len() < size {
            let at = rng.usize(..6);
            if !picked.contains(&at) {
                picked.push(at);
            }
        }
        let client = &clients[rng.usize(..clients.len())];
        let handle = |at: &usize| match at {
            0 => Arc::new(client.mutex(&names[0])) as Arc<dyn RLock>,
            1 => Arc::new(client.fair_lock(&names[1])),
            2 => Arc::new(client.read_write_lock(&names[2]).write()),
            at => Arc::new(client.lock(&names[*at])),
        };
        let lock = MultiLock::new(picked.iter().map(handle));
        let verb = rng.u64(..8);
        if verb == 0 {
            six.given_up.fetch_add(1, Ordering::SeqCst);
            drop(give_up_after(rng.usize(..12), lock.guard()).await);
            continue;
        }
        if verb == 1 {
            lock.lock().await.unwrap();
            six.turn(&picked).await;
            lock.unlock().await.unwrap();
            continue;
        }
        let request = Request::default().wait(ms(rng.u64(..40))).lease(secs(30));
        let guard = match lock.guard_with(if verb == 2 { request } else { Request::default() }).await {
            Ok(Some(guard)) => guard,
            // A limit shorter than a round trip.
            Ok(None) | Err(LockError::Query(QueryError::Unreachable { .. })) if verb == 2 => continue,
            other => panic!("{other:?}"),
        };
        six.turn(&picked).await;
        match verb {
            3 => drop(guard),
            _ => guard.unlock().await.unwrap(),
        }
    }
}

/// "50 tasks lock random pairs and triples of 6 locks for 30 s: no deadlock, no leak"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_and_six_locks() {
    let server = Server::start();
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Locks::builder().wait_cap(secs(5)).connect(&server.url()).await.unwrap());
    }
    let clients: Arc<[Locks]> = clients.into();
    let names: Arc<[String]> = (0..6).map(|_| unique("six")).collect();
    let six = Arc::new(Six::default());
    let end = Instant::now() + secs(soak(30) as u64);
    let tasks = spawn_each(0..50, |_| {
        let (clients, six, names, rng) = (clients.clone(), six.clone(), names.clone(), rng.fork());
        async move { locks_at_random(&clients, &six, &names, rng, end).await }
    });
    let all = futures::future::try_join_all(tasks);
    let limit = secs(soak(30) as u64 + 60);
    tokio::time::timeout(limit, all).await.expect("nobody waits for ever").unwrap();
    let free = || async {
        let keys = server.raw().await.keys("*").await;
        clients.iter().all(|client| client.health().holds == 0) && !names.iter().any(|name| keys.contains(name))
    };
    eventually(secs(20), "nothing is left", free).await;
    let [turns, breaches, given_up] =
        [&six.turns, &six.breaches, &six.given_up].map(|count| count.load(Ordering::SeqCst) as usize);
    println!("fifty tasks and six locks: {turns} turns, {given_up} given up");
    assert!(turns > 0);
    report("fifty tasks and six locks", turns, turns, breaches, seed);
}
