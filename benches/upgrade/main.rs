//! Some tasks that take something by turns with other processes: `upgrade URL KIND FOLDER TURNS TASKS`. Files of the
//! folder are locked by the system while something is held, so that two holders meet there. It says how many turns it
//! had, how often that was so, and the longest wait in milliseconds. Nobody looks by itself for a minute: who waited so
//! long was not woken.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockson::{Backoff, Locks, MultiLock, Owner, PermitSemaphore, RLock, Semaphore};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

type Failed = Box<dyn std::error::Error + Send + Sync>;

const NAME: &str = "upgraded";
const PERMITS: u32 = 2;

/// What is taken, and how many may have it at once.
#[derive(Clone)]
enum Wanted {
    Lock(Arc<dyn RLock>),
    Reader(Arc<dyn RLock>),
    Counted(Semaphore),
    Leased(PermitSemaphore),
}

fn opened(path: &Path) -> Result<File, Failed> {
    Ok(OpenOptions::new().create(true).truncate(false).write(true).open(path)?)
}

/// As long as they are kept: what says that somebody is inside. `None`: one too many.
fn entered(wanted: &Wanted, folder: &Path) -> Result<Option<File>, Failed> {
    let places = match wanted {
        Wanted::Lock(_) | Wanted::Reader(_) => 1,
        Wanted::Counted(_) | Wanted::Leased(_) => PERMITS,
    };
    for place in 0..places {
        let file = opened(&folder.join(format!("inside-{place}")))?;
        let got = match wanted {
            Wanted::Reader(_) => file.try_lock_shared(),
            _ => file.try_lock(),
        };
        if got.is_ok() {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

async fn inside(wanted: &Wanted, folder: &Path) -> Result<u32, Failed> {
    let place = entered(wanted, folder)?;
    sleep(Duration::from_micros(fastrand::u64(0..2_000))).await;
    Ok(u32::from(place.is_none()))
}

/// One turn: what was doubled, and how long it was waited for.
async fn turn(wanted: &Wanted, folder: &Path) -> Result<(u32, Duration), Failed> {
    let began = Instant::now();
    let (doubled, waited);
    match wanted {
        Wanted::Lock(lock) | Wanted::Reader(lock) => {
            let guard = lock.owned_by(&Owner::unique()).guard().await?;
            waited = began.elapsed();
            doubled = inside(wanted, folder).await?;
            guard.unlock().await?;
        }
        Wanted::Counted(semaphore) => {
            let permit = semaphore.guard(1).await?;
            waited = began.elapsed();
            doubled = inside(wanted, folder).await?;
            permit.release().await?;
        }
        Wanted::Leased(semaphore) => {
            let permit = semaphore.guard(1).await?;
            waited = began.elapsed();
            doubled = inside(wanted, folder).await?;
            permit.release().await?;
        }
    }
    Ok((doubled, waited))
}

async fn wanted(locks: &Locks, kind: &str) -> Result<Vec<Wanted>, Failed> {
    let both = locks.read_write_lock(NAME);
    let lock = |lock: Arc<dyn RLock>| vec![Wanted::Lock(lock)];
    Ok(match kind {
        "lock" => lock(Arc::new(locks.lock(NAME))),
        "mutex" => lock(Arc::new(locks.mutex(NAME))),
        "spin" => lock(Arc::new(locks.spin_lock(NAME, Backoff::default()))),
        "fenced" => lock(Arc::new(locks.fenced_lock(NAME))),
        "plain" => lock(Arc::new(locks.plain_lock(NAME))),
        "fair" => lock(Arc::new(locks.fair_lock(NAME))),
        "fair_mutex" => lock(Arc::new(locks.fair_mutex(NAME))),
        "write" => lock(Arc::new(both.write())),
        "read_write" => vec![Wanted::Lock(Arc::new(both.write())), Wanted::Reader(Arc::new(both.read()))],
        // All of them, and beside it one of them alone.
        "multi" => {
            let names = [NAME, "upgraded:b", "upgraded:c"];
            let multi = MultiLock::new(names.map(|name| locks.lock(name)));
            vec![Wanted::Lock(multi.into()), Wanted::Lock(Arc::new(locks.lock(names[1])))]
        }
        "semaphore" => {
            let semaphore = locks.semaphore(NAME);
            semaphore.try_set_permits(PERMITS).await?;
            vec![Wanted::Counted(semaphore)]
        }
        "permits" => {
            let semaphore = locks.permit_semaphore(NAME);
            semaphore.try_set_permits(PERMITS).await?;
            vec![Wanted::Leased(semaphore)]
        }
        other => return Err(format!("no kind {other}").into()),
    })
}

async fn all(url: &str, kind: &str, folder: PathBuf, turns: u32, tasks: usize) -> Result<(), Failed> {
    let locks = Locks::builder().wait_cap(Duration::from_secs(60)).connect(url).await?;
    let wanted = wanted(&locks, kind).await?;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let wanted = wanted[task % wanted.len()].clone();
        let folder = folder.clone();
        running.spawn(async move {
            let (mut doubled, mut longest) = (0, Duration::ZERO);
            for _ in 0..turns {
                let (more, waited) = turn(&wanted, &folder).await?;
                (doubled, longest) = (doubled + more, longest.max(waited));
            }
            Ok::<_, Failed>((doubled, longest))
        });
    }
    let (mut doubled, mut longest) = (0, Duration::ZERO);
    while let Some(ended) = running.join_next().await {
        let (more, waited) = ended??;
        (doubled, longest) = (doubled + more, longest.max(waited));
    }
    println!("{} {doubled} {}", turns as usize * tasks, longest.as_millis());
    Ok(())
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, kind, folder, turns, tasks] = &words[..] else { return Err("URL KIND FOLDER TURNS TASKS".into()) };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(all(url, kind, folder.into(), turns.parse()?, tasks.parse()?))
}
