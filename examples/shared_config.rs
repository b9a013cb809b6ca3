//! A configuration that many processes read and a few change, under a read/write lock: no reader sees half a change,
//! and each sees the versions rise.
//!
//! ```sh
//! cargo run --example shared_config --features embedded               # on a server inside this process
//! cargo run --example shared_config -- --url redis://127.0.0.1:6379   # on a real one
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockson::{Locks, ReadWriteLock};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const READERS: usize = 8;
const CHANGES: u64 = 10;

/// What stands for a file or a table: its two halves are written one after the other.
#[derive(Default)]
struct Config {
    version: u64,
    /// Belongs to the version: ten times as much.
    limit: u64,
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<Config>>);

impl Store {
    fn open(&self) -> MutexGuard<'_, Config> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--url", url] => Some(url),
        _ => return Err("the arguments are: nothing, or --url redis://host:port".into()),
    };
    // Two clients of one server: they exclude each other as two processes do.
    let [readers, writer] = clients(url).await?;
    let name = format!("shared-config:{}", std::process::id());
    let store = Store::default();

    let tasks: Vec<_> =
        (0..READERS).map(|_| tokio::spawn(read(readers.read_write_lock(&name), store.clone()))).collect();
    let longest = change(&writer.read_write_lock(&name), &store).await?;
    let mut reads = 0;
    for task in tasks {
        reads += task.await??;
    }
    println!("{CHANGES} versions, {reads} reads by {READERS} readers, the writer waited {longest:.0?} at most");
    readers.shutdown(Duration::from_secs(5)).await?;
    writer.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn clients(url: Option<&str>) -> Result<[Locks; 2]> {
    if let Some(url) = url {
        return Ok([Locks::connect(url).await?, Locks::connect(url).await?]);
    }
    #[cfg(feature = "embedded")]
    {
        let server = lockson::EmbeddedServer::new();
        Ok([server.connect(), server.connect()])
    }
    #[cfg(not(feature = "embedded"))]
    Err("name a server by --url redis://host:port, or build with --features embedded".into())
}

/// Reads until the last version: how often. Readers are inside together, and never with a writer.
async fn read(lock: ReadWriteLock, store: Store) -> Result<u32> {
    let (mut reads, mut seen) = (0, 0);
    while seen < CHANGES {
        let guard = lock.read().guard().await?;
        let version = store.open().version;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let limit = store.open().limit;
        if limit != version * 10 || version < seen {
            return Err(format!("version {version} with limit {limit} after version {seen}").into());
        }
        seen = version;
        reads += 1;
        guard.unlock().await?;
    }
    Ok(reads)
}

/// Changes it again and again: the longest wait. Readers that come meanwhile let a waiting writer go first.
async fn change(lock: &ReadWriteLock, store: &Store) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for _ in 0..CHANGES {
        let began = Instant::now();
        let guard = lock.write().guard().await?;
        longest = longest.max(began.elapsed());
        store.open().version += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let limit = store.open().version * 10;
        store.open().limit = limit;
        // What it wrote it may check before others can change it: it goes on reading, and lets readers in.
        let check = lock.read().guard().await?;
        guard.unlock().await?;
        let config = store.open().version;
        check.unlock().await?;
        println!("version {config}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(longest)
}
