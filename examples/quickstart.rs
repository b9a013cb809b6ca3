//! Two shops with ten tasks each sell one shared stock, under one lock.
//!
//! ```sh
//! # On a server inside this process. With `-- --no-lock`: what happens without the lock.
//! cargo run --example quickstart --no-default-features --features embedded
//! # On a real one.
//! cargo run --example quickstart -- --url redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::future::pending;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockson::{LockError, Locks, ReentrantLock};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const ITEMS: u32 = 100;
const TASKS: usize = 20;

/// The items that were sold. Looking for the next and selling it are two steps, as with a file or a table: if another
/// task comes in between, both sell the same item. Only the lock keeps them apart.
#[derive(Default)]
struct Stock(Mutex<Vec<u32>>);

impl Stock {
    fn sold(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<u32> {
        Some(self.sold().last().map_or(1, |last| last + 1)).filter(|item| *item <= ITEMS)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run(None, true).await,
        ["--no-lock"] => run(None, false).await,
        ["--url", url] => run(Some(url), true).await,
        _ => Err("the arguments are: nothing, --no-lock, or --url redis://host:port".into()),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

async fn run(url: Option<&str>, with_lock: bool) -> Result<ExitCode> {
    // Two clients of one server: they exclude each other as two processes do.
    let [shop_a, shop_b] = clients(url).await?;
    let name = format!("quickstart:stock:{}", std::process::id());
    let (lock_a, lock_b) = (shop_a.lock(&name), shop_b.lock(&name));
    let stock = Arc::new(Stock::default());

    if with_lock {
        re_entry(&lock_a).await?;
        a_try_that_gives_up(&lock_a, &lock_b).await?;
        a_cancelled_task(&lock_a, &lock_b).await?;
        a_lost_hold(&lock_a, &lock_b, &stock).await?;
    }
    the_sale([&lock_a, &lock_b], &stock, with_lock).await?;

    // A program that exits gives back what it still holds.
    shop_a.shutdown(Duration::from_secs(5)).await?;
    shop_b.shutdown(Duration::from_secs(5)).await?;
    Ok(check(&stock))
}

/// The settings are for a demonstration: with a lease of 3 s, renewed each second, a lost hold is found within a
/// second.
#[allow(unreachable_patterns, unused_variables)] // That depends on the features.
async fn clients(url: Option<&str>) -> Result<[Locks; 2]> {
    let settings = |label: &str| Locks::builder().label(label).watchdog_lease(Duration::from_secs(3));
    match url {
        #[cfg(feature = "redis")]
        Some(url) => Ok([settings("shop-a").connect(url).await?, settings("shop-b").connect(url).await?]),
        #[cfg(feature = "embedded")]
        None => {
            let server = lockson::EmbeddedServer::new();
            Ok([server.connect_with(settings("shop-a"))?, server.connect_with(settings("shop-b"))?])
        }
        _ => Err("--url needs the feature `redis` (a default one), no --url needs --features embedded".into()),
    }
}

/// The owner of a lock, by default the task, may take it again: a function that needs the lock can be called by one
/// that has it. Each guard gives one hold back.
async fn re_entry(lock: &ReentrantLock) -> Result<()> {
    let outer = lock.guard().await?;
    let inner = lock.guard().await?;
    println!("re-entry: one owner took the lock twice, the server counts {} holds", lock.hold_count().await?);
    inner.unlock().await?;
    Ok(outer.unlock().await?)
}

/// A busy lock is no error: `false` for a bare hold, `None` for a guard.
async fn a_try_that_gives_up(lock_a: &ReentrantLock, lock_b: &ReentrantLock) -> Result<()> {
    let guard = lock_a.guard().await?;
    let began = Instant::now();
    if lock_b.try_lock().await?.is_acquired()
        || lock_b.acquire().wait(Duration::from_millis(200)).guard().await?.is_some()
    {
        return Err("two shops had the lock".into());
    }
    println!("a try: shop b gave up after {:.0?}, as shop a had the lock", began.elapsed());
    Ok(guard.unlock().await?)
}

/// A task that is cancelled drops its guard, and the client gives the lock back. So does a task that panics.
async fn a_cancelled_task(lock_a: &ReentrantLock, lock_b: &ReentrantLock) -> Result<()> {
    let lock = lock_a.clone();
    let (holds, is_held) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let _guard = lock.guard().await?;
        let _ = holds.send(());
        pending::<Result<(), LockError>>().await
    });
    is_held.await?;
    let began = Instant::now();
    task.abort();
    let guard = lock_b.guard().await?;
    println!("a cancelled task: shop b had its lock after {:.1?}", began.elapsed());
    Ok(guard.unlock().await?)
}

/// A hold can be lost: an operator ends it, the server loses its data, or the network is gone for longer than the
/// lease. The guard finds out: `lost` resolves, and `run` stops the work. What is lost is not given back a second time.
async fn a_lost_hold(lock_a: &ReentrantLock, lock_b: &ReentrantLock, stock: &Stock) -> Result<()> {
    let guard = lock_a.guard().await?;
    lock_b.force_unlock().await?;
    let began = Instant::now();
    let order = guard.run(async {
        let item = stock.next();
        pending::<()>().await; // A courier who never comes.
        stock.sold().extend(item);
    });
    let Err(lost) = order.await else { return Err("an order went through without the lock".into()) };
    println!("a lost hold: shop a's order was stopped after {:.0?}: {lost}", began.elapsed());
    assert_eq!(guard.lost().await, lost);

    let rival = lock_b.guard().await?;
    let Err(refused) = guard.unlock().await else { return Err("a lost hold was given back".into()) };
    println!("a lost hold: shop a can't give back what shop b holds now: {refused}");
    Ok(rival.unlock().await?)
}

/// Twenty tasks sell until nothing is left. Who comes when another has the lock waits.
async fn the_sale(locks: [&ReentrantLock; 2], stock: &Arc<Stock>, with_lock: bool) -> Result<()> {
    let tasks = (0..TASKS).map(|number| tokio::spawn(work(locks[number % 2].clone(), stock.clone(), with_lock)));
    let (mut orders, mut longest) = ([0, 0], Duration::ZERO);
    for (number, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
        let (sold, waited) = task.await??;
        orders[number % 2] += sold;
        longest = longest.max(waited);
    }
    println!("the sale: {TASKS} tasks took {} + {} orders, the longest wait was {longest:.0?}", orders[0], orders[1]);
    Ok(())
}

/// Sells until nothing is left: how many, and the longest wait for the lock.
async fn work(lock: ReentrantLock, stock: Arc<Stock>, with_lock: bool) -> Result<(u32, Duration)> {
    let (mut sold, mut longest) = (0, Duration::ZERO);
    while stock.next().is_some() {
        if !with_lock {
            sold += sell_one(&stock).await;
            continue;
        }
        let began = Instant::now();
        let guard = lock.guard().await?;
        longest = longest.max(began.elapsed());
        sold += guard.run(sell_one(&stock)).await?;
        guard.unlock().await?;
    }
    Ok((sold, longest))
}

/// How many it sold: one, or none if nothing is left.
async fn sell_one(stock: &Stock) -> u32 {
    let Some(item) = stock.next() else { return 0 };
    tokio::time::sleep(Duration::from_millis(1)).await; // Others run meanwhile.
    stock.sold().push(item);
    1
}

/// Every item was sold, and none of them twice.
fn check(stock: &Stock) -> ExitCode {
    let mut sold = stock.sold().clone();
    sold.sort_unstable();
    let orders = sold.len();
    sold.dedup();
    let (lost, twice) = (ITEMS as usize - sold.len(), orders - sold.len());
    let verdict = if lost + twice == 0 { "right" } else { "WRONG" };
    println!("check: {ITEMS} items, {lost} lost, {twice} sold twice: {verdict}");
    ExitCode::from(u8::from(lost + twice > 0))
}
