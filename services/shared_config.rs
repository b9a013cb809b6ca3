//! A configuration that many processes read and a few change, in a file under a read/write lock. The lock keeps readers
//! and writers apart; it does not roll back. So no writer changes what is there: it writes a new file beside, and gives
//! it its name when it is whole. A writer that dies half-way leaves a file that nobody reads. The name is the token of
//! the hold, and the highest counts: a writer that was paused beyond its lease leaves one that nobody reads too.
//!
//! ```sh
//! cargo run -p services --bin shared_config                                   # on a server inside this process
//! cargo run -p services --bin shared_config -- --url redis://127.0.0.1:6379   # on a real one
//! cargo run -p services --bin shared_config -- --url redis://127.0.0.1:6379 --in folder --change   # one that goes on
//! cargo run -p services --bin shared_config -- --url redis://127.0.0.1:6379 --in folder --read     # changing, reading
//! ```

use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lockson::{EmbeddedServer, FencedGuard, Locks, ReadWriteLock};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// For so long nobody can change the config whose writer's process has died. The default is 30 s.
const LEASE: Duration = Duration::from_secs(3);
const READERS: usize = 8;
const CHANGES: u64 = 10;
/// The change whose writer dies half-way, and the one whose writer is paused beyond its lease.
const DIES: u64 = 4;
const LATE: u64 = 7;

/// What is in the file: two lines, which are written one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Config {
    version: u64,
    /// Belongs to the version: ten times as much.
    limit: u64,
}

/// A folder with the versions, each in a file that is named after the token of its writer.
#[derive(Clone)]
struct Store(PathBuf);

impl Store {
    fn versions(&self) -> Result<Vec<PathBuf>> {
        let files = fs::read_dir(&self.0)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
        let is_whole = |path: &PathBuf| path.extension().is_some_and(|end| end == "config");
        // All names are equally long: the last one has the highest token.
        let mut versions: Vec<PathBuf> = files.into_iter().filter(is_whole).collect();
        versions.sort();
        Ok(versions)
    }

    fn read(&self) -> Result<Config> {
        let text = loop {
            let Some(path) = self.versions()?.pop() else { return Ok(Config::default()) };
            match fs::read_to_string(path) {
                // Who lost its lock may read while another sweeps: then there is one with a higher token.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                text => break text?,
            }
        };
        let number = |at: usize| text.lines().nth(at).unwrap_or_default().parse::<u64>();
        let (Ok(version), Ok(limit)) = (number(0), number(1)) else {
            return Err(format!("half a config: {text:?}").into());
        };
        if limit != version * 10 {
            return Err(format!("version {version} with limit {limit}").into());
        }
        Ok(Config { version, limit })
    }

    /// Beside first: whatever happens before the rename, readers have the version before.
    async fn write(&self, version: u64, token: u64) -> Result<()> {
        let path = self.0.join(format!("{token:020}.config"));
        let beside = path.with_extension("half");
        let mut file = fs::File::create(&beside)?;
        writeln!(file, "{version}")?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        writeln!(file, "{}", version * 10)?;
        file.sync_all()?;
        Ok(fs::rename(beside, path)?)
    }

    /// What is older than this token, whole or half, nobody reads any more.
    fn sweep(&self, token: u64) -> Result<()> {
        for file in fs::read_dir(&self.0)? {
            let path = file?.path();
            if path.file_stem() < Some(format!("{token:020}").as_ref()) {
                // Two may sweep at once, if one has lost its lock and does not know yet.
                fs::remove_file(path).or_else(unless_gone)?;
            }
        }
        Ok(())
    }
}

fn unless_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound {
        return Ok(());
    }
    Err(error)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--url", url] => Some(url),
        ["--url", url, "--in", folder, what @ ("--change" | "--read")] => {
            let lock = Locks::builder().watchdog_lease(LEASE).connect(url).await?.read_write_lock("shared-config");
            return go_on(&lock, &Store(folder.into()), what == "--change").await;
        }
        _ => return Err("the arguments are: nothing, or --url redis://host:port, or more: see above".into()),
    };
    // Clients of one server: they exclude each other as processes do.
    let [readers, writer, other] = clients(url).await?;
    let name = format!("shared-config:{}", std::process::id());
    let folder = std::env::temp_dir().join(name.replace(':', "-"));
    fs::create_dir_all(&folder)?;

    let shown = show(&readers, [&writer, &other], &name, &folder).await;
    fs::remove_dir_all(&folder)?;
    shown?;
    for client in [readers, writer, other] {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// One of many processes: changes, or reads, again and again, and says each version. It ends where one is not whole, or
/// older than one before.
async fn go_on(lock: &ReadWriteLock, store: &Store, changes: bool) -> Result<()> {
    let mut seen = 0;
    loop {
        let version = if changes { change_once(lock, store).await } else { read_once(lock, store).await };
        match version {
            Ok(version) if version < seen => return Err(format!("version {version} after {seen}").into()),
            Ok(version) => {
                seen = version;
                println!("{version}");
            }
            Err(Failure::Locks(error)) => eprintln!("once more: {error}"),
            Err(Failure::Store(error)) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What goes by, and what does not.
enum Failure {
    Locks(Box<dyn Error + Send + Sync>),
    Store(Box<dyn Error + Send + Sync>),
}

impl Failure {
    fn of_locks(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Locks(error.into())
    }

    /// What is gone was swept by one with a higher token: so the lock is lost.
    fn of_store(error: Box<dyn Error + Send + Sync>) -> Self {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(ErrorKind::NotFound) {
            return Self::Locks(error);
        }
        Self::Store(error)
    }
}

async fn change_once(lock: &ReadWriteLock, store: &Store) -> Result<u64, Failure> {
    let guard = lock.write().fenced().guard().await.map_err(Failure::of_locks)?;
    let version = store.read().map_err(Failure::of_store)?.version + 1;
    store.write(version, guard.token()).await.map_err(Failure::of_store)?;
    store.sweep(guard.token()).map_err(Failure::of_store)?;
    // Not confirmed, it may not have been what counts.
    guard.unlock().await.map_err(Failure::of_locks)?;
    Ok(version)
}

async fn read_once(lock: &ReadWriteLock, store: &Store) -> Result<u64, Failure> {
    let guard = lock.read().guard().await.map_err(Failure::of_locks)?;
    let config = store.read().map_err(Failure::of_store)?;
    guard.unlock().await.map_err(Failure::of_locks)?;
    Ok(config.version)
}

async fn show(readers: &Locks, writers: [&Locks; 2], name: &str, folder: &Path) -> Result<()> {
    let store = Store(folder.to_owned());
    let tasks: Vec<_> =
        (0..READERS).map(|_| tokio::spawn(read(readers.read_write_lock(name), store.clone()))).collect();
    let longest = change(writers.map(|locks| locks.read_write_lock(name)), &store).await?;
    let mut reads = 0;
    for task in tasks {
        reads += task.await??;
    }
    println!("{CHANGES} versions, {reads} reads by {READERS} readers, the writer waited {longest:.0?} at most");
    Ok(())
}

async fn clients(url: Option<&str>) -> Result<[Locks; 3]> {
    if let Some(url) = url {
        return Ok([Locks::connect(url).await?, Locks::connect(url).await?, Locks::connect(url).await?]);
    }
    let server = EmbeddedServer::new();
    Ok([server.connect(), server.connect(), server.connect()])
}

/// Reads until the last version: how often. Readers are inside together, and never with a writer that holds the lock.
async fn read(lock: ReadWriteLock, store: Store) -> Result<u32> {
    let (mut reads, mut seen) = (0, 0);
    while seen < CHANGES {
        let guard = lock.read().guard().await?;
        let before = store.read()?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        if store.read()? != before || before.version < seen {
            return Err(format!("{before:?} after version {seen}, and then {:?}", store.read()?).into());
        }
        seen = before.version;
        reads += 1;
        guard.unlock().await?;
    }
    Ok(reads)
}

/// Changes it again and again: the longest wait. Readers that come meanwhile let a waiting writer go first.
async fn change([lock, other]: [ReadWriteLock; 2], store: &Store) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for version in 1..=CHANGES {
        match version {
            DIES => die_half_way(&other, store, version).await?,
            LATE => write_late(&other, store).await?,
            _ => {}
        }
        let began = Instant::now();
        let guard = lock.write().fenced().guard().await?;
        longest = longest.max(began.elapsed());
        assert_eq!(store.read()?.version, version - 1, "what was there before is what counts");
        store.write(version, guard.token()).await?;
        store.sweep(guard.token())?;
        // What it wrote it may check before others can change it: it goes on reading, and lets readers in.
        let check = lock.read().guard().await?;
        guard.unlock().await?;
        println!("version {}", store.read()?.version);
        check.unlock().await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(longest)
}

/// A writer that ends between the two lines: its guard is dropped, as its lease would end if its process were killed.
async fn die_half_way(lock: &ReadWriteLock, store: &Store, version: u64) -> Result<()> {
    let guard = lock.write().fenced().guard().await?;
    let writing = store.write(version, guard.token());
    assert!(tokio::time::timeout(Duration::from_millis(1), writing).await.is_err(), "it has no second line yet");
    println!("a writer died half-way: {:?} is what readers have", store.read()?);
    Ok(())
}

/// A writer that is paused beyond its lease, and goes on when another has changed the config: its token is the lower.
async fn write_late(lock: &ReadWriteLock, store: &Store) -> Result<()> {
    let lease = Duration::from_millis(100);
    let paused: FencedGuard = lock.write().fenced().acquire().lease(lease).guard().await?.ok_or("no limit")?;
    paused.lost().await;
    let current = lock.write().fenced().owned_by(&lockson::Owner::unique()).guard().await?;
    let config = store.read()?;
    store.write(config.version, current.token()).await?;
    store.write(999, paused.token()).await?;
    assert_eq!(store.read()?, config, "what came late nobody reads");
    println!("a writer came late, with the token {} after {}", paused.token(), current.token());
    current.unlock().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockson_testkit::TestServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_writer_writes_that_lost_its_lock_nobody_reads() {
        let server = TestServer::new();
        let folder = std::env::temp_dir().join(format!("lockson-config-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let store = Store(folder.clone());
        let late = server.connect().read_write_lock("config").write().fenced().guard().await.unwrap();
        assert!(server.lose("config"));
        late.lost().await;
        let current = server.connect().read_write_lock("config").write().fenced().guard().await.unwrap();
        store.write(1, current.token()).await.unwrap();
        store.write(999, late.token()).await.unwrap();
        let found = store.read();
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(found.unwrap(), Config { version: 1, limit: 10 });
    }
}
