//! One client of lockson for `scripts/consensus`: takes the lock and gives it back as the script says, and tells since
//! when, and until when, the guard says that it is valid. Its arguments: the deployment (`single`, `confirm-one` or
//! `confirm-all` behind sentinels, `red`), the URLs, the name, and the milliseconds of the lease.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::future::try_join_all;
use lockson::{Builder, Guard, Locks, RLock, RedLock, Replicas};
use tokio::io::{AsyncBufReadExt, BufReader};

type Held = Arc<Mutex<Option<Guard>>>;

fn now() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos())
}

/// Asks each millisecond. An end is told as of the last time that it was valid.
fn watch(held: &Held) {
    let (mut valid, mut last) = (false, 0);
    loop {
        let before = now();
        let is = held.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Guard::is_valid);
        match (valid, is) {
            (false, true) => println!("valid {}", now()),
            (true, false) => println!("invalid {last}"),
            _ => {}
        }
        valid = is;
        last = if is { before } else { last };
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn lock_of(kind: &str, urls: &str, name: &str, lease: Duration) -> Result<Arc<dyn RLock>, Box<dyn Error>> {
    let builder = Locks::builder().watchdog_lease(lease).command_timeout(lease / 5);
    let confirmed = |replicas| -> Builder { builder.clone().confirm(replicas, lease / 5) };
    let one = match kind {
        "red" => {
            let all = urls.split(',').map(|url| builder.clone().connect(url));
            let locks = try_join_all(all).await?;
            let red = RedLock::new(locks.iter().map(|locks| locks.lock(name)));
            // The script's servers are new. Their proxies are slow beside a network's switches.
            return Ok(Arc::new(red.fresh().max_lease(lease).server_timeout(lease / 10)));
        }
        "confirm-all" => confirmed(Replicas::All),
        "confirm-one" => confirmed(Replicas::AtLeast(1)),
        _ => builder,
    };
    Ok(Arc::new(one.connect(urls).await?.lock(name)))
}

/// A call that fails is made again.
async fn acquire(lock: &Arc<dyn RLock>) -> Guard {
    loop {
        match lock.guard().await {
            Ok(guard) => return guard,
            Err(error) => println!("error {} {error}", now()),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, urls, name, lease] = &arguments[..] else { return Err("the script says how it is called".into()) };
    let lock = lock_of(kind, urls, name, Duration::from_millis(lease.parse()?)).await?;
    let held = Held::default();
    let watched = held.clone();
    std::thread::spawn(move || watch(&watched));
    println!("ready {}", now());
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = input.next_line().await? {
        let guard = held.lock().unwrap_or_else(PoisonError::into_inner).take();
        match guard {
            _ if line == "acquire" => {
                let guard = acquire(&lock).await;
                *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
            }
            None => {}
            Some(guard) => match guard.unlock().await {
                Ok(()) => println!("released {}", now()),
                Err(error) => println!("error {} {error}", now()),
            },
        }
    }
    std::process::exit(0)
}
